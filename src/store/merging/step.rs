//! One step of a merge: moving the rows of one range from a source to the level below it.
//!
//! The plain algorithm: take a range of rows of the source. Merge them over the rows of the level below in
//! that range. Replace these by the result, and remove the range from the source. Each step leaves a valid
//! file in which every level is one sorted run. So nothing waits for the end of a merge. The next step
//! begins where this one ended, and at the first row again after the last one. The first source is the
//! frozen run in memory.
//!
//! A step reads and packs its rows before it takes the gate that commits go through. Nobody else changes
//! the levels of the state that it reads.

use std::ops::Range;
use std::sync::Arc;

use super::due::Source;
use crate::error::Result;
use crate::planted::planted;
use crate::store::blocks::{Blocks, Lists, Packed, Packer, Row, SetBlocks};
use crate::store::file::{Edit, Set, SetRow, Sets};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Level, Life, Position, Run, SetLevel, merge_onto, part};

/// Makes a change of a set part of an edit. The change is read and packed already. The edit is of the state that it
/// was made for, or of a later one with the same levels.
pub(crate) type Apply = Box<dyn FnOnce(&mut Edit, &Blocks) -> Result<()> + Send>;

/// A step of a set, read and packed.
pub(super) struct Prepared {
    /// The rows and the bytes of its new blocks.
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) apply: Apply,
}

/// Reads, merges and packs one range of a source of a set.
pub(super) fn prepare<R: SetRow>(
    sets: &Sets,
    id: Set<R>,
    source: Source,
    blocks: &Blocks,
    sizes: &Sizes,
) -> Result<Prepared> {
    let step = merge_range(sets, id, source, blocks, sizes)?;
    let (rows, bytes) = step.written();
    Ok(Prepared {
        rows,
        bytes,
        apply: Box::new(move |edit, blocks| apply(step, id, edit, blocks)),
    })
}

/// A merge of one range, read and packed.
struct Step<R> {
    source: Source,
    /// The first row of the next step of the source. `None` if this step took its last rows.
    next: Option<R>,
    /// The change of the source, if that is a level.
    upper: Option<Replacement<R>>,
    /// The change of the level below.
    lower: Replacement<R>,
}

impl<R: Row> Step<R> {
    /// The rows and bytes of its new blocks.
    fn written(&self) -> (u64, u64) {
        let mut rows = 0;
        let mut bytes = 0;
        for Replacement { new, .. } in self.upper.iter().chain([&self.lower]) {
            for block in new {
                rows += u64::from(block.puts) + u64::from(block.marks);
                bytes += block.bytes.len() as u64;
            }
        }
        (rows, bytes)
    }
}

/// New blocks in the place of old ones.
struct Replacement<R> {
    old: Range<Position>,
    new: Vec<Packed<R>>,
}

/// A step reads at most one in this number of the blocks of a small file. It writes its new blocks before
/// the space of the old blocks is free. So a larger step would make the file much longer.
const STEP_PART: u64 = 32;
const LEAST_STEP_BLOCKS: u64 = 8;

/// The most blocks of a level that a step reads.
fn step_blocks(sets: &Sets, sizes: &Sizes) -> usize {
    let most = (sets.blocks(sizes.block_bytes) / STEP_PART).max(LEAST_STEP_BLOCKS);
    sizes.step_blocks.min(most as usize)
}

fn merge_range<R: SetRow>(
    sets: &Sets,
    id: Set<R>,
    source: Source,
    blocks: &Blocks,
    sizes: &Sizes,
) -> Result<Step<R>> {
    let set = &sets[id];
    let blocks = blocks.of_table(id.table());
    let most = step_blocks(sets, sizes);
    let empty = Arc::new(Level::empty(0));
    let (upper, lower) = match source {
        Source::FrozenAlone => (None, &empty),
        Source::Frozen => (None, &set.levels[0].level),
        Source::Level(index) => (Some(&set.levels[index]), &set.levels[index + 1].level),
    };
    let (input, from, end) = match upper {
        None => {
            // A step of one of several runs would lose the rows of the others.
            assert!(
                set.frozen.len() <= 1,
                "the frozen runs of a set are merged before its first step"
            );
            let run = set.frozen.first();
            let (puts, marks) = run.map_or((&[][..], &[][..]), Run::lists);
            let rows = most * sizes.block_bytes / R::BYTES;
            let end = row_at(puts, rows).min(row_at(marks, rows));
            (Input::Run(puts, marks), R::MIN, end)
        }
        Some(SetLevel { level, next }) => {
            let rest = level.find(*next, blocks)?..level.end();
            let end = level_end(level, *next, most, blocks)?;
            (Input::Level(level, rest), *next, end)
        }
    };
    let mut newer = Stream::new(blocks, input, sizes);
    // Rows that stay in the source: in its first block the rows before the range, and in its last block
    // the rows behind it.
    let mut staying = Packer::new(sizes.block_bytes, set.rules.filtered, blocks.file());
    newer.fill()?;
    staying.waiting.extend(newer.take_below(from));
    let Some(low) = newer.first() else {
        // There are no rows from `from` on. So the next step begins at the first row again.
        let nothing = lower.end()..lower.end();
        let lower = Replacement {
            old: nothing,
            new: Vec::new(),
        };
        return Ok(Step {
            source,
            next: None,
            upper: None,
            lower,
        });
    };
    let high = end.min(level_end(lower, low, most, blocks)?);
    newer.input.end_at(high, blocks)?;
    let source_end = newer.input.end();
    let replaced = lower.overlapping(&(low..=high), blocks)?;
    let mut merge = Merge {
        older: Stream::new(blocks, Input::Level(lower, replaced.clone()), sizes),
        life: set.rules.life,
        // There are no rows below the last level that marks could remove.
        keeps_marks: match set.levels.last() {
            Some(last) => !Arc::ptr_eq(&last.level, lower),
            None => false,
        },
        merged: Packer::new(sizes.block_bytes, set.rules.filtered, blocks.file()),
    };
    merge.run(&mut newer, high)?;
    let new = merge.merged.finish();
    staying.waiting.extend(newer.take_through(R::MAX));
    let upper = match upper.zip(source_end) {
        Some((upper, end)) => Some(Replacement {
            old: upper.level.find(from, blocks)?..end,
            new: staying.finish(),
        }),
        None => None,
    };
    Ok(Step {
        source,
        next: high.next(),
        upper,
        lower: Replacement { old: replaced, new },
    })
}

/// A merge of a newer stream over an older one.
struct Merge<'a, R: 'static> {
    older: Stream<'a, R>,
    life: Life,
    keeps_marks: bool,
    merged: Packer<R>,
}

impl<R: Row> Merge<'_, R> {
    /// Merges a newer stream up to the row `high` and all of the older one, and packs the result.
    fn run(&mut self, newer: &mut Stream<'_, R>, high: R) -> Result<()> {
        let older = &mut self.older;
        let merged = &mut self.merged;
        loop {
            newer.fill()?;
            older.fill()?;
            let known = newer.known().min(older.known());
            // Rows of the newer stream behind the range stay where they are.
            let part = newer.take_through(known.min(high));
            merge_onto(
                part,
                older.take_through(known),
                self.life,
                &mut merged.waiting,
            );
            if !self.keeps_marks || planted("a merge drops marks that older rows need") {
                merged.waiting.marks.clear();
            }
            if known == R::MAX && planted("a merge drops its last row") {
                merged.waiting.puts.pop();
            }
            merged.settle();
            if known == R::MAX {
                return Ok(());
            }
        }
    }
}

/// The last row that a step from `low` on may take, if it reads at most `most` blocks of the level.
fn level_end<R: Row>(level: &Level<R>, low: R, most: usize, blocks: SetBlocks<'_>) -> Result<R> {
    let last = level.after(level.find(low, blocks)?, most - 1);
    let last = level.entry(last, blocks)?;
    Ok(last.map_or(R::MAX, |entry| entry.high))
}

/// The row of an index, or the greatest row there may be behind the end.
fn row_at<R: Row>(rows: &[R], index: usize) -> R {
    rows.get(index).copied().unwrap_or(R::MAX)
}

fn apply<R: SetRow>(step: Step<R>, id: Set<R>, edit: &mut Edit, blocks: &Blocks) -> Result<()> {
    let Step {
        source,
        next,
        upper,
        lower,
    } = step;
    let mut set = edit.state.sets[id].clone();
    let index = match source {
        Source::Frozen | Source::FrozenAlone => {
            if source == Source::FrozenAlone {
                let level = set.new_level();
                set.levels.insert(0, level);
            }
            let rest = set.frozen.pop().zip(next).map(|(run, next)| run.from(next));
            set.frozen.extend(rest.filter(|run| run.len() > 0));
            0
        }
        Source::Level(index) => {
            let level = &mut set.levels[index];
            level.next = next.unwrap_or(R::MIN);
            if let Some(upper) = upper
                && !planted("a merge leaves its rows in the level that they come from")
            {
                replace(level, upper, id, edit, blocks)?;
            }
            index + 1
        }
    };
    replace(&mut set.levels[index], lower, id, edit, blocks)?;
    // An empty level would only cost readers time.
    set.levels.retain(|set| set.level.blocks() > 0);
    edit.state.sets[id] = set;
    edit.drop_log();
    Ok(())
}

fn replace<R: SetRow>(
    in_level: &mut SetLevel<R>,
    by: Replacement<R>,
    id: Set<R>,
    edit: &mut Edit,
    blocks: &Blocks,
) -> Result<()> {
    let name = id.level(in_level.level.number);
    in_level.level = edit.replace(name, &in_level.level, by.old, by.new, blocks)?;
    Ok(())
}

/// Rows in order. Only a few of them are held at a time, so they stay in the processor's cache.
struct Stream<'a, R: 'static> {
    blocks: SetBlocks<'a>,
    /// The rows that are still to come.
    input: Input<'a, R>,
    /// The rows that are held.
    rows: Lists<R>,
    /// The numbers of puts and of marks at the beginning of `rows` that were taken.
    taken: (usize, usize),
    /// The blocks of a level that are read at a time. More are read when fewer than `held_rows` rows are
    /// held.
    held_blocks: usize,
    held_rows: usize,
}

enum Input<'a, R: 'static> {
    /// Puts and marks.
    Run(&'a [R], &'a [R]),
    /// Some blocks of a level.
    Level(&'a Level<R>, Range<Position>),
}

impl<R: Row> Input<'_, R> {
    /// The position behind the last block to come. `None` in a run.
    fn end(&self) -> Option<Position> {
        match self {
            Self::Run(..) => None,
            Self::Level(_, positions) => Some(positions.end),
        }
    }

    /// Leaves out the rows after `high`, except for those in the same block of a level.
    fn end_at(&mut self, high: R, blocks: SetBlocks<'_>) -> Result<()> {
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

impl<'a, R: Row> Stream<'a, R> {
    /// A stream of the rows of a set. It reads about a 64th of the blocks of a step at a time.
    fn new(blocks: SetBlocks<'a>, input: Input<'a, R>, sizes: &Sizes) -> Self {
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
    fn fill(&mut self) -> Result<()> {
        self.rows.puts.drain(..self.taken.0);
        self.rows.marks.drain(..self.taken.1);
        self.taken = (0, 0);
        if self.rows.len() >= self.held_rows {
            return Ok(());
        }
        match &mut self.input {
            Input::Run(puts, marks) => {
                let end = row_at(puts, self.held_rows).min(row_at(marks, self.held_rows));
                let more_puts = part(puts, &(R::MIN..=end));
                let more_marks = part(marks, &(R::MIN..=end));
                self.rows.extend((more_puts, more_marks));
                *puts = &puts[more_puts.len()..];
                *marks = &marks[more_marks.len()..];
            }
            Input::Level(level, positions) => {
                let start = positions.start;
                positions.start = positions.end.min(level.after(start, self.held_blocks));
                level.append_blocks(start..positions.start, self.blocks, &mut self.rows)?;
            }
        }
        Ok(())
    }

    /// The row up to which all rows are held.
    fn known(&self) -> R {
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
    fn first(&self) -> Option<R> {
        let (puts, marks) = self.held();
        let firsts = [puts.first(), marks.first()];
        firsts.into_iter().flatten().min().copied()
    }

    /// Takes the rows before `row`.
    fn take_below(&mut self, row: R) -> (&[R], &[R]) {
        let (puts, marks) = self.held();
        let puts = puts.partition_point(|&other| other < row);
        let marks = marks.partition_point(|&other| other < row);
        self.take(puts, marks)
    }

    /// Takes the rows up to `row`, and `row` itself.
    fn take_through(&mut self, row: R) -> (&[R], &[R]) {
        match row.next() {
            Some(next) => self.take_below(next),
            None => {
                let (puts, marks) = self.held();
                let puts = puts.len();
                let marks = marks.len();
                self.take(puts, marks)
            }
        }
    }

    /// The rows that are held and were not taken.
    fn held(&self) -> (&[R], &[R]) {
        let Lists { puts, marks } = &self.rows;
        (&puts[self.taken.0..], &marks[self.taken.1..])
    }

    /// Takes so many puts and marks.
    fn take(&mut self, puts: usize, marks: usize) -> (&[R], &[R]) {
        let (first_put, first_mark) = self.taken;
        self.taken = (first_put + puts, first_mark + marks);
        let puts = &self.rows.puts[first_put..self.taken.0];
        let marks = &self.rows.marks[first_mark..self.taken.1];
        (puts, marks)
    }
}
