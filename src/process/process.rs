//! Process: the process that opened something, told from those that were forked from it. PerProcess: a static of which a
//! forked process gets a new one.
//!
//! A forked process has a copy of all memory, and of all descriptors, but none of the threads. What it inherits looks
//! usable. But its locks may be held by threads that are not there, and its writes are unknown to the process that
//! goes on beside it.
//!
//! The check is made for every call, so it has to be cheap. To ask the system for the number of the process takes 70 to
//! 500 ns. So on Linux the number stands in a page of memory that the system clears in every forked process. Elsewhere
//! the system is asked.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

#[cfg(all(target_os = "linux", not(miri)))]
use self::cleared_page::{is, number};
use crate::error::{Error, Result};
use crate::planted::planted;

/// A process, as far as it can be told from those that it was forked from.
///
/// Numbers are given out along a line of descent: no process has the number of one that it was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    /// This process.
    pub(crate) fn here() -> Self {
        Self(number())
    }

    /// Whether this is the process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        is(self.0)
    }

    /// Refuses to go on in another process.
    #[inline]
    pub(crate) fn ensure_here(self) -> Result<()> {
        if self.is_here() || planted("a forked process goes on") {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Half of its number, which is enough to tell it from the few that it was forked from.
    #[cfg(unix)]
    pub(super) fn short(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod cleared_page {
    #![expect(
        unsafe_code,
        reason = "the system is asked for a page that it clears in forked processes"
    )]

    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// The bytes that are asked for. The system gives a whole page, which may be longer.
    const PAGE_BYTES: usize = 4096;
    /// What the page has in a process that did not ask for its number yet.
    const CLEARED: u64 = 0;

    /// The word in the page. Null before it is needed first. Points to [`NONE`] if the system clears no pages.
    ///
    /// It is no `OnceLock`: a fork may come while another thread fills it, and the forked process would wait for ever.
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    static NONE: AtomicU64 = AtomicU64::new(CLEARED);
    /// The next number. Forked processes go on from here, so they have other numbers than their forebears.
    static NEXT: AtomicU64 = AtomicU64::new(CLEARED + 1);

    pub(super) fn number() -> u64 {
        let Some(word) = word() else { return asked() };
        match word.load(Ordering::Relaxed) {
            CLEARED => {
                let next = NEXT.fetch_add(1, Ordering::Relaxed);
                let before =
                    word.compare_exchange(CLEARED, next, Ordering::Relaxed, Ordering::Relaxed);
                match before {
                    Ok(_) => next,
                    Err(other_thread) => other_thread,
                }
            }
            number => number,
        }
    }

    #[inline]
    pub(super) fn is(number: u64) -> bool {
        let word = WORD.load(Ordering::Acquire);
        if word.is_null() || ptr::eq(word, &NONE) {
            return number == asked();
        }
        // SAFETY: it is not null, so it points to the word of a page that is never unmapped.
        unsafe { (*word).load(Ordering::Relaxed) == number }
    }

    fn word() -> Option<&'static AtomicU64> {
        let mut word = WORD.load(Ordering::Acquire);
        if word.is_null() {
            let made = map_page().unwrap_or(ptr::from_ref(&NONE).cast_mut());
            word = match WORD.compare_exchange(word, made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(of_other_thread) => {
                    give_back(made);
                    of_other_thread
                }
            };
        }
        // SAFETY: it points to a static or to the word of a page that is never unmapped.
        (!ptr::eq(word, &NONE)).then(|| unsafe { &*word })
    }

    /// The first word of a page that the system clears in a forked process. `None` before Linux 4.14.
    fn map_page() -> Option<*mut AtomicU64> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE;
        // SAFETY: the system chooses a place where nothing is.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, flags) }.ok()?;
        // SAFETY: nobody else knows of the page.
        let advised = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
        let word = page.cast();
        if advised.is_err() {
            give_back(word);
            return None;
        }
        Some(word)
    }

    /// Unmaps a page that nobody else knows of.
    fn give_back(word: *mut AtomicU64) {
        if !ptr::eq(word, &NONE) {
            // SAFETY: the page was mapped with this length, and nobody uses it.
            _ = unsafe { munmap(word.cast(), PAGE_BYTES) };
        }
    }

    fn asked() -> u64 {
        std::process::id().into()
    }
}

/// On a system without forks there is one process.
#[cfg(any(not(target_os = "linux"), miri))]
fn number() -> u64 {
    if cfg!(unix) {
        std::process::id().into()
    } else {
        1
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
fn is(number: u64) -> bool {
    self::number() == number
}

/// A thing whose drop acts on what processes share: it removes a file, or needs a thread. In a process that was forked
/// from the one that made it, it is forgotten instead.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    process: Process,
    /// There until the drop.
    thing: Option<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self {
            process: Process::here(),
            thing: Some(thing),
        }
    }

    /// The process that made it.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// The thing. `None` in another process, where it is forgotten.
    pub(crate) fn take(mut self) -> Option<T> {
        if self.process.is_here() {
            self.thing.take()
        } else {
            None
        }
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let thing = self.thing.as_ref();
        thing.expect("the thing is there until the drop")
    }
}

impl<T> DerefMut for OfProcess<T> {
    fn deref_mut(&mut self) -> &mut T {
        let thing = self.thing.as_mut();
        thing.expect("the thing is there until the drop")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_here() {
            mem::forget(self.thing.take());
        }
    }
}

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

#[expect(
    unsafe_code,
    reason = "a forked process must not wait for a lock that it inherited, not even for this"
)]
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn all_threads_are_in_one_process() {
        let here = Process::here();
        assert!(
            std::thread::spawn(move || here == Process::here() && here.is_here())
                .join()
                .is_ok_and(|it| it)
        );
        assert!(!Process(u64::MAX).is_here());
        assert!(matches!(
            Process(u64::MAX).ensure_here(),
            Err(Error::Forked)
        ));
    }

    /// The cost of the check. To be run with `--ignored --nocapture`, in a release build.
    #[test]
    #[ignore = "measures"]
    fn the_check_takes_a_nanosecond() {
        const CHECKS: u32 = 200_000_000;
        let here = std::hint::black_box(Process::here());
        let begun = Instant::now();
        for _ in 0..CHECKS {
            assert!(std::hint::black_box(here).is_here());
        }
        println!(
            "{:.2} ns a check",
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(CHECKS)
        );
    }
}
