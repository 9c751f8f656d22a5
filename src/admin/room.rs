//! The room for requests: who is being answered, how many at most, and the end of all.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::ingest::Stop;
use crate::process::{Kept, Process};
use crate::store::Store;

/// The most requests that are answered at once.
pub(super) const MOST_GUESTS: usize = 8;

/// The requests that are being answered.
#[derive(Debug)]
pub(super) struct Room {
    /// The database is not kept open by those who wait for requests.
    store: Weak<Store>,
    /// The process that answers.
    process: Process,
    is_closing: AtomicBool,
    /// Says whether all requests are to end.
    stop: OnceLock<Stop>,
    /// Whether nobody else is let in, since the socket is to be closed.
    is_full: AtomicBool,
    /// The requests that are understood and not answered yet.
    answering: AtomicUsize,
    guests: Mutex<Vec<Arc<Kept<UnixStream>>>>,
    left: Condvar,
}

/// A request that is being answered, until this is dropped.
pub(super) struct Guest {
    pub(super) room: Arc<Room>,
    pub(super) stream: Arc<Kept<UnixStream>>,
}

/// Counts an answered request when it is dropped.
struct Answered<'r>(&'r AtomicUsize);

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Room {
    pub(super) fn new(store: Weak<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            process: Process::here(),
            is_closing: AtomicBool::new(false),
            stop: OnceLock::new(),
            is_full: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
            guests: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// The database, if it is still open.
    pub(super) fn store(&self) -> Option<Arc<Store>> {
        if self.is_closing() {
            None
        } else {
            self.store.upgrade()
        }
    }

    /// Whether all requests are to end.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire) || self.stop.get().is_some_and(Stop::is_asked)
    }

    /// Ends all requests as soon as `stop` says so.
    pub(super) fn stop_when(&self, stop: Stop) {
        // The first one stays.
        _ = self.stop.set(stop);
    }

    /// Whether nobody else is let in, and those who are answered are waited for.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Lets a request in. Gives the stream back if there are too many.
    pub(super) fn enter(
        self: &Arc<Self>,
        stream: Kept<UnixStream>,
    ) -> Result<Guest, Kept<UnixStream>> {
        let mut guests = self.guests.lock();
        if guests.len() >= MOST_GUESTS || self.is_closing() || self.is_full() {
            return Err(stream);
        }
        let stream = Arc::new(stream);
        guests.push(stream.clone());
        Ok(Guest {
            room: self.clone(),
            stream,
        })
    }

    /// Whether this is the process that answers. One that is forked from it has none of its threads.
    pub(super) fn is_here(&self) -> bool {
        self.process.is_here()
    }

    pub(super) fn is_answering(&self) -> bool {
        self.is_here() && self.answering.load(Ordering::Acquire) > 0
    }

    /// Counts a request as being answered while `answer` runs.
    pub(super) fn answering<T>(&self, answer: impl FnOnce() -> T) -> T {
        self.answering.fetch_add(1, Ordering::AcqRel);
        // Also if it panics.
        let _ended = Answered(&self.answering);
        answer()
    }

    /// Lets nobody else in, and waits until nothing is being answered, or all is to end.
    pub(super) fn wait_until_answered(&self) {
        const LOOK: Duration = Duration::from_millis(20);
        self.is_full.store(true, Ordering::Release);
        // If this thread writes, requests that wait for their turn would wait for this thread.
        let waits = self
            .store
            .upgrade()
            .is_none_or(|store| !store.is_writing_here());
        while waits && self.is_answering() && !self.is_closing() {
            thread::sleep(LOOK);
        }
    }

    /// Ends all requests, and waits a while until they have ended.
    pub(super) fn close(&self, patience: Duration) {
        self.is_closing.store(true, Ordering::Release);
        let end = Instant::now() + patience;
        // If this thread writes, requests that wait for their turn would wait for this thread.
        let waits = self
            .store
            .upgrade()
            .is_none_or(|store| !store.is_writing_here());
        let mut guests = self.guests.lock();
        for stream in &*guests {
            // Nobody waits for this client, or writes to it, any more.
            _ = stream.shutdown(std::net::Shutdown::Both);
        }
        while waits && !guests.is_empty() {
            if self.left.wait_until(&mut guests, end).timed_out() {
                break;
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.room
            .guests
            .lock()
            .retain(|stream| !Arc::ptr_eq(stream, &self.stream));
        self.room.left.notify_all();
    }
}
