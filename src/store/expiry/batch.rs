//! Batch: many documents that are to go, gathered from a snapshot. For each, it is known whether another
//! document may have its fingerprint. That takes one look at the postings for each fingerprint. In the order of
//! the fingerprints, many are in one block. So a batch has far more documents than a transaction may remove.
//!
//! Step: a part of a batch, made ready to be removed by one transaction. A step is prepared without the right to
//! write, from the last commit. In its transaction it is only compared with what was committed in the meantime.
//! So other writers wait for little more than the commit.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use super::selection::{SelectedBlock, Selection, scope_name};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::store::blocks::{BlockId, Blocks, DocumentRef};
use crate::store::file::{
    Change, Counters, DEAD, DOCUMENTS, Edit, Operation, POSTINGS, Runs, View, all_listed,
    fingerprint_of, missing_scope, number_of, runs_of,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::read::Reader;
use crate::store::sorted_set::{Wanted, read_puts};

/// The most documents of a batch. Each takes 40 bytes.
const MOST_DOCUMENTS: usize = 1 << 19;
/// A fingerprint with more blocks of postings than this is known to be shared.
const FEW_BLOCKS: usize = 2;

/// A document that is to go.
#[derive(Clone, Copy, Debug)]
struct Expired {
    number: u64,
    key_hash: u64,
    fingerprint: Option<Fingerprint>,
    scope: ScopeNumber,
    /// Whether another document may have had its fingerprint when the batch was gathered.
    is_shared: bool,
}

impl Expired {
    fn new(view: &View, document: &DocumentRef<'_>) -> Result<Self> {
        let name = scope_name(document)?;
        let scope = if name.is_empty() {
            ScopeNumber::EMPTY
        } else {
            let number = view.scope_number(name)?;
            number.ok_or_else(|| missing_scope(name))?
        };
        Ok(Self {
            number: document.number,
            key_hash: view.settings().key_hash(document.key),
            fingerprint: document.fingerprint,
            scope,
            is_shared: false,
        })
    }
}

/// The documents of one block that are to go.
#[derive(Debug)]
pub(super) struct ExpiredBlock {
    id: BlockId,
    /// The number of the last document of the block.
    high: u64,
    /// The number of its documents, dead or not. `None` if these documents are only a part of those that are
    /// to go.
    documents: Option<usize>,
    /// The number of operations that its step needs for it, at most.
    pub(super) operations: usize,
    /// The indexes of those that are to go.
    expired: Range<usize>,
}

/// Many documents that are to go.
pub(super) struct Batch {
    expired: Vec<Expired>,
    /// In order.
    pub(super) blocks: Vec<ExpiredBlock>,
    /// The next batch begins at this number. `None` if there is none.
    pub(super) next: Option<u64>,
    /// Documents from this number on were not there yet when fingerprints were looked up.
    pub(super) known_to: u64,
}

impl Batch {
    /// Gathers documents of `view` with numbers from `from` on. A part of a block has at most `most`.
    pub(super) fn gather(
        view: &View,
        selection: &Selection<'_>,
        from: u64,
        most: usize,
    ) -> Result<Self> {
        let mut batch = Self {
            expired: Vec::new(),
            blocks: Vec::new(),
            next: Some(from),
            known_to: view.state().counters.next_document,
        };
        let enough = MOST_DOCUMENTS.min(most.saturating_mul(8));
        while let Some(next) = batch.next
            && batch.expired.len() < enough
        {
            let block = selection.next_block(view, next)?;
            batch.next = block.as_ref().and_then(|block| selection.after(block));
            if let Some(block) = block {
                batch.add(view, selection, &block, most)?;
            }
        }
        batch.find_shared(view)?;
        Ok(batch)
    }

    /// Adds the documents of a block that are to go.
    fn add(
        &mut self,
        view: &View,
        selection: &Selection<'_>,
        block: &SelectedBlock,
        most: usize,
    ) -> Result<()> {
        let begin = self.expired.len();
        for document in block.documents() {
            if selection.takes(block, &document)? {
                self.expired.push(Expired::new(view, &document)?);
            }
        }
        let expired = begin..self.expired.len();
        if expired.len() <= most {
            // A block that goes as a whole needs an operation for each of its dead documents too.
            let is_whole = expired.len() + block.dead() == block.len();
            self.blocks.push(ExpiredBlock {
                id: block.id,
                high: block.high,
                documents: Some(block.len()),
                operations: if is_whole { block.len() } else { expired.len() },
                expired,
            });
            return Ok(());
        }
        for begin in expired.clone().step_by(most) {
            let part = begin..(begin + most).min(expired.end);
            self.blocks.push(ExpiredBlock {
                id: block.id,
                high: block.high,
                documents: None,
                operations: part.len(),
                expired: part,
            });
        }
        Ok(())
    }

    /// Finds the fingerprints that other documents may have. If a source has another document of the
    /// fingerprint, it may be one that a newer source removes.
    fn find_shared(&mut self, view: &View) -> Result<()> {
        let mut order: Vec<(Fingerprint, usize)> = Vec::new();
        for (index, expired) in self.expired.iter().enumerate() {
            order.extend(expired.fingerprint.map(|fingerprint| (fingerprint, index)));
        }
        order.sort_unstable_by_key(|&(fingerprint, _)| fingerprint);
        let wanted = order.iter().map(|&(fingerprint, _)| {
            let range = all_listed(fingerprint);
            Wanted {
                reader: view.set(POSTINGS),
                first: *range.start(),
                last: *range.end(),
            }
        });
        let expired = &mut self.expired;
        let reading = read_puts(wanted, FEW_BLOCKS, |index, puts| {
            let (fingerprint, document) = order[index];
            let document = &mut expired[document];
            document.is_shared |= puts.iter().any(|&row| {
                fingerprint_of(row) == fingerprint && number_of(row).0 != document.number
            });
        })?;
        for index in reading.too_long {
            expired[order[index].1].is_shared = true;
        }
        Ok(())
    }
}

/// The most places at which a step takes whole blocks out of the file. Each place costs a part of a
/// directory. The documents of further blocks become dead, and merges take their blocks away.
const MOST_CUTS: usize = 16;
/// The fingerprints whose documents are counted together.
const COUNTED_TOGETHER: usize = 1024;
/// With more new documents than this, a step is prepared again.
const MOST_NEW: u64 = 20_000;

/// The fingerprints of documents that came after a batch was gathered.
pub(super) struct Newcomers {
    fingerprints: HashSet<Fingerprint>,
    /// The number of the first document that was not looked at.
    next: u64,
}

impl Newcomers {
    /// Those that come after the document before `known_to`.
    pub(super) fn after(known_to: u64) -> Self {
        Self {
            fingerprints: HashSet::new(),
            next: known_to,
        }
    }

    /// Adds those that a view has.
    fn update(&mut self, view: &View) -> Result<()> {
        let fingerprints = &mut self.fingerprints;
        each_fingerprint_from(view, self.next, |fingerprint| {
            fingerprints.insert(fingerprint);
        })?;
        self.next = view.state().counters.next_document;
        Ok(())
    }
}

/// Calls `each` with the fingerprints of the documents with numbers from `from` on.
fn each_fingerprint_from(
    view: &View,
    mut from: u64,
    mut each: impl FnMut(Fingerprint),
) -> Result<()> {
    while let Some(stored) = view.stored_documents(from)? {
        from = stored.last() + 1;
        for document in stored.read()?.iter() {
            document.fingerprint.into_iter().for_each(&mut each);
        }
    }
    Ok(())
}

/// Neighbouring blocks that a step takes out of the file.
struct Cut {
    /// The numbers of the last documents of the first and of the last block.
    highs: RangeInclusive<u64>,
    ids: Vec<BlockId>,
}

/// A step that is ready to be committed.
pub(super) struct Step {
    generation: u64,
    counters: Counters,
    operations: Vec<Operation>,
    runs: Runs,
    cuts: Vec<Cut>,
    /// The fingerprints of its documents, in order.
    fingerprints: Vec<Fingerprint>,
    pub(super) removed: u64,
    too_short: u64,
    /// The number of the first document of a block that was written anew after the batch was gathered. It has
    /// to be gathered again.
    pub(super) left_out: Option<u64>,
}

impl Step {
    /// Prepares the removal of the documents of some blocks of a batch, as of `view`.
    pub(super) fn prepare(
        view: &View,
        batch: &Batch,
        blocks: &[ExpiredBlock],
        newcomers: &mut Newcomers,
    ) -> Result<Self> {
        newcomers.update(view)?;
        let mut removal = Removal {
            view,
            batch,
            documents: Vec::new(),
            forgotten: Vec::new(),
            left_out: None,
            cuts: Vec::new(),
        };
        for block in blocks {
            removal.block(block)?;
        }
        removal.find_last_of_fingerprints(newcomers)?;
        Ok(removal.into_step())
    }

    /// Whether the step is right for a later view too.
    pub(super) fn is_right_for(&self, view: &View) -> Result<bool> {
        if view.state().generation() == self.generation {
            return Ok(true);
        }
        let before = self.counters;
        let now = view.state().counters;
        let new = now.next_document - before.next_document;
        // Whatever was removed might be one of these, or the last other document of a fingerprint.
        if now.documents != before.documents + new || new > MOST_NEW {
            return Ok(false);
        }
        let mut is_right = true;
        each_fingerprint_from(view, before.next_document, |fingerprint| {
            is_right &= self.fingerprints.binary_search(&fingerprint).is_err();
        })?;
        Ok(is_right)
    }

    /// The number of operations.
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Makes the step part of an edit. It must be [right](Self::is_right_for) for the last transaction.
    /// `moved` is set if a merge has written one of the blocks anew. Then nothing can be committed.
    pub(super) fn apply(self, edit: &mut Edit, blocks: &Blocks, moved: &mut bool) -> Result<()> {
        let counters = &mut edit.state.counters;
        counters.documents -= self.removed;
        counters.too_short -= self.too_short;
        edit.append(&self.operations, self.runs);
        let of = blocks.of_table(DOCUMENTS.table);
        for Cut { highs, ids } in self.cuts {
            let level = edit.state.documents.clone();
            let positions = level.overlapping(&highs, of)?;
            let entries = level.entries(positions.clone(), of)?;
            if !entries.map(|entry| entry.id).eq(ids) {
                *moved = true;
                return Err(Error::Aborted);
            }
            edit.state.documents =
                edit.replace::<u64, Vec<u8>>(DOCUMENTS, &level, positions, Vec::new(), blocks)?;
        }
        Ok(())
    }
}

/// A document that a step removes.
struct Removed {
    document: Expired,
    /// Whether its block is taken out as a whole.
    is_cut: bool,
    /// Whether the last document of its fingerprint goes with it.
    fingerprint_gone: bool,
}

/// The documents that a step removes, as far as they are known.
struct Removal<'a> {
    view: &'a View,
    batch: &'a Batch,
    documents: Vec<Removed>,
    /// The dead documents of blocks that are taken out as a whole.
    forgotten: Vec<u64>,
    left_out: Option<u64>,
    /// Blocks that are taken out as a whole.
    cuts: Vec<Cut>,
}

impl Removal<'_> {
    fn block(&mut self, block: &ExpiredBlock) -> Result<()> {
        let expired = &self.batch.expired[block.expired.clone()];
        let Some(first) = expired.first() else {
            return Ok(());
        };
        let documents = &self.view.state().documents;
        let of = self.view.document_blocks();
        let position = documents.find(block.high, of)?;
        let entry = documents.entry(position, of)?;
        if entry.is_none_or(|entry| entry.id != block.id) {
            self.left_out.get_or_insert(first.number);
            return Ok(());
        }
        let before = documents.entry_before(position, of)?;
        let low = before.map_or(0, |before| before.high + 1);
        let dead = self.view.set(DEAD).rows(&(low..=block.high))?;
        let begin = self.documents.len();
        for &document in expired {
            if dead.binary_search(&document.number).is_err() {
                self.documents.push(Removed {
                    document,
                    is_cut: false,
                    fingerprint_gone: false,
                });
            }
        }
        let live = &mut self.documents[begin..];
        let is_whole = block.documents == Some(live.len() + dead.len());
        if live.is_empty() || !is_whole {
            return Ok(());
        }
        // The dead documents of whole blocks are forgotten.
        if cut(&mut self.cuts, block, before.map(|before| before.id)) {
            for removed in live {
                removed.is_cut = true;
            }
            self.forgotten.extend(dead);
        }
        Ok(())
    }

    /// Finds the documents with which the last document of their fingerprint goes.
    fn find_last_of_fingerprints(&mut self, newcomers: &Newcomers) -> Result<()> {
        let mut shared: Vec<(Fingerprint, usize)> = Vec::new();
        for (index, removed) in self.documents.iter_mut().enumerate() {
            let Some(fingerprint) = removed.document.fingerprint else {
                continue;
            };
            if removed.document.is_shared || newcomers.fingerprints.contains(&fingerprint) {
                shared.push((fingerprint, index));
            } else {
                removed.fingerprint_gone = true;
            }
        }
        shared.sort_unstable();
        let groups: Vec<&[(Fingerprint, usize)]> = shared.chunk_by(|a, b| a.0 == b.0).collect();
        for groups in groups.chunks(COUNTED_TOGETHER) {
            let mut wanted = Vec::with_capacity(groups.len());
            for group in groups {
                wanted.push((group[0].0, ScopeNumber::ALL_DOCUMENTS.into()));
            }
            let mut totals = vec![0; groups.len()];
            for posted in Reader::new(self.view).posted(&wanted)? {
                totals[posted.index] += posted.total;
            }
            for (group, total) in groups.iter().zip(totals) {
                if let Some(&(_, last)) = group.last()
                    && group.len() as u64 >= total
                {
                    self.documents[last].fingerprint_gone = true;
                }
            }
        }
        Ok(())
    }

    fn into_step(self) -> Step {
        let mut operations = Vec::with_capacity(self.forgotten.len() + self.documents.len());
        for number in self.forgotten {
            operations.push(Operation::forget(DocumentNumber(number)));
        }
        let mut fingerprints = Vec::with_capacity(self.documents.len());
        for removed in &self.documents {
            operations.push(removed.operation());
            fingerprints.extend(removed.document.fingerprint);
        }
        fingerprints.sort_unstable();
        let state = self.view.state();
        Step {
            generation: state.generation(),
            counters: state.counters,
            runs: runs_of(&operations, &self.view.settings().plan),
            operations,
            cuts: self.cuts,
            removed: self.documents.len() as u64,
            too_short: (self.documents.len() - fingerprints.len()) as u64,
            fingerprints,
            left_out: self.left_out,
        }
    }
}

impl Removed {
    fn operation(&self) -> Operation {
        Operation {
            change: Change::Remove {
                fingerprint_gone: self.fingerprint_gone,
                unstored: self.is_cut,
            },
            number: DocumentNumber(self.document.number),
            key_hash: self.document.key_hash,
            fingerprint: self.document.fingerprint,
            scope: self.document.scope,
        }
    }
}

/// Takes a block out as a whole, unless there are too many cuts. `before` is the block before it.
fn cut(cuts: &mut Vec<Cut>, block: &ExpiredBlock, before: Option<BlockId>) -> bool {
    if let Some(cut) = cuts.last_mut()
        && before.is_some()
        && cut.ids.last().copied() == before
    {
        cut.highs = *cut.highs.start()..=block.high;
        cut.ids.push(block.id);
        return true;
    }
    let has_room = cuts.len() < MOST_CUTS;
    if has_room {
        cuts.push(Cut {
            highs: block.high..=block.high,
            ids: vec![block.id],
        });
    }
    has_room
}
