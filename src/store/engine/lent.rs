//! The storage of an open file, which the engine gets on loan.
//!
//! After a failure the engine refuses to go on until the file is opened again, and closing it would give its
//! lock on the file away. So the storage belongs to simdb. A loan can be taken back, and the storage lent to
//! another engine. The lock stays meanwhile. The old engine can then neither write nor read any more.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, DatabaseError, StorageBackend};

use crate::error::Error;
use crate::process::{Kept, Process};

/// A storage that is closed, and so unlocked, when the last loan of it is gone.
#[derive(Debug)]
struct Owned {
    storage: Kept<Box<dyn StorageBackend>>,
    process: Process,
    #[cfg(test)]
    is_broken: AtomicBool,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // A process that was forked must not release the lock of the one that has it.
        if self.process.is_here() {
            // A drop has nobody to tell. Everything durable was synced before.
            _ = self.storage.close();
        }
    }
}

/// A storage on loan. Clones are the same loan.
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    owned: Arc<Owned>,
    /// Whether the loan before this one has locked the file already.
    is_locked: bool,
    state: Arc<LoanState>,
}

/// What became of a loan.
#[derive(Debug, Default)]
pub(crate) struct LoanState {
    is_taken_back: AtomicBool,
    /// Whether nobody else will get the storage, since it was closed.
    is_closed: AtomicBool,
    has_failed: AtomicBool,
}

impl LoanState {
    /// Whether the engine has lost its storage to another engine.
    pub(crate) fn is_taken_back(&self) -> bool {
        // Together with the store in `take_back`, this is in one order with the reads of the old engine and
        // the writes of the new one.
        self.is_taken_back.load(Ordering::SeqCst)
    }

    /// The error for an engine that has lost its storage.
    pub(crate) fn loss(&self) -> Error {
        if self.is_closed.load(Ordering::SeqCst) {
            Error::Closed
        } else {
            Error::Reopened
        }
    }

    /// Whether the engine has met an error of the storage. It then refuses everything.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}

impl Lent {
    /// The storage that `make` makes of a file.
    pub(super) fn of_file<S: StorageBackend>(
        file: File,
        make: impl FnOnce(File) -> Result<S, DatabaseError>,
    ) -> Result<Self, DatabaseError> {
        let boxed = |file| make(file).map(|storage| Box::new(storage) as Box<dyn StorageBackend>);
        Kept::new(file).try_map(boxed).map(Self::new)
    }

    #[cfg(test)]
    pub(super) fn recorded(storage: super::recording::Recording) -> Self {
        Self::new(Kept::without_descriptor(Box::new(storage)))
    }

    fn new(storage: Kept<Box<dyn StorageBackend>>) -> Self {
        let owned = Owned {
            storage,
            process: Process::here(),
            #[cfg(test)]
            is_broken: AtomicBool::new(false),
        };
        Self {
            owned: Arc::new(owned),
            is_locked: false,
            state: Arc::default(),
        }
    }

    pub(super) fn state(&self) -> &Arc<LoanState> {
        &self.state
    }

    /// Takes this loan back, and lends the storage anew. If that is to be the last loan, `is_last`.
    pub(super) fn take_back(&self, is_last: bool) -> Self {
        self.state.is_closed.store(is_last, Ordering::SeqCst);
        self.state.is_taken_back.store(true, Ordering::SeqCst);
        Self {
            owned: self.owned.clone(),
            is_locked: true,
            state: Arc::default(),
        }
    }

    /// Gives the lock of the file away. What has the storage on loan can do nothing with it any more.
    pub(super) fn close(&self) -> io::Result<()> {
        self.state.is_closed.store(true, Ordering::SeqCst);
        self.state.is_taken_back.store(true, Ordering::SeqCst);
        self.owned.storage.close()
    }

    /// Makes everything that is done with the storage fail from now on, or no longer.
    #[cfg(test)]
    pub(super) fn set_broken(&self, is_broken: bool) {
        self.owned.is_broken.store(is_broken, Ordering::SeqCst);
    }

    fn ensure_mine(&self) -> io::Result<()> {
        if self.state.is_taken_back() {
            return Err(io::Error::other("the file was opened again"));
        }
        #[cfg(test)]
        if self.owned.is_broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("a test lets it fail"));
        }
        Ok(())
    }

    fn run<T>(
        &self,
        operation: impl FnOnce(&dyn StorageBackend) -> io::Result<T>,
    ) -> io::Result<T> {
        let done = self
            .ensure_mine()
            .and_then(|()| operation(&**self.owned.storage));
        if done.is_err() {
            self.state.has_failed.store(true, Ordering::Release);
        }
        done
    }

    /// Takes a lock. A loan that follows another has it already, since locks belong to the open file.
    fn lock<T>(
        &self,
        have: T,
        take: impl FnOnce(&dyn StorageBackend) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.ensure_mine()?;
        if self.is_locked {
            Ok(have)
        } else {
            take(&**self.owned.storage)
        }
    }
}

impl StorageBackend for Lent {
    fn len(&self) -> io::Result<u64> {
        self.run(StorageBackend::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.run(|storage| storage.read(offset, out))?;
        // If the loan was taken back in the meantime, these may be pages of the next engine.
        self.ensure_mine()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(|storage| storage.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.run(StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.run(|storage| storage.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        // The owner closes it. The engine may be closed because the storage is lent to another.
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lock(true, |storage| storage.try_lock_range(start, end))
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.lock(true, |storage| storage.try_lock_shared_range(start, end))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock((), |storage| storage.lock_range(start, end))
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock((), |storage| storage.lock_shared_range(start, end))
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock((), |storage| storage.unlock_range(start, end))
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.ensure_mine()?;
        self.owned.storage.query_lock_range(start, end)
    }
}
