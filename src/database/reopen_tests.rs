//! Opening the file again, with the same handle, after the disk has failed.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Database, Snapshot};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::memory::Cache;
use crate::{CreateOptions, Near, OpenOptions, Query, Scheme};

fn insert(database: &Database, keys: std::ops::Range<u64>) -> Result<()> {
    let mut txn = database.begin_write()?;
    for key in keys {
        let fingerprint = Fingerprint::from_bits(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        txn.insert(&Document::new(key.to_string(), fingerprint).with_seen(0))?;
    }
    txn.commit()
}

/// A database with a hundred documents, in many small levels.
fn database(folder: &tempfile::TempDir, cache_bytes: usize) -> Result<Database> {
    let options = CreateOptions::new()
        .scheme(Scheme::External)
        .recent_documents(8)
        .tiny_blocks();
    let options = options.cache(Cache::Bytes(cache_bytes));
    let database = Database::create(folder.path().join("d.simdb"), &options)?;
    (0..10).try_for_each(|i| insert(&database, i * 10..i * 10 + 10))?;
    database.settle()?;
    Ok(database)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Lets a commit fail, then repairs the disk.
fn fail_once(database: &Database) {
    database.store.set_broken(true);
    let failed = insert(database, 900..903);
    assert!(failed.is_err(), "the disk is broken");
    database.store.set_broken(false);
}

/// The number of documents, all of which can be read.
fn read_all(snapshot: &Snapshot) -> Result<u64> {
    let mut count = 0;
    for document in snapshot.documents() {
        let document = document?;
        assert_eq!(snapshot.get(document.key())?, Some(document));
        count += 1;
    }
    Ok(count)
}

/// It was a matter of some hundred thousand queries.
#[test]
fn what_queries_read_can_be_put_in_memory_at_once() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("d.simdb");
    database(&folder, 1 << 24)?.close()?;
    let opened = |cache| Database::open(&path, &OpenOptions::new().cache(Cache::Bytes(cache)));

    let database = opened(1 << 24)?;
    let mut told = Vec::new();
    database.warm(|done, all| {
        told.push((done, all));
        ControlFlow::Continue(())
    })?;
    let &(_, all) = told.last().expect("there are rows");
    assert!(told.is_sorted() && told.len() > 10, "{told:?}");
    assert_eq!(told.last(), Some(&(all, all)));
    let misses = database.metrics().cache_misses;
    let snapshot = database.snapshot()?;
    for bits in [0, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
        for distance in [0, 3, 8] {
            let near = Near::new().max_distance(distance);
            let query = Query::new(Fingerprint::from_bits(bits)).limit(0);
            snapshot.query(&query.near(near))?;
        }
    }
    assert_eq!(database.metrics().cache_misses, misses, "a block was read");
    // Of what is there, nothing is made again.
    let memory = database.metrics().cache_bytes;
    database.warm(|_, _| ControlFlow::Continue(()))?;
    assert_eq!(database.metrics().cache_bytes, memory);
    drop(snapshot);
    database.close()?;

    // Nobody wants the rest, and there is no room.
    let database = opened(1 << 24)?;
    let mut calls = 0;
    let stopped = database.warm(|_, _| {
        calls += 1;
        ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    assert_eq!(calls, 1);
    drop(database);
    let database = opened(0)?;
    database.warm(|_, _| ControlFlow::Continue(()))?;
    assert_eq!(read_all(&database.snapshot()?)?, 100);
    Ok(())
}

/// Every handle and every snapshot had to be dropped, and another process could get the file in between.
#[test]
fn a_handle_goes_on_with_what_the_file_holds_and_keeps_its_lock() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 1 << 20)?;
    let done = AtomicBool::new(false);
    let tries = AtomicUsize::new(0);
    thread::scope(|scope| {
        let intruder = scope.spawn(|| {
            let begun = Instant::now();
            while !done.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                let opened = Database::open(folder.path().join("d.simdb"), &OpenOptions::new());
                assert!(matches!(opened, Err(Error::Busy { .. })), "{opened:?}");
                tries.fetch_add(1, Ordering::Relaxed);
            }
        });
        let rounds = (0..5).try_for_each(|round| {
            // It has tried since the last round.
            let before = tries.load(Ordering::Relaxed);
            while tries.load(Ordering::Relaxed) == before && !intruder.is_finished() {
                thread::yield_now();
            }
            fail_once(&database);
            let refused = insert(&database, 0..1);
            // If the disk failed while the transaction read, nothing was committed.
            assert!(
                matches!(
                    refused,
                    Err(Error::OutcomeUnknown { .. } | Error::Storage(_))
                ),
                "{refused:?}"
            );
            database.reopen()?;
            assert_eq!(
                read_all(&database.snapshot()?)?,
                100 + round,
                "the failed commit is not there"
            );
            insert(&database, 100 + round..101 + round)
        });
        done.store(true, Ordering::Relaxed);
        intruder.join().expect("nobody gets in");
        rounds
    })?;
    // Merges go on too.
    insert(&database, 200..260)?;
    database.settle()?;
    assert_eq!(read_all(&database.snapshot()?)?, 165);
    let report = database.check()?;
    assert!(report.is_sound(), "{report:?}");
    drop(database);
    let database = Database::open(folder.path().join("d.simdb"), &OpenOptions::new())?;
    assert_eq!(read_all(&database.snapshot()?)?, 165);
    Ok(())
}

/// The engine writes over pages that an old snapshot still reads, since it does not know of that snapshot.
#[test]
fn an_old_snapshot_answers_rightly_or_says_that_it_cannot() -> Result<()> {
    let folder = folder();
    // Without a cache, nearly everything is read from the file.
    let database = database(&folder, 0)?;
    let old = database.snapshot()?;
    assert_eq!(read_all(&old)?, 100);
    fail_once(&database);
    database.reopen()?;
    for round in 0..8 {
        insert(&database, 0..50)?;
        insert(&database, 1_000 + round * 40..1_040 + round * 40)?;
    }
    database.settle()?;
    let mut refused = 0;
    for key in 0..1_400u64 {
        match old.get(key.to_string()) {
            Ok(found) => assert_eq!(found.is_some(), key < 100, "{key}"),
            Err(Error::Reopened) => refused += 1,
            Err(error) => return Err(error),
        }
        let fingerprint = Fingerprint::from_bits(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match old.query(&Query::new(fingerprint).near(0)) {
            Ok(found) => assert_eq!(found.total(), u64::from(key < 100), "{key}"),
            Err(Error::Reopened) => refused += 1,
            Err(error) => return Err(error),
        }
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(read_all(&database.snapshot()?)?, 420);
    Ok(())
}

#[test]
fn opening_again_fails_while_the_cause_is_there_and_can_be_repeated() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 1 << 20)?;
    let old = database.snapshot()?;
    database.store.set_broken(true);
    assert!(insert(&database, 100..101).is_err());
    for _ in 0..3 {
        assert!(matches!(
            database.reopen(),
            Err(Error::Io { .. } | Error::Storage(_))
        ));
        assert!(matches!(
            insert(&database, 100..101),
            Err(Error::OutcomeUnknown { .. })
        ));
        assert!(
            matches!(database.snapshot(), Err(Error::OutcomeUnknown { .. })),
            "nothing can be read"
        );
        let intruder = Database::open(folder.path().join("d.simdb"), &OpenOptions::new());
        assert!(matches!(intruder, Err(Error::Busy { .. })), "{intruder:?}");
    }
    database.store.set_broken(false);
    database.reopen()?;
    insert(&database, 100..101)?;
    assert_eq!(read_all(&database.snapshot()?)?, 101);
    drop(old);
    assert!(database.check()?.is_sound());
    Ok(())
}

/// The engine refuses to read on after one error, also when the disk is well again.
#[test]
fn a_handle_that_could_not_read_reads_again() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 0)?;
    let old = database.snapshot()?;
    database.store.set_broken(true);
    assert!(read_all(&database.snapshot()?).is_err());
    database.store.set_broken(false);
    assert!(
        read_all(&database.snapshot()?).is_err(),
        "one error is enough"
    );
    database.reopen()?;
    assert_eq!(read_all(&database.snapshot()?)?, 100);
    insert(&database, 100..110)?;
    assert!(matches!(read_all(&old), Err(Error::Reopened)));
    Ok(())
}

/// A handle that has not failed is left alone, and so are its snapshots.
#[test]
fn a_handle_that_has_not_failed_is_not_opened_again() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 0)?;
    let old = database.snapshot()?;
    database.reopen()?;
    insert(&database, 100..110)?;
    assert_eq!(
        (read_all(&old)?, read_all(&database.snapshot()?)?),
        (100, 110)
    );
    drop((database, old));
    let reader = Database::open(
        folder.path().join("d.simdb"),
        &OpenOptions::new().read_only(true),
    )?;
    let snapshot = reader.snapshot()?;
    reader.reopen()?;
    assert_eq!(
        (read_all(&snapshot)?, read_all(&reader.snapshot()?)?),
        (110, 110)
    );
    Ok(())
}

/// Reads that touch the disk, one of which fails.
fn fail_to_read_once(database: &Database) -> Result<()> {
    let snapshot = database.snapshot()?;
    database.store.set_broken(true);
    let read = snapshot.get(b"7");
    database.store.set_broken(false);
    assert!(read.is_err(), "{read:?}");
    let again = snapshot.get(b"7");
    assert!(again.is_err(), "the engine refuses to go on: {again:?}");
    Ok(())
}

/// A handle that is open read-only said that it goes on, and could read nothing.
#[test]
fn a_handle_goes_on_behind_a_read_that_failed_also_a_read_only_one() -> Result<()> {
    let folder = folder();
    drop(database(&folder, 0)?);
    for is_read_only in [false, true] {
        let options = OpenOptions::new().cache(Cache::Bytes(0));
        let options = options.read_only(is_read_only);
        let database = Database::open(folder.path().join("d.simdb"), &options)?;
        fail_to_read_once(&database)?;
        database.reopen()?;
        assert_eq!(read_all(&database.snapshot()?)?, 100, "{is_read_only}");
    }
    Ok(())
}

/// One page that could not be read once, and a server answered nobody any more.
#[cfg(all(unix, feature = "serve"))]
#[test]
fn a_server_goes_on_behind_a_read_that_failed() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 0)?;
    let begun = Instant::now();
    let mut has_failed = false;
    database.serve_until(|_| {
        if !has_failed {
            has_failed = true;
            fail_to_read_once(&database).expect("a snapshot can be had");
        }
        let read = database.snapshot().and_then(|snapshot| snapshot.get(b"7"));
        if read.is_ok_and(|document| document.is_some()) {
            return ControlFlow::Break(());
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
        ControlFlow::Continue(())
    })
}

/// A check that was refused emptied the cache.
#[test]
fn a_check_that_is_refused_changes_nothing() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 1 << 20)?;
    read_all(&database.snapshot()?)?;
    let snapshot = database.snapshot()?;
    insert(&database, 100..101)?;
    let before = database.metrics().cache_bytes;
    let refused = database.check();
    assert!(
        matches!(refused, Err(Error::InUse { snapshots: 1, .. })),
        "{refused:?}"
    );
    let after = database.metrics().cache_bytes;
    assert!(after >= before && before > 0, "{before}, {after}");
    drop(snapshot);
    assert!(database.check()?.is_sound());
    Ok(())
}

/// It was refused for no snapshots and no transaction.
#[test]
fn a_check_waits_for_those_who_read_for_a_moment() -> Result<()> {
    let folder = folder();
    let database = database(&folder, 1 << 20)?;
    let view = database.store.view()?;
    thread::scope(|scope| {
        let check = scope.spawn(|| database.check());
        thread::sleep(Duration::from_millis(50));
        assert!(!check.is_finished(), "the file is read");
        drop(view);
        let checked = check.join().expect("a check does not panic")?;
        assert!(checked.is_sound());
        Ok(())
    })
}
