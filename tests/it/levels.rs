//! The levels after a history of changes: every order of insertion, deletion and insertion again at every
//! depth, replaced documents, hot fingerprints.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use simdb::{Database, OpenOptions, Policy, Snapshot};

use crate::support::{
    Folder, TestResult, assert_sound, document, external, go_on, in_one_of_five_tries, insert_all,
    listed, numbered, query_of, spread, tiny, wait_until,
};

/// How deep a row is pushed before its next change.
#[derive(Clone, Copy)]
enum Depth {
    /// It stays in memory and in the log.
    Recent,
    /// It is merged into the first level.
    First,
    /// Other rows follow until it is in the last level.
    Last,
}

impl Depth {
    fn push(self, database: &Database, filler: &mut u64) -> simdb::Result<()> {
        let documents = match self {
            Self::Recent => 0,
            Self::First => 9,
            Self::Last => 500,
        };
        let filling = |i: u64| document(format!("filler {i}"), spread(i) | 1);
        // More documents in one commit would become a level of their own, above the row.
        for first in (0..documents).step_by(16) {
            insert_all(
                database,
                (first..documents.min(first + 16)).map(|i| filling(*filler + i)),
            )?;
        }
        *filler += documents;
        if documents > 0 {
            database.settle()
        } else {
            Ok(())
        }
    }
}

/// Inserts a document, deletes it and inserts another with its fingerprint. Each change is pushed to a
/// depth, and queried after.
fn put_delete_put(first: Depth, second: Depth, third: Depth) -> TestResult {
    let folder = Folder::in_memory()?;
    let mut database = folder.tiny_database("d.simdb")?;
    let mut filler = 1;
    // An even fingerprint. The fingerprints of fillers are odd.
    let bits = 0x0123_4567_89ab_cdee;
    let found = |database: &Database| -> simdb::Result<_> {
        let matches = database.snapshot()?.query(&query_of(bits).near(0))?;
        Ok(listed(&matches))
    };
    // Some levels are there already.
    Depth::Last.push(&database, &mut filler)?;
    insert_all(&database, [document("a", bits)])?;
    first.push(&database, &mut filler)?;
    assert_eq!(found(&database)?, [("a".to_owned(), 0)]);
    let mut txn = database.begin_write()?;
    txn.delete("a")?;
    txn.commit()?;
    second.push(&database, &mut filler)?;
    assert_eq!(found(&database)?, []);
    insert_all(&database, [document("b", bits)])?;
    for _ in 0..2 {
        third.push(&database, &mut filler)?;
        assert_eq!(found(&database)?, [("b".to_owned(), 0)]);
        let path = database.path().to_owned();
        drop(database);
        database = Database::open(path, &tiny())?;
        assert_eq!(found(&database)?, [("b".to_owned(), 0)]);
    }
    assert_sound(&database)?;
    Ok(())
}

macro_rules! orders {
    ($($name:ident: $first:ident $second:ident $third:ident,)*) => {
        $(#[test]
        fn $name() -> TestResult {
            put_delete_put(Depth::$first, Depth::$second, Depth::$third)
        })*
    };
}

orders! {
    put_recent_deleted_recent_put_recent_is_found: Recent Recent Recent,
    put_recent_deleted_recent_put_first_is_found: Recent Recent First,
    put_recent_deleted_recent_put_last_is_found: Recent Recent Last,
    put_recent_deleted_first_put_recent_is_found: Recent First Recent,
    put_recent_deleted_first_put_first_is_found: Recent First First,
    put_recent_deleted_first_put_last_is_found: Recent First Last,
    put_recent_deleted_last_put_recent_is_found: Recent Last Recent,
    put_recent_deleted_last_put_first_is_found: Recent Last First,
    put_recent_deleted_last_put_last_is_found: Recent Last Last,
    put_first_deleted_recent_put_recent_is_found: First Recent Recent,
    put_first_deleted_recent_put_first_is_found: First Recent First,
    put_first_deleted_recent_put_last_is_found: First Recent Last,
    put_first_deleted_first_put_recent_is_found: First First Recent,
    put_first_deleted_first_put_first_is_found: First First First,
    put_first_deleted_first_put_last_is_found: First First Last,
    put_first_deleted_last_put_recent_is_found: First Last Recent,
    put_first_deleted_last_put_first_is_found: First Last First,
    put_first_deleted_last_put_last_is_found: First Last Last,
    put_last_deleted_recent_put_recent_is_found: Last Recent Recent,
    put_last_deleted_recent_put_first_is_found: Last Recent First,
    put_last_deleted_recent_put_last_is_found: Last Recent Last,
    put_last_deleted_first_put_recent_is_found: Last First Recent,
    put_last_deleted_first_put_first_is_found: Last First First,
    put_last_deleted_first_put_last_is_found: Last First Last,
    put_last_deleted_last_put_recent_is_found: Last Last Recent,
    put_last_deleted_last_put_first_is_found: Last Last First,
    put_last_deleted_last_put_last_is_found: Last Last Last,
}

/// Stores the documents of a generation. All generations have the same keys and other fingerprints. It waits
/// for merges after each commit, or the size of the file would depend on the load of the machine.
fn generation(database: &Database, documents: u64, generation: u64) -> simdb::Result<()> {
    let bits = |i: u64| spread(i + generation * documents + 1);
    for first in (0..documents).step_by(5_000) {
        insert_all(
            database,
            (first..first + 5_000).map(|i| document(i.to_le_bytes(), bits(i))),
        )?;
        database.settle()?;
    }
    Ok(())
}

/// The shortest time of several rounds of 2,000 queries.
fn query_time(database: &Database) -> simdb::Result<Duration> {
    let snapshot = database.snapshot()?;
    let mut times = Vec::new();
    for _ in 0..7 {
        let begun = Instant::now();
        for i in 0..2_000u64 {
            snapshot.query(&query_of(i.wrapping_mul(0xd6e8_feb8_6659_fd93)).limit(0))?;
        }
        times.push(begun.elapsed());
    }
    Ok(times.into_iter().min().unwrap_or_default())
}

#[test]
fn documents_replaced_ten_times_over_take_little_more_than_fresh_ones() -> TestResult {
    const DOCUMENTS: u64 = 60_000;
    let folder = Folder::in_memory()?;
    let create = |name: &str| {
        let options = external().recent_documents(2_500);
        Database::create(folder.path(name), &options)
    };
    let fresh = create("fresh.simdb")?;
    generation(&fresh, DOCUMENTS, 0)?;
    let replaced = create("replaced.simdb")?;
    for round in 0..=10 {
        generation(&replaced, DOCUMENTS, round)?;
    }
    assert_sound(&replaced)?;
    let stored = |database: &Database| {
        database
            .snapshot()?
            .stats()
            .map(|stats| stats.allocated_bytes)
    };
    let (small, large) = (stored(&fresh)?, stored(&replaced)?);
    // Tests run at the same time, and how far merges are behind depends on that. So these are coarse bounds, and what
    // others do may be over when the time is measured again. docs/benchmarks.md has the measured ratios.
    assert!(large <= small * 2, "{large} bytes, fresh {small}");
    in_one_of_five_tries(|_| {
        let of_fresh = query_time(&fresh)?;
        let of_replaced = query_time(&replaced)?;
        let takes_more = of_replaced > of_fresh * 3;
        Ok(takes_more.then(|| format!("{of_replaced:?}, fresh {of_fresh:?}")))
    })
}

/// With fewer documents than recent rows may be, the log held four replacements of every document before any
/// of them was merged. 50,000 documents took ten times the space that they took compacted.
#[test]
fn few_documents_replaced_ten_times_over_do_not_fill_the_log() -> TestResult {
    let folder = Folder::in_memory()?;
    let options = external().recent_documents(100_000);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    for round in 0..=10 {
        generation(&database, 20_000, round)?;
    }
    let stored = || {
        database
            .snapshot()?
            .stats()
            .map(|stats| stats.allocated_bytes)
    };
    let replaced = stored()?;
    assert_sound(&database)?;
    database.compact(go_on)?;
    let compacted = stored()?;
    assert!(
        replaced <= 4 * compacted,
        "{replaced} bytes, compacted {compacted}"
    );
    Ok(())
}

#[test]
fn the_log_does_not_grow_with_changes_that_cancel_out() -> TestResult {
    let folder = Folder::in_memory()?;
    let options = external().recent_documents(1_500);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let mut sizes = Vec::new();
    for round in 0..20 {
        for _ in 0..10 {
            let mut txn = database.begin_write()?;
            for i in 0..1_000 {
                txn.insert(&document("again", round * 1_000 + i))?;
            }
            txn.delete("again")?;
            txn.commit()?;
        }
        database.settle()?;
        sizes.push(database.snapshot()?.stats()?.allocated_bytes);
    }
    // A round writes half a megabyte of log.
    assert!(sizes[19] < sizes[4] + (1 << 20), "{sizes:?}");
    assert_sound(&database)?;
    Ok(())
}

/// The first quartiles of the times of two works. They are done in turn, so what the machine has to do besides disturbs
/// both.
fn in_turn(
    mut one: impl FnMut(u64) -> simdb::Result<()>,
    mut other: impl FnMut(u64) -> simdb::Result<()>,
) -> simdb::Result<(Duration, Duration)> {
    let mut times = [Vec::new(), Vec::new()];
    for i in 0..300 {
        let begun = Instant::now();
        one(i)?;
        times[0].push(begun.elapsed());
        let begun = Instant::now();
        other(i)?;
        times[1].push(begun.elapsed());
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    Ok((times[0][75], times[1][75]))
}

#[test]
fn a_hot_fingerprint_costs_what_others_cost() -> TestResult {
    const HOT: u64 = 60_000;
    let folder = Folder::in_memory()?;
    let options = external().recent_documents(2_500);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let hot = 0xffff_0000_ffff_0000;
    for first in (0..HOT).step_by(1_000) {
        insert_all(
            &database,
            (first..first + 1_000).map(|i| document(format!("hot {i}"), hot)),
        )?;
        insert_all(
            &database,
            (first..first + 1_000).map(|i| document(format!("cold {i}"), spread(i))),
        )?;
    }
    database.settle()?;
    let total = |snapshot: &Snapshot, bits: u64, expected: u64| -> simdb::Result<()> {
        let found = snapshot.query(&query_of(bits).near(0).limit(3))?;
        assert_eq!(found.total(), expected);
        Ok(())
    };
    // What was inserted and deleted is dropped with its transaction, so each try finds the same.
    in_one_of_five_tries(|_| {
        let snapshot = database.snapshot()?;
        let queries = in_turn(
            |_| total(&snapshot, hot, HOT),
            |i| total(&snapshot, spread(i + 7), 1),
        )?;
        let txn = RefCell::new(database.begin_write()?);
        let policy = Policy::link().near(0).limit(1);
        let insert = |key: String, bits: u64| -> simdb::Result<()> {
            let document = document(key, bits);
            txn.borrow_mut().insert_if_new(&document, &policy).map(drop)
        };
        let inserts = in_turn(
            |i| insert(format!("new hot {i}"), hot),
            |i| insert(format!("new cold {i}"), spread(i + 900)),
        )?;
        let delete = |key: String| -> simdb::Result<()> { txn.borrow_mut().delete(key).map(drop) };
        let deletes = in_turn(
            |i| delete(format!("hot {}", i * 7)),
            |i| delete(format!("cold {}", i * 7)),
        )?;
        let times = [queries, inserts, deletes];
        // A coarse bound. docs/benchmarks.md has the measured ratios.
        let costs_more = times
            .iter()
            .any(|(hot, cold)| *hot > *cold * 3 + Duration::from_micros(20));
        if costs_more {
            return Ok(Some(format!("query, insert, delete: {times:?}")));
        }
        txn.into_inner().commit()?;
        Ok(None)
    })?;
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn a_reopened_database_goes_on_merging_where_it_was() -> TestResult {
    let folder = Folder::in_memory()?;
    drop(folder.tiny_database("d.simdb")?);
    for round in 0..30u64 {
        // Other sizes in each round. Each handle reads the levels that were written with other sizes.
        let options = OpenOptions::new().recent_documents(1 + round as usize * 5);
        let options = if round % 3 == 0 {
            options
        } else {
            options.tiny_blocks()
        };
        let database = Database::open(folder.path("d.simdb"), &options)?;
        insert_all(&database, (round * 40..round * 40 + 40).map(numbered))?;
        for i in 0..(round + 1) * 40 {
            let found = database.snapshot()?.query(&query_of(spread(i)).near(0))?;
            assert_eq!(listed(&found), [(i.to_string(), 0)]);
        }
    }
    assert_sound(&Database::open(folder.path("d.simdb"), &tiny())?)?;
    Ok(())
}

#[test]
fn recent_documents_are_merged_in_a_pause() -> TestResult {
    let folder = Folder::in_memory()?;
    let options = external().recent_documents(1_000);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let begun = Instant::now();
    insert_all(&database, (0..400).map(numbered))?;
    let levels = || database.snapshot()?.stats().map(|stats| stats.levels);
    // This thread may have lost its processor for as long as a pause is, which is a second.
    let is_merged = levels()? > 0;
    assert!(!is_merged || begun.elapsed() >= Duration::from_secs(1));
    wait_until("a merge", || levels().is_ok_and(|levels| levels > 0));
    assert_sound(&database)?;
    Ok(())
}

/// Runs of some thousand rows are merged by the merging thread while others write and read.
#[test]
fn readers_and_writers_are_right_while_long_runs_are_merged() -> TestResult {
    const TOGETHER: u64 = 3_000;
    const COMMITS: u64 = 60;
    let folder = Folder::in_memory()?;
    let database = folder.database("d.simdb")?;
    // Each commit inserts documents and deletes the first third of those of the commit before.
    let is_deleted =
        |i: u64, commits: u64| i / TOGETHER + 1 < commits && i % TOGETHER < TOGETHER / 3;
    let assert_right = |database: &Database| -> simdb::Result<u64> {
        let snapshot = database.snapshot()?;
        let documents = snapshot.stats()?.documents;
        // The last commit has 3,000 documents, and each before it 2,000.
        let commits = if documents == 0 {
            0
        } else {
            (documents - TOGETHER) / (TOGETHER / 3 * 2) + 1
        };
        for i in (0..commits * TOGETHER).step_by(419) {
            let found = snapshot.query(&query_of(spread(i)).near(0))?;
            let expected = if is_deleted(i, commits) {
                vec![]
            } else {
                vec![(i.to_string(), 0)]
            };
            assert_eq!(
                listed(&found),
                expected,
                "document {i} after {commits} commits"
            );
            assert_eq!(
                snapshot.get(i.to_string())?.is_some(),
                !is_deleted(i, commits)
            );
        }
        Ok(commits)
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> simdb::Result<()> {
            while assert_right(&database)? < COMMITS {}
            Ok(())
        });
        for commit in 0..COMMITS {
            let mut txn = database.begin_write()?;
            for i in commit * TOGETHER..(commit + 1) * TOGETHER {
                txn.insert(&document(i.to_string(), spread(i)))?;
            }
            let before = commit.saturating_sub(1) * TOGETHER;
            for i in (before..before + TOGETHER / 3).take_while(|_| commit > 0) {
                assert!(txn.delete(i.to_string())?.is_some());
            }
            txn.commit()?;
        }
        reader.join().expect("the reader found what it should")
    })?;
    assert_sound(&database)?;
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(assert_right(&database)?, COMMITS);
    assert_sound(&database)?;
    Ok(())
}
