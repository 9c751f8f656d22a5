//! The search for near documents, on all cores: from units of the tables to pairs of members.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::xxh3_64;

use super::units::{PAIRS_TOGETHER, PairPosition, Units};
use crate::database::crowding::FingerprintGroup;
use crate::database::near::Near;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::NearPair;
use crate::sketch::{Sketch, SketchSize};
use crate::store::{DocumentNumber, Posted, ReadScopes, Reader, ScopeNames, ScopeNumber, Settings};
use crate::sync::Mutex;

#[derive(Clone, Debug)]
pub(in crate::database) struct PairQuery {
    pub(in crate::database) max_distance: u32,
    /// The least similarity. `None` if the distance alone decides.
    pub(in crate::database) min_similarity: Option<f64>,
    /// Whether the distance alone decides for documents of another side that have no sketch, as it does for queries
    /// without a sketch.
    pub(super) takes_unsketched: bool,
    /// From when on documents count, if not all do.
    since: Option<i64>,
    scopes: Option<ScopeNames>,
    /// Whether pairs are of documents. Otherwise they are of fingerprints.
    pub(super) each_document: bool,
    /// Whether each pair has its similarity, although the distance alone decides. Not for a search that goes on from a
    /// position.
    pub(super) by_sketch: bool,
    /// The position to go on from, if it is not the beginning.
    pub(super) from: Option<PairPosition>,
}

/// An event of the search, with members in the place of groups.
#[derive(Clone, Debug)]
pub(in crate::database) enum MemberEvent {
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

impl PairQuery {
    pub(in crate::database) fn new(near: &Near, settings: &Settings) -> Result<Self> {
        let bounds = near.checked(settings)?;
        Ok(Self {
            max_distance: bounds.max_distance,
            min_similarity: bounds.min_similarity,
            takes_unsketched: false,
            since: bounds.since,
            scopes: near.scopes.clone(),
            each_document: false,
            by_sketch: false,
            from: None,
        })
    }

    /// Finds all pairs, each once, and gives them to `observe`, until it fails: the pairs of a snapshot, or of a
    /// snapshot and another one. Of the latter, the first of a pair is of the snapshot.
    pub(in crate::database) fn run(
        &self,
        snapshot: &Snapshot,
        other: Option<&Snapshot>,
        keys: Keys,
        observe: &mut dyn FnMut(MemberEvent) -> Result<()>,
    ) -> Result<()> {
        let (ours, theirs) = self.sides(snapshot, other)?;
        // The tables of the larger side are gone through, each once. Which one that is may be seen otherwise after a
        // merge.
        let goes_through_other_side = match &self.from {
            Some(from) => from.goes_through_other_side() && theirs.is_some(),
            None => theirs.is_some_and(|theirs| theirs.fingerprints() > ours.fingerprints()),
        };
        let (reader, other) = match theirs {
            Some(larger) if goes_through_other_side => (larger, Some(ours)),
            _ => (ours, theirs),
        };

        let search = Search {
            members: self.members(reader, keys)?,
            others: other.map(|other| self.members(other, keys)).transpose()?,
            goes_through_other_side,
            min_similarity: self.min_similarity,
            takes_unsketched: self.takes_unsketched && other.is_some(),
        };
        let digest = xxh3_64(&self.identity(&search, reader, other));
        let from = self.from.as_ref();
        if from.is_some_and(|from| !from.belongs_to(digest)) {
            return Err(Error::PairPosition);
        }
        let part_rows = snapshot.store.sizes.part_rows;
        let max_distance = self.max_distance;
        let units = Units::new(
            reader,
            other,
            goes_through_other_side,
            max_distance,
            part_rows,
            from,
        )?;

        let all = units.len() as u64;
        let mut done = units.first;
        let mut position = units.position(done, digest);
        // What the first unit gives comes after its position too.
        observe(MemberEvent::Progress {
            done: done as u64,
            all,
            position: position.clone(),
        })?;

        parallel::stream(
            units.len() - units.first,
            |unit, hand_over| search.unit(&units, units.first + unit, hand_over),
            |_, Handed { events, ends_unit }| {
                events.into_iter().try_for_each(&mut *observe)?;
                if ends_unit {
                    done += 1;
                    position = units.position(done, digest);
                }
                observe(MemberEvent::Progress {
                    done: done as u64,
                    all,
                    position: position.clone(),
                })
            },
        )
    }

    /// Both sides, if the question can be asked of them.
    pub(super) fn sides<'s>(
        &self,
        snapshot: &'s Snapshot,
        other: Option<&'s Snapshot>,
    ) -> Result<(Reader<'s>, Option<Reader<'s>>)> {
        let ours = snapshot.reader()?;
        self.check_conditions(ours)?;
        let theirs = other.map(Snapshot::reader).transpose()?;
        if let Some(theirs) = theirs {
            self.ensure_alike(ours, theirs)?;
        }
        Ok((ours, theirs))
    }

    /// The query and the content as bytes, the same wherever the rows are stored.
    fn identity(
        &self,
        search: &Search<'_>,
        reader: Reader<'_>,
        other: Option<Reader<'_>>,
    ) -> Vec<u8> {
        let mut bytes = self.query_bytes(search.takes_unsketched, &search.members.scopes);
        let contents = [Some(reader), other];
        for reader in contents.into_iter().flatten() {
            bytes.extend(content_bytes(reader));
        }
        for table in reader.settings().plan.tables() {
            bytes.extend(table.positions());
        }
        bytes
    }

    /// The query as bytes, in an order of its own: a version, the max distance, the least similarity, a byte of flags,
    /// the time, and the scopes with their count in front. Numbers are little-endian, and what is not given is 0.
    fn query_bytes(&self, takes_unsketched: bool, scopes: &[ScopeNumber]) -> Vec<u8> {
        let mut flags = 0;
        for (bit, is_set) in [
            self.min_similarity.is_some(),
            self.since.is_some(),
            takes_unsketched,
            self.each_document,
        ]
        .into_iter()
        .enumerate()
        {
            flags |= u8::from(is_set) << bit;
        }

        let mut bytes = vec![IDENTITY_VERSION];
        bytes.extend(self.max_distance.to_le_bytes());
        bytes.extend(self.min_similarity.unwrap_or_default().to_le_bytes());
        bytes.push(flags);
        bytes.extend(self.since.unwrap_or_default().to_le_bytes());
        bytes.extend((scopes.len() as u32).to_le_bytes());
        // The names of scopes stand for their numbers here.
        for scope in scopes {
            bytes.extend(scope.get().to_le_bytes());
        }
        bytes
    }

    fn members<'r>(&self, reader: Reader<'r>, keys: Keys) -> Result<Members<'r>> {
        let scopes = self.scopes_of(reader)?;
        let since = match self.since {
            None => None,
            Some(since) => {
                // Without any such document, nothing has a number that is large enough.
                let first = reader.first_since(since)?.unwrap_or(DocumentNumber::MAX);
                Some((since, first))
            }
        };
        let compares_sketches = self.min_similarity.is_some() || self.by_sketch;
        let together = match (self.each_document, compares_sketches) {
            (true, _) => Together::Nothing,
            (false, true) => Together::Sketch,
            (false, false) => Together::Fingerprint,
        };
        Ok(Members {
            reader,
            scopes,
            since,
            together,
            keys,
            known: Mutex::default(),
        })
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
        let ours = reader.settings();
        let theirs = other.settings();
        if ours.scheme != theirs.scheme {
            return Err(Error::SchemeMismatch {
                stored: ours.scheme.name(),
                given: theirs.scheme.name(),
            });
        }
        let stored = ours.sketch_size.bytes();
        let given = theirs.sketch_size.bytes();
        let is_unsketched = self.takes_unsketched && theirs.sketch_size == SketchSize::None;
        if self.min_similarity.is_some() && stored != given && !is_unsketched {
            return Err(Error::SketchSizes { stored, given });
        }
        Ok(())
    }

    pub(super) fn scopes_of(&self, reader: Reader<'_>) -> Result<ReadScopes> {
        match &self.scopes {
            None => Ok(ReadScopes::AllDocuments),
            Some(names) => names.numbers(reader),
        }
    }
}

/// By what a content is known again, wherever the rows are stored.
pub(in crate::database) fn content_bytes(reader: Reader<'_>) -> Vec<u8> {
    let counters = reader.counters();
    let mut bytes = reader.settings().key_seed.to_le_bytes().to_vec();
    bytes.extend(counters.next_document.to_le_bytes());
    bytes.extend(counters.next_scope.to_le_bytes());
    bytes.extend(counters.documents.to_le_bytes());
    bytes.extend(counters.too_short.to_le_bytes());
    bytes
}

/// The events that are handed over at a time.
const TOGETHER: usize = 1024;

/// The version of the bytes for which a position holds.
const IDENTITY_VERSION: u8 = 1;

#[derive(Default)]
struct Handed {
    events: Vec<MemberEvent>,
    /// Whether they are the last of the unit.
    ends_unit: bool,
}

type HandOver<'h> = &'h mut dyn FnMut(Handed) -> Result<()>;

/// The events of a unit that are not handed over yet.
struct UnitEvents<'h> {
    waiting: Handed,
    /// The pairs that were compared since it was asked last whether more are wanted, and are none.
    passed_over: usize,
    hand_over: HandOver<'h>,
}

impl UnitEvents<'_> {
    fn push(&mut self, event: MemberEvent) -> Result<()> {
        self.waiting.events.push(event);
        match self.waiting.events.len() {
            TOGETHER.. => self.hand_over(),
            _ => Ok(()),
        }
    }

    /// Counts pairs that are none of the wanted. Of many there may be no event for long, and nobody may want more.
    fn pass_over(&mut self, pairs: usize) -> Result<()> {
        const LOOK_AFTER: usize = 1 << 16;
        self.passed_over += pairs;
        match self.passed_over {
            LOOK_AFTER.. => self.hand_over(),
            _ => Ok(()),
        }
    }

    /// Hands over what waits. Fails if nobody wants more.
    fn hand_over(&mut self) -> Result<()> {
        self.passed_over = 0;
        (self.hand_over)(mem::take(&mut self.waiting))
    }
}

struct Search<'s> {
    members: Members<'s>,
    /// Those of the other side.
    others: Option<Members<'s>>,
    /// Whether the tables of the other side are gone through. Then near pairs have its documents first, and are given
    /// the other way round.
    goes_through_other_side: bool,
    min_similarity: Option<f64>,
    takes_unsketched: bool,
}

impl Search<'_> {
    fn unit(&self, units: &Units<'_>, unit: usize, hand_over: HandOver<'_>) -> Result<()> {
        let mut events = UnitEvents {
            waiting: Handed::default(),
            passed_over: 0,
            hand_over,
        };
        match units.posted_often(unit, &self.members.scopes)? {
            Some(often) => {
                for fingerprints in often.chunks(PAIRS_TOGETHER) {
                    self.give_groups(fingerprints, &mut events)?;
                }
            }
            None => units.join(unit, &mut |pairs| match pairs {
                [] => events.hand_over(),
                _ => self.give_pairs(pairs, &mut events),
            })?,
        }
        events.waiting.ends_unit = true;
        events.hand_over()
    }

    /// Gives the groups of some fingerprints, and the pairs in them.
    fn give_groups(&self, fingerprints: &[Fingerprint], events: &mut UnitEvents<'_>) -> Result<()> {
        let Some(members) = self.members.look_up(fingerprints.iter().copied())? else {
            let (first, second) = fingerprints.split_at(fingerprints.len() / 2);
            self.give_groups(first, events)?;
            return self.give_groups(second, events);
        };
        for fingerprint in fingerprints {
            if let Some(members) = members.get(fingerprint) {
                self.give_group(members, events)?;
            }
        }
        Ok(())
    }

    fn give_group(&self, members: &[Member], events: &mut UnitEvents<'_>) -> Result<()> {
        for (index, a) in members.iter().enumerate() {
            // Without a sketch, nothing is similar.
            let is_judged = a.sketch.is_some() || self.min_similarity.is_none();
            if a.group.documents > 1 && is_judged {
                events.push(MemberEvent::Group(a.clone()))?;
            }
            for b in &members[index + 1..] {
                self.give_pair(a, b, 0, events)?;
            }
        }
        Ok(())
    }

    fn give_pairs(&self, pairs: &[NearPair], events: &mut UnitEvents<'_>) -> Result<()> {
        let Some((firsts, seconds)) = self.members_of(pairs)? else {
            let (first, second) = pairs.split_at(pairs.len() / 2);
            self.give_pairs(first, events)?;
            return self.give_pairs(second, events);
        };
        let seconds = seconds.as_ref().unwrap_or(&firsts);
        for pair in pairs {
            let (Some(firsts), Some(seconds)) = (firsts.get(&pair.a), seconds.get(&pair.b)) else {
                continue;
            };
            for a in &**firsts {
                for b in &**seconds {
                    match self.goes_through_other_side {
                        true => self.give_pair(b, a, pair.distance, events)?,
                        false => self.give_pair(a, b, pair.distance, events)?,
                    }
                }
            }
        }
        events.pass_over(pairs.len())
    }

    /// The members of the fingerprints of some pairs; those of the second ones by themselves, if they are of another
    /// side. `None` if there are too many.
    fn members_of(&self, pairs: &[NearPair]) -> Result<Option<(MembersOf, Option<MembersOf>)>> {
        let firsts = pairs.iter().map(|pair| pair.a);
        let seconds = pairs.iter().map(|pair| pair.b);
        let Some(others) = &self.others else {
            let all = self.members.look_up(firsts.chain(seconds))?;
            return Ok(all.map(|all| (all, None)));
        };
        let firsts = self.members.look_up(firsts)?;
        let seconds = others.look_up(seconds)?;
        Ok(firsts.zip(seconds.map(Some)))
    }

    /// Gives a pair, if it is similar enough. The second is of the other side, if there is one.
    fn give_pair(
        &self,
        a: &Member,
        b: &Member,
        distance: u32,
        events: &mut UnitEvents<'_>,
    ) -> Result<()> {
        let similarity = match (&a.sketch, &b.sketch) {
            (Some(a), Some(b)) => a.similarity(b).ok().map(|similarity| similarity.jaccard()),
            _ => None,
        };
        let is_judged = !self.takes_unsketched || b.sketch.is_some();
        // No similarity is below each that there is.
        if is_judged && similarity < self.min_similarity {
            return events.pass_over(1);
        }
        events.push(MemberEvent::Pair {
            a: a.clone(),
            b: b.clone(),
            distance,
            similarity,
        })
    }
}

// Members: the documents of near fingerprints, as the search lists them.

/// Documents of one fingerprint that are listed as one.
#[derive(Clone, Debug)]
pub(in crate::database) struct Member {
    /// The document that was written last. No other member has it.
    pub(in crate::database) newest: DocumentNumber,
    pub(in crate::database) group: FingerprintGroup,
    /// The sketch that all of them have, if sketches are compared.
    pub(in crate::database) sketch: Option<Sketch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::database) enum Keys {
    /// That of the document that was written last.
    Newest,
    /// They are not, where that saves a look-up.
    None,
}

type MembersOf = HashMap<Fingerprint, Arc<[Member]>, RandomState>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    /// All documents of a fingerprint.
    Fingerprint,
    /// The documents of a fingerprint that have the same sketch.
    Sketch,
    /// No two documents.
    Nothing,
}

struct Members<'s> {
    reader: Reader<'s>,
    scopes: ReadScopes,
    /// The least time, and a number below which no document is recent enough.
    since: Option<(i64, DocumentNumber)>,
    together: Together,
    keys: Keys,
    known: Mutex<Known>,
}

/// The members of fingerprints that many documents have. They took long to find.
#[derive(Default)]
struct Known {
    members: MembersOf,
    /// The number of members of all of them.
    count: usize,
}

/// Members of more documents than this are remembered.
const MANY: usize = 64;
/// The most members that are remembered.
const MOST_KNOWN: usize = 100_000;
/// The most documents that are listed at a time, unless they are of two fingerprints.
const MOST_LISTED: u64 = 50_000;
/// The documents of a fingerprint that are listed at a time.
const PAGE: usize = 4096;

impl Members<'_> {
    /// The members of each fingerprint. Those come first that were written last. `None` if there are so many that fewer
    /// fingerprints should be asked for at a time. Those of two are never too many.
    fn look_up(
        &self,
        fingerprints: impl IntoIterator<Item = Fingerprint>,
    ) -> Result<Option<MembersOf>> {
        let mut members = MembersOf::default();
        let mut wanted: Vec<Fingerprint> = fingerprints.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(
            |fingerprint| match self.known.lock().members.get(fingerprint) {
                Some(known) => members.insert(*fingerprint, known.clone()).is_some(),
                None => true,
            },
        );
        let posted = self.posted(&wanted)?;
        let documents: u64 = posted.iter().map(|posted| posted.total).sum();
        if self.together != Together::Fingerprint && documents > MOST_LISTED && wanted.len() > 2 {
            return Ok(None);
        }
        let mut newest: Vec<(DocumentNumber, Fingerprint, u64)> = Vec::new();
        for posted in posted.chunk_by(|a, b| a.index == b.index) {
            let fingerprint = wanted[posted[0].index];
            let documents: u64 = posted.iter().map(|posted| posted.total).sum();
            if self.together == Together::Fingerprint && self.since.is_none() {
                if let Some(number) = self.newest(fingerprint, posted)? {
                    newest.push((number, fingerprint, documents));
                }
                continue;
            }
            let found: Arc<[Member]> = self.listed(fingerprint, posted)?.into();
            if documents > MANY as u64 {
                let mut known = self.known.lock();
                if known.count + found.len() <= MOST_KNOWN {
                    known.count += found.len();
                    known.members.insert(fingerprint, found.clone());
                }
            }
            members.insert(fingerprint, found);
        }
        // In the order of their numbers, documents of one block are read one after the other.
        newest.sort_unstable();
        for (number, fingerprint, documents) in newest {
            let newest_key = match self.keys {
                Keys::Newest => self.reader.linked_key(number)?,
                Keys::None => Vec::new(),
            };
            let member = Member {
                newest: number,
                group: FingerprintGroup {
                    fingerprint,
                    documents,
                    newest_key,
                },
                sketch: None,
            };
            members.insert(fingerprint, [member].into());
        }
        Ok(Some(members))
    }

    fn posted(&self, wanted: &[Fingerprint]) -> Result<Vec<Posted>> {
        let wanted = wanted
            .iter()
            .map(|&fingerprint| (fingerprint, self.scopes.clone()));
        let mut posted = match self.since {
            None => self.reader.posted(&wanted.collect::<Vec<_>>())?,
            Some((_, from)) => {
                let wanted: Vec<_> = wanted.map(|wanted| (wanted, from)).collect();
                self.reader.posted_from(&wanted)?
            }
        };
        posted.retain(|posted| posted.total > 0);
        posted.sort_unstable_by_key(|posted| posted.index);
        Ok(posted)
    }

    fn newest(
        &self,
        fingerprint: Fingerprint,
        posted: &[Posted],
    ) -> Result<Option<DocumentNumber>> {
        let mut newest = None;
        for posted in posted {
            let of_scope = match &posted.numbers {
                Some(numbers) => numbers.first().copied(),
                None => {
                    let page = self.page(fingerprint, posted.scope, DocumentNumber::MAX, 1)?;
                    page.first().copied()
                }
            };
            newest = newest.max(of_scope);
        }
        Ok(newest)
    }

    /// The documents of a fingerprint in a scope with numbers below `end`: the last ones, the newest first.
    fn page(
        &self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        end: DocumentNumber,
        most: usize,
    ) -> Result<Vec<DocumentNumber>> {
        let from = self.since.map_or(DocumentNumber::MIN, |(_, from)| from);
        self.reader.newest(fingerprint, scope, from..end, most)
    }

    fn listed(&self, fingerprint: Fingerprint, posted: &[Posted]) -> Result<Vec<Member>> {
        let mut listed = Listed::default();
        for posted in posted {
            if let Some(numbers) = &posted.numbers {
                for &number in numbers {
                    self.add(&mut listed, fingerprint, number)?;
                }
                continue;
            }
            let mut end = DocumentNumber::MAX;
            loop {
                let page = self.page(fingerprint, posted.scope, end, PAGE)?;
                for &number in &page {
                    self.add(&mut listed, fingerprint, number)?;
                }
                match page.last() {
                    Some(&last) => end = last,
                    None => break,
                }
            }
        }
        // Documents of several scopes come one scope after the other.
        listed.members.sort_by_key(|member| Reverse(member.newest));
        Ok(listed.members)
    }

    fn add(
        &self,
        listed: &mut Listed,
        fingerprint: Fingerprint,
        number: DocumentNumber,
    ) -> Result<()> {
        let since = self.since.map_or(i64::MIN, |(since, _)| since);
        let Some(document) = self.reader.linked_if(number, since, |_| true)? else {
            return Ok(());
        };
        let sketch = match self.together {
            Together::Fingerprint => None,
            _ => document.sketch().copied(),
        };
        let same = match self.together {
            Together::Nothing => None,
            _ => listed.by_sketch.get(&sketch),
        };
        if let Some(&index) = same {
            let member = &mut listed.members[index];
            member.group.documents += 1;
            if number > member.newest {
                member.newest = number;
                member.group.newest_key = document.key().to_vec();
            }
            return Ok(());
        }

        listed.by_sketch.insert(sketch, listed.members.len());
        listed.members.push(Member {
            newest: number,
            group: FingerprintGroup {
                fingerprint,
                documents: 1,
                newest_key: document.key().to_vec(),
            },
            sketch,
        });
        Ok(())
    }
}

/// The members of a fingerprint, as far as they are known.
#[derive(Default)]
struct Listed {
    members: Vec<Member>,
    by_sketch: HashMap<Option<Sketch>, usize, RandomState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions are kept in files. So what they hold for must be the same in each release.
    #[test]
    fn a_query_is_the_same_bytes_in_each_release() {
        let mut query = PairQuery {
            max_distance: 3,
            min_similarity: None,
            takes_unsketched: false,
            since: None,
            scopes: None,
            each_document: false,
            by_sketch: false,
            from: None,
        };
        assert_eq!(
            query.query_bytes(false, &[ScopeNumber::EMPTY]),
            [
                &[1, 3, 0, 0, 0][..],
                &[0; 8 + 1 + 8],
                &[1, 0, 0, 0, 0, 0, 0, 0]
            ]
            .concat()
        );

        query.min_similarity = Some(0.5);
        query.since = Some(0x0102_0304);
        query.each_document = true;
        assert_eq!(
            query.query_bytes(true, ScopeNumber::ALL_DOCUMENTS),
            [
                &[1, 3, 0, 0, 0][..],
                &[0, 0, 0, 0, 0, 0, 0xe0, 0x3f],
                &[0b1111],
                &[4, 3, 2, 1, 0, 0, 0, 0],
                &[2, 0, 0, 0],
                &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0],
            ]
            .concat()
        );
    }
}
