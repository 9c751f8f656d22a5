//! Store: an open file, and the thread that merges its levels. Create, open, begin, compact.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;

use super::write::Transaction;
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::files::{NewFile, directory_of, ensure_nothing_at};
use crate::metrics::Timed;
use crate::plan::Plan;
use crate::process::give_up_inherited;
use crate::store::checking::{CheckProgress, CheckReport, Findings, check_rows};
use crate::store::dense::{self, CopyProgress, WarmingProgress};
use crate::store::engine::{Access, Changes, OpenFile, guarded};
#[cfg(test)]
use crate::store::engine::{Engine, StorageBackend};
use crate::store::expiry::{self, Conditions, Removed};
use crate::store::file::{self, CacheLimit, Patience, Settings, Shared, Turn};
use crate::store::merging::{Worker, fold_log, wait_until_idle};
#[cfg(feature = "ingest")]
use crate::store::names_in_use::NamesInUse;
use crate::store::sizes::Sizes;
use crate::sync::Mutex;

/// An open file, and the thread that merges its levels. What needs no such thread is a method of [`Shared`].
pub(crate) struct Store {
    pub(super) shared: Arc<Shared>,
    /// The settings at the time of opening. A compaction changes only the plan.
    settings: Arc<Settings>,
    /// Stops merging when it is dropped. `None` if the file is only read, or closed.
    worker: Mutex<Option<Worker>>,
    /// Those who are to end before the file is closed.
    users: Mutex<Vec<Weak<dyn User>>>,
    /// The names of the sources that are being read.
    #[cfg(feature = "ingest")]
    pub(crate) sources_in_use: NamesInUse,
}

/// Somebody who uses an open file from a thread of its own.
pub(crate) trait User: Send + Sync {
    /// Refuses to be waited for by a thread that it waits for itself.
    fn ensure_may_wait(&self) -> Result<()>;

    /// Ends, when everything that was accepted is done.
    fn end(&self) -> Result<()>;
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

impl Deref for Store {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Store {
    /// Closes the file in order, unless that is done or a panic unwinds.
    fn drop(&mut self) {
        if !self.is_here() {
            // What is left open is closed when the process ends.
            _ = give_up_inherited();
        } else if !thread::panicking() && self.ensure_writable().is_ok() {
            // A drop has nobody to tell. What cannot be folded stays in the log, as after a kill.
            _ = Turn::wait(&self.shared).and_then(|turn| guarded(|| fold_log(&turn)));
        }
    }
}

impl Store {
    /// Creates a file at `path`, where nothing may be yet. Afterwards either the whole new file is there
    /// or nothing. Until it is whole, the file has no name, where the system can do that. Elsewhere it has
    /// a temporary name beside `path`, and a crash may leave it behind.
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        limit: CacheLimit,
        sizes: Sizes,
    ) -> Result<Self> {
        ensure_nothing_at(path)?;
        let new = NewFile::create(directory_of(path)?)?;
        let engine = file::create(&new, path, settings, limit.page_cache_bytes())?;
        engine
            .apply(&Changes::default(), &[])
            .map_err(Error::of_file(path))?;
        // The engine's handle and its lock then belong to the file under its new name.
        new.temporary.keep_as(path)?;
        Self::new(path, OpenFile::new(engine, new.file), limit, sizes)
    }

    /// Opens an existing file and checks that this release can read it.
    pub(crate) fn open(
        path: &Path,
        access: Access,
        limit: CacheLimit,
        sizes: Sizes,
    ) -> Result<Self> {
        let open = OpenFile::open(path, access, limit.page_cache_bytes())?;
        Self::new(path, open, limit, sizes)
    }

    /// Reads the settings and the last commit of the file, and starts to merge.
    fn new(path: &Path, open: OpenFile, limit: CacheLimit, sizes: Sizes) -> Result<Self> {
        let writes = open.engine.ensure_writable().is_ok();
        let shared = Arc::new(Shared::new(path, open, limit, sizes)?);
        let worker = writes.then(|| Worker::start(shared.clone()));
        Ok(Self {
            settings: shared.view()?.settings().clone(),
            shared,
            worker: Mutex::new(worker),
            users: Mutex::default(),
            #[cfg(feature = "ingest")]
            sources_in_use: NamesInUse::default(),
        })
    }

    /// Opens a store on a storage of a test, or creates it if there are settings.
    #[cfg(test)]
    pub(crate) fn on_backend(
        backend: impl StorageBackend,
        settings: Option<&Settings>,
        sizes: Sizes,
    ) -> Result<Self> {
        let limit = CacheLimit::for_tests();
        let rows = settings.map(file::first_rows);
        let first = rows
            .as_ref()
            .map(|(block_tables, meta)| (*block_tables, &meta[..]));
        let engine = Engine::on_backend(backend, limit.page_cache_bytes(), first)?;
        let file = tempfile::tempfile();
        let file = file.map_err(Error::io(Path::new("")))?;
        Self::new(
            Path::new(""),
            OpenFile::new(engine, crate::process::Kept::new(file)),
            limit,
            sizes,
        )
    }

    /// A new store in memory, with the settings of tests.
    #[cfg(test)]
    pub(crate) fn for_tests(sizes: Sizes) -> Result<Self> {
        let settings = Settings::for_tests();
        Self::on_backend(crate::store::Recording::default(), Some(&settings), sizes)
    }

    /// What is shared by all who use the file. All calls of handles go through here.
    #[inline]
    fn shared(&self) -> Result<&Arc<Shared>> {
        self.shared.ensure_usable()?;
        Ok(&self.shared)
    }

    /// The settings, but for the plan and the seed of the file, which a compaction changes.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Checks the pages. Then checks that documents and the rows of all sets name each other and nothing
    /// else.
    pub(crate) fn check(&self, progress: CheckProgress<'_>) -> Result<CheckReport> {
        const PAGES_WRONG: &str =
            "checksums were wrong, or commits were lost, and the last whole commit was restored";
        let pages_verified = self.ensure_writable().is_ok();
        let mut findings = Findings::default();
        if pages_verified {
            let checked = self.check_pages().and_then(|are_right| match are_right {
                true => Ok(()),
                false => Err(Error::corrupted(PAGES_WRONG)),
            });
            findings.first("pages", checked)?;
        }
        // Damaged pages say nothing of the rows that were on them. Other rows may still be readable.
        let begun = self.begin_read();
        let report = match findings.first("pages", begun)? {
            Some(snapshot) => check_rows(&snapshot, findings, progress)?,
            None => findings.report(0, 0),
        };
        Ok(CheckReport {
            pages_verified,
            ..report
        })
    }

    /// Waits until no other transaction writes, and begins one. `None` if that does not come in time.
    pub(crate) fn begin_write(&self, patience: Patience) -> Result<Option<Transaction>> {
        self.ensure_writable()?;
        let turn = Turn::take(self.shared()?, patience)?;
        turn.map(Transaction::new).transpose()
    }

    /// If the engine has failed, opens the file again and goes on with what it holds.
    pub(crate) fn reopen(&self) -> Result<()> {
        let turn = Turn::wait(self.shared()?)?;
        let watch = Watch::begin(Operation::Reopening, &self.path);
        let (had_failed, took) = watch.end(turn.open_again())?;
        Event::Reopened { had_failed }.report(took);
        Ok(())
    }

    /// Notes that somebody is to end before the file is closed.
    pub(crate) fn note_user(&self, user: Weak<dyn User>) {
        let mut users = self.users.lock();
        users.retain(|user| user.strong_count() > 0);
        users.push(user);
    }

    /// Refuses to close the file in a thread that would wait for itself.
    pub(crate) fn ensure_may_close(&self) -> Result<()> {
        if self.shared()?.is_writing_here() {
            return Err(Error::WouldDeadlock);
        }
        for user in self.users() {
            user.ensure_may_wait()?;
        }
        Ok(())
    }

    fn users(&self) -> Vec<Arc<dyn User>> {
        self.users.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes the file in order: ends those who use it, puts the rows of the log into the tables, and gives the lock
    /// away. Returns the first error. The file is closed all the same.
    pub(crate) fn close(&self) -> Result<()> {
        let shared = self.shared()?;
        let mut outcome = Ok(());
        for user in self.users() {
            outcome = outcome.and(user.end());
        }
        let turn = Turn::wait(shared)?;
        // Somebody else may have closed it meanwhile.
        shared.ensure_usable()?;
        if shared.ensure_writable().is_ok() {
            outcome = outcome.and(match guarded(|| fold_log(&turn)) {
                // What is stored is safe in the log. It is folded when there is room.
                Err(Error::NoRoom { .. }) => Ok(()),
                folded => folded,
            });
        }
        drop(self.worker.lock().take());
        outcome.and(shared.close_file())
    }

    /// Removes the documents that meet the conditions, in steps that are transactions of their own, until
    /// there are none or `removed` interrupts. Returns their number.
    pub(crate) fn expire(&self, conditions: &Conditions, removed: Removed<'_>) -> Result<u64> {
        self.ensure_writable()?;
        let watch = Watch::begin(Operation::Expiry, &self.path);
        let (removed, took) = watch.end(expiry::expire(&self.shared, conditions, removed))?;
        Event::Expired { removed }.report(took);
        Ok(removed)
    }

    /// Replaces the file by a dense copy, with the tables of `plan` if there is one. Nobody writes while
    /// it is made. Snapshots go on with the old file. Its space is free when the last of them is gone.
    pub(crate) fn compact(&self, plan: Option<Plan>, progress: CopyProgress<'_>) -> Result<()> {
        self.ensure_writable()?;
        let shared = self.shared()?;
        let turn = Turn::wait(shared)?;
        let merging = turn.merging.lock();
        turn.ensure_certain()?;
        let before = self.length();
        let resident = dense::resident_rows(&*shared.view()?);
        let watch = Watch::begin(Operation::Compaction, &self.path);
        let ((), took) = watch.end(dense::compact(&turn, plan, progress))?;
        drop(merging);
        drop(turn);
        self.meters.record(Timed::Compaction, [took]);
        let event = Event::Compacted {
            bytes_before: before,
            bytes_after: self.length(),
        };
        event.report(took);
        // Others read and write again. The file is compacted, whatever becomes of this.
        _ = dense::warm_as_before(shared, &resident);
        Ok(())
    }

    /// Puts into memory what searches read, as far as there is room.
    pub(crate) fn warm(&self, progress: WarmingProgress<'_>) -> Result<()> {
        dense::warm(self.shared()?, progress)
    }

    /// The length of the file. 0 if the system does not tell.
    fn length(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Waits until no merge is due. For tests and measurements.
    pub(crate) fn settle(&self) -> Result<()> {
        wait_until_idle(self.shared()?)
    }
}
