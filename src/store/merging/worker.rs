//! The merging thread. It freezes the recent runs when they are long enough, or when nothing is committed
//! for a while. Then it does the most urgent merge, one step at a time. Transactions go first.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::pace::{NEEDED_BYTES, ensure_room};
use super::policy::{self, Source, Task};
use super::reclaim::{self, Look, Sweep};
use super::step::{self, Step};
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::metrics::{Count, Timed};
use crate::parallel;
use crate::process::OfProcess;
use crate::store::blocks::Blocks;
use crate::store::engine::guarded;
use crate::store::file::{
    AnySet, ByRow, Edit, MergeFailure, Progress, RowFamily, Set, SetRow, Shared, View, by_row,
};
use crate::store::sorted_set::MergedRuns;

/// After this time without commits, recent runs are merged into fewer runs, since queries search each of them.
const PAUSE_BEFORE_FEWER_RUNS: Duration = Duration::from_millis(50);
/// After this time without commits, recent rows are merged although there is room for more. Then queries
/// search fewer runs for them, and the next start does not read them from the log.
const PAUSE_BEFORE_FREEZING: Duration = Duration::from_secs(1);
/// In a pause, recent rows are merged only if they are at least their limit divided by this. Fewer rows
/// are not worth what is written for them.
const LEAST_FREEZING_PART: usize = 4;

/// After a merge has failed, it is tried again after this time.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A merge waits up to this time for transactions that are about to commit.
const LONGEST_YIELD: Duration = Duration::from_millis(20);

/// Merges are behind once what is recent is this multiple of its limit. Then others begin to wait.
const BEHIND: f64 = 1.0;
/// The most cores that merge.
const MOST_CORES: usize = 4;

/// The number of sets that are merged at once, each on its own core. Only if the merges are behind, they
/// take more than one core from others. `waiting` is the length of what waits, as a multiple of its limit.
fn at_once(waiting: f64) -> usize {
    if waiting < BEHIND {
        1
    } else {
        parallel::cores().min(MOST_CORES)
    }
}

/// The merged runs of a set.
struct Merged;

impl RowFamily for Merged {
    type Of<R: SetRow> = Option<(Set<R>, MergedRuns<R>)>;
}

/// A step of a merge of a set, read and packed.
struct Prepared;

impl RowFamily for Prepared {
    type Of<R: SetRow> = (Set<R>, Step<R>);
}

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
            shared.progress.lock().failure = Some(MergeFailure::from(error));
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

/// How long nothing has been committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    None,
    /// For [`PAUSE_BEFORE_FEWER_RUNS`].
    Short,
    /// For [`PAUSE_BEFORE_FREEZING`] more.
    Long,
}

impl Pause {
    fn longer(self) -> Self {
        if self == Self::None {
            Self::Short
        } else {
            Self::Long
        }
    }
}

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
            let commits = {
                let progress = self.shared.progress.lock();
                if progress.stop {
                    return;
                }
                progress.commits
            };
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
                    pause = if came { Pause::None } else { pause.longer() };
                }
                Err(error) => self.wait_after(&error, commits),
            }
        }
    }

    /// Waits after a merge has failed.
    fn wait_after(&self, error: &Error, commits: u64) {
        let shared = &self.shared;
        shared.meters.add(Count::FailedMerges, 1);
        shared.progress.lock().failure = Some(MergeFailure::from(error));
        shared.changed.notify_all();
        let is_certain = shared.ensure_certain().is_ok();
        let progress = &mut shared.progress.lock();
        if is_certain {
            let changed = &shared.changed;
            changed.wait_while_for(progress, |progress| !progress.stop, PAUSE_AFTER_FAILURE);
        } else {
            // Nothing is committed until the file is opened again.
            let waits = |progress: &mut Progress| !progress.stop && progress.commits == commits;
            shared.changed.wait_while(progress, waits);
        }
    }

    /// Waits for a commit, and returns whether it came. It waits only until the pause is a longer one.
    fn wait_for_commit_after(&self, commits: u64, pause: Pause) -> bool {
        let none = |progress: &mut Progress| progress.commits == commits && !progress.stop;
        let mut progress = self.shared.progress.lock();
        let longest = match pause {
            Pause::None => PAUSE_BEFORE_FEWER_RUNS,
            Pause::Short => PAUSE_BEFORE_FREEZING,
            Pause::Long => {
                self.shared.changed.wait_while(&mut progress, none);
                return true;
            }
        };
        !self
            .shared
            .changed
            .wait_while_for(&mut progress, none, longest)
            .timed_out()
    }

    /// Does one step of the most urgent work. False if there is none.
    fn merge_once(&mut self, pause: Pause) -> Result<bool> {
        let shared = self.shared.clone();
        let _merging = shared.merging.lock();
        let view = shared.view()?;
        let part = if pause == Pause::Long {
            LEAST_FREEZING_PART
        } else {
            1
        };
        if policy::is_freezing_due(view.state(), shared.sizes.recent_operations.div_ceil(part)) {
            self.commit(view, |edit, _| {
                edit.freeze();
                Ok(())
            })?;
            return Ok(true);
        }
        let waiting = policy::waiting(view.state(), &shared.sizes);
        let at_once = at_once(waiting);
        let in_pause = pause != Pause::None;
        let sets = policy::with_runs_to_merge(view.state(), &shared.sizes, in_pause);
        let sets: Vec<AnySet> = sets.take(at_once).collect();
        if !sets.is_empty() {
            self.merge_runs(&view, &sets, in_pause)?;
            return Ok(true);
        }
        let mut tasks = policy::due(view.state(), waiting, &shared.sizes);
        tasks.truncate(at_once);
        if !tasks.is_empty() {
            self.step(view, &tasks)?;
            return Ok(true);
        }
        if view.state().has_old_pages() {
            self.commit(view, |edit, _| {
                edit.drop_log();
                Ok(())
            })?;
            return Ok(true);
        }
        match reclaim::prepare(view.state(), view.blocks(), &mut self.sweep, &shared.sizes)? {
            Look::Found(reclaimed) => {
                self.commit(view, |edit, blocks| reclaim::apply(reclaimed, edit, blocks))?;
                Ok(true)
            }
            Look::NothingYet => Ok(true),
            Look::Done => Ok(false),
        }
    }

    /// Merges runs of some sets in memory. Transactions go on meanwhile, and may add newer runs.
    fn merge_runs(&self, view: &View, sets: &[AnySet], in_pause: bool) -> Result<()> {
        let merged: Vec<ByRow<Merged>> = parallel::map(
            sets.len(),
            |index| by_row!(sets[index], set => keep self.merged(view, set, in_pause)),
        );
        self.shared.rearrange(|state| {
            for merged in merged {
                by_row!(merged, merged => if let Some((set, merged)) = merged {
                    state.sets[set].replace_runs(merged);
                });
            }
        })
    }

    fn merged<R: SetRow>(
        &self,
        view: &View,
        set: Set<R>,
        in_pause: bool,
    ) -> <Merged as RowFamily>::Of<R> {
        let merged = view.state().sets[set].merged_runs(self.shared.sizes.short_rows, in_pause);
        Some(set).zip(merged)
    }

    /// Does one step of each task.
    fn step(&self, view: Arc<View>, tasks: &[Task]) -> Result<()> {
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
    fn rows_and_bytes_of_step(&self, view: Arc<View>, tasks: &[Task]) -> Result<(u64, u64)> {
        let most = policy::step_blocks(&view.state().sets, &self.shared.sizes);
        let steps = parallel::map(tasks.len(), |index| {
            let Task { set, source, .. } = tasks[index];
            Ok(by_row!(set, set => keep self.prepare(&view, set, source, most)?))
        });
        let steps: Vec<ByRow<Prepared>> = steps.into_iter().collect::<Result<_>>()?;
        let mut rows = 0;
        let mut bytes = 0;
        for step in &steps {
            let written = by_row!(step, (_, step) => step.written());
            rows += written.0;
            bytes += written.1;
        }
        self.commit(view, |edit, blocks| {
            for step in steps {
                by_row!(step, (set, step) => step::apply(step, set, edit, blocks)?);
            }
            Ok(())
        })?;
        Ok((rows, bytes))
    }

    fn prepare<R: SetRow>(
        &self,
        view: &View,
        set: Set<R>,
        source: Source,
        most: usize,
    ) -> Result<(Set<R>, Step<R>)> {
        let blocks = view.blocks().of_table(set.table());
        let step = step::prepare(
            &view.state().sets[set],
            blocks,
            source,
            most,
            &self.shared.sizes,
        )?;
        Ok((set, step))
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
        ensure_room(&self.shared, NEEDED_BYTES)?;
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
