//! Plan: the tables of a file, and the cheapest probe set for each distance queried so far.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::cost::CostModel;
use super::covering::{self, Reach};
use super::planner;
use super::probes::ProbeSet;
use super::table::{MOST_TABLES, Table};
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
            reaches.push(Reach {
                prefix: table.own_mask(),
                flips: 0,
            });
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
