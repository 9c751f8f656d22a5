//! The progress of reading: bytes read, and bytes in all.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stored_bytes::Stored;

/// The progress of reading. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// Nothing is read yet. `total` is the number of bytes in all, if it is known.
    pub(super) fn new(total: Option<u64>) -> Self {
        Self {
            read: Arc::default(),
            total,
        }
    }

    /// Returns a reader that counts the bytes read from `inner`.
    pub(super) fn count(&self, inner: Stored) -> Stored {
        Box::new(Counted {
            inner,
            read: self.read.clone(),
        })
    }

    /// All is to be read again.
    pub(super) fn begin_again(&self) {
        self.read.store(0, Ordering::Relaxed);
    }

    /// Counts bytes that are not read because they were read before.
    pub(crate) fn pass_over(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of bytes read so far. Of a compressed input, its compressed bytes count.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The number of bytes in all inputs. `None` if it is not known, as with standard input.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }
}

/// A reader that counts the bytes read through it.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
