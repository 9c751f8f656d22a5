//! The search for near fingerprints alone: nothing is looked up of their documents.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;

use super::position::Way;
use super::search::Question;
use super::units::Units;
use crate::database::snapshot::Snapshot;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::NearPair;
use crate::streaming;

/// What is found.
pub(in crate::database) enum FoundBare {
    /// Fingerprints that several documents have.
    Often(Vec<Fingerprint>),
    /// The pairs that follow are of another unit of the work.
    Unit,
    /// Pairs of different fingerprints. Some may have no documents any more.
    Pairs(PairsOfUnit),
    Progress {
        done: u64,
        all: u64,
    },
}

/// Some pairs of a unit. They name fingerprints by numbers, which are those of the unit. So a fingerprint with many
/// pairs is looked up once by those who keep pairs.
pub(in crate::database) struct PairsOfUnit {
    /// Fingerprints that no pair of the unit had before, in the order of their numbers, which go on from those before.
    pub(in crate::database) new: Vec<Fingerprint>,
    pub(in crate::database) pairs: Vec<[u32; 2]>,
}

/// The pairs that are handed over at a time.
const TOGETHER: usize = 4096;

/// The pairs of a unit that wait, and the numbers of its fingerprints.
struct Numbered {
    numbers: HashMap<Fingerprint, u32, RandomState>,
    /// How often each fingerprint was given.
    given: Vec<u32>,
    enough: u32,
    waiting: PairsOfUnit,
}

impl Numbered {
    fn new(enough: u32) -> Self {
        Self {
            numbers: HashMap::default(),
            given: Vec::new(),
            enough,
            waiting: PairsOfUnit::empty(),
        }
    }

    /// Adds a pair, unless both of its fingerprints were given more than often enough.
    fn add(&mut self, pair: NearPair) {
        let pair = [pair.a, pair.b].map(|it| self.number(it));
        let given = pair.map(|number| {
            let given = &mut self.given[number as usize];
            *given = given.saturating_add(1);
            *given
        });
        if given.iter().any(|&it| it <= self.enough) {
            self.waiting.pairs.push(pair);
        }
    }

    fn number(&mut self, fingerprint: Fingerprint) -> u32 {
        *self.numbers.entry(fingerprint).or_insert_with(|| {
            self.waiting.new.push(fingerprint);
            self.given.push(0);
            self.given.len() as u32 - 1
        })
    }

    /// Takes what waits.
    fn take(&mut self) -> FoundBare {
        FoundBare::Pairs(mem::replace(&mut self.waiting, PairsOfUnit::empty()))
    }
}

impl PairsOfUnit {
    fn empty() -> Self {
        Self {
            new: Vec::new(),
            pairs: Vec::with_capacity(TOGETHER),
        }
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
        let reader = snapshot.reader()?;
        let scopes = self.scopes_of(reader)?;
        let way = Way::cheapest(reader, self.max_distance, false)?;
        let units = Units::new(
            (reader, None),
            self.max_distance,
            &way,
            snapshot.store.sizes.part_rows,
            None,
        )?;
        let (mut result, mut last, all) = (Ok(()), None, units.len() as u64);
        let work =
            |unit: usize, hand_over: &mut dyn FnMut(Result<FoundBare>) -> ControlFlow<()>| {
                let worked = units
                    .posted_often(unit, &scopes)
                    .and_then(|often| match often {
                        Some(often) => Ok(_ = hand_over(Ok(FoundBare::Often(often)))),
                        None => {
                            let mut found = Numbered::new(enough);
                            let joined = units.join(unit, &mut |pair| {
                                pair.into_iter().for_each(|pair| found.add(pair));
                                if found.waiting.pairs.len() < TOGETHER && pair.is_some() {
                                    return ControlFlow::Continue(());
                                }
                                hand_over(Ok(found.take()))
                            })?;
                            if joined.is_continue() {
                                _ = hand_over(Ok(found.take()));
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
            let Ok(found) = found else {
                return ControlFlow::Break(());
            };
            if last.replace(unit) != Some(unit) {
                observe(FoundBare::Unit)?;
            }
            observe(found)?;
            observe(FoundBare::Progress {
                done: unit as u64,
                all,
            })
        });
        result
    }
}
