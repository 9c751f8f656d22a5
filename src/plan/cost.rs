//! What a probe set costs: ranges read, candidates met, and the time they take.

use super::probes::{ProbeSet, Way};
use super::table::Table;
use crate::fingerprint::Fingerprint;

// Nanoseconds, measured on the machine of docs/benchmarks.md; it is the ratios that count.

/// A cost where the processor has the memory at hand, and how much more it is where it has to wait for memory.
struct Nanos {
    near: f64,
    far: f64,
}

/// The steps of a query, each of which waits for the one before, however many ranges take them together.
const QUERY: Nanos = Nanos { near: 250.0, far: 600.0 };
/// Reading a range in a level, or in a run in memory that may have rows in it.
const RANGE: Nanos = Nanos { near: 80.0, far: 190.0 };
/// Learning that a run in memory has no rows in a range.
const NO_ROWS: Nanos = Nanos { near: 10.0, far: 30.0 };
/// Comparing with a candidate.
const CANDIDATE: Nanos = Nanos { near: 0.4, far: 1.4 };
/// Of so many bytes, half are at hand.
const HALF_AT_HAND_BYTES: f64 = 128e6;

/// How much more it is where the block is not cached, but has to be read from the page cache of the system, and decoded.
const READ_NANOS: f64 = 5_000.0;
/// Comparing with a fingerprint in a scan, which has to be read and decoded too.
const SCANNED_NANOS: f64 = 4.5;

/// What a file holds, as far as the cost of a query depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// How many fingerprints there are.
    pub(crate) rows: f64,
    /// How many tables hold them.
    pub(crate) tables: f64,
    /// In how many levels each table is stored.
    pub(crate) levels: f64,
    /// How many rows the runs in memory have that are to be read besides.
    pub(crate) runs: Vec<f64>,
    /// What share of the blocks fits into the cache, 0 to 1.
    pub(crate) cached: f64,
    /// For each table, the share of its rows that a prefix of 0 to 64 bits leads to, on average over the prefixes of stored
    /// fingerprints. Empty where fingerprints are taken to be uniform.
    pub(crate) shares: Vec<Vec<f64>>,
}

impl Load {
    /// So many uniform fingerprints in one level, cached.
    pub(crate) fn uniform(rows: f64, tables: &[Table]) -> Self {
        let tables = tables.len() as f64;
        Self { rows, tables, levels: 1.0, runs: Vec::new(), cached: 1.0, shares: Vec::new() }
    }

    /// So many fingerprints, spread as those of a sample are; as uniform ones where there is none.
    pub(super) fn sampled(rows: f64, tables: &[Table], sample: &[Fingerprint]) -> Self {
        let shares = if sample.len() < 2 {
            Vec::new()
        } else {
            tables.iter().map(|it| shares_of(it, sample)).collect()
        };
        Self { shares, ..Self::uniform(rows, tables) }
    }

    fn share(&self, table: usize, prefix_bits: u32) -> f64 {
        let uniform = || 1.0 / (1u128 << prefix_bits) as f64;
        let measured = self.shares.get(table).and_then(|shares| shares.get(prefix_bits as usize));
        measured.copied().unwrap_or_else(uniform)
    }

    /// How many candidates a way of probing meets.
    pub(crate) fn candidates(&self, way: Way) -> f64 {
        // Prefixes beside that of a stored fingerprint are not more frequent than others; but nor are they for sure.
        self.rows * self.share(way.table, way.prefix_bits) * way.values()
    }

    pub(super) fn way_nanos(&self, way: Way) -> f64 {
        let candidates = self.candidates(way);
        // Whoever reads much of a table will not find it in memory.
        let each = if candidates > self.rows / 16.0 { SCANNED_NANOS } else { self.of(&CANDIDATE) };
        let range = self.of(&RANGE) + READ_NANOS * (1.0 - self.cached);
        let run = |rows: &f64| {
            let any = (rows * self.share(way.table, way.prefix_bits)).min(1.0);
            self.of(&NO_ROWS) + any * self.of(&RANGE)
        };
        let ranges = self.levels * range + self.runs.iter().map(run).sum::<f64>();
        way.ranges() * ranges + candidates * each
    }

    /// A cost in the memory there is.
    fn of(&self, cost: &Nanos) -> f64 {
        let bytes = self.rows * self.tables * 8.0;
        cost.near + cost.far * bytes / (bytes + HALF_AT_HAND_BYTES)
    }

    pub(super) fn ways_nanos(&self, ways: &[Way]) -> f64 {
        self.of(&QUERY) + ways.iter().map(|&way| self.way_nanos(way)).sum::<f64>()
    }

    /// How many candidates a query meets with a probe set.
    pub(crate) fn all_candidates(&self, probes: &ProbeSet) -> f64 {
        match probes {
            ProbeSet::Scan => self.rows,
            ProbeSet::Ways(ways) => ways.iter().map(|&way| self.candidates(way)).sum(),
        }
    }

    /// What a query costs with a probe set, in nanoseconds, its matches apart.
    pub(crate) fn nanos(&self, probes: &ProbeSet) -> f64 {
        match probes {
            ProbeSet::Scan => self.of(&QUERY) + self.rows * SCANNED_NANOS,
            ProbeSet::Ways(ways) => self.ways_nanos(ways),
        }
    }
}

/// For each number of leading bits, the share of all pairs of a sample that agree on them.
fn shares_of(table: &Table, sample: &[Fingerprint]) -> Vec<f64> {
    let mut rows: Vec<u64> = sample.iter().map(|&it| table.permutation.apply(it).bits()).collect();
    rows.sort_unstable();
    let pairs = rows.len() as f64 * (rows.len() - 1) as f64;
    let share = |bits: u32| {
        let same = |a: &u64, b: &u64| (a ^ b).checked_shr(64 - bits).unwrap_or(0) == 0;
        let groups = rows.chunk_by(same).map(|group| group.len() as f64 * (group.len() - 1) as f64);
        groups.sum::<f64>() / pairs
    };
    (0..=64).map(share).collect()
}
