//! The room for requests: who is being answered, how many at most, and the end of all.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::store::Store;

/// The most requests that are answered at once.
pub(super) const MOST_GUESTS: usize = 8;

/// The requests that are being answered.
#[derive(Debug)]
pub(super) struct Room {
    /// The database is not kept open by those who wait for requests.
    store: Weak<Store>,
    is_closing: AtomicBool,
    guests: Mutex<Vec<Arc<UnixStream>>>,
    left: Condvar,
}

/// A request that is being answered, until this is dropped.
pub(super) struct Guest {
    pub(super) room: Arc<Room>,
    pub(super) stream: Arc<UnixStream>,
}

impl Room {
    pub(super) fn new(store: &Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::downgrade(store),
            is_closing: AtomicBool::new(false),
            guests: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// The database, if it is still open.
    pub(super) fn store(&self) -> Option<Arc<Store>> {
        if self.is_closing() { None } else { self.store.upgrade() }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Lets a request in. Gives the stream back if there are too many.
    pub(super) fn enter(self: &Arc<Self>, stream: UnixStream) -> Result<Guest, UnixStream> {
        let mut guests = self.guests.lock();
        if guests.len() >= MOST_GUESTS || self.is_closing() {
            return Err(stream);
        }
        let stream = Arc::new(stream);
        guests.push(stream.clone());
        Ok(Guest { room: self.clone(), stream })
    }

    /// Ends all requests, and waits a while until they have ended.
    pub(super) fn close(&self, patience: Duration) {
        self.is_closing.store(true, Ordering::Release);
        let end = Instant::now() + patience;
        // If this thread writes, requests that wait for their turn would wait for this thread.
        let waits = self.store.upgrade().is_none_or(|store| !store.is_writing_here());
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
        self.room.guests.lock().retain(|stream| !Arc::ptr_eq(stream, &self.stream));
        self.room.left.notify_all();
    }
}
