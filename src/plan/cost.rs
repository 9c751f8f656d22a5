//! What a probe set costs: ranges read, candidates met, and the time they take.

use super::probes::{ProbeSet, ProbedPrefix};
use super::table::Table;
use crate::fingerprint::Fingerprint;

// Nanoseconds, measured on the machine of docs/benchmarks.md; it is the ratios that count.

/// A cost in nanoseconds: where the processor's caches have the memory, and what comes on top where they do not.
struct Nanos {
    in_cache: f64,
    miss: f64,
}

/// The steps of a query, each of which waits for the one before, however many ranges take them together.
const QUERY: Nanos = Nanos { in_cache: 250.0, miss: 600.0 };
/// Reading a range in a level, or in a run in memory that may have rows in it.
const RANGE: Nanos = Nanos { in_cache: 80.0, miss: 190.0 };
/// Learning that a run in memory has no rows in a range.
const NO_ROWS: Nanos = Nanos { in_cache: 10.0, miss: 30.0 };
/// Comparing with a candidate.
const CANDIDATE: Nanos = Nanos { in_cache: 0.4, miss: 1.4 };
/// The size of tables of which the processor's caches have half.
const HALF_IN_CACHE_BYTES: f64 = 128e6;

/// What a range costs on top where its block is not in the cache. It is read from the system's page cache, and decoded.
const READ_NANOS: f64 = 5_000.0;
/// Comparing with one fingerprint in a scan, reading and decoding included.
const SCANNED_NANOS: f64 = 4.5;

/// What a query costs in a file: what the file holds, as far as the cost depends on it.
#[derive(Clone, Debug)]
pub(crate) struct CostModel {
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

impl CostModel {
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
    pub(crate) fn candidates(&self, prefix: ProbedPrefix) -> f64 {
        // Prefixes beside that of a stored fingerprint are not more frequent than others; but nor are they for sure.
        self.rows * self.share(prefix.table, prefix.prefix_bits) * prefix.values()
    }

    pub(super) fn prefix_nanos(&self, prefix: ProbedPrefix) -> f64 {
        let candidates = self.candidates(prefix);
        // Whoever reads much of a table will not find it in memory.
        let each = if candidates > self.rows / 16.0 { SCANNED_NANOS } else { self.of(&CANDIDATE) };
        let range = self.of(&RANGE) + READ_NANOS * (1.0 - self.cached);
        let run = |rows: &f64| {
            let any = (rows * self.share(prefix.table, prefix.prefix_bits)).min(1.0);
            self.of(&NO_ROWS) + any * self.of(&RANGE)
        };
        let ranges = self.levels * range + self.runs.iter().map(run).sum::<f64>();
        prefix.ranges() * ranges + candidates * each
    }

    /// A cost at the size of the tables: the larger they are, the less of them is in the processor's caches.
    fn of(&self, cost: &Nanos) -> f64 {
        let bytes = self.rows * self.tables * 8.0;
        cost.in_cache + cost.miss * bytes / (bytes + HALF_IN_CACHE_BYTES)
    }

    pub(super) fn prefixes_nanos(&self, prefixes: &[ProbedPrefix]) -> f64 {
        self.of(&QUERY) + prefixes.iter().map(|&prefix| self.prefix_nanos(prefix)).sum::<f64>()
    }

    /// How many candidates a query meets with a probe set.
    pub(crate) fn all_candidates(&self, probes: &ProbeSet) -> f64 {
        match probes {
            ProbeSet::Scan => self.rows,
            ProbeSet::Prefixes(prefixes) => prefixes.iter().map(|&prefix| self.candidates(prefix)).sum(),
        }
    }

    /// What a query costs with a probe set, in nanoseconds, its matches apart.
    pub(crate) fn nanos(&self, probes: &ProbeSet) -> f64 {
        match probes {
            ProbeSet::Scan => self.of(&QUERY) + self.rows * SCANNED_NANOS,
            ProbeSet::Prefixes(prefixes) => self.prefixes_nanos(prefixes),
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
