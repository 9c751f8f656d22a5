//! Histories: what a database is asked to do, made from one number, and what each prefix of that leaves.
//!
//! A history runs wherever its [`Home`] is: in a storage in memory, in one that fails, in a folder. The same number
//! always gives the same history. The model beside it knows nothing of the code that it is compared with: it is a map
//! of documents, and it finds near-duplicates by looking at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::random::{Random, seed_or};
use crate::database::{
    Change, Database, Expiry, Matches, Near, OnMatch, Order, Policy, Query, Snapshot, Submission,
    Ticket, Verdict, WriteTxn, Writer, WriterOptions,
};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::source::{Identity, Place, Reached};
use crate::store::{Event, Image, Recording, Settings, Sizes, Store};

/// So small that every commit is followed by merges of several steps.
pub(super) const SIZES: Sizes = Sizes {
    recent_operations: 3,
    short_rows: 1,
    block_bytes: 128,
    document_block_bytes: 128,
    chunk_entries: 3,
    step_blocks: 2,
    part_rows: 50,
    compared_per_query: 0,
    spill_bytes: 200,
};

/// The plans that a history chooses from.
const PLANS: [&str; 3] = ["4x16", "6x21", "3x21"];

/// Says how to repeat what has failed, if a panic passes by.
pub(super) struct Repeat {
    pub(super) seed: u64,
    /// The name of the test.
    pub(super) test: &'static str,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self { seed, test } = self;
            eprintln!("to repeat: SIMDB_SEED={seed} cargo test --lib {test}");
        }
    }
}

/// What counts as a near-duplicate, and what becomes of the document that has one.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    on_match: OnMatch,
    touch: bool,
    keep: usize,
    max_distance: u32,
    since: Option<i64>,
    scopes: Option<Vec<&'static str>>,
    /// The least similarity. Whoever asks by it, or in the order of similarity, has a sketch.
    least: Option<f64>,
    order: Order,
    /// The most that are listed.
    limit: usize,
}

impl Rule {
    fn near(&self) -> Near {
        let mut near = Near::within(self.max_distance);
        if let Some(since) = self.since {
            near = near.since(since);
        }
        if let Some(scopes) = &self.scopes {
            near = near.scopes(scopes.iter().copied());
        }
        if let Some(least) = self.least {
            near = near.min_similarity(least);
        }
        near
    }

    fn policy(&self) -> Policy {
        Policy::new(self.on_match)
            .touch(self.touch)
            .keep(self.keep)
            .near(self.near())
            .order(self.order)
            .limit(self.limit)
    }

    /// The distance of a stored document, if it is near.
    fn distance(&self, wanted: &Wanted, stored: &Document) -> Option<u32> {
        let distance = (wanted.fingerprint.bits() ^ stored.fingerprint()?.bits()).count_ones();
        let is_recent = self.since.is_none_or(|since| stored.seen() >= since);
        let is_of_scope = match &self.scopes {
            Some(scopes) => scopes.contains(&stored.scope()),
            None => true,
        };
        let is_similar = match self.least {
            // So even what has no sketch is similar enough.
            None | Some(0.0) => true,
            Some(least) => wanted.similarity(stored).is_some_and(|it| it >= least),
        };
        let is_near = distance <= self.max_distance && is_recent && is_of_scope && is_similar;
        is_near.then_some(distance)
    }

    /// What is found if these are near, the nearest first.
    fn found(&self, wanted: &Wanted, near: &[(u32, &Document)]) -> Found {
        let mut listed = Vec::new();
        for (distance, document) in near {
            listed.push(((*document).clone(), *distance, wanted.similarity(document)));
        }
        if self.order == Order::Similarity {
            let similarity = |it: &Listed| it.2.unwrap_or(-1.0);
            listed.sort_by(|a, b| similarity(b).total_cmp(&similarity(a)));
        }
        listed.truncate(self.limit);
        let total = near.len() as u64;
        Found { listed, total }
    }
}

/// What the documents that somebody looks for are to be like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    fingerprint: Fingerprint,
    sketch: Option<Sketch>,
}

impl Wanted {
    /// What is like a document, unless that is too short.
    fn of(document: &Document) -> Option<Self> {
        Some(Self {
            fingerprint: document.fingerprint()?,
            sketch: document.sketch().copied(),
        })
    }

    fn query(&self, rule: &Rule) -> Query {
        Query::new(self.fingerprint)
            .with_sketch(self.sketch)
            .near(rule.near())
            .order(rule.order)
            .limit(rule.limit)
    }

    /// The estimated similarity of a stored document, plainly.
    fn similarity(&self, stored: &Document) -> Option<f64> {
        let (a, b) = (self.sketch?, stored.sketch()?);
        let pairs = a.as_bytes().iter().zip(b.as_bytes());
        let differing: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
        let samples = 8.0 * a.as_bytes().len() as f64;
        let (a, b) = (f64::from(a.shingles()), f64::from(b.shingles()));
        let similarity = 1.0 - 2.0 * f64::from(differing) / samples;
        Some(similarity.max(0.0).min(a.min(b) / a.max(b)))
    }
}

/// A match: the document, its distance and its similarity.
type Listed = (Document, u32, Option<f64>);

/// What is listed of the matches, and how many there are in all.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    listed: Vec<Listed>,
    total: u64,
}

impl From<&Matches> for Found {
    fn from(matches: &Matches) -> Self {
        // No rule has so many matches that they are not counted.
        assert!(matches.total_is_exact(), "{matches:?}");
        let mut listed = Vec::new();
        for found in matches {
            let similarity = found.similarity.map(|it| it.jaccard());
            listed.push((found.document.clone(), found.distance, similarity));
        }
        let total = matches.total();
        Self { listed, total }
    }
}

/// A change within a transaction, or a submission to a writer.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put(Document),
    Delete(Vec<u8>),
    Touch(Vec<u8>, i64),
    /// Inserts a document if it is new, and notes the place behind it.
    PutIfNew(Box<Document>, Rule, Option<Reached>),
    PutBatch(Vec<Document>, Rule),
    Reach(Reached),
    Forget(Vec<u8>),
}

/// What a write is to answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The document that was there before.
    Before(Option<Document>),
    /// Whether there was such a document or source.
    Known(bool),
    Decided(Vec<Decided>),
    Done,
}

/// What a verdict is to say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decided {
    change: Change,
    is_duplicate: bool,
    found: Found,
    /// In the order of keys.
    deleted: Vec<Document>,
}

impl From<&Verdict> for Decided {
    fn from(verdict: &Verdict) -> Self {
        let mut deleted = verdict.deleted().to_vec();
        deleted.sort_by(|a, b| a.key().cmp(b.key()));
        Self {
            change: verdict.change().clone(),
            is_duplicate: verdict.is_duplicate(),
            found: verdict.matches().into(),
            deleted,
        }
    }
}

/// One thing that a database is asked to do.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// One transaction.
    Commit(Vec<Write>),
    /// A transaction that is dropped.
    Abandon(Vec<Write>),
    /// Submits to a writer, from several threads in turn. So many submissions are committed together.
    Submit {
        writes: Vec<Write>,
        threads: usize,
        batch: usize,
    },
    Expire {
        before: Option<i64>,
        scopes: Option<Vec<&'static str>>,
    },
    /// Asks for what is near to these, and compares with a look at all documents.
    Ask(Vec<(Wanted, Rule)>),
    /// Takes a snapshot, which lives on until `LetGo`.
    Hold,
    /// Looks whether the snapshot is still as it was, and ends it.
    LetGo,
    /// Waits until all merges are done.
    Settle,
    /// Everything fails for the time of a commit. Then the handle is opened again.
    Reopen(Vec<Write>),
    /// Closes the database in order, and opens it.
    Close,
    /// Drops the handle, and opens the database.
    Drop,
    Compact,
    Replan(&'static str),
    /// Makes a copy, compares it, and removes it.
    Backup,
}

/// Which operations a history may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// Those that a storage in memory can do.
    Memory,
    /// Those that need a file too: compaction, another plan, a backup.
    Folder,
}

/// What a database is asked to do, in order.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) operations: Vec<Operation>,
}

impl History {
    /// The history of a seed. It has so many operations.
    pub(super) fn new(seed: u64, length: usize, ground: Ground) -> Self {
        let mut maker = Maker::new(Random::new(seed), ground, 100);
        let operations = (0..length).map(|_| maker.operation()).collect();
        Self { operations }
    }
}

/// More documents than any history has.
const ALL: usize = 1_000;

const SCOPES: [&str; 4] = ["", "en", "de", "a scope with a longer name"];

/// Makes the operations of a history, one after the other.
struct Maker {
    random: Random,
    /// Chooses similarities, limits and odd scopes. All else of a history does not depend on whether there are any.
    extra: Random,
    ground: Ground,
    /// Documents are seen about now.
    clock: i64,
    /// How many records of each source have been read.
    records: [u64; 3],
    is_held: bool,
}

impl Maker {
    fn new(random: Random, ground: Ground, clock: i64) -> Self {
        Self {
            extra: Random::new(random.clone().next()),
            random,
            ground,
            clock,
            records: [0; 3],
            is_held: false,
        }
    }

    fn operation(&mut self) -> Operation {
        self.clock += 5;
        match self.random.below(100) {
            0..42 => Operation::Commit(self.writes()),
            42..46 => Operation::Abandon(self.writes()),
            46..58 => self.submissions(),
            58..66 => self.expiry(),
            66..72 => Operation::Ask((0..4).map(|_| self.question()).collect()),
            72..76 => self.hold_or_let_go(),
            76..80 => Operation::Settle,
            80..83 => Operation::Reopen(vec![Write::Put(self.document())]),
            83..86 => Operation::Close,
            86..90 => Operation::Drop,
            90.. if self.ground == Ground::Memory => Operation::Commit(self.writes()),
            90..93 => Operation::Compact,
            93..96 => Operation::Replan(self.random.pick::<&str>(&PLANS)),
            _ => Operation::Backup,
        }
    }

    fn hold_or_let_go(&mut self) -> Operation {
        self.is_held = !self.is_held;
        if self.is_held {
            Operation::Hold
        } else {
            Operation::LetGo
        }
    }

    /// The writes of a transaction. Every third is too long for the log.
    fn writes(&mut self) -> Vec<Write> {
        let length = match self.random.one_in(3) {
            true => 7 + self.random.below(6),
            false => 1 + self.random.below(4),
        };
        let mut writes: Vec<_> = (0..length).map(|_| self.write()).collect();
        // So that no two prefixes of a history are the same.
        writes.push(Write::Put(self.document()));
        writes
    }

    fn write(&mut self) -> Write {
        match self.random.below(20) {
            0..8 => Write::Put(self.document()),
            8..11 => Write::Delete(self.key()),
            11..12 => Write::Touch(self.key(), self.clock),
            12..15 => self.put_if_new(),
            15..17 => {
                let documents = 2 + self.random.below(3);
                let documents: Vec<_> = (0..documents).map(|_| self.document()).collect();
                let rule = self.rule(documents.iter().all(can_be_compared));
                Write::PutBatch(documents, rule)
            }
            17..19 => Write::Reach(self.reached()),
            _ => Write::Forget(format!("source {}", self.random.below(3)).into_bytes()),
        }
    }

    fn put_if_new(&mut self) -> Write {
        let document = Box::new(self.document());
        let rule = self.rule(can_be_compared(&document));
        let reached = self.random.one_in(2).then(|| self.reached());
        Write::PutIfNew(document, rule, reached)
    }

    fn submissions(&mut self) -> Operation {
        let length = 2 + self.random.below(9);
        let mut writes = Vec::new();
        for _ in 0..length {
            writes.push(match self.random.below(10) {
                0..7 => self.put_if_new(),
                7..9 => Write::Delete(self.key()),
                _ => Write::Reach(self.reached()),
            });
        }
        Operation::Submit {
            writes,
            threads: 1 + self.random.below(3) as usize,
            batch: 1 + self.random.below(5) as usize,
        }
    }

    fn expiry(&mut self) -> Operation {
        let before = self.clock - 20 - self.random.below(60) as i64;
        let by_time = !self.random.one_in(4);
        let by_scope = !by_time || self.random.one_in(4);
        Operation::Expire {
            before: by_time.then_some(before),
            scopes: by_scope.then(|| {
                let scope = *self.random.pick(&SCOPES);
                self.one_none_or_more(scope)
            }),
        }
    }

    /// A scope, or none, or two.
    fn one_none_or_more(&mut self, scope: &'static str) -> Vec<&'static str> {
        match self.extra.below(8) {
            0 => Vec::new(),
            1 => vec![scope, *self.extra.pick(&SCOPES)],
            _ => vec![scope],
        }
    }

    fn question(&mut self) -> (Wanted, Rule) {
        let fingerprint = self.fingerprint();
        let sketch = sketch(&mut self.extra).filter(|_| !self.extra.one_in(4));
        let mut rule = self.rule(sketch.is_some());
        if self.extra.one_in(5) {
            (rule.max_distance, rule.limit) = (64, ALL);
        }
        let wanted = Wanted {
            fingerprint,
            sketch,
        };
        (wanted, rule)
    }

    /// A rule for somebody who has a sketch or has none.
    fn rule(&mut self, has_sketch: bool) -> Rule {
        let on_match = *self
            .random
            .pick(&[OnMatch::Link, OnMatch::Skip, OnMatch::Replace]);
        let since = self.clock - self.random.below(80) as i64;
        let mut rule = Rule {
            on_match,
            touch: self.random.one_in(3),
            keep: *self.random.pick(&[1, 1, 1, 2, 3, 4]),
            max_distance: *self.random.pick(&[0, 1, 3, 3, 5, 12]),
            since: self.random.one_in(4).then_some(since),
            scopes: self
                .random
                .one_in(4)
                .then(|| vec!["", *self.random.pick(&SCOPES)]),
            least: None,
            order: Order::Distance,
            limit: ALL,
        };
        if rule.scopes.is_some() && self.extra.one_in(6) {
            rule.scopes = Some(Vec::new());
        }
        if has_sketch && self.extra.one_in(4) {
            rule.least = Some(*self.extra.pick(&[0.0, 0.25, 0.5, 0.9]));
        }
        if has_sketch && self.extra.one_in(3) {
            rule.order = Order::Similarity;
        }
        // With a time, no more are counted than are listed.
        if rule.since.is_none() {
            rule.limit = *self.extra.pick(&[0, 1, 2, 5, ALL]);
        }
        rule
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {}", self.random.below(40)).into_bytes()
    }

    /// One of twenty, or near to one of them.
    fn fingerprint(&mut self) -> Fingerprint {
        let mut bits = (self.random.below(20) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..self.random.below(4) {
            bits ^= 1 << self.random.below(64);
        }
        Fingerprint::from_bits(bits)
    }

    fn document(&mut self) -> Document {
        let has_fingerprint = !self.random.one_in(10);
        let fingerprint = has_fingerprint.then(|| self.fingerprint());
        let sketch = sketch(&mut self.random);
        // A few do not fit into a block.
        let payload = match self.random.below(12) {
            0 => 300 + self.random.below(200),
            1..5 => self.random.below(30),
            _ => 0,
        };
        let payload: Vec<u8> = (0..payload).map(|_| self.random.next() as u8).collect();
        let rank = self.random.below(4) as i64;
        let repeats = *self.random.pick(&[0, 0, 0, 0, 1, 9, Document::MAX_REPEATS]);
        Document::new(self.key(), fingerprint)
            .with_payload(payload)
            .with_sketch(sketch.filter(|_| has_fingerprint && !self.random.one_in(4)))
            .with_seen(self.clock + self.random.below(10) as i64)
            .with_repeats(repeats)
            .with_rank(if rank > 0 { vec![rank] } else { Vec::new() })
            .with_scope(*self.random.pick(&SCOPES))
    }

    fn reached(&mut self) -> Reached {
        let source = self.random.below(3);
        let records = &mut self.records[source as usize];
        *records += 1;
        let place = Place {
            raw_offset: *records * 100,
            line: *records,
            records: *records,
            ..Place::default()
        };
        let name = format!("source {source}").into_bytes();
        let is_end = self.random.one_in(8);
        Reached::new(name.into(), place, Identity::default(), is_end)
    }
}

/// The sketch of one of few texts. Two of them are alike, more or less, or not at all.
fn sketch(random: &mut Random) -> Option<Sketch> {
    let bytes = [random.below(256) as u8; 16];
    Sketch::new(&bytes, 1 + random.below(500) as u32).ok()
}

/// Whether a rule with a similarity can be asked of a document. What has no fingerprint is near to nothing.
fn can_be_compared(document: &Document) -> bool {
    document.sketch().is_some() || document.fingerprint().is_none()
}

/// What a database holds, as far as anybody can see it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// In the order in which they were written.
    pub(super) documents: Vec<Document>,
    /// Each with its place, and whether it has ended.
    pub(super) sources: BTreeMap<Vec<u8>, (Place, bool)>,
    /// The documents that are counted, and those of them that are too short.
    counted: (u64, u64),
    next_document: u64,
}

impl Content {
    pub(super) fn of(database: &Database) -> Result<Self> {
        Self::of_snapshot(&database.snapshot()?)
    }

    pub(super) fn of_snapshot(snapshot: &Snapshot) -> Result<Self> {
        let counters = snapshot.reader()?.counters();
        let sources = snapshot.sources()?.into_iter();
        let sources =
            sources.map(|source| (source.name().to_vec(), (source.place(), source.has_ended())));
        Ok(Self {
            documents: snapshot.documents().collect::<Result<_>>()?,
            sources: sources.collect(),
            counted: (counters.documents, counters.too_short),
            next_document: counters.next_document,
        })
    }
}

/// What a prefix of a history leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// By their numbers.
    documents: BTreeMap<u64, Document>,
    numbers: BTreeMap<Vec<u8>, u64>,
    sources: BTreeMap<Vec<u8>, (Place, bool)>,
    /// The number of documents that were ever written.
    written: u64,
}

impl Model {
    /// Whether a database has just this.
    pub(super) fn is(&self, content: &Content) -> bool {
        let too_short = self.documents.values();
        let too_short = too_short.filter(|document| document.fingerprint().is_none());
        self.documents.values().eq(&content.documents)
            && self.sources == content.sources
            && content.counted == (self.documents.len() as u64, too_short.count() as u64)
            && content.next_document == self.written + 1
    }

    fn of_key(&self, key: &[u8]) -> Option<&Document> {
        self.documents.get(self.numbers.get(key)?)
    }

    pub(super) fn put(&mut self, document: &Document) -> Option<Document> {
        let old = self.delete(document.key());
        self.written += 1;
        self.documents.insert(self.written, document.clone());
        self.numbers.insert(document.key().to_vec(), self.written);
        old
    }

    fn delete(&mut self, key: &[u8]) -> Option<Document> {
        self.documents.remove(&self.numbers.remove(key)?)
    }

    fn touch(&mut self, key: &[u8], seen: i64, repeats: u64) -> bool {
        let Some(document) = self.of_key(key).cloned() else {
            return false;
        };
        let seen = seen.max(document.seen());
        let repeats = document.repeats() + repeats;
        self.put(&document.with_seen(seen).with_repeats(repeats));
        true
    }

    fn reach(&mut self, reached: &Reached) {
        let place = (reached.place(), reached.is_end());
        self.sources.insert(reached.name().to_vec(), place);
    }

    /// The documents near to what is wanted, the nearest first.
    fn near(&self, wanted: &Wanted, rule: &Rule) -> Vec<(u32, &Document)> {
        let mut found = Vec::new();
        for (number, document) in &self.documents {
            if let Some(distance) = rule.distance(wanted, document) {
                let bits = document.fingerprint().map(Fingerprint::bits);
                found.push((distance, bits, u64::MAX - number, document));
            }
        }
        found.sort_by_key(|(distance, bits, age, _)| (*distance, *bits, *age));
        let answers = found.into_iter();
        answers
            .map(|(distance, .., document)| (distance, document))
            .collect()
    }

    fn put_if_new(&mut self, document: &Document, rule: &Rule) -> Decided {
        let mut near: Vec<Document> = Vec::new();
        let mut found = Found::default();
        if let Some(wanted) = Wanted::of(document) {
            let mut others = self.near(&wanted, rule);
            others.retain(|(_, other)| other.key() != document.key());
            found = rule.found(&wanted, &others);
            near.extend(others.into_iter().map(|(_, other)| other.clone()));
        }
        let mut decided = Decided {
            change: Change::Skipped,
            is_duplicate: !near.is_empty(),
            found,
            deleted: Vec::new(),
        };
        if rule.on_match == OnMatch::Link || near.len() < rule.keep {
            decided.change = self.put_for_verdict(document, rule, &[]);
        } else if let Some(mut deleted) = worst_of(near.clone(), document, rule) {
            deleted.sort_by(|a, b| a.key().cmp(b.key()));
            for other in &deleted {
                self.delete(other.key());
            }
            decided.change = self.put_for_verdict(document, rule, &deleted);
            decided.deleted = deleted;
        } else if rule.touch {
            let repeats = document.repeats() + 1;
            self.touch(near[0].key(), document.seen(), repeats);
        }
        decided
    }

    fn put_for_verdict(
        &mut self,
        document: &Document,
        rule: &Rule,
        deleted: &[Document],
    ) -> Change {
        let old = self.of_key(document.key());
        let mut repeats = document.repeats().max(old.map_or(0, Document::repeats));
        let mut seen = document.seen();
        if let Some(old) = old.filter(|_| rule.touch) {
            seen = seen.max(old.seen());
        }
        for deleted in deleted.iter().filter(|_| rule.touch) {
            repeats += deleted.repeats() + 1;
        }
        self.put(&document.clone().with_repeats(repeats).with_seen(seen))
            .map_or(Change::Inserted, Change::Replaced)
    }

    /// Makes a write, and says what it is to answer.
    fn write(&mut self, write: &Write) -> Answer {
        match write {
            Write::Put(document) => Answer::Before(self.put(document)),
            Write::Delete(key) => Answer::Before(self.delete(key)),
            Write::Touch(key, seen) => Answer::Known(self.touch(key, *seen, 1)),
            Write::PutIfNew(document, rule, reached) => {
                let decided = self.put_if_new(document, rule);
                if let Some(reached) = reached {
                    self.reach(reached);
                }
                Answer::Decided(vec![decided])
            }
            Write::PutBatch(documents, rule) => {
                let decided = documents.iter();
                let decided = decided.map(|document| self.put_if_new(document, rule));
                Answer::Decided(decided.collect())
            }
            Write::Reach(reached) => {
                self.reach(reached);
                Answer::Done
            }
            Write::Forget(name) => Answer::Known(self.sources.remove(name).is_some()),
        }
    }

    /// The keys of the documents that an expiry names.
    fn expired(&self, before: Option<i64>, scopes: Option<&[&'static str]>) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        for document in self.documents.values() {
            let is_old = before.is_none_or(|before| document.seen() < before);
            let is_of_scope = scopes.is_none_or(|scopes| scopes.contains(&document.scope()));
            if is_old && is_of_scope {
                keys.insert(document.key().to_vec());
            }
        }
        keys
    }

    /// What an expiry of these keys has left, if it has come as far as `content`. `None` if it cannot leave that.
    fn partly_expired(&self, content: &Content, expired: &BTreeSet<Vec<u8>>) -> Option<Self> {
        let left: BTreeSet<&[u8]> = content.documents.iter().map(Document::key).collect();
        let mut model = self.clone();
        for key in expired {
            if !left.contains(&key[..]) {
                model.delete(key);
            }
        }
        model.is(content).then_some(model)
    }
}

/// The documents that go for a new one. Takes the worst out, until fewer are left than are kept. `None` if that is not
/// worse than the new one.
fn worst_of(mut near: Vec<Document>, document: &Document, rule: &Rule) -> Option<Vec<Document>> {
    let mut gone = Vec::new();
    while near.len() >= rule.keep {
        let mut worst = 0;
        for (index, other) in near.iter().enumerate() {
            if other.rank() <= near[worst].rank() {
                worst = index;
            }
        }
        let worst = near.remove(worst);
        if rule.on_match != OnMatch::Replace || !document.outranks(&worst) {
            return None;
        }
        gone.push(worst);
    }
    Some(gone)
}

/// Asks a database what is near, and compares with a look at all documents.
fn ask(snapshot: &Snapshot, model: &Model, wanted: &Wanted, rule: &Rule) -> Result<()> {
    let query = wanted.query(rule);
    let near = model.near(wanted, rule);
    let found = Found::from(&snapshot.query(&query)?);
    assert_eq!(found, rule.found(wanted, &near), "{query:?}");
    for query in [query.clone(), query.nearest(1)] {
        assert_eq!(snapshot.any_match(&query)?, !near.is_empty(), "{query:?}");
    }
    ask_for_nearest(model, wanted, rule, |query| snapshot.query(query))
}

/// Asks for the nearest documents, at any distance and within that of the rule.
fn ask_for_nearest(
    model: &Model,
    wanted: &Wanted,
    rule: &Rule,
    mut answer: impl FnMut(&Query) -> Result<Matches>,
) -> Result<()> {
    let limit = 1 + wanted.fingerprint.bits() as usize % 12;
    for max_distance in [64, rule.max_distance] {
        let rule = Rule {
            max_distance,
            limit,
            ..rule.clone()
        };
        let mut near = model.near(wanted, &rule);
        near.truncate(limit);
        let query = wanted.query(&rule).nearest(limit);
        let found = Found::from(&answer(&query)?);
        assert_eq!(found, rule.found(wanted, &near), "{query:?}");
    }
    Ok(())
}

/// Compares what a snapshot answers with what is stored: each key, and what is near to some of the documents.
pub(super) fn ask_for_all(snapshot: &Snapshot, model: &Model, random: &mut Random) -> Result<()> {
    for number in 0..40 {
        let key = format!("key {number}").into_bytes();
        assert_eq!(snapshot.get(&key)?.as_ref(), model.of_key(&key));
    }
    let mut maker = Maker::new(random.clone(), Ground::Memory, 200);
    for _ in 0..3 {
        let (wanted, rule) = maker.question();
        ask(snapshot, model, &wanted, &rule)?;
    }
    *random = maker.random;
    Ok(())
}

/// Where the database of a history is.
pub(super) trait Home {
    /// Opens the database, or creates it if there are settings.
    fn open(&self, settings: Option<&Settings>) -> Result<Database>;

    /// Lets everything that is done with the storage fail for a moment, or no longer.
    fn set_broken(&self, database: &Database, is_broken: bool) {
        database.store.set_broken(is_broken);
    }

    /// A path for a copy. `None` if the home has no files.
    fn path_of_copy(&self) -> Option<PathBuf> {
        None
    }

    /// Removes such a copy.
    fn remove_copy(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(Error::io(path))
    }

    /// Hears which commits have been begun and acknowledged.
    fn note(&self, _event: Event) {}
}

/// A home that is a recorded storage.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded(pub(super) Recording);

impl Home for Recorded {
    fn open(&self, settings: Option<&Settings>) -> Result<Database> {
        let store = Store::on_backend(self.0.clone(), settings, SIZES)?;
        Ok(Database::of_store(store.into()))
    }

    fn note(&self, event: Event) {
        self.0.note(event);
    }
}

/// Runs a history, one operation after the other, and compares the answers with the model.
pub(super) struct Runner<H> {
    pub(super) home: H,
    /// `None` while no handle is open.
    pub(super) database: Option<Database>,
    /// What each commit leaves. The first is what was there at the beginning.
    pub(super) models: Vec<Model>,
    /// The number of commits that have been acknowledged.
    pub(super) acknowledged: usize,
    /// The keys that an expiry is about to remove, in steps that it chooses itself.
    expired: BTreeSet<Vec<u8>>,
    held: Option<(Snapshot, Model)>,
}

impl Runner<Recorded> {
    /// Opens a file as a power cut left it.
    ///
    /// # Panics
    ///
    /// If it does not have just what one of these models says.
    pub(super) fn recovered(image: Image, allowed: &[Model], what: &str) -> Result<Self> {
        let home = Recorded(Recording::new(image));
        let database = home.open(None).unwrap_or_else(|error| {
            panic!("{what}: {error}, {:?}", std::error::Error::source(&error))
        });
        let content = Content::of(&database)?;
        let found = allowed.iter().find(|model| model.is(&content));
        let Some(found) = found else {
            panic!("{what}: no committed prefix that is new enough, but {content:?}");
        };
        Ok(Self::of(home, database, found.clone()))
    }
}

impl<H: Home> Runner<H> {
    /// Creates the database.
    pub(super) fn new(home: H, settings: &Settings) -> Result<Self> {
        let database = home.open(Some(settings))?;
        Ok(Self::of(home, database, Model::default()))
    }

    fn of(home: H, database: Database, model: Model) -> Self {
        Self {
            home,
            database: Some(database),
            models: vec![model],
            acknowledged: 0,
            expired: BTreeSet::new(),
            held: None,
        }
    }

    /// Drops the handle. Returns what each commit has left.
    pub(super) fn end(self) -> Vec<Model> {
        let Self { models, held, .. } = self;
        drop(held);
        models
    }

    /// The open database.
    pub(super) fn database(&self) -> &Database {
        self.database.as_ref().expect("the database is open")
    }

    /// What the last commit leaves, if it is there.
    pub(super) fn model(&self) -> &Model {
        &self.models[self.models.len() - 1]
    }

    /// Panics if the check finds something wrong.
    pub(super) fn ensure_sound(&self, what: &str) -> Result<()> {
        let report = self.database().check()?;
        assert!(report.is_sound(), "{what}: {:?}", report.problems);
        Ok(())
    }

    /// Makes one operation. After an error, [`settle_on`](Self::settle_on) has to be told what is there.
    ///
    /// # Panics
    ///
    /// If an answer is wrong.
    pub(super) fn run(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Commit(writes) => self.commit(writes),
            Operation::Abandon(writes) => self.abandon(writes),
            Operation::Submit {
                writes,
                threads,
                batch,
            } => self.submit(writes, *threads, *batch),
            Operation::Expire { before, scopes } => self.expire(*before, scopes.as_deref()),
            Operation::Ask(questions) => {
                // Rows are in memory, or signatures of them, or neither.
                const CACHES: [usize; 4] = [768 << 10, 12_000, 6_000, 0];
                // What the pages of the engine get in tests.
                const PAGES: usize = 256 << 10;
                let cache = PAGES + CACHES[self.models.len() % CACHES.len()];
                self.database().set_cache(crate::Cache::Bytes(cache))?;
                self.ask(questions)
            }
            Operation::Hold => {
                self.held = Some((self.database().snapshot()?, self.model().clone()));
                Ok(())
            }
            Operation::LetGo => self.let_go(),
            Operation::Settle => self.database().settle(),
            Operation::Reopen(writes) => self.reopen(writes),
            Operation::Close => {
                self.held = None;
                let database = self.database.take().expect("the database is open");
                let closed = database.close();
                drop(database);
                closed?;
                self.open()
            }
            Operation::Drop => {
                self.held = None;
                self.database = None;
                self.open()
            }
            Operation::Compact => self.database().compact(|_, _| ControlFlow::Continue(())),
            Operation::Replan(plan) => self
                .database()
                .compact_with_plan(plan, |_, _| ControlFlow::Continue(())),
            Operation::Backup => self.backup(),
        }
    }

    /// Opens the database again, after its handle is gone.
    pub(super) fn open(&mut self) -> Result<()> {
        self.database = Some(self.home.open(None)?);
        Ok(())
    }

    /// Goes on from what is there after a failure. `None` if no prefix of the history leaves that, or one that is older
    /// than the last that was acknowledged.
    pub(super) fn settle_on(&mut self, content: &Content) -> Option<()> {
        let last = self.models.len() - 1;
        let mut candidates = self.acknowledged..=last;
        let found = candidates.find(|&index| self.models[index].is(content));
        let expired = std::mem::take(&mut self.expired);
        match found {
            Some(index) => self.models.truncate(index + 1),
            None => {
                let model = self.model().partly_expired(content, &expired)?;
                self.models.push(model);
            }
        }
        self.acknowledge(self.models.len() - 1);
        self.held = None;
        Some(())
    }

    fn begin(&self, commits: usize) {
        self.home.note(Event::Begun(commits));
    }

    fn acknowledge(&mut self, commits: usize) {
        self.acknowledged = commits;
        self.home.note(Event::Acknowledged(commits));
    }

    fn commit(&mut self, writes: &[Write]) -> Result<()> {
        let mut model = self.model().clone();
        let txn = write_all(self.database(), &mut model, writes)?;
        self.models.push(model);
        let commits = self.models.len() - 1;
        self.begin(commits);
        txn.commit()?;
        self.acknowledge(commits);
        Ok(())
    }

    fn abandon(&self, writes: &[Write]) -> Result<()> {
        let mut model = self.model().clone();
        write_all(self.database(), &mut model, writes).map(drop)
    }

    fn submit(&mut self, writes: &[Write], threads: usize, batch: usize) -> Result<()> {
        let before = self.models.len();
        self.begin(before - 1 + writes.len());
        let options = WriterOptions::new()
            .batch(batch)
            .max_age(Duration::from_millis(1));
        let writer = self.database().writer(options)?;
        let answers = answers(&writer, writes, threads);
        let closed = writer.close();
        // A group that failed before its commit has changed nothing, and the next one may have gone on.
        let durable = answers
            .iter()
            .rposition(Result::is_ok)
            .map_or(0, |at| at + 1);
        for (index, (write, answer)) in writes.iter().zip(&answers).enumerate() {
            if answer.is_err() && index < durable {
                continue;
            }
            let mut model = self.model().clone();
            let expected = model.write(write);
            self.models.push(model);
            if let Ok(answer) = answer {
                assert_eq!(*answer, expected, "{write:?}");
                self.acknowledge(self.models.len() - 1);
            }
        }
        for answer in answers {
            answer?;
        }
        closed
    }

    fn expire(&mut self, before: Option<i64>, scopes: Option<&[&'static str]>) -> Result<()> {
        let mut expiry = Expiry::new();
        if let Some(before) = before {
            expiry = expiry.before(before);
        }
        if let Some(scopes) = scopes {
            expiry = expiry.scopes(scopes.iter().copied());
        }
        self.expired = self.model().expired(before, scopes);
        let expected = self.expired.len() as u64;
        let database = self.database.take().expect("the database is open");
        let mut failed = None;
        let removed = database.expire(&expiry, |removed| {
            match self.note_step(&database, expected - removed) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        self.database = Some(database);
        if let Some(error) = failed {
            return Err(error);
        }
        assert_eq!(removed?, expected, "{expiry:?}");
        self.expired.clear();
        let left = self.model().expired(before, scopes);
        assert!(left.is_empty(), "{expiry:?} leaves {left:?}");
        Ok(())
    }

    /// Notes what a step of an expiry has left. So many of the documents that it names are still there.
    fn note_step(&mut self, database: &Database, left: u64) -> Result<()> {
        let content = Content::of(database)?;
        let model = self.model().partly_expired(&content, &self.expired);
        let model = model.expect("an expiry removes what it names, and nothing else");
        let still = self.expired.iter();
        let still = still.filter(|key| model.of_key(key).is_some()).count();
        assert_eq!(still as u64, left, "an expiry counts what it removes");
        self.models.push(model);
        self.acknowledge(self.models.len() - 1);
        Ok(())
    }

    fn ask(&self, questions: &[(Wanted, Rule)]) -> Result<()> {
        let snapshot = self.database().snapshot()?;
        for (wanted, rule) in questions {
            ask(&snapshot, self.model(), wanted, rule)?;
        }
        Ok(())
    }

    /// Looks whether the snapshot that is held is still as it was, and ends it.
    pub(super) fn let_go(&mut self) -> Result<()> {
        let Some((snapshot, model)) = self.held.take() else {
            return Ok(());
        };
        let content = Content::of_snapshot(&snapshot)?;
        assert!(model.is(&content), "a snapshot has changed: {content:?}");
        ask_for_all(&snapshot, &model, &mut Random::new(model.written))
    }

    fn reopen(&mut self, writes: &[Write]) -> Result<()> {
        self.held = None;
        self.home.set_broken(self.database(), true);
        let mut model = self.model().clone();
        let failed = write_all(self.database(), &mut model, writes).and_then(WriteTxn::commit);
        assert!(failed.is_err(), "a broken storage has taken a commit");
        self.home.set_broken(self.database(), false);
        self.database().reopen()?;
        let content = Content::of(self.database())?;
        let settled = self.settle_on(&content);
        assert!(settled.is_some(), "a reopened file has {content:?}");
        Ok(())
    }

    fn backup(&self) -> Result<()> {
        let path = self.home.path_of_copy();
        let path = path.expect("a history with a backup runs in a folder");
        self.database().snapshot()?.backup(&path)?;
        let copy = Database::open(&path, &crate::OpenOptions::new());
        let content = copy.and_then(|copy| Content::of(&copy));
        self.home.remove_copy(&path)?;
        let content = content?;
        assert!(self.model().is(&content), "a copy has {content:?}");
        Ok(())
    }
}

/// Makes writes in a transaction and in the model, and compares the answers.
fn write_all(database: &Database, model: &mut Model, writes: &[Write]) -> Result<WriteTxn> {
    let mut txn = database.begin_write()?;
    for write in writes {
        let expected = model.write(write);
        let answer = write_one(&mut txn, write)?;
        assert_eq!(answer, expected, "{write:?}");
    }
    // A transaction finds the nearest too.
    let mut wanted = writes.iter().filter_map(|write| match write {
        Write::PutIfNew(document, rule, _) => Some((Wanted::of(document)?, rule)),
        _ => None,
    });
    if let Some((wanted, rule)) = wanted.next() {
        ask_for_nearest(model, &wanted, rule, |query| txn.query(query))?;
    }
    Ok(txn)
}

pub(super) fn write_one(txn: &mut WriteTxn, write: &Write) -> Result<Answer> {
    Ok(match write {
        Write::Put(document) => Answer::Before(txn.insert(document)?),
        Write::Delete(key) => Answer::Before(txn.delete(key)?),
        Write::Touch(key, seen) => Answer::Known(txn.touch(key, *seen)?),
        Write::PutIfNew(document, rule, reached) => {
            let verdict = txn.insert_if_new(document, &rule.policy())?;
            if let Some(reached) = reached {
                txn.reach(reached)?;
            }
            Answer::Decided(vec![(&verdict).into()])
        }
        Write::PutBatch(documents, rule) => {
            let verdicts = txn.insert_batch_if_new(documents, &rule.policy())?;
            Answer::Decided(verdicts.iter().map(Decided::from).collect())
        }
        Write::Reach(reached) => {
            txn.reach(reached)?;
            Answer::Done
        }
        Write::Forget(name) => Answer::Known(txn.forget_source(name)?),
    })
}

/// What a writer was asked and has not answered yet.
enum Asked {
    Verdict(Ticket),
    Deletion(Ticket<Option<Document>>),
    Place(Ticket<()>),
}

impl Asked {
    fn wait(self) -> Result<Answer> {
        Ok(match self {
            Self::Verdict(ticket) => Answer::Decided(vec![(&ticket.wait()?).into()]),
            Self::Deletion(ticket) => Answer::Before(ticket.wait()?),
            Self::Place(ticket) => {
                ticket.wait()?;
                Answer::Done
            }
        })
    }
}

/// Submits writes in their order, from threads that take turns, and waits for the answers.
fn answers(writer: &Writer, writes: &[Write], threads: usize) -> Vec<Result<Answer>> {
    let turn = AtomicUsize::new(0);
    let mut answers: Vec<(usize, Result<Answer>)> = thread::scope(|scope| {
        let mut workers = Vec::new();
        for thread in 0..threads {
            let turn = &turn;
            workers
                .push(scope.spawn(move || answers_of_one(writer, writes, (thread, threads), turn)));
        }
        let answers = workers.into_iter();
        answers
            .flat_map(|worker| worker.join().expect("a thread that submits does not panic"))
            .collect()
    });
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Submits the writes of one of the threads, each in its turn.
fn answers_of_one(
    writer: &Writer,
    writes: &[Write],
    (thread, threads): (usize, usize),
    turn: &AtomicUsize,
) -> Vec<(usize, Result<Answer>)> {
    let mut asked = Vec::new();
    for (index, write) in writes.iter().enumerate().skip(thread).step_by(threads) {
        while turn.load(Ordering::Acquire) != index {
            thread::yield_now();
        }
        asked.push((index, submit(writer, write)));
        turn.store(index + 1, Ordering::Release);
    }
    let answers = asked.into_iter();
    answers
        .map(|(index, asked)| (index, asked.and_then(Asked::wait)))
        .collect()
}

fn submit(writer: &Writer, write: &Write) -> Result<Asked> {
    Ok(match write {
        Write::PutIfNew(document, rule, reached) => {
            let submission = Submission::from(((**document).clone(), reached.clone()));
            Asked::Verdict(writer.submit(submission, &rule.policy())?)
        }
        Write::Delete(key) => Asked::Deletion(writer.submit_delete(key.clone())?),
        Write::Reach(reached) => Asked::Place(writer.submit_reached(reached.clone())?),
        other => unreachable!("a writer does not take {other:?}"),
    })
}

/// Puts documents that are far from all others. With so many fingerprints, a query probes and does not scan.
fn put_far_documents() -> Operation {
    let mut random = Random::new(5);
    let mut writes = Vec::new();
    for number in 0..600 {
        let fingerprint = Fingerprint::from_bits(random.next());
        let sketch = sketch(&mut random).filter(|_| number % 3 > 0);
        let document = Document::new(format!("far {number}"), fingerprint).with_sketch(sketch);
        writes.push(Write::Put(document.with_seen(200).with_scope("far")));
    }
    Operation::Commit(writes)
}

/// Runs the history of a seed. Every answer is that of a look at all documents, and what it leaves is whole.
pub(super) fn play(home: impl Home, ground: Ground, seed: u64) -> Result<()> {
    let mut runner = Runner::new(home, &Settings::for_tests())?;
    if seed.is_multiple_of(3) {
        runner.run(&put_far_documents())?;
    }
    for operation in &History::new(seed, 60, ground).operations {
        runner.run(operation)?;
    }
    let mut random = Random::new(seed);
    ask_for_all(&runner.database().snapshot()?, runner.model(), &mut random)?;
    let content = Content::of(runner.database())?;
    assert!(runner.model().is(&content), "{content:?}");
    runner.let_go()?;
    runner.ensure_sound("at the end")
}

#[test]
fn histories_leave_what_the_model_says() -> Result<()> {
    const TEST: &str = "histories_leave_what_the_model_says";
    let first = seed_or(1);
    for seed in first..first + 20 {
        let _repeat = Repeat { seed, test: TEST };
        play(Recorded::default(), Ground::Memory, seed)?;
    }
    Ok(())
}
