//! What all handles of an open file share: the last commit, the gate that commits go through, the file itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use super::edit::Edit;
use super::meta::Settings;
use super::opening;
use super::progress::Progress;
use super::state::State;
use super::view::View;
use crate::error::{Error, Result};
use crate::store::blocks::BlockCache;
use crate::store::engine::{OpenFile, page_cache_bytes};
use crate::store::sizes::Sizes;

/// What the handles of a file share.
///
/// Locks are taken in this order: `writing`, `merging`, `gate`, `current`, `open`. The others are held for a moment
/// only, and no lock is taken while one of them is held.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    /// The file itself, should the path be a link or the process change its directory. Empty where there is none.
    pub(crate) target: PathBuf,
    /// The file. Compaction puts another in its place.
    open: Mutex<Arc<OpenFile>>,
    /// Compaction may change the plan.
    settings: Mutex<Arc<Settings>>,
    pub(crate) sizes: Sizes,
    cache: Arc<BlockCache>,
    /// For decoded blocks and directories together.
    pub(crate) cache_bytes: usize,
    /// For the pages of the engine.
    pub(crate) page_cache_bytes: usize,
    /// The last commit. `None` while pages are checked, and after that if the file cannot be read.
    current: Mutex<Option<Arc<View>>>,
    /// Held by whoever commits, from reading the last state to publishing the next.
    gate: Mutex<()>,
    /// Held while a step of a merge is prepared and applied. It is taken before the gate.
    pub(crate) merging: Mutex<()>,
    /// The number of transactions that wait for the gate. Merges let them go first.
    committing: AtomicUsize,
    /// Whether a transaction writes. Signalled when it ends.
    writing: Mutex<bool>,
    written: Condvar,
    /// Signalled when the state has changed. Merges wait for it, and so do transactions that are ahead of them.
    pub(crate) changed: Condvar,
    pub(crate) progress: Mutex<Progress>,
    /// Why a commit failed. What the file holds is not known then.
    failed: Mutex<Option<String>>,
}

impl Shared {
    /// Reads what the file says of itself.
    pub(crate) fn new(path: &Path, open: OpenFile, cache_bytes: usize, sizes: Sizes) -> Result<Self> {
        let page_cache_bytes = page_cache_bytes(cache_bytes);
        let cache_bytes = cache_bytes - page_cache_bytes;
        let open = Arc::new(open);
        let cache = Arc::new(BlockCache::new(cache_bytes as u64));
        let txn = open.engine.begin_read()?;
        let settings = Arc::new(opening::read_settings(&txn, path)?);
        let state = opening::read_state(&txn, &settings.plan)?;
        let view = Arc::new(View::new(&open, &txn, state, settings.clone(), cache.clone())?);
        let shared = Self {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_default(),
            open: Mutex::new(open),
            settings: Mutex::new(settings),
            sizes,
            cache,
            cache_bytes,
            page_cache_bytes,
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
        let mut current = self.current.lock();
        if let Some(view) = &*current {
            return Ok(view.clone());
        }
        let view = Arc::new(self.load(&self.open())?);
        *current = Some(view.clone());
        Ok(view)
    }

    /// Reads what the file holds.
    fn load(&self, open: &Arc<OpenFile>) -> Result<View> {
        let txn = open.engine.begin_read()?;
        let settings = self.settings();
        let state = opening::read_state(&txn, &settings.plan)?;
        View::new(open, &txn, state, settings, self.cache.clone())
    }

    /// Commits what `change` makes of an edit of the last state, and publishes it.
    pub(crate) fn commit(&self, change: impl FnOnce(&mut Edit)) -> Result<()> {
        let gate = self.gate.lock();
        self.ensure_certain()?;
        let mut edit = Edit::new(self.view()?.state().clone(), &self.sizes);
        change(&mut edit);
        match self.publish(edit) {
            Ok(view) => {
                self.share_cache(view.state());
                *self.current.lock() = Some(Arc::new(view));
            }
            Err(error) => {
                // It is not known whether the engine has made the commit durable, nor what it will do next.
                *self.failed.lock() = Some(innermost(&error));
                return Err(error);
            }
        }
        drop(gate);
        self.progress.lock().commits += 1;
        self.changed.notify_all();
        Ok(())
    }

    fn publish(&self, edit: Edit) -> Result<View> {
        let open = self.open();
        edit.write(&open.engine)?;
        let txn = open.engine.begin_read()?;
        View::new(&open, &txn, edit.state, self.settings(), self.cache.clone())
    }

    /// As [`commit`](Self::commit), for a transaction: merges let it go first.
    pub(crate) fn commit_transaction(&self, change: impl FnOnce(&mut Edit)) -> Result<()> {
        self.committing.fetch_add(1, Ordering::AcqRel);
        let committed = self.commit(change);
        self.committing.fetch_sub(1, Ordering::AcqRel);
        committed
    }

    /// Whether a transaction waits for the gate.
    pub(crate) fn is_transaction_waiting(&self) -> bool {
        self.committing.load(Ordering::Acquire) > 0
    }

    /// Puts a copy of the database in the place of the file, with the settings of the copy. `view` is what the copy
    /// holds. The caller sees to it that nobody commits.
    pub(crate) fn swap(&self, open: Arc<OpenFile>, view: View) {
        *self.open.lock() = open;
        *self.settings.lock() = view.settings().clone();
        *self.current.lock() = Some(Arc::new(view));
    }

    /// Whether the checksums of all pages are right. Where they are not, the engine goes back to the last commit that
    /// is whole, if there is one.
    pub(crate) fn check_pages(&self) -> Result<bool> {
        let _merging = self.merging.lock();
        let _gate = self.gate.lock();
        self.ensure_certain()?;
        let mut current = self.current.lock();
        let before = current.as_ref().map(|view| view.state().position());
        if let Some(Err(shared)) = current.take().map(Arc::try_unwrap) {
            *current = Some(shared);
            return Err(Error::InUse);
        }
        let mut open = self.open.lock();
        // Older views of snapshots hold it too.
        let checked =
            Arc::get_mut(&mut open).ok_or(Error::InUse).and_then(|open| open.engine.check_integrity());
        // The engine may have gone back to an older commit, so everything is read again. The numbers of blocks after
        // that commit will be given to others. If the file cannot be read, whoever asks for a view is told so.
        self.cache.clear();
        *current = self.load(&open).ok().map(Arc::new);
        let after = current.as_ref().map(|view| view.state().position());
        checked.map(|whole| whole && before.is_none_or(|before| after.is_none_or(|after| after >= before)))
    }

    /// Leaves to decoded blocks what the directories do not take.
    fn share_cache(&self, state: &State) {
        // At least an eighth is left to blocks. Without a cache, a block that is needed twice is read twice.
        let left = self.cache_bytes.saturating_sub(state.directory_bytes()).max(self.cache_bytes / 8) as u64;
        if left.abs_diff(self.cache.capacity()) > left / 64 {
            self.cache.set_capacity(left);
        }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.lock().clone()
    }

    pub(crate) fn open(&self) -> Arc<OpenFile> {
        self.open.lock().clone()
    }

    /// Refuses to go on after a commit of which the outcome is not known.
    pub(crate) fn ensure_certain(&self) -> Result<()> {
        match &*self.failed.lock() {
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

/// The right to write, given back when it is dropped.
pub(crate) struct Turn(Arc<Shared>);

impl Turn {
    /// Waits until no other transaction writes.
    pub(crate) fn wait(shared: Arc<Shared>) -> Self {
        let mut writing = shared.writing.lock();
        shared.written.wait_while(&mut writing, |writing| *writing);
        *writing = true;
        drop(writing);
        Self(shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.writing.lock() = false;
        self.0.written.notify_one();
    }
}
