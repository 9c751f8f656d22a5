//! Finds the contents of a report of a cleaning in the list of the removed records.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::Error;
use crate::dedup::{DedupTotals, Removals, RemovedRecord, RemovedRecords};

use super::choices::Distances;
use super::differences::Samples;
use super::findings::{Clusters, Facts, Findings, Section, lead_of};

/// The counts of the first reading of the list.
#[derive(Default)]
struct RemovalCounts {
    distances: Vec<u64>,
    /// The removed records of each survivor, by the hash of its name.
    groups: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Findings {
    /// The contents of a report of a cleaning, with up to `samples` pairs of each distance.
    pub(in crate::cli) fn from_removals(
        title: String,
        removals: &Removals<'_>,
        samples: usize,
    ) -> Result<Self, Error> {
        let counts = RemovalCounts::new(removals)?;
        let (clusters, drawn) = counts.shown(removals, samples)?;
        let mut places = HashSet::new();
        for removed in &drawn {
            places.extend(removed.record.place.clone());
            places.extend(removed.survivor.place.clone());
        }
        let texts = removals.texts(&places)?;
        let mut samples = Samples::default();
        for removed in drawn {
            let [survivor, record] = [&removed.survivor, &removed.record]
                .map(|listed| texts.get(listed.place.as_ref()?));
            let names = [removed.survivor, removed.record];
            let texts = survivor.zip(record);
            samples.add(names, removed.distance, removed.similarity, true, texts);
        }
        let totals = removals.totals();
        let lead = lead_of(
            totals.removed,
            totals.records,
            "record",
            clusters.largest_size(),
        );
        let sections: Vec<Box<dyn Section>> = vec![
            Box::new(samples),
            Box::new(clusters),
            Box::new(Distances::new("removed records", counts.distances)),
        ];
        Ok(Self {
            title,
            lead,
            meaning: None,
            remarks: Vec::new(),
            sections,
            facts: facts(totals),
            upkeep: Vec::new(),
        })
    }
}

fn facts(totals: &DedupTotals) -> Facts {
    let equal = totals.removed_as_equal;
    let dropped = totals.dropped_unjudged;
    let mut facts = Facts::default();
    facts.add_count("records", "records", totals.records);
    facts.add_count("kept", "kept", totals.kept());
    facts.add_count("removed", "removed", totals.removed);
    facts.add_count(
        "removed_as_equal",
        "with an equal fingerprint or text",
        equal,
    );
    facts.add_count(
        "removed_as_known",
        "near to the database",
        totals.removed_as_known,
    );
    facts.add_count("too_short", "too short to judge", totals.too_short);
    facts.add_count("kept_unjudged", "kept unjudged", totals.rejected - dropped);
    facts.add_count("dropped_unjudged", "dropped unjudged", dropped);
    facts
}

impl RemovalCounts {
    fn new(removals: &Removals<'_>) -> Result<Self, Error> {
        let mut counts = Self::default();
        for removed in RemovedRecords::open(removals.list())? {
            let removed = removed?;
            let distance = removed.distance as usize;
            if counts.distances.len() <= distance {
                counts.distances.resize(distance + 1, 0);
            }
            counts.distances[distance] += 1;
            let survivor = counts.hasher.hash_one(&removed.survivor);
            *counts.groups.entry(survivor).or_default() += 1;
        }
        Ok(counts)
    }

    /// The groups as clusters, and some removed records of each distance: evenly spaced ones.
    fn shown(
        &self,
        removals: &Removals<'_>,
        samples: usize,
    ) -> Result<(Clusters, Vec<RemovedRecord>), Error> {
        let mut clusters = Clusters::default();
        for removed in self.groups.values() {
            clusters.count(removed + 1);
        }
        let mut seen = vec![0u64; self.distances.len()];
        let mut drawn = Vec::new();
        for removed in RemovedRecords::open(removals.list())? {
            let removed = removed?;
            let RemovedRecord {
                record,
                survivor,
                distance,
                ..
            } = &removed;
            if !clusters.add_other(survivor, record, *distance) {
                let hash = self.hasher.hash_one(survivor);
                let documents = 1 + self.groups.get(&hash).unwrap_or(&0);
                clusters.list(documents, None, || {
                    let other = (record.clone(), *distance);
                    (survivor.clone(), std::iter::once(other))
                });
            }
            let distance = removed.distance as usize;
            let all = self.distances[distance];
            let index = seen[distance];
            seen[distance] += 1;
            let step = (all / samples.max(1) as u64).max(1);
            if index.is_multiple_of(step) && index / step < samples as u64 {
                drawn.push(removed);
            }
        }
        drawn.sort_by_key(|removed| removed.distance);
        Ok((clusters, drawn))
    }
}
