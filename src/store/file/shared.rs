//! Shared: what all handles of an open file share: the last commit, the gate that commits go through, the
//! file, the open snapshots.

use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::cache_limit::CacheLimit;
use super::meta::Settings;
use super::schema::by_row;
use super::state::{Edit, State};
use super::statistics::{tables_capacity, tables_need};
use super::turns::Turns;
use super::view::View;
use crate::error::{Error, Result};
use crate::events;
use crate::files::{folder_of, is_same_file, names_of, sync_directory};
use crate::memory::Cache;
use crate::metrics::{Count, Meters, Metrics, Tallies};
use crate::planted::planted;
use crate::process::Process;
use crate::store::blocks::{BlockCache, Blocks};
use crate::store::engine::OpenFile;
use crate::store::sizes::Sizes;
use crate::sync::{Condvar, Mutex};

/// What the handles of a file share.
///
/// Locks are taken in this order: the turn to write, `merging`, `gate`, `current`, `open`. The others are held for
/// a moment only, and no lock is taken while one of them is held.
pub(crate) struct Shared {
    /// The process that opened the file.
    process: Process,
    is_closed: AtomicBool,
    pub(crate) path: PathBuf,
    /// The file itself, in case the path is a link or the process changes its directory. Empty if there is
    /// none. Everything that is done with the file goes by this path. Messages name the other one.
    pub(crate) target: PathBuf,
    /// The file. Compaction replaces it.
    /// `None` once it is closed.
    open: Mutex<Option<Arc<OpenFile>>>,
    /// Compaction may change the plan.
    settings: Mutex<Arc<Settings>>,
    /// Whether it is known that the name of the file is as durable as its content.
    is_name_durable: AtomicBool,
    pub(crate) sizes: Sizes,
    cache: Arc<BlockCache>,
    pub(crate) limit: CacheLimit,
    /// Whether the event was reported that the tables do not fit into the cache.
    has_warned: AtomicBool,
    /// The last commit. `None` while pages are checked, and after that if the file cannot be read.
    current: Mutex<Option<Arc<View>>>,
    /// Held by every commit, from reading the last state to publishing the next.
    gate: Mutex<()>,
    /// Held while a step of a merge is prepared and applied. It is taken before the gate.
    pub(crate) merging: Mutex<()>,
    /// The number of transactions that commit or wait to commit. Merges let them go first.
    committing: AtomicUsize,
    pub(super) turns: Turns,
    /// The open snapshots, and the commits that are still read although there are newer ones.
    pins: Pins,
    pub(crate) meters: Arc<Meters>,
    /// Signalled after each commit, and when the merging thread fails, has nothing to do or is to stop.
    /// Merges wait for it, and so do transactions that are ahead of the merges.
    pub(crate) changed: Condvar,
    pub(crate) progress: Mutex<Progress>,
    /// The commit that failed, if one did. It is then not known what the file holds.
    failed: Mutex<Option<Failure>>,
}

/// A commit, or an attempt to open the file again, that failed.
struct Failure {
    reason: String,
    /// The generation of the last commit that was published. No older one may be found later.
    generation: u64,
}

impl Shared {
    /// Reads the settings and the last commit of a file.
    pub(crate) fn new(
        path: &Path,
        open: OpenFile,
        limit: CacheLimit,
        sizes: Sizes,
    ) -> Result<Self> {
        let target = target_of(path)?;
        let open = Arc::new(open);
        let cache = Arc::new(BlockCache::new(limit.own_bytes() as u64));
        let settings = Arc::new(Settings::read(&open.engine.begin_read(0)?, path)?);
        let view = Arc::new(View::new(&open, None, settings.clone(), cache.clone())?);
        let shared = Self {
            process: Process::here(),
            is_closed: AtomicBool::new(false),
            path: path.to_owned(),
            target,
            open: Mutex::new(Some(open)),
            settings: Mutex::new(settings),
            is_name_durable: AtomicBool::new(false),
            sizes,
            cache,
            limit,
            has_warned: AtomicBool::new(false),
            current: Mutex::new(Some(view.clone())),
            gate: Mutex::new(()),
            merging: Mutex::new(()),
            committing: AtomicUsize::new(0),
            turns: Turns::default(),
            pins: Pins::default(),
            meters: Arc::new(Meters::new()),
            changed: Condvar::new(),
            progress: Mutex::new(Progress::default()),
            failed: Mutex::new(None),
        };
        shared.share_cache(view.state());
        Ok(shared)
    }

    /// Refuses a call that cannot be answered. All calls begin with this, before they take a lock: in a process that
    /// was forked, threads that it does not have may hold the locks.
    #[inline]
    pub(crate) fn ensure_usable(&self) -> Result<()> {
        self.process.ensure_here()?;
        if self.is_closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Whether this is the process that opened the file. In another, nothing is given back that it has only inherited.
    pub(crate) fn is_here(&self) -> bool {
        self.process.is_here()
    }

    /// The metadata of the file, such as its size.
    pub(crate) fn metadata(&self) -> Result<fs::Metadata> {
        self.ensure_usable()?;
        self.open()?.file.metadata().map_err(Error::io(&self.path))
    }

    /// The last commit.
    pub(crate) fn view(&self) -> Result<Arc<View>> {
        let view = self.current_view()?;
        // A process that only reads commits nothing.
        if self.limit.look_now_and_then() {
            self.share_cache(view.state());
        }
        Ok(view)
    }

    fn current_view(&self) -> Result<Arc<View>> {
        let mut current = self.current.lock();
        if let Some(view) = &*current {
            return Ok(view.clone());
        }
        self.ensure_certain()?;
        let view = Arc::new(self.load(&self.open()?)?);
        *current = Some(view.clone());
        Ok(view)
    }

    /// Reads the last commit from the file.
    fn load(&self, open: &Arc<OpenFile>) -> Result<View> {
        View::new(open, None, self.current_settings(), self.cache.clone())
    }

    /// Commits the edit that `change` makes of the last state, and publishes it. `change` also gets the blocks
    /// of that state.
    pub(crate) fn commit<E: From<Error>>(
        &self,
        change: impl FnOnce(&mut Edit, &Blocks) -> Result<(), E>,
    ) -> Result<(), E> {
        let gate = self.gate.lock();
        self.ensure_certain()?;
        let view = self.view()?;
        let generation = view.state().generation();
        let mut edit = Edit::new(view.state().clone(), view.settings().file, &self.sizes);
        change(&mut edit, view.blocks())?;
        drop(view);
        let gone = mem::take(&mut edit.gone);
        let freed_bytes = edit.freed_bytes;
        match self.publish(edit) {
            Ok(view) => {
                // The cache would otherwise fill up with blocks that nobody asks for.
                for id in gone {
                    self.cache.forget(id);
                }
                self.limit.look_now_and_then();
                self.share_cache(view.state());
                self.replace_current(view, freed_bytes);
            }
            // The transaction's own temporary file failed. The engine has undone the change.
            Err(error @ Error::SpillFile { .. }) => return Err(error.into()),
            Err(error) => {
                // It is not known whether the commit is durable, nor what the engine will do next.
                *self.failed.lock() = Some(Failure {
                    reason: innermost(&error),
                    generation,
                });
                return Err(error.into());
            }
        }
        drop(gate);
        self.progress.lock().commits += 1;
        self.changed.notify_all();
        Ok(())
    }

    fn publish(&self, edit: Edit) -> Result<View> {
        let open = self.open()?;
        edit.write(&open.engine)?;
        View::new(
            &open,
            Some(edit.state),
            self.current_settings(),
            self.cache.clone(),
        )
    }

    /// Publishes the last commit once more, with its rows arranged otherwise in memory. Nothing is written.
    pub(crate) fn rearrange(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let _gate = self.gate.lock();
        self.ensure_certain()?;
        let view = self.view()?;
        let mut state = view.state().clone();
        change(&mut state);
        let settings = view.settings().clone();
        let view = View::new(&self.open()?, Some(state), settings, self.cache.clone())?;
        self.replace_current(view, 0);
        Ok(())
    }

    /// Makes a view the last commit. It frees some bytes of the file when nobody reads the commits before it.
    fn replace_current(&self, view: View, freed_bytes: u64) {
        let before = self.current.lock().replace(Arc::new(view));
        if let Some(before) = &before {
            self.pins.note(before, self.meters.count(Count::FreedBytes));
        }
        self.meters.add(Count::FreedBytes, freed_bytes);
    }

    /// Does what [`commit`](Self::commit) does, for a transaction. Merges let it go first.
    pub(crate) fn commit_transaction<E: From<Error>>(
        &self,
        change: impl FnOnce(&mut Edit, &Blocks) -> Result<(), E>,
    ) -> Result<(), E> {
        self.ensure_named()?;
        self.make_name_durable()?;
        self.committing.fetch_add(1, Ordering::AcqRel);
        let committed = self.commit(change);
        self.committing.fetch_sub(1, Ordering::AcqRel);
        committed
    }

    /// Refuses to write to a file that was removed or replaced. Nobody would find there what is written.
    fn ensure_named(&self) -> Result<()> {
        if self.target.as_os_str().is_empty() {
            return Ok(());
        }
        let open = self.open()?;
        if names_of(&open.file).map_err(Error::io(&self.path))? > 0 {
            return Ok(());
        }
        // Some file systems do not count names. There the path tells.
        let metadata = open.file.metadata().map_err(Error::io(&self.path))?;
        if fs::metadata(&self.target).is_ok_and(|there| is_same_file(&metadata, &there)) {
            return Ok(());
        }
        Err(Error::Removed {
            path: self.path.clone(),
        })
    }

    /// Makes the name of the file durable before the first commit to it. Whoever gave it the name may have been killed
    /// before that, and after a power cut the file would be gone, or an older one would be back.
    fn make_name_durable(&self) -> Result<()> {
        if self.target.as_os_str().is_empty() || self.is_name_durable.load(Ordering::Acquire) {
            return Ok(());
        }
        match sync_directory(folder_of(&self.target)) {
            // Who may not read the directory cannot sync it, and has not given the file its name.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(Error::io(&self.path))?,
        }
        self.is_name_durable.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether a transaction commits or waits to commit.
    pub(crate) fn is_transaction_waiting(&self) -> bool {
        self.committing.load(Ordering::Acquire) > 0
    }

    /// Replaces the file by a copy of the database, and the settings by those of the copy. `view` is what
    /// the copy holds. The caller makes sure that nobody commits.
    pub(crate) fn swap(&self, open: Arc<OpenFile>, view: View) {
        self.is_name_durable.store(false, Ordering::Release);
        let old = self.open.lock().replace(open);
        *self.settings.lock() = view.settings().clone();
        self.replace_current(view, 0);
        // Who still reads the old file keeps all of it.
        let length = old
            .and_then(|old| old.file.metadata().ok())
            .map_or(0, |metadata| metadata.len());
        self.pins.file_replaced(length);
        // Only old snapshots could ask for the blocks of the old file.
        self.cache.clear();
    }

    /// Whether the checksums of all pages are right. If not, the engine goes back to the last whole
    /// commit, if there is one.
    pub(crate) fn check_pages(&self) -> Result<bool> {
        const PAUSE: Duration = Duration::from_millis(1);
        self.ensure_usable()?;
        // A compaction, whose progress asks for this, would be waited for without end.
        if self.turns.is_used_here() {
            return Err(self.in_use());
        }
        loop {
            if let Some(checked) = self.check_pages_alone()? {
                return Ok(checked);
            }
            // Whoever reads the file without a snapshot or a turn does so for a moment.
            if self.pins.snapshots() > 0 || self.turns.is_taken() {
                return Err(self.in_use());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Checks the pages, as `check_pages` says. `None`, with nothing changed, if others read the file.
    fn check_pages_alone(&self) -> Result<Option<bool>> {
        let _merging = self.merging.lock();
        let _gate = self.gate.lock();
        self.ensure_certain()?;
        let mut current = self.current.lock();
        let mut open = self.open.lock();
        let open = open.as_mut().ok_or(Error::Closed)?;
        // The views of snapshots hold the file too.
        let is_read = current
            .as_ref()
            .is_some_and(|view| Arc::strong_count(view) > 1);
        if is_read || Arc::strong_count(open) > 1 + usize::from(current.is_some()) {
            return Ok(None);
        }
        let before = current.take().map(|view| view.state().generation());
        let checked = Arc::get_mut(open).ok_or_else(|| self.in_use());
        let checked = checked.and_then(|open| open.engine.check_integrity());
        // The engine may have gone back to an older commit. So everything is read again. The cache is
        // emptied, since the numbers of blocks after that commit will be given to others. If the file
        // cannot be read, the next call of `view` returns the error.
        if !planted("a block that was replaced stays in the cache") {
            self.cache.clear();
        }
        *current = self.load(open).ok().map(Arc::new);
        let after = current.as_ref().map(|view| view.state().generation());
        let went_back = match (before, after) {
            (Some(before), Some(after)) => after < before,
            _ => false,
        };
        Ok(Some(checked? && !went_back))
    }

    /// Whether the engine refuses to go on until the file is opened again.
    #[cfg(feature = "serve")]
    pub(crate) fn has_failed(&self) -> bool {
        let open = self.open.lock();
        open.as_ref().is_some_and(|open| open.engine.has_failed())
    }

    /// The error for an operation that needs the database for itself.
    fn in_use(&self) -> Error {
        Error::InUse {
            snapshots: self.pins.snapshots(),
            transaction: self.turns.is_taken(),
        }
    }

    /// Opens the file again if the engine has failed, and goes on with what the file holds. Snapshots of
    /// before can then no longer be read. The caller has the turn to write. Returns whether it had failed.
    pub(crate) fn open_again(&self) -> Result<bool> {
        let _merging = self.merging.lock();
        let _gate = self.gate.lock();
        let mut current = self.current.lock();
        let mut open = self.open.lock();
        let open = open.as_mut().ok_or(Error::Closed)?;
        if self.ensure_certain().is_ok() && current.is_some() && !open.engine.has_failed() {
            return Ok(false);
        }
        let generation = match (&*current, &*self.failed.lock()) {
            (Some(view), _) => view.state().generation(),
            (None, Some(failure)) => failure.generation,
            (None, None) => 0,
        };
        // Until the file is read, nothing is known of it.
        *current = None;
        let opened = open.open_again(&self.target).and_then(|again| {
            *open = Arc::new(again);
            self.load(open)
        });
        let opened = opened.and_then(|view| match view.state().generation() {
            // New blocks would get the numbers of lost ones, which old snapshots keep in the cache.
            found
                if found < generation && !planted("lost commits are not noticed at reopening") =>
            {
                Err(Error::corrupted(COMMITS_LOST))
            }
            _ => Ok(Arc::new(view)),
        });
        *self.failed.lock() = match &opened {
            Ok(_) => None,
            Err(error) => Some(Failure {
                reason: innermost(error),
                generation,
            }),
        };
        *current = Some(opened?);
        drop((current, open));
        // Snapshots of before can read nothing, and keep nothing.
        if !planted("a pin is kept at reopening") {
            self.pins.forget_all();
        }
        // The merging thread waits for this. What failed before the file was opened again says nothing of it.
        let mut progress = self.progress.lock();
        if !progress.has_no_thread {
            progress.failure = None;
        }
        progress.reopenings += 1;
        progress.commits += 1;
        drop(progress);
        self.changed.notify_all();
        Ok(true)
    }

    /// Whether this thread has the turn to write.
    pub(crate) fn is_writing_here(&self) -> bool {
        self.turns.is_used_here()
    }

    /// A snapshot: what is committed now.
    pub(crate) fn begin_read(&self) -> Result<StoredSnapshot> {
        self.ensure_usable()?;
        self.pins.snapshot(|| self.view())
    }

    /// What readers count.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.cache.tallies
    }

    /// What was counted of the open file, and how it stands now. The latter is left out if it cannot be used.
    pub(crate) fn metrics(&self) -> Metrics {
        let mut metrics = self.meters.metrics(&self.cache.tallies);
        if self.ensure_usable().is_err() {
            return metrics;
        }
        self.meters.add_queued(&mut metrics);
        metrics.file_bytes = self.metadata().map_or(0, |metadata| metadata.len());
        metrics.cache_bytes = self.cache.bytes();
        metrics.cache_limit_bytes = self.limit.bytes() as u64;
        self.pins
            .add_to(&mut metrics, self.meters.count(Count::FreedBytes));
        // No view is kept meanwhile. Somebody could need the database for itself.
        if let Some(view) = &*self.current.lock() {
            let state = view.state();
            metrics.documents = state.counters.documents;
            metrics.waiting_changes = state.recent_operations;
            metrics.cache_bytes += state.directory_bytes() as u64;
            for any in state.sets.sets() {
                metrics.waiting_rows += by_row!(any, set => state.sets[set].memory_rows());
            }
        }
        metrics
    }

    /// Gives decoded blocks the part of the cache that the directories do not take.
    fn share_cache(&self, state: &State) {
        let left = self.limit.block_bytes(state.directory_bytes());
        self.cache.set_rows_fit(tables_capacity(state) <= left);
        if left.abs_diff(self.cache.capacity()) > left / 64 {
            self.cache.set_capacity(left);
        }
        let limit = self.limit.bytes() as u64;
        let need = tables_need(state);
        if need > limit && !self.has_warned.swap(true, Ordering::Relaxed) {
            events::tables_do_not_fit(&self.path, limit, need);
        }
    }

    /// Sets another limit of the cache.
    pub(crate) fn set_cache(&self, cache: Cache) -> Result<()> {
        self.ensure_usable()?;
        self.limit.set(cache);
        self.share_cache(self.current_view()?.state());
        Ok(())
    }

    /// The settings, with the plan that the last compaction has chosen.
    fn current_settings(&self) -> Arc<Settings> {
        self.settings.lock().clone()
    }

    /// The file, or [`Error::Closed`].
    fn open(&self) -> Result<Arc<OpenFile>> {
        self.open.lock().clone().ok_or(Error::Closed)
    }

    /// Refuses to write to a file that is open for reading only.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        self.ensure_usable()?;
        self.open()?.engine.ensure_writable()
    }

    /// Makes everything that is done with the file fail from now on, or no longer.
    #[cfg(test)]
    pub(crate) fn set_broken(&self, is_broken: bool) {
        let open = self.open().expect("the file is not closed");
        open.engine.set_broken(is_broken);
    }

    /// Closes the file. The caller has the turn to write, and nothing is merged any more. Snapshots can read nothing
    /// from then on, and every call is [`Error::Closed`].
    pub(crate) fn close_file(&self) -> Result<()> {
        let _merging = self.merging.lock();
        let _gate = self.gate.lock();
        self.is_closed.store(true, Ordering::Release);
        // The last commit has the file too.
        drop(self.current.lock().take());
        let open = self.open.lock().take().ok_or(Error::Closed)?;
        self.cache.clear();
        self.changed.notify_all();
        match Arc::try_unwrap(open) {
            Ok(open) => {
                drop(open);
                Ok(())
            }
            Err(open) => open.close_under_readers(&self.target),
        }
    }

    /// Refuses to go on after a commit whose outcome is not known.
    pub(crate) fn ensure_certain(&self) -> Result<()> {
        self.ensure_usable()?;
        match &*self.failed.lock() {
            Some(Failure { reason, .. }) => Err(Error::OutcomeUnknown {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }
}

const COMMITS_LOST: &str =
    "commits that were acknowledged are no longer in the file: close the database, and check it";

/// The path of the file itself. Empty if `path` is empty, since a recorded storage has no path.
fn target_of(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Ok(PathBuf::new());
    }
    fs::canonicalize(path).map_err(Error::io(path))
}

fn innermost(error: &Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

/// What the merging thread and the transactions tell each other.
#[derive(Default)]
pub(crate) struct Progress {
    /// The number of commits. A thread that waits for a commit compares it, and so misses none.
    pub(crate) commits: u64,
    /// How often the file was opened again after a failure.
    pub(crate) reopenings: u64,
    /// Whether the thread is to end.
    pub(crate) stop: bool,
    /// If the last merge failed, the error for a transaction that waits for it.
    pub(crate) failure: Option<Error>,
    /// Whether nothing will be merged any more, since the system gave no thread.
    pub(crate) has_no_thread: bool,
}

// Pins: the open snapshots, and what they keep the file from using again.
//
// The engine uses the space that a commit frees only when nobody reads an earlier commit any more. So the oldest
// commit that is still read keeps everything that was freed since. The engine does not tell how much that is. It
// is reckoned from the blocks that commits remove.

/// The open snapshots, and the commits that are still read although there are newer ones.
#[derive(Default)]
struct Pins {
    /// The number of open snapshots.
    snapshots: Arc<AtomicUsize>,
    /// The oldest first.
    pins: Mutex<Vec<Pin>>,
}

/// A commit that was still read when a newer one came.
struct Pin {
    view: Weak<View>,
    /// When the newer one came.
    since: Instant,
    keeps: Keeps,
}

/// What a commit that is still read keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// What commits have freed since they had freed this number of bytes.
    FreedSince(u64),
    /// A file of this length, which compaction has replaced. Later commits free space of another file.
    OldFile { number: u64, bytes: u64 },
}

impl Pin {
    fn is_read(&self) -> bool {
        self.view.strong_count() > 0
    }
}

impl Pins {
    /// A snapshot of the commit that `view` gives. It counts before that: whoever finds the view in use is to find
    /// the snapshot counted.
    fn snapshot(&self, view: impl FnOnce() -> Result<Arc<View>>) -> Result<StoredSnapshot> {
        let open = OpenSnapshot::new(&self.snapshots);
        Ok(StoredSnapshot {
            view: view()?,
            _open: open,
        })
    }

    /// The number of open snapshots.
    fn snapshots(&self) -> usize {
        self.snapshots.load(Ordering::Acquire)
    }

    /// Notes that a newer commit took the place of `before`. Until now, commits have freed `freed_bytes`.
    fn note(&self, before: &Arc<View>, freed_bytes: u64) {
        let mut pins = self.pins.lock();
        pins.retain(Pin::is_read);
        // The caller holds it too.
        if Arc::strong_count(before) > 1 {
            let keeps = Keeps::FreedSince(freed_bytes);
            pins.push(Pin {
                view: Arc::downgrade(before),
                since: Instant::now(),
                keeps,
            });
        }
    }

    /// Notes that another file took the place of a file of this length. Those that are noted read the old file.
    fn file_replaced(&self, bytes: u64) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        for pin in &mut *self.pins.lock() {
            if matches!(pin.keeps, Keeps::FreedSince(_)) {
                pin.keeps = Keeps::OldFile { number, bytes };
            }
        }
    }

    /// Adds the snapshots, and what they keep, to metrics. Until now, commits have freed `freed_bytes`.
    fn add_to(&self, metrics: &mut Metrics, freed_bytes: u64) {
        metrics.snapshots = self.snapshots() as u64;
        let mut before = None;
        // The oldest of the pins of a file keeps what the others keep too.
        for pin in self.pins.lock().iter().filter(|pin| pin.is_read()) {
            metrics
                .oldest_pin
                .get_or_insert_with(|| pin.since.elapsed());
            let is_counted = before.is_some_and(|before| match (before, pin.keeps) {
                (Keeps::FreedSince(_), Keeps::FreedSince(_)) => true,
                (before, keeps) => before == keeps,
            });
            if !is_counted {
                metrics.pinned_bytes += match pin.keeps {
                    Keeps::FreedSince(freed_before) => freed_bytes.saturating_sub(freed_before),
                    Keeps::OldFile { bytes, .. } => bytes,
                };
            }
            before = Some(pin.keeps);
        }
    }

    /// Notes that none of them can read any more.
    fn forget_all(&self) {
        self.pins.lock().clear();
    }
}

/// A snapshot: what is committed at one moment. It and each clone count as open until they are dropped.
#[derive(Clone)]
pub(crate) struct StoredSnapshot {
    view: Arc<View>,
    _open: OpenSnapshot,
}

/// One of the number of open snapshots.
struct OpenSnapshot(Arc<AtomicUsize>);

impl Clone for OpenSnapshot {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl OpenSnapshot {
    fn new(snapshots: &Arc<AtomicUsize>) -> Self {
        snapshots.fetch_add(1, Ordering::AcqRel);
        Self(snapshots.clone())
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Deref for StoredSnapshot {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl fmt::Debug for StoredSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSnapshot").finish_non_exhaustive()
    }
}
