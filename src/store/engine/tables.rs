//! The tables of the engine: making, writing and reading them.
//!
//! There is a table of blocks for each sorted set, and one for the documents. The key of a block is the
//! number of its level, then its last row.
//!
//! A step of a merge takes blocks that stand side by side, and its new blocks stand in their place. So it
//! changes neighbouring pages of the engine.

use std::fmt;
use std::ops::{Bound, RangeInclusive};

use redb::{
    Key, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition, Value, WriteTransaction,
};

use super::guard::engine_error;
use super::spill::BlockBytes;
use crate::error::{Error, Result};

/// A table of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockTable {
    number: u8,
    pub(crate) name: &'static str,
    /// What follows the name if several tables have it.
    part: Option<u8>,
    /// Whether a row is longer than 64 bits.
    wide: bool,
    /// Whether the directory has an extent for each block.
    pub(crate) has_extents: bool,
}

impl BlockTable {
    /// The table of a number. The tables of a file are numbered from 0 on. A row has 64 bits, or 128 if it
    /// is `wide`.
    pub(crate) const fn new(number: u8, name: &'static str, wide: bool) -> Self {
        Self {
            number,
            name,
            part: None,
            wide,
            has_extents: false,
        }
    }

    /// The same table, with a directory that has an extent for each block.
    pub(crate) const fn with_extents(self) -> Self {
        Self {
            has_extents: true,
            ..self
        }
    }

    /// The position of the table among the tables of blocks.
    pub(super) fn index(&self) -> usize {
        self.number.into()
    }

    /// The table `part` of those that have this name.
    pub(crate) const fn part(self, part: u8) -> Self {
        Self {
            part: Some(part),
            ..self
        }
    }
}

impl fmt::Display for BlockTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "{}-{part}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// A level of a set: the table that has its blocks, and the number of the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelName {
    pub(crate) table: &'static BlockTable,
    pub(crate) number: u8,
}

impl LevelName {
    /// Both numbers in one: the first part of the keys of the directory.
    pub(crate) fn id(self) -> u16 {
        u16::from(self.table.number) << 8 | u16::from(self.number)
    }
}

/// What one commit changes in a level. Rows are given as numbers.
#[derive(Debug)]
pub(crate) struct LevelChange {
    pub(crate) level: LevelName,
    /// Blocks that are removed.
    pub(crate) removed: Option<RemovedBlocks>,
    /// New blocks with their last rows, in order. No other block of the level stands between them.
    pub(crate) added: Vec<(u128, BlockBytes)>,
    /// What changes of its directory.
    pub(crate) chunks: Replaced,
    pub(crate) summaries: Replaced,
}

impl LevelChange {
    fn damaged(&self, last: u128, problem: &'static str) -> Error {
        let LevelName { table, number } = self.level;
        let key = format!("{table}, level {number}, block up to {last:x}");
        Error::damaged(table.name, &key, problem)
    }

    /// No change of a level.
    pub(crate) fn none(level: LevelName) -> Self {
        Self {
            level,
            removed: None,
            added: Vec::new(),
            chunks: Replaced::default(),
            summaries: Replaced::default(),
        }
    }
}

/// The chunks or summaries of a level that a change replaces.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    /// The last rows of those that are removed.
    pub(crate) removed: Vec<u128>,
    /// New ones, with their last rows.
    pub(crate) written: Vec<(u128, Vec<u8>)>,
}

impl Replaced {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.written.is_empty()
    }
}

/// Blocks of a level that stand side by side.
#[derive(Debug)]
pub(crate) struct RemovedBlocks {
    /// From the last row of the first block to the last row of the last block.
    pub(crate) rows: RangeInclusive<u128>,
    pub(crate) count: usize,
}

type NarrowKey = (u8, u64);
type WideKey = (u8, u128);

/// The key of a table of blocks.
trait BlockKey: Copy + Key + for<'a> Value<SelfType<'a> = Self> + 'static {
    fn new(level: u8, last: u128) -> Self;
}

impl BlockKey for NarrowKey {
    fn new(level: u8, last: u128) -> Self {
        (level, last as u64)
    }
}

impl BlockKey for WideKey {
    fn new(level: u8, last: u128) -> Self {
        (level, last)
    }
}

/// Makes a table, empty.
fn create_blocks(txn: &WriteTransaction, table: &BlockTable) -> Result<()> {
    let name = table.to_string();
    if table.wide {
        txn.open_table(definition::<WideKey>(&name))
            .map_err(engine_error)?;
    } else {
        txn.open_table(definition::<NarrowKey>(&name))
            .map_err(engine_error)?;
    }
    Ok(())
}

fn definition<K: BlockKey>(name: &str) -> TableDefinition<'_, K, &'static [u8]> {
    TableDefinition::new(name)
}

/// Removes and adds the blocks of a change.
fn write_blocks(txn: &WriteTransaction, change: &LevelChange) -> Result<()> {
    if change.removed.is_none() && change.added.is_empty() {
        return Ok(());
    }
    if change.level.table.wide {
        write_keyed::<WideKey>(txn, change)
    } else {
        write_keyed::<NarrowKey>(txn, change)
    }
}

fn write_keyed<K: BlockKey>(txn: &WriteTransaction, change: &LevelChange) -> Result<()> {
    let level = change.level.number;
    let name = change.level.table.to_string();
    let mut table = txn
        .open_table(definition::<K>(&name))
        .map_err(engine_error)?;
    let Some((first, _)) = change.added.first() else {
        return remove_blocks(&mut table, change);
    };

    // Where the old blocks stand before all new ones, they are removed last. If they went first, the engine
    // would put the first new block into the page before, and write that page again.
    let removed = change.removed.as_ref();
    let old_first = removed.is_none_or(|removed| removed.rows.end() >= first);
    if old_first {
        remove_blocks(&mut table, change)?;
    }

    let mut cursor = table
        .lower_bound_mut(Bound::Included(K::new(level, *first)))
        .map_err(engine_error)?;
    for (last, bytes) in &change.added {
        let bytes = bytes.load()?;
        match cursor.insert_before(K::new(level, *last), bytes.as_ref()) {
            Ok(_) => {}
            Err(redb::CursorError::UnorderedKey) => {
                let problem = "a block stands there that no directory refers to";
                return Err(change.damaged(*last, problem));
            }
            Err(error) => return Err(engine_error(error)),
        }
    }
    cursor.close().map_err(engine_error)?;

    if !old_first {
        remove_blocks(&mut table, change)?;
    }
    Ok(())
}

fn remove_blocks<K: BlockKey>(
    table: &mut Table<'_, K, &'static [u8]>,
    change: &LevelChange,
) -> Result<()> {
    let Some(RemovedBlocks { rows, count }) = &change.removed else {
        return Ok(());
    };
    let first = K::new(change.level.number, *rows.start());
    let last = K::new(change.level.number, *rows.end());
    let mut found = 0;
    table
        .retain_in(first..=last, |_, _| {
            found += 1;
            false
        })
        .map_err(engine_error)?;
    if found != *count {
        let problem = "there are not as many blocks before it as its directory says";
        return Err(change.damaged(*rows.end(), problem));
    }
    Ok(())
}

/// A table of blocks that is open for reading.
pub(super) enum OpenBlockTable {
    Narrow(ReadOnlyTable<NarrowKey, &'static [u8]>),
    Wide(ReadOnlyTable<WideKey, &'static [u8]>),
}

impl OpenBlockTable {
    pub(super) fn open(txn: &ReadTransaction, table: &BlockTable) -> Result<Self> {
        let name = table.to_string();
        if table.wide {
            txn.open_table(definition::<WideKey>(&name))
                .map(Self::Wide)
                .map_err(engine_error)
        } else {
            txn.open_table(definition::<NarrowKey>(&name))
                .map(Self::Narrow)
                .map_err(engine_error)
        }
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> Result<u64> {
        match self {
            Self::Narrow(table) => table.len(),
            Self::Wide(table) => table.len(),
        }
        .map_err(engine_error)
    }

    /// Calls `each` with the level and the last row of every block.
    pub(super) fn keys(&self, mut each: impl FnMut(u8, u128)) -> Result<()> {
        match self {
            Self::Narrow(table) => {
                for row in table.iter().map_err(engine_error)? {
                    let (level, last) = row.map_err(engine_error)?.0.value();
                    each(level, last.into());
                }
            }
            Self::Wide(table) => {
                for row in table.iter().map_err(engine_error)? {
                    let (level, last) = row.map_err(engine_error)?.0.value();
                    each(level, last);
                }
            }
        }
        Ok(())
    }

    /// Calls `read` with the bytes of a block. False if it is not there.
    pub(super) fn read(
        &self,
        level: u8,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let bytes = match self {
            Self::Narrow(table) => table.get(NarrowKey::new(level, last)),
            Self::Wide(table) => table.get(WideKey::new(level, last)),
        };
        match bytes.map_err(engine_error)? {
            Some(bytes) => read(bytes.value()).map(|()| true),
            None => Ok(false),
        }
    }
}

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
    for table in block_tables {
        create_blocks(txn, table)?;
    }
    Ok(())
}

/// Writes and removes the rows of `changes`, then writes the rows of `meta`.
pub(super) fn write(txn: &WriteTransaction, changes: &Changes, meta: &[MetaRow]) -> Result<()> {
    for change in &changes.levels {
        write_blocks(txn, change)?;
    }
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
    if changes.levels.iter().map(&of).all(Replaced::is_empty) {
        return Ok(());
    }
    let mut table = txn.open_table(table).map_err(engine_error)?;
    for change in &changes.levels {
        let level = change.level.id();
        let Replaced { removed, written } = of(change);
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
