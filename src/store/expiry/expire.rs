//! Expire: removes all documents that meet some conditions, step by step, or lists them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{Batch, DoomedBlock};
use super::selection::{Conditions, Selection};
use super::step::{Newcomers, Step};
use crate::document::Document;
use crate::error::Result;
use crate::store::file::{DEAD, Shared, Turn, View, damaged_document};
use crate::store::merging::wait_for_merges;
use crate::store::numbers::DocumentNumber;
use crate::store::write::Transaction;

/// Called with the number of documents that are removed so far.
pub(crate) type Removed<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// The most operations of a step, and the least that steps are cut down to.
const MOST_OF_A_STEP: usize = 25_000;
const LEAST_OF_A_STEP: usize = 500;
/// If a step keeps others from writing for longer than this, the next is smaller.
const LONGEST_TURN: Duration = Duration::from_millis(8);
/// How often a step is prepared anew because others have written, before they have to wait for it.
const MOST_TRIES: usize = 2;

/// Removes the documents that meet the conditions, until there are none or `removed` breaks. Returns their
/// number. Documents that come meanwhile stay.
pub(crate) fn expire(
    shared: &Arc<Shared>,
    conditions: &Conditions,
    removed: Removed<'_>,
) -> Result<u64> {
    let selection = Selection::new(&*shared.view()?, conditions)?;
    let most = MOST_OF_A_STEP.min(shared.sizes.recent_operations);
    let mut expirer = Expirer {
        shared,
        most,
        size: most,
        total: 0,
    };
    let mut next = Some(0);
    while let Some(from) = next {
        let batch = Batch::gather(&*shared.view()?, &selection, from, most)?;
        match expirer.remove_batch(&batch, removed)? {
            ControlFlow::Break(()) => break,
            ControlFlow::Continue(left_out) => next = left_out.or(batch.next),
        }
    }
    Ok(expirer.total)
}

struct Expirer<'a> {
    shared: &'a Arc<Shared>,
    /// The most operations of a step.
    most: usize,
    /// The most operations of the next step.
    size: usize,
    /// The number of documents that are removed.
    total: u64,
}

impl Expirer<'_> {
    /// Removes the documents of a batch. Returns the number of the first document that was left out.
    fn remove_batch(
        &mut self,
        batch: &Batch,
        removed: Removed<'_>,
    ) -> Result<ControlFlow<(), Option<u64>>> {
        let mut newcomers = Newcomers::after(batch.known_to);
        let mut left_out = None;
        let mut rest = &batch.blocks[..];
        while !rest.is_empty() {
            let mut operations = 0;
            let fits = |block: &&DoomedBlock| {
                operations += block.operations;
                operations <= self.size
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (blocks, others) = rest.split_at(count);
            rest = others;
            let step = self.step(batch, blocks, &mut newcomers)?;
            left_out = left_out.or(step);
            if removed(self.total).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(left_out))
    }

    /// Removes the documents of some blocks. Returns the number of the first document that was left out.
    fn step(
        &mut self,
        batch: &Batch,
        blocks: &[DoomedBlock],
        newcomers: &mut Newcomers,
    ) -> Result<Option<u64>> {
        for tries in 0.. {
            // Merges that are behind would hold up the commit, and with it everybody who wants to write.
            wait_for_merges(self.shared)?;
            let mut step = Step::prepare(&*self.shared.view()?, batch, blocks, newcomers)?;
            if step.len() == 0 {
                return Ok(step.left_out);
            }
            let writer = Transaction::new(Turn::wait(self.shared)?)?;
            let begun = Instant::now();
            if !step.is_right_for(&writer.committed())? {
                if tries < MOST_TRIES {
                    continue;
                }
                step = Step::prepare(&*self.shared.view()?, batch, blocks, newcomers)?;
            }
            let (removed, left_out) = (step.removed, step.left_out);
            let mut moved = false;
            match writer.commit_change(|edit, blocks| step.apply(edit, blocks, &mut moved)) {
                Err(_) if moved => continue,
                committed => committed?,
            }
            self.total += removed;
            self.shared.meters.expired.add(removed);
            self.adapt(begun.elapsed());
            return Ok(left_out);
        }
        unreachable!("a step is tried until it is done")
    }

    /// Makes the next step larger or smaller, by the time that this one kept others from writing.
    fn adapt(&mut self, took: Duration) {
        if took > LONGEST_TURN {
            self.size = (self.size * 3 / 4).max(LEAST_OF_A_STEP.min(self.most));
        } else {
            self.size = (self.size + self.size / 8 + 1).min(self.most);
        }
    }
}

/// Called with each document that would be removed.
pub(crate) type ToExpire<'a> = &'a mut dyn FnMut(Document) -> ControlFlow<()>;

/// Goes through the documents of a view that meet the conditions, in the order in which they were written, until
/// there are none or `each` breaks. Reads the blocks that an expiry would read, and no others.
pub(crate) fn list(
    view: &View,
    conditions: &Conditions,
    each: ToExpire<'_>,
) -> Result<ControlFlow<()>> {
    let selection = Selection::new(view, conditions)?;
    let (documents, of) = (&view.state().documents, view.document_blocks());
    let mut next = 0;
    while let Some(position) = selection.next_block(view, next)? {
        let Some(entry) = documents.entry(position, of)? else {
            break;
        };
        let block = of.documents_once(entry)?;
        let first = block.documents().next().map_or(0, |first| first.number);
        let dead = view.set(DEAD).rows(&(first..=entry.high))?;
        for document in block.documents() {
            let damaged = |problem| damaged_document(DocumentNumber(document.number), problem);
            if dead.binary_search(&document.number).is_err()
                && selection.takes(&document).map_err(damaged)?
                && each(document.to_document().map_err(damaged)?).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        next = entry.high + 1;
        if next >= selection.end() {
            break;
        }
    }
    Ok(ControlFlow::Continue(()))
}
