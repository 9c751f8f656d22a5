//! Store: create, open, begin, commit. With its submodules the only place that names redb; hides the layout.
//!
//! Layout of format version 2, as redb tables (docs/format.md has every byte):
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | envelope: format, settings, state |
//! | `blocks` | block number | packed rows of a sorted set, or packed documents |
//! | `directory` | set, level, last row | envelope: where some neighbouring blocks are |
//! | `log` | page number | envelope: what was committed and not merged yet |
//! | `scopes` | name | envelope: the scope's number |

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::dense::bulk::NewFile;
use crate::store::dense::copy::CopyProgress;
use crate::store::engine::guard::guarded;
#[cfg(test)]
use crate::store::engine::recording::Recording;
use crate::store::engine::tables::{Engine, open_error};
use crate::store::file::meta::Settings;
use crate::store::file::shared::Shared;
use crate::store::merging::worker::Worker;
use crate::store::read::Reader;
use crate::store::write::Turn;
use crate::store::write::Writer;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::plan::Plan;

/// The number of a document. Later documents have greater numbers, and none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentNumber(pub(crate) u64);

impl DocumentNumber {
    /// Below and above all numbers of documents.
    pub(crate) const MIN: Self = Self(0);
    /// A row has room for 40 bits; a million numbers a second would last two weeks, a hundred million a day 30 years.
    pub(crate) const MAX: Self = Self((1 << 40) - 1);

    /// The number after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number before this one, if there is one.
    pub(crate) fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

/// The number of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScopeNumber(pub(crate) u32);

impl ScopeNumber {
    /// The scope of documents that have none.
    pub(crate) const EMPTY: Self = Self(0);
    /// Lists the documents of all scopes but the empty one, so that a question about all documents does not have
    /// to go through every scope there is.
    pub(crate) const ANY: Self = Self((1 << 24) - 1);
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

/// How large runs, levels, blocks and merges are made. Files do not depend on it; tests make everything tiny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// How many rows of a set are kept in memory before they are merged into a level.
    pub(crate) recent_rows: usize,
    /// How many bytes a block of rows has at most. 8,176 fill two pages of the engine exactly: larger ones make merging no
    /// faster, and a row of one costs more to read.
    pub(crate) block_bytes: usize,
    /// How many bytes a block of documents has, unless one alone takes more. 4,080 fill a page.
    pub(crate) document_block_bytes: usize,
    /// How many entries a chunk of a directory has at most, if they fit into a page.
    pub(crate) chunk_entries: usize,
    /// How many blocks of a level a step of a merge reads.
    pub(crate) step_blocks: usize,
    /// How many bytes of documents a transaction keeps in memory.
    pub(crate) spill_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            recent_rows: 250_000,
            block_bytes: 8176,
            document_block_bytes: 4080,
            chunk_entries: 256,
            step_blocks: 256,
            spill_bytes: 64 << 20,
        }
    }
}

/// An open file, and the thread that merges its levels.
pub(crate) struct Store {
    shared: Arc<Shared>,
    /// Ends its work when it is dropped; none where the file is only read.
    _worker: Option<Worker>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Creates a file; what stands at `path` is not touched. Either the whole new file is there afterwards or
    /// nothing: it is made under a temporary name beside `path`, which a crash may leave behind.
    pub(crate) fn create(path: &Path, settings: &Settings, cache_bytes: usize, sizes: Sizes) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::AlreadyExists { path: path.to_owned() });
        }
        let directory = directory_of(path)?;
        let NewFile { temporary, engine, file } =
            NewFile::create(directory, settings, engine_cache_bytes(cache_bytes))?;
        // The engine's handle and its lock go on to belong to the file under its new name.
        crate::store::dense::copy::persist(temporary, path, false)?;
        sync_directory(directory).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::new(path, file, engine, cache_bytes, sizes)
    }

    /// Builds a file at once from valid documents with different keys, as [`create`](Self::create) makes an empty one.
    pub(crate) fn build(
        path: &Path,
        settings: &Settings,
        documents: impl Iterator<Item = Result<Document>>,
        memory_bytes: usize,
        sizes: Sizes,
    ) -> Result<()> {
        crate::store::dense::build::build(path, settings, documents, memory_bytes, &sizes)
    }

    /// Opens an existing file and checks that this release can read it.
    pub(crate) fn open(path: &Path, access: Access, cache_bytes: usize, sizes: Sizes) -> Result<Self> {
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
        let mut builder = redb::Builder::new();
        builder.set_cache_size(engine_cache_bytes(cache_bytes));
        loop {
            let file = File::open(path).map_err(failed)?;
            let engine = guarded(|| {
                let engine = match access {
                    Access::ReadWrite => builder.open(path).map(Engine::ReadWrite),
                    Access::ReadOnly => builder.open_read_only(path).map(Engine::ReadOnly),
                };
                engine.map_err(|error| open_error(path, error))
            })?;
            // A compaction may have put another file in its place before this one was locked.
            if is_same_file(&file.metadata().map_err(failed)?, &fs::metadata(path).map_err(failed)?) {
                return Self::new(path, file, engine, cache_bytes, sizes);
            }
        }
    }

    /// Reads what the file says of itself, and starts to merge.
    fn new(path: &Path, file: File, engine: Engine, cache_bytes: usize, sizes: Sizes) -> Result<Self> {
        let writes = matches!(engine, Engine::ReadWrite(_));
        let shared = Arc::new(Shared::new(path, file, engine, cache_bytes, sizes)?);
        let worker = writes.then(|| Worker::start(shared.clone()));
        Ok(Self { shared, _worker: worker })
    }

    /// Opens a store on a storage of its own, or creates it if there are settings.
    #[cfg(test)]
    pub(crate) fn on_backend(backend: Recording, settings: Option<&Settings>, sizes: Sizes) -> Result<Self> {
        const CACHE_BYTES: usize = 1 << 20;
        let failed = |source| Error::Io { path: std::path::PathBuf::new(), source };
        let engine = redb::Builder::new()
            .set_cache_size(engine_cache_bytes(CACHE_BYTES))
            .create_with_backend(backend)
            .map_err(|error| open_error(Path::new(""), error))?;
        if let Some(settings) = settings {
            crate::store::engine::tables::write_first(&engine, settings)?;
        }
        let file = tempfile::tempfile().map_err(failed)?;
        Self::new(Path::new(""), file, Engine::ReadWrite(engine), CACHE_BYTES, sizes)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The size of the file, and what else the system knows of it.
    pub(crate) fn metadata(&self) -> Result<fs::Metadata> {
        let failed = |source| Error::Io { path: self.shared.path.clone(), source };
        self.shared.open().file.metadata().map_err(failed)
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.shared.settings()
    }

    /// A consistent view of what is committed now.
    pub(crate) fn begin_read(&self) -> Result<Reader> {
        self.shared.view().map(Reader::new)
    }

    /// Waits until no other transaction writes, and begins one.
    pub(crate) fn begin_write(&self) -> Result<Writer> {
        if matches!(*self.shared.open().engine, Engine::ReadOnly(_)) {
            return Err(Error::ReadOnly);
        }
        Writer::new(self.shared.clone())
    }

    /// Whether the checksums of all pages are right. Where they are not, the engine falls back to the last
    /// commit that is whole, if there is one.
    pub(crate) fn check_pages(&self) -> Result<bool> {
        self.shared.check_pages()
    }

    /// Puts a dense copy in the place of the file, with the tables of `plan` if there is one; while it is made, nobody writes. Snapshots go on
    /// with the old file, whose space is free when the last of them is gone.
    pub(crate) fn compact(&self, plan: Option<Plan>, progress: CopyProgress<'_>) -> Result<()> {
        if matches!(*self.shared.open().engine, Engine::ReadOnly(_)) {
            return Err(Error::ReadOnly);
        }
        let turn = Turn::wait(self.shared.clone());
        let _merging = lock(&turn.0.merging);
        turn.0.ensure_certain()?;
        turn.0.compact(plan, progress)
    }

    /// How runs, blocks and merges are made.
    pub(crate) fn sizes(&self) -> &Sizes {
        &self.shared.sizes
    }

    /// Waits until no merge is due. For tests and measurements.
    pub(crate) fn settle(&self) -> Result<()> {
        self.shared.settle()
    }
}

/// What is behind our locks is replaced whole, so a panic elsewhere leaves it right.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether both are one file; where the system does not tell, a file that is open cannot be replaced.
pub(crate) fn is_same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
    #[cfg(not(unix))]
    {
        _ = (a, b);
        true
    }
}

/// The part of the cache that the engine keeps its pages in: it reads each block once, we keep it decoded.
pub(crate) fn engine_cache_bytes(cache_bytes: usize) -> usize {
    (cache_bytes / 4).min(64 << 20)
}

/// The directory in which a file is to be made.
pub(crate) fn directory_of(path: &Path) -> Result<&Path> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() {
        return Ok(directory);
    }
    let source = io::Error::new(io::ErrorKind::NotFound, "no such directory");
    Err(Error::Io { path: directory.to_owned(), source })
}

/// A file of our own beside the one to be, readable by whom the user's umask says.
pub(crate) fn temporary_file(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
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
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}
