//! What a report of a cleaning tells, found in the list of the removed records.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader};

use crate::Error;
use crate::dedup::{DedupTotals, Removals};
use serde_json::{Map, Value};

use super::differences::Differences;
use super::findings::{Distances, Fact, Findings, LargeCluster, Name, Sample, SizeCounter};
use super::gathering::{MOST_OTHERS, keep_large};
use crate::cli::output::bytes_of;
use crate::cli::units::told_count;

/// A removed record.
struct Removed {
    record: Name,
    survivor: Name,
    distance: u32,
    similarity: Option<f64>,
}

/// What the first reading of the list finds.
#[derive(Default)]
struct Counted {
    distances: Vec<u64>,
    /// The removed records of each survivor, by the hash of its name.
    groups: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Findings {
    /// What a report of a cleaning tells, with up to `samples` pairs of each distance.
    pub(in crate::cli) fn of_removals(
        title: String,
        removals: &Removals<'_>,
        samples: usize,
    ) -> Result<Self, Error> {
        let counted = Counted::of(removals)?;
        let mut sizes = SizeCounter::default();
        counted
            .groups
            .values()
            .for_each(|removed| sizes.add(removed + 1));
        let (largest, drawn) = counted.shown(removals, samples)?;
        let places = drawn
            .iter()
            .flat_map(|it| [&it.record, &it.survivor])
            .filter_map(place_of);
        let texts = removals.texts(&places.collect::<HashSet<_>>())?;
        let text_of = |name: &Name| place_of(name).and_then(|place| texts.get(&place));
        let samples = drawn.iter().map(|it| Sample {
            first: it.survivor.clone(),
            second: it.record.clone(),
            distance: it.distance,
            similarity: it.similarity,
            differences: text_of(&it.survivor)
                .zip(text_of(&it.record))
                .map(|(survivor, record)| Differences::of(survivor, record)),
        });
        let samples = samples.collect();
        let counts = counted.distances;
        let distances = Distances {
            what: "removed records",
            counts,
            has_unlike: false,
            by_chance: None,
        };
        let facts = facts(removals.totals());
        let sizes = sizes.finish();
        Ok(Self {
            title,
            facts,
            distances,
            sizes,
            largest,
            spread: None,
            samples,
            remarks: Vec::new(),
        })
    }
}

fn facts(totals: &DedupTotals) -> Vec<Fact> {
    let counts = [
        ("records", "records", totals.records),
        ("kept", "kept", totals.kept()),
        ("removed", "removed", totals.removed),
        (
            "removed_as_equal",
            "with an equal fingerprint or text",
            totals.removed_as_equal,
        ),
        (
            "removed_as_known",
            "near to the database",
            totals.removed_as_known,
        ),
        ("too_short", "too short to judge", totals.too_short),
        (
            "kept_unjudged",
            "kept unjudged",
            totals.rejected - totals.dropped_unjudged,
        ),
        (
            "dropped_unjudged",
            "dropped unjudged",
            totals.dropped_unjudged,
        ),
    ];
    counts
        .into_iter()
        .map(|(field, heading, count)| Fact::new(field, heading, told_count(count), count))
        .collect()
}

impl Counted {
    fn of(removals: &Removals<'_>) -> Result<Self, Error> {
        let mut counted = Self::default();
        each_removed(removals, |removed| {
            let distance = removed.distance as usize;
            if counted.distances.len() <= distance {
                counted.distances.resize(distance + 1, 0);
            }
            counted.distances[distance] += 1;
            *counted
                .groups
                .entry(counted.hasher.hash_one(&removed.survivor))
                .or_default() += 1;
        })?;
        Ok(counted)
    }

    /// The largest groups, and some removed records of each distance: evenly spaced ones.
    fn shown(
        &self,
        removals: &Removals<'_>,
        samples: usize,
    ) -> Result<(Vec<LargeCluster>, Vec<Removed>), Error> {
        let mut largest: Vec<LargeCluster> = Vec::new();
        let (mut seen, mut drawn) = (vec![0u64; self.distances.len()], Vec::new());
        each_removed(removals, |removed| {
            let documents = self
                .groups
                .get(&self.hasher.hash_one(&removed.survivor))
                .map_or(1, |it| it + 1);
            match largest
                .iter_mut()
                .find(|it| it.survivor == removed.survivor)
            {
                Some(group) if group.others.len() < MOST_OTHERS => {
                    group
                        .others
                        .push((removed.record.clone(), removed.distance));
                }
                Some(_) => {}
                None => keep_large(&mut largest, documents, || LargeCluster {
                    documents,
                    diameter: None,
                    survivor: removed.survivor.clone(),
                    others: vec![(removed.record.clone(), removed.distance)],
                }),
            }
            let distance = removed.distance as usize;
            let (all, index) = (self.distances[distance], seen[distance]);
            seen[distance] += 1;
            let step = (all / samples.max(1) as u64).max(1);
            if index % step == 0 && index / step < samples as u64 {
                drawn.push(removed);
            }
        })?;
        drawn.sort_by_key(|it| it.distance);
        Ok((largest, drawn))
    }
}

/// Reads the list.
fn each_removed(removals: &Removals<'_>, mut each: impl FnMut(Removed)) -> Result<(), Error> {
    let read = || -> io::Result<()> {
        for line in BufReader::new(File::open(removals.list())?).lines() {
            let Value::Object(object) = serde_json::from_str(&line?)? else {
                continue;
            };
            if let Some(removed) = Removed::of(&object) {
                each(removed);
            }
        }
        Ok(())
    };
    let mut read = read;
    read().map_err(|source| Error::Io {
        path: removals.list().to_owned(),
        source: source.into(),
    })
}

impl Removed {
    /// What a line of the list says.
    fn of(object: &Map<String, Value>) -> Option<Self> {
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
    let number = ["line", "record", "row"]
        .iter()
        .find_map(|it| object.get(*it)?.as_u64());
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
