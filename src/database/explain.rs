//! How a query is answered: its probes, what they were expected to meet and what they met, and the time they took.

use std::time::{Duration, Instant};

use super::near::probe_set;
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
    /// How long they took when repeated.
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

pub(super) fn explain(reader: &impl Read, query: &Query, total: u64) -> Result<Explanation> {
    let settings = reader.settings();
    let plan = &settings.plan;
    let max_distance = query.distance_or(settings.max_distance);
    let set = probe_set(reader, max_distance)?;
    let load = reader.load(true)?;
    let mut explanation = Explanation {
        plan: plan.to_string(),
        max_distance,
        probes: Vec::new(),
        sources: reader.sources(),
        candidates_expected: load.all_candidates(&set),
        candidates: 0,
        blocks: 0,
        near: 0,
        total,
        expected: Duration::from_nanos(load.nanos(&set) as u64),
        first: Duration::ZERO,
        again: Duration::ZERO,
    };
    if let ProbeSet::Ways(ways) = &*set {
        explanation.probes.extend(ways.iter().map(|&way| TableProbes {
            table: way.table,
            prefix_bits: way.prefix_bits,
            flips: way.flips,
            ranges: way.ranges() as u64,
            candidates_expected: load.candidates(way),
            candidates: 0,
        }));
    }
    for time in [&mut explanation.first, &mut explanation.again] {
        let mut near = Vec::new();
        let mut candidates = 0;
        explanation.probes.iter_mut().for_each(|probes| probes.candidates = 0);
        let begun = Instant::now();
        let mut probes = Vec::new();
        if set.add_probes(plan, query.fingerprint(), 0, &mut probes) {
            explanation.blocks = reader.candidates(&probes, |probe, met| {
                let permutation = &plan.tables()[probe.table].permutation;
                let count = met.within(probe);
                candidates += count;
                let table = explanation.probes.iter_mut().find(|it| it.table == probe.table);
                table.into_iter().for_each(|table| table.candidates += count);
                met.each_near(probe.query, max_distance, permutation, |it| near.push(it));
            })?;
        } else {
            let permutation = &plan.tables()[0].permutation;
            let query = permutation.apply(query.fingerprint());
            explanation.blocks = reader.scan(|met| {
                candidates += met.len() as u64;
                met.each_near(query, max_distance, permutation, |it| near.push(it));
                Ok(())
            })?;
        }
        *time = begun.elapsed();
        near.sort_unstable();
        near.dedup();
        explanation.near = near.len() as u64;
        explanation.candidates = candidates;
    }
    Ok(explanation)
}
