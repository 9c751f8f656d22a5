//! Backward: the rows of one source of a set, from the last to the first.

use std::ops::RangeInclusive;

use super::level::{Level, Position};
use crate::error::Result;
use crate::store::blocks::{Block, CachedRow, SetBlocks};

/// The rows of one source, from the last to the first.
pub(super) struct Backward<'a, R> {
    blocks: SetBlocks<'a>,
    rows: Rows<'a, R>,
    puts_left: usize,
    marks_left: usize,
    /// For a level with more blocks: the level, the position of the current block, and the first row of
    /// the range.
    rest: Option<(&'a Level<R>, Position, R)>,
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
    /// The rows of two sorted lists.
    pub(super) fn lists(blocks: SetBlocks<'a>, puts: &'a [R], marks: &'a [R]) -> Self {
        let (puts_left, marks_left) = (puts.len(), marks.len());
        Self {
            blocks,
            rows: Rows::Lists(puts, marks),
            puts_left,
            marks_left,
            rest: None,
        }
    }

    /// The rows of a level in a range.
    pub(super) fn level(
        blocks: SetBlocks<'a>,
        level: &'a Level<R>,
        range: &RangeInclusive<R>,
    ) -> Result<Self> {
        let mut source = Self::lists(blocks, &[], &[]);
        let end = level.find(*range.end(), blocks)?;
        source.rest = Some((level, end, *range.start()));
        // Some rows of the block in which the range ends may lie behind the range, and perhaps all of them.
        if let Some(entry) = level.entry(end, blocks)? {
            let block = blocks.rows(entry)?;
            source.puts_left = block.puts().partition_point(|row| row <= range.end());
            source.marks_left = block.marks().partition_point(|row| row <= range.end());
            source.rows = Rows::Block(block);
        }
        if source.puts_left + source.marks_left == 0 {
            source.load()?;
        }
        source.cut();
        Ok(source)
    }

    /// The current row, and whether it is put.
    pub(super) fn peek(&self) -> Option<(R, bool)> {
        let (puts, marks) = self.rows.lists();
        let put = puts[..self.puts_left].last().map(|&row| (row, true));
        put.max(marks[..self.marks_left].last().map(|&row| (row, false)))
    }

    /// Goes on to the row before.
    pub(super) fn advance(&mut self) -> Result<()> {
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
            && let Some(entry) = level
                .entry(position, self.blocks)?
                .filter(|entry| entry.high >= low)
        {
            let block = self.blocks.rows(entry)?;
            (self.puts_left, self.marks_left) = (block.puts().len(), block.marks().len());
            self.rows = Rows::Block(block);
            self.rest = Some((level, position, low));
        }
        Ok(())
    }

    /// Ends the source if the current row lies before the range.
    fn cut(&mut self) {
        if let (Some((_, _, low)), Some((row, _))) = (self.rest, self.peek())
            && row < low
        {
            (self.puts_left, self.marks_left, self.rest) = (0, 0, None);
        }
    }
}
