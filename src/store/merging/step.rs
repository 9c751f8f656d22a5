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

use super::policy::Source;
use super::stream::{Input, Stream};
use crate::error::Result;
use crate::store::blocks::{Blocks, CachedRow, Packed, Packer, Row, SetBlocks};
use crate::store::file::{Edit, Set, SetRow};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Level, Life, Position, Run, SetLevel, SortedSet, merge_onto};

/// A merge of one range, read and packed.
pub(super) struct Step<R> {
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
    pub(super) fn written(&self) -> (u64, u64) {
        let new = self
            .upper
            .iter()
            .chain([&self.lower])
            .flat_map(|part| &part.new);
        new.fold((0, 0), |(rows, bytes), block| {
            (
                rows + u64::from(block.puts) + u64::from(block.marks),
                bytes + block.bytes.len() as u64,
            )
        })
    }
}

/// New blocks in the place of old ones.
struct Replacement<R> {
    old: Range<Position>,
    new: Vec<Packed<R>>,
}

/// Reads and merges one range of a source. It reads at most `most` blocks of each level.
pub(super) fn prepare<R: CachedRow>(
    set: &SortedSet<R>,
    blocks: SetBlocks<'_>,
    source: Source,
    most: usize,
    sizes: &Sizes,
) -> Result<Step<R>> {
    let empty = Arc::new(Level::empty(0));
    let (upper, lower) = match source {
        Source::FrozenAlone => (None, &empty),
        Source::Frozen => (None, &set.levels[0].level),
        Source::Level(index) => (Some(&set.levels[index]), &set.levels[index + 1].level),
    };
    let stream = |input| Stream::new(blocks, input, sizes);
    let packer = || Packer::new(sizes.block_bytes, set.rules.filtered, blocks.file());
    let (mut newer, from, end) = match upper {
        None => {
            // A step of one of several runs would lose the rows of the others.
            assert!(
                set.frozen.len() <= 1,
                "the frozen runs of a set are merged before its first step"
            );
            let run = set.frozen.first();
            let end = run.map_or(R::MAX, |run| {
                run_end(run, most * sizes.block_bytes / R::BYTES)
            });
            let (puts, marks) = run.map_or((&[][..], &[][..]), Run::lists);
            (stream(Input::Run(puts, marks)), R::MIN, end)
        }
        Some(SetLevel { level, next, .. }) => {
            let rest = level.find(*next, blocks)?..level.end();
            (
                stream(Input::Level(level, rest)),
                *next,
                level_end(level, *next, most, blocks)?,
            )
        }
    };
    // Rows that stay in the source: in its first block the rows before the range, and in its last block
    // the rows behind it.
    let mut staying = packer();
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
    let older = stream(Input::Level(lower, replaced.clone()));
    // There are no rows below the last level that marks could remove.
    let keeps_marks = set
        .levels
        .last()
        .is_some_and(|last| !Arc::ptr_eq(&last.level, lower));
    let new = merge_streams(
        &mut newer,
        older,
        high,
        set.rules.life,
        keeps_marks,
        packer(),
    )?;
    staying.waiting.extend(newer.take_through(R::MAX));
    let staying = staying.finish();
    let upper = match upper.zip(source_end) {
        Some((upper, end)) => Some(Replacement {
            old: upper.level.find(from, blocks)?..end,
            new: staying,
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

/// Merges a newer stream up to the row `high` and all of an older one, and packs the result.
fn merge_streams<R: CachedRow>(
    newer: &mut Stream<'_, R>,
    mut older: Stream<'_, R>,
    high: R,
    life: Life,
    keeps_marks: bool,
    mut merged: Packer<R>,
) -> Result<Vec<Packed<R>>> {
    loop {
        newer.fill()?;
        older.fill()?;
        let known = newer.known().min(older.known());
        // Rows of the newer stream behind the range stay where they are.
        let part = newer.take_through(known.min(high));
        merge_onto(part, older.take_through(known), life, &mut merged.waiting);
        if !keeps_marks {
            merged.waiting.marks.clear();
        }
        merged.settle();
        if known == R::MAX {
            return Ok(merged.finish());
        }
    }
}

/// The last row that a step from `low` on may take, if it reads at most `most` blocks of the level.
fn level_end<R: Row>(level: &Level<R>, low: R, most: usize, blocks: SetBlocks<'_>) -> Result<R> {
    let last = level.after(level.find(low, blocks)?, most - 1);
    Ok(level
        .entry(last, blocks)?
        .map_or(R::MAX, |entry| entry.high))
}

/// The last row that a step may take of a run, if it takes about `rows` rows.
fn run_end<R: Row>(run: &Run<R>, rows: usize) -> R {
    let end = |rows_of: &[R]| rows_of.get(rows).copied().unwrap_or(R::MAX);
    end(run.puts()).min(end(run.marks()))
}

/// Makes a step part of an edit. The edit is of the state that was read for the step, or of a later one
/// with the same levels.
pub(super) fn apply<R: SetRow>(
    step: Step<R>,
    id: Set<R>,
    edit: &mut Edit,
    blocks: &Blocks,
) -> Result<()> {
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
            if let Some(upper) = upper {
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
