//! Reading many ranges of sorted sets at once.
//!
//! What a range costs is waiting for memory: for the directory, for the block's place in the cache, for the rows. So each of these steps is a
//! short loop of its own over all ranges, which has fetched what the next one reads, and the processor waits for many lines of memory at a time. It looks
//! only some hundred instructions ahead: what is computed first, and what would keep it waiting, locks above all, stands in other loops.
//!
//! For the same reason the ends of a range are not searched for, since that takes branches which cannot be foreseen: with the rows of a range come
//! some of their neighbours, and to compare with those too costs less.

use std::ops::Range;

use smallvec::SmallVec;

use crate::error::Result;
use crate::store::blocks::cache::Held;
use crate::store::blocks::reader::{Block, Blocks, CachedRow};
use crate::store::lookup::prefetch::{prefetch, prefetch_at};
use crate::store::sorted_set::chunk::Entry;
use crate::store::sorted_set::level::{Level, Place};
use crate::store::sorted_set::reader::SetReader;
use crate::store::sorted_set::run::{Run, part};

/// So many ranges, or parts of them, are in hand at a time.
const TOGETHER: usize = 32;

/// What lies farther behind the beginning of a range the processor fetches by itself, as it goes through.
const MOST_LINES: usize = 16;

const fn rows_of_a_line<R>() -> usize {
    64 / size_of::<R>()
}

/// A range of rows, to be read in all sources of a set.
pub(crate) struct Wanted<'a, R> {
    pub(crate) reader: SetReader<'a, R>,
    pub(crate) first: R,
    pub(crate) last: R,
}

/// What was read.
#[derive(Default)]
pub(crate) struct Reading {
    /// How many blocks.
    pub(crate) blocks: u64,
    /// The numbers of the ranges that lie in more than the most blocks of some level, where none of these was read.
    pub(crate) cut: Vec<usize>,
}

/// Reads ranges of sets, or of a set, of this name. Calls `each` with the number of a range, rows that a source puts and rows that it
/// marks: all rows of the range and perhaps some of their neighbours, in no order, some perhaps more than once, and also those that a
/// newer source marks.
pub(crate) fn read_ranges<'a, R: CachedRow>(
    set: &'static str,
    blocks: &'a Blocks,
    ranges: impl Iterator<Item = Wanted<'a, R>>,
    most_blocks: usize,
    mut each: impl FnMut(usize, &[R], &[R]),
) -> Result<Reading> {
    let reading = Reading::default();
    let (runs, levels, parts) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
    let mut hand = Hand { set, blocks, most_blocks, runs, levels, parts, reading };
    for (number, Wanted { reader, first, last }) in ranges.enumerate() {
        let (puts, marks) = reader.unsorted();
        let one = std::slice::from_ref::<R>;
        let is_in = |row: &&R| (first..=last).contains(row);
        puts.iter().filter(is_in).for_each(|row| each(number, one(row), &[]));
        marks.iter().filter(is_in).for_each(|row| each(number, &[], one(row)));
        for run in reader.written_runs() {
            let (puts, marks) = run.within(&(first..=last));
            each(number, puts, marks);
        }
        let set = reader.set;
        let range = |of| InSource { number, first, last, of, guess: Place::default() };
        hand.runs.extend(reader.memory_runs().map(range));
        let range = |of| InSource { number, first, last, of, guess: Place::default() };
        hand.levels.extend(set.levels.iter().map(|slot| &*slot.level).map(range));
        if hand.runs.len() + hand.levels.len() >= TOGETHER {
            hand.read(&mut each)?;
        }
    }
    hand.read(&mut each)?;
    Ok(hand.reading)
}

/// What is read at a time, on the stack: allocations of this size took a tenth of the time of a query.
struct Hand<'a, R> {
    /// The name of the sets.
    set: &'static str,
    blocks: &'a Blocks,
    most_blocks: usize,
    runs: SmallVec<[InSource<R, &'a Run<R>>; TOGETHER]>,
    levels: SmallVec<[InSource<R, &'a Level<R>>; TOGETHER]>,
    parts: SmallVec<[Part<'a, R>; TOGETHER]>,
    reading: Reading,
}

/// A range in a run or level.
#[derive(Clone, Copy)]
struct InSource<R, S> {
    number: usize,
    first: R,
    last: R,
    of: S,
    /// In a level, about where it begins.
    guess: Place,
}

/// What lies of a range in one block.
struct Part<'a, R> {
    number: usize,
    first: R,
    last: R,
    entry: &'a Entry<R>,
    /// Where the block is cached.
    place: Option<usize>,
    rows: Rows<'a, R>,
    /// The places of the rows that may be in the range.
    around: Range<usize>,
}

enum Rows<'a, R> {
    Unread,
    Held(Held<'a>),
    Read(Block<R>),
}

impl<R: CachedRow> Part<'_, R> {
    /// The rows that are put, and those that are marked.
    #[inline]
    fn lists(&self) -> (&[R], &[R]) {
        match &self.rows {
            Rows::Held(held) => {
                let rows = held.as_ref().and_then(R::sampled).map_or(&[][..], |block| &block.rows);
                rows.split_at(rows.len().min(self.entry.puts.into()))
            }
            Rows::Read(block) => (block.puts(), block.marks()),
            Rows::Unread => (&[], &[]),
        }
    }

    /// The places of the rows that may be in the range.
    #[inline]
    fn around(&self) -> Range<usize> {
        const ASIDE_LINES: usize = 1;
        match &self.rows {
            Rows::Held(held) => {
                let Some(block) = held.as_ref().and_then(R::sampled) else { return 0..0 };
                let (count, high) = (self.entry.puts.into(), self.entry.high.lead());
                let guess = |row: R| block.samples.guess(count, high, row.lead());
                let aside = ASIDE_LINES * rows_of_a_line::<R>();
                guess(self.first).saturating_sub(aside)..(guess(self.last) + aside).min(count)
            }
            Rows::Read(block) => {
                let before = |row: R| block.puts().partition_point(|&it| it < row);
                before(self.first)..before(self.last)
            }
            Rows::Unread => 0..0,
        }
    }

    /// Has the line fetched in which the range may begin.
    #[inline]
    fn prefetch_first(&self) {
        prefetch_at(self.lists().0, self.around.start);
    }

    /// Has the lines fetched from there to where it may end.
    #[inline]
    fn prefetch_others(&self) {
        let line = rows_of_a_line::<R>();
        let puts = self.lists().0.get(self.around.clone()).unwrap_or(&[]);
        let puts = &puts[..puts.len().min(MOST_LINES * line)];
        puts.iter().step_by(line).skip(1).chain(puts.last()).for_each(prefetch);
    }

    /// Gives the rows that may be in the range, now that it shows where it begins and ends.
    #[inline]
    fn give(&self, each: &mut impl FnMut(usize, &[R], &[R])) {
        let step = rows_of_a_line::<R>();
        let (puts, marks) = self.lists();
        let (mut from, mut to) = (self.around.start.min(puts.len()), self.around.end.min(puts.len()));
        // No row is looked at that was not fetched: the first and last of those given tell whether there may be others.
        while from > 0 && puts.get(from).is_none_or(|&row| row >= self.first) {
            from = from.saturating_sub(step);
        }
        while to < puts.len() && (to == 0 || puts[to - 1] <= self.last) {
            to = (to + step).min(puts.len());
        }
        each(self.number, &puts[from..to], part(marks, &(self.first..=self.last)));
    }
}

impl<'a, R: CachedRow> Hand<'a, R> {
    /// Reads what is in hand, and leaves nothing. What a run takes to be read goes along with the steps of the levels.
    fn read(&mut self, each: &mut impl FnMut(usize, &[R], &[R])) -> Result<()> {
        for range in &self.runs {
            range.of.prefetch_occupied(range.first);
        }
        for range in &mut self.levels {
            range.guess = range.of.guess(range.first);
        }
        for range in &self.levels {
            range.of.prefetch(range.guess);
        }
        self.runs.retain(|range| range.of.may_have(range.first, range.last));
        for number in 0..self.levels.len() {
            self.add_parts(self.levels[number], each)?;
        }
        self.levels.clear();
        self.read_parts(each)?;
        for range in self.runs.drain(..) {
            let (puts, marks) = range.of.around(&(range.first..=range.last));
            each(range.number, puts, marks);
        }
        Ok(())
    }

    /// Divides a range of a level by blocks.
    fn add_parts(
        &mut self,
        range: InSource<R, &'a Level<R>>,
        each: &mut impl FnMut(usize, &[R], &[R]),
    ) -> Result<()> {
        let InSource { number, first, last, of: level, guess } = range;
        let mut place = level.place_near(guess, first);
        if self.most_blocks < usize::MAX {
            let end = level.after(place, self.most_blocks - 1);
            if level.entry(end).is_some_and(|entry| entry.high < last) {
                self.reading.cut.push(number);
                return Ok(());
            }
        }
        while let Some(entry) = level.entry(place) {
            let (rows, around) = (Rows::Unread, 0..0);
            self.parts.push(Part { number, first, last, entry, place: None, rows, around });
            if self.parts.len() == TOGETHER {
                self.read_parts(each)?;
            }
            if entry.high >= last {
                break;
            }
            place = level.after(place, 1);
        }
        Ok(())
    }

    /// Reads the parts, and leaves none. Has fetched what is read next of the runs, too.
    fn read_parts(&mut self, each: &mut impl FnMut(usize, &[R], &[R])) -> Result<()> {
        let cache = &self.blocks.cache;
        for range in &self.runs {
            range.of.prefetch_index(range.first);
        }
        for part in &self.parts {
            cache.prefetch(part.entry.id, &part.entry.hint);
        }
        for range in &self.runs {
            range.of.prefetch_rows(range.first);
        }
        for part in &mut self.parts {
            part.place = cache.find(part.entry.id, &part.entry.hint);
        }
        // What is not there is read before anything is held.
        for part in self.parts.iter_mut().filter(|part| part.place.is_none()) {
            part.rows = Rows::Read(self.blocks.rows(self.set, part.entry)?);
        }
        for part in &mut self.parts {
            let Some(place) = part.place else { continue };
            cache.note_use(place);
            part.rows = match cache.hold(place, part.entry.id) {
                Some(held) => Rows::Held(held),
                // It has just gone.
                None => Rows::Read(self.blocks.rows_once(self.set, part.entry)?),
            };
        }
        for part in &mut self.parts {
            part.around = part.around();
        }
        // The processor waits where it does not know yet what page of memory a line is in: first lines first.
        self.parts.iter().for_each(Part::prefetch_first);
        self.parts.iter().for_each(Part::prefetch_others);
        self.parts.iter().for_each(|part| part.give(each));
        self.reading.blocks += self.parts.len() as u64;
        self.parts.clear();
        Ok(())
    }
}
