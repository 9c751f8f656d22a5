//! Splicing: a level with some blocks replaced by others, and what changes of its stored directory.

use std::cmp::Ordering;
use std::ops::Range;

use super::directory::{Chunk, Listed, NewBlock, cut};
use super::level::{Level, Position};
use super::shared_list::SharedList;
use super::slot::Fence;
use super::slot::Slot;
use super::summary::{self, Outline, Stored, most_outlines};
use crate::error::Result;
use crate::store::blocks::{FileSeed, Row, SetBlocks, share_of_sum};
use crate::store::engine::{LevelName, Replaced};
use crate::store::lookup::Prefixes;

impl<R: Row> Level<R> {
    /// Replaces the blocks at `positions` by new blocks. Only chunks and summaries that change are made anew.
    /// A new chunk has at most `most` entries, and a new summary at most `most` outlines.
    pub(crate) fn splice(
        &self,
        name: LevelName,
        positions: Range<Position>,
        new: &[NewBlock<R>],
        most: usize,
        blocks: SetBlocks<'_>,
    ) -> Result<Splice<R>> {
        let file = blocks.file();
        // All chunks that lose a block are made anew. If blocks are added between two chunks, the chunk
        // before is made anew too. Otherwise each addition would make a small chunk of its own.
        let Range { start, end } = positions;
        let first = if start.entry == 0 {
            start.chunk.saturating_sub(1)
        } else {
            start.chunk
        };
        let last = (end.chunk + usize::from(end.entry > 0)).max(first);
        let changed = first..last.max(start.chunk + 1).min(self.slots.len());
        let changed: Vec<_> = changed
            .map(|chunk| self.chunk(chunk, blocks))
            .collect::<Result<_>>()?;
        let mut all: Vec<Listed<'_, R>> = Vec::new();
        for (chunk, old) in (first..).zip(&changed) {
            match chunk.cmp(&start.chunk) {
                Ordering::Less => all.extend(old.listed()),
                Ordering::Equal => all.extend(old.listed().take(start.entry)),
                Ordering::Greater => break,
            }
        }
        all.extend(new.iter().map(NewBlock::listed));
        // Of the chunk in which the replaced blocks end, the others stay.
        if end.chunk < last
            && let Some(old) = changed.get(end.chunk - first)
        {
            all.extend(old.listed().skip(end.entry));
        }
        let mut chunks = Replaced::default();
        let mut slots = Vec::new();
        for part in cut(&all, most) {
            let (chunk, last, bytes) = Chunk::new(name, file, part);
            chunks.written.push((last, bytes));
            slots.push(Slot::new(chunk));
        }
        for high in &self.highs[first..last] {
            chunks.removed.push(high.number());
        }
        Ok(self.with_slots(
            name,
            file,
            first..last,
            slots,
            chunks,
            most.min(most_outlines(name)),
        ))
    }

    /// Replaces chunks by new ones, and makes the summaries that change anew. A new summary has at most `most`
    /// outlines.
    fn with_slots(
        &self,
        name: LevelName,
        file: FileSeed,
        old: Range<usize>,
        new: Vec<Slot<R>>,
        chunks: Replaced,
        most: usize,
    ) -> Splice<R> {
        let before = self.slots.len();
        let mut level = self.with_chunks(old.clone(), new, self.summaries.clone());
        level.number = name.number;
        // The last chunk is in no summary, neither before nor now.
        let listed_before = before.saturating_sub(1);
        let listed = level.slots.len().saturating_sub(1);
        let first = old.start.min(listed_before).min(listed);
        let end_before = old.end.min(listed_before).max(first);
        let end = listed - (listed_before - end_before);
        let mut summaries = Replaced::default();
        if first == end_before && first == end {
            return Splice {
                level,
                chunks,
                summaries,
            };
        }
        let touched = summary::touched(&self.summaries, &(first..end_before));
        let first = self.chunks_before(touched.start);
        let end = self.chunks_before(touched.end) - end_before + end;
        let slots = level.slots.range(first..end);
        let outlines: Vec<Outline<R>> = slots.map(|slot| slot.outline).collect();
        let mut stored = self.summaries[..touched.start].to_vec();
        let mut next = first;
        for part in summary::cut(&outlines, end == listed, most) {
            let (last, bytes) = summary::encode(name, file, part);
            next += part.len();
            stored.push(Stored {
                end: next,
                share: share_of_sum([bytes.as_slice()]),
            });
            summaries.written.push((last, bytes));
        }
        for summary in &self.summaries[touched.clone()] {
            let last = self.highs[summary.end - 1];
            summaries.removed.push(last.number());
        }
        for summary in &self.summaries[touched.end..] {
            stored.push(Stored {
                end: summary.end + listed - listed_before,
                share: summary.share,
            });
        }
        level.summaries = stored;
        Splice {
            level,
            chunks,
            summaries,
        }
    }

    /// The number of chunks in the summaries before one.
    fn chunks_before(&self, summary: usize) -> usize {
        match summary.checked_sub(1) {
            Some(before) => self.summaries[before].end,
            None => 0,
        }
    }

    /// The fences of the chunks, with others in the place of those of a range.
    fn fences_with(&self, old: &Range<usize>, new: &[Slot<R>]) -> SharedList<Fence> {
        let is_filtered = !self.fences.is_empty() || new.iter().any(|slot| slot.outline.lines > 0);
        if !is_filtered {
            return SharedList::empty();
        }
        if self.fences.len() == self.slots.len() {
            return self.fences.splice(old.clone(), new.iter().map(Slot::fence));
        }
        // So far no block of the level had a filter.
        let head = self.slots.range(0..old.start);
        let tail = self.slots.range(old.end..self.slots.len());
        let slots = head.chain(new).chain(tail);
        SharedList::empty().splice(0..0, slots.map(Slot::fence))
    }

    /// The greatest times up to each chunk, with other chunks in the place of those of a range. None in sets without
    /// extents.
    fn latest_with(&self, old: &Range<usize>, new: &[Slot<R>]) -> Vec<i64> {
        let has_extents = new.iter().any(|slot| slot.outline.extent.is_some());
        if self.latest.is_empty() && !has_extents {
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

    /// The level with other chunks in the place of those of a range, and other summaries. It shares with this one
    /// what stays.
    pub(super) fn with_chunks(
        &self,
        old: Range<usize>,
        new: Vec<Slot<R>>,
        summaries: Vec<Stored>,
    ) -> Self {
        let mut rows = self.before.get(old.start).copied().unwrap_or(self.rows);
        let mut before = self.before[..old.start].to_vec();
        let mut blocks = self.blocks;
        let mut memory_bytes = self.memory_bytes;
        for slot in self.slots.range(old.clone()) {
            blocks -= usize::from(slot.outline.blocks);
            memory_bytes -= slot.memory_bytes();
        }
        for slot in &new {
            before.push(rows);
            rows.0 += u64::from(slot.outline.rows.0);
            rows.1 += u64::from(slot.outline.rows.1);
            blocks += usize::from(slot.outline.blocks);
            memory_bytes += slot.memory_bytes();
        }
        // The rows of the chunks behind come after others now.
        let gone = self.before.get(old.end).copied().unwrap_or(self.rows);
        for (puts, marks) in &self.before[old.end..] {
            before.push((rows.0 + puts - gone.0, rows.1 + marks - gone.1));
        }
        let rows = (rows.0 + self.rows.0 - gone.0, rows.1 + self.rows.1 - gone.1);
        let latest = self.latest_with(&old, &new);
        let tops = self.tops.splice(old.clone(), new.iter().map(Slot::top));
        let fences = self.fences_with(&old, &new);
        let mut highs = self.highs.clone();
        highs.splice(old.clone(), new.iter().map(|slot| slot.outline.high));
        let prefixes = Prefixes::new(highs.iter().map(|high| high.prefix()), 1);
        let slots = self.slots.splice(old, new);
        Self {
            number: self.number,
            tops,
            slots,
            fences,
            before,
            highs,
            prefixes,
            latest,
            summaries,
            blocks,
            rows,
            memory_bytes,
        }
    }
}

/// A level after a change, and what changes of its stored directory.
#[derive(Debug)]
pub(crate) struct Splice<R> {
    pub(crate) level: Level<R>,
    pub(crate) chunks: Replaced,
    pub(crate) summaries: Replaced,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;
    use crate::store::blocks::{BlockId, Entry, Extent, Filter, Hint, MemoryBlocks, lines_pass};
    use crate::store::engine::BlockTable;

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

    /// A level as it is after opening a file: no chunk is read yet.
    fn reopened(summaries: &BTreeMap<u128, Vec<u8>>, last: Option<Outline<u64>>) -> Level<u64> {
        let read = |(&last, bytes): (&u128, &Vec<u8>)| {
            let outlines =
                summary::decode(NAME, last, FileSeed(7), bytes).expect("it was just written");
            (outlines, share_of_sum([bytes.as_slice()]))
        };
        Level::stored(NAME.number, summaries.iter().map(read), last)
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
            let mut level = Level::<u64>::empty();
            let mut list: Vec<u64> = Vec::new();
            let mut summaries = BTreeMap::new();
            for (low, length, count, reopens) in replacements {
                let high = low + length;
                let positions = level.find(low << spread, of)?..level.find(high << spread, of)?;
                let new: Vec<u64> = (low..high).take(count).collect();
                let added: Vec<_> = new.iter().map(|&it| block(it, spread)).collect();
                let splice = level.splice(NAME, positions, &added, most, of)?;
                list.retain(|it| !(low..high).contains(it));
                list.extend(new);
                list.sort_unstable();
                memory.replace_chunks(NAME, splice.chunks);
                for key in &splice.summaries.removed {
                    prop_assert!(summaries.remove(key).is_some());
                }
                for (key, bytes) in splice.summaries.written {
                    prop_assert!(summaries.insert(key, bytes).is_none());
                }
                level = splice.level;
                prop_assert!(summaries.keys().all(|&last| level.has_summary(last as u64)));
                if reopens {
                    level = reopened(&summaries, level.last_chunk());
                }
            }
            let read = reopened(&summaries, level.last_chunk());
            prop_assert_eq!(read.sum(), level.sum());
            let right: Vec<_> = list.iter().map(|&it| block(it, spread)).collect();
            for row in (0..420).map(|row| row << spread) {
                let level = reopened(&summaries, level.last_chunk());
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
                    let last_before = level.before(position).map(|it| level.entry(it, of)).transpose()?;
                    prop_assert_eq!(last_before.flatten(), before.clone().next_back().map(|it| &it.entry));
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
                prop_assert_eq!(level.last(of)?, right.last().map(|it| &it.entry));
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
            let empty = Level::<u64>::empty();
            let splice = empty.splice(NAME, empty.all(), &added, 8, of)?;
            let old = splice.chunks.written[1].clone();
            memory.replace_chunks(NAME, splice.chunks);
            // The blocks of the second chunk get other checksums.
            let (first, last) = (
                splice.level.find(8 << 4, of)?,
                splice.level.find(16 << 4, of)?,
            );
            let mut other: Vec<_> = (8..16).map(|it| block(it, 4)).collect();
            other.iter_mut().for_each(|it| it.entry.checksum ^= 1);
            let splice = splice.level.splice(NAME, first..last, &other, 8, of)?;
            memory.replace_chunks(NAME, splice.chunks);
            let level = reopened(
                &splice.summaries.written.into_iter().collect(),
                splice.level.last_chunk(),
            );
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
