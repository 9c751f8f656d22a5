//! Lists of runs, the newest last, and when neighbours are merged.
//!
//! A search looks into each run, so they are to be few. Merging writes rows again, so it is to be rare. Short
//! runs are merged as soon as one is not four times longer than the next, which takes little time. Long runs
//! are merged when three of them have about the same length. So a row is merged half as often. In a pause, a
//! run is merged unless the run before it is far longer. A query of a million documents takes half a microsecond
//! for each run.

use std::ops::Range;

use super::run::{Rules, Run};
use crate::store::blocks::Row;

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
    let (short, times, end) = match in_pause {
        true => (usize::MAX, TIMES_IN_PAUSE, runs.len()),
        // A run of more than half the length hardly ever becomes longer. So this one and those before it are
        // seldom changed by whoever adds a run meanwhile.
        false => (
            short,
            SHORT_TIMES,
            runs.iter().rposition(|run| run.len() > short / 2)? + 1,
        ),
    };
    let lengths = lengths(&runs[..end]);
    // A short run may stand behind long ones that are to be merged.
    (2..=end).rev().find_map(|end| {
        let count = merging(lengths[..end].to_vec(), short, times, usize::MAX);
        (count > 1).then(|| end - count..end)
    })
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
        let are_short =
            |last: usize| last <= times.saturating_mul(newest) && last + newest <= short;
        let before = lengths.len().checked_sub(2).map(|index| lengths[index]);
        let together = if before.is_some_and(are_short) {
            2
        } else {
            LONG_TOGETHER
        };
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
        let merged = Run::of_all(&runs.split_off(runs.len() - count), rules);
        runs.push(merged);
    }
    runs.pop_if(|run| run.len() == 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: Range<u64>) -> Run<u64> {
        Run::new(rows.collect(), Vec::new(), Rules::ONCE)
    }

    fn rows(runs: &[Run<u64>]) -> Vec<u64> {
        let mut rows: Vec<u64> = runs.iter().flat_map(Run::puts).copied().collect();
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
                let merged = Run::of_all(&runs[range.clone()], Rules::ONCE);
                runs.splice(range, [merged]);
                assert!(runs.len() - behind < end);
            }
            most = most.max(runs.len());
        }
        assert!(most <= 14, "{most} runs");
        while let Some(range) = runs_to_merge(&runs, MOST_SHORT, true) {
            let merged = Run::of_all(&runs[range.clone()], Rules::ONCE);
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
