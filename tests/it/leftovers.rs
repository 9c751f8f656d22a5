//! What is left of a command that is stopped by a signal: nothing but whole databases. What is left of one that fails
//! is in `scarce`.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use simdb::{Database, OpenOptions};

use crate::support::{Folder, TestResult, assert_sound, done, insert_all, numbered, stored};

const DOCUMENTS: u64 = 40_000;

/// A folder with the database `d.simdb` and what it prints as a dump, `dump.jsonl`.
fn folder() -> TestResult<Folder> {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, (0..DOCUMENTS).map(numbered))?;
    drop(database);
    folder.file("dump.jsonl", done!("dump", folder.path("d.simdb")).out)?;
    Ok(folder)
}

/// The arguments of the commands that write a whole file.
const COMMANDS: [&str; 3] = [
    "load new.simdb dump.jsonl",
    "compact d.simdb --json",
    "backup d.simdb new.simdb",
];

/// A command that says nothing.
fn command(folder: &Folder, words: &str) -> Command {
    let mut command = folder.command(words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn assert_whole(path: &Path) -> TestResult {
    let database = Database::open(path, &OpenOptions::new())?;
    assert_eq!(stored(&database)?, DOCUMENTS);
    Ok(assert_sound(&database)?)
}

/// Asserts that there is nothing but the input and whole databases. Removes what was made.
fn assert_nothing_is_left(folder: &Folder, told: &str) -> TestResult {
    for entry in fs::read_dir(folder.path("."))? {
        let name = entry?.file_name();
        let is_known = ["d.simdb", "dump.jsonl", "new.simdb"]
            .iter()
            .any(|it| name == *it);
        assert!(is_known, "{told} left {}", name.display());
    }
    if folder.path("new.simdb").exists() {
        assert_whole(&folder.path("new.simdb"))?;
        fs::remove_file(folder.path("new.simdb"))?;
    }
    Ok(())
}

/// A whole copy stayed in the directory when `load` or `compact` was stopped, under a temporary name.
///
/// On file systems on which every file has a name, such as NFS, that is still so.
#[test]
fn a_command_that_a_signal_stops_leaves_no_file() -> TestResult {
    let folder = folder()?;
    for words in COMMANDS {
        // The signals are spread over the shortest time that the command has taken so far.
        let mut takes = Duration::MAX;
        let mut stopped = 0;
        // On a busy machine, signals come late.
        for round in 0..200 {
            if round >= 20 && stopped > 2 {
                break;
            }
            let begun = Instant::now();
            let mut child = command(&folder, words).spawn()?;
            if round > 0 {
                std::thread::sleep(takes.mul_f64((round * 7 % 20) as f64 / 20.0));
                let signal = ["INT", "TERM"][round % 2];
                let kill = format!("kill -s {signal} {} 2>/dev/null || true", child.id());
                assert!(Command::new("sh").args(["-c", &kill]).status()?.success());
            }
            match child.wait()?.signal() {
                Some(_) => stopped += 1,
                None => takes = takes.min(begun.elapsed()),
            }
            assert_nothing_is_left(&folder, &format!("{words} in round {round}"))?;
        }
        let what = format!("{words}: only {stopped} of 200 signals came before the end");
        assert!(stopped > 2, "{what}");
        assert_whole(&folder.path("d.simdb"))?;
    }
    Ok(())
}
