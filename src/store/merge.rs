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

use super::Sizes;
use super::block::{Lists, Packed, Packer, Row};
use super::blocks::Blocks;
use super::level::{Level, Place};
use super::run::{Run, merge_onto, part};
use super::sorted_set::{Slot, SortedSet};
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
    let most = step_blocks(sets, sizes);
    let set = R::set(sets, task.set);
    let empty = Arc::new(Level::empty());
    let (upper, target) = match task.source {
        Source::Frozen if needs_level(set, sizes) => (None, &empty),
        Source::Frozen => (None, &set.levels[0].level),
        Source::Level(index) => (Some(&set.levels[index]), &set.levels[index + 1].level),
    };
    let held = sizes.step_blocks.div_ceil(64);
    let stream = |input| Stream {
        set: set.name,
        blocks,
        input,
        rows: Lists::default(),
        taken: (0, 0),
        held_blocks: held,
        held_rows: held * sizes.block_bytes / R::BYTES,
    };
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
    let mut older = stream(Input::Level(target, replaced.clone()));
    let lowest = set.levels.last().is_none_or(|last| Arc::ptr_eq(&last.level, target));
    let mut merged = packer();
    loop {
        newer.fill()?;
        older.fill()?;
        let known = newer.known().min(older.known());
        // Of the source, what is behind the range stays.
        let part = newer.take_through(known.min(high));
        merge_onto(part, older.take_through(known), set.rules.life, &mut merged.waiting);
        if lowest {
            // There is nothing left that they could take away.
            merged.waiting.marks.clear();
        }
        merged.settle();
        if known == R::MAX {
            break;
        }
    }
    staying.waiting.extend(newer.take_through(R::MAX));
    let staying = staying.finish();
    let source = upper
        .zip(source_end)
        .map(|(slot, end)| Replacement { old: slot.level.find(from)..end, new: staying });
    let target = Replacement { old: replaced, new: merged.finish() };
    Ok(Step { task, next: high.next(), source, target })
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

/// Rows in order, of which a few at a time are held, so that they stay in the processor's cache.
struct Stream<'a, R> {
    set: &'static str,
    blocks: &'a Blocks,
    /// What is still to come.
    input: Input<'a, R>,
    /// What is held, of which so many puts and marks are taken.
    rows: Lists<R>,
    taken: (usize, usize),
    /// How much is held at least, if there is as much.
    held_blocks: usize,
    held_rows: usize,
}

enum Input<'a, R> {
    /// Puts and marks.
    Run(&'a [R], &'a [R]),
    /// Some blocks, and the last row of the one before them.
    Level(&'a Level<R>, Range<Place>),
}

impl<R: Row> Input<'_, R> {
    /// The place of the first block that is not to come.
    fn end(&self) -> Option<Place> {
        match self {
            Self::Run(..) => None,
            Self::Level(_, places) => Some(places.end),
        }
    }

    /// Leaves out what comes after `high`, but for the rest of its block.
    fn end_at(&mut self, high: R) {
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

impl<R: SetRow> Stream<'_, R> {
    /// Holds some more, as long as there are any.
    fn fill(&mut self) -> Result<()> {
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
    fn known(&self) -> R {
        let more = match &self.input {
            Input::Run(puts, marks) => !puts.is_empty() || !marks.is_empty(),
            Input::Level(_, places) => !places.is_empty(),
        };
        let last = self.rows.puts.last().max(self.rows.marks.last());
        if more { last.copied().unwrap_or(R::MIN) } else { R::MAX }
    }

    /// The first row held.
    fn first(&self) -> Option<R> {
        let (puts, marks) = (&self.rows.puts[self.taken.0..], &self.rows.marks[self.taken.1..]);
        [puts.first(), marks.first()].into_iter().flatten().min().copied()
    }

    /// Takes the rows before one.
    fn take_below(&mut self, row: R) -> (&[R], &[R]) {
        self.take(|it| it < row)
    }

    /// Takes the rows up to one.
    fn take_through(&mut self, row: R) -> (&[R], &[R]) {
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
    edit.drop_log();
}
