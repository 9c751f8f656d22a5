//! SortedSet: what one sorted set holds at one moment.
//!
//! The plain algorithm: a row is in the set if the newest source that knows it puts it. The sources, from
//! new to old, are the rows that the current transaction wrote, the recent runs, the frozen runs, and the
//! levels. Within a source a row is put or marked, never both.

use std::ops::Range;
use std::sync::Arc;

use super::level::Level;
use super::run::{Rules, Run, push_run_soon, runs_to_merge};
use crate::store::blocks::Row;

/// What one sorted set holds at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet<R> {
    pub(crate) rules: Rules,
    /// The rows that were committed last. The newest run is the last.
    pub(crate) recent: Vec<Run<R>>,
    /// The runs that are merged into the first level, the newest last. First they are merged into one run.
    /// Rows that the level has already are taken out of it.
    pub(crate) frozen: Vec<Run<R>>,
    /// The newest first. Each level is several times larger than the one before it.
    pub(crate) levels: Vec<SetLevel<R>>,
}

/// A level, and what a set knows of it.
#[derive(Clone, Debug)]
pub(crate) struct SetLevel<R> {
    /// The first row that the next merge into the level below takes.
    pub(crate) next: R,
    pub(crate) level: Arc<Level<R>>,
}

/// Runs that were merged from several.
pub(crate) enum MergedRuns<R> {
    /// All frozen runs.
    Frozen(Run<R>),
    /// The recent runs of these indexes, of which the last was `newest`.
    Recent {
        of: Range<usize>,
        newest: Run<R>,
        merged: Run<R>,
    },
}

impl<R: Row> SortedSet<R> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            recent: Vec::new(),
            frozen: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// The runs in memory, from new to old.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run<R>> {
        self.recent.iter().rev().chain(self.frozen.iter().rev())
    }

    /// The number of rows in memory that are not in a level yet, with marks.
    pub(crate) fn memory_rows(&self) -> u64 {
        let mut rows = 0;
        for run in self.runs() {
            rows += run.len() as u64;
        }
        rows
    }

    /// Adds the rows that a transaction wrote. Runs are merged if they have together at most `short` rows.
    pub(crate) fn push(&mut self, run: Run<R>, short: usize) {
        push_run_soon(&mut self.recent, run, short, self.rules);
    }

    /// Makes the recent runs the frozen runs. There must be none.
    pub(crate) fn freeze(&mut self) {
        self.frozen = std::mem::take(&mut self.recent);
    }

    /// Merges runs that have become many: all frozen runs, or some long recent runs. `None` if they are few. In a
    /// pause there are to be fewer.
    pub(crate) fn merged_runs(&self, short: usize, in_pause: bool) -> Option<MergedRuns<R>> {
        if self.frozen.len() > 1 {
            return Some(MergedRuns::Frozen(Run::merged(&self.frozen, self.rules)));
        }
        let of = runs_to_merge(&self.recent, short, in_pause)?;
        let merged = Run::merged(&self.recent[of.clone()], self.rules);
        Some(MergedRuns::Recent {
            newest: self.recent[of.end - 1].clone(),
            of,
            merged,
        })
    }

    /// Whether [`merged_runs`](Self::merged_runs) would merge any.
    pub(crate) fn has_runs_to_merge(&self, short: usize, in_pause: bool) -> bool {
        self.frozen.len() > 1 || runs_to_merge(&self.recent, short, in_pause).is_some()
    }

    /// Puts merged runs in the place of those that they were made of. Newer runs may have been added since. If
    /// some of the runs were merged otherwise meanwhile, nothing is changed.
    pub(crate) fn replace_runs(&mut self, merged: MergedRuns<R>) {
        match merged {
            MergedRuns::Frozen(run) => self.frozen = vec![run],
            MergedRuns::Recent { of, newest, merged } => {
                // Runs are merged from the newest on. So if this one is there, those before it are too.
                let last = self.recent.get(of.end - 1);
                if last.is_some_and(|run| run.is_same(&newest)) {
                    self.recent.splice(of, (merged.len() > 0).then_some(merged));
                }
            }
        }
    }

    /// The numbers of rows that are put and marked in all sources.
    pub(crate) fn rows(&self) -> (u64, u64) {
        let mut puts = 0;
        let mut marks = 0;
        for run in self.runs() {
            puts += run.puts().len() as u64;
            marks += run.marks().len() as u64;
        }
        for SetLevel { level, .. } in &self.levels {
            let rows = level.rows();
            puts += rows.0;
            marks += rows.1;
        }
        (puts, marks)
    }

    /// The number of blocks of the set, as if the rows in memory were packed too.
    pub(crate) fn blocks(&self, block_bytes: usize) -> u64 {
        let memory_bytes = self.memory_rows() * R::BYTES as u64;
        let mut blocks = memory_bytes / block_bytes as u64 + 1;
        for SetLevel { level, .. } in &self.levels {
            blocks += level.blocks() as u64;
        }
        blocks
    }

    /// An empty level with a number that no other level of the set has.
    pub(crate) fn new_level(&self) -> SetLevel<R> {
        let mut number = 0;
        while self.levels.iter().any(|set| set.level.number == number) {
            // A set has a handful of levels.
            number += 1;
        }
        SetLevel {
            next: R::MIN,
            level: Arc::new(Level::empty(number)),
        }
    }
}
