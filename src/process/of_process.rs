//! OfProcess: a thing whose drop acts on what the processes of a system share.

use std::mem;
use std::ops::{Deref, DerefMut};

use super::process::Process;

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
        self.thing
            .as_ref()
            .expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for OfProcess<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing
            .as_mut()
            .expect("it is there until it is dropped")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_here() {
            mem::forget(self.thing.take());
        }
    }
}
