//! Files that are missing, foreign, of another version, in use, or damaged.

#[cfg(unix)]
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use redb::{ReadableDatabase, TableDefinition};
use simdb::{CreateOptions, Database, Error, OpenOptions};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::support::{
    Folder, Ran, TestResult, assert_error, assert_sound, bundled, document, gunzip, insert_all,
    program, query_of, run,
};

fn open(path: &Path) -> simdb::Result<Database> {
    Database::open(path, &OpenOptions::new())
}

/// Once `export d.simdb - | …` read nothing, and a file of this name was there.
#[cfg(unix)]
#[test]
fn no_file_is_called_as_standard_output_is() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.tiny_database("d.simdb")?);
    folder.file("in.jsonl", "{\"id\":\"a\",\"text\":\"short\"}\n{bad\n")?;
    let refused = [
        "create -",
        "ingest - in.jsonl",
        "serve - --until-idle 0",
        "load - in.jsonl",
        "stats -",
        "backup d.simdb -",
        "salvage d.simdb -",
        "report d.simdb --html -",
        "ingest new.simdb in.jsonl --rejected -",
        "dedup in.jsonl -o -",
        "dedup in.jsonl -o out.jsonl --removed -",
        "dedup in.jsonl -o out.jsonl --report=-",
        "eval in.jsonl --plot -",
    ];
    for command in refused {
        folder
            .run(command)?
            .refused("a file is wanted here: name one, or say `./-`");
        assert_eq!(folder.count()?, 2, "{command}");
    }
    folder.run("backup d.simdb ./-")?.expect(0);
    assert!(folder.path("-").exists());
    Ok(())
}

/// The system said only that something is not there. `backup d.simdb x/.` made a file `x`, and failed all the same.
#[test]
fn no_file_is_named_as_a_directory() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.tiny_database("d.simdb")?);
    folder.file("in.jsonl", "{\"id\":\"a\",\"text\":\"short\"}\n")?;
    let dump = folder.run("dump d.simdb")?.expect(0).out;
    folder.file("dump.jsonl", dump)?;
    for name in ["x/", "x/."] {
        for command in [
            "create NAME",
            "ingest NAME in.jsonl",
            "serve NAME --until-idle 1",
            "load NAME dump.jsonl",
            "backup d.simdb NAME",
            "salvage d.simdb NAME",
            "report d.simdb --html NAME",
            "pairs d.simdb --output NAME",
            "eval in.jsonl --plot NAME",
        ] {
            let command = command.replace("NAME", name);
            folder.run(&command)?.refused("name a file");
            assert_eq!(folder.count()?, 3, "{command}");
        }
        assert_error!(
            Database::create(folder.path(name), &CreateOptions::new()) => Error::Io { .. }
        );
    }
    Ok(())
}

#[test]
fn creation_never_touches_an_existing_file() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.file("notes.txt", "precious")?;
    assert_error!(Database::create(&path, &CreateOptions::new()) => Error::AlreadyExists { .. });
    assert_eq!(fs::read_to_string(&path)?, "precious");
    let nowhere = folder.path("no/such/folder/d.simdb");
    assert_error!(Database::create(nowhere, &CreateOptions::new()) => Error::Io { .. });
    let too_far = CreateOptions::new().max_distance(65);
    assert_error!(
        Database::create(folder.path("d.simdb"), &too_far) => Error::MaxDistance { given: 65, .. }
    );
    let names: Vec<_> = fs::read_dir(folder.path(""))?
        .map(|entry| entry.map(|it| it.file_name()))
        .collect::<Result<_, _>>()?;
    assert_eq!(names, ["notes.txt"], "nothing is left behind");
    Ok(())
}

/// It was said that there was no such database, to whoever had asked for a new one.
#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_told_with_what_is_missing() -> TestResult {
    let folder = Folder::new()?;
    let link = folder.path("link.simdb");
    std::os::unix::fs::symlink("gone.simdb", &link)?;
    let input = folder.file("in.txt", "some words")?;
    for command in [
        vec![OsStr::new("ingest"), link.as_os_str(), input.as_os_str()],
        vec![OsStr::new("serve"), link.as_os_str()],
        vec![OsStr::new("create"), link.as_os_str()],
        vec![OsStr::new("get"), link.as_os_str(), OsStr::new("k")],
        vec![
            OsStr::new("dedup"),
            input.as_os_str(),
            OsStr::new("-o"),
            link.as_os_str(),
        ],
    ] {
        let ran = program!(..command).output()?;
        Ran::from(ran).refused("gone.simdb, where nothing is");
    }
    assert_error!(Database::open_or_create(&link, &CreateOptions::new()) => Error::Io { .. });
    assert!(!folder.path("gone.simdb").exists());
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
fn a_file_of_another_kind_is_refused_by_name() -> TestResult {
    let folder = Folder::new()?;
    let text = folder.file("text", "no database at all\n".repeat(1_000))?;
    let short = folder.file("short", "redb")?;
    let empty = folder.file("empty", "")?;
    let foreign = folder.path("foreign.redb");
    let txn_of = |database: &redb::Database| database.begin_write();
    let txn = txn_of(&redb::Database::create(&foreign)?)?;
    txn.open_table(TableDefinition::<u64, u64>::new("meta"))?
        .insert(1, 2)?;
    txn.commit()?;
    for path in [&text, &short, &empty, &foreign] {
        let before = fs::read(path).ok();
        for read_only in [false, true] {
            let opened = Database::open(path, &OpenOptions::new().read_only(read_only));
            assert!(
                matches!(opened, Err(Error::NotSimdb { .. })),
                "{}: {opened:?}",
                path.display()
            );
        }
        // The engine may note in the foreign file that it was opened. Nothing else is changed.
        assert!(
            path == &foreign || fs::read(path).ok() == before,
            "{} was changed",
            path.display()
        );
    }
    assert_error!(open(&folder.path("missing")) => Error::NotFound { .. });
    assert!(
        matches!(open(&folder.path("")), Err(Error::Io { .. })),
        "a directory"
    );
    Ok(())
}

const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

#[test]
fn other_format_versions_and_features_are_refused_by_name() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("d.simdb")?);
    let engine = redb::Database::open(folder.path("d.simdb"))?;
    let format = engine
        .begin_read()?
        .open_table(META)?
        .get("format")?
        .ok_or("no format")?
        .value()
        .to_vec();
    let seed = &format[format.len() - 8..];
    drop(engine);
    let set_format = |version: u32, features: u64| -> TestResult {
        let mut body = vec![2, 1];
        body.extend(version.to_le_bytes());
        body.extend(features.to_le_bytes());
        body.extend(seed);
        let mut envelope = xxh3_64_with_seed(&body, xxh3_64_with_seed(b"format", 0))
            .to_le_bytes()
            .to_vec();
        envelope.extend(body);
        let database = redb::Database::open(folder.path("d.simdb"))?;
        let txn = database.begin_write()?;
        txn.open_table(META)?
            .insert("format", envelope.as_slice())?;
        Ok(txn.commit()?)
    };
    for other in [1, 2, 3, 4, 5, 6, 7, 9] {
        set_format(other, 0)?;
        assert_error!(
            open(&folder.path("d.simdb"))
            => Error::FormatVersion { found, supported: 8, .. } if *found == other
        );
    }
    set_format(8, 8)?;
    assert_error!(open(&folder.path("d.simdb")) => Error::UnknownFeatures { bits: 8, .. });
    set_format(8, 0)?;
    assert_sound(&open(&folder.path("d.simdb"))?)?;
    Ok(())
}

/// Files that programs made before the format changed, with two documents each.
#[test]
fn files_of_earlier_versions_are_refused_by_name() -> TestResult {
    let folder = Folder::new()?;
    for version in [2, 3, 4, 5, 6, 7] {
        let whole = gunzip(&bundled(&format!("format-{version}.simdb.gz")))?;
        let path = folder.file("old.simdb", &whole)?;
        let refused = open(&path);
        let is_right = matches!(refused, Err(Error::FormatVersion { found, supported: 8, .. }) if found == version);
        assert!(is_right, "{refused:?}");
        run!("stats", &path).refused(&format!("format version {version}"));
    }
    Ok(())
}

#[test]
fn a_file_has_one_writer_or_many_readers() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let writer = folder.database("d.simdb")?;
    insert_all(&writer, [document("a", 1)])?;
    let read_only = OpenOptions::new().read_only(true);
    assert_error!(open(&path) => Error::Busy { .. });
    assert_error!(Database::open(&path, &read_only) => Error::Busy { .. });
    let snapshot = writer.snapshot()?;
    drop(writer);
    assert!(
        matches!(open(&path), Err(Error::Busy { .. })),
        "the snapshot still reads"
    );
    drop(snapshot);
    let readers = [
        Database::open(&path, &read_only)?,
        Database::open(&path, &read_only)?,
    ];
    for reader in &readers {
        assert_eq!(reader.snapshot()?.query(&query_of(1))?.total(), 1);
        assert_error!(reader.begin_write() => Error::ReadOnly);
        let report = reader.check()?;
        assert!(
            report.is_sound() && !report.pages_verified && report.documents == 1,
            "{report:?}"
        );
    }
    assert_error!(open(&path) => Error::Busy { .. });
    drop(readers);
    open(&path)?;
    Ok(())
}
