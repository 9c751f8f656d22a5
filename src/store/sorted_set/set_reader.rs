//! SetReader: a set as a transaction or a snapshot reads it, forward by ranges, or backward from the last row; and as a
//! check reads it, which verifies every block and the order of its rows.

use std::ops::RangeInclusive;

use sdd::Guard;

use super::level::{Level, Position};
use super::run::{Run, merge, part, sorted};
use super::set::{Overlay, SetLevel, SortedSet};
use crate::error::{Error, Result};
use crate::store::blocks::{Block, Entry, Lists, Problem, Row, SetBlocks};

/// A set as a transaction or snapshot reads it.
#[derive(Clone, Copy)]
pub(crate) struct SetReader<'a, R: 'static> {
    pub(crate) set: &'a SortedSet<R>,
    pub(crate) overlay: Option<&'a Overlay<R>>,
    pub(crate) blocks: SetBlocks<'a>,
}

impl<'a, R: Row> SetReader<'a, R> {
    /// Reads what is committed.
    pub(crate) fn new(set: &'a SortedSet<R>, blocks: SetBlocks<'a>) -> Self {
        Self {
            set,
            overlay: None,
            blocks,
        }
    }

    /// The sorted runs in memory, from new to old.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &'a Run<R>> {
        let written = match self.overlay {
            Some(overlay) => overlay.parts().0,
            None => &[],
        };
        written.iter().rev().chain(self.set.runs())
    }

    /// The same runs, for whoever looks at their sizes. It is not noted that they are searched.
    pub(crate) fn sorted_runs(&self) -> impl Iterator<Item = &'a Run<R>> {
        let written = match self.overlay {
            Some(overlay) => overlay.puts().0,
            None => &[],
        };
        written.iter().rev().chain(self.set.runs())
    }

    /// Fetches what a search for a row reads first in each level.
    pub(crate) fn prefetch(&self, row: R) {
        let guard = Guard::new();
        for SetLevel { level, .. } in &self.set.levels {
            if let Some(segment) = level.segment(level.chunk_of(row), &guard) {
                segment.prefetch_index(row, row);
            }
        }
    }

    /// The rows that the transaction wrote last and has not sorted.
    fn unsorted(&self) -> (&'a [R], &'a [R]) {
        match self.overlay {
            Some(overlay) => {
                let (_, puts, marks) = overlay.parts();
                (puts, marks)
            }
            None => (&[], &[]),
        }
    }

    /// The unsorted rows of a range, sorted.
    fn unsorted_within(&self, range: &RangeInclusive<R>) -> Lists<R> {
        let (puts, marks) = self.unsorted();
        Lists {
            puts: sorted_within(puts, range),
            marks: sorted_within(marks, range),
        }
    }

    /// Fills `rows.puts` with all rows of a range that some source puts, in no order and perhaps more than
    /// once. Rows that a newer source marks are there too. Blocks that are read for it are not cached.
    pub(crate) fn puts(&self, range: &RangeInclusive<R>, rows: &mut Lists<R>) -> Result<()> {
        rows.puts.clear();
        for SetLevel { level, .. } in &self.set.levels {
            let first = rows.puts.len();
            rows.marks.clear();
            level.append_rows(range, self.blocks, rows)?;
            keep_within(&mut rows.puts, first, range);
        }
        for run in self.runs() {
            rows.puts.extend(run.within(range).0);
        }
        let (unsorted, _) = self.unsorted();
        rows.puts
            .extend(unsorted.iter().filter(|row| range.contains(row)));
        Ok(())
    }

    /// Ranges that together cover all rows, in order. Each has up to eight blocks of the largest level.
    pub(crate) fn parts(&self) -> Result<Vec<RangeInclusive<R>>> {
        const BLOCKS: usize = 8;
        let mut ends = Vec::new();
        let levels = self.set.levels.iter().map(|set| &set.level);
        if let Some(level) = levels.max_by_key(|level| level.blocks()) {
            let entries = level.entries(level.all(), self.blocks)?;
            for entry in entries.skip(BLOCKS - 1).step_by(BLOCKS) {
                ends.push(entry.high);
            }
        }
        Ok(ranges_to(ends))
    }

    /// Calls `each` with every row that is in the set, in order.
    #[cfg(test)]
    pub(crate) fn each(&self, mut each: impl FnMut(R)) -> Result<()> {
        for range in self.parts()? {
            self.rows(&range)?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// The rows of a range that are in the set, in order. Blocks that are read for it are not cached.
    pub(crate) fn rows(&self, range: &RangeInclusive<R>) -> Result<Vec<R>> {
        let mut newer = self.unsorted_within(range);
        let life = self.set.rules.life;
        for run in self.runs() {
            newer = merge(newer.as_slices(), run.within(range), life);
        }
        for SetLevel { level, .. } in &self.set.levels {
            let mut older = Lists::default();
            level.append_rows(range, self.blocks, &mut older)?;
            let older = (part(&older.puts, range), part(&older.marks, range));
            newer = merge(newer.as_slices(), older, life);
        }
        Ok(newer.puts)
    }

    /// The numbers of rows of a range that all sources together put and mark. A row that several put counts for
    /// each. If rows live [`once`](super::run::Life::Once), the puts less the marks are in the set. The length of
    /// the range hardly changes the cost.
    pub(crate) fn puts_and_marks(&self, range: &RangeInclusive<R>) -> Result<(u64, u64)> {
        let (puts, marks) = self.unsorted();
        let mut all_puts = count_within(puts, range);
        let mut all_marks = count_within(marks, range);
        for run in self.runs() {
            let (puts, marks) = run.within(range);
            all_puts += puts.len() as u64;
            all_marks += marks.len() as u64;
        }
        for SetLevel { level, .. } in &self.set.levels {
            let (puts, marks) = level.count(range, self.blocks)?;
            all_puts += puts;
            all_marks += marks;
        }
        Ok((all_puts, all_marks))
    }

    /// Whether there may be rows with this prefix, in a set with filters.
    pub(crate) fn may_have(&self, prefix: u64) -> Result<bool> {
        if let Some(overlay) = self.overlay
            && overlay.may_have(prefix)
        {
            return Ok(true);
        }
        for run in self.set.runs() {
            if run.passes(prefix) {
                return Ok(true);
            }
        }
        for SetLevel { level, .. } in &self.set.levels {
            if level.passes(prefix, self.blocks)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The last rows of a range that are in the set, at most `limit`, the last one first.
    pub(crate) fn last(&self, range: &RangeInclusive<R>, limit: usize) -> Result<Vec<R>> {
        let unsorted = self.unsorted_within(range);
        let guard = Guard::new();
        let mut sources = vec![Backward::lists(
            self.blocks,
            &guard,
            &unsorted.puts,
            &unsorted.marks,
        )];
        // Filters know only prefixes, so they help if all rows of the range have the same prefix.
        let prefix = range.start().prefix();
        let has_one_prefix = prefix == range.end().prefix();
        for run in self.runs() {
            if !has_one_prefix || run.passes(prefix) {
                let (puts, marks) = run.within(range);
                sources.push(Backward::lists(self.blocks, &guard, puts, marks));
            }
        }
        let has_filter = has_one_prefix && self.set.rules.filtered;
        for SetLevel { level, .. } in &self.set.levels {
            // If the level has rows of one prefix, the first of them is in the first block that can have one.
            if !has_filter || level.passes(prefix, self.blocks)? {
                sources.push(Backward::level(self.blocks, &guard, level, range)?);
            }
        }
        sources.retain(|source| source.peek().is_some());
        let mut last = Vec::new();
        while last.len() < limit {
            // If several sources have the same row, the newest of them decides. It comes first.
            let mut newest: Option<(R, bool)> = None;
            for current in sources.iter().filter_map(Backward::peek) {
                if newest.is_none_or(|newest| current.0 > newest.0) {
                    newest = Some(current);
                }
            }
            let Some((row, put)) = newest else { break };
            if put {
                last.push(row);
            }
            for source in &mut sources {
                if source.peek().is_some_and(|(other, _)| other == row) {
                    source.advance()?;
                }
            }
        }
        Ok(last)
    }
}

/// The ranges that end with these rows, which are in order, and one that ends with the last row there is. Together
/// they cover all rows.
fn ranges_to<R: Row>(ends: Vec<R>) -> Vec<RangeInclusive<R>> {
    let mut ranges = Vec::with_capacity(ends.len() + 1);
    let mut next = Some(R::MIN);
    for end in ends.into_iter().chain([R::MAX]) {
        if let Some(low) = next.filter(|&low| low <= end) {
            ranges.push(low..=end);
            next = end.next();
        }
    }
    ranges
}

/// The rows of a range, in order.
fn sorted_within<R: Row>(rows: &[R], range: &RangeInclusive<R>) -> Vec<R> {
    let within = rows.iter().copied().filter(|row| range.contains(row));
    sorted(within.collect())
}

/// The number of unsorted rows of a range.
fn count_within<R: Row>(rows: &[R], range: &RangeInclusive<R>) -> u64 {
    rows.iter().filter(|row| range.contains(row)).count() as u64
}

/// The rows of one source, from the last to the first.
struct Backward<'a, R: 'static> {
    blocks: SetBlocks<'a>,
    guard: &'a Guard,
    block: Block<'a, R>,
    puts_left: usize,
    marks_left: usize,
    /// For a level with more blocks: the level, the position of the current block, and the first row of
    /// the range.
    rest: Option<(&'a Level<R>, Position, R)>,
}

impl<'a, R: Row> Backward<'a, R> {
    /// The rows of two sorted lists.
    fn lists(blocks: SetBlocks<'a>, guard: &'a Guard, puts: &'a [R], marks: &'a [R]) -> Self {
        Self {
            blocks,
            guard,
            block: Block::Resident(puts, marks),
            puts_left: puts.len(),
            marks_left: marks.len(),
            rest: None,
        }
    }

    /// The rows of a level in a range.
    fn level(
        blocks: SetBlocks<'a>,
        guard: &'a Guard,
        level: &'a Level<R>,
        range: &RangeInclusive<R>,
    ) -> Result<Self> {
        let mut source = Self::lists(blocks, guard, &[], &[]);
        let end = level.find(*range.end(), blocks)?;
        source.rest = Some((level, end, *range.start()));
        // Some rows of the block in which the range ends may lie behind the range, and perhaps all of them.
        if let Some((_, block)) = level.block(end, blocks, guard)? {
            source.puts_left = block.puts().partition_point(|row| row <= range.end());
            source.marks_left = block.marks().partition_point(|row| row <= range.end());
            source.block = block;
        }
        if source.puts_left + source.marks_left == 0 {
            source.load()?;
        }
        source.cut();
        Ok(source)
    }

    /// The current row, and whether it is put.
    fn peek(&self) -> Option<(R, bool)> {
        match (
            self.block.puts()[..self.puts_left].last(),
            self.block.marks()[..self.marks_left].last(),
        ) {
            (Some(&put), Some(&mark)) if put >= mark => Some((put, true)),
            (_, Some(&mark)) => Some((mark, false)),
            (Some(&put), None) => Some((put, true)),
            (None, None) => None,
        }
    }

    /// Goes on to the row before.
    fn advance(&mut self) -> Result<()> {
        match self.peek() {
            Some((_, true)) => self.puts_left -= 1,
            Some((_, false)) => self.marks_left -= 1,
            None => return Ok(()),
        }
        if self.puts_left + self.marks_left == 0 {
            self.load()?;
        }
        self.cut();
        Ok(())
    }

    /// Goes on with the block before, if it may have rows of the range.
    fn load(&mut self) -> Result<()> {
        let Some((level, position, low)) = self.rest else {
            return Ok(());
        };
        self.rest = None;
        if let Some(position) = level.before(position)
            && let Some((high, block)) = level.block(position, self.blocks, self.guard)?
            && high >= low
        {
            self.puts_left = block.puts().len();
            self.marks_left = block.marks().len();
            self.block = block;
            self.rest = Some((level, position, low));
        }
        Ok(())
    }

    /// Ends the source if the current row lies before the range.
    fn cut(&mut self) {
        if let Some((_, _, low)) = self.rest
            && let Some((row, _)) = self.peek()
            && row < low
        {
            self.puts_left = 0;
            self.marks_left = 0;
            self.rest = None;
        }
    }
}

// Inspecting: every block is read from the file, and the order of its rows is verified.

/// Called with the first and the last row that may be in a block that cannot be read or is wrong in itself.
type Fault<'f, R> = &'f mut dyn FnMut(R, R, Error) -> Result<()>;

impl<R: Row> SetReader<'_, R> {
    /// Ranges that together cover all rows, in order. At most `blocks` blocks end in each, those of all
    /// levels counted. So the rows of a range take a bounded memory, whatever the levels are like.
    pub(crate) fn even_parts(&self, blocks: usize) -> Result<Vec<RangeInclusive<R>>> {
        let mut ends: Vec<R> = Vec::new();
        for SetLevel { level, .. } in &self.set.levels {
            let entries = level.entries(level.all(), self.blocks)?;
            ends.extend(entries.map(|entry| entry.high));
        }
        ends.sort_unstable();
        let ends = ends.into_iter().skip(blocks - 1).step_by(blocks);
        Ok(ranges_to(ends.collect()))
    }

    /// The rows of a range that are in the set, in order. Each block is read from the file, also if the
    /// cache has it. `fault` is called for each faulty block that ends in the range. The rows of faulty
    /// blocks are left out.
    pub(crate) fn inspect(&self, range: &RangeInclusive<R>, fault: Fault<'_, R>) -> Result<Vec<R>> {
        let life = self.set.rules.life;
        let mut newer = Lists::default();
        for run in self.runs() {
            newer = merge(newer.as_slices(), run.within(range), life);
        }
        for SetLevel { level, .. } in &self.set.levels {
            let older = self.inspect_level(level, range, fault)?;
            if newer.len() == 0 {
                newer = older;
            } else {
                newer = merge(newer.as_slices(), older.as_slices(), life);
            }
        }
        Ok(newer.puts)
    }

    /// The rows of a range that a level puts and marks.
    fn inspect_level(
        &self,
        level: &Level<R>,
        range: &RangeInclusive<R>,
        fault: Fault<'_, R>,
    ) -> Result<Lists<R>> {
        let positions = level.overlapping(range, self.blocks)?;
        let before = level.entry_before(positions.start, self.blocks)?;
        let mut before = before.map(|entry| entry.high);
        let mut rows = Lists::default();
        for entry in level.entries(positions, self.blocks)? {
            let puts = rows.puts.len();
            let marks = rows.marks.len();
            if let Err(error) = self.inspect_block(level, entry, before, &mut rows) {
                rows.puts.truncate(puts);
                rows.marks.truncate(marks);
                // A block that ends behind the range is a fault of a later range.
                if entry.high <= *range.end() {
                    let first = before.and_then(Row::next).unwrap_or(R::MIN);
                    fault(first, entry.high, error)?;
                }
            }
            before = Some(entry.high);
        }
        keep_within(&mut rows.puts, 0, range);
        keep_within(&mut rows.marks, 0, range);
        Ok(rows)
    }

    /// Adds the rows of a block. `before` is the last row of the block before it.
    fn inspect_block(
        &self,
        level: &Level<R>,
        entry: &Entry<R>,
        before: Option<R>,
        rows: &mut Lists<R>,
    ) -> Result<()> {
        let held = (rows.puts.len(), rows.marks.len());
        self.blocks.read_rows(entry, rows)?;
        let puts = &rows.puts[held.0..];
        let marks = &rows.marks[held.1..];
        ensure_order(puts, marks, before).map_err(|problem| self.blocks.damaged(entry, problem))?;
        if !self.set.rules.filtered {
            return Ok(());
        }
        for row in puts.iter().chain(marks) {
            if !level.passes(row.prefix(), self.blocks)? {
                let problem = "the filter does not know all its rows";
                return Err(self.blocks.damaged(entry, problem));
            }
        }
        Ok(())
    }
}

/// Of the rows from the index `first` on, which are in order, leaves out those outside of a range.
fn keep_within<R: Row>(rows: &mut Vec<R>, first: usize, range: &RangeInclusive<R>) {
    let start = first + rows[first..].partition_point(|row| row < range.start());
    let end = start + rows[start..].partition_point(|row| row <= range.end());
    rows.truncate(end);
    rows.drain(first..start);
}

/// Refuses rows that a search would not find where it looks for them.
fn ensure_order<R: Row>(puts: &[R], marks: &[R], before: Option<R>) -> Result<(), Problem> {
    if !rises(puts) || !rises(marks) {
        return Err("its rows are out of order");
    }
    if marks.iter().any(|row| puts.binary_search(row).is_ok()) {
        return Err("it puts and marks the same row");
    }
    let first = [puts.first(), marks.first()].into_iter().flatten().min();
    if let Some(&first) = first
        && before.is_some_and(|before| first <= before)
    {
        return Err("it begins before the block before it ends");
    }
    Ok(())
}

/// Whether each row comes after the one before.
fn rises<R: Row>(rows: &[R]) -> bool {
    let mut rises = true;
    // Without an early end, the processor compares many rows at a time.
    for pair in rows.windows(2) {
        rises &= pair[0] < pair[1];
    }
    rises
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_out_of_order_are_refused() {
        assert_eq!(ensure_order(&[2u64, 5], &[3], Some(1)), Ok(()));
        assert_eq!(ensure_order::<u64>(&[], &[], Some(1)), Ok(()));
        assert_eq!(ensure_order(&[0u64], &[], None), Ok(()));
        for (puts, marks) in [
            (&[5u64, 2][..], &[][..]),
            (&[2, 2], &[]),
            (&[], &[4, 3]),
            (&[2, 5], &[5]),
        ] {
            assert!(
                ensure_order(puts, marks, None).is_err(),
                "{puts:?}, {marks:?}"
            );
        }
        assert!(ensure_order(&[3u64, 5], &[2], Some(2)).is_err());
    }
}
