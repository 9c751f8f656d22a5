//! Random sequences of operations against a linear scan over a map.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use simdb::{
    Change, Database, Document, Expiry, Fingerprint, Matches, OnMatch, Order, Policy, Query, Sketch, Snapshot,
};

use crate::support::{Folder, assert_sound, document, insert_all, listed, tiny};

#[derive(Clone, Debug)]
enum Operation {
    Insert(Document),
    InsertIfNew(Document, OnMatch, Conditions),
    Delete(u8),
    /// Says that the document of a key was seen at a time.
    Touch(u8, i64),
    /// Removes the documents seen before a time and those of some scopes, or those that are both.
    Expire(Option<i64>, Option<Vec<String>>),
    Commit,
    Drop,
    Reopen,
    /// Waits until all merges that are due are done.
    Settle,
    /// Inserts several documents, if they are new, with one call.
    InsertBatchIfNew(Vec<Document>, OnMatch, Conditions),
    /// Compacts, with the tables of another plan if one is given.
    Compact(Option<&'static str>),
    /// Takes a snapshot. Later it is compared with the documents that are committed now.
    Keep,
    Query(u64, Option<Sketch>, Conditions),
}

/// The conditions that a query and a policy have in common.
#[derive(Clone, Debug)]
struct Conditions {
    max_distance: u32,
    limit: usize,
    since: Option<i64>,
    scopes: Option<Vec<String>>,
    min_similarity: Option<f64>,
    order: Order,
    /// Whether a policy touches the nearest match of a document that is skipped.
    touch: bool,
}

impl Conditions {
    /// Whether a document counts for somebody who asks with this sketch.
    fn keeps(&self, document: &Document, sketch: Option<&Sketch>) -> bool {
        let is_similar = |least: f64| match (document.sketch(), sketch) {
            _ if least == 0.0 => true,
            (Some(a), Some(b)) => jaccard(a, b) >= least,
            _ => false,
        };
        self.min_similarity.is_none_or(is_similar)
            && self.since.is_none_or(|since| document.seen() >= since)
            && self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|it| it == document.scope()))
    }

    /// The conditions, without those that need a sketch if one of the documents has none.
    fn without_sketches(&self, documents: &[Document]) -> Self {
        let needs_none = documents.iter().all(|it| it.fingerprint().is_none() || it.sketch().is_some());
        match needs_none {
            true => self.clone(),
            false => Self { min_similarity: None, order: Order::Distance, ..self.clone() },
        }
    }

    /// The first matches in the order that is asked for.
    fn first(&self, near: &[(Document, u32)], sketch: Option<&Sketch>) -> Vec<(String, u32)> {
        let mut near = near.to_vec();
        if let (Order::Similarity, Some(sketch)) = (self.order, sketch) {
            let similarity = |it: &Document| it.sketch().map_or(-1.0, |it| jaccard(it, sketch));
            near.sort_by(|(a, _), (b, _)| similarity(b).total_cmp(&similarity(a)));
        }
        keys(&near, self.limit)
    }

    fn policy(&self, on_match: OnMatch) -> Policy {
        let mut policy =
            Policy::new(on_match).max_distance(self.max_distance).limit(self.limit).touch(self.touch);
        policy = policy.order(self.order);
        if let Some(least) = self.min_similarity {
            policy = policy.min_similarity(least);
        }
        if let Some(since) = self.since {
            policy = policy.since(since);
        }
        if let Some(scopes) = &self.scopes {
            policy = policy.scopes(scopes);
        }
        policy
    }

    fn agrees(&self, found: &Matches, near: &[(Document, u32)], sketch: Option<&Sketch>) {
        assert_eq!(listed(found), self.first(near, sketch));
        for found in found {
            let similarity = sketch.zip(found.document.sketch()).map(|(a, b)| jaccard(a, b));
            assert_eq!(found.similarity.map(|it| it.jaccard()), similarity);
        }
        if found.total_is_exact() {
            assert_eq!(found.total(), near.len() as u64);
        } else {
            let is_similar = sketch.is_some() && self.min_similarity.is_some_and(|least| least > 0.0);
            let counted = if is_similar { self.limit.max(128) } else { self.limit };
            assert!(self.since.is_some() || is_similar);
            assert!(found.total() == counted as u64 + 1 && near.len() > counted);
        }
    }
}

/// The estimated similarity, plainly.
fn jaccard(a: &Sketch, b: &Sketch) -> f64 {
    let pairs = a.as_bytes().iter().zip(b.as_bytes());
    let differing: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
    let (a, b) = (f64::from(a.shingles()), f64::from(b.shingles()));
    (1.0 - f64::from(differing) / 64.0).max(0.0).min(a.min(b) / a.max(b))
}

/// Sketches of three texts and of texts that are like these.
fn sketches() -> impl Strategy<Value = Sketch> {
    let parts = (prop::sample::select(vec![0u8, 0x0f, 0x5a]), 0..16usize, 90..110u32);
    parts.prop_map(|(byte, changed, shingles)| {
        let mut bytes = [byte; 16];
        bytes[..changed].iter_mut().for_each(|it| *it ^= 0b101);
        Sketch::new(&bytes, shingles).expect("16 bytes and some shingles")
    })
}

/// Documents with few keys, scopes and times, and fingerprints of a few clusters. So they often collide.
fn documents() -> impl Strategy<Value = Document> {
    let bits = prop::option::weighted(0.9, bits());
    let sketch = prop::option::weighted(0.8, sketches());
    let parts = (0..12u8, bits, 0..4i64, scopes(), prop::option::of(0..3i64), sketch);
    parts.prop_map(|(key, bits, seen, scope, rank, sketch)| {
        Document::new([key], bits.map(Fingerprint::from_bits))
            .with_seen(seen)
            .with_scope(scope)
            .with_sketch(sketch)
            .with_rank(rank.map(|rank| vec![rank]).unwrap_or_default())
    })
}

fn bits() -> impl Strategy<Value = u64> {
    let centres = prop::sample::select(vec![0, u64::MAX, 0x0123_4567_89ab_cdef]);
    let flips = prop::collection::vec(prop::sample::select(vec![0u32, 15, 16, 31, 40, 63]), 0..5);
    (centres, flips)
        .prop_map(|(centre, flips): (u64, Vec<u32>)| flips.iter().fold(centre, |it, flip| it ^ (1 << flip)))
}

fn scopes() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "en", "zh"]).prop_map(str::to_owned)
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let max_distance = prop_oneof![4 => 0..5u32, 1 => 0..=64u32];
    let scopes = prop::option::of(prop::collection::vec(scopes(), 0..3));
    let least = prop::option::of(prop::sample::select(vec![0.0, 0.3, 0.7, 0.95, 1.0]));
    let order = prop::sample::select(vec![Order::Distance, Order::Distance, Order::Similarity]);
    let parts = (max_distance, 0..6usize, prop::option::of(0..4i64), scopes, least, order, any::<bool>());
    parts.prop_map(|(max_distance, limit, since, scopes, min_similarity, order, touch)| Conditions {
        max_distance,
        limit,
        since,
        scopes,
        min_similarity,
        order,
        touch,
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    let on_match = prop::sample::select(vec![OnMatch::Link, OnMatch::Skip, OnMatch::Replace]);
    let insert_if_new = (documents(), on_match.clone(), conditions());
    let insert_batch = (prop::collection::vec(documents(), 0..10), on_match, conditions());
    prop_oneof![
        6 => documents().prop_map(Operation::Insert),
        6 => insert_if_new.prop_map(|(one, on_match, within)| Operation::InsertIfNew(one, on_match, within)),
        3 => insert_batch.prop_map(|(all, on_match, within)| Operation::InsertBatchIfNew(all, on_match, within)),
        2 => (0..12u8).prop_map(Operation::Delete),
        2 => (0..12u8, 0..5i64).prop_map(|(key, seen)| Operation::Touch(key, seen)),
        1 => (prop::option::of(0..4i64), prop::option::of(prop::collection::vec(scopes(), 0..3)))
            .prop_map(|(before, scopes)| Operation::Expire(before, scopes)),
        2 => Just(Operation::Commit),
        1 => Just(Operation::Drop),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Settle),
        1 => prop::option::of(prop::sample::select(vec!["2x32", "4x16", "6x21", "14x32"])).prop_map(Operation::Compact),
        1 => Just(Operation::Keep),
        4 => (bits(), prop::option::of(sketches()), conditions())
            .prop_map(|(bits, sketch, conditions)| Operation::Query(bits, sketch, conditions)),
    ]
}

/// The oracle: documents by key, each with the order in which it was written.
#[derive(Clone, Default)]
struct Model {
    documents: BTreeMap<Vec<u8>, (u64, Document)>,
    written: u64,
}

impl Model {
    fn insert(&mut self, document: &Document) -> Option<Document> {
        self.written += 1;
        self.documents.insert(document.key().to_vec(), (self.written, document.clone())).map(|(_, old)| old)
    }

    /// Says that a document was seen at a time. It then counts as written last, if that is later.
    fn touch(&mut self, key: &[u8], seen: i64) -> bool {
        let Some((_, document)) = self.documents.get(key).cloned() else { return false };
        if document.seen() < seen {
            self.insert(&document.with_seen(seen));
        }
        true
    }

    /// Removes the documents that meet all conditions, and returns their number.
    fn expire(&mut self, before: Option<i64>, scopes: Option<&Vec<String>>) -> u64 {
        let had = self.documents.len();
        if before.is_some() || scopes.is_some() {
            self.documents.retain(|_, (_, it)| {
                before.is_some_and(|before| it.seen() >= before)
                    || scopes.is_some_and(|scopes| scopes.iter().all(|scope| scope != it.scope()))
            });
        }
        (had - self.documents.len()) as u64
    }

    /// All documents within the distance, nearest first, by a linear scan.
    fn near(
        &self,
        query: Fingerprint,
        max_distance: u32,
        keep: impl Fn(&Document) -> bool,
    ) -> Vec<(Document, u32)> {
        let mut near: Vec<_> = self
            .documents
            .values()
            .filter_map(|(written, document)| {
                let fingerprint = document.fingerprint()?;
                let distance = fingerprint.distance(query);
                (distance <= max_distance && keep(document))
                    .then_some(((distance, fingerprint, u64::MAX - written), document.clone()))
            })
            .collect();
        near.sort_by_key(|(order, _)| *order);
        near.into_iter().map(|((distance, ..), document)| (document, distance)).collect()
    }
}

fn keys(near: &[(Document, u32)], limit: usize) -> Vec<(String, u32)> {
    let key = |document: &Document| String::from_utf8_lossy(document.key()).into_owned();
    near.iter().take(limit).map(|(document, distance)| (key(document), *distance)).collect()
}

/// The documents with other keys that are near `document` and meet the conditions.
fn near_others(model: &Model, document: &Document, conditions: &Conditions) -> Vec<(Document, u32)> {
    let keep = |other: &Document| other.key() != document.key() && conditions.keeps(other, document.sketch());
    document.fingerprint().map_or_else(Vec::new, |it| model.near(it, conditions.max_distance, keep))
}

/// Does on the model what the policy should do, and returns the change.
fn insert_if_new(
    model: &mut Model,
    document: &Document,
    on_match: OnMatch,
    conditions: &Conditions,
    near: &[(Document, u32)],
) -> Change {
    if let Some((nearest, _)) = near.first() {
        let is_skipped = match on_match {
            OnMatch::Link => false,
            OnMatch::Skip => true,
            OnMatch::Replace => !near.iter().all(|(found, _)| document.outranks(found)),
        };
        if is_skipped {
            if conditions.touch {
                model.touch(nearest.key(), document.seen());
            }
            return Change::Skipped;
        }
        match on_match {
            OnMatch::Link | OnMatch::Skip => {}
            OnMatch::Replace => {
                for (found, _) in near {
                    model.documents.remove(found.key());
                }
            }
        }
    }
    model.insert(document).map_or(Change::Inserted, Change::Replaced)
}

/// With this number of fingerprints, a query probes and does not scan.
const MANY: u64 = 600;

/// Runs a sequence on a database and on the model, and asserts that they agree. With `many`, the database
/// has [`MANY`] documents at the beginning, which no operation of the sequence names.
fn agree(sequence: &[Operation], many: bool) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new()?;
    let mut database = folder.tiny_database("model.simdb")?;
    let mut committed = Model::default();
    if many {
        let random = |i: u64| {
            (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let sketch = |i: u64| Sketch::new(&[i as u8; 16], 100).ok().filter(|_| !i.is_multiple_of(3));
        let documents =
            (0..MANY).map(|i| document(format!("many {i}"), random(i)).with_seen(1).with_sketch(sketch(i)));
        documents.clone().for_each(|document| drop(committed.insert(&document)));
        insert_all(&database, documents)?;
    }
    let mut model = committed.clone();
    let mut txn = None;
    let mut kept = Vec::new();
    for operation in sequence {
        let inserts = matches!(
            operation,
            Operation::Insert(_) | Operation::InsertIfNew(..) | Operation::InsertBatchIfNew(..)
        );
        if (inserts || matches!(operation, Operation::Delete(_) | Operation::Touch(..))) && txn.is_none() {
            txn = Some(database.begin_write()?);
        }
        match (operation, &mut txn) {
            (Operation::Insert(document), Some(txn)) => {
                assert_eq!(txn.insert(document)?, model.insert(document));
            }
            (Operation::InsertIfNew(document, on_match, conditions), Some(txn)) => {
                let conditions = &conditions.without_sketches(std::slice::from_ref(document));
                let near = near_others(&model, document, conditions);
                let verdict = txn.insert_if_new(document, &conditions.policy(*on_match))?;
                conditions.agrees(verdict.matches(), &near, document.sketch());
                assert_eq!(
                    *verdict.change(),
                    insert_if_new(&mut model, document, *on_match, conditions, &near)
                );
            }
            (Operation::InsertBatchIfNew(documents, on_match, conditions), Some(txn)) => {
                let conditions = &conditions.without_sketches(documents);
                let verdicts = txn.insert_batch_if_new(documents, &conditions.policy(*on_match))?;
                assert_eq!(verdicts.len(), documents.len());
                for (document, verdict) in documents.iter().zip(verdicts) {
                    let near = near_others(&model, document, conditions);
                    conditions.agrees(verdict.matches(), &near, document.sketch());
                    assert_eq!(
                        *verdict.change(),
                        insert_if_new(&mut model, document, *on_match, conditions, &near)
                    );
                }
            }
            (Operation::Delete(key), Some(txn)) => {
                assert_eq!(txn.delete([*key])?, model.documents.remove(&vec![*key]).map(|(_, old)| old));
            }
            (Operation::Touch(key, seen), Some(txn)) => {
                assert_eq!(txn.touch([*key], *seen)?, model.touch(&[*key], *seen));
            }
            (Operation::Expire(before, scopes), _) => {
                // An expiry has transactions of its own.
                if let Some(txn) = txn.take() {
                    txn.commit()?;
                }
                let mut expiry = Expiry::new();
                if let Some(before) = before {
                    expiry = expiry.before(*before);
                }
                if let Some(scopes) = scopes {
                    expiry = expiry.scopes(scopes);
                }
                let removed = database.expire(&expiry, |_| ControlFlow::Continue(()))?;
                assert_eq!(removed, model.expire(*before, scopes.as_ref()));
                committed = model.clone();
            }
            (Operation::Commit, _) => {
                if let Some(txn) = txn.take() {
                    txn.commit()?;
                }
                committed = model.clone();
            }
            (Operation::Drop, _) => {
                txn = None;
                model = committed.clone();
            }
            (Operation::Reopen, _) => {
                txn = None;
                model = committed.clone();
                compare_kept(&mut kept)?;
                let path = database.path().to_owned();
                drop(database);
                database = Database::open(path, &tiny())?;
            }
            (Operation::Settle, _) => database.settle()?,
            (Operation::Compact(plan), _) => {
                // Compaction waits for the transaction to end.
                if let Some(txn) = txn.take() {
                    txn.commit()?;
                }
                committed = model.clone();
                match plan {
                    Some(plan) => database.compact_with_plan(plan, |_, _| {})?,
                    None => database.compact(|_, _| {})?,
                }
            }
            (Operation::Keep, _) => kept.push((database.snapshot()?, committed.clone())),
            (Operation::Query(bits, sketch, conditions), _) => {
                let fingerprint = Fingerprint::from_bits(*bits);
                let mut conditions = conditions.clone();
                if sketch.is_none() {
                    (conditions.min_similarity, conditions.order) = (None, Order::Distance);
                }
                let near = committed.near(fingerprint, conditions.max_distance, |document| {
                    conditions.keeps(document, sketch.as_ref())
                });
                let mut query =
                    Query::new(fingerprint).max_distance(conditions.max_distance).limit(conditions.limit);
                query = query.with_sketch(*sketch).order(conditions.order);
                if let Some(least) = conditions.min_similarity {
                    query = query.min_similarity(least);
                }
                if let Some(since) = conditions.since {
                    query = query.since(since);
                }
                if let Some(scopes) = &conditions.scopes {
                    query = query.scopes(scopes);
                }
                let snapshot = database.snapshot()?;
                conditions.agrees(&snapshot.query(&query)?, &near, sketch.as_ref());
                assert_eq!(snapshot.any_match(&query)?, !near.is_empty());
            }
            (_, None) => unreachable!("a transaction was begun"),
        }
    }
    drop(txn);
    kept.push((database.snapshot()?, committed));
    compare_kept(&mut kept)?;
    assert_sound(&database)?;
    Ok(())
}

/// Compares snapshots with the models of the moments when they were taken.
fn compare_kept(kept: &mut Vec<(Snapshot, Model)>) -> Result<(), Box<dyn std::error::Error>> {
    for (snapshot, model) in kept.drain(..) {
        let documents = snapshot.documents().map(|document| document.map(|it| (it.key().to_vec(), it)));
        let stored: BTreeMap<_, _> = documents.collect::<simdb::Result<_>>()?;
        let documents = model.documents.iter();
        let expected: BTreeMap<_, _> =
            documents.map(|(key, (_, document))| (key.clone(), document.clone())).collect();
        assert_eq!(stored, expected);
        for document in expected.values() {
            assert_eq!(snapshot.get(document.key())?.as_ref(), Some(document));
        }
        let near = model.near(Fingerprint::from_bits(0), 64, |_| true);
        let query = Query::new(Fingerprint::from_bits(0)).max_distance(64).limit(usize::MAX);
        assert_eq!(listed(&snapshot.query(&query)?), keys(&near, usize::MAX));
    }
    Ok(())
}

proptest! {
    // A failing sequence is shrunk, printed and stored, and runs again with every later test.
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_sequence_of_operations_agrees_with_a_linear_scan(
        sequence in prop::collection::vec(operations(), 1..120), many in prop::bool::weighted(0.3),
    ) {
        if let Err(error) = agree(&sequence, many) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}
