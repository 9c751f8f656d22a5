//! Stream: the rows of one source of a merge, read in order, a few blocks at a time.

use std::ops::Range;

use crate::error::Result;
use crate::store::blocks::{CachedRow, Lists, Row, SetBlocks};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Level, Position, part};

/// Rows in order. Only a few of them are held at a time, so they stay in the processor's cache.
pub(super) struct Stream<'a, R> {
    blocks: SetBlocks<'a>,
    /// The rows that are still to come.
    pub(super) input: Input<'a, R>,
    /// The rows that are held.
    rows: Lists<R>,
    /// The numbers of puts and of marks at the beginning of `rows` that were taken.
    taken: (usize, usize),
    /// The blocks of a level that are read at a time. More are read when fewer than `held_rows` rows are
    /// held.
    held_blocks: usize,
    held_rows: usize,
}

pub(super) enum Input<'a, R> {
    /// Puts and marks.
    Run(&'a [R], &'a [R]),
    /// Some blocks of a level.
    Level(&'a Level<R>, Range<Position>),
}

impl<R: Row> Input<'_, R> {
    /// The position behind the last block to come. `None` in a run.
    pub(super) fn end(&self) -> Option<Position> {
        match self {
            Self::Run(..) => None,
            Self::Level(_, positions) => Some(positions.end),
        }
    }

    /// Leaves out the rows after `high`, except for those in the same block of a level.
    pub(super) fn end_at(&mut self, high: R, blocks: SetBlocks<'_>) -> Result<()> {
        match self {
            Self::Run(puts, marks) => {
                *puts = part(puts, &(R::MIN..=high));
                *marks = part(marks, &(R::MIN..=high));
            }
            Self::Level(level, positions) => {
                let end = level.after(level.find(high, blocks)?, 1);
                positions.end = positions.end.min(end).max(positions.start);
            }
        }
        Ok(())
    }
}

impl<'a, R: CachedRow> Stream<'a, R> {
    /// A stream of the rows of a set. It reads about a 64th of the blocks of a step at a time.
    pub(super) fn new(blocks: SetBlocks<'a>, input: Input<'a, R>, sizes: &Sizes) -> Self {
        let held_blocks = sizes.step_blocks.div_ceil(64);
        let held_rows = held_blocks * sizes.block_bytes / R::BYTES;
        Self {
            blocks,
            input,
            rows: Lists::default(),
            taken: (0, 0),
            held_blocks,
            held_rows,
        }
    }

    /// Holds more rows, if there are more.
    pub(super) fn fill(&mut self) -> Result<()> {
        self.rows.puts.drain(..self.taken.0);
        self.rows.marks.drain(..self.taken.1);
        self.taken = (0, 0);
        if self.rows.len() >= self.held_rows {
            return Ok(());
        }
        match &mut self.input {
            Input::Run(puts, marks) => {
                let end = |rows: &[R]| rows.get(self.held_rows).copied().unwrap_or(R::MAX);
                let end = end(puts).min(end(marks));
                let (more_puts, more_marks) =
                    (part(puts, &(R::MIN..=end)), part(marks, &(R::MIN..=end)));
                self.rows.extend((more_puts, more_marks));
                (*puts, *marks) = (&puts[more_puts.len()..], &marks[more_marks.len()..]);
            }
            Input::Level(level, positions) => {
                let more = positions.start
                    ..positions
                        .end
                        .min(level.after(positions.start, self.held_blocks));
                positions.start = more.end;
                for entry in level.entries(more, self.blocks)? {
                    self.blocks.append_rows(entry, &mut self.rows)?;
                }
            }
        }
        Ok(())
    }

    /// The row up to which all rows are held.
    pub(super) fn known(&self) -> R {
        let more = match &self.input {
            Input::Run(puts, marks) => !puts.is_empty() || !marks.is_empty(),
            Input::Level(_, positions) => !positions.is_empty(),
        };
        let last = self.rows.puts.last().max(self.rows.marks.last());
        if more {
            last.copied().unwrap_or(R::MIN)
        } else {
            R::MAX
        }
    }

    /// The first row held.
    pub(super) fn first(&self) -> Option<R> {
        let (puts, marks) = self.held();
        let firsts = [puts.first(), marks.first()];
        firsts.into_iter().flatten().min().copied()
    }

    /// Takes the rows before `row`.
    pub(super) fn take_below(&mut self, row: R) -> (&[R], &[R]) {
        self.take(|other| other < row)
    }

    /// Takes the rows up to `row`, and `row` itself.
    pub(super) fn take_through(&mut self, row: R) -> (&[R], &[R]) {
        self.take(|other| other <= row)
    }

    /// The rows that are held and were not taken.
    fn held(&self) -> (&[R], &[R]) {
        let Lists { puts, marks } = &self.rows;
        (&puts[self.taken.0..], &marks[self.taken.1..])
    }

    fn take(&mut self, belongs: impl Fn(R) -> bool) -> (&[R], &[R]) {
        let (puts, marks) = self.held();
        let puts = puts.partition_point(|&row| belongs(row));
        let marks = marks.partition_point(|&row| belongs(row));
        let (first_put, first_mark) = self.taken;
        self.taken = (first_put + puts, first_mark + marks);
        (
            &self.rows.puts[first_put..self.taken.0],
            &self.rows.marks[first_mark..self.taken.1],
        )
    }
}
