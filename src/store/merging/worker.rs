//! The merging thread. It freezes the recent runs when they are long enough, or when nothing is committed
//! for a while. Then it does the most urgent merge, one step at a time. Transactions go first.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::due::{self, Pause, Source, Work, ensure_room};
use super::reclaim::{self, Look, Sweep};
use super::step;
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::metrics::{Count, Timed};
use crate::parallel;
use crate::process::OfProcess;
use crate::store::blocks::Blocks;
use crate::store::engine::guarded;
use crate::store::file::{AnySet, Edit, Progress, Set, SetRow, Sets, Shared, State, View, by_row};
use crate::store::sorted_set::{Level, SetLevel};

/// After this time without commits, a pause is a short one.
const PAUSE_BEFORE_FEWER_RUNS: Duration = Duration::from_millis(50);
/// After this time more, a pause is a long one.
const PAUSE_BEFORE_FREEZING: Duration = Duration::from_secs(1);

/// After a merge has failed, it is tried again after this time.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A merge waits up to this time for transactions that are about to commit.
const LONGEST_YIELD: Duration = Duration::from_millis(20);

/// The merging thread of an open file. It ends when this is dropped.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<OfProcess<JoinHandle<()>>>,
}

impl Worker {
    pub(crate) fn start(shared: Arc<Shared>) -> Self {
        let mut merger = Merger {
            shared: shared.clone(),
            sweep: Sweep::default(),
        };
        let thread = thread::Builder::new()
            .name("simdb-merge".to_owned())
            .spawn(move || merger.run());
        // Without a thread nothing is merged. A transaction that comes too far ahead gets this error.
        if let Err(error) = &thread {
            let mut progress = shared.progress.lock();
            progress.failure = Some(Error::storage(format!("{NOT_MERGED}: {error}")));
            progress.has_no_thread = true;
        }
        Self {
            shared,
            thread: thread.ok().map(OfProcess::new),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A forked process has no such thread, and what it shares with the thread may be locked for ever.
        if !self.shared.is_here() {
            return;
        }
        self.shared.progress.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take().and_then(OfProcess::take) {
            // A panic of the thread is an error of simdb. A drop has nobody to tell, and every step left
            // the file whole.
            _ = thread.join();
        }
    }
}

/// Puts merged runs of a set in their place.
type Replace = Box<dyn FnOnce(&mut State) + Send>;

/// What runs in the thread.
struct Merger {
    shared: Arc<Shared>,
    sweep: Sweep,
}

impl Merger {
    fn run(&mut self) {
        let mut pause = Pause::None;
        let mut seen = 0;
        loop {
            let progress = self.shared.progress.lock();
            if progress.stop {
                return;
            }
            let commits = progress.commits;
            let reopenings = progress.reopenings;
            drop(progress);
            if commits != seen {
                pause = Pause::None;
                seen = commits;
            }
            match guarded(|| self.merge_once(pause)) {
                Ok(true) => {
                    self.shared.progress.lock().failure = None;
                }
                Ok(false) => {
                    self.shared.progress.lock().failure = None;
                    self.shared.changed.notify_all();
                    let came = self.wait_for_commit_after(commits, pause);
                    pause = match pause {
                        _ if came => Pause::None,
                        Pause::None => Pause::Short,
                        Pause::Short | Pause::Long => Pause::Long,
                    };
                }
                Err(error) => self.wait_after(&error, commits, reopenings),
            }
        }
    }

    /// Waits after a merge has failed, unless the file was opened again since the merge began.
    fn wait_after(&self, error: &Error, commits: u64, reopenings: u64) {
        let shared = &self.shared;
        shared.meters.add(Count::FailedMerges, 1);
        let mut progress = shared.progress.lock();
        if progress.reopenings != reopenings {
            return;
        }
        progress.failure = Some(not_merged(error));
        drop(progress);
        shared.changed.notify_all();
        let is_certain = shared.ensure_certain().is_ok();
        let progress = &mut shared.progress.lock();
        if is_certain {
            shared.changed.wait_while_for(
                progress,
                |progress| !progress.stop && progress.reopenings == reopenings,
                PAUSE_AFTER_FAILURE,
            );
        } else {
            // Nothing is committed until the file is opened again.
            shared
                .changed
                .wait_while(progress, |progress| is_quiet(progress, commits));
        }
    }

    /// Waits for a commit, and returns whether it came. It waits only until the pause is a longer one.
    fn wait_for_commit_after(&self, commits: u64, pause: Pause) -> bool {
        let changed = &self.shared.changed;
        let mut progress = self.shared.progress.lock();
        let longest = match pause {
            Pause::None => PAUSE_BEFORE_FEWER_RUNS,
            Pause::Short => PAUSE_BEFORE_FREEZING,
            Pause::Long => {
                changed.wait_while(&mut progress, |progress| is_quiet(progress, commits));
                return true;
            }
        };
        let waited = changed.wait_while_for(
            &mut progress,
            |progress| is_quiet(progress, commits),
            longest,
        );
        !waited.timed_out()
    }

    /// Does one step of the most urgent work. False if there is none.
    fn merge_once(&mut self, pause: Pause) -> Result<bool> {
        let shared = self.shared.clone();
        let _merging = shared.merging.lock();
        let view = shared.view()?;
        match due::next_work(view.state(), &shared.sizes, pause) {
            Some(Work::Freezing) => self.commit(view, |edit, _| {
                edit.freeze();
                Ok(())
            })?,
            Some(Work::Runs(sets)) => self.merge_runs(&view, &sets, pause != Pause::None)?,
            Some(Work::Steps(tasks)) => self.step(view, &tasks)?,
            Some(Work::OldPages) => self.commit(view, |edit, _| {
                edit.drop_log();
                Ok(())
            })?,
            None => return self.reclaim(view),
        }
        Ok(true)
    }

    /// Gives space back. False if there is none to be given.
    fn reclaim(&mut self, view: Arc<View>) -> Result<bool> {
        let shared = &self.shared;
        match reclaim::prepare(view.state(), view.blocks(), &mut self.sweep, &shared.sizes)? {
            Look::Found(apply) => {
                self.commit(view, apply)?;
                Ok(true)
            }
            Look::NothingYet => Ok(true),
            Look::Done => Ok(false),
        }
    }

    /// Merges runs of some sets in memory. Transactions go on meanwhile, and may add newer runs.
    fn merge_runs(&self, view: &View, sets: &[AnySet], in_pause: bool) -> Result<()> {
        let merged = parallel::map(
            sets.len(),
            |index| by_row!(sets[index], set => self.merge_runs_of(view, set, in_pause)),
        );
        self.shared.rearrange(|state| {
            for replace in merged.into_iter().flatten() {
                replace(state);
            }
        })
    }

    /// Merges runs of a set. Returns what puts the result in their place, if there was something to merge.
    fn merge_runs_of<R: SetRow>(
        &self,
        view: &View,
        set: Set<R>,
        in_pause: bool,
    ) -> Option<Replace> {
        let short = self.shared.sizes.short_rows;
        let merged = view.state().sets[set].merged_runs(short, in_pause)?;
        Some(Box::new(move |state| {
            state.sets[set].replace_runs(merged);
        }))
    }

    fn step(&self, view: Arc<View>, tasks: &[(AnySet, Source)]) -> Result<()> {
        let watch = Watch::begin(Operation::MergeStep, &self.shared.path);
        let ((rows, bytes), took) = watch.end(self.rows_and_bytes_of_step(view, tasks))?;
        let meters = &self.shared.meters;
        meters.add(Count::MergedRows, rows);
        meters.add(Count::MergedBytes, bytes);
        meters.record(Timed::MergeStep, [took]);
        let sets = tasks.len();
        Event::Merged { sets, rows, bytes }.report(took);
        Ok(())
    }

    /// Does one step of each task. Returns the rows and the bytes that it wrote.
    fn rows_and_bytes_of_step(
        &self,
        view: Arc<View>,
        tasks: &[(AnySet, Source)],
    ) -> Result<(u64, u64)> {
        let before = view.state().sets.clone();
        let sizes = &self.shared.sizes;
        let steps = parallel::map(tasks.len(), |index| {
            let (set, source) = tasks[index];
            by_row!(set, set => step::prepare(&before, set, source, view.blocks(), sizes))
        });
        let steps: Vec<_> = steps.into_iter().collect::<Result<_>>()?;
        let rows = steps.iter().map(|step| step.rows).sum();
        let bytes = steps.iter().map(|step| step.bytes).sum();
        self.commit(view, |edit, blocks| {
            for step in steps {
                (step.apply)(edit, blocks)?;
            }
            Ok(())
        })?;
        self.take_over(tasks, &before)?;
        Ok((rows, bytes))
    }

    /// What a step has written is in memory at once where what it replaced was, and elsewhere as far as there is room.
    /// So a search finds no cold block after a merge.
    fn take_over(&self, tasks: &[(AnySet, Source)], before: &Sets) -> Result<()> {
        let view = self.shared.view()?;
        let taken = parallel::map(
            tasks.len(),
            |index| by_row!(tasks[index].0, set => take_over(&view, set, &before[set].levels)),
        );
        taken.into_iter().collect()
    }

    /// Commits a change that only moves rows. `view` is the view that it was prepared from.
    fn commit(
        &self,
        view: Arc<View>,
        change: impl FnOnce(&mut Edit, &Blocks) -> Result<()>,
    ) -> Result<()> {
        // The engine keeps the pages of a view while it lives.
        drop(view);
        self.yield_to_transactions();
        ensure_room(&self.shared, 0)?;
        self.shared.commit(change)
    }

    /// Lets transactions go first that commit or wait to commit.
    fn yield_to_transactions(&self) {
        let begun = Instant::now();
        while self.shared.is_transaction_waiting() && begun.elapsed() < LONGEST_YIELD {
            thread::yield_now();
        }
    }
}

const NOT_MERGED: &str = "levels could not be merged";

/// The error for a transaction that waits for a merge that has failed with this one.
fn not_merged(error: &Error) -> Error {
    let reason = match std::error::Error::source(error) {
        Some(cause) => format!("{NOT_MERGED}: {error}: {cause}"),
        None => format!("{NOT_MERGED}: {error}"),
    };
    match error {
        Error::Damaged { .. } | Error::Corrupted(_) => Error::corrupted(reason),
        _ => Error::storage(reason),
    }
}

/// Makes the segments of the new chunks of a set.
fn take_over<R: SetRow>(view: &View, set: Set<R>, before: &[SetLevel<R>]) -> Result<()> {
    let blocks = view.blocks().of_table(set.table());
    for SetLevel { level, .. } in &view.state().sets[set].levels {
        let older = before
            .iter()
            .find(|older| older.level.number == level.number);
        match older {
            Some(older) => level.take_over(&older.level, blocks)?,
            None => level.take_over(&Level::empty(0), blocks)?,
        }
    }
    Ok(())
}

/// Whether nothing was committed since there were so many commits, and the thread is to go on.
fn is_quiet(progress: &Progress, commits: u64) -> bool {
    progress.commits == commits && !progress.stop
}
