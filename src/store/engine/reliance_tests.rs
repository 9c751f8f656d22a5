//! What the layout of a file relies on in the storage engine, and no documentation of it promises. A release of the
//! engine that does it otherwise fails here, and not as a file that is twice as long or opens slowly.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition, TableStats};

use super::open_file::Engine;
use super::recording::{Image, Recording};
use super::tables::Changes;
use crate::store::sizes::{self, Sizes};

type WideKey = (u8, u128);
type NarrowKey = (u8, u64);

const WIDE: TableDefinition<'static, WideKey, &[u8]> = TableDefinition::new("wide");
const NARROW: TableDefinition<'static, NarrowKey, &[u8]> = TableDefinition::new("narrow");

const PAGE_BYTES: u64 = sizes::PAGE_BYTES as u64;
const BLOCKS: u64 = 500;

fn database() -> Database {
    redb::Builder::new()
        .create_with_backend(Recording::default())
        .expect("a database in memory")
}

/// The bytes that each of some values takes in a table, as they are written by merges.
fn bytes_of_each(value_bytes: usize, is_wide: bool) -> u64 {
    let database = database();
    let txn = database.begin_write().expect("nobody writes");
    let value = vec![7; value_bytes];
    let stats = if is_wide {
        let mut table = txn.open_table(WIDE).expect("a table");
        let mut cursor = table
            .lower_bound_mut(Bound::<WideKey>::Unbounded)
            .expect("a cursor");
        for last in 0..BLOCKS {
            cursor
                .insert_before((1, u128::from(last)), &value[..])
                .expect("sorted");
        }
        cursor.close().expect("it is written");
        table.stats()
    } else {
        let mut table = txn.open_table(NARROW).expect("a table");
        let mut cursor = table
            .lower_bound_mut(Bound::<NarrowKey>::Unbounded)
            .expect("a cursor");
        for last in 0..BLOCKS {
            cursor.insert_before((1, last), &value[..]).expect("sorted");
        }
        cursor.close().expect("it is written");
        table.stats()
    };
    leaf_bytes(&stats.expect("it can be counted")) / BLOCKS
}

/// The bytes of all pages of a table but those of its branches.
fn leaf_bytes(stats: &TableStats) -> u64 {
    let all = stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    all - stats.branch_pages() * PAGE_BYTES
}

/// A block of rows with the longest key fills two pages, and a byte more takes four. Likewise a block of documents and
/// one page.
#[test]
fn a_full_block_and_its_key_fill_whole_pages() {
    let Sizes {
        block_bytes,
        document_block_bytes,
        ..
    } = Sizes::default();
    assert_eq!(bytes_of_each(block_bytes, true), 2 * PAGE_BYTES);
    assert!(bytes_of_each(block_bytes + 1, true) > 2 * PAGE_BYTES);
    assert_eq!(bytes_of_each(block_bytes, false), 2 * PAGE_BYTES);
    assert_eq!(bytes_of_each(document_block_bytes, false), PAGE_BYTES);
}

/// Sorted values that are written by a cursor fill their pages. Values that are inserted one by one leave half of them
/// empty.
#[test]
fn a_cursor_writes_full_pages() {
    const VALUE_BYTES: u64 = 100;
    let bytes = bytes_of_each(VALUE_BYTES as usize, false);
    assert!(
        bytes < (VALUE_BYTES + 16) * 11 / 10,
        "{bytes} bytes for a value of {VALUE_BYTES}"
    );
}

/// With quick repair, a file that was killed is opened without being repaired. Otherwise the engine goes through all
/// pages.
#[test]
fn a_killed_file_opens_without_a_repair() {
    const PARTS: u8 = 20;
    for quick in [true, false] {
        let storage = Recording::default();
        let database = redb::Builder::new()
            .create_with_backend(storage.clone())
            .expect("a database in memory");
        for part in 0..PARTS {
            let mut txn = database.begin_write().expect("nobody writes");
            txn.set_quick_repair(quick);
            let mut table = txn.open_table(NARROW).expect("a table");
            for last in 0..BLOCKS {
                table
                    .insert((part, last), &[7; 400][..])
                    .expect("there is room");
            }
            drop(table);
            txn.commit().expect("it can be committed");
        }
        // The file as it is before the engine closes it.
        let (opened, is_repaired) = opened_as_it_is(&storage);
        assert_eq!(is_repaired, !quick);
        let txn = opened.begin_read().expect("it can be read");
        let table = txn.open_table(NARROW).expect("it is there");
        assert_eq!(
            table.len().expect("it can be read"),
            u64::from(PARTS) * BLOCKS
        );
        assert!(table.get((PARTS - 1, 0)).expect("it can be read").is_some());
    }
}

/// Each commit has to be made so. A file with a single one that is not needs the scan, after a kill behind it.
#[test]
fn a_file_that_is_killed_behind_any_commit_opens_without_a_repair() {
    let storage = Recording::default();
    let first: (&[_], &[_]) = (&[], &[("state", vec![0; 100])]);
    let engine = Engine::on_backend(storage.clone(), 1 << 20, Some(first)).expect("a new file");
    for commit in 1..5 {
        let (_, is_repaired) = opened_as_it_is(&storage);
        assert!(!is_repaired, "behind commit {commit}");
        let meta = [("state", vec![commit; 100])];
        let applied = engine.apply(&Changes::default(), &meta);
        applied.expect("it can be written");
    }
    assert!(!opened_as_it_is(&storage).1);
}

/// What is in the file now, opened, and whether the engine went through all pages for that.
fn opened_as_it_is(storage: &Recording) -> (Database, bool) {
    let mut killed = Image::default();
    for event in storage.events() {
        killed.apply(&event);
    }
    let is_repaired = Arc::new(AtomicBool::new(false));
    let noted = is_repaired.clone();
    let mut builder = redb::Builder::new();
    builder.set_repair_callback(move |_| noted.store(true, Ordering::Relaxed));
    let opened = builder.create_with_backend(Recording::new(killed));
    let opened = opened.expect("it is whole");
    (opened, is_repaired.load(Ordering::Relaxed))
}
