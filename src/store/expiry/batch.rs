//! Batch: many documents that are to go, gathered from a snapshot. For each, it is known whether another
//! document may have its fingerprint.
//!
//! That takes one look at the postings for each fingerprint. In the order of the fingerprints, many are in one
//! block. So a batch has far more documents than a transaction may remove.

use std::ops::Range;

use super::selection::{SelectedBlock, Selection, scope_name};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::store::blocks::{BlockId, DocumentRef};
use crate::store::file::{POSTINGS, View, all_listed, fingerprint_of, missing_scope, number_of};
use crate::store::numbers::ScopeNumber;
use crate::store::sorted_set::{Wanted, read_puts};

/// The most documents of a batch. Each takes 40 bytes.
const MOST_DOCUMENTS: usize = 1 << 19;
/// A fingerprint with more blocks of postings than this is known to be shared.
const FEW_BLOCKS: usize = 2;

/// A document that is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expired {
    pub(super) number: u64,
    pub(super) key_hash: u64,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) scope: ScopeNumber,
    /// Whether another document may have had its fingerprint when the batch was gathered.
    pub(super) is_shared: bool,
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
    pub(super) id: BlockId,
    /// The number of the last document of the block.
    pub(super) high: u64,
    /// The number of its documents, dead or not. `None` if these documents are only a part of those that are
    /// to go.
    pub(super) documents: Option<usize>,
    /// The number of operations that its step needs for it, at most.
    pub(super) operations: usize,
    /// The indexes of those that are to go.
    pub(super) expired: Range<usize>,
}

/// Many documents that are to go.
pub(super) struct Batch {
    pub(super) expired: Vec<Expired>,
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
