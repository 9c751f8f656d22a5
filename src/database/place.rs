//! Place: where a submission stands before a full queue, and how whoever waits there is told.

use std::task::Waker;

use parking_lot::{Condvar, Mutex};

/// A place in the line before a full queue.
#[derive(Default)]
pub(super) struct Place {
    state: Mutex<PlaceState>,
    let_in: Condvar,
}

#[derive(Default)]
struct PlaceState {
    is_let_in: bool,
    waker: Option<Waker>,
}

impl Place {
    /// Tells whoever waits here that the submission is in the queue.
    pub(super) fn let_in(&self) {
        let mut state = self.state.lock();
        state.is_let_in = true;
        let waker = state.waker.take();
        drop(state);
        self.let_in.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits in this thread until its submission is in the queue.
    pub(super) fn wait(&self) {
        self.let_in
            .wait_while(&mut self.state.lock(), |state| !state.is_let_in);
    }

    /// Whether its submission is in the queue. If not, the task is woken later.
    pub(super) fn is_let_in_or_wakes(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if !state.is_let_in {
            state.waker = Some(waker.clone());
        }
        state.is_let_in
    }
}
