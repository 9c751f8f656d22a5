//! Join: all pairs of rows within a distance, found by going through permuted tables in order.
//!
//! Rows that differ in at most k bits agree on one of some prefixes, but for a number of flips. So the rows of a
//! table are cut into groups of one prefix, and each group is compared with itself, and with the groups whose prefix
//! differs in no more bits than may be flipped. A pair counts in the first pass that finds it, so no pairs have to be
//! remembered.
//!
//! Groups of many rows are cut into smaller ones. Rows that differ in at most k bits agree on one of any k + 1 blocks
//! of bits. So they are sorted by each block in turn, and only those that agree on it are compared. A pair counts in
//! the first block on which it agrees.
//!
//! # References
//!
//! Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, section 4 (batch queries).

use std::fmt;

use super::candidates::pairs_within;
use super::cost::CostModel;
use super::covering::Reach;
use super::plan::{ProbeSet, ProbedPrefix};
use super::planner;
use super::table::{Permuted, Table};
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
    /// For each pass, how the rows agree that passes before it find.
    earlier: Vec<Vec<Reach>>,
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

    /// Whether all rows of another part are of this one too.
    pub(crate) fn contains(self, other: Self) -> bool {
        let rows = self.first..=self.last();
        self.bits <= other.bits && rows.contains(&other.first)
    }

    /// The greatest row that begins so.
    pub(crate) fn last(self) -> u64 {
        self.first | u64::MAX.unbounded_shr(self.bits)
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

    /// The part that prints as this text. A number that has more bits is none.
    pub(crate) fn parsed(text: &str) -> Option<Self> {
        let (leading, bits) = text.split_once('/')?;
        let leading = u64::from_str_radix(leading, 16).ok()?;
        let bits: u32 = bits.parse().ok()?;
        let behind = u64::BITS.checked_sub(bits)?;
        let first = leading.unbounded_shl(behind);
        let fits = first.unbounded_shr(behind) == leading;
        fits.then_some(Self { first, bits })
    }
}

/// The bits as a number, `/`, and how many they are.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leading = self.first.unbounded_shr(u64::BITS - self.bits);
        write!(f, "{leading:x}/{}", self.bits)
    }
}

impl<'p> Join<'p> {
    /// The cheapest passes through these tables that find all pairs within a distance.
    pub(crate) fn cheapest(
        tables: &[Table],
        max_distance: u32,
        cost_model: &CostModel,
    ) -> Vec<ProbedPrefix> {
        match planner::cheapest(tables, max_distance, &cost_model.for_join()) {
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
        let mut earlier = Vec::with_capacity(passes.len());
        for (index, pass) in passes.iter().enumerate() {
            let table = &tables[pass.table];
            let mut before = Vec::with_capacity(index);
            for earlier in &passes[..index] {
                let prefix = tables[earlier.table].prefix_mask(earlier.prefix_bits);
                before.push(Reach {
                    prefix: table.apply(Fingerprint::from_bits(prefix)).bits(),
                    flips: earlier.flips,
                });
            }
            earlier.push(before);
        }
        Self {
            tables,
            passes,
            earlier,
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
        let bits = prefix_bits.min(a.bits).min(b.bits);
        let differing = leading(a.first ^ b.first, bits);
        differing.count_ones() <= flips
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
        let table = &self.tables[self.passes[pass].table];
        let mut report = |a: u64, b: u64| {
            each(NearPair {
                a: table.invert(Permuted::from_bits(a)),
                b: table.invert(Permuted::from_bits(b)),
                distance: (a ^ b).count_ones(),
            })
        };
        let mut search = Search {
            max_distance: self.max_distance,
            earlier: self.earlier[pass].clone(),
            each: &mut report,
        };
        let (part_b, rows_b) = other.unwrap_or((part, rows));
        let fixed = part.bits.min(part_b.bits);
        if fixed >= prefix_bits {
            let sides = Sides {
                a: rows,
                b: other.map(|(_, rows)| rows),
            };
            return search.near_pairs(sides);
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
                    search.near_pairs(Sides { a, b })?;
                }
            }
        }
        Ok(())
    }
}

/// The leading bits of a row, with zeros behind them.
fn leading(row: u64, bits: u32) -> u64 {
    row & !u64::MAX.unbounded_shr(bits)
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
        let behind = prefix_bits - part.bits.min(prefix_bits);
        let bits = behind.min(rows.len().max(1).ilog2());
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
        let behind = row.unbounded_shl(self.part.bits);
        behind.unbounded_shr(64 - self.bits) as usize
    }

    /// The rows that have the prefix of this one.
    fn with_prefix(&self, row: u64) -> &'r [u64] {
        let fixed = self.part.bits.min(self.prefix_bits);
        if leading(row ^ self.part.first, fixed) != 0 {
            return &[];
        }
        let index = self.index(row);
        let start = self.starts[index] as usize;
        let end = self.starts[index + 1] as usize;
        let rows = &self.rows[start..end];
        let prefix = leading(row, self.prefix_bits);
        let from = rows.partition_point(|&other| leading(other, self.prefix_bits) < prefix);
        let rows = &rows[from..];
        &rows[..rows.partition_point(|&other| leading(other, self.prefix_bits) == prefix)]
    }
}

/// The rows that are compared: those of `a` with those of `b`, or with each other.
#[derive(Clone, Copy)]
struct Sides<'r> {
    a: &'r [u64],
    b: Option<&'r [u64]>,
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
    let mut varying = 0;
    for row in rows {
        varying |= row ^ rows[0];
    }
    varying
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

/// The search for near pairs that no earlier one finds, on its way from rows to groups that agree on blocks of bits.
struct Search<'e> {
    max_distance: u32,
    /// A pair with one of these agreements was found before.
    earlier: Vec<Reach>,
    /// Takes two rows within the max distance: one of each side, or two of the same.
    each: &'e mut dyn FnMut(u64, u64) -> Result<()>,
}

impl Search<'_> {
    fn near_pairs(&mut self, sides: Sides<'_>) -> Result<()> {
        if sides.pairs() <= FEW_PAIRS {
            return self.compare(sides);
        }
        let Some(blocks) = sides.blocks(self.max_distance) else {
            return self.compare(sides);
        };

        let known = self.earlier.len();
        for block in blocks {
            self.agreeing_pairs(sides, block)?;
            self.earlier.push(Reach {
                prefix: block,
                flips: 0,
            });
        }
        self.earlier.truncate(known);
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
        for (index_a, index_b) in pairs_within(a, b, self.max_distance, &self.earlier) {
            let other = b.unwrap_or(a)[index_b as usize];
            (self.each)(a[index_a as usize], other)?;
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

    use super::super::Plan;
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
            let table = &join.tables[join.table(pass)];
            let mut rows: Vec<u64> = fingerprints
                .iter()
                .map(|&bits| table.apply(Fingerprint::from_bits(bits)).bits())
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
            "2x32", "3x21", "4x16", "6x21", "7x20", "10x25", "11x28", "14x32", "8x8",
        ] {
            let plan = name.parse::<Plan>().expect("a plan");
            for kind in 0..3 {
                let rows = fingerprints(300, kind);
                for max_distance in (0..=16).chain([40, 64]) {
                    let model = CostModel::sampled(1e6, plan.tables(), &[]);
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

    fn found(sides: Sides<'_>, max_distance: u32) -> BTreeSet<(u64, u64)> {
        let mut found = BTreeSet::new();
        let mut each = |a: u64, b: u64| {
            let pair = if sides.b.is_some() {
                (a, b)
            } else {
                (a.min(b), a.max(b))
            };
            assert!(found.insert(pair), "{pair:?} comes twice");
            Ok(())
        };
        let mut search = Search {
            max_distance,
            earlier: Vec::new(),
            each: &mut each,
        };
        let ended = search.near_pairs(sides);
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
            let a = rows(all, 1, bits);
            let b = rows(all, 2, bits);
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
