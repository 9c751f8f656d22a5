//! Edit: a change of the file that is not committed yet: the next state, and the changed rows of the
//! engine's tables.

use std::ops::Range;
use std::sync::Arc;

use super::meta;
use super::state::State;
use super::written::SpilledBlock;
use crate::error::Result;
use crate::store::blocks::{Entry, Filter, Hint, Packed, Row};
use crate::store::engine::{BlockBytes, Changes, Engine};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Level, Position, Splice};

/// A change of the file that is not committed yet: the next state, and the changed rows of the engine's
/// tables.
pub(crate) struct Edit {
    pub(crate) state: State,
    pub(crate) changes: Changes,
    /// The most entries of a chunk of a directory.
    chunk_entries: usize,
}

impl Edit {
    /// An edit of `state` that changes nothing yet.
    pub(crate) fn new(state: State, sizes: &Sizes) -> Self {
        Self { state, changes: Changes::default(), chunk_entries: sizes.chunk_entries }
    }

    /// Makes the change part of the file, whole and durable.
    pub(crate) fn write(&self, engine: &Engine) -> Result<()> {
        engine.apply(&self.changes, &[(meta::STATE, self.state.encode())])
    }

    /// Makes the recent runs the frozen runs.
    pub(crate) fn freeze(&mut self) {
        self.state.sets.freeze();
        self.state.frozen_pages = self.state.next_page;
        self.state.recent_operations = 0;
        self.drop_log();
    }

    /// Removes the pages of the log whose rows are in no run any more.
    pub(crate) fn drop_log(&mut self) {
        if !self.state.sets.any_frozen() && self.state.first_page < self.state.frozen_pages {
            self.state.first_page = self.state.frozen_pages;
            self.changes.log_begins_at = Some(self.state.first_page);
        }
    }

    /// Adds a new block and gives it its number.
    pub(crate) fn add_block<R: Row>(&mut self, block: Packed<R>) -> (Entry<R>, Filter) {
        let Packed { bytes, checksum, high, puts, marks, filter } = block;
        let number = self.add_bytes(BlockBytes::InMemory(bytes));
        (Entry { high, number, checksum, puts, marks, hint: Hint::default() }, filter)
    }

    /// Adds a block of documents that waits outside memory, and gives it its number.
    pub(crate) fn add_spilled(&mut self, block: SpilledBlock) -> (Entry<u64>, Filter) {
        let SpilledBlock { bytes, checksum, high, documents: puts } = block;
        let number = self.add_bytes(BlockBytes::Spilled(bytes));
        (Entry { high, number, checksum, puts, marks: 0, hint: Hint::default() }, Filter::default())
    }

    fn add_bytes(&mut self, bytes: BlockBytes) -> u64 {
        let number = self.state.next_block;
        self.state.next_block += 1;
        self.changes.blocks.push((number, bytes));
        number
    }

    /// Replaces blocks of a level by new ones, and returns the new level.
    pub(crate) fn replace<R: Row>(
        &mut self,
        level_id: u16,
        level: &Level<R>,
        old: Range<Position>,
        new: Vec<Packed<R>>,
    ) -> Arc<Level<R>> {
        let new: Vec<_> = new.into_iter().map(|block| self.add_block(block)).collect();
        self.replace_entries(level_id, level, old, &new)
    }

    /// Does what [`replace`](Self::replace) does, with new blocks that have their numbers already.
    pub(crate) fn replace_entries<R: Row>(
        &mut self,
        level_id: u16,
        level: &Level<R>,
        old: Range<Position>,
        new: &[(Entry<R>, Filter)],
    ) -> Arc<Level<R>> {
        self.changes.removed_blocks.extend(level.entries(old.clone()).map(|entry| entry.number));
        let Splice { level, removed, written } = level.splice(level_id, old, new, self.chunk_entries);
        self.changes.removed_chunks.extend(removed);
        self.changes.chunks.extend(written);
        Arc::new(level)
    }
}
