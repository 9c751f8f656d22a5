//! Files that are not what they should be: missing, foreign, of another version, in use, damaged.

use std::fs;
use std::path::Path;

use redb::{ReadableTable as _, TableDefinition};
use simdb::{CreateOptions, Database, Error, Fingerprint, OpenOptions, Query};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::support::{Folder, TestResult, assert_sound, document, insert_all};

fn open(path: &Path) -> simdb::Result<Database> {
    Database::open(path, &OpenOptions::new())
}

#[test]
fn creation_never_touches_what_is_there() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.file("notes.txt", "precious")?;
    assert!(matches!(Database::create(&path, &CreateOptions::new()), Err(Error::AlreadyExists { .. })));
    assert_eq!(fs::read_to_string(&path)?, "precious");
    let nowhere = folder.path("no/such/folder/d.simdb");
    assert!(matches!(Database::create(nowhere, &CreateOptions::new()), Err(Error::Io { .. })));
    let too_far = CreateOptions::new().max_distance(65);
    assert!(matches!(
        Database::create(folder.path("d.simdb"), &too_far),
        Err(Error::MaxDistance { given: 65 })
    ));
    let names: Vec<_> = fs::read_dir(folder.path(""))?
        .map(|entry| entry.map(|it| it.file_name()))
        .collect::<Result<_, _>>()?;
    assert_eq!(names, ["notes.txt"], "nothing is left behind");
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_new_file_has_the_permissions_of_any_new_file() -> TestResult {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new()?;
    folder.database("d.simdb")?;
    let other = folder.file("other", "")?;
    let mode = |path: &Path| fs::metadata(path).map(|it| it.permissions().mode());
    assert_eq!(mode(&folder.path("d.simdb"))?, mode(&other)?);
    Ok(())
}

#[test]
fn what_is_not_a_simdb_file_is_refused_by_name() -> TestResult {
    let folder = Folder::new()?;
    let text = folder.file("text", "no database at all\n".repeat(1_000))?;
    let short = folder.file("short", "redb")?;
    let empty = folder.file("empty", "")?;
    let foreign = folder.path("foreign.redb");
    let txn_of = |database: &redb::Database| database.begin_write();
    let txn = txn_of(&redb::Database::create(&foreign)?)?;
    txn.open_table(TableDefinition::<u64, u64>::new("meta"))?.insert(1, 2)?;
    txn.commit()?;
    for path in [&text, &short, &empty, &foreign] {
        let before = fs::read(path).ok();
        for read_only in [false, true] {
            let opened = Database::open(path, &OpenOptions::new().read_only(read_only));
            assert!(matches!(opened, Err(Error::NotSimdb { .. })), "{}: {opened:?}", path.display());
        }
        // The engine may note in the foreign file that it was opened, but nothing else is changed.
        assert!(path == &foreign || fs::read(path).ok() == before, "{} was changed", path.display());
    }
    assert!(matches!(open(&folder.path("missing")), Err(Error::NotFound { .. })));
    assert!(matches!(open(&folder.path("")), Err(Error::Io { .. })), "a directory");
    Ok(())
}

const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

#[test]
fn other_format_versions_and_features_are_refused_by_name() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("d.simdb")?);
    let set_format = |version: u32, features: u64| -> TestResult {
        let mut body = vec![2, 1];
        body.extend(version.to_le_bytes());
        body.extend(features.to_le_bytes());
        let mut envelope = xxh3_64_with_seed(&body, xxh3_64_with_seed(b"format", 0)).to_le_bytes().to_vec();
        envelope.extend(body);
        let database = redb::Database::open(folder.path("d.simdb"))?;
        let txn = database.begin_write()?;
        txn.open_table(META)?.insert("format", envelope.as_slice())?;
        Ok(txn.commit()?)
    };
    set_format(2, 0)?;
    assert!(matches!(open(&folder.path("d.simdb")), Err(Error::FormatVersion { found: 2, supported: 1 })));
    set_format(1, 8)?;
    assert!(matches!(open(&folder.path("d.simdb")), Err(Error::UnknownFeatures { bits: 8 })));
    set_format(1, 0)?;
    assert_sound(&open(&folder.path("d.simdb"))?)?;
    Ok(())
}

#[test]
fn a_file_has_one_writer_or_many_readers() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let writer = folder.database("d.simdb")?;
    insert_all(&writer, [document("a", 1)])?;
    let read_only = OpenOptions::new().read_only(true);
    assert!(matches!(open(&path), Err(Error::Busy { .. })));
    assert!(matches!(Database::open(&path, &read_only), Err(Error::Busy { .. })));
    let snapshot = writer.snapshot()?;
    drop(writer);
    assert!(matches!(open(&path), Err(Error::Busy { .. })), "the snapshot still reads");
    drop(snapshot);
    let readers = [Database::open(&path, &read_only)?, Database::open(&path, &read_only)?];
    for reader in &readers {
        assert_eq!(reader.snapshot()?.query(&Query::new(Fingerprint::from_bits(1)))?.total(), 1);
        assert!(matches!(reader.begin_write(), Err(Error::ReadOnly)));
        assert!(matches!(reader.check(), Err(Error::ReadOnly)));
    }
    assert!(matches!(open(&path), Err(Error::Busy { .. })));
    drop(readers);
    open(&path)?;
    Ok(())
}

/// Changes the file behind simdb's back and returns the problems that check finds.
fn problems_after(
    change: impl FnOnce(&redb::WriteTransaction) -> TestResult,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, (0..100).map(|i| document(i.to_string(), i / 2).with_scope("en")))?;
    assert_sound(&database)?;
    drop(database);
    let engine = redb::Database::open(folder.path("d.simdb"))?;
    let txn = engine.begin_write()?;
    change(&txn)?;
    txn.commit()?;
    drop(engine);
    let report = open(&folder.path("d.simdb"))?.check()?;
    assert_eq!(report.is_sound(), report.problems.is_empty());
    Ok(report.problems.iter().map(ToString::to_string).collect())
}

fn pop_first<K: redb::Key, V: redb::Value>(
    txn: &redb::WriteTransaction,
    table: TableDefinition<K, V>,
) -> TestResult {
    txn.open_table(table)?.pop_first()?;
    Ok(())
}

#[test]
fn check_finds_what_is_missing_or_too_much_in_any_table() -> TestResult {
    type Change = fn(&redb::WriteTransaction) -> TestResult;
    let changes: [(&str, Change); 10] = [
        ("keys", |txn| pop_first(txn, TableDefinition::<(u64, u64), ()>::new("keys"))),
        ("keys", |txn| pop_first(txn, TableDefinition::<u64, &[u8]>::new("documents"))),
        ("postings", |txn| pop_first(txn, TableDefinition::<(u64, u32, u64), ()>::new("postings"))),
        ("totals", |txn| pop_first(txn, TableDefinition::<(u64, u32), u64>::new("totals"))),
        ("scopes", |txn| pop_first(txn, TableDefinition::<&str, &[u8]>::new("scopes"))),
        ("permuted", |txn| pop_first(txn, TableDefinition::<u64, ()>::new("permuted-00"))),
        ("permuted", |txn| pop_first(txn, TableDefinition::<u64, ()>::new("permuted-03"))),
        ("permuted", |txn| {
            txn.open_table(TableDefinition::<u64, ()>::new("permuted-01"))?.insert(12_345, ())?;
            Ok(())
        }),
        ("permuted", |txn| {
            // As many rows as before, but one of them another.
            pop_first(txn, TableDefinition::<u64, ()>::new("permuted-02"))?;
            txn.open_table(TableDefinition::<u64, ()>::new("permuted-02"))?.insert(12_345, ())?;
            Ok(())
        }),
        ("postings", |txn| {
            txn.open_table(TableDefinition::<(u64, u32, u64), ()>::new("postings"))?
                .insert((3, 1, 999), ())?;
            Ok(())
        }),
    ];
    for (table, change) in changes {
        let problems = problems_after(change)?;
        let named = problems.iter().any(|problem| problem.contains(&format!("table {table},")));
        assert!(named, "{table}: {problems:?}");
    }
    Ok(())
}

#[test]
fn a_record_with_a_flipped_bit_or_of_another_row_is_an_error_and_never_an_answer() -> TestResult {
    const DOCUMENTS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("documents");
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 1), document("b", 1 << 20), document("c", 1 << 40)])?;
    drop(database);
    let engine = redb::Database::open(folder.path("d.simdb"))?;
    let txn = engine.begin_write()?;
    {
        let mut table = txn.open_table(DOCUMENTS)?;
        let mut flipped = table.get(1)?.map(|it| it.value().to_vec()).unwrap_or_default();
        flipped[12] ^= 1;
        table.insert(1, flipped.as_slice())?;
        let strayed = table.get(3)?.map(|it| it.value().to_vec()).unwrap_or_default();
        table.insert(2, strayed.as_slice())?;
    }
    txn.commit()?;
    drop(engine);
    let database = open(&folder.path("d.simdb"))?;
    {
        let snapshot = database.snapshot()?;
        for (key, bits) in [("a", 1), ("b", 1 << 20)] {
            assert!(matches!(snapshot.get(key), Err(Error::Damaged { table: "documents", .. })), "{key}");
            let found = snapshot.query(&Query::new(Fingerprint::from_bits(bits)));
            assert!(matches!(found, Err(Error::Damaged { table: "documents", .. })), "{key}: {found:?}");
        }
        assert_eq!(snapshot.get("c")?, Some(document("c", 1 << 40)));
        assert!(snapshot.documents().any(|document| document.is_err()));
        assert!(snapshot.documents().count() < 10, "after an error the documents end");
    }
    assert!(!database.check()?.is_sound());
    // What failed half-way cannot be committed.
    let mut txn = database.begin_write()?;
    assert!(matches!(txn.insert(&document("a", 2)), Err(Error::Damaged { .. })));
    assert!(matches!(txn.insert(&document("z", 2)), Err(Error::Aborted)));
    assert!(matches!(txn.commit(), Err(Error::Aborted)));
    Ok(())
}

#[test]
fn a_truncated_file_is_an_error_or_found_damaged() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..5_000u64).map(|i| document(i.to_string(), i.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
    )?;
    drop(database);
    let whole = fs::read(folder.path("d.simdb"))?;
    for eighths in 0..8 {
        let path = folder.file(&format!("{eighths}.simdb"), &whole[..whole.len() * eighths / 8])?;
        let checked = open(&path).and_then(|database| database.check());
        assert!(!checked.as_ref().is_ok_and(simdb::CheckReport::is_sound), "{eighths}/8: {checked:?}");
    }
    Ok(())
}

/// A document whose fingerprint is far from all others.
fn spread(i: u64) -> simdb::Document {
    document(i.to_string(), i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Opens, queries, reads and writes a damaged file; whatever comes out, it is no panic. And what `check` calls sound
/// gives right answers.
fn use_damaged(path: &Path, read_only: bool) -> simdb::Result<()> {
    let options = OpenOptions::new().read_only(read_only).cache_bytes(1 << 20);
    let database = Database::open(path, &options)?;
    let read = || -> simdb::Result<()> {
        let snapshot = database.snapshot()?;
        for max_distance in [0, 3, 30] {
            snapshot.query(&Query::new(Fingerprint::from_bits(1 << 40)).max_distance(max_distance))?;
        }
        snapshot.documents().try_for_each(|document| document.map(drop))?;
        snapshot.stats().map(drop)
    };
    _ = read();
    if read_only {
        return Ok(());
    }
    if database.check()?.is_sound() {
        let snapshot = database.snapshot()?;
        for document in (0..3_000).step_by(37).map(spread) {
            let found =
                snapshot.query(&Query::new(document.fingerprint().unwrap_or(Fingerprint::from_bits(0))))?;
            assert_eq!(found.nearest().map(|near| &near.document), Some(&document));
            assert_eq!(snapshot.get(document.key())?, Some(document));
        }
        assert_eq!(snapshot.documents().count(), 3_000);
    }
    let mut txn = database.begin_write()?;
    txn.insert_if_new(&document("new", 1 << 40), &simdb::Policy::link())?;
    txn.delete("77")?;
    txn.commit()
}

#[test]
fn damaged_pages_are_errors_and_no_panic_reaches_the_caller() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..3_000u64).map(|i| document(i.to_string(), i.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
    )?;
    drop(database);
    let whole = fs::read(folder.path("d.simdb"))?;
    let damaged = folder.path("damaged.simdb");
    let mut random = 0x0123_4567_89ab_cdef_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    // Flips anywhere and in the header, of one bit and of some; and whole pages lost.
    for round in 0..300 {
        let mut bytes = whole.clone();
        let within = if round % 5 == 0 { 512 } else { bytes.len() };
        for _ in 0..=round % 3 {
            let at = next(within);
            bytes[at] ^= 1 << next(8);
        }
        if round % 6 == 1 {
            let page = next(bytes.len() / 4096) * 4096;
            bytes[page..page + 4096].fill(0);
        }
        fs::write(&damaged, &bytes)?;
        _ = use_damaged(&damaged, true);
        _ = use_damaged(&damaged, false);
    }
    // Every page that holds anything, lost. Some of them are free, and nobody misses them.
    let mut damages = 0;
    for page in
        (0..whole.len()).step_by(4096).filter(|&page| whole[page..page + 4096].iter().any(|&byte| byte != 0))
    {
        let mut bytes = whole.clone();
        bytes[page..page + 4096].fill(0);
        fs::write(&damaged, &bytes)?;
        damages += u32::from(use_damaged(&damaged, false).is_err());
    }
    assert!(damages > 20, "of the pages most are in use, and {damages} were missed by nobody");
    Ok(())
}
