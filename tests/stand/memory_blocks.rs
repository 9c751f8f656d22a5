//! Blocks and chunks in memory instead of a file (tests only).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::block_reader::Blocks;
use super::cache::BlockCache;
use super::envelope::FileSeed;
use crate::error::Result;
use crate::store::engine::{BlockSource, LevelName, Replaced};
use crate::sync::Mutex;

/// Blocks and chunks by table, level and last row. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemoryBlocks {
    blocks: Rows,
    chunks: Rows,
}

type Rows = Arc<Mutex<BTreeMap<Place, Vec<u8>>>>;

/// The level id of a block, and its last row.
type Place = (u16, u128);

impl MemoryBlocks {
    /// A reader of the blocks, with a small cache of its own.
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks::new(
            Arc::new(self.clone()),
            Arc::new(BlockCache::new(20_000)),
            FileSeed(7),
        )
    }

    /// Stores a block where no other is.
    pub(crate) fn store(&self, level: LevelName, last: u128, bytes: Vec<u8>) {
        let before = self.blocks.lock().insert((level.id(), last), bytes);
        assert!(
            before.is_none(),
            "a block of {level:?} up to {last:x} is stored twice"
        );
    }

    /// Removes blocks that stand side by side. There must be as many as are given.
    pub(crate) fn remove(&self, level: LevelName, rows: RangeInclusive<u128>, count: usize) {
        let mut blocks = self.blocks.lock();
        let before = blocks.len();
        blocks.retain(|(id, last), _| *id != level.id() || !rows.contains(last));
        assert_eq!(
            before - blocks.len(),
            count,
            "other blocks of {level:?} are there than are removed"
        );
    }

    /// Replaces chunks of a level.
    pub(crate) fn replace_chunks(&self, level: LevelName, Replaced { removed, written }: Replaced) {
        let mut chunks = self.chunks.lock();
        for last in removed {
            assert!(
                chunks.remove(&(level.id(), last)).is_some(),
                "a chunk is removed that is not there"
            );
        }
        for (last, bytes) in written {
            assert!(
                chunks.insert((level.id(), last), bytes).is_none(),
                "a chunk is written over"
            );
        }
    }

    /// The places of all blocks.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.blocks.lock().keys().copied().collect()
    }

    /// Removes a block, which must be there.
    pub(crate) fn lose(&self, place: Place) {
        assert!(
            self.blocks.lock().remove(&place).is_some(),
            "there is no block at {place:?}"
        );
    }

    /// Changes a byte of a block.
    pub(crate) fn damage(&self, place: Place) {
        self.blocks
            .lock()
            .get_mut(&place)
            .expect("the block is there")[0] ^= 1;
    }
}

impl BlockSource for MemoryBlocks {
    fn read_block(
        &self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        read_row(&self.blocks, (level.id(), last), read)
    }

    fn read_chunk(
        &self,
        level: LevelName,
        last: u128,
        read: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        read_row(&self.chunks, (level.id(), last), read)
    }
}

fn read_row(rows: &Rows, place: Place, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
    match rows.lock().get(&place) {
        Some(bytes) => read(bytes).map(|()| true),
        None => Ok(false),
    }
}
