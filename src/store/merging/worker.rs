//! The thread that merges: it freezes the recent runs when they are long enough or nothing else happens, does the most
//! urgent merge, one step at a time, and lets transactions go first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::store::engine::guard::guarded;
use crate::store::file::shared::{Progress, Shared};
use crate::store::file::state::{Edit, SetNumber, SetRow};
use crate::store::merging::reclaim::{self, Found, Sweep};
use crate::store::merging::step::{self as merge, Task};
use crate::store::store::lock;

/// Recent rows may be so many times their limit before a transaction waits for the merges.
const MOST_WAITING: usize = 4;

/// When nothing has been committed for so long, recent rows are merged although there is room for more, if they are at
/// least such a part of the limit (fewer are not worth what is written for them): queries then need not look for them in
/// many runs, and the next start need not read them from the log.
const PAUSE_BEFORE_FREEZING: Duration = Duration::from_secs(1);
const LEAST_FREEZING_PART: usize = 4;

/// After a merge that could not read what it needs, it is tried again after so long.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Why the last merge failed.
pub(crate) struct MergeFailure {
    /// Whether the file is damaged, rather than the disk full, say.
    damage: bool,
    reason: String,
}

impl MergeFailure {
    fn new(error: &Error) -> Self {
        let reason = match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        Self { damage: matches!(error, Error::Damaged { .. } | Error::Corrupted(_)), reason }
    }

    /// As those are told who wait for the merge.
    fn to_error(&self) -> Error {
        let cause = format!("levels could not be merged: {}", self.reason).into();
        if self.damage { Error::Corrupted(cause) } else { Error::Storage(cause) }
    }
}

/// The merging thread of an open file; it ends when this is dropped.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(shared: Arc<Shared>) -> Self {
        let its = shared.clone();
        let run = move || its.merge_until_stopped();
        let thread = thread::Builder::new().name("simdb-merge".to_owned()).spawn(run);
        // Without a thread nothing is merged, and transactions that come too far ahead say so.
        if let Err(error) = &thread {
            lock(&shared.progress).failure = Some(MergeFailure { damage: false, reason: error.to_string() });
        }
        Self { shared, thread: thread.ok() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        lock(&self.shared.progress).stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panics are ours; there is nobody to tell while dropping, and the file is whole at every step.
            _ = thread.join();
        }
    }
}

impl Shared {
    fn merge_until_stopped(&self) {
        let mut sweep = Sweep::default();
        let mut idle = false;
        loop {
            let commits = {
                let progress = lock(&self.progress);
                if progress.stop {
                    return;
                }
                progress.commits
            };
            match guarded(|| self.merge_once(&mut sweep, idle)) {
                Ok(true) => {
                    idle = false;
                    lock(&self.progress).failure = None;
                }
                Ok(false) => {
                    lock(&self.progress).failure = None;
                    self.changed.notify_all();
                    idle = !self.wait_for_commit_after(commits, idle);
                }
                Err(error) => {
                    lock(&self.progress).failure = Some(MergeFailure::new(&error));
                    self.changed.notify_all();
                    if self.ensure_certain().is_err() {
                        return;
                    }
                    let progress = lock(&self.progress);
                    let stopped = |progress: &mut Progress| !progress.stop;
                    drop(self.changed.wait_timeout_while(progress, PAUSE_AFTER_FAILURE, stopped));
                }
            }
        }
    }

    /// Waits for a commit, if not idle already only until it is; whether there was one.
    fn wait_for_commit_after(&self, commits: u64, idle: bool) -> bool {
        let progress = lock(&self.progress);
        let none = |progress: &mut Progress| progress.commits == commits && !progress.stop;
        let limit = if idle { Duration::MAX } else { PAUSE_BEFORE_FREEZING };
        let waited = self.changed.wait_timeout_while(progress, limit, none);
        !waited.unwrap_or_else(std::sync::PoisonError::into_inner).1.timed_out()
    }

    /// Does one step of the most urgent work; false if there is none.
    fn merge_once(&self, sweep: &mut Sweep, idle: bool) -> Result<bool> {
        let _merging = lock(&self.merging);
        let view = self.view()?;
        let state = view.state();
        let part = if idle { LEAST_FREEZING_PART } else { 1 };
        if state.is_freezing_due(self.sizes.recent_rows.div_ceil(part)) {
            drop(view);
            self.yield_to_transactions();
            self.commit_merge(Edit::freeze)?;
            return Ok(true);
        }
        if let Some(task) = merge::most_urgent(state, &self.sizes) {
            match task.set {
                SetNumber::Wide(_) => self.merge_step::<u128>(view, task)?,
                SetNumber::Narrow(_) => self.merge_step::<u64>(view, task)?,
            }
            return Ok(true);
        }
        match reclaim::prepare(state, view.blocks(), sweep, &self.sizes)? {
            Found::Some(step) => {
                drop(view);
                self.yield_to_transactions();
                self.commit_merge(|edit| reclaim::apply(step, edit, &self.sizes))?;
                return Ok(true);
            }
            Found::NoneYet => return Ok(true),
            Found::Done => drop(view),
        }
        Ok(false)
    }

    fn merge_step<R: SetRow>(&self, view: Arc<crate::store::read::View>, task: Task) -> Result<()> {
        let step = merge::prepare::<R>(&view.state().sets, view.blocks(), task, &self.sizes)?;
        // A view pins the pages of its commit.
        drop(view);
        self.yield_to_transactions();
        self.commit_merge(|edit| merge::apply(step, edit, &self.sizes))
    }

    /// Commits what only moves rows.
    fn commit_merge(&self, change: impl FnOnce(&mut Edit)) -> Result<()> {
        self.ensure_room()?;
        self.commit(|_, edit| {
            change(edit);
            Ok(())
        })
    }

    /// Refuses to write where the disk is all but full: what fails to be written leaves the engine unable even to read.
    fn ensure_room(&self) -> Result<()> {
        const NEEDED: u64 = 16 << 20;
        let Some(directory) = self.target.parent() else { return Ok(()) };
        match fs4::available_space(directory) {
            Ok(available) if available < NEEDED => {
                Err(Error::NoRoom { directory: directory.to_owned(), needed: NEEDED, available })
            }
            _ => Ok(()),
        }
    }

    /// Lets transactions commit that already wait to.
    fn yield_to_transactions(&self) {
        let begun = Instant::now();
        while self.committing.load(Ordering::Acquire) > 0 && begun.elapsed() < Duration::from_millis(20) {
            thread::yield_now();
        }
    }

    /// Slows a transaction of so many operations down to what the merges can follow, or stops it until they do.
    pub(crate) fn keep_pace(&self, operations: usize) -> Result<()> {
        let limit = self.sizes.recent_rows;
        let mut slowed = false;
        loop {
            let commits = lock(&self.progress).commits;
            let view = self.view()?;
            let (recent, frozen) = (view.state().sets.recent_rows(), view.state().sets.any_frozen());
            drop(view);
            if recent < limit || !frozen {
                return Ok(());
            }
            if recent < MOST_WAITING * limit {
                // The further behind the merges are, the slower: up to ten microseconds an operation.
                let behind = (recent - limit) as f64 / ((MOST_WAITING - 1) * limit) as f64;
                let pause = Duration::from_secs_f64(behind * 10e-6 * operations as f64);
                if !slowed && pause > Duration::from_micros(100) {
                    thread::sleep(pause.min(Duration::from_millis(50)));
                }
                return Ok(());
            }
            slowed = true;
            let progress = lock(&self.progress);
            if let Some(failure) = &progress.failure {
                return Err(failure.to_error());
            }
            if progress.commits == commits {
                drop(self.changed.wait_timeout(progress, Duration::from_millis(100)));
            }
        }
    }

    /// Waits until no merge is due.
    pub(crate) fn settle(&self) -> Result<()> {
        loop {
            let commits = lock(&self.progress).commits;
            let view = self.view()?;
            let state = view.state();
            let due = state.sets.any_frozen()
                || state.is_freezing_due(self.sizes.recent_rows)
                || merge::most_urgent(state, &self.sizes).is_some();
            drop(view);
            if !due {
                return Ok(());
            }
            self.ensure_certain()?;
            let progress = lock(&self.progress);
            if let Some(failure) = &progress.failure {
                return Err(failure.to_error());
            }
            if progress.commits == commits {
                drop(self.changed.wait_timeout(progress, Duration::from_millis(100)));
            }
        }
    }
}
