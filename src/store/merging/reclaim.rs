//! Reclaiming the space of dead documents. If more than a third of a block is dead, it is written anew
//! without them. A dead document counts only when its number has come down to the last level of the set of
//! dead documents. Only there can the number be removed together with the document.

use std::ops::Range;

use super::step::Apply;
use crate::error::Result;
use crate::planted::planted;
use crate::store::blocks::{BlockId, Blocks, DocumentBlock, Lists, Packed, Packer, pack_documents};
use crate::store::file::{DEAD, DOCUMENTS, State};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Position, SetLevel, part};

/// The progress of a walk over all blocks of documents.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The first document number that was not looked at yet. `None` between two walks.
    next: Option<u64>,
    /// The number of dead documents when the last walk ended.
    left: u64,
}

/// The result of a look at some blocks.
pub(super) enum Look {
    /// There is nothing to look for now.
    Done,
    /// No block is worth it yet. There are more blocks to look at.
    NothingYet,
    /// Blocks are written anew. If an expiry has taken out one of them in the meantime, nothing is changed.
    Found(Apply),
}

/// Looks for blocks that are worth writing anew, from the block at which the last call ended.
pub(super) fn prepare(
    state: &State,
    blocks: &Blocks,
    sweep: &mut Sweep,
    sizes: &Sizes,
) -> Result<Look> {
    let Some(last) = state.sets[DEAD].levels.last() else {
        return Ok(Look::Done);
    };
    let dead_rows = last.level.rows().0;
    let stored = state.documents.rows().0;
    // A compaction may have removed dead documents.
    sweep.left = sweep.left.min(dead_rows);
    // If less than a sixth of all documents is dead, few blocks can be a third dead. And a walk begins
    // only when there are clearly more dead documents than the last walk left.
    if sweep.next.is_none() && (dead_rows * 6 < stored || dead_rows <= sweep.left + stored / 20) {
        return Ok(Look::Done);
    }
    let (found, next) = look(state, blocks, sweep.next.unwrap_or(0), sizes)?;
    sweep.next = next;
    if next.is_none() {
        sweep.left = dead_rows;
    }
    Ok(found.map_or(Look::NothingYet, Look::Found))
}

/// Looks at some blocks from a document number on. Returns what to replace, and the number to go on from.
fn look(
    state: &State,
    blocks: &Blocks,
    from: u64,
    sizes: &Sizes,
) -> Result<(Option<Apply>, Option<u64>)> {
    let documents = &state.documents;
    let of = blocks.of_table(DOCUMENTS.table);
    // The last block still grows, so it stays.
    let Some(last) = documents.high() else {
        return Ok((None, None));
    };
    let mut position = documents.find(from, of)?;
    let before = documents.entry_before(position, of)?;
    let mut low = before.map_or(0, |entry| entry.high + 1);
    let mut found: Option<(Range<Position>, u64, u64)> = None;
    for _ in 0..sizes.step_blocks {
        let entry = documents.entry(position, of)?;
        let Some(entry) = entry.filter(|entry| entry.high < last) else {
            return Ok((rewrite(state, blocks, found, sizes)?, None));
        };
        let dead = dead_in(state, blocks, low, entry.high)?.len();
        let next = documents.after(position, 1);
        let worth = dead * 3 > usize::from(entry.puts);
        match &mut found {
            Some((positions, _, high)) if worth => {
                positions.end = next;
                *high = entry.high;
            }
            Some(_) => break,
            None if worth => found = Some((position..next, low, entry.high)),
            None => {}
        }
        low = entry.high + 1;
        position = next;
    }
    Ok((rewrite(state, blocks, found, sizes)?, Some(low)))
}

/// The dead documents in a range of numbers, as far as the last level of their set has them.
fn dead_in(state: &State, blocks: &Blocks, low: u64, high: u64) -> Result<Vec<u64>> {
    let set = &state.sets[DEAD];
    let Some(last) = set.levels.last() else {
        return Ok(Vec::new());
    };
    let mut rows = Lists::default();
    let of = blocks.of_table(DEAD.table());
    last.level.append_rows(&(low..=high), of, &mut rows)?;
    Ok(part(&rows.puts, &(low..=high)).to_vec())
}

/// Writes the blocks of a range of document numbers anew, and those of the set of dead documents.
fn rewrite(
    state: &State,
    blocks: &Blocks,
    found: Option<(Range<Position>, u64, u64)>,
    sizes: &Sizes,
) -> Result<Option<Apply>> {
    let Some((positions, low, high)) = found else {
        return Ok(None);
    };
    let (old_documents, new_documents) = keep_live(state, blocks, positions, (low, high), sizes)?;
    let (dead, new_dead) = forget(state, blocks, low, high, sizes)?;
    Ok(Some(Box::new(move |edit, blocks| {
        let level = edit.state.documents.clone();
        let of = blocks.of_table(DOCUMENTS.table);
        // The positions from before would not do, since commits may move the entries of the last chunk.
        let positions = level.overlapping(&(low..=high), of)?;
        let entries = level.entries(positions.clone(), of)?;
        if !entries.map(|entry| entry.id).eq(old_documents) {
            return Ok(());
        }
        edit.state.documents = edit.replace(DOCUMENTS, &level, positions, new_documents, blocks)?;
        let mut set = edit.state.sets[DEAD].clone();
        if let Some(last) = set.levels.last_mut() {
            let of = DEAD.level(last.level.number);
            last.level = edit.replace(of, &last.level, dead, new_dead, blocks)?;
        }
        set.levels.retain(|set| set.level.blocks() > 0);
        edit.state.sets[DEAD] = set;
        Ok(())
    })))
}

/// Packs the documents of some blocks that are not dead. Returns the blocks, in order, and their new ones.
fn keep_live(
    state: &State,
    blocks: &Blocks,
    positions: Range<Position>,
    (low, high): (u64, u64),
    sizes: &Sizes,
) -> Result<(Vec<BlockId>, Vec<Packed<u64>>)> {
    let dead = dead_in(state, blocks, low, high)?;
    let mut live = DocumentBlock::default();
    let mut old_documents = Vec::new();
    let of = blocks.of_table(DOCUMENTS.table);
    for entry in state.documents.entries(positions, of)? {
        old_documents.push(entry.id);
        let block = of.documents_once(entry)?;
        for document in block.documents() {
            if dead.binary_search(&document.number).is_err() {
                live.push_copy(&document);
            }
        }
    }
    let documents: Vec<_> = live.documents().collect();
    let new_documents = pack_documents(&documents, sizes.document_block_bytes, blocks.file());
    Ok((old_documents, new_documents))
}

/// Removes a range of numbers from the last level of the dead documents. Returns its old and its new
/// blocks there.
fn forget(
    state: &State,
    blocks: &Blocks,
    low: u64,
    high: u64,
    sizes: &Sizes,
) -> Result<(Range<Position>, Vec<Packed<u64>>)> {
    let set = &state.sets[DEAD];
    let level = &set.levels[set.levels.len() - 1].level;
    let of = blocks.of_table(DEAD.table());
    let positions = level.overlapping(&(low..=high), of)?;
    let mut rows = Lists::default();
    level.append_rows(&(low..=high), of, &mut rows)?;
    // An expiry may have taken out a whole block of documents. The marks of its numbers still come down, and
    // each needs its number.
    let awaited = marks_above_last(state, blocks, low, high)?;
    let mut packer = Packer::new(sizes.block_bytes, set.rules.filtered, blocks.file());
    for row in rows.puts {
        let is_awaited = awaited.binary_search(&row).is_ok()
            && !planted("a number is forgotten before its mark has come");
        if row < low || row > high || is_awaited {
            packer.waiting.puts.push(row);
        }
    }
    Ok((positions, packer.finish()))
}

/// The numbers of dead documents in a range that are marked, above the last level of their set. In order.
fn marks_above_last(state: &State, blocks: &Blocks, low: u64, high: u64) -> Result<Vec<u64>> {
    let set = &state.sets[DEAD];
    let of = blocks.of_table(DEAD.table());
    let mut rows = Lists::default();
    for SetLevel { level, .. } in set.levels.iter().rev().skip(1) {
        level.append_rows(&(low..=high), of, &mut rows)?;
    }
    for run in set.runs() {
        rows.marks.extend(run.within(&(low..=high)).1);
    }
    rows.marks.sort_unstable();
    Ok(rows.marks)
}
