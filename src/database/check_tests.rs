//! Every kind of difference between documents and sets is found by a check, and named.

use super::Database;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::inspect::CheckReport;
use crate::plan::{Permuted, Plan};
use crate::sketch::{Sketch, SketchSize};
use crate::store::{
    DEAD, Extent, KEYS, Lists, POSTINGS, Recording, Set, SetRow, Settings, Sizes, Store, number_of,
    permuted,
};

/// Small blocks, so that each set has many.
const SIZES: Sizes = Sizes {
    recent_operations: 20,
    short_rows: 4,
    block_bytes: 128,
    document_block_bytes: 256,
    chunk_entries: 5,
    step_blocks: 2,
    part_rows: 50,
    compared_per_query: 0,
    spill_bytes: 1 << 20,
};

/// Documents with the numbers 1 to 300. Some share a fingerprint, some have none.
fn document(i: u64) -> Document {
    let bits = (i / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let fingerprint = (!i.is_multiple_of(20)).then(|| Fingerprint::from_bits(bits));
    let scope = ["", "en", "fr"][i as usize % 3];
    Document::new(format!("key {i}"), fingerprint)
        .with_seen(i as i64)
        .with_scope(scope)
}

fn sound() -> Result<Database> {
    let database = Database::of_store(Store::for_tests(SIZES)?.into());
    // More documents in one commit would become a level of their own. Documents that share a fingerprint are
    // in one commit. So its rows stand in one level only.
    for first in (0..300).step_by(30) {
        let mut txn = database.begin_write()?;
        for i in first.max(1)..first + 30 {
            txn.insert(&document(i))?;
        }
        txn.commit()?;
    }
    let mut txn = database.begin_write()?;
    for i in (4..=300).step_by(10) {
        txn.delete(format!("key {i}"))?;
    }
    txn.commit()?;
    // More commits bring the marks into levels.
    for first in (300..=330).step_by(3) {
        let mut txn = database.begin_write()?;
        for i in first..=330.min(first + 2) {
            txn.insert(&document(i))?;
        }
        txn.commit()?;
    }
    database.settle()?;
    let report = database.check()?;
    assert!(
        report.is_sound() && report.documents == 300 && report.pages_verified,
        "{report:?}"
    );
    Ok(database)
}

/// The problems of a check, and their number.
fn problems(database: &Database) -> Result<(Vec<String>, u64)> {
    let CheckReport {
        problems,
        total_problems,
        ..
    } = database.check()?;
    Ok((
        problems.iter().map(ToString::to_string).collect(),
        total_problems,
    ))
}

/// Asserts that these are the problems, in any order.
fn assert_problems(database: &Database, expected: &[String]) -> Result<()> {
    let (mut found, total) = problems(database)?;
    assert_eq!(found.len() as u64, total);
    let mut expected = expected.to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    Ok(())
}

/// A block in the middle of a set, and the index of a row in it that is wanted. The row behind it is in the
/// block too, but does not follow without a gap.
fn middle<R: SetRow>(
    blocks: &mut [Lists<R>],
    wanted: impl Fn(R) -> bool,
) -> (&mut Lists<R>, usize) {
    let half = blocks.len() / 2;
    let found = |block: &Lists<R>| {
        block
            .puts
            .windows(2)
            .position(|pair| wanted(pair[0]) && pair[0].next() != Some(pair[1]))
    };
    let block = blocks[half..]
        .iter_mut()
        .find(|block| found(block).is_some());
    let block = block.expect("there is such a row");
    let at = found(block).unwrap_or(0);
    (block, at)
}

/// How a row of a set is changed.
#[derive(Clone, Copy)]
enum Change {
    Remove,
    /// Puts the row behind it too.
    Add,
    /// Puts the row behind it instead.
    Alter,
}

/// Makes each change of a row that is wanted, each in a database of its own. Asserts that the problems are
/// those that `missing` and `added` say of the rows.
fn assert_rows_are_named<R: SetRow>(
    set: Set<R>,
    wanted: impl Fn(R) -> bool,
    missing: impl Fn(&Database, R) -> Result<String>,
    added: impl Fn(&Database, R) -> Result<String>,
) -> Result<()> {
    for change in [Change::Remove, Change::Add, Change::Alter] {
        let database = sound()?;
        let mut row = None;
        database.store.plant_rows(set, |blocks| {
            let (block, at) = middle(blocks, &wanted);
            let old = block.puts[at];
            let new = block.puts[at].next().expect("it is not the last row");
            match change {
                Change::Remove => drop(block.puts.remove(at)),
                Change::Add => block.puts.insert(at + 1, new),
                Change::Alter => block.puts[at] = new,
            }
            row = Some((old, new));
        })?;
        let (old, new) = row.expect("a row was changed");
        let expected = match change {
            Change::Remove => vec![missing(&database, old)?],
            Change::Add => vec![added(&database, new)?],
            Change::Alter => vec![missing(&database, old)?, added(&database, new)?],
        };
        assert_problems(&database, &expected)?;
    }
    Ok(())
}

/// What is said of a row that names a document to which it does not belong.
fn foreign(row: u128) -> String {
    format!(
        "a row names document {}, to which it does not belong",
        row & ((1 << 40) - 1)
    )
}

/// Whether a row of the postings is of the list of all documents of a fingerprint. Then the fingerprint has
/// another row, in the list of its scope.
/// The document was not deleted: the row of a deleted one may be hidden by a mark that is not merged yet.
fn is_of_any(row: u128) -> bool {
    row as u64 >> 40 == (1 << 24) - 1 && is_of_kept(row)
}

/// Whether a row of keys or postings is of a document that was not deleted.
fn is_of_kept(row: u128) -> bool {
    (row & ((1 << 40) - 1)) % 10 != 4
}

#[test]
fn rows_of_keys_that_are_missing_added_or_altered_are_named() -> Result<()> {
    let key = |database: &Database, row| {
        let key = database.store.key_of(number_of(row));
        key.unwrap_or_else(|_| format!("hash {:016x}", row >> 64))
    };
    assert_rows_are_named(
        KEYS,
        is_of_kept,
        |database, row| {
            Ok(format!(
                "table keys, key {}: the row of the document is missing",
                key(database, row)
            ))
        },
        |database, row| {
            Ok(format!(
                "table keys, key {}: {}",
                key(database, row),
                foreign(row)
            ))
        },
    )
}

#[test]
fn rows_of_postings_that_are_missing_added_or_altered_are_named() -> Result<()> {
    let fingerprint = |row: u128| Fingerprint::from_bits((row >> 64) as u64);
    assert_rows_are_named(
        POSTINGS,
        // The permuted tables stay right.
        is_of_any,
        |database, row| {
            let key = database.store.key_of(number_of(row))?;
            Ok(format!(
                "table postings, key {}: the row of document {key} is missing",
                fingerprint(row)
            ))
        },
        |_, row| {
            Ok(format!(
                "table postings, key {}: {}",
                fingerprint(row),
                foreign(row)
            ))
        },
    )
}

#[test]
fn rows_of_each_permuted_table_that_are_missing_added_or_altered_are_named() -> Result<()> {
    let plan = "4x16".parse::<Plan>().expect("a plan");
    for (table, of) in plan.tables().iter().enumerate() {
        let fingerprint = |row| of.invert(Permuted::from_bits(row));
        assert_rows_are_named(
            permuted(table),
            |_| true,
            |_, row| {
                let key = fingerprint(row);
                Ok(format!(
                    "table permuted, key {key}: the row in table {table} is missing"
                ))
            },
            |_, row| {
                let key = fingerprint(row);
                let problem = format!("table {table} has a row of it, but no document has it");
                Ok(format!("table permuted, key {key}: {problem}"))
            },
        )?;
    }
    Ok(())
}

#[test]
fn dead_numbers_that_are_missing_or_added_are_named() -> Result<()> {
    let database = sound()?;
    let mut number = 0;
    database
        .store
        .plant_rows(DEAD, |blocks| number = blocks[0].puts.remove(0))?;
    let (found, _) = problems(&database)?;
    let key = format!("table keys, key key {number}: the row of the document is missing");
    assert!(found.contains(&key), "{found:?}");
    assert!(
        found.contains(&"table meta, key documents: 300, where 301 would be right".to_owned()),
        "{found:?}"
    );

    let database = sound()?;
    database.store.plant_rows(DEAD, |blocks| {
        blocks.last_mut().expect("a block").puts.push(5000);
    })?;
    let problem = "table dead, key 5000: it is marked as removed, but no block has the document";
    assert_problems(&database, &[problem.to_owned()])
}

#[test]
fn a_document_that_should_not_be_there_is_named() -> Result<()> {
    let database = sound()?;
    database
        .store
        .plant_documents(&[(331, Document::new("new", document(331).fingerprint()))])?;
    let (found, total) = problems(&database)?;
    let expected = [
        "table keys, key new: the row of the document is missing",
        "the row of document new is missing",
        "table meta, key documents: 300, where 301 would be right",
    ];
    assert!(
        expected
            .iter()
            .all(|it| found.iter().any(|found| found.ends_with(it))),
        "{found:?}"
    );
    assert_eq!(total, 3);

    let database = sound()?;
    database
        .store
        .plant_documents(&[(7, document(7)), (331, document(331))])?;
    let problem = "table documents, key block up to 331: it begins before the block before it ends";
    assert_problems(&database, &[problem.to_owned()])
}

#[test]
fn two_documents_of_one_key_are_named() -> Result<()> {
    let database = sound()?;
    database.store.plant_second(&document(7))?;
    assert_problems(
        &database,
        &["table keys, key key 7: two documents have this key".to_owned()],
    )
}

#[test]
fn wrong_counters_are_named() -> Result<()> {
    let database = sound()?;
    database
        .store
        .plant_counters(|counters| counters.documents += 1)?;
    assert_problems(
        &database,
        &["table meta, key documents: 301, where 300 would be right".to_owned()],
    )?;
    database.store.plant_counters(|counters| {
        counters.documents -= 1;
        counters.too_short -= 1;
    })?;
    assert_problems(
        &database,
        &["table meta, key too_short: 15, where 16 would be right".to_owned()],
    )?;
    database
        .store
        .plant_counters(|counters| counters.next_document = 301)?;
    assert_problems(
        &database,
        &["table meta, key state: its next document is there already".to_owned()],
    )
}

#[test]
fn wrong_numbers_of_scopes_are_named() -> Result<()> {
    for (number, problem) in [
        (9, "table scopes, key en: its number was never given"),
        (2, "table scopes, key fr: another scope has its number"),
    ] {
        let database = sound()?;
        database.store.plant_scope("en", number)?;
        let (found, total) = problems(&database)?;
        assert!(found.iter().any(|found| found == problem), "{found:?}");
        assert!(
            total > 100,
            "the postings of the scope are wrong too: {total}"
        );
    }
    Ok(())
}

/// The only problem after a change of the rows of a set, without the number of the block.
fn only_problem<R: SetRow>(set: Set<R>, change: impl FnOnce(&mut Vec<Lists<R>>)) -> Result<String> {
    let database = sound()?;
    database.store.plant_rows(set, change)?;
    let (found, total) = problems(&database)?;
    assert_eq!((found.len(), total), (1, 1), "{found:?}");
    Ok(found[0].rsplit(": ").next().unwrap_or("").to_owned())
}

#[test]
fn rows_out_of_order_are_found_in_a_block_and_between_blocks() -> Result<()> {
    let out_of_order = "its rows are out of order";
    let swapped = only_problem(POSTINGS, |blocks| {
        let same = |pair: &[u128]| {
            pair[0] >> 64 == pair[1] >> 64 && is_of_any(pair[0]) && is_of_any(pair[1])
        };
        let block = blocks.iter_mut().find_map(|block| {
            // Not the last row, which the directory has too.
            let at = block
                .puts
                .windows(2)
                .position(same)
                .filter(|at| at + 2 < block.puts.len())?;
            Some((block, at))
        });
        let (block, at) = block.expect("two documents of a fingerprint stand in one block");
        block.puts.swap(at, at + 1);
    })?;
    assert_eq!(swapped, out_of_order);
    let twice = only_problem(permuted(2), |blocks| {
        let (block, at) = middle(blocks, |_| true);
        block.puts.insert(at, block.puts[at]);
    })?;
    assert_eq!(twice, out_of_order);
    let both = only_problem(permuted(1), |blocks| {
        let (block, at) = middle(blocks, |_| true);
        block.marks = vec![block.puts[at]];
    })?;
    assert_eq!(both, "it puts and marks the same row");
    let early = only_problem(KEYS, |blocks| {
        let row = blocks[3].puts[0];
        blocks[4].puts.insert(0, row);
    })?;
    assert_eq!(early, "it begins before the block before it ends");
    Ok(())
}

#[test]
fn a_mark_of_a_row_that_is_not_there_and_a_wrong_filter_are_found() -> Result<()> {
    let database = sound()?;
    database.store.plant_rows(KEYS, |blocks| {
        let (block, at) = middle(blocks, |_| true);
        block.marks = vec![block.puts[at] + 1];
    })?;
    let problem =
        "table keys, key rows as counted by its directories: 299, where 300 would be right";
    assert_problems(&database, &[problem.to_owned()])?;
    let database = sound()?;
    database.store.plant_filter(KEYS)?;
    let (found, total) = problems(&database)?;
    assert!(
        found[0].ends_with("the filter does not know all its rows") && total == 1,
        "{found:?}"
    );
    Ok(())
}

#[test]
fn a_wrong_block_does_not_hide_what_is_wrong_elsewhere() -> Result<()> {
    let database = sound()?;
    database.store.plant_rows(POSTINGS, |blocks| {
        let row = blocks[0].puts[0];
        blocks[0].puts.insert(0, row);
    })?;
    let mut gone = (0, 0);
    database.store.plant_rows(POSTINGS, |blocks| {
        let (block, at) = middle(blocks, is_of_any);
        gone.0 = block.puts.remove(at);
    })?;
    database.store.plant_rows(KEYS, |blocks| {
        let (block, at) = middle(blocks, |_| true);
        gone.1 = block.puts.remove(at);
    })?;
    let (found, total) = problems(&database)?;
    assert_eq!(total, 3, "{found:?}");
    assert!(
        found[0].contains("its rows are out of order") || found.len() == 3,
        "{found:?}"
    );
    let key = database.store.key_of(number_of(gone.0))?;
    assert!(
        found
            .iter()
            .any(|it| it.ends_with(&format!("the row of document {key} is missing"))),
        "{found:?}"
    );
    let key = database.store.key_of(number_of(gone.1))?;
    assert!(
        found
            .iter()
            .any(|it| it.contains(&format!("table keys, key {key}:"))),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn very_many_differences_are_counted_and_the_first_are_listed() -> Result<()> {
    let database = sound()?;
    let mut removed = 0;
    database.store.plant_rows(KEYS, |blocks| {
        removed = blocks.iter().map(|block| block.puts.len() as u64).sum();
        blocks.truncate(1);
        removed -= blocks[0].puts.len() as u64;
    })?;
    let (found, total) = problems(&database)?;
    assert_eq!(found.len(), CheckReport::MAX_PROBLEMS);
    assert!(total > 150 && total <= removed + 1, "{total} of {removed}");
    Ok(())
}

/// A wrong extent would hide documents from a search by time, or from an expiry.
#[test]
fn a_wrong_extent_of_a_block_is_found() -> Result<()> {
    let changes: [fn(&mut Extent); 3] = [
        |it| it.least_seen -= 1,
        |it| it.greatest_seen += 1,
        |it| it.unposted ^= 1 << 40,
    ];
    for change in changes {
        let database = sound()?;
        database.store.plant_extent(|_| {})?;
        assert_problems(&database, &[])?;
        database.store.plant_extent(change)?;
        let (found, total) = problems(&database)?;
        assert_eq!(total, 1, "{found:?}");
        assert!(
            found[0].ends_with("the directory does not have the times and scopes of its documents")
        );
    }
    Ok(())
}

// Sketches that cannot be, also if the checksums are right.

/// Every third document has no sketch.
fn sketched(i: u64, size: SketchSize) -> Result<Document> {
    let bytes = vec![i as u8 | 1; size.bytes()];
    let sketch = (!i.is_multiple_of(3))
        .then(|| Sketch::new(&bytes, 9))
        .transpose()?;
    Ok(Document::new(format!("key {i}"), Fingerprint::from_bits(i))
        .with_seen(0)
        .with_sketch(sketch))
}

/// Three documents in one block.
fn sound_with_sketches(size: SketchSize) -> Result<Database> {
    let settings = Settings {
        sketch_size: size,
        ..Settings::for_tests()
    };
    let sizes = Sizes {
        recent_operations: 2,
        ..Sizes::default()
    };
    let store = Store::on_backend(Recording::default(), Some(&settings), sizes)?;
    let database = Database::of_store(store.into());
    let mut txn = database.begin_write()?;
    for i in 1..=3 {
        txn.insert(&sketched(i, size)?)?;
    }
    txn.commit()?;
    database.settle()?;
    assert!(database.check()?.is_sound());
    Ok(database)
}

#[test]
fn a_sketch_without_shingles_or_of_no_size_is_named_by_its_block() -> Result<()> {
    for size in [SketchSize::Bytes16, SketchSize::Bytes32] {
        // The sketch of the last document, which has none, stands last.
        type Change = fn(&mut Vec<u8>);
        let changes: [(Change, &str); 2] = [
            (
                |bytes| *bytes.last_mut().expect("there are sketches") = 1,
                "it has a sketch without shingles",
            ),
            (
                |bytes| bytes[3] = 17,
                "its sketches have an impossible size",
            ),
        ];
        for (change, problem) in changes {
            let database = sound_with_sketches(size)?;
            database.store.plant_bytes(|_| {})?;
            assert_problems(&database, &[])?;
            database.store.plant_bytes(change)?;
            let block = "table documents, key documents, level 0, block up to 3";
            assert_problems(&database, &[format!("{block}: {problem}")])?;
            assert!(
                matches!(
                    database.snapshot()?.get("key 1"),
                    Err(Error::Damaged { .. })
                ),
                "{problem}"
            );
        }
    }
    Ok(())
}

/// It could not be compared, so its document would be missing wherever a similarity is asked for.
#[test]
fn a_sketch_of_another_size_is_named_by_its_document() -> Result<()> {
    for [size, other] in [
        [SketchSize::Bytes16, SketchSize::Bytes32],
        [SketchSize::Bytes32, SketchSize::Bytes16],
    ] {
        let database = sound_with_sketches(size)?;
        database
            .store
            .plant_documents(&[(4, sketched(4, other)?)])?;
        let (found, _) = problems(&database)?;
        let expected = "its sketch does not have the size of those of the file";
        assert!(
            found.len() == 1 && found[0].ends_with(expected),
            "{found:?}"
        );
    }
    Ok(())
}
