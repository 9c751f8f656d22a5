//! Splicing: a level with some blocks replaced by others, and what changes of its stored directory.

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
        let entries_of = |chunk: usize| {
            changed
                .get(chunk - first)
                .into_iter()
                .flat_map(|it| it.listed())
        };
        let kept_before = (first..=start.chunk).flat_map(|chunk| {
            let count = if chunk == start.chunk {
                start.entry
            } else {
                usize::MAX
            };
            entries_of(chunk).take(count)
        });
        let kept_after = (end.chunk..last).flat_map(|chunk| {
            let count = if chunk == end.chunk { end.entry } else { 0 };
            entries_of(chunk).skip(count)
        });
        let all: Vec<Listed<'_, R>> = kept_before
            .chain(new.iter().map(NewBlock::listed))
            .chain(kept_after)
            .collect();
        let mut chunks = Replaced::default();
        let new: Vec<Slot<R>> = cut(&all, most)
            .into_iter()
            .map(|part| {
                let (chunk, last, bytes) = Chunk::new(name, file, part);
                chunks.written.push((last, bytes));
                Slot::of(chunk)
            })
            .collect();
        chunks.removed = self.highs[first..last]
            .iter()
            .map(|high| high.number())
            .collect();
        Ok(self.with_slots(
            name,
            file,
            first..last,
            new,
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
        let (listed_before, listed) = (
            before.saturating_sub(1),
            level.slots.len().saturating_sub(1),
        );
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
        let end_of = |summary: usize| {
            summary
                .checked_sub(1)
                .map_or(0, |before| self.summaries[before].end)
        };
        let (first, end) = (
            end_of(touched.start),
            end_of(touched.end) - end_before + end,
        );
        let outlines: Vec<Outline<R>> = level
            .slots
            .range(first..end)
            .map(|slot| slot.outline)
            .collect();
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
        let last_of = |summary: &Stored| self.highs[summary.end - 1].number();
        summaries.removed = self.summaries[touched.clone()]
            .iter()
            .map(last_of)
            .collect();
        let behind = self.summaries[touched.end..].iter();
        stored.extend(behind.map(|it| Stored {
            end: it.end + listed - listed_before,
            ..*it
        }));
        level.summaries = stored;
        Splice {
            level,
            chunks,
            summaries,
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
        let (head, tail) = (
            self.slots.range(0..old.start),
            self.slots.range(old.end..self.slots.len()),
        );
        SharedList::empty().splice(0..0, head.chain(new).chain(tail).map(Slot::fence))
    }

    /// The level with other chunks in the place of those of a range, and other summaries. It shares with this one
    /// what stays.
    pub(super) fn with_chunks(
        &self,
        old: Range<usize>,
        new: Vec<Slot<R>>,
        summaries: Vec<Stored>,
    ) -> Self {
        let sum = |sum: (u64, u64), (puts, marks)| (sum.0 + puts, sum.1 + marks);
        let mut rows = self.before.get(old.start).copied().unwrap_or(self.rows);
        let mut before = self.before[..old.start].to_vec();
        let (mut blocks, mut memory_bytes) = (self.blocks, self.memory_bytes);
        for slot in self.slots.range(old.clone()) {
            blocks -= usize::from(slot.outline.blocks);
            memory_bytes -= slot.memory_bytes();
        }
        for slot in &new {
            before.push(rows);
            let (puts, marks) = slot.outline.rows;
            rows = sum(rows, (puts.into(), marks.into()));
            blocks += usize::from(slot.outline.blocks);
            memory_bytes += slot.memory_bytes();
        }
        let gone = self.before.get(old.end).copied().unwrap_or(self.rows);
        let moved = |&(puts, marks): &(u64, u64)| sum(rows, (puts - gone.0, marks - gone.1));
        before.extend(self.before[old.end..].iter().map(moved));
        let mut latest = self.latest[..old.start.min(self.latest.len())].to_vec();
        let has_extents =
            !self.latest.is_empty() || new.iter().any(|slot| slot.outline.extent.is_some());
        let behind = self.slots.range(
            old.end..if has_extents {
                self.slots.len()
            } else {
                old.end
            },
        );
        for extent in new
            .iter()
            .chain(behind)
            .filter_map(|slot| slot.outline.extent)
        {
            latest.push(
                latest
                    .last()
                    .map_or(extent.greatest_seen, |&it| extent.greatest_seen.max(it)),
            );
        }
        let tops = self.tops.splice(old.clone(), new.iter().map(Slot::top));
        let fences = self.fences_with(&old, &new);
        let head = self.highs[..old.start].iter().copied();
        let highs: Vec<R> = head
            .chain(new.iter().map(|slot| slot.outline.high))
            .chain(self.highs[old.end..].iter().copied())
            .collect();
        let prefixes = Prefixes::new(highs.iter().map(|high| high.prefix()), 1);
        let slots = self.slots.splice(old, new);
        let (number, rows) = (self.number, moved(&self.rows));
        Self {
            number,
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
