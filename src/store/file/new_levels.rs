//! New levels: the rows of a transaction that is too long for the log, packed as a first level of each set.

use super::edit::Edit;
use super::overlays::Overlays;
use super::schema::{ByRow, PerSet, RowFamily, Set, SetRow, by_row};
use super::state::Sets;
use crate::error::Result;
use crate::store::blocks::{Blocks, FileSeed, Packed, Packer};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Overlay, SortedSet};

/// The blocks of a new first level of each set.
pub(crate) struct NewLevels(PerSet<PackedFamily>);

struct PackedFamily;

impl RowFamily for PackedFamily {
    type Of<R: SetRow> = Vec<Packed<R>>;
}

impl NewLevels {
    /// Packs the rows of a transaction for the sets that it is committed to. One set is packed after the
    /// other, and its rows in memory are freed before the next.
    pub(crate) fn new(overlays: Overlays, sets: &Sets, file: FileSeed, sizes: &Sizes) -> Self {
        let packed = |(overlay, set): (_, &ByRow<_>)| match (overlay, set) {
            (ByRow::Narrow(overlay), ByRow::Narrow(set)) => ByRow::Narrow(pack(overlay, set, file, sizes)),
            (ByRow::Wide(overlay), ByRow::Wide(set)) => ByRow::Wide(pack(overlay, set, file, sizes)),
            _ => unreachable!("both are of the same set"),
        };
        Self(overlays.into_iter().zip(sets.iter()).map(packed).collect())
    }

    /// Makes the levels part of an edit. The edit is of the state for which they were packed, or of a later
    /// one with the same levels. The log of that state must be empty, since its rows would count as newer.
    pub(crate) fn apply(self, edit: &mut Edit, blocks: &Blocks) -> Result<()> {
        assert!(edit.state.is_log_empty(), "rows of earlier transactions are still in the log");
        edit.leave_out_page();
        for (name, packed) in edit.state.sets.sets().zip(self.0) {
            by_row!(name, packed, (name, packed) => add_level(name, packed, edit, blocks)?);
        }
        Ok(())
    }
}

fn pack<R: SetRow>(overlay: Overlay<R>, set: &SortedSet<R>, file: FileSeed, sizes: &Sizes) -> Vec<Packed<R>> {
    let rows = overlay.into_unsearched_run();
    // There are no rows below the last level that marks could remove.
    let marks = if set.levels.is_empty() { &[] } else { rows.marks() };
    let mut packer = Packer::new(sizes.block_bytes, set.rules.filtered, file);
    packer.waiting.extend((rows.puts(), marks));
    drop(rows);
    packer.finish()
}

fn add_level<R: SetRow>(
    name: Set<R>,
    packed: Vec<Packed<R>>,
    edit: &mut Edit,
    blocks: &Blocks,
) -> Result<()> {
    if packed.is_empty() {
        return Ok(());
    }
    let mut new = edit.state.sets[name].new_level();
    new.level = edit.replace(name.level(new.number), &new.level, new.level.all(), packed, blocks)?;
    edit.state.sets[name].levels.insert(0, new);
    Ok(())
}
