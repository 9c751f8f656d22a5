//! Runs: sorted rows in memory, with an index. And lists of runs, the newest last: when neighbours are merged.
//!
//! A search looks into each run, so they are to be few. Merging writes rows again, so it is to be rare. Short
//! runs are merged as soon as one is not four times longer than the next, which takes little time. Long runs
//! are merged when three of them have about the same length. So a row is merged half as often. In a pause, a
//! run is merged unless the run before it is far longer. A query of a million documents takes half a microsecond
//! for each run.

use std::ops::{Deref, Range, RangeInclusive};
use std::sync::Arc;

use super::lists::{Life, merge, up_to};
use crate::store::blocks::{Filter, Lists, Row};
use crate::store::lookup::{Occupied, Prefixes, prefetch_at};

/// What holds for all rows of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) life: Life,
    /// Whether its blocks and runs have filters. They are worth their memory if most rows that are
    /// searched are not there.
    pub(crate) filtered: bool,
    /// Whether its runs have an index. Making it takes about the time of merging them.
    indexed: bool,
}

impl Rules {
    pub(crate) const REPEATED: Self = Self {
        life: Life::Repeated,
        filtered: false,
        indexed: true,
    };
    pub(crate) const ONCE: Self = Self {
        life: Life::Once,
        filtered: false,
        indexed: true,
    };
    pub(crate) const ONCE_FILTERED: Self = Self {
        life: Life::Once,
        filtered: true,
        indexed: true,
    };

    /// The same rules, for runs that are hardly ever searched.
    pub(crate) fn unsearched(self) -> Self {
        Self {
            filtered: false,
            indexed: false,
            ..self
        }
    }
}

/// Sorted rows that are put, and sorted rows that are marked as deleted. No row is in both.
#[derive(Clone, Debug)]
pub(crate) struct Run<R> {
    puts: IndexedRows<R>,
    marks: IndexedRows<R>,
    /// A filter over the prefixes of all rows. It is empty in sets without filters.
    filter: Arc<Filter>,
}

/// A search goes through this number of rows, or up to twice this number. Rows of 8 bytes fill one line of
/// memory, or two.
const ROWS_PER_PREFIX: usize = 8;

/// If a range and its neighbours are not more rows than this, all are given. Otherwise the ends are searched.
const MOST_AROUND: usize = 64;

/// Sorted rows with an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexedRows<R> {
    rows: Arc<Vec<R>>,
    prefixes: Arc<Prefixes>,
    occupied: Arc<Occupied>,
    /// The number of rows that were taken into a level already. They are the first rows.
    taken: usize,
}

impl<R: Row> Deref for IndexedRows<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.rows[self.taken..]
    }
}

impl<R: Row> IndexedRows<R> {
    /// Rows whose index tells nothing yet.
    fn new(rows: Vec<R>) -> Self {
        Self {
            prefixes: Prefixes::none(rows.len()).into(),
            occupied: Occupied::unknown().into(),
            rows: rows.into(),
            taken: 0,
        }
    }

    /// Makes the index, and perhaps the map of the prefixes that occur.
    fn index(&mut self, with_map: bool) {
        let prefixes = self.rows.iter().map(|row| row.prefix());
        if with_map {
            self.occupied = Occupied::new(prefixes.clone(), self.rows.len()).into();
        }
        self.prefixes = Prefixes::new(prefixes, ROWS_PER_PREFIX).into();
    }

    /// The rows in a range.
    fn within(&self, range: &RangeInclusive<R>) -> &[R] {
        let from = self.before(*range.start()).max(self.taken);
        up_to(&self.rows[from..], *range.end())
    }

    /// The rows in a range, perhaps with some of their neighbours.
    #[inline]
    pub(crate) fn around(&self, range: &RangeInclusive<R>) -> &[R] {
        let first = self.prefixes.around(range.start().prefix());
        let last = self.prefixes.around(range.end().prefix());
        let start = first.start.max(self.taken);
        let end = last.end.max(start);
        if end - start > MOST_AROUND {
            self.within(range)
        } else {
            &self.rows[start..end]
        }
    }

    /// Whether there may be rows in a range.
    #[inline]
    pub(crate) fn may_have(&self, first: R, last: R) -> bool {
        self.occupied.may_have(first.prefix(), last.prefix())
    }

    /// Fetches what [`may_have`](Self::may_have) reads for a range that begins at `row`.
    #[inline]
    pub(super) fn prefetch_occupied(&self, row: R) {
        self.occupied.prefetch(row.prefix());
    }

    /// Fetches what the index has for `row`.
    #[inline]
    pub(super) fn prefetch_index(&self, row: R) {
        self.prefixes.prefetch(row.prefix());
    }

    /// Fetches both ends of the rows among which `row` is.
    #[inline]
    pub(super) fn prefetch_rows(&self, row: R) {
        let around = self.prefixes.around(row.prefix());
        prefetch_at(&self.rows, around.start);
        prefetch_at(&self.rows, around.end);
    }

    /// The same rows from `low` on.
    fn from(&self, low: R) -> Self {
        Self {
            taken: self.before(low).max(self.taken),
            ..self.clone()
        }
    }

    /// The number of rows before `row`, including those that were taken.
    fn before(&self, row: R) -> usize {
        let around = self.prefixes.around(row.prefix());
        around.start + self.rows[around].partition_point(|&other| other < row)
    }
}

impl<R: Row> Run<R> {
    pub(crate) fn new(puts: Vec<R>, marks: Vec<R>, rules: Rules) -> Self {
        let run = Self {
            puts: IndexedRows::new(puts),
            marks: IndexedRows::new(marks),
            filter: Arc::default(),
        };
        run.prepared(rules)
    }

    /// The same run with the index, the map and the filter that the rules ask for.
    pub(crate) fn prepared(mut self, rules: Rules) -> Self {
        if rules.indexed {
            self.puts.index(!rules.filtered);
            self.marks.index(!rules.filtered);
        }
        if rules.filtered {
            let rows = self.puts.iter().chain(&*self.marks);
            let prefixes = rows.map(|row| row.prefix());
            self.filter = Arc::new(Filter::new(prefixes, self.len(), usize::MAX));
        }
        self
    }

    /// Whether there may be a row with this prefix.
    pub(crate) fn passes(&self, prefix: u64) -> bool {
        self.filter.passes(prefix)
    }

    pub(crate) fn puts(&self) -> &IndexedRows<R> {
        &self.puts
    }

    pub(crate) fn marks(&self) -> &IndexedRows<R> {
        &self.marks
    }

    /// The puts and the marks.
    pub(crate) fn lists(&self) -> (&[R], &[R]) {
        (&self.puts, &self.marks)
    }

    /// The puts and the marks in a range.
    pub(crate) fn within(&self, range: &RangeInclusive<R>) -> (&[R], &[R]) {
        (self.puts.within(range), self.marks.within(range))
    }

    /// Whether the other run is a copy of this one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.puts.rows, &other.puts.rows)
            && Arc::ptr_eq(&self.marks.rows, &other.marks.rows)
    }

    pub(crate) fn len(&self) -> usize {
        self.puts.len() + self.marks.len()
    }

    /// The rows from `low` on.
    pub(crate) fn from(&self, low: R) -> Self {
        Self {
            puts: self.puts.from(low),
            marks: self.marks.from(low),
            filter: self.filter.clone(),
        }
    }

    /// Runs as one run. The newest comes last.
    pub(crate) fn merged(runs: &[Self], rules: Rules) -> Self {
        if let [run] = runs {
            return run.clone();
        }
        let mut merged = Lists::default();
        if let [older @ .., second, newest] = runs {
            merged = merge(newest.lists(), second.lists(), rules.life);
            for older in older.iter().rev() {
                merged = merge((&merged.puts, &merged.marks), older.lists(), rules.life);
            }
        }
        Self::new(merged.puts, merged.marks, rules)
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
pub(super) fn push_run<R: Row>(runs: &mut Vec<Run<R>>, run: Run<R>, rules: Rules) {
    runs.push(run);
    let count = merging(lengths(runs), MOST_SHORT, SHORT_TIMES, usize::MAX);
    merge_last(runs, count, rules);
}

/// Adds a run to others and merges short runs only, those of at most `short` rows together. Long runs are left
/// to the merging thread, unless there are very many.
pub(super) fn push_run_soon<R: Row>(
    runs: &mut Vec<Run<R>>,
    run: Run<R>,
    short: usize,
    rules: Rules,
) {
    runs.push(run);
    let count = match runs.len() > MOST_RUNS {
        true => merging(lengths(runs), short, SHORT_TIMES, usize::MAX).max(LONG_TOGETHER),
        false => merging(lengths(runs), short, SHORT_TIMES, short),
    };
    merge_last(runs, count, rules);
}

/// The runs that the merging thread is to merge into one, if any are.
pub(super) fn runs_to_merge<R: Row>(
    runs: &[Run<R>],
    short: usize,
    in_pause: bool,
) -> Option<Range<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_gone() {
        let rest = Run::new(vec![1u64, 5, 9], vec![4, 6], Rules::ONCE).from(5);
        assert_eq!(rest.lists(), (&[5, 9][..], &[6][..]));
        assert_eq!(rest.from(2).puts()[..], [5, 9]);
        let again = rest.from(0);
        assert_eq!(again.puts()[..], [5, 9], "what was taken is there again");
    }

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
        let (mut runs, mut most) = (Vec::new(), 0);
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
}
