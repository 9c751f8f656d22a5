//! From candidates to near fingerprints: many rows of a table are compared with a query. There is no other way from a
//! row that a probe returned to a near fingerprint.
//!
//! The comparing loop is plain. The compiler makes of it what each set of vector instructions allows, and which set is
//! taken is chosen when the program runs. This file only names the sets.
#![allow(
    unsafe_code,
    reason = "the calls of functions compiled for other processors, which `multiversion` checks first"
)]

use std::ops::RangeInclusive;

use multiversion::multiversion;

use super::covering::Reach;
use super::table::{Permuted, Table};
use crate::fingerprint::Fingerprint;

/// Stored fingerprints that a probe or a scan returned, permuted as in their table. Their distances are
/// not yet known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a>(&'a [u64]);

impl<'a> Candidates<'a> {
    /// The candidates in these rows of a permuted table.
    pub(crate) const fn new(rows: &'a [u64]) -> Self {
        Self(rows)
    }

    /// The number of candidates.
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// The number of candidates in a range.
    pub(crate) fn within(self, range: &RangeInclusive<u64>) -> u64 {
        let mut count = 0;
        for row in self.0 {
            count += u64::from(range.contains(row));
        }
        count
    }

    /// Calls `each` with the candidates that may be within `max_distance` of the query, if their last `unknown_bits`
    /// are not known and stand as 0: all that differ from it in no more of the known bits.
    #[inline]
    pub(crate) fn each_perhaps_near(
        self,
        query: Permuted,
        unknown_bits: u32,
        max_distance: u32,
        mut each: impl FnMut(u64),
    ) {
        let known = u64::MAX.unbounded_shl(unknown_bits);
        each_within(self.0, query.bits() & known, max_distance, |row, _| {
            each(row);
        });
    }

    /// Calls `each` with the candidates within `max_distance` of the query. This is the only way to a
    /// [`NearFingerprint`]: it computes the distance of each candidate.
    ///
    /// `query` is permuted as the candidates are. The distance of permuted fingerprints is the same, so
    /// only the near ones are permuted back.
    #[inline]
    pub(crate) fn each_near(
        self,
        query: Permuted,
        max_distance: u32,
        table: &Table,
        mut each: impl FnMut(NearFingerprint),
    ) {
        each_within(self.0, query.bits(), max_distance, |row, distance| {
            each(NearFingerprint {
                distance,
                fingerprint: table.invert(Permuted::from_bits(row)),
            });
        });
    }
}

/// A stored fingerprint within the max distance of a query. Ordered by distance, then fingerprint. So one
/// set both removes repeats and sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NearFingerprint {
    pub(crate) distance: u32,
    pub(crate) fingerprint: Fingerprint,
}

/// The number of rows that are compared before the result is looked at. It takes a dozen instructions to look at it.
const TOGETHER: usize = 128;

/// Calls `each` with every row that differs from `query` in at most `max_distance` bits, and with the distance.
#[inline]
fn each_within(rows: &[u64], query: u64, max_distance: u32, mut each: impl FnMut(u64, u32)) {
    for rows in rows.chunks(TOGETHER) {
        if least_distance_to(rows, query) > u64::from(max_distance) {
            continue;
        }
        for rows in rows.chunks(u64::BITS as usize) {
            let mut within = all_within(rows, query, max_distance);
            while within != 0 {
                let row = rows[within.trailing_zeros() as usize];
                each(row, (row ^ query).count_ones());
                within &= within - 1;
            }
        }
    }
}

/// The least distance of any row to the query. Without rows, the greatest number.
#[multiversion(targets(
    "x86_64+avx512f+avx512vl+avx512vpopcntdq+popcnt",
    "x86_64+avx2+popcnt",
    "x86_64+popcnt",
    "aarch64+neon",
))]
fn least_distance_to(rows: &[u64], query: u64) -> u64 {
    least_distance(rows, query)
}

/// Which rows are within a distance of the query, of up to 64: the bits of a number, the lowest for the first row.
#[multiversion(targets(
    "x86_64+avx512f+avx512vl+avx512vpopcntdq+popcnt",
    "x86_64+avx2+popcnt",
    "x86_64+popcnt",
    "aarch64+neon",
))]
fn all_within(rows: &[u64], query: u64, max_distance: u32) -> u64 {
    let mut within = 0;
    for (index, row) in rows.iter().enumerate() {
        let is_within = (row ^ query).count_ones() <= max_distance;
        within |= u64::from(is_within) << index;
    }
    within
}

/// The indexes of all rows of `a` and `b` that differ in at most `max_distance` bits, but for those that a probe of
/// `but` finds too. Without `b`, of each two rows of `a`, the one that stands first.
pub(crate) fn pairs_within(
    a: &[u64],
    b: Option<&[u64]>,
    max_distance: u32,
    but: &[Reach],
) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    add_pairs_within(a, b, max_distance, but, &mut pairs);
    pairs
}

#[multiversion(targets(
    "x86_64+avx512f+avx512vl+avx512vpopcntdq+popcnt",
    "x86_64+avx2+popcnt",
    "x86_64+popcnt",
    "aarch64+neon",
))]
fn add_pairs_within(
    a: &[u64],
    b: Option<&[u64]>,
    max_distance: u32,
    but: &[Reach],
    pairs: &mut Vec<(u32, u32)>,
) {
    for (index, &row) in a.iter().enumerate() {
        let first = if b.is_some() { 0 } else { index + 1 };
        for (part, rows) in b.unwrap_or(a)[first..].chunks(TOGETHER).enumerate() {
            if least_distance(rows, row) <= u64::from(max_distance) {
                let first = first + part * TOGETHER;
                for (at, other) in rows.iter().enumerate() {
                    let difference = other ^ row;
                    if difference.count_ones() <= max_distance
                        && but
                            .iter()
                            .all(|but| (difference & but.prefix).count_ones() > but.flips)
                    {
                        pairs.push((index as u32, (first + at) as u32));
                    }
                }
            }
        }
    }
}

/// What [`least_distance_to`] finds. The distance is as wide as a row, so that a vector of rows gives one of distances.
#[inline(always)]
fn least_distance(rows: &[u64], query: u64) -> u64 {
    let mut least = u64::MAX;
    for row in rows {
        least = least.min(u64::from((row ^ query).count_ones()));
    }
    least
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::table::tests::scattered;

    #[test]
    fn fingerprints_are_found_up_to_the_max_distance_and_no_farther() {
        let table = scattered();
        let query = table.apply(Fingerprint::from_bits(0));
        // Distances 0 to 63 in turn, in a list longer than the number of rows compared together.
        let fingerprints: Vec<Fingerprint> = (0..1000u64)
            .map(|i| {
                Fingerprint::from_bits((1u64 << (i % 64)).wrapping_sub(1).rotate_left(i as u32))
            })
            .collect();
        let rows: Vec<u64> = fingerprints
            .iter()
            .map(|&fingerprint| table.apply(fingerprint).bits())
            .collect();
        for max_distance in [0, 3, 7, 40, 64] {
            for first in [0, 1, 31, 990, 1000] {
                let candidates = Candidates::new(&rows[first..]);
                let mut found = Vec::new();
                candidates.each_near(query, max_distance, &table, |near| found.push(near));
                let near = fingerprints[first..]
                    .iter()
                    .map(|&fingerprint| NearFingerprint {
                        distance: fingerprint.bits().count_ones(),
                        fingerprint,
                    });
                let expected = near.filter(|near| near.distance <= max_distance);
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
        }
    }

    proptest! {
        /// Whatever is known of a candidate, it is let through if it is near, and if it is not, as far as that is
        /// known.
        #[test]
        fn what_may_be_near_is_all_that_differs_in_few_known_bits(
            query in any::<u64>(),
            differing in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..300),
            unknown_bits in 0..=32u32, max_distance in 0..12u32,
        ) {
            let rows: Vec<u64> = differing.iter().map(|(a, b, c)| query ^ (a & b & c)).collect();
            let cut: Vec<u64> = rows.iter().map(|row| row >> unknown_bits << unknown_bits).collect();
            let mut found = Vec::new();
            let query = Permuted::from_bits(query);
            Candidates::new(&cut).each_perhaps_near(query, unknown_bits, max_distance, |row| found.push(row));
            let differing = |row: &u64| ((row ^ query.bits()) >> unknown_bits).count_ones();
            let right: Vec<u64> =
                cut.iter().copied().filter(|row| differing(row) <= max_distance).collect();
            prop_assert_eq!(found, right);
        }
    }

    type LeastDistance = fn(&[u64], u64) -> u64;

    /// The version that is chosen for this processor, the loop compiled for any processor of its kind, and
    /// the loop compiled for each set of instructions that this processor has.
    fn versions() -> Vec<LeastDistance> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut versions: Vec<LeastDistance> = vec![least_distance_to, least_distance];
        #[cfg(target_arch = "x86_64")]
        {
            macro_rules! add_if_there {
                ($features:literal: $($feature:tt)+) => {{
                    #[target_feature(enable = $features)]
                    fn compiled(rows: &[u64], query: u64) -> u64 {
                        least_distance(rows, query)
                    }
                    if true $(&& is_x86_feature_detected!($feature))+ {
                        // SAFETY: the processor has these features.
                        versions.push(|rows, query| unsafe { compiled(rows, query) });
                    }
                }};
            }
            add_if_there!("avx512f,avx512vl,avx512vpopcntdq,popcnt": "avx512f" "avx512vl" "avx512vpopcntdq" "popcnt");
            add_if_there!("avx2,popcnt": "avx2" "popcnt");
            add_if_there!("popcnt": "popcnt");
        }
        versions
    }

    #[test]
    fn all_sets_of_instructions_find_the_same_least_distance() {
        let random = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32);
        let query = 0x0123_4567_89ab_cdef;
        // Some rows of each distance, beside random rows.
        let near =
            |i: u64| query ^ (u64::MAX.unbounded_shr(64 - i as u32 % 65)).rotate_left(i as u32);
        let rows: Vec<u64> = (0..300)
            .map(|i| if i % 3 == 0 { random(i) } else { near(i) })
            .collect();
        for least_distance in versions() {
            for start in 0..rows.len() {
                for length in (0..=40).chain([99, 130, 299]) {
                    let rows = &rows[start..rows.len().min(start + length)];
                    let distances = rows.iter().map(|row| (row ^ query).count_ones());
                    let least = distances.min().map_or(u64::MAX, u64::from);
                    assert_eq!(least_distance(rows, query), least, "{start}, {length}");
                }
            }
        }
    }
}
