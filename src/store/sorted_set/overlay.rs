//! Rows that a transaction puts and marks, before it commits: in an overlay, which can be searched, or as a sequence,
//! which is sorted once at the end.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use super::run::{Life, Rules, Run, merge, sorted};
use super::set::push_run;
use crate::store::blocks::{Lists, Row};

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
