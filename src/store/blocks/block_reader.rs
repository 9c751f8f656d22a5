//! Reading blocks from their source, with their checksum verified.

use std::sync::Arc;

use super::cache::BlockCache;
use super::documents::DocumentBlock;
use super::entry::Entry;
use super::envelope::{FileSeed, Problem};
use super::packed;
use super::row::{Lists, Row};
use crate::error::{Error, Result};
use crate::metrics::Tally;
use crate::planted::planted;
use crate::store::engine::{BlockSource, BlockTable, LevelName};

/// The blocks of one commit.
pub(crate) struct Blocks {
    source: Arc<dyn BlockSource>,
    pub(crate) cache: Arc<BlockCache>,
    file: FileSeed,
}

impl Blocks {
    pub(crate) fn new(
        source: Arc<dyn BlockSource>,
        cache: Arc<BlockCache>,
        file: FileSeed,
    ) -> Self {
        Self {
            source,
            cache,
            file,
        }
    }

    pub(crate) fn file(&self) -> FileSeed {
        self.file
    }

    /// The blocks of one table.
    pub(crate) fn of_table(&self, table: &'static BlockTable) -> SetBlocks<'_> {
        SetBlocks {
            blocks: self,
            table,
        }
    }
}

impl SetBlocks<'_> {
    /// The documents of a block, from the cache. If they are not there, the block is read and cached.
    pub(crate) fn documents(self, entry: &Entry<u64>) -> Result<Arc<DocumentBlock>> {
        let cache = self.cache();
        if let Some(block) = cache.documents(entry.id) {
            cache.tallies.add(Tally::CacheHits, 1);
            return Ok(block);
        }
        cache.tallies.add(Tally::CacheMisses, 1);
        let block = self.documents_once(entry)?;
        cache.insert_documents(entry.id, &block);
        Ok(block)
    }

    /// The documents of a block, read from their source. The block is not cached.
    pub(crate) fn documents_once(self, entry: &Entry<u64>) -> Result<Arc<DocumentBlock>> {
        let mut decoded = None;
        self.read(entry, &mut |bytes| {
            let block = DocumentBlock::decode(bytes)?;
            if block.len() != usize::from(entry.puts) || block.last() != Some(entry.high) {
                return Err(NOT_THIS_BLOCK);
            }
            decoded = Some(Arc::new(block));
            Ok(())
        })?;
        Ok(decoded.expect("what was read without an error was decoded"))
    }
}

const NOT_THIS_BLOCK: Problem = "it is not the block its directory speaks of";

/// The blocks of one set at one commit.
#[derive(Clone, Copy)]
pub(crate) struct SetBlocks<'a> {
    blocks: &'a Blocks,
    table: &'static BlockTable,
}

impl<'a> SetBlocks<'a> {
    pub(crate) fn cache(self) -> &'a Arc<BlockCache> {
        &self.blocks.cache
    }

    /// The table of the set.
    pub(crate) fn table(self) -> &'static BlockTable {
        self.table
    }

    /// Whether signatures serve in the place of rows, if these do not fit into memory.
    pub(crate) fn may_be_cut(self) -> bool {
        self.table.has_signatures && !self.cache().rows_fit()
    }

    /// Whether so many bytes fit into the cache, perhaps once rows are cut.
    pub(crate) fn makes_room_for(self, bytes: u64) -> bool {
        self.cache().has_room_for(bytes) || self.may_be_cut() && self.cache().cut_for(bytes)
    }

    /// Whether rows of so many bytes are to be in memory as a whole. Otherwise signatures of them are.
    pub(crate) fn has_room_for_rows(self, bytes: u64) -> bool {
        !self.may_be_cut() || self.cache().has_room_for(bytes)
    }

    /// Calls `read` with the bytes of the chunk of a level that has this last row. False if there is none.
    pub(crate) fn read_chunk(
        self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.blocks.source.read_chunk(level, last, read)
    }

    pub(crate) fn file(self) -> FileSeed {
        self.blocks.file
    }

    /// The bytes of a block, read from their source and verified, in the place of what `bytes` had.
    pub(crate) fn read_bytes<R: Row>(self, entry: &Entry<R>, bytes: &mut Vec<u8>) -> Result<()> {
        self.read(entry, &mut |read| {
            bytes.clear();
            bytes.extend_from_slice(read);
            Ok(())
        })
    }

    /// The rows of a block with these bytes.
    pub(crate) fn decode<R: Row>(self, entry: &Entry<R>, bytes: &[u8]) -> Result<Lists<R>> {
        let mut lists = Lists::default();
        decode_whole(entry, bytes, &mut lists).map_err(|problem| self.damaged(entry, problem))?;
        Ok(lists)
    }

    /// Fills `lists` with the rows in a range, and perhaps some beside it, of a block with these bytes. It takes half
    /// of the time that decoding the whole block takes.
    pub(crate) fn decode_part<R: Row>(
        self,
        entry: &Entry<R>,
        bytes: &[u8],
        first: R,
        last: R,
        lists: &mut Lists<R>,
    ) -> Result<()> {
        lists.clear();
        let counts = packed::decode_part(bytes, &(first.prefix()..=last.prefix()), lists);
        let counts = counts.map_err(|problem| self.damaged(entry, problem))?;
        if counts == (entry.puts.into(), entry.marks.into()) {
            Ok(())
        } else {
            Err(self.damaged(entry, NOT_THIS_BLOCK))
        }
    }

    /// Adds the rows of a block, read from their source, to lists whose rows come before them. If the block
    /// is refused, the rows that were added mean nothing.
    pub(crate) fn read_rows<R: Row>(self, entry: &Entry<R>, rows: &mut Lists<R>) -> Result<()> {
        self.read(entry, &mut |bytes| decode_whole(entry, bytes, rows))
    }

    /// Reads and verifies the bytes of a block, and calls `decode` with them.
    fn read<R: Row>(
        self,
        entry: &Entry<R>,
        decode: &mut dyn FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<()> {
        let level = LevelName {
            table: self.table,
            number: entry.id.level(),
        };
        let is_there = self
            .blocks
            .source
            .read_block(level, entry.high.number(), &mut |bytes| {
                if self.blocks.file.checksum(bytes) != entry.checksum
                    && !planted("the checksum of a block is not compared")
                {
                    let problem = "its checksum is not the one in the directory";
                    return Err(self.damaged(entry, problem));
                }
                let tallies = &self.cache().tallies;
                tallies.add(Tally::BlocksRead, 1);
                tallies.add(Tally::BytesRead, bytes.len() as u64);
                decode(bytes).map_err(|problem| self.damaged(entry, problem))
            })?;
        if is_there {
            Ok(())
        } else {
            Err(self.damaged(entry, "it is missing"))
        }
    }

    pub(crate) fn damaged<R: Row>(self, entry: &Entry<R>, problem: Problem) -> Error {
        let level = entry.id.level();
        let key = format!(
            "{}, level {level}, block up to {:x}",
            self.table, entry.high
        );
        Error::damaged(self.table.name, &key, problem)
    }
}

/// Adds the rows of a block to lists whose rows come before them. Refuses a block that its directory does not
/// speak of.
fn decode_whole<R: Row>(
    entry: &Entry<R>,
    bytes: &[u8],
    rows: &mut Lists<R>,
) -> Result<(), Problem> {
    let before = (rows.puts.len(), rows.marks.len());
    packed::decode(bytes, rows)?;
    let puts = &rows.puts[before.0..];
    let marks = &rows.marks[before.1..];
    let counted = (puts.len(), marks.len()) == (entry.puts.into(), entry.marks.into());
    let ends = puts.last().max(marks.last()) == Some(&entry.high);
    if counted && ends {
        Ok(())
    } else {
        Err(NOT_THIS_BLOCK)
    }
}
