//! Times in another unit than seconds.
//!
//! A time in milliseconds was taken for seconds: the document counted as seen in the year 55840, and never expired. An
//! expiry of what is older than such a time removed everything.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use simdb::{Clustering, CreateOptions, Database, Error, Expiry, Near, Policy, UnixSeconds};

use crate::support::{Folder, TestResult, document, done, every, insert_all, query_of, run};

const MILLISECONDS: i64 = 1_700_000_000_000;

fn is_refused<T>(done: simdb::Result<T>) -> bool {
    let error = done.err();
    matches!(
        error,
        Some(Error::NotSeconds {
            given: MILLISECONDS,
            unit: "milliseconds",
            seconds: 1_700_000_000,
            ..
        })
    )
}

#[test]
fn no_way_into_the_library_takes_milliseconds_for_seconds() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 7).with_seen(1_700_000_000)])?;
    let (late, query) = (document("b", 7).with_seen(MILLISECONDS), query_of(7));

    let mut txn = database.begin_write()?;
    assert!(is_refused(txn.insert(&late)));
    assert!(is_refused(txn.insert_if_new(&late, &Policy::link())));
    assert!(is_refused(txn.insert_if_new(
        &document("b", 7),
        &Policy::link().near(Near::new().since(MILLISECONDS))
    )));
    assert!(is_refused(txn.insert_if_new(
        &document("b", 7),
        &Policy::skip().near(Near::new().since(MILLISECONDS))
    )));
    assert!(is_refused(txn.touch("a", MILLISECONDS)));
    // Each of them changed nothing, and the transaction goes on.
    txn.insert(&document("b", 7).with_seen(1))?;
    txn.commit()?;

    let snapshot = database.snapshot()?;
    assert!(is_refused(
        snapshot.query(&query.clone().near(Near::new().since(MILLISECONDS)))
    ));
    assert!(is_refused(snapshot.query_batch(&[
        query.clone().near(Near::new().since(MILLISECONDS))
    ])));
    assert!(is_refused(snapshot.any_match(
        &query.clone().near(Near::new().since(MILLISECONDS))
    )));
    assert!(is_refused(
        snapshot
            .pairs(Near::within(3).since(MILLISECONDS))
            .run(every)
    ));
    let clustering = Clustering::new().near(Near::new().since(MILLISECONDS));
    assert!(is_refused(snapshot.clusters(&clustering, every)));
    let expiry = Expiry::new().before(MILLISECONDS);
    assert!(is_refused(snapshot.to_expire(&expiry, every)));
    drop(snapshot);
    assert!(is_refused(database.delete_duplicates(&clustering)));
    assert!(is_refused(database.expire(&expiry, every)));
    assert!(is_refused(Database::create(
        folder.path("n.simdb"),
        &CreateOptions::new().created(MILLISECONDS)
    )));
    assert!(is_refused(Database::build(
        folder.path("n.simdb"),
        &CreateOptions::new(),
        [Ok(late)],
        1
    )));
    assert_eq!(database.snapshot()?.stats()?.documents, 2);
    Ok(())
}

#[test]
fn times_are_given_as_seconds_or_as_times_of_the_system() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    insert_all(
        &database,
        [
            document("a", 7).with_seen(at(100)),
            document("b", 7).with_seen(200),
        ],
    )?;
    let query = query_of(7);
    for since in [UnixSeconds::from(150), at(150).into()] {
        assert_eq!(
            database
                .snapshot()?
                .query(&query.clone().near(Near::new().since(since)))?
                .total(),
            1
        );
    }
    assert_eq!(database.expire(&Expiry::new().before(at(101)), every)?, 1);
    let mut txn = database.begin_write()?;
    assert!(txn.touch("b", at(300))?);
    txn.commit()?;
    assert_eq!(
        database.snapshot()?.get("b")?.map(|it| it.seen()),
        Some(300)
    );
    Ok(())
}

#[test]
fn the_program_names_the_record_and_the_seconds_to_give() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    let record = |key: &str, field: &str, time: serde_json::Value| {
        json!({"key": key, "fingerprint": "00000000000000ff", field: time}).to_string()
    };
    let lines = [
        record("a", "seen", 1_700_000_000.into()),
        record("b", "seen", MILLISECONDS.into()),
        record("c", "time", (MILLISECONDS * 1_000).into()),
        record("d", "seen", (MILLISECONDS as f64 + 0.5).into()),
        record("e", "seen", (-MILLISECONDS).into()),
    ];
    let input = folder.file("in.jsonl", lines.join("\n"))?;
    let ran = done!("ingest", &database, &input);
    let ran = ran
        .says("in.jsonl, line 2: the time 1700000000000 ")
        .says("looks like milliseconds");
    let ran = ran
        .says("line 3: the time 1700000000000000 ")
        .says("looks like microseconds");
    let ran = ran
        .says("line 4: the time 1700000000000 ")
        .says("line 5: the time -1700000000000 ");
    ran.says("give Unix seconds, here 1700000000");
    let dump = done!("dump", &database).out;
    assert_eq!(dump.lines().count(), 2, "{dump}");
    let header = dump.lines().next().ok_or("a header")?;
    let copy = folder.file("dump.jsonl", format!("{header}\n{}\n", lines[1]))?;
    run!("load", folder.path("l.simdb"), &copy).refused("line 2: the time 1700000000000 ");

    // Also where the user says that it is meant.
    for time in ["1700000000000", "@1700000000000"] {
        run!("expire", &database, "--before", time).refused("looks like milliseconds");
        run!("query", &database, "--key a --since", time).refused("looks like milliseconds");
    }
    done!("get", &database, "a");
    Ok(())
}
