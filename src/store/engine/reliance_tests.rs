//! What the layout of a file relies on in the storage engine, and no documentation of it promises. A release of the
//! engine that does it otherwise fails here, and not as a file that is twice as long or opens slowly.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition, TableStats};

use super::recording::{Event, Image, Recording};
use crate::store::sizes::Sizes;

type WideKey = (u8, u128);
type NarrowKey = (u8, u64);

const WIDE: TableDefinition<'static, WideKey, &[u8]> = TableDefinition::new("wide");
const NARROW: TableDefinition<'static, NarrowKey, &[u8]> = TableDefinition::new("narrow");

const PAGE_BYTES: u64 = 4096;
const BLOCKS: u64 = 500;

fn database() -> Database {
    redb::Builder::new().create_with_backend(Recording::default()).expect("a database in memory")
}

/// The bytes that each of some values takes in a table, as they are written by merges.
fn bytes_of_each(value_bytes: usize, is_wide: bool) -> u64 {
    let database = database();
    let txn = database.begin_write().expect("nobody writes");
    let value = vec![7; value_bytes];
    let stats = if is_wide {
        let mut table = txn.open_table(WIDE).expect("a table");
        let mut cursor = table.lower_bound_mut(Bound::<WideKey>::Unbounded).expect("a cursor");
        for last in 0..BLOCKS {
            cursor.insert_before((1, u128::from(last)), &value[..]).expect("sorted");
        }
        cursor.close().expect("it is written");
        table.stats()
    } else {
        let mut table = txn.open_table(NARROW).expect("a table");
        let mut cursor = table.lower_bound_mut(Bound::<NarrowKey>::Unbounded).expect("a cursor");
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
    let Sizes { block_bytes, document_block_bytes, .. } = Sizes::default();
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
    assert!(bytes < (VALUE_BYTES + 16) * 11 / 10, "{bytes} bytes for a value of {VALUE_BYTES}");
}

/// A storage that counts the bytes that are read.
#[derive(Debug)]
struct Counting(Recording, Arc<AtomicU64>);

impl redb::StorageBackend for Counting {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// With quick repair, a file is opened without being read, also after a kill. Without it, the engine goes through all
/// pages.
#[test]
fn a_killed_file_opens_without_being_read() {
    let storage = Recording::default();
    let database = redb::Builder::new().create_with_backend(storage.clone()).expect("a database in memory");
    for part in 0..20 {
        let mut txn = database.begin_write().expect("nobody writes");
        txn.set_quick_repair(true);
        let mut table = txn.open_table(NARROW).expect("a table");
        for last in 0..BLOCKS {
            table.insert((part, last), &vec![7; 4000][..]).expect("there is room");
        }
        drop(table);
        txn.commit().expect("it can be committed");
    }
    // The file as it is before the engine closes it.
    let mut killed = Image::default();
    storage.events().iter().for_each(|event: &Event| killed.apply(event));
    let length = killed.0.len() as u64;
    let read = Arc::new(AtomicU64::new(0));
    let counting = Counting(Recording::of(killed), read.clone());
    let opened = redb::Builder::new().create_with_backend(counting).expect("it is whole");
    let read = read.load(Ordering::Relaxed);
    assert!(read < length / 20, "{read} of {length} bytes were read");
    let txn = opened.begin_read().expect("it can be read");
    let table = txn.open_table(NARROW).expect("it is there");
    assert_eq!(table.len().expect("it can be read"), 20 * BLOCKS);
    assert!(table.get((19, 0)).expect("it can be read").is_some());
}
