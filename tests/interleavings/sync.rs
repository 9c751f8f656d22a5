//! Locks, atomics and threads of the scheduler, with the names that `src/sync.rs` has.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::thread_local;

/// A lock.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The right to use what is locked.
pub(crate) struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    /// `None` while the thread waits.
    guard: Option<shuttle::sync::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            guard: Some(self.take()),
        }
    }

    fn take(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> MutexGuard<'_, T> {
    pub(crate) fn unlocked<V>(this: &mut Self, work: impl FnOnce() -> V) -> V {
        this.guard = None;
        let value = work();
        this.guard = Some(this.mutex.take());
        value
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is locked")
    }
}

/// A signal.
#[derive(Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.guard.take().expect("it is locked");
        let locked = self.0.wait(locked).unwrap_or_else(PoisonError::into_inner);
        guard.guard = Some(locked);
    }

    pub(crate) fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut is_early: impl FnMut(&mut T) -> bool,
    ) {
        while is_early(&mut *guard) {
            self.wait(guard);
        }
    }

    /// A moment that is near comes while others go on. One that is far never comes, so a signal is needed. Returns
    /// whether there was none.
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        const FAR: Duration = Duration::from_secs(60);
        let is_far = end > Instant::now() + FAR;
        if is_far {
            self.wait(guard);
        } else {
            MutexGuard::unlocked(guard, thread::yield_now);
        }
        !is_far
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

pub(crate) mod thread {
    use std::io;
    use std::num::NonZeroUsize;

    pub(crate) use shuttle::thread::*;

    /// As many cores as make the threads of a call more than two.
    #[expect(clippy::unnecessary_wraps, reason = "that of the system can fail")]
    pub(crate) fn available_parallelism() -> io::Result<NonZeroUsize> {
        Ok(NonZeroUsize::MIN.saturating_add(2))
    }

    /// What makes threads of a scope.
    pub(crate) struct Builder;

    impl Builder {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn name(self, _: String) -> Self {
            self
        }

        #[expect(clippy::unnecessary_wraps, reason = "that of the system can fail")]
        pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
            self,
            scope: &'scope Scope<'scope, '_>,
            work: impl FnOnce() -> T + Send + 'scope,
        ) -> io::Result<ScopedJoinHandle<'scope, T>> {
            Ok(scope.spawn(work))
        }
    }
}
