//! The tables of the engine: making, writing and reading them. Changes: the rows that one commit writes and removes.
//!
//! There is a table of blocks for each sorted set, and one for the documents. The key of a block is the
//! number of its level, then its last row.
//!
//! A step of a merge takes blocks that stand side by side, and its new blocks stand in their place. So it
//! changes neighbouring pages of the engine.

use std::fmt;
use std::ops::{Bound, Range};
use std::sync::{Arc, OnceLock};

use redb::{
    Key, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition, Value, WriteTransaction,
};

use super::guard::{Guarded, engine_error};
use super::open_file::Loan;
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
    /// Whether its rows are searched for near ones, so that signatures of them serve in their place.
    pub(crate) has_signatures: bool,
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
            has_signatures: false,
        }
    }

    /// The same table, with rows of 64 bits of which signatures may be in memory.
    pub(crate) const fn with_signatures(self) -> Self {
        Self {
            has_signatures: true,
            ..self
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
    fn index(&self) -> usize {
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
    /// The last rows of blocks that are removed, in order. These blocks stand side by side.
    pub(crate) removed: Vec<u128>,
    /// New blocks with their last rows, in order. No other block of the level stands between them.
    pub(crate) added: Vec<(u128, BlockBytes)>,
    /// What changes of its directory.
    pub(crate) chunks: Replaced,
    pub(crate) summaries: Replaced,
}

impl LevelChange {
    /// No change of a level.
    pub(crate) fn none(level: LevelName) -> Self {
        Self {
            level,
            removed: Vec::new(),
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

// Making and writing the tables.

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

fn definition<K: BlockKey>(name: &str) -> TableDefinition<'_, K, &'static [u8]> {
    TableDefinition::new(name)
}

/// Removes and adds the blocks of a change.
fn write_blocks(txn: &WriteTransaction, change: &LevelChange) -> Result<()> {
    if change.removed.is_empty() && change.added.is_empty() {
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
    let old_first = change.removed.last().is_none_or(|last| last >= first);
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
                return Err(damaged_level(change, *last, problem));
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

fn damaged_level(change: &LevelChange, last: u128, problem: &'static str) -> Error {
    let LevelName { table, number } = change.level;
    let key = format!("{table}, level {number}, block up to {last:x}");
    Error::damaged(table.name, &key, problem)
}

fn remove_blocks<K: BlockKey>(
    table: &mut Table<'_, K, &'static [u8]>,
    change: &LevelChange,
) -> Result<()> {
    let (Some(&first), Some(&last)) = (change.removed.first(), change.removed.last()) else {
        return Ok(());
    };
    let rows = K::new(change.level.number, first)..=K::new(change.level.number, last);
    let mut found = 0;
    table
        .retain_in(rows, |_, _| {
            found += 1;
            false
        })
        .map_err(engine_error)?;
    if found != change.removed.len() {
        let problem = "there are not as many blocks before it as its directory says";
        return Err(damaged_level(change, last, problem));
    }
    Ok(())
}

enum OpenBlockTable {
    Narrow(ReadOnlyTable<NarrowKey, &'static [u8]>),
    Wide(ReadOnlyTable<WideKey, &'static [u8]>),
}

impl OpenBlockTable {
    fn open(txn: &ReadTransaction, table: &BlockTable) -> Result<Self> {
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
    fn len(&self) -> Result<u64> {
        match self {
            Self::Narrow(table) => table.len(),
            Self::Wide(table) => table.len(),
        }
        .map_err(engine_error)
    }

    /// Calls `each` with the level and the last row of every block.
    fn keys(&self, mut each: impl FnMut(u8, u128)) -> Result<()> {
        match self {
            Self::Narrow(table) => each_key(table, |(level, last)| each(level, last.into())),
            Self::Wide(table) => each_key(table, |(level, last)| each(level, last)),
        }
    }

    /// Calls `read` with the bytes of a block. False if it is not there.
    fn read(
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
            Some(bytes) => read(bytes.value())?,
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// Calls `each` with the keys of a table. Nothing is read of values.
fn each_key<K: Key>(
    table: &ReadOnlyTable<K, &'static [u8]>,
    mut each: impl FnMut(K::SelfType<'_>),
) -> Result<()> {
    for row in table.iter().map_err(engine_error)? {
        each(row.map_err(engine_error)?.0.value());
    }
    Ok(())
}

/// Calls `each` with the keys and the values of a table.
fn each_row<K: Key>(
    table: &ReadOnlyTable<K, &'static [u8]>,
    mut each: impl FnMut(K::SelfType<'_>, &[u8]) -> Result<()>,
) -> Result<()> {
    for row in table.iter().map_err(engine_error)? {
        let (key, value) = row.map_err(engine_error)?;
        each(key.value(), value.value())?;
    }
    Ok(())
}

const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const DIRECTORY: TableDefinition<'static, ChunkKey, &[u8]> = TableDefinition::new("directory");
const SUMMARIES: TableDefinition<'static, ChunkKey, &[u8]> = TableDefinition::new("summaries");
const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
const SCOPES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("scopes");
const SOURCES: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("sources");

/// Makes every table, empty.
pub(super) fn create_all(txn: &WriteTransaction, block_tables: &[BlockTable]) -> Result<()> {
    txn.open_table(META).map_err(engine_error)?;
    txn.open_table(DIRECTORY).map_err(engine_error)?;
    txn.open_table(SUMMARIES).map_err(engine_error)?;
    txn.open_table(LOG).map_err(engine_error)?;
    txn.open_table(SCOPES).map_err(engine_error)?;
    txn.open_table(SOURCES).map_err(engine_error)?;
    for table in block_tables {
        let name = table.to_string();
        if table.wide {
            txn.open_table(definition::<WideKey>(&name))
                .map_err(engine_error)?;
        } else {
            txn.open_table(definition::<NarrowKey>(&name))
                .map_err(engine_error)?;
        }
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

/// The tables of a commit. Those that are read again and again are opened when they are read first, since most
/// commits are not read at all. The engine keeps the pages of the commit while this lives.
pub(crate) struct Tables {
    tables: Guarded<OpenTables>,
    loan: Arc<Loan>,
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
                Some(bytes) => read(bytes.value())?,
                None => return Ok(false),
            }
            Ok(true)
        })
    }
}

impl Tables {
    /// The tables that a transaction reads. `block_tables` is the number of tables of blocks.
    pub(super) fn new(txn: ReadTransaction, loan: Arc<Loan>, block_tables: usize) -> Self {
        let tables = OpenTables {
            blocks: (0..block_tables).map(|_| OnceLock::new()).collect(),
            directory: OnceLock::new(),
            scopes: OnceLock::new(),
            txn: Guarded::new(txn),
        };
        Self {
            tables: Guarded::new(tables),
            loan,
        }
    }

    /// A row of the table `meta`. `None` if there is no such row or no such table.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.loan.read(|| {
            let table = match self.tables.enter()?.txn.enter()?.open_table(META) {
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
            let table = self.tables.enter()?.open(SUMMARIES)?;
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
            let table = self.tables.enter()?.open(LOG)?;
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
            let table = self.tables.enter()?.open(LOG)?;
            let first = table.first().map_err(engine_error)?;
            let last = table.last().map_err(engine_error)?;
            match (first, last) {
                (Some(first), Some(last)) => Ok(Some((first.0.value(), last.0.value()))),
                _ => Ok(None),
            }
        })
    }

    /// Calls `each` with the level and the last row of every block in a table, if there are more than `known`.
    pub(crate) fn block_keys(
        &self,
        table: &BlockTable,
        known: usize,
        each: impl FnMut(u8, u128),
    ) -> Result<()> {
        self.loan.read(|| {
            let table = self.tables.enter()?.blocks(table)?;
            if table.len()? > known as u64 {
                table.keys(each)?;
            }
            Ok(())
        })
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
        each: impl FnMut(K),
    ) -> Result<()>
    where
        K: for<'a> Key<SelfType<'a> = K>,
    {
        self.loan
            .read(|| each_key(&self.tables.enter()?.open(table)?, each))
    }

    pub(crate) fn scope(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.loan.read(|| {
            let table = self.tables.enter()?.scopes()?;
            let bytes = table.get(name).map_err(engine_error)?;
            Ok(bytes.map(|bytes| bytes.value().to_vec()))
        })
    }

    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.loan.read(|| {
            let table = self.tables.enter()?.open(SOURCES)?;
            let bytes = table.get(name).map_err(engine_error)?;
            Ok(bytes.map(|bytes| bytes.value().to_vec()))
        })
    }

    /// Calls `each` with the name and the record of every source.
    pub(crate) fn sources(&self, each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.loan
            .read(|| each_row(&self.tables.enter()?.open(SOURCES)?, each))
    }

    /// Calls `each` with the name and the record of every scope.
    pub(crate) fn scopes(&self, each: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
        self.loan
            .read(|| each_row(self.tables.enter()?.scopes()?, each))
    }
}
