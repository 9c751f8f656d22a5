//! Edit: a change of the file that is not committed yet: the next state, and the changed rows of the
//! engine's tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::log::encode_log;
use super::meta::{self, encode_scopes};
use super::operation::Operation;
use super::overlays::Runs;
use super::state::{LogSums, State};
use super::view::SourceRows;
use crate::error::Result;
use crate::store::blocks::{BlockId, Blocks, Entry, FileSeed, Hint, Packed, Row, share_of_sum};
use crate::store::engine::{BlockBytes, Changes, Engine, LevelChange, LevelName, RemovedBlocks};
use crate::store::numbers::ScopeNumber;
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Level, NewBlock, Position};

/// The most pages of the log that a commit removes. To remove one takes some 5 us.
const PAGES_AT_A_TIME: u64 = 256;
/// The bytes of a page of the engine. A page of the log takes one.
const PAGE_BYTES: u64 = 4096;

/// A change of the file that is not committed yet: the next state, and the changed rows of the engine's
/// tables.
pub(crate) struct Edit {
    pub(crate) state: State,
    pub(crate) changes: Changes,
    /// Blocks that the change removes.
    pub(crate) gone: Vec<BlockId>,
    /// The bytes of these blocks and of the pages of the log that it removes, in whole pages of the engine.
    pub(crate) freed_bytes: u64,
    file: FileSeed,
    sizes: Sizes,
}

impl Edit {
    /// An edit of `state` that changes nothing yet. `file` is the seed of the file.
    pub(crate) fn new(state: State, file: FileSeed, sizes: &Sizes) -> Self {
        Self {
            state,
            changes: Changes::default(),
            gone: Vec::new(),
            freed_bytes: 0,
            file,
            sizes: *sizes,
        }
    }

    /// The seed of the file.
    pub(crate) fn file(&self) -> FileSeed {
        self.file
    }

    /// Makes the change part of the file, whole and durable.
    pub(crate) fn write(&self, engine: &Engine) -> Result<()> {
        let state = self.state.encode(self.file);
        engine.apply(&self.changes, &[(meta::STATE, state)])
    }

    /// Makes the rows of the change part of the file, but not the state. They are durable when the next edit
    /// is written.
    pub(crate) fn stage(&self, engine: &Engine) -> Result<()> {
        engine.stage(&self.changes)
    }

    /// Adds the rows of operations to the sets.
    pub(crate) fn add_runs(&mut self, runs: Runs) {
        self.state.sets.push(runs, self.sizes.short_rows);
    }

    /// Adds operations to the log.
    pub(crate) fn log(&mut self, operations: &[Operation]) {
        let pages = encode_log(self.file, self.state.next_page, operations);
        let sum = share_of_sum(pages.iter().map(|(_, bytes)| bytes.as_slice()));
        self.state.log_sums.recent = self.state.log_sums.recent.wrapping_add(sum);
        self.state.next_page += pages.len() as u64;
        self.state.recent_operations += operations.len() as u64;
        self.changes.log.extend(pages);
    }

    /// Adds new scopes.
    pub(crate) fn add_scopes(&mut self, scopes: BTreeMap<String, ScopeNumber>) {
        let rows = encode_scopes(self.file, scopes);
        let sum = share_of_sum(rows.iter().map(|(_, record)| record.as_slice()));
        self.state.scopes_sum = self.state.scopes_sum.wrapping_add(sum);
        self.changes.scopes.extend(rows);
    }

    /// Writes the rows of sources.
    pub(crate) fn put_sources(&mut self, SourceRows { rows, sum_change }: SourceRows) {
        if !rows.is_empty() {
            self.state.sources_sum = self.state.sources_sum.wrapping_add(sum_change);
            self.state.source_commits += 1;
            self.changes.sources.extend(rows);
        }
    }

    /// Makes the recent runs the frozen runs. There must be no frozen run. They are not merged here, since a
    /// million rows take longer than a transaction may have to wait.
    pub(crate) fn freeze(&mut self) {
        // Pages of frozen runs that are merged may still be there.
        self.drop_log();
        self.state.sets.freeze();
        self.state.frozen_pages = self.state.next_page;
        self.state.log_sums = LogSums {
            frozen: self.state.log_sums.recent,
            recent: 0,
        };
        self.state.recent_operations = 0;
        self.drop_log();
    }

    /// Leaves out all pages of the log and removes them. The edit puts their rows into levels.
    ///
    /// It leaves out a number of a page too. So the numbers grow with every transaction, also with one that writes no
    /// page. By them, an older commit is told from a newer one.
    pub(crate) fn empty_log(&mut self) {
        self.freed_bytes += (self.state.next_page - self.state.oldest_page) * PAGE_BYTES;
        self.state.next_page += 1;
        self.state.oldest_page = self.state.next_page;
        self.state.first_page = self.state.next_page;
        self.state.frozen_pages = self.state.next_page;
        self.state.log_sums = LogSums::default();
        self.state.recent_operations = 0;
        self.changes.log_begins_at = Some(self.state.first_page);
    }

    /// Leaves out the pages of the log whose rows are in no run any more, and removes some of those that were left
    /// out. To remove all at once takes longer than a transaction may have to wait.
    pub(crate) fn drop_log(&mut self) {
        if !self.state.sets.any_frozen() && self.state.first_page < self.state.frozen_pages {
            self.state.first_page = self.state.frozen_pages;
            self.state.log_sums.frozen = 0;
        }
        if self.state.has_old_pages() && self.changes.log_begins_at.is_none() {
            let end = self
                .state
                .first_page
                .min(self.state.oldest_page + PAGES_AT_A_TIME);
            self.freed_bytes += (end - self.state.oldest_page) * PAGE_BYTES;
            self.state.oldest_page = end;
            self.changes.log_begins_at = Some(end);
        }
    }

    /// Replaces blocks of a level by new ones, and returns the new level. `blocks` are those of the commit.
    pub(crate) fn replace<R: Row, B: Into<BlockBytes>>(
        &mut self,
        name: LevelName,
        level: &Level<R>,
        old: Range<Position>,
        new: Vec<Packed<R, B>>,
        blocks: &Blocks,
    ) -> Result<Arc<Level<R>>> {
        let blocks = blocks.of_table(name.table);
        let mut rows: Vec<u128> = Vec::new();
        for entry in level.entries(old.clone(), blocks)? {
            rows.push(entry.high.number());
            self.gone.push(entry.id);
        }
        let bytes = if name.table.has_extents {
            self.sizes.document_block_bytes
        } else {
            self.sizes.block_bytes
        };
        self.freed_bytes += rows.len() as u64 * (bytes as u64).next_multiple_of(PAGE_BYTES);
        let mut change = LevelChange::none(name);
        if let (Some(&first), Some(&last)) = (rows.first(), rows.last()) {
            change.removed = Some(RemovedBlocks {
                rows: first..=last,
                count: rows.len(),
            });
        }
        let mut numbered = Vec::with_capacity(new.len());
        for block in new {
            numbered.push(self.number_block(block, &mut change));
        }
        let most = self.sizes.chunk_entries;
        let level = level.splice(old, &numbered, most, blocks, &mut change)?;
        self.changes.levels.push(change);
        Ok(Arc::new(level))
    }

    /// Gives a new block its number, and adds it to the change of a level.
    pub(crate) fn number_block<R: Row, B: Into<BlockBytes>>(
        &mut self,
        block: Packed<R, B>,
        change: &mut LevelChange,
    ) -> NewBlock<R> {
        let Packed {
            bytes,
            checksum,
            high,
            puts,
            marks,
            filter,
            extent,
        } = block;
        let id = BlockId::new(change.level.number, self.state.next_block);
        self.state.next_block += 1;
        change.added.push((high.number(), bytes.into()));
        NewBlock {
            entry: Entry {
                high,
                id,
                checksum,
                puts,
                marks,
                hint: Hint::default(),
            },
            filter,
            extent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::permuted;
    use super::super::state::first_rows;
    use super::super::{Settings, read_state};
    use super::*;
    use crate::store::blocks::{BlockCache, MemoryBlocks, Packer};
    use crate::store::engine::{FirstRows, Recording};

    fn packed(rows: Range<u64>, file: FileSeed) -> Vec<Packed<u64>> {
        let mut packer = Packer::new(128, false, file);
        packer.waiting.puts.extend(rows.map(|row| row << 40));
        packer.finish()
    }

    /// The last step of a merge removed all frozen pages, and a transaction waited for it 40 ms.
    #[test]
    fn old_pages_of_the_log_are_removed_some_at_a_time() {
        let settings = Settings::for_tests();
        let mut state = State::new(&settings.plan);
        (state.frozen_pages, state.next_page) = (700, 705);
        let mut removed = Vec::new();
        for _ in 0..4 {
            let mut edit = Edit::new(state, settings.file, &Sizes::default());
            // Several steps of merges may be in one commit.
            edit.drop_log();
            edit.drop_log();
            assert_eq!(edit.state.first_page, 700);
            removed.push(edit.changes.log_begins_at);
            state = edit.state;
        }
        assert_eq!(removed, [Some(257), Some(513), Some(700), None]);
        assert!(!state.has_old_pages());
        let mut edit = Edit::new(State::new(&settings.plan), settings.file, &Sizes::default());
        edit.empty_log();
        assert!(
            !edit.state.has_old_pages(),
            "a number that is left out is no page"
        );
    }

    /// Chunks that an edit removes were removed before any was written. So if an edit changed a level twice,
    /// a chunk of the first change stayed in the file, and the file could not be opened again.
    #[test]
    fn a_level_can_be_changed_twice_in_one_edit() -> Result<()> {
        let settings = Settings::for_tests();
        let (block_tables, meta) = first_rows(&settings);
        let first = FirstRows {
            block_tables,
            meta: &meta,
        };
        let engine = Engine::on_backend(Recording::default(), 1 << 20, Some(&first))?;
        let sizes = Sizes {
            chunk_entries: 3,
            ..Sizes::default()
        };
        let mut edit = Edit::new(State::new(&settings.plan), settings.file, &sizes);
        let cache = || Arc::new(BlockCache::new(0));
        let blocks = Blocks::new(Arc::new(MemoryBlocks::default()), cache(), settings.file);
        let table = permuted(1);
        let mut level = edit.state.sets[table].new_level();
        let name = table.level(level.level.number);
        for rows in [0..200, 50..150, 0..170] {
            let (first, last) = (rows.start << 40, (rows.end - 1) << 40);
            let old = level
                .level
                .overlapping(&(first..=last), blocks.of_table(name.table))?;
            level.level = edit.replace(
                name,
                &level.level,
                old,
                packed(rows, settings.file),
                &blocks,
            )?;
        }
        edit.state.sets[table].levels.push(level.clone());
        edit.write(&engine)?;
        let read = read_state(&engine.begin_read()?, &settings)?;
        let stored = engine.begin_read()?.into_tables(block_tables.len());
        let stored = Blocks::new(Arc::new(stored), cache(), settings.file);
        let entries = |level: &Level<u64>, blocks: &Blocks| -> Result<Vec<_>> {
            Ok(level
                .entries(level.all(), blocks.of_table(name.table))?
                .cloned()
                .collect())
        };
        assert_eq!(
            entries(&read.sets[table].levels[0].level, &stored)?,
            entries(&level.level, &blocks)?
        );
        Ok(())
    }
}
