//! Reading many ranges of sorted sets at once.
//!
//! The plain algorithm: for each range and each level, find the blocks of the range in the directory. Get
//! each block from the cache, and give its rows in the range. Then give the rows of the runs in memory.
//!
//! The cost of that is waiting for memory: for the directory, for the slot in the cache, for the rows. So
//! the code departs from the plain algorithm in two ways.
//!
//! First, each step is a short loop of its own over all ranges. It fetches the memory that the next loop
//! reads. So the processor waits for many lines of memory at the same time. It looks ahead by only some
//! hundred instructions. That is why calculations come before a loop that fetches. Locks make the
//! processor wait, so they have loops of their own.
//!
//! Second, the ends of a range are not searched. A search has branches that the processor cannot predict.
//! Instead, the rows of a range come with some of their neighbours. Comparing these too costs less.
//!
//! A cache that is too small does not have a block when the next range needs it. Ranges that come in order need
//! one block in each level. So the blocks that were read last are kept (`LastRead`).

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use smallvec::SmallVec;

use super::level::{Level, Position};
use super::lists::part;
use super::run::IndexedRows;
use super::set::SetLevel;
use super::set_reader::SetReader;
use crate::error::Result;
use crate::metrics::Tally;
use crate::store::blocks::{Block, BlockId, CachedRow, Entry, Held, Lists, SetBlocks};
use crate::store::lookup::{prefetch, prefetch_at};

/// The number of ranges, or of their parts, that are read together.
const TOGETHER: usize = 32;

/// The most lines of a range that are fetched ahead. The processor fetches the next lines by itself while
/// it goes through them.
const MOST_LINES: usize = 16;

/// What a call of [`read_ranges`] read.
#[derive(Default)]
pub(crate) struct Reading {
    /// The number of blocks.
    pub(crate) blocks: u64,
    /// The number of blocks that were not cached.
    missed: u64,
    /// The indexes of the ranges with more than `most_blocks` blocks in some level. Nothing of that level
    /// was read.
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
/// each block is read once, even without a cache. If a range has more than
/// `most_blocks` blocks in a level, it is not read there, and the result says so. The ranges may be of
/// different sets of one file.
pub(crate) fn read_ranges<'a, R: CachedRow>(
    ranges: impl Iterator<Item = (SetReader<'a, R>, RangeInclusive<R>)>,
    marks: Marks,
    most_blocks: usize,
    mut each: impl FnMut(usize, &[R], &[R]),
) -> Result<Reading> {
    let mut together = Together {
        marks,
        most_blocks,
        runs: SmallVec::new(),
        levels: SmallVec::new(),
        parts: SmallVec::new(),
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
        let range = InSource {
            index,
            first,
            last,
            source: (),
            guess: Position::default(),
            blocks: reader.blocks,
        };
        for run in reader.set.runs() {
            together.runs.push(range.within((run.puts(), true)));
            if marks == Marks::Wanted && !run.marks().is_empty() {
                together.runs.push(range.within((run.marks(), false)));
            }
        }
        for SetLevel { level, .. } in &reader.set.levels {
            together.levels.push(range.within(&**level));
        }
        if together.runs.len() + together.levels.len() >= TOGETHER {
            together.read(&mut each)?;
        }
    }
    together.read(&mut each)?;
    let reading = together.reading;
    // Once for all blocks, since a query is over after some of them.
    if let Some(cache) = cache
        && reading.blocks > 0
    {
        cache
            .tallies
            .add(Tally::CacheHits, reading.blocks - reading.missed);
        cache.tallies.add(Tally::CacheMisses, reading.missed);
    }
    Ok(reading)
}

/// The ranges that are read together. The lists are on the stack. To allocate them took a tenth of the time of a
/// query.
struct Together<'a, R> {
    marks: Marks,
    most_blocks: usize,
    /// Of each run, its puts, and its marks if they are wanted.
    runs: SmallVec<[InRun<'a, R>; TOGETHER]>,
    levels: SmallVec<[InSource<'a, R, &'a Level<R>>; TOGETHER]>,
    parts: SmallVec<[Part<'a, R>; TOGETHER]>,
    last_read: LastRead<R>,
    reading: Reading,
}

/// A range in the puts or the marks of a run. The flag is true for puts.
type InRun<'a, R> = InSource<'a, R, (&'a IndexedRows<R>, bool)>;

/// A range in a run or in a level.
#[derive(Clone, Copy)]
struct InSource<'a, R, S> {
    index: usize,
    first: R,
    last: R,
    source: S,
    /// In a level, a guess at the block in which the range begins.
    guess: Position,
    blocks: SetBlocks<'a>,
}

impl<'a, R: CachedRow> InSource<'a, R, ()> {
    /// The same range in a source.
    fn within<S>(&self, source: S) -> InSource<'a, R, S> {
        InSource {
            index: self.index,
            first: self.first,
            last: self.last,
            source,
            guess: self.guess,
            blocks: self.blocks,
        }
    }
}

/// The part of a range that lies in one block.
struct Part<'a, R> {
    index: usize,
    first: R,
    last: R,
    entry: &'a Entry<R>,
    blocks: SetBlocks<'a>,
    /// The slot in which the block is cached.
    slot: Option<usize>,
    rows: Rows<'a, R>,
    /// The indexes of the rows that may be in the range.
    around: Range<usize>,
}

enum Rows<'a, R> {
    Unread,
    Held(Held<'a>),
    Read(Block<R>),
}

impl<R: CachedRow> Part<'_, R> {
    /// The rows in a line of memory.
    const ROWS_OF_A_LINE: usize = 64 / size_of::<R>();

    /// The rows that are put, and those that are marked.
    #[inline]
    fn lists(&self) -> (&[R], &[R]) {
        match &self.rows {
            Rows::Held(held) => {
                let Some(block) = held.as_ref().and_then(R::sampled) else {
                    return (&[], &[]);
                };
                let puts = block.rows.len().min(self.entry.puts.into());
                block.rows.split_at(puts)
            }
            Rows::Read(block) => (block.puts(), block.marks()),
            Rows::Unread => (&[], &[]),
        }
    }

    /// The indexes of the rows that may be in the range.
    #[inline]
    fn around(&self) -> Range<usize> {
        match &self.rows {
            Rows::Held(held) => {
                let Some(block) = held.as_ref().and_then(R::sampled) else {
                    return 0..0;
                };
                let count = self.entry.puts.into();
                let high = self.entry.high.prefix();
                let from = block.samples.guess(count, high, self.first.prefix());
                let to = block.samples.guess(count, high, self.last.prefix());
                let first = from.saturating_sub(Self::ROWS_OF_A_LINE);
                first..(to + Self::ROWS_OF_A_LINE).min(count)
            }
            Rows::Read(block) => {
                let puts = block.puts();
                let from = puts.partition_point(|&row| row < self.first);
                from..puts.partition_point(|&row| row < self.last)
            }
            Rows::Unread => 0..0,
        }
    }

    /// Fetches the line in which the range may begin.
    #[inline]
    fn prefetch_first(&self) {
        prefetch_at(self.lists().0, self.around.start);
    }

    /// Fetches the other lines of the range, up to where it may end.
    #[inline]
    fn prefetch_others(&self) {
        let line = Self::ROWS_OF_A_LINE;
        let puts = self.lists().0.get(self.around.clone()).unwrap_or(&[]);
        let puts = &puts[..puts.len().min(MOST_LINES * line)];
        // A loop with `for` would ask at each row which part of the chain it is in: a twentieth of a query.
        puts.iter()
            .step_by(line)
            .skip(1)
            .chain(puts.last())
            .for_each(prefetch);
    }

    /// Gives the rows that may be in the range. If the range turns out to be longer, more rows are given.
    #[inline]
    fn give(&self, wanted: Marks, each: &mut impl FnMut(usize, &[R], &[R])) {
        let step = Self::ROWS_OF_A_LINE;
        let (puts, marks) = self.lists();
        let mut from = self.around.start.min(puts.len());
        let mut to = self.around.end.min(puts.len());
        // Only rows that were fetched are read here. The first and the last of the rows to give show
        // whether the range goes on.
        while from > 0 && puts.get(from).is_none_or(|&row| row >= self.first) {
            from = from.saturating_sub(step);
        }
        while to < puts.len() && (to == 0 || puts[to - 1] <= self.last) {
            to = (to + step).min(puts.len());
        }
        let marks = match wanted {
            Marks::Wanted => part(marks, &(self.first..=self.last)),
            Marks::Ignored => &[],
        };
        each(self.index, &puts[from..to], marks);
    }
}

impl<'a, R: CachedRow> Together<'a, R> {
    /// Reads all ranges, and leaves none. The steps for the runs are between the steps for the levels.
    fn read(&mut self, each: &mut impl FnMut(usize, &[R], &[R])) -> Result<()> {
        for range in &self.runs {
            range.source.0.prefetch_occupied(range.first);
        }
        for range in &mut self.levels {
            range.guess = range.source.guess(range.first, range.blocks)?;
        }
        for range in &self.levels {
            range.source.prefetch(range.guess);
        }
        self.runs
            .retain(|range| range.source.0.may_have(range.first, range.last));
        for i in 0..self.levels.len() {
            self.add_parts(self.levels[i], each)?;
        }
        self.levels.clear();
        self.read_parts(each)?;
        for range in self.runs.drain(..) {
            let (rows, are_puts) = range.source;
            let rows = rows.around(&(range.first..=range.last));
            match are_puts {
                true => each(range.index, rows, &[]),
                false => each(range.index, &[], rows),
            }
        }
        Ok(())
    }

    /// Divides a range of a level into parts, one for each block.
    fn add_parts(
        &mut self,
        range: InSource<'a, R, &'a Level<R>>,
        each: &mut impl FnMut(usize, &[R], &[R]),
    ) -> Result<()> {
        let InSource {
            index,
            first,
            last,
            source: level,
            guess,
            blocks,
        } = range;
        let mut position = level.position_from(guess, first);
        if self.most_blocks < usize::MAX {
            let end = level.after(position, self.most_blocks - 1);
            let entry = level.entry(end, blocks)?;
            if entry.is_some_and(|entry| entry.high < last) {
                self.reading.too_long.push(index);
                return Ok(());
            }
        }
        while let Some(entry) = level.entry(position, blocks)? {
            self.parts.push(Part {
                index,
                first,
                last,
                entry,
                blocks,
                slot: None,
                rows: Rows::Unread,
                around: 0..0,
            });
            if self.parts.len() == TOGETHER {
                self.read_parts(each)?;
            }
            if entry.high >= last {
                break;
            }
            position = level.after(position, 1);
        }
        Ok(())
    }

    /// Reads all parts, and leaves none. It also fetches the memory of the runs that is read after that.
    fn read_parts(&mut self, each: &mut impl FnMut(usize, &[R], &[R])) -> Result<()> {
        for range in &self.runs {
            range.source.0.prefetch_index(range.first);
        }
        for part in &self.parts {
            part.blocks
                .cache()
                .prefetch(part.entry.id, &part.entry.hint);
        }
        for range in &self.runs {
            range.source.0.prefetch_rows(range.first);
        }
        for part in &mut self.parts {
            part.slot = part.blocks.cache().find(part.entry.id, &part.entry.hint);
        }
        // Blocks that are not cached are read before any block is held. A holder must not insert into the
        // cache.
        for part in &mut self.parts {
            if part.slot.is_none() {
                let last_read = &mut self.last_read;
                let block = last_read.rows(part.blocks, part.entry, part.first, part.last)?;
                part.rows = Rows::Read(block);
                self.reading.missed += 1;
            }
        }
        for part in &mut self.parts {
            let Some(slot) = part.slot else { continue };
            let cache = part.blocks.cache();
            cache.note_use(slot);
            part.rows = match cache.hold(slot, part.entry.id) {
                Some(held) => Rows::Held(held),
                // It was evicted a moment ago.
                None => Rows::Read(part.blocks.rows_once(part.entry)?),
            };
        }
        for part in &mut self.parts {
            part.around = part.around();
        }
        // The processor waits if it does not know in which page of memory a line is. So the first lines
        // are fetched first.
        for part in &self.parts {
            part.prefetch_first();
        }
        for part in &self.parts {
            part.prefetch_others();
        }
        for part in &self.parts {
            part.give(self.marks, each);
        }
        self.reading.blocks += self.parts.len() as u64;
        self.parts.clear();
        Ok(())
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

/// The blocks that were not cached and were read last.
struct LastRead<R> {
    blocks: SmallVec<[(BlockId, Form<R>); MOST]>,
    /// Memory to decode in.
    lists: Lists<R>,
}

enum Form<R> {
    /// The bytes of a block that one range needed so far.
    Packed(Vec<u8>),
    Decoded(Block<R>),
}

impl<R: CachedRow> LastRead<R> {
    fn new() -> Self {
        Self {
            blocks: SmallVec::new(),
            lists: Lists::default(),
        }
    }

    /// The rows of a block in a range, and perhaps others, also if the block is not in the cache.
    ///
    /// If the cache admits the block, it is decoded whole. Otherwise only the range is. If a second range needs
    /// the block, more ranges probably do, and it is decoded whole too.
    fn rows(
        &mut self,
        blocks: SetBlocks<'_>,
        entry: &Entry<R>,
        first: R,
        last: R,
    ) -> Result<Block<R>> {
        for (id, form) in &mut self.blocks {
            if *id != entry.id {
                continue;
            }
            let block = match form {
                Form::Packed(bytes) => blocks.decode(entry, bytes)?,
                Form::Decoded(block) => return Ok(block.clone()),
            };
            let decoded = Form::Decoded(block.clone());
            if let Form::Packed(bytes) = std::mem::replace(form, decoded) {
                give_back(bytes);
            }
            return Ok(block);
        }
        if blocks.cache().admits() {
            let block = blocks.rows_to_keep(entry)?;
            give_back(self.room());
            self.blocks.push((entry.id, Form::Decoded(block.clone())));
            return Ok(block);
        }
        let mut bytes = self.room();
        blocks.read_bytes(entry, &mut bytes)?;
        let part = blocks.decode_part(entry, &bytes, first, last, &mut self.lists)?;
        self.blocks.push((entry.id, Form::Packed(bytes)));
        Ok(part)
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
    use crate::store::blocks::{FileSeed, Hint, MemoryBlocks, Packed, Packer};
    use crate::store::engine::{BlockTable, LevelName};

    static TABLE: BlockTable = BlockTable::new(0, "table", false);

    /// For one row of a block, the whole block was decoded and cached, and a block that was used went for it.
    #[test]
    fn without_room_in_the_cache_a_range_is_decoded_alone_and_a_block_is_read_once() -> Result<()> {
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
                hint: Hint::default(),
            });
        }
        let blocks = memory.blocks();
        blocks.cache.set_capacity(0);
        let of = blocks.of_table(&TABLE);
        // One block in eight is admitted, the first too.
        assert!(of.cache().admits());
        let mut last_read = LastRead::new();
        let rows = last_read.rows(of, &entries[0], 5 << 40, 7 << 40)?;
        assert_eq!(rows.puts(), [5 << 40, 6 << 40, 7 << 40]);
        memory.lose((level.id(), entries[0].high.into()));
        let rows = last_read.rows(of, &entries[0], 20 << 40, 20 << 40)?;
        assert_eq!(
            (rows.puts().len(), rows.puts()[20]),
            (entries[0].puts.into(), 20 << 40)
        );
        assert_eq!(of.cache().bytes(), 0);
        // What is damaged is refused, also for a part.
        memory.damage((level.id(), entries[1].high.into()));
        let (low, high) = (entries[0].high + 1, entries[1].high);
        assert!(last_read.rows(of, &entries[1], low, high).is_err());
        Ok(())
    }
}
