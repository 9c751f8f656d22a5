//! The nearest documents, whatever their distance, beside a scan of all.

use std::collections::BTreeMap;

use simdb::{Database, Document, Fingerprint, Matches, Near, Order, Query, Sketch, SketchSize};

use crate::support::random::Random;
use crate::support::{
    Folder, TestResult, assert_error, assert_sound, document, done, external, insert_all, jaccard,
    listed, query_of, spread,
};

/// Plans of several families.
const PLANS: [&str; 5] = ["2x32", "4x16", "6x21", "5x12", "8x8"];

/// The documents by key, each with a number that is larger the later it was written.
#[derive(Clone, Default)]
struct Twin {
    documents: BTreeMap<Vec<u8>, (u64, Document)>,
    written: u64,
}

impl Twin {
    fn put(&mut self, document: Document) {
        self.written += 1;
        let key = document.key().to_vec();
        self.documents.insert(key, (self.written, document));
    }

    /// The keys and distances of the nearest documents that are wanted, by a look at all.
    fn nearest(
        &self,
        asked: Fingerprint,
        n: usize,
        is_wanted: impl Fn(&Document, u32) -> bool,
    ) -> Vec<(String, u32)> {
        let mut near = Vec::new();
        for (written, document) in self.documents.values() {
            let Some(fingerprint) = document.fingerprint() else {
                continue;
            };
            let distance = fingerprint.distance(asked);
            if is_wanted(document, distance) {
                let key = String::from_utf8_lossy(document.key()).into_owned();
                near.push((distance, fingerprint, u64::MAX - written, key));
            }
        }
        near.sort();
        near.truncate(n);
        let listed = near.into_iter();
        listed
            .map(|(distance, _, _, key)| (key, distance))
            .collect()
    }
}

/// A document of some scope and time, with a sketch that is often like that of others.
fn described(key: String, bits: u64) -> Document {
    let mut random = Random::new(bits ^ key.len() as u64);
    let sketch = Sketch::new(&[[0, 1, 3, 0x5a][random.index(4)]; 16], 100);
    document(key, bits)
        .with_scope(["", "en", "zh"][random.index(3)])
        .with_seen(random.below(100) as i64)
        .with_sketch(sketch.ok())
}

/// Fingerprints that are uniform, crowded, in clusters, and shared by many documents.
fn mixed(random: &mut Random, at: u64) -> u64 {
    match at % 5 {
        0 | 1 => random.next(),
        2 => 0xabcd << 48 | random.next() >> 16,
        3 => spread(at % 40) ^ 1 << random.below(64) ^ 1 << (at % 64),
        _ => spread(at % 15),
    }
}

/// A database with sketches and levels, in which some documents are replaced and some deleted.
fn several_levels(folder: &Folder, plan: &str, documents: u64) -> TestResult<(Database, Twin)> {
    let options = external()
        .sketch_size(SketchSize::Bytes16)
        .min_similarity(0.9)
        .plan(plan)
        .recent_documents(documents as usize / 7);
    let database = Database::create(folder.path(plan), &options)?;
    let mut random = Random::new(7);
    let mut twin = Twin::default();
    for first in (0..documents).step_by(500) {
        let mut txn = database.begin_write()?;
        for at in first..first + 500 {
            let document = described(
                format!("{}", at % (documents * 4 / 5)),
                mixed(&mut random, at),
            );
            txn.insert(&document)?;
            twin.put(document);
        }
        for _ in 0..40 {
            let gone = random.below(documents).to_string();
            txn.delete(&gone)?;
            twin.documents.remove(gone.as_bytes());
        }
        txn.commit()?;
    }
    Ok((database, twin))
}

fn assert_nearest(found: &Matches, expected: &[(String, u32)], what: &str) {
    assert_eq!(listed(found), expected, "{what}");
    assert_eq!(found.total(), expected.len() as u64, "{what}");
    assert!(found.total_is_exact(), "{what}");
}

#[test]
fn the_nearest_are_those_of_a_scan_at_every_number_to_100_under_every_plan() -> TestResult {
    let folder = Folder::in_memory()?;
    for plan in PLANS {
        let (database, twin) = several_levels(&folder, plan, 12_000)?;
        let snapshot = database.snapshot()?;
        let mut random = Random::new(3);
        for asked in 0..12u64 {
            let bits = mixed(&mut random, asked) ^ (1 << asked) ^ u64::from(asked % 3 == 0);
            let asked = Fingerprint::from_bits(bits);
            let all = twin.nearest(asked, 100, |_, _| true);
            let query = |n: usize| Query::new(asked).nearest(n);
            let queries: Vec<Query> = (0..=100).map(query).collect();
            for (n, found) in snapshot.query_batch(&queries)?.iter().enumerate() {
                let what = format!("{plan}: {asked}, the nearest {n}, in a batch");
                assert_nearest(found, &all[..n], &what);
            }
            for n in (0..=100).step_by(9) {
                let found = snapshot.query(&query(n))?;
                assert_nearest(
                    &found,
                    &all[..n],
                    &format!("{plan}: {asked}, the nearest {n}"),
                );
                assert_eq!(snapshot.any_match(&query(n))?, n > 0);
            }
        }
        drop(snapshot);
        assert_sound(&database)?;
    }
    Ok(())
}

/// Whether a document meets some conditions, by its distance from what is asked for.
type IsWanted = fn(&Document, u32) -> bool;

/// Conditions, each as a query has it and as the twin has it.
fn conditions() -> [(&'static str, Near, IsWanted); 8] {
    [
        ("none", Near::new(), |_, _| true),
        ("a scope", Near::new().scopes(["zh"]), |it, _| {
            it.scope() == "zh"
        }),
        (
            "two scopes",
            Near::new().scopes(["", "en", "?"]),
            |it, _| it.scope() != "zh",
        ),
        ("an unknown scope", Near::new().scopes(["?"]), |_, _| false),
        ("a time", Near::new().since(95), |it, _| it.seen() >= 95),
        ("a late time", Near::new().since(1_000), |_, _| false),
        ("a max distance", Near::within(21), |_, distance| {
            distance <= 21
        }),
        (
            "all",
            Near::within(26).since(50).scopes(["zh", "en"]),
            |it, distance| distance <= 26 && it.seen() >= 50 && !it.scope().is_empty(),
        ),
    ]
}

#[test]
fn conditions_hold_and_the_bounds_of_the_database_do_not() -> TestResult {
    let folder = Folder::in_memory()?;
    let (database, twin) = several_levels(&folder, "4x16", 6_000)?;
    let snapshot = database.snapshot()?;
    let sketch = Sketch::new(&[1; 16], 100)?;
    let mut random = Random::new(5);
    for round in 0..6u64 {
        let asked = Fingerprint::from_bits(mixed(&mut random, round) ^ 0b101);
        for (name, near, is_wanted) in conditions() {
            for n in [1, 2, 10, 77, 3_000] {
                let what = format!("{asked}, the nearest {n}, conditions: {name}");
                // Its sketch is like that of no other, and 0.9 would be the least similarity of a query.
                let query = Query::new(asked).with_sketch(sketch).near(near.clone());
                let found = snapshot.query(&query.clone().nearest(n))?;
                assert_nearest(&found, &twin.nearest(asked, n, is_wanted), &what);
                let verified = query.clone().verify(|it| Ok(it.key()[0] != b'1'));
                let expected = twin.nearest(asked, n, |it, distance| {
                    is_wanted(it, distance) && it.key()[0] != b'1'
                });
                assert_nearest(&snapshot.query(&verified.nearest(n))?, &expected, &what);
                for least in [0.7, 0.9] {
                    let near = near.clone().min_similarity(least);
                    let expected = twin.nearest(asked, n, |it, distance| {
                        let similarity = it.sketch().map(|own| jaccard(own, &sketch));
                        is_wanted(it, distance) && similarity.is_some_and(|it| it >= least)
                    });
                    let found = snapshot.query(&query.clone().near(near).nearest(n))?;
                    assert_nearest(&found, &expected, &what);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn in_the_order_of_similarity_the_same_are_listed() -> TestResult {
    let folder = Folder::in_memory()?;
    let (database, _) = several_levels(&folder, "4x16", 3_000)?;
    let snapshot = database.snapshot()?;
    for n in [1, 10, 50] {
        let query = query_of(1)
            .with_sketch(Sketch::new(&[1; 16], 100)?)
            .nearest(n);
        let mut nearest: Vec<_> = snapshot.query(&query)?.into_iter().collect();
        let similar = snapshot.query(&query.order(Order::Similarity))?;
        let jaccard = |it: &simdb::Match| it.similarity.map_or(-1.0, |it| it.jaccard());
        nearest.sort_by(|a, b| jaccard(b).total_cmp(&jaccard(a)));
        assert_eq!(similar.as_slice(), nearest);
        assert_eq!(similar.total(), n as u64);
    }
    Ok(())
}

#[test]
fn few_documents_are_all_found_and_none_in_an_empty_database() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let query = query_of(0);
    assert_eq!(
        database
            .snapshot()?
            .query(&query.clone().nearest(10))?
            .total(),
        0
    );
    assert!(!database.snapshot()?.any_match(&query.clone().nearest(10))?);
    let bits = [u64::MAX, 0xff, 0xff, 0, 1 << 63];
    let documents = (0..)
        .zip(bits)
        .map(|(at, bits)| document(format!("{at}"), bits));
    insert_all(&database, documents)?;
    insert_all(&database, [Document::new("too short", None).with_seen(0)])?;
    let snapshot = database.snapshot()?;
    let expected = [("3", 0), ("4", 1), ("2", 8), ("1", 8), ("0", 64)];
    let expected = expected.map(|(key, distance)| (key.to_owned(), distance));
    for n in [0, 1, 3, 4, 5, 6, usize::MAX] {
        let found = snapshot.query(&query.clone().nearest(n))?;
        assert_nearest(&found, &expected[..n.min(5)], &format!("{n}"));
    }
    // The last of the two says how many.
    assert_eq!(
        snapshot.query(&query.clone().nearest(1).limit(2))?.total(),
        2
    );
    // A bound that cannot be is refused, also if nothing is wanted.
    let refused = query.near(65).nearest(0);
    assert!(snapshot.query(&refused).is_err());
    Ok(())
}

#[test]
fn a_transaction_finds_what_it_has_written_and_not_what_it_has_deleted() -> TestResult {
    let folder = Folder::in_memory()?;
    let (database, mut twin) = several_levels(&folder, "6x21", 4_000)?;
    let mut random = Random::new(11);
    let mut txn = database.begin_write()?;
    for at in 0..900u64 {
        let key = format!("{}", random.below(4_500));
        if at % 3 == 0 {
            txn.delete(&key)?;
            twin.documents.remove(key.as_bytes());
        } else {
            let document = described(key, mixed(&mut random, at));
            txn.insert(&document)?;
            twin.put(document);
        }
        if at % 30 == 0 {
            let asked = Fingerprint::from_bits(mixed(&mut random, at / 30) ^ 1);
            for n in [1, 10, 100] {
                let found = txn.query(&Query::new(asked).nearest(n))?;
                assert_nearest(
                    &found,
                    &twin.nearest(asked, n, |_, _| true),
                    &format!("{asked}, {n}"),
                );
            }
        }
    }
    Ok(())
}

#[test]
fn queries_of_both_kinds_are_answered_in_their_order() -> TestResult {
    let folder = Folder::in_memory()?;
    let (database, _) = several_levels(&folder, "4x16", 5_000)?;
    let snapshot = database.snapshot()?;
    let mut random = Random::new(13);
    let mut queries = Vec::new();
    for at in 0..300u64 {
        let query = query_of(mixed(&mut random, at));
        queries.push(match at % 7 {
            0 | 3 => query.near(3 + at as u32 % 9),
            1 => query.near(Near::within(at as u32 % 30)).nearest(20),
            2 => query.near(Near::new().scopes(["zh"])).nearest(3),
            4 => query.nearest(0),
            _ => query.nearest(1 + random.index(12)),
        });
    }
    for (query, found) in queries.iter().zip(snapshot.query_batch(&queries)?) {
        assert_eq!(found, snapshot.query(query)?, "{query:?}");
    }
    Ok(())
}

#[test]
fn an_error_of_a_function_is_that_of_the_query() -> TestResult {
    let folder = Folder::in_memory()?;
    let (database, _) = several_levels(&folder, "4x16", 1_000)?;
    let query = query_of(0).nearest(3);
    let failing = query.clone().verify(|_| Err("the text is missing".into()));
    let snapshot = database.snapshot()?;
    assert_error!(snapshot.query(&failing) => simdb::Error::Verify(_));
    assert!(snapshot.query_batch(&[query, failing]).is_err());
    Ok(())
}

#[test]
fn the_search_at_the_distance_of_the_farthest_match_is_explained() -> TestResult {
    let folder = Folder::in_memory()?;
    let (database, _) = several_levels(&folder, "4x16", 6_000)?;
    let query = query_of(5).nearest(6);
    let (matches, explanation) = database.snapshot()?.explain(&query)?;
    let farthest = matches.as_slice().last().ok_or("six are found")?.distance;
    assert_eq!((matches.total(), explanation.total), (6, 6));
    assert_eq!(explanation.max_distance, farthest);
    Ok(())
}

#[test]
fn the_program_lists_the_nearest_and_refuses_a_limit_beside_them() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = folder.database("d.simdb")?;
    let documents = [("a", 0xff), ("b", 0xffff), ("c", u64::MAX)];
    insert_all(&database, documents.map(|(key, bits)| document(key, bits)))?;
    drop(database);
    let zero = "0000000000000000";
    let ran = done!("query", &path, "--fingerprint", zero, "--nearest 2");
    assert_eq!((&*ran.out, &*ran.err), ("8\t-\ta\n16\t-\tb\n", ""));
    let ran = done!("query", &path, "--fingerprint", zero, "--nearest 9 --json");
    let object = ran.object()?;
    assert_eq!(
        (
            object["total"].as_u64(),
            object["matches"][2]["distance"].as_u64()
        ),
        (Some(3), Some(64))
    );
    folder
        .run(&format!(
            "query d.simdb --fingerprint {zero} --nearest 2 --limit 3"
        ))?
        .refused("--limit");
    folder
        .run(&format!(
            "query d.simdb --fingerprint {zero} --nearest 2 --max-distance 7"
        ))?
        .expect(1)
        .says("no match within distance 7");
    let none = folder.run(&format!(
        "query d.simdb --fingerprint {zero} --nearest 2 --scope x"
    ))?;
    none.expect(1).says("no match in scope x");
    done!("explain", &path, "--fingerprint", zero, "--nearest 2").prints("max distance 16");
    folder.file("asked.tsv", "q1\t00000000000000ff\nq2\tffffffffffffffff\n")?;
    let ran =
        folder.run("query d.simdb --input asked.tsv --input-format fingerprints --nearest 1")?;
    assert_eq!(
        ran.expect(0).out,
        "q1 is near a (distance 0)\nq2 is near c (distance 0)\n"
    );
    Ok(())
}
