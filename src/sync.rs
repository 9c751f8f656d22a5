//! Locks, atomics and threads of the files whose interleavings are tested: the queue of a writer, the turns, the cache
//! and the work on all cores. tests/interleavings takes these files by themselves, and has a scheduler's locks in this
//! place.

pub(crate) use std::sync::atomic;
pub(crate) use std::{thread, thread_local};

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
