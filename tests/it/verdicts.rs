//! Verdicts on many documents together: those of one document at a time, and never a hang.

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::Instant;

use simdb::{Database, Document, Near, OnMatch, Order, Policy, Query, Sketch, SketchSize, Verdict};

use crate::support::{
    Folder, LIMIT, TestResult, all_documents, assert_sound, document, external, go_on,
    in_one_of_five_tries, insert_all, jaccard, keyed, query_of, within,
};

/// A number for each number. They look random.
fn random(number: u64) -> u64 {
    let number = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// A document of which many others are near-duplicates. Some have the key or the fingerprint of another.
fn mixed(number: u64) -> Document {
    let chosen = random(number);
    let key = if chosen.is_multiple_of(9) {
        chosen >> 8 & 1023
    } else {
        number
    };
    let centre = random((1 << 40) | ((chosen >> 20) % 700));
    let bits = match chosen >> 30 & 3 {
        0 => centre,
        1 => centre ^ 1 << (chosen >> 40 & 63) ^ 1 << (chosen >> 50 & 63),
        _ => random(chosen),
    };
    let scope = ["", "en", "de"][(chosen >> 32) as usize % 3];
    document(format!("key {key}"), bits)
        .with_seen((chosen >> 34 & 7) as i64)
        .with_rank([(chosen >> 37 & 3) as i64])
        .with_repeats(chosen >> 48 & chosen >> 52 & 7)
        .with_scope(scope)
}

/// A policy for the document of a number: of each kind, and with each kind of filter.
fn policy(number: u64) -> Policy {
    let chosen = random(!number);
    let policy = Policy::new([OnMatch::Link, OnMatch::Skip, OnMatch::Replace][chosen as usize % 3]);
    let near = Near::within((chosen >> 16) as u32 % 5);
    let near = match chosen >> 24 & 3 {
        0 => near.scopes(["en"]),
        1 => near.since(3),
        _ => near,
    };
    policy
        .near(near)
        .limit([0, 1, 10][(chosen >> 8) as usize % 3])
        .keep(1 + (chosen >> 40) as usize % 4)
        .touch(chosen >> 44 & 1 == 0)
}

/// The batch is longer than what one thread searches for at a time, and than what waits unsorted.
#[test]
fn many_together_get_the_verdicts_that_each_gets_alone() -> TestResult {
    const BEFORE: u64 = 4_000;
    const TOGETHER: u64 = 6_000;
    let folder = Folder::new()?;
    let create = |name: &str| -> simdb::Result<Database> {
        let options = external().plan("6x21").recent_documents(500);
        let database = Database::create(folder.path(name), &options)?;
        insert_all(&database, (0..BEFORE).map(mixed))?;
        Ok(database)
    };
    let (alone, together) = (create("alone")?, create("together")?);
    let asked: Vec<(Document, Policy)> = (BEFORE..BEFORE + TOGETHER)
        .map(|number| (mixed(number), policy(number)))
        .collect();
    let mut txn = alone.begin_write()?;
    let expected: Vec<Verdict> = asked
        .iter()
        .map(|(document, policy)| txn.insert_if_new(document, policy))
        .collect::<simdb::Result<_>>()?;
    txn.commit()?;
    let (mut verdicts, mut txn) = (Vec::new(), together.begin_write()?);
    let asked: Vec<(&Document, &Policy)> = asked
        .iter()
        .map(|(document, policy)| (document, policy))
        .collect();
    txn.insert_each_if_new(&asked, |verdict| {
        verdicts.push(verdict);
        ControlFlow::Continue(())
    })?;
    txn.commit()?;
    let verdicts: Vec<Verdict> = verdicts.into_iter().collect::<simdb::Result<_>>()?;
    let differ = verdicts
        .iter()
        .zip(&expected)
        .position(|(it, expected)| it != expected);
    assert_eq!(differ.map(|it| (&verdicts[it], &expected[it])), None);
    assert_eq!(verdicts.len(), expected.len());
    assert!(expected.iter().filter(|it| it.is_duplicate()).count() > 1_000);
    assert!(expected.iter().any(|it| !it.deleted().is_empty()));
    assert_eq!(all_documents(&together)?, all_documents(&alone)?);
    assert_sound(&together)?;
    Ok(())
}

/// A document of a template, of which all are near to each other. Those of one of many groups are similar, and one
/// group has a third of them. Some have no sketch, and some the key or the fingerprint of another.
fn of_template(number: u64) -> Document {
    let chosen = random(number);
    let group = match chosen % 3 {
        0 => 0,
        _ => 1 + chosen % 400,
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random(group << 20).to_le_bytes());
    bytes[8..].copy_from_slice(&random(group << 20 | 1).to_le_bytes());
    for at in [chosen >> 8, chosen >> 16, chosen >> 24] {
        bytes[at as usize % 16] ^= 1 << (at >> 4 & 7);
    }
    let sketch = match chosen >> 32 & 15 {
        0 => None,
        _ => Sketch::new(&bytes, 20).ok(),
    };
    let key = match chosen >> 36 & 15 {
        0 => number / 2,
        _ => number,
    };
    let bits = 1 << (chosen >> 40 & 63) | 1 << (chosen >> 46 & 63) | 1 << (chosen >> 52 & 63);
    document(format!("key {key}"), bits)
        .with_sketch(sketch)
        .with_seen((chosen >> 10 & 7) as i64)
        .with_rank([(chosen >> 13 & 3) as i64])
        .with_scope(["", "en", "de"][(chosen >> 20) as usize % 3])
}

fn of_templates(folder: &Folder, name: &str) -> simdb::Result<Database> {
    let options = external()
        .max_distance(8)
        .sketch_size(SketchSize::Bytes16)
        .recent_documents(500);
    Database::create(folder.path(name), &options)
}

/// Each document of a template asked for the documents of thousands of near fingerprints, of which hardly any was
/// similar, and those of one text for all of theirs: 20,000 took 27 to 130 seconds. Now the sketches of a fingerprint
/// are read once for all of them, and what is beyond the matches that are counted is left out. The answers are those of
/// a scan.
#[test]
fn documents_of_a_template_get_the_matches_of_a_scan() -> TestResult {
    const BATCH: usize = 1_200;
    const LEAST: f64 = 0.7;
    let folder = Folder::new()?;
    let database = of_templates(&folder, "d.simdb")?;
    let limits = [0, 3, 200];
    let documents: Vec<Document> = (0..3 * BATCH as u64)
        .filter(|&number| random(number) >> 36 & 15 != 0)
        .map(of_template)
        .filter(|document| document.sketch().is_some())
        .collect();
    let mut verdicts = Vec::new();
    for batch in documents.chunks(BATCH) {
        let policies = limits.map(|limit| {
            let near = Near::within(8).min_similarity(LEAST);
            Policy::link().near(near).limit(limit)
        });
        let asked: Vec<(&Document, &Policy)> = batch.iter().zip(policies.iter().cycle()).collect();
        let mut txn = database.begin_write()?;
        txn.insert_each_if_new(&asked, |verdict| {
            verdicts.push(verdict);
            ControlFlow::Continue(())
        })?;
        txn.commit()?;
    }
    // The matches of a document among the first ones, by distance, fingerprint and age.
    let matching = |asked: &Document, among: usize| {
        let sketch = asked.sketch().expect("it has one");
        let mut matching: Vec<(u32, u64, usize)> = Vec::new();
        for (stored, document) in documents[..among].iter().enumerate() {
            let bits = document.fingerprint().expect("it has one").bits();
            let distance = (bits ^ asked.fingerprint().expect("it has one").bits()).count_ones();
            let is_similar = jaccard(document.sketch().expect("it has one"), sketch) >= LEAST;
            if distance <= 8 && is_similar {
                matching.push((distance, bits, among - stored));
            }
        }
        matching.sort_unstable();
        matching
    };
    let mut most = 0;
    for (index, verdict) in verdicts.into_iter().enumerate() {
        let verdict = verdict?;
        let matching = matching(&documents[index], index);
        most = most.max(matching.len());
        let limit = limits[index % BATCH % limits.len()];
        let counted = limit.max(128);
        assert_eq!(
            verdict.matches().total() as usize,
            matching.len().min(counted + 1)
        );
        assert_eq!(
            verdict.matches().total_is_exact(),
            matching.len() <= counted
        );
        let keys = verdict.matches().iter().map(|found| found.document.key());
        let expected = matching.iter().take(limit);
        let expected = expected.map(|(_, _, before)| documents[index - before].key());
        assert!(keys.eq(expected), "document {index}");
    }
    assert!(most > 600, "{most}");
    // Queries find them too: alone, together, and the nearest ones.
    let near = Near::within(8).min_similarity(LEAST);
    let query = |asked: &Document| {
        let fingerprint = asked.fingerprint().expect("it has one");
        let query = Query::new(fingerprint).near(near.clone());
        query.with_sketch(*asked.sketch().expect("it has one"))
    };
    let asked: Vec<&Document> = documents.iter().step_by(11).collect();
    let queries: Vec<Query> = asked.iter().map(|asked| query(asked).limit(5)).collect();
    let nearest: Vec<Query> = queries
        .iter()
        .map(|query| query.clone().nearest(7))
        .collect();
    let snapshot = database.snapshot()?;
    let together = snapshot.query_batch(&queries)?;
    let nearest = snapshot.query_batch(&nearest)?;
    for (index, asked) in asked.iter().enumerate() {
        let matching = matching(asked, documents.len());
        for (matches, limit) in [(&together[index], 5), (&nearest[index], 7)] {
            let keys = matches.iter().map(|found| found.document.key());
            let expected = matching.iter().take(limit);
            let expected = expected.map(|(_, _, age)| documents[documents.len() - age].key());
            assert!(keys.eq(expected), "query {index}");
        }
        assert_eq!(together[index].total() as usize, matching.len().min(129));
        assert_eq!(snapshot.query(&queries[index])?, together[index]);
    }
    Ok(())
}

/// Whoever asks for a few of the nearest documents does not wait for all that are near, however many these are. With
/// the crowd grew the time for each document, so that the time for all grew with the square of their number.
#[test]
fn the_time_for_a_few_of_a_crowd_grows_less_than_the_crowd() -> TestResult {
    let sketch = Sketch::new(&[7; 16], 20)?;
    let of_crowd = |number: u64| {
        let chosen = random(number);
        let bits = (0..4).fold(0, |bits, i| bits | 1 << (chosen >> (6 * i) & 63));
        document(format!("key {number}"), bits).with_sketch(sketch)
    };
    let near = Near::within(8).min_similarity(0.7);
    let folder = Folder::new()?;
    let with_crowd = |name: &str, crowd: u64| -> TestResult<Database> {
        let options = external().max_distance(8).sketch_size(SketchSize::Bytes16);
        let database = Database::create(folder.path(name), &options)?;
        let mut txn = database.begin_write()?;
        for number in 0..crowd {
            txn.insert(&of_crowd(number))?;
        }
        txn.commit()?;
        database.settle()?;
        Ok(database)
    };
    let databases = [with_crowd("small", 4_000)?, with_crowd("large", 64_000)?];
    let mut queries = Vec::new();
    let mut documents = Vec::new();
    for number in 0..100 {
        let document = of_crowd(u64::MAX - number);
        let fingerprint = document.fingerprint().expect("it has one");
        queries.push(
            Query::new(fingerprint)
                .with_sketch(sketch)
                .near(near.clone()),
        );
        documents.push(document);
    }
    let nearest: Vec<Query> = queries
        .iter()
        .map(|query| query.clone().nearest(5))
        .collect();
    let policy = Policy::link().near(near.clone());
    in_one_of_five_tries(|_| {
        let mut fastest = [[f64::INFINITY; 3]; 2];
        for _ in 0..3 {
            for (database, times) in databases.iter().zip(&mut fastest) {
                let mut take = |of: usize, begun: Instant| {
                    times[of] = times[of].min(begun.elapsed().as_secs_f64());
                };
                let begun = Instant::now();
                let matches = database.snapshot()?.query_batch(&queries)?;
                take(0, begun);
                assert!(matches.iter().all(|matches| matches.total() == 129));
                let begun = Instant::now();
                database.snapshot()?.query_batch(&nearest)?;
                take(1, begun);
                let begun = Instant::now();
                database
                    .begin_write()?
                    .insert_batch_if_new(&documents, &policy)?;
                take(2, begun);
            }
        }
        let [small, large] = fastest;
        let is_like = small
            .iter()
            .zip(large)
            .all(|(small, large)| large / small < 8.0);
        Ok((!is_like).then(|| format!("{fastest:?}")))
    })
}

#[test]
fn documents_of_a_template_get_together_the_verdicts_that_each_gets_alone() -> TestResult {
    const BATCH: u64 = 1_200;
    let folder = Folder::new()?;
    let (alone, together) = (
        of_templates(&folder, "alone")?,
        of_templates(&folder, "together")?,
    );
    let policy = |number: u64| {
        let policy = policy(number);
        let near = match random(number) % 4 {
            0 => Near::within(8).min_similarity(0.7).scopes(["en", ""]),
            1 => Near::within(8).min_similarity(0.7).since(3),
            2 => Near::within(3),
            _ => Near::within(8).min_similarity(0.8),
        };
        match random(number) >> 8 & 7 {
            0 => policy.near(near).order(Order::Similarity),
            _ => policy.near(near),
        }
    };
    for batch in 0..3 {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let asked: Vec<(Document, Policy)> = numbers
            .map(|number| (of_template(number), policy(number)))
            .collect();
        let asked: Vec<(&Document, &Policy)> = asked
            .iter()
            .map(|(document, policy)| (document, policy))
            .collect();
        let mut expected = Vec::new();
        for (document, policy) in &asked {
            let mut txn = alone.begin_write()?;
            expected.push(
                txn.insert_if_new(document, policy)
                    .map_err(|error| error.to_string()),
            );
            txn.commit()?;
        }
        let mut verdicts = Vec::new();
        let mut txn = together.begin_write()?;
        txn.insert_each_if_new(&asked, |verdict| {
            verdicts.push(verdict.map_err(|error| error.to_string()));
            ControlFlow::Continue(())
        })?;
        txn.commit()?;
        for (index, (verdict, expected)) in verdicts.iter().zip(&expected).enumerate() {
            assert_eq!(verdict, expected, "{index} of batch {batch}");
        }
    }
    let without_number = |database: &Database| -> simdb::Result<Vec<Document>> {
        let mut documents = all_documents(database)?;
        documents.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(documents)
    };
    assert_eq!(without_number(&together)?, without_number(&alone)?);
    assert_sound(&together)?;
    Ok(())
}

/// A search within a large distance sorts only the rows of one table that a transaction has written. Verdicts that
/// looked up the sorted rows of the other tables missed what was not sorted there.
#[test]
fn a_transaction_finds_what_it_has_written_whatever_it_asks_meanwhile() -> TestResult {
    let folder = Folder::new()?;
    let options = external().expected_documents(60_000);
    for (round, distances) in [&[20][..], &[20, 64, 1], &[0, 30, 3, 5]]
        .into_iter()
        .enumerate()
    {
        let database = Database::create(folder.path(&format!("{round}.simdb")), &options)?;
        let committed = keyed(0..15_000, random);
        insert_all(&database, committed)?;
        let mut txn = database.begin_write()?;
        let mut written: Vec<u64> = Vec::new();
        for number in 0..4_000u64 {
            let chosen = random(number | 1 << 50);
            let distance = distances[number as usize % distances.len()];
            let asked = query_of(chosen).near(distance);
            txn.query(&asked.limit(0))?;
            let bits = match chosen % 3 {
                0 if number > 0 => {
                    let earlier = written[(chosen >> 8) as usize % written.len()];
                    earlier ^ 1 << (chosen >> 40 & 63) ^ 1 << (chosen >> 50 & 63)
                }
                _ => chosen,
            };
            let is_near = |other: &u64| (other ^ bits).count_ones() <= 3;
            let expected = written.iter().any(is_near);
            let new = document(format!("written {number}"), bits);
            let verdict = txn.insert_if_new(&new, &Policy::skip().near(3))?;
            assert_eq!(
                verdict.is_duplicate(),
                expected,
                "{distances:?}: document {number}"
            );
            if !expected {
                written.push(bits);
            }
        }
        txn.commit()?;
        assert_sound(&database)?;
    }
    Ok(())
}

#[test]
fn a_document_out_of_bounds_fails_alone() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    let documents = [
        document("a", 1),
        document("", 2),
        document("c", 3),
        document("d", 4),
    ];
    let policies = [
        Policy::link(),
        Policy::link(),
        Policy::link().near(65),
        Policy::link(),
    ];
    let asked: Vec<_> = documents.iter().zip(&policies).collect();
    let (mut outcomes, mut txn) = (Vec::new(), database.begin_write()?);
    txn.insert_each_if_new(&asked, |verdict| {
        outcomes.push(verdict.map_err(|error| error.to_string()));
        ControlFlow::Continue(())
    })?;
    txn.commit()?;
    assert!(outcomes[0].is_ok() && outcomes[3].is_ok(), "{outcomes:?}");
    assert!(
        matches!(&outcomes[1], Err(reason) if reason.contains("key")),
        "{outcomes:?}"
    );
    assert!(
        matches!(&outcomes[2], Err(reason) if reason.contains("65")),
        "{outcomes:?}"
    );
    let keys: Vec<Vec<u8>> = all_documents(&database)?
        .iter()
        .map(|it| it.key().to_vec())
        .collect();
    assert_eq!(keys, [b"a", b"d"]);
    Ok(())
}

/// Inserts documents in a transaction, and asks for others.
fn insert_and_ask(database: &Database, task: u64) -> simdb::Result<usize> {
    let documents: Vec<Document> = (task * 600..(task + 1) * 600).map(mixed).collect();
    let mut txn = database.begin_write()?;
    let verdicts = txn.insert_batch_if_new(&documents, &Policy::skip())?;
    txn.commit()?;
    let queries: Vec<Query> = documents
        .iter()
        .filter_map(|it| it.fingerprint().map(Query::new))
        .collect();
    database.snapshot()?.query_batch(&queries)?;
    Ok(verdicts.len())
}

/// A thread of the common pool that waited for other threads of the pool took up another task. That task
/// waited for the transaction of the first one, for ever.
#[test]
fn tasks_of_a_thread_pool_write_in_turn() -> TestResult {
    const TASKS: u64 = 24;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let verdicts = within(LIMIT, move || {
        let database = Database::create(path, &external()).expect("a new database");
        let (sender, receiver) = mpsc::channel();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(4)
            .build()
            .expect("a thread pool");
        pool.scope(|scope| {
            for task in 0..TASKS {
                let (database, sender) = (&database, sender.clone());
                scope.spawn(move |_| {
                    sender
                        .send(insert_and_ask(database, task))
                        .expect("it is received");
                });
            }
            let database = &database;
            scope.spawn(|_| database.compact(go_on).expect("a compaction"));
            scope.spawn(|_| match database.check() {
                Ok(report) => assert!(report.is_sound()),
                // A task may have its transaction already.
                Err(error) => assert!(matches!(error, simdb::Error::InUse { .. }), "{error}"),
            });
        });
        drop(sender);
        receiver.into_iter().collect::<Vec<_>>()
    });
    assert_eq!(
        verdicts.into_iter().sum::<simdb::Result<usize>>()?,
        600 * TASKS as usize
    );
    Ok(())
}

#[test]
fn a_parallel_iterator_writes_in_turn() -> TestResult {
    use rayon::prelude::*;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let verdicts = within(LIMIT, move || {
        let database = Database::create(path, &external()).expect("a new database");
        (0..24u64)
            .into_par_iter()
            .map(|task| insert_and_ask(&database, task))
            .collect::<Vec<_>>()
    });
    assert_eq!(
        verdicts.into_iter().sum::<simdb::Result<usize>>()?,
        600 * 24
    );
    Ok(())
}
