//! Folding: the rows that are in no level yet become a first level of each set, in one commit, and the log is
//! empty.
//!
//! Whoever closes a file in order does it, so that a file that nobody has open has all rows in its tables. A
//! transaction that is too long for the log does it too, with its own rows as the newest.
//!
//! The plain algorithm: of each set, merge the rows in memory, the newest over the older, and pack them as a new
//! first level. It departs from that in one point. A process that adds a few documents and ends, again and again,
//! would leave a level each time. So small first levels are taken into the new one (`due::absorbed`).
//!
//! Rows are read and packed before the gate that commits go through. The caller has the turn to write, and holds
//! the lock of the merges, so nobody changes the sets meanwhile.

use super::due;
use super::due::{ensure_room, wait_for_room_for_a_level};
use super::step::Apply;
use crate::error::Result;
use crate::parallel;
use crate::store::blocks::{Blocks, Lists, Packed, Packer, Row, SetBlocks};
use crate::store::file::{Edit, KEYS, Overlays, Set, SetRow, Shared, State, by_row};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Overlay, Rules, Run, SetLevel, SortedSet};

/// More bytes than the rows of a document take in all sets.
const MOST_BYTES_OF_OPERATION: u64 = 256;

/// Folds the log of a file that is about to be closed. Does nothing if there is nothing in it. The caller has the
/// turn to write.
pub(crate) fn fold_log(shared: &Shared) -> Result<()> {
    if shared.view()?.state().is_log_empty() {
        return Ok(());
    }
    let _merging = wait_for_room_for_a_level(shared)?;
    let view = shared.view()?;
    // Without room the log stays, and the file is closed in order all the same.
    let bytes = view.state().recent_operations * MOST_BYTES_OF_OPERATION;
    ensure_room(shared, bytes)?;
    let nothing = Overlays::new(&view.settings().plan);
    let apply_fold = fold(nothing, view.state(), view.blocks(), &shared.sizes)?;
    drop(view);
    shared.commit_transaction(apply_fold)
}

/// Packs the rows that a state has in memory, with those that a transaction has written, as the first levels of all
/// sets. Returns what makes these levels part of an edit.
pub(crate) fn fold(
    written: Overlays,
    state: &State,
    blocks: &Blocks,
    sizes: &Sizes,
) -> Result<Apply> {
    let rows = state.recent_operations as usize + written[KEYS].rows();
    let sets: Vec<_> = state.sets.sets().zip(written).collect();
    let folded = parallel::map_each_of(
        sets,
        rows,
        |(set, new)| by_row!(set, new, (set, new) => fold_set(set, new, state, blocks, sizes)),
    );
    let folded: Vec<Apply> = folded.into_iter().collect::<Result<_>>()?;
    Ok(Box::new(|edit, blocks| {
        edit.empty_log();
        folded.into_iter().try_for_each(|apply| apply(edit, blocks))
    }))
}

fn fold_set<R: SetRow>(
    name: Set<R>,
    written: Overlay<R>,
    state: &State,
    blocks: &Blocks,
    sizes: &Sizes,
) -> Result<Apply> {
    let set = &state.sets[name];
    let written = written.into_unsearched_run();
    let rows = set.memory_rows() + written.len() as u64;
    let mut absorbed = 0;
    let mut packer = Packer::new(sizes.block_bytes, set.rules.filtered, blocks.file());
    if rows > 0 {
        absorbed = due::absorbed(set, rows, sizes);
        let run = merged(set, absorbed, written, blocks.of_table(name.table()))?;
        // There are no rows below the last level that marks could remove.
        let marks = if absorbed == set.levels.len() {
            &[][..]
        } else {
            run.marks()
        };
        packer.waiting.extend((run.puts(), marks));
    }
    let packed = packer.finish();
    Ok(Box::new(move |edit, blocks| {
        apply(name, absorbed, packed, edit, blocks)
    }))
}

/// All rows of the first levels and of the runs in memory, with the newest of all.
fn merged<R: Row>(
    set: &SortedSet<R>,
    levels: usize,
    newest: Run<R>,
    blocks: SetBlocks<'_>,
) -> Result<Run<R>> {
    let rules = set.rules.unsearched();
    let mut runs = Vec::new();
    for level in set.levels[..levels].iter().rev() {
        runs.push(read(level, rules, blocks)?);
    }
    let older = runs.len();
    runs.extend(set.runs().cloned());
    runs[older..].reverse();
    runs.push(newest);
    runs.retain(|run| run.len() > 0);
    Ok(Run::merged(&runs, rules))
}

/// All rows of a small level.
fn read<R: Row>(
    SetLevel { level, .. }: &SetLevel<R>,
    rules: Rules,
    blocks: SetBlocks<'_>,
) -> Result<Run<R>> {
    let mut rows = Lists::default();
    level.append_rows(&(R::MIN..=R::MAX), blocks, &mut rows)?;
    Ok(Run::new(rows.puts, rows.marks, rules))
}

/// Puts packed rows as a new level in the place of the first levels of a set, and of its runs in memory.
fn apply<R: SetRow>(
    name: Set<R>,
    absorbed: usize,
    packed: Vec<Packed<R>>,
    edit: &mut Edit,
    blocks: &Blocks,
) -> Result<()> {
    let mut set = SortedSet::new(name.rules);
    set.levels.clone_from(&edit.state.sets[name].levels);
    let mut absorbed: Vec<SetLevel<R>> = set.levels.drain(..absorbed).collect();
    // The last of them becomes the new level, so its blocks are replaced in their place.
    let mut new = absorbed.pop().unwrap_or_else(|| set.new_level());
    for SetLevel { level, .. } in absorbed {
        let nothing: Vec<Packed<R>> = Vec::new();
        let of = name.level(level.number);
        edit.replace(of, &level, level.all(), nothing, blocks)?;
    }
    let old = new.level;
    let of = name.level(old.number);
    new.level = edit.replace(of, &old, old.all(), packed, blocks)?;
    new.next = R::MIN;
    if new.level.blocks() > 0 {
        set.levels.insert(0, new);
    }
    edit.state.sets[name] = set;
    Ok(())
}
