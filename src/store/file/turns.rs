//! Turns: who may write now. One transaction at a time, first come, first served.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use super::shared::Shared;
use crate::error::{Error, Result};
use crate::planted::planted;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, thread_local};

/// How long somebody who wants to write waits for the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the turn comes.
    Endless,
    /// Until the turn comes, or this moment.
    Until(Instant),
    /// Not at all.
    None,
}

/// The line of those who want to write.
#[derive(Default)]
pub(super) struct Turns {
    line: Mutex<Line>,
    /// The number of the thread that has used the turn last. [`NOBODY`] if nobody has the turn.
    user: AtomicU64,
}

#[derive(Default)]
struct Line {
    is_taken: bool,
    /// Who waits, the first first.
    waiting: VecDeque<Arc<Waiter>>,
}

/// Somebody who waits in the line.
struct Waiter {
    thread: u64,
    /// Signalled when the turn has come. Each waiter has one of its own, so that nobody else wakes up.
    called: Condvar,
}

/// The number of no thread.
const NOBODY: u64 = 0;

/// The number of this thread. No other thread ever has the same.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that ends and has no numbers any more cannot be told from others.
    NUMBER.try_with(|number| *number).unwrap_or(NOBODY)
}

impl Turns {
    /// Waits for the turn, and takes it. False if it did not come in time.
    ///
    /// The turn goes straight to the first in the line. If whoever gives it back could take it again before the
    /// first in the line wakes up, a fast thread would keep all others from writing.
    ///
    /// It is an error to wait for a turn that this thread has itself.
    fn take(&self, patience: Patience) -> Result<bool> {
        let mut line = self.line.lock();
        if !line.is_taken {
            line.is_taken = true;
            self.user.store(this_thread(), Ordering::Relaxed);
            return Ok(true);
        }
        if patience == Patience::None {
            return Ok(false);
        }
        if self.is_used_here() {
            return Err(Error::WouldDeadlock);
        }
        let waiter = Arc::new(Waiter {
            thread: this_thread(),
            called: Condvar::new(),
        });
        line.waiting.push_back(waiter.clone());
        // Whoever gives the turn back takes the waiter out of the line.
        while let Some(index) = line
            .waiting
            .iter()
            .position(|other| Arc::ptr_eq(other, &waiter))
        {
            match patience {
                Patience::Until(end) if Instant::now() >= end => {
                    line.waiting.remove(index);
                    return Ok(false);
                }
                Patience::Until(end) => _ = waiter.called.wait_until(&mut line, end),
                Patience::Endless | Patience::None => waiter.called.wait(&mut line),
            }
        }
        Ok(true)
    }

    /// Gives the turn to the first in the line.
    fn give_back(&self) {
        let mut line = self.line.lock();
        match line.waiting.pop_front() {
            Some(next) => {
                self.user.store(next.thread, Ordering::Relaxed);
                if !planted("a turn is given back without a signal") {
                    next.called.notify_one();
                }
            }
            None => {
                line.is_taken = false;
                self.user.store(NOBODY, Ordering::Relaxed);
            }
        }
    }

    /// Notes that this thread uses the turn. A transaction may be moved to another thread.
    fn use_here(&self) {
        self.user.store(this_thread(), Ordering::Relaxed);
    }

    /// Whether this thread has used the turn last.
    pub(super) fn is_used_here(&self) -> bool {
        let thread = this_thread();
        thread != NOBODY && self.user.load(Ordering::Relaxed) == thread
    }

    /// Whether somebody waits for the turn.
    #[cfg(feature = "ingest")]
    fn is_wanted(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }

    /// Whether somebody has the turn.
    pub(super) fn is_taken(&self) -> bool {
        self.line.lock().is_taken
    }
}

#[cfg(test)]
impl Shared {
    /// How many wait for their turn to write.
    pub(crate) fn waiting_for_turns(&self) -> usize {
        self.turns.line.lock().waiting.len()
    }
}

/// The right to write. It is given back when this is dropped.
pub(crate) struct Turn(Arc<Shared>);

impl Turn {
    /// Waits until no other transaction writes. `None` if that does not come in time. It is an error if this
    /// thread has the turn.
    pub(crate) fn take(shared: &Arc<Shared>, patience: Patience) -> Result<Option<Self>> {
        Ok(shared.turns.take(patience)?.then(|| Self(shared.clone())))
    }

    /// Waits until no other transaction writes, however long it takes.
    pub(crate) fn wait(shared: &Arc<Shared>) -> Result<Self> {
        let turn = Self::take(shared, Patience::Endless)?;
        Ok(turn.expect("endless patience ends with the turn"))
    }

    /// Whether somebody else waits to write.
    #[cfg(feature = "ingest")]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.turns.is_wanted()
    }

    /// Notes that this thread has the transaction now.
    pub(crate) fn use_here(&self) {
        self.0.turns.use_here();
    }
}

impl Deref for Turn {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A forked process has a copy of a turn that is not its own, and the line may be locked for ever.
        if self.0.is_here() {
            self.0.turns.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::sync::thread;

    /// Waits until so many stand in the line.
    fn wait_for_line(turns: &Turns, length: usize) {
        while turns.line.lock().waiting.len() != length {
            thread::yield_now();
        }
    }

    /// The test of the whole database can only guess when a thread stands in the line.
    #[test]
    fn the_turn_goes_to_the_first_in_the_line_whoever_asks_meanwhile() -> Result<()> {
        let turns = Turns::default();
        assert!(turns.take(Patience::Endless)?);
        let (served, order) = mpsc::channel();
        thread::scope(|scope| {
            for number in 0..6 {
                let turns = &turns;
                let served = served.clone();
                scope.spawn(move || {
                    assert!(turns.take(Patience::Endless).is_ok_and(|taken| taken));
                    assert!(turns.is_used_here());
                    _ = served.send(number);
                    turns.give_back();
                });
                wait_for_line(turns, number + 1);
            }
            // Nobody gets in before those who wait, not even a thread that gives the turn back and asks at once.
            assert!(!turns.take(Patience::None)?);
            turns.give_back();
            assert!(turns.take(Patience::Endless)?);
            assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
            turns.give_back();
            assert!(!turns.is_taken() && !turns.is_used_here());
            Ok(())
        })
    }

    #[test]
    fn who_leaves_the_line_gets_no_turn_and_keeps_nobody_from_it() -> Result<()> {
        let turns = Turns::default();
        assert!(turns.take(Patience::Endless)?);
        let soon = Instant::now() + Duration::from_millis(20);
        thread::scope(|scope| {
            let impatient = scope.spawn(|| turns.take(Patience::Until(soon)));
            assert!(matches!(impatient.join(), Ok(Ok(false))));
            assert_eq!(turns.line.lock().waiting.len(), 0);
            let patient = scope.spawn(|| turns.take(Patience::Endless));
            wait_for_line(&turns, 1);
            turns.give_back();
            assert!(matches!(patient.join(), Ok(Ok(true))));
            assert!(turns.is_taken());
            turns.give_back();
            Ok(())
        })
    }
}
