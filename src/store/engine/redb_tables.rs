//! The tables of the engine in a file, and the rows that one commit writes and removes in them.

use std::borrow::Cow;
use std::ops::Bound;

use redb::{TableDefinition, WriteTransaction};

use super::errors::engine_error;
use super::spill::BlockBytes;
use crate::error::{Error, Result};

pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
pub(super) const BLOCKS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("blocks");
pub(super) const DIRECTORY: TableDefinition<'static, ChunkKey, &[u8]> = TableDefinition::new("directory");
pub(super) const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
pub(super) const SCOPES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("scopes");

/// The key of a chunk of a directory: the level id, then the last row of the chunk.
pub(crate) type ChunkKey = (u16, u128);

/// A row of the table `meta`: its name and its value.
pub(crate) type MetaRow = (&'static str, Vec<u8>);

/// The rows that one commit writes and removes, except for the rows of the table `meta`.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// New blocks, in the order of their numbers. These are greater than the numbers of all older blocks.
    pub(crate) blocks: Vec<(u64, BlockBytes)>,
    pub(crate) removed_blocks: Vec<u64>,
    pub(crate) chunks: Vec<(ChunkKey, Vec<u8>)>,
    pub(crate) removed_chunks: Vec<ChunkKey>,
    /// New pages of the log, behind the last page.
    pub(crate) log: Vec<(u64, Vec<u8>)>,
    /// Pages of the log before this one are removed.
    pub(crate) log_begins_at: Option<u64>,
    pub(crate) scopes: Vec<(String, Vec<u8>)>,
}

/// Makes every table, empty.
pub(super) fn create_all(txn: &WriteTransaction) -> Result<()> {
    txn.open_table(META).map_err(engine_error)?;
    txn.open_table(BLOCKS).map_err(engine_error)?;
    txn.open_table(DIRECTORY).map_err(engine_error)?;
    txn.open_table(LOG).map_err(engine_error)?;
    txn.open_table(SCOPES).map_err(engine_error)?;
    Ok(())
}

/// Writes and removes the rows of `changes`, then writes the rows of `meta`.
pub(super) fn write(txn: &WriteTransaction, changes: &Changes, meta: &[MetaRow]) -> Result<()> {
    write_blocks(txn, changes)?;
    write_directory(txn, changes)?;
    write_log(txn, changes)?;
    if !changes.scopes.is_empty() {
        let mut table = txn.open_table(SCOPES).map_err(engine_error)?;
        for (name, bytes) in &changes.scopes {
            table.insert(name.as_str(), bytes.as_slice()).map_err(engine_error)?;
        }
    }
    let mut table = txn.open_table(META).map_err(engine_error)?;
    for (name, bytes) in meta {
        table.insert(name, bytes.as_slice()).map_err(engine_error)?;
    }
    Ok(())
}

fn write_blocks(txn: &WriteTransaction, changes: &Changes) -> Result<()> {
    if changes.blocks.is_empty() && changes.removed_blocks.is_empty() {
        return Ok(());
    }
    let mut table = txn.open_table(BLOCKS).map_err(engine_error)?;
    for number in &changes.removed_blocks {
        if table.remove(number).map_err(engine_error)?.is_none() {
            return Err(Error::Damaged {
                table: "blocks",
                key: number.to_string(),
                problem: "it is missing, but a directory refers to it",
            });
        }
    }
    // Numbers only grow. So all new blocks go behind the last block, into full pages.
    append(&mut table, changes.blocks.iter().map(loaded))
}

fn write_directory(txn: &WriteTransaction, changes: &Changes) -> Result<()> {
    if changes.chunks.is_empty() && changes.removed_chunks.is_empty() {
        return Ok(());
    }
    let mut table = txn.open_table(DIRECTORY).map_err(engine_error)?;
    for key in &changes.removed_chunks {
        table.remove(key).map_err(engine_error)?;
    }
    for (key, bytes) in &changes.chunks {
        table.insert(key, bytes.as_slice()).map_err(engine_error)?;
    }
    Ok(())
}

fn write_log(txn: &WriteTransaction, changes: &Changes) -> Result<()> {
    if changes.log.is_empty() && changes.log_begins_at.is_none() {
        return Ok(());
    }
    let mut table = txn.open_table(LOG).map_err(engine_error)?;
    if let Some(first) = changes.log_begins_at {
        table.retain_in(..first, |_, _| false).map_err(engine_error)?;
    }
    append(&mut table, changes.log.iter().map(|(page, bytes)| Ok((*page, bytes))))
}

fn loaded((number, bytes): &(u64, BlockBytes)) -> Result<(u64, Cow<'_, [u8]>)> {
    let bytes = bytes.load().map_err(|error| engine_error(redb::Error::Io(error)))?;
    Ok((*number, bytes))
}

/// Inserts rows behind all others.
fn append<B: AsRef<[u8]>>(
    table: &mut redb::Table<'_, u64, &'static [u8]>,
    rows: impl Iterator<Item = Result<(u64, B)>>,
) -> Result<()> {
    let mut cursor = table.upper_bound_mut(Bound::<u64>::Unbounded).map_err(engine_error)?;
    for row in rows {
        let (key, bytes) = row?;
        cursor.insert_before(key, bytes.as_ref()).map_err(engine_error)?;
    }
    cursor.close().map_err(engine_error)
}
