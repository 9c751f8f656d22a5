//! Rows of the engine that nothing refers to.

use redb::{ReadableTable, TableDefinition};
use simdb::Database;
use simdb::inspect::CheckReport;

use crate::support::{
    Folder, TestResult, assert_error, document, done, go_on, insert_all, query_of, run, tiny,
};

fn check(folder: &Folder) -> simdb::Result<CheckReport> {
    Database::open(folder.path("d.simdb"), &tiny())?.check()
}

/// Does something to a file with the engine alone.
fn with_engine(
    folder: &Folder,
    change: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
) -> TestResult {
    let engine = redb::Database::open(folder.path("d.simdb"))?;
    let txn = engine.begin_write()?;
    change(&txn)?;
    Ok(txn.commit()?)
}

/// A check called such a file sound. A chunk that no level had made the file unreadable once the number of its
/// level was given again.
#[test]
fn blocks_chunks_and_pages_that_nothing_refers_to_are_reported_and_left_behind() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(
        &database,
        (0..200).map(|i| document(i.to_string(), i << 50).with_scope("en")),
    )?;
    database.settle()?;
    drop(database);
    assert!(check(&folder)?.is_sound());
    with_engine(&folder, |txn| {
        for table in ["permuted-2", "documents", "dead"] {
            let table = TableDefinition::<(u8, u64), &[u8]>::new(table);
            txn.open_table(table)?.insert((40, 7), &b"stray"[..])?;
        }
        for table in ["keys", "postings"] {
            let table = TableDefinition::<(u8, u128), &[u8]>::new(table);
            txn.open_table(table)?.insert((40, 7), &b"stray"[..])?;
        }
        let directory = TableDefinition::<(u16, u128), &[u8]>::new("directory");
        txn.open_table(directory)?
            .insert((0x0128, 7), &b"stray"[..])?;
        let summaries = TableDefinition::<(u16, u128), &[u8]>::new("summaries");
        txn.open_table(summaries)?
            .insert((0x0128, 7), &b"stray"[..])?;
        txn.open_table(TableDefinition::<u64, &[u8]>::new("log"))?
            .insert(0, &b"stray"[..])?;
        Ok(())
    })?;
    let report = check(&folder)?;
    let found: Vec<_> = report
        .problems
        .iter()
        .map(|it| format!("{} {}", it.table, it.key))
        .collect();
    let right = [
        "documents documents, level 40, block up to 7",
        "keys keys, level 40, block up to 7",
        "postings postings, level 40, block up to 7",
        "dead dead, level 40, block up to 7",
        "permuted permuted-2, level 40, block up to 7",
        "directory set 1, level 40, up to 7",
        "summaries set 1, level 40, up to 7",
        "log 0",
    ];
    assert_eq!(found, right);
    Database::open(folder.path("d.simdb"), &tiny())?.compact(go_on)?;
    assert!(check(&folder)?.is_sound());
    Ok(())
}

#[test]
fn a_lost_scope_is_reported_and_no_answer_goes_without_it() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    for scope in ["en", "fr"] {
        insert_all(
            &database,
            (0..20).map(|i| document(format!("{scope}{i}"), i << 50).with_scope(scope)),
        )?;
    }
    drop(database);
    with_engine(&folder, |txn| {
        txn.open_table(TableDefinition::<&str, &[u8]>::new("scopes"))?
            .remove("fr")?;
        Ok(())
    })?;
    let report = check(&folder)?;
    assert!(
        report
            .problems
            .iter()
            .any(|it| it.table == "scopes" && it.problem.contains("1 scope"))
    );
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    let asked = query_of(0);
    let found = database
        .snapshot()?
        .query(&asked.clone().near(simdb::Near::new().scopes(["en"])))?;
    assert_eq!(found.total(), 19);
    assert_error!(
        database.snapshot()?.query(&asked.near(simdb::Near::new().scopes(["fr"])))
        => simdb::Error::Damaged { table: "scopes", .. }
    );
    Ok(())
}

/// The place of a source would be that of an earlier commit, and records would be read twice.
#[test]
fn a_source_of_an_earlier_commit_is_reported_and_not_believed() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.tiny_database("d.simdb")?);
    let sources = TableDefinition::<&[u8], &[u8]>::new("sources");
    let mut old = None;
    for lines in [
        "a\t0000000000000001\n",
        "a\t0000000000000001\nb\t0000ff00000000ff\n",
    ] {
        let input = folder.file("in.tsv", lines)?;
        let path = folder.path("d.simdb");
        done!("ingest", &path, &input, "--input-format fingerprints");
        with_engine(&folder, |txn| {
            let mut table = txn.open_table(sources)?;
            let name = table
                .first()?
                .expect("there is a source")
                .0
                .value()
                .to_vec();
            let stored = table
                .get(name.as_slice())?
                .expect("it is there")
                .value()
                .to_vec();
            if let Some(old) = old.replace((name, stored)) {
                table.insert(old.0.as_slice(), old.1.as_slice())?;
            }
            Ok(())
        })?;
    }
    assert!(
        check(&folder)?
            .problems
            .iter()
            .any(|it| it.table == "sources")
    );
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    let refused = database.snapshot()?.sources();
    assert_error!(&refused => simdb::Error::Damaged { table: "sources", .. });
    // The documents do not need it.
    assert!(database.snapshot()?.get("b")?.is_some());
    drop(database);
    let (path, input) = (folder.path("d.simdb"), folder.path("in.tsv"));
    run!("ingest", &path, &input, "--input-format fingerprints").refused("sources");
    Ok(())
}

/// All directories were read at every opening, and one lost chunk kept the file shut. Now only what needs the
/// chunk fails.
#[test]
fn a_lost_chunk_is_reported_and_only_what_needs_it_fails() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(
        &database,
        (0..2_000).map(|i: u64| document(i.to_string(), i << 48)),
    )?;
    database.settle()?;
    drop(database);
    let mut lost = 0;
    with_engine(&folder, |txn| {
        let mut directory =
            txn.open_table(TableDefinition::<(u16, u128), &[u8]>::new("directory"))?;
        // The documents are set 0, and their only level is 0.
        lost = directory
            .range((0, 0)..)?
            .next()
            .expect("there is a chunk")?
            .0
            .value()
            .1 as u64;
        directory.remove((0, u128::from(lost)))?;
        Ok(())
    })?;
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    let report = database.check()?;
    let found: Vec<_> = report
        .problems
        .iter()
        .map(|it| format!("{}: {}", it.key, it.problem))
        .collect();
    assert_eq!(
        found[0],
        format!("documents, level 0, up to {lost:x}: it is missing")
    );
    assert!(found[1].contains("cannot be checked"), "{found:?}");
    let snapshot = database.snapshot()?;
    // Documents have numbers from 1 on, in the order of their insertion.
    for key in [0, lost - 1] {
        let refused = snapshot.get(key.to_string());
        assert_error!(&refused => simdb::Error::Damaged { table: "directory", .. });
    }
    assert!(snapshot.get(lost.to_string())?.is_some());
    assert!(snapshot.get("1999")?.is_some());
    insert_all(&database, [document("new", 7)])?;
    assert!(database.snapshot()?.get("new")?.is_some());
    drop(snapshot);
    assert_error!(database.compact(go_on) => simdb::Error::Damaged { table: "directory", .. });
    assert!(database.snapshot()?.get("1999")?.is_some());
    Ok(())
}
