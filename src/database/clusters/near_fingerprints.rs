//! Near fingerprints: those that several documents have, or that are near to others, and to which. And what is near to
//! documents of a reference snapshot.

use std::cmp::Ordering;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::cluster_set::Clustered;
use super::grouping::Places;
use crate::database::near_search::{NearQuery, NearSearch};
use crate::database::pairs::{FingerprintPairs, Keys, MemberEvent, PairQuery, PairsOfUnit};
use crate::database::snapshot::Snapshot;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::pairs_within;
use crate::sketch::Sketch;

/// Takes how many parts of a step are done, and how many there are. Fails if nobody wants the rest.
pub(super) type Progress<'p> = &'p mut dyn FnMut(u64, u64) -> Result<()>;

/// The most neighbours of a fingerprint that are kept. Those of one that has more are looked up when they are needed.
/// So the memory does not grow with the number of pairs, of which a crowd of n fingerprints has n * n / 2.
const MOST_KEPT: u32 = 32;

/// The fingerprints whose finding takes as long as the rest of a query.
const FOUND_PER_QUERY: usize = 256;

/// Near fingerprints. They are named by their indexes.
#[derive(Default)]
pub(super) struct NearFingerprints {
    indexes: HashMap<Fingerprint, u32, RandomState>,
    fingerprints: Vec<u64>,
    degrees: Vec<u32>,
    /// Where the neighbours begin that are kept of each, and where the last ones end.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
}

impl NearFingerprints {
    pub(super) fn find(
        snapshot: &Snapshot,
        query: &PairQuery,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let mut near = Self::default();
        // A fingerprint and a neighbour of it.
        let mut kept: Vec<(u32, u32)> = Vec::new();
        // For each number of the unit, the index.
        let mut indexes: Vec<u32> = Vec::new();
        query.fingerprint_pairs(snapshot, MOST_KEPT + 1, &mut |found| {
            match found {
                FingerprintPairs::Repeated(fingerprints) => {
                    for fingerprint in fingerprints {
                        near.add(fingerprint);
                    }
                }
                FingerprintPairs::NextUnit => indexes.clear(),
                FingerprintPairs::Pairs(PairsOfUnit { new, pairs }) => {
                    indexes.extend(new.into_iter().map(|fingerprint| near.add(fingerprint)));
                    for [a, b] in pairs {
                        let a = indexes[a as usize];
                        let b = indexes[b as usize];
                        for (index, neighbour) in [(a, b), (b, a)] {
                            if near.keeps_another(index) {
                                kept.push((index, neighbour));
                            }
                        }
                    }
                }
                FingerprintPairs::Progress { done, all } => progress(done, all)?,
            }
            Ok(())
        })?;
        near.sort_in(&kept);
        Ok(near)
    }

    fn add(&mut self, fingerprint: Fingerprint) -> u32 {
        *self.indexes.entry(fingerprint).or_insert_with(|| {
            self.fingerprints.push(fingerprint.bits());
            self.degrees.push(0);
            self.fingerprints.len() as u32 - 1
        })
    }

    /// Counts a neighbour. Whether it is kept.
    fn keeps_another(&mut self, index: u32) -> bool {
        let degree = &mut self.degrees[index as usize];
        *degree = degree.saturating_add(1);
        *degree <= MOST_KEPT
    }

    /// Takes the neighbours, those of each fingerprint one after the other.
    fn sort_in(&mut self, kept: &[(u32, u32)]) {
        let mut places = Places::new(self.len(), kept.iter().map(|kept| kept.0 as usize));
        self.neighbours = vec![0; kept.len()];
        for &(index, neighbour) in kept {
            self.neighbours[places.next(index as usize)] = neighbour;
        }
        self.starts = places.starts;
    }

    pub(super) fn len(&self) -> usize {
        self.fingerprints.len()
    }

    pub(super) fn fingerprint(&self, index: u32) -> Fingerprint {
        Fingerprint::from_bits(self.fingerprints[index as usize])
    }

    /// The index of a fingerprint, if it is near to another, or several documents have it.
    pub(super) fn index_of(&self, fingerprint: Fingerprint) -> Option<u32> {
        self.indexes.get(&fingerprint).copied()
    }

    pub(super) fn has_all(&self) -> bool {
        self.degrees.iter().all(|&degree| degree <= MOST_KEPT)
    }

    /// Adds the neighbours of a fingerprint to `to`.
    pub(super) fn add_neighbours(
        &self,
        index: u32,
        snapshot: &Snapshot,
        max_distance: u32,
        to: &mut Vec<u32>,
    ) -> Result<()> {
        let place = index as usize;
        if self.degrees[place] <= MOST_KEPT {
            let kept = self.starts[place]..self.starts[place + 1];
            to.extend_from_slice(&self.neighbours[kept]);
            return Ok(());
        }
        let bits = self.fingerprints[place];
        // To compare with all near fingerprints takes less time than to find many in the tables.
        let few = snapshot.store.sizes.compared_per_query;
        if self.len() <= few + few / FOUND_PER_QUERY * self.degrees[place] as usize {
            for (_, near) in pairs_within(&[bits], Some(&self.fingerprints), max_distance, &[]) {
                if near != index {
                    to.push(near);
                }
            }
            return Ok(());
        }
        let query = [NearQuery {
            fingerprint: Fingerprint::from_bits(bits),
            max_distance,
        }];
        let mut search = NearSearch::new(snapshot.reader()?, &query);
        while let Some(part) = search.next_part()? {
            for (_, near) in &part {
                match self.index_of(near.fingerprint) {
                    Some(near) if near != index => to.push(near),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The content that the documents of a node have in common: the fingerprint, and the sketch if similarity counts.
pub(super) type Content = (Fingerprint, Option<Sketch>);

/// For the contents that are near to documents of the reference snapshot, the nearest of these, by its number.
pub(super) type ReferenceMatches = HashMap<Content, Clustered, RandomState>;

/// Finds all contents that are near to documents of the reference snapshot.
pub(super) fn reference_matches(
    snapshot: &Snapshot,
    reference: &Snapshot,
    query: &PairQuery,
    progress: Progress<'_>,
) -> Result<ReferenceMatches> {
    let mut matches = ReferenceMatches::default();
    query.run(snapshot, Some(reference), Keys::None, &mut |event| {
        match event {
            MemberEvent::Group(_) => {}
            MemberEvent::Pair {
                a,
                b,
                distance,
                similarity,
            } => {
                let fingerprint = a.group.fingerprint;
                let found = Clustered {
                    number: b.newest,
                    fingerprint,
                    distance,
                    similarity,
                };
                let nearest = matches.entry((fingerprint, a.sketch)).or_insert(found);
                if is_nearer(&found, nearest) {
                    *nearest = found;
                }
            }
            MemberEvent::Progress { done, all, .. } => progress(done, all)?,
        }
        Ok(())
    })?;
    Ok(matches)
}

fn is_nearer(a: &Clustered, b: &Clustered) -> bool {
    let by_similarity = b.similarity.partial_cmp(&a.similarity);
    let by_distance = a.distance.cmp(&b.distance);
    by_distance
        .then(by_similarity.unwrap_or(Ordering::Equal))
        .then(a.number.cmp(&b.number))
        .is_lt()
}
