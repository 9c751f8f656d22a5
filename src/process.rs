//! Process: the process that opened something, told from those that were forked from it. OfProcess: what is not dropped
//! in a forked process. Kept: what has a descriptor, which a forked process gives up. PerProcess: a static of which a
//! forked process gets a new one.
//!
//! A forked process has a copy of all memory, and of all descriptors, but none of the threads. What it inherits looks
//! usable. But its locks may be held by threads that are not there, and its writes are unknown to the process that
//! goes on beside it.
//!
//! The check is made for every call, so it has to be cheap. To ask the system for the number of the process takes 70 to
//! 500 ns. So on Linux the number stands in a page of memory that the system clears in every forked process. Elsewhere
//! the system is asked.

use std::io;
use std::ops::{Deref, DerefMut};
#[cfg(unix)]
use std::os::fd::AsFd;
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
    pub(crate) fn here() -> Self {
        Self(number())
    }

    #[inline]
    pub(crate) fn is_here(self) -> bool {
        is(self.0)
    }

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
    fn short(self) -> u32 {
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

// Descriptors that a forked process should not keep: those of database files, which keep a file locked, and those of
// admin sockets, which keep clients waiting.
//
// A lock belongs to what the system has opened, not to a process. It lasts until it is released, or until the last
// descriptor is closed, in whatever process that is. So a forked process keeps a file locked that it cannot use,
// also when the process that locked it is gone. To release the lock would take it from that process.
// To close the descriptor does not, as long as that process has its own.
//
// The objects that own the descriptors cannot be dropped in a forked process, since some of them are on the stacks of
// threads that are not there. So the numbers of all descriptors stand in a list. Something else is put in their
// place, and each number stays with its owner: it names nothing that could be closed by mistake. The list has no
// lock, since a fork may come while another thread changes it.

/// Something with a descriptor that is in the list as long as this lives.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    #[cfg(unix)]
    _listed: Option<list::Listed>,
    // Closed when the descriptor is no longer in the list.
    thing: T,
}

/// On other systems, nothing is inherited.
#[cfg(not(unix))]
pub(crate) trait AsFd {}

#[cfg(not(unix))]
impl<T> AsFd for T {}

impl<T: AsFd> Kept<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self {
            #[cfg(unix)]
            _listed: Some(list::Listed::new(thing.as_fd())),
            thing,
        }
    }
}

impl<T> Kept<T> {
    /// Something without a descriptor.
    #[cfg(test)]
    pub(crate) fn without_descriptor(thing: T) -> Self {
        Self {
            #[cfg(unix)]
            _listed: None,
            thing,
        }
    }

    /// What `make` makes of it. It must own the descriptor as long as it lives.
    pub(crate) fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Kept<U>, E> {
        Ok(Kept {
            #[cfg(unix)]
            _listed: self._listed,
            thing: make(self.thing)?,
        })
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.thing
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.thing
    }
}

#[cfg(unix)]
impl<T: AsFd> AsFd for Kept<T> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.thing.as_fd()
    }
}

/// Closes the copies that this process has of all listed descriptors of the processes that it was forked from.
/// No lock is released, nothing is written, and nobody is waited for. The descriptors of this process stay.
///
/// It is an error if the system gives no descriptor to put in their place.
pub(crate) fn give_up_inherited() -> io::Result<()> {
    #[cfg(unix)]
    list::give_up_inherited()?;
    Ok(())
}

#[cfg(unix)]
mod list {
    #![expect(unsafe_code, reason = "descriptors are replaced by their numbers")]

    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use rustix::io::{FdFlags, dup2, fcntl_setfd};

    use super::Process;

    /// A place for a descriptor. It is never freed.
    #[derive(Debug)]
    struct Place {
        /// The process that opened it, and its number. So both change at once. [`FREE`] if there is none.
        descriptor: AtomicU64,
        /// The next place. It does not change.
        next: *const Place,
    }

    impl Place {
        /// Puts a descriptor in the place of another. False if that is not there.
        fn change(&self, from: u64, to: u64) -> bool {
            let changed =
                self.descriptor
                    .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
            changed.is_ok()
        }
    }

    // SAFETY: `next` points to a place, which is never freed or changed, apart from its atomic word.
    unsafe impl Sync for Place {}
    // SAFETY: as above.
    unsafe impl Send for Place {}

    /// No descriptor has a number of so many bits.
    const FREE: u64 = u64::MAX;

    static FIRST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

    fn places() -> impl Iterator<Item = &'static Place> {
        let first = FIRST.load(Ordering::Acquire).cast_const();
        std::iter::successors(place_at(first), |place| place_at(place.next))
    }

    fn place_at(place: *const Place) -> Option<&'static Place> {
        // SAFETY: it is null, or a place, which is never freed.
        unsafe { place.as_ref() }
    }

    /// A descriptor that is in the list as long as this lives.
    #[derive(Debug)]
    pub(super) struct Listed {
        place: &'static Place,
        descriptor: u64,
    }

    impl Listed {
        pub(super) fn new(descriptor: BorrowedFd<'_>) -> Self {
            let descriptor =
                u64::from(Process::here().short()) << 32 | u64::from(descriptor.as_raw_fd() as u32);
            let free = places().find(|place| place.change(FREE, descriptor));
            let place = free.unwrap_or_else(|| add_place(descriptor));
            Self { place, descriptor }
        }
    }

    impl Drop for Listed {
        fn drop(&mut self) {
            // If it was given up, the place may be that of another.
            self.place.change(self.descriptor, FREE);
        }
    }

    fn add_place(descriptor: u64) -> &'static Place {
        let mut first = FIRST.load(Ordering::Acquire);
        let mut place = Box::new(Place {
            descriptor: descriptor.into(),
            next: first,
        });
        loop {
            let added = Box::into_raw(place);
            match FIRST.compare_exchange(first, added, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it is in the list now, and is never freed.
                Ok(_) => return unsafe { &*added },
                Err(of_other_thread) => {
                    first = of_other_thread;
                    // SAFETY: it was made here, and nobody else knows of it.
                    place = unsafe { Box::from_raw(added) };
                    place.next = first;
                }
            }
        }
    }

    pub(super) fn give_up_inherited() -> io::Result<()> {
        let here = Process::here().short();
        let mut instead = None;
        for place in places() {
            let descriptor = place.descriptor.load(Ordering::Acquire);
            if descriptor == FREE || (descriptor >> 32) as u32 == here {
                continue;
            }
            if instead.is_none() {
                // A pipe without a writer needs no file, so there is one everywhere.
                instead = Some(OwnedFd::from(io::pipe()?.0));
            }
            if let Some(instead) = &instead {
                replace(descriptor as u32 as RawFd, instead)?;
            }
            let is_given_up = place.change(descriptor, FREE);
            debug_assert!(
                is_given_up,
                "a descriptor that is inherited is given up once"
            );
        }
        Ok(())
    }

    /// Closes the descriptor of this number, and gives its number to a copy of another.
    fn replace(number: RawFd, by: &OwnedFd) -> io::Result<()> {
        // SAFETY: the number is that of an open descriptor: it is taken out of the list before it is closed. Its owner
        // keeps it, whatever it is a descriptor of.
        let mut owned = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
        dup2(by, &mut owned)?;
        Ok(fcntl_setfd(&*owned, FdFlags::CLOEXEC)?)
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
