//! Reading the engine's tables as they were at one commit.

use std::ops::Range;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::errors::engine_error;
use super::guard::{Guarded, guarded};
use super::redb_tables::{BLOCKS, ChunkKey, DIRECTORY, LOG, META, SCOPES};
use crate::error::Result;

/// A source of stored blocks: the file, or memory in tests.
pub(crate) trait BlockSource: Send + Sync {
    /// Calls `read` with the bytes of a block. False if there is no block of this number.
    fn read_block(&self, number: u64, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool>;
}

/// A read transaction of the engine. Opening a file reads with it, and it opens the [`Tables`] of a commit.
pub(crate) struct ReadTxn(Guarded<ReadTransaction>);

impl ReadTxn {
    pub(super) fn new(txn: ReadTransaction) -> Self {
        Self(Guarded::new(txn))
    }

    /// A row of the table `meta`. `None` if there is no such row or no such table.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<Vec<u8>>> {
        guarded(|| {
            let table = match self.0.open_table(META) {
                Ok(table) => table,
                Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => {
                    return Ok(None);
                }
                Err(error) => return Err(engine_error(error)),
            };
            Ok(table.get(name).map_err(engine_error)?.map(|row| row.value().to_vec()))
        })
    }

    /// Calls `each` with all chunks of the directory of a level, in order.
    pub(crate) fn chunks(
        &self,
        level_id: u16,
        mut each: impl FnMut(ChunkKey, &[u8]) -> Result<()>,
    ) -> Result<()> {
        guarded(|| {
            let table = self.0.open_table(DIRECTORY).map_err(engine_error)?;
            for row in table.range((level_id, 0)..=(level_id, u128::MAX)).map_err(engine_error)? {
                let (key, bytes) = row.map_err(engine_error)?;
                each(key.value(), bytes.value())?;
            }
            Ok(())
        })
    }

    /// Calls `each` with the number and the bytes of each of these pages of the log. The bytes of a
    /// missing page are `None`.
    pub(crate) fn log_pages(
        &self,
        pages: Range<u64>,
        mut each: impl FnMut(u64, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        guarded(|| {
            let table = self.0.open_table(LOG).map_err(engine_error)?;
            for page in pages {
                let bytes = table.get(page).map_err(engine_error)?;
                each(page, bytes.as_ref().map(redb::AccessGuard::value))?;
            }
            Ok(())
        })
    }

    /// The greatest number of a block.
    pub(crate) fn last_block(&self) -> Result<Option<u64>> {
        guarded(|| {
            let table = self.0.open_table(BLOCKS).map_err(engine_error)?;
            let last = table.last().map_err(engine_error)?;
            Ok(last.map(|(number, _)| number.value()))
        })
    }

    /// The tables that are read again and again.
    pub(crate) fn tables(&self) -> Result<Tables> {
        guarded(|| {
            let blocks = self.0.open_table(BLOCKS).map_err(engine_error)?;
            let scopes = self.0.open_table(SCOPES).map_err(engine_error)?;
            Ok(Tables(Guarded::new(OpenTables { blocks, scopes })))
        })
    }
}

/// The tables that are read again and again. The engine keeps the pages of their commit while they live.
pub(crate) struct Tables(Guarded<OpenTables>);

struct OpenTables {
    blocks: ReadOnlyTable<u64, &'static [u8]>,
    scopes: ReadOnlyTable<&'static str, &'static [u8]>,
}

impl BlockSource for Tables {
    fn read_block(&self, number: u64, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        guarded(|| match self.0.blocks.get(number).map_err(engine_error)? {
            Some(bytes) => read(bytes.value()).map(|()| true),
            None => Ok(false),
        })
    }
}

impl Tables {
    /// The record of a scope.
    pub(crate) fn scope(&self, name: &str) -> Result<Option<Vec<u8>>> {
        guarded(|| {
            let bytes = self.0.scopes.get(name).map_err(engine_error)?;
            Ok(bytes.map(|bytes| bytes.value().to_vec()))
        })
    }

    /// Calls `each` with the name and the record of every scope.
    pub(crate) fn scopes(&self, mut each: impl FnMut(&str, &[u8])) -> Result<()> {
        guarded(|| {
            for row in self.0.scopes.iter().map_err(engine_error)? {
                let (name, bytes) = row.map_err(engine_error)?;
                each(name.value(), bytes.value());
            }
            Ok(())
        })
    }
}
