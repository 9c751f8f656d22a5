//! Laws of sketches and of what they decide, for random texts and documents.

use proptest::prelude::*;
use simdb::{
    Database, Document, Fingerprinter, Matches, Near, Order, Policy, Query, Scheme, Sketch,
    SketchSize,
};

use crate::support::{Folder, TestResult, document, go_on, insert_all, jaccard};

const SIZES: [SketchSize; 2] = [SketchSize::Bytes16, SketchSize::Bytes32];

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z]{1,6}", 8..120)
}

/// The words in another dress: other cases, spaces and marks, none of which is a part of a word.
fn dressed(words: &[String], dress: u64) -> String {
    const BETWEEN: [&str; 8] = [" ", "\n", "  \t", ", ", "! ", " -- ", "\u{a0}", " (…) "];
    let mut text = String::from(["", "\u{feff}", "\"", " * "][dress as usize % 4]);
    for (word, i) in words.iter().zip(1..) {
        let random = dress.wrapping_mul(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        text.push_str(&if random.is_multiple_of(3) {
            word.to_uppercase()
        } else {
            word.clone()
        });
        text.push_str(BETWEEN[random as usize / 3 % BETWEEN.len()]);
    }
    text
}

/// A document, with a sketch of 128 samples that differs from a common one at random places.
fn documents() -> impl Strategy<Value = Vec<Document>> {
    let parts = (
        0..4u64,
        prop::collection::vec(0..128usize, 0..40),
        prop_oneof![Just(0), 80..120u32],
    );
    prop::collection::vec(parts, 1..60).prop_map(|all| {
        let all = all.into_iter().enumerate();
        let made = all.map(|(i, (bits, differing, shingles))| {
            let mut bytes = [0x5a; 16];
            differing
                .into_iter()
                .for_each(|at| bytes[at / 8] ^= 1 << (at % 8));
            // Some have no sketch.
            document(i.to_string(), (1 << bits) - 1).with_sketch(Sketch::new(&bytes, shingles).ok())
        });
        made.collect()
    })
}

fn database_of(folder: &Folder, documents: &[Document]) -> simdb::Result<Database> {
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, documents.iter().cloned())?;
    Ok(database)
}

/// The keys, distances and similarities of matches, in order.
fn told(matches: &Matches) -> Vec<(Vec<u8>, u32, Option<f64>)> {
    let told = matches
        .iter()
        .map(|it| (it.document.key().to_vec(), it.distance, it.similarity));
    told.map(|(key, distance, similarity)| (key, distance, similarity.map(|it| it.jaccard())))
        .collect()
}

/// What the laws say of one set of documents.
fn documents_obey(documents: &[Document]) -> TestResult {
    let folder = Folder::new()?;
    let mut database = database_of(&folder, documents)?;
    let asked = documents
        .iter()
        .filter(|it| it.sketch().is_some())
        .map(Query::like);
    let asked: Vec<Query> = asked
        .flatten()
        .take(5)
        .map(|it| it.near(4).limit(usize::MAX))
        .collect();
    let by_similarity = |query: &Query| query.clone().order(Order::Similarity);
    let ask = |database: &Database| -> simdb::Result<Vec<_>> {
        let snapshot = database.snapshot()?;
        asked
            .iter()
            .map(|it| Ok(told(&snapshot.query(&by_similarity(it))?)))
            .collect()
    };
    let first = ask(&database)?;
    let snapshot = database.snapshot()?;
    for (query, ordered) in asked.iter().zip(&first) {
        let near = snapshot.query(query)?;
        // A document finds itself, and every document within the distance is listed.
        let itself = |it: &(Vec<u8>, u32, Option<f64>)| it.1 == 0 && it.2 == Some(1.0);
        assert!(told(&near).iter().any(itself) && near.total() == documents.len() as u64);
        // By similarity, then as by distance, those without a sketch last.
        let mut sorted = told(&near);
        sorted.sort_by(|a, b| b.2.unwrap_or(-1.0).total_cmp(&a.2.unwrap_or(-1.0)));
        assert_eq!(*ordered, sorted);
        for limit in [1, 2, ordered.len() / 2] {
            let few = snapshot.query(&by_similarity(query).limit(limit))?;
            assert_eq!(
                told(&few),
                ordered[..limit.min(ordered.len())],
                "the first {limit}"
            );
        }
        // A least similarity of 0 is none. Each other one keeps those that a plain comparison keeps.
        assert_eq!(
            told(&snapshot.query(&query.clone().near(Near::within(4).min_similarity(0.0)))?),
            told(&near)
        );
        for least in [0.01, 0.5, 0.7, 0.9, 1.0] {
            let kept =
                snapshot.query(&query.clone().near(Near::within(4).min_similarity(least)))?;
            let wanted = told(&near)
                .into_iter()
                .filter(|it| it.2.is_some_and(|it| it >= least));
            assert_eq!(told(&kept), wanted.collect::<Vec<_>>(), "{least}");
        }
        for it in &near {
            assert!(
                it.similarity
                    .is_none_or(|it| it.containment() >= it.jaccard()),
                "{it:?}"
            );
        }
    }
    drop(snapshot);
    database.settle()?;
    assert_eq!(ask(&database)?, first, "merges change the order");
    database.compact(go_on)?;
    assert_eq!(ask(&database)?, first, "a copy has another order");
    let path = database.path().to_owned();
    drop(database);
    database = Database::open(path, &crate::support::tiny())?;
    assert_eq!(ask(&database)?, first, "opening changes the order");
    Ok(())
}

proptest! {
    #[test]
    fn similarity_is_symmetric_and_one_for_equal_texts(
        words in words(), other in words(), kept in 0..120usize, dress in any::<u64>(),
    ) {
        // The other text may begin with a part of the first.
        let mixed: Vec<String> = words.iter().take(kept).chain(&other).cloned().collect();
        for fingerprinter in [Scheme::Minwise1, Scheme::Simhash1].map(Fingerprinter::new) {
            for size in SIZES {
                let fingerprinter = fingerprinter.as_ref().expect("it makes fingerprints").with_sketch_size(size);
                let sketch = |text: &str| fingerprinter.sketch(text).expect("long enough");
                let text = words.join(" ");
                let (one, two) = (sketch(&text), sketch(&mixed.join(" ")));
                let similarity = |a: &Sketch, b: &Sketch| a.similarity(b).expect("of one size");
                let (there, back) = (similarity(&one, &two), similarity(&two, &one));
                prop_assert_eq!(there.jaccard(), back.jaccard());
                prop_assert_eq!(there.containment(), back.containment());
                prop_assert_eq!(there.jaccard(), jaccard(&one, &two));
                prop_assert!((0.0..=there.containment()).contains(&there.jaccard()));
                prop_assert!(there.containment() <= 1.0);
                let dressed = dressed(&words, dress);
                prop_assert_eq!(sketch(&dressed), one, "{}", dressed);
                prop_assert_eq!(fingerprinter.fingerprint(&dressed), fingerprinter.fingerprint(&text));
                let same = one.similarity(&sketch(&dressed)).expect("of one size");
                prop_assert_eq!((same.jaccard(), same.containment()), (1.0, 1.0));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn queries_by_similarity_agree_with_a_plain_comparison(documents in documents()) {
        if let Err(error) = documents_obey(&documents) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}

/// With a least similarity, a total is exact up to the limit or 128, whichever is more.
#[test]
fn totals_are_exact_up_to_the_limit_or_128_and_one_more_beyond() -> TestResult {
    for alike in [1u64, 126, 127, 128, 129, 130, 131] {
        let folder = Folder::new()?;
        // Beside each document that is similar enough there is one that is not. They have three fingerprints.
        let of = |i: u64| {
            let sketch = Sketch::new(&[if i.is_multiple_of(2) { 0 } else { 0x33 }; 16], 100);
            document(i.to_string(), i % 3).with_sketch(sketch.ok())
        };
        let mut documents: Vec<Document> = (0..2 * alike).map(of).collect();
        let asked = documents.remove(0);
        documents.push(document("without", 0));
        let database = database_of(&folder, &documents)?;
        let snapshot = database.snapshot()?;
        let matching = alike as usize - 1;
        for limit in [0, 1, 125, 126, 127, 128, 129, 130, 131, usize::MAX] {
            let query = Query::like(&asked).ok_or("it has a fingerprint")?;
            let near = Near::within(2).min_similarity(0.7);
            let since = near.clone().since(0);
            let query = query.near(near).limit(limit);
            let counted = limit.max(128);
            let expected = (
                matching.min(limit),
                matching.min(counted.saturating_add(1)) as u64,
                matching <= counted,
            );
            let of = |found: &Matches| {
                (
                    found.as_slice().len(),
                    found.total(),
                    found.total_is_exact(),
                )
            };
            assert_eq!(
                of(&snapshot.query(&query)?),
                expected,
                "{matching} matches, limit {limit}"
            );
            assert_eq!(
                of(&snapshot.query(&query.clone().near(since))?),
                expected,
                "{matching}, since, {limit}"
            );
            assert_eq!(
                of(&snapshot.query_batch(&[query.clone(), query])?[1]),
                expected,
                "{matching}, {limit}"
            );
            let policy = Policy::skip()
                .near(Near::within(2).min_similarity(0.7))
                .limit(limit);
            let verdict = database.begin_write()?.insert_if_new(&asked, &policy)?;
            assert_eq!(
                of(verdict.matches()),
                expected,
                "{matching}, policy, {limit}"
            );
        }
    }
    Ok(())
}
