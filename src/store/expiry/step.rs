//! Step: a part of a batch, made ready to be removed by one transaction.
//!
//! A step is prepared without the right to write, from the last commit. In its transaction it is only
//! compared with what was committed in the meantime. So other writers wait for little more than the commit.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::batch::{Batch, Doomed, DoomedBlock};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::store::blocks::{BlockId, Blocks};
use crate::store::file::{Change, Counters, DEAD, DOCUMENTS, Edit, Operation, Runs, View, runs_of};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::read::Reader;

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
        let Self { fingerprints, next } = self;
        each_fingerprint_from(view, *next, |fingerprint| {
            fingerprints.insert(fingerprint);
        })?;
        *next = view.state().counters.next_document;
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
        stored
            .read()?
            .iter()
            .filter_map(|document| document.fingerprint)
            .for_each(&mut each);
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
        blocks: &[DoomedBlock],
        newcomers: &mut Newcomers,
    ) -> Result<Self> {
        newcomers.update(view)?;
        let mut removal = Removal {
            view,
            batch,
            doomed: Vec::new(),
            left_out: None,
            cuts: Vec::new(),
        };
        for block in blocks {
            removal.block(block)?;
        }
        let Removal {
            mut doomed,
            left_out,
            cuts,
            ..
        } = removal;
        let mut operations: Vec<Operation> = Vec::with_capacity(doomed.len());
        // The dead documents of whole blocks are forgotten.
        for cut in cuts.iter().flat_map(|cut| &cut.1) {
            operations.push(Operation::forget(DocumentNumber(*cut)));
        }
        let is_shared = |it: &Doomed| {
            it.fingerprint.is_some_and(|fingerprint| {
                it.is_shared || newcomers.fingerprints.contains(&fingerprint)
            })
        };
        doomed
            .iter_mut()
            .for_each(|(it, _)| it.is_shared = is_shared(it));
        let gone = gone_with(view, doomed.iter().map(|it| &it.0))?;
        operations.extend(doomed.iter().enumerate().map(|(index, (it, is_cut))| {
            let fingerprint_gone =
                it.fingerprint.is_some() && (!it.is_shared || gone.binary_search(&index).is_ok());
            remove(it, fingerprint_gone, *is_cut)
        }));
        let mut fingerprints: Vec<_> = doomed.iter().filter_map(|it| it.0.fingerprint).collect();
        fingerprints.sort_unstable();
        let state = view.state();
        Ok(Self {
            generation: state.generation(),
            counters: state.counters,
            runs: runs_of(&operations, &view.settings().plan),
            operations,
            cuts: cuts.into_iter().map(|cut| cut.0).collect(),
            removed: doomed.len() as u64,
            too_short: doomed
                .iter()
                .filter(|it| it.0.fingerprint.is_none())
                .count() as u64,
            fingerprints,
            left_out,
        })
    }

    /// Whether the step is right for a later view too.
    pub(super) fn is_right_for(&self, view: &View) -> Result<bool> {
        if view.state().generation() == self.generation {
            return Ok(true);
        }
        let (before, now) = (self.counters, view.state().counters);
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
        edit.log(&self.operations);
        edit.add_runs(self.runs);
        let of = blocks.of_table(DOCUMENTS.table);
        for Cut { highs, ids } in self.cuts {
            let level = edit.state.documents.clone();
            let positions = level.overlapping(&highs, of)?;
            if !level
                .entries(positions.clone(), of)?
                .map(|entry| entry.id)
                .eq(ids)
            {
                *moved = true;
                return Err(Error::Aborted);
            }
            edit.state.documents =
                edit.replace::<u64, Vec<u8>>(DOCUMENTS, &level, positions, Vec::new(), blocks)?;
        }
        Ok(())
    }
}

/// What a step removes, as far as it is known.
struct Removal<'a> {
    view: &'a View,
    batch: &'a Batch,
    /// The documents, each with whether its block is taken out as a whole.
    doomed: Vec<(Doomed, bool)>,
    left_out: Option<u64>,
    /// Blocks that are taken out as a whole, with the dead documents that they have.
    cuts: Vec<(Cut, Vec<u64>)>,
}

impl Removal<'_> {
    fn block(&mut self, block: &DoomedBlock) -> Result<()> {
        let doomed = &self.batch.doomed[block.doomed.clone()];
        let Some(first) = doomed.first() else {
            return Ok(());
        };
        let (documents, of) = (&self.view.state().documents, self.view.document_blocks());
        let position = documents.find(block.high, of)?;
        if documents
            .entry(position, of)?
            .is_none_or(|entry| entry.id != block.id)
        {
            self.left_out.get_or_insert(first.number);
            return Ok(());
        }
        let before = documents
            .before(position)
            .map(|before| documents.entry(before, of))
            .transpose()?;
        let before = before.flatten();
        let low = before.map_or(0, |before| before.high + 1);
        let dead = self.view.set(DEAD).rows(&(low..=block.high))?;
        let live: Vec<Doomed> = doomed
            .iter()
            .filter(|it| dead.binary_search(&it.number).is_err())
            .copied()
            .collect();
        if live.is_empty() {
            return Ok(());
        }
        let is_whole = block.documents == Some(live.len() + dead.len());
        let is_cut = is_whole && self.cut(block, before.map(|before| before.id), dead);
        self.doomed.extend(live.into_iter().map(|it| (it, is_cut)));
        Ok(())
    }

    /// Takes a block out as a whole, unless there are too many cuts. `before` is the block before it.
    fn cut(&mut self, block: &DoomedBlock, before: Option<BlockId>, dead: Vec<u64>) -> bool {
        if let Some((cut, all_dead)) = self.cuts.last_mut()
            && before.is_some()
            && cut.ids.last().copied() == before
        {
            cut.highs = *cut.highs.start()..=block.high;
            cut.ids.push(block.id);
            all_dead.extend(dead);
            return true;
        }
        let has_room = self.cuts.len() < MOST_CUTS;
        if has_room {
            self.cuts.push((
                Cut {
                    highs: block.high..=block.high,
                    ids: vec![block.id],
                },
                dead,
            ));
        }
        has_room
    }
}

/// The indexes of the documents with which the last document of a shared fingerprint goes, in order.
fn gone_with<'a>(view: &View, doomed: impl Iterator<Item = &'a Doomed>) -> Result<Vec<usize>> {
    let shared = doomed.enumerate().filter(|(_, it)| it.is_shared);
    let mut shared: Vec<(Fingerprint, usize)> = shared
        .filter_map(|(index, it)| Some((it.fingerprint?, index)))
        .collect();
    shared.sort_unstable();
    let groups: Vec<&[(Fingerprint, usize)]> = shared.chunk_by(|a, b| a.0 == b.0).collect();
    let mut gone = Vec::new();
    for groups in groups.chunks(COUNTED_TOGETHER) {
        let wanted: Vec<_> = groups
            .iter()
            .map(|group| (group[0].0, ScopeNumber::ALL_DOCUMENTS.into()))
            .collect();
        let mut totals = vec![0; groups.len()];
        for posted in Reader::new(view).posted(&wanted)? {
            totals[posted.index] += posted.total;
        }
        let last = |(group, total): (&&[(Fingerprint, usize)], u64)| {
            let last = group.last().filter(|_| group.len() as u64 >= total);
            last.map(|it| it.1)
        };
        gone.extend(groups.iter().zip(totals).filter_map(last));
    }
    gone.sort_unstable();
    Ok(gone)
}

/// The operation that removes a document. `is_cut` tells whether its block is taken out as a whole.
fn remove(doomed: &Doomed, fingerprint_gone: bool, is_cut: bool) -> Operation {
    let Doomed {
        number,
        key_hash,
        fingerprint,
        scope,
        ..
    } = *doomed;
    let change = Change::Remove {
        fingerprint_gone,
        unstored: is_cut,
    };
    Operation {
        change,
        number: DocumentNumber(number),
        key_hash,
        fingerprint,
        scope,
    }
}
