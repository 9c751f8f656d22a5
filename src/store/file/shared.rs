//! What all handles of an open file share: the last commit, the gate that commits go through, the file itself.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex};

use redb::DatabaseError;

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::store::blocks::cache::BlockCache;
use crate::store::dense::bulk::NewFile;
use crate::store::dense::copy::{self, CopyProgress, Memory};
use crate::store::engine::guard::{Guarded, guarded};
use crate::store::engine::tables::{Engine, engine_error};
use crate::store::file::meta::Settings;
use crate::store::file::opening;
use crate::store::file::state::{Edit, State};
use crate::store::merging::worker::MergeFailure;
use crate::store::read::View;
use crate::store::store::Sizes;
use crate::store::store::directory_of;
use crate::store::store::engine_cache_bytes;
use crate::store::store::is_same_file;
use crate::store::store::lock;
use crate::store::store::sync_directory;

/// What the handles of a file share.
///
/// Locks are taken in this order: `writing`, `merging`, `gate`, `current`, `open`; the others are held for a moment only.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    /// The file itself, should the path be a link or the process change its directory; empty where there is none.
    pub(crate) target: PathBuf,
    /// The file; compaction puts another in its place.
    pub(crate) open: Mutex<Arc<OpenFile>>,
    /// Compaction may change the plan.
    pub(crate) settings: Mutex<Arc<Settings>>,
    pub(crate) sizes: Sizes,
    pub(crate) cache: Arc<BlockCache>,
    /// For decoded blocks and directories together.
    pub(crate) cache_bytes: usize,
    /// For the pages of the engine.
    pub(crate) engine_cache_bytes: usize,
    /// The last commit; `None` while pages are checked, and after that if it cannot be read.
    pub(crate) current: Mutex<Option<Arc<View>>>,
    /// Held by whoever commits, from reading the last state to publishing the next.
    pub(crate) gate: Mutex<()>,
    /// Held while a step of a merge is prepared and applied, before the gate.
    pub(crate) merging: Mutex<()>,
    /// How many commits of transactions wait for the gate: merges let them go first.
    pub(crate) committing: AtomicUsize,
    /// Whether a transaction writes; signalled when it ends.
    pub(crate) writing: Mutex<bool>,
    pub(crate) written: Condvar,
    /// Signalled when the state has changed; what merges wait for, and transactions that are ahead of them.
    pub(crate) changed: Condvar,
    pub(crate) progress: Mutex<Progress>,
    /// Why a commit failed, so that what the file holds is not known.
    pub(crate) failed: Mutex<Option<String>>,
}

/// A file and the engine that works on it.
pub(crate) struct OpenFile {
    pub(crate) engine: Guarded<Engine>,
    /// For the size of the file, which may have been renamed since.
    pub(crate) file: File,
}

/// What the merging thread and the transactions tell each other.
#[derive(Default)]
pub(crate) struct Progress {
    /// Counts commits, so that none is missed.
    pub(crate) commits: u64,
    pub(crate) stop: bool,
    /// Why the last merge failed.
    pub(crate) failure: Option<MergeFailure>,
}

impl Shared {
    /// Reads what the file says of itself.
    pub(crate) fn new(
        path: &Path,
        file: File,
        engine: Engine,
        cache_bytes: usize,
        sizes: Sizes,
    ) -> Result<Self> {
        let engine_cache_bytes = engine_cache_bytes(cache_bytes);
        let cache_bytes = cache_bytes - engine_cache_bytes;
        let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
        let cache = Arc::new(BlockCache::new(cache_bytes as u64));
        let (settings, view) = guarded(|| {
            let txn = open.engine.begin_read()?;
            let settings = Arc::new(opening::settings(&txn, path)?);
            let state = opening::state(&txn, &settings.plan)?;
            Ok((settings.clone(), View::new(&open, &txn, state, settings, cache.clone())?))
        })?;
        let view = Arc::new(view);
        let shared = Self {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_default(),
            open: Mutex::new(open),
            settings: Mutex::new(settings),
            sizes,
            cache,
            cache_bytes,
            engine_cache_bytes,
            current: Mutex::new(Some(view.clone())),
            gate: Mutex::new(()),
            merging: Mutex::new(()),
            committing: AtomicUsize::new(0),
            writing: Mutex::new(false),
            written: Condvar::new(),
            changed: Condvar::new(),
            progress: Mutex::new(Progress::default()),
            failed: Mutex::new(None),
        };
        shared.share_cache(view.state());
        Ok(shared)
    }

    /// What is committed now.
    pub(crate) fn view(&self) -> Result<Arc<View>> {
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
            let settings = self.settings();
            let state = opening::state(&txn, &settings.plan)?;
            View::new(open, &txn, state, settings, self.cache.clone())
        })
    }

    /// Commits what `change` makes of an edit of the last state, and publishes it.
    pub(crate) fn commit<T>(&self, change: impl FnOnce(&View, &mut Edit) -> Result<T>) -> Result<T> {
        let gate = lock(&self.gate);
        self.ensure_certain()?;
        let view = self.view()?;
        let mut edit = Edit::new(view.state().clone());
        let value = change(&view, &mut edit)?;
        drop(view);
        let published = guarded(|| {
            let open = self.open();
            open.engine.apply(&edit)?;
            let txn = open.engine.begin_read()?;
            View::new(&open, &txn, edit.state, self.settings(), self.cache.clone())
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
        drop(gate);
        lock(&self.progress).commits += 1;
        self.changed.notify_all();
        Ok(value)
    }

    /// Makes the copy, with the tables of `plan` if there is one, and swaps file and handle; the caller sees to it that nobody commits.
    pub(crate) fn compact(&self, plan: Option<Plan>, progress: CopyProgress<'_>) -> Result<()> {
        let failed = |source: io::Error| Error::Io { path: self.path.clone(), source };
        let target = self.target.clone();
        self.ensure_in_place()?;
        let view = self.view()?;
        let mut settings = self.settings();
        if let Some(plan) = plan {
            settings = Arc::new(Settings { plan, ..(*settings).clone() });
        }
        // Nobody else needs the memory meanwhile but who reads.
        let memory = Memory { engine: self.engine_cache_bytes, sorting: self.cache_bytes / 2 };
        let NewFile { temporary, engine, file } =
            copy::copy(&view, &settings, &target, &self.sizes, memory, progress)?;
        file.set_permissions(fs::metadata(&target).map_err(failed)?.permissions()).map_err(failed)?;
        let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
        let copied = copy::copy_view(&open, settings.clone(), view.blocks().cache.clone())?;
        copy::verify(&copied, &view)?;
        self.ensure_in_place()?;
        copy::persist(temporary, &target, true)?;
        // From here on the path leads to the copy, so everybody has to.
        *lock(&self.open) = open;
        *lock(&self.settings) = settings;
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

    pub(crate) fn check_pages(&self) -> Result<bool> {
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
    pub(crate) fn share_cache(&self, state: &State) {
        // Without any cache, whoever needs a block twice reads it twice; an eighth is not much more.
        let left = self.cache_bytes.saturating_sub(state.directory_bytes()).max(self.cache_bytes / 8) as u64;
        if left.abs_diff(self.cache.capacity()) > left / 64 {
            self.cache.set_capacity(left);
        }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        lock(&self.settings).clone()
    }

    pub(crate) fn open(&self) -> Arc<OpenFile> {
        lock(&self.open).clone()
    }

    /// Refuses to go on after a commit of which the outcome is not known.
    pub(crate) fn ensure_certain(&self) -> Result<()> {
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
