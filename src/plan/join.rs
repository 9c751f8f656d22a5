//! Join: all pairs of rows within a distance, found by going through permuted tables in order.
//!
//! Rows that differ in at most k bits agree on one of some prefixes, but for a number of flips. So the rows of a
//! table are cut into groups of one prefix, and each group is compared with itself, and with the groups whose prefix
//! differs in no more bits than may be flipped. A pair counts in the first pass that finds it, so no pairs have to be
//! remembered.
//!
//! # References
//!
//! Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, section 4 (batch queries).

use super::cost::{CostModel, Work};
use super::joined_rows::{Pair, Sides};
use super::permutation::{Permuted, Table};
use super::planner;
use super::probes::{ProbeSet, ProbedPrefix};
use crate::error::Result;
use crate::fingerprint::Fingerprint;

/// Two fingerprints within the max distance: one of each side, or two of the same set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NearPair {
    pub(crate) a: Fingerprint,
    pub(crate) b: Fingerprint,
    pub(crate) distance: u32,
}

/// The way to all pairs of rows within a distance: one pass through a table for each of some prefixes.
pub(crate) struct Join<'p> {
    tables: &'p [Table],
    passes: Vec<ProbedPrefix>,
    /// For each pass, the bits of a fingerprint that are its prefix.
    masks: Vec<u64>,
    max_distance: u32,
}

/// The rows of a table that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    /// The least row that begins so.
    pub(crate) first: u64,
    /// The number of bits.
    pub(crate) bits: u32,
}

impl Part {
    /// All rows.
    pub(crate) const ALL: Self = Self { first: 0, bits: 0 };

    /// The rows that begin with these bits. `None` if there are more bits in the number.
    pub(crate) fn from_leading(leading: u64, bits: u32) -> Option<Self> {
        let behind = u64::BITS.checked_sub(bits)?;
        let part = Self {
            first: leading.checked_shl(behind).unwrap_or(0),
            bits,
        };
        (part.leading() == leading).then_some(part)
    }

    /// The bits, as a number.
    pub(crate) fn leading(self) -> u64 {
        self.first.checked_shr(u64::BITS - self.bits).unwrap_or(0)
    }

    /// Whether all rows of another part are of this one too.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.bits <= other.bits && (self.first..=self.last()).contains(&other.first)
    }

    /// The greatest row that begins so.
    pub(crate) fn last(self) -> u64 {
        self.first | u64::MAX.checked_shr(self.bits).unwrap_or(0)
    }

    /// The two halves. There are none if there is one row at most.
    pub(crate) fn halves(self) -> Option<[Self; 2]> {
        let bits = self.bits + 1;
        let half = 1 << 64u32.checked_sub(bits)?;
        Some([
            Self { bits, ..self },
            Self {
                first: self.first | half,
                bits,
            },
        ])
    }
}

impl<'p> Join<'p> {
    /// The cheapest passes through these tables that find all pairs within a distance.
    pub(crate) fn cheapest(
        tables: &[Table],
        max_distance: u32,
        cost_model: &CostModel,
    ) -> Vec<ProbedPrefix> {
        let cost_model = CostModel {
            work: Work::Join,
            ..cost_model.clone()
        };
        match planner::cheapest(tables, max_distance, &cost_model) {
            ProbeSet::Prefixes(prefixes) => prefixes,
            ProbeSet::Scan => vec![ProbedPrefix {
                table: 0,
                prefix_bits: 0,
                flips: 0,
            }],
        }
    }

    /// The way by passes that find all pairs within a distance.
    pub(crate) fn new(tables: &'p [Table], max_distance: u32, passes: Vec<ProbedPrefix>) -> Self {
        let mut masks = Vec::with_capacity(passes.len());
        for pass in &passes {
            let permutation = &tables[pass.table].permutation;
            masks.push(permutation.prefix_mask(pass.prefix_bits));
        }
        Self {
            tables,
            passes,
            masks,
            max_distance,
        }
    }

    /// The number of passes.
    pub(crate) fn passes(&self) -> usize {
        self.passes.len()
    }

    /// The table through which a pass goes.
    pub(crate) fn table(&self, pass: usize) -> usize {
        self.passes[pass].table
    }

    /// Whether a pass compares rows of one part with rows of another, or of the same.
    pub(crate) fn joins(&self, pass: usize, a: Part, b: Part) -> bool {
        let ProbedPrefix {
            prefix_bits, flips, ..
        } = self.passes[pass];
        leading(a.first ^ b.first, prefix_bits.min(a.bits).min(b.bits)).count_ones() <= flips
    }

    /// The parts whose rows a pass compares with those of a part, as far as the bits of that part tell. They have no
    /// row in common, and need not be parts of the table.
    pub(crate) fn near_parts(&self, pass: usize, part: Part) -> Vec<Part> {
        let ProbedPrefix {
            prefix_bits, flips, ..
        } = self.passes[pass];
        let bits = part.bits.min(prefix_bits);
        let own = leading(part.first, bits);

        let mut parts = Vec::new();
        for pattern in patterns(0, bits, flips) {
            let first = own ^ pattern;
            parts.push(Part { first, bits });
        }
        parts
    }

    /// Calls `each` with the pairs that a pass finds in the rows of two parts, or of one, and that no earlier pass
    /// finds. The rows of a part are in order, each once. The two parts have no row in common, unless they are of
    /// different sets.
    pub(crate) fn pairs(
        &self,
        pass: usize,
        (part, rows): (Part, &[u64]),
        other: Option<(Part, &[u64])>,
        each: &mut dyn FnMut(NearPair) -> Result<()>,
    ) -> Result<()> {
        let ProbedPrefix {
            prefix_bits, flips, ..
        } = self.passes[pass];
        let mut report = |pair| self.report(pass, pair, each);
        let (part_b, rows_b) = other.unwrap_or((part, rows));
        let fixed = part.bits.min(part_b.bits);
        if fixed >= prefix_bits {
            let sides = Sides {
                a: rows,
                b: other.map(|(_, rows)| rows),
            };
            return sides.near_pairs(self.max_distance, &mut report);
        }
        let differing = leading(part.first ^ part_b.first, fixed);
        let Some(flips) = flips.checked_sub(differing.count_ones()) else {
            return Ok(());
        };
        let patterns = patterns(fixed, prefix_bits, flips);
        let groups = Groups::new(part_b, rows_b, prefix_bits);
        for a in rows.chunk_by(|a, b| leading(a ^ b, prefix_bits) == 0) {
            for &pattern in &patterns {
                let b = match (other, pattern) {
                    (None, 0) => None,
                    _ => Some(groups.with_prefix(a[0] ^ differing ^ pattern)),
                };
                // Of the same set, each two groups are joined once.
                let joins = match b {
                    None => true,
                    Some([]) => false,
                    Some([first, ..]) => other.is_some() || a[0] < *first,
                };
                if joins {
                    Sides { a, b }.near_pairs(self.max_distance, &mut report)?;
                }
            }
        }
        Ok(())
    }

    /// Reports a pair of rows, unless an earlier pass finds it.
    fn report(
        &self,
        pass: usize,
        Pair { a, b }: Pair,
        each: &mut dyn FnMut(NearPair) -> Result<()>,
    ) -> Result<()> {
        let permutation = &self.tables[self.passes[pass].table].permutation;
        let [a, b] = [a, b].map(|row| permutation.invert(Permuted::from_bits(row)));
        let difference = a.bits() ^ b.bits();
        for (earlier, mask) in self.passes[..pass].iter().zip(&self.masks) {
            if (difference & mask).count_ones() <= earlier.flips {
                return Ok(());
            }
        }
        each(NearPair {
            a,
            b,
            distance: difference.count_ones(),
        })
    }
}

/// The leading bits of a row, with zeros behind them.
fn leading(row: u64, bits: u32) -> u64 {
    row & !u64::MAX.checked_shr(bits).unwrap_or(0)
}

/// All differences of at most `flips` of the bits from `from` to `to`, in order.
fn patterns(from: u32, to: u32, flips: u32) -> Vec<u64> {
    let mut patterns = vec![0u64];
    for bit in from..to {
        for index in 0..patterns.len() {
            let pattern = patterns[index];
            if pattern.count_ones() < flips {
                patterns.push(pattern | 1 << (63 - bit));
            }
        }
    }
    patterns.sort_unstable();
    patterns
}

/// The rows of a part, by their prefix.
struct Groups<'r> {
    part: Part,
    rows: &'r [u64],
    prefix_bits: u32,
    /// The number of bits behind those of the part by which `starts` is indexed.
    bits: u32,
    /// Where the rows begin that have each value of these bits, and where the last ones end.
    starts: Vec<u32>,
}

impl<'r> Groups<'r> {
    fn new(part: Part, rows: &'r [u64], prefix_bits: u32) -> Self {
        // About one entry a row.
        let bits = (prefix_bits - part.bits.min(prefix_bits)).min(rows.len().max(1).ilog2());
        let mut groups = Self {
            part,
            rows,
            prefix_bits,
            bits,
            starts: Vec::new(),
        };
        let mut starts = vec![0; (1 << bits) + 1];
        for &row in rows {
            starts[groups.index(row) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        groups.starts = starts;
        groups
    }

    fn index(&self, row: u64) -> usize {
        let behind = row.checked_shl(self.part.bits).unwrap_or(0);
        behind.checked_shr(64 - self.bits).unwrap_or(0) as usize
    }

    /// The rows that have the prefix of this one.
    fn with_prefix(&self, row: u64) -> &'r [u64] {
        if leading(row ^ self.part.first, self.part.bits.min(self.prefix_bits)) != 0 {
            return &[];
        }
        let index = self.index(row);
        let rows = &self.rows[self.starts[index] as usize..self.starts[index + 1] as usize];
        let prefix = leading(row, self.prefix_bits);
        let from = rows.partition_point(|&other| leading(other, self.prefix_bits) < prefix);
        let rows = &rows[from..];
        &rows[..rows.partition_point(|&other| leading(other, self.prefix_bits) == prefix)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::plan_named;
    use super::*;

    /// Fingerprints of which many are near to others, and some begin or end with the same bits.
    fn fingerprints(count: u64, kind: u64) -> Vec<u64> {
        let random = |i: u64| {
            (i + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let mut all: Vec<u64> = (0..count)
            .map(|i| {
                let near = random(i / 5)
                    ^ (0..i % 5).fold(0, |bits, j| bits | 1 << (random(i * 7 + j) >> 58));
                match kind {
                    0 => near,
                    1 => near >> 40 << 8,
                    _ => near & 0x0f0f_0f0f_0f0f_0f0f | 0xa0a0_0000_0000_0000,
                }
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn brute_force(rows: &[u64], max_distance: u32) -> BTreeSet<(u64, u64)> {
        let pairs = rows
            .iter()
            .enumerate()
            .flat_map(|(i, &a)| rows[i + 1..].iter().map(move |&b| (a, b)));
        pairs
            .filter(|(a, b)| (a ^ b).count_ones() <= max_distance)
            .collect()
    }

    /// The parts of sorted rows that have no more than `most` rows.
    fn parts(rows: &[u64], part: Part, most: usize) -> Vec<(Part, &[u64])> {
        let from = rows.partition_point(|&row| row < part.first);
        let to = rows.partition_point(|&row| row <= part.last());
        match part.halves().filter(|_| to - from > most) {
            Some(halves) => halves
                .into_iter()
                .flat_map(|half| parts(rows, half, most))
                .collect(),
            None => vec![(part, &rows[from..to])],
        }
    }

    fn joined(join: &Join<'_>, fingerprints: &[u64], most: usize) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        for pass in 0..join.passes() {
            let permutation = &join.tables[join.table(pass)].permutation;
            let mut rows: Vec<u64> = fingerprints
                .iter()
                .map(|&bits| permutation.apply(Fingerprint::from_bits(bits)).bits())
                .collect();
            rows.sort_unstable();
            let parts = parts(&rows, Part::ALL, most);
            let mut each = |NearPair { a, b, distance }: NearPair| {
                assert_eq!(a.distance(b), distance);
                found.push((a.min(b).bits(), a.max(b).bits()));
                Ok(())
            };
            for (index, &a) in parts.iter().enumerate() {
                join.pairs(pass, a, None, &mut each)?;
                for &b in &parts[index + 1..] {
                    if join.joins(pass, a.0, b.0) {
                        join.pairs(pass, a, Some(b), &mut each)?;
                    }
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn each_pair_is_found_once_in_every_plan_at_every_distance() -> Result<()> {
        for name in [
            "2x32", "3x21", "4x16", "6x21", "10x25", "11x28", "14x32", "8x8",
        ] {
            let plan = plan_named(name).expect("a plan");
            for kind in 0..3 {
                let rows = fingerprints(300, kind);
                for max_distance in (0..=16).chain([40, 64]) {
                    let model = CostModel {
                        rows: 1e6,
                        ..CostModel::uniform(1e6, plan.tables())
                    };
                    let passes = Join::cheapest(plan.tables(), max_distance, &model);
                    let join = Join::new(plan.tables(), max_distance, passes);
                    let expected = brute_force(&rows, max_distance);
                    // Parts of one row are many.
                    let least = if max_distance % 7 == 3 { 1 } else { 20 };
                    for most in [least, 37, rows.len()] {
                        let found = joined(&join, &rows, most)?;
                        let different: BTreeSet<_> = found.iter().copied().collect();
                        assert_eq!(
                            found.len(),
                            different.len(),
                            "{name}, {kind}, {max_distance}: a pair came twice"
                        );
                        assert!(
                            different == expected,
                            "{name}, {kind}, {max_distance}, parts of {most}"
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
