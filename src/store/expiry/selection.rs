//! Selection: which documents are to go, and which blocks may have some of them.
//!
//! By time, the extents of the directory tell which blocks may have older documents. By scope, the postings
//! list the documents that have a fingerprint. To go through all postings costs a fraction of what it costs to
//! go through all documents. For documents without a fingerprint, the extents tell which blocks may have some.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::planted::planted;
use crate::store::blocks::{BlockId, DocumentBlock, DocumentRef, Extent, Lists, scope_bit};
use crate::store::file::{DEAD, POSTINGS, View, damaged_document, number_of, scope_of};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::{Position, SetLevel};

/// Which documents are to go: those that meet all conditions that are given.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Only documents seen before this time.
    pub(crate) before: Option<i64>,
    /// Only documents of these scopes.
    pub(crate) scopes: Option<BTreeSet<String>>,
}

/// The most documents whose numbers are kept. With more, all blocks are looked at.
const MOST_LISTED: usize = 4 << 20;

/// The documents of a file that are to go.
pub(super) struct Selection<'a> {
    conditions: &'a Conditions,
    /// The bits of the scopes, as extents have them.
    bits: u64,
    /// The numbers of the documents that the postings list under the scopes, in order. `None` if all blocks
    /// are to be looked at.
    listed: Option<Vec<u64>>,
    /// Numbers that no document of the scopes without a fingerprint has, as was found last.
    all_posted: Cell<Range<u64>>,
    /// Documents from this number on came later, and stay.
    end: u64,
}

/// A block that may have documents to go.
pub(super) struct SelectedBlock {
    pub(super) id: BlockId,
    /// The number of its last document.
    pub(super) high: u64,
    block: Arc<DocumentBlock>,
    /// The numbers of those of its documents that are dead.
    pub(super) dead: Vec<u64>,
}

impl SelectedBlock {
    /// The number of its documents, dead or not.
    pub(super) fn len(&self) -> usize {
        self.block.len()
    }
}

impl<'a> Selection<'a> {
    /// The documents of `view` that meet the conditions.
    pub(super) fn new(view: &View, conditions: &'a Conditions) -> Result<Self> {
        let mut selection = Self {
            conditions,
            bits: 0,
            listed: None,
            all_posted: Cell::default(),
            end: view.state().counters.next_document,
        };
        let Some(scopes) = &conditions.scopes else {
            return Ok(selection);
        };
        for scope in scopes {
            selection.bits |= scope_bit(scope);
        }
        let postings = &view.state().sets[POSTINGS];
        let mut blocks = 0;
        for SetLevel { level, .. } in &postings.levels {
            blocks += level.blocks();
        }
        let documents = &view.state().documents;
        // A block of postings costs about as much as a block of documents.
        if blocks < documents.most_wanted(|extent| selection.may_be_older(extent)) {
            selection.listed = listed(view, scopes)?;
        }
        Ok(selection)
    }

    /// Whether a block with this extent may have documents that are seen early enough.
    fn may_be_older(&self, extent: &Extent) -> bool {
        match self.conditions.before {
            Some(before) => extent.least_seen < before,
            None => true,
        }
    }

    /// The documents of a block that are to go.
    pub(super) fn documents_of<'b>(
        &self,
        block: &'b SelectedBlock,
    ) -> Result<Vec<DocumentRef<'b>>> {
        let Conditions { before, scopes } = self.conditions;
        let mut taken = Vec::new();
        for document in block.block.documents() {
            let late = i64::from(planted("an expiry is late by a second"));
            if document.number >= self.end
                || before.is_some_and(|before| document.seen >= before - late)
                || block.dead.binary_search(&document.number).is_ok()
            {
                continue;
            }
            if let Some(scopes) = scopes
                && !scopes.contains(scope_name(&document)?)
            {
                continue;
            }
            taken.push(document);
        }
        Ok(taken)
    }

    /// The first block that may have documents to go, with numbers from `from` on.
    pub(super) fn next_block(&self, view: &View, from: u64) -> Result<Option<SelectedBlock>> {
        let Some(position) = self.next_position(view, from)? else {
            return Ok(None);
        };
        let blocks = view.document_blocks();
        let Some(entry) = view.state().documents.entry(position, blocks)? else {
            return Ok(None);
        };
        let block = blocks.documents_once(entry)?;
        let first = block.documents().next().map_or(0, |first| first.number);
        Ok(Some(SelectedBlock {
            id: entry.id,
            high: entry.high,
            block,
            dead: view.set(DEAD).rows(&(first..=entry.high))?,
        }))
    }

    /// The number from which on to look for the block after another one. `None` if there is none.
    pub(super) fn after(&self, block: &SelectedBlock) -> Option<u64> {
        let next = block.high + 1;
        (next < self.end).then_some(next)
    }

    fn next_position(&self, view: &View, from: u64) -> Result<Option<Position>> {
        let documents = &view.state().documents;
        let blocks = view.document_blocks();
        let mut position = documents.find(from, blocks)?;
        loop {
            position = match &self.listed {
                Some(listed) => {
                    let before = documents.entry_before(position, blocks)?;
                    let low = before.map_or(from, |entry| from.max(entry.high + 1));
                    let next = listed.partition_point(|&number| number < low);
                    let by_number = match listed.get(next) {
                        Some(&number) => documents.find(number, blocks)?,
                        None => documents.end(),
                    };
                    by_number.min(self.next_unposted(view, position, low)?)
                }
                None => {
                    documents.next_wanted(position, |extent| self.may_be_older(extent), blocks)?
                }
            };
            match documents.extent(position, blocks)? {
                None => return Ok(None),
                Some(extent) if self.may_be_older(&extent) => return Ok(Some(position)),
                Some(_) => position = documents.after(position, 1),
            }
        }
    }
}

impl Selection<'_> {
    /// The first block from a position on that may have documents of the scopes without a fingerprint. Documents from
    /// there on have numbers from `low` on.
    ///
    /// Where there are few of them, or none, the whole directory would be gone through for each block.
    fn next_unposted(&self, view: &View, position: Position, low: u64) -> Result<Position> {
        let documents = &view.state().documents;
        let blocks = view.document_blocks();
        let mut known = self.all_posted.take();
        if !known.contains(&low) {
            let has_unposted = |extent: &Extent| extent.unposted & self.bits != 0;
            let found = documents.next_wanted(position, has_unposted, blocks)?;
            let before = documents.entry_before(found, blocks)?;
            let end = match before {
                _ if found == documents.end() => u64::MAX,
                Some(before) => before.high + 1,
                None => 0,
            };
            known = low..end;
        }
        let end = known.end;
        self.all_posted.set(known);
        Ok(position.max(documents.find(end, blocks)?))
    }
}

/// The name of the scope of a document.
pub(super) fn scope_name<'d>(document: &'d DocumentRef<'_>) -> Result<&'d str> {
    document
        .scope()
        .map_err(damaged_document(DocumentNumber(document.number)))
}

/// The numbers of the documents that the postings list under some scopes, and perhaps of some that are dead.
/// `None` if they are too many.
fn listed(view: &View, scopes: &BTreeSet<String>) -> Result<Option<Vec<u64>>> {
    let mut wanted = BTreeSet::new();
    for scope in scopes {
        if scope.is_empty() {
            wanted.insert(ScopeNumber::EMPTY);
        } else {
            wanted.extend(view.scope_number(scope)?);
        }
    }
    let postings = view.set(POSTINGS);
    let mut numbers = Vec::new();
    let mut rows = Lists::default();
    for range in postings.parts()? {
        postings.puts(&range, &mut rows)?;
        for &row in &rows.puts {
            if wanted.contains(&scope_of(row)) {
                numbers.push(number_of(row).0);
            }
        }
        if numbers.len() > MOST_LISTED {
            return Ok(None);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Some(numbers))
}
