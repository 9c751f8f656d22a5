//! What was in memory of a file is put in memory of its dense copy, so that searches find no cold blocks after a
//! compaction.

use std::sync::Arc;

use crate::error::Result;
use crate::parallel;
use crate::store::file::{AnySet, Set, SetRow, View, all_sets, by_row};

/// The rows that are in memory, or whose signatures are, of each set in the order of their numbers. Of a set that is
/// there as a whole as many as there can be: its copy may have more in levels.
pub(crate) fn resident_rows(view: &View) -> Vec<u64> {
    fn of_set<R: SetRow>(view: &View, set: Set<R>) -> u64 {
        let levels = &view.state().sets[set].levels;
        let whole: u64 = levels
            .iter()
            .map(|set| {
                let (puts, marks) = set.level.rows();
                puts + marks
            })
            .sum();
        let resident = levels.iter().map(|set| set.level.resident_rows()).sum();
        if resident == whole {
            u64::MAX
        } else {
            resident
        }
    }
    let sets = all_sets(view.settings().plan.tables().len());
    sets.map(|set| by_row!(set, set => of_set(view, set)))
        .collect()
}

/// Makes segments of each set of the file that `views` reads, of as many rows as it had `before`, and as long as there
/// is room. If there are more permuted tables now, or fewer, they get equal shares of what theirs had. Ends when
/// another file is in the place.
///
/// A file that nobody has searched stays where it is. No view is kept, so nobody waits for this and no page is pinned.
pub(crate) fn warm(views: impl Fn() -> Result<Arc<View>> + Sync, before: &[u64]) -> Result<()> {
    let view = views()?;
    let file = view.settings().file;
    let sets: Vec<AnySet> = all_sets(view.settings().plan.tables().len()).collect();
    drop(view);
    let of_tables = &before[all_sets(0).count()..];
    let in_all = of_tables
        .iter()
        .fold(0, |all: u64, &rows| all.saturating_add(rows));
    let share = in_all / (sets.len() - all_sets(0).count()) as u64;
    let warmed = parallel::map(sets.len(), |index| {
        let is_same = before.len() == sets.len() || index < all_sets(0).count();
        let most = if is_same { before[index] } else { share };
        let views = || Ok(Some(views()?).filter(|view| view.settings().file == file));
        by_row!(sets[index], set => warm_set(set, most, views))
    });
    warmed.into_iter().collect()
}

fn warm_set<R: SetRow>(
    set: Set<R>,
    most: u64,
    views: impl Fn() -> Result<Option<Arc<View>>>,
) -> Result<()> {
    let mut left = most;
    let mut level = 0;
    let mut chunk = 0;
    while let Some(view) = views()? {
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
            }
        }
    }
    Ok(())
}
