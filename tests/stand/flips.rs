//! Damage: whatever bytes of a file are changed, each call gives an error or the right answer, in bounded memory.
//!
//! The right answer is that of the last commit. If the page is damaged that says which of two commits is the newest,
//! the engine may show the commit before, and so it may where the whole end of a file is another's. With such a page of
//! an older commit in its place, it may show that commit.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use super::answers::{Answers, Questions};
use super::random::{Random, is_long_run};
use crate::OpenOptions;
use crate::allocations::largest_of;
use crate::database::{Database, WriteTxn};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::source::{Identity, Place, Reached};
use crate::store::{CheckReport, FileSeed, Image, Recording, Settings, Sizes, Store};
use crate::sync::Mutex;

/// So small that a hundred documents are in several levels.
const SIZES: Sizes = Sizes {
    recent_operations: 6,
    short_rows: 1,
    block_bytes: 128,
    document_block_bytes: 300,
    chunk_entries: 3,
    step_blocks: 2,
    part_rows: 50,
    compared_per_query: 0,
    spill_bytes: 200,
};

/// Nothing is merged, so the log stays.
const LOG_STAYS: Sizes = Sizes {
    recent_operations: 1_000,
    ..SIZES
};

const COMMITS: u64 = 14;
const PAGE: usize = 4096;

/// The header of the engine, with its two commits.
const HEADER: usize = 320;

/// The largest piece of memory that a damaged file may ask for.
const MOST_AT_ONCE: usize = 16 << 20;

/// Some documents share a fingerprint, and some have near ones.
pub(super) fn fingerprint(i: u64) -> Fingerprint {
    let far = (i % 29 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Fingerprint::from_bits(far ^ u64::from(i % 5 == 2))
}

pub(super) fn sketch(i: u64) -> Sketch {
    let byte = (i % 29) as u8;
    Sketch::new(&[byte, byte ^ u8::from(i % 5 == 2)].repeat(8), 9 + i as u32).expect("16 bytes")
}

fn key(i: u64) -> String {
    format!("key {i}")
}

fn document(i: u64) -> Document {
    let scope = ["", "en", "", "de"][i as usize % 4];
    let payload = if i % 13 == 4 { 1_500 } else { i as usize % 7 };
    Document::new(key(i), (i % 11 != 7).then(|| fingerprint(i)))
        .with_sketch((i % 11 != 7 && i % 6 != 1).then(|| sketch(i)))
        .with_seen(i as i64)
        .with_scope(scope)
        .with_rank(vec![i as i64; i as usize % 3])
        .with_payload(
            (0..payload)
                .map(|at| (at * 31) as u8 ^ i as u8)
                .collect::<Vec<_>>(),
        )
}

fn commit(database: &Database, number: u64) -> Result<()> {
    let mut txn = database.begin_write()?;
    for i in number * 7..number * 7 + 6 {
        txn.insert(&document(i))?;
    }
    if number > 0 {
        txn.insert(&document(number * 5).with_seen(70))?;
        txn.delete(key(number * 7 - 3))?;
        txn.touch(key(number * 7 - 4), 80)?;
    }
    let place = Place {
        raw_offset: number * 100,
        records: number,
        ..Place::default()
    };
    let name = format!("/inputs/{}", number % 3).into_bytes();
    txn.reach(&Reached::new(
        name.into(),
        place,
        Identity::default(),
        false,
    ))?;
    WriteTxn::commit(txn)
}

/// A file to be damaged, and what it answered after each commit.
struct Victim {
    whole: Vec<u8>,
    /// The file after each commit.
    older: Vec<Vec<u8>>,
    /// What was answered after each commit. The last are those of the whole file.
    states: Vec<Answers>,
    keys: Vec<String>,
}

impl Victim {
    /// A file that was closed in order, or one as its process left it when it was killed.
    fn new(seed: u64, is_closed: bool) -> Result<Self> {
        let recording = Recording::default();
        let settings = Settings {
            file: FileSeed::fixed(seed),
            ..Settings::for_tests()
        };
        let mut victim = Self {
            whole: Vec::new(),
            older: Vec::new(),
            states: Vec::new(),
            keys: (0..COMMITS * 7 + 3).map(key).collect(),
        };
        let store = Store::on_backend(recording.clone(), Some(&settings), SIZES)?;
        let mut database = Database::of_store(store.into());
        for number in 0..COMMITS {
            if number == COMMITS - 3 {
                drop(database);
                let sizes = if is_closed { SIZES } else { LOG_STAYS };
                let store = Store::on_backend(recording.clone(), None, sizes)?;
                database = Database::of_store(store.into());
            }
            commit(&database, number)?;
            // So that no merge comes between transactions. How merges are divided into commits depends on the time that
            // they take, so each run has another file.
            database.settle()?;
            victim.older.push(recording.image().as_bytes().to_vec());
            let answers = Answers::of(&database, &victim.keys, Questions::All);
            assert!(answers.error().is_none(), "{:?}", answers.error());
            victim.states.push(answers);
        }
        victim.whole = recording.image().as_bytes().to_vec();
        drop(database);
        if is_closed {
            victim.whole = recording.image().as_bytes().to_vec();
        }
        Ok(victim)
    }

    fn pages(&self) -> usize {
        self.whole.len() / PAGE
    }

    /// The bytes that are not zeros at the end of a page.
    fn used(&self) -> Vec<usize> {
        let mut used = Vec::new();
        for page in 0..self.pages() {
            let bytes = &self.whole[page * PAGE..(page + 1) * PAGE];
            let end = bytes.iter().rposition(|&byte| byte != 0);
            used.extend(
                end.into_iter()
                    .flat_map(|end| page * PAGE..=page * PAGE + end),
            );
        }
        used
    }

    /// The bytes of all values of a table of the engine.
    fn bytes_of_table<K: redb::Key + 'static>(&self, name: &str) -> Vec<usize> {
        let storage = Recording::new(Image::new(self.whole.clone()));
        let engine = redb::Builder::new()
            .create_with_backend(storage)
            .expect("the file is sound");
        let table = TableDefinition::<K, &[u8]>::new(name);
        let table = engine.begin_read().map(|read| read.open_table(table));
        let table = table.expect("it can be read").expect("it is there");
        let mut bytes = Vec::new();
        for row in table.iter().expect("it can be read") {
            let row = row.expect("it can be read");
            let value = row.1.value();
            let mut places = self.whole.windows(value.len());
            let at = places
                .position(|it| it == value)
                .expect("it is in the file");
            bytes.extend(at..at + value.len());
        }
        bytes
    }

    fn state(&self, back: usize) -> &Answers {
        &self.states[self.states.len() - 1 - back]
    }
}

/// Which commits a damaged file may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Last,
    LastOrBefore,
    AnyOne,
}

impl Shown {
    /// What a changed byte allows.
    fn after_change_at(at: usize) -> Self {
        if at < HEADER {
            Self::LastOrBefore
        } else {
            Self::Last
        }
    }

    fn commits(self, all: usize) -> usize {
        match self {
            Self::Last => 1,
            Self::LastOrBefore => 2,
            Self::AnyOne => all,
        }
    }
}

/// A file that was damaged.
struct Damaged {
    what: String,
    bytes: Vec<u8>,
    shown: Shown,
}

/// Counts what was done, and what of it was told by an error.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    files: usize,
    told: usize,
    largest: usize,
}

/// Stops the tests if a call does not return.
struct Watch {
    doing: Arc<Mutex<Option<(String, Instant)>>>,
}

impl Watch {
    fn start() -> Self {
        let doing = Arc::new(Mutex::new(Some((String::new(), Instant::now()))));
        let watched = doing.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                match &*watched.lock() {
                    None => return,
                    Some((what, since)) if since.elapsed() > Duration::from_secs(120) => {
                        eprintln!("{what}: a call does not return");
                        std::process::exit(101);
                    }
                    Some(_) => {}
                }
            }
        });
        Self { doing }
    }

    fn begin(&self, what: &str) {
        *self.doing.lock() = Some((what.to_owned(), Instant::now()));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.doing.lock() = None;
    }
}

/// How much is done with a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It is opened and asked.
    Asked,
    /// It is also checked and written to.
    Written,
    /// Everything else is done too.
    Everything,
}

/// Uses a damaged file, and panics at a wrong answer. Whether anything told of the damage.
fn use_damaged(victim: &Victim, damaged: &Damaged, usage: Use) -> bool {
    let what = &damaged.what;
    let questions = match usage {
        Use::Everything => Questions::All,
        Use::Asked | Use::Written => Questions::Cheap,
    };
    let storage = Recording::new(Image::new(damaged.bytes.clone()));
    let store = match Store::on_backend(storage, None, SIZES) {
        Ok(store) => store,
        Err(error) => {
            ensure_clear(what, &error);
            return true;
        }
    };
    let database = Database::of_store(store.into());
    let ask = || Answers::of(&database, &victim.keys, questions);
    let mut answers = ask();
    ensure_right(victim, damaged.shown, &answers, what);
    if usage == Use::Asked {
        return answers.error().is_some();
    }
    if usage == Use::Everything {
        back_up(victim, &database, damaged.shown, what);
        compact(victim, damaged);
    }
    let mut told = answers.error().is_some();
    match database.check() {
        Err(error) => {
            ensure_clear(what, &error);
            told = true;
        }
        Ok(report) => {
            // The check puts the last whole commit in the place of one whose pages are damaged.
            let shown = match (report.is_sound(), damaged.shown) {
                (false, Shown::Last) => Shown::LastOrBefore,
                (_, shown) => shown,
            };
            answers = ask();
            ensure_right(victim, shown, &answers, &format!("{what}, checked"));
            if report.is_sound() {
                assert!(answers.error().is_none(), "{what}: sound, but {answers:?}");
            }
            told |= !report.is_sound();
        }
    }
    // Where the check finds damage, nothing is written: the engine may then panic while it unwinds from a panic, which
    // ends the process.
    told || write(victim, &database, what)
}

/// Writes to a damaged file, so that merges come. What it answers afterwards is right or an error.
fn write(victim: &Victim, database: &Database, what: &str) -> bool {
    let before = Answers::of(database, &victim.keys, Questions::Cheap);
    let new = document(1_000);
    let written = database.begin_write().and_then(|mut txn| {
        txn.insert(&new)?;
        txn.commit()
    });
    let written = written.and_then(|()| database.settle());
    if let Err(error) = &written {
        ensure_clear(what, error);
        return true;
    }
    let after = Answers::of(database, &victim.keys, Questions::Cheap);
    let changed = after.wrong_of(&before, "get ");
    assert!(changed.is_none(), "{what}, written: {changed:?}");
    match database.snapshot().and_then(|it| it.get(new.key())) {
        Ok(found) => assert_eq!(found.as_ref(), Some(&new), "{what}"),
        Err(error) => ensure_clear(what, &error),
    }
    after.error().is_some()
}

/// A backup of a damaged file fails, or is sound and has all.
fn back_up(victim: &Victim, database: &Database, shown: Shown, what: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("b.simdb");
    match database.snapshot().and_then(|it| it.backup(&path)) {
        Err(error) => ensure_clear(what, &error),
        Ok(()) => ensure_whole(victim, &path, shown, &format!("{what}, backup")),
    }
}

/// The compaction of a damaged file fails, or leaves a sound file that has all.
fn compact(victim: &Victim, damaged: &Damaged) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("c.simdb");
    fs::write(&path, &damaged.bytes).expect("it can be written");
    let opened = Database::open(&path, &OpenOptions::new());
    let compacted = opened.and_then(|it| it.compact(|_, _| std::ops::ControlFlow::Continue(())));
    match compacted {
        Err(error) => ensure_clear(&damaged.what, &error),
        Ok(()) => {
            let what = format!("{}, compacted", damaged.what);
            ensure_whole(victim, &path, damaged.shown, &what);
        }
    }
}

fn ensure_whole(victim: &Victim, path: &std::path::Path, shown: Shown, what: &str) {
    let database = Database::open(path, &OpenOptions::new()).expect("a copy is whole");
    let answers = Answers::of(&database, &victim.keys, Questions::All);
    assert!(answers.error().is_none(), "{what}: {:?}", answers.error());
    ensure_right(victim, shown, &answers, what);
    let report = database.check();
    assert!(
        report.as_ref().is_ok_and(CheckReport::is_sound),
        "{what}: {report:?}"
    );
}

/// Panics unless all answers are errors or those of one commit that may be shown.
fn ensure_right(victim: &Victim, shown: Shown, answers: &Answers, what: &str) {
    let mut wrong = Vec::new();
    for back in 0..shown.commits(victim.states.len()) {
        match answers.wrong(victim.state(back)) {
            None => return,
            Some(answer) => wrong.push(answer),
        }
    }
    let shows = (0..victim.states.len()).find(|&back| answers.wrong(victim.state(back)).is_none());
    panic!(
        "{what}: may show {shown:?}, shows {shows:?} commits before: {}",
        wrong[0]
    );
}

/// Panics unless an error says that the file is damaged, or that a commit failed for it.
fn ensure_clear(what: &str, error: &Error) {
    let is_clear = matches!(
        error,
        Error::Damaged { .. }
            | Error::Corrupted(_)
            | Error::Storage(_)
            | Error::NotSimdb { .. }
            | Error::FormatVersion { .. }
            | Error::UnknownFeatures { .. }
            | Error::UnknownScheme { .. }
            | Error::NeedsRecovery { .. }
            | Error::OutcomeUnknown { .. }
    );
    assert!(is_clear, "{what}: {error:?}");
}

/// Uses all these files. Everything is done with one of `costly` of them.
fn use_all(
    victim: &Victim,
    files: impl IntoIterator<Item = Damaged>,
    written: usize,
    costly: usize,
) -> Tally {
    let watch = Watch::start();
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    let mut kept = None;
    for (at, damaged) in files.into_iter().enumerate() {
        watch.begin(&damaged.what);
        let usage = match at {
            at if at % costly == costly / 2 => Use::Everything,
            at if at % written == 0 => Use::Written,
            _ => Use::Asked,
        };
        let used = AssertUnwindSafe(|| use_damaged(victim, &damaged, usage));
        let (largest, told) = largest_of(|| catch_unwind(used));
        tally.files += 1;
        tally.largest = tally.largest.max(largest);
        match told {
            Ok(told) => tally.told += usize::from(told),
            Err(cause) => {
                let cause = cause.downcast_ref::<String>().cloned();
                wrong.push(cause.unwrap_or_else(|| format!("{}: a panic", damaged.what)));
            }
        }
        if largest > MOST_AT_ONCE {
            wrong.push(format!("{}: {largest} bytes at once", damaged.what));
        }
        if !wrong.is_empty() {
            kept.get_or_insert_with(|| keep(&damaged));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, the first file is kept as {kept:?}: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(12)]
    );
    tally
}

/// Keeps a file that was used wrongly, so that it can be used again.
fn keep(damaged: &Damaged) -> PathBuf {
    let file = tempfile::Builder::new()
        .prefix("damaged-")
        .suffix(".simdb")
        .tempfile();
    let file = file.expect("a temporary file can be made");
    fs::write(&file, &damaged.bytes).expect("it can be written");
    let (_, path) = file.keep().expect("it can be kept");
    path
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            files,
            told,
            largest,
        } = self;
        write!(
            f,
            "{files} damaged files, {told} told, at most {largest} bytes at once"
        )
    }
}

/// The file with one byte changed.
fn changed(victim: &Victim, at: usize, byte: u8) -> Damaged {
    let mut bytes = victim.whole.clone();
    let before = bytes[at];
    bytes[at] = byte;
    Damaged {
        what: format!("byte {at} is {byte}, not {before}"),
        bytes,
        shown: Shown::after_change_at(at),
    }
}

/// Each of these bytes with a flipped bit, or with all, and zeroed.
fn flipped<'a>(
    victim: &'a Victim,
    places: &'a [usize],
    random: &'a mut Random,
) -> impl Iterator<Item = Damaged> + 'a {
    places.iter().flat_map(move |&at| {
        let byte = victim.whole[at];
        let bits = if is_long_run() { 0..8 } else { 0..1 };
        let first = random.index(8);
        let mut values: Vec<u8> = bits.map(|bit| byte ^ (1 << ((first + bit) % 8))).collect();
        values.extend((byte != 0).then_some(0));
        values
            .into_iter()
            .map(move |value| changed(victim, at, value))
    })
}

/// Page `to` of the file as it is in `source` at `from`.
fn put(bytes: &mut [u8], to: usize, source: &[u8], from: usize) {
    bytes[to * PAGE..(to + 1) * PAGE].copy_from_slice(&source[from * PAGE..(from + 1) * PAGE]);
}

fn both() -> Result<[Victim; 2]> {
    Ok([Victim::new(11, true)?, Victim::new(12, false)?])
}

#[test]
fn a_sound_file_gives_all_answers() -> Result<()> {
    for victim in both()? {
        let sound = Damaged {
            what: "nothing damaged".to_owned(),
            bytes: victim.whole.clone(),
            shown: Shown::Last,
        };
        assert!(!use_damaged(&victim, &sound, Use::Everything));
        let differ = victim.states.iter().skip(1).zip(&victim.states);
        for (after, before) in differ {
            assert!(
                after.wrong(before).is_some(),
                "two commits are taken for one"
            );
        }
    }
    Ok(())
}

#[test]
fn each_changed_byte_of_header_and_meta_is_told_or_changes_no_answer() -> Result<()> {
    for victim in both()? {
        let mut places: BTreeSet<usize> = (0..HEADER).collect();
        places.extend(victim.bytes_of_table::<&str>("meta"));
        let places = Vec::from_iter(places);
        let mut random = Random::new(0x51ed);
        let tally = use_all(&victim, flipped(&victim, &places, &mut random), 8, 150);
        println!("header and meta: {tally}");
        assert!(tally.told > tally.files / 10, "{tally}");
    }
    Ok(())
}

#[test]
fn changed_bytes_anywhere_are_told_or_change_no_answer() -> Result<()> {
    for victim in both()? {
        let used = victim.used();
        let mut random = Random::new(0x0123_4567_89ab_cdef);
        let count = if is_long_run() { 10_000 } else { 1_000 };
        let mut places: BTreeSet<usize> = BTreeSet::new();
        while places.len() < count.min(used.len()) {
            places.insert(used[random.index(used.len())]);
        }
        if is_long_run() {
            places.extend(victim.bytes_of_table::<(u16, u128)>("directory"));
            places.extend(victim.bytes_of_table::<(u16, u128)>("summaries"));
        }
        let places = Vec::from_iter(places);
        let tally = use_all(&victim, flipped(&victim, &places, &mut random), 8, 150);
        println!("{} of {} bytes: {tally}", places.len(), used.len());
        assert!(tally.told > tally.files / 100, "{tally}");
    }
    Ok(())
}

/// Files of which pages are lost, swapped, or those of an older commit or of another file.
fn with_other_pages<'a>(
    victim: &'a Victim,
    other: &'a Victim,
    random: &'a mut Random,
) -> impl Iterator<Item = Damaged> + 'a {
    let pages = victim.pages();
    let shown = |page: usize| match page {
        0 => Shown::AnyOne,
        _ => Shown::Last,
    };
    let damaged = move |what: String, page, change: &dyn Fn(&mut [u8])| {
        let mut bytes = victim.whole.clone();
        change(&mut bytes);
        let shown = shown(page);
        (bytes != victim.whole).then_some(Damaged { what, bytes, shown })
    };
    let lost = (0..pages).filter_map(move |page| {
        damaged(format!("page {page} lost"), page, &|bytes| {
            bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        })
    });
    let pairs: Vec<(usize, usize)> = (0..pages * if is_long_run() { 40 } else { 2 })
        .map(|at| (at % pages, random.index(pages)))
        .collect();
    let swapped = pairs.into_iter().filter_map(move |(a, b)| {
        damaged(format!("pages {a} and {b} swapped"), a.min(b), &|bytes| {
            put(bytes, a, &victim.whole, b);
            put(bytes, b, &victim.whole, a);
        })
    });
    let copied: Vec<(usize, usize)> = (0..pages * if is_long_run() { 40 } else { 2 })
        .map(|at| (at % pages, random.index(pages)))
        .collect();
    let copied = copied.into_iter().filter_map(move |(a, b)| {
        damaged(format!("page {b} at {a}"), a, &|bytes| {
            put(bytes, a, &victim.whole, b);
        })
    });
    let foreign = (0..pages.min(other.pages())).filter_map(move |page| {
        let what = format!("page {page} of another file");
        damaged(what, page, &|bytes| put(bytes, page, &other.whole, page))
    });
    let commits = 0..victim.older.len();
    let older = commits.flat_map(move |commit| {
        let older = &victim.older[commit];
        (0..pages.min(older.len() / PAGE)).filter_map(move |page| {
            let what = format!("page {page} as after commit {commit}");
            damaged(what, page, &|bytes| put(bytes, page, older, page))
        })
    });
    lost.chain(swapped)
        .chain(copied)
        .chain(foreign)
        .chain(older)
}

#[test]
fn pages_that_are_lost_swapped_old_or_foreign_are_told_or_change_no_answer() -> Result<()> {
    let [closed, killed] = both()?;
    for (victim, other) in [(&closed, &killed), (&killed, &closed)] {
        let mut random = Random::new(0xfeed);
        let files = with_other_pages(victim, other, &mut random);
        let tally = use_all(victim, files, 8, 150);
        println!("pages: {tally}");
        assert!(tally.told > tally.files / 20, "{tally}");
    }
    Ok(())
}

/// Files that are cut or extended at a page or within one, and the beginning of one file before the end of another.
fn of_other_lengths<'a>(
    victim: &'a Victim,
    other: &'a Victim,
) -> impl Iterator<Item = Damaged> + 'a {
    let pages = victim.pages();
    let with = |what: String, bytes: Vec<u8>, shown| Damaged { what, bytes, shown };
    let cut = (0..pages).flat_map(move |page| {
        [page * PAGE, page * PAGE + 1_000].map(|length| {
            let bytes = victim.whole[..length].to_vec();
            with(format!("cut to {length} bytes"), bytes, Shown::Last)
        })
    });
    let extended = (1..=pages).flat_map(move |by| {
        let zeros = [&victim.whole[..], &vec![0; by * PAGE - by % 2 * 96]].concat();
        let again = [&victim.whole[..], &victim.whole[..by * PAGE]].concat();
        [
            with(format!("{by} pages longer"), zeros, Shown::Last),
            with(format!("{by} of its own pages longer"), again, Shown::Last),
        ]
    });
    let joined = (1..pages).flat_map(move |at| {
        let commit = at % (victim.older.len() - 1);
        [
            (
                &victim.whole,
                &other.whole,
                "this file, then of another",
                Shown::Last,
            ),
            (
                &other.whole,
                &victim.whole,
                "another file, then of this",
                Shown::AnyOne,
            ),
            (
                &victim.whole,
                &victim.older[commit],
                "this file, then of an older",
                Shown::Last,
            ),
            (
                &victim.older[commit],
                &victim.whole,
                "an older file, then of this",
                Shown::AnyOne,
            ),
        ]
        .into_iter()
        .filter_map(move |(first, then, what, shown)| {
            let begins = first.get(..at * PAGE)?;
            let ends = then.get(at * PAGE..)?;
            let what = format!("{at} pages of {what}, as after commit {commit}");
            Some(with(what, [begins, ends].concat(), shown))
        })
    });
    cut.chain(extended).chain(joined)
}

#[test]
fn files_that_are_cut_extended_or_joined_are_told_or_change_no_answer() -> Result<()> {
    let [closed, killed] = both()?;
    for (victim, other) in [(&closed, &killed), (&killed, &closed)] {
        let tally = use_all(victim, of_other_lengths(victim, other), 8, 150);
        println!("lengths: {tally}");
        assert!(tally.told > tally.files / 20, "{tally}");
    }
    Ok(())
}
