//! Sorted runs in memory, and how a newer list of rows is merged over an older one.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::block::Row;
use super::filter::Filter;

/// What a row can live through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is put and marked any number of times; the newest wins.
    Repeated,
    /// It is put once and marked once, after that (rows with a document number): a put and its mark annihilate.
    Once,
}

/// What holds for all rows of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) life: Life,
    /// Whether its blocks and runs have filters: worth their memory where most rows that are looked for are not there.
    pub(super) filtered: bool,
}

impl Rules {
    pub(super) const REPEATED: Self = Self { life: Life::Repeated, filtered: false };
    pub(super) const ONCE: Self = Self { life: Life::Once, filtered: false };
    pub(super) const ONCE_FILTERED: Self = Self { life: Life::Once, filtered: true };
}

/// Sorted rows that are put, and sorted rows that are marked as deleted; no row is in both.
#[derive(Clone, Debug)]
pub(super) struct Run<R> {
    puts: Arc<Vec<R>>,
    marks: Arc<Vec<R>>,
    /// How many of each were taken into a level already.
    puts_taken: usize,
    marks_taken: usize,
    /// Over the leading bits of all rows; empty in sets without filters.
    filter: Arc<Filter>,
}

impl<R: Row> Run<R> {
    pub(super) fn new(puts: Vec<R>, marks: Vec<R>, rules: Rules) -> Self {
        let filter = if rules.filtered {
            let leads = puts.iter().chain(&marks).map(|row| row.lead());
            Filter::new(leads, puts.len() + marks.len(), usize::MAX)
        } else {
            Filter::default()
        };
        let (puts, marks, filter) = (Arc::new(puts), Arc::new(marks), Arc::new(filter));
        Self { puts, marks, puts_taken: 0, marks_taken: 0, filter }
    }

    /// Whether there may be a row with these leading bits.
    pub(super) fn passes(&self, lead: u64) -> bool {
        self.filter.passes(lead)
    }

    pub(super) fn puts(&self) -> &[R] {
        &self.puts[self.puts_taken..]
    }

    pub(super) fn marks(&self) -> &[R] {
        &self.marks[self.marks_taken..]
    }

    pub(super) fn len(&self) -> usize {
        self.puts().len() + self.marks().len()
    }

    /// The rows from `low` on.
    pub(super) fn from(&self, low: R) -> Self {
        Self {
            puts: self.puts.clone(),
            marks: self.marks.clone(),
            filter: self.filter.clone(),
            puts_taken: self.puts.partition_point(|&row| row < low).max(self.puts_taken),
            marks_taken: self.marks.partition_point(|&row| row < low).max(self.marks_taken),
        }
    }

    /// This run over an older one, as one.
    pub(super) fn over(&self, older: &Self, rules: Rules) -> Self {
        let (puts, marks) = merge((self.puts(), self.marks()), (older.puts(), older.marks()), rules.life);
        Self::new(puts, marks, rules)
    }
}

/// The part of sorted rows that lies in a range.
pub(super) fn part<'a, R: Row>(rows: &'a [R], range: &RangeInclusive<R>) -> &'a [R] {
    let from = rows.partition_point(|row| row < range.start());
    let rows = &rows[from..];
    &rows[..rows.partition_point(|row| row <= range.end())]
}

/// Puts and marks of a newer list over those of an older one.
pub(super) fn merge<R: Row>(newer: (&[R], &[R]), older: (&[R], &[R]), life: Life) -> (Vec<R>, Vec<R>) {
    let kept = difference(older.0, newer.1);
    let puts = union(newer.0, kept.as_deref().unwrap_or(older.0));
    let marks = match life {
        Life::Repeated => {
            let kept = difference(older.1, newer.0);
            union(newer.1, kept.as_deref().unwrap_or(older.1))
        }
        Life::Once => {
            let kept = difference(newer.1, older.0);
            union(kept.as_deref().unwrap_or(newer.1), older.1)
        }
    };
    (puts, marks)
}

/// The rows of either list, each once.
fn union<R: Row>(a: &[R], b: &[R]) -> Vec<R> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        // Without branches, which random rows would make unpredictable.
        all.push(if x <= y { x } else { y });
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    all.extend(&a[i..]);
    all.extend(&b[j..]);
    all
}

/// The rows of `a` that are not in `b`, or `None` if that is all of them.
fn difference<R: Row>(a: &[R], b: &[R]) -> Option<Vec<R>> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut rest = Vec::with_capacity(a.len());
    let mut b = b.iter().copied().peekable();
    for &row in a {
        while b.next_if(|&it| it < row).is_some() {}
        if b.peek() != Some(&row) {
            rest.push(row);
        }
    }
    Some(rest)
}

/// Adds a run to others, the newest last, and keeps them few: each is more than twice as long as all after it.
pub(super) fn push_run<R: Row>(runs: &mut Vec<Run<R>>, mut run: Run<R>, rules: Rules) {
    while let Some(last) = runs.last()
        && last.len() <= 2 * run.len()
    {
        run = run.over(last, rules);
        runs.pop();
    }
    if run.len() > 0 {
        runs.push(run);
    }
}

/// Rows that a transaction puts and marks, newest last.
#[derive(Debug)]
pub(super) struct Overlay<R> {
    rules: Rules,
    runs: Vec<Run<R>>,
    /// The newest rows, unsorted, perhaps repeated; no row is in both.
    puts: Vec<R>,
    marks: Vec<R>,
}

/// As many unsorted rows are searched one by one about as fast as a run.
const UNSORTED: usize = 64;

impl<R: Row> Overlay<R> {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, runs: Vec::new(), puts: Vec::new(), marks: Vec::new() }
    }

    pub(super) fn put(&mut self, row: R) {
        self.marks.retain(|&it| it != row);
        self.puts.push(row);
        self.settle();
    }

    pub(super) fn mark(&mut self, row: R) {
        let before = self.puts.len();
        self.puts.retain(|&it| it != row);
        if self.puts.len() == before || self.rules.life == Life::Repeated {
            self.marks.push(row);
        }
        self.settle();
    }

    fn settle(&mut self) {
        if self.puts.len() + self.marks.len() >= UNSORTED {
            self.sort();
        }
    }

    fn sort(&mut self) {
        let sorted = |rows: &mut Vec<R>| {
            let mut rows = std::mem::take(rows);
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        let run = Run::new(sorted(&mut self.puts), sorted(&mut self.marks), self.rules);
        push_run(&mut self.runs, run, self.rules);
    }

    /// The sorted runs, the newest last, then the unsorted rows, which are newer.
    pub(super) fn parts(&self) -> (&[Run<R>], &[R], &[R]) {
        (&self.runs, &self.puts, &self.marks)
    }

    /// All as one run.
    pub(super) fn into_run(mut self) -> Run<R> {
        self.sort();
        let mut runs = self.runs.into_iter().rev();
        let Some(newest) = runs.next() else { return Run::new(Vec::new(), Vec::new(), self.rules) };
        runs.fold(newest, |newer, older| newer.over(&older, self.rules))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// What is left of a sequence of puts (true) and marks, by the rule of each life.
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
        puts.chain(run.marks().iter().map(|&row| (row, false))).collect()
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

    #[test]
    fn runs_stay_few_and_what_was_taken_is_gone() {
        let mut runs = Vec::new();
        for row in 0..1000u64 {
            push_run(&mut runs, Run::new(vec![row], Vec::new(), Rules::ONCE), Rules::ONCE);
        }
        assert!(runs.len() <= 8, "{}", runs.len());
        assert_eq!(runs.iter().map(Run::len).sum::<usize>(), 1000);
        let rest = Run::new(vec![1u64, 5, 9], vec![4, 6], Rules::ONCE).from(5);
        assert_eq!((rest.puts(), rest.marks()), (&[5, 9][..], &[6][..]));
        assert_eq!(rest.from(2).puts(), [5, 9]);
        assert_eq!(part(&[1u64, 5, 9], &(2..=9)), [5, 9]);
    }
}
