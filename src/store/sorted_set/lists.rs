//! Sorted lists of rows: the part in a range, and merging a newer pair of lists over an older one.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::store::blocks::{Lists, Row};
use crate::store::lookup::{guess, partition_point_from};

/// How often a row can be put and marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Any number of times. The newest put or mark counts.
    Repeated,
    /// Put once, and after that marked at most once. A put and its mark cancel each other. Rows that have
    /// a document number live once.
    Once,
}

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
pub(super) fn up_to<R: Row>(rows: &[R], last: R) -> &[R] {
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
            let merged = merge((&new.puts, &new.marks), (&old.puts, &old.marks), Life::Repeated);
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
            let merged = merge((&new.puts, &new.marks), (&old.puts, &old.marks), Life::Once);
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
}
