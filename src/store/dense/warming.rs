//! Puts rows in memory before they are searched: of a dense copy those that were in memory of the file before it, so
//! that searches find no cold blocks after a compaction, or all for which there is room.

use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::parallel;
use crate::store::blocks::FileSeed;
use crate::store::file::{AnySet, KEYS, Set, SetRow, Shared, View, all_sets, by_row};
use crate::sync::Mutex;

/// The rows that are in memory, or whose signatures are, of each set in the order of their numbers. Of a set that is
/// there as a whole as many as there can be: its copy may have more in levels.
pub(crate) fn resident_rows(view: &View) -> Vec<u64> {
    fn of_set<R: SetRow>(view: &View, set: Set<R>) -> u64 {
        let levels = &view.state().sets[set].levels;
        let resident = levels.iter().map(|set| set.level.resident_rows()).sum();
        if resident == rows_of(view, set) {
            u64::MAX
        } else {
            resident
        }
    }
    let sets = all_sets(view.settings().plan.tables().len());
    sets.map(|set| by_row!(set, set => of_set(view, set)))
        .collect()
}

/// The rows of the levels of a set, in memory or not.
fn rows_of<R: SetRow>(view: &View, set: Set<R>) -> u64 {
    let levels = view.state().sets[set].levels.iter();
    levels
        .map(|set| set.level.rows())
        .map(|(puts, marks)| puts + marks)
        .sum()
}

/// Makes segments of each set of the file, of as many rows as it had `before`, and as long as there
/// is room. If there are more permuted tables now, or fewer, they get equal shares of what theirs had. Ends when
/// another file is in the place.
///
/// A file that nobody has searched stays where it is. No view is kept, so nobody waits for this and no page is pinned.
pub(crate) fn warm_as_before(shared: &Shared, before: &[u64]) -> Result<()> {
    let sets = all_sets(shared.view()?.settings().plan.tables().len()).count();
    let of_tables = &before[all_sets(0).count()..];
    let in_all = of_tables
        .iter()
        .fold(0, |all: u64, &rows| all.saturating_add(rows));
    let share = in_all / (sets - all_sets(0).count()) as u64;
    let most = |index, _| match before.len() == sets || index < all_sets(0).count() {
        true => before[index],
        false => share,
    };
    warm_sets(shared, most, &mut |_, _| ControlFlow::Continue(()))
}

/// Makes segments of all sets of the file, as long as there is room. The keys are left out: hardly a
/// search needs their rows, and documents can use the room.
pub(crate) fn warm(shared: &Shared, progress: WarmingProgress<'_>) -> Result<()> {
    warm_sets(shared, all_but_keys, progress)
}

fn all_but_keys(_: usize, set: AnySet) -> u64 {
    match by_row!(set, set => set.is(KEYS)) {
        true => 0,
        false => u64::MAX,
    }
}

/// Makes segments of at most so many rows of each set, of this number, as long as there is room. The permuted tables
/// come first: most of a search is there. Ends when another file is in the place.
fn warm_sets(
    shared: &Shared,
    most: impl Fn(usize, AnySet) -> u64 + Sync,
    progress: WarmingProgress<'_>,
) -> Result<()> {
    let view = shared.view()?;
    let file = view.settings().file;
    let sets: Vec<AnySet> = all_sets(view.settings().plan.tables().len()).collect();
    let mut all = 0;
    for (index, &set) in sets.iter().enumerate() {
        let rows = by_row!(set, set => rows_of(&view, set));
        all += rows.min(most(index, set));
    }
    drop(view);
    let state = Mutex::new(Warmed {
        rows: 0,
        all,
        is_wanted: true,
        progress,
    });
    let warmed = parallel::map(sets.len(), |part| {
        let index = sets.len() - 1 - part;
        let most = most(index, sets[index]);
        by_row!(sets[index], set => warm_set(set, most, shared, file, &state))
    });
    warmed.into_iter().collect()
}

/// Is told of the rows that are in memory, and all rows. It breaks if nobody wants the rest.
pub(crate) type WarmingProgress<'a> = &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send);

/// What all threads have put in memory.
struct Warmed<'a> {
    rows: u64,
    all: u64,
    is_wanted: bool,
    progress: WarmingProgress<'a>,
}

impl Warmed<'_> {
    /// Tells of more rows.
    fn add(&mut self, rows: u64) -> Result<()> {
        // A merge may have made more of them meanwhile.
        self.rows = self.all.min(self.rows + rows);
        self.is_wanted = self.is_wanted && (self.progress)(self.rows, self.all).is_continue();
        match self.is_wanted {
            true => Ok(()),
            false => Err(Error::Interrupted),
        }
    }
}

fn warm_set<R: SetRow>(
    set: Set<R>,
    most: u64,
    shared: &Shared,
    file: FileSeed,
    warmed: &Mutex<Warmed<'_>>,
) -> Result<()> {
    let mut left = most;
    let mut level = 0;
    let mut chunk = 0;
    loop {
        let view = shared.view()?;
        if view.settings().file != file {
            break;
        }
        let Some(set_level) = view.state().sets[set].levels.get(level) else {
            break;
        };
        let blocks = view.blocks().of_table(set.table());
        match set_level.level.warm(chunk, left, blocks)? {
            None => {
                level += 1;
                chunk = 0;
            }
            Some(u64::MAX) => break,
            Some(rows) => {
                left -= rows;
                chunk += 1;
                warmed.lock().add(rows)?;
            }
        }
    }
    Ok(())
}
