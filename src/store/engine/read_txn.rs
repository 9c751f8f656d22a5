//! Reading the engine's tables as they were at one commit.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use redb::{Key, ReadOnlyTable, ReadTransaction, ReadableTable, TableDefinition, Value};

use super::guard::{Guarded, engine_error, guarded};
use super::storage::LoanState;
use super::tables::{BlockTable, LevelName, OpenBlockTable};
use super::tables::{ChunkKey, DIRECTORY, LOG, META, SCOPES, SOURCES, SUMMARIES};
use crate::error::Result;

/// A source of stored blocks and of the chunks that describe them: the file, or memory in tests.
pub(crate) trait BlockSource: Send + Sync {
    /// Calls `read` with the bytes of the block of a level that has this last row. False if there is none.
    fn read_block(
        &self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;

    /// Calls `read` with the bytes of the chunk of a level that has this last row. False if there is none.
    fn read_chunk(
        &self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;
}

/// The loan of the storage that is read.
struct Loan(Arc<LoanState>);

impl Loan {
    /// Reads under the guard. If the storage was taken back, that is the error, whatever the engine says.
    fn read<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        guarded(read).map_err(|error| {
            if self.0.is_taken_back() {
                self.0.loss()
            } else {
                error
            }
        })
    }
}

/// A read transaction of the engine. Opening a file reads with it, and it becomes the [`Tables`] of a commit.
pub(crate) struct ReadTxn {
    txn: Guarded<ReadTransaction>,
    loan: Loan,
}

impl ReadTxn {
    pub(super) fn new(txn: ReadTransaction, loan: Arc<LoanState>) -> Self {
        Self {
            txn: Guarded::new(txn),
            loan: Loan(loan),
        }
    }

    /// A row of the table `meta`. `None` if there is no such row or no such table.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.loan.read(|| {
            let table = match self.txn.enter()?.open_table(META) {
                Ok(table) => table,
                Err(
                    redb::TableError::TableDoesNotExist(_)
                    | redb::TableError::TableTypeMismatch { .. },
                ) => {
                    return Ok(None);
                }
                Err(error) => return Err(engine_error(error)),
            };
            let row = table.get(name).map_err(engine_error)?;
            Ok(row.map(|row| row.value().to_vec()))
        })
    }

    /// Calls `each` with the last row and the bytes of all summaries of a level, in order.
    pub(crate) fn summaries(
        &self,
        level: LevelName,
        mut each: impl FnMut(u128, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.loan.read(|| {
            let table = self.txn.enter()?.open_table(SUMMARIES);
            let table = table.map_err(engine_error)?;
            let rows = table.range((level.id(), 0)..=(level.id(), u128::MAX));
            for row in rows.map_err(engine_error)? {
                let (key, bytes) = row.map_err(engine_error)?;
                each(key.value().1, bytes.value())?;
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
        self.loan.read(|| {
            let table = self.txn.enter()?.open_table(LOG).map_err(engine_error)?;
            for page in pages {
                let bytes = table.get(page).map_err(engine_error)?;
                each(page, bytes.as_ref().map(redb::AccessGuard::value))?;
            }
            Ok(())
        })
    }

    /// The numbers of the first and the last page of the log.
    pub(crate) fn ends_of_log(&self) -> Result<Option<(u64, u64)>> {
        self.loan.read(|| {
            let table = self.txn.enter()?.open_table(LOG).map_err(engine_error)?;
            let first = table.first().map_err(engine_error)?;
            let last = table.last().map_err(engine_error)?;
            match (first, last) {
                (Some(first), Some(last)) => Ok(Some((first.0.value(), last.0.value()))),
                _ => Ok(None),
            }
        })
    }

    /// The tables that are read again and again. `block_tables` is the number of tables of blocks.
    pub(crate) fn into_tables(self, block_tables: usize) -> Tables {
        let blocks = (0..block_tables).map(|_| OnceLock::new()).collect();
        let tables = Guarded::new(OpenTables {
            blocks,
            directory: OnceLock::new(),
            scopes: OnceLock::new(),
            txn: self.txn,
        });
        Tables {
            tables,
            loan: self.loan,
        }
    }
}

/// The tables that are read again and again. Each is opened when it is read first, since most commits are
/// not read at all. The engine keeps the pages of their commit while they live.
pub(crate) struct Tables {
    tables: Guarded<OpenTables>,
    loan: Loan,
}

struct OpenTables {
    blocks: Box<[OnceLock<OpenBlockTable>]>,
    directory: OnceLock<ReadOnlyTable<ChunkKey, &'static [u8]>>,
    scopes: OnceLock<ReadOnlyTable<&'static str, &'static [u8]>>,
    /// Dropped after the tables.
    txn: Guarded<ReadTransaction>,
}

impl OpenTables {
    fn blocks(&self, table: &BlockTable) -> Result<&OpenBlockTable> {
        open_once(&self.blocks[table.index()], || {
            OpenBlockTable::open(self.txn.enter()?, table)
        })
    }

    fn directory(&self) -> Result<&ReadOnlyTable<ChunkKey, &'static [u8]>> {
        open_once(&self.directory, || self.open(DIRECTORY))
    }

    fn scopes(&self) -> Result<&ReadOnlyTable<&'static str, &'static [u8]>> {
        open_once(&self.scopes, || self.open(SCOPES))
    }

    /// A table that is not read often.
    fn open<K: Key, V: Value>(
        &self,
        table: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>> {
        self.txn.enter()?.open_table(table).map_err(engine_error)
    }
}

fn open_once<T>(table: &OnceLock<T>, open: impl FnOnce() -> Result<T>) -> Result<&T> {
    match table.get() {
        Some(table) => Ok(table),
        None => {
            // Another thread may have opened it meanwhile. Both are the same.
            let opened = open()?;
            Ok(table.get_or_init(|| opened))
        }
    }
}

impl BlockSource for Tables {
    fn read_block(
        &self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.loan.read(|| {
            self.tables
                .enter()?
                .blocks(level.table)?
                .read(level.number, last, read)
        })
    }

    fn read_chunk(
        &self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.loan.read(|| {
            let table = self.tables.enter()?.directory()?;
            match table.get((level.id(), last)).map_err(engine_error)? {
                Some(bytes) => read(bytes.value()).map(|()| true),
                None => Ok(false),
            }
        })
    }
}

impl Tables {
    /// The number of blocks in a table.
    pub(crate) fn block_count(&self, table: &BlockTable) -> Result<u64> {
        self.loan.read(|| self.tables.enter()?.blocks(table)?.len())
    }

    /// Calls `each` with the level and the last row of every block in a table.
    pub(crate) fn block_keys(&self, table: &BlockTable, each: impl FnMut(u8, u128)) -> Result<()> {
        self.loan
            .read(|| self.tables.enter()?.blocks(table)?.keys(each))
    }

    /// Calls `each` with the key of every chunk.
    pub(crate) fn chunk_keys(&self, each: impl FnMut(ChunkKey)) -> Result<()> {
        self.keys(DIRECTORY, each)
    }

    /// Calls `each` with the key of every summary.
    pub(crate) fn summary_keys(&self, each: impl FnMut(ChunkKey)) -> Result<()> {
        self.keys(SUMMARIES, each)
    }

    /// Calls `each` with the number of every page of the log.
    pub(crate) fn log_page_numbers(&self, each: impl FnMut(u64)) -> Result<()> {
        self.keys(LOG, each)
    }

    fn keys<K>(
        &self,
        table: TableDefinition<'static, K, &'static [u8]>,
        mut each: impl FnMut(K),
    ) -> Result<()>
    where
        K: for<'a> Key<SelfType<'a> = K>,
    {
        self.loan.read(|| {
            let table = self.tables.enter()?.open(table)?;
            for row in table.iter().map_err(engine_error)? {
                each(row.map_err(engine_error)?.0.value());
            }
            Ok(())
        })
    }

    /// The record of a scope.
    pub(crate) fn scope(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.loan.read(|| {
            let table = self.tables.enter()?.scopes()?;
            let bytes = table.get(name).map_err(engine_error)?;
            Ok(bytes.map(|bytes| bytes.value().to_vec()))
        })
    }

    /// The record of a source.
    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.loan.read(|| {
            let table = self.tables.enter()?.open(SOURCES)?;
            let bytes = table.get(name).map_err(engine_error)?;
            Ok(bytes.map(|bytes| bytes.value().to_vec()))
        })
    }

    /// Calls `each` with the name and the record of every source.
    pub(crate) fn sources(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.loan.read(|| {
            let table = self.tables.enter()?.open(SOURCES)?;
            for row in table.iter().map_err(engine_error)? {
                let (name, bytes) = row.map_err(engine_error)?;
                each(name.value(), bytes.value())?;
            }
            Ok(())
        })
    }

    /// Calls `each` with the name and the record of every scope.
    pub(crate) fn scopes(&self, mut each: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
        self.loan.read(|| {
            let table = self.tables.enter()?.scopes()?;
            for row in table.iter().map_err(engine_error)? {
                let (name, bytes) = row.map_err(engine_error)?;
                each(name.value(), bytes.value())?;
            }
            Ok(())
        })
    }
}
