//! Finds the contents of a report of a cleaning in the list of the removed records.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};

use crate::Error;
use crate::dedup::{DedupTotals, Removals};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::findings::{Clusters, Distances, Facts, Findings, Name, Samples, Section};

/// A removed record.
struct Removed {
    record: Name,
    survivor: Name,
    distance: u32,
    similarity: Option<f64>,
}

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
            places.extend(place_of(&removed.record));
            places.extend(place_of(&removed.survivor));
        }
        let texts = removals.texts(&places)?;
        let mut samples = Samples::default();
        for removed in drawn {
            let survivor = place_of(&removed.survivor).and_then(|place| texts.get(&place));
            let record = place_of(&removed.record).and_then(|place| texts.get(&place));
            let names = [removed.survivor, removed.record];
            let texts = survivor.zip(record);
            samples.add(names, removed.distance, removed.similarity, texts);
        }
        let sections: Vec<Box<dyn Section>> = vec![
            Box::new(Distances::new("removed records", counts.distances)),
            Box::new(clusters),
            Box::new(samples),
        ];
        let facts = facts(removals.totals());
        Ok(Self::new(title, facts, sections, Vec::new()))
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
        each_removed(removals, |removed| {
            let distance = removed.distance as usize;
            if counts.distances.len() <= distance {
                counts.distances.resize(distance + 1, 0);
            }
            counts.distances[distance] += 1;
            let survivor = counts.hasher.hash_one(&removed.survivor);
            *counts.groups.entry(survivor).or_default() += 1;
        })?;
        Ok(counts)
    }

    /// The groups as clusters, and some removed records of each distance: evenly spaced ones.
    fn shown(
        &self,
        removals: &Removals<'_>,
        samples: usize,
    ) -> Result<(Clusters, Vec<Removed>), Error> {
        let mut clusters = Clusters::default();
        for removed in self.groups.values() {
            clusters.count(removed + 1);
        }
        let mut seen = vec![0u64; self.distances.len()];
        let mut drawn = Vec::new();
        each_removed(removals, |removed| {
            let Removed {
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
        })?;
        drawn.sort_by_key(|removed| removed.distance);
        Ok((clusters, drawn))
    }
}

/// Reads the list.
fn each_removed(removals: &Removals<'_>, mut each: impl FnMut(Removed)) -> Result<(), Error> {
    let failed = Error::io(removals.list());
    let list = File::open(removals.list()).map_err(&failed)?;
    for line in BufReader::new(list).lines() {
        let line = line.map_err(&failed)?;
        let object = serde_json::from_str(&line).map_err(|error| failed(error.into()));
        let object: Value = object?;
        if let Some(removed) = object.as_object().and_then(Removed::from_line) {
            each(removed);
        }
    }
    Ok(())
}

impl Removed {
    /// Reads a line of the list.
    fn from_line(object: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            record: name_of(object),
            survivor: name_of(object.get("survivor")?.as_object()?),
            distance: u32::try_from(object.get("distance")?.as_u64()?).ok()?,
            similarity: object.get("similarity").and_then(Value::as_f64),
        })
    }
}

/// The name of a record of an input, or of a document of a database.
fn name_of(object: &Map<String, Value>) -> Name {
    let key = bytes_of(object, "key");
    let mut numbers = ["line", "record", "row"].into_iter();
    let number = numbers.find_map(|field| object.get(field)?.as_u64());
    match bytes_of(object, "input").zip(number) {
        Some((input, number)) => Name::Place { input, number, key },
        None => Name::Key(key.unwrap_or_default()),
    }
}

fn place_of(name: &Name) -> Option<(Vec<u8>, u64)> {
    match name {
        Name::Place { input, number, .. } => Some((input.clone(), *number)),
        Name::Key(_) => None,
    }
}

/// The bytes of a field, which are text or stand as base64 under another name.
fn bytes_of(object: &Map<String, Value>, field: &str) -> Option<Vec<u8>> {
    match object.get(field).and_then(Value::as_str) {
        Some(text) => Some(text.as_bytes().to_vec()),
        None => BASE64
            .decode(object.get(&format!("{field}_base64"))?.as_str()?)
            .ok(),
    }
}
