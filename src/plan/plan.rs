//! Plan: the tables of a file, and the cheapest probe set for each distance that was asked of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::cost::CostModel;
use super::probes::{ProbeSet, ProbedPrefix};
use super::table::{MOST_TABLES, Table};
use super::{covering, planner};
use crate::error::Result;

/// The permuted tables of a file, fixed at its creation. A clone knows what was found for the same file.
#[derive(Clone)]
pub(crate) struct Plan {
    tables: Vec<Table>,
    /// The probe sets found so far.
    probe_sets: Arc<RwLock<KnownProbeSets>>,
}

/// Probe sets by distance, and by what the file held when they were chosen.
type KnownProbeSets = HashMap<(u32, Size), Arc<ProbeSet>>;

/// What a file holds, to the next power of two: a probe set that was the cheapest stays about the cheapest so long.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Size {
    rows: u32,
    levels: usize,
    runs: usize,
}

impl Plan {
    /// The plan of these tables, or `None` where there are none, too many, or a prefix longer than 64 bits.
    pub(crate) fn new(tables: Vec<Table>) -> Option<Self> {
        let possible = !tables.is_empty()
            && tables.len() <= MOST_TABLES
            && tables.iter().all(|table| table.prefix_bits <= 64);
        possible.then(|| Self { tables, probe_sets: Arc::default() })
    }

    /// The same tables for another file.
    pub(super) fn for_another_file(&self) -> Self {
        Self { tables: self.tables.clone(), probe_sets: Arc::default() }
    }

    /// The tables, in the order of their numbers.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The shortest of the prefixes that the tables were made to be probed on.
    pub(crate) fn least_prefix_bits(&self) -> u32 {
        self.tables.iter().map(|table| table.prefix_bits).min().unwrap_or(0)
    }

    /// The largest distance that one probe of each table answers exactly, with the prefixes they were made for.
    pub(crate) fn radius(&self) -> u32 {
        let whole =
            |(table, of): (usize, &Table)| ProbedPrefix { table, prefix_bits: of.prefix_bits, flips: 0 };
        let reaches: Vec<_> =
            self.tables.iter().enumerate().map(|it| whole(it).reach(&self.tables)).collect();
        covering::radius(&reaches).unwrap_or(0)
    }

    /// The cheapest probe set for a distance in a file of so many fingerprints, in so many levels and runs in memory; `load` tells the rest.
    ///
    /// # Cost
    ///
    /// A look-up; the first time for a distance, and again when the file has doubled, some milliseconds.
    pub(crate) fn probe_set(
        &self,
        distance: u32,
        rows: u64,
        (levels, runs): (usize, usize),
        cost_model: impl FnOnce() -> Result<CostModel>,
    ) -> Result<Arc<ProbeSet>> {
        let size = Size { rows: rows.next_power_of_two().trailing_zeros(), levels, runs };
        let known = |probe_sets: &KnownProbeSets| probe_sets.get(&(distance, size)).cloned();
        if let Some(probe_set) = known(&self.probe_sets.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(probe_set);
        }
        let probe_set = Arc::new(planner::cheapest(&self.tables, distance, &cost_model()?));
        let mut probe_sets = self.probe_sets.write().unwrap_or_else(PoisonError::into_inner);
        probe_sets.insert((distance, size), probe_set.clone());
        Ok(probe_set)
    }
}

/// The name of a plan: number of tables, `x`, bits of their shortest prefix.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.tables.len(), self.least_prefix_bits())
    }
}
