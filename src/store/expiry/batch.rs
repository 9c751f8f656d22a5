//! Batch: many documents that are to go, gathered from a snapshot. For each, it is known whether another
//! document may have its fingerprint.
//!
//! That takes one look at the postings for each fingerprint. In the order of the fingerprints, many are in one
//! block. So a batch has far more documents than a transaction may remove.

use std::collections::HashMap;
use std::ops::Range;

use super::selection::Selection;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::store::blocks::{BlockId, DocumentRef};
use crate::store::file::{
    DEAD, POSTINGS, View, all_listed, damaged_document, fingerprint_of, missing_scope, number_of,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::{Position, Wanted, read_puts};

/// The most documents of a batch. Each takes 40 bytes.
const MOST_DOCUMENTS: usize = 1 << 19;
/// The most scopes whose numbers are remembered.
const REMEMBERED_SCOPES: usize = 1 << 12;
/// A fingerprint with more blocks of postings than this is known to be shared.
const FEW_BLOCKS: usize = 2;

/// A document that is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doomed {
    pub(super) number: u64,
    pub(super) key_hash: u64,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) scope: ScopeNumber,
    /// Whether another document may have had its fingerprint when the batch was gathered.
    pub(super) is_shared: bool,
}

/// The documents of one block that are to go.
#[derive(Debug)]
pub(super) struct DoomedBlock {
    pub(super) id: BlockId,
    /// The number of the last document of the block.
    pub(super) high: u64,
    /// The number of its documents, dead or not. `None` if the documents that are to go are only a part of
    /// those that are to go.
    pub(super) documents: Option<usize>,
    /// The number of operations that its step needs for it, at most.
    pub(super) operations: usize,
    /// The indexes of those that are to go.
    pub(super) doomed: Range<usize>,
}

/// Many documents that are to go.
pub(super) struct Batch {
    pub(super) doomed: Vec<Doomed>,
    /// In order.
    pub(super) blocks: Vec<DoomedBlock>,
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
        let mut gathering = Gathering {
            view,
            selection,
            scopes: HashMap::new(),
            batch: Self {
                doomed: Vec::new(),
                blocks: Vec::new(),
                next: None,
                known_to: view.state().counters.next_document,
            },
        };
        let enough = MOST_DOCUMENTS.min(most.saturating_mul(8));
        let mut next = from;
        while let Some(position) = selection.next_block(view, next)? {
            if gathering.batch.doomed.len() >= enough {
                gathering.batch.next = Some(next);
                break;
            }
            next = gathering.block(position, most)? + 1;
            if next >= selection.end() {
                break;
            }
        }
        gathering.batch.find_shared(view)?;
        Ok(gathering.batch)
    }

    /// Finds the fingerprints that other documents may have. If a source has another document of the
    /// fingerprint, it may be one that a newer source removes.
    fn find_shared(&mut self, view: &View) -> Result<()> {
        let with_fingerprint =
            (0..self.doomed.len()).filter(|&i| self.doomed[i].fingerprint.is_some());
        let mut order: Vec<usize> = with_fingerprint.collect();
        order.sort_unstable_by_key(|&i| self.doomed[i].fingerprint);
        let wanted = order.iter().filter_map(|&i| {
            let range = all_listed(self.doomed[i].fingerprint?);
            Some(Wanted {
                reader: view.set(POSTINGS),
                first: *range.start(),
                last: *range.end(),
            })
        });
        let mut shared = vec![false; order.len()];
        let reading = read_puts(wanted, FEW_BLOCKS, |index, puts| {
            let Doomed {
                number,
                fingerprint,
                ..
            } = self.doomed[order[index]];
            shared[index] |= puts
                .iter()
                .any(|&row| Some(fingerprint_of(row)) == fingerprint && number_of(row).0 != number);
        })?;
        reading
            .too_long
            .into_iter()
            .for_each(|index| shared[index] = true);
        order
            .into_iter()
            .zip(shared)
            .for_each(|(i, is_shared)| self.doomed[i].is_shared = is_shared);
        Ok(())
    }
}

struct Gathering<'a> {
    view: &'a View,
    selection: &'a Selection<'a>,
    /// Numbers of scopes.
    scopes: HashMap<String, ScopeNumber>,
    batch: Batch,
}

impl Gathering<'_> {
    /// Gathers the documents of a block, and returns the number of its last document.
    fn block(&mut self, position: Position, most: usize) -> Result<u64> {
        let view = self.view;
        let (documents, of) = (&view.state().documents, view.document_blocks());
        let Some(entry) = documents.entry(position, of)? else {
            return Ok(u64::MAX - 1);
        };
        let block = of.documents_once(entry)?;
        let first = block.documents().next().map_or(0, |first| first.number);
        let dead = view.set(DEAD).rows(&(first..=entry.high))?;
        let begin = self.batch.doomed.len();
        for document in block.documents() {
            let damaged = |problem| damaged_document(DocumentNumber(document.number), problem);
            if dead.binary_search(&document.number).is_err()
                && self.selection.takes(&document).map_err(damaged)?
            {
                let doomed = self.doomed(&document)?;
                self.batch.doomed.push(doomed);
            }
        }
        let doomed = begin..self.batch.doomed.len();
        let (id, high) = (entry.id, entry.high);
        if doomed.len() <= most {
            // A block that goes as a whole needs an operation for each of its dead documents too.
            let is_whole = doomed.len() + dead.len() == block.len();
            let operations = if is_whole { block.len() } else { doomed.len() };
            let documents = Some(block.len());
            self.batch.blocks.push(DoomedBlock {
                id,
                high,
                documents,
                operations,
                doomed,
            });
        } else {
            let part = |begin: usize| begin..(begin + most).min(doomed.end);
            let parts = doomed.clone().step_by(most).map(part);
            self.batch.blocks.extend(parts.map(|doomed| {
                let operations = doomed.len();
                DoomedBlock {
                    id,
                    high,
                    documents: None,
                    operations,
                    doomed,
                }
            }));
        }
        Ok(high)
    }

    fn doomed(&mut self, document: &DocumentRef<'_>) -> Result<Doomed> {
        let damaged = |problem| damaged_document(DocumentNumber(document.number), problem);
        let scope = self.scope_number(document.scope().map_err(damaged)?)?;
        Ok(Doomed {
            number: document.number,
            key_hash: self.view.settings().key_hash(document.key),
            fingerprint: document.fingerprint,
            scope,
            is_shared: false,
        })
    }

    fn scope_number(&mut self, name: &str) -> Result<ScopeNumber> {
        if name.is_empty() {
            return Ok(ScopeNumber::EMPTY);
        }
        if let Some(&number) = self.scopes.get(name) {
            return Ok(number);
        }
        let number = self
            .view
            .scope_number(name)?
            .ok_or_else(|| missing_scope(name))?;
        if self.scopes.len() >= REMEMBERED_SCOPES {
            self.scopes.clear();
        }
        self.scopes.insert(name.to_owned(), number);
        Ok(number)
    }
}
