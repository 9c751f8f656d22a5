//! What changes of a stored directory when blocks of a level are replaced by others, and the directory of a level
//! that is written from its beginning to its end.

use std::cmp::Ordering;
use std::ops::Range;

use super::directory::{Chunk, Listed, NewBlock, cut};
use super::level::{Level, Position};
use super::summary::{self, Outline, most_outlines};
use crate::error::Result;
use crate::store::blocks::{FileSeed, Row, SetBlocks, share_of_sum};
use crate::store::engine::{LevelChange, LevelName};

impl<R: Row> Level<R> {
    /// Replaces the blocks at `positions` by new blocks, and adds to `change` what changes of the stored directory.
    /// Only chunks and summaries that change are made anew. A new chunk has at most `most` entries, and a new
    /// summary at most `most` outlines.
    pub(crate) fn splice(
        &self,
        positions: Range<Position>,
        new: &[NewBlock<R>],
        most: usize,
        blocks: SetBlocks<'_>,
        change: &mut LevelChange,
    ) -> Result<Self> {
        // All chunks that lose a block are made anew. If blocks are added between two chunks, the chunk
        // before is made anew too. Otherwise each addition would make a small chunk of its own.
        let Range { start, end } = positions;
        let mut first = start.chunk;
        if start.entry == 0 {
            first = first.saturating_sub(1);
        }
        let last = (end.chunk + usize::from(end.entry > 0)).max(first);
        let changed_end = last.max(start.chunk + 1).min(self.end().chunk);
        let mut changed = Vec::new();
        for chunk in first..changed_end {
            changed.push(self.chunk(chunk, blocks)?);
        }
        let mut all: Vec<Listed<'_, R>> = Vec::new();
        for (chunk, old) in (first..).zip(&changed) {
            match chunk.cmp(&start.chunk) {
                Ordering::Less => all.extend(old.listed()),
                Ordering::Equal => all.extend(old.listed().take(start.entry)),
                Ordering::Greater => break,
            }
        }
        all.extend(new.iter().map(Listed::from));
        // Of the chunk in which the replaced blocks end, the others stay.
        if end.chunk < last
            && let Some(old) = changed.get(end.chunk - first)
        {
            all.extend(old.listed().skip(end.entry));
        }
        let mut chunks = Vec::new();
        for part in cut(&all, most) {
            let (chunk, last, bytes) = Chunk::new(change.level, blocks.file(), part);
            change.chunks.written.push((last, bytes));
            chunks.push(chunk);
        }
        for old in (first..last).map_while(|chunk| self.outline(chunk)) {
            change.chunks.removed.push(old.high.number());
        }
        let mut level = self.with_chunks(first..last, chunks);
        let most = most.min(most_outlines(change.level));
        level.summaries = self.summarized(first..last, &level, most, blocks.file(), change);
        Ok(level)
    }

    /// The summaries of `now`, which has other chunks in the place of `old`. Those that change are made anew. A new
    /// one has at most `most` outlines.
    fn summarized(
        &self,
        old: Range<usize>,
        now: &Self,
        most: usize,
        file: FileSeed,
        change: &mut LevelChange,
    ) -> Summaries {
        // The last chunk is in no summary, neither before nor now.
        let listed_before = self.end().chunk.saturating_sub(1);
        let listed = now.end().chunk.saturating_sub(1);
        let first = old.start.min(listed_before).min(listed);
        let end_before = old.end.min(listed_before).max(first);
        let end = listed - (listed_before - end_before);
        let before = &self.summaries.0;
        if first == end_before && first == end {
            return self.summaries.clone();
        }
        let touched = touched(before, &(first..end_before));
        let mut summaries = Summaries(before[..touched.start].to_vec());
        let first = summaries.chunks();
        let touched_end = before[touched.clone()]
            .last()
            .map_or(first, |last| last.end);
        let end = touched_end - end_before + end;
        let outlines = (first..end).map_while(|chunk| now.outline(chunk));
        let outlines: Vec<Outline<R>> = outlines.copied().collect();
        for part in cut_outlines(&outlines, end == listed, most) {
            summaries.write(part, file, change);
        }
        for summary in &before[touched.clone()] {
            let last = self.outline(summary.end - 1);
            change
                .summaries
                .removed
                .extend(last.map(|last| last.high.number()));
        }
        for summary in &before[touched.end..] {
            summaries.0.push(Stored {
                end: summary.end + listed - listed_before,
                share: summary.share,
            });
        }
        summaries
    }
}

/// The stored summaries of a level, in order. The last chunk of a level is in none.
#[derive(Clone, Debug, Default)]
pub(super) struct Summaries(Vec<Stored>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    /// The number of chunks up to its last one, those of the summaries before it too.
    end: usize,
    /// Its part in the sum of its level: its checksum and one.
    share: u64,
}

impl Summaries {
    /// Adds a stored summary of so many chunks.
    pub(super) fn push(&mut self, chunks: usize, bytes: &[u8]) {
        self.0.push(Stored {
            end: self.chunks() + chunks,
            share: share_of_sum([bytes]),
        });
    }

    /// Adds a new summary of these outlines, also to the change of the level.
    fn write<R: Row>(&mut self, outlines: &[Outline<R>], file: FileSeed, change: &mut LevelChange) {
        let (last, bytes) = summary::encode(change.level, file, outlines);
        self.push(outlines.len(), &bytes);
        change.summaries.written.push((last, bytes));
    }

    /// The number of chunks that are in a summary.
    fn chunks(&self) -> usize {
        self.0.last().map_or(0, |last| last.end)
    }

    /// The checksums of all summaries and the number of summaries, added up.
    pub(super) fn sum(&self) -> u64 {
        let mut sum = 0u64;
        for summary in &self.0 {
            sum = sum.wrapping_add(summary.share);
        }
        sum
    }

    /// Whether a summary ends with the last of so many chunks.
    pub(super) fn end_at(&self, chunks: usize) -> bool {
        let found = self.0.binary_search_by_key(&chunks, |summary| summary.end);
        found.is_ok()
    }
}

/// Cuts the outlines of some summaries of a level anew. At the end of a level, where most are added, each
/// summary but the last is full. Elsewhere all are of about equal length. None has more than `most` outlines.
fn cut_outlines<R>(
    outlines: &[Outline<R>],
    at_end: bool,
    most: usize,
) -> std::slice::Chunks<'_, Outline<R>> {
    let parts = outlines.len().div_ceil(most).max(1);
    let even = outlines.len().div_ceil(parts).max(1);
    outlines.chunks(if at_end { most } else { even })
}

/// The indexes of the stored summaries that have one of these chunks. If there is no chunk in the range, that
/// of the chunk before.
fn touched(stored: &[Stored], chunks: &Range<usize>) -> Range<usize> {
    let mut first = chunks.start;
    if chunks.is_empty() {
        first = first.saturating_sub(1).max(chunks.end.saturating_sub(1));
    }
    let last = chunks.end.saturating_sub(1).max(first);
    let end = (summary_of(stored, last) + 1).min(stored.len());
    summary_of(stored, first).min(end)..end
}

/// The index of the summary that has a chunk.
fn summary_of(stored: &[Stored], chunk: usize) -> usize {
    stored.partition_point(|summary| summary.end <= chunk)
}

/// The entries that are cut into chunks at a time.
const ENTRIES_AT_A_TIME: usize = 1 << 12;

/// The directory of a level that is written with its blocks, and not kept in memory.
pub(crate) struct DirectoryWriter<R> {
    pub(crate) level: LevelName,
    file: FileSeed,
    /// The most entries of a chunk.
    most: usize,
    /// Entries that are in no chunk yet.
    waiting: Vec<NewBlock<R>>,
    /// The outlines of chunks that are in no summary yet.
    outlines: Vec<Outline<R>>,
    summaries: Summaries,
}

impl<R: Row> DirectoryWriter<R> {
    /// The directory of a level in the file of a seed. A chunk has at most `most` entries.
    pub(crate) fn new(level: LevelName, file: FileSeed, most: usize) -> Self {
        Self {
            level,
            file,
            most,
            waiting: Vec::new(),
            outlines: Vec::new(),
            summaries: Summaries::default(),
        }
    }

    /// Adds a block behind those before. When many wait, adds their chunks to `change`.
    pub(crate) fn push(&mut self, block: NewBlock<R>, change: &mut LevelChange) {
        self.waiting.push(block);
        if self.waiting.len() >= ENTRIES_AT_A_TIME {
            self.write_waiting(change);
        }
    }

    fn write_waiting(&mut self, change: &mut LevelChange) {
        let listed: Vec<_> = self.waiting.iter().map(Listed::from).collect();
        for part in cut(&listed, self.most) {
            let (chunk, last, bytes) = Chunk::new(self.level, self.file, part);
            self.outlines.push(chunk.outline());
            change.chunks.written.push((last, bytes));
        }
        self.waiting.clear();
        // The last chunk of the level is in no summary.
        let most = most_outlines(self.level);
        let full = self.outlines.len().saturating_sub(1) / most * most;
        self.summarize(full, change);
    }

    /// Makes the first outlines into summaries.
    fn summarize(&mut self, outlines: usize, change: &mut LevelChange) {
        let summarized: Vec<_> = self.outlines.drain(..outlines).collect();
        for part in summarized.chunks(most_outlines(self.level)) {
            self.summaries.write(part, self.file, change);
        }
    }

    /// Adds the rest to `change`. Returns the level, of which only what the state record has is known, or `None` if it
    /// has no blocks.
    pub(crate) fn finish(mut self, change: &mut LevelChange) -> Option<Level<R>> {
        self.write_waiting(change);
        let last = self.outlines.pop()?;
        self.summarize(self.outlines.len(), change);
        Some(Level::unread(self.level.number, vec![last], self.summaries))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;
    use crate::store::blocks::{BlockId, Entry, Extent, Filter, Hint, MemoryBlocks, lines_pass};
    use crate::store::engine::{BlockTable, Replaced};

    static TABLE: BlockTable = BlockTable::new(0, "test", false).with_extents();
    const NAME: LevelName = LevelName {
        table: &TABLE,
        number: 3,
    };

    /// Times that grow, but for every tenth block.
    fn extent(high: u64) -> Extent {
        let least_seen = if high % 10 == 3 {
            -(high as i64)
        } else {
            high as i64
        };
        Extent {
            least_seen,
            greatest_seen: least_seen + 20,
            unposted: 1 << (high % 64),
        }
    }

    fn block(high: u64, spread: u32) -> NewBlock<u64> {
        let filter = Filter::new(0..high % 300, high as usize % 300, 9);
        let (puts, marks) = ((high % 7) as u16, (high % 3) as u16);
        let entry = Entry {
            high: high << spread,
            id: BlockId::new(3, high + 1000),
            checksum: !high,
            puts,
            marks,
            hint: Hint::default(),
        };
        NewBlock {
            entry,
            filter,
            extent: Some(extent(high)),
        }
    }

    #[test]
    fn changed_chunks_are_in_the_summaries_that_are_told() {
        let stored: Vec<Stored> = [3, 5, 9].map(|end| Stored { end, share: 0 }).into();
        for (chunks, right) in [
            (0..1, 0..1),
            (2..3, 0..1),
            (2..4, 0..2),
            (3..9, 1..3),
            (3..3, 0..1),
            (0..0, 0..1),
            (9..9, 2..3),
        ] {
            assert_eq!(touched(&stored, &chunks), right, "{chunks:?}");
        }
        assert_eq!(touched(&[], &(0..0)), 0..0);
    }

    /// A level as it is after opening a file: no chunk is read yet.
    fn reopened(summaries: &BTreeMap<u128, Vec<u8>>, level: &Level<u64>) -> Level<u64> {
        let summaries: Vec<_> = summaries.clone().into_iter().collect();
        super::super::tests::reopened(NAME, FileSeed(7), &summaries, level)
    }

    proptest! {
        /// A level after any sequence of replacements has the same blocks as a list after them, in memory
        /// and stored. Some replacements find the level as it is after opening a file.
        #[test]
        fn a_level_is_the_list_that_its_replacements_leave(
            replacements in prop::collection::vec((0..300u64, 0..100u64, 0..40usize, any::<bool>()), 0..40),
            most in 2..9usize, spread in 0..55u32,
        ) {
            let memory = MemoryBlocks::default();
            let blocks = memory.blocks();
            let of = blocks.of_table(&TABLE);
            let mut level = Level::<u64>::empty(NAME.number);
            let mut list: Vec<u64> = Vec::new();
            let mut summaries = BTreeMap::new();
            for (low, length, count, reopens) in replacements {
                let high = low + length;
                let positions = level.find(low << spread, of)?..level.find(high << spread, of)?;
                let new: Vec<u64> = (low..high).take(count).collect();
                let added: Vec<_> = new.iter().map(|&it| block(it, spread)).collect();
                let mut change = LevelChange::none(NAME);
                level = level.splice(positions, &added, most, of, &mut change)?;
                list.retain(|it| !(low..high).contains(it));
                list.extend(new);
                list.sort_unstable();
                memory.replace_chunks(NAME, change.chunks);
                for key in &change.summaries.removed {
                    prop_assert!(summaries.remove(key).is_some());
                }
                for (key, bytes) in change.summaries.written {
                    prop_assert!(summaries.insert(key, bytes).is_none());
                }
                prop_assert!(summaries.keys().all(|&last| level.ends_at(last as u64) == (true, true)));
                if reopens {
                    level = reopened(&summaries, &level);
                }
            }
            let read = reopened(&summaries, &level);
            prop_assert_eq!(read.summaries.sum(), level.summaries.sum());
            let right: Vec<_> = list.iter().map(|&it| block(it, spread)).collect();
            for row in (0..420).map(|row| row << spread) {
                let level = reopened(&summaries, &level);
                let passes = right.iter().find(|it| it.entry.high >= row);
                let passes = passes.is_some_and(|it| lines_pass(it.filter.lines(), row));
                prop_assert_eq!(level.passes(row, of)?, passes);
            }
            for level in [&level, &read] {
                prop_assert_eq!(level.blocks(), right.len());
                prop_assert_eq!(level.high(), right.last().map(|it| it.entry.high));
                for row in (0..420).map(|row| row << spread) {
                    let position = level.find(row, of)?;
                    let before = right.iter().filter(|it| it.entry.high < row);
                    let last_before = level.entry_before(position, of)?;
                    prop_assert_eq!(last_before, before.clone().next_back().map(|it| &it.entry));
                    let entries = level.entries(level.all().start..position, of)?;
                    prop_assert_eq!(entries.count(), before.clone().count());
                    let rank = before.clone().count();
                    prop_assert_eq!(level.after(level.all().start, rank), position);
                    let third = level.entry(level.after(position, 3), of)?;
                    prop_assert_eq!(third, right.get(rank + 3).map(|it| &it.entry));
                    let add = |sum: (u64, u64), it: &Entry<u64>| {
                        (sum.0 + u64::from(it.puts), sum.1 + u64::from(it.marks))
                    };
                    let sums = before.fold((0, 0), |sum, it| add(sum, &it.entry));
                    prop_assert_eq!(level.rows_before(position, of)?, sums);
                    prop_assert_eq!(level.entry(position, of)?, right.get(rank).map(|it| &it.entry));
                }
                prop_assert_eq!(level.entry_before(level.end(), of)?, right.last().map(|it| &it.entry));
                for since in (-310..330).step_by(13) {
                    let may = |it: &&NewBlock<u64>| it.extent.is_some_and(|it| it.greatest_seen >= since);
                    let first = right.iter().position(|it| may(&it));
                    let from = |index: usize| index.checked_sub(1).map_or(0, |it| right[it].entry.high + 1);
                    prop_assert_eq!(level.first_since(since, of)?, first.map(from));
                    for row in (0..420).step_by(11).map(|row| row << spread) {
                        let reaching = right.iter().position(|it| it.entry.high >= row);
                        let reaching = reaching.map_or(right.len(), |it| it + 1);
                        let last = right[..reaching].iter().rfind(may);
                        let last = last.map(|it| it.entry.high.min(row));
                        prop_assert_eq!(level.last_since(row, since, of)?, last);
                        let position = level.find(row, of)?;
                        let next = level.next_wanted(position, |it| it.least_seen < since, of)?;
                        let wanted = |it: &&NewBlock<u64>| it.extent.is_some_and(|it| it.least_seen < since);
                        let next_right = right.iter().filter(|it| it.entry.high >= row).find(wanted);
                        prop_assert_eq!(level.entry(next, of)?, next_right.map(|it| &it.entry));
                        prop_assert_eq!(level.extent(next, of)?, next_right.and_then(|it| it.extent));
                    }
                }
                let found: Vec<_> = level.entries(level.all(), of)?.cloned().collect();
                prop_assert_eq!(found, right.iter().map(|it| it.entry.clone()).collect::<Vec<_>>());
            }
        }
    }

    /// A chunk that was lost, or that is older than its summary, was found only when the whole directory was
    /// read. Now it is found where a row is looked for in it, and nowhere else.
    #[test]
    fn a_lost_or_old_chunk_is_an_error_where_it_is_needed() -> Result<()> {
        for lose in [true, false] {
            let memory = MemoryBlocks::default();
            let blocks = memory.blocks();
            let of = blocks.of_table(&TABLE);
            let added: Vec<_> = (0..40).map(|it| block(it, 4)).collect();
            let empty = Level::<u64>::empty(NAME.number);
            let mut change = LevelChange::none(NAME);
            let level = empty.splice(empty.all(), &added, 8, of, &mut change)?;
            let old = change.chunks.written[1].clone();
            memory.replace_chunks(NAME, change.chunks);
            // The blocks of the second chunk get other checksums.
            let first = level.find(8 << 4, of)?;
            let last = level.find(16 << 4, of)?;
            let mut other: Vec<_> = (8..16).map(|it| block(it, 4)).collect();
            other.iter_mut().for_each(|it| it.entry.checksum ^= 1);
            let mut change = LevelChange::none(NAME);
            let level = level.splice(first..last, &other, 8, of, &mut change)?;
            memory.replace_chunks(NAME, change.chunks);
            let summaries = change.summaries.written.into_iter().collect();
            let level = reopened(&summaries, &level);
            memory.replace_chunks(
                NAME,
                Replaced {
                    removed: vec![old.0],
                    written: Vec::new(),
                },
            );
            if !lose {
                memory.replace_chunks(
                    NAME,
                    Replaced {
                        removed: Vec::new(),
                        written: vec![old],
                    },
                );
            }
            assert!(level.find(3 << 4, of).is_ok() && level.find(30 << 4, of).is_ok());
            for _ in 0..2 {
                let found = level.find(9 << 4, of);
                assert!(
                    matches!(
                        found,
                        Err(Error::Damaged {
                            table: "directory",
                            ..
                        })
                    ),
                    "{found:?}"
                );
                assert!(level.entries(level.all(), of).is_err() && level.read_all(of).is_err());
            }
        }
        Ok(())
    }
}
