//! Verdict: what was done with a document, and which near-duplicates it has.

use super::query::Matches;
use crate::document::Document;
use crate::metrics::{Decided, MOST_DISTANCE};

/// What [`WriteTxn::insert_if_new`](crate::WriteTxn::insert_if_new) did with the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was stored, and its key is new.
    Inserted,
    /// It was stored and replaced this document of the same key.
    Replaced(Document),
    /// It was not stored. Nothing was changed, unless the policy [touches](crate::Policy::touch) the nearest
    /// match.
    Skipped,
}

/// What [`WriteTxn::insert_if_new`](crate::WriteTxn::insert_if_new) did, and which near-duplicates it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub(super) change: Change,
    pub(super) matches: Matches,
    pub(super) deleted: Vec<Document>,
}

impl Verdict {
    /// The verdict on a document of a new key that has no near-duplicates.
    pub(super) fn inserted() -> Self {
        Self {
            change: Change::Inserted,
            matches: Matches::default(),
            deleted: Vec::new(),
        }
    }

    /// Counts it among the verdicts of its transaction.
    pub(super) fn count_in(&self, decided: &mut Decided) {
        let duplicates = u64::from(self.is_duplicate());
        match self.change {
            Change::Inserted => {
                decided.inserted += 1;
                decided.inserted_duplicates += duplicates;
            }
            Change::Replaced(_) => {
                decided.replaced += 1;
                decided.replaced_duplicates += duplicates;
            }
            Change::Skipped => decided.skipped += 1,
        }
        // Matches may be in the order of similarity.
        if let Some(distance) = self.matches.iter().map(|it| it.distance as usize).min() {
            decided.nearest[distance.min(MOST_DISTANCE)] += 1;
        }
    }

    /// What was done with the document.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The near-duplicates that were stored before. A document of the same key is never among them.
    pub fn matches(&self) -> &Matches {
        &self.matches
    }

    /// The near-duplicates that were deleted because the document outranks them. Only
    /// [`OnMatch::Replace`](crate::OnMatch::Replace) deletes any.
    pub fn deleted(&self) -> &[Document] {
        &self.deleted
    }

    /// Whether the document has a near-duplicate.
    pub fn is_duplicate(&self) -> bool {
        self.matches.total() > 0
    }
}
