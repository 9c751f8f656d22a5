//! The search for near fingerprints alone: nothing is looked up of their documents.

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::search::PairQuery;
use super::units::{PAIRS_TOGETHER, Units};
use crate::database::snapshot::Snapshot;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::NearPair;

pub(in crate::database) enum FingerprintPairs {
    /// Fingerprints that several documents have.
    Repeated(Vec<Fingerprint>),
    /// The pairs that follow are of another unit of the work.
    NextUnit,
    /// Pairs of different fingerprints. Some may have no documents any more.
    Pairs(PairsOfUnit),
    Progress {
        done: u64,
        all: u64,
    },
}

/// Some pairs of a unit. They name fingerprints by numbers, which are those of the unit. So a fingerprint with many
/// pairs is looked up once by those who keep pairs.
#[derive(Default)]
pub(in crate::database) struct PairsOfUnit {
    /// Fingerprints that no pair of the unit had before, in the order of their numbers, which go on from those before.
    pub(in crate::database) new: Vec<Fingerprint>,
    pub(in crate::database) pairs: Vec<[u32; 2]>,
}

/// After this time a unit hands over however few pairs, and so sees whether it is to end. Otherwise it collects them:
/// one that hands over a few at a time keeps others waiting, since few results may wait for their turn.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The most rows of a part, so that all cores have parts to the end. The work of a part may be many times that of
/// others.
fn shared_part_rows(documents: u64) -> u64 {
    const PARTS_PER_CORE: u64 = 8;
    const FEWEST_ROWS: u64 = 1 << 13;
    let parts = PARTS_PER_CORE * parallel::cores() as u64;
    (documents / parts).max(FEWEST_ROWS)
}

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
            waiting: PairsOfUnit::default(),
        }
    }

    /// Adds a pair, unless both of its fingerprints were given more than often enough.
    fn add(&mut self, pair: NearPair) {
        let a = self.number(pair.a);
        let b = self.number(pair.b);
        let a_has_enough = self.has_enough(a);
        let b_has_enough = self.has_enough(b);
        if !a_has_enough || !b_has_enough {
            self.waiting.pairs.push([a, b]);
        }
    }

    fn number(&mut self, fingerprint: Fingerprint) -> u32 {
        *self.numbers.entry(fingerprint).or_insert_with(|| {
            self.waiting.new.push(fingerprint);
            self.given.push(0);
            self.given.len() as u32 - 1
        })
    }

    /// Counts a pair of a fingerprint. Whether it had enough before.
    fn has_enough(&mut self, number: u32) -> bool {
        let given = &mut self.given[number as usize];
        *given = given.saturating_add(1);
        *given > self.enough
    }
}

impl PairQuery {
    /// Finds all pairs of near fingerprints, each once, and the fingerprints that several documents have, until
    /// `observe` fails. Of times, scopes and similarities, only the scopes of the latter count.
    ///
    /// Of two fingerprints that both have been given with more than `enough` others, the pair may be left out.
    pub(in crate::database) fn fingerprint_pairs(
        &self,
        snapshot: &Snapshot,
        enough: u32,
        observe: &mut dyn FnMut(FingerprintPairs) -> Result<()>,
    ) -> Result<()> {
        let reader = snapshot.reader()?;
        let scopes = self.scopes_of(reader)?;
        let part_rows = snapshot.store.sizes.part_rows;
        let part_rows = part_rows.min(shared_part_rows(reader.counters().documents));
        let units = Units::new(reader, None, false, self.max_distance, part_rows, None)?;
        let all = units.len() as u64;
        let mut last = None;

        parallel::stream(
            units.len(),
            |unit, hand_over| {
                if let Some(repeated) = units.posted_often(unit, &scopes)? {
                    return hand_over(FingerprintPairs::Repeated(repeated));
                }
                let mut numbered = Numbered::new(enough);
                let mut looked = Instant::now();
                units.join(unit, &mut |pairs| {
                    for &pair in pairs {
                        numbered.add(pair);
                    }
                    let is_full = numbered.waiting.pairs.len() >= PAIRS_TOGETHER;
                    if !is_full && looked.elapsed() < BETWEEN_LOOKS {
                        return Ok(());
                    }
                    looked = Instant::now();
                    hand_over(FingerprintPairs::Pairs(mem::take(&mut numbered.waiting)))
                })?;
                hand_over(FingerprintPairs::Pairs(numbered.waiting))
            },
            |unit, found| {
                if last.replace(unit) != Some(unit) {
                    observe(FingerprintPairs::NextUnit)?;
                }
                observe(found)?;
                let done = unit as u64;
                observe(FingerprintPairs::Progress { done, all })
            },
        )
    }
}
