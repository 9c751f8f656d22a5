//! Answers: what became of a submission, on its way from the writer's thread to whoever asked; and the place where a
//! submission waits before a full queue.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::process::Process;

/// Is called with an answer, on the writer's thread.
pub(super) type Callback<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// The place of an answer that is there or will be.
pub(super) struct Answer<T> {
    state: Mutex<State<T>>,
    /// Signalled when the answer is given.
    given: Condvar,
    pub(super) mark: Mark,
    process: Process,
}

enum State<T> {
    /// The task that waits, if one does.
    Open(Option<Waker>),
    Callback(Callback<T>),
    Given(Result<T>),
    /// It was given, and taken away.
    Taken,
}

impl<T> Answer<T> {
    fn new(state: State<T>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            given: Condvar::new(),
            mark: Mark::new(),
            process: Process::here(),
        })
    }

    /// The answer, if it is there.
    pub(super) fn take(&self) -> Option<Result<T>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Given(result) => Some(result),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Waits for the answer in this thread.
    pub(super) fn wait(&self) -> Result<T> {
        let mut state = self.state.lock();
        while !matches!(*state, State::Given(_)) {
            self.given.wait(&mut state);
        }
        drop(state);
        self.take().expect("only one ticket takes the answer")
    }

    /// The answer, or the promise to wake the task when it is there.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Result<T>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Given(result) => Poll::Ready(result),
            State::Taken => panic!("a ticket was polled after it had given its answer"),
            _ => {
                *state = State::Open(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn give(&self, result: Result<T>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Callback(callback) => {
                drop(state);
                // A panic of the caller's code must not end the thread that others wait for. The hook of the
                // process has printed it.
                _ = panic::catch_unwind(AssertUnwindSafe(|| callback(result)));
            }
            State::Open(waker) => {
                *state = State::Given(result);
                drop(state);
                self.given.notify_all();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Given(_) | State::Taken => unreachable!("an answer was given twice"),
        }
    }
}

/// The duty to give an answer. If it is dropped, the answer is that the writer has ended. A forked process has no such
/// duty: it calls nothing back, and wakes nobody.
pub(super) struct Promise<T>(Option<Arc<Answer<T>>>);

impl<T> Promise<T> {
    pub(super) fn new() -> Self {
        Self(Some(Answer::new(State::Open(None))))
    }

    pub(super) fn with_callback(callback: Callback<T>) -> Self {
        Self(Some(Answer::new(State::Callback(callback))))
    }

    pub(super) fn answer(&self) -> &Arc<Answer<T>> {
        self.0
            .as_ref()
            .expect("it is there until the answer is given")
    }

    pub(super) fn give(mut self, result: Result<T>) {
        if let Some(answer) = self.0.take() {
            answer.give(result);
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take()
            && answer.process.is_here()
        {
            answer.give(Err(Error::WriterClosed));
        }
    }
}

/// What the queue knows of a submission. It changes only while the queue is locked.
pub(super) struct Mark {
    pub(super) submitter: ThreadId,
    stage: AtomicU8,
}

/// How far a submission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not in the queue yet.
    Outside,
    /// In the queue, and nobody waits for its answer.
    Queued,
    /// In the queue, and somebody waits for its answer.
    Waited,
    /// In a group that is being decided, or answered.
    Grouped,
}

impl Mark {
    const STAGES: [Stage; 4] = [Stage::Outside, Stage::Queued, Stage::Waited, Stage::Grouped];

    fn new() -> Self {
        Self {
            submitter: thread::current().id(),
            stage: AtomicU8::new(Stage::Outside as u8),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        Self::STAGES[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    pub(super) fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

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
