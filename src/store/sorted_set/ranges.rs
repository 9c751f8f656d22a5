//! Reading many ranges of sorted sets at once.
//!
//! The plain algorithm: for each range and each level, find the chunk in which the range begins, and give its rows in
//! the range from the segment of the chunk. If that is not in memory, read the blocks of the range. Then give the rows
//! of the runs in memory.
//!
//! The cost of that is waiting for memory: for the segment, for its index, for the rows. So the code departs from the
//! plain algorithm in two ways.
//!
//! First, each step is a short loop of its own over all ranges. It fetches the memory that the next loop
//! reads. So the processor waits for many lines of memory at the same time. It looks ahead by only some
//! hundred instructions. That is why calculations come before a loop that fetches.
//!
//! Second, the ends of a range are not searched. A search has branches that the processor cannot predict.
//! Instead, the rows of a range come with some of their neighbours. Comparing these too costs less.
//!
//! Ranges that come in order need one block in each level. So the blocks that were read last are kept (`LastRead`).

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use sdd::Guard;
use smallvec::SmallVec;

use super::level::Level;
use super::lists::part;
use super::run::IndexedRows;
use super::set::SetLevel;
use super::set_reader::SetReader;
use crate::error::Result;
use crate::metrics::Tally;
use crate::store::blocks::{BlockId, Entry, Lists, Residence, Row, Segment, SetBlocks};
use crate::store::lookup::prefetch;

/// The number of ranges, or of their parts, that are read together.
const TOGETHER: usize = 32;

/// What a call of [`read_ranges`] read.
#[derive(Default)]
pub(crate) struct Reading {
    /// The number of segments and blocks.
    pub(crate) parts: u64,
    /// The number of blocks among them.
    blocks: u64,
    /// The indexes of the ranges with more rows than `most_rows` in some level. Nothing of them was read there.
    pub(crate) too_long: Vec<usize>,
}

/// Whether the rows that sources mark are read too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    Wanted,
    Ignored,
}

/// Reads ranges in all sources of their sets. Calls `each` with the index of a range, and with rows that one
/// source puts and rows that it marks, if marks are wanted.
///
/// `each` gets all rows of the range, and perhaps some of their neighbours. The rows come in no order, and
/// some perhaps more than once. Rows that a newer source marks are among them. If the ranges come in order,
/// each block is read once, even without a cache. If a range has more than `most_rows` rows in a part of a level, they
/// are not read, and the result says so; if the level is not in memory, it is told by the number of blocks. The ranges
/// may be of different sets of one file.
pub(crate) fn read_ranges<'a, R: Row>(
    ranges: impl Iterator<Item = (SetReader<'a, R>, RangeInclusive<R>)>,
    marks: Marks,
    most_rows: usize,
    mut each: impl FnMut(usize, &[R], &[R]),
) -> Result<Reading> {
    let guard = Guard::new();
    let mut together = Together {
        marks,
        most_rows,
        guard: &guard,
        runs: SmallVec::new(),
        levels: SmallVec::new(),
        segments: SmallVec::new(),
        last_read: LastRead::new(),
        reading: Reading::default(),
    };
    let mut cache = None;
    for (index, (reader, range)) in ranges.enumerate() {
        let (first, last) = range.into_inner();
        if let Some(overlay) = reader.overlay {
            let (runs, puts, marks) = overlay.parts();
            for row in puts {
                if (first..=last).contains(row) {
                    each(index, std::slice::from_ref(row), &[]);
                }
            }
            for row in marks {
                if (first..=last).contains(row) {
                    each(index, &[], std::slice::from_ref(row));
                }
            }
            for run in runs {
                let (puts, marks) = run.within(&(first..=last));
                each(index, puts, marks);
            }
        }
        cache = Some(reader.blocks.cache());
        let range = Searched { index, first, last };
        for run in reader.set.runs() {
            together.runs.push(InRun {
                range,
                rows: run.puts(),
                are_puts: true,
            });
            if marks == Marks::Wanted && !run.marks().is_empty() {
                together.runs.push(InRun {
                    range,
                    rows: run.marks(),
                    are_puts: false,
                });
            }
        }
        for SetLevel { level, .. } in &reader.set.levels {
            together.levels.push(InLevel {
                range,
                level,
                chunk: 0,
                residence: None,
                blocks: reader.blocks,
            });
        }
        if together.runs.len() + together.levels.len() >= TOGETHER {
            together.read(&mut each)?;
        }
    }
    together.read(&mut each)?;
    let reading = together.reading;
    // Once for all parts, since a query is over after some of them.
    if let Some(cache) = cache
        && reading.parts > 0
    {
        cache.note_search();
        cache
            .tallies
            .add(Tally::CacheHits, reading.parts - reading.blocks);
        cache.tallies.add(Tally::CacheMisses, reading.blocks);
    }
    Ok(reading)
}

/// The ranges that are read together. The lists are on the stack. To allocate them took a tenth of the time of a
/// query.
struct Together<'a, 'g, R: Row> {
    marks: Marks,
    most_rows: usize,
    /// While it lives, no segment is freed.
    guard: &'g Guard,
    /// Of each run its puts, and its marks if they are wanted.
    runs: SmallVec<[InRun<'a, R>; TOGETHER]>,
    levels: SmallVec<[InLevel<'a, R>; TOGETHER]>,
    segments: SmallVec<[InSegment<'g, R>; TOGETHER]>,
    last_read: LastRead<R>,
    reading: Reading,
}

/// A range, with its index.
#[derive(Clone, Copy)]
struct Searched<R> {
    index: usize,
    first: R,
    last: R,
}

/// A range in the puts or the marks of a run.
struct InRun<'a, R> {
    range: Searched<R>,
    rows: &'a IndexedRows<R>,
    are_puts: bool,
}

/// A range in a level.
#[derive(Clone, Copy)]
struct InLevel<'a, R: Row> {
    range: Searched<R>,
    level: &'a Level<R>,
    /// The chunk in which the range begins, and its residence.
    chunk: usize,
    residence: Option<&'a Residence<R>>,
    blocks: SetBlocks<'a>,
}

/// A range in a segment.
struct InSegment<'g, R> {
    range: Searched<R>,
    segment: &'g Segment<R>,
    /// The indexes of the rows that may be in the range.
    around: Range<usize>,
}

impl<'a, 'g, R: Row> Together<'a, 'g, R> {
    /// Reads all ranges, and leaves none. The steps for the runs are between the steps for the levels.
    fn read(&mut self, each: &mut impl FnMut(usize, &[R], &[R])) -> Result<()> {
        for of in &self.runs {
            of.rows.prefetch_occupied(of.range.first);
        }
        for of in &mut self.levels {
            of.chunk = of.level.chunk_of(of.range.first);
            of.residence = of.level.residence(of.chunk);
            of.residence.map(prefetch);
        }
        self.runs
            .retain(|of| of.rows.may_have(of.range.first, of.range.last));
        for index in 0..self.levels.len() {
            self.read_level(self.levels[index], each)?;
        }
        self.levels.clear();
        for of in &self.runs {
            of.rows.prefetch_index(of.range.first);
        }
        self.read_segments(each);
        for of in self.runs.drain(..) {
            let Searched { index, first, last } = of.range;
            let rows = of.rows.around(&(first..=last));
            match of.are_puts {
                true => each(index, rows, &[]),
                false => each(index, &[], rows),
            }
        }
        Ok(())
    }

    /// Finds the segments of a range of a level. Where a segment is not in memory, the rows are read.
    #[inline]
    fn read_level(
        &mut self,
        of: InLevel<'a, R>,
        each: &mut impl FnMut(usize, &[R], &[R]),
    ) -> Result<()> {
        let mut chunk = of.chunk;
        let mut residence = of.residence;
        while let Some(here) = residence {
            let segment = match here.segment(self.guard) {
                None => of.level.segment_for_block(chunk, of.blocks, self.guard)?,
                segment => segment,
            };
            if let Some(segment) = segment {
                segment.prefetch();
                self.segments.push(InSegment {
                    range: of.range,
                    segment,
                    around: 0..0,
                });
                if self.segments.len() == TOGETHER {
                    self.read_segments(each);
                }
            } else if !self.read_blocks(of, chunk, each)? {
                return Ok(());
            }
            if of.level.high_of(chunk) >= Some(of.range.last) {
                break;
            }
            chunk += 1;
            residence = of.level.residence(chunk);
        }
        Ok(())
    }

    /// Reads the segments, and leaves none. It also fetches the memory of the runs that is read after that.
    fn read_segments(&mut self, each: &mut impl FnMut(usize, &[R], &[R])) {
        for of in &self.segments {
            of.segment.prefetch_index(of.range.first);
        }
        for of in &self.runs {
            of.rows.prefetch_rows(of.range.first);
        }
        for of in &mut self.segments {
            of.around = of.segment.around(&(of.range.first..=of.range.last));
            of.segment.prefetch_rows(&of.around);
        }
        self.reading.parts += self.segments.len() as u64;
        for InSegment {
            range,
            segment,
            around,
        } in self.segments.drain(..)
        {
            let Searched { index, first, last } = range;
            if around.len() > self.most_rows {
                self.reading.too_long.push(index);
                continue;
            }
            let marks = match self.marks {
                Marks::Wanted => part(segment.marks(), &(first..=last)),
                Marks::Ignored => &[],
            };
            each(index, &segment.puts()[around], marks);
        }
    }

    /// Reads the blocks of a chunk that may have rows of a range. False if the range is too long, and nothing is to be
    /// read.
    #[cold]
    fn read_blocks(
        &mut self,
        of: InLevel<'a, R>,
        chunk: usize,
        each: &mut impl FnMut(usize, &[R], &[R]),
    ) -> Result<bool> {
        /// More blocks than this are taken to have too many rows, if there is a limit.
        const FEW_BLOCKS: usize = 2;
        let Searched { index, first, last } = of.range;
        let entries = of.level.entries_from(chunk, first, of.blocks)?;
        if self.most_rows < usize::MAX
            && let Some(entry) = entries.get(FEW_BLOCKS - 1)
            && entry.high < last
        {
            self.reading.too_long.push(index);
            return Ok(false);
        }
        for entry in entries {
            let rows = self.last_read.rows(of.blocks, entry, first, last)?;
            let marks = match self.marks {
                Marks::Wanted => part(&rows.marks, &(first..=last)),
                Marks::Ignored => &[],
            };
            each(index, part(&rows.puts, &(first..=last)), marks);
            self.reading.parts += 1;
            self.reading.blocks += 1;
            if entry.high >= last {
                break;
            }
        }
        Ok(true)
    }
}

/// The most blocks that are kept.
const MOST: usize = 8;

thread_local! {
    /// Memory for the bytes of blocks. It is used again by the next queries of the thread. To allocate it for
    /// each block took a twentieth of the time of a query.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn give_back(bytes: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST {
            spare.push(bytes);
        }
    });
}

/// The blocks that were read last.
struct LastRead<R> {
    blocks: SmallVec<[(BlockId, Form<R>); MOST]>,
    /// The rows of a range of a block whose other rows were not decoded.
    part: Lists<R>,
}

enum Form<R> {
    /// The bytes of a block that one range needed so far.
    Packed(Vec<u8>),
    Decoded(Lists<R>),
}

impl<R: Row> LastRead<R> {
    fn new() -> Self {
        Self {
            blocks: SmallVec::new(),
            part: Lists::default(),
        }
    }

    /// The rows of a block in a range, and perhaps others. If a second range needs the block, more ranges probably do,
    /// and it is decoded whole.
    fn rows(
        &mut self,
        blocks: SetBlocks<'_>,
        entry: &Entry<R>,
        first: R,
        last: R,
    ) -> Result<&Lists<R>> {
        let Some(known) = self.blocks.iter().position(|(id, _)| *id == entry.id) else {
            let mut bytes = self.room();
            blocks.read_bytes(entry, &mut bytes)?;
            blocks.decode_part(entry, &bytes, first, last, &mut self.part)?;
            self.blocks.push((entry.id, Form::Packed(bytes)));
            return Ok(&self.part);
        };
        let (_, form) = &mut self.blocks[known];
        if let Form::Packed(bytes) = form {
            let decoded = Form::Decoded(blocks.decode(entry, bytes)?);
            if let Form::Packed(bytes) = std::mem::replace(form, decoded) {
                give_back(bytes);
            }
        }
        match form {
            Form::Decoded(lists) => Ok(lists),
            Form::Packed(_) => unreachable!("it was decoded above"),
        }
    }

    /// Makes room for a block, and returns memory for its bytes.
    fn room(&mut self) -> Vec<u8> {
        if self.blocks.len() == MOST
            && let (_, Form::Packed(bytes)) = self.blocks.remove(0)
        {
            return bytes;
        }
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }
}

impl<R> Drop for LastRead<R> {
    fn drop(&mut self) {
        for (_, form) in self.blocks.drain(..) {
            if let Form::Packed(bytes) = form {
                give_back(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::blocks::{FileSeed, MemoryBlocks, Packed, Packer};
    use crate::store::engine::{BlockTable, LevelName};

    static TABLE: BlockTable = BlockTable::new(0, "table", false);

    /// For one row of a block, the whole block was decoded.
    #[test]
    fn a_range_is_decoded_alone_and_a_block_is_read_once() -> Result<()> {
        let (memory, level) = (
            MemoryBlocks::default(),
            LevelName {
                table: &TABLE,
                number: 0,
            },
        );
        let mut packer = Packer::new(4080, false, FileSeed(7));
        packer
            .waiting
            .puts
            .extend((0..3_000u64).map(|row| row << 40));
        let mut entries = Vec::new();
        for (
            number,
            Packed {
                bytes,
                checksum,
                high,
                puts,
                marks,
                ..
            },
        ) in packer.finish().into_iter().enumerate()
        {
            let id = BlockId::new(0, number as u64 + 1);
            memory.store(level, high.into(), bytes);
            entries.push(Entry {
                high,
                id,
                checksum,
                puts,
                marks,
            });
        }
        let blocks = memory.blocks();
        let of = blocks.of_table(&TABLE);
        let mut last_read = LastRead::new();
        let rows = last_read.rows(of, &entries[0], 5 << 40, 7 << 40)?;
        assert_eq!(rows.puts, [5 << 40, 6 << 40, 7 << 40]);
        memory.lose((level.id(), entries[0].high.into()));
        let rows = last_read.rows(of, &entries[0], 20 << 40, 20 << 40)?;
        assert_eq!(
            (rows.puts.len(), rows.puts[20]),
            (entries[0].puts.into(), 20 << 40)
        );
        // What is damaged is refused, also for a part.
        memory.damage((level.id(), entries[1].high.into()));
        let (low, high) = (entries[0].high + 1, entries[1].high);
        assert!(last_read.rows(of, &entries[1], low, high).is_err());
        Ok(())
    }
}
