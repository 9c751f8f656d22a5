//! Rows of the engine that are missing, flipped, shortened, swapped or stale.

use std::fs;

use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use simdb::{Database, Error, SketchSize};

use super::file::{
    DOCUMENTS, SIZES, is_live, sound_file, spread, use_damaged, with_another_sketch,
};
use crate::support::{Folder, TestResult, assert_error, document, insert_all, leave_log, tiny};

/// The tables of blocks, by the length of their rows.
const NARROW: [&str; 6] = [
    "permuted-0",
    "permuted-1",
    "permuted-2",
    "permuted-3",
    "dead",
    "documents",
];
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
    const ALL: [Self; 5] = [
        Self::Removed,
        Self::Flipped,
        Self::Shortened,
        Self::Swapped,
        Self::Stale,
    ];

    /// The harmed value of a row, or `None` if the row is removed. An error if this row cannot be harmed
    /// in this way.
    fn value(
        self,
        at: usize,
        values: &[Vec<u8>],
        old: Option<&Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, ()> {
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
        if value == values[at] {
            Err(())
        } else {
            Ok(Some(value))
        }
    }
}

/// Harms every `$every`-th row of a table, each in a copy of the file.
macro_rules! harm_rows {
    ($folder:expr, $size:expr, $table:expr, $every:expr, $own:expr, $as_key:expr) => {{
        let table = $table;
        let rows = |name: &str| -> TestResult<Vec<_>> {
            let engine = redb::Database::open($folder.path(name))?;
            let table = engine.begin_read()?.open_table(table)?;
            table
                .iter()?
                .map(|row| {
                    row.map(|(key, it)| ($own(key.value()), it.value().to_vec()))
                        .map_err(Into::into)
                })
                .collect()
        };
        let (now, old) = (rows("d.simdb")?, rows("old.simdb")?);
        let values: Vec<Vec<u8>> = now.iter().map(|row| row.1.clone()).collect();
        for harm in Harm::ALL {
            for at in (0..now.len()).step_by($every) {
                let key = &now[at].0;
                let before = old.iter().find(|row| row.0 == *key).map(|row| &row.1);
                let Ok(value) = harm.value(at, &values, before) else {
                    continue;
                };
                let what = format!(
                    "{harm:?} row {key:?} of table {:?}",
                    redb::TableHandle::name(&table)
                );
                fs::copy($folder.path("d.simdb"), $folder.path("harmed.simdb"))?;
                let engine = redb::Database::open($folder.path("harmed.simdb"))?;
                let txn = engine.begin_write()?;
                match value {
                    Some(value) => drop(
                        txn.open_table(table)?
                            .insert($as_key(key), value.as_slice())?,
                    ),
                    None => drop(txn.open_table(table)?.remove($as_key(key))?),
                }
                txn.commit()?;
                drop(engine);
                let is_written = at / $every % 4 == 0;
                let found = use_damaged(&$folder.path("harmed.simdb"), $size, is_written, &what);
                let told = matches!(
                    &found,
                    Err(Error::Damaged { .. }
                        | Error::Corrupted(_)
                        | Error::NotSimdb { .. }
                        | Error::Input { .. })
                );
                assert!(told, "{what}: {found:?}");
            }
        }
        now.len()
    }};
}

/// Makes `d.simdb`, and `old.simdb`, which is the same file as it was some commits before. There, some documents
/// have other sketches.
fn new_and_old_file(folder: &Folder, size: SketchSize) -> TestResult {
    let again = || (0..DOCUMENTS).filter(|&i| is_live(i) && i % 4 == 1);
    sound_file(folder, "d.simdb", size)?;
    {
        let database = Database::open(folder.path("d.simdb"), &tiny())?;
        insert_all(&database, again().map(|i| with_another_sketch(i, size)))?;
        database.settle()?;
    }
    fs::copy(folder.path("d.simdb"), folder.path("old.simdb"))?;
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    // Then deletes documents and stores them again. So the rows change and the answers stay the same.
    for _ in 0..3 {
        let mut txn = database.begin_write()?;
        for i in again() {
            txn.delete(i.to_string())?;
            txn.insert(&spread(i, size))?;
        }
        txn.commit()?;
    }
    database.settle()?;
    // Once more, for the log.
    let mut txn = database.begin_write()?;
    txn.delete("1")?;
    txn.insert(&spread(1, size))?;
    txn.commit()?;
    leave_log(database);
    Ok(())
}

#[test]
fn a_row_that_is_missing_flipped_shortened_swapped_or_stale_is_an_error() -> TestResult {
    let folder = Folder::in_memory()?;
    let size = SketchSize::Bytes16;
    new_and_old_file(&folder, size)?;
    let number = |key: u64| key;
    let narrow = |key: (u8, u64)| key;
    let wide = |key: (u8, u128)| key;
    let chunk = |key: (u16, u128)| key;
    let name = |key: &str| key.to_owned();
    let mut blocks = 0;
    for table in NARROW {
        let table = TableDefinition::<(u8, u64), &[u8]>::new(table);
        blocks += harm_rows!(folder, size, table, 113, narrow, |key: &(u8, u64)| *key);
    }
    for table in WIDE {
        let table = TableDefinition::<(u8, u128), &[u8]>::new(table);
        blocks += harm_rows!(folder, size, table, 113, wide, |key: &(u8, u128)| *key);
    }
    let chunks = TableDefinition::<(u16, u128), &[u8]>::new("directory");
    let chunks = harm_rows!(folder, size, chunks, 73, chunk, |key: &(u16, u128)| *key);
    let log = TableDefinition::<u64, &[u8]>::new("log");
    let pages = harm_rows!(folder, size, log, 1, number, |key: &u64| *key);
    for table in ["scopes", "meta"] {
        let table = TableDefinition::<&str, &[u8]>::new(table);
        harm_rows!(
            folder,
            size,
            table,
            1,
            name,
            |key: &String| key.clone().leak() as &str
        );
    }
    assert!(
        blocks > 200 && chunks > 100 && pages > 0,
        "{blocks} blocks, {chunks} chunks, {pages} pages"
    );
    Ok(())
}

/// The rows that hold sketches.
#[test]
fn a_block_of_documents_that_is_harmed_is_an_error_with_sketches_of_every_size() -> TestResult {
    for size in SIZES {
        let folder = Folder::in_memory()?;
        new_and_old_file(&folder, size)?;
        let table = TableDefinition::<(u8, u64), &[u8]>::new("documents");
        let blocks = harm_rows!(folder, size, table, 67, |key: (u8, u64)| key, |key: &(
            u8,
            u64
        )| {
            *key
        });
        assert!(blocks > 30, "{blocks} blocks");
    }
    Ok(())
}

#[test]
fn a_transaction_that_met_damage_cannot_be_committed() -> TestResult {
    let folder = Folder::in_memory()?;
    sound_file(&folder, "d.simdb", SIZES[0])?;
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
    assert_error!(txn.insert(&document("7", 2)) => Error::Damaged { .. });
    assert_error!(txn.insert(&document("z", 2)) => Error::Aborted);
    assert_error!(txn.commit() => Error::Aborted);
    let snapshot = database.snapshot()?;
    assert!(snapshot.documents().any(|document| document.is_err()));
    assert!(
        snapshot.documents().count() < 10,
        "after an error the documents end"
    );
    Ok(())
}
