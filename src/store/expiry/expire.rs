//! Expire: removes all documents that meet some conditions, step by step, or lists them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{Batch, ExpiredBlock, Newcomers, Step};
use super::selection::{Conditions, Selection};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::metrics::Count;
use crate::store::file::{Shared, Turn, View, damaged_document};
use crate::store::merging::wait_for_merges;
use crate::store::numbers::DocumentNumber;
use crate::store::write::Transaction;

/// Called with the number of documents that are removed so far. The expiry ends at its error.
pub(crate) type Removed<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// Called with each document that would be removed.
type ToExpire<'a> = &'a mut dyn FnMut(Document) -> Result<()>;

/// The most operations of a step, and the least that steps are cut down to.
const MOST_OF_A_STEP: usize = 25_000;
const LEAST_OF_A_STEP: usize = 500;
/// If a step keeps others from writing for longer than this, the next is smaller.
const LONGEST_TURN: Duration = Duration::from_millis(8);
/// How often a step is prepared anew because others have written, before they have to wait for it.
const MOST_TRIES: usize = 2;

/// Goes through the documents of a view that meet the conditions, in the order in which they were written, until
/// there are none or `each` fails. Reads the blocks that an expiry would read, and no others.
pub(crate) fn list_expired(view: &View, conditions: &Conditions, each: ToExpire<'_>) -> Result<()> {
    let selection = Selection::new(view, conditions)?;
    let mut next = Some(0);
    while let Some(from) = next
        && let Some(block) = selection.next_block(view, from)?
    {
        for document in block.documents() {
            if selection.takes(&block, &document)? {
                let number = DocumentNumber(document.number);
                let document = document.to_document();
                each(document.map_err(|problem| damaged_document(number, problem))?)?;
            }
        }
        next = selection.after(&block);
    }
    Ok(())
}

/// Removes the documents that meet the conditions, until there are none or `removed` interrupts. Returns their
/// number. Documents that come meanwhile stay.
pub(crate) fn expire(
    shared: &Arc<Shared>,
    conditions: &Conditions,
    removed: Removed<'_>,
) -> Result<u64> {
    let most = MOST_OF_A_STEP.min(shared.sizes.recent_operations);
    let mut expirer = Expirer {
        shared,
        most,
        size: most,
        total: 0,
    };
    match expirer.remove_all(conditions, removed) {
        // What was removed until then stays so, and is counted.
        Ok(()) | Err(Error::Interrupted) => Ok(expirer.total),
        Err(error) => Err(error),
    }
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
    fn remove_all(&mut self, conditions: &Conditions, removed: Removed<'_>) -> Result<()> {
        let selection = Selection::new(&*self.shared.view()?, conditions)?;
        let mut next = Some(0);
        while let Some(from) = next {
            let batch = Batch::gather(&*self.shared.view()?, &selection, from, self.most)?;
            let left_out = self.remove_batch(&batch, removed)?;
            next = left_out.or(batch.next);
        }
        Ok(())
    }

    /// Removes the documents of a batch. Returns the number of the first document that was left out.
    fn remove_batch(&mut self, batch: &Batch, removed: Removed<'_>) -> Result<Option<u64>> {
        let mut newcomers = Newcomers::after(batch.known_to);
        let mut left_out = None;
        let mut rest = &batch.blocks[..];
        while !rest.is_empty() {
            let (blocks, others) = rest.split_at(self.blocks_of_a_step(rest));
            rest = others;
            let step = self.step(batch, blocks, &mut newcomers)?;
            left_out = left_out.or(step);
            removed(self.total)?;
        }
        Ok(left_out)
    }

    /// The number of the first blocks that make a step together.
    fn blocks_of_a_step(&self, blocks: &[ExpiredBlock]) -> usize {
        let mut operations = 0;
        for (count, block) in blocks.iter().enumerate() {
            operations += block.operations;
            if operations > self.size {
                return count.max(1);
            }
        }
        blocks.len()
    }

    /// Removes the documents of some blocks. Returns the number of the first document that was left out.
    fn step(
        &mut self,
        batch: &Batch,
        blocks: &[ExpiredBlock],
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
            let removed = step.removed;
            let left_out = step.left_out;
            let mut moved = false;
            match writer.commit_change(|edit, blocks| step.apply(edit, blocks, &mut moved)) {
                Err(_) if moved => continue,
                committed => committed?,
            }
            self.total += removed;
            self.shared.meters.add(Count::Expired, removed);
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
