//! `simdb salvage`: what it prints, its exit codes, and what it leaves where it is refused or killed.

use std::path::Path;
use std::time::Duration;

use simdb::{Database, OpenOptions, Query};

use crate::support::{
    Folder, TestResult, assert_has, assert_sound, bundled, document, gunzip, insert_all, leave_log,
    program, spread,
};

const PAGE: usize = 4096;
/// The key of the last document.
const MARKER: &str = "5e1fa9c37b20d846";

/// A file with several levels and a log, whose blocks hold dozens of documents.
fn sound_file(folder: &Folder, documents: u64) -> simdb::Result<()> {
    let database = folder.database("d.simdb")?;
    let spread = |i: u64| {
        let document = document(format!("key {i}"), spread(i));
        document.with_payload(vec![i as u8; 100])
    };
    insert_all(&database, (0..documents).map(spread))?;
    // Blocks are compressed, but nothing in this key is there twice.
    insert_all(&database, [document(MARKER, 1)])?;
    let mut txn = database.begin_write()?;
    for i in (0..documents).step_by(10) {
        txn.delete(format!("key {i}"))?;
    }
    txn.commit()?;
    leave_log(database);
    Ok(())
}

fn open(path: &Path) -> simdb::Result<Database> {
    Database::open(path, &OpenOptions::new())
}

/// Damages the page with a text, and returns where it begins.
fn damage_page_with(path: &Path, text: &[u8]) -> std::io::Result<usize> {
    let mut bytes = std::fs::read(path)?;
    let at = bytes.windows(text.len()).position(|window| window == text);
    let at = at.expect("the text is there");
    bytes[at..at + 4].fill(0x55);
    std::fs::write(path, bytes)?;
    Ok(at / PAGE * PAGE)
}

#[test]
fn a_sound_file_gives_a_whole_copy_and_exit_code_0() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, 2_000)?;
    let before = std::fs::read(folder.path("d.simdb"))?;
    folder
        .run("salvage d.simdb n.simdb")?
        .expect(0)
        .prints("1801 of 1801 documents")
        .prints("nothing is missing");
    folder
        .run("salvage d.simdb again.simdb --scheme simhash-2")?
        .expect(0)
        .says("not those that were given");
    let after = std::fs::read(folder.path("d.simdb"))?;
    assert_eq!(after, before, "it was written to");
    let new = open(&folder.path("n.simdb"))?;
    assert_sound(&new)?;
    let snapshot = new.snapshot()?;
    assert_eq!(snapshot.documents().count(), 1_801);
    let first = snapshot.get("key 1")?.expect("it is there");
    let found = snapshot.query(&Query::new(first.fingerprint().expect("it has one")))?;
    assert!(found.iter().any(|found| found.document.key() == b"key 1"));
    // Nothing is written over.
    folder
        .run("salvage d.simdb n.simdb")?
        .refused("already exists");
    Ok(())
}

/// The last documents of a file stood in a page that was damaged. `dump` gave up there.
#[test]
fn what_is_missing_is_counted_and_the_exit_code_is_2() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, 2_000)?;
    folder.run("compact d.simdb")?.expect(0);
    let begin = damage_page_with(&folder.path("d.simdb"), MARKER.as_bytes())?;
    let ran = folder.run("salvage d.simdb n.simdb --json")?.expect(2);
    let report = ran.object()?;
    let documents = report["documents"].as_u64().expect("a number");
    assert_has!(report, {"expected": 1_801, "whole": false});
    let missing = report["missing"].as_array().expect("a list");
    assert_eq!(missing.len(), 1, "{report}");
    assert_eq!(missing[0]["documents"], 1_801 - documents, "{report}");
    assert_eq!(report["damaged_bytes"][0]["first"], begin, "{report}");
    let new = open(&folder.path("n.simdb"))?;
    assert_sound(&new)?;
    assert_eq!(new.snapshot()?.documents().count() as u64, documents);
    std::fs::remove_file(folder.path("n.simdb"))?;
    folder
        .run("salvage d.simdb n.simdb")?
        .expect(2)
        .prints("missing: ")
        .prints("how far inputs were read is lost");
    Ok(())
}

#[test]
fn a_file_without_header_is_salvaged_and_other_files_are_refused() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, 500)?;
    let mut bytes = std::fs::read(folder.path("d.simdb"))?;
    bytes[..PAGE].fill(0);
    folder.file("h.simdb", &bytes)?;
    folder.run("stats h.simdb")?.refused("simdb salvage");
    folder
        .run("salvage h.simdb n.simdb")?
        .expect(2)
        .prints("451 documents; how many")
        .prints("it is not certain which commit was the last")
        // What came after the commit that was found is not known.
        .prints("and greater");
    assert_sound(&open(&folder.path("n.simdb"))?)?;

    folder.file("text", "no database\n".repeat(1_000))?;
    folder
        .run("salvage text m.simdb")?
        .refused("nothing in it is recognised");
    folder.file("empty", b"")?;
    folder
        .run("salvage empty m.simdb")?
        .refused("nothing in it is recognised");
    folder.file("older.simdb", gunzip(&bundled("format-7.simdb.gz"))?)?;
    folder
        .run("salvage older.simdb m.simdb")?
        .refused("format version 7");
    folder
        .run("salvage absent m.simdb")?
        .refused("no such database");
    folder.run("salvage . m.simdb")?.expect(2);
    assert!(!folder.path("m.simdb").exists());
    Ok(())
}

#[test]
fn a_file_that_is_open_for_writing_is_refused() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, 100)?;
    let database = open(&folder.path("d.simdb"))?;
    folder
        .run("salvage d.simdb n.simdb")?
        .refused("in use by another process");
    drop(database);
    assert!(!folder.path("n.simdb").exists());
    folder.run("salvage d.simdb n.simdb")?.expect(0);
    Ok(())
}

/// Settings are given where the file has lost its own, and only there.
#[test]
fn settings_are_asked_for_by_name_if_they_are_lost() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, 500)?;
    folder.run("compact d.simdb")?.expect(0);
    let mut bytes = std::fs::read(folder.path("d.simdb"))?;
    // The names of the rows of the table `meta` stand before these rows.
    let places: Vec<usize> = (0..bytes.len() - 19)
        .filter(|&at| bytes[at..].starts_with(b"formatsettingsstate"))
        .collect();
    for at in places {
        let begin = at / PAGE * PAGE;
        bytes[begin..begin + PAGE].fill(0);
    }
    folder.file("m.simdb", &bytes)?;
    let new = folder.path("n.simdb");
    folder
        .run("salvage m.simdb n.simdb")?
        .refused("its settings cannot be read")
        .says("--scheme");
    assert!(!new.exists());
    folder
        .run("salvage m.simdb n.simdb --plan 4x16")?
        .refused("--scheme");
    folder
        .run("salvage m.simdb n.simdb --scheme external --plan 4x16")?
        .expect(2)
        .prints("451 documents; how many there were is not known");
    assert_sound(&open(&new)?)?;
    Ok(())
}

/// Whenever it is killed, there is no file or the whole one.
#[cfg(unix)]
#[test]
fn a_killed_salvage_leaves_no_half_file() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, 20_000)?;
    let new = folder.path("n.simdb");
    for pause in (0..8).map(|i| Duration::from_millis(i * i * 4)) {
        let mut child = program!("salvage", &folder.path("d.simdb"), &new)
            .stdout(std::process::Stdio::null())
            .spawn()?;
        std::thread::sleep(pause);
        // It may have ended by itself.
        _ = child.kill();
        child.wait()?;
        if new.exists() {
            let database = open(&new)?;
            assert_sound(&database)?;
            assert_eq!(database.snapshot()?.documents().count(), 18_001);
            drop(database);
            std::fs::remove_file(&new)?;
        }
    }
    Ok(())
}
