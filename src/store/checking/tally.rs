//! Tallies: what is made of the rows that sets should have and of those that they do have. The products of
//! all rows, or the rows of a few buckets themselves. Then it says in words which rows are missing and which are
//! too many.

use super::findings::Findings;
use super::hidden::Hidden;
use super::product::{BUCKETS, Product, Secret};
use super::report::Problem;
use crate::fingerprint::Fingerprint;
use crate::plan::{Permuted, Table};
use crate::store::file::{
    DEAD, KEYS, POSTINGS, PerSet, RowFamily, RowSink, Set, SetRow, View, all_sets, by_row,
    number_of,
};
use crate::store::numbers::DocumentNumber;

/// Takes rows in any order.
pub(super) trait Tally: Send {
    /// A row that a set should have.
    fn expect<R: SetRow>(&mut self, set: Set<R>, row: R);
    /// Rows that a set has.
    fn store<R: SetRow>(&mut self, set: Set<R>, rows: &[R]);
    /// Adds what another tally took.
    fn merge(&mut self, other: Self);
}

/// Passes on the rows that a document or a fingerprint puts, as rows that sets should have.
pub(super) struct Expecting<'t, T> {
    pub(super) tally: &'t mut T,
    pub(super) hidden: &'t Hidden,
}

impl<T: Tally> RowSink for Expecting<'_, T> {
    type Error = std::convert::Infallible;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Self::Error> {
        if self.hidden.is_empty() || !self.hidden.hides_row(set, row) {
            self.tally.expect(set, row);
        }
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, _: Set<R>, _: R) -> Result<(), Self::Error> {
        unreachable!("a document that is there marks nothing")
    }
}

/// The products of the rows of each bucket of each set.
pub(super) struct Products {
    secret: Secret,
    sets: PerSet<BothFamily>,
}

struct BothFamily;

impl RowFamily for BothFamily {
    type Of<R: SetRow> = Both;
}

/// The products of the rows that a set should have and of those that it has, for each bucket.
struct Both {
    expected: Vec<Product>,
    stored: Vec<Product>,
}

impl Products {
    pub(super) fn new(tables: usize, secret: Secret) -> Self {
        Self {
            secret,
            sets: all_sets(tables)
                .map(|set| by_row!(set, _ => keep Both::new()))
                .collect(),
        }
    }

    /// The number of rows that a set has.
    pub(super) fn stored_rows<R: SetRow>(&self, set: Set<R>) -> u64 {
        self.sets[set]
            .stored
            .iter()
            .map(|product| product.rows)
            .sum()
    }

    /// An empty collection for the rows of the buckets that differ. It has as many buckets as fit into
    /// `most_rows` rows, and counts the others. `None` if no bucket differs.
    pub(super) fn differing(&self, most_rows: u64) -> Option<Collected> {
        let mut left = most_rows;
        let sets: PerSet<RowsFamily> = (self.sets.iter())
            .map(|both| by_row!(both, both => keep Rows::new(both.choose(&mut left))))
            .collect();
        let differ = sets
            .iter()
            .any(|rows| by_row!(rows, rows => rows.chosen.any()));
        differ.then_some(Collected {
            secret: self.secret,
            sets,
        })
    }
}

impl Both {
    fn new() -> Self {
        Self {
            expected: vec![Product::ONE; BUCKETS],
            stored: vec![Product::ONE; BUCKETS],
        }
    }

    /// Chooses buckets that differ, and takes their rows from `left`.
    fn choose(&self, left: &mut u64) -> Chosen {
        let mut chosen = Chosen::default();
        for (bucket, (expected, stored)) in self.expected.iter().zip(&self.stored).enumerate() {
            if expected == stored {
                continue;
            }
            let rows = expected.rows + stored.rows;
            // Of each set that differs, one bucket is looked at, however large it is.
            if rows <= *left || !chosen.any() {
                *left = left.saturating_sub(rows);
                chosen.buckets.resize(BUCKETS, false);
                chosen.buckets[bucket] = true;
            } else {
                chosen.unlisted += expected.rows.abs_diff(stored.rows).max(1);
            }
        }
        chosen
    }
}

impl Tally for Products {
    #[inline]
    fn expect<R: SetRow>(&mut self, set: Set<R>, row: R) {
        self.sets[set].expected[self.secret.bucket(row)].add(row, &self.secret);
    }

    fn store<R: SetRow>(&mut self, set: Set<R>, rows: &[R]) {
        let stored = &mut self.sets[set].stored;
        for &row in rows {
            stored[self.secret.bucket(row)].add(row, &self.secret);
        }
    }

    fn merge(&mut self, other: Self) {
        for (both, other) in self.sets.iter_mut().zip(other.sets.iter()) {
            by_row!(both, other, (both, other) => {
                add_all(&mut both.expected, &other.expected);
                add_all(&mut both.stored, &other.stored);
            });
        }
    }
}

fn add_all(all: &mut [Product], more: &[Product]) {
    for (all, more) in all.iter_mut().zip(more) {
        all.add_all(more);
    }
}

/// The buckets of a set whose rows are collected.
#[derive(Clone, Debug, Default)]
struct Chosen {
    /// Whether each bucket is chosen. Empty if none is.
    buckets: Vec<bool>,
    /// The least number of differences in the buckets that differ and are not chosen.
    unlisted: u64,
}

impl Chosen {
    fn any(&self) -> bool {
        !self.buckets.is_empty()
    }
}

/// The rows of the chosen buckets of each set.
pub(super) struct Collected {
    secret: Secret,
    sets: PerSet<RowsFamily>,
}

struct RowsFamily;

impl RowFamily for RowsFamily {
    type Of<R: SetRow> = Rows<R>;
}

/// The rows that a set should have in the chosen buckets, and those that it has.
struct Rows<R> {
    chosen: Chosen,
    expected: Vec<R>,
    stored: Vec<R>,
}

impl<R> Rows<R> {
    fn new(chosen: Chosen) -> Self {
        Self {
            chosen,
            expected: Vec::new(),
            stored: Vec::new(),
        }
    }
}

impl Collected {
    /// A collection of the same buckets, without rows.
    pub(super) fn emptied(&self) -> Self {
        let sets = self
            .sets
            .iter()
            .map(|rows| by_row!(rows, rows => keep Rows::new(rows.chosen.clone())))
            .collect();
        Self {
            secret: self.secret,
            sets,
        }
    }
}

impl Tally for Collected {
    fn expect<R: SetRow>(&mut self, set: Set<R>, row: R) {
        let rows = &mut self.sets[set];
        if rows.chosen.any() && rows.chosen.buckets[self.secret.bucket(row)] {
            rows.expected.push(row);
        }
    }

    fn store<R: SetRow>(&mut self, set: Set<R>, all: &[R]) {
        let Rows { chosen, stored, .. } = &mut self.sets[set];
        if chosen.any() {
            for &row in all {
                if chosen.buckets[self.secret.bucket(row)] {
                    stored.push(row);
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        for (rows, others) in self.sets.iter_mut().zip(other.sets) {
            by_row!(rows, others, (rows, others) => {
                rows.expected.extend(others.expected);
                rows.stored.extend(others.stored);
            });
        }
    }
}

/// Adds the rows that differ.
pub(super) fn add_differences(view: &View, collected: Collected, findings: &mut Findings) {
    for (set, rows) in collected.sets.sets().zip(collected.sets) {
        by_row!(set, rows, (set, rows) => add_differences_of(view, set, rows, findings));
    }
}

fn add_differences_of<R: SetRow>(view: &View, set: Set<R>, rows: Rows<R>, findings: &mut Findings) {
    let Rows {
        chosen,
        mut expected,
        mut stored,
    } = rows;
    expected.sort_unstable();
    stored.sort_unstable();
    let mut expected = expected.into_iter().peekable();
    let mut stored = stored.into_iter().peekable();
    loop {
        let (row, is_missing) = match (expected.peek(), stored.peek()) {
            (Some(row), Some(other)) if row == other => {
                expected.next();
                stored.next();
                continue;
            }
            (Some(&row), other) if other.is_none_or(|&other| row < other) => {
                expected.next();
                (row, true)
            }
            (_, Some(&row)) => {
                stored.next();
                (row, false)
            }
            (_, None) => break,
        };
        // Words cost the reading of a document.
        if findings.is_full() {
            findings.count(1);
        } else {
            findings.add_in(usize::MAX, describe(view, set, row, is_missing));
        }
    }
    if chosen.unlisted > 0 {
        findings.add(
            set.table().name,
            "rows",
            format!("{} or more other rows differ", chosen.unlisted),
        );
        findings.count(chosen.unlisted - 1);
    }
}

/// A row that is missing or too many, in words.
fn describe<R: SetRow>(view: &View, set: Set<R>, row: R, is_missing: bool) -> Problem {
    let number = number_of(row.number());
    let names = format!(
        "a row names document {}, to which it does not belong",
        number.0
    );
    let (key, missing, more) = if set.is(KEYS) {
        let key = key_of(view, number).unwrap_or_else(|| format!("hash {:016x}", row.prefix()));
        (key, "the row of the document is missing".to_owned(), names)
    } else if set.is(POSTINGS) {
        let fingerprint = Fingerprint::from_bits(row.prefix());
        let key = key_of(view, number).unwrap_or_else(|| number.0.to_string());
        let missing = format!("the row of document {key} is missing");
        (fingerprint.to_string(), missing, names)
    } else if let Some((table, of)) = set.permuted_number().zip(table_of(view, set)) {
        let permuted = Permuted::from_bits(row.prefix());
        let fingerprint = of.invert(permuted);
        let missing = format!("the row in table {table} is missing");
        let more = format!("table {table} has a row of it, but no document has it");
        (fingerprint.to_string(), missing, more)
    } else if set.is(DEAD) {
        let more = "it is marked as removed, but no block has the document".to_owned();
        (number.0.to_string(), "its row is missing".to_owned(), more)
    } else {
        let missing = "the row is missing".to_owned();
        (
            format!("{row:x}"),
            missing,
            "the row should not be there".to_owned(),
        )
    };
    let problem = if is_missing { missing } else { more };
    Problem::new(set.table().name, key, problem)
}

fn table_of<R: SetRow>(view: &View, set: Set<R>) -> Option<&Table> {
    view.settings().plan.tables().get(set.permuted_number()?)
}

/// The key of a document, if it can be read.
fn key_of(view: &View, number: DocumentNumber) -> Option<String> {
    let document = view.document(number).ok()?;
    Some(String::from_utf8_lossy(document.key()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::{KEYS, permuted};

    #[test]
    fn a_set_that_differs_shows_one_bucket_at_least_and_counts_the_others() {
        let mut products = Products::new(2, Secret::new());
        let rows: Vec<u128> = (0..100_000u128).map(|row| row << 64).collect();
        rows.iter().for_each(|&row| products.expect(KEYS, row));
        assert!(
            products
                .differing(0)
                .is_some_and(|all| all.sets[permuted(0)].chosen.buckets.is_empty())
        );
        let shown = |products: &Products, most_rows| {
            let mut collected = products.differing(most_rows)?.emptied();
            rows.iter().for_each(|&row| collected.expect(KEYS, row));
            let rows = &collected.sets[KEYS];
            Some((rows.expected.len() as u64, rows.chosen.unlisted))
        };
        assert_eq!(shown(&products, u64::MAX), Some((100_000, 0)));
        let (listed, unlisted) = shown(&products, 0).unwrap_or_default();
        assert!(
            listed > 0 && listed < 1000 && listed + unlisted == 100_000,
            "{listed}, {unlisted}"
        );
        products.store(KEYS, &rows);
        assert!(products.differing(0).is_none());
        assert_eq!(products.stored_rows(KEYS), 100_000);
    }
}
