//! SortedSet: what one sorted set holds at one moment. Overlay: the rows that a transaction puts and marks in it before
//! it commits, which can be searched. If nobody searches them, they are a sequence, which is sorted once at the end.
//!
//! The plain algorithm: a row is in the set if the newest source that knows it puts it. The sources, from
//! new to old, are the rows that the current transaction wrote, the recent runs, the frozen runs, and the
//! levels. Within a source a row is put or marked, never both.
//!
//! Lists of runs, the newest last: when neighbours are merged. A search looks into each run, so they are to be few.
//! Merging writes rows again, so it is to be rare. Short runs are merged as soon as one is not four times longer than
//! the next, which takes little time. Long runs are merged when three of them have about the same length. So a row is
//! merged half as often. In a pause, a run is merged unless the run before it is far longer. A query of a million
//! documents takes half a microsecond for each run.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::level::Level;
use super::run::{Life, Rules, Run, merge, sorted};
use crate::store::blocks::{Lists, Row, Segment, Signatures};

/// What one sorted set holds at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet<R: 'static> {
    pub(crate) rules: Rules,
    /// The rows that were committed last. The newest run is the last.
    recent: Vec<Run<R>>,
    /// The runs that are merged into the first level, the newest last. First they are merged into one run.
    /// Rows that the level has already are taken out of it.
    pub(crate) frozen: Vec<Run<R>>,
    /// The newest first. Each level is several times larger than the one before it.
    pub(crate) levels: Vec<SetLevel<R>>,
}

/// A level, and what a set knows of it.
#[derive(Clone, Debug)]
pub(crate) struct SetLevel<R: 'static> {
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

    /// Whether there are any.
    pub(crate) fn has_runs(&self) -> bool {
        !(self.recent.is_empty() && self.frozen.is_empty())
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

    /// About the number of rows that are in the set. Of the marks of a source, no more count than the older sources
    /// have rows: one whose row was put and marked in the same source marks nothing.
    pub(crate) fn rows_left(&self) -> u64 {
        let mut left = 0u64;
        for SetLevel { level, .. } in self.levels.iter().rev() {
            let (puts, marks) = level.rows();
            left = left.saturating_sub(marks) + puts;
        }
        for run in self.frozen.iter().chain(&self.recent) {
            left = left.saturating_sub(run.marks().len() as u64) + run.puts().len() as u64;
        }
        left
    }

    /// The most memory that its segments take if all are in memory, in bytes, as if the rows of the runs were in
    /// segments too.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let mut bytes = Segment::<R>::most_bytes(self.memory_rows() as usize, 0) as u64;
        for SetLevel { level, .. } in &self.levels {
            bytes += level.segment_bytes();
        }
        bytes
    }

    /// The most memory that signatures of its rows take, in bytes, as if those of the runs had some too.
    pub(crate) fn signature_bytes(&self) -> u64 {
        let mut bytes = Signatures::most_bytes(self.memory_rows() as usize) as u64;
        for SetLevel { level, .. } in &self.levels {
            bytes += level.signature_bytes();
        }
        bytes
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

/// A short run is more than this number of times longer than the next.
const SHORT_TIMES: usize = 4;

/// After a pause, any run is more than this number of times longer than the next. There is time for it then.
const TIMES_IN_PAUSE: usize = 16;

/// This number of long runs are merged together, if the first is not more than this number of times longer
/// than the last.
const LONG_TOGETHER: usize = 3;

/// With more runs than this, whoever adds one merges long runs too.
const MOST_RUNS: usize = 24;

/// The most rows of short runs of a transaction.
const MOST_SHORT: usize = 1 << 12;

/// Adds a run to others and keeps them few. Empty runs are left out.
fn push_run<R: Row>(runs: &mut Vec<Run<R>>, run: Run<R>, rules: Rules) {
    runs.push(run);
    let count = merging(lengths(runs), MOST_SHORT, SHORT_TIMES, usize::MAX);
    merge_last(runs, count, rules);
}

/// Adds a run to others and merges short runs only, those of at most `short` rows together. Long runs are left
/// to the merging thread, unless there are very many.
fn push_run_soon<R: Row>(runs: &mut Vec<Run<R>>, run: Run<R>, short: usize, rules: Rules) {
    runs.push(run);
    let count = match runs.len() > MOST_RUNS {
        true => merging(lengths(runs), short, SHORT_TIMES, usize::MAX).max(LONG_TOGETHER),
        false => merging(lengths(runs), short, SHORT_TIMES, short),
    };
    merge_last(runs, count, rules);
}

/// The runs that the merging thread is to merge into one, if any are.
fn runs_to_merge<R: Row>(runs: &[Run<R>], short: usize, in_pause: bool) -> Option<Range<usize>> {
    if in_pause {
        return last_to_merge(lengths(runs), usize::MAX, TIMES_IN_PAUSE);
    }
    // A run of more than half the length hardly ever becomes longer. So this one and those before it are seldom
    // changed by whoever adds a run meanwhile.
    let long = runs.iter().rposition(|run| run.len() > short / 2)?;
    last_to_merge(lengths(&runs[..=long]), short, SHORT_TIMES)
}

/// The last runs of these lengths that are to be merged into one, if any are.
fn last_to_merge(mut lengths: Vec<usize>, short: usize, times: usize) -> Option<Range<usize>> {
    // A short run may stand behind long ones that are to be merged.
    while lengths.len() >= 2 {
        let end = lengths.len();
        let count = merging(lengths.clone(), short, times, usize::MAX);
        if count > 1 {
            return Some(end - count..end);
        }
        lengths.pop();
    }
    None
}

fn lengths<R: Row>(runs: &[Run<R>]) -> Vec<usize> {
    runs.iter().map(Run::len).collect()
}

/// The number of runs at the end of a list that are to be merged into one, of at most `most` rows. Together,
/// short runs have at most `short` rows, and each is more than `times` times longer than the next.
fn merging(mut lengths: Vec<usize>, short: usize, times: usize, most: usize) -> usize {
    let count = lengths.len();
    loop {
        let newest = lengths.last().copied().unwrap_or(0);
        let are_short = match lengths.len().checked_sub(2) {
            Some(index) => {
                let last = lengths[index];
                last <= times.saturating_mul(newest) && last + newest <= short
            }
            None => false,
        };
        let together = if are_short { 2 } else { LONG_TOGETHER };
        let Some(first) = lengths.len().checked_sub(together) else {
            break;
        };
        if together == LONG_TOGETHER && lengths[first] > LONG_TOGETHER * newest {
            break;
        }
        let merged = lengths[first..].iter().sum();
        if merged > most {
            break;
        }
        lengths.truncate(first);
        lengths.push(merged);
    }
    count - lengths.len() + 1
}

fn merge_last<R: Row>(runs: &mut Vec<Run<R>>, count: usize, rules: Rules) {
    if count > 1 {
        let merged = Run::merged(&runs.split_off(runs.len() - count), rules);
        runs.push(merged);
    }
    runs.pop_if(|run| run.len() == 0);
}

/// Rows that a transaction puts and marks. They are sorted as late as possible, since a transaction that
/// only inserts never searches most of them.
#[derive(Debug)]
pub(crate) struct Overlay<R> {
    rules: Rules,
    /// The sorted rows. The newest run is the last.
    runs: Vec<Run<R>>,
    /// The newest rows, unsorted and perhaps repeated. No row is in both lists.
    puts: Vec<R>,
    marks: Vec<R>,
    /// The prefixes of all rows, in sets with filters.
    prefixes: HashSet<u64, BuildHasherDefault<AsItIs>>,
    /// Whether rows were searched since the last sort.
    searched: AtomicBool,
    /// The number of rows that were put or marked since the last sort.
    since_sort: usize,
}

/// The most rows that wait unsorted while rows are searched. Going through them takes the time of
/// searching a run.
const FEW_UNSORTED: usize = 64;
/// The most rows that wait unsorted while nobody searches. The first search goes through them one by one.
const MOST_UNSORTED: usize = 4096;

impl<R: Row> Overlay<R> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            runs: Vec::new(),
            puts: Vec::new(),
            marks: Vec::new(),
            prefixes: HashSet::default(),
            searched: AtomicBool::new(false),
            since_sort: 0,
        }
    }

    pub(crate) fn put(&mut self, row: R) {
        self.sort_if_many();
        self.since_sort += 1;
        self.note_prefix(row);
        self.marks.retain(|&mark| mark != row);
        self.puts.push(row);
    }

    pub(crate) fn mark(&mut self, row: R) {
        // The row is searched among the puts.
        self.searched = AtomicBool::new(true);
        self.sort_if_many();
        self.since_sort += 1;
        self.note_prefix(row);
        let before = self.puts.len();
        self.puts.retain(|&put| put != row);
        if self.puts.len() == before || self.rules.life == Life::Repeated {
            self.marks.push(row);
        }
    }

    fn note_prefix(&mut self, row: R) {
        if self.rules.filtered {
            self.prefixes.insert(row.prefix());
        }
    }

    fn sort_if_many(&mut self) {
        let most = if *self.searched.get_mut() {
            FEW_UNSORTED
        } else {
            MOST_UNSORTED
        };
        if self.puts.len() + self.marks.len() >= most {
            self.sort();
        }
    }

    /// Sorts all rows. Those that are new get an index, for many searches.
    pub(crate) fn index(&mut self) {
        self.sort_by(self.rules);
    }

    fn sort(&mut self) {
        self.sort_by(self.rules.unsearched());
    }

    fn sort_by(&mut self, rules: Rules) {
        let puts = sorted(std::mem::take(&mut self.puts));
        let marks = sorted(std::mem::take(&mut self.marks));
        let run = Run::new(puts, marks, rules);
        push_run(&mut self.runs, run, rules);
        self.searched = AtomicBool::new(false);
        self.since_sort = 0;
    }

    /// The number of rows that were put or marked since the last sort. Overlays in which this is the same, and that had
    /// rows put and marked together, have sorted the same rows.
    pub(crate) fn since_sort(&self) -> usize {
        self.since_sort
    }

    /// Whether there may be a row with this prefix.
    pub(crate) fn may_have(&self, prefix: u64) -> bool {
        !self.rules.filtered || self.prefixes.contains(&prefix)
    }

    /// The sorted runs, the newest last, and the unsorted rows that are put and marked. These are newer
    /// than all runs.
    pub(crate) fn parts(&self) -> (&[Run<R>], &[R], &[R]) {
        self.searched.store(true, Ordering::Relaxed);
        (&self.runs, &self.puts, &self.marks)
    }

    /// The number of rows that are put and marked, with repetitions.
    pub(crate) fn rows(&self) -> usize {
        self.runs.iter().map(Run::len).sum::<usize>() + self.puts.len() + self.marks.len()
    }

    /// The sorted runs, and the unsorted rows that are put. It is not noted that they are searched.
    pub(crate) fn puts(&self) -> (&[Run<R>], &[R]) {
        (&self.runs, &self.puts)
    }

    /// All rows as one run.
    pub(crate) fn into_run(mut self) -> Run<R> {
        self.sort();
        Run::merged(&self.runs, self.rules)
    }

    /// All rows as one run that nobody searches.
    pub(crate) fn into_unsearched_run(mut self) -> Run<R> {
        self.sort();
        Run::merged(&self.runs, self.rules.unsearched())
    }
}

/// A hasher that changes nothing. The prefixes of sets with filters are hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<R: Row> Run<R> {
    /// The run that a sequence of puts and marks leaves. Each mark has the number of puts before it. An [`Overlay`] of
    /// the same rows gives the same run. It can be searched at any time, and takes several times as long.
    pub(crate) fn of_sequence(puts: Vec<R>, marks: Vec<(R, usize)>, rules: Rules) -> Self {
        if marks.is_empty() {
            return Self::new(sorted(puts), Vec::new(), rules);
        }
        let Lists { puts, marks } = match rules.life {
            Life::Once => {
                // Every mark is newer than the put of its row.
                let puts = sorted(puts);
                let marks = sorted(marks.into_iter().map(|(row, _)| row).collect());
                merge((&[], &marks), (&puts, &[]), Life::Once)
            }
            Life::Repeated => newest(puts, marks),
        };
        Self::new(puts, marks, rules)
    }
}

/// Keeps the newest put or mark of each row.
fn newest<R: Row>(puts: Vec<R>, marks: Vec<(R, usize)>) -> Lists<R> {
    // A put has an odd time. A mark has an even time between those of the puts before and after it.
    let mut all: Vec<(R, usize)> = Vec::with_capacity(puts.len() + marks.len());
    for (index, row) in puts.into_iter().enumerate() {
        all.push((row, 2 * index + 1));
    }
    for (row, puts_before) in marks {
        all.push((row, 2 * puts_before));
    }
    all.sort_unstable();
    let mut lists = Lists::default();
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        if let Some(&(row, time)) = same.last() {
            let list = if time % 2 == 1 {
                &mut lists.puts
            } else {
                &mut lists.marks
            };
            list.push(row);
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn run(rows: Range<u64>) -> Run<u64> {
        Run::new(rows.collect(), Vec::new(), Rules::ONCE)
    }

    fn rows(runs: &[Run<u64>]) -> Vec<u64> {
        let mut rows: Vec<u64> = runs.iter().flat_map(|run| run.puts().to_vec()).collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn runs_stay_few_whatever_their_length() {
        for (length, most) in [(1, 10), (100, 10), (1000, 10), (5000, 10)] {
            let mut runs = Vec::new();
            for first in (0..1000).map(|index| index * length) {
                push_run(&mut runs, run(first..first + length), Rules::ONCE);
                assert!(runs.len() <= most, "{length}: {} runs", runs.len());
            }
            assert_eq!(rows(&runs), (0..1000 * length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_adds_a_run_merges_few_rows_and_the_merging_thread_keeps_runs_few() {
        let mut runs = Vec::new();
        let mut most = 0;
        for first in (0..2000).map(|index| index * 1000) {
            let long = |runs: &[Run<u64>]| -> Vec<usize> {
                runs.iter()
                    .map(Run::len)
                    .filter(|&it| it > MOST_SHORT)
                    .collect()
            };
            let before = long(&runs);
            push_run_soon(&mut runs, run(first..first + 1000), MOST_SHORT, Rules::ONCE);
            assert_eq!(long(&runs), before, "long runs were merged");
            if let Some(range) = runs_to_merge(&runs, MOST_SHORT, false) {
                let (end, behind) = (range.end, runs.len() - range.end);
                let merged = Run::merged(&runs[range.clone()], Rules::ONCE);
                runs.splice(range, [merged]);
                assert!(runs.len() - behind < end);
            }
            most = most.max(runs.len());
        }
        assert!(most <= 14, "{most} runs");
        while let Some(range) = runs_to_merge(&runs, MOST_SHORT, true) {
            let merged = Run::merged(&runs[range.clone()], Rules::ONCE);
            runs.splice(range, [merged]);
        }
        assert!(
            runs.windows(2)
                .all(|pair| pair[0].len() > 16 * pair[1].len()),
            "{:?}",
            lengths(&runs)
        );
        assert_eq!(rows(&runs), (0..2_000_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_short_run_does_not_keep_those_before_it_from_being_merged() {
        let of = |lengths: &[u64]| -> Vec<Run<u64>> {
            lengths.iter().map(|&rows| run(0..rows)).collect()
        };
        let runs = of(&[90_000, 9_000, 8_000, 8_000, 100]);
        assert_eq!(runs_to_merge(&runs, MOST_SHORT, false), Some(1..4));
        assert_eq!(
            runs_to_merge(&of(&[90_000, 9_000, 8_000, 100]), MOST_SHORT, false),
            None
        );
        assert_eq!(
            runs_to_merge(&of(&[90_000, 9_000, 8_000, 100]), MOST_SHORT, true),
            Some(0..3)
        );
        assert_eq!(
            runs_to_merge(&of(&[90_000, 9_000, 100]), MOST_SHORT, true),
            Some(0..2)
        );
        assert_eq!(
            runs_to_merge(&of(&[90_000, 5_000, 100]), MOST_SHORT, true),
            None
        );
    }

    #[test]
    fn without_a_merging_thread_runs_do_not_pile_up() {
        let mut runs = Vec::new();
        for first in (0..1000).map(|index| index * 5000) {
            push_run_soon(&mut runs, run(first..first + 5000), MOST_SHORT, Rules::ONCE);
            assert!(runs.len() <= MOST_RUNS);
        }
        assert_eq!(rows(&runs).len(), 5_000_000);
    }

    #[test]
    fn empty_runs_are_left_out() {
        let mut runs = Vec::new();
        push_run(&mut runs, run(0..0), Rules::ONCE);
        push_run(&mut runs, run(0..3), Rules::ONCE);
        push_run_soon(&mut runs, run(0..0), MOST_SHORT, Rules::ONCE);
        assert_eq!(rows(&runs), [0, 1, 2]);
        // A put and its mark cancel each other.
        push_run(
            &mut runs,
            Run::new(Vec::new(), vec![0, 1, 2], Rules::ONCE),
            Rules::ONCE,
        );
        assert!(runs.is_empty());
    }

    /// The rows that a sequence of puts (true) and marks leaves, by the rule of each life.
    fn expected(sequence: &[(u64, bool)], life: Life) -> BTreeMap<u64, bool> {
        let mut rows = BTreeMap::new();
        for &(row, put) in sequence {
            let before = rows.insert(row, put);
            if life == Life::Once && !put && before == Some(true) {
                rows.remove(&row);
            }
        }
        rows
    }

    fn found(run: &Run<u64>) -> BTreeMap<u64, bool> {
        let puts = run.puts().iter().map(|&row| (row, true));
        puts.chain(run.marks().iter().map(|&row| (row, false)))
            .collect()
    }

    proptest! {
        #[test]
        fn an_overlay_is_what_its_sequence_leaves(
            sequence in prop::collection::vec((0..90u64, any::<bool>()), 0..900),
        ) {
            let mut overlay = Overlay::new(Rules::REPEATED);
            for &(row, put) in &sequence {
                if put { overlay.put(row) } else { overlay.mark(row) }
            }
            prop_assert_eq!(found(&overlay.into_run()), expected(&sequence, Life::Repeated));
        }

        #[test]
        fn rows_that_live_once_vanish_with_their_mark(
            deleted in prop::collection::vec(any::<prop::sample::Index>(), 0..300), count in 1..500u64,
        ) {
            let mut overlay = Overlay::new(Rules::ONCE_FILTERED);
            let mut marked: Vec<u64> = deleted.iter().map(|it| it.index(count as usize * 2) as u64).collect();
            marked.sort_unstable();
            marked.dedup();
            (0..count).for_each(|row| overlay.put(row));
            marked.iter().for_each(|&row| overlay.mark(row));
            let sequence: Vec<_> =
                (0..count).map(|row| (row, true)).chain(marked.iter().map(|&row| (row, false))).collect();
            prop_assert_eq!(found(&overlay.into_run()), expected(&sequence, Life::Once));
        }
    }
}
