//! Selection: which documents are to go, and which blocks may have some of them.
//!
//! By time, the extents of the directory tell which blocks may have older documents. By scope, the postings
//! list the documents that have a fingerprint. To go through all postings costs a fraction of what it costs to
//! go through all documents. For documents without a fingerprint, the extents tell which blocks may have some.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::store::blocks::{DocumentRef, Extent, Lists, Problem, scope_bit};
use crate::store::file::{POSTINGS, View, number_of, scope_of};
use crate::store::numbers::ScopeNumber;
use crate::store::sorted_set::Position;

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
    /// Documents from this number on came later, and stay.
    end: u64,
}

impl<'a> Selection<'a> {
    /// The documents of `view` that meet the conditions.
    pub(super) fn new(view: &View, conditions: &'a Conditions) -> Result<Self> {
        let end = view.state().counters.next_document;
        let bits = conditions
            .scopes
            .iter()
            .flatten()
            .fold(0, |bits, scope| bits | scope_bit(scope));
        let mut selection = Self {
            conditions,
            bits,
            listed: None,
            end,
        };
        if let Some(scopes) = &conditions.scopes {
            let postings = &view.state().sets[POSTINGS];
            let blocks: usize = postings.levels.iter().map(|it| it.level.blocks()).sum();
            // A block of postings costs about as much as a block of documents.
            if blocks
                < view
                    .state()
                    .documents
                    .most_wanted(|extent| selection.may_be_older(extent))
            {
                selection.listed = listed(view, scopes)?;
            }
        }
        Ok(selection)
    }

    /// Whether a block with this extent may have documents that are seen early enough.
    fn may_be_older(&self, extent: &Extent) -> bool {
        self.conditions
            .before
            .is_none_or(|before| extent.least_seen < before)
    }

    /// Whether a document is to go.
    pub(super) fn takes(&self, document: &DocumentRef<'_>) -> Result<bool, Problem> {
        let Conditions { before, scopes } = self.conditions;
        if document.number >= self.end || before.is_some_and(|before| document.seen >= before) {
            return Ok(false);
        }
        match scopes {
            Some(scopes) => Ok(scopes.contains(document.scope()?)),
            None => Ok(true),
        }
    }

    /// The position of the first block that may have documents to go, with numbers from `from` on.
    pub(super) fn next_block(&self, view: &View, from: u64) -> Result<Option<Position>> {
        let (documents, of) = (&view.state().documents, view.document_blocks());
        let mut position = documents.find(from, of)?;
        loop {
            if let Some(listed) = &self.listed {
                let before = documents
                    .before(position)
                    .map(|it| documents.entry(it, of))
                    .transpose()?;
                let low = before
                    .flatten()
                    .map_or(from, |entry| from.max(entry.high + 1));
                let next = listed.get(listed.partition_point(|&number| number < low));
                let by_number =
                    next.map_or(Ok(documents.end()), |&number| documents.find(number, of))?;
                let has_unposted = |extent: &Extent| extent.unposted & self.bits != 0;
                position = by_number.min(documents.next_wanted(position, has_unposted, of)?);
            } else {
                position =
                    documents.next_wanted(position, |extent| self.may_be_older(extent), of)?;
            }
            match documents.extent(position, of)? {
                None => return Ok(None),
                Some(extent) if self.may_be_older(&extent) => return Ok(Some(position)),
                Some(_) => position = documents.after(position, 1),
            }
        }
    }

    /// The number of the first document that stays because it came later.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

/// The numbers of the documents that the postings list under some scopes, and perhaps of some that are dead.
/// `None` if they are too many.
fn listed(view: &View, scopes: &BTreeSet<String>) -> Result<Option<Vec<u64>>> {
    let mut wanted = BTreeSet::new();
    for scope in scopes {
        let unnamed = scope.is_empty().then_some(ScopeNumber::EMPTY);
        wanted.extend(unnamed.map_or_else(|| view.scope_number(scope), |it| Ok(Some(it)))?);
    }
    let postings = view.set(POSTINGS);
    let (mut numbers, mut rows) = (Vec::new(), Lists::default());
    for range in postings.parts()? {
        postings.puts(&range, &mut rows)?;
        let listed = rows
            .puts
            .iter()
            .filter(|&&row| wanted.contains(&scope_of(row)));
        numbers.extend(listed.map(|&row| number_of(row).0));
        if numbers.len() > MOST_LISTED {
            return Ok(None);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Some(numbers))
}
