//! LastRead: the blocks that were read last, for ranges that are read one after the other.
//!
//! A cache that is too small does not have a block when the next range needs it. Ranges that come in order need
//! one block in each level.

use std::cell::RefCell;

use smallvec::SmallVec;

use crate::error::Result;
use crate::store::blocks::{Block, BlockId, CachedRow, Entry, Lists, SetBlocks};

/// The most blocks that are kept.
const MOST: usize = 8;

thread_local! {
    /// Memory for the bytes of blocks. It is used again by the next queries of the thread. To allocate it for
    /// each block took a twentieth of the time of a query.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn give_back(bytes: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST {
            spare.push(bytes);
        }
    });
}

/// The blocks that were not cached and were read last.
pub(super) struct LastRead<R> {
    blocks: SmallVec<[(BlockId, Form<R>); MOST]>,
    /// Memory to decode in.
    lists: Lists<R>,
}

enum Form<R> {
    /// The bytes of a block that one range needed so far.
    Packed(Vec<u8>),
    Decoded(Block<R>),
}

impl<R: CachedRow> LastRead<R> {
    pub(super) fn new() -> Self {
        Self {
            blocks: SmallVec::new(),
            lists: Lists::default(),
        }
    }

    /// The rows of a block in a range, and perhaps others, also if the block is not in the cache.
    ///
    /// If the cache admits the block, it is decoded whole. Otherwise only the range is. If a second range needs
    /// the block, more ranges probably do, and it is decoded whole too.
    pub(super) fn rows(
        &mut self,
        blocks: SetBlocks<'_>,
        entry: &Entry<R>,
        first: R,
        last: R,
    ) -> Result<Block<R>> {
        if let Some((_, form)) = self.blocks.iter_mut().find(|it| it.0 == entry.id) {
            let block = match form {
                Form::Packed(bytes) => blocks.decode(entry, bytes)?,
                Form::Decoded(block) => block.clone(),
            };
            if let Form::Packed(bytes) = std::mem::replace(form, Form::Decoded(block.clone())) {
                give_back(bytes);
            }
            return Ok(block);
        }
        if blocks.cache().admits() {
            let block = blocks.rows_to_keep(entry)?;
            give_back(self.room());
            self.blocks.push((entry.id, Form::Decoded(block.clone())));
            return Ok(block);
        }
        let mut bytes = self.room();
        blocks.read_bytes(entry, &mut bytes)?;
        let part = blocks.decode_part(entry, &bytes, first, last, &mut self.lists)?;
        self.blocks.push((entry.id, Form::Packed(bytes)));
        Ok(part)
    }

    /// Makes room for a block, and returns memory for its bytes.
    fn room(&mut self) -> Vec<u8> {
        let oldest = (self.blocks.len() == MOST).then(|| self.blocks.remove(0));
        match oldest {
            Some((_, Form::Packed(bytes))) => bytes,
            _ => SPARE.with_borrow_mut(Vec::pop).unwrap_or_default(),
        }
    }
}

impl<R> Drop for LastRead<R> {
    fn drop(&mut self) {
        for (_, form) in self.blocks.drain(..) {
            if let Form::Packed(bytes) = form {
                give_back(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::blocks::{FileSeed, Hint, MemoryBlocks, Packed, Packer};
    use crate::store::engine::{BlockTable, LevelName};

    static TABLE: BlockTable = BlockTable::new(0, "table", false);

    /// For one row of a block, the whole block was decoded and cached, and a block that was used went for it.
    #[test]
    fn without_room_in_the_cache_a_range_is_decoded_alone_and_a_block_is_read_once() -> Result<()> {
        let (memory, level) = (
            MemoryBlocks::default(),
            LevelName {
                table: &TABLE,
                number: 0,
            },
        );
        let mut packer = Packer::new(4080, false, FileSeed(7));
        packer
            .waiting
            .puts
            .extend((0..3_000u64).map(|row| row << 40));
        let mut entries = Vec::new();
        for (
            number,
            Packed {
                bytes,
                checksum,
                high,
                puts,
                marks,
                ..
            },
        ) in packer.finish().into_iter().enumerate()
        {
            let id = BlockId::new(0, number as u64 + 1);
            memory.store(level, high.into(), bytes);
            entries.push(Entry {
                high,
                id,
                checksum,
                puts,
                marks,
                hint: Hint::default(),
            });
        }
        let blocks = memory.blocks();
        blocks.cache.set_capacity(0);
        let of = blocks.of_table(&TABLE);
        // One block in eight is admitted, the first too.
        assert!(of.cache().admits());
        let mut last_read = LastRead::new();
        let rows = last_read.rows(of, &entries[0], 5 << 40, 7 << 40)?;
        assert_eq!(rows.puts(), [5 << 40, 6 << 40, 7 << 40]);
        memory.lose((level.id(), entries[0].high.into()));
        let rows = last_read.rows(of, &entries[0], 20 << 40, 20 << 40)?;
        assert_eq!(
            (rows.puts().len(), rows.puts()[20]),
            (entries[0].puts.into(), 20 << 40)
        );
        assert_eq!(of.cache().bytes(), 0);
        // What is damaged is refused, also for a part.
        memory.damage((level.id(), entries[1].high.into()));
        let (low, high) = (entries[0].high + 1, entries[1].high);
        assert!(last_read.rows(of, &entries[1], low, high).is_err());
        Ok(())
    }
}
