//! Changes: the rows that one commit writes and removes, and the names of the tables and levels that they are in.

use std::fmt;

use super::spill::BlockBytes;

/// A table of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockTable {
    number: u8,
    pub(crate) name: &'static str,
    /// What follows the name if several tables have it.
    part: Option<u8>,
    /// Whether a row is longer than 64 bits.
    pub(super) wide: bool,
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
    pub(super) fn is_empty(&self) -> bool {
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
