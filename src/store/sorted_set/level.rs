//! Levels: each is one sorted run of blocks, with its directory in memory and an index that finds a block
//! by a row. The chunks of the directory have everything that depends on the number of blocks, and commits
//! share them. A change makes anew only what depends on the number of chunks. So a commit of one document
//! stays cheap beside a hundred million.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::directory::{Chunk, Filtered, cut};
use super::fence::Fence;
use crate::store::blocks::{Entry, FileSeed, Filter, Row};
use crate::store::engine::LevelName;
use crate::store::lookup::{Prefixes, Samples, partition_point_from, prefetch_at};

/// The position of a block in its level. Positions are ordered as the blocks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    chunk: usize,
    entry: usize,
}

/// One sorted run of blocks.
#[derive(Debug)]
pub(crate) struct Level<R> {
    tops: Vec<Top<R>>,
    chunks: Vec<Counted<R>>,
    /// An index over the last rows of the chunks.
    prefixes: Prefixes,
    /// One for each chunk, in sets with filters.
    fences: Vec<Fence>,
    /// The number of blocks.
    blocks: usize,
    /// The numbers of rows that are put and marked.
    rows: (u64, u64),
    /// The checksums of all chunks and the number of chunks, added up.
    sum: u64,
    memory_bytes: usize,
}

/// The part of a chunk that finds a block in it. It fills a line of memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Top<R> {
    /// Its last row.
    high: R,
    entries: Arc<[Entry<R>]>,
    samples: Samples,
}

/// A chunk, and the numbers of rows that the chunks before it put and mark.
#[derive(Debug)]
struct Counted<R> {
    chunk: Arc<Chunk<R>>,
    before: (u64, u64),
}

impl<R: Row> Top<R> {
    fn new(chunk: &Chunk<R>) -> Self {
        Self { high: chunk.high(), entries: chunk.shared_entries(), samples: chunk.samples() }
    }
}

impl<R: Row> Level<R> {
    pub(crate) fn new(chunks: impl IntoIterator<Item = Arc<Chunk<R>>>) -> Self {
        let (mut before, mut blocks, mut sum, mut memory_bytes) = ((0, 0), 0, 0u64, 0);
        let with_before = |chunk: Arc<Chunk<R>>| {
            let (rows, rows_before) = (chunk.rows(), before);
            before = (before.0 + u64::from(rows.0), before.1 + u64::from(rows.1));
            blocks += chunk.entries().len();
            sum = sum.wrapping_add(chunk.share_of_sum());
            memory_bytes += chunk.memory_bytes() + size_of::<Top<R>>() + 6 * size_of::<u64>();
            Counted { chunk, before: rows_before }
        };
        let chunks: Vec<_> = chunks.into_iter().map(with_before).collect();
        let filtered = chunks.iter().any(|it| it.chunk.has_filters());
        let fenced = if filtered { &chunks[..] } else { &[] };
        let fences: Vec<Fence> = fenced.iter().map(|it| Fence::new(&it.chunk)).collect();
        memory_bytes += fences.capacity() * size_of::<Fence>();
        let tops: Vec<Top<R>> = chunks.iter().map(|it| Top::new(&it.chunk)).collect();
        let prefixes = Prefixes::new(tops.iter().map(|top| top.high.prefix()), 1);
        Self { prefixes, tops, chunks, fences, blocks, rows: before, sum, memory_bytes }
    }

    pub(crate) fn empty() -> Self {
        Self::new([])
    }

    /// Stands for a level whose directory is stored and not kept in memory. Only its sum is known.
    pub(crate) fn not_kept(sum: u64) -> Self {
        Self { sum, ..Self::empty() }
    }

    /// The checksums of all chunks and the number of chunks, added up.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The memory that the directory takes, in bytes.
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
        Position { chunk: self.chunks.len(), entry: 0 }
    }

    /// The position of the first block that ends at `row` or after it, or the end.
    pub(crate) fn find(&self, row: R) -> Position {
        self.position_from(self.guess(row), row)
    }

    /// A guess at the position that [`find`](Self::find) returns. It is in the same chunk, or the end. No
    /// entry is read for it.
    #[inline]
    pub(crate) fn guess(&self, row: R) -> Position {
        let chunk = self.chunk_of(row);
        let Some(Top { high, entries, samples }) = self.tops.get(chunk) else { return self.end() };
        let entry = samples.guess(entries.len(), high.prefix(), row.prefix());
        Position { chunk, entry }
    }

    /// The index of the first chunk that ends at `row` or after it, or the number of chunks.
    #[inline]
    fn chunk_of(&self, row: R) -> usize {
        let around = self.prefixes.around(row.prefix());
        around.start + self.tops[around].partition_point(|top| top.high < row)
    }

    /// Fetches the entry at a position.
    #[inline]
    pub(crate) fn prefetch(&self, position: Position) {
        if let Some(top) = self.tops.get(position.chunk) {
            prefetch_at(&top.entries, position.entry);
        }
    }

    /// The position that [`find`](Self::find) returns, from a [`guess`](Self::guess) at it.
    #[inline]
    pub(crate) fn position_from(&self, guess: Position, row: R) -> Position {
        let Some(top) = self.tops.get(guess.chunk) else { return self.end() };
        let entry = partition_point_from(&top.entries, guess.entry, |entry| entry.high < row);
        Position { entry, ..guess }
    }

    /// The positions of the blocks that may have `row` or rows after it.
    pub(crate) fn from(&self, row: R) -> Range<Position> {
        self.find(row)..self.end()
    }

    /// The positions of the blocks that may have rows in a range.
    pub(crate) fn overlapping(&self, range: &RangeInclusive<R>) -> Range<Position> {
        self.find(*range.start())..self.after(self.find(*range.end()), 1)
    }

    /// The position `blocks` blocks after another, or the end.
    pub(crate) fn after(&self, position: Position, mut blocks: usize) -> Position {
        let Position { mut chunk, mut entry } = position;
        while let Some(top) = self.tops.get(chunk) {
            let left = top.entries.len() - entry;
            if blocks < left {
                return Position { chunk, entry: entry + blocks };
            }
            blocks -= left;
            (chunk, entry) = (chunk + 1, 0);
        }
        self.end()
    }

    /// The position before, if there is one.
    pub(crate) fn before(&self, position: Position) -> Option<Position> {
        if position.entry > 0 {
            return Some(Position { entry: position.entry - 1, ..position });
        }
        let chunk = position.chunk.checked_sub(1)?;
        Some(Position { chunk, entry: self.tops[chunk].entries.len() - 1 })
    }

    /// The entry of a block, or `None` at the end.
    pub(crate) fn entry(&self, position: Position) -> Option<&Entry<R>> {
        self.tops.get(position.chunk)?.entries.get(position.entry)
    }

    /// Whether a chunk ends with a row.
    pub(crate) fn has_chunk(&self, last: R) -> bool {
        self.tops.get(self.chunk_of(last)).is_some_and(|top| top.high == last)
    }

    /// The entry of the last block.
    pub(crate) fn last(&self) -> Option<&Entry<R>> {
        self.tops.last()?.entries.last()
    }

    /// The entries of the blocks at these positions.
    pub(crate) fn entries(&self, positions: Range<Position>) -> impl Iterator<Item = &Entry<R>> {
        let last = (positions.end.chunk + usize::from(positions.end.entry > 0)).min(self.chunks.len());
        (positions.start.chunk..last).flat_map(move |chunk| {
            let entries = &self.tops[chunk].entries;
            let first = if chunk == positions.start.chunk { positions.start.entry } else { 0 };
            let end = if chunk == positions.end.chunk { positions.end.entry } else { entries.len() };
            &entries[first..end.max(first)]
        })
    }

    /// Whether there may be rows with this prefix, in a set with filters. The first of them can only be in
    /// the first block that ends at the prefix or after it. So only the filter of this block is tested.
    pub(crate) fn passes(&self, prefix: u64) -> bool {
        let around = self.prefixes.around(prefix);
        let mut fences = self.fences[around.start..].iter();
        fences.find(|fence| fence.last() >= prefix).is_some_and(|fence| fence.passes(prefix))
    }

    /// The numbers of rows that are put and marked before a block.
    pub(crate) fn rows_before(&self, position: Position) -> (u64, u64) {
        let Some(Counted { chunk, before }) = self.chunks.get(position.chunk) else { return self.rows };
        let (puts, marks) = chunk.rows_before(position.entry);
        (before.0 + u64::from(puts), before.1 + u64::from(marks))
    }

    /// Replaces the blocks at `positions` by new blocks. Only chunks that change are made anew. A new
    /// chunk has at most `most` entries.
    pub(crate) fn splice(
        &self,
        name: LevelName,
        file: FileSeed,
        positions: Range<Position>,
        blocks: &[(Entry<R>, Filter)],
        most: usize,
    ) -> Splice<R> {
        // All chunks that lose a block are made anew. If blocks are added between two chunks, the chunk
        // before is made anew too. Otherwise each addition would make a small chunk of its own.
        let Range { start, end } = positions;
        let first = if start.entry == 0 { start.chunk.saturating_sub(1) } else { start.chunk };
        let last = (end.chunk + usize::from(end.entry > 0)).max(first);
        let kept_before = (first..=start.chunk).flat_map(|chunk| {
            let count = if chunk == start.chunk { start.entry } else { usize::MAX };
            self.filtered(chunk).take(count)
        });
        let kept_after = (end.chunk..last).flat_map(|chunk| {
            let count = if chunk == end.chunk { end.entry } else { 0 };
            self.filtered(chunk).skip(count)
        });
        let blocks = blocks.iter().map(|(entry, filter)| (entry.clone(), filter.lines()));
        let all: Vec<Filtered<'_, R>> = kept_before.chain(blocks).chain(kept_after).collect();
        let mut written = Vec::new();
        let new = cut(&all, most).into_iter().map(|part| {
            let (chunk, last, bytes) = Chunk::new(name, file, part);
            written.push((last, bytes));
            Arc::new(chunk)
        });
        let shared = |chunks: Range<usize>| self.chunks[chunks].iter().map(|it| it.chunk.clone());
        let (before, after) = (shared(0..first), shared(last..self.chunks.len()));
        let level = Self::new(before.chain(new).chain(after));
        let removed = self.tops[first..last].iter().map(|top| top.high.number()).collect();
        Splice { level, removed, written }
    }

    /// The entries of a chunk with their filters. Nothing if there is no such chunk.
    fn filtered(&self, chunk: usize) -> impl Iterator<Item = Filtered<'_, R>> {
        self.chunks.get(chunk).into_iter().flat_map(|it| it.chunk.filtered())
    }
}

/// A level after a change, and the stored chunks that change, by their last rows.
#[derive(Debug)]
pub(crate) struct Splice<R> {
    pub(crate) level: Level<R>,
    pub(crate) removed: Vec<u128>,
    pub(crate) written: Vec<(u128, Vec<u8>)>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::blocks::{BlockId, Hint, lines_pass};
    use crate::store::engine::BlockTable;

    static TABLE: BlockTable = BlockTable::new(0, "test", false);
    const NAME: LevelName = LevelName { table: &TABLE, number: 3 };

    fn block(high: u64, spread: u32) -> (Entry<u64>, Filter) {
        let filter = Filter::new(0..high % 300, high as usize % 300, 9);
        let (puts, marks) = ((high % 7) as u16, (high % 3) as u16);
        (
            Entry {
                high: high << spread,
                id: BlockId::new(3, high + 1000),
                checksum: !high,
                puts,
                marks,
                hint: Hint::default(),
            },
            filter,
        )
    }

    proptest! {
        /// A level after any sequence of replacements has the same blocks as a list after them, in memory
        /// and stored.
        #[test]
        fn a_level_is_the_list_that_its_replacements_leave(
            replacements in prop::collection::vec((0..300u64, 0..100u64, 0..40usize), 0..40),
            most in 2..9usize, spread in 0..55u32,
        ) {
            let mut level = Level::<u64>::empty();
            let mut list: Vec<u64> = Vec::new();
            let mut stored = BTreeMap::new();
            for (low, length, count) in replacements {
                let high = low + length;
                let positions = level.find(low << spread)..level.find(high << spread);
                let new: Vec<u64> = (low..high).take(count).collect();
                let blocks: Vec<_> = new.iter().map(|&it| block(it, spread)).collect();
                let splice = level.splice(NAME, FileSeed::NONE, positions, &blocks, most);
                list.retain(|it| !(low..high).contains(it));
                list.extend(new);
                list.sort_unstable();
                for key in &splice.removed {
                    prop_assert!(stored.remove(key).is_some());
                }
                for (key, bytes) in splice.written {
                    prop_assert!(stored.insert(key, bytes).is_none());
                }
                level = splice.level;
            }
            let decode = |last, bytes: &[u8]| Chunk::decode(NAME, last, FileSeed::NONE, u64::MAX, bytes);
            let chunks = stored.iter().map(|(&last, bytes)| decode(last, bytes).map(Arc::new));
            let read = Level::new(chunks.collect::<Result<Vec<_>, _>>().map_err(TestCaseError::fail)?);
            prop_assert_eq!(read.sum(), level.sum());
            let right: Vec<_> = list.iter().map(|&it| block(it, spread)).collect();
            for level in [&level, &read] {
                let found: Vec<_> = level.entries(level.all()).cloned().collect();
                prop_assert_eq!(found, right.iter().map(|it| it.0.clone()).collect::<Vec<_>>());
                prop_assert_eq!(level.blocks(), right.len());
                prop_assert_eq!(level.last(), right.last().map(|it| &it.0));
                for row in (0..420).map(|row| row << spread) {
                    let position = level.find(row);
                    let before = right.iter().filter(|it| it.0.high < row);
                    let last_before = level.before(position).and_then(|it| level.entry(it));
                    prop_assert_eq!(last_before, before.clone().next_back().map(|it| &it.0));
                    prop_assert_eq!(level.entries(level.all().start..position).count(), before.clone().count());
                    let rank = before.clone().count();
                    prop_assert_eq!(level.after(level.all().start, rank), position);
                    prop_assert_eq!(level.entry(level.after(position, 3)), right.get(rank + 3).map(|it| &it.0));
                    let add = |sum: (u64, u64), it: &Entry<u64>| {
                        (sum.0 + u64::from(it.puts), sum.1 + u64::from(it.marks))
                    };
                    let sums = before.fold((0, 0), |sum, it| add(sum, &it.0));
                    prop_assert_eq!(level.rows_before(position), sums);
                    prop_assert_eq!(level.entry(position), right.get(rank).map(|it| &it.0));
                    let passes = right.get(rank).is_some_and(|it| lines_pass(it.1.lines(), row));
                    prop_assert_eq!(level.passes(row), passes);
                }
            }
        }
    }
}
