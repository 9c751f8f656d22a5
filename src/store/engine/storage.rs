//! The storage of an open file, which the engine gets on loan.
//!
//! After a failure the engine refuses to go on until the file is opened again, and closing it would give its
//! lock on the file away. So the storage belongs to simdb. A loan can be taken back, and the storage lent to
//! another engine. The lock stays meanwhile. The old engine can then neither write nor read any more.

use std::fs::File;
use std::io;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use super::guard::guarded;
use super::opening::{Branches, FirstPages};
use super::raw::Source;
use crate::error::Error;
use crate::process::{Kept, Process};
use crate::store::sizes::PAGE_BYTES;

/// A storage that is closed, and so unlocked, when the last loan of it is gone.
#[derive(Debug)]
struct Owned {
    storage: Kept<Box<dyn StorageBackend>>,
    /// Whether the engine has begun the database. Then the file gets small regions.
    is_new: bool,
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

impl Source for Kept<Box<dyn StorageBackend>> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read(offset, out)
    }
}

/// A storage on loan. Clones are the same loan.
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    owned: Arc<Owned>,
    /// Whether the loan before this one has locked the file already.
    is_locked: bool,
    state: Arc<LoanState>,
    is_written: bool,
    branches: Arc<Branches>,
    /// What the engine begins with, if it believes it. It is compared before the first read.
    first_pages: Arc<OnceLock<Option<FirstPages>>>,
}

/// What became of a loan.
#[derive(Debug, Default)]
pub(super) struct LoanState {
    is_taken_back: AtomicBool,
    /// Whether nobody else will get the storage, since it was closed.
    is_closed: AtomicBool,
    has_failed: AtomicBool,
}

impl LoanState {
    /// Reads under the guard. If the storage was taken back, that is the error, whatever the engine says.
    pub(super) fn read<T>(&self, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        guarded(read).map_err(|error| {
            if self.is_taken_back() {
                self.loss()
            } else {
                error
            }
        })
    }

    /// Whether the engine has lost its storage to another engine.
    fn is_taken_back(&self) -> bool {
        // Together with the store in `take_back`, this is in one order with the reads of the old engine and
        // the writes of the new one.
        self.is_taken_back.load(Ordering::SeqCst)
    }

    /// The error for an engine that has lost its storage.
    fn loss(&self) -> Error {
        if self.is_closed.load(Ordering::SeqCst) {
            Error::Closed
        } else {
            Error::Reopened
        }
    }

    /// Whether the engine has met an error of the storage. It then refuses everything.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}

impl Lent {
    /// The storage of a file. If `is_new`, the engine begins a database in it.
    pub(super) fn new(file: File, is_new: bool) -> Result<Self, DatabaseError> {
        let storage = Kept::new(file).try_map(storage_of)?;
        Ok(Self::first_loan(storage, is_new))
    }

    /// The same loan, to read only.
    pub(super) fn for_reading(self) -> Self {
        Self {
            is_written: false,
            ..self
        }
    }

    #[cfg(test)]
    pub(super) fn of_test(storage: impl StorageBackend) -> Self {
        Self::first_loan(Kept::without_descriptor(Box::new(storage)), false)
    }

    fn first_loan(storage: Kept<Box<dyn StorageBackend>>, is_new: bool) -> Self {
        let owned = Owned {
            storage,
            is_new,
            process: Process::here(),
            #[cfg(test)]
            is_broken: AtomicBool::new(false),
        };
        Self {
            owned: Arc::new(owned),
            is_locked: false,
            is_written: true,
            state: Arc::default(),
            branches: Arc::default(),
            first_pages: Arc::default(),
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
            is_written: self.is_written,
            state: Arc::default(),
            branches: Arc::default(),
            first_pages: Arc::default(),
        }
    }

    /// Gives the lock of the file away. What has the storage on loan can do nothing with it any more.
    pub(super) fn close(&self) -> io::Result<()> {
        self.state.is_closed.store(true, Ordering::SeqCst);
        self.state.is_taken_back.store(true, Ordering::SeqCst);
        self.owned.storage.close()
    }

    /// An error if the pages that the engine begins with are damaged. It cannot read anything then.
    pub(super) fn ensure_sound(&self) -> Result<(), Error> {
        match self.first_pages.get() {
            Some(Some(first)) => first.ensure_sound(self.is_written),
            Some(None) | None => Ok(()),
        }
    }

    /// The engine has compared and repaired what it did not believe. From now on it believes the file.
    pub(super) fn note_repaired(&self) -> io::Result<()> {
        if let Some(None) = self.first_pages.get() {
            self.compare_first_pages()?;
        }
        Ok(())
    }

    /// Compares the pages that the engine begins with, if it believes them. From then on, branches are compared before
    /// the engine sees them.
    fn compare_first_pages(&self) -> io::Result<Option<FirstPages>> {
        let storage = &self.owned.storage;
        let compared = FirstPages::compared(storage, storage.len()?)?;
        Ok(compared.map(|(found, known)| {
            self.branches.compare(known);
            found
        }))
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
        // Before it reads, the engine has locked the file.
        if self.first_pages.get().is_none() {
            let first = self.run(|_| self.compare_first_pages())?;
            self.first_pages.get_or_init(|| first);
        }
        self.ensure_sound().map_err(io::Error::other)?;
        self.run(|storage| storage.read(offset, out))?;
        self.branches.hide_damaged(offset, out, &self.owned.storage);
        // If the loan was taken back in the meantime, these may be pages of the next engine.
        self.ensure_mine()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(|storage| {
            let is_first =
                self.owned.is_new && len <= length_of(MOST_REDB_FIRST_PAGES) && storage.len()? == 0;
            storage.set_len(if is_first {
                length_of(FIRST_PAGES)
            } else {
                len
            })
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.run(StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let changed = if self.owned.is_new {
            with_small_regions(offset, data)
        } else {
            None
        };
        self.branches.note_written(offset, data);
        self.run(|storage| storage.write(offset, changed.as_deref().unwrap_or(data)))
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

/// The storage that a file is. If a test watches the folder of the file, what is done with it is noted.
fn storage_of(file: File) -> Result<Box<dyn StorageBackend>, DatabaseError> {
    #[cfg(all(test, unix))]
    if let Some((journal, number)) = crate::files::disk::journal_of(&file) {
        let storage = FileBackend::new(file)?;
        return Ok(Box::new(super::recording::Noted::new(
            storage, journal, number,
        )));
    }
    Ok(Box::new(FileBackend::new(file)?))
}

/// The pages of a region: 256 MiB. Every commit stores the state of each region. With regions of 64 MiB, a
/// commit of one document took a quarter longer. With these it takes no longer than with one of 4 GiB.
pub(super) const REGION_PAGES: u32 = 1 << 16;

/// The pages of a region as redb chooses them: 4 GiB.
const REDB_REGION_PAGES: u32 = 1 << 20;

/// Where the header of a file has the number of pages of a region.
const REGION_PAGES_BYTES: Range<usize> = 20..24;

/// The pages of a new file. The page of the header is not counted.
const FIRST_PAGES: u32 = 256;

/// The most pages that redb gives a new file: 257 before 4.6, 17 since.
const MOST_REDB_FIRST_PAGES: u32 = 257;

/// Where the header of a file has the number of pages in the last region.
const LAST_PAGES_BYTES: Range<usize> = 28..32;

/// The length of a file with this number of pages.
const fn length_of(pages: u32) -> u64 {
    (pages as u64 + 1) * PAGE_BYTES as u64
}

/// The header with small regions. `None` if this is not a header, or not one that redb has just made.
fn with_small_regions(offset: u64, data: &[u8]) -> Option<Vec<u8>> {
    let pages = data.get(REGION_PAGES_BYTES)?;
    let last_pages = data.get(LAST_PAGES_BYTES)?;
    if offset != 0 || pages != REDB_REGION_PAGES.to_le_bytes() {
        return None;
    }
    let mut changed = data.to_vec();
    changed[REGION_PAGES_BYTES].copy_from_slice(&REGION_PAGES.to_le_bytes());
    if u32::from_le_bytes(last_pages.try_into().ok()?) <= MOST_REDB_FIRST_PAGES {
        changed[LAST_PAGES_BYTES].copy_from_slice(&FIRST_PAGES.to_le_bytes());
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use redb::TableDefinition;

    use super::*;

    /// A file of 276 MB in use had 539 MB, and every copy tool read all of them.
    #[test]
    fn a_new_file_has_small_regions_and_keeps_them() {
        let mut file = tempfile::tempfile().expect("a temporary file can be made");
        let cloned = file.try_clone().expect("it can be cloned");
        let storage = Lent::new(cloned, true).expect("a new file");
        let engine = redb::Database::builder()
            .create_with_backend(storage)
            .expect("a new database");
        let length = file.metadata().map(|it| it.len());
        assert_eq!(
            length.expect("it has a length"),
            length_of(FIRST_PAGES),
            "redb begins with another length"
        );
        let write = |engine: &redb::Database, key: u64| {
            let txn = engine.begin_write().expect("nobody writes");
            let value = vec![7; 1 << 20];
            let table = TableDefinition::<u64, &[u8]>::new("table");
            txn.open_table(table)
                .and_then(|mut it| Ok(it.insert(key, &value[..]).map(drop)?))
                .expect("there is room");
            txn.commit().expect("it can be committed");
        };
        write(&engine, 1);
        drop(engine);
        let storage = FileBackend::new(file.try_clone().expect("it can be cloned"));
        let storage = storage.expect("the file can be locked");
        let engine = redb::Database::builder().create_with_backend(storage);
        let engine = engine.expect("the file is a database");
        write(&engine, 2);
        drop(engine);
        let mut header = [0; 64];
        io::Seek::rewind(&mut file)
            .and_then(|()| file.read_exact(&mut header))
            .expect("it can be read");
        assert_eq!(header[REGION_PAGES_BYTES], REGION_PAGES.to_le_bytes());
    }
}
