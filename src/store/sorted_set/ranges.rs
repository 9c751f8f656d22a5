//! Reading many ranges of sorted sets at once.
//!
//! The plain algorithm: for each range and each level, find the chunk in which the range begins, and give its rows in
//! the range from the segment of the chunk. If that is not in memory, read the blocks of the range. Then give the rows
//! of the runs in memory.
//!
//! The cost of that is waiting for memory: for the place of the segment, for the segment, for its index, then for the
//! rows. So the code departs from the plain algorithm in two ways.
//!
//! First, some ranges take each step together, in a short loop. A step fetches the memory that the next one reads. So
//! the processor waits for many lines of memory at the same time. The rows are compared while the next ranges take
//! their steps.
//!
//! Second, the ends of a range are not searched. A search has branches that the processor cannot predict.
//! Instead, the rows of a range come with some of their neighbours. Comparing these too costs less.
//!
//! What is not in memory is read at the end, in order. So the blocks that were read last are kept (`LastRead`). Where
//! memory has signatures in place of the rows, only what they let through is read there.

use std::cell::RefCell;
use std::ops::Range;

use arrayvec::ArrayVec;
use sdd::Guard;
use smallvec::SmallVec;

use super::level::Level;
use super::run::{IndexedRows, part};
use super::set::{Overlay, SetLevel, SortedSet};
use super::set_reader::SetReader;
use crate::error::{Error, Result};
use crate::metrics::Tally;
use crate::planted::planted;
use crate::store::blocks::{
    BlockCache, BlockId, CutRows, Entry, Lists, Residence, Row, Segment, SetBlocks, Signatures,
};
use crate::store::lookup::prefetch;

/// The number of ranges, or of their parts, that are read together.
const TOGETHER: usize = 24;

/// With so many ranges that are not in memory, their blocks are read. Each range takes about 100 bytes.
const MOST_ABSENT: usize = 1 << 19;

/// If signatures let more neighbours through, all that is between them is read together.
const MANY_THROUGH: usize = 32;

/// With so many that are let through, repetitions are left out at once. There are not so many neighbours.
const MOST_THROUGH: usize = 1 << 13;

/// What a [`RangeReader`] read.
pub(crate) struct Reading<T> {
    /// The number of segments and blocks.
    pub(crate) parts: u64,
    /// The number of blocks among them.
    blocks: u64,
    /// What stands for the ranges with more rows than `most_rows` in some part of a level. Nothing of them was read
    /// there.
    pub(crate) too_long: Vec<T>,
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self {
            parts: 0,
            blocks: 0,
            too_long: Vec::new(),
        }
    }
}

/// Who gets the rows of ranges: a function of a range, of rows that one source puts, and of those that it marks, if
/// marks are wanted. Or one who can also tell from signatures which rows it needs not get.
pub(crate) trait Receiver<R, T> {
    /// Whether it can. It gets no marks then.
    const SIEVES: bool = false;

    fn receive(&mut self, range: &Searched<R, T>, puts: &[R], marks: &[R]);

    /// Calls `through` with those of these rows of a range, perhaps with some beside it, that it may need.
    fn sieve(&mut self, _: &Searched<R, T>, rows: CutRows<'_>, mut through: impl FnMut(u64)) {
        rows.rows.iter().for_each(|&row| through(row));
    }

    /// A row of this range that the set is known to have.
    fn known(&mut self, _: &Searched<R, T>) -> Option<R> {
        None
    }
}

impl<R, T, F: FnMut(&Searched<R, T>, &[R], &[R])> Receiver<R, T> for F {
    fn receive(&mut self, range: &Searched<R, T>, puts: &[R], marks: &[R]) {
        self(range, puts, marks);
    }
}

/// Whether the rows that sources mark are read too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    Wanted,
    Ignored,
}

/// Reads the ranges that `add` adds, in all sources of their sets. The ranges may be of different sets of one file.
/// Each has something that stands for it.
///
/// `each` gets all rows of the range that it may need, and perhaps some of their neighbours. The rows come in no order,
/// and some perhaps more than once. Rows that a newer source marks are among them. If a range has more than `most_rows`
/// rows in a part of a level, they are not read, and the [`Reading`] says so; if the part is not in memory, it is told
/// by the number of blocks.
///
/// What is in memory is read for several ranges at a time, so that the processor waits for the memory of all of them
/// together. The other ranges wait until the end. Then they are read in the order of the rows, so that each block is
/// read once for all its ranges, even without a cache.
pub(crate) fn read_ranges<'a, R, T, F>(
    marks: Marks,
    most_rows: usize,
    add: impl FnOnce(&mut RangeReader<'a, '_, R, T, F>),
    each: F,
) -> Result<Reading<T>>
where
    R: Row,
    T: Copy,
    F: Receiver<R, T>,
{
    let found = {
        let guard = Guard::new();
        let mut reader = RangeReader {
            guard: &guard,
            runs: ArrayVec::new(),
            chunks: ArrayVec::new(),
            placed: ArrayVec::new(),
            found: Found {
                marks,
                most_rows,
                each,
                absent: Vec::new(),
                cut: Vec::new(),
                through: Vec::new(),
                reading: Reading::default(),
                failure: None,
                cache: None,
            },
        };
        add(&mut reader);
        reader.finish();
        // To move the rest of the reader too took a tenth of the time of a query.
        reader.found
    };
    found.finish()
}

/// Takes the ranges, and gives the rows that are in memory.
pub(crate) struct RangeReader<'a, 'g, R: Row, T, F> {
    /// While it lives, no segment is freed, also none that the cache gives up.
    guard: &'g Guard,
    /// Of each run its puts, and its marks if they are wanted. These lists are on the stack: to allocate them took a
    /// tenth of the time of a query.
    runs: ArrayVec<InRun<'a, R, T>, TOGETHER>,
    /// The ranges in levels, or the parts of them, whose chunks are known.
    chunks: ArrayVec<InLevel<'a, R, T>, TOGETHER>,
    /// Those whose rows are known.
    placed: ArrayVec<InSegment<'g, R, T>, TOGETHER>,
    found: Found<'a, R, T, F>,
}

/// What was found of the ranges, and who gets it.
struct Found<'a, R: Row, T, F> {
    marks: Marks,
    most_rows: usize,
    each: F,
    /// The ranges, or the parts of them, whose rows are not in memory.
    absent: Vec<Absent<'a, R, T>>,
    /// Memory for rows whose signatures are looked at, and for those that are let through.
    cut: Vec<u64>,
    through: Vec<u64>,
    reading: Reading<T>,
    /// The first error. Nothing is read after it.
    failure: Option<Error>,
    cache: Option<&'a BlockCache>,
}

/// A range, and what stands for it.
#[derive(Clone, Copy)]
pub(crate) struct Searched<R, T> {
    pub(crate) of: T,
    pub(crate) first: R,
    pub(crate) last: R,
}

/// A range in the puts or the marks of a run.
struct InRun<'a, R, T> {
    range: Searched<R, T>,
    rows: &'a IndexedRows<R>,
    are_puts: bool,
}

/// A range whose rows are not in memory.
#[derive(Clone, Copy)]
struct Absent<'a, R: Row, T> {
    of: InLevel<'a, R, T>,
    /// Whether signatures say that it has one row.
    has_one: bool,
}

/// A range in a level.
#[derive(Clone, Copy)]
struct InLevel<'a, R: Row, T> {
    range: Searched<R, T>,
    set: &'a SortedSet<R>,
    level: &'a Level<R>,
    blocks: SetBlocks<'a>,
    here: Here<'a, R>,
}

impl<'a, R: Row, T: Copy> InLevel<'a, R, T> {
    /// A part of the range that is not in memory.
    fn absent(&self, first: R, last: R, has_one: bool) -> Absent<'a, R, T> {
        let of = self.range.of;
        let range = Searched { of, first, last };
        Absent {
            of: Self { range, ..*self },
            has_one,
        }
    }
}

/// A chunk of a level.
#[derive(Clone, Copy)]
struct Here<'a, R: Row> {
    chunk: usize,
    high: R,
    residence: &'a Residence<R>,
}

impl<'a, R: Row> Here<'a, R> {
    /// A chunk. `None` behind the last one.
    #[inline]
    fn new(level: &'a Level<R>, chunk: usize) -> Option<Self> {
        Some(Self {
            chunk,
            high: level.high_of(chunk)?,
            residence: level.residence(chunk)?,
        })
    }
}

/// A range in a segment.
struct InSegment<'g, R, T> {
    range: Searched<R, T>,
    segment: &'g Segment<R>,
    /// The indexes of the rows that may be in the range.
    around: Range<usize>,
}

impl<'g, R: Row, T> InSegment<'g, R, T> {
    /// Finds the rows of a range in a segment, and fetches them.
    #[inline]
    fn new(range: Searched<R, T>, segment: &'g Segment<R>) -> Self {
        let around = segment.around(&(range.first..=range.last));
        segment.prefetch_rows(&around);
        Self {
            range,
            segment,
            around,
        }
    }
}

impl<'a, 'g, R, T, F> RangeReader<'a, 'g, R, T, F>
where
    R: Row,
    T: Copy,
    F: Receiver<R, T>,
{
    /// Adds ranges of a set, in order.
    #[inline]
    pub(crate) fn add(&mut self, reader: &SetReader<'a, R>, ranges: &[Searched<R, T>]) {
        self.found.cache = Some(reader.blocks.cache());
        if let Some(overlay) = reader.overlay {
            self.read_overlay(overlay, ranges);
        }
        let has_runs = reader.set.has_runs();
        if has_runs {
            prefetch_maps(reader.set, ranges);
        }
        for SetLevel { level, .. } in &reader.set.levels {
            self.add_level(reader.set, level, reader.blocks, ranges);
        }
        if has_runs {
            self.add_runs(reader.set, ranges);
        }
    }

    /// Adds the ranges that may have rows in the runs. With this inline, a query of a set without runs took longer.
    #[inline(never)]
    fn add_runs(&mut self, set: &'a SortedSet<R>, ranges: &[Searched<R, T>]) {
        for run in set.runs() {
            self.add_run(run.puts(), true, ranges);
            if self.found.marks == Marks::Wanted && !run.marks().is_empty() {
                self.add_run(run.marks(), false, ranges);
            }
        }
    }

    /// Adds the ranges that may have rows in a run.
    fn add_run(&mut self, rows: &'a IndexedRows<R>, are_puts: bool, ranges: &[Searched<R, T>]) {
        for &range in ranges {
            if !rows.may_have(range.first, range.last) {
                continue;
            }
            rows.prefetch_index(range.first, range.last);
            self.runs.push(InRun {
                range,
                rows,
                are_puts,
            });
            if self.runs.len() == TOGETHER {
                self.read();
            }
        }
    }

    #[inline]
    fn add_level(
        &mut self,
        set: &'a SortedSet<R>,
        level: &'a Level<R>,
        blocks: SetBlocks<'a>,
        ranges: &[Searched<R, T>],
    ) {
        // The chunk of the range before, which has the rows from this one on.
        let mut known: Option<(R, Here<'a, R>)> = None;
        for &range in ranges {
            let here = match known {
                Some((low, here)) if low <= range.first && range.first <= here.high => here,
                _ => {
                    let Some(here) = Here::new(level, level.chunk_of(range.first)) else {
                        continue;
                    };
                    known = Some((range.first, here));
                    here
                }
            };
            self.add_parts(InLevel {
                range,
                set,
                level,
                blocks,
                here,
            });
        }
    }

    /// Adds the parts of a range in a chunk and in those behind it.
    #[inline]
    fn add_parts(&mut self, of: InLevel<'a, R, T>) {
        let mut here = of.here;
        loop {
            prefetch(here.residence);
            self.chunks.push(InLevel { here, ..of });
            if self.chunks.len() == TOGETHER {
                self.read();
            }
            if here.high >= of.range.last {
                break;
            }
            match Here::new(of.level, here.chunk + 1) {
                Some(next) => here = next,
                None => break,
            }
        }
    }

    /// Reads what a transaction wrote.
    #[inline(never)]
    fn read_overlay(&mut self, overlay: &Overlay<R>, ranges: &[Searched<R, T>]) {
        let (runs, puts, marks) = overlay.parts();
        for range in ranges {
            let within = range.first..=range.last;
            for row in puts {
                if within.contains(row) {
                    self.found
                        .each
                        .receive(range, std::slice::from_ref(row), &[]);
                }
            }
            for row in marks {
                if within.contains(row) {
                    self.found
                        .each
                        .receive(range, &[], std::slice::from_ref(row));
                }
            }
            for run in runs {
                let (puts, marks) = run.within(&within);
                self.found.each.receive(range, puts, marks);
            }
        }
    }

    /// Gives what is left in memory.
    fn finish(&mut self) {
        while !(self.runs.is_empty() && self.chunks.is_empty() && self.placed.is_empty()) {
            self.read();
        }
    }

    /// Goes on with all that is on its way. What a step reads was fetched a step before, while other ranges took
    /// theirs. The steps for the runs are between the steps for the levels.
    fn read(&mut self) {
        let mut found: ArrayVec<(Searched<R, T>, &'g Segment<R>), TOGETHER> = ArrayVec::new();
        let mut absent: ArrayVec<InLevel<'a, R, T>, TOGETHER> = ArrayVec::new();
        for of in &self.chunks {
            match of.here.residence.segment(self.guard) {
                None => absent.push(*of),
                Some(segment) => {
                    segment.prefetch(self.found.marks == Marks::Wanted);
                    found.push((of.range, segment));
                }
            }
        }
        self.chunks.clear();
        if !absent.is_empty() {
            self.read_signatures(&absent);
        }
        for (range, segment) in &found {
            segment.prefetch_index(range.first, range.last);
        }
        self.found.give_placed(&mut self.placed);
        let has_runs = !self.runs.is_empty();
        if has_runs {
            for of in &self.runs {
                of.rows.prefetch_rows(of.range.first, of.range.last);
            }
        }
        for (range, segment) in &found {
            self.placed.push(InSegment::new(*range, segment));
        }
        if has_runs {
            self.give_runs();
        }
        if self.found.absent.len() >= MOST_ABSENT {
            // To make segments now would make the cache give others up, which the guard keeps in memory.
            self.found.read_absent(AbsentSegments::Left);
        }
    }

    /// Looks at the signatures of ranges whose rows are not in memory. What they let through, and what has none, is
    /// read at the end.
    #[inline(never)]
    fn read_signatures(&mut self, absent: &[InLevel<'a, R, T>]) {
        let mut cut: ArrayVec<(InLevel<'a, R, T>, &'g Signatures), TOGETHER> = ArrayVec::new();
        for of in absent {
            match of.here.residence.signatures(self.guard) {
                Some(signatures) if F::SIEVES => {
                    signatures.prefetch();
                    cut.push((*of, signatures));
                }
                _ => self.found.absent.push(Absent {
                    of: *of,
                    has_one: false,
                }),
            }
        }
        for (InLevel { range, .. }, signatures) in &cut {
            signatures.prefetch_index(range.first.prefix(), range.last.prefix());
        }
        for (InLevel { range, .. }, signatures) in &cut {
            signatures.prefetch_rows(range.first.prefix(), range.last.prefix());
        }
        for (of, signatures) in &cut {
            self.found.sieve(of, signatures);
        }
    }

    /// Gives the rows of the runs.
    #[inline(never)]
    fn give_runs(&mut self) {
        for of in self.runs.drain(..) {
            let range = of.range;
            let rows = of.rows.around(&(range.first..=range.last));
            match of.are_puts {
                true => self.found.each.receive(&range, rows, &[]),
                false => self.found.each.receive(&range, &[], rows),
            }
        }
    }
}

/// Whether the segments of chunks of which enough was read are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AbsentSegments {
    Made,
    Left,
}

impl<'a, R, T, F> Found<'a, R, T, F>
where
    R: Row,
    T: Copy,
    F: Receiver<R, T>,
{
    /// Reads what was not in memory, and says what was read.
    fn finish(mut self) -> Result<Reading<T>> {
        if !self.absent.is_empty() {
            self.read_absent(AbsentSegments::Made);
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let reading = self.reading;
        // Once for all parts, since a query is over after some of them.
        if let Some(cache) = self.cache
            && reading.parts > 0
        {
            let hits = reading.parts - reading.blocks;
            cache.tallies.add(Tally::CacheHits, hits);
            if reading.blocks > 0 {
                cache.tallies.add(Tally::CacheMisses, reading.blocks);
            }
        }
        Ok(reading)
    }

    /// Leaves what the signatures of a range let through to be read at the end.
    fn sieve(&mut self, of: &InLevel<'a, R, T>, signatures: &Signatures) {
        self.reading.parts += 1;
        let range = of.range;
        let around = (range.first.prefix(), range.last.prefix());
        signatures.each_around(around, &mut self.cut, |part| {
            let through = &mut self.through;
            through.clear();
            self.each.sieve(&range, part, |row| {
                // Several queries may share the range, and want the same rows.
                if through.len() >= MOST_THROUGH {
                    through.sort_unstable();
                    through.dedup();
                }
                through.push(row);
            });
            through.sort_unstable();
            through.dedup();
            if let [least, .., greatest] = through[..]
                && through.len() > MANY_THROUGH
            {
                let (first, _) = part.span(least);
                let (_, last) = part.span(greatest);
                self.absent.push(of.absent(first, last, false));
                return;
            }
            for &row in &*through {
                let (first, last) = part.span(row);
                self.absent.push(of.absent(first, last, part.is_alone(row)));
            }
        });
    }

    /// Gives the rows of the segments whose place is known.
    fn give_placed(&mut self, placed: &mut ArrayVec<InSegment<'_, R, T>, TOGETHER>) {
        self.reading.parts += placed.len() as u64;
        for of in placed.iter() {
            let range = &of.range;
            if of.around.len() > self.most_rows {
                self.reading.too_long.push(range.of);
                continue;
            }
            let marks = match self.marks {
                Marks::Wanted => part(of.segment.marks(), &(range.first..=range.last)),
                Marks::Ignored => &[],
            };
            self.each
                .receive(range, &of.segment.puts()[of.around.clone()], marks);
        }
        placed.clear();
    }

    /// Reads the blocks of the ranges that are not in memory. If enough of a chunk was read, its segment may be made,
    /// and the next ranges are read there.
    fn read_absent(&mut self, segments: AbsentSegments) {
        let mut absent = std::mem::take(&mut self.absent);
        absent.sort_unstable_by_key(|Absent { of, .. }| {
            let level = std::ptr::from_ref(of.level).addr();
            (level, of.here.chunk, of.range.first)
        });
        let mut last_read = LastRead::new();
        for some in absent.chunks(TOGETHER) {
            // What the cache gives up meanwhile is freed after each of them.
            let guard = Guard::new();
            let mut placed = ArrayVec::new();
            for absent in some {
                let of = &absent.of;
                if let Some(row) = self.known_row(absent, &guard) {
                    self.each.receive(&of.range, &[row], &[]);
                    continue;
                }
                let segment = match of.here.residence.segment(&guard) {
                    None if segments == AbsentSegments::Made => {
                        of.level.segment_for_block(of.here.chunk, of.blocks, &guard)
                    }
                    segment => Ok(segment),
                };
                let read = segment.and_then(|segment| {
                    match segment {
                        None => self.read_blocks(*of, &mut last_read)?,
                        Some(segment) => placed.push(InSegment::new(of.range, segment)),
                    }
                    Ok(())
                });
                if let Err(error) = read {
                    self.failure = Some(error);
                    return;
                }
            }
            self.give_placed(&mut placed);
        }
    }

    /// The row of a range with one row, if the set is known to have a row there and no other source of it has any. Most
    /// fingerprints that are found are found in several tables. So only the first of them is read.
    fn known_row(&mut self, Absent { of, has_one }: &Absent<'a, R, T>, guard: &Guard) -> Option<R> {
        if !has_one {
            return None;
        }
        let row = self.each.known(&of.range)?;
        let Searched { first, last, .. } = of.range;
        let mut may_have_others = of.here.high < last || of.level.chunk_of(first) < of.here.chunk;
        for SetLevel { level, .. } in &of.set.levels {
            let is_other = !std::ptr::eq(&**level, of.level);
            may_have_others |= is_other && level.may_have_puts(first, last, &mut self.cut, guard);
        }
        for run in of.set.runs() {
            may_have_others |= run.puts().may_have(first, last);
        }
        may_have_others &= !planted("a known row stands for others too");
        (!may_have_others).then_some(row)
    }

    /// Reads the blocks of a chunk that may have rows of a range.
    fn read_blocks(&mut self, of: InLevel<'a, R, T>, last_read: &mut LastRead<R>) -> Result<()> {
        /// More blocks than this are taken to have too many rows, if there is a limit.
        const FEW_BLOCKS: usize = 2;
        let range = of.range;
        let Searched { first, last, .. } = range;
        let entries = of.level.entries_from(of.here.chunk, first, of.blocks)?;
        if self.most_rows < usize::MAX
            && let Some(entry) = entries.get(FEW_BLOCKS - 1)
            && entry.high < last
        {
            self.reading.too_long.push(range.of);
            return Ok(());
        }
        for entry in entries {
            let rows = last_read.rows(of.blocks, entry, first, last)?;
            let marks = match self.marks {
                Marks::Wanted => part(&rows.marks, &(first..=last)),
                Marks::Ignored => &[],
            };
            self.each
                .receive(&range, part(&rows.puts, &(first..=last)), marks);
            self.reading.parts += 1;
            self.reading.blocks += 1;
            if entry.high >= last {
                break;
            }
        }
        Ok(())
    }
}

/// Fetches what tells whether runs have rows in the ranges.
#[inline(never)]
fn prefetch_maps<R: Row, T>(set: &SortedSet<R>, ranges: &[Searched<R, T>]) {
    for run in set.runs() {
        for range in ranges {
            run.puts().prefetch_occupied(range.first);
        }
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
    use super::super::chunk::NewBlock;
    use super::*;
    use crate::store::blocks::{FileSeed, MemoryBlocks, Packer};
    use crate::store::engine::{BlockTable, LevelName};

    static TABLE: BlockTable = BlockTable::new(0, "table", false);

    /// For one row of a block, the whole block was decoded.
    #[test]
    fn a_range_is_decoded_alone_and_a_block_is_read_once() -> Result<()> {
        let memory = MemoryBlocks::default();
        let level = LevelName {
            table: &TABLE,
            number: 0,
        };
        let mut packer = Packer::new(4080, false, FileSeed(7));
        packer
            .waiting
            .puts
            .extend((0..3_000u64).map(|row| row << 40));
        let mut entries = Vec::new();
        for (number, block) in packer.finish().into_iter().enumerate() {
            let id = BlockId::new(0, number as u64 + 1);
            let (NewBlock { entry, .. }, bytes) = NewBlock::numbered(block, id);
            memory.store(level, entry.high.into(), bytes);
            entries.push(entry);
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
        let low = entries[0].high + 1;
        let high = entries[1].high;
        assert!(last_read.rows(of, &entries[1], low, high).is_err());
        Ok(())
    }
}
