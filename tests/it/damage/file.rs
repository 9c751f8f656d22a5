//! The file that is damaged, what it answers when it is sound, and the use of a damaged one.

use std::fs;
use std::path::Path;

use simdb::inspect::CheckReport;
use simdb::{
    Database, Document, Error, Fingerprint, Near, OpenOptions, Order, Policy, Sketch, SketchSize,
};

use crate::support::{
    Folder, TestResult, document, external, insert_all, jaccard, leave_log, query_of, tiny,
};

pub(super) const SIZES: [SketchSize; 2] = [SketchSize::Bytes16, SketchSize::Bytes32];
pub(super) const DOCUMENTS: u64 = 600;
const DELETED: u64 = 5;

/// A document whose fingerprint is far from all others. Some have a scope, and some have no sketch.
pub(super) fn spread(i: u64, size: SketchSize) -> Document {
    let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let scope = if i.is_multiple_of(3) { "en" } else { "" };
    document(i.to_string(), bits)
        .with_scope(scope)
        .with_sketch((i % 5 != 1).then(|| sketch(i, size, 0)))
}

/// The sketch of document `i`, with `differing` of its first samples changed.
fn sketch(i: u64, size: SketchSize, differing: usize) -> Sketch {
    let word = (i + 1)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .rotate_left(29)
        .wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut bytes = word.to_le_bytes().repeat(size.bytes() / 8);
    (0..differing).for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
    Sketch::new(&bytes, 50 + i as u32 % 50).expect("16 or 32 bytes and some shingles")
}

/// The document with a sketch that is not its own.
pub(super) fn with_another_sketch(i: u64, size: SketchSize) -> Document {
    spread(i, size).with_sketch(sketch(i, size, 20))
}

fn create(folder: &Folder, name: &str, size: SketchSize) -> simdb::Result<Database> {
    let options = external().sketch_size(size);
    Database::create(
        folder.path(name),
        &options.recent_documents(8).tiny_blocks(),
    )
}

/// Makes a file with levels, marks, dead documents and a log. Its last commits are merges. So the commit
/// before the last, to which the engine may go back, has the same documents.
pub(super) fn sound_file(folder: &Folder, name: &str, size: SketchSize) -> simdb::Result<()> {
    let database = create(folder, name, size)?;
    for first in (0..DOCUMENTS).step_by(50) {
        insert_all(&database, (first..first + 50).map(|i| spread(i, size)))?;
    }
    let mut txn = database.begin_write()?;
    for i in (0..DOCUMENTS).filter(|i| i % 10 == DELETED) {
        txn.delete(spread(i, size).key())?;
    }
    txn.commit()?;
    // A few more, too few for a merge, stay in the log.
    insert_all(
        &database,
        (DOCUMENTS..DOCUMENTS + 5).map(|i| spread(i, size)),
    )?;
    database.settle()?;
    leave_log(database);
    Ok(())
}

pub(super) fn is_live(i: u64) -> bool {
    i % 10 != DELETED || i >= DOCUMENTS
}

/// Whether a document with this sketch is similar enough to what is asked for.
fn is_wanted(document: &Document, asked: &Sketch, least: f64) -> bool {
    least == 0.0
        || document
            .sketch()
            .is_some_and(|it| jaccard(it, asked) >= least)
}

/// A match as it should be: its key, its distance and its similarity.
type Wanted = (Vec<u8>, u32, Option<f64>);

/// Asks for document `i`, by similarity too, and compares the answer.
fn ask(database: &Database, i: u64, size: SketchSize) -> simdb::Result<Option<String>> {
    let document = spread(i, size);
    let asked = sketch(i, size, i as usize % 40);
    let least = [0.0, 0.3, 0.6, 0.9][i as usize / 4 % 4];
    let order = if i.is_multiple_of(7) {
        Order::Similarity
    } else {
        Order::Distance
    };
    let query = query_of(document.fingerprint().map_or(0, Fingerprint::bits));
    let query = query
        .near(Near::within(i as u32 % 4).min_similarity(least))
        .with_sketch(asked)
        .order(order);
    let found = database.snapshot()?.query(&query)?;
    let listed: Vec<Wanted> = found
        .iter()
        .map(|it| {
            (
                it.document.key().to_vec(),
                it.distance,
                it.similarity.map(|it| it.jaccard()),
            )
        })
        .collect();
    let similarity = document.sketch().map(|it| jaccard(it, &asked));
    let is_there = is_live(i) && is_wanted(&document, &asked, least);
    let wanted: Vec<Wanted> = is_there
        .then(|| (document.key().to_vec(), 0, similarity))
        .into_iter()
        .collect();
    let is_right = listed == wanted && found.total() == wanted.len() as u64;
    Ok((!is_right).then(|| format!("query {i}: {found:?}, not {wanted:?}")))
}

/// The wrong answers that a database gives. An error is not a wrong answer: it is returned if there are no
/// wrong answers.
fn wrong_answers(database: &Database, size: SketchSize) -> simdb::Result<Vec<String>> {
    let snapshot = database.snapshot()?;
    let mut wrong = Vec::new();
    let mut failed = None;
    for i in 0..DOCUMENTS + 5 {
        match ask(database, i, size) {
            Ok(told) => wrong.extend(told),
            Err(error) => failed = Some(error),
        }
        let document = spread(i, size);
        match snapshot.get(document.key()) {
            Ok(found) if found == is_live(i).then_some(document) => {}
            Ok(found) => wrong.push(format!("get {i}: {found:?}")),
            Err(error) => failed = Some(error),
        }
    }
    let all = query_of(0).limit(0);
    let any = || Near::within(64);
    let asked = sketch(0, size, 0);
    let live = || {
        (0..DOCUMENTS + 5)
            .filter(|&i| is_live(i))
            .map(|i| spread(i, size))
    };
    let (in_scope, similar) = (
        live().filter(|it| it.scope() == "en").count(),
        live().filter(|it| is_wanted(it, &asked, 0.2)).count(),
    );
    for (query, expected) in [
        (all.clone().near(any()), live().count()),
        (all.clone().near(any().scopes(["en"])), in_scope),
        (
            all.with_sketch(asked)
                .near(any().min_similarity(0.2))
                .limit(usize::MAX),
            similar,
        ),
    ] {
        match snapshot.query(&query) {
            Ok(found) if found.total() == expected as u64 => {}
            Ok(found) => wrong.push(format!(
                "{} in all, not {expected}: {query:?}",
                found.total()
            )),
            Err(error) => failed = Some(error),
        }
    }
    let documents: Vec<_> = snapshot.documents().collect();
    if documents.iter().all(Result::is_ok) && documents.len() != live().count() {
        wrong.push(format!("{} documents", documents.len()));
    }
    match failed {
        Some(error) if wrong.is_empty() => Err(error),
        _ => Ok(wrong),
    }
}

/// Queries a file and checks it, and perhaps writes to it, so that merges come. They sync the disk hundreds of times.
/// Panics at a wrong answer. `Ok` if nothing was found to be wrong with the file.
pub(super) fn use_damaged(
    path: &Path,
    size: SketchSize,
    is_written: bool,
    what: &str,
) -> simdb::Result<()> {
    let answers = |database: &Database| wrong_answers(database, size);
    let read_only = Database::open(path, &tiny().read_only(true)).and_then(|it| answers(&it));
    assert!(
        read_only.as_ref().map_or(true, Vec::is_empty),
        "{what}, read-only: {read_only:?}"
    );
    let database = Database::open(path, &tiny())?;
    let first = answers(&database);
    assert!(
        first.as_ref().map_or(true, Vec::is_empty),
        "{what}: {first:?}"
    );
    let report = database.check()?;
    if report.is_sound() {
        // The engine may have repaired the file when it was opened.
        let again = answers(&database);
        assert!(
            again.as_ref().is_ok_and(Vec::is_empty),
            "{what}: checked as sound, but {again:?}"
        );
    }
    if is_written {
        let mut txn = database.begin_write()?;
        txn.insert_if_new(&document("new", 1 << 40), &Policy::link())?;
        txn.delete("77")?;
        txn.commit()?;
        database.settle()?;
    }
    first?;
    // The error stands for any damage.
    if report.is_sound() {
        Ok(())
    } else {
        Err(Error::Input {
            source_name: path.display().to_string(),
            line: None,
            reason: "it is damaged".to_owned(),
        })
    }
}

#[test]
fn the_file_that_is_damaged_below_is_sound() -> TestResult {
    let folder = Folder::in_memory()?;
    for size in SIZES {
        sound_file(&folder, &format!("{size:?}"), size)?;
        use_damaged(
            &folder.path(&format!("{size:?}")),
            size,
            true,
            "nothing damaged",
        )?;
    }
    Ok(())
}

#[test]
fn a_truncated_file_is_an_error_or_found_damaged() -> TestResult {
    let folder = Folder::in_memory()?;
    sound_file(&folder, "d.simdb", SketchSize::Bytes16)?;
    let whole = fs::read(folder.path("d.simdb"))?;
    for eighths in 0..8 {
        let path = folder.file(
            &format!("{eighths}.simdb"),
            &whole[..whole.len() * eighths / 8],
        )?;
        let checked =
            Database::open(&path, &OpenOptions::new()).and_then(|database| database.check());
        assert!(
            !checked.as_ref().is_ok_and(CheckReport::is_sound),
            "{eighths}/8: {checked:?}"
        );
    }
    Ok(())
}
