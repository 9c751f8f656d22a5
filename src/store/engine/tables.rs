//! The storage engine: its tables, opening and creating its file, applying an edit in one transaction, its errors.

use std::borrow::Cow;
use std::io;
use std::ops::Bound;
use std::path::Path;

use redb::{DatabaseError, ReadTransaction, ReadableDatabase, TableDefinition};

use crate::error::{Error, Result};
use crate::store::file::meta::{self, Settings};
use crate::store::file::state::{Edit, State};
use crate::store::file::written::BlockBytes;
use crate::store::sorted_set::chunk::ChunkKey;

pub(crate) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
pub(crate) const BLOCKS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("blocks");
pub(crate) const DIRECTORY: TableDefinition<'static, ChunkKey, &[u8]> = TableDefinition::new("directory");
pub(crate) const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
pub(crate) const SCOPES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("scopes");

/// An open file of the engine.
pub(crate) enum Engine {
    ReadWrite(redb::Database),
    ReadOnly(redb::ReadOnlyDatabase),
}

impl Engine {
    pub(crate) fn begin_read(&self) -> Result<ReadTransaction> {
        match self {
            Self::ReadWrite(engine) => engine.begin_read(),
            Self::ReadOnly(engine) => engine.begin_read(),
        }
        .map_err(engine_error)
    }

    /// Makes an edit part of the file, whole and durable.
    pub(crate) fn apply(&self, edit: &Edit) -> Result<()> {
        let Self::ReadWrite(engine) = self else { return Err(Error::ReadOnly) };
        let mut txn = engine.begin_write().map_err(engine_error)?;
        // A crash is then followed by an opening in milliseconds, whatever the size of the file.
        txn.set_quick_repair(true);
        write_edit(&txn, edit)?;
        txn.commit().map_err(engine_error)
    }
}

/// The rows of an edit.
fn write_edit(txn: &redb::WriteTransaction, edit: &Edit) -> Result<()> {
    if !edit.blocks.is_empty() || !edit.removed_blocks.is_empty() {
        let mut table = txn.open_table(BLOCKS).map_err(engine_error)?;
        for id in &edit.removed_blocks {
            if table.remove(id).map_err(engine_error)?.is_none() {
                return Err(Error::Damaged {
                    table: "blocks",
                    key: id.to_string(),
                    problem: "it is missing, but a directory refers to it",
                });
            }
        }
        // Numbers only grow, so all new blocks go behind the last, into full pages.
        append(&mut table, edit.blocks.iter().map(loaded))?;
    }
    if !edit.chunks.is_empty() || !edit.removed_chunks.is_empty() {
        let mut table = txn.open_table(DIRECTORY).map_err(engine_error)?;
        for key in &edit.removed_chunks {
            table.remove(key).map_err(engine_error)?;
        }
        for (key, bytes) in &edit.chunks {
            table.insert(key, bytes.as_slice()).map_err(engine_error)?;
        }
    }
    let mut log = txn.open_table(LOG).map_err(engine_error)?;
    if edit.drops_log {
        log.retain_in(..edit.state.first_page, |_, _| false).map_err(engine_error)?;
    }
    append(&mut log, edit.log.iter().map(|(page, bytes)| Ok((*page, bytes))))?;
    drop(log);
    if !edit.scopes.is_empty() {
        let mut table = txn.open_table(SCOPES).map_err(engine_error)?;
        for (name, bytes) in &edit.scopes {
            table.insert(name.as_str(), bytes.as_slice()).map_err(engine_error)?;
        }
    }
    let mut table = txn.open_table(META).map_err(engine_error)?;
    table.insert(meta::STATE, edit.state.encode(meta::row(meta::STATE)).as_slice()).map_err(engine_error)?;
    Ok(())
}

fn loaded((id, bytes): &(u64, BlockBytes)) -> Result<(u64, Cow<'_, [u8]>)> {
    let bytes = bytes.load().map_err(|error| engine_error(redb::Error::Io(error)))?;
    Ok((*id, bytes))
}

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

/// The first commit of a file: what it is, and every table, empty.
pub(crate) fn write_first(engine: &redb::Database, settings: &Settings) -> Result<()> {
    let mut txn = engine.begin_write().map_err(engine_error)?;
    txn.set_quick_repair(true);
    {
        let mut table = txn.open_table(META).map_err(engine_error)?;
        let rows = [(meta::FORMAT, meta::encode_format()), (meta::SETTINGS, meta::encode_settings(settings))];
        for (name, bytes) in rows {
            table.insert(name, bytes.as_slice()).map_err(engine_error)?;
        }
        txn.open_table(BLOCKS).map_err(engine_error)?;
        txn.open_table(DIRECTORY).map_err(engine_error)?;
    }
    write_edit(&txn, &Edit::new(State::new(&settings.plan)))?;
    txn.open_table(SCOPES).map_err(engine_error)?;
    txn.commit().map_err(engine_error)
}

/// What failed when the engine opened or created the file at `path`.
pub(crate) fn open_error(path: &Path, error: DatabaseError) -> Error {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Busy { path },
        DatabaseError::RepairAborted => Error::NeedsRecovery { path },
        DatabaseError::UpgradeRequired(_) => Error::NotSimdb { path },
        DatabaseError::Storage(redb::StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Error::NotSimdb { path },
            _ => Error::Io { path, source },
        },
        error => engine_error(error),
    }
}

/// What failed in the engine, told apart as far as callers can act on it.
pub(crate) fn engine_error(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TypeDefinitionChanged { .. }) => Error::Corrupted(Box::new(error)),
        // The engine never reads behind the end of a whole file.
        redb::Error::Io(cause)
            if matches!(cause.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
        {
            Error::Corrupted(Box::new(cause))
        }
        error => Error::Storage(Box::new(error)),
    }
}
