//! Opening and creating a file of the engine, and committing to it.
//!
//! After a failure the engine refuses to go on until the file is opened again, and closing it would give its
//! lock on the file away. So the storage belongs to simdb, and the engine gets it on loan. A loan can be taken back,
//! and the storage lent to another engine. The lock stays meanwhile. The old engine can then neither write nor read
//! any more.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::ops::{Bound, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, Durability, ReadableDatabase, StorageBackend};

use super::guard::{Guarded, engine_error, guarded};
use super::holder::{Registered, holder_of};
use super::raw::{Branches, FirstPages, Source};
use super::tables::{self, BlockTable, Changes, MetaRow, Tables};
use crate::error::{Error, Result};
use crate::files::{NewFile, is_same_file, leads_nowhere};
use crate::planted::planted;
use crate::process::{Kept, Process};
use crate::store::sizes::PAGE_BYTES;
use crate::sync::Mutex;

/// What a store may do with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
}

/// The part of a cache of `cache_bytes` that the engine gets for its pages: a quarter, at most 64 MiB. The
/// engine needs little, since it reads a block once and the block is then kept decoded.
pub(crate) fn page_cache_bytes(cache_bytes: usize) -> usize {
    (cache_bytes / 4).min(64 << 20)
}

/// A file and the engine that works on it.
pub(crate) struct OpenFile {
    pub(crate) engine: Engine,
    /// A handle of the file itself, for its size and identity. The file may have been renamed since.
    pub(crate) file: Kept<File>,
    /// `None` once the file is closed.
    registered: Mutex<Option<Registered>>,
}

impl OpenFile {
    pub(crate) fn new(engine: Engine, file: Kept<File>) -> Self {
        Self {
            engine,
            registered: Mutex::new(Some(Registered::new(&file))),
            file,
        }
    }

    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path, access: Access, page_cache_bytes: usize) -> Result<Self> {
        let metadata = metadata_of(path)?;
        if metadata.is_dir() {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "it is a directory");
            return Err(Error::io(path)(source));
        }
        // The engine would make a database of an empty file.
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(Error::NotSimdb {
                path: path.to_owned(),
            });
        }
        loop {
            let mut options = File::options();
            options.read(true).write(access == Access::ReadWrite);
            let file = options
                .open(path)
                .map_err(|source| not_opened(path, source))?;
            let file = Kept::new(file);
            let second = file.try_clone().map_err(Error::io(path))?;
            let storage = Lent::new(second, false);
            let storage = storage.map_err(open_error(path))?;
            let engine = match access {
                Access::ReadWrite => Engine::on_storage(storage, path, page_cache_bytes)?,
                Access::ReadOnly => Engine::read_only(storage, path, page_cache_bytes)?,
            };
            // Before the engine locked the file, a compaction may have replaced it.
            let opened = file.metadata().map_err(Error::io(path))?;
            if is_same_file(&opened, &metadata_of(path)?) {
                return Ok(Self::new(engine, file));
            }
        }
    }

    /// Opens the file again, with another engine. From then on, this engine can neither read nor write. The
    /// lock of the file is kept. `path` is the path of the file.
    pub(crate) fn open_again(&self, path: &Path) -> Result<Self> {
        let page_cache_bytes = self.engine.page_cache_bytes;
        if self.engine.ensure_writable().is_err() {
            return Self::open(path, Access::ReadOnly, page_cache_bytes);
        }
        let file = Kept::new(self.file.try_clone().map_err(Error::io(path))?);
        let storage = self.engine.storage.take_back(false);
        let engine = Engine::on_storage(storage, path, page_cache_bytes)?;
        Ok(Self::new(engine, file))
    }

    /// Closes a file that others still read, and gives its lock away. They can read nothing any more. `path` is the
    /// path of the file, for error messages.
    pub(crate) fn close_under_readers(&self, path: &Path) -> Result<()> {
        let page_cache_bytes = self.engine.page_cache_bytes;
        let storage = &self.engine.storage;
        let ended = match self.engine.ensure_writable() {
            // The engine of the readers cannot be closed in order, so another one is, in its place.
            Ok(()) => Engine::on_storage(storage.take_back(true), path, page_cache_bytes).map(drop),
            Err(_) => Ok(()),
        };
        drop(self.registered.lock().take());
        let unlocked = storage.give_away().map_err(Error::io(path));
        ended.and(unlocked)
    }
}

fn metadata_of(path: &Path) -> Result<Metadata> {
    fs::metadata(path).map_err(|source| not_opened(path, source))
}

/// The error for a failure of the engine to open or create the file at `path`: `map_err(open_error(path))`.
fn open_error(path: &Path) -> impl Fn(DatabaseError) -> Error {
    move |error| match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Busy {
            holder: holder_of(path),
            path: path.to_owned(),
        },
        DatabaseError::RepairAborted => Error::NeedsRecovery {
            path: path.to_owned(),
        },
        DatabaseError::UpgradeRequired(_) => Error::NotSimdb {
            path: path.to_owned(),
        },
        DatabaseError::Storage(redb::StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                if begins_as_database(path) {
                    return Error::damaged("file", "-", CUT_OFF);
                }
                Error::NotSimdb {
                    path: path.to_owned(),
                }
            }
            _ => Error::io(path)(source),
        },
        error => engine_error(error),
    }
}

const CUT_OFF: &str = "it begins as a database, and is shorter than its beginning says, as a copy that was cut; or its \
                       beginning is damaged";

/// Whether a file begins as all files of the engine do.
fn begins_as_database(path: &Path) -> bool {
    const MAGIC: [u8; 9] = *b"redb\x1a\n\xa9\r\n";
    let mut beginning = [0; MAGIC.len()];
    let file = File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    file.is_ok() && beginning == MAGIC
}

pub(super) fn not_opened(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => leads_nowhere(path).unwrap_or(Error::NotFound {
            path: path.to_owned(),
        }),
        _ => Error::io(path)(source),
    }
}

/// The engine on an open file. A panic of the engine is an error here, also when it is dropped. In a forked process
/// everything is an error, and nothing is dropped.
pub(crate) struct Engine {
    database: Database,
    storage: Lent,
    /// The bytes of its pages that it may keep.
    page_cache_bytes: usize,
}

enum Database {
    ReadWrite(Guarded<redb::Database>),
    ReadOnly(Guarded<redb::ReadOnlyDatabase>),
}

impl Engine {
    /// Opens or begins a file on its storage. `path` is for error messages.
    fn on_storage(storage: Lent, path: &Path, page_cache_bytes: usize) -> Result<Self> {
        guarded(|| {
            let mut builder = redb::Builder::new();
            let engine = builder
                .set_cache_size(page_cache_bytes)
                .create_with_backend(storage.clone());
            storage.ensure_sound()?;
            let engine = engine.map_err(open_error(path))?;
            storage.note_repaired().map_err(Error::io(path))?;
            Ok(Self {
                database: Database::ReadWrite(Guarded::new(engine)),
                storage,
                page_cache_bytes,
            })
        })
    }

    /// Opens a file on its storage, to read only. `path` is for error messages.
    pub(super) fn read_only(storage: Lent, path: &Path, page_cache_bytes: usize) -> Result<Self> {
        let storage = Lent {
            is_written: false,
            ..storage
        };
        guarded(|| {
            let mut builder = redb::Builder::new();
            let builder = builder.set_cache_size(page_cache_bytes);
            let engine = builder.open_read_only_with_backend(storage.clone());
            storage.ensure_sound()?;
            let engine = engine.map_err(open_error(path))?;
            Ok(Self {
                database: Database::ReadOnly(Guarded::new(engine)),
                storage,
                page_cache_bytes,
            })
        })
    }

    /// Begins a file, with every table and the first rows. They become durable with the first changes that are
    /// applied. `path` is the name that the file gets, for error messages.
    pub(crate) fn create(
        new: &NewFile,
        path: &Path,
        page_cache_bytes: usize,
        block_tables: &[BlockTable],
        meta: &[MetaRow],
    ) -> Result<Self> {
        let file = new.file.try_clone().map_err(Error::io(path))?;
        let storage = Lent::new(file, true).map_err(open_error(path))?;
        let engine = Self::on_storage(storage, path, page_cache_bytes)?;
        // A durable commit would cut the short file to some odd length. Its free space would then be in
        // pieces, small ones at the end, and the engine takes small ones first.
        guarded(|| engine.with_first_rows(block_tables, meta, Durability::None))
            .map_err(Error::of_file(path))
    }

    fn with_first_rows(
        self,
        block_tables: &[BlockTable],
        meta: &[MetaRow],
        durability: Durability,
    ) -> Result<Self> {
        self.commit(durability, |txn| {
            tables::create_all(txn, block_tables)?;
            tables::write(txn, &Changes::default(), meta)
        })?;
        Ok(self)
    }

    /// Makes a new file about as long as what is allocated in it, and opens it again. `path` is as for
    /// [`create`](Self::create).
    pub(crate) fn trimmed(self, new: &NewFile, path: &Path) -> Result<Self> {
        let page_cache_bytes = self.page_cache_bytes;
        // The engine cuts the free pages at the end of a file when it closes it.
        drop(self);
        let file = new.file.try_clone().map_err(Error::io(path))?;
        let storage = Lent::new(file, false).map_err(open_error(path))?;
        Self::on_storage(storage, path, page_cache_bytes)
    }

    /// Works on a storage of a test. If there are first rows, creates the tables.
    #[cfg(test)]
    pub(crate) fn on_backend(
        backend: impl StorageBackend,
        page_cache_bytes: usize,
        first: Option<(&[BlockTable], &[MetaRow])>,
    ) -> Result<Self> {
        let engine = Self::on_storage(Lent::of_test(backend), Path::new(""), page_cache_bytes)?;
        match first {
            Some((block_tables, meta)) => {
                engine.with_first_rows(block_tables, meta, Durability::Immediate)
            }
            None => Ok(engine),
        }
    }

    /// Refuses to write to a file that is open for reading only.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        match self.database {
            Database::ReadWrite(_) => Ok(()),
            Database::ReadOnly(_) => Err(Error::ReadOnly),
        }
    }

    /// Begins to read the last commit. `block_tables` is the number of tables of blocks.
    pub(crate) fn begin_read(&self, block_tables: usize) -> Result<Tables> {
        guarded(|| {
            let txn = match &self.database {
                Database::ReadWrite(engine) => engine.enter()?.begin_read(),
                Database::ReadOnly(engine) => engine.enter()?.begin_read(),
            };
            let txn = txn.map_err(engine_error)?;
            Ok(Tables::new(txn, self.storage.loan.clone(), block_tables))
        })
    }

    /// Makes changes part of the file, all or none of them, and durable.
    pub(crate) fn apply(&self, changes: &Changes, meta: &[MetaRow]) -> Result<()> {
        self.commit(Durability::Immediate, |txn| {
            tables::write(txn, changes, meta)
        })
    }

    /// Makes changes part of the file. They become durable with the next changes that are applied.
    pub(crate) fn stage(&self, changes: &Changes) -> Result<()> {
        self.commit(Durability::None, |txn| tables::write(txn, changes, &[]))
    }

    fn commit(
        &self,
        durability: Durability,
        write: impl FnOnce(&redb::WriteTransaction) -> Result<()>,
    ) -> Result<()> {
        let Database::ReadWrite(engine) = &self.database else {
            return Err(Error::ReadOnly);
        };
        guarded(|| {
            let mut txn = engine.enter()?.begin_write().map_err(engine_error)?;
            let durability = match planted("a commit is not synced") {
                true => Durability::None,
                false => durability,
            };
            txn.set_durability(durability).map_err(engine_error)?;
            // With this the file opens in milliseconds after a crash, whatever its size.
            let is_quick = !planted("a killed file is scanned when it is opened");
            txn.set_quick_repair(is_quick && matches!(durability, Durability::Immediate));
            write(&txn)?;
            txn.commit().map_err(engine_error)
        })
    }

    /// Makes everything that is done with the file fail from now on, or no longer.
    #[cfg(test)]
    pub(crate) fn set_broken(&self, is_broken: bool) {
        let owned = &self.storage.owned;
        owned.is_broken.store(is_broken, Ordering::SeqCst);
    }

    /// Whether the engine refuses to go on until the file is opened again.
    pub(crate) fn has_failed(&self) -> bool {
        self.storage.loan.has_failed.load(Ordering::Acquire)
    }

    /// Whether the checksums of all pages are right. If not, the engine goes back to the last whole commit.
    /// Nobody may read.
    pub(crate) fn check_integrity(&mut self) -> Result<bool> {
        let Database::ReadWrite(engine) = &mut self.database else {
            return Err(Error::ReadOnly);
        };
        guarded(|| engine.enter_mut()?.check_integrity().map_err(engine_error))
    }
}

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
pub(super) struct Lent {
    owned: Arc<Owned>,
    loan: Arc<Loan>,
    /// Whether the loan before this one has locked the file already.
    is_locked: bool,
    is_written: bool,
}

/// What is known of a loan.
#[derive(Debug, Default)]
pub(super) struct Loan {
    is_taken_back: AtomicBool,
    /// Whether nobody else will get the storage, since it was closed.
    is_closed: AtomicBool,
    has_failed: AtomicBool,
    branches: Branches,
    /// What the engine begins with, if it believes it. It is compared before the first read.
    first_pages: OnceLock<Option<FirstPages>>,
}

impl Loan {
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
}

impl Lent {
    /// The storage of a file. If `is_new`, the engine begins a database in it.
    fn new(file: File, is_new: bool) -> Result<Self, DatabaseError> {
        let storage = Kept::new(file).try_map(storage_of)?;
        Ok(Self::first_loan(storage, is_new))
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
            loan: Arc::default(),
            is_locked: false,
            is_written: true,
        }
    }

    /// Takes this loan back, and lends the storage anew. If that is to be the last loan, `is_last`.
    fn take_back(&self, is_last: bool) -> Self {
        self.loan.is_closed.store(is_last, Ordering::SeqCst);
        self.loan.is_taken_back.store(true, Ordering::SeqCst);
        Self {
            owned: self.owned.clone(),
            loan: Arc::default(),
            is_locked: true,
            is_written: self.is_written,
        }
    }

    /// Gives the lock of the file away. What has the storage on loan can do nothing with it any more.
    fn give_away(&self) -> io::Result<()> {
        self.loan.is_closed.store(true, Ordering::SeqCst);
        self.loan.is_taken_back.store(true, Ordering::SeqCst);
        self.owned.storage.close()
    }

    /// An error if the pages that the engine begins with are damaged. It cannot read anything then.
    fn ensure_sound(&self) -> Result<(), Error> {
        match self.loan.first_pages.get() {
            Some(Some(first)) => first.ensure_sound(self.is_written),
            Some(None) | None => Ok(()),
        }
    }

    /// The engine has compared and repaired what it did not believe. From now on it believes the file.
    fn note_repaired(&self) -> io::Result<()> {
        if let Some(None) = self.loan.first_pages.get() {
            self.compare_first_pages()?;
        }
        Ok(())
    }

    /// Compares the pages that the engine begins with, if it believes them. From then on, branches are compared before
    /// the engine sees them.
    fn compare_first_pages(&self) -> io::Result<Option<FirstPages>> {
        let storage = &self.owned.storage;
        self.loan.branches.compare_first(storage, storage.len()?)
    }

    fn ensure_mine(&self) -> io::Result<()> {
        if self.loan.is_taken_back() {
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
            self.loan.has_failed.store(true, Ordering::Release);
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
        if self.loan.first_pages.get().is_none() {
            let first = self.run(|_| self.compare_first_pages())?;
            self.loan.first_pages.get_or_init(|| first);
        }
        self.ensure_sound().map_err(io::Error::other)?;
        self.run(|storage| storage.read(offset, out))?;
        self.loan
            .branches
            .hide_damaged(offset, out, &self.owned.storage);
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
        self.loan.branches.note_written(offset, data);
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
