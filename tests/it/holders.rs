//! A database that is in use says by whom.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use simdb::{Database, Error, Holder, OpenOptions};

use crate::support::{Folder, TestResult, document, go_on, insert_all, program, run};

/// Who has a database open.
fn holder(path: &std::path::Path, options: &OpenOptions) -> simdb::Result<Option<Holder>> {
    match Database::open(path, options) {
        Err(Error::Busy { holder, .. }) => Ok(Some(holder)),
        Err(error) => Err(error),
        Ok(_) => Ok(None),
    }
}

/// The message said "another process", also if it was the same one.
#[test]
fn a_database_that_this_process_has_open_says_so() -> TestResult {
    let folder = Folder::new()?;
    let (path, options) = (folder.path("d.simdb"), OpenOptions::new());
    let database = folder.database("d.simdb")?;
    assert_eq!(holder(&path, &options)?, Some(Holder::ThisProcess));
    database.compact(go_on)?;
    assert_eq!(
        holder(&path, &options)?,
        Some(Holder::ThisProcess),
        "another file has the name now"
    );
    let snapshot = database.snapshot()?;
    drop(database);
    assert_eq!(holder(&path, &options)?, Some(Holder::ThisProcess));
    drop(snapshot);
    assert_eq!(holder(&path, &options)?, None);
    let reader = Database::open(&path, &options.clone().read_only(true))?;
    assert_eq!(holder(&path, &options)?, Some(Holder::ThisProcess));
    let said = Database::open(&path, &options)
        .expect_err("it is open")
        .to_string();
    assert!(said.contains("in use by this process"), "{said}");
    drop(reader);
    // The program is another process.
    let database = Database::open(&path, &options)?;
    let number = format!("another process, number {}", std::process::id());
    run!("stats", &path).refused(&number);
    drop(database);
    Ok(())
}

#[test]
fn a_database_that_another_process_has_open_names_it() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    insert_all(&folder.database("d.simdb")?, [document("a", 1)])?;
    let mut child = program!("ingest --input-format fingerprints --batch 1", &path, "-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().expect("standard input is a pipe");
    writeln!(input, "b\t0000000000000002")?;
    // When it reports the near-duplicate, it has the database open. To look earlier would keep it out.
    let mut reported = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    output.read_line(&mut reported)?;
    assert_eq!(reported.trim_end(), "b is near a (distance 2)");
    let found = holder(&path, &OpenOptions::new().read_only(true))?;
    assert_eq!(found, Some(Holder::Process(child.id())));
    drop(input);
    assert!(child.wait()?.success());
    assert_eq!(holder(&path, &OpenOptions::new())?, None);
    Ok(())
}
