//! Descriptors that a forked process should not keep: those of database files, which keep a file locked, and those of
//! admin sockets, which keep clients waiting.
//!
//! A lock belongs to what the system has opened, not to a process. It lasts until it is released, or until the last
//! descriptor is closed, in whatever process that is. So a forked process keeps a file locked that it cannot use,
//! also when the process that locked it is gone. To release the lock would take it from that process.
//! To close the descriptor does not, as long as that process has its own.
//!
//! The objects that own the descriptors cannot be dropped in a forked process, since some of them are on the stacks of
//! threads that are not there. So the numbers of all descriptors stand in a list. Something else is put in their
//! place, and each number stays with its owner: it names nothing that could be closed by mistake. The list has no
//! lock, since a fork may come while another thread changes it.
#![cfg_attr(
    unix,
    expect(unsafe_code, reason = "descriptors are replaced by their numbers")
)]

use std::io;
use std::ops::{Deref, DerefMut};
#[cfg(unix)]
use std::os::fd::AsFd;

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
    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use rustix::io::{FdFlags, dup2, fcntl_setfd};

    use super::super::process::Process;

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
