//! Probes -> candidates -> near fingerprints.

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
        asker: usize,
        probes: &mut Vec<Probe>,
    ) -> Result<bool> {
        let probe_set = probe_set(reader, self.max_distance)?;
        Ok(probe_set.add_probes(&reader.settings().plan, self.fingerprint, asker, probes))
    }
}

/// The cheapest probes that answer a distance exactly.
pub(super) fn probe_set(reader: &impl Read, max_distance: u32) -> Result<Arc<ProbeSet>> {
    let plan = &reader.settings().plan;
    plan.probe_set(max_distance, reader.fingerprints(), reader.sources(), || reader.load(false))
}

/// Finds what is near to each asked: by probes, and for those that have to scan in one pass for all. `take` gets it in parts,
/// with the number of the asked: within a part in any order and perhaps more than once, but in no second part. It has to leave nothing of it.
pub(super) fn find(
    reader: &impl Read,
    asked: &[Asked],
    mut take: impl FnMut(&mut Vec<(usize, Near)>) -> Result<()>,
) -> Result<()> {
    let mut probes = Vec::new();
    let mut scanning = Vec::new();
    for (asker, asked) in asked.iter().enumerate() {
        if !asked.add_probes(reader, asker, &mut probes)? {
            scanning.push(asker);
        }
    }
    // Neighbours in a table lie in the same block, or the next.
    if asked.len() > 1 {
        probes.sort_unstable_by_key(|probe| (probe.table, probe.first));
    }
    let mut near = near_candidates(reader, asked, &probes)?;
    take(&mut near)?;
    if scanning.is_empty() {
        return Ok(());
    }
    let permutation = &reader.settings().plan.tables()[0].permutation;
    reader.scan(|candidates| {
        for &asker in &scanning {
            let Asked { fingerprint, max_distance } = asked[asker];
            let query = permutation.apply(fingerprint);
            candidates.each_near(query, max_distance, permutation, |it| near.push((asker, it)));
        }
        take(&mut near)
    })?;
    Ok(())
}

/// What is near to each asked among the candidates of its probes.
pub(super) fn near_candidates(
    reader: &impl Read,
    asked: &[Asked],
    probes: &[Probe],
) -> Result<Vec<(usize, Near)>> {
    let tables = reader.settings().plan.tables();
    let mut near = Vec::new();
    reader.candidates(probes, |probe, candidates| {
        let max_distance = asked[probe.asker].max_distance;
        let permutation = &tables[probe.table].permutation;
        candidates.each_near(probe.query, max_distance, permutation, |it| near.push((probe.asker, it)));
    })?;
    Ok(near)
}

/// The fingerprints near each of some, in order, each once, with the number of the one they are near to; `None` if they are more
/// than `most`.
pub(super) fn near_to_each(
    reader: &impl Read,
    asked: &[Asked],
    most: usize,
) -> Result<Option<Vec<(usize, Near)>>> {
    let mut all = Some(Vec::new());
    find(reader, asked, |near| {
        all = all.take().filter(|all| all.len() + near.len() <= most);
        if let Some(all) = &mut all {
            all.append(near);
        }
        near.clear();
        Ok(())
    })?;
    if let Some(all) = &mut all {
        all.sort_unstable();
        all.dedup();
    }
    Ok(all)
}
