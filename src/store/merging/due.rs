//! Due: which work of merging is due. Decides by the numbers of rows and blocks only.

use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::files::available_bytes;
use crate::parallel;
use crate::store::blocks::Row;
use crate::store::file::{AnySet, Shared, State, by_row};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::SortedSet;
use crate::sync::MutexGuard;

/// The most times that a level may be larger than the level above it.
///
/// In each level a row is written about half that many times, and once more. More and smaller levels would
/// be written faster. But a query reads every level, so fewer and larger levels are better.
const MOST_GROWTH: f64 = 10.0;

/// Each level is to be at least this many times larger than the one above it. Only the large ones, with
/// [`MOST_GROWTH`] times as many rows as may be recent, follow the growth alone.
const LEAST_TIMES: u64 = 3;

/// A transaction waits for the merges once what is recent is this multiple of its limit.
const MOST_WAITING: usize = 2;

/// With more levels than this, two of them are merged, and a transaction that would add one more waits.
///
/// Without large transactions there are fewer. With a growth of ten and 250,000 recent operations, seven levels
/// have room for more documents than there are numbers.
pub(super) const MOST_LEVELS: usize = 8;

/// In a long pause, recent rows are merged only if they are at least their limit divided by this. Fewer rows
/// are not worth what is written for them.
const LEAST_FREEZING_PART: usize = 4;

/// Merges are behind once what is recent is this multiple of its limit. Then others begin to wait.
const BEHIND: f64 = 1.0;
const MOST_CORES: usize = 4;

/// What is merged into the level below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The frozen run, into the first level.
    Frozen,
    /// The frozen run, into a new level above the first.
    FrozenAlone,
    /// The level of this index, into the next.
    Level(usize),
}

/// How long nothing has been committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    None,
    /// So long that recent runs are merged into fewer, since queries search each of them.
    Short,
    /// So long that recent rows are merged although there is room for more. Then queries search fewer runs for
    /// them, and the next start does not read them from the log.
    Long,
}

/// The most urgent work.
pub(super) enum Work {
    /// The recent runs are to be frozen.
    Freezing,
    /// Runs of these sets are to be merged in memory. The frozen run of a set can go into a level only after that.
    Runs(Vec<AnySet>),
    /// A step of each of these merges, which are of different sets.
    Steps(Vec<(AnySet, Source)>),
    /// Pages of the log mean nothing any more.
    OldPages,
}

/// The most urgent work. `None` if nothing is to be merged.
///
/// If the merges are behind, several sets are merged at once, each on its own core. Otherwise they take no more than
/// one core from others.
pub(super) fn next_work(state: &State, sizes: &Sizes, pause: Pause) -> Option<Work> {
    let least = match pause {
        Pause::Long => sizes.recent_operations.div_ceil(LEAST_FREEZING_PART),
        Pause::None | Pause::Short => sizes.recent_operations,
    };
    if is_freezing_due(state, least) {
        return Some(Work::Freezing);
    }
    let waiting = state.recent_operations as f64 / sizes.recent_operations as f64;
    let at_once = if waiting < BEHIND {
        1
    } else {
        parallel::cores().min(MOST_CORES)
    };
    let in_pause = pause != Pause::None;
    let mut sets = Vec::new();
    let mut tasks = Vec::new();
    for any in state.sets.sets() {
        by_row!(any, set => {
            let set = &state.sets[set];
            if sets.len() < at_once && set.has_runs_to_merge(sizes.short_rows, in_pause) {
                sets.push(any);
            }
            if let Some((source, urgency)) = most_urgent_of(set, waiting, sizes) {
                tasks.push((urgency, any, source));
            }
        });
    }
    if !sets.is_empty() {
        return Some(Work::Runs(sets));
    }
    if !tasks.is_empty() {
        tasks.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        tasks.truncate(at_once);
        let steps = tasks.into_iter().map(|(_, set, source)| (set, source));
        return Some(Work::Steps(steps.collect()));
    }
    state.has_old_pages().then_some(Work::OldPages)
}

/// Whether the recent runs are to be frozen: they have at least `least` operations, and no run is
/// frozen.
///
/// If there are few documents, fewer operations are enough, down to a 16th. Otherwise a log of documents
/// that were replaced again and again would take several times the space of all that is there. Insertions
/// alone are never more than the documents.
fn is_freezing_due(state: &State, least: usize) -> bool {
    let few = (state.counters.documents / 8 * 9).max(least as u64 / 16);
    let is_long = state.recent_operations >= least as u64 || state.recent_operations > few;
    is_long && !state.sets.any_frozen()
}

/// The number of first levels that a fold of `rows` rows takes into the new level. It writes at most as many old rows
/// as new ones, or about a thousand. So closing a file of any size takes little time, and little space beside what
/// the levels take. Larger levels are left to the steps of merges.
pub(super) fn absorbed<R: Row>(set: &SortedSet<R>, rows: u64, sizes: &Sizes) -> usize {
    let most = rows.max(sizes.short_rows as u64 / 4);
    let mut taken = 0;
    for index in 0..set.levels.len() {
        taken += rows_of(set, index);
        if taken > most {
            return index;
        }
    }
    set.levels.len()
}

/// Whether each set may get one more level.
pub(super) fn has_room_for_levels(state: &State) -> bool {
    state.sets.levels_and_marks().0 as usize <= MOST_LEVELS
}

/// The most urgent merge of a set, if one is due, and how urgent it is.
///
/// `waiting` is the length of the recent runs, as a multiple of its limit. They cannot be frozen before
/// all frozen runs are gone. So the longer they are, the more urgent is the merge of a frozen run.
fn most_urgent_of<R: Row>(
    set: &SortedSet<R>,
    waiting: f64,
    sizes: &Sizes,
) -> Option<(Source, f64)> {
    let growth = growth(set, sizes);
    let mut due = Vec::new();
    if !set.frozen.is_empty() {
        // Otherwise the levels would grow by too large a factor.
        let needs_level = set.levels.is_empty() || growth > MOST_GROWTH;
        let source = if needs_level {
            Source::FrozenAlone
        } else {
            Source::Frozen
        };
        due.push((source, 1.0 + waiting));
    }
    for below in 1..set.levels.len() {
        let wanted = sizes.recent_operations as f64 * growth.powi(below as i32);
        // A large transaction may leave a level that is far too large. Its merge takes long. A frozen run goes
        // first before transactions have to wait.
        let urgency = (rows_of(set, below - 1) as f64 / wanted).min(MOST_WAITING as f64);
        if urgency > 1.0 {
            due.push((Source::Level(below - 1), urgency));
        }
    }
    due.extend(out_of_order(set, sizes));
    due.extend(too_many(set));
    // Of equal ones the first.
    due.into_iter()
        .reduce(|most, task| if task.1 > most.1 { task } else { most })
}

/// If a level is too large beside the one below it, the merge of the two. Folds leave such levels.
fn out_of_order<R: Row>(set: &SortedSet<R>, sizes: &Sizes) -> Option<(Source, f64)> {
    let large = MOST_GROWTH as u64 * sizes.recent_operations as u64;
    for below in 1..set.levels.len() {
        let rows = rows_of(set, below);
        let times = if rows >= large { 1 } else { LEAST_TIMES };
        if times * rows_of(set, below - 1) > rows {
            return Some((Source::Level(below - 1), 1.0));
        }
    }
    None
}

/// If a set has too many levels, the merge of the two neighbours that are smallest together. Large
/// transactions of few different rows leave small levels, none of which is too large.
fn too_many<R: Row>(set: &SortedSet<R>) -> Option<(Source, f64)> {
    if set.levels.len() <= MOST_LEVELS {
        return None;
    }
    let neighbours = 1..set.levels.len();
    let smallest = neighbours.min_by_key(|&below| rows_of(set, below - 1) + rows_of(set, below))?;
    Some((Source::Level(smallest - 1), 1.0))
}

/// The rows that a level puts and marks.
fn rows_of<R: Row>(set: &SortedSet<R>, index: usize) -> u64 {
    let (puts, marks) = set.levels[index].level.rows();
    puts + marks
}

/// The factor between the size of a level and that of the level above it. The runs in memory are above the
/// first level. With this factor the last level is just as large as the largest level is now. That is the
/// last level itself, unless a large transaction has left a larger one.
fn growth<R: Row>(set: &SortedSet<R>, sizes: &Sizes) -> f64 {
    let mut most = 0;
    for index in 0..set.levels.len() {
        most = most.max(rows_of(set, index));
    }
    let times = most as f64 / sizes.recent_operations as f64;
    times.powf(1.0 / set.levels.len().max(1) as f64).max(1.0)
}

// Throttling transactions to a pace that merges can follow.

/// No merge begins if the disk has less room than this. After a write has failed, the engine cannot even
/// read.
const NEEDED_BYTES: u64 = 16 << 20;

/// Refuses to begin something that may need so many bytes and those of a merge, if the disk has less room.
pub(super) fn ensure_room(shared: &Shared, bytes: u64) -> Result<()> {
    let needed = NEEDED_BYTES + bytes;
    let Some(directory) = shared.target.parent() else {
        return Ok(());
    };
    match available_bytes(directory) {
        Ok(available) if available < needed => Err(Error::NoRoom {
            directory: directory.to_owned(),
            needed,
            available,
        }),
        _ => Ok(()),
    }
}

/// Makes a transaction of `operations` operations pause if the merges are behind, or wait until they have
/// caught up.
pub(crate) fn throttle(shared: &Shared, operations: usize) -> Result<()> {
    let limit = shared.sizes.recent_operations as u64;
    let mut waited = false;
    loop {
        let commits = shared.progress.lock().commits;
        let view = shared.view()?;
        let recent = view.state().recent_operations;
        let frozen = view.state().sets.any_frozen();
        drop(view);
        if recent < MOST_WAITING as u64 * limit {
            // The further behind the merges are, the longer the pause: up to ten microseconds an operation.
            let behind =
                recent.saturating_sub(limit) as f64 / ((MOST_WAITING as u64 - 1) * limit) as f64;
            let pause = Duration::from_secs_f64(behind * 10e-6 * operations as f64);
            if frozen && !waited && pause > Duration::from_micros(100) {
                thread::sleep(pause.min(Duration::from_millis(50)));
            }
            return Ok(());
        }
        waited = true;
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits while a merge of recent rows goes on and as many operations are recent as it began with. A
/// transaction that begins then is not throttled. The caller has no turn to write.
pub(crate) fn wait_for_merges(shared: &Shared) -> Result<()> {
    loop {
        let commits = shared.progress.lock().commits;
        shared.ensure_certain()?;
        let view = shared.view()?;
        let is_behind = view.state().sets.any_frozen()
            && view.state().recent_operations >= shared.sizes.recent_operations as u64;
        drop(view);
        if !is_behind {
            return Ok(());
        }
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until every set has room for one more level. Then keeps the merging thread from working, until the
/// guard is dropped. The caller has the turn to write, and holds a view, so that nobody takes commits back.
pub(crate) fn wait_for_room_for_a_level(shared: &Shared) -> Result<MutexGuard<'_, ()>> {
    loop {
        let commits = shared.progress.lock().commits;
        shared.ensure_certain()?;
        let merging = shared.merging.lock();
        if has_room_for_levels(shared.view()?.state()) {
            return Ok(merging);
        }
        drop(merging);
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until no merge is due. For tests and measurements.
pub(crate) fn wait_until_idle(shared: &Shared) -> Result<()> {
    loop {
        let commits = shared.progress.lock().commits;
        let view = shared.view()?;
        let work = next_work(view.state(), &shared.sizes, Pause::Short);
        drop(view);
        if work.is_none() {
            return Ok(());
        }
        shared.ensure_certain()?;
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until there are more than `commits` commits, but not for long. If merging has failed, returns its
/// error.
fn wait_for_commit_after(shared: &Shared, commits: u64) -> Result<()> {
    let mut progress = shared.progress.lock();
    if let Some(failure) = &progress.failure {
        return Err(failure.clone());
    }
    if progress.commits == commits {
        shared
            .changed
            .wait_for(&mut progress, Duration::from_millis(100));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::blocks::{BlockId, Entry, Filter, MemoryBlocks};
    use crate::store::engine::{BlockTable, LevelChange, LevelName};
    use crate::store::sorted_set::{Level, NewBlock, Rules, Run, SetLevel};

    const SIZES: Sizes = Sizes {
        recent_operations: 100,
        short_rows: 10,
        block_bytes: 4096,
        document_block_bytes: 4096,
        chunk_entries: 100,
        step_blocks: 100,
        part_rows: 50,
        compared_per_query: 0,
        spill_bytes: 0,
    };

    /// A set with levels of these numbers of rows, from the first to the last, and with a frozen run or none.
    fn set(rows: &[u64], frozen: bool) -> SortedSet<u64> {
        let mut set = SortedSet::new(Rules::ONCE);
        for &rows in rows {
            let entry = |i: u64| Entry {
                high: i,
                id: BlockId::new(0, i),
                checksum: 0,
                puts: 100,
                marks: 0,
            };
            let new = |i| NewBlock {
                entry: entry(i),
                filter: Filter::default(),
                extent: None,
            };
            let entries: Vec<_> = (1..=rows / 100).map(new).collect();
            let empty = Level::empty(0);
            static TABLE: BlockTable = BlockTable::new(0, "test", false);
            let name = LevelName {
                table: &TABLE,
                number: 0,
            };
            let blocks = MemoryBlocks::default().blocks();
            let of = blocks.of_table(&TABLE);
            let mut change = LevelChange::none(name);
            let level = empty.splice(empty.all(), &entries, 100, of, &mut change);
            let level = Arc::new(level.expect("nothing is read"));
            let new = SetLevel {
                level,
                ..set.new_level()
            };
            set.levels.push(new);
        }
        set.frozen
            .extend(frozen.then(|| Run::new(vec![1], Vec::new(), Rules::ONCE)));
        set
    }

    fn source(rows: &[u64], frozen: bool) -> Option<Source> {
        most_urgent_of(&set(rows, frozen), 0.5, &SIZES).map(|(source, _)| source)
    }

    #[test]
    fn the_frozen_run_goes_into_the_first_level_until_that_is_ten_times_as_large() {
        assert_eq!(source(&[], false), None);
        assert_eq!(source(&[], true), Some(Source::FrozenAlone));
        assert_eq!(source(&[500], true), Some(Source::Frozen));
        assert_eq!(source(&[1_000], true), Some(Source::Frozen));
        assert_eq!(source(&[1_100], true), Some(Source::FrozenAlone));
        // Two levels of a growth of ten hold a hundred times the recent rows.
        assert_eq!(source(&[500, 9_000], true), Some(Source::Frozen));
        assert_eq!(source(&[500, 11_000], true), Some(Source::FrozenAlone));
    }

    /// A process that adds some documents and ends left a level each time, or wrote all rows each time.
    #[test]
    fn folding_again_and_again_leaves_few_levels_and_writes_each_row_some_times() {
        const ROWS: u64 = 100;
        let sizes = Sizes {
            recent_operations: 250_000,
            short_rows: 4096,
            ..SIZES
        };
        let mut levels = Vec::new();
        let mut written = 0;
        for fold in 1..=5_000 {
            let absorbed = absorbed(&set(&levels, false), ROWS, &sizes);
            let rows = ROWS + levels.drain(..absorbed).sum::<u64>();
            assert!(rows <= 1024 + ROWS, "one fold writes {rows} rows");
            levels.insert(0, rows);
            written += rows;
            // The merging thread has time while the next process has the file open.
            while let Some((Source::Level(above), _)) =
                most_urgent_of(&set(&levels, false), 0.0, &sizes)
            {
                let moved = levels.remove(above);
                written += moved + levels[above];
                levels[above] += moved;
            }
            assert!(levels.len() <= 6, "{levels:?} after {fold}");
        }
        assert_eq!(levels.iter().sum::<u64>(), 5_000 * ROWS);
        assert!(
            written < 30 * 5_000 * ROWS,
            "each row was written {} times",
            written / (5_000 * ROWS)
        );
    }

    #[test]
    fn the_two_smallest_neighbours_of_too_many_levels_are_merged() {
        let merged = |rows: &[u64]| too_many(&set(rows, false)).map(|(source, _)| source);
        assert_eq!(merged(&[100; MOST_LEVELS]), None);
        let mut rows = [100; MOST_LEVELS + 1];
        rows[5] = 0;
        assert_eq!(merged(&rows), Some(Source::Level(4)));
    }

    #[test]
    fn a_level_is_merged_once_it_is_larger_than_equal_factors_allow() {
        // The last level has 64 times the recent rows: each level is to be 8 times as large as the one above.
        assert_eq!(source(&[700, 6_400], false), None);
        assert_eq!(source(&[900, 6_400], false), Some(Source::Level(0)));
        assert_eq!(source(&[500, 4_400, 51_200], false), None);
        assert_eq!(source(&[500, 6_500, 51_200], false), Some(Source::Level(1)));
        // A frozen run is more urgent the longer the recent runs are.
        // A level that a large transaction left, larger than the one below it, does not make transactions wait.
        // The frozen run goes into a level above it.
        assert_eq!(source(&[30_000, 1_000], false), Some(Source::Level(0)));
        let far_behind = most_urgent_of(&set(&[30_000, 1_000], true), MOST_WAITING as f64, &SIZES);
        assert_eq!(far_behind.map(|it| it.0), Some(Source::FrozenAlone));
        let urgency =
            |waiting| most_urgent_of(&set(&[1_700, 6_400], true), waiting, &SIZES).map(|it| it.0);
        assert_eq!(urgency(0.0), Some(Source::Level(0)));
        assert_eq!(urgency(2.0), Some(Source::Frozen));
    }
}
