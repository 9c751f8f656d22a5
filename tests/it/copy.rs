//! Compaction, backup, dump and build: dense and exact copies, which are whole or absent.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use simdb::{
    Cache, CreateOptions, Database, Document, Error, Fingerprint, Near, OpenOptions, Query, Sketch,
    SketchSize,
};

use crate::support::{
    Folder, TestResult, all_documents, assert_error, assert_sound, document, done, external, go_on,
    going_on, insert_all, listed, numbered, program, query_of, run, spread, tiny,
};

/// Every third has a scope.
fn scoped(i: u64) -> Document {
    numbered(i).with_scope(if i % 3 == 1 { "en" } else { "" })
}

/// Inserts documents, and deletes half of them again.
fn half_deleted(database: &Database, documents: u64) -> simdb::Result<()> {
    for first in (0..documents).step_by(100) {
        insert_all(database, (first..first + 100).map(scoped))?;
    }
    let mut txn = database.begin_write()?;
    for i in (0..documents).step_by(2) {
        txn.delete(i.to_string())?;
    }
    txn.commit()
}

#[test]
fn compaction_keeps_every_document_and_gives_back_the_space() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    half_deleted(&database, 20_000)?;
    let snapshot = database.snapshot()?;
    let (before, documents) = (snapshot.stats()?, all_documents(&database)?);
    let mut told = (0, 0);
    database.compact(going_on(|done, all| told = (done, all)))?;
    assert!(told.0 > 10_000 && told.0 <= told.1, "{told:?}");
    assert_eq!(all_documents(&database)?, documents);
    let after = database.snapshot()?.stats()?;
    assert!(
        after.allocated_bytes < before.allocated_bytes,
        "{after:?}, before {before:?}"
    );
    assert_eq!(
        (
            after.documents,
            after.fingerprints,
            after.marks,
            after.levels
        ),
        (10_000, 10_000, 0, 1)
    );
    // A snapshot from before the compaction still reads the old file.
    assert_eq!(
        snapshot.documents().collect::<simdb::Result<Vec<_>>>()?,
        documents
    );
    assert_eq!(snapshot.get("1")?, Some(scoped(1)));
    drop(snapshot);
    assert_sound(&database)?;
    // Transactions go on after it, and so do the document numbers.
    insert_all(&database, [scoped(0)])?;
    let found = database.snapshot()?.query(&query_of(0).near(0))?;
    assert_eq!(listed(&found), [("0".to_owned(), 0)]);
    database.compact(go_on)?;
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(database.snapshot()?.stats()?.documents, 10_001);
    assert_sound(&database)?;
    assert_eq!(folder.count()?, 1, "nothing else is left in the directory");
    Ok(())
}

/// Asserts that queries find every document of `documents` within a distance, and nothing else.
fn assert_exact(database: &Database, documents: &[Document]) -> TestResult {
    let snapshot = database.snapshot()?;
    for (max_distance, queries) in [(0, 20), (3, 20), (7, 10), (13, 3)] {
        for document in documents.iter().step_by(documents.len() / queries) {
            let fingerprint = document.fingerprint().ok_or("it has a fingerprint")?;
            let asked =
                Fingerprint::from_bits(fingerprint.bits() ^ ((1 << max_distance.min(2)) - 1));
            let near = |it: &&Document| {
                it.fingerprint()
                    .is_some_and(|it| it.distance(asked) <= max_distance)
            };
            let expected = documents.iter().filter(near).count() as u64;
            let found = snapshot.query(&Query::new(asked).near(max_distance))?;
            assert_eq!(found.total(), expected, "{asked} within {max_distance}");
        }
    }
    Ok(())
}

#[test]
fn compaction_with_another_plan_keeps_every_document_and_every_answer() -> TestResult {
    let folder = Folder::new()?;
    // More documents than may be recent, so the copies have levels.
    let options = external().recent_documents(5_000);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    half_deleted(&database, 20_000)?;
    let mut documents = all_documents(&database)?;
    let before = database.snapshot()?;
    assert_error!(
        database.compact_with_plan("3x3", go_on) => Error::UnknownPlan { name, .. } if name == "3x3"
    );
    for plan in ["6x21", "14x32", "2x32", "4x16"] {
        let mut told = (0, 0);
        database.compact_with_plan(plan, going_on(|done, all| told = (done, all)))?;
        assert!(told.0 > 10_000 && told.0 <= told.1, "{told:?}");
        let stats = database.snapshot()?.stats()?;
        assert_eq!(
            (stats.plan.as_str(), stats.documents, stats.levels),
            (plan, 10_000, 1)
        );
        assert_exact(&database, &documents)?;
        // Later transactions write the tables of the new plan.
        let mut txn = database.begin_write()?;
        txn.insert(&scoped(0))?;
        txn.delete("1")?;
        txn.commit()?;
        let changed = all_documents(&database)?;
        assert_exact(&database, &changed)?;
        assert_sound(&database)?;
        let mut txn = database.begin_write()?;
        txn.delete("0")?;
        txn.insert(&scoped(1))?;
        txn.commit()?;
        documents = all_documents(&database)?;
    }
    assert_eq!(before.stats()?.plan, "4x16");
    assert_eq!(before.documents().count(), 10_000);
    drop((before, database));
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_exact(&database, &documents)?;
    assert_sound(&database)?;
    Ok(())
}

/// Rows that do not fit into the memory for sorting go to files. The tests of `sort` look at that closely.
#[test]
fn compaction_with_another_plan_in_little_memory() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("d.simdb")?);
    let database = Database::open(
        folder.path("d.simdb"),
        &OpenOptions::new().cache(Cache::Bytes(20_000)),
    )?;
    half_deleted(&database, 10_000)?;
    database.compact_with_plan("6x21", go_on)?;
    assert_exact(&database, &all_documents(&database)?)?;
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn compaction_of_the_smallest_databases() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    database.compact(go_on)?;
    assert_sound(&database)?;
    insert_all(&database, [Document::new("too short", None)])?;
    database.compact(go_on)?;
    assert_eq!(database.snapshot()?.stats()?.documents, 1);
    let mut txn = database.begin_write()?;
    txn.delete("too short")?;
    txn.commit()?;
    database.compact(go_on)?;
    assert_eq!(database.snapshot()?.stats()?.documents, 0);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn compaction_goes_through_every_size_of_level() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    for documents in [7, 100, 900] {
        half_deleted(&database, documents / 100 * 100 + 100)?;
        let documents = all_documents(&database)?;
        database.compact(go_on)?;
        assert_eq!(all_documents(&database)?, documents);
        assert_sound(&database)?;
    }
    Ok(())
}

#[test]
fn a_backup_is_the_snapshot_and_overwrites_nothing() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    half_deleted(&database, 300)?;
    let snapshot = database.snapshot()?;
    let documents = all_documents(&database)?;
    insert_all(&database, [scoped(9_999)])?;
    snapshot.backup_with(folder.path("b.simdb"), go_on)?;
    assert_error!(
        snapshot.backup_with(folder.path("b.simdb"), go_on) => Error::AlreadyExists { .. }
    );
    let copy = Database::open(folder.path("b.simdb"), &tiny())?;
    assert_eq!(all_documents(&copy)?, documents);
    assert_sound(&copy)?;
    insert_all(&copy, [scoped(0)])?;
    assert_sound(&copy)?;
    assert_error!(snapshot.backup_with(folder.path("no such/b.simdb"), go_on) => Error::Io { .. });
    Ok(())
}

#[test]
fn compact_and_backup_print_sizes_and_overwrite_nothing() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    half_deleted(&database, 1_000)?;
    drop(database);
    let compacted = done!("compact", folder.path("d.simdb"), "--json").object()?;
    assert!(compacted["allocated_bytes"].as_u64() <= compacted["allocated_bytes_before"].as_u64());
    let compacted = done!("compact", folder.path("d.simdb"), "--plan 6x21 --json").object()?;
    assert_eq!(compacted["plan"], "6x21");
    run!("compact", folder.path("d.simdb"), "--plan 6x20").refused("no plan is called \"6x20\"");
    let backup = folder
        .run("backup d.simdb b.simdb --json")?
        .expect(0)
        .object()?;
    assert_eq!(backup["documents"], 500);
    done!("check", folder.path("b.simdb"));
    done!("backup", folder.path("d.simdb"), folder.path("b.simdb"))
        .says("already there and complete");
    run!("compact", folder.path("none.simdb")).refused("no such database");
    Ok(())
}

#[test]
fn a_killed_compaction_leaves_the_old_file_or_the_new_one() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    half_deleted(&database, 30_000)?;
    let documents = all_documents(&database)?;
    drop(database);
    for round in 0..12 {
        let mut child = program!("compact", folder.path("d.simdb"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(round * 7));
        child.kill()?;
        child.wait()?;
        let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
        assert_eq!(all_documents(&database)?, documents, "round {round}");
        if round % 4 == 3 {
            assert_sound(&database)?;
        }
    }
    Ok(())
}

#[test]
fn a_dump_loads_as_the_same_documents() -> TestResult {
    let folder = Folder::new()?;
    let options = CreateOptions::new().max_distance(2).min_similarity(0.5);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let full = |i: u64| {
        let payload = if i.is_multiple_of(2) {
            b"text\n\"quoted\"".to_vec()
        } else {
            vec![0xff, 0, i as u8]
        };
        let key = if i.is_multiple_of(3) {
            vec![0xfe, i as u8]
        } else {
            format!("http://a/{i}?\u{e9}").into_bytes()
        };
        let fingerprint = (!i.is_multiple_of(4)).then(|| Fingerprint::from_bits(spread(i)));
        let document = Document::new(key, fingerprint)
            .with_seen(i as i64 - 20)
            .with_payload(payload);
        let sketch = Sketch::new(&[i as u8; 16], 1 + i as u32)
            .ok()
            .filter(|_| fingerprint.is_some());
        document
            .with_sketch(sketch)
            .with_scope(if i.is_multiple_of(5) { "en" } else { "" })
            .with_rank([i as i64, i64::MIN])
    };
    insert_all(&database, (0..50).map(full))?;
    insert_all(&database, [Document::new("bare", None).with_seen(0)])?;
    let documents = all_documents(&database)?;
    drop(database);
    let dumped = done!("dump", folder.path("d.simdb"));
    assert_eq!(dumped.json()?[0]["scheme"], "minwise-1");
    folder.file("dump.jsonl", &dumped.out)?;
    // There is a least memory. With less, nearly each row of a set was a file of its own.
    folder.run("load l.simdb dump.jsonl --memory 1")?.expect(0);
    let loaded = Database::open(folder.path("l.simdb"), &OpenOptions::new())?;
    assert_eq!(
        (loaded.max_distance(), all_documents(&loaded)?),
        (2, documents)
    );
    assert_eq!(
        (loaded.sketch_size(), loaded.min_similarity()),
        (SketchSize::Bytes16, Some(0.5))
    );
    assert_sound(&loaded)?;
    drop(loaded);
    assert_eq!(
        done!("dump", folder.path("l.simdb")).json()?[1..],
        dumped.json()?[1..]
    );
    done!("load", folder.path("l.simdb"), folder.path("dump.jsonl"))
        .says("already there and complete");
    Ok(())
}

#[test]
fn compaction_never_replaces_another_file() -> TestResult {
    let folder = Folder::new()?;
    let (path, aside) = (folder.path("d.simdb"), folder.path("aside.simdb"));
    let database = folder.database("d.simdb")?;
    insert_all(&database, [scoped(1)])?;
    fs::rename(&path, &aside)?;
    fs::write(&path, "what somebody restored")?;
    assert_error!(
        database.compact(go_on) => Error::Io { path: named, .. } if named.ends_with("d.simdb")
    );
    assert_eq!(fs::read(&path)?, b"what somebody restored");
    assert_eq!(folder.count()?, 2, "no copy is left");
    fs::rename(&aside, &path)?;
    database.compact(go_on)?;
    assert_eq!(all_documents(&database)?.len(), 1);
    Ok(())
}

#[test]
fn a_bad_dump_is_refused_with_its_line_and_leaves_nothing() -> TestResult {
    let folder = Folder::new()?;
    let header = concat!(
        r#"{"simdb_dump":2,"scheme":"external","max_distance":3,"#,
        r#""sketch_bytes":0,"min_similarity":0,"documents":2}"#
    );
    let document = r#"{"key":"a","fingerprint":"0000000000000001","seen":0}"#;
    for (input, line, reason) in [
        (String::new(), 1, "empty"),
        (document.to_owned(), 1, "header"),
        (header.replace("dump\":2", "dump\":9"), 1, "version 9"),
        (
            header.replace("bytes\":0", "bytes\":5"),
            1,
            "a size that sketches cannot have",
        ),
        (format!("{header}\n{document}\nnonsense\n"), 3, "expected"),
        (format!("{header}\n{{\"seen\":0}}\n"), 2, "no key"),
        (
            format!("{header}\n{}\n", document.replace("01\"", "x\"")),
            2,
            "16 hexadecimal digits",
        ),
        (
            format!("{header}\n{}\n", document.replace("seen", "sewn")),
            2,
            "unknown field",
        ),
        (
            format!(
                "{header}\n{}\n",
                document.replace("seen", "sketch\":\"00\",\"seen")
            ),
            2,
            "is not a sketch",
        ),
        (
            format!("{header}\n{document}\n"),
            3,
            "it ends after 1 document, and its header says 2",
        ),
        (
            format!("{header}\n{}\n", "x".repeat(17 << 20)),
            2,
            "longer than any line",
        ),
    ] {
        let input = folder.file("dump.jsonl", input)?;
        run!("load", folder.path("l.simdb"), input)
            .refused(&format!("line {line}: "))
            .says(reason);
    }
    let input = folder.file("dump.jsonl", format!("{header}\n{document}\n{document}\n"))?;
    run!("load", folder.path("l.simdb"), input).refused("two documents have the key \"a\"");
    assert_eq!(folder.count()?, 1, "nothing but the input is left");
    Ok(())
}

#[test]
fn a_database_built_at_once_answers_as_one_of_insertions() -> TestResult {
    let folder = Folder::new()?;
    let options = external().tiny_blocks();
    for (documents, memory) in [(0, 1 << 20), (1, 1), (3_000, 1 << 20), (3_000, 10_000)] {
        let path = folder.path(&format!("{documents}-{memory}.simdb"));
        let built = Database::build(
            &path,
            &options,
            (0..documents).map(|i| {
                Ok(scoped(i / 2)).map(|it: Document| {
                    Document::new(i.to_string(), it.fingerprint())
                        .with_seen(0)
                        .with_scope(it.scope())
                })
            }),
            memory,
        )?;
        assert_sound(&built)?;
        assert_eq!(built.snapshot()?.stats()?.documents, documents);
        insert_all(&built, (0..50).map(|i| scoped(i * 100)))?;
        built.settle()?;
        assert_sound(&built)?;
        for i in 0..documents / 2 {
            let bits = scoped(i).fingerprint().map_or(0, Fingerprint::bits);
            assert!(built.snapshot()?.query(&query_of(bits))?.total() > 0);
        }
    }
    Ok(())
}

/// A backup of 200,000 documents took 44 per cent more room than the database, since the database had them in
/// its log. And a copy was up to twice as long as what was in it.
#[test]
#[cfg(unix)]
fn a_copy_is_never_larger_than_the_database_and_as_long_as_what_is_in_it() -> TestResult {
    use std::os::unix::fs::MetadataExt;

    for documents in [1, 5, 300, 4_000, 50_000] {
        let folder = Folder::new()?;
        let database = folder.database("d.simdb")?;
        for first in (0..documents).step_by(1_000) {
            let part = first..documents.min(first + 1_000);
            let scope = |i: u64| if i.is_multiple_of(3) { "en" } else { "" };
            insert_all(
                &database,
                part.map(|i| document(format!("key {i}"), spread(i)).with_scope(scope(i))),
            )?;
        }
        drop(database);
        let allocated = |name: &str| fs::metadata(folder.path(name)).map(|it| it.blocks() * 512);
        let before = allocated("d.simdb")?;
        let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
        database
            .snapshot()?
            .backup_with(folder.path("b.simdb"), go_on)?;
        let query = query_of(spread(4_242)).near(Near::within(12).scopes(["en"]));
        let answer = listed(&database.snapshot()?.query(&query)?);
        database.compact(go_on)?;
        assert_eq!(listed(&database.snapshot()?.query(&query)?), answer);
        drop(database);
        for name in ["b.simdb", "d.simdb"] {
            let copy = Database::open(folder.path(name), &OpenOptions::new())?;
            assert_eq!(listed(&copy.snapshot()?.query(&query)?), answer);
            assert_sound(&copy)?;
            drop(copy);
            let length = fs::metadata(folder.path(name))?.len();
            assert!(
                length <= before,
                "{documents} documents: {length} bytes instead of {before}"
            );
            assert!(
                length <= allocated(name)? / 50 * 51,
                "{documents} documents: {length} bytes"
            );
        }
    }
    Ok(())
}
