//! Power cuts of a cleaning: of its folder with the state, the records and the results, and of the results that get
//! into their places. The same command goes on, and its results are those of a run that nothing has stopped.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::history::Repeat;
use super::names::{FolderMoment, moments};
use super::random::{Random, amount, seed_or};
use super::refused::names_in;
use crate::dedup::Dedup;
use crate::error::{Error, Result};
use crate::files::disk::Journal;
use crate::ingest::{InputFormat, ReadOptions};

const FIRST: &str = "first.tsv";
const SECOND: &str = "second.tsv";
const CLEAN: &str = "clean.tsv";
const REMOVED: &str = "removed.jsonl";

/// What a cleaning makes.
#[derive(Clone, Copy)]
enum Made {
    /// The records that survive, of lines with tabs.
    Survivors,
    /// All records with their groups, of lines of JSON.
    Annotations,
}

/// Two inputs with near-duplicates within and between them, and lines that cannot be judged.
fn write_inputs(folder: &Path, made: Made) {
    let mut inputs = [String::new(), String::new()];
    for number in 0..40u64 {
        let far = (number % 23 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = far ^ u64::from(number >= 23);
        let line = match (made, number % 13) {
            (Made::Survivors, 7) => format!("key {number}\tno fingerprint\n"),
            (Made::Survivors, _) => format!("key {number}\t{bits:016x}\n"),
            (Made::Annotations, 7) => format!("{{\"key\":{number}}}\n"),
            (Made::Annotations, _) => {
                format!("{{\"key\":{number},\"fingerprint\":\"{bits:016x}\"}}\n")
            }
        };
        inputs[usize::from(number > 15)] += &line;
    }
    for (name, lines) in [FIRST, SECOND].iter().zip(inputs) {
        let path = folder.join(name);
        fs::write(&path, lines).expect("the folder is writable");
        // By its time an input is known as unchanged.
        let file = fs::File::options().write(true).open(&path);
        let set = file.and_then(|file| file.set_modified(UNIX_EPOCH));
        set.expect("the time can be set");
    }
}

fn dedup(folder: &Path, made: Made) -> Dedup {
    let inputs = [FIRST, SECOND].map(|name| folder.join(name));
    let (format, annotates) = match made {
        Made::Survivors => (InputFormat::Fingerprints, false),
        Made::Annotations => (InputFormat::Jsonl, true),
    };
    Dedup::new(inputs, folder.join(CLEAN))
        .options(ReadOptions::new().format(format))
        .annotate(annotates)
        .scheme(crate::Scheme::External)
        .removed(folder.join(REMOVED))
        .drop_unjudged(true)
}

fn results(folder: &Path) -> [Option<String>; 2] {
    [CLEAN, REMOVED].map(|name| fs::read_to_string(folder.join(name)).ok())
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        let removed = if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.expect("it can be removed");
    }
}

/// Goes on in a folder that a power cut has left.
fn go_on(folder: &Path, made: Made, expected: &[Option<String>; 2], what: &str) {
    let before = results(folder);
    match dedup(folder, made).run(|_| {}) {
        Ok(_) => {}
        // The run had come to its end, and what it has made is not written over.
        Err(Error::AlreadyExists { .. }) if before == *expected => {}
        Err(error) => panic!("{what}: {error}"),
    }
    assert_eq!(results(folder), *expected, "{what}");
    let names = [CLEAN, FIRST, REMOVED, SECOND].map(str::to_owned);
    assert_eq!(names_in(folder), BTreeSet::from(names), "{what}");
}

/// Cuts the power at some moments of a cleaning, and goes on.
fn cut_and_go_on(made: Made, test: &'static str) -> Result<()> {
    let seed = seed_or(1);
    let _repeat = Repeat { seed, test };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = folder.path();
    write_inputs(folder, made);
    let journal = Journal::of(folder);
    dedup(folder, made).run(|_| {})?;
    let expected = results(folder);
    assert!(expected.iter().all(Option::is_some), "{expected:?}");
    let events = journal.events();
    drop(journal);
    let mut random = Random::new(seed);
    let mut moment = FolderMoment::new(&events);
    let wanted = amount("SIMDB_CLEANINGS", 300, 5_000);
    for (image, at) in moments(&events, wanted, &mut random)
        .into_iter()
        .enumerate()
    {
        moment.go_to(at);
        empty(folder);
        write_inputs(folder, made);
        let cut = moment.cut_into(folder, &mut random);
        go_on(folder, made, &expected, &format!("image {image}: {cut}"));
    }
    println!("{wanted} folders, {} events", events.len());
    Ok(())
}

#[test]
fn a_cleaning_goes_on_after_a_power_cut_at_any_moment() -> Result<()> {
    cut_and_go_on(
        Made::Survivors,
        "a_cleaning_goes_on_after_a_power_cut_at_any_moment",
    )
}

#[test]
fn annotations_go_on_after_a_power_cut_at_any_moment() -> Result<()> {
    cut_and_go_on(
        Made::Annotations,
        "annotations_go_on_after_a_power_cut_at_any_moment",
    )
}
