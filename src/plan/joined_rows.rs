//! All near pairs of some rows, or of the rows of two sides. Rows that are many are cut into smaller groups.
//!
//! Rows that differ in at most k bits agree on one of any k + 1 blocks of bits. So they are sorted by each block in
//! turn, and only those that agree on it are compared. A pair counts in the first block on which it agrees.

use super::compare;
use crate::error::Result;

/// Two rows within the max distance: one of each side, or two of the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) a: u64,
    pub(super) b: u64,
}

/// The rows that are compared: those of `a` with those of `b`, or with each other.
#[derive(Clone, Copy)]
pub(super) struct Sides<'r> {
    pub(super) a: &'r [u64],
    pub(super) b: Option<&'r [u64]>,
}

/// With fewer pairs of rows, it does not pay to cut them.
const FEW_PAIRS: u64 = 1 << 20;
/// The most rows of a side that are looked at to tell whether a cut pays.
const SAMPLE: usize = 1 << 10;
/// To sort a row takes as long as to compare so many.
const SORTED: f64 = 50.0;
/// The rows of each side that are compared at a time. They stay in the cache of a core.
const TOGETHER: usize = 1 << 10;

impl Sides<'_> {
    /// Calls `each` with each pair of rows within a distance, once.
    pub(super) fn near_pairs(
        self,
        max_distance: u32,
        each: &mut dyn FnMut(Pair) -> Result<()>,
    ) -> Result<()> {
        let mut search = Search {
            max_distance,
            disagree: Vec::new(),
            each,
        };
        search.near_pairs(self)
    }

    /// The number of pairs of rows.
    fn pairs(self) -> u64 {
        let a = self.a.len() as u64;
        match self.b {
            None => a * a.saturating_sub(1) / 2,
            Some(b) => a * b.len() as u64,
        }
    }

    /// Blocks of bits such that near rows agree on one, if to cut by them saves time. No block if no rows are near.
    fn blocks(self, max_distance: u32) -> Option<Vec<u64>> {
        let mut varying = varying_bits(self.a);
        // In these bits all rows of one side differ from all of the other.
        let mut constant = 0;
        if let Some(b) = self.b {
            varying |= varying_bits(b);
            constant = (self.a[0] ^ b[0]) & !varying;
        }
        let Some(left) = max_distance.checked_sub(constant.count_ones()) else {
            return Some(Vec::new());
        };
        let blocks = left + 1;
        if varying.count_ones() < blocks {
            return None;
        }
        let blocks = parts_of(varying, blocks);
        let pairs = self.pairs() as f64;
        let mut compared = 0.0;
        for &block in &blocks {
            compared += pairs * self.agreeing(block);
        }
        let rows = self.a.len() + self.b.map_or(0, <[u64]>::len);
        let sorted = SORTED * rows as f64 * blocks.len() as f64;
        (compared + sorted < pairs / 2.0).then_some(blocks)
    }

    /// The share of the pairs that agree on a block of bits, by a sample.
    fn agreeing(self, block: u64) -> f64 {
        let a = sample(self.a, block);
        let Some(b) = self.b else {
            let mut same = 0.0;
            for group in a.chunk_by(|a, b| a == b) {
                same += group.len() as f64 * (group.len() - 1) as f64;
            }
            return same / (a.len() as f64 * (a.len() - 1) as f64);
        };

        let b = sample(b, block);
        let mut same = 0.0;
        for group in a.chunk_by(|a, b| a == b) {
            let from = b.partition_point(|&row| row < group[0]);
            let count = b[from..].partition_point(|&row| row == group[0]);
            same += group.len() as f64 * count as f64;
        }
        same / (a.len() as f64 * b.len() as f64)
    }
}

/// The bits in which some of the rows differ.
fn varying_bits(rows: &[u64]) -> u64 {
    rows.iter().fold(0, |bits, row| bits | (row ^ rows[0]))
}

/// Some of the rows, cut to a block of bits, in order.
fn sample(rows: &[u64], block: u64) -> Vec<u64> {
    let step = rows.len().div_ceil(SAMPLE);
    let mut sample: Vec<u64> = rows.iter().step_by(step).map(|row| row & block).collect();
    sample.sort_unstable();
    sample
}

/// Cuts the bits of a mask into parts of about the same number.
fn parts_of(mask: u64, parts: u32) -> Vec<u64> {
    let all = mask.count_ones();
    let mut left = mask;
    let mut cut = Vec::new();
    for part in 0..parts {
        let mut bits = 0;
        for _ in all * part / parts..all * (part + 1) / parts {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            bits |= bit;
        }
        cut.push(bits);
    }
    cut
}

/// The search for near pairs, on its way from rows to groups that agree on blocks of bits.
struct Search<'e> {
    max_distance: u32,
    /// A pair that agrees on one of these blocks was found before.
    disagree: Vec<u64>,
    each: &'e mut dyn FnMut(Pair) -> Result<()>,
}

impl Search<'_> {
    fn near_pairs(&mut self, sides: Sides<'_>) -> Result<()> {
        if sides.pairs() <= FEW_PAIRS {
            return self.compare(sides);
        }
        let Some(blocks) = sides.blocks(self.max_distance) else {
            return self.compare(sides);
        };

        let known = self.disagree.len();
        for block in blocks {
            self.agreeing_pairs(sides, block)?;
            self.disagree.push(block);
        }
        self.disagree.truncate(known);
        Ok(())
    }

    /// The near pairs that agree on a block of bits.
    fn agreeing_pairs(&mut self, Sides { a, b }: Sides<'_>, block: u64) -> Result<()> {
        let a = sorted_by(a, block);
        let Some(b) = b else {
            for a in a.chunk_by(|a, b| (a ^ b) & block == 0) {
                self.near_pairs(Sides { a, b: None })?;
            }
            return Ok(());
        };

        let b = sorted_by(b, block);
        let mut groups = b.chunk_by(|a, b| (a ^ b) & block == 0).peekable();
        for a in a.chunk_by(|a, b| (a ^ b) & block == 0) {
            let bits = a[0] & block;
            while groups.next_if(|b| b[0] & block < bits).is_some() {}
            if let Some(b) = groups.next_if(|b| b[0] & block == bits) {
                self.near_pairs(Sides { a, b: Some(b) })?;
            }
        }
        Ok(())
    }

    /// Compares all rows.
    fn compare(&mut self, Sides { a, b }: Sides<'_>) -> Result<()> {
        for (index, part) in a.chunks(TOGETHER).enumerate() {
            let others = match b {
                Some(b) => b,
                None => {
                    self.compare_few(part, None)?;
                    &a[a.len().min((index + 1) * TOGETHER)..]
                }
            };
            for others in others.chunks(TOGETHER) {
                self.compare_few(part, Some(others))?;
            }
        }
        Ok(())
    }

    fn compare_few(&mut self, a: &[u64], b: Option<&[u64]>) -> Result<()> {
        for (index_a, index_b) in compare::pairs_within(a, b, self.max_distance) {
            let pair = Pair {
                a: a[index_a as usize],
                b: b.unwrap_or(a)[index_b as usize],
            };
            let difference = pair.a ^ pair.b;
            if self.disagree.iter().all(|block| difference & block != 0) {
                (self.each)(pair)?;
            }
        }
        Ok(())
    }
}

/// The rows in the order of a block of bits. The other bits make the order one and the same each time.
fn sorted_by(rows: &[u64], block: u64) -> Vec<u64> {
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(|&row| (row & block, row));
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(sides: Sides<'_>, max_distance: u32) -> BTreeSet<(u64, u64)> {
        let mut found = BTreeSet::new();
        let ended = sides.near_pairs(max_distance, &mut |Pair { a, b }| {
            let pair = if sides.b.is_some() {
                (a, b)
            } else {
                (a.min(b), a.max(b))
            };
            assert!(found.insert(pair), "{pair:?} comes twice");
            Ok(())
        });
        assert!(ended.is_ok());
        found
    }

    /// Many rows that agree in some bits, of which some are near.
    fn rows(count: u64, seed: u64, bits: u64) -> Vec<u64> {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 3
        };
        let mut rows: Vec<u64> = (0..count).map(|_| random() & bits).collect();
        for i in 0..rows.len() / 10 {
            let near = rows[i] ^ (1 << (random() % 60) | 1 << (random() % 60)) & bits;
            rows.push(near);
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    #[test]
    fn rows_that_are_cut_give_the_pairs_of_rows_that_are_compared() {
        let all = 1_500;
        for (bits, max_distance) in [
            (!0 >> 4, 3),
            (0x0000_ffff_ffff_0fff, 3),
            (0x0f0f_ffff_00ff_ffff, 0),
            (!0 >> 4, 7),
        ] {
            let (a, b) = (rows(all, 1, bits), rows(all, 2, bits));
            let b: Vec<u64> = b
                .iter()
                .chain(a.iter().step_by(9))
                .map(|row| row ^ (1 << 62))
                .collect();
            for sides in [Sides { a: &a, b: None }, Sides { a: &a, b: Some(&b) }] {
                assert!(sides.pairs() > FEW_PAIRS);
                let other = sides.b.unwrap_or(&a);
                let mut expected = BTreeSet::new();
                for (index, &x) in a.iter().enumerate() {
                    let from = if sides.b.is_some() { 0 } else { index + 1 };
                    let near = other[from..]
                        .iter()
                        .filter(|&&y| (x ^ y).count_ones() <= max_distance);
                    expected.extend(near.map(|&y| (x, y)));
                }
                assert!(
                    found(sides, max_distance) == expected,
                    "{bits:x}, {max_distance}"
                );
                if max_distance == 3 {
                    assert!(
                        sides
                            .blocks(max_distance)
                            .is_some_and(|blocks| blocks.len() > 1),
                        "{bits:x} is not cut"
                    );
                }
            }
        }
    }

    #[test]
    fn sides_that_are_far_apart_are_not_compared() {
        let (a, b): (Vec<u64>, Vec<u64>) = (
            (0..2_000).collect(),
            (0..2_000).map(|row| row | 0xff << 50).collect(),
        );
        assert_eq!(Sides { a: &a, b: Some(&b) }.blocks(7), Some(Vec::new()));
        assert!(found(Sides { a: &a, b: Some(&b) }, 7).is_empty());
        assert_eq!(found(Sides { a: &a, b: Some(&b) }, 8).len(), 2_000);
    }

    #[test]
    fn a_mask_is_cut_into_parts_of_about_the_same_number_of_bits() {
        for (mask, parts) in [
            (u64::MAX, 4),
            (0xf0f0_f0f0, 3),
            (0b111, 3),
            (1 << 63 | 1, 2),
        ] {
            let cut = parts_of(mask, parts);
            assert_eq!(cut.iter().fold(0, |all, part| all | part), mask);
            let counts: Vec<u32> = cut.iter().map(|part| part.count_ones()).collect();
            assert_eq!(counts.iter().sum::<u32>(), mask.count_ones());
            assert!(
                counts
                    .iter()
                    .all(|count| count.abs_diff(mask.count_ones() / parts) <= 1),
                "{counts:?}"
            );
        }
    }
}
