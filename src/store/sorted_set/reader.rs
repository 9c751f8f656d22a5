//! A sorted set of fixed-width rows: recent runs in memory over levels of packed blocks on disk.
//!
//! The plain algorithm: a row is in the set if the newest source that knows it puts it. Sources from new to old are what
//! the transaction at hand wrote, the recent runs, the frozen run that is being merged into the first level, and the
//! levels. Within a source a row is put or marked, never both.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::Result;
use crate::store::blocks::packed::{Lists, Row};
use crate::store::blocks::reader::{Block, Blocks, CachedRow};
use crate::store::sorted_set::chunk::Entry;
use crate::store::sorted_set::level::{Level, Place};
use crate::store::sorted_set::overlay::Overlay;
use crate::store::sorted_set::run::{Rules, Run, merge, part, push_run};

/// What one sorted set holds at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet<R> {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    /// What was committed last, the newest run last.
    pub(crate) recent: Vec<Run<R>>,
    /// What is being merged into the first level: rows already there are taken from it.
    pub(crate) frozen: Option<Run<R>>,
    /// The newest first. Each is several times larger than the one before.
    pub(crate) levels: Vec<Slot<R>>,
}

/// A level in its place.
#[derive(Clone, Debug)]
pub(crate) struct Slot<R> {
    /// The number under which the chunks of its directory are stored.
    pub(crate) number: u8,
    /// The first row that the next merge into the level below takes.
    pub(crate) next: R,
    pub(crate) level: Arc<Level<R>>,
}

impl<R: Row> SortedSet<R> {
    pub(crate) fn new(name: &'static str, rules: Rules) -> Self {
        Self { name, rules, recent: Vec::new(), frozen: None, levels: Vec::new() }
    }

    /// Adds what a transaction wrote.
    pub(crate) fn push(&mut self, run: Run<R>) {
        push_run(&mut self.recent, run, self.rules);
    }

    /// Makes the recent runs the frozen one.
    pub(crate) fn freeze(&mut self) {
        let runs = std::mem::take(&mut self.recent);
        self.frozen = runs.into_iter().rev().reduce(|newer, older| newer.over(&older, self.rules));
    }

    /// How many rows are put and marked in all sources.
    pub(crate) fn rows(&self) -> (u64, u64) {
        let memory = self.recent.iter().chain(&self.frozen);
        let memory = memory.map(|run| (run.puts().len() as u64, run.marks().len() as u64));
        let levels = self.levels.iter().map(|slot| slot.level.rows());
        memory.chain(levels).fold((0, 0), |sum, rows| (sum.0 + rows.0, sum.1 + rows.1))
    }
}

/// A set as a transaction or snapshot reads it.
pub(crate) struct SetReader<'a, R> {
    pub(crate) set: &'a SortedSet<R>,
    pub(crate) overlay: Option<&'a Overlay<R>>,
    pub(crate) blocks: &'a Blocks,
}

impl<'a, R: CachedRow> SetReader<'a, R> {
    /// The sorted runs in memory, from new to old.
    fn runs(&self) -> impl Iterator<Item = &'a Run<R>> {
        self.written_runs().chain(self.set.recent.iter().rev()).chain(&self.set.frozen)
    }

    /// The sorted runs that the transaction wrote, from new to old.
    pub(crate) fn written_runs(&self) -> impl Iterator<Item = &'a Run<R>> + use<'a, R> {
        self.overlay.map_or(&[][..], |overlay| overlay.parts().0).iter().rev()
    }

    /// The rows that the transaction wrote last and has not sorted.
    pub(crate) fn unsorted(&self) -> (&'a [R], &'a [R]) {
        self.overlay.map_or((&[], &[]), |overlay| {
            let (_, puts, marks) = overlay.parts();
            (puts, marks)
        })
    }

    /// Those of a range, sorted.
    fn unsorted_within(&self, range: &RangeInclusive<R>) -> Lists<R> {
        let (puts, marks) = self.unsorted();
        let sorted = |rows: &[R]| {
            let mut rows: Vec<R> = rows.iter().copied().filter(|row| range.contains(row)).collect();
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        Lists { puts: sorted(puts), marks: sorted(marks) }
    }

    pub(crate) fn block(&self, entry: &Entry<R>) -> Result<Block<R>> {
        self.blocks.rows(self.set.name, entry)
    }

    /// The sorted runs in memory, those of the transaction apart.
    pub(crate) fn memory_runs(&self) -> impl Iterator<Item = &'a Run<R>> + use<'a, R> {
        self.set.recent.iter().chain(&self.set.frozen)
    }

    /// Makes `rows` all rows in a range that some source puts: in no order, perhaps more than once, and also those that a
    /// newer source marks. Blocks that are read for it are not cached.
    pub(crate) fn puts(&self, range: &RangeInclusive<R>, rows: &mut Lists<R>) -> Result<()> {
        rows.puts.clear();
        for slot in &self.set.levels {
            let level = &slot.level;
            let first = rows.puts.len();
            for entry in level.entries(level.overlapping(range)) {
                rows.marks.clear();
                self.blocks.append_rows(self.set.name, entry, rows)?;
            }
            let before = rows.puts[first..].partition_point(|row| row < range.start());
            rows.puts.drain(first..first + before);
            let within = rows.puts[first..].partition_point(|row| row <= range.end());
            rows.puts.truncate(first + within);
        }
        for run in self.runs() {
            rows.puts.extend(run.within(range).0);
        }
        rows.puts.extend(self.unsorted().0.iter().filter(|row| range.contains(row)));
        Ok(())
    }

    /// Ranges that together cover all rows, in order, each of a few blocks of the largest level.
    pub(crate) fn parts(&self) -> impl Iterator<Item = RangeInclusive<R>> {
        const BLOCKS: usize = 8;
        let last = self.set.levels.last();
        let entries = last.into_iter().flat_map(|slot| slot.level.entries(slot.level.all()));
        let ends = entries.skip(BLOCKS - 1).step_by(BLOCKS).map(|entry| entry.high);
        let mut next = Some(R::MIN);
        ends.chain(std::iter::once(R::MAX)).filter_map(move |end| {
            let low = next.filter(|&low| low <= end)?;
            next = end.next();
            Some(low..=end)
        })
    }

    /// Calls `each` with every row that is in the set, in order.
    pub(crate) fn each(&self, mut each: impl FnMut(R)) -> Result<()> {
        for range in self.parts() {
            self.rows(&range)?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// The rows of a range that are in the set, in order. Blocks that are read for it are not cached.
    pub(crate) fn rows(&self, range: &RangeInclusive<R>) -> Result<Vec<R>> {
        let mut newer = self.unsorted_within(range);
        let life = self.set.rules.life;
        for run in self.runs() {
            let older = run.within(range);
            newer = merge((&newer.puts, &newer.marks), older, life);
        }
        for slot in &self.set.levels {
            let level = &slot.level;
            let mut older = Lists::default();
            for entry in level.entries(level.overlapping(range)) {
                self.blocks.append_rows(self.set.name, entry, &mut older)?;
            }
            let older = (part(&older.puts, range), part(&older.marks, range));
            newer = merge((&newer.puts, &newer.marks), older, life);
        }
        Ok(newer.puts)
    }

    /// How many rows of a range are in the set, if rows live [`once`](crate::store::sorted_set::run::Life::Once): puts less marks, whatever the length of
    /// the range.
    pub(crate) fn count(&self, range: &RangeInclusive<R>) -> Result<i64> {
        let (puts, marks) = self.unsorted();
        let within = |rows: &[R]| rows.iter().filter(|row| range.contains(row)).count() as i64;
        let mut count = within(puts) - within(marks);
        for run in self.runs() {
            let (puts, marks) = run.within(range);
            count += puts.len() as i64 - marks.len() as i64;
        }
        for slot in &self.set.levels {
            count += self.count_level(&slot.level, range)?;
        }
        Ok(count)
    }

    fn count_level(&self, level: &Level<R>, range: &RangeInclusive<R>) -> Result<i64> {
        let first = level.find(*range.start());
        let Some(entry) = level.entry(first) else { return Ok(0) };
        let block = self.block(entry)?;
        let count = |block: &Block<R>, range: &RangeInclusive<R>| {
            part(block.puts(), range).len() as i64 - part(block.marks(), range).len() as i64
        };
        let mut sum = count(&block, range);
        if entry.high >= *range.end() {
            return Ok(sum);
        }
        // The blocks between are counted by the directory.
        let last = level.find(*range.end());
        let (from, to) = (level.rows_before(level.after(first, 1)), level.rows_before(last));
        sum += (to.0 - from.0) as i64 - (to.1 - from.1) as i64;
        if let Some(entry) = level.entry(last) {
            sum += count(&self.block(entry)?, range);
        }
        Ok(sum)
    }

    /// Whether there may be rows with these leading bits, in a set with filters.
    pub(crate) fn may_have(&self, lead: u64) -> bool {
        let committed = self.set.recent.iter().chain(&self.set.frozen);
        self.overlay.is_some_and(|overlay| overlay.may_have(lead))
            || committed.into_iter().any(|run| run.passes(lead))
            || self.set.levels.iter().any(|slot| slot.level.passes(lead))
    }

    /// The last rows of a range that are in the set, the last first: at most `limit`.
    pub(crate) fn last(&self, range: &RangeInclusive<R>, limit: usize) -> Result<Vec<R>> {
        let unsorted = self.unsorted_within(range);
        let mut sources = vec![Backward::lists(&unsorted.puts, &unsorted.marks)];
        // Filters know rows by their leading bits.
        let lead = (range.start().lead() == range.end().lead()).then_some(range.start().lead());
        for run in self.runs().filter(|run| lead.is_none_or(|lead| run.passes(lead))) {
            let (puts, marks) = run.within(range);
            sources.push(Backward::lists(puts, marks));
        }
        for slot in &self.set.levels {
            // If rows of one lead are there, the first is in the first block that can have one.
            if !self.set.rules.filtered || lead.is_none() || slot.level.passes(range.start().lead()) {
                sources.push(Backward::level(self, &slot.level, range)?);
            }
        }
        sources.retain(|source| source.peek().is_some());
        let mut last = Vec::new();
        while last.len() < limit {
            // The newest of equal rows comes first, and decides.
            let newest =
                sources.iter().filter_map(Backward::peek).reduce(|a, b| if b.0 > a.0 { b } else { a });
            let Some((row, put)) = newest else { break };
            if put {
                last.push(row);
            }
            for source in &mut sources {
                if source.peek().is_some_and(|it| it.0 == row) {
                    source.step(self)?;
                }
            }
        }
        Ok(last)
    }
}

/// The rows of one source, from the last to the first.
struct Backward<'a, R> {
    rows: Rows<'a, R>,
    puts_left: usize,
    marks_left: usize,
    /// Where a level goes on: its place and the first row wanted.
    rest: Option<(&'a Level<R>, Place, R)>,
}

enum Rows<'a, R> {
    Lists(&'a [R], &'a [R]),
    Block(Block<R>),
}

impl<R> Rows<'_, R> {
    fn lists(&self) -> (&[R], &[R]) {
        match self {
            Rows::Lists(puts, marks) => (puts, marks),
            Rows::Block(block) => (block.puts(), block.marks()),
        }
    }
}

impl<'a, R: CachedRow> Backward<'a, R> {
    fn lists(puts: &'a [R], marks: &'a [R]) -> Self {
        Self { rows: Rows::Lists(puts, marks), puts_left: puts.len(), marks_left: marks.len(), rest: None }
    }

    fn level(reader: &SetReader<'_, R>, level: &'a Level<R>, range: &RangeInclusive<R>) -> Result<Self> {
        let mut source = Self::lists(&[], &[]);
        source.rest = Some((level, level.find(*range.end()), *range.start()));
        // The block in which the range ends may have rows behind it, or none before it.
        if let Some(entry) = level.entry(level.find(*range.end())) {
            let block = reader.block(entry)?;
            source.puts_left = block.puts().partition_point(|row| row <= range.end());
            source.marks_left = block.marks().partition_point(|row| row <= range.end());
            source.rows = Rows::Block(block);
        }
        if source.puts_left + source.marks_left == 0 {
            source.load(reader)?;
        }
        source.cut();
        Ok(source)
    }

    fn peek(&self) -> Option<(R, bool)> {
        let (puts, marks) = self.rows.lists();
        let put = puts[..self.puts_left].last().map(|&row| (row, true));
        put.max(marks[..self.marks_left].last().map(|&row| (row, false)))
    }

    fn step(&mut self, reader: &SetReader<'_, R>) -> Result<()> {
        match self.peek() {
            Some((_, true)) => self.puts_left -= 1,
            Some((_, false)) => self.marks_left -= 1,
            None => return Ok(()),
        }
        if self.puts_left + self.marks_left == 0 {
            self.load(reader)?;
        }
        self.cut();
        Ok(())
    }

    /// Goes on with the block before.
    fn load(&mut self, reader: &SetReader<'_, R>) -> Result<()> {
        let Some((level, place, low)) = self.rest else { return Ok(()) };
        self.rest = None;
        if let Some(place) = level.before(place)
            && let Some(entry) = level.entry(place).filter(|entry| entry.high >= low)
        {
            let block = reader.block(entry)?;
            (self.puts_left, self.marks_left) = (block.puts().len(), block.marks().len());
            self.rows = Rows::Block(block);
            self.rest = Some((level, place, low));
        }
        Ok(())
    }

    /// Ends where the range begins.
    fn cut(&mut self) {
        if let (Some((_, _, low)), Some((row, _))) = (self.rest, self.peek())
            && row < low
        {
            (self.puts_left, self.marks_left, self.rest) = (0, 0, None);
        }
    }
}
