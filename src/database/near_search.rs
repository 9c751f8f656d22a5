//! Probes -> candidates -> near fingerprints.

use std::sync::Arc;

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidates, NearFingerprint, Probe, ProbeSet};
use crate::store::{Reader, Scan, Transaction};

/// A query for the stored fingerprints within a distance of a fingerprint.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearQuery {
    pub(super) fingerprint: Fingerprint,
    pub(super) max_distance: u32,
}

/// The probe set of the last distance. Most queries that are answered together have the same distance.
#[derive(Debug, Default)]
struct KnownProbeSet(Option<(u32, Arc<ProbeSet>)>);

impl KnownProbeSet {
    /// Adds the probes that answer a query. False if a scan has to answer it.
    fn add_probes(
        &mut self,
        reader: Reader<'_>,
        query: NearQuery,
        query_index: usize,
        probes: &mut Vec<Probe>,
    ) -> Result<bool> {
        let known = match self.0.take() {
            Some(known) if known.0 == query.max_distance => known,
            _ => (query.max_distance, probe_set(reader, query.max_distance)?),
        };
        let (_, probe_set) = self.0.insert(known);
        let tables = reader.settings().plan.tables();
        Ok(probe_set.add_probes(tables, query.fingerprint, query_index, probes))
    }
}

/// The cheapest probes that answer a distance exactly.
pub(super) fn probe_set(reader: Reader<'_>, max_distance: u32) -> Result<Arc<ProbeSet>> {
    let plan = &reader.settings().plan;
    plan.probe_set(
        max_distance,
        reader.fingerprints(),
        reader.sources(),
        || reader.cost_model(false),
    )
}

/// The most near fingerprints that are held at a time. Before repetitions are removed there may be twice
/// this number. Each takes 24 bytes.
const MOST_NEAR: usize = 1 << 20;

/// The number of rows in memory that can be compared in the time of one probe.
const COMPARED_PER_PROBE: usize = 64;

/// Near fingerprints, each with the index of its query.
type NearEach = Vec<(usize, NearFingerprint)>;

/// The search for the fingerprints near to each of some queries. It probes for the queries together. The
/// queries that need a scan share one pass over all fingerprints.
///
/// The near fingerprints come in parts of about [`MOST_NEAR`] at most. A part is in order and without
/// repetitions. It has nothing that an earlier part had.
pub(super) struct NearSearch<'a> {
    reader: Reader<'a>,
    queries: &'a [NearQuery],
    known: KnownProbeSet,
    most: usize,
    /// The index of the first query that was not probed for.
    next: usize,
    /// The number of queries that are probed for together.
    together: usize,
    /// The indexes of the queries that need a scan.
    scanning: Vec<usize>,
    scan: Option<Scan<'a>>,
    /// The number of scanning queries that were compared with the current part of the scan.
    compared: usize,
}

impl<'a> NearSearch<'a> {
    pub(super) fn new(reader: Reader<'a>, queries: &'a [NearQuery]) -> Self {
        Self {
            reader,
            queries,
            known: KnownProbeSet::default(),
            most: MOST_NEAR,
            next: 0,
            together: queries.len(),
            scanning: Vec::new(),
            scan: None,
            compared: 0,
        }
    }

    /// The next part. `None` after the last.
    pub(super) fn next_part(&mut self) -> Result<Option<NearEach>> {
        while self.next < self.queries.len() {
            let end = self.queries.len().min(self.next + self.together);
            let mut probes = Vec::new();
            let mut not_probed = Vec::new();
            for query_index in self.next..end {
                let query = self.queries[query_index];
                let known = &mut self.known;
                if !known.add_probes(self.reader, query, query_index, &mut probes)? {
                    not_probed.push(query_index);
                }
            }
            // Neighbours in a table lie in the same block, or in the next.
            if end - self.next > 1 {
                probes.sort_unstable_by_key(|probe| (probe.table, probe.first));
            }
            match near_candidates(self.reader, self.queries, &probes, self.most)? {
                Some(near) => {
                    self.scanning.append(&mut not_probed);
                    self.next = end;
                    if !near.is_empty() {
                        return Ok(Some(near));
                    }
                }
                // Several probes can meet the same fingerprint. So the near fingerprints of one query
                // can come in parts only from a scan.
                None if self.together == 1 => {
                    self.scanning.push(self.next);
                    self.next = end;
                }
                None => self.together = (end - self.next).div_ceil(2),
            }
        }
        if self.scanning.is_empty() {
            Ok(None)
        } else {
            self.next_scanned()
        }
    }

    /// The next part of what is near to the scanning queries, among all fingerprints.
    fn next_scanned(&mut self) -> Result<Option<NearEach>> {
        let table = self.reader.settings().plan.scan_table();
        let scan = match &mut self.scan {
            Some(scan) => scan,
            none => {
                let mut scan = self.reader.scan()?;
                scan.advance()?;
                none.insert(scan)
            }
        };
        let mut near = Vec::new();
        while near.len() < self.most {
            let Some(&query_index) = self.scanning.get(self.compared) else {
                // All queries were compared with the part of the scan at hand.
                if !near.is_empty() || !scan.advance()? {
                    break;
                }
                self.compared = 0;
                continue;
            };
            let NearQuery {
                fingerprint,
                max_distance,
            } = self.queries[query_index];
            let query = table.apply(fingerprint);
            for found in scan.candidates().near(query, max_distance, table) {
                near.push((query_index, found));
            }
            self.compared += 1;
        }
        sort_and_dedup(&mut near);
        Ok((!near.is_empty()).then_some(near))
    }
}

/// The fingerprints near to each query among the candidates of its probes, in order and without
/// repetitions.
///
/// `None` if they are more than `most`.
fn near_candidates(
    reader: Reader<'_>,
    queries: &[NearQuery],
    probes: &[Probe],
    most: usize,
) -> Result<Option<NearEach>> {
    let tables = reader.settings().plan.tables();
    let mut near = Vec::new();
    let mut too_many = false;
    reader.candidates(probes, |probe, candidates| {
        if too_many {
            return;
        }
        let max_distance = queries[probe.query_index].max_distance;
        let table = &tables[probe.table];
        for found in candidates.near(probe.query, max_distance, table) {
            near.push((probe.query_index, found));
        }
        if near.len() > 2 * most {
            sort_and_dedup(&mut near);
            too_many = near.len() > most;
        }
    })?;
    sort_and_dedup(&mut near);
    Ok((near.len() <= most && !too_many).then_some(near))
}

/// If one match is enough, the number of ranges that are read before the answer is looked at. With
/// fewer, the reads wait for memory just as long.
const PROBES_TOGETHER: usize = 16;

/// Whether `is_found` is true for some of the fingerprints near to a query. They come in parts, which may have them
/// repeatedly. Nothing more is read once it is true.
pub(super) fn any(
    reader: Reader<'_>,
    query: NearQuery,
    mut is_found: impl FnMut(&[(usize, NearFingerprint)]) -> Result<bool>,
) -> Result<bool> {
    let queries = [query];
    let mut probes = Vec::new();
    if KnownProbeSet::default().add_probes(reader, query, 0, &mut probes)? {
        let mut has_all = true;
        for probes in probes.chunks(PROBES_TOGETHER) {
            let Some(near) = near_candidates(reader, &queries, probes, MOST_NEAR)? else {
                has_all = false;
                break;
            };
            if is_found(&near)? {
                return Ok(true);
            }
        }
        if has_all {
            return Ok(false);
        }
    }
    let mut parts = NearSearch::new(reader, &queries);
    while let Some(near) = parts.next_part()? {
        if is_found(&near)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The search for what is near among the fingerprints that a transaction has written.
#[derive(Debug, Default)]
pub(super) struct NearWritten {
    known: KnownProbeSet,
    probes: Vec<Probe>,
    near: Vec<NearFingerprint>,
}

impl NearWritten {
    /// The written fingerprints that are near to a query, in order. Some may have no document any more.
    pub(super) fn find(
        &mut self,
        writer: &mut Transaction,
        query: NearQuery,
    ) -> Result<&[NearFingerprint]> {
        let Self {
            known,
            probes,
            near,
        } = self;
        near.clear();
        let NearQuery {
            fingerprint,
            max_distance,
        } = query;
        writer.index_written();
        let written = writer.written_fingerprints();
        let tables = writer.reader().settings().plan.tables();
        let first = &tables[0];
        let permuted = first.apply(fingerprint);
        near.extend(written.unsorted().near(permuted, max_distance, first));
        let sorted: usize = written.sorted().map(Candidates::len).sum();
        if sorted == 0 {
            sort_and_dedup(near);
            return Ok(near);
        }
        probes.clear();
        let probed = known.add_probes(writer.reader(), query, 0, probes)?;
        if probed && probes.len() * COMPARED_PER_PROBE < sorted {
            for probe in &*probes {
                let table = &tables[probe.table];
                for candidates in written.probed(probe) {
                    near.extend(candidates.near(probe.query, max_distance, table));
                }
            }
        } else {
            for candidates in written.sorted() {
                near.extend(candidates.near(permuted, max_distance, first));
            }
        }
        sort_and_dedup(near);
        Ok(near)
    }
}

fn sort_and_dedup<T: Ord>(near: &mut Vec<T>) {
    near.sort_unstable();
    near.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{CreateOptions, Database};
    use crate::document::Document;
    use crate::text::Scheme;

    /// The parts together have each near fingerprint once, whatever the most that may be held at a time.
    #[test]
    fn what_is_near_comes_in_parts() -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = CreateOptions::new().scheme(Scheme::External);
        let database = Database::create(folder.path().join("d.simdb"), &options)?;
        let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Some clusters and many other fingerprints, so that probing is cheaper than a scan.
        let clustered = (0..3000).map(|i| spread(i % 3) ^ 1 << (i % 64) ^ 1 << (i / 64));
        let stored: Vec<u64> = clustered
            .chain((0..60_000).map(|i| spread(i) ^ spread(i) >> 29))
            .collect();
        // Some fingerprints are in both commits, and so in two sources.
        for (commit, stored) in [&stored[..], &stored[..12_000]].into_iter().enumerate() {
            let mut txn = database.begin_write()?;
            for (i, &bits) in stored.iter().enumerate() {
                let key = format!("{commit} {i}");
                txn.insert(&Document::new(key, Some(Fingerprint::from_bits(bits))))?;
            }
            txn.commit()?;
        }
        let snapshot = database.store.begin_read()?;
        let reader = snapshot.reader();
        let query = |i: u64| NearQuery {
            fingerprint: Fingerprint::from_bits(spread(i % 3) ^ i),
            max_distance: [0, 2, 3, 5, 20][i as usize % 5],
        };
        let queries: Vec<NearQuery> = (0..10).map(query).collect();
        assert!(
            matches!(*probe_set(reader, 3)?, ProbeSet::Prefixes(_)),
            "nothing is probed"
        );
        let mut expected = Vec::new();
        for (query_index, query) in queries.iter().enumerate() {
            for &bits in &stored {
                let fingerprint = Fingerprint::from_bits(bits);
                let distance = fingerprint.distance(query.fingerprint);
                expected.extend((distance <= query.max_distance).then_some((
                    query_index,
                    NearFingerprint {
                        distance,
                        fingerprint,
                    },
                )));
            }
        }
        sort_and_dedup(&mut expected);
        assert!(expected.len() > 3000, "{}", expected.len());
        for most in [1, 40, 1000, 4000, MOST_NEAR] {
            let mut found = Vec::new();
            let mut parts = 0;
            let mut search = NearSearch {
                most,
                ..NearSearch::new(reader, &queries)
            };
            while let Some(near) = search.next_part()? {
                assert!(near.is_sorted_by(|a, b| a < b), "a part has repetitions");
                found.extend(near);
                parts += 1;
            }
            found.sort_unstable();
            assert!(
                found == expected,
                "{most}: {} found, not {}",
                found.len(),
                expected.len()
            );
            assert!(most > 40 || parts > 5, "{most}: {parts} parts");
        }
        Ok(())
    }
}
