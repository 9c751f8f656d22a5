//! Tallies: what is made of the rows that sets should have and of those that they do have. The products of
//! all rows, or the rows of a few buckets themselves. Then it says in words which rows are missing and which are
//! too many.
//!
//! Product: a number that stands for many rows, whatever their order. Equal rows have equal products.
//!
//! The field is that of the numbers modulo the prime 2^127 - 1. A row of two words stands for the factor
//! `r + s * low + high`, with `r` and `s` drawn at random for each check. As polynomials in `r` and `s`,
//! different factors have no common divisor. So different rows have different polynomials. Two different
//! polynomials of degree n agree at a random point with a chance of at most n / 2^127 (Schwartz and
//! Zippel). So if a set of a billion rows is wrong, that stays unnoticed with a chance of at most 2^-97.
//! This holds for all rows that were chosen before `r` and `s` were drawn.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::report::Findings;
use crate::fingerprint::Fingerprint;
use crate::plan::{Permuted, Table};
use crate::store::blocks::Row;
use crate::store::file::{
    DEAD, KEYS, POSTINGS, PerSet, RowFamily, Set, SetRow, View, all_sets, by_row, number_of,
};
use crate::store::numbers::DocumentNumber;

/// Takes rows in any order.
pub(super) trait Tally: Send + Sync {
    /// The same kind of tally, without rows.
    fn emptied(&self) -> Self;
    /// A row that a set should have.
    fn expect<R: SetRow>(&mut self, set: Set<R>, row: R);
    fn store<R: SetRow>(&mut self, set: Set<R>, rows: &[R]);
    /// Adds what another tally took.
    fn merge(&mut self, other: Self);
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
    pub(super) fn new(tables: usize) -> Self {
        Self::with_secret(tables, Secret::new())
    }

    fn with_secret(tables: usize, secret: Secret) -> Self {
        Self {
            secret,
            sets: all_sets(tables)
                .map(|set| by_row!(set, _ => keep Both::new()))
                .collect(),
        }
    }

    pub(super) fn stored_rows<R: SetRow>(&self, set: Set<R>) -> u64 {
        let mut rows = 0;
        for product in &self.sets[set].stored {
            rows += product.rows;
        }
        rows
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
            expected: vec![Product::default(); BUCKETS],
            stored: vec![Product::default(); BUCKETS],
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
    fn emptied(&self) -> Self {
        Self::with_secret(self.sets.tables(), self.secret)
    }

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
        all.add_all(*more);
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

impl Tally for Collected {
    fn emptied(&self) -> Self {
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
            let (key, problem) = describe(view, set, row, is_missing);
            findings.add(set.table().name, key, problem);
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

/// A row that is missing or too many, in words: its key and what is wrong.
fn describe<R: SetRow>(view: &View, set: Set<R>, row: R, is_missing: bool) -> (String, String) {
    let number = number_of(row.number());
    let names = format!(
        "a row names document {}, to which it does not belong",
        number.0
    );
    let (key, missing, more) = if set.is(KEYS) {
        let key = match key_of(view, number) {
            Some(key) => key,
            None => format!("hash {:016x}", row.prefix()),
        };
        (key, "the row of the document is missing".to_owned(), names)
    } else if set.is(POSTINGS) {
        let fingerprint = Fingerprint::from_bits(row.prefix());
        let key = match key_of(view, number) {
            Some(key) => key,
            None => number.0.to_string(),
        };
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
    (key, if is_missing { missing } else { more })
}

fn table_of<R: SetRow>(view: &View, set: Set<R>) -> Option<&Table> {
    view.settings().plan.tables().get(set.permuted_number()?)
}

/// The key of a document, if it can be read.
fn key_of(view: &View, number: DocumentNumber) -> Option<String> {
    let document = view.document(number).ok()?;
    Some(String::from_utf8_lossy(document.key()).into_owned())
}

const PRIME: u128 = (1 << 127) - 1;

/// Rows are dealt into this number of buckets, each with a product of its own. So the rows that differ can
/// be looked for in few of them.
const BUCKETS: usize = 1024;

/// The random numbers of a check.
#[derive(Clone, Copy, Debug)]
struct Secret {
    r: u128,
    s: u128,
    spread: u64,
}

impl Secret {
    fn new() -> Self {
        // The standard library draws the seeds of its hash tables from the system.
        let state = RandomState::new();
        let mut words = [0; 5];
        for (index, word) in words.iter_mut().enumerate() {
            let mut hasher = state.build_hasher();
            hasher.write_usize(index);
            *word = hasher.finish();
        }
        let [r_high, r_low, s_high, s_low, spread] = words;
        Self {
            r: (u128::from(r_high) << 64 | u128::from(r_low)) & PRIME,
            s: (u128::from(s_high) << 64 | u128::from(s_low)) & PRIME,
            spread: spread | 1,
        }
    }

    /// The bucket of a row. Neighbouring rows are in different buckets.
    fn bucket<R: Row>(&self, row: R) -> usize {
        let (high, low) = words(row);
        let mixed = (high ^ low.rotate_left(32)).wrapping_mul(self.spread);
        // The upper half of the product depends on all bits.
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(self.spread);
        (mixed >> (64 - BUCKETS.ilog2())) as usize
    }
}

/// The product of some rows, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Product {
    /// Not above the prime, which stands for 0.
    value: u128,
    rows: u64,
}

impl Default for Product {
    /// The product of no rows.
    fn default() -> Self {
        Self { value: 1, rows: 0 }
    }
}

impl Product {
    #[inline]
    fn add<R: Row>(&mut self, row: R, secret: &Secret) {
        let (high, low) = words(row);
        let by_high = folded(secret.r + u128::from(high));
        let by_low = multiplied(secret.s, u128::from(low));
        let factor = folded(by_high + by_low);
        self.value = multiplied(self.value, factor);
        self.rows += 1;
    }

    /// Adds all rows of another product.
    fn add_all(&mut self, other: Self) {
        self.value = multiplied(self.value, other.value);
        self.rows += other.rows;
    }
}

/// The two words of a row.
#[inline]
fn words<R: Row>(row: R) -> (u64, u64) {
    if R::COLUMNS == 0 {
        (row.prefix(), 0)
    } else {
        (row.prefix(), row.number() as u64)
    }
}

/// A number that is equal modulo the prime, and not above the prime unless `number` is the greatest there
/// is.
#[inline]
const fn folded(number: u128) -> u128 {
    (number & PRIME) + (number >> 127)
}

/// The product of two numbers that are not above the prime, modulo the prime and not above it.
#[inline]
const fn multiplied(a: u128, b: u128) -> u128 {
    const HALF: u128 = u64::MAX as u128;
    let a1 = a >> 64;
    let a0 = a & HALF;
    let b1 = b >> 64;
    let b0 = b & HALF;
    // The upper halves have 63 bits. So no sum below has more than 128 bits.
    let middle = a0 * b1 + a1 * b0;
    // 2^127 is 1 modulo the prime.
    let upper = folded(2 * (a1 * b1) + ((middle << 64) & PRIME));
    folded(folded(upper + folded(a0 * b0)) + (middle >> 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::{KEYS, permuted};

    #[test]
    fn a_set_that_differs_shows_one_bucket_at_least_and_counts_the_others() {
        let mut products = Products::new(2);
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

#[cfg(test)]
mod product_tests {
    use proptest::prelude::*;

    use super::*;

    /// The product by the school method, one bit after the other.
    fn slowly(a: u128, b: u128) -> u128 {
        let double = |number: u128| (number << 1) % PRIME;
        (0..127).rev().fold(0, |sum, bit| {
            let sum = double(sum);
            if b >> bit & 1 == 1 {
                (sum + a % PRIME) % PRIME
            } else {
                sum
            }
        })
    }

    proptest! {
        #[test]
        fn products_are_those_of_the_field(a in 0..=PRIME, b in 0..=PRIME) {
            for (a, b) in [(a, b), (a, PRIME), (PRIME, PRIME), (PRIME - 1, PRIME - 1), (a, u128::from(u64::MAX))] {
                let product = multiplied(a, b);
                prop_assert!(product <= PRIME);
                prop_assert_eq!(product % PRIME, slowly(a, b));
            }
        }

        #[test]
        fn the_order_of_rows_does_not_matter_and_every_bit_does(
            rows in prop::collection::vec(any::<u128>(), 1..50), at in any::<prop::sample::Index>(), bit in 0..128,
        ) {
            let secret = Secret::new();
            let product = |rows: &[u128]| {
                let mut product = Product::default();
                rows.iter().for_each(|&row| product.add(row, &secret));
                product
            };
            let mut other = rows.clone();
            other.reverse();
            prop_assert_eq!(product(&rows), product(&other));
            let mut parts = product(&rows[..rows.len() / 2]);
            parts.add_all(product(&rows[rows.len() / 2..]));
            prop_assert_eq!(product(&rows), parts);
            *at.get_mut(&mut other) ^= 1u128 << bit;
            prop_assert_ne!(product(&rows), product(&other));
        }
    }

    #[test]
    fn numbers_in_order_fill_all_buckets_alike() {
        let secret = Secret::new();
        let mut counts = vec![0u32; BUCKETS];
        (0..1u64 << 17).for_each(|row| counts[secret.bucket(row)] += 1);
        let most = counts.iter().max().copied().unwrap_or(0);
        assert!(
            most < 128 * 4,
            "{most} rows in one bucket, where 128 are the mean"
        );
    }
}
