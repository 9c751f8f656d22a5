//! How a query is answered: its probes, what they were expected to meet and what they met, and the time they took.

use std::time::{Duration, Instant};

use super::near::{NearQuery, NearSearch, probe_set};
use super::query::Query;
use crate::error::Result;
use crate::plan::ProbeSet;
use crate::store::Read;

/// How a query is answered, beside its answer. From [`Snapshot::explain`](crate::Snapshot::explain).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The name of the plan of the file.
    pub plan: String,
    /// The distance that was asked for, or that of the database.
    pub max_distance: u32,
    /// How each table is probed; empty if all fingerprints are compared.
    pub probes: Vec<TableProbes>,
    /// How many levels and runs in memory each range is read in.
    pub sources: usize,
    /// How many candidates are expected, from the skew of what is stored.
    pub candidates_expected: f64,
    /// How many there were.
    pub candidates: u64,
    /// How many blocks they were in.
    pub blocks: u64,
    /// How many different fingerprints were near.
    pub near: u64,
    /// How many of the documents match.
    pub total: u64,
    /// How long it is expected to take if all blocks are in memory, without the look-up of documents.
    pub expected: Duration,
    /// How long the probes took, blocks that were not in memory included.
    pub first: Duration,
    /// How long they took when repeated: the median of up to 15 times, fewer if that takes long.
    pub again: Duration,
}

/// How one table is probed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TableProbes {
    /// The number of the table.
    pub table: usize,
    /// How many leading bits are looked at.
    pub prefix_bits: u32,
    /// How many of these may differ.
    pub flips: u32,
    /// How many ranges are read.
    pub ranges: u64,
    /// How many candidates are expected.
    pub candidates_expected: f64,
    /// How many there were.
    pub candidates: u64,
}

/// The probes are timed so many times, if it does not take longer.
const MOST_TIMES: usize = 16;
const LONGEST_TIMING: Duration = Duration::from_millis(20);

/// All but the number of documents that match.
pub(super) fn explain(reader: &impl Read, query: &Query) -> Result<Explanation> {
    let settings = reader.settings();
    let plan = &settings.plan;
    let max_distance = query.distance_or(settings.max_distance);
    let set = probe_set(reader, max_distance)?;
    let cost_model = reader.cost_model(true)?;
    let (levels, runs) = reader.sources();
    let mut explanation = Explanation {
        plan: plan.to_string(),
        max_distance,
        probes: Vec::new(),
        sources: levels + runs,
        candidates_expected: cost_model.all_candidates(&set),
        candidates: 0,
        blocks: 0,
        near: 0,
        total: 0,
        expected: Duration::from_nanos(cost_model.nanos(&set) as u64),
        first: Duration::ZERO,
        again: Duration::ZERO,
    };
    if let ProbeSet::Prefixes(prefixes) = &*set {
        explanation.probes.extend(prefixes.iter().map(|&prefix| TableProbes {
            table: prefix.table,
            prefix_bits: prefix.prefix_bits,
            flips: prefix.flips,
            ranges: prefix.ranges() as u64,
            candidates_expected: cost_model.candidates(prefix),
            candidates: 0,
        }));
    }
    // Timed as a query does it; counted afterwards.
    let queries = [NearQuery { fingerprint: query.fingerprint(), max_distance }];
    let mut times = Vec::new();
    let begun_all = Instant::now();
    while times.len() < 2 || (times.len() < MOST_TIMES && begun_all.elapsed() < LONGEST_TIMING) {
        let begun = Instant::now();
        let mut near = 0;
        let mut parts = NearSearch::new(reader, &queries);
        while let Some(part) = parts.next_part()? {
            near += part.len() as u64;
        }
        times.push(begun.elapsed());
        explanation.near = near;
    }
    explanation.first = times.remove(0);
    times.sort_unstable();
    explanation.again = times[times.len() / 2];
    let mut probes = Vec::new();
    if set.add_probes(plan.tables(), query.fingerprint(), 0, &mut probes) {
        explanation.blocks = reader.candidates(&probes, |probe, candidates| {
            let table_probes = explanation.probes.iter_mut().find(|it| it.table == probe.table);
            table_probes.into_iter().for_each(|it| it.candidates += candidates.within(probe));
        })?;
        explanation.candidates = explanation.probes.iter().map(|it| it.candidates).sum();
    } else {
        let mut scan = reader.scan();
        explanation.blocks = scan.blocks();
        while scan.advance()? {
            explanation.candidates += scan.candidates().len() as u64;
        }
    }
    Ok(explanation)
}
