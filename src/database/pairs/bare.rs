//! The search for near fingerprints alone: nothing is looked up of their documents.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;

use super::search::Question;
use super::units::Units;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::NearPair;
use crate::streaming;

/// What is found.
pub(in crate::database) enum FoundBare {
    /// Fingerprints that several documents have.
    Often(Vec<Fingerprint>),
    /// Pairs of different fingerprints, the lesser first. Some may have no documents any more.
    Pairs(Vec<NearPair>),
    Progress {
        done: u64,
        all: u64,
    },
}

/// The pairs that are handed over at a time.
const TOGETHER: usize = 4096;

/// How often each fingerprint of a unit was given.
struct Given {
    enough: u32,
    counts: HashMap<Fingerprint, u32, RandomState>,
}

impl Given {
    /// Counts a pair. Whether both of its fingerprints were given often enough.
    fn has_enough(&mut self, pair: NearPair) -> bool {
        if self.enough == u32::MAX {
            return false;
        }
        let mut is_enough = |fingerprint| {
            let count = self.counts.entry(fingerprint).or_insert(0);
            *count = count.saturating_add(1);
            *count > self.enough
        };
        // Both are counted.
        is_enough(pair.a) & is_enough(pair.b)
    }
}

impl Question {
    /// Finds all pairs of near fingerprints, each once, and the fingerprints that several documents have. Of times,
    /// scopes and similarities, only the scopes of the latter count.
    ///
    /// Of two fingerprints that both have been given with more than `enough` others, the pair may be left out.
    pub(in crate::database) fn run_bare(
        &self,
        snapshot: &Snapshot,
        enough: u32,
        observe: &mut dyn FnMut(FoundBare) -> ControlFlow<()>,
    ) -> Result<()> {
        let reader = &snapshot.reader;
        let scopes = self.scopes_of(reader)?;
        let units = Units::new(reader, None, self.checked_distance()?, snapshot.store.sizes().part_rows, "")?;
        let (mut result, all) = (Ok(()), units.len() as u64);
        let work = |unit: usize, hand_over: &mut dyn FnMut(Result<FoundBare>) -> ControlFlow<()>| {
            let worked = units.posted_often(unit, &scopes).and_then(|often| match often {
                Some(often) => Ok(_ = hand_over(Ok(FoundBare::Often(often)))),
                None => {
                    let mut found = Vec::with_capacity(TOGETHER);
                    let mut given = Given { enough, counts: HashMap::default() };
                    let joined = units.join(unit, &mut |pair| {
                        if pair.is_some_and(|pair| given.has_enough(pair)) {
                            return ControlFlow::Continue(());
                        }
                        found.extend(pair);
                        if found.len() < TOGETHER && pair.is_some() {
                            return ControlFlow::Continue(());
                        }
                        let full = mem::replace(&mut found, Vec::with_capacity(TOGETHER));
                        hand_over(Ok(FoundBare::Pairs(full)))
                    })?;
                    if joined.is_continue() {
                        _ = hand_over(Ok(FoundBare::Pairs(found)));
                    }
                    Ok(())
                }
            });
            if let Err(error) = worked {
                _ = hand_over(Err(error));
            }
        };
        streaming::in_order(units.len(), work, |unit, found| {
            let found = found.map_err(|error| result = Err(error));
            let Ok(found) = found else { return ControlFlow::Break(()) };
            observe(found)?;
            observe(FoundBare::Progress { done: unit as u64, all })
        });
        result
    }

    /// The max distance, if there is such a distance.
    pub(super) fn checked_distance(&self) -> Result<u32> {
        match self.max_distance {
            given if given > Fingerprint::BITS => Err(Error::MaxDistance { given }),
            max_distance => Ok(max_distance),
        }
    }
}
