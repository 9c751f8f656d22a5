//! Near fingerprints: those that several documents have, or that are near to others, and to which.

use std::collections::HashMap;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;

use crate::database::near_search::{NearQuery, NearSearch};
use crate::database::pairs::{FoundBare, PairsOfUnit, Question};
use crate::database::snapshot::Snapshot;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::pairs_within;

/// Is told how far the work is, in parts of a step, and all parts of it. Breaks if nobody wants the rest.
pub(super) type Progress<'p> = &'p mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// The most neighbours of a fingerprint that are kept. Those of one that has more are looked up when they are needed.
/// So the memory does not grow with the number of pairs, of which a crowd of n fingerprints has n * n / 2.
const MOST_KEPT: u32 = 32;

/// The fingerprints whose finding takes as long as the rest of a query.
const FOUND_PER_QUERY: usize = 256;

/// Near fingerprints. They are named by their indexes.
#[derive(Default)]
pub(super) struct NearFingerprints {
    indexes: HashMap<Fingerprint, u32, RandomState>,
    /// The bits of each.
    fingerprints: Vec<u64>,
    /// How many neighbours each has.
    degrees: Vec<u32>,
    /// Where the neighbours begin that are kept of each, and where the last ones end.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
}

impl NearFingerprints {
    /// Finds all. `None` if `progress` breaks.
    pub(super) fn find(
        snapshot: &Snapshot,
        question: &Question,
        progress: Progress<'_>,
    ) -> Result<Option<Self>> {
        let (mut near, mut flow) = (Self::default(), ControlFlow::Continue(()));
        // A fingerprint and a neighbour of it.
        let mut kept: Vec<(u32, u32)> = Vec::new();
        // For each number of the unit, the index.
        let mut indexes: Vec<u32> = Vec::new();
        question.run_bare(snapshot, MOST_KEPT + 1, &mut |found| {
            match found {
                FoundBare::Often(fingerprints) => {
                    fingerprints.into_iter().for_each(|it| _ = near.add(it))
                }
                FoundBare::Unit => indexes.clear(),
                FoundBare::Pairs(PairsOfUnit { new, pairs }) => {
                    indexes.extend(new.into_iter().map(|it| near.add(it)));
                    for pair in pairs {
                        let [a, b] = pair.map(|number| indexes[number as usize]);
                        kept.extend(
                            [(a, b), (b, a)]
                                .into_iter()
                                .filter(|it| near.keeps_another(it.0)),
                        );
                    }
                }
                FoundBare::Progress { done, all } => flow = progress(done, all),
            }
            flow
        })?;
        if flow.is_break() {
            return Ok(None);
        }
        near.sort_in(&kept);
        Ok(Some(near))
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
        let mut sum = 0;
        self.starts = vec![0];
        self.starts.extend(self.degrees.iter().map(|&degree| {
            sum += degree.min(MOST_KEPT) as usize;
            sum
        }));
        let mut next = self.starts.clone();
        self.neighbours = vec![0; sum];
        for &(index, neighbour) in kept {
            self.neighbours[next[index as usize]] = neighbour;
            next[index as usize] += 1;
        }
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

    /// Whether the neighbours of all are kept.
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
            to.extend_from_slice(&self.neighbours[self.starts[place]..self.starts[place + 1]]);
            return Ok(());
        }
        let bits = self.fingerprints[place];
        // To compare with all near fingerprints takes less time than to find many in the tables.
        let few = snapshot.store.sizes.compared_per_query;
        if self.len() <= few + few / FOUND_PER_QUERY * self.degrees[place] as usize {
            let near = pairs_within(&[bits], Some(&self.fingerprints), max_distance);
            to.extend(near.into_iter().map(|(_, it)| it).filter(|&it| it != index));
            return Ok(());
        }
        let query = [NearQuery {
            fingerprint: Fingerprint::from_bits(bits),
            max_distance,
        }];
        let mut search = NearSearch::new(snapshot.reader()?, &query);
        while let Some(part) = search.next_part()? {
            let indexes = part
                .iter()
                .filter_map(|(_, near)| self.index_of(near.fingerprint));
            to.extend(indexes.filter(|&it| it != index));
        }
        Ok(())
    }
}
