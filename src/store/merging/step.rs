//! Moving rows from a level to the next, one range of rows at a time.
//!
//! The plain algorithm: take a range of rows of a level, merge them over the rows of the next level in that range, put the
//! result in the place of the latter, and take the range away from the former. Each such step leaves a valid file in
//! which every level is one sorted run, so nothing waits for a merge to end; the next step of the level begins where
//! this one ended, and after the last row at the first again. The first source is the frozen run in memory.
//!
//! A step reads and packs before it takes the write gate, against a state whose levels nobody else changes.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::store::blocks::packed::{Packed, Packer, Row};
use crate::store::blocks::reader::Blocks;
use crate::store::file::state::{Edit, SetNumber, SetRow, Sets, State, new_slot};
use crate::store::merging::stream::{Input, Stream};
use crate::store::sorted_set::level::{Level, Place};
use crate::store::sorted_set::reader::{Slot, SortedSet};
use crate::store::sorted_set::run::{Life, Run, merge_onto};
use crate::store::store::Sizes;

/// How many times larger than a level the one below it may be. A row is written about half as many times in each level, and once more;
/// a query reads each level, so fewer and larger ones than would be written fastest are better.
const MOST_GROWTH: f64 = 10.0;

/// A step reads at most such a part of a small file's blocks, so that what it writes before the old blocks can be given
/// back does not make the file much longer.
const STEP_PART: u64 = 32;
const LEAST_STEP_BLOCKS: u64 = 8;

/// A merge that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) set: SetNumber,
    source: Source,
    /// How urgent it is; above 1 it is to be done.
    pub(crate) urgency: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The frozen run, into the first level.
    Frozen,
    /// A level, into the next.
    Level(usize),
}

/// The merge that is due most, if any is.
pub(crate) fn most_urgent(state: &State, sizes: &Sizes) -> Option<Task> {
    let waiting = state.sets.recent_rows() as f64 / sizes.recent_rows as f64;
    let tasks = state.sets.numbers().filter_map(|set| match set {
        SetNumber::Wide(_) => urgent(u128::set(&state.sets, set), set, waiting, sizes),
        SetNumber::Narrow(_) => urgent(u64::set(&state.sets, set), set, waiting, sizes),
    });
    tasks.reduce(|most, task| if task.urgency > most.urgency { task } else { most })
}

/// `waiting`: how many times the limit the recent runs are long, which cannot be frozen before all frozen runs are gone.
fn urgent<R: Row>(set: &SortedSet<R>, number: SetNumber, waiting: f64, sizes: &Sizes) -> Option<Task> {
    let task = |source, urgency| Task { set: number, source, urgency };
    let frozen = set.frozen.as_ref().map(|_| task(Source::Frozen, 1.0 + waiting));
    let rows = |index: usize| {
        let (puts, marks) = set.levels[index].level.rows();
        puts + marks
    };
    let growth = growth(set, sizes);
    let below = (1..set.levels.len()).map(|next| {
        let wanted = sizes.recent_rows as f64 * growth.powi(next as i32);
        task(Source::Level(next - 1), rows(next - 1) as f64 / wanted)
    });
    let tasks =
        frozen.into_iter().chain(below).filter(|task| task.urgency > 1.0 || task.source == Source::Frozen);
    tasks.reduce(|most, task| if task.urgency > most.urgency { task } else { most })
}

/// How many times larger than the runs in memory the first level is to be, and each level than the one above it: as often as that
/// makes the last as large as it is.
fn growth<R: Row>(set: &SortedSet<R>, sizes: &Sizes) -> f64 {
    let (puts, marks) = set.levels.last().map_or((0, 0), |last| last.level.rows());
    let times = (puts + marks) as f64 / sizes.recent_rows as f64;
    times.powf(1.0 / set.levels.len().max(1) as f64).max(1.0)
}

/// A merge of one range, read and packed.
pub(crate) struct Step<R> {
    task: Task,
    /// Where the next step of the source begins; `None` if this one took its last rows.
    next: Option<R>,
    source: Option<Replacement<R>>,
    target: Replacement<R>,
}

/// New blocks for the places of old ones.
struct Replacement<R> {
    old: Range<Place>,
    new: Vec<Packed<R>>,
}

/// Reads what a task asks for, as much as a step may take, and merges it.
pub(crate) fn prepare<R: SetRow>(sets: &Sets, blocks: &Blocks, task: Task, sizes: &Sizes) -> Result<Step<R>> {
    let most = step_blocks(sets, sizes);
    let set = R::set(sets, task.set);
    let empty = Arc::new(Level::empty());
    let (upper, target) = match task.source {
        Source::Frozen if needs_level(set, sizes) => (None, &empty),
        Source::Frozen => (None, &set.levels[0].level),
        Source::Level(index) => (Some(&set.levels[index]), &set.levels[index + 1].level),
    };
    let stream = |input| Stream::new(set.name, blocks, input, sizes);
    let packer = || Packer::new(sizes.block_bytes, set.rules.filtered);
    let (mut newer, from, end) = match upper {
        None => {
            let run = set.frozen.as_ref();
            let end = run.map_or(R::MAX, |run| run_end(run, most * sizes.block_bytes / R::BYTES));
            let (puts, marks) = run.map_or((&[][..], &[][..]), |run| (run.puts(), run.marks()));
            (stream(Input::Run(puts, marks)), R::MIN, end)
        }
        Some(Slot { level, next, .. }) => {
            (stream(Input::Level(level, level.from(*next))), *next, level_end(level, *next, most))
        }
    };
    // Rows of the source that stay in it: in the first block before the range of this step, in the last behind it.
    let mut staying = packer();
    newer.fill()?;
    staying.waiting.extend(newer.take_below(from));
    let Some(low) = newer.first() else {
        // There is nothing from there on, so that the next step begins at the first row again.
        let nothing = target.end()..target.end();
        let target = Replacement { old: nothing, new: Vec::new() };
        return Ok(Step { task, next: None, source: None, target });
    };
    let high = end.min(level_end(target, low, most));
    newer.input.end_at(high);
    let source_end = newer.input.end();
    let replaced = target.overlapping(&(low..=high));
    let older = stream(Input::Level(target, replaced.clone()));
    // In the last level there is nothing left that marks could take away.
    let keeps_marks = set.levels.last().is_some_and(|last| !Arc::ptr_eq(&last.level, target));
    let merged = merge_streams(&mut newer, older, high, set.rules.life, keeps_marks, packer())?;
    staying.waiting.extend(newer.take_through(R::MAX));
    let staying = staying.finish();
    let source = upper
        .zip(source_end)
        .map(|(slot, end)| Replacement { old: slot.level.find(from)..end, new: staying });
    Ok(Step { task, next: high.next(), source, target: Replacement { old: replaced, new: merged } })
}

/// Merges a newer stream up to the row `high` and all of an older one, and packs the result.
fn merge_streams<R: SetRow>(
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
        // Of the newer, what is behind the range stays.
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

/// How many blocks of a level a step reads.
fn step_blocks(sets: &Sets, sizes: &Sizes) -> usize {
    let most = (sets.blocks(sizes.block_bytes) / STEP_PART).max(LEAST_STEP_BLOCKS);
    sizes.step_blocks.min(most as usize)
}

/// The last row that a step from `low` on may take, so that it reads only so many blocks of a level.
fn level_end<R: Row>(level: &Level<R>, low: R, most: usize) -> R {
    level.entry(level.after(level.find(low), most - 1)).map_or(R::MAX, |entry| entry.high)
}

/// The last row that a step may take of a run, so that it takes about so many.
fn run_end<R: Row>(run: &Run<R>, rows: usize) -> R {
    let end = |rows_of: &[R]| rows_of.get(rows).copied().unwrap_or(R::MAX);
    end(run.puts()).min(end(run.marks()))
}

/// Whether the frozen run is to go into a new first level, because the one there is is to be too large for it.
fn needs_level<R: Row>(set: &SortedSet<R>, sizes: &Sizes) -> bool {
    set.levels.is_empty() || growth(set, sizes) > MOST_GROWTH
}

/// Makes a step part of an edit of the state it was prepared against, or of a later one with the same levels.
pub(crate) fn apply<R: SetRow>(step: Step<R>, edit: &mut Edit, sizes: &Sizes) {
    let Step { task, next, source, target } = step;
    let mut set = R::set(&edit.state.sets, task.set).clone();
    let index = match task.source {
        Source::Frozen => {
            if needs_level(&set, sizes) {
                let slot = new_slot(&set);
                set.levels.insert(0, slot);
            }
            set.frozen = set.frozen.zip(next).map(|(run, next)| run.from(next)).filter(|run| run.len() > 0);
            0
        }
        Source::Level(index) => {
            let slot = &mut set.levels[index];
            slot.next = next.unwrap_or(R::MIN);
            if let Some(Replacement { old, new }) = source {
                let place = task.set.place(slot.number);
                slot.level = edit.replace(place, &slot.level, old, new, sizes.chunk_entries);
            }
            index + 1
        }
    };
    let slot = &mut set.levels[index];
    let place = task.set.place(slot.number);
    slot.level = edit.replace(place, &slot.level, target.old, target.new, sizes.chunk_entries);
    // What has become empty only lies between a reader and the rows.
    set.levels.retain(|slot| slot.level.blocks() > 0);
    *R::set_mut(&mut edit.state.sets, task.set) = set;
    edit.drop_log();
}
