//! Locks, atomics and threads. tests/interleavings takes the files by themselves whose interleavings are tested, and
//! has a scheduler's locks in this place.
//!
//! The locks are those of the standard library, without their poison: what a panic may have left half done, whoever
//! holds the lock sees to. Those of the crate parking_lot are as fast, but keep a table of all threads that wait in the
//! process. In a forked process it still has the threads of the parent, whose memory is used again, and new threads
//! write there.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub(crate) use std::sync::atomic;
pub(crate) use std::{thread, thread_local};

#[derive(Default)]
pub(crate) struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            lock: &self.0,
            guard: Some(locked(&self.0)),
        }
    }

    /// `None` if somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard {
            lock: &self.0,
            guard: Some(guard),
        })
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn locked<T: ?Sized>(lock: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to what a [`Mutex`] holds, until this is dropped.
pub(crate) struct MutexGuard<'m, T: ?Sized> {
    lock: &'m sync::Mutex<T>,
    /// There, but while somebody waits or works without it.
    guard: Option<sync::MutexGuard<'m, T>>,
}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    /// Does some work without the lock, and takes it again, also after a panic.
    pub(crate) fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        struct Locks<'g, 'm, T: ?Sized>(&'g mut MutexGuard<'m, T>);
        impl<T: ?Sized> Drop for Locks<'_, '_, T> {
            fn drop(&mut self) {
                self.0.guard = Some(locked(self.0.lock));
            }
        }
        guard.guard = None;
        let _locks = Locks(guard);
        work()
    }

    /// The guard of the standard library, which is given back by whoever takes it.
    fn take(&mut self) -> sync::MutexGuard<'m, T> {
        self.guard.take().unwrap_or_else(|| locked(self.lock))
    }
}

const IS_HELD: &str = "nobody uses a lock while it waits or works without it";

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect(IS_HELD)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect(IS_HELD)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

/// Whether a wait has ended because its time was over.
#[derive(Clone, Copy)]
pub(crate) struct TimedOut(bool);

impl TimedOut {
    pub(crate) fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waited = self.0.wait(guard.take());
        guard.guard = Some(waited.unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) -> TimedOut {
        let waited = self.0.wait_timeout(guard.take(), most);
        let (own, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        guard.guard = Some(own);
        TimedOut(timed_out.timed_out())
    }

    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> TimedOut {
        self.wait_for(guard, end.saturating_duration_since(Instant::now()))
    }

    /// Waits as long as `waits` says so.
    pub(crate) fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) {
        while waits(guard) {
            self.wait(guard);
        }
    }

    /// The same, but no longer than `most`.
    pub(crate) fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut waits: impl FnMut(&mut T) -> bool,
        most: Duration,
    ) -> TimedOut {
        let end = Instant::now().checked_add(most);
        while waits(guard) {
            let Some(end) = end else {
                self.wait(guard);
                continue;
            };
            if self.wait_until(guard, end).timed_out() {
                return TimedOut(waits(guard));
            }
        }
        TimedOut(false)
    }
}

#[derive(Default)]
pub(crate) struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    pub(crate) fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
