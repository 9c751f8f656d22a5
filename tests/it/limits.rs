//! The bounds of options and arguments: values at a bound and beyond it.

use simdb::{Cache, CreateOptions, Database, OpenOptions};

use crate::support::{
    Folder, TestResult, assert_sound, done, external, insert_all, keyed, query_of, run,
};

/// The memory for a cache as large as possible was allocated at once, after a sum that was too large for
/// its type. With as many recent documents as possible, a merge was always due, and commits did not end.
#[test]
fn options_as_large_as_possible_are_taken() -> TestResult {
    let folder = Folder::new()?;
    let options = external()
        .cache(Cache::Bytes(usize::MAX))
        .recent_documents(usize::MAX);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    insert_all(&database, keyed(0..1_000, |i| i << 40))?;
    insert_all(&database, keyed(0..1_000, |i| i << 20))?;
    database.settle()?;
    let query = query_of(0).near(64).limit(usize::MAX);
    assert_eq!(database.snapshot()?.query(&query)?.as_slice().len(), 1_000);
    assert_sound(&database)?;
    drop(database);
    let options = OpenOptions::new()
        .cache(Cache::Bytes(usize::MAX))
        .recent_documents(1 << (usize::BITS - 2));
    assert_eq!(
        Database::open(folder.path("d.simdb"), &options)?
            .snapshot()?
            .stats()?
            .documents,
        1_000
    );
    Ok(())
}

/// A sample went through all numbers up to the one that was asked for, and was never done. Eight times the groups
/// that were asked for was a number too large for its type. Plans for a distance that there is not took all memory.
#[test]
fn the_greatest_number_asks_for_all_there_are() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, keyed(0..1_000, |i| i % 7))?;
    let snapshot = database.snapshot()?;
    for most in [1_001, usize::MAX] {
        assert_eq!(snapshot.sample(most)?.len(), 1_000);
        let groups = snapshot.largest_groups(most, 0)?;
        let are_all = groups.groups.len() == 7;
        assert!(are_all || groups.complete_from > 142, "{groups:?}");
        let prefixes = snapshot.fullest_prefixes(most)?;
        assert!(!prefixes.prefixes.is_empty());
    }
    let query = query_of(0).nearest(usize::MAX);
    assert_eq!(snapshot.query(&query)?.total(), 1_000);
    let plans = |distance| CreateOptions::new().max_distance(distance).plans(&[]);
    for distance in [65, u32::MAX] {
        assert_eq!(plans(distance), plans(64));
    }
    Ok(())
}

/// From a distance of 18 on, creation took longer and longer: over a minute at 32. With this number of
/// documents it panicked at 64.
#[test]
fn create_takes_every_distance_and_size() -> TestResult {
    let folder = Folder::new()?;
    for (distance, expect) in [("32", "1000000"), ("64", "1099511627776")] {
        let path = folder.path(&format!("{distance}.simdb"));
        done!(
            "create",
            &path,
            "--max-distance",
            distance,
            "--expect",
            expect
        );
    }
    let plans = done!("plan --max-distance 64").out;
    assert!(
        plans
            .lines()
            .skip(1)
            .all(|line| line.split_whitespace().nth(2) == Some("-")),
        "{plans}"
    );
    Ok(())
}

/// No document can have these keys. `get` and `query` said that there is no such key.
#[test]
fn keys_that_no_document_can_have_are_refused() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("d.simdb")?);
    let (database, long) = (folder.path("d.simdb"), "k".repeat(4_097));
    run!("get", &database, "").refused("the key is empty");
    run!("get", &database, &long).refused("the key has 4097 bytes");
    run!("query", &database, "--key", &long).refused("the key has 4097 bytes");
    run!("delete", &database, &long).refused("the key has 4097 bytes");
    Ok(())
}

/// The length of a record and of its header were added up beyond the largest number.
#[test]
fn a_length_as_large_as_possible_is_told_as_wrong() -> TestResult {
    for length in ["18446744073709551600", "4611686018427387903"] {
        let folder = Folder::new()?;
        let record = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {length}\r\n\r\ntext\r\n\r\n"
        );
        let input = folder.file("a.warc", record)?;
        let path = folder.path("d.simdb");
        run!("ingest", &path, &input, "--max-record 18446744073709551615")
            .says("the WARC record ends too early");
    }
    Ok(())
}
