//! Inspecting a set: every block is read from the file, and the order of its rows is verified.

use std::ops::RangeInclusive;

use super::level::Level;
use super::lists::{merge, part};
use super::set::SetLevel;
use super::set_reader::{SetReader, ranges_to};
use crate::error::{Error, Result};
use crate::store::blocks::{Entry, Lists, Problem, Row};

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
            newer = merge((&newer.puts, &newer.marks), run.within(range), life);
        }
        for SetLevel { level, .. } in &self.set.levels {
            let older = self.inspect_level(level, range, fault)?;
            if newer.len() == 0 {
                newer = older;
            } else {
                let older = (&older.puts[..], &older.marks[..]);
                newer = merge((&newer.puts, &newer.marks), older, life);
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
        cut(&mut rows.puts, range);
        cut(&mut rows.marks, range);
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

/// Leaves out the rows outside of a range.
fn cut<R: Row>(rows: &mut Vec<R>, range: &RangeInclusive<R>) {
    let before = rows.partition_point(|row| row < range.start());
    let within = part(&rows[before..], range).len();
    rows.truncate(before + within);
    rows.drain(..before);
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
