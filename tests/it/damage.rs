//! Damaged files give an error or the right answer, never a wrong answer, and no panic.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use simdb::{CheckReport, Database, Document, Error, Fingerprint, OpenOptions, Policy, Query};

use crate::support::{Folder, TestResult, document, insert_all, listed, tiny};

const DOCUMENTS: u64 = 600;
const DELETED: u64 = 5;

/// A document whose fingerprint is far from all others.
fn spread(i: u64) -> Document {
    document(i.to_string(), i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).with_scope(if i.is_multiple_of(3) {
        "en"
    } else {
        ""
    })
}

/// Makes a file with levels, marks, dead documents and a log. Its last commits are merges. So the commit
/// before the last, to which the engine may go back, has the same documents.
fn sound_file(folder: &Folder, name: &str) -> simdb::Result<()> {
    let database = folder.tiny_database(name)?;
    for first in (0..DOCUMENTS).step_by(50) {
        insert_all(&database, (first..first + 50).map(spread))?;
    }
    let mut txn = database.begin_write()?;
    for i in (0..DOCUMENTS).filter(|i| i % 10 == DELETED) {
        txn.delete(i.to_string())?;
    }
    txn.commit()?;
    // A few more, too few for a merge, stay in the log.
    insert_all(&database, (DOCUMENTS..DOCUMENTS + 5).map(spread))?;
    database.settle()
}

/// A sound file without free pages. Nothing would miss a free page.
fn dense_file(folder: &Folder, name: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    sound_file(folder, name)?;
    let mut engine = redb::Database::open(folder.path(name))?;
    while engine.compact()? {}
    drop(engine);
    Ok(fs::read(folder.path(name))?)
}

fn is_live(i: u64) -> bool {
    i % 10 != DELETED || i >= DOCUMENTS
}

/// The wrong answers that a database gives. An error is not a wrong answer: it is returned if there are no
/// wrong answers.
fn wrong_answers(database: &Database) -> simdb::Result<Vec<String>> {
    let snapshot = database.snapshot()?;
    let mut wrong = Vec::new();
    let mut failed = None;
    for i in 0..DOCUMENTS + 5 {
        let document = spread(i);
        let bits = document.fingerprint().map_or(0, Fingerprint::bits);
        let expected = if is_live(i) { vec![(i.to_string(), 0)] } else { Vec::new() };
        match snapshot.query(&Query::new(Fingerprint::from_bits(bits)).max_distance(i as u32 % 4)) {
            Ok(found) if listed(&found) == expected => {}
            Ok(found) => wrong.push(format!("query {i}: {:?}", listed(&found))),
            Err(error) => failed = Some(error),
        }
        match snapshot.get(document.key()) {
            Ok(found) if found == is_live(i).then_some(document) => {}
            Ok(found) => wrong.push(format!("get {i}: {found:?}")),
            Err(error) => failed = Some(error),
        }
    }
    match snapshot.query(&Query::new(Fingerprint::from_bits(0)).max_distance(64).limit(0)) {
        Ok(found) if found.total() == DOCUMENTS + 5 - DOCUMENTS / 10 => {}
        Ok(found) => wrong.push(format!("{} in all", found.total())),
        Err(error) => failed = Some(error),
    }
    let in_scope = Query::new(Fingerprint::from_bits(0)).max_distance(64).limit(0).scopes(["en"]);
    let all_in_scope = (0..DOCUMENTS + 5).filter(|&i| is_live(i) && i % 3 == 0).count() as u64;
    match snapshot.query(&in_scope) {
        Ok(found) if found.total() == all_in_scope => {}
        Ok(found) => wrong.push(format!("{} in scope en", found.total())),
        Err(error) => failed = Some(error),
    }
    let documents: Vec<_> = snapshot.documents().collect();
    if documents.iter().all(Result::is_ok) && documents.len() as u64 != DOCUMENTS + 5 - DOCUMENTS / 10 {
        wrong.push(format!("{} documents", documents.len()));
    }
    match failed {
        Some(error) if wrong.is_empty() => Err(error),
        _ => Ok(wrong),
    }
}

/// Queries a file, checks it and writes to it. Panics at a wrong answer. `Ok` if nothing was found to be
/// wrong with the file.
fn use_damaged(path: &Path, what: &str) -> simdb::Result<()> {
    let read_only = Database::open(path, &tiny().read_only(true)).and_then(|it| wrong_answers(&it));
    assert!(read_only.as_ref().map_or(true, Vec::is_empty), "{what}, read-only: {read_only:?}");
    let database = Database::open(path, &tiny())?;
    let answers = wrong_answers(&database);
    assert!(answers.as_ref().map_or(true, Vec::is_empty), "{what}: {answers:?}");
    let report = database.check()?;
    if report.is_sound() {
        // The engine may have repaired the file when it was opened.
        let again = wrong_answers(&database);
        assert!(again.as_ref().is_ok_and(Vec::is_empty), "{what}: checked as sound, but {again:?}");
    }
    let mut txn = database.begin_write()?;
    txn.insert_if_new(&document("new", 1 << 40), &Policy::link())?;
    txn.delete("77")?;
    txn.commit()?;
    database.settle()?;
    answers?;
    // The error stands for any damage.
    if report.is_sound() { Ok(()) } else { Err(Error::NotSimdb { path: path.to_owned() }) }
}

#[test]
fn the_file_that_is_damaged_below_is_sound() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, "d.simdb")?;
    use_damaged(&folder.path("d.simdb"), "nothing damaged")?;
    Ok(())
}

/// The tables of blocks, by the length of their rows.
const NARROW: [&str; 6] = ["permuted-0", "permuted-1", "permuted-2", "permuted-3", "dead", "documents"];
const WIDE: [&str; 2] = ["keys", "postings"];

/// A change of one row of the engine that simdb did not make.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Harm {
    Removed,
    Flipped,
    Shortened,
    /// It has the value of another row.
    Swapped,
    /// It has the value of an earlier commit.
    Stale,
}

impl Harm {
    const ALL: [Self; 5] = [Self::Removed, Self::Flipped, Self::Shortened, Self::Swapped, Self::Stale];

    /// The harmed value of a row, or `None` if the row is removed. An error if this row cannot be harmed
    /// in this way.
    fn value(self, at: usize, values: &[Vec<u8>], old: Option<&Vec<u8>>) -> Result<Option<Vec<u8>>, ()> {
        let mut value = values[at].clone();
        match self {
            Self::Removed => return Ok(None),
            Self::Flipped => {
                let byte = at * 7919 % value.len();
                value[byte] ^= 1 << (at % 8);
            }
            Self::Shortened => value.truncate(value.len() / 2),
            Self::Swapped => value = values[(at + 1) % values.len()].clone(),
            Self::Stale => value = old.cloned().ok_or(())?,
        }
        if value == values[at] { Err(()) } else { Ok(Some(value)) }
    }
}

/// Harms every `$every`-th row of a table, each in a copy of the file.
macro_rules! harm_rows {
    ($folder:expr, $table:expr, $every:expr, $own:expr, $as_key:expr) => {{
        let table = $table;
        let rows = |name: &str| -> Result<Vec<_>, Box<dyn std::error::Error>> {
            let engine = redb::Database::open($folder.path(name))?;
            let table = engine.begin_read()?.open_table(table)?;
            table
                .iter()?
                .map(|row| row.map(|(key, it)| ($own(key.value()), it.value().to_vec())).map_err(Into::into))
                .collect()
        };
        let (now, old) = (rows("d.simdb")?, rows("old.simdb")?);
        let values: Vec<Vec<u8>> = now.iter().map(|row| row.1.clone()).collect();
        for harm in Harm::ALL {
            for at in (0..now.len()).step_by($every) {
                let key = &now[at].0;
                let before = old.iter().find(|row| row.0 == *key).map(|row| &row.1);
                let Ok(value) = harm.value(at, &values, before) else { continue };
                let what = format!("{harm:?} row {key:?} of table {:?}", redb::TableHandle::name(&table));
                fs::copy($folder.path("d.simdb"), $folder.path("harmed.simdb"))?;
                let engine = redb::Database::open($folder.path("harmed.simdb"))?;
                let txn = engine.begin_write()?;
                match value {
                    Some(value) => drop(txn.open_table(table)?.insert($as_key(key), value.as_slice())?),
                    None => drop(txn.open_table(table)?.remove($as_key(key))?),
                }
                txn.commit()?;
                drop(engine);
                let found = use_damaged(&$folder.path("harmed.simdb"), &what);
                let told = matches!(
                    &found,
                    Err(Error::Damaged { .. } | Error::Corrupted(_) | Error::NotSimdb { .. })
                );
                assert!(told, "{what}: {found:?}");
            }
        }
        now.len()
    }};
}

#[test]
fn a_row_that_is_missing_flipped_shortened_swapped_or_stale_is_an_error() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, "d.simdb")?;
    fs::copy(folder.path("d.simdb"), folder.path("old.simdb"))?;
    {
        let database = Database::open(folder.path("d.simdb"), &tiny())?;
        // Deletes documents and stores them again. So the rows change and the answers stay the same.
        for _ in 0..2 {
            for i in (0..DOCUMENTS).filter(|&i| is_live(i) && i % 4 == 1) {
                let mut txn = database.begin_write()?;
                txn.delete(i.to_string())?;
                txn.insert(&spread(i))?;
                txn.commit()?;
            }
        }
        database.settle()?;
        // Once more, for the log.
        let mut txn = database.begin_write()?;
        txn.delete("1")?;
        txn.insert(&spread(1))?;
        txn.commit()?;
    }
    let number = |key: u64| key;
    let narrow = |key: (u8, u64)| key;
    let wide = |key: (u8, u128)| key;
    let chunk = |key: (u16, u128)| key;
    let name = |key: &str| key.to_owned();
    let mut blocks = 0;
    for table in NARROW {
        let table = TableDefinition::<(u8, u64), &[u8]>::new(table);
        blocks += harm_rows!(folder, table, 11, narrow, |key: &(u8, u64)| *key);
    }
    for table in WIDE {
        let table = TableDefinition::<(u8, u128), &[u8]>::new(table);
        blocks += harm_rows!(folder, table, 11, wide, |key: &(u8, u128)| *key);
    }
    let chunks = TableDefinition::<(u16, u128), &[u8]>::new("directory");
    let chunks = harm_rows!(folder, chunks, 13, chunk, |key: &(u16, u128)| *key);
    let pages = harm_rows!(folder, TableDefinition::<u64, &[u8]>::new("log"), 1, number, |key: &u64| *key);
    harm_rows!(folder, TableDefinition::<&str, &[u8]>::new("scopes"), 1, name, |key: &String| key
        .clone()
        .leak()
        as &str);
    harm_rows!(
        folder,
        TableDefinition::<&str, &[u8]>::new("meta"),
        1,
        name,
        |key: &String| key.clone().leak() as &str
    );
    assert!(blocks > 200 && chunks > 100 && pages > 0, "{blocks} blocks, {chunks} chunks, {pages} pages");
    Ok(())
}

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// The pages of the engine whose first byte is `kind`.
fn pages(whole: &[u8], kind: u8) -> Vec<Range<usize>> {
    let pages = (4096..whole.len()).step_by(4096).map(|at| at..(at + 4096).min(whole.len()));
    let pages =
        pages.filter(|page| whole[page.start] == kind && whole[page.clone()].iter().any(|&it| it > 2));
    let used = |page: &Range<usize>| whole[page.clone()].iter().rposition(|&it| it != 0).unwrap_or(0) + 1;
    pages.map(|page| page.start..page.start + used(&page)).collect()
}

#[test]
fn flipped_bits_in_leaves_branches_and_header_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    let whole = dense_file(&folder, "d.simdb")?;
    let mut random = Random(0x0123_4567_89ab_cdef);
    // The engine marks leaves with 1 and branches with 2.
    let kinds = [
        ("leaf", pages(&whole, 1)),
        // A branch has few children, and stands in the first bytes of its page.
        ("branch", pages(&whole, 2).into_iter().map(|page| page.start..page.start + 256).collect()),
        ("header", std::iter::once(0..512).collect()),
    ];
    for (kind, pages) in kinds {
        let (mut told, mut rounds) = (0, 0);
        let begun = Instant::now();
        for round in 0..300 {
            // A flipped bit in a branch can make the engine ask for a page of 2 GiB, which takes it a second each
            // time. How many do depends on the seed of the file.
            if round >= 60 && begun.elapsed() > Duration::from_secs(60) {
                break;
            }
            rounds += 1;
            let page = pages[random.below(pages.len())].clone();
            let mut bytes = whole.clone();
            let (at, bit) = (page.start + random.below(page.len()), random.below(8));
            bytes[at] ^= 1 << bit;
            fs::write(folder.path("flipped.simdb"), &bytes)?;
            let what = format!("{kind}, round {round}: bit {bit} of byte {at}");
            told += u32::from(use_damaged(&folder.path("flipped.simdb"), &what).is_err());
        }
        // Much of the header is unused.
        assert!(told > rounds / 6, "{told} of {rounds} flips in a {kind} were told");
    }
    Ok(())
}

#[test]
fn lost_pages_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    let whole = dense_file(&folder, "d.simdb")?;
    let used =
        (0..whole.len()).step_by(4096).filter(|&at| whole[at..at + 4096].iter().any(|&byte| byte != 0));
    let mut told = 0;
    for at in used {
        let mut bytes = whole.clone();
        bytes[at..at + 4096].fill(0);
        fs::write(folder.path("lost.simdb"), &bytes)?;
        told += u32::from(use_damaged(&folder.path("lost.simdb"), &format!("page at {at} lost")).is_err());
    }
    assert!(told > 20, "{told} lost pages were told");
    Ok(())
}

/// Puts pages of another file in the place of those of a sound file, one at a time, and counts how many were
/// told. Pages that are equal are left out.
fn swap_pages(
    folder: &Folder,
    whole: &[u8],
    other: &[u8],
    what: &str,
) -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let (mut swapped, mut told) = (0, 0);
    for at in (0..whole.len().min(other.len())).step_by(4096) {
        let page = at..(at + 4096).min(whole.len()).min(other.len());
        if whole[page.clone()] == other[page.clone()] {
            continue;
        }
        let mut bytes = whole.to_vec();
        bytes[page.clone()].copy_from_slice(&other[page]);
        fs::write(folder.path("swapped.simdb"), &bytes)?;
        let what = format!("page at {at} of {what}");
        swapped += 1;
        told += usize::from(use_damaged(&folder.path("swapped.simdb"), &what).is_err());
    }
    Ok((swapped, told))
}

/// Pages of the log were sealed with nothing but their numbers. So the same page of another database was
/// taken for one of this database, and its documents for those that had been committed here.
#[test]
fn pages_of_another_database_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    let whole = dense_file(&folder, "d.simdb")?;
    // The same operations on other documents. So most pages have the same place and another content.
    let database = folder.tiny_database("other.simdb")?;
    let other = |i: u64| document(format!("x{i}"), (i + 9_999).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for first in (0..DOCUMENTS).step_by(50) {
        insert_all(&database, (first..first + 50).map(other))?;
    }
    let mut txn = database.begin_write()?;
    for i in (0..DOCUMENTS).filter(|i| i % 10 == DELETED) {
        txn.delete(format!("x{i}"))?;
    }
    txn.commit()?;
    insert_all(&database, (DOCUMENTS..DOCUMENTS + 5).map(other))?;
    database.settle()?;
    drop(database);
    let mut engine = redb::Database::open(folder.path("other.simdb"))?;
    while engine.compact()? {}
    drop(engine);
    let other = fs::read(folder.path("other.simdb"))?;
    let (swapped, told) = swap_pages(&folder, &whole, &other, "another database")?;
    assert!(swapped > 40 && told > swapped / 2, "{told} of {swapped} were told");
    // A log alone: few documents, all of them in the log.
    let folder = Folder::new()?;
    sound_file(&folder, "d.simdb")?;
    let database = folder.database("log.simdb")?;
    insert_all(&database, (0..DOCUMENTS + 5).filter(|&i| is_live(i)).map(spread))?;
    drop(database);
    let database = folder.database("other.simdb")?;
    insert_all(&database, (0..DOCUMENTS + 5).map(|i| document(format!("x{i}"), !(i << 40))))?;
    drop(database);
    let (whole, other) = (fs::read(folder.path("log.simdb"))?, fs::read(folder.path("other.simdb"))?);
    let (swapped, told) = swap_pages(&folder, &whole, &other, "another log")?;
    assert!(swapped > 4 && told > 4, "{told} of {swapped} were told");
    Ok(())
}

/// A disk that loses a write leaves a page as it was at an earlier commit.
#[test]
fn pages_of_an_earlier_commit_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, "d.simdb")?;
    let earlier = fs::read(folder.path("d.simdb"))?;
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    for i in (0..DOCUMENTS).filter(|&i| is_live(i) && i % 7 == 1) {
        let mut txn = database.begin_write()?;
        txn.delete(i.to_string())?;
        txn.insert(&spread(i))?;
        txn.commit()?;
    }
    database.settle()?;
    drop(database);
    let whole = fs::read(folder.path("d.simdb"))?;
    let (swapped, told) = swap_pages(&folder, &whole, &earlier, "an earlier commit")?;
    // Most pages are free in one of the two.
    assert!(swapped > 50 && told > 20, "{told} of {swapped} were told");
    Ok(())
}

#[test]
fn a_truncated_file_is_an_error_or_found_damaged() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, "d.simdb")?;
    let whole = fs::read(folder.path("d.simdb"))?;
    for eighths in 0..8 {
        let path = folder.file(&format!("{eighths}.simdb"), &whole[..whole.len() * eighths / 8])?;
        let checked = Database::open(&path, &OpenOptions::new()).and_then(|database| database.check());
        assert!(!checked.as_ref().is_ok_and(CheckReport::is_sound), "{eighths}/8: {checked:?}");
    }
    Ok(())
}

#[test]
fn a_transaction_that_met_damage_cannot_be_committed() -> TestResult {
    let folder = Folder::new()?;
    sound_file(&folder, "d.simdb")?;
    let engine = redb::Database::open(folder.path("d.simdb"))?;
    let txn = engine.begin_write()?;
    {
        // All blocks, so every block that is read is missing.
        for table in NARROW {
            let mut table = txn.open_table(TableDefinition::<(u8, u64), &[u8]>::new(table))?;
            while table.pop_first()?.is_some() {}
        }
        for table in WIDE {
            let mut table = txn.open_table(TableDefinition::<(u8, u128), &[u8]>::new(table))?;
            while table.pop_first()?.is_some() {}
        }
    }
    txn.commit()?;
    drop(engine);
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    let mut txn = database.begin_write()?;
    assert!(matches!(txn.insert(&document("7", 2)), Err(Error::Damaged { .. })));
    assert!(matches!(txn.insert(&document("z", 2)), Err(Error::Aborted)));
    assert!(matches!(txn.commit(), Err(Error::Aborted)));
    let snapshot = database.snapshot()?;
    assert!(snapshot.documents().any(|document| document.is_err()));
    assert!(snapshot.documents().count() < 10, "after an error the documents end");
    Ok(())
}
