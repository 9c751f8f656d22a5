//! The cost of a probe set: the ranges it reads, the candidates it meets, and the time they take.

use std::collections::BTreeSet;

use super::plan::{ProbeSet, ProbedPrefix};
use super::table::Table;
use crate::fingerprint::Fingerprint;

// Measured on the machine of docs/benchmarks.md. Only their ratios matter.

/// A cost in nanoseconds: `in_cache` if the memory is in the caches of the processor, and `miss` in
/// addition if it is not.
struct Nanos {
    in_cache: f64,
    miss: f64,
}

/// The cost of a query apart from its ranges and candidates. A query has a chain of steps that wait for
/// one another, and the ranges take each step together.
const QUERY: Nanos = Nanos {
    in_cache: 500.0,
    miss: 700.0,
};
/// Reading a range in a level, or in a run in memory that has rows in it.
const RANGE: Nanos = Nanos {
    in_cache: 45.0,
    miss: 18.0,
};
/// Sorting a range among those of other queries that are answered together.
const SORTED_RANGE_NANOS: f64 = 25.0;
/// Giving the rows of a range, which another query has read, to a query.
const SHARED_RANGE_NANOS: f64 = 40.0;
/// Finding out that a run in memory has no rows in a range.
const NO_ROWS: Nanos = Nanos {
    in_cache: 10.0,
    miss: 10.0,
};
/// Reading a candidate, and comparing the query with it.
const CANDIDATE: Nanos = Nanos {
    in_cache: 0.25,
    miss: 0.5,
};
/// What it takes longer to compare the query with the signature of a candidate.
const SIGNATURE_NANOS: f64 = 0.75;
/// Comparing the query with a candidate that another query has read just before.
const SHARED_CANDIDATE_NANOS: f64 = 0.04;
/// The size of the tables at which half of them is in the caches of the processor.
const HALF_IN_CACHE_BYTES: f64 = 64e6;

/// The bytes of the cache for a row, and for its signature, each with its part of the index and what documents get.
const ROW_BYTES: f64 = 9.3;
const SIGNATURE_BYTES: f64 = 4.5;
/// The additional cost of a range whose block is not in the cache. The block is read from the page cache
/// of the system, and decoded.
const READ_NANOS: f64 = 5_000.0;
/// The additional cost of a query whose rows are cut: every other query is taken to find something, whose row it reads.
const FOUND_NANOS: f64 = READ_NANOS / 2.0;
/// Gathering a near fingerprint, and putting it in order.
const NEAR_NANOS: f64 = 60.0;
/// Comparing the query with one fingerprint in a scan, including reading and decoding.
const SCANNED_NANOS: f64 = 4.5;

// The costs of a join, for each of its rows.

/// Reading and decoding the row, for each pass.
const PASSED_NANOS: f64 = 8.0;
/// Finding the rows of a prefix, if the row is the only one of its own.
const GROUP_NANOS: f64 = 15.0;
/// Comparing the row with one of its group. Each two rows are compared once.
const JOINED_NANOS: f64 = 0.15;

/// The work for which the tables are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// To answer so many queries together.
    Queries(f64),
    /// To find all pairs, in one go through the tables.
    Join,
}

/// All that the cost of a query in a file depends on, and the costs.
#[derive(Clone, Debug)]
pub(crate) struct CostModel {
    work: Work,
    /// The number of fingerprints.
    pub(super) rows: f64,
    /// The number of tables.
    tables: f64,
    /// The number of levels in which each table is stored.
    levels: f64,
    /// The number of rows of each run in memory that is read beside the levels.
    runs: Vec<f64>,
    /// The bytes that the rows may take in memory.
    cache_bytes: f64,
    /// What of the rows is taken to be in memory.
    held: Held,
    /// For each table, the share of its rows that a prefix of 0 to 64 bits leads to, on average over the
    /// prefixes of stored fingerprints. Empty if the fingerprints are taken to be uniform.
    pub(super) shares: Vec<Vec<f64>>,
}

/// What of the rows of some tables is in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    /// The share of the rows of which something is, 0 to 1.
    share: f64,
    /// Whether whole rows do not fit, so that there are signatures of them.
    are_cut: bool,
}

impl CostModel {
    /// The cost model of `rows` fingerprints in one level, all of it in the cache, that are spread as those of a
    /// sample. A sample of less than two fingerprints stands for uniform ones.
    pub(super) fn sampled(rows: f64, tables: &[Table], sample: &[Fingerprint]) -> Self {
        let mut shares = Vec::new();
        if sample.len() >= 2 {
            for table in tables {
                shares.push(shares_of(table, sample));
            }
        }
        Self {
            tables: tables.len() as f64,
            ..Self::stored(rows, shares, 1, Vec::new(), f64::INFINITY)
        }
    }

    /// The cost model of the fingerprints of a file, with the `shares` of each of its tables. These are stored in some
    /// `levels` and in `runs` of rows in memory. The cache holds `cache_bytes` of them.
    pub(crate) fn stored(
        rows: f64,
        shares: Vec<Vec<f64>>,
        levels: usize,
        runs: Vec<f64>,
        cache_bytes: f64,
    ) -> Self {
        let tables = shares.len() as f64;
        let mut model = Self {
            work: Work::Queries(1.0),
            rows,
            tables,
            levels: levels as f64,
            runs,
            cache_bytes,
            held: Held {
                share: 1.0,
                are_cut: false,
            },
            shares,
        };
        model.held = model.held_of(tables);
        model
    }

    /// What of the rows of so many tables is in memory, if no other table is read.
    fn held_of(&self, tables: f64) -> Held {
        let rows = self.rows * tables;
        let are_cut = self.cache_bytes < rows * ROW_BYTES;
        let share = match are_cut {
            true => (self.cache_bytes / (rows * SIGNATURE_BYTES)).min(1.0),
            false => 1.0,
        };
        Held { share, are_cut }
    }

    /// The same file with more in memory than there is, and with less. What is in memory depends on the number of
    /// tables that a probe set reads, which is known once it is found. With less in memory, it has fewer ranges.
    pub(super) fn by_memory(&self) -> Vec<Self> {
        if self.work == Work::Join || !self.held.are_cut {
            return vec![self.clone()];
        }
        vec![self.clone(), self.with_share(1.0), self.with_share(0.0)]
    }

    /// The same file with another share of the rows in memory.
    fn with_share(&self, share: f64) -> Self {
        Self {
            held: Held { share, ..self.held },
            ..self.clone()
        }
    }

    /// The same file while documents come into it. It has a small level beside the large one.
    pub(super) fn growing(self) -> Self {
        Self {
            levels: self.levels + 1.0,
            ..self
        }
    }

    /// The same file, if so many queries are answered together.
    pub(super) fn for_queries(self, together: usize) -> Self {
        Self {
            work: Work::Queries(together as f64),
            ..self
        }
    }

    /// The same file, if all pairs are to be found.
    pub(super) fn for_join(&self) -> Self {
        Self {
            work: Work::Join,
            ..self.clone()
        }
    }

    fn share(&self, table: usize, prefix_bits: u32) -> f64 {
        match self.shares.get(table) {
            Some(shares) if (prefix_bits as usize) < shares.len() => shares[prefix_bits as usize],
            // Two to the power of minus `prefix_bits`.
            _ => f64::from_bits(u64::from(1023 - prefix_bits) << 52),
        }
    }

    /// The number of candidates that a query is expected to meet in a probed prefix.
    pub(crate) fn candidates(&self, prefix: ProbedPrefix) -> f64 {
        // The share is that of the prefixes of stored fingerprints. Prefixes with flipped bits may lead to
        // fewer rows, but that is not sure. So they count with the same share.
        self.rows * self.share(prefix.table, prefix.prefix_bits) * prefix.values()
    }

    /// The cost of a probed prefix for a query, or of a pass of a join for each of its rows.
    pub(super) fn prefix_nanos(&self, prefix: ProbedPrefix) -> f64 {
        let candidates = self.candidates(prefix);
        let Work::Queries(together) = self.work else {
            // Rows of one prefix look for the others together.
            let rows_of_prefix = self.rows * self.share(prefix.table, prefix.prefix_bits);
            let alone = (1.0 / rows_of_prefix).min(1.0);
            return PASSED_NANOS
                + prefix.values() * alone * GROUP_NANOS
                + candidates * JOINED_NANOS;
        };
        let in_memory = self.nanos_here(&RANGE);
        let range = in_memory + READ_NANOS * (1.0 - self.held.share);
        // A probe that reads more than a sixteenth of a table is not expected to find it in the cache.
        let candidate = if candidates > self.rows / 16.0 {
            SCANNED_NANOS
        } else if self.held.are_cut {
            self.nanos_here(&CANDIDATE) + SIGNATURE_NANOS
        } else {
            self.nanos_here(&CANDIDATE)
        };
        let share = self.share(prefix.table, prefix.prefix_bits);
        let mut runs = 0.0;
        let mut sources = self.levels;
        for rows in &self.runs {
            let any = (rows * share).min(1.0);
            runs += self.nanos_here(&NO_ROWS) + any * in_memory;
            sources += any;
        }
        let read = self.read_part(prefix, together);
        let shared = 1.0 - read;
        let mut each_range = read * (self.levels * range + runs);
        if together > 1.0 {
            each_range += shared * sources * SHARED_RANGE_NANOS + SORTED_RANGE_NANOS;
        }
        let each_candidate = read * candidate + shared * SHARED_CANDIDATE_NANOS;
        prefix.ranges() * each_range + candidates * each_candidate
    }

    /// The part of the ranges of a prefix that is read, if queries are answered together: each range is read for the
    /// first of the queries that need it.
    fn read_part(&self, prefix: ProbedPrefix, together: f64) -> f64 {
        if together <= 1.0 {
            return 1.0;
        }
        // The number of different ranges that there are, if all were as frequent as the average.
        let share = self.share(prefix.table, prefix.prefix_bits);
        let different = (prefix.ranges() / prefix.values() / share).max(1.0);
        let asked = together * prefix.ranges();
        different * (1.0 - (-asked / different).exp()) / asked
    }

    /// A cost at the size of these tables. The larger they are, the smaller is the part in the caches of
    /// the processor.
    fn nanos_here(&self, cost: &Nanos) -> f64 {
        let bytes = self.rows * self.tables * 8.0;
        cost.in_cache + cost.miss * bytes / (bytes + HALF_IN_CACHE_BYTES)
    }

    /// The cost of probed prefixes together, by the cost of each.
    pub(super) fn sum_nanos(&self, prefixes: impl Iterator<Item = f64>) -> f64 {
        self.nanos_here(&QUERY) + prefixes.sum::<f64>()
    }

    /// The number of candidates that a query is expected to meet with a probe set.
    pub(crate) fn all_candidates(&self, probes: &ProbeSet) -> f64 {
        match probes {
            ProbeSet::Scan => self.rows,
            ProbeSet::Prefixes(prefixes) => {
                let mut candidates = 0.0;
                for &prefix in prefixes {
                    candidates += self.candidates(prefix);
                }
                candidates
            }
        }
    }

    /// The cost of a query with a probe set, in nanoseconds, without the look-up of its matches.
    pub(crate) fn nanos(&self, probes: &ProbeSet) -> f64 {
        match probes {
            ProbeSet::Scan if self.work == Work::Join => self.rows * JOINED_NANOS,
            ProbeSet::Scan => self.nanos_here(&QUERY) + self.rows * SCANNED_NANOS,
            ProbeSet::Prefixes(prefixes) => {
                let tables: BTreeSet<usize> = prefixes.iter().map(|prefix| prefix.table).collect();
                let here = Self {
                    held: self.held_of(tables.len() as f64),
                    ..self.clone()
                };
                let found = match self.work {
                    Work::Queries(_) if here.held.are_cut => FOUND_NANOS,
                    _ => 0.0,
                };
                found + here.sum_nanos(prefixes.iter().map(|&prefix| here.prefix_nanos(prefix)))
            }
        }
    }

    /// The number of fingerprints within a distance of a query, if all are evenly spread.
    pub(super) fn near(&self, distance: u32) -> f64 {
        let whole = ProbedPrefix {
            table: 0,
            prefix_bits: u64::BITS,
            flips: distance,
        };
        self.rows * whole.values() / 2f64.powi(64)
    }

    /// The cost of a query for what is within a distance, with the gathering of what is near. A scan can do without
    /// what it does not need.
    pub(super) fn nanos_with_near(&self, probes: &ProbeSet, distance: u32) -> f64 {
        match probes {
            ProbeSet::Scan => self.nanos(probes),
            ProbeSet::Prefixes(_) => self.nanos(probes) + self.near(distance) * NEAR_NANOS,
        }
    }
}

/// For each number of leading bits from 0 to 64, the share of all pairs of a sample that agree on them.
fn shares_of(table: &Table, sample: &[Fingerprint]) -> Vec<f64> {
    let mut rows = Vec::with_capacity(sample.len());
    for &fingerprint in sample {
        rows.push(table.apply(fingerprint).bits());
    }
    rows.sort_unstable();
    let all = rows.len() as f64 * (rows.len() - 1) as f64;

    let mut shares = Vec::with_capacity(65);
    for bits in 0..=64 {
        let mut pairs = 0.0;
        for group in rows.chunk_by(|a, b| (a ^ b).unbounded_shr(64 - bits) == 0) {
            pairs += group.len() as f64 * (group.len() - 1) as f64;
        }
        shares.push(pairs / all);
    }
    shares
}
