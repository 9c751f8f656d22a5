//! A system that refuses: the n-th call about a file or a name fails, for each n. What is made then is there as a
//! whole, or not at all, and nothing temporary is left.
//!
//! The calls are those by which files are made, named, synced and given their owners. Those of the engine are in
//! `failing`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use super::history::{Content, Operation, Runner};
use super::names::{COPY, InFolder, NAME, put};
use super::random::amount;
use crate::database::{CreateOptions, Database};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::disk::{Refusal, refuse, refuse_no_more};
use crate::fingerprint::Fingerprint;
use crate::store::Settings;

/// What the system says, by the numbers of Linux: a disk failed, on another disk, no room, no more descriptors, no
/// access, too many links, not permitted, no memory, read-only.
const ERRORS: [i32; 9] = [5, 18, 28, 24, 13, 31, 1, 12, 30];

/// Those of them that are tried.
fn errors() -> &'static [i32] {
    &ERRORS[..amount("SIMDB_REFUSALS", 2, ERRORS.len()).min(ERRORS.len())]
}

/// Something that makes files and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Making {
    Creation,
    Build,
    Backup,
    Compaction,
    OtherPlan,
    #[cfg(feature = "ingest")]
    SmallFile,
}

impl Making {
    /// Whether a new file gets a name where there was none.
    fn is_new(self) -> bool {
        matches!(self, Self::Creation | Self::Build | Self::Backup)
    }

    fn make(self, database: &Database, folder: &Path) -> Result<()> {
        let copy = folder.join(COPY);
        let options = CreateOptions::new().scheme(crate::Scheme::External);
        match self {
            Self::Creation => Database::create(copy, &options).map(drop),
            Self::Build => {
                let document = Document::new("a", Fingerprint::from_bits(7)).with_seen(0);
                Database::build(copy, &options, [Ok(document)], 1 << 16).map(drop)
            }
            Self::Backup => database.snapshot()?.backup(copy),
            Self::Compaction => database.compact(|_, _| ControlFlow::Continue(())),
            Self::OtherPlan => database.compact_with_plan("6x21", |_, _| ControlFlow::Continue(())),
            #[cfg(feature = "ingest")]
            Self::SmallFile => crate::files::replace(&copy, b"new"),
        }
    }
}

/// The names in a folder.
pub(super) fn names_in(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let name = entry.expect("the folder can be read").file_name();
        names.insert(name.to_string_lossy().into_owned());
    }
    names
}

/// Lets a call fail while something is made, and looks at what is left. Returns the call that failed, if any did.
fn refuse_one(making: Making, refusal: Refusal) -> Result<Option<&'static str>> {
    let mut runner = Runner::new(InFolder::new(), &Settings::for_tests())?;
    for key in ["a", "b", "c"] {
        runner.run(&put(key))?;
    }
    let folder = runner.home.folder.path().to_owned();
    let copy = folder.join(COPY);
    if !making.is_new() {
        std::fs::write(&copy, "old").expect("the folder is writable");
    }
    refuse(refusal);
    let made = making.make(runner.database(), &folder);
    let call = refuse_no_more();
    let what = format!("{making:?}, {refusal:?}, {call:?}: {made:?}");
    if let Err(error) = &made {
        let is_clear = matches!(error, Error::Io { .. } | Error::OwnerNotKept { .. });
        assert!(is_clear && call.is_some(), "{what}");
    }
    let has_copy = made.is_ok() || !making.is_new();
    let mut expected = BTreeSet::from([NAME.to_owned()]);
    expected.extend(has_copy.then(|| COPY.to_owned()));
    assert_eq!(names_in(&folder), expected, "{what}");
    #[cfg(feature = "ingest")]
    if making == Making::SmallFile {
        let bytes = std::fs::read(&copy).expect("it has a name");
        // The name may be given, and not durable: that is told too.
        let is_whole = bytes == b"new" || made.is_err() && bytes == b"old";
        assert!(is_whole, "{what}: {bytes:?}");
    }
    go_on(&mut runner, making, made.is_ok(), &what)?;
    Ok(call)
}

/// The same can be done now, the database has what it had, and takes new commits.
fn go_on(runner: &mut Runner<InFolder>, making: Making, is_made: bool, what: &str) -> Result<()> {
    let folder = runner.home.folder.path().to_owned();
    if !is_made {
        making
            .make(runner.database(), &folder)
            .unwrap_or_else(|error| panic!("{what}, and then again {error:?}"));
    }
    if making.is_new() {
        let copy = Database::open(folder.join(COPY), &crate::OpenOptions::new())?;
        assert!(copy.check()?.is_sound(), "{what}");
        let documents = Content::of(&copy)?.documents.len();
        let expected = match making {
            Making::Creation => 0,
            Making::Build => 1,
            _ => 3,
        };
        assert_eq!(documents, expected, "{what}");
    }
    runner.run(&put("d"))?;
    runner.run(&Operation::Drop)?;
    let content = Content::of(runner.database())?;
    assert!(runner.model().is(&content), "{what}: {content:?}");
    runner.ensure_sound(what)
}

/// Refuses each call of an operation in turn, with each error, once and from then on. The operation returns the call
/// that was refused, or nothing once it makes no more calls. Returns these calls, and counts how often one was refused.
fn refuse_each(
    refused: &mut usize,
    mut refuse_one: impl FnMut(Refusal) -> Result<Option<&'static str>>,
) -> Result<BTreeSet<&'static str>> {
    let mut calls = BTreeSet::new();
    for &error in errors() {
        for lasts in [false, true] {
            for after in 0.. {
                let refusal = Refusal {
                    after,
                    error,
                    lasts,
                };
                let Some(call) = refuse_one(refusal)? else {
                    break;
                };
                calls.insert(call);
                *refused += 1;
            }
        }
    }
    Ok(calls)
}

/// Whatever call is refused, and for whatever reason: the error says so, the old state is there or the new one, nothing
/// temporary is left, and the same can be done again once the cause is gone.
#[test]
fn each_call_about_files_and_names_may_be_refused() -> Result<()> {
    let makings = [
        Making::Creation,
        Making::Build,
        Making::Backup,
        Making::Compaction,
        Making::OtherPlan,
        #[cfg(feature = "ingest")]
        Making::SmallFile,
    ];
    let mut refused = 0;
    for making in makings {
        let calls = refuse_each(&mut refused, |refusal| refuse_one(making, refusal))?;
        println!("{making:?}: {calls:?}");
        let has_all = ["create", "sync a file", "sync a directory"];
        assert!(
            has_all.iter().all(|call| calls.contains(call)),
            "{making:?}: {calls:?}"
        );
    }
    println!("{refused} calls were refused in turn");
    Ok(())
}

/// The records of an input of a cleaning, of which some are near-duplicates.
#[cfg(feature = "ingest")]
const RECORDS: &str = "a\t0000000000000001\nb\t0000000000000003\nc\tffff000000000000\nd\tshort\n";

/// Lets a call fail while an input is cleaned. Returns the call that failed, if any did.
#[cfg(feature = "ingest")]
fn refuse_one_of_cleaning(refusal: Refusal) -> Result<Option<&'static str>> {
    use crate::dedup::Dedup;
    use crate::ingest::{InputFormat, ReadOptions};
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.tsv");
    std::fs::write(&input, RECORDS).expect("the folder is writable");
    let dedup = Dedup::new([&input], folder.path().join("clean.tsv"))
        .options(ReadOptions::new().format(InputFormat::Fingerprints))
        .scheme(crate::Scheme::External)
        .removed(folder.path().join("removed.jsonl"));
    refuse(refusal);
    let cleaned = dedup.run(|_| {});
    let call = refuse_no_more();
    let what = format!("{refusal:?}, {call:?}: {cleaned:?}");
    if let Err(error) = &cleaned {
        let is_clear = matches!(error, Error::Io { .. } | Error::Output { .. });
        assert!(is_clear && call.is_some(), "{what}");
        let again = dedup.run(|_| {});
        // A run that has come to its end is not made again, and what it has made is not written over.
        let has_ended = error
            .to_string()
            .contains("all results are in their places");
        assert!(
            again.is_ok() || has_ended,
            "{what}, and then again {again:?}"
        );
    }
    let names = ["clean.tsv", "in.tsv", "removed.jsonl"].map(str::to_owned);
    assert_eq!(names_in(folder.path()), BTreeSet::from(names), "{what}");
    let clean = std::fs::read_to_string(folder.path().join("clean.tsv"));
    assert_eq!(
        clean.expect("it has a name"),
        "a\t0000000000000001\nc\tffff000000000000\nd\tshort\n",
        "{what}"
    );
    let removed = std::fs::read_to_string(folder.path().join("removed.jsonl"));
    assert_eq!(removed.expect("it has a name").lines().count(), 1, "{what}");
    Ok(call)
}

/// The folder of a cleaning is made, filled, emptied and removed. Whatever call is refused, the same command goes on
/// when the cause is gone, and its results are those of a run that nothing was refused.
#[cfg(feature = "ingest")]
#[test]
fn a_cleaning_that_is_refused_a_call_goes_on_later() -> Result<()> {
    let mut refused = 0;
    let calls = refuse_each(&mut refused, refuse_one_of_cleaning)?;
    println!("{refused} calls were refused in turn: {calls:?}");
    assert!(
        calls.contains("make a directory") && calls.contains("rename"),
        "{calls:?}"
    );
    Ok(())
}

/// The name of the folder was not synced when it was made. After a power cut it could be gone with all work in it.
#[cfg(feature = "ingest")]
#[test]
fn the_folder_of_a_cleaning_has_a_durable_name_before_its_work_begins() -> Result<()> {
    use crate::dedup::Dedup;
    use crate::files::disk::{DiskEvent, Journal};
    use crate::ingest::{InputFormat, ReadOptions};
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.tsv");
    std::fs::write(&input, RECORDS).expect("the folder is writable");
    let journal = Journal::of(folder.path());
    let dedup = Dedup::new([&input], folder.path().join("clean.tsv"))
        .options(ReadOptions::new().format(InputFormat::Fingerprints))
        .scheme(crate::Scheme::External);
    let work = dedup.work_folder();
    let mut looked = 0;
    dedup.run(|_| {
        if work.is_dir() {
            let events = journal.events();
            let is_durable = events
                .iter()
                .any(|event| matches!(event, DiskEvent::SyncDirectory(_)));
            assert!(is_durable, "{events:?}");
            looked += 1;
        }
    })?;
    assert!(looked > 0, "nothing was told during the work");
    Ok(())
}
