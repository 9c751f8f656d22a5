//! Levels: each is one sorted run of blocks, with an index that finds a block by a row. Commits share the
//! chunks of the directory, which have everything that depends on the number of blocks. A change makes anew
//! only what depends on the number of chunks. So a commit of one document stays cheap beside a hundred
//! million.
//!
//! A level that was opened knows the outlines of its chunks. A chunk is read when it is first needed, and then
//! stays in memory. So opening a file does not wait for all its directories. What may have to read a chunk
//! takes the blocks of the set, which know where chunks come from, and can fail.
//!
//! The rows of a chunk are in memory as a [`Segment`], or as [`Signatures`], or not. Whoever wants rows gets them from
//! there, or reads the blocks. Levels share the slots of chunks that they have in common, and so the segments too.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, OnceLock, Weak};

use sdd::Guard;

use super::chunk::{Chunk, Fence};
use super::run::part;
use super::shared_list::SharedList;
use super::summary::{Outline, Summaries};
use crate::error::{Error, Result};
use crate::metrics::Tally;
use crate::planted::planted;
use crate::store::blocks::{
    Block, Entry, Extent, Kept, LINE_BYTES, Lists, Problem, Residence, Resident, Row, Segment,
    SetBlocks, Signatures,
};
use crate::store::engine::LevelName;
use crate::store::lookup::{LargeList, Prefixes, guess, partition_point_from};

/// The position of a block in its level. Positions are ordered as the blocks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) chunk: usize,
    pub(super) entry: usize,
}

/// One sorted run of blocks.
#[derive(Debug)]
pub(crate) struct Level<R: 'static> {
    /// The number under which its blocks and chunks are stored.
    pub(crate) number: u8,
    slots: SharedList<Arc<Slot<R>>>,
    /// One for each chunk, in sets with filters.
    fences: SharedList<Fence>,
    /// For each chunk the numbers of rows that the chunks before it put and mark.
    before: Vec<(u64, u64)>,
    /// The last row of each chunk.
    highs: Vec<R>,
    /// An index over them.
    prefixes: Prefixes,
    /// For each chunk the greatest time seen in it and in the chunks before, in sets with extents.
    pub(super) latest: Vec<i64>,
    /// How the chunks, except for the last, are divided among summaries.
    pub(super) summaries: Summaries,
    /// The number of blocks.
    blocks: usize,
    /// The numbers of rows that are put and marked.
    rows: (u64, u64),
    memory_bytes: usize,
    segment_bytes: u64,
    /// How unevenly its rows are spread, once that was measured in samples.
    pub(super) measured_shares: OnceLock<Vec<f64>>,
}

/// A chunk of a level.
#[derive(Debug)]
struct Slot<R: 'static> {
    residence: Residence<R>,
    outline: Outline<R>,
    /// Nothing until the chunk is read.
    chunk: OnceLock<Chunk<R>>,
}

impl<R: Row> Resident for Slot<R> {
    fn take_use(&self) -> bool {
        self.residence.take_use()
    }

    fn cut(&self) -> bool {
        self.residence.cut()
    }

    fn give_up(&self) {
        self.residence.give_up();
    }
}

impl<R: Row> Slot<R> {
    /// A slot for a chunk that is not read yet.
    fn unread(outline: Outline<R>) -> Arc<Self> {
        Arc::new(Self {
            residence: Residence::new(),
            outline,
            chunk: OnceLock::new(),
        })
    }

    /// What finds the filters of its blocks.
    fn fence(&self) -> Fence {
        let fence = Fence::new(self.outline.high.prefix());
        if let Some(chunk) = self.chunk.get() {
            fence.fill(chunk);
        }
        fence
    }

    /// The memory that it takes once it is read, in bytes.
    fn memory_bytes(&self) -> usize {
        let mut block = size_of::<Entry<R>>();
        // Its sums and its first line.
        block += size_of::<(u32, u32)>() + size_of::<u16>();
        if self.outline.extent.is_some() {
            block += Extent::BYTES;
        }
        let mut bytes = usize::from(self.outline.blocks) * block;
        bytes += usize::from(self.outline.lines) * LINE_BYTES;
        if self.outline.lines > 0 {
            bytes += size_of::<Fence>();
        }
        bytes + 256 + size_of::<Self>()
    }

    /// Its rows, put and marked.
    fn rows(&self) -> u64 {
        let rows = self.outline.rows;
        u64::from(rows.puts) + u64::from(rows.marks)
    }

    /// The most bytes that its segment takes.
    fn segment_bytes(&self) -> u64 {
        let rows = self.outline.rows;
        Segment::<R>::most_bytes(rows.puts as usize, rows.marks as usize) as u64
    }

    /// The most bytes that signatures of its rows take.
    fn signature_bytes(&self) -> u64 {
        Signatures::most_bytes(self.outline.rows.puts as usize) as u64
    }

    /// Whether what is kept of its rows fits into the cache, perhaps once others are cut.
    fn makes_room(&self, blocks: SetBlocks<'_>) -> bool {
        blocks.makes_room_for(self.kept_bytes(blocks))
    }

    /// The most bytes that are kept of its rows now: those of the rows, or of their signatures.
    fn kept_bytes(&self, blocks: SetBlocks<'_>) -> u64 {
        let bytes = self.segment_bytes();
        match blocks.has_room_for_rows(bytes) {
            true => bytes,
            false => self.signature_bytes(),
        }
    }
}

impl<R: Row> Level<R> {
    /// An empty level whose blocks and chunks will be stored under a number.
    pub(crate) fn empty(number: u8) -> Self {
        Self {
            number,
            slots: SharedList::default(),
            fences: SharedList::default(),
            before: Vec::new(),
            highs: Vec::new(),
            prefixes: Prefixes::none(0),
            latest: Vec::new(),
            summaries: Summaries::default(),
            blocks: 0,
            rows: (0, 0),
            memory_bytes: 0,
            segment_bytes: 0,
            measured_shares: OnceLock::new(),
        }
    }

    /// A level whose chunks are stored and not read yet.
    pub(super) fn unread(number: u8, outlines: Vec<Outline<R>>, summaries: Summaries) -> Self {
        let mut slots = Vec::with_capacity(outlines.len());
        for outline in outlines {
            slots.push(Slot::unread(outline));
        }
        let mut level = Self::empty(number).with_slots(0..0, &slots);
        level.summaries = summaries;
        level
    }

    /// The level with other chunks in the place of those of a range, and as yet without summaries. It shares with
    /// this one what stays.
    pub(super) fn with_chunks(&self, old: Range<usize>, new: Vec<Chunk<R>>) -> Self {
        let mut slots = Vec::with_capacity(new.len());
        for chunk in new {
            let slot = Slot::unread(chunk.outline());
            // Nobody else has the slot yet.
            _ = slot.chunk.set(chunk);
            slots.push(slot);
        }
        self.with_slots(old, &slots)
    }

    fn with_slots(&self, old: Range<usize>, new: &[Arc<Slot<R>>]) -> Self {
        let mut rows = self.before.get(old.start).copied().unwrap_or(self.rows);
        let mut before = self.before[..old.start].to_vec();
        let mut blocks = self.blocks;
        let mut memory_bytes = self.memory_bytes;
        let mut segment_bytes = self.segment_bytes;
        for slot in self.slots.range(old.clone()) {
            blocks -= usize::from(slot.outline.blocks);
            memory_bytes -= slot.memory_bytes();
            segment_bytes -= slot.segment_bytes();
        }
        let mut added_highs = Vec::with_capacity(new.len());
        for slot in new {
            let outline = &slot.outline;
            before.push(rows);
            rows.0 += u64::from(outline.rows.puts);
            rows.1 += u64::from(outline.rows.marks);
            blocks += usize::from(outline.blocks);
            memory_bytes += slot.memory_bytes();
            segment_bytes += slot.segment_bytes();
            added_highs.push(outline.high);
        }
        // The rows of the chunks behind come after others now.
        let gone = self.before.get(old.end).copied().unwrap_or(self.rows);
        let puts_change = rows.0.wrapping_sub(gone.0);
        let marks_change = rows.1.wrapping_sub(gone.1);
        for (puts, marks) in &self.before[old.end..] {
            let puts = puts.wrapping_add(puts_change);
            let marks = marks.wrapping_add(marks_change);
            before.push((puts, marks));
        }
        rows.0 = puts_change.wrapping_add(self.rows.0);
        rows.1 = marks_change.wrapping_add(self.rows.1);
        let mut highs = self.highs.clone();
        highs.splice(old.clone(), added_highs);
        Self {
            number: self.number,
            fences: self.fences_with(&old, new),
            before,
            prefixes: Prefixes::new(highs.iter().map(|high| high.prefix()), 1),
            highs,
            latest: self.latest_with(&old, new),
            summaries: Summaries::default(),
            blocks,
            rows,
            memory_bytes,
            segment_bytes,
            measured_shares: OnceLock::new(),
            slots: self.slots.splice(old, new.iter().cloned()),
        }
    }

    /// The fences of the chunks, with others in the place of those of a range.
    fn fences_with(&self, old: &Range<usize>, new: &[Arc<Slot<R>>]) -> SharedList<Fence> {
        let had_filters = self.fences.len() > 0;
        if !had_filters && new.iter().all(|slot| slot.outline.lines == 0) {
            return SharedList::default();
        }
        if self.fences.len() == self.slots.len() {
            return self
                .fences
                .splice(old.clone(), new.iter().map(|slot| slot.fence()));
        }
        // So far no block of the level had a filter.
        let head = self.slots.range(0..old.start);
        let tail = self.slots.range(old.end..self.slots.len());
        let slots = head.chain(new).chain(tail);
        SharedList::default().splice(0..0, slots.map(|slot| slot.fence()))
    }

    /// The greatest times up to each chunk, with other chunks in the place of those of a range. None in sets without
    /// extents.
    fn latest_with(&self, old: &Range<usize>, new: &[Arc<Slot<R>>]) -> Vec<i64> {
        let had_extents = !self.latest.is_empty();
        if !had_extents && new.iter().all(|slot| slot.outline.extent.is_none()) {
            return Vec::new();
        }
        let mut latest = self.latest[..old.start.min(self.latest.len())].to_vec();
        let behind = self.slots.range(old.end..self.slots.len());
        for slot in new.iter().chain(behind) {
            if let Some(extent) = slot.outline.extent {
                let before = latest.last().copied().unwrap_or(i64::MIN);
                latest.push(extent.greatest_seen.max(before));
            }
        }
        latest
    }

    /// The outline of a chunk.
    pub(super) fn outline(&self, chunk: usize) -> Option<&Outline<R>> {
        Some(&self.slots.get(chunk)?.outline)
    }

    /// Whether there may be rows in a range that are put. `true` if that is not known from memory. `cut` is memory for
    /// rows of which signatures are known.
    pub(super) fn may_have_puts(
        &self,
        first: R,
        last: R,
        cut: &mut Vec<u64>,
        guard: &Guard,
    ) -> bool {
        let chunk = self.chunk_of(first);
        let Some(slot) = self.slots.get(chunk) else {
            return false;
        };
        if slot.outline.high < last {
            return true;
        }
        if let Some(segment) = slot.residence.segment(guard) {
            let range = first..=last;
            let around = segment.around(&range);
            return segment.puts()[around].iter().any(|row| range.contains(row));
        }
        let Some(signatures) = slot.residence.signatures(guard) else {
            return true;
        };
        let mut may_have = false;
        let range = (first.prefix(), last.prefix());
        signatures.each_around(range, cut, |part| {
            for &row in part.rows {
                let (low, high): (R, R) = part.span(row);
                may_have |= low <= last && first <= high;
            }
        });
        may_have
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The memory that the directory takes once it is read, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The most memory that its segments take if all are in memory, in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The most memory that signatures of its rows take, in bytes.
    pub(crate) fn signature_bytes(&self) -> u64 {
        let slots = self.slots.range(0..self.slots.len());
        slots.map(|slot| slot.signature_bytes()).sum()
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
    pub(super) fn chunk(&self, index: usize, blocks: SetBlocks<'_>) -> Result<&Chunk<R>> {
        match self.slots[index].chunk.get() {
            Some(chunk) => Ok(chunk),
            None => self.read_chunk(index, blocks),
        }
    }

    #[cold]
    fn read_chunk(&self, index: usize, blocks: SetBlocks<'_>) -> Result<&Chunk<R>> {
        let Slot { outline, chunk, .. } = &*self.slots[index];
        let level = LevelName {
            table: blocks.table(),
            number: self.number,
        };
        let last = outline.high.number();
        let damaged = |problem: Problem| {
            let key = format!("{}, level {}, up to {last:x}", level.table, level.number);
            Error::damaged("directory", &key, problem)
        };
        let mut read = None;
        let is_there = blocks.read_chunk(level, last, &mut |bytes| {
            read = Some(Chunk::decode(level, outline, blocks.file(), bytes).map_err(damaged)?);
            Ok(())
        })?;
        let read = read.filter(|_| is_there);
        let read = read.ok_or_else(|| damaged("it is missing"))?;
        let before = index.checked_sub(1).map(|before| self.highs[before]);
        let first = read.entries.first().map(|entry| entry.high);
        if before.is_some() && before >= first {
            return Err(damaged("it overlaps the one before"));
        }
        // Another thread may have read the same.
        Ok(chunk.get_or_init(|| read))
    }

    /// The number of entries of a chunk.
    fn entries_of(&self, chunk: usize) -> usize {
        self.slots[chunk].outline.blocks.into()
    }

    /// The position of the first block that ends at `row` or after it, or the end.
    pub(crate) fn find(&self, row: R, blocks: SetBlocks<'_>) -> Result<Position> {
        let chunk = self.chunk_of(row);
        if chunk == self.highs.len() {
            return Ok(self.end());
        }
        let left = self.entries_from(chunk, row, blocks)?.len();
        let entry = self.entries_of(chunk) - left;
        Ok(Position { chunk, entry })
    }

    /// The entries of a chunk from the first block on that ends at `row` or after it.
    pub(super) fn entries_from(
        &self,
        chunk: usize,
        row: R,
        blocks: SetBlocks<'_>,
    ) -> Result<&[Entry<R>]> {
        let entries = &self.chunk(chunk, blocks)?.entries;
        let before = chunk
            .checked_sub(1)
            .map_or(R::MIN, |before| self.highs[before]);
        // Blocks are evenly spread, so the guess is hardly ever wrong. Each other entry is a wait for memory.
        let high = self.highs[chunk].prefix();
        let guess = guess(entries.len(), before.prefix(), high, row.prefix());
        let first = match planted("the last row of a block is looked for in the next") {
            true => partition_point_from(entries, guess, |entry| entry.high <= row),
            false => partition_point_from(entries, guess, |entry| entry.high < row),
        };
        Ok(&entries[first..])
    }

    /// The index of the first chunk that ends at `row` or after it, or the number of chunks.
    #[inline]
    pub(super) fn chunk_of(&self, row: R) -> usize {
        let around = self.prefixes.around(row.prefix(), row.prefix());
        around.start + self.highs[around].partition_point(|high| *high < row)
    }

    /// The last row of a chunk. `None` behind the last chunk.
    #[inline]
    pub(super) fn high_of(&self, chunk: usize) -> Option<R> {
        self.highs.get(chunk).copied()
    }

    /// The positions of the blocks that may have rows in a range.
    pub(crate) fn overlapping(
        &self,
        range: &RangeInclusive<R>,
        blocks: SetBlocks<'_>,
    ) -> Result<Range<Position>> {
        let first = self.find(*range.start(), blocks)?;
        let last = self.find(*range.end(), blocks)?;
        Ok(first..self.after(last, 1))
    }

    /// The position `blocks` blocks after another, or the end.
    pub(crate) fn after(&self, position: Position, mut blocks: usize) -> Position {
        let Position { chunk, mut entry } = position;
        for chunk in chunk..self.highs.len() {
            let left = self.entries_of(chunk) - entry;
            if blocks < left {
                entry += blocks;
                return Position { chunk, entry };
            }
            blocks -= left;
            entry = 0;
        }
        self.end()
    }

    /// The position before, if there is one.
    pub(super) fn before(&self, position: Position) -> Option<Position> {
        let Position { mut chunk, entry } = position;
        let mut count = entry;
        if count == 0 {
            chunk = chunk.checked_sub(1)?;
            count = self.entries_of(chunk);
        }
        let entry = count - 1;
        Some(Position { chunk, entry })
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
        let chunk = self.chunk(position.chunk, blocks)?;
        Ok(chunk.entries.get(position.entry))
    }

    /// The last rows of all chunks, and those of all summaries, as numbers.
    pub(crate) fn ends(&self) -> (Vec<u128>, Vec<u128>) {
        let chunks: Vec<u128> = self.highs.iter().map(|high| high.number()).collect();
        let summaries = self.summaries.ends().map(|end| chunks[end - 1]).collect();
        (chunks, summaries)
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

    /// The entries of the blocks at these positions.
    pub(crate) fn entries(
        &self,
        positions: Range<Position>,
        blocks: SetBlocks<'_>,
    ) -> Result<impl Iterator<Item = &Entry<R>>> {
        let Range { start, end } = positions;
        let chunks_end = end.chunk + usize::from(end.entry > 0);
        let mut parts = Vec::new();
        for chunk in start.chunk..chunks_end.min(self.slots.len()) {
            let mut entries = &self.chunk(chunk, blocks)?.entries[..];
            if chunk == end.chunk {
                entries = &entries[..end.entry];
            }
            if chunk == start.chunk {
                entries = entries.get(start.entry..).unwrap_or(&[]);
            }
            parts.push(entries);
        }
        Ok(parts.into_iter().flatten())
    }

    /// Whether there may be rows with this prefix, in a set with filters. The first of them can only be in
    /// the first block that ends at the prefix or after it. So only the filter of this block is tested.
    pub(crate) fn passes(&self, prefix: u64, blocks: SetBlocks<'_>) -> Result<bool> {
        let mut chunk = self.prefixes.around(prefix, prefix).start;
        while let Some(fence) = self.fences.get(chunk) {
            if fence.last < prefix {
                chunk += 1;
                continue;
            }
            if let Some(passes) = fence.passes(prefix) {
                return Ok(passes);
            }
            fence.fill(self.chunk(chunk, blocks)?);
            return Ok(fence.passes(prefix).unwrap_or(true));
        }
        Ok(false)
    }

    /// The numbers of rows that are put and marked before a block.
    pub(super) fn rows_before(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<(u64, u64)> {
        let Some(&(mut puts, mut marks)) = self.before.get(position.chunk) else {
            return Ok(self.rows);
        };
        if position.entry > 0 {
            let chunk = self.chunk(position.chunk, blocks)?;
            let before = chunk.rows_before(position.entry);
            puts += u64::from(before.puts);
            marks += u64::from(before.marks);
        }
        Ok((puts, marks))
    }
}

/// The rows.
impl<R: Row> Level<R> {
    /// The residence of a chunk. `None` behind the last chunk.
    #[inline]
    pub(super) fn residence(&self, chunk: usize) -> Option<&Residence<R>> {
        Some(&self.slots.get(chunk)?.residence)
    }

    /// The segment of a chunk, if it is in memory. It takes no lock.
    pub(super) fn segment<'g>(&self, chunk: usize, guard: &'g Guard) -> Option<&'g Segment<R>> {
        self.residence(chunk)?.segment(guard)
    }

    /// The segment of a chunk, of which a block is to be read otherwise. It is made now, if so many blocks were read
    /// that this is worth it and memory allows it. If memory has no room for the rows, signatures are made, and there
    /// is no segment.
    #[cold]
    pub(super) fn segment_for_block<'g>(
        &self,
        chunk: usize,
        blocks: SetBlocks<'_>,
        guard: &'g Guard,
    ) -> Result<Option<&'g Segment<R>>> {
        let slot = &self.slots[chunk];
        let mut bytes = slot.kept_bytes(blocks);
        if slot.residence.signatures(guard).is_some() {
            // This block has what the signatures let through.
            bytes = slot.segment_bytes();
            if !blocks.has_room_for_rows(bytes) {
                return Ok(None);
            }
        }
        let count = self.entries_of(chunk);
        if slot
            .residence
            .count_read(count, bytes, blocks.may_be_cut(), blocks.cache())
        {
            self.make_segment(chunk, None, blocks)?;
        }
        Ok(slot.residence.segment(guard))
    }

    /// Makes the segment of a chunk, or its signatures. Blocks that an older level has in memory are copied, the others
    /// are read.
    ///
    /// If one of them is damaged, there is no segment. Who needs the block gets the error, and the others their rows.
    fn make_segment(
        &self,
        chunk: usize,
        older: Option<&Self>,
        blocks: SetBlocks<'_>,
    ) -> Result<()> {
        match self.read_rows(chunk, older, blocks) {
            Ok(kept) => {
                let slot = &self.slots[chunk];
                let resident: Weak<Slot<R>> = Arc::downgrade(slot);
                let may_be_cut = blocks.table().has_signatures;
                let cache = blocks.cache();
                slot.residence.keep(kept, may_be_cut, cache, resident);
                Ok(())
            }
            Err(Error::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn read_rows(
        &self,
        chunk: usize,
        older: Option<&Self>,
        blocks: SetBlocks<'_>,
    ) -> Result<Kept<R>> {
        // An outline only claims its rows. They are as many once its chunk is read.
        let entries = &self.chunk(chunk, blocks)?.entries;
        let guard = Guard::new();
        let mut lists = Lists::default();
        if !blocks.has_room_for_rows(self.slots[chunk].segment_bytes()) {
            for entry in entries {
                match older.and_then(|older| older.resident_rows_of(entry, &guard)) {
                    Some(rows) => lists.extend(rows),
                    None => blocks.read_rows(entry, &mut lists)?,
                }
            }
            return Ok(Kept::Signatures(Signatures::new(&lists.puts)));
        }
        let rows = self.slots[chunk].outline.rows;
        let mut puts = LargeList::with_capacity(rows.puts as usize);
        let mut marks = Vec::with_capacity(rows.marks as usize);
        for entry in entries {
            let resident = older.and_then(|older| older.resident_rows_of(entry, &guard));
            let of_block = match resident {
                Some(rows) => rows,
                None => {
                    lists.clear();
                    blocks.read_rows(entry, &mut lists)?;
                    lists.as_slices()
                }
            };
            puts.extend_from_slice(of_block.0);
            marks.extend_from_slice(of_block.1);
        }
        Ok(Kept::Rows(Segment::new(puts, marks)))
    }

    /// Makes the segments of the chunks that an older level does not have, where that had one in the same place. In
    /// sets whose ranges are searched, also where it had none, as far as there is room.
    pub(crate) fn take_over(&self, older: &Self, blocks: SetBlocks<'_>) -> Result<()> {
        // Filters keep searches from the rows.
        let is_searched = self.fences.len() == 0;
        for chunk in 0..self.slots.len() {
            let slot = &self.slots[chunk];
            let before = older.slots.get(older.chunk_of(slot.outline.high));
            if before.is_some_and(|before| Arc::ptr_eq(before, slot)) {
                continue;
            }
            let was_resident = before.is_some_and(|before| before.residence.is_resident());
            let is_wanted = was_resident || is_searched && slot.makes_room(blocks);
            if is_wanted && !slot.residence.is_resident() {
                self.make_segment(chunk, Some(older), blocks)?;
            }
        }
        Ok(())
    }

    /// The rows of the chunks of which the rows or their signatures are in memory.
    pub(crate) fn resident_rows(&self) -> u64 {
        let slots = self.slots.range(0..self.slots.len());
        let resident = slots.filter(|slot| slot.residence.is_resident());
        resident.map(|slot| slot.rows()).sum()
    }

    /// Makes the segment of a chunk, if it has at most `most` rows and there is room. Returns its rows, and `u64::MAX`
    /// if it was not made. `None` if there is no such chunk.
    pub(crate) fn warm(
        &self,
        chunk: usize,
        most: u64,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<u64>> {
        if chunk >= self.slots.len() {
            return Ok(None);
        }
        let slot = &self.slots[chunk];
        let rows = slot.rows();
        let is_resident = slot.residence.is_resident();
        if rows > most || !is_resident && !slot.makes_room(blocks) {
            return Ok(Some(u64::MAX));
        }
        if !is_resident {
            self.make_segment(chunk, None, blocks)?;
        }
        Ok(Some(rows))
    }

    /// The rows of a block of this level or of one that follows it, if they are in memory.
    fn resident_rows_of<'g>(
        &self,
        entry: &Entry<R>,
        guard: &'g Guard,
    ) -> Option<(&'g [R], &'g [R])> {
        let chunk = self.chunk_of(entry.high);
        let segment = self.segment(chunk, guard)?;
        let listed = self.slots[chunk].chunk.get()?;
        let found = listed
            .entries
            .binary_search_by_key(&entry.high, |entry| entry.high);
        let found = found
            .ok()
            .filter(|&found| listed.entries[found].id == entry.id)?;
        Some(listed.rows_in(segment, found))
    }

    /// A block that was found at a position: its entry, and its rows from memory, or read. `None` at the end.
    pub(super) fn block<'g>(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
        guard: &'g Guard,
    ) -> Result<Option<(R, Block<'g, R>)>> {
        let Some(entry) = self.entry(position, blocks)? else {
            return Ok(None);
        };
        let segment = match self.segment(position.chunk, guard) {
            None => self.segment_for_block(position.chunk, blocks, guard)?,
            segment => segment,
        };
        let tally = match segment {
            Some(_) => Tally::CacheHits,
            None => Tally::CacheMisses,
        };
        blocks.cache().tallies.add(tally, 1);
        let block = match segment {
            Some(segment) => {
                let chunk = self.chunk(position.chunk, blocks)?;
                let (puts, marks) = chunk.rows_in(segment, position.entry);
                Block::Resident(puts, marks)
            }
            None => {
                let mut lists = Lists::default();
                blocks.read_rows(entry, &mut lists)?;
                Block::Read(lists)
            }
        };
        Ok(Some((entry.high, block)))
    }

    /// Adds the rows of some blocks to lists whose rows come before them. What is read for it is not kept.
    pub(crate) fn append_blocks(
        &self,
        positions: Range<Position>,
        blocks: SetBlocks<'_>,
        rows: &mut Lists<R>,
    ) -> Result<()> {
        let mut position = positions.start;
        while position < positions.end
            && let Some(entry) = self.entry(position, blocks)?
        {
            // What the cache gives up meanwhile is freed after each of them.
            let guard = Guard::new();
            match self.segment(position.chunk, &guard) {
                Some(segment) => {
                    let chunk = self.chunk(position.chunk, blocks)?;
                    rows.extend(chunk.rows_in(segment, position.entry));
                }
                None => blocks.read_rows(entry, rows)?,
            }
            position = self.after(position, 1);
        }
        Ok(())
    }

    /// Adds the rows of all blocks that may have rows in a range to lists whose rows come before them. What is read
    /// for it is not kept.
    pub(crate) fn append_rows(
        &self,
        range: &RangeInclusive<R>,
        blocks: SetBlocks<'_>,
        rows: &mut Lists<R>,
    ) -> Result<()> {
        self.append_blocks(self.overlapping(range, blocks)?, blocks, rows)
    }

    /// The numbers of rows of a range that it puts and marks. At most two blocks are read.
    pub(super) fn count(
        &self,
        range: &RangeInclusive<R>,
        blocks: SetBlocks<'_>,
    ) -> Result<(u64, u64)> {
        let guard = Guard::new();
        let first = self.find(*range.start(), blocks)?;
        let Some((high, block)) = self.block(first, blocks, &guard)? else {
            return Ok((0, 0));
        };
        let (mut puts, mut marks) = count_in(&block, range);
        if high >= *range.end() {
            return Ok((puts, marks));
        }
        // The directory counts the blocks between.
        let last = self.find(*range.end(), blocks)?;
        let from = self.rows_before(self.after(first, 1), blocks)?;
        let to = self.rows_before(last, blocks)?;
        puts += to.0 - from.0;
        marks += to.1 - from.1;
        if let Some((_, block)) = self.block(last, blocks, &guard)? {
            let of_last = count_in(&block, range);
            puts += of_last.0;
            marks += of_last.1;
        }
        Ok((puts, marks))
    }
}

/// The numbers of rows of a range that a block puts and marks.
fn count_in<R: Row>(block: &Block<'_, R>, range: &RangeInclusive<R>) -> (u64, u64) {
    let puts = part(block.puts(), range).len() as u64;
    let marks = part(block.marks(), range).len() as u64;
    (puts, marks)
}
