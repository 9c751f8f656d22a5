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

mod bits;
mod block;
mod blocks;
mod build;
mod bulk;
mod codec;
mod copy;
mod directory;
mod documents;
mod engine;
mod filter;
mod guard;
mod level;
mod log;
mod merge;
mod meta;
mod opening;
mod overlay;
mod read;
mod reclaim;
mod record;
#[cfg(test)]
mod recording;
mod run;
mod sort;
mod sorted_set;
mod state;
mod worker;
mod write;
mod written;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use redb::DatabaseError;

use blocks::BlockCache;
use bulk::NewFile;
pub(crate) use copy::CopyProgress;
use engine::{Engine, engine_error, open_error};
use guard::{Guarded, guarded};
pub(crate) use meta::{FORMAT_VERSION, Settings};
pub(crate) use read::{Read, Reader, View};
#[cfg(test)]
pub(crate) use recording::{Event, Image, Recording};
use state::{Edit, State};
use worker::{MergeFailure, Worker};
use write::Turn;
pub(crate) use write::Writer;

use crate::document::Document;
use crate::error::{Error, Result};
/// The number of a document. Later documents have greater numbers, and none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentNumber(u64);

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
    fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
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
    /// How many bytes a block has at most. 4,080 fill a page of the engine exactly.
    pub(crate) block_bytes: usize,
    /// How many entries a chunk of a directory has at most, if they fit into a page.
    pub(crate) chunk_entries: usize,
    /// How many blocks of a level a step of a merge reads.
    pub(crate) step_blocks: usize,
    /// How many bytes of documents a transaction keeps in memory.
    pub(crate) spill_bytes: usize,
    /// How many bytes merges write before they are made durable, if no transaction commits meanwhile.
    pub(crate) unsynced_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            recent_rows: 250_000,
            block_bytes: 4080,
            chunk_entries: 256,
            step_blocks: 512,
            spill_bytes: 64 << 20,
            unsynced_bytes: 8 << 20,
        }
    }
}

/// An open file, and the thread that merges its levels.
pub(crate) struct Store {
    shared: Arc<Shared>,
    /// Ends its work when it is dropped; none where the file is only read.
    _worker: Option<Worker>,
}

/// What the handles of a file share.
struct Shared {
    path: PathBuf,
    /// The file itself, should the path be a link or the process change its directory; empty where there is none.
    target: PathBuf,
    /// The file; compaction puts another in its place.
    open: Mutex<Arc<OpenFile>>,
    settings: Arc<Settings>,
    sizes: Sizes,
    cache: Arc<BlockCache>,
    /// For decoded blocks and directories together.
    cache_bytes: usize,
    /// For the pages of the engine.
    engine_cache_bytes: usize,
    /// The last commit; `None` while pages are checked, and after that if it cannot be read.
    current: Mutex<Option<Arc<View>>>,
    /// Held by whoever commits, from reading the last state to publishing the next.
    gate: Mutex<()>,
    /// Held while a step of a merge is prepared and applied, before the gate.
    merging: Mutex<()>,
    /// How many commits of transactions wait for the gate: merges let them go first.
    committing: AtomicUsize,
    /// How many bytes merges have written since the last durable commit.
    not_durable: AtomicUsize,
    /// Whether a transaction writes; signalled when it ends.
    writing: Mutex<bool>,
    written: Condvar,
    /// Signalled when the state has changed; what merges wait for, and transactions that are ahead of them.
    changed: Condvar,
    progress: Mutex<Progress>,
    /// Why a commit failed, so that what the file holds is not known.
    failed: Mutex<Option<String>>,
}

/// A file and the engine that works on it.
struct OpenFile {
    engine: Guarded<Engine>,
    /// For the size of the file, which may have been renamed since.
    file: File,
}

/// What the merging thread and the transactions tell each other.
#[derive(Default)]
struct Progress {
    /// Counts commits, so that none is missed.
    commits: u64,
    stop: bool,
    /// Why the last merge failed.
    failure: Option<MergeFailure>,
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
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: path.to_owned() },
            _ => Error::Io { path: path.to_owned(), source },
        };
        if path.symlink_metadata().is_ok() {
            return Err(Error::AlreadyExists { path: path.to_owned() });
        }
        let directory = directory_of(path)?;
        let temporary = temporary_file(directory).map_err(failed)?;
        let file = temporary.as_file().try_clone().map_err(failed)?;
        let engine = temporary.as_file().try_clone().map_err(failed)?;
        let engine = redb::Builder::new()
            .set_cache_size(engine_cache_bytes(cache_bytes))
            .create_file(engine)
            .map_err(|it| open_error(path, it))?;
        engine::write_first(&engine, settings)?;
        // The engine's handle and its lock go on to belong to the file under its new name.
        temporary.persist_noclobber(path).map_err(|error| failed(error.error))?;
        sync_directory(directory).map_err(failed)?;
        Self::new(path, file, Engine::ReadWrite(engine), cache_bytes, sizes)
    }

    /// Builds a file at once from valid documents with different keys, as [`create`](Self::create) makes an empty one.
    pub(crate) fn build(
        path: &Path,
        settings: &Settings,
        documents: impl Iterator<Item = Result<Document>>,
        memory_bytes: usize,
        sizes: Sizes,
    ) -> Result<()> {
        build::build(path, settings, documents, memory_bytes, &sizes)
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
        let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
        let cache = Arc::new(blocks::cache((cache_bytes - engine_cache_bytes(cache_bytes)) as u64));
        let (settings, view) = guarded(|| {
            let txn = open.engine.begin_read()?;
            let settings = Arc::new(opening::settings(&txn, path)?);
            let state = opening::state(&txn, &settings.plan)?;
            Ok((settings.clone(), View::new(&open, &txn, state, settings, cache.clone())?))
        })?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_default(),
            open: Mutex::new(open),
            settings,
            sizes,
            cache,
            cache_bytes: cache_bytes - engine_cache_bytes(cache_bytes),
            engine_cache_bytes: engine_cache_bytes(cache_bytes),
            current: Mutex::new(Some(Arc::new(view))),
            gate: Mutex::new(()),
            merging: Mutex::new(()),
            committing: AtomicUsize::new(0),
            not_durable: AtomicUsize::new(0),
            writing: Mutex::new(false),
            written: Condvar::new(),
            changed: Condvar::new(),
            progress: Mutex::new(Progress::default()),
            failed: Mutex::new(None),
        });
        shared.share_cache(shared.view()?.state());
        let worker = writes.then(|| Worker::start(shared.clone()));
        Ok(Self { shared, _worker: worker })
    }

    /// Opens a store on a storage of its own, or creates it if there are settings.
    #[cfg(test)]
    pub(crate) fn on_backend(backend: Recording, settings: Option<&Settings>, sizes: Sizes) -> Result<Self> {
        const CACHE_BYTES: usize = 1 << 20;
        let failed = |source| Error::Io { path: PathBuf::new(), source };
        let engine = redb::Builder::new()
            .set_cache_size(engine_cache_bytes(CACHE_BYTES))
            .create_with_backend(backend)
            .map_err(|error| open_error(Path::new(""), error))?;
        if let Some(settings) = settings {
            engine::write_first(&engine, settings)?;
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

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.shared.settings
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

    /// Puts a dense copy in the place of the file; while it is made, nobody writes. Snapshots go on with the old file,
    /// whose space is free when the last of them is gone.
    pub(crate) fn compact(&self, progress: CopyProgress<'_>) -> Result<()> {
        if matches!(*self.shared.open().engine, Engine::ReadOnly(_)) {
            return Err(Error::ReadOnly);
        }
        let turn = Turn::wait(self.shared.clone());
        let _merging = lock(&turn.0.merging);
        turn.0.ensure_certain()?;
        turn.0.compact(progress)
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

impl Shared {
    /// What is committed now.
    fn view(&self) -> Result<Arc<View>> {
        let mut current = lock(&self.current);
        if let Some(view) = &*current {
            return Ok(view.clone());
        }
        let view = Arc::new(self.load(&self.open())?);
        *current = Some(view.clone());
        Ok(view)
    }

    /// Reads what the file holds.
    fn load(&self, open: &Arc<OpenFile>) -> Result<View> {
        guarded(|| {
            let txn = open.engine.begin_read()?;
            let state = opening::state(&txn, &self.settings.plan)?;
            View::new(open, &txn, state, self.settings.clone(), self.cache.clone())
        })
    }

    /// Commits what `change` makes of an edit of the last state, and publishes it.
    fn commit<T>(&self, change: impl FnOnce(&View, &mut Edit) -> Result<T>) -> Result<T> {
        let gate = lock(&self.gate);
        self.ensure_certain()?;
        let view = self.view()?;
        let mut edit = Edit::new(view.state().clone());
        let value = change(&view, &mut edit)?;
        drop(view);
        // At least one byte, so that it is told from none.
        let not_durable = if edit.durable { None } else { Some(edit.block_bytes() + 1) };
        let published = guarded(|| {
            let open = self.open();
            open.engine.apply(&edit)?;
            let txn = open.engine.begin_read()?;
            View::new(&open, &txn, edit.state, self.settings.clone(), self.cache.clone())
        });
        match published {
            Ok(view) => {
                self.share_cache(view.state());
                *lock(&self.current) = Some(Arc::new(view));
            }
            Err(error) => {
                // Whether the engine has made it durable is not known, nor what it does next.
                *lock(&self.failed) = Some(innermost(&error));
                return Err(error);
            }
        }
        match not_durable {
            Some(bytes) => _ = self.not_durable.fetch_add(bytes, Ordering::Relaxed),
            None => self.not_durable.store(0, Ordering::Relaxed),
        }
        drop(gate);
        lock(&self.progress).commits += 1;
        self.changed.notify_all();
        Ok(value)
    }

    /// Makes the copy, and swaps file and handle; the caller sees to it that nobody commits.
    fn compact(&self, progress: CopyProgress<'_>) -> Result<()> {
        let failed = |source: io::Error| Error::Io { path: self.path.clone(), source };
        let target = self.target.clone();
        self.ensure_in_place()?;
        let view = self.view()?;
        let NewFile { temporary, engine, file } =
            copy::copy(&view, &target, &self.sizes, self.engine_cache_bytes, progress)?;
        file.set_permissions(fs::metadata(&target).map_err(failed)?.permissions()).map_err(failed)?;
        let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
        let copied = copy::copy_view(&open, &view, view.blocks().cache.clone())?;
        copy::verify(&copied, &view)?;
        self.ensure_in_place()?;
        copy::persist(temporary, &target, true)?;
        // From here on the path leads to the copy, so everybody has to.
        *lock(&self.open) = open;
        *lock(&self.current) = Some(Arc::new(copied));
        sync_directory(directory_of(&target)?).map_err(failed)
    }

    /// Refuses to replace a file that is not the one that is open.
    fn ensure_in_place(&self) -> Result<()> {
        let failed = |source: io::Error| Error::Io { path: self.target.clone(), source };
        let open = self.open().file.metadata().map_err(failed)?;
        if is_same_file(&open, &fs::metadata(&self.target).map_err(failed)?) {
            return Ok(());
        }
        let reason = "another file stands there since this one was opened; open that one, or move it away";
        Err(failed(io::Error::other(reason)))
    }

    fn check_pages(&self) -> Result<bool> {
        let _merging = lock(&self.merging);
        let _gate = lock(&self.gate);
        self.ensure_certain()?;
        let mut current = lock(&self.current);
        let before = current.as_ref().map(|view| view.state().position());
        if let Some(Err(shared)) = current.take().map(Arc::try_unwrap) {
            *current = Some(shared);
            return Err(Error::InUse);
        }
        let mut open = lock(&self.open);
        // Older views of snapshots hold it too.
        let checked = Arc::get_mut(&mut open).ok_or(Error::InUse).and_then(|open| {
            guarded(|| match &mut *open.engine {
                Engine::ReadWrite(engine) => engine.check_integrity().map_err(|error| match error {
                    DatabaseError::TransactionInProgress => Error::InUse,
                    error => engine_error(error),
                }),
                Engine::ReadOnly(_) => Err(Error::ReadOnly),
            })
        });
        // The engine may have gone back to an older commit, so everything is read again; numbers of blocks after that commit
        // will be given to others. What cannot be read is told to whoever asks for it.
        self.cache.clear();
        *current = self.load(&open).ok().map(Arc::new);
        let after = current.as_ref().map(|view| view.state().position());
        checked.map(|whole| whole && before.is_none_or(|before| after.is_none_or(|after| after >= before)))
    }

    /// Leaves to decoded blocks what the directories do not take.
    fn share_cache(&self, state: &State) {
        // Without any cache, whoever needs a block twice reads it twice; an eighth is not much more.
        let left = self.cache_bytes.saturating_sub(state.directory_bytes()).max(self.cache_bytes / 8) as u64;
        if left.abs_diff(self.cache.capacity()) > left / 64 {
            self.cache.set_capacity(left);
        }
    }

    fn open(&self) -> Arc<OpenFile> {
        lock(&self.open).clone()
    }

    /// Refuses to go on after a commit of which the outcome is not known.
    fn ensure_certain(&self) -> Result<()> {
        match &*lock(&self.failed) {
            Some(reason) => Err(Error::OutcomeUnknown { reason: reason.clone() }),
            None => Ok(()),
        }
    }
}

/// The cause of an error that has no further cause.
fn innermost(error: &Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

/// What is behind our locks is replaced whole, so a panic elsewhere leaves it right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether both are one file; where the system does not tell, a file that is open cannot be replaced.
fn is_same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
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
fn engine_cache_bytes(cache_bytes: usize) -> usize {
    (cache_bytes / 4).min(64 << 20)
}

/// The directory in which a file is to be made.
fn directory_of(path: &Path) -> Result<&Path> {
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
