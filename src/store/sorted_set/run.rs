//! Sorted rows in memory: lists of rows that are put and marked, which are merged, newer over older; and runs, which
//! are lists with an index.

use std::borrow::Cow;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use crate::store::blocks::{Filter, Lists, ROWS_PER_PREFIX, Row, around};
use crate::store::lookup::{Occupied, Prefixes, guess, partition_point_from, prefetch_at};

/// How often a row can be put and marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Any number of times. The newest put or mark counts.
    Repeated,
    /// Put once, and after that marked at most once. A put and its mark cancel each other. Rows that have
    /// a document number live once.
    Once,
}

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
        let around = around(&self.rows, &self.prefixes, *range.start(), *range.end());
        let start = around.start.max(self.taken);
        &self.rows[start..around.end.max(start)]
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

    /// Fetches what [`prefetch_rows`](Self::prefetch_rows) reads.
    #[inline]
    pub(super) fn prefetch_index(&self, first: R, last: R) {
        self.prefixes.prefetch(first.prefix(), last.prefix());
    }

    /// Fetches both ends of the rows of a range.
    #[inline]
    pub(super) fn prefetch_rows(&self, first: R, last: R) {
        let around = self.prefixes.around(first.prefix(), last.prefix());
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
        let around = self.prefixes.around(row.prefix(), row.prefix());
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
    fn prepared(mut self, rules: Rules) -> Self {
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
            return run.clone().prepared(rules);
        }
        let mut merged = Lists::default();
        if let [older @ .., second, newest] = runs {
            merged = merge(newest.lists(), second.lists(), rules.life);
            for older in older.iter().rev() {
                merged = merge(merged.as_slices(), older.lists(), rules.life);
            }
        }
        Self::new(merged.puts, merged.marks, rules)
    }
}

// Lists.

/// The rows in order, each once.
pub(super) fn sorted<R: Row>(mut rows: Vec<R>) -> Vec<R> {
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// The part of sorted rows that lies in a range.
pub(crate) fn part<'a, R: Row>(rows: &'a [R], range: &RangeInclusive<R>) -> &'a [R] {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return rows;
    };
    let guess = guess(
        rows.len(),
        first.prefix(),
        last.prefix(),
        range.start().prefix(),
    );
    let start = partition_point_from(rows, guess, |row| row < range.start());
    up_to(&rows[start..], *range.end())
}

/// The sorted rows up to `last`.
fn up_to<R: Row>(rows: &[R], last: R) -> &[R] {
    // Most ranges have a few rows. So the end is first searched near the beginning.
    let mut bound = 8;
    while rows.get(bound).is_some_and(|&row| row <= last) {
        bound *= 2;
    }
    let end = rows[..bound.min(rows.len())].partition_point(|&row| row <= last);
    &rows[..end]
}

/// Merges the puts and marks of a newer source over those of an older one. The result is added to
/// `merged`, whose rows come before it.
pub(crate) fn merge_onto<R: Row>(
    newer: (&[R], &[R]),
    older: (&[R], &[R]),
    life: Life,
    merged: &mut Lists<R>,
) {
    let puts = difference(older.0, newer.1);
    union_onto(newer.0, &puts, &mut merged.puts);
    match life {
        Life::Repeated => {
            let marks = difference(older.1, newer.0);
            union_onto(newer.1, &marks, &mut merged.marks);
        }
        Life::Once => {
            let marks = difference(newer.1, older.0);
            union_onto(&marks, older.1, &mut merged.marks);
        }
    }
}

/// Merges the puts and marks of a newer source over those of an older one.
pub(crate) fn merge<R: Row>(newer: (&[R], &[R]), older: (&[R], &[R]), life: Life) -> Lists<R> {
    let mut merged = Lists::default();
    merge_onto(newer, older, life, &mut merged);
    merged
}

/// Adds the rows of both lists to `all`, each once.
fn union_onto<R: Row>(a: &[R], b: &[R], all: &mut Vec<R>) {
    all.reserve(a.len() + b.len());
    let mut i = 0;
    let mut j = 0;
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        // There is no branch, since the processor could not predict it with random rows.
        all.push(if x <= y { x } else { y });
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    all.extend(&a[i..]);
    all.extend(&b[j..]);
}

/// The rows of `a` that are not in `b`. They are copied only if both have rows.
fn difference<'a, R: Row>(a: &'a [R], b: &[R]) -> Cow<'a, [R]> {
    if a.is_empty() || b.is_empty() {
        return a.into();
    }
    let mut rest = Vec::with_capacity(a.len());
    let mut b = b.iter().copied().peekable();
    for &row in a {
        while b.next_if(|&other| other < row).is_some() {}
        if b.peek() != Some(&row) {
            rest.push(row);
        }
    }
    rest.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Rows = BTreeMap<u64, bool>;

    fn split(rows: &Rows) -> Lists<u64> {
        let list = |put: bool| {
            rows.iter()
                .filter(|it| *it.1 == put)
                .map(|it| *it.0)
                .collect()
        };
        Lists {
            puts: list(true),
            marks: list(false),
        }
    }

    fn rows() -> impl Strategy<Value = Rows> {
        prop::collection::btree_map(0..60u64, any::<bool>(), 0..40)
    }

    proptest! {
        #[test]
        fn the_newer_put_or_mark_counts(newer in rows(), older in rows()) {
            let new = split(&newer);
            let old = split(&older);
            let mut right = older;
            right.extend(newer);
            let merged = merge(new.as_slices(), old.as_slices(), Life::Repeated);
            prop_assert_eq!(merged, split(&right));
        }

        #[test]
        fn rows_that_live_once_vanish_where_a_put_meets_its_mark(newer in rows(), older in rows()) {
            // The newer source marks rows that the older one puts, or has rows that are new. No row is put
            // or marked twice.
            let newer: Rows = newer.into_iter().filter(|(row, put)| match older.get(row) {
                Some(older_put) => *older_put && !put,
                None => true,
            }).collect();
            let new = split(&newer);
            let old = split(&older);
            let mut right = older.clone();
            right.retain(|row, _| !newer.contains_key(row));
            right.extend(newer.into_iter().filter(|(row, _)| !older.contains_key(row)));
            let merged = merge(new.as_slices(), old.as_slices(), Life::Once);
            prop_assert_eq!(merged, split(&right));
        }

        #[test]
        fn a_part_has_the_rows_of_its_range(
            rows in prop::collection::btree_set(0..500u64, 0..200), first in 0..500u64, last in 0..500u64,
        ) {
            let rows: Vec<u64> = rows.into_iter().collect();
            let right: Vec<u64> = rows.iter().copied().filter(|row| (first..=last).contains(row)).collect();
            prop_assert_eq!(part(&rows, &(first..=last)), right);
        }
    }

    #[test]
    fn what_was_taken_is_gone() {
        let rest = Run::new(vec![1u64, 5, 9], vec![4, 6], Rules::ONCE).from(5);
        assert_eq!(rest.lists(), (&[5, 9][..], &[6][..]));
        assert_eq!(rest.from(2).puts()[..], [5, 9]);
        let again = rest.from(0);
        assert_eq!(again.puts()[..], [5, 9], "what was taken is there again");
    }
}
