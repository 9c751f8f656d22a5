//! Moving rows from a level to the next, one range of rows at a time.
//!
//! The plain algorithm: take a range of rows of a level, merge them over the rows of the next level in that range, put the
//! result in the place of the latter, and take the range away from the former. Each such step leaves a valid file in
//! which every level is one sorted run, so nothing waits for a merge to end; the next step of the level begins where
//! this one ended, and after the last row at the first again. The first source is the frozen run in memory.
//!
//! A step reads and packs before it takes the write gate, against a state whose levels nobody else changes.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::Sizes;
use super::block::{Packed, Row, pack_rows};
use super::blocks::Blocks;
use super::level::{Level, Place};
use super::run::{Run, merge, part};
use super::sorted_set::SortedSet;
use super::state::{Edit, SetNumber, SetRow, Sets, State, new_slot};
use crate::error::Result;

/// How many times larger than a level the one below it is to be.
const GROWTH: u64 = 5;

/// A step reads at most such a part of a small file's blocks, so that what it writes before the old blocks can be given
/// back does not make the file much longer.
const STEP_PART: u64 = 32;
const LEAST_STEP_BLOCKS: u64 = 16;

/// A merge that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) set: SetNumber,
    source: Source,
    /// How urgent it is; above 1 it is to be done.
    pub(super) urgency: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The frozen run, into the first level.
    Frozen,
    /// A level, into the next.
    Level(usize),
}

/// The merge that is due most, if any is.
pub(super) fn most_urgent(state: &State, sizes: &Sizes) -> Option<Task> {
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
    let below = (1..set.levels.len()).map(|next| {
        let wanted = wanted_rows(rows(set.levels.len() - 1), set.levels.len() - next, sizes);
        task(Source::Level(next - 1), rows(next - 1) as f64 / wanted as f64)
    });
    let tasks =
        frozen.into_iter().chain(below).filter(|task| task.urgency > 1.0 || task.source == Source::Frozen);
    tasks.reduce(|most, task| if task.urgency > most.urgency { task } else { most })
}

/// How many rows a level is to have that stands so many above the last, which has `last` rows.
fn wanted_rows(last: u64, above: usize, sizes: &Sizes) -> u64 {
    (last / GROWTH.saturating_pow(above as u32)).max(sizes.recent_rows as u64)
}

/// A merge of one range, read and packed.
pub(super) struct Step<R> {
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
pub(super) fn prepare<R: SetRow>(sets: &Sets, blocks: &Blocks, task: Task, sizes: &Sizes) -> Result<Step<R>> {
    let most = (sets.blocks(sizes.block_bytes) / STEP_PART).max(LEAST_STEP_BLOCKS);
    let sizes = &Sizes { step_blocks: sizes.step_blocks.min(most as usize), ..*sizes };
    let set = R::set(sets, task.set);
    let empty = Arc::new(Level::empty());
    let (upper, target) = match task.source {
        Source::Frozen if needs_level(set, sizes) => (None, &empty),
        Source::Frozen => (None, &set.levels[0].level),
        Source::Level(index) => (Some(&set.levels[index]), &set.levels[index + 1].level),
    };
    let lowest = set.levels.last().is_none_or(|last| Arc::ptr_eq(&last.level, target));
    let (range, source, taken) = match upper {
        None => {
            let run = set.frozen.clone().unwrap_or_else(|| Run::new(Vec::new(), Vec::new(), set.rules));
            let first = [run.puts().first(), run.marks().first()].into_iter().flatten().min();
            let low = first.copied().unwrap_or(R::MAX);
            let high = run_end(&run, sizes).min(level_end(target, low, sizes));
            let range = low..=high;
            let taken = (part(run.puts(), &range).to_vec(), part(run.marks(), &range).to_vec());
            (range, None, taken)
        }
        Some(slot) => {
            let high = level_end(&slot.level, slot.next, sizes).min(level_end(target, slot.next, sizes));
            let range = slot.next..=high;
            let (source, taken) = take(set, &slot.level, blocks, &range, sizes)?;
            (range, Some(source), taken)
        }
    };
    let target = merge_into(set, target, blocks, &range, &taken, lowest, sizes)?;
    Ok(Step { task, next: range.end().next(), source, target })
}

/// The last row that a step from `low` on may take, so that it reads only so many blocks of a level.
fn level_end<R: Row>(level: &Level<R>, low: R, sizes: &Sizes) -> R {
    level.entry(level.find(low) + sizes.step_blocks - 1).map_or(R::MAX, |entry| entry.high)
}

/// The last row that a step may take of a run, by the same measure.
fn run_end<R: Row>(run: &Run<R>, sizes: &Sizes) -> R {
    let rows = sizes.step_blocks * sizes.block_bytes / R::BYTES;
    let end = |rows_of: &[R]| rows_of.get(rows).copied().unwrap_or(R::MAX);
    end(run.puts()).min(end(run.marks()))
}

/// The places of the blocks that may have rows in a range.
fn places<R: Row>(level: &Level<R>, range: &RangeInclusive<R>) -> Range<Place> {
    level.find(*range.start())..level.blocks().min(level.find(*range.end()) + 1)
}

/// The rows of some blocks, one after the other.
fn read<R: SetRow>(
    set: &SortedSet<R>,
    level: &Level<R>,
    blocks: &Blocks,
    old: &Range<Place>,
) -> Result<(Vec<R>, Vec<R>)> {
    let (from, to) = (level.rows_before(old.start), level.rows_before(old.end));
    let mut puts = Vec::with_capacity((to.0 - from.0) as usize);
    let mut marks = Vec::with_capacity((to.1 - from.1) as usize);
    for entry in level.entries(old.clone()) {
        let block = blocks.rows_once(set.name, entry)?;
        puts.extend_from_slice(&block.puts);
        marks.extend_from_slice(&block.marks);
    }
    Ok((puts, marks))
}

type Lists<R> = (Vec<R>, Vec<R>);

/// Takes the rows of a range away from a level.
fn take<R: SetRow>(
    set: &SortedSet<R>,
    level: &Level<R>,
    blocks: &Blocks,
    range: &RangeInclusive<R>,
    sizes: &Sizes,
) -> Result<(Replacement<R>, Lists<R>)> {
    let old = places(level, range);
    let (puts, marks) = read(set, level, blocks, &old)?;
    let split = |rows: Vec<R>| -> Lists<R> { rows.into_iter().partition(|row| range.contains(row)) };
    let ((puts, kept_puts), (marks, kept_marks)) = (split(puts), split(marks));
    let new = pack_rows(&kept_puts, &kept_marks, sizes.block_bytes, set.rules.filtered);
    Ok((Replacement { old, new }, (puts, marks)))
}

/// Merges rows of a range over those of a level.
fn merge_into<R: SetRow>(
    set: &SortedSet<R>,
    level: &Level<R>,
    blocks: &Blocks,
    range: &RangeInclusive<R>,
    newer: &Lists<R>,
    lowest: bool,
    sizes: &Sizes,
) -> Result<Replacement<R>> {
    if newer.0.is_empty() && newer.1.is_empty() {
        let nothing = level.find(*range.start());
        return Ok(Replacement { old: nothing..nothing, new: Vec::new() });
    }
    let old = places(level, range);
    let older = read(set, level, blocks, &old)?;
    let (puts, mut marks) = merge((&newer.0, &newer.1), (&older.0, &older.1), set.rules.life);
    if lowest {
        // There is nothing left that they could take away.
        marks.clear();
    }
    Ok(Replacement { old, new: pack_rows(&puts, &marks, sizes.block_bytes, set.rules.filtered) })
}

/// Whether the frozen run is to go into a new first level, because the one there is has become too large for it.
fn needs_level<R: Row>(set: &SortedSet<R>, sizes: &Sizes) -> bool {
    let Some(last) = set.levels.last() else { return true };
    let (puts, marks) = last.level.rows();
    let wanted = wanted_rows(puts + marks, set.levels.len() - 1, sizes);
    wanted > GROWTH * sizes.recent_rows as u64
}

/// Makes a step part of an edit of the state it was prepared against, or of a later one with the same levels.
pub(super) fn apply<R: SetRow>(step: Step<R>, edit: &mut Edit, sizes: &Sizes) {
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
    if !edit.state.sets.any_frozen() && edit.state.first_page < edit.state.frozen_pages {
        edit.state.first_page = edit.state.frozen_pages;
        edit.drops_log = true;
    }
}
