//! Plan: the tables of a file, and the cheapest probe set for each distance queried so far. Probe set: the range reads
//! that together answer a distance exactly.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::cost::CostModel;
use super::covering;
use super::planner;
use super::table::{MOST_TABLES, Permuted, Table};
use crate::error::Result;
use crate::sync::RwLock;

/// The permuted tables of a file, fixed when the file is created. Clones share the probe sets found so
/// far.
#[derive(Clone)]
pub(crate) struct Plan {
    tables: Vec<Table>,
    /// The probe sets found so far, for this plan and its clones.
    probe_sets: Arc<RwLock<KnownProbeSets>>,
}

/// Probe sets by what they were chosen for. They are few, so comparing takes less time than hashing.
type KnownProbeSets = BTreeMap<ChosenFor, PricedProbeSet>;

/// A probe set, with what is expected of it for each of the queries that it was chosen for.
#[derive(Clone, Debug)]
pub(crate) struct PricedProbeSet {
    pub(crate) probe_set: Arc<ProbeSet>,
    /// The number of ranges that a query reads. A scan has none.
    pub(crate) ranges: f64,
    /// The cost, in nanoseconds, with that of gathering what is near.
    pub(crate) nanos: f64,
    /// The number of near fingerprints, if all are evenly spread. Of real ones, mostly more are near.
    pub(crate) near: f64,
}

/// The distance, the number of queries that are answered together, and the size of the file.
type ChosenFor = (u32, usize, Size);

/// With so many bytes of the cache for each row, all fit.
const MOST_ROW_BYTES: u64 = 10;

/// The size of a file, as coarse as the choice of a probe set needs it. While the size stays the same, the
/// cheapest probe set remains about the cheapest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Size {
    /// The binary logarithm of the number of fingerprints, rounded up.
    rows_log2: u32,
    levels: usize,
    runs: usize,
    /// The bytes of the cache for each row of the tables, at most those with which all fit.
    row_bytes: u32,
}

impl Plan {
    /// The plan of these tables. `None` if there are no tables, too many, or a prefix is longer than 64
    /// bits.
    pub(crate) fn new(tables: Vec<Table>) -> Option<Self> {
        if tables.is_empty() || tables.len() > MOST_TABLES {
            return None;
        }
        for table in &tables {
            if table.prefix_bits > u64::BITS {
                return None;
            }
        }
        Some(Self {
            tables,
            probe_sets: Arc::default(),
        })
    }

    /// The same tables for another file. The copy shares no probe sets with this plan.
    pub(super) fn for_another_file(&self) -> Self {
        Self {
            tables: self.tables.clone(),
            probe_sets: Arc::default(),
        }
    }

    /// The tables, in the order of their numbers.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The table that scans go through. The others have the same fingerprints, and this one is in every plan.
    pub(crate) fn scan_table(&self) -> &Table {
        &self.tables[0]
    }

    /// The number of bits of the shortest prefix that a table was made for.
    pub(crate) fn least_prefix_bits(&self) -> u32 {
        let prefixes = self.tables.iter().map(|table| table.prefix_bits);
        prefixes.min().unwrap_or(0)
    }

    /// The largest distance that one probe of each table answers exactly, on the prefix that the table was
    /// made for.
    pub(crate) fn radius(&self) -> u32 {
        let mut reaches = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            reaches.push(table.reach(table.prefix_bits, 0));
        }
        covering::radius(&reaches).unwrap_or(0)
    }

    /// The cheapest probe set for a distance, for so many queries together, in a file of `rows` fingerprints in this
    /// number of levels and of runs in memory, with a cache of `cache_bytes`. `cost_model` is called only if the probe
    /// set is not known yet.
    ///
    /// # Cost
    ///
    /// A look-up. Some milliseconds for a new distance, and again when the number of fingerprints passed a power of
    /// two, that of the queries a power of four, the number of levels or runs changed, or the rows that fit into the
    /// cache.
    pub(crate) fn probe_set(
        &self,
        distance: u32,
        together: usize,
        rows: u64,
        (levels, runs): (usize, usize),
        cache_bytes: u64,
        cost_model: impl FnOnce() -> Result<CostModel>,
    ) -> Result<PricedProbeSet> {
        let size = Size {
            rows_log2: rows.next_power_of_two().trailing_zeros(),
            levels,
            runs,
            row_bytes: (cache_bytes / (rows * self.tables.len() as u64).max(1)).min(MOST_ROW_BYTES)
                as u32,
        };
        // A power of four.
        let together = 1 << (together.max(1).ilog2() & !1);
        let of = (distance, together, size);
        if let Some(priced) = self.probe_sets.read().get(&of) {
            return Ok(priced.clone());
        }
        let cost_model = cost_model()?.for_queries(together);
        let probe_set = planner::cheapest(&self.tables, distance, &cost_model);
        let priced = PricedProbeSet {
            nanos: cost_model.nanos_with_near(&probe_set, distance),
            near: cost_model.near(distance),
            ranges: probe_set.probed_ranges(),
            probe_set: Arc::new(probe_set),
        };
        self.probe_sets.write().insert(of, priced.clone());
        Ok(priced)
    }
}

/// The name of a plan: the number of tables, `x`, and the bits of their shortest prefix.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.tables.len(), self.least_prefix_bits())
    }
}

/// A prefix of one table that is probed. The probe finds all fingerprints that differ from the query in at
/// most `flips` of the leading `prefix_bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProbedPrefix {
    pub(crate) table: usize,
    pub(crate) prefix_bits: u32,
    pub(crate) flips: u32,
}

/// The way a distance is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProbeSet {
    /// By probes of these prefixes, which were proved to miss nothing.
    Prefixes(Vec<ProbedPrefix>),
    /// By comparing the query with every fingerprint.
    Scan,
}

impl ProbedPrefix {
    /// The same prefix with one more flip.
    pub(super) fn flipped(self) -> Self {
        Self {
            flips: self.flips + 1,
            ..self
        }
    }

    /// The number of ranges that a query reads for this prefix. Where the flips left are enough for all
    /// remaining bits of the prefix, one range has every value of these bits. That leaves one range for
    /// each choice of `flips` of the bits.
    pub(crate) fn ranges(self) -> f64 {
        if self.flips >= self.prefix_bits {
            1.0
        } else {
            CHOICES[self.prefix_bits as usize][self.flips as usize].0
        }
    }

    /// The number of values of the prefix that these ranges contain.
    pub(super) fn values(self) -> f64 {
        CHOICES[self.prefix_bits as usize][self.flips.min(self.prefix_bits) as usize].1
    }

    /// Calls `each` with the first and last row of each range, in order.
    #[inline]
    pub(crate) fn each_range(self, query: Permuted, mut each: impl FnMut(u64, u64)) {
        let row = query.bits();
        match self.flips {
            0 => {
                let (first, last) = rows_with_prefix(row, self.prefix_bits);
                each(first, last);
            }
            flips => flipped(row, 0, self.prefix_bits, flips, &mut each),
        }
    }
}

/// For each number of up to 64 things and of chosen ones, the number of ways to choose as many, and the number of ways
/// to choose up to as many. The planner asks for millions of them.
static CHOICES: LazyLock<Vec<[(f64, f64); 65]>> = LazyLock::new(|| {
    let mut choices = vec![[(0.0, 0.0); 65]; 65];
    for (all, choices) in choices.iter_mut().enumerate() {
        let mut exactly = 1.0;
        let mut up_to = 0.0;
        for (chosen, choices) in choices.iter_mut().enumerate() {
            up_to += exactly;
            *choices = (exactly, up_to);
            // After all things there is none left to choose.
            exactly *= all.saturating_sub(chosen) as f64 / (chosen + 1) as f64;
        }
    }
    choices
});

/// The first and the last row that agree with a row in the first bits.
fn rows_with_prefix(row: u64, bits: u32) -> (u64, u64) {
    let rest = u64::MAX.unbounded_shr(bits);
    (row & !rest, row | rest)
}

/// Calls `each` with the ranges around a row, in order. The bits before `bit` are fixed. Up to `flips` of
/// the bits from there to `prefix_bits` may be flipped.
fn flipped(row: u64, bit: u32, prefix_bits: u32, flips: u32, each: &mut impl FnMut(u64, u64)) {
    if flips >= prefix_bits - bit || flips == 0 {
        let fixed = if flips == 0 { prefix_bits } else { bit };
        let (first, last) = rows_with_prefix(row, fixed);
        return each(first, last);
    }
    let mask = 1 << (63 - bit);
    for value in [row & !mask, row | mask] {
        let left = flips - u32::from(value != row);
        flipped(value, bit + 1, prefix_bits, left, each);
    }
}

impl ProbeSet {
    /// Whether the probe set is proved to miss nothing at this distance.
    pub(super) fn is_exact(&self, tables: &[Table], distance: u32) -> bool {
        match self {
            Self::Scan => true,
            Self::Prefixes(prefixes) => {
                let mut reaches = Vec::with_capacity(prefixes.len());
                for prefix in prefixes {
                    let table = &tables[prefix.table];
                    reaches.push(table.reach(prefix.prefix_bits, prefix.flips));
                }
                covering::is_proved(&reaches, distance)
            }
        }
    }

    /// The number of ranges that a query reads. A scan has none.
    fn probed_ranges(&self) -> f64 {
        let prefixes = self.prefixes().unwrap_or(&[]);
        prefixes.iter().map(|prefix| prefix.ranges()).sum()
    }

    /// The prefixes that are probed. `None` if the distance is answered by a scan.
    pub(crate) fn prefixes(&self) -> Option<&[ProbedPrefix]> {
        match self {
            Self::Prefixes(prefixes) => Some(prefixes),
            Self::Scan => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_and_values_are_counted_as_they_are_made() {
        for (prefix_bits, flips) in [
            (16, 0),
            (16, 1),
            (21, 2),
            (8, 3),
            (3, 3),
            (3, 5),
            (0, 0),
            (64, 1),
        ] {
            let prefix = ProbedPrefix {
                table: 0,
                prefix_bits,
                flips,
            };
            let mut ranges = 0;
            let mut values = 0u128;
            let mut last_end = None;
            prefix.each_range(Permuted::from_bits(0x0123_4567_89ab_cdef), |first, last| {
                assert!(last_end.is_none_or(|end| first > end), "{prefix:?}");
                last_end = Some(last);
                ranges += 1;
                values += (u128::from(last - first) + 1) >> (64 - prefix_bits);
            });
            assert_eq!(
                (f64::from(ranges), values as f64),
                (prefix.ranges(), prefix.values()),
                "{prefix:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn one_range_has_each_row_within_the_flips_and_none_has_others(
            row: u64, difference: u64, thin: u64, prefix_bits in 0..=64u32, flips in 0..4u32,
        ) {
            let prefix = ProbedPrefix { table: 0, prefix_bits, flips };
            prop_assume!(prefix.ranges() < 1e5);
            let other = row ^ (difference & thin & thin.rotate_left(7));
            let mut found = 0;
            prefix.each_range(Permuted::from_bits(row), |first, last| {
                found += u32::from((first..=last).contains(&other));
            });
            let differing = (row ^ other).unbounded_shr(64 - prefix_bits).count_ones();
            prop_assert_eq!(found, u32::from(differing <= flips));
        }
    }
}
