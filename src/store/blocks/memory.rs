//! Blocks in memory instead of a file (tests only).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block_reader::Blocks;
use super::cache::BlockCache;
use crate::error::Result;
use crate::store::engine::BlockSource;

/// Blocks by their number. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemoryBlocks(Arc<Mutex<BTreeMap<u64, Vec<u8>>>>);

impl MemoryBlocks {
    /// A reader of the blocks, with a small cache of its own.
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks::new(Arc::new(self.clone()), Arc::new(BlockCache::new(20_000)))
    }

    /// Stores a block, which must have a new number.
    pub(crate) fn store(&self, number: u64, bytes: Vec<u8>) {
        assert!(self.0.lock().insert(number, bytes).is_none(), "block {number} is stored twice");
    }

    /// Removes a block, which must be there.
    pub(crate) fn remove(&self, number: u64) {
        assert!(self.0.lock().remove(&number).is_some(), "block {number} is removed and was not there");
    }

    /// The numbers of all blocks.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.0.lock().keys().copied().collect()
    }

    /// Changes a byte of a block.
    pub(crate) fn damage(&self, number: u64) {
        self.0.lock().get_mut(&number).expect("the block is there")[0] ^= 1;
    }
}

impl BlockSource for MemoryBlocks {
    fn read_block(&self, number: u64, read: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        match self.0.lock().get(&number) {
            Some(bytes) => read(bytes).map(|()| true),
            None => Ok(false),
        }
    }
}
