//! Pages with flipped bits, lost pages, pages of another file or of an earlier commit.

use std::fs;
use std::ops::Range;

use simdb::{CreateOptions, Database, Document, Scheme, SketchSize};

use super::file::{
    DOCUMENTS, SIZES, create, fill, is_live, sketch, sound_file, spread, use_damaged,
    with_another_sketch, without_free_pages,
};
use crate::support::random::Random;
use crate::support::{Folder, TestResult, document, insert_all, leave_log, tiny};

/// A sound file without free pages. Nothing would miss a free page.
fn dense_file(folder: &Folder, size: SketchSize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let name = format!("{size:?}.simdb");
    sound_file(folder, &name, size)?;
    without_free_pages(&folder.path(&name))
}

/// The pages of the engine whose first byte is `kind`.
fn pages(whole: &[u8], kind: u8) -> Vec<Range<usize>> {
    let pages = (4096..whole.len())
        .step_by(4096)
        .map(|at| at..(at + 4096).min(whole.len()));
    let pages = pages
        .filter(|page| whole[page.start] == kind && whole[page.clone()].iter().any(|&it| it > 2));
    let used = |page: &Range<usize>| {
        whole[page.clone()]
            .iter()
            .rposition(|&it| it != 0)
            .unwrap_or(0)
            + 1
    };
    pages
        .map(|page| page.start..page.start + used(&page))
        .collect()
}

#[test]
fn flipped_bits_in_leaves_branches_and_header_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    let size = SketchSize::Bytes32;
    let whole = dense_file(&folder, size)?;
    let mut random = Random::new(0x0123_4567_89ab_cdef);
    // The engine marks leaves with 1 and branches with 2.
    let kinds = [
        ("leaf", pages(&whole, 1)),
        // A branch has few children, and stands in the first bytes of its page.
        (
            "branch",
            pages(&whole, 2)
                .into_iter()
                .map(|page| page.start..page.start + 256)
                .collect(),
        ),
        ("header", std::iter::once(0..512).collect()),
    ];
    for (kind, pages) in kinds {
        const ROUNDS: u32 = 80;
        let mut told = 0;
        for round in 0..ROUNDS {
            let page = pages[random.index(pages.len())].clone();
            let mut bytes = whole.clone();
            let (at, bit) = (page.start + random.index(page.len()), random.index(8));
            bytes[at] ^= 1 << bit;
            fs::write(folder.path("flipped.simdb"), &bytes)?;
            let what = format!("{kind}, round {round}: bit {bit} of byte {at}");
            told += u32::from(use_damaged(&folder.path("flipped.simdb"), size, &what).is_err());
        }
        // Much of the header is unused.
        assert!(
            told > ROUNDS / 6,
            "{told} of {ROUNDS} flips in a {kind} were told"
        );
    }
    Ok(())
}

/// A sketch says what a match shares with the query. No other value in the file would contradict it.
#[test]
fn flipped_bits_in_sketches_are_errors() -> TestResult {
    let folder = Folder::new()?;
    for size in SIZES {
        let whole = dense_file(&folder, size)?;
        let mut random = Random::new(7);
        let mut found = 0;
        for i in (0..DOCUMENTS + 5)
            .filter(|&i| spread(i, size).sketch().is_some())
            .step_by(23)
        {
            let sketch = sketch(i, size, 0);
            let bytes = sketch.as_bytes();
            // Those of dead documents are in the file until a merge, and are read with their blocks.
            let Some(at) = whole.windows(bytes.len()).position(|it| it == bytes) else {
                continue;
            };
            found += 1;
            let mut flipped = whole.clone();
            flipped[at + random.index(bytes.len())] ^= 1 << random.index(8);
            fs::write(folder.path("flipped.simdb"), &flipped)?;
            let used = use_damaged(
                &folder.path("flipped.simdb"),
                size,
                &format!("sketch {i} at {at}"),
            );
            assert!(
                used.is_err(),
                "a flipped bit in sketch {i} of {size:?} is not told"
            );
        }
        assert!(found > 15, "{found} sketches were found in the file");
    }
    Ok(())
}

#[test]
fn lost_pages_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    for size in SIZES {
        let whole = dense_file(&folder, size)?;
        let used = (0..whole.len())
            .step_by(4096)
            .filter(|&at| whole[at..at + 4096].iter().any(|&byte| byte != 0))
            // Every page of one file, and every third of the other.
            .step_by(if size == SketchSize::Bytes16 { 1 } else { 3 });
        let mut told = 0;
        for at in used {
            let mut bytes = whole.clone();
            bytes[at..at + 4096].fill(0);
            fs::write(folder.path("lost.simdb"), &bytes)?;
            let what = format!("page at {at} lost");
            told += u32::from(use_damaged(&folder.path("lost.simdb"), size, &what).is_err());
        }
        assert!(told > 20, "{told} lost pages were told");
    }
    Ok(())
}

/// Puts pages of another file in the place of those of a sound file, one at a time, and counts how many were
/// told. Pages that are equal are left out.
fn swap_pages(
    folder: &Folder,
    size: SketchSize,
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
        told += usize::from(use_damaged(&folder.path("swapped.simdb"), size, &what).is_err());
    }
    Ok((swapped, told))
}

/// Makes the file `other.simdb` with any documents, as the sound file is made.
fn filled(
    folder: &Folder,
    size: SketchSize,
    document: impl Fn(u64) -> Document,
) -> simdb::Result<()> {
    let database = create(folder, "other.simdb", size)?;
    fill(&database, document)?;
    leave_log(database);
    Ok(())
}

/// Pages of the log were sealed with nothing but their numbers. So the same page of another database was
/// taken for one of this database, and its documents for those that had been committed here.
#[test]
fn pages_of_another_database_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    let size = SketchSize::Bytes16;
    let whole = dense_file(&folder, size)?;
    // The same operations on other documents. So most pages have the same place and another content.
    let other = |i: u64| {
        let bits = (i + 9_999).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        document(format!("x{i}"), bits).with_sketch(sketch(i + 9_999, size, 0))
    };
    filled(&folder, size, other)?;
    let other = without_free_pages(&folder.path("other.simdb"))?;
    let (swapped, told) = swap_pages(&folder, size, &whole, &other, "another database")?;
    assert!(
        swapped > 40 && told > swapped / 2,
        "{told} of {swapped} were told"
    );
    // The same documents, and nothing but their sketches differs.
    let folder = Folder::new()?;
    let whole = dense_file(&folder, size)?;
    filled(&folder, size, |i| with_another_sketch(i, size))?;
    let other = without_free_pages(&folder.path("other.simdb"))?;
    let (swapped, told) = swap_pages(
        &folder,
        size,
        &whole,
        &other,
        "a database with other sketches",
    )?;
    assert!(
        swapped > 40 && told > swapped / 2,
        "{told} of {swapped} were told"
    );
    // A log alone: few documents, all of them in the log.
    let folder = Folder::new()?;
    let plain = |name: &str| -> simdb::Result<Database> {
        let options = CreateOptions::new()
            .scheme(Scheme::External)
            .sketch_size(size);
        Database::create(folder.path(name), &options)
    };
    let database = plain("log.simdb")?;
    insert_all(
        &database,
        (0..DOCUMENTS + 5)
            .filter(|&i| is_live(i))
            .map(|i| spread(i, size)),
    )?;
    leave_log(database);
    let database = plain("other.simdb")?;
    insert_all(
        &database,
        (0..DOCUMENTS + 5).map(|i| document(format!("x{i}"), !(i << 40))),
    )?;
    leave_log(database);
    let (whole, other) = (
        fs::read(folder.path("log.simdb"))?,
        fs::read(folder.path("other.simdb"))?,
    );
    let (swapped, told) = swap_pages(&folder, size, &whole, &other, "another log")?;
    assert!(swapped > 4 && told > 4, "{told} of {swapped} were told");
    Ok(())
}

/// A disk that loses a write leaves a page as it was at an earlier commit.
#[test]
fn pages_of_an_earlier_commit_are_errors_or_change_nothing() -> TestResult {
    let folder = Folder::new()?;
    let size = SketchSize::Bytes32;
    // Some documents have other sketches at first.
    let again = |i: u64| i < DOCUMENTS && is_live(i) && i % 7 == 1;
    fill(&create(&folder, "d.simdb", size)?, |i| match again(i) {
        true => with_another_sketch(i, size),
        false => spread(i, size),
    })?;
    let earlier = fs::read(folder.path("d.simdb"))?;
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    for _ in 0..2 {
        for i in (0..DOCUMENTS).filter(|&i| again(i)) {
            let mut txn = database.begin_write()?;
            txn.delete(i.to_string())?;
            txn.insert(&spread(i, size))?;
            txn.commit()?;
        }
    }
    database.settle()?;
    drop(database);
    let whole = fs::read(folder.path("d.simdb"))?;
    let (swapped, told) = swap_pages(&folder, size, &whole, &earlier, "an earlier commit")?;
    // Most pages are free in one of the two.
    assert!(swapped > 50 && told > 20, "{told} of {swapped} were told");
    Ok(())
}
