//! Reclaiming the space of dead documents: a block of which more than a third is dead is written anew without them.
//!
//! Only deaths that have come down to the last level of their set count, since only there can they be taken away again
//! together with the documents.

use std::ops::Range;

use crate::error::Result;
use crate::store::blocks::documents::{DocumentBlock, pack_documents};
use crate::store::blocks::packed::{Lists, Packed, Packer};
use crate::store::blocks::reader::Blocks;
use crate::store::file::state::{DOCUMENTS_PLACE, Edit, SetNumber, SetRow, State};
use crate::store::sorted_set::level::Place;
use crate::store::sorted_set::run::part;
use crate::store::store::Sizes;

/// The set of dead documents.
const DEAD: SetNumber = SetNumber::Narrow(0);

/// How far a walk over all blocks of documents has come.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The first document number not yet looked at; `None` between two walks.
    next: Option<u64>,
    /// How many dead documents there were when the last walk ended.
    left: u64,
}

/// Blocks of documents, and of the set of dead documents, that are to be replaced.
pub(crate) struct Reclaimed {
    /// The least and greatest document number of the blocks: commits may move the entries of the last chunk.
    documents: (u64, u64),
    new_documents: Vec<Packed<u64>>,
    dead: Range<Place>,
    new_dead: Vec<Packed<u64>>,
}

/// What a look at some blocks found.
pub(crate) enum Found {
    /// Nothing is to be looked for now.
    Done,
    /// None of the blocks looked at, but there are more to look at.
    NoneYet,
    Some(Reclaimed),
}

/// Looks at some blocks for those worth writing anew, from where the last call ended.
pub(crate) fn prepare(state: &State, blocks: &Blocks, sweep: &mut Sweep, sizes: &Sizes) -> Result<Found> {
    let Some(slot) = state.sets.dead().levels.last() else { return Ok(Found::Done) };
    let dead_rows = slot.level.rows().0;
    let stored = state.documents.rows().0;
    // A compaction may have taken them away.
    sweep.left = sweep.left.min(dead_rows);
    // Below a sixth, few blocks can be a third dead; and a walk that finds nothing is not repeated for nothing.
    if sweep.next.is_none() && (dead_rows * 6 < stored || dead_rows < sweep.left + stored / 20) {
        return Ok(Found::Done);
    }
    let (found, next) = look(state, blocks, sweep.next.unwrap_or(0), sizes)?;
    sweep.next = next;
    if next.is_none() {
        sweep.left = dead_rows;
    }
    Ok(found.map_or(Found::NoneYet, Found::Some))
}

/// Looks at some blocks from a document number on: what is to be replaced, and where to go on.
fn look(
    state: &State,
    blocks: &Blocks,
    from: u64,
    sizes: &Sizes,
) -> Result<(Option<Reclaimed>, Option<u64>)> {
    let documents = &state.documents;
    // The last block still grows.
    let Some(tail) = documents.before(documents.end()) else { return Ok((None, None)) };
    let mut place = documents.find(from);
    let before = documents.before(place).and_then(|place| documents.entry(place));
    let mut low = before.map_or(0, |entry| entry.high + 1);
    let mut found: Option<(Range<Place>, u64, u64)> = None;
    for _ in 0..sizes.step_blocks {
        let Some(entry) = documents.entry(place).filter(|_| place < tail) else {
            return Ok((rewrite(state, blocks, found, sizes)?, None));
        };
        let dead = dead_in(state, blocks, low, entry.high)?.len();
        let next = documents.after(place, 1);
        let worth = dead * 3 > usize::from(entry.puts);
        match &mut found {
            Some((places, _, high)) if worth => {
                places.end = next;
                *high = entry.high;
            }
            Some(_) => break,
            None if worth => found = Some((place..next, low, entry.high)),
            None => {}
        }
        low = entry.high + 1;
        place = next;
    }
    Ok((rewrite(state, blocks, found, sizes)?, Some(low)))
}

/// The dead documents of a range of numbers that the last level of their set knows.
fn dead_in(state: &State, blocks: &Blocks, low: u64, high: u64) -> Result<Vec<u64>> {
    let set = state.sets.dead();
    let Some(slot) = set.levels.last() else { return Ok(Vec::new()) };
    let mut rows = Lists::default();
    for entry in slot.level.entries(slot.level.overlapping(&(low..=high))) {
        blocks.append_rows(set.name, entry, &mut rows)?;
    }
    Ok(part(&rows.puts, &(low..=high)).to_vec())
}

fn rewrite(
    state: &State,
    blocks: &Blocks,
    found: Option<(Range<Place>, u64, u64)>,
    sizes: &Sizes,
) -> Result<Option<Reclaimed>> {
    let Some((places, low, high)) = found else { return Ok(None) };
    let dead = dead_in(state, blocks, low, high)?;
    let mut live = DocumentBlock::default();
    for entry in state.documents.entries(places) {
        let block = blocks.documents_once(entry)?;
        for record in block.records().filter(|record| dead.binary_search(&record.number).is_err()) {
            live.push_record(&record);
        }
    }
    let records: Vec<_> = live.records().collect();
    let new_documents = pack_documents(&records, sizes.document_block_bytes);
    let (dead, new_dead) = forget(state, blocks, low, high, sizes)?;
    Ok(Some(Reclaimed { documents: (low, high), new_documents, dead, new_dead }))
}

/// The last level of the dead documents without those of a range.
fn forget(
    state: &State,
    blocks: &Blocks,
    low: u64,
    high: u64,
    sizes: &Sizes,
) -> Result<(Range<Place>, Vec<Packed<u64>>)> {
    let set = state.sets.dead();
    let level = &set.levels[set.levels.len() - 1].level;
    let places = level.overlapping(&(low..=high));
    let mut rows = Lists::default();
    for entry in level.entries(places.clone()) {
        blocks.append_rows(set.name, entry, &mut rows)?;
    }
    let mut packer = Packer::new(sizes.block_bytes, set.rules.filtered);
    packer.waiting.puts.extend(rows.puts.into_iter().filter(|&row| row < low || row > high));
    Ok((places, packer.finish()))
}

/// Makes what was prepared part of an edit of the state it was prepared against, or of a later one with the same levels
/// and blocks but the last.
pub(crate) fn apply(reclaimed: Reclaimed, edit: &mut Edit, sizes: &Sizes) {
    let Reclaimed { documents, new_documents, dead, new_dead } = reclaimed;
    let level = edit.state.documents.clone();
    let places = level.find(documents.0)..level.after(level.find(documents.1), 1);
    edit.state.documents = edit.replace(DOCUMENTS_PLACE, &level, places, new_documents, sizes.chunk_entries);
    let mut set = u64::set(&edit.state.sets, DEAD).clone();
    if let Some(slot) = set.levels.last_mut() {
        let place = DEAD.place(slot.number);
        slot.level = edit.replace(place, &slot.level, dead, new_dead, sizes.chunk_entries);
    }
    set.levels.retain(|slot| slot.level.blocks() > 0);
    *u64::set_mut(&mut edit.state.sets, DEAD) = set;
}
