//! How far reading has come.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far reading has come. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// Nothing is read yet of `total` bytes.
    pub(super) fn new(total: Option<u64>) -> Self {
        Self { read: Arc::default(), total }
    }

    /// Counts what is read from `inner`.
    pub(super) fn count<R: Read>(&self, inner: R) -> Counted<R> {
        Counted { inner, read: self.read.clone() }
    }

    /// How many bytes were read, compressed ones counted as they are.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How many bytes there are in all, where that is known: not of standard input.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }
}

/// Counts what is read through it.
pub(super) struct Counted<R> {
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
