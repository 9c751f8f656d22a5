//! Levels: each is one sorted run of blocks, with an index that finds a block by a row. Commits share the
//! chunks of the directory, which have everything that depends on the number of blocks. A change makes anew
//! only what depends on the number of chunks. So a commit of one document stays cheap beside a hundred
//! million.
//!
//! A level that was opened knows the outlines of its chunks. A chunk is read when it is first needed, and then
//! stays in memory. So opening a file does not wait for all its directories. What may have to read a chunk
//! takes the blocks of the set, which know where chunks come from, and can fail.
//!
//! A level whose directory has extents also tells which blocks may have documents of a time, without reading
//! them. Documents are stored in the order in which they come. So later blocks mostly have later times. Where
//! they do not, whole chunks are passed over by their outlines.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::directory::Chunk;
use super::shared_list::SharedList;
use super::slot::{Fence, Found, Slot, Top};
use super::summary::{Outline, Stored};
use crate::error::{Error, Result};
use crate::store::blocks::{Entry, Extent, Problem, Row, SetBlocks};
use crate::store::engine::LevelName;
use crate::store::lookup::{Prefixes, partition_point_from, prefetch_at};

/// The position of a block in its level. Positions are ordered as the blocks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) chunk: usize,
    pub(super) entry: usize,
}

/// One sorted run of blocks.
#[derive(Debug)]
pub(crate) struct Level<R> {
    /// The number under which its chunks are stored.
    pub(super) number: u8,
    pub(super) tops: SharedList<Top<R>>,
    pub(super) slots: SharedList<Slot<R>>,
    /// One for each chunk, in sets with filters.
    pub(super) fences: SharedList<Fence>,
    /// For each chunk the numbers of rows that the chunks before it put and mark.
    pub(super) before: Vec<(u64, u64)>,
    /// The last row of each chunk.
    pub(super) highs: Vec<R>,
    /// An index over them.
    pub(super) prefixes: Prefixes,
    /// For each chunk the greatest time seen in it and in the chunks before, in sets with extents.
    pub(super) latest: Vec<i64>,
    /// How the chunks, except for the last, are divided among summaries.
    pub(super) summaries: Vec<Stored>,
    /// The number of blocks.
    pub(super) blocks: usize,
    /// The numbers of rows that are put and marked.
    pub(super) rows: (u64, u64),
    pub(super) memory_bytes: usize,
}

impl<R: Row> Level<R> {
    pub(crate) fn empty() -> Self {
        Self::numbered(0)
    }

    /// An empty level whose chunks will be stored under a number.
    fn numbered(number: u8) -> Self {
        Self {
            number,
            tops: SharedList::empty(),
            slots: SharedList::empty(),
            fences: SharedList::empty(),
            before: Vec::new(),
            highs: Vec::new(),
            prefixes: Prefixes::none(0),
            latest: Vec::new(),
            summaries: Vec::new(),
            blocks: 0,
            rows: (0, 0),
            memory_bytes: 0,
        }
    }

    /// A level of a file, from the outlines of all its summaries, their shares in its sum, and the outline of
    /// its last chunk.
    pub(crate) fn stored(
        number: u8,
        stored: impl IntoIterator<Item = (Vec<Outline<R>>, u64)>,
        last: Option<Outline<R>>,
    ) -> Self {
        let mut slots = Vec::new();
        let mut summaries = Vec::new();
        for (outlines, share) in stored {
            slots.extend(outlines.into_iter().map(Slot::unread));
            let end = slots.len();
            summaries.push(Stored { end, share });
        }
        slots.extend(last.map(Slot::unread));
        Self::numbered(number).with_chunks(0..0, slots, summaries)
    }

    /// Stands for a level whose directory is stored and not kept in memory. Only what the state record has of
    /// it is known.
    pub(crate) fn not_kept(sum: u64, last: Outline<R>) -> Self {
        Self::stored(0, [(Vec::new(), sum)], Some(last))
    }

    /// The outline of the last chunk.
    pub(crate) fn last_chunk(&self) -> Option<Outline<R>> {
        self.slots.last().map(|slot| slot.outline)
    }

    /// Whether each chunk ends behind the one before.
    pub(crate) fn is_in_order(&self) -> bool {
        self.highs.is_sorted_by(|a, b| a < b)
    }

    /// The checksums of all summaries and the number of summaries, added up.
    pub(crate) fn sum(&self) -> u64 {
        let mut sum = 0u64;
        for summary in &self.summaries {
            sum = sum.wrapping_add(summary.share);
        }
        sum
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The last row of each chunk, and the number of rows that its blocks put.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (R, f64)> {
        self.slots
            .iter()
            .map(|slot| (slot.outline.high, f64::from(slot.outline.rows.0)))
    }

    /// The memory that the directory takes once it is read, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The numbers of rows that it puts and marks.
    pub(crate) fn rows(&self) -> (u64, u64) {
        self.rows
    }

    /// The positions of all blocks.
    pub(crate) fn all(&self) -> Range<Position> {
        Position { chunk: 0, entry: 0 }..self.end()
    }

    /// The position behind the last block.
    pub(crate) fn end(&self) -> Position {
        Position {
            chunk: self.slots.len(),
            entry: 0,
        }
    }

    /// The last row.
    pub(crate) fn high(&self) -> Option<R> {
        self.highs.last().copied()
    }

    /// A chunk, which is read if it was not.
    pub(super) fn chunk(&self, index: usize, blocks: SetBlocks<'_>) -> Result<&Arc<Chunk<R>>> {
        let Slot { outline, chunk, .. } = &self.slots[index];
        if let Some(chunk) = chunk.get() {
            return Ok(chunk);
        }
        let level = LevelName {
            table: blocks.table(),
            number: self.number,
        };
        let last = outline.high.number();
        let damaged = |problem: Problem| Error::Damaged {
            table: "directory",
            key: format!("{}, level {}, up to {last:x}", level.table, level.number),
            problem,
        };
        let mut read = None;
        let is_there = blocks.read_chunk(level, last, &mut |bytes| {
            read = Some(Chunk::decode(level, outline, blocks.file(), bytes).map_err(damaged)?);
            Ok(())
        })?;
        let read = read.filter(|_| is_there);
        let read = read.ok_or_else(|| damaged("it is missing"))?;
        if index > 0 && self.highs[index - 1] >= read.first_high() {
            return Err(damaged("it overlaps the one before"));
        }
        // Another thread may have read the same.
        Ok(chunk.get_or_init(|| Arc::new(read)))
    }

    /// What finds a block in a chunk, which is read if it was not.
    #[inline]
    fn found(&self, index: usize, blocks: SetBlocks<'_>) -> Result<&Found<R>> {
        match self.tops[index].found.get() {
            Some(found) => Ok(found),
            None => self.read(index, blocks),
        }
    }

    #[cold]
    fn read(&self, index: usize, blocks: SetBlocks<'_>) -> Result<&Found<R>> {
        let chunk = self.chunk(index, blocks)?;
        if let Some(fence) = self.fences.get(index) {
            fence.fill(chunk);
        }
        Ok(self.tops[index].found.get_or_init(|| Found::new(chunk)))
    }

    /// The entries of a chunk. There are none if the chunk is not read yet, or there is no such chunk.
    #[inline]
    fn entries_at_hand(&self, chunk: usize) -> &[Entry<R>] {
        self.tops
            .get(chunk)
            .and_then(|top| top.found.get())
            .map_or(&[], |found| &found.entries)
    }

    /// The number of entries of a chunk.
    #[inline]
    fn entries_of(&self, chunk: usize) -> usize {
        match self.tops[chunk].found.get() {
            Some(found) => found.entries.len(),
            None => self.slots[chunk].outline.blocks.into(),
        }
    }

    /// Reads every chunk that is not read yet.
    pub(crate) fn read_all(&self, blocks: SetBlocks<'_>) -> Result<()> {
        for chunk in 0..self.slots.len() {
            self.found(chunk, blocks)?;
        }
        Ok(())
    }

    /// The position of the first block that ends at `row` or after it, or the end.
    pub(crate) fn find(&self, row: R, blocks: SetBlocks<'_>) -> Result<Position> {
        Ok(self.position_from(self.guess(row, blocks)?, row))
    }

    /// A guess at the position that [`find`](Self::find) returns. It is in the same chunk, or the end. No
    /// entry is read for it.
    #[inline]
    pub(crate) fn guess(&self, row: R, blocks: SetBlocks<'_>) -> Result<Position> {
        let chunk = self.chunk_of(row);
        let Some(high) = self.highs.get(chunk) else {
            return Ok(self.end());
        };
        let Found { entries, samples } = self.found(chunk, blocks)?;
        let entry = samples.guess(entries.len(), high.prefix(), row.prefix());
        Ok(Position { chunk, entry })
    }

    /// The index of the first chunk that ends at `row` or after it, or the number of chunks.
    #[inline]
    fn chunk_of(&self, row: R) -> usize {
        let around = self.prefixes.around(row.prefix());
        around.start + self.highs[around].partition_point(|high| *high < row)
    }

    /// Fetches the entry at a position.
    #[inline]
    pub(crate) fn prefetch(&self, position: Position) {
        prefetch_at(self.entries_at_hand(position.chunk), position.entry);
    }

    /// The position that [`find`](Self::find) returns, from a [`guess`](Self::guess) at it.
    #[inline]
    pub(crate) fn position_from(&self, guess: Position, row: R) -> Position {
        let entries = self.entries_at_hand(guess.chunk);
        let entry = partition_point_from(entries, guess.entry, |entry| entry.high < row);
        Position { entry, ..guess }
    }

    /// The positions of the blocks that may have `row` or rows after it.
    pub(crate) fn from(&self, row: R, blocks: SetBlocks<'_>) -> Result<Range<Position>> {
        Ok(self.find(row, blocks)?..self.end())
    }

    /// The positions of the blocks that may have rows in a range.
    pub(crate) fn overlapping(
        &self,
        range: &RangeInclusive<R>,
        blocks: SetBlocks<'_>,
    ) -> Result<Range<Position>> {
        Ok(self.find(*range.start(), blocks)?..self.after(self.find(*range.end(), blocks)?, 1))
    }

    /// The position `blocks` blocks after another, or the end.
    pub(crate) fn after(&self, position: Position, mut blocks: usize) -> Position {
        let Position {
            mut chunk,
            mut entry,
        } = position;
        while chunk < self.highs.len() {
            let left = self.entries_of(chunk) - entry;
            if blocks < left {
                return Position {
                    chunk,
                    entry: entry + blocks,
                };
            }
            blocks -= left;
            (chunk, entry) = (chunk + 1, 0);
        }
        self.end()
    }

    /// The position before, if there is one.
    pub(crate) fn before(&self, position: Position) -> Option<Position> {
        if position.entry > 0 {
            return Some(Position {
                entry: position.entry - 1,
                ..position
            });
        }
        let chunk = position.chunk.checked_sub(1)?;
        Some(Position {
            chunk,
            entry: self.entries_of(chunk) - 1,
        })
    }

    /// The entry of a block, or `None` at the end.
    #[inline]
    pub(crate) fn entry(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<&Entry<R>>> {
        if position.chunk >= self.highs.len() {
            return Ok(None);
        }
        Ok(self
            .found(position.chunk, blocks)?
            .entries
            .get(position.entry))
    }

    /// Whether a chunk ends with a row.
    pub(crate) fn has_chunk(&self, last: R) -> bool {
        self.highs.get(self.chunk_of(last)) == Some(&last)
    }

    /// Whether a summary ends with a row.
    pub(crate) fn has_summary(&self, last: R) -> bool {
        let end = self.chunk_of(last) + 1;
        let summary = self
            .summaries
            .binary_search_by_key(&end, |summary| summary.end);
        self.has_chunk(last) && summary.is_ok()
    }

    /// The entry of the block before, or `None` if there is none.
    pub(crate) fn entry_before(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<&Entry<R>>> {
        match self.before(position) {
            Some(before) => self.entry(before, blocks),
            None => Ok(None),
        }
    }

    /// The entry of the last block.
    pub(crate) fn last(&self, blocks: SetBlocks<'_>) -> Result<Option<&Entry<R>>> {
        self.entry_before(self.end(), blocks)
    }

    /// The entries of the blocks at these positions.
    pub(crate) fn entries(
        &self,
        positions: Range<Position>,
        blocks: SetBlocks<'_>,
    ) -> Result<impl Iterator<Item = &Entry<R>>> {
        let Range { start, end } = positions;
        let chunks = start.chunk..(end.chunk + usize::from(end.entry > 0)).min(self.slots.len());
        for chunk in chunks.clone() {
            self.found(chunk, blocks)?;
        }
        Ok(chunks.flat_map(move |chunk| {
            let entries = self.entries_at_hand(chunk);
            let first = if chunk == start.chunk { start.entry } else { 0 };
            let end = if chunk == end.chunk {
                end.entry
            } else {
                entries.len()
            };
            &entries[first..end.max(first)]
        }))
    }

    /// Whether there may be rows with this prefix, in a set with filters. The first of them can only be in
    /// the first block that ends at the prefix or after it. So only the filter of this block is tested.
    pub(crate) fn passes(&self, prefix: u64, blocks: SetBlocks<'_>) -> Result<bool> {
        let around = self.prefixes.around(prefix);
        let mut fences = (around.start..).map_while(|index| Some((index, self.fences.get(index)?)));
        let Some((index, fence)) = fences.find(|(_, fence)| fence.last >= prefix) else {
            return Ok(false);
        };
        if let Some(passes) = fence.passes(prefix) {
            return Ok(passes);
        }
        self.read(index, blocks)?;
        Ok(fence.passes(prefix).unwrap_or(true))
    }

    /// The numbers of rows that are put and marked before a block.
    pub(crate) fn rows_before(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<(u64, u64)> {
        let Some(before) = self.before.get(position.chunk) else {
            return Ok(self.rows);
        };
        if position.entry == 0 {
            return Ok(*before);
        }
        let (puts, marks) = self
            .chunk(position.chunk, blocks)?
            .rows_before(position.entry);
        Ok((before.0 + u64::from(puts), before.1 + u64::from(marks)))
    }
}

impl Level<u64> {
    /// The first row that may be of a document seen at `since` or later. `None` if there is no such row.
    pub(crate) fn first_since(&self, since: i64, blocks: SetBlocks<'_>) -> Result<Option<u64>> {
        let chunk = self.latest.partition_point(|&latest| latest < since);
        if chunk == self.latest.len() {
            return Ok(None);
        }
        let extents = self.chunk(chunk, blocks)?.extents();
        let entry = extents
            .iter()
            .position(|extent| extent.greatest_seen >= since)
            .unwrap_or(0);
        let before = self.entry_before(Position { chunk, entry }, blocks)?;
        Ok(Some(before.map_or(0, |before| before.high + 1)))
    }

    /// The last row up to `row` that may be of a document seen at `since` or later. `None` if there is no such
    /// row. Rows behind the last block may not.
    pub(crate) fn last_since(
        &self,
        row: u64,
        since: i64,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<u64>> {
        let mut end = self.after(self.find(row, blocks)?, 1);
        loop {
            // The chunk of the last block before `end`.
            let Some(Position { chunk, entry }) = self.before(end) else {
                return Ok(None);
            };
            if self.latest[chunk] < since {
                return Ok(None);
            }
            let all = self.slots[chunk].outline.extent;
            if all.is_some_and(|extent| extent.greatest_seen >= since) {
                let extents = &self.chunk(chunk, blocks)?.extents()[..=entry];
                let entry = extents
                    .iter()
                    .rposition(|extent| extent.greatest_seen >= since);
                if let Some(entry) = entry {
                    let last = self.entry(Position { chunk, entry }, blocks)?;
                    return Ok(last.map(|last| last.high.min(row)));
                }
            }
            end = Position { chunk, entry: 0 };
        }
    }

    /// The position of the first block from `from` on whose extent `wanted` takes. `wanted` must take the
    /// extent of two blocks together if it takes that of one of them.
    pub(crate) fn next_wanted(
        &self,
        from: Position,
        wanted: impl Fn(&Extent) -> bool,
        blocks: SetBlocks<'_>,
    ) -> Result<Position> {
        let mut position = from;
        while let Some(slot) = self.slots.get(position.chunk) {
            if slot.outline.extent.is_some_and(|extent| wanted(&extent)) {
                let rest = &self.chunk(position.chunk, blocks)?.extents()[position.entry..];
                if let Some(found) = rest.iter().position(&wanted) {
                    return Ok(Position {
                        entry: position.entry + found,
                        ..position
                    });
                }
            }
            position = Position {
                chunk: position.chunk + 1,
                entry: 0,
            };
        }
        Ok(self.end())
    }

    /// The most blocks that `wanted` may take, as far as the outlines of the chunks tell. `wanted` is as in
    /// [`next_wanted`](Self::next_wanted).
    pub(crate) fn most_wanted(&self, wanted: impl Fn(&Extent) -> bool) -> usize {
        let mut most = 0;
        for slot in self.slots.iter() {
            if slot.outline.extent.is_some_and(|extent| wanted(&extent)) {
                most += usize::from(slot.outline.blocks);
            }
        }
        most
    }

    /// The extent of a block.
    pub(crate) fn extent(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<Extent>> {
        if position.chunk >= self.slots.len() {
            return Ok(None);
        }
        Ok(self
            .chunk(position.chunk, blocks)?
            .extents()
            .get(position.entry)
            .copied())
    }
}
