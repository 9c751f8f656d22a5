//! Windows of time: queries since a time, expiry by time and by scope, touching, and a file over which a
//! window moves.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use simdb::{Change, Database, Document, Expiry, Fingerprint, Near, Policy, Query, Snapshot};

use crate::support::{
    Folder, TestResult, all_documents, all_keys, assert_sound, document, done, every, external,
    go_on, in_one_of_five_tries, insert_all, query_of, run,
};

/// Fingerprints that are far from each other.
fn spread(i: u64) -> u64 {
    (i + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn expire(database: &Database, expiry: &Expiry) -> simdb::Result<u64> {
    database.expire(expiry, every)
}

/// The shortest time of some calls, in seconds.
fn shortest(mut call: impl FnMut() -> simdb::Result<()>) -> simdb::Result<f64> {
    let mut shortest = f64::MAX;
    for _ in 0..50 {
        let begun = Instant::now();
        call()?;
        shortest = shortest.min(begun.elapsed().as_secs_f64());
    }
    Ok(shortest)
}

/// A walk went through every older document of a fingerprint. With 30,000 of them it took thousands of times as
/// long as without.
#[test]
fn older_documents_of_a_fingerprint_cost_a_search_by_time_nothing() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.database("d.simdb")?;
    let hot = |i: u64| document(format!("hot {i}"), 7).with_seen(i as i64 / 1_000);
    let other = |i: u64| document(format!("other {i}"), spread(i)).with_seen(i as i64);
    insert_all(&database, (0..30_000).map(hot))?;
    insert_all(&database, (0..30_000).map(other))?;
    // An archive that came late, between news: the times are not in the order of the numbers.
    insert_all(
        &database,
        (30_000..60_000).map(|i| if i % 3_000 == 0 { other(i) } else { hot(i) }),
    )?;
    database.settle()?;
    let snapshot = database.snapshot()?;
    for since in [10_000, 29_000, 1 << 30] {
        let query = |bits| query_of(bits).near(Near::new().since(since));
        assert_eq!(snapshot.query(&query(7))?.total(), 0);
        let without = shortest(|| snapshot.query(&query(spread(1 << 40))).map(drop))?;
        let with = shortest(|| snapshot.query(&query(7)).map(drop))?;
        let any = shortest(|| snapshot.any_match(&query(7)).map(drop))?;
        let mut txn = database.begin_write()?;
        let policy = Policy::skip().near(Near::new().since(since));
        let verdict = shortest(|| txn.insert_if_new(&document("hot 1", 7), &policy).map(drop))?;
        drop(txn);
        // A walk would take some milliseconds.
        let most = 20.0 * without + 200e-6;
        assert!(
            with < most && any < most && verdict < most,
            "{with} {any} {verdict} {without}"
        );
    }
    // What is recent enough is found, in whatever order it came.
    insert_all(&database, [hot(70_000).with_seen(50_000)])?;
    insert_all(&database, (70_001..72_000).map(hot))?;
    let found = database
        .snapshot()?
        .query(&query_of(7).near(Near::new().since(50_000)))?;
    assert_eq!(
        (found.total(), found.nearest().map(|it| it.document.key())),
        (1, Some(&b"hot 70000"[..]))
    );
    Ok(())
}

/// The documents that the transaction itself has written count too, also among many that are too old.
#[test]
fn a_transaction_finds_its_own_recent_documents() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..1_000).map(|i| document(format!("stored {i}"), 7).with_seen(i)),
    )?;
    let mut txn = database.begin_write()?;
    let policy = Policy::link().near(Near::new().since(5_000)).limit(3);
    for i in 0..1_000u64 {
        let seen = if i % 400 == 0 { 5_000 + i as i64 } else { 10 };
        let verdict =
            txn.insert_if_new(&document(format!("new {i}"), 7).with_seen(seen), &policy)?;
        let right: Vec<_> = (0..i.div_ceil(400))
            .rev()
            .map(|it| format!("new {}", it * 400))
            .collect();
        let found: Vec<_> = verdict
            .matches()
            .iter()
            .map(|it| String::from_utf8_lossy(it.document.key()).into_owned())
            .collect();
        assert_eq!(found, right, "{i}");
    }
    Ok(())
}

/// A document of a stream: every fifth is a near-duplicate of an earlier one, some have no fingerprint.
fn of_stream(i: u64) -> Document {
    let bits = if i.is_multiple_of(5) {
        spread(i / 2) ^ 1
    } else {
        spread(i)
    };
    let fingerprint = (!i.is_multiple_of(11)).then(|| Fingerprint::from_bits(bits));
    let scope = ["", "a", "b"][i as usize % 3];
    Document::new(format!("page {i}"), fingerprint)
        .with_seen(i as i64)
        .with_scope(scope)
}

/// A payload that cannot be compressed.
fn noise(seed: u64) -> Vec<u8> {
    (0..125)
        .flat_map(|i| spread(seed * 125 + i).to_le_bytes())
        .collect()
}

/// If neither whole blocks were cut nor blocks with many dead documents written anew, the file would be some
/// twenty times as large. The engine gives back the end of a file only when half of it is free. So the file may be as
/// long for some turns as it once had to be, and the least size of the last turns is compared: in most runs 1.5 times
/// that of a fresh file, and of 200 under load 4.3 at most.
#[test]
fn what_leaves_a_window_leaves_the_file() -> TestResult {
    const WINDOW: u64 = 120;
    const TURNS: u64 = 60;
    const LAST: u64 = 40;
    let folder = Folder::in_memory()?;
    let options = external().recent_documents(32).tiny_blocks();
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let fresh = Database::create(folder.path("fresh.simdb"), &options)?;
    let sizes = |database: &Database| -> simdb::Result<_> {
        database.settle()?;
        Ok(database.snapshot()?.stats()?.allocated_bytes)
    };
    let mut fresh_bytes = 0;
    let mut bytes = u64::MAX;
    for turn in 0..TURNS {
        let begin = turn * WINDOW;
        for first in (begin..begin + WINDOW).step_by(30) {
            let mut txn = database.begin_write()?;
            let policy = Policy::skip()
                .touch(true)
                .near(Near::new().since(first as i64 - WINDOW as i64));
            let documents: Vec<_> = (first..first + 30)
                .map(|i| of_stream(i).with_payload(noise(i)))
                .collect();
            txn.insert_batch_if_new(&documents, &policy)?;
            if first.is_multiple_of(60) {
                txn.touch(
                    format!("page {}", first.saturating_sub(WINDOW / 2)),
                    first as i64,
                )?;
            }
            txn.commit()?;
            // How far merges lag behind is a matter of the machine, and the file is as long as it once had to be.
            database.settle()?;
            expire(
                &database,
                &Expiry::new().before(first as i64 - WINDOW as i64),
            )?;
            database.settle()?;
        }
        if turn == 1 {
            let kept = all_documents(&database)?;
            for some in kept.chunks(30) {
                insert_all(&fresh, some.iter().cloned())?;
                fresh_bytes = sizes(&fresh)?;
            }
        }
        if turn >= TURNS - LAST {
            bytes = bytes.min(sizes(&database)?);
        }
    }
    let documents = all_documents(&database)?;
    let end = (TURNS * WINDOW) as i64;
    assert!(
        documents
            .iter()
            .all(|it| it.seen() >= end - 30 - WINDOW as i64)
    );
    assert!(documents.len() as u64 > WINDOW / 2, "{}", documents.len());
    assert!(
        bytes < fresh_bytes * 6,
        "{bytes} bytes, and {fresh_bytes} for a fresh file"
    );
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn an_expiry_that_is_stopped_is_finished_by_the_next() -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let database = folder.tiny_database("d.simdb")?;
    for first in (0..400).step_by(10) {
        insert_all(&database, (first..first + 10).map(of_stream))?;
    }
    let expiry = Expiry::new().before(300);
    let mut steps = Vec::new();
    let removed = database.expire(&expiry, |removed| {
        steps.push(removed);
        if removed >= 100 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    assert!(
        (100..150).contains(&removed) && steps.len() > 5 && steps.is_sorted(),
        "{steps:?}"
    );
    assert_sound(&database)?;
    drop(database);
    let database = Database::open(&path, &crate::support::tiny())?;
    assert_eq!(expire(&database, &expiry)?, 300 - removed);
    assert_eq!(expire(&database, &expiry)?, 0);
    let mut right: Vec<_> = (300..400).map(|i| format!("page {i}")).collect();
    right.sort();
    assert_eq!(all_keys(&database.snapshot()?)?, right);
    assert_eq!(
        expire(&database, &Expiry::new())?,
        0,
        "without a condition nothing goes"
    );
    assert_sound(&database)?;
    Ok(())
}

/// A scope goes as a whole, also its documents without a fingerprint, which no posting lists.
#[test]
fn a_scope_goes_as_a_whole_or_by_time() -> TestResult {
    for other in [0, 5_000] {
        let folder = Folder::in_memory()?;
        let options = external().recent_documents(200).tiny_blocks();
        let database = Database::create(folder.path("d.simdb"), &options)?;
        let other =
            (0..other).map(|i| document(format!("other {i}"), spread(i + 1_000)).with_scope("c"));
        insert_all(&database, other.clone())?;
        insert_all(&database, (0..900).map(of_stream))?;
        let remaining = |keeps: &dyn Fn(&Document) -> bool| {
            let all = (0..900).map(of_stream).chain(other.clone()).filter(keeps);
            let mut keys: Vec<_> = all
                .map(|it| String::from_utf8_lossy(it.key()).into_owned())
                .collect();
            keys.sort();
            keys
        };
        assert_eq!(
            expire(&database, &Expiry::new().scopes(["a"]).before(450))?,
            150
        );
        assert_eq!(
            all_keys(&database.snapshot()?)?,
            remaining(&|it| it.scope() != "a" || it.seen() >= 450)
        );
        assert_sound(&database)?;
        assert_eq!(
            expire(&database, &Expiry::new().scopes(["a", "none such"]))?,
            150
        );
        assert_eq!(
            all_keys(&database.snapshot()?)?,
            remaining(&|it| it.scope() != "a")
        );
        assert_eq!(expire(&database, &Expiry::new().scopes([""]))?, 300);
        assert_eq!(
            all_keys(&database.snapshot()?)?,
            remaining(&|it| it.scope() == "b" || it.scope() == "c")
        );
        assert_eq!(
            expire(&database, &Expiry::new().scopes(Vec::<String>::new()))?,
            0
        );
        assert_sound(&database)?;
    }
    Ok(())
}

/// For each block, the whole directory was gone through for documents without a fingerprint: of 50,000 documents each
/// took 2.8 µs, and of 200,000 each took 16.
#[test]
fn an_expiry_by_scope_takes_as_long_for_each_document_of_many() -> TestResult {
    let folder = Folder::in_memory()?;
    let of_documents = |documents: u64| -> TestResult<(Snapshot, u64)> {
        let options = external().tiny_blocks();
        let database = Database::create(folder.path(&documents.to_string()), &options)?;
        let of_two =
            |i: u64| document(i.to_string(), spread(i)).with_scope(["a", "b"][i as usize % 2]);
        insert_all(&database, (0..documents).map(of_two))?;
        Ok((database.snapshot()?, documents))
    };
    let few_and_many = [of_documents(50_000)?, of_documents(200_000)?];
    let expiry = Expiry::new().scopes(["a"]);
    in_one_of_five_tries(|_| {
        let mut least = [f64::MAX; 2];
        for _ in 0..3 {
            for ((snapshot, documents), least) in few_and_many.iter().zip(&mut least) {
                let begun = Instant::now();
                let listed = snapshot.to_expire(&expiry, every)?;
                *least = least.min(begun.elapsed().as_secs_f64() / *documents as f64);
                assert_eq!(listed, documents / 2);
            }
        }
        let [few, many] = least;
        let told = format!("{few} s a document of few, {many} of many");
        Ok((many >= 3.0 * few).then_some(told))
    })
}

/// What others write between the steps is neither lost nor forgotten: new documents of the fingerprints that
/// go, removals of documents that are about to go, replacements.
#[test]
fn others_write_while_documents_expire() -> TestResult {
    let folder = Folder::in_memory()?;
    let options = external().recent_documents(40).tiny_blocks();
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let bits = |i: u64| spread(i / 3);
    let stored = |i: u64| document(format!("old {i}"), bits(i)).with_seen(1);
    for first in (0..1_200).step_by(60) {
        insert_all(&database, (first..first + 60).map(stored))?;
    }
    let is_done = AtomicBool::new(false);
    let (written, removed) = thread::scope(|scope| {
        let writer = scope.spawn(|| -> simdb::Result<_> {
            let (mut i, mut deleted) = (0, 0);
            while !is_done.load(Ordering::Relaxed) || i < 10 {
                let mut txn = database.begin_write()?;
                let at = 1_200 - (i * 37) % 1_200;
                txn.insert(&document(format!("new {i}"), bits(at)).with_seen(100))?;
                let old = txn.delete(format!("old {}", 1_200 - (i * 53) % 1_200))?;
                deleted += u64::from(old.is_some_and(|it| it.seen() == 1));
                if let Some(old) =
                    txn.insert(&document(format!("old {}", i % 1_200), bits(i)).with_seen(100))?
                {
                    deleted += u64::from(old.seen() == 1);
                }
                txn.commit()?;
                thread::sleep(Duration::from_millis(1));
                i += 1;
            }
            Ok((i, deleted))
        });
        let removed = expire(&database, &Expiry::new().before(50));
        is_done.store(true, Ordering::Relaxed);
        (writer.join(), removed)
    });
    let (new, deleted) = written.map_err(|_| "the writer has panicked")??;
    assert_eq!(removed? + deleted, 1_200);
    let documents = all_documents(&database)?;
    assert!(documents.iter().all(|it| it.seen() == 100));
    let kept = documents
        .iter()
        .filter(|it| it.key().starts_with(b"new"))
        .count();
    assert_eq!(kept as u64, new);
    for document in &documents {
        let query = Query::new(document.fingerprint().ok_or("it has one")?).near(0);
        assert!(database.snapshot()?.any_match(&query)?);
    }
    assert_sound(&database)?;
    Ok(())
}

/// What was prepared for one file was applied to the copy that a compaction had put in its place: to other tables, or
/// to documents that were gone.
#[test]
fn an_expiry_begins_anew_when_a_compaction_came_between() -> TestResult {
    const DOCUMENTS: u64 = 120_000;
    let folder = Folder::new()?;
    let options = external().max_distance(3).plan("4x16");
    let expiry = Expiry::new().before(1500);
    let filled = |name: &str| -> simdb::Result<Database> {
        let database = Database::create(folder.path(name), &options)?;
        let of_time = |i: u64| {
            document(format!("key {i}"), spread(i)).with_seen([1000, 2000][i as usize % 2])
        };
        insert_all(&database, (0..DOCUMENTS).map(of_time))?;
        database.settle()?;
        Ok(database)
    };
    let delete = |database: &Database, number: u64| -> simdb::Result<bool> {
        let mut txn = database.begin_write()?;
        let deleted = txn.delete(format!("key {number}").as_bytes())?;
        txn.commit()?;
        Ok(deleted.is_some())
    };
    let compact = |database: &Database, plan: &str| database.compact_with_plan(plan, go_on);
    for plan in ["4x16", "3x21"] {
        // Between two steps.
        let database = filled(&format!("steps {plan}"))?;
        let mut deleted = 0;
        let removed = database.expire(&expiry, |removed| {
            if deleted == 0 && removed > 0 {
                deleted = u64::from(delete(&database, DOCUMENTS - 2).expect("it can be deleted"));
                compact(&database, plan).expect("it can be compacted");
            }
            ControlFlow::Continue(())
        })?;
        assert_eq!(removed + deleted, DOCUMENTS / 2);
        assert_sound(&database)?;

        // While a step waits for its turn. As many commits come between as there were before.
        let database = filled(&format!("turns {plan}"))?;
        compact(&database, "4x16")?;
        for number in [2, 4] {
            delete(&database, number)?;
        }
        let txn = database.begin_write()?;
        let removed = thread::scope(|scope| -> simdb::Result<u64> {
            let wait = || thread::sleep(Duration::from_millis(100));
            let compaction = scope.spawn(|| compact(&database, plan));
            wait();
            let mut deletions = Vec::new();
            // With them, the numbers of documents would tell that something has changed.
            let between = if plan == "4x16" { &[10, 12][..] } else { &[] };
            for &number in between {
                let database = &database;
                deletions.push(scope.spawn(move || delete(database, number)));
                wait();
            }
            let expiring = scope.spawn(|| expire(&database, &expiry));
            wait();
            drop(txn);
            compaction.join().expect("no panic")?;
            let removed = expiring.join().expect("no panic")?;
            let mut deleted = 0;
            for deletion in deletions {
                deleted += u64::from(deletion.join().expect("no panic")?);
            }
            Ok(removed + deleted + 2)
        })?;
        assert_eq!(removed, DOCUMENTS / 2);
        assert_sound(&database)?;
        assert_eq!(database.snapshot()?.stats()?.documents, DOCUMENTS / 2);
    }
    Ok(())
}

#[test]
fn a_touched_document_stays_in_the_window() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    let original = document("a", 7)
        .with_seen(100)
        .with_scope("s")
        .with_rank([3])
        .with_payload("p");
    insert_all(
        &database,
        [original.clone(), document("b", 0xffff_0000).with_seen(100)],
    )?;
    let mut txn = database.begin_write()?;
    assert!(txn.touch("a", 50)?, "an earlier time is counted");
    assert!(!txn.touch("none", 500)?);
    let policy = Policy::skip().touch(true).limit(0);
    let verdict = txn.insert_if_new(&document("c", 7 ^ 1).with_seen(300), &policy)?;
    assert_eq!(
        (verdict.change(), verdict.matches().total()),
        (&Change::Skipped, 1)
    );
    // Without the option nothing is touched.
    txn.insert_if_new(&document("d", 7).with_seen(900), &Policy::skip())?;
    // A document that loses against a better one touches it too.
    let verdict = txn.insert_if_new(
        &document("e", 0xffff_0000).with_seen(400),
        &Policy::replace().touch(true),
    )?;
    assert_eq!(verdict.change(), &Change::Skipped);
    assert_eq!(
        verdict.matches().nearest().map(|it| it.document.seen()),
        Some(100),
        "as it was before"
    );
    txn.commit()?;
    let snapshot = database.snapshot()?;
    let touched = original.with_seen(300).with_repeats(2);
    assert_eq!(snapshot.get("a")?, Some(touched));
    let touched = snapshot.get("b")?;
    assert_eq!(touched.map(|it| (it.seen(), it.repeats())), Some((400, 1)));
    assert_eq!(snapshot.stats()?.documents, 2);
    drop(snapshot);
    assert_eq!(expire(&database, &Expiry::new().before(400))?, 1);
    assert_eq!(all_keys(&database.snapshot()?)?, ["b"]);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn the_program_expires_deletes_scopes_and_touches() -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let lines = |first: u64, last: u64| -> String {
        let line = |i: u64| {
            let bits = format!("{:016x}", spread(i));
            json!({"key": format!("k{i}"), "fingerprint": bits, "seen": i, "scope": format!("s{}", i % 3)})
        };
        (first..last).map(|i| format!("{}\n", line(i))).collect()
    };
    let input = folder.file("in.jsonl", lines(0, 90))?;
    done!("ingest", &path, &input, "--scheme external");
    let removed = done!("expire", &path, "--before 1970-01-01T00:00:30Z --json").object()?;
    assert_eq!(removed, json!({"removed": 30}));
    assert_eq!(
        done!("expire", &path, "--before 45 --scope s0").out,
        "removed 5 documents\n"
    );
    assert_eq!(
        done!("delete", &path, "--scope s1 --scope s2").out,
        "removed 40 documents\n"
    );
    run!("delete", &path).expect(2);
    run!("delete", &path, "k60 --scope s0").expect(2);
    run!("expire", &path).expect(2);
    run!("expire", &path, "--before someday").refused("2020-01-31");
    let same = json!({"key": "again", "fingerprint": format!("{:016x}", spread(60)), "seen": 500});
    let input = folder.file("again.jsonl", format!("{same}\n"))?;
    done!("ingest", &path, &input, "--on-duplicate skip --touch");
    assert_eq!(done!("get", &path, "k60 --json").object()?["seen"], 500);
    assert_eq!(
        done!("expire", &path, "--before 400").out,
        "removed 14 documents\n"
    );
    assert_eq!(done!("stats", &path, "--json").object()?["documents"], 1);
    done!("check", &path);
    Ok(())
}
