//! Probes -> candidates -> near fingerprints.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidates, NearFingerprint, Probe, ProbeSet, Table};
use crate::store::{Reader, Scan, Transaction};

/// A query for the stored fingerprints within a distance of a fingerprint.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearQuery {
    pub(super) fingerprint: Fingerprint,
    pub(super) max_distance: u32,
}

/// The probe sets of the distances that were asked for. Most queries that are answered together have the same distance.
#[derive(Debug, Default)]
struct KnownProbeSets(SmallVec<[(u32, Arc<ProbeSet>); 1]>);

impl KnownProbeSets {
    /// Finds the probe set of a distance, unless it is known.
    fn add(&mut self, reader: Reader<'_>, max_distance: u32) -> Result<()> {
        if self.of(max_distance).is_none() {
            self.0
                .push((max_distance, probe_set(reader, max_distance)?));
        }
        Ok(())
    }

    /// The probe set of a distance, if it is known.
    fn of(&self, max_distance: u32) -> Option<&ProbeSet> {
        let (_, probe_set) = self.0.iter().find(|known| known.0 == max_distance)?;
        Some(probe_set)
    }

    /// Calls `each` with the probes that answer a query of a known distance. Returns false if a scan has to answer it.
    fn each_probe(
        &self,
        tables: &[Table],
        query: NearQuery,
        query_index: usize,
        each: impl FnMut(Probe, &[(u64, u64)]),
    ) -> bool {
        let probe_set = self.of(query.max_distance);
        probe_set.is_some_and(|probe_set| {
            probe_set.each_probe(tables, query.fingerprint, query_index, each)
        })
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
const COMPARED_PER_PROBE: f64 = 64.0;

/// Adds a probe, with the first and the last row of each of its ranges.
type AddProbe<'a> = &'a mut dyn FnMut(Probe, &[(u64, u64)]);

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
    known: KnownProbeSets,
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
            known: KnownProbeSets::default(),
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
        let tables = self.reader.settings().plan.tables();
        while self.next < self.queries.len() {
            let end = self.queries.len().min(self.next + self.together);
            let together = self.next..end;
            for query in &self.queries[together.clone()] {
                self.known.add(self.reader, query.max_distance)?;
            }
            let mut not_probed = Vec::new();
            let probes = |add: AddProbe<'_>| {
                for index in together {
                    let query = self.queries[index];
                    if !self.known.each_probe(tables, query, index, &mut *add) {
                        not_probed.push(index);
                    }
                }
            };
            match near_candidates(self.reader, self.queries, probes, self.most)? {
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
    probes: impl FnOnce(AddProbe<'_>),
    most: usize,
) -> Result<Option<NearEach>> {
    let tables = reader.settings().plan.tables();
    let mut near = Vec::new();
    let mut too_many = false;
    reader.candidates(probes, |range, candidates| {
        if too_many {
            return;
        }
        let Probe {
            query_index,
            table,
            query,
        } = range.of;
        let query_index = query_index as usize;
        let max_distance = queries[query_index].max_distance;
        for found in candidates.near(query, max_distance, &tables[table as usize]) {
            near.push((query_index, found));
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
    let tables = reader.settings().plan.tables();
    let mut known = KnownProbeSets::default();
    known.add(reader, query.max_distance)?;
    let mut probes: Vec<(Probe, (u64, u64))> = Vec::new();
    let is_probed = known.each_probe(tables, query, 0, |probe, ranges| {
        for &range in ranges {
            probes.push((probe, range));
        }
    });
    if is_probed {
        let mut has_all = true;
        for probes in probes.chunks(PROBES_TOGETHER) {
            let add_all = |add: AddProbe<'_>| {
                for &(probe, range) in probes {
                    add(probe, &[range]);
                }
            };
            let Some(near) = near_candidates(reader, &queries, add_all, MOST_NEAR)? else {
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
    known: KnownProbeSets,
    near: Vec<NearFingerprint>,
}

impl NearWritten {
    /// The written fingerprints that are near to a query, in order. Some may have no document any more.
    pub(super) fn find(
        &mut self,
        writer: &mut Transaction,
        query: NearQuery,
    ) -> Result<&[NearFingerprint]> {
        let Self { known, near } = self;
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
        known.add(writer.reader(), max_distance)?;
        let ranges = known
            .of(max_distance)
            .map_or(f64::INFINITY, ProbeSet::ranges);
        if ranges * COMPARED_PER_PROBE < sorted as f64 {
            known.each_probe(tables, query, 0, |probe, ranges| {
                let index = probe.table as usize;
                for &range in ranges {
                    for candidates in written.within(index, range) {
                        near.extend(candidates.near(probe.query, max_distance, &tables[index]));
                    }
                }
            });
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
