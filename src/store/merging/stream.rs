//! The rows of one source of a merge, read in order, a few blocks at a time.

use std::ops::Range;

use crate::error::Result;
use crate::store::blocks::packed::{Lists, Row};
use crate::store::blocks::reader::Blocks;
use crate::store::file::state::SetRow;
use crate::store::sorted_set::level::{Level, Place};
use crate::store::sorted_set::run::part;
use crate::store::store::Sizes;

/// Rows in order, of which a few at a time are held, so that they stay in the processor's cache.
pub(crate) struct Stream<'a, R> {
    set: &'static str,
    blocks: &'a Blocks,
    /// What is still to come.
    pub(crate) input: Input<'a, R>,
    /// What is held, of which so many puts and marks are taken.
    rows: Lists<R>,
    taken: (usize, usize),
    /// How much is held at least, if there is as much.
    held_blocks: usize,
    held_rows: usize,
}

pub(crate) enum Input<'a, R> {
    /// Puts and marks.
    Run(&'a [R], &'a [R]),
    /// Some blocks, and the last row of the one before them.
    Level(&'a Level<R>, Range<Place>),
}

impl<R: Row> Input<'_, R> {
    /// The place of the first block that is not to come.
    pub(crate) fn end(&self) -> Option<Place> {
        match self {
            Self::Run(..) => None,
            Self::Level(_, places) => Some(places.end),
        }
    }

    /// Leaves out what comes after `high`, but for the rest of its block.
    pub(crate) fn end_at(&mut self, high: R) {
        match self {
            Self::Run(puts, marks) => {
                *puts = part(puts, &(R::MIN..=high));
                *marks = part(marks, &(R::MIN..=high));
            }
            Self::Level(level, places) => {
                places.end = places.end.min(level.after(level.find(high), 1)).max(places.start);
            }
        }
    }
}

impl<'a, R: SetRow> Stream<'a, R> {
    /// Of a set of that name. It holds at least a 64th of what a step may read.
    pub(crate) fn new(set: &'static str, blocks: &'a Blocks, input: Input<'a, R>, sizes: &Sizes) -> Self {
        let held_blocks = sizes.step_blocks.div_ceil(64);
        let held_rows = held_blocks * sizes.block_bytes / R::BYTES;
        Self { set, blocks, input, rows: Lists::default(), taken: (0, 0), held_blocks, held_rows }
    }

    /// Holds some more, as long as there are any.
    pub(crate) fn fill(&mut self) -> Result<()> {
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
                let (more_puts, more_marks) = (part(puts, &(R::MIN..=end)), part(marks, &(R::MIN..=end)));
                self.rows.extend((more_puts, more_marks));
                (*puts, *marks) = (&puts[more_puts.len()..], &marks[more_marks.len()..]);
            }
            Input::Level(level, places) => {
                let more = places.start..places.end.min(level.after(places.start, self.held_blocks));
                places.start = more.end;
                for entry in level.entries(more) {
                    self.blocks.append_rows(self.set, entry, &mut self.rows)?;
                }
            }
        }
        Ok(())
    }

    /// Up to which row everything is held.
    pub(crate) fn known(&self) -> R {
        let more = match &self.input {
            Input::Run(puts, marks) => !puts.is_empty() || !marks.is_empty(),
            Input::Level(_, places) => !places.is_empty(),
        };
        let last = self.rows.puts.last().max(self.rows.marks.last());
        if more { last.copied().unwrap_or(R::MIN) } else { R::MAX }
    }

    /// The first row held.
    pub(crate) fn first(&self) -> Option<R> {
        let (puts, marks) = (&self.rows.puts[self.taken.0..], &self.rows.marks[self.taken.1..]);
        [puts.first(), marks.first()].into_iter().flatten().min().copied()
    }

    /// Takes the rows before one.
    pub(crate) fn take_below(&mut self, row: R) -> (&[R], &[R]) {
        self.take(|it| it < row)
    }

    /// Takes the rows up to one.
    pub(crate) fn take_through(&mut self, row: R) -> (&[R], &[R]) {
        self.take(|it| it <= row)
    }

    fn take(&mut self, belongs: impl Fn(R) -> bool) -> (&[R], &[R]) {
        let (puts, marks) = (&self.rows.puts[self.taken.0..], &self.rows.marks[self.taken.1..]);
        let puts = &puts[..puts.partition_point(|&row| belongs(row))];
        let marks = &marks[..marks.partition_point(|&row| belongs(row))];
        self.taken = (self.taken.0 + puts.len(), self.taken.1 + marks.len());
        (puts, marks)
    }
}
