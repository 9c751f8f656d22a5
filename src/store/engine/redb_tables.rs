//! The tables of the engine in a file, except for those of blocks, and the rows that one commit writes and
//! removes in all of them.

use std::ops::Bound;

use redb::{TableDefinition, WriteTransaction};

use super::block_tables::{self, BlockTable, LevelChange, Replaced};
use super::errors::engine_error;
use crate::error::Result;

pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
pub(super) const DIRECTORY: TableDefinition<'static, ChunkKey, &[u8]> =
    TableDefinition::new("directory");
pub(super) const SUMMARIES: TableDefinition<'static, ChunkKey, &[u8]> =
    TableDefinition::new("summaries");
pub(super) const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
pub(super) const SCOPES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("scopes");
pub(super) const SOURCES: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("sources");

/// The key of a chunk of a directory, or of a summary: the level id, then the last row.
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
    /// Rows of sources. `None` removes the row.
    pub(crate) sources: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Makes every table, empty.
pub(super) fn create_all(txn: &WriteTransaction, block_tables: &[BlockTable]) -> Result<()> {
    txn.open_table(META).map_err(engine_error)?;
    txn.open_table(DIRECTORY).map_err(engine_error)?;
    txn.open_table(SUMMARIES).map_err(engine_error)?;
    txn.open_table(LOG).map_err(engine_error)?;
    txn.open_table(SCOPES).map_err(engine_error)?;
    txn.open_table(SOURCES).map_err(engine_error)?;
    block_tables
        .iter()
        .try_for_each(|table| block_tables::create(txn, table))
}

/// Writes and removes the rows of `changes`, then writes the rows of `meta`.
pub(super) fn write(txn: &WriteTransaction, changes: &Changes, meta: &[MetaRow]) -> Result<()> {
    changes
        .levels
        .iter()
        .try_for_each(|change| block_tables::write(txn, change))?;
    write_replaced(txn, DIRECTORY, changes, |change| &change.chunks)?;
    write_replaced(txn, SUMMARIES, changes, |change| &change.summaries)?;
    write_log(txn, changes)?;
    if !changes.scopes.is_empty() {
        let mut table = txn.open_table(SCOPES).map_err(engine_error)?;
        for (name, bytes) in &changes.scopes {
            table
                .insert(name.as_str(), bytes.as_slice())
                .map_err(engine_error)?;
        }
    }
    write_sources(txn, &changes.sources)?;
    let mut table = txn.open_table(META).map_err(engine_error)?;
    for (name, bytes) in meta {
        table.insert(name, bytes.as_slice()).map_err(engine_error)?;
    }
    Ok(())
}

fn write_sources(txn: &WriteTransaction, sources: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<()> {
    if sources.is_empty() {
        return Ok(());
    }
    let mut table = txn.open_table(SOURCES).map_err(engine_error)?;
    for (name, bytes) in sources {
        match bytes {
            Some(bytes) => table
                .insert(name.as_slice(), bytes.as_slice())
                .map_err(engine_error)?,
            None => table.remove(name.as_slice()).map_err(engine_error)?,
        };
    }
    Ok(())
}

/// Writes the chunks or the summaries that change.
fn write_replaced(
    txn: &WriteTransaction,
    table: TableDefinition<'static, ChunkKey, &'static [u8]>,
    changes: &Changes,
    of: impl Fn(&LevelChange) -> &Replaced,
) -> Result<()> {
    let changes = || {
        changes
            .levels
            .iter()
            .map(|change| (change.level.id(), of(change)))
    };
    if changes().all(|(_, replaced)| replaced.removed.is_empty() && replaced.written.is_empty()) {
        return Ok(());
    }
    let mut table = txn.open_table(table).map_err(engine_error)?;
    for (level, Replaced { removed, written }) in changes() {
        for &last in removed {
            table.remove((level, last)).map_err(engine_error)?;
        }
        for (last, bytes) in written {
            table
                .insert((level, *last), bytes.as_slice())
                .map_err(engine_error)?;
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
        table
            .retain_in(..first, |_, _| false)
            .map_err(engine_error)?;
    }
    let mut cursor = table
        .upper_bound_mut(Bound::<u64>::Unbounded)
        .map_err(engine_error)?;
    for (page, bytes) in &changes.log {
        cursor
            .insert_before(page, bytes.as_slice())
            .map_err(engine_error)?;
    }
    cursor.close().map_err(engine_error)
}
