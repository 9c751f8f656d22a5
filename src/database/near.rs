//! Probes -> candidates -> near fingerprints.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Near, Probe, ProbeSet};
use crate::store::Read;

/// What a search looks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) fingerprint: Fingerprint,
    pub(super) max_distance: u32,
}

impl Asked {
    /// Adds the probes that answer it to others, if it is not to be answered by a scan.
    pub(super) fn add_probes(
        self,
        reader: &impl Read,
        query_index: usize,
        probes: &mut Vec<Probe>,
    ) -> Result<bool> {
        let probe_set = probe_set(reader, self.max_distance)?;
        Ok(probe_set.add_probes(reader.settings().plan.tables(), self.fingerprint, query_index, probes))
    }
}

/// The cheapest probes that answer a distance exactly.
pub(super) fn probe_set(reader: &impl Read, max_distance: u32) -> Result<Arc<ProbeSet>> {
    let plan = &reader.settings().plan;
    plan.probe_set(max_distance, reader.fingerprints(), reader.sources(), || reader.cost_model(false))
}

/// So many near fingerprints are held at a time, or twice as many before repetitions are removed, whatever is asked: 24 bytes each.
pub(super) const MOST_NEAR: usize = 1 << 20;

/// The fingerprints near each of some, with the number of the one they are near to.
pub(super) type NearEach = Vec<(usize, Near)>;

/// Finds what is near to each asked: by probes, and for those that have to scan in one pass for all. `take` gets it in parts of about
/// [`MOST_NEAR`] at most, each in order and without repetitions, also of what was in an earlier part; it may end the search.
pub(super) fn find(
    reader: &impl Read,
    asked: &[Asked],
    take: impl FnMut(&[(usize, Near)]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    find_in_parts(reader, asked, MOST_NEAR, take)
}

fn find_in_parts(
    reader: &impl Read,
    asked: &[Asked],
    most: usize,
    mut take: impl FnMut(&[(usize, Near)]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut scanning = Vec::new();
    let (mut begin, mut together) = (0, asked.len());
    while begin < asked.len() {
        let end = asked.len().min(begin + together);
        let (mut probes, mut not_probed) = (Vec::new(), Vec::new());
        for (query_index, asked) in asked.iter().enumerate().take(end).skip(begin) {
            if !asked.add_probes(reader, query_index, &mut probes)? {
                not_probed.push(query_index);
            }
        }
        // Neighbours in a table lie in the same block, or the next.
        if end - begin > 1 {
            probes.sort_unstable_by_key(|probe| (probe.table, probe.first));
        }
        match near_candidates(reader, asked, &probes, most)? {
            Some(near) => {
                if take(&near)?.is_break() {
                    return Ok(());
                }
                scanning.append(&mut not_probed);
                begin = end;
            }
            // What is near to one comes in parts only from a scan, since several probes meet the same fingerprint.
            None if together == 1 => {
                scanning.push(begin);
                begin = end;
            }
            None => together = (end - begin).div_ceil(2),
        }
    }
    if scanning.is_empty() { Ok(()) } else { scan(reader, asked, &scanning, most, take) }
}

/// Finds what is near to some of the asked among all fingerprints.
fn scan(
    reader: &impl Read,
    asked: &[Asked],
    scanning: &[usize],
    most: usize,
    mut take: impl FnMut(&[(usize, Near)]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let permutation = &reader.settings().plan.tables()[0].permutation;
    let mut near = Vec::new();
    reader.scan(|candidates| {
        for &query_index in scanning {
            let Asked { fingerprint, max_distance } = asked[query_index];
            let query = permutation.apply(fingerprint);
            candidates.each_near(query, max_distance, permutation, |it| near.push((query_index, it)));
            if near.len() >= most || query_index == scanning[scanning.len() - 1] {
                sort(&mut near);
                if take(&near)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                near.clear();
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

/// What is near to each asked among the candidates of its probes, in order and without repetitions; `None` if it is more than `most`.
pub(super) fn near_candidates(
    reader: &impl Read,
    asked: &[Asked],
    probes: &[Probe],
    most: usize,
) -> Result<Option<NearEach>> {
    let tables = reader.settings().plan.tables();
    let (mut near, mut too_many) = (Vec::new(), false);
    reader.candidates(probes, |probe, candidates| {
        if too_many {
            return;
        }
        let max_distance = asked[probe.query_index].max_distance;
        let permutation = &tables[probe.table].permutation;
        candidates.each_near(probe.query, max_distance, permutation, |it| near.push((probe.query_index, it)));
        if near.len() > 2 * most {
            sort(&mut near);
            too_many = near.len() > most;
        }
    })?;
    sort(&mut near);
    Ok((near.len() <= most && !too_many).then_some(near))
}

fn sort(near: &mut NearEach) {
    near.sort_unstable();
    near.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{CreateOptions, Database};
    use crate::document::Document;
    use crate::text::Scheme;

    /// However few may be held at a time, what is found is the same: each near fingerprint once.
    #[test]
    fn what_is_near_comes_in_parts() -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = CreateOptions::new().scheme(Scheme::External);
        let database = Database::create(folder.path().join("d.simdb"), &options)?;
        let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Some clusters, many others, so that it is worth while to probe.
        let clustered = (0..3000).map(|i| spread(i % 3) ^ 1 << (i % 64) ^ 1 << (i / 64));
        let stored: Vec<u64> = clustered.chain((0..60_000).map(|i| spread(i) ^ spread(i) >> 29)).collect();
        // Some fingerprints in both commits, and so in two sources.
        for (commit, stored) in [&stored[..], &stored[..12_000]].into_iter().enumerate() {
            let mut txn = database.begin_write()?;
            for (i, &bits) in stored.iter().enumerate() {
                let key = format!("{commit} {i}");
                txn.insert(&Document::new(key, Some(Fingerprint::from_bits(bits))))?;
            }
            txn.commit()?;
        }
        let reader = database.store.begin_read()?;
        let asked = |i: u64| Asked {
            fingerprint: Fingerprint::from_bits(spread(i % 3) ^ i),
            max_distance: [0, 2, 3, 5, 20][i as usize % 5],
        };
        let asked: Vec<Asked> = (0..10).map(asked).collect();
        assert!(matches!(*probe_set(&reader, 3)?, ProbeSet::Prefixes(_)), "nothing is probed");
        let mut expected = Vec::new();
        for (query_index, asked) in asked.iter().enumerate() {
            for &bits in &stored {
                let fingerprint = Fingerprint::from_bits(bits);
                let distance = fingerprint.distance(asked.fingerprint);
                expected.extend(
                    (distance <= asked.max_distance).then_some((query_index, Near { distance, fingerprint })),
                );
            }
        }
        sort(&mut expected);
        assert!(expected.len() > 3000, "{}", expected.len());
        for most in [1, 40, 1000, 4000, MOST_NEAR] {
            let (mut found, mut parts) = (Vec::new(), 0);
            find_in_parts(&reader, &asked, most, |near| {
                found.extend_from_slice(near);
                parts += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            found.sort_unstable();
            assert!(found == expected, "{most}: {} found, not {}", found.len(), expected.len());
            assert!(most > 40 || parts > 5, "{most}: {parts} parts");
            let mut parts = 0;
            find_in_parts(&reader, &asked, most, |_| {
                parts += 1;
                Ok(ControlFlow::Break(()))
            })?;
            assert_eq!(parts, 1, "it goes on after it is told to end");
        }
        Ok(())
    }
}
