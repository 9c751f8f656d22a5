//! Store: create, open, begin, commit. With its submodules the only place that names redb; hides the layout.
//!
//! Layout of format version 1, as redb tables (docs/format.md has every byte):
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | envelope: format, settings, counters |
//! | `documents` | document number | envelope: the document |
//! | `keys` | hash of the key, document number | nothing |
//! | `scopes` | name | envelope: the scope's number |
//! | `postings` | fingerprint, scope number or `ANY`, document number | nothing |
//! | `totals` | fingerprint, scope number or `ANY` | how many postings |
//! | `permuted-NN` | permuted fingerprint | nothing |

mod codec;
mod guard;
mod meta;
mod read;
mod record;
mod write;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard, TryLockError};

use redb::{DatabaseError, ReadableDatabase, TableDefinition};

use guard::{Guarded, guarded};
pub(crate) use meta::{Counters, FORMAT_VERSION, Settings};
pub(crate) use read::{Read, Reader};
pub(crate) use write::Writer;

use crate::error::{Error, Result};

const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const DOCUMENTS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("documents");
const KEYS: TableDefinition<'static, (u64, u64), ()> = TableDefinition::new("keys");
const SCOPES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("scopes");
const POSTINGS: TableDefinition<'static, (u64, u32, u64), ()> = TableDefinition::new("postings");
const TOTALS: TableDefinition<'static, (u64, u32), u64> = TableDefinition::new("totals");

/// The permuted table of this number (below 16, as plans promise).
fn permuted(table: usize) -> TableDefinition<'static, u64, ()> {
    const NAMES: [&str; 16] = [
        "permuted-00",
        "permuted-01",
        "permuted-02",
        "permuted-03",
        "permuted-04",
        "permuted-05",
        "permuted-06",
        "permuted-07",
        "permuted-08",
        "permuted-09",
        "permuted-10",
        "permuted-11",
        "permuted-12",
        "permuted-13",
        "permuted-14",
        "permuted-15",
    ];
    TableDefinition::new(NAMES[table])
}

/// The number of a document. Later documents have greater numbers, and none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentNumber(u64);

impl DocumentNumber {
    /// Below and above all numbers of documents.
    pub(crate) const MIN: Self = Self(0);
    pub(crate) const MAX: Self = Self(u64::MAX);

    /// The number after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The number of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScopeNumber(u32);

impl ScopeNumber {
    /// The scope of documents that have none.
    pub(crate) const EMPTY: Self = Self(0);
    /// Lists the documents of all scopes but the empty one, so that a question about all documents does not have
    /// to go through every scope there is.
    pub(crate) const ANY: Self = Self(u32::MAX);
    /// The scopes that together list every document, each once.
    pub(crate) const ALL_DOCUMENTS: &'static [Self] = &[Self::EMPTY, Self::ANY];

    /// The scopes that list a document of this one.
    pub(crate) fn listing(self) -> impl Iterator<Item = Self> {
        let any = (self != Self::EMPTY).then_some(Self::ANY);
        std::iter::once(self).chain(any)
    }

    /// Whether it lists the documents of `scope`.
    pub(crate) fn covers(self, scope: Self) -> bool {
        scope.listing().any(|listing| listing == self)
    }
}

/// What a store may do with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
}

/// An open file.
pub(crate) struct Store {
    path: PathBuf,
    /// For the size of the file, which may have been renamed since.
    file: File,
    /// Behind a lock because checking pages needs the engine for itself.
    engine: RwLock<Guarded<Engine>>,
    settings: Arc<Settings>,
}

enum Engine {
    ReadWrite(redb::Database),
    ReadOnly(redb::ReadOnlyDatabase),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Creates a file; what stands at `path` is not touched. Either the whole new file is there afterwards or
    /// nothing: it is made under a temporary name beside `path`, which a crash may leave behind.
    pub(crate) fn create(path: &Path, settings: Settings, cache_bytes: usize) -> Result<Self> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: path.to_owned() },
            _ => Error::Io { path: path.to_owned(), source },
        };
        if path.symlink_metadata().is_ok() {
            return Err(Error::AlreadyExists { path: path.to_owned() });
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !directory.is_dir() {
            let source = io::Error::new(io::ErrorKind::NotFound, "no such directory");
            return Err(Error::Io { path: directory.to_owned(), source });
        }
        let temporary = temporary_file(directory).map_err(failed)?;
        let file = temporary.as_file().try_clone().map_err(failed)?;
        let engine = temporary.as_file().try_clone().map_err(failed)?;
        let engine = redb::Builder::new()
            .set_cache_size(cache_bytes)
            .create_file(engine)
            .map_err(|it| open_error(path, it))?;
        write_first(&engine, &settings)?;
        // The engine's handle and its lock go on to belong to the file under its new name.
        temporary.persist_noclobber(path).map_err(|error| failed(error.error))?;
        sync_directory(directory).map_err(failed)?;
        Ok(Self::new(path, file, Guarded::new(Engine::ReadWrite(engine)), settings))
    }

    /// Opens an existing file and checks that this release can read it.
    pub(crate) fn open(path: &Path, access: Access, cache_bytes: usize) -> Result<Self> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::Io { path: path.to_owned(), source },
        };
        let metadata = fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
        }
        if !metadata.is_file() {
            return Err(Error::NotSimdb { path: path.to_owned() });
        }
        let file = File::open(path).map_err(failed)?;
        let mut builder = redb::Builder::new();
        builder.set_cache_size(cache_bytes);
        guarded(|| {
            let engine = match access {
                Access::ReadWrite => builder.open(path).map(Engine::ReadWrite),
                Access::ReadOnly => builder.open_read_only(path).map(Engine::ReadOnly),
            };
            let engine = Guarded::new(engine.map_err(|error| open_error(path, error))?);
            let settings = read_settings(&engine, path)?;
            Ok(Self::new(path, file, engine, settings))
        })
    }

    fn new(path: &Path, file: File, engine: Guarded<Engine>, settings: Settings) -> Self {
        Self { path: path.to_owned(), file, engine: RwLock::new(engine), settings: Arc::new(settings) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file, and what else the system knows of it.
    pub(crate) fn metadata(&self) -> Result<fs::Metadata> {
        self.file.metadata().map_err(|source| Error::Io { path: self.path.clone(), source })
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// A consistent view of what is committed now.
    pub(crate) fn begin_read(&self) -> Result<Reader> {
        guarded(|| Ok(Reader::new(self.engine().begin_read()?, self.settings.clone())))
    }

    /// Waits until no other transaction writes, and begins one.
    pub(crate) fn begin_write(&self) -> Result<Writer> {
        guarded(|| match &**self.engine() {
            Engine::ReadWrite(engine) => {
                Writer::new(engine.begin_write().map_err(engine_error)?, self.settings.clone())
            }
            Engine::ReadOnly(_) => Err(Error::ReadOnly),
        })
    }

    /// Whether the checksums of all pages are right. Where they are not, the engine falls back to the last
    /// commit that is whole, if there is one.
    pub(crate) fn check_pages(&self) -> Result<bool> {
        let mut engine = match self.engine.try_write() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Error::InUse),
        };
        guarded(|| match &mut **engine {
            Engine::ReadWrite(engine) => engine.check_integrity().map_err(|error| match error {
                DatabaseError::TransactionInProgress => Error::InUse,
                error => engine_error(error),
            }),
            Engine::ReadOnly(_) => Err(Error::ReadOnly),
        })
    }

    fn engine(&self) -> RwLockReadGuard<'_, Guarded<Engine>> {
        // A panic under the lock can only come from the engine, which guards its own state.
        self.engine.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Engine {
    fn begin_read(&self) -> Result<redb::ReadTransaction> {
        match self {
            Self::ReadWrite(engine) => engine.begin_read(),
            Self::ReadOnly(engine) => engine.begin_read(),
        }
        .map_err(engine_error)
    }
}

/// A file of our own beside the one to be, readable by whom the user's umask says.
fn temporary_file(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".simdb-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
}

/// Makes the name of a new file as durable as its content.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// The first commit of a file: what it is, and every table, empty.
fn write_first(engine: &redb::Database, settings: &Settings) -> Result<()> {
    let mut txn = engine.begin_write().map_err(engine_error)?;
    txn.set_quick_repair(true);
    {
        let mut table = txn.open_table(META).map_err(engine_error)?;
        let rows = [
            (meta::FORMAT, meta::encode_format()),
            (meta::SETTINGS, meta::encode_settings(settings)),
            (meta::COUNTERS, meta::encode_counters(&Counters::NEW)),
        ];
        for (name, bytes) in rows {
            table.insert(name, bytes.as_slice()).map_err(engine_error)?;
        }
        txn.open_table(DOCUMENTS).map_err(engine_error)?;
        txn.open_table(KEYS).map_err(engine_error)?;
        txn.open_table(SCOPES).map_err(engine_error)?;
        txn.open_table(POSTINGS).map_err(engine_error)?;
        txn.open_table(TOTALS).map_err(engine_error)?;
        for table in 0..settings.plan.tables().len() {
            txn.open_table(permuted(table)).map_err(engine_error)?;
        }
    }
    txn.commit().map_err(engine_error)
}

/// Checks the format of a file, then reads its settings.
fn read_settings(engine: &Engine, path: &Path) -> Result<Settings> {
    let txn = engine.begin_read()?;
    let table = match txn.open_table(META) {
        Ok(table) => table,
        // A file of the same engine that belongs to another program.
        Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => {
            return Err(Error::NotSimdb { path: path.to_owned() });
        }
        Err(error) => return Err(engine_error(error)),
    };
    let row = |name: &str| match redb::ReadableTable::get(&table, name) {
        Ok(Some(row)) => Ok(Some(row.value().to_vec())),
        Ok(None) => Ok(None),
        Err(error) => Err(engine_error(error)),
    };
    let format = row(meta::FORMAT)?.ok_or_else(|| Error::NotSimdb { path: path.to_owned() })?;
    meta::check_format(&format)?;
    let settings = row(meta::SETTINGS)?.ok_or_else(|| Error::Damaged {
        table: "meta",
        key: meta::SETTINGS.to_owned(),
        problem: "it is missing",
    })?;
    meta::decode_settings(&settings)
}

/// What failed when the engine opened or created the file at `path`.
fn open_error(path: &Path, error: DatabaseError) -> Error {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Busy { path },
        DatabaseError::RepairAborted => Error::NeedsRecovery { path },
        DatabaseError::UpgradeRequired(_) => Error::NotSimdb { path },
        DatabaseError::Storage(redb::StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Error::NotSimdb { path },
            _ => Error::Io { path, source },
        },
        error => engine_error(error),
    }
}

/// What failed in the engine, told apart as far as callers can act on it.
fn engine_error(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        error @ redb::Error::Corrupted(_) => Error::Corrupted(Box::new(error)),
        error => Error::Storage(Box::new(error)),
    }
}
