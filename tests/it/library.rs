//! The library as a crawler uses it. Each test is about a promise of an operation.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use simdb::{
    Change, Database, Document, Error, Fingerprint, Near, OpenOptions, Policy, Sketch, SketchSize,
    Snapshot,
};

use crate::support::{
    Folder, TestResult, assert_error, assert_sound, document, going_on, insert_all, keyed, listed,
    query_of, tiny,
};

fn near(snapshot: &Snapshot, bits: u64) -> simdb::Result<Vec<(String, u32)>> {
    Ok(listed(&snapshot.query(&query_of(bits))?))
}

#[test]
fn handles_may_be_sent_and_shared() {
    fn assert_shared<T: Send + Sync + 'static>() {}
    fn assert_sent<T: Send + 'static>() {}
    assert_shared::<Database>();
    assert_shared::<Snapshot>();
    assert_sent::<simdb::WriteTxn>();
    assert_shared::<Error>();
}

#[test]
fn insert_tells_new_unchanged_and_changed_documents_apart() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let mut txn = database.begin_write()?;
    assert_eq!(txn.insert(&document("u", 1))?, None);
    assert_eq!(txn.insert(&document("u", 1))?, Some(document("u", 1)));
    assert_eq!(txn.insert(&document("u", 0xff00))?, Some(document("u", 1)));
    txn.commit()?;
    let snapshot = database.snapshot()?;
    assert_eq!(near(&snapshot, 1)?, [], "the old fingerprint is gone");
    assert_eq!(near(&snapshot, 0xff00)?, [("u".to_owned(), 0)]);
    assert_eq!(snapshot.stats()?.documents, 1);
    drop(snapshot);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn a_search_by_time_finds_the_nearest_of_many() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    // Ten thousand documents with fingerprints near 0. The farther the fingerprint, the later it is seen.
    let bits = |i: u64| {
        [
            0,
            1 << (i % 64),
            1 << (i % 64) | 1 << (i / 64 % 64),
            i | 0xff << 40,
        ][i as usize % 4]
    };
    let documents: Vec<Document> = (0..10_000)
        .map(|i| {
            document(format!("{i}"), bits(i))
                .with_seen(i64::from(bits(i).count_ones()) * 20_000 + i as i64)
        })
        .collect();
    insert_all(&database, documents.iter().cloned())?;
    let snapshot = database.snapshot()?;
    for since in [0, 25_000, 100_000, 177_000, 500_000] {
        for limit in [0, 1, 10, 100_000] {
            let query = query_of(0).near(Near::within(16).since(since)).limit(limit);
            let mut expected: Vec<&Document> = documents
                .iter()
                .filter(|it| {
                    it.seen() >= since
                        && it
                            .fingerprint()
                            .is_some_and(|it| it.bits().count_ones() <= 16)
                })
                .collect();
            // The nearest first. Of these the smallest fingerprint first, of these the newest.
            expected.sort_by_key(|it| {
                let fingerprint = it.fingerprint().map(Fingerprint::bits);
                (
                    fingerprint.map(u64::count_ones),
                    fingerprint,
                    std::cmp::Reverse(it.seen()),
                )
            });
            let more = expected.len() > limit;
            expected.truncate(limit);
            let found = snapshot.query(&query)?;
            let list: Vec<&Document> = found.iter().map(|it| &it.document).collect();
            assert!(
                list == expected,
                "since {since}, limit {limit}: {} of {}",
                list.len(),
                expected.len()
            );
            assert_eq!(
                found.total(),
                list.len() as u64 + u64::from(more),
                "{since}, {limit}"
            );
        }
        let query = query_of(0).near(Near::within(16).since(since));
        assert_eq!(snapshot.any_match(&query)?, since < 500_000);
    }
    Ok(())
}

#[test]
fn inserting_twice_is_inserting_once_and_delete_undoes_insert() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        [document("a", 1), document("b", 1), document("a", 1)],
    )?;
    assert_eq!(
        near(&database.snapshot()?, 1)?,
        [("a".to_owned(), 0), ("b".to_owned(), 0)]
    );
    let mut txn = database.begin_write()?;
    assert_eq!(txn.delete("a")?, Some(document("a", 1)));
    assert_eq!(txn.delete("a")?, None);
    assert_eq!(txn.delete("b")?, Some(document("b", 1)));
    txn.commit()?;
    let stats = database.snapshot()?.stats()?;
    assert_eq!((stats.documents, stats.fingerprints), (0, 0));
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn insert_if_new_sees_what_its_transaction_wrote_and_never_its_own_key() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let mut txn = database.begin_write()?;
    assert_eq!(
        *txn.insert_if_new(&document("a", 0), &Policy::link())?
            .change(),
        Change::Inserted
    );
    let verdict = txn.insert_if_new(&document("b", 0b111), &Policy::link())?;
    assert_eq!(listed(verdict.matches()), [("a".to_owned(), 3)]);
    assert!(verdict.is_duplicate());
    let again = txn.insert_if_new(&document("a", 0b1111), &Policy::link())?;
    assert_eq!(listed(again.matches()), [("b".to_owned(), 1)]);
    assert_eq!(*again.change(), Change::Replaced(document("a", 0)));
    let alone = txn.insert_if_new(&document("c", u64::MAX), &Policy::skip())?;
    let itself = txn.insert_if_new(&document("c", u64::MAX), &Policy::skip())?;
    assert!(!alone.is_duplicate() && !itself.is_duplicate());
    txn.commit()?;
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn skip_changes_nothing_even_if_the_key_exists() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 0), document("b", u64::MAX)])?;
    let mut txn = database.begin_write()?;
    let verdict = txn.insert_if_new(&document("b", 1), &Policy::skip())?;
    assert_eq!(*verdict.change(), Change::Skipped);
    assert_eq!(listed(verdict.matches()), [("a".to_owned(), 1)]);
    txn.commit()?;
    assert_eq!(
        database.snapshot()?.get("b")?,
        Some(document("b", u64::MAX))
    );
    Ok(())
}

#[test]
fn replace_lets_the_better_document_survive_and_ties_keep_the_incumbent() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let ranked = |key: &str, bits, rank: &[i64]| document(key, bits).with_rank(rank);
    let mut txn = database.begin_write()?;
    txn.insert(&ranked("a", 0b0001, &[1]))?;
    txn.insert(&ranked("b", 0b0010, &[2]))?;
    let tie = txn.insert_if_new(&ranked("c", 0, &[2]), &Policy::replace())?;
    assert_eq!(
        (tie.change(), tie.deleted().len(), tie.matches().total()),
        (&Change::Skipped, 0, 2)
    );
    let better = txn.insert_if_new(&ranked("c", 0, &[3]), &Policy::replace())?;
    assert_eq!(*better.change(), Change::Inserted);
    let deleted: Vec<&[u8]> = better.deleted().iter().map(Document::key).collect();
    assert_eq!(deleted, [b"a", b"b"]);
    txn.commit()?;
    assert_eq!(near(&database.snapshot()?, 0)?, [("c".to_owned(), 0)]);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn a_large_group_of_one_fingerprint_is_counted_and_listed_newest_first() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let scope = |i: usize| ["", "en", "zh"][i % 3];
    insert_all(
        &database,
        (0..3_000).map(|i| document(format!("{i:04}"), 7).with_scope(scope(i))),
    )?;
    let snapshot = database.snapshot()?;
    let all = snapshot.query(&query_of(7).limit(4))?;
    assert_eq!((all.total(), all.total_is_exact()), (3_000, true));
    let keys: Vec<String> = listed(&all).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["2999", "2998", "2997", "2996"]);
    let in_scopes = snapshot.query(
        &query_of(7)
            .limit(3)
            .near(Near::new().scopes(["en", "", "none"])),
    )?;
    let keys: Vec<String> = listed(&in_scopes).into_iter().map(|(key, _)| key).collect();
    assert_eq!(
        (in_scopes.total(), keys),
        (2_000, vec!["2998".into(), "2997".into(), "2995".into()])
    );
    assert_eq!(
        snapshot
            .query(&query_of(7).near(Near::new().scopes(["none"])))?
            .total(),
        0
    );
    assert_eq!(snapshot.query(&query_of(7).limit(0))?.total(), 3_000);
    assert_eq!(
        snapshot
            .query(&query_of(7).limit(usize::MAX))?
            .iter()
            .count(),
        3_000
    );
    Ok(())
}

/// A page that every site has: no query may go through all scopes.
#[test]
fn a_group_of_many_scopes_costs_no_more_than_one_of_a_single_scope() -> TestResult {
    /// A fingerprint that is as frequent as that of the page, and on one site.
    const ON_ONE_SITE: u64 = u64::MAX;
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..5_000).map(|i| document(format!("{i:04}"), 7).with_scope(format!("site {i}"))),
    )?;
    insert_all(
        &database,
        (0..5_000).map(|i| document(format!("one {i:04}"), ON_ONE_SITE).with_scope("site 1")),
    )?;
    let snapshot = database.snapshot()?;
    let ask = |bits: u64, second: &str| -> simdb::Result<Duration> {
        let begun = Instant::now();
        let found = snapshot.query(&query_of(bits).limit(2))?;
        let took = begun.elapsed();
        assert_eq!((found.total(), &listed(&found)[1].0[..]), (5_000, second));
        Ok(took)
    };
    // The shortest times, and in turn, since the machine may have other work.
    let mut many = Duration::MAX;
    let mut single = Duration::MAX;
    for _ in 0..200 {
        many = many.min(ask(7, "4998")?);
        single = single.min(ask(ON_ONE_SITE, "one 4998")?);
    }
    let one =
        snapshot.query(&query_of(7).near(Near::new().scopes(["site 17", "site 18", "site 17"])))?;
    assert_eq!((one.total(), &listed(&one)[0].0[..]), (2, "0018"));
    // When every scope was read, a query took a hundred times as long.
    assert!(many < 10 * single, "{many:?}, of a single scope {single:?}");
    let mut txn = database.begin_write()?;
    for i in 0..5_000 {
        txn.delete(format!("{i:04}"))?;
        txn.delete(format!("one {i:04}"))?;
    }
    txn.commit()?;
    drop(snapshot);
    assert_eq!(database.snapshot()?.stats()?.fingerprints, 0);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn totals_by_time_are_exact_up_to_the_limit_and_then_say_so() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..1_000).map(|i| document(i.to_string(), 7).with_seen(i)),
    )?;
    let snapshot = database.snapshot()?;
    let since = |seen| query_of(7).limit(10).near(Near::new().since(seen));
    let few = snapshot.query(&since(995))?;
    assert_eq!(
        (few.total(), few.total_is_exact(), few.iter().count()),
        (5, true, 5)
    );
    let ten = snapshot.query(&since(990))?;
    assert_eq!(
        (ten.total(), ten.total_is_exact(), ten.iter().count()),
        (10, true, 10)
    );
    let more = snapshot.query(&since(0))?;
    assert_eq!(
        (more.total(), more.total_is_exact(), more.iter().count()),
        (11, false, 10)
    );
    assert_eq!(snapshot.query(&since(1_000))?.total(), 0);
    Ok(())
}

#[test]
fn documents_too_short_to_judge_are_stored_and_match_nothing() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let mut txn = database.begin_write()?;
    for key in ["a", "b"] {
        let verdict = txn.insert_if_new(&Document::new(key, None), &Policy::skip())?;
        assert_eq!(
            (verdict.change(), verdict.is_duplicate()),
            (&Change::Inserted, false)
        );
    }
    txn.commit()?;
    let snapshot = database.snapshot()?;
    assert_eq!(snapshot.get("a")?.map(|it| it.fingerprint()), Some(None));
    assert_eq!(snapshot.query(&query_of(0).near(64))?.total(), 0);
    let stats = snapshot.stats()?;
    assert_eq!(
        (stats.documents, stats.too_short, stats.fingerprints),
        (2, 2, 0)
    );
    drop(snapshot);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn a_snapshot_does_not_change_and_may_outlive_its_database() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 1)])?;
    let before = database.snapshot()?;
    let mut txn = database.begin_write()?;
    txn.insert(&document("b", 1))?;
    txn.delete("a")?;
    assert_eq!(
        near(&database.snapshot()?, 1)?,
        [("a".to_owned(), 0)],
        "not committed yet"
    );
    txn.commit()?;
    assert_eq!(near(&database.snapshot()?, 1)?, [("b".to_owned(), 0)]);
    drop(database);
    assert_eq!(near(&before, 1)?, [("a".to_owned(), 0)]);
    assert_eq!(
        before.documents().collect::<simdb::Result<Vec<_>>>()?,
        [document("a", 1)]
    );
    Ok(())
}

#[test]
fn a_transaction_may_write_more_than_it_keeps_in_memory() -> TestResult {
    let folder = Folder::new()?;
    // Above 200 bytes, the documents of a transaction wait in a file.
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, [document("0", 7), document("before", 8)])?;
    let stored = |i: u64, bits: u64| document(i.to_string(), bits).with_payload(vec![i as u8; 50]);
    let mut txn = database.begin_write()?;
    for i in 0..300 {
        txn.insert(&stored(i, i << 20))?;
    }
    for i in (0..300).step_by(3) {
        assert_eq!(
            txn.delete(i.to_string())?,
            Some(stored(i, i << 20)),
            "written by this transaction"
        );
    }
    for i in (1..300).step_by(3) {
        assert_eq!(txn.insert(&stored(i, i << 30))?, Some(stored(i, i << 20)));
    }
    txn.delete("299")?;
    // No snapshot sees the transaction before its commit.
    assert_eq!(database.snapshot()?.stats()?.documents, 2);
    let right: Vec<_> = (0..299)
        .filter(|i| i % 3 > 0)
        .map(|i| stored(i, i << if i % 3 == 1 { 30 } else { 20 }))
        .collect();
    for document in right.iter().step_by(2) {
        assert_eq!(txn.insert(document)?.as_ref(), Some(document));
    }
    txn.commit()?;
    database.settle()?;
    assert_sound(&database)?;
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    assert_eq!(
        database.snapshot()?.stats()?.documents,
        1 + right.len() as u64
    );
    for document in &right {
        assert_eq!(
            database.snapshot()?.get(document.key())?.as_ref(),
            Some(document)
        );
    }
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn documents_out_of_bounds_are_refused_and_the_transaction_goes_on() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let mut txn = database.begin_write()?;
    txn.insert(&document("before", 1))?;
    assert_error!(txn.insert(&document("", 1)) => Error::KeyLength { bytes: 0, .. });
    assert_error!(
        txn.insert_if_new(&document([0; 5_000], 1), &Policy::link())
        => Error::KeyLength { bytes: 5_000, .. }
    );
    // A look-up said that there is no such document, as if there could be one.
    assert_error!(txn.delete("") => Error::KeyLength { bytes: 0, .. });
    assert_error!(txn.delete([b'k'; 4_097]) => Error::KeyLength { bytes: 4_097, .. });
    let snapshot = database.snapshot()?;
    assert_error!(snapshot.get("") => Error::KeyLength { bytes: 0, .. });
    assert_error!(snapshot.get([b'k'; 4_097]) => Error::KeyLength { bytes: 4_097, .. });
    assert_eq!(snapshot.get([b'k'; 4_096])?, None);
    let far = Policy::link().near(65);
    assert_error!(
        txn.insert_if_new(&document("k", 1), &far) => Error::MaxDistance { given: 65, .. }
    );
    txn.insert(&document([0xff; 4_096], 1))?;
    txn.commit()?;
    assert_eq!(database.snapshot()?.stats()?.documents, 2);
    let query = query_of(1).near(65);
    assert_error!(database.snapshot()?.query(&query) => Error::MaxDistance { given: 65, .. });
    Ok(())
}

#[test]
fn reopening_keeps_documents_whole_and_the_options_of_creation() -> TestResult {
    let folder = Folder::new()?;
    let options = simdb::CreateOptions::new()
        .max_distance(1)
        .sketch_size(SketchSize::Bytes32);
    let database = Database::create(folder.path("d.simdb"), &options.min_similarity(0.25))?;
    let sketch = Sketch::new(&[7; 32], 11)?;
    let full = document("k", 1)
        .with_sketch(sketch)
        .with_rank([1, -2])
        .with_scope("en")
        .with_payload([0, 255])
        .with_seen(-5);
    let far = document("far", 0b1110).with_sketch(sketch);
    insert_all(&database, [full.clone(), far])?;
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(database.snapshot()?.get("k")?, Some(full));
    assert_eq!(
        (database.max_distance(), database.scheme().name()),
        (1, "minwise-1")
    );
    assert_eq!(
        (database.sketch_size(), database.min_similarity()),
        (SketchSize::Bytes32, Some(0.25))
    );
    assert_eq!(
        near(&database.snapshot()?, 1)?.len(),
        1,
        "the max distance of creation is the default"
    );
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn check_needs_the_database_for_itself() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let snapshots = [database.snapshot()?, database.snapshot()?];
    let refused = database.check();
    assert_error!(&refused => Error::InUse { snapshots: 2, transaction: false, .. });
    let txn = database.begin_write()?;
    let refused = database.check().expect_err("it is in use").to_string();
    assert!(
        refused.contains("snapshots of this database: 2, open write transactions: 1"),
        "{refused}"
    );
    drop(snapshots);
    let refused = database.check();
    assert_error!(&refused => Error::InUse { snapshots: 0, transaction: true, .. });
    drop(txn);
    // It waited for the compaction that waited for it.
    let compacted = database.compact(|_, _| {
        assert_error!(database.check() => Error::InUse { .. });
        ControlFlow::Break(())
    });
    assert_error!(compacted => Error::Interrupted);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn check_tells_its_progress_up_to_the_end() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, keyed(0..500, |i| i << 40))?;
    database.settle()?;
    let mut told = Vec::new();
    let report = database.check_with(going_on(|done, all| told.push((done, all))))?;
    assert!(report.is_sound() && told.len() > 10, "{report:?}, {told:?}");
    assert!(
        told.is_sorted() && told.last().is_some_and(|last| last.0 == last.1),
        "{told:?}"
    );
    Ok(())
}
