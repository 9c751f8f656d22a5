//! The tables of the engine in a file, except for those of blocks, and the rows that one commit writes and
//! removes in all of them.

use std::ops::Bound;

use redb::{TableDefinition, WriteTransaction};

use super::block_tables::{self, BlockTable, LevelChange};
use super::errors::engine_error;
use crate::error::Result;

pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
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
    /// Changes of levels. They are made one after the other.
    pub(crate) levels: Vec<LevelChange>,
    /// New pages of the log, behind the last page.
    pub(crate) log: Vec<(u64, Vec<u8>)>,
    /// Pages of the log before this one are removed.
    pub(crate) log_begins_at: Option<u64>,
    pub(crate) scopes: Vec<(String, Vec<u8>)>,
}

/// Makes every table, empty.
pub(super) fn create_all(txn: &WriteTransaction, block_tables: &[BlockTable]) -> Result<()> {
    txn.open_table(META).map_err(engine_error)?;
    txn.open_table(DIRECTORY).map_err(engine_error)?;
    txn.open_table(LOG).map_err(engine_error)?;
    txn.open_table(SCOPES).map_err(engine_error)?;
    block_tables.iter().try_for_each(|table| block_tables::create(txn, table))
}

/// Writes and removes the rows of `changes`, then writes the rows of `meta`.
pub(super) fn write(txn: &WriteTransaction, changes: &Changes, meta: &[MetaRow]) -> Result<()> {
    changes.levels.iter().try_for_each(|change| block_tables::write(txn, change))?;
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

fn write_directory(txn: &WriteTransaction, changes: &Changes) -> Result<()> {
    let has_chunks = |change: &LevelChange| !change.chunks.is_empty() || !change.removed_chunks.is_empty();
    if !changes.levels.iter().any(has_chunks) {
        return Ok(());
    }
    let mut table = txn.open_table(DIRECTORY).map_err(engine_error)?;
    for LevelChange { level, removed_chunks, chunks, .. } in &changes.levels {
        for &last in removed_chunks {
            table.remove((level.id(), last)).map_err(engine_error)?;
        }
        for (last, bytes) in chunks {
            table.insert((level.id(), *last), bytes.as_slice()).map_err(engine_error)?;
        }
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
    let mut cursor = table.upper_bound_mut(Bound::<u64>::Unbounded).map_err(engine_error)?;
    for (page, bytes) in &changes.log {
        cursor.insert_before(page, bytes.as_slice()).map_err(engine_error)?;
    }
    cursor.close().map_err(engine_error)
}
