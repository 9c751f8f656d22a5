//! The search for near documents, on all cores: from units of the tables to pairs of members.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::members::{Keys, Member, Members, MembersOf, Together};
use super::position::{PairPosition, Way};
use super::units::Units;
use crate::database::near::Near;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::NearPair;
use crate::sketch::SketchSize;
use crate::store::{DocumentNumber, Reader, ScopeNames, ScopeNumber, Settings};
use crate::streaming;
use crate::unix_seconds::UnixSeconds;

/// What is asked.
#[derive(Clone, Debug)]
pub(in crate::database) struct Question {
    pub(in crate::database) max_distance: u32,
    /// The least similarity. `None` if the distance alone decides.
    pub(in crate::database) min_similarity: Option<f64>,
    /// Whether the distance alone decides for documents of another side that have no sketch, as it does for queries
    /// without a sketch.
    pub(in crate::database) takes_unsketched: bool,
    pub(in crate::database) since: Option<UnixSeconds>,
    pub(in crate::database) scopes: Option<ScopeNames>,
    pub(in crate::database) each_document: bool,
    pub(in crate::database) from: Option<PairPosition>,
}

/// What is found.
#[derive(Clone, Debug)]
pub(in crate::database) enum Found {
    /// Several documents of one fingerprint.
    Group(Member),
    Pair {
        a: Member,
        b: Member,
        distance: u32,
        similarity: Option<f64>,
    },
    Progress {
        done: u64,
        all: u64,
        position: PairPosition,
    },
}

impl Question {
    pub(in crate::database) fn new(near: &Near, settings: &Settings) -> Result<Self> {
        let bounds = near.checked(settings)?;
        Ok(Self {
            max_distance: bounds.max_distance,
            min_similarity: Some(bounds.min_similarity).filter(|&least| least > 0.0),
            takes_unsketched: false,
            since: near.since,
            scopes: near.scopes.clone(),
            each_document: false,
            from: None,
        })
    }

    /// Finds all pairs, each once, and gives them to `observe`, until it breaks: the pairs of a snapshot, or of a
    /// snapshot and another one. Of the latter, the first of a pair is of the snapshot.
    pub(in crate::database) fn run(
        &self,
        snapshot: &Snapshot,
        other: Option<&Snapshot>,
        keys: Keys,
        observe: &mut dyn FnMut(Found) -> ControlFlow<()>,
    ) -> Result<()> {
        let ours = snapshot.reader()?;
        self.check_conditions(ours)?;
        let theirs = other.map(Snapshot::reader).transpose()?;
        if let Some(theirs) = theirs {
            self.ensure_alike(ours, theirs)?;
        }
        // The tables of the larger side are gone through, each once. Which one that is may be seen otherwise after a
        // merge.
        let is_turned = match &self.from {
            Some(from) => from.way.is_turned && theirs.is_some(),
            None => theirs.is_some_and(|theirs| theirs.fingerprints() > ours.fingerprints()),
        };
        let (reader, other) = match theirs.filter(|_| is_turned) {
            Some(larger) => (larger, Some(ours)),
            None => (ours, theirs),
        };
        let members = self.members(reader, keys)?;
        let others = other.map(|other| self.members(other, keys)).transpose()?;
        let takes_unsketched = self.takes_unsketched && others.is_some();
        let min_similarity = self.min_similarity;
        let search = Search {
            members,
            others,
            is_turned,
            min_similarity,
            takes_unsketched,
        };
        let of = self.identity(&search, reader, other);
        if self.from.as_ref().is_some_and(|from| !from.is_of(of)) {
            return Err(Error::PairPosition);
        }
        let way = match &self.from {
            Some(from) => from.way.clone(),
            None => Arc::new(Way::cheapest(reader, self.max_distance, is_turned)?),
        };
        let from = self.from.as_ref().map(|from| from.next);
        let part_rows = snapshot.store.sizes.part_rows;
        let units = Units::new((reader, other), self.max_distance, &way, part_rows, from)?;
        let (all, first) = (
            units.len() as u64,
            from.map_or(0, |from| units.before(from)),
        );
        let (mut result, mut done) = (Ok(()), first as u64);
        let mut position = PairPosition::new(units.get(first), way.clone(), of);
        // What the first unit gives comes after its position too.
        if observe(Found::Progress {
            done,
            all,
            position: position.clone(),
        })
        .is_break()
        {
            return Ok(());
        }
        let work = |unit: usize, hand_over: &mut dyn FnMut(Handed) -> ControlFlow<()>| {
            let mut found = Vec::new();
            let worked = search.unit(&units, first + unit, &mut |one| {
                found.extend(one);
                if found.len() >= TOGETHER || found.is_empty() {
                    return hand_over(Handed::Found(mem::take(&mut found)));
                }
                ControlFlow::Continue(())
            });
            _ = hand_over(match worked {
                Ok(()) => Handed::Ended(found),
                Err(error) => Handed::Failed(error),
            });
        };
        streaming::in_order(units.len() - first, work, |_, handed| {
            let (found, has_ended) = match handed {
                Handed::Found(found) => (found, false),
                Handed::Ended(found) => (found, true),
                Handed::Failed(error) => {
                    result = Err(error);
                    return ControlFlow::Break(());
                }
            };
            found.into_iter().try_for_each(&mut *observe)?;
            if has_ended {
                done += 1;
                position = PairPosition::new(units.get(done as usize), way.clone(), of);
            }
            observe(Found::Progress {
                done,
                all,
                position: position.clone(),
            })
        });
        result
    }

    /// Stands for the question and the content. It is the same wherever the rows are stored.
    fn identity(&self, search: &Search<'_>, reader: Reader<'_>, other: Option<Reader<'_>>) -> u64 {
        let content = |reader: Reader<'_>| {
            format!("{:x} {:?}", reader.settings().key_seed, reader.counters())
        };
        let tables = reader
            .settings()
            .plan
            .tables()
            .iter()
            .map(|it| it.permutation.positions());
        let text = format!(
            "{} {:?} {} {:?} {:?} {} {} {:?} {:?}",
            self.max_distance,
            self.min_similarity,
            search.takes_unsketched,
            self.since,
            // The names of scopes stand for their numbers here.
            search.members.scopes,
            self.each_document,
            content(reader),
            other.map(content),
            tables.collect::<Vec<_>>(),
        );
        xxh3_64_with_seed(text.as_bytes(), 0)
    }

    /// What looks up the documents of a snapshot.
    fn members<'r>(&self, reader: Reader<'r>, keys: Keys) -> Result<Members<'r>> {
        let scopes = self.scopes_of(reader)?;
        let since = match self.since.map(UnixSeconds::unchecked) {
            None => None,
            // Without any such document, nothing has a number that is large enough.
            Some(since) => Some((
                since,
                reader.first_since(since)?.unwrap_or(DocumentNumber::MAX),
            )),
        };
        let together = match (self.each_document, self.min_similarity) {
            (true, _) => Together::Nothing,
            (false, Some(_)) => Together::Sketch,
            (false, None) => Together::Fingerprint,
        };
        Ok(Members::new(reader, scopes, since, together, keys))
    }

    /// Refuses a least similarity if the documents have no sketches.
    pub(in crate::database) fn check_conditions(&self, reader: Reader<'_>) -> Result<()> {
        match reader.settings().sketch_size {
            SketchSize::None if self.min_similarity.is_some() => Err(Error::SketchSizes {
                stored: 0,
                given: 0,
            }),
            _ => Ok(()),
        }
    }

    /// Refuses to compare the fingerprints of different schemes, or sketches of different sizes. If the other side has
    /// no sketches at all, the distance alone may decide.
    fn ensure_alike(&self, reader: Reader<'_>, other: Reader<'_>) -> Result<()> {
        let [ours, theirs] = [reader, other].map(Reader::settings);
        if ours.scheme != theirs.scheme {
            return Err(Error::SchemeMismatch {
                stored: ours.scheme.name(),
                given: theirs.scheme.name(),
            });
        }
        let [stored, given] = [ours, theirs].map(|it| it.sketch_size.bytes());
        let is_unsketched = self.takes_unsketched && theirs.sketch_size == SketchSize::None;
        if self.min_similarity.is_some() && stored != given && !is_unsketched {
            return Err(Error::SketchSizes { stored, given });
        }
        Ok(())
    }

    /// The scopes whose documents count.
    pub(super) fn scopes_of(&self, reader: Reader<'_>) -> Result<Arc<[ScopeNumber]>> {
        match &self.scopes {
            None => Ok(ScopeNumber::ALL_DOCUMENTS.into()),
            Some(names) => names.numbers(reader),
        }
    }
}

/// The events that are handed over at a time.
const TOGETHER: usize = 1024;
/// The pairs of fingerprints whose documents are looked up at a time.
const PAIRS_TOGETHER: usize = 4096;

/// What a unit hands over.
enum Handed {
    Found(Vec<Found>),
    /// The last of a unit.
    Ended(Vec<Found>),
    Failed(Error),
}

/// Takes what is found, or nothing to say that the work goes on.
type Take<'t> = &'t mut dyn FnMut(Option<Found>) -> ControlFlow<()>;

/// The search, which all threads share.
struct Search<'s> {
    members: Members<'s>,
    /// Those of the other side.
    others: Option<Members<'s>>,
    /// Whether the other side comes first.
    is_turned: bool,
    min_similarity: Option<f64>,
    takes_unsketched: bool,
}

impl Search<'_> {
    /// Does a unit of the work.
    fn unit(&self, units: &Units<'_>, unit: usize, take: Take<'_>) -> Result<()> {
        if let Some(often) = units.posted_often(unit, &self.members.scopes)? {
            return self.give_groups(&often, take);
        }
        let (mut waiting, mut failed) = (Vec::with_capacity(PAIRS_TOGETHER), Ok(()));
        let mut give = |waiting: &mut Vec<NearPair>, take: Take<'_>| {
            let given = self.give_pairs(waiting, take);
            waiting.clear();
            given.unwrap_or_else(|error| {
                failed = Err(error);
                ControlFlow::Break(())
            })
        };
        let joined = units.join(unit, &mut |pair| match pair {
            None => take(None),
            Some(pair) => {
                waiting.push(pair);
                if waiting.len() < PAIRS_TOGETHER {
                    ControlFlow::Continue(())
                } else {
                    give(&mut waiting, take)
                }
            }
        })?;
        if joined.is_continue() {
            _ = give(&mut waiting, take);
        }
        failed
    }

    /// Gives the groups of some fingerprints, and the pairs in them.
    fn give_groups(&self, fingerprints: &[Fingerprint], take: Take<'_>) -> Result<()> {
        for fingerprints in fingerprints.chunks(PAIRS_TOGETHER) {
            if self.give_some_groups(fingerprints, take)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn give_some_groups(
        &self,
        fingerprints: &[Fingerprint],
        take: Take<'_>,
    ) -> Result<ControlFlow<()>> {
        let Some(members) = self.members.of(fingerprints.iter().copied())? else {
            let (first, second) = fingerprints.split_at(fingerprints.len() / 2);
            return match self.give_some_groups(first, take)? {
                ControlFlow::Continue(()) => self.give_some_groups(second, take),
                broken => Ok(broken),
            };
        };
        let mut groups = fingerprints
            .iter()
            .filter_map(|fingerprint| members.get(fingerprint));
        Ok(groups.try_for_each(|members| self.give_group(members, take)))
    }

    fn give_group(&self, members: &[Member], take: Take<'_>) -> ControlFlow<()> {
        for (index, a) in members.iter().enumerate() {
            // Without a sketch, nothing is similar.
            let is_judged = a.sketch.is_some() || self.min_similarity.is_none();
            if a.group.documents > 1 && is_judged {
                take(Some(Found::Group(a.clone())))?;
            }
            members[index + 1..]
                .iter()
                .try_for_each(|b| self.give_pair(a, b, 0, take))?;
        }
        ControlFlow::Continue(())
    }

    /// Gives the pairs of documents of near fingerprints.
    fn give_pairs(&self, pairs: &[NearPair], take: Take<'_>) -> Result<ControlFlow<()>> {
        let firsts = pairs.iter().map(|pair| pair.a);
        let seconds = pairs.iter().map(|pair| pair.b);
        let found = match &self.others {
            None => self
                .members
                .of(firsts.chain(seconds))?
                .map(|members| (members, None)),
            Some(others) => {
                let (firsts, seconds) = (self.members.of(firsts)?, others.of(seconds)?);
                firsts
                    .zip(seconds)
                    .map(|(firsts, seconds)| (firsts, Some(seconds)))
            }
        };
        let Some((firsts, seconds)) = found else {
            let (first, second) = pairs.split_at(pairs.len() / 2);
            return match self.give_pairs(first, take)? {
                ControlFlow::Continue(()) => self.give_pairs(second, take),
                broken => Ok(broken),
            };
        };
        let of = |members: &MembersOf, fingerprint| {
            members.get(&fingerprint).cloned().unwrap_or_default()
        };
        for pair in pairs {
            for a in &*of(&firsts, pair.a) {
                for b in &*of(seconds.as_ref().unwrap_or(&firsts), pair.b) {
                    let (a, b) = if self.is_turned { (b, a) } else { (a, b) };
                    if self.give_pair(a, b, pair.distance, take).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Gives a pair, if it is similar enough. The second is of the other side, if there is one.
    fn give_pair(&self, a: &Member, b: &Member, distance: u32, take: Take<'_>) -> ControlFlow<()> {
        let sketches = a.sketch.zip(b.sketch);
        let similarity = sketches.and_then(|(a, b)| Some(a.similarity(&b).ok()?.jaccard()));
        let is_judged = !self.takes_unsketched || b.sketch.is_some();
        match self.min_similarity.filter(|_| is_judged) {
            Some(least) if similarity.is_none_or(|it| it < least) => ControlFlow::Continue(()),
            _ => take(Some(Found::Pair {
                a: a.clone(),
                b: b.clone(),
                distance,
                similarity,
            })),
        }
    }
}
