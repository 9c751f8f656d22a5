//! What was in memory of a file is put in memory of its dense copy, so that searches find no cold blocks after a
//! compaction.

use crate::error::Result;
use crate::parallel;
use crate::store::file::{AnySet, Set, SetRow, View, all_sets, by_row};

/// The bytes of the segments that are in memory, of each set in the order of their numbers.
pub(crate) fn resident_bytes(view: &View) -> Vec<u64> {
    fn of_set<R: SetRow>(view: &View, set: Set<R>) -> u64 {
        let levels = view.state().sets[set].levels.iter();
        levels.map(|set| set.level.resident_bytes()).sum()
    }
    let sets = all_sets(view.settings().plan.tables().len());
    sets.map(|set| by_row!(set, set => of_set(view, set)))
        .collect()
}

/// Makes segments of each set, in as many bytes as it had `before`, and as long as there is room. Permuted tables get
/// equal shares of what theirs had, since there may be more of them now.
///
/// A file that nobody has searched stays where it is.
pub(crate) fn warm(view: &View, before: &[u64]) -> Result<()> {
    fn warm_set<R: SetRow>(view: &View, set: Set<R>, most: u64) -> Result<()> {
        let mut left = most;
        for set_level in &view.state().sets[set].levels {
            left -= set_level
                .level
                .warm(left, view.blocks().of_table(set.table()))?;
        }
        Ok(())
    }
    let tables = view.settings().plan.tables().len();
    let (others, of_tables) = before.split_at(all_sets(0).count());
    let of_table = of_tables.iter().sum::<u64>() / tables as u64;
    let sets: Vec<AnySet> = all_sets(tables).collect();
    let warmed = parallel::map(sets.len(), |index| {
        let most = others.get(index).copied().unwrap_or(of_table);
        by_row!(sets[index], set => warm_set(view, set, most))
    });
    warmed.into_iter().collect()
}
