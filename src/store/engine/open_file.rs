//! Opening and creating a file of the engine, and committing to it. Who has a file open: this process, by a list of
//! the files that it has open, or another one, by the lists of locks that the system keeps.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use redb::{DatabaseError, Durability, ReadableDatabase};

use super::changes::{BlockTable, Changes, MetaRow};
use super::guard::{Guarded, engine_error, guarded};
use super::storage::Lent;
use super::tables::{self, Tables};
use crate::error::{Error, Holder, Result};
use crate::files::{NewFile, is_same_file, leads_nowhere};
use crate::planted::planted;
use crate::process::{Kept, PerProcess, Process};
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
    pub(crate) fn open_again(&self, path: &Path, page_cache_bytes: usize) -> Result<Self> {
        match &self.engine {
            Engine::ReadOnly(..) => Self::open(path, Access::ReadOnly, page_cache_bytes),
            Engine::ReadWrite(_, storage) => {
                let file = Kept::new(self.file.try_clone().map_err(Error::io(path))?);
                let engine = Engine::on_storage(storage.take_back(false), path, page_cache_bytes)?;
                Ok(Self::new(engine, file))
            }
        }
    }

    /// Closes a file that others still read, and gives its lock away. They can read nothing any more. `path` is the
    /// path of the file, for error messages.
    pub(crate) fn close_under_readers(&self, path: &Path, page_cache_bytes: usize) -> Result<()> {
        let storage = self.engine.storage();
        let ended = match &self.engine {
            Engine::ReadOnly(..) => Ok(()),
            // The engine of the readers cannot be closed in order, so another one is, in its place.
            Engine::ReadWrite(..) => {
                Engine::on_storage(storage.take_back(true), path, page_cache_bytes).map(drop)
            }
        };
        drop(self.registered.lock().take());
        let unlocked = storage.close().map_err(Error::io(path));
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
pub(crate) enum Engine {
    ReadWrite(Guarded<redb::Database>, Lent),
    ReadOnly(Guarded<redb::ReadOnlyDatabase>, Lent),
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
            Ok(Self::ReadWrite(Guarded::new(engine), storage))
        })
    }

    /// Opens a file on its storage, to read only. `path` is for error messages.
    pub(super) fn read_only(storage: Lent, path: &Path, page_cache_bytes: usize) -> Result<Self> {
        let storage = storage.for_reading();
        guarded(|| {
            let mut builder = redb::Builder::new();
            let builder = builder.set_cache_size(page_cache_bytes);
            let engine = builder.open_read_only_with_backend(storage.clone());
            storage.ensure_sound()?;
            let engine = engine.map_err(open_error(path))?;
            Ok(Self::ReadOnly(Guarded::new(engine), storage))
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
    pub(crate) fn trimmed(
        self,
        new: &NewFile,
        path: &Path,
        page_cache_bytes: usize,
    ) -> Result<Self> {
        // The engine cuts the free pages at the end of a file when it closes it.
        drop(self);
        let file = new.file.try_clone().map_err(Error::io(path))?;
        let storage = Lent::new(file, false).map_err(open_error(path))?;
        Self::on_storage(storage, path, page_cache_bytes)
    }

    /// Works on a storage of a test. If there are first rows, creates the tables.
    #[cfg(test)]
    pub(crate) fn on_backend(
        backend: impl redb::StorageBackend,
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
        match self {
            Self::ReadWrite(..) => Ok(()),
            Self::ReadOnly(..) => Err(Error::ReadOnly),
        }
    }

    /// Begins to read the last commit. `block_tables` is the number of tables of blocks.
    pub(crate) fn begin_read(&self, block_tables: usize) -> Result<Tables> {
        guarded(|| {
            let txn = match self {
                Self::ReadWrite(engine, _) => engine.enter()?.begin_read(),
                Self::ReadOnly(engine, _) => engine.enter()?.begin_read(),
            };
            let txn = txn.map_err(engine_error)?;
            let loan = self.storage().state().clone();
            Ok(Tables::new(txn, loan, block_tables))
        })
    }

    fn storage(&self) -> &Lent {
        match self {
            Self::ReadWrite(_, storage) | Self::ReadOnly(_, storage) => storage,
        }
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
        let Self::ReadWrite(engine, _) = self else {
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
        self.storage().set_broken(is_broken);
    }

    /// Whether the engine refuses to go on until the file is opened again.
    pub(crate) fn has_failed(&self) -> bool {
        self.storage().state().has_failed()
    }

    /// Whether the checksums of all pages are right. If not, the engine goes back to the last whole commit.
    /// Nobody may read.
    pub(crate) fn check_integrity(&mut self) -> Result<bool> {
        let Self::ReadWrite(engine, _) = self else {
            return Err(Error::ReadOnly);
        };
        guarded(|| engine.enter_mut()?.check_integrity().map_err(engine_error))
    }
}

/// What tells a file from all others: its device and its number there.
type Identity = (u64, u64);

/// The databases that this process has open, one entry for each handle. A forked process has opened none.
static OPEN_HERE: PerProcess<Mutex<Vec<Identity>>> = PerProcess::new(|| Mutex::new(Vec::new()));

/// An entry in the list of the files that this process has open. It is removed when this is dropped.
struct Registered {
    identity: Option<Identity>,
    process: Process,
}

impl Registered {
    /// A system that does not tell which file is open gives no entry.
    fn new(file: &File) -> Self {
        let metadata = file.metadata().ok();
        let identity = metadata.as_ref().and_then(identity_of);
        OPEN_HERE.get().lock().extend(identity);
        Self {
            identity,
            process: Process::here(),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The list of a forked process never had it.
        let Some(own) = self.identity.filter(|_| self.process.is_here()) else {
            return;
        };
        let mut open = OPEN_HERE.get().lock();
        if let Some(index) = open.iter().position(|identity| *identity == own) {
            open.swap_remove(index);
        }
    }
}

/// Who has the file at `path` open.
///
/// The system keeps a list of all locks, with the processes that took them. But a lock outlives such a process if
/// another one was forked from it and lives. So a process is named only if it has the lock now.
pub(super) fn holder_of(path: &Path) -> Holder {
    let metadata = fs::metadata(path).ok();
    let Some(identity) = metadata.as_ref().and_then(identity_of) else {
        return Holder::Unknown;
    };
    if OPEN_HERE.get().lock().contains(&identity) {
        return Holder::ThisProcess;
    }
    let own = std::process::id();
    // Where the system keeps no such list, nobody is named.
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let took = takers(identity, &locks)
        .into_iter()
        .find(|&taker| taker > 0);
    match took.map(|taker| (taker, holding(taker, identity))) {
        Some((taker, Holding::Took | Holding::NotTold)) if taker == own => Holder::ThisProcess,
        Some((taker, Holding::Took | Holding::NotTold)) => Holder::Process(taker),
        // The number may be that of a new process, or of one that was forked.
        _ if holding(own, identity) != Holding::No => Holder::Inherited,
        _ => living_holder(identity),
    }
}

/// The first of all processes that has a lock of the file.
fn living_holder(identity: Identity) -> Holder {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Holder::Unknown;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match holding(number, identity) {
            Holding::Took => return Holder::Process(number),
            Holding::Inherited => return Holder::Child(number),
            Holding::No | Holding::NotTold => {}
        }
    }
    Holder::Unknown
}

/// Whether a process has a lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    No,
    /// It took it.
    Took,
    /// A process took it that it was forked from.
    Inherited,
    /// The process is that of another user.
    NotTold,
}

/// Whether a process has a lock of a file, by what Linux tells of its descriptors.
fn holding(process: u32, identity: Identity) -> Holding {
    let descriptors = match fs::read_dir(format!("/proc/{process}/fdinfo")) {
        Ok(descriptors) => descriptors,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Holding::NotTold,
        Err(_) => return Holding::No,
    };
    for descriptor in descriptors {
        let text = match descriptor.and_then(|entry| fs::read_to_string(entry.path())) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Holding::NotTold;
            }
            // It was closed meanwhile.
            Err(_) => continue,
        };
        let mut locks = String::new();
        for lock in text.lines().filter_map(|line| line.strip_prefix("lock:")) {
            locks += lock;
            locks.push('\n');
        }
        match takers(identity, &locks)[..] {
            [] => {}
            [taker, ..] if taker == process => return Holding::Took,
            _ => return Holding::Inherited,
        }
    }
    Holding::No
}

#[cfg(unix)]
fn identity_of(metadata: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity_of(_: &Metadata) -> Option<Identity> {
    None
}

/// The processes that took the locks of a file, by lines of the form in which Linux lists locks. 0 if it cannot be
/// named: it is gone, or cannot be seen from here.
///
/// A line looks like `4: FLOCK ADVISORY WRITE 26585 fe:00:10011542 0 EOF`: the kind of the lock, the process,
/// and the device and the number of the file. Some kinds of locks belong to no process, and have the process
/// -1. Who only waits for a lock has an arrow in the second column.
fn takers((device, number): Identity, locks: &str) -> Vec<u32> {
    let file = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
    let mut takers = Vec::new();
    for line in locks.lines() {
        takers.extend(taker_in(line, &file));
    }
    takers
}

fn taker_in(line: &str, file: &str) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    fields.next().filter(|&kind| kind != "->")?;
    let process = fields.nth(2)?;
    if fields.next()? != file {
        return None;
    }
    process.parse().ok()
}

#[cfg(target_os = "linux")]
use rustix::fs::{major, minor};

#[cfg(not(target_os = "linux"))]
fn major(device: u64) -> u64 {
    device
}

#[cfg(not(target_os = "linux"))]
fn minor(device: u64) -> u64 {
    device
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_locks_names_the_process_that_holds_a_file() {
        let locks = "1: OFDLCK ADVISORY  READ -1 fe:00:42 0 4611686018427387904\n\
                     2: FLOCK  ADVISORY  WRITE 77 fe:00:4 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 78 fe:00:42 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 0 fe:00:42 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 26585 fe:00:42 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(takers((device, 42), locks), [0, 26585]);
        assert_eq!(takers((device, 4), locks), [77]);
        assert!(takers((device, 7), locks).is_empty());
        assert!(takers((rustix::fs::makedev(8, 1), 42), locks).is_empty());
        assert!(takers((device, 42), "nonsense\n1: FLOCK\n").is_empty());
    }
}
