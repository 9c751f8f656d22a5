//! Operations, and how they are drawn.

use proptest::prelude::*;
use simdb::{Document, Fingerprint, OnMatch, Order, Sketch};

use super::conditions::Conditions;

#[derive(Clone, Debug)]
pub(super) enum Operation {
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
    /// Asks for the nearest documents: as many as the limit of the conditions, within their max distance or at any.
    Nearest(u64, Option<Sketch>, Conditions, bool),
}

/// Sketches of three texts and of texts that are like these.
fn sketches() -> impl Strategy<Value = Sketch> {
    let parts = (
        prop::sample::select(vec![0u8, 0x0f, 0x5a]),
        0..16usize,
        90..110u32,
    );
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
    let parts = (
        0..12u8,
        bits,
        0..4i64,
        scopes(),
        prop::option::of(0..3i64),
        sketch,
        prop_oneof![4 => Just(0), 1 => 1..5u64, 1 => Just(Document::MAX_REPEATS)],
    );
    parts.prop_map(|(key, bits, seen, scope, rank, sketch, repeats)| {
        Document::new([key], bits.map(Fingerprint::from_bits))
            .with_seen(seen)
            .with_repeats(repeats)
            .with_scope(scope)
            .with_sketch(sketch)
            .with_rank(rank.map(|rank| vec![rank]).unwrap_or_default())
    })
}

fn bits() -> impl Strategy<Value = u64> {
    let centres = prop::sample::select(vec![0, u64::MAX, 0x0123_4567_89ab_cdef]);
    let flips = prop::collection::vec(prop::sample::select(vec![0u32, 15, 16, 31, 40, 63]), 0..5);
    (centres, flips).prop_map(|(centre, flips): (u64, Vec<u32>)| {
        flips.iter().fold(centre, |it, flip| it ^ (1 << flip))
    })
}

fn scopes() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "en", "zh"]).prop_map(str::to_owned)
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let max_distance = prop_oneof![4 => 0..5u32, 1 => 0..=64u32];
    let scopes = prop::option::of(prop::collection::vec(scopes(), 0..3));
    let least = prop::option::of(prop::sample::select(vec![0.0, 0.3, 0.7, 0.95, 1.0]));
    let order = prop::sample::select(vec![Order::Distance, Order::Distance, Order::Similarity]);
    let parts = (
        max_distance,
        0..6usize,
        prop::option::of(0..4i64),
        scopes,
        least,
        order,
        any::<bool>(),
        prop_oneof![2 => Just(1usize), 1 => 2..5usize],
    );
    parts.prop_map(
        |(max_distance, limit, since, scopes, min_similarity, order, touch, keep)| Conditions {
            max_distance,
            limit,
            since,
            scopes,
            min_similarity,
            order,
            touch,
            keep,
        },
    )
}

pub(super) fn operations() -> impl Strategy<Value = Operation> {
    let on_match = prop::sample::select(vec![OnMatch::Link, OnMatch::Skip, OnMatch::Replace]);
    let insert_if_new = (documents(), on_match.clone(), conditions());
    let insert_batch = (
        prop::collection::vec(documents(), 0..10),
        on_match,
        conditions(),
    );
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
        4 => (bits(), prop::option::of(sketches()), conditions(), any::<bool>())
            .prop_map(|(bits, sketch, conditions, bounded)| Operation::Nearest(bits, sketch, conditions, bounded)),
    ]
}
