//! PerProcess: a static of which a forked process gets a new one.
#![expect(
    unsafe_code,
    reason = "a forked process must not wait for a lock that it inherited, not even for this"
)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::process::Process;

/// A static with locks in it. A forked process begins with a new one, since threads that it does not have may hold the
/// locks of the one that it inherited.
pub(crate) struct PerProcess<T> {
    newest: AtomicPtr<Of<T>>,
    make: fn() -> T,
}

/// That of one process. It is never freed.
struct Of<T> {
    process: Process,
    value: T,
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            make,
        }
    }

    /// That of this process.
    pub(crate) fn get(&self) -> &'static T {
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: it is null, or what `begin` made, which is never freed.
        match unsafe { newest.as_ref() } {
            Some(of) if of.process.is_here() => &of.value,
            _ => self.begin(newest),
        }
    }

    #[cold]
    fn begin(&self, before: *mut Of<T>) -> &'static T {
        let made = Box::into_raw(Box::new(Of {
            process: Process::here(),
            value: (self.make)(),
        }));
        let of =
            match self
                .newest
                .compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => made,
                Err(of_other_thread) => {
                    // SAFETY: it was made above, and nobody else knows of it.
                    drop(unsafe { Box::from_raw(made) });
                    of_other_thread
                }
            };
        // SAFETY: whatever was published is never freed.
        unsafe { &(*of).value }
    }
}
