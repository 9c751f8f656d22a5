//! What is told of an ingestion while it goes on, and at its end.

use std::time::Duration;

use super::rejected::Rejected;
use crate::database::{Change, Verdict};
use crate::document::Document;

/// What is told of an ingestion while it goes on, once it is durable: a batch's records in their order, then its
/// commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A document has near-duplicates.
    Duplicate {
        /// The document.
        document: &'e Document,
        /// What was done with it, and what it resembles.
        verdict: &'e Verdict,
    },
    /// A record could not be taken.
    Rejected(&'e Rejected),
    /// A batch is durable.
    Committed {
        /// The totals so far.
        totals: &'e Totals,
    },
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// How many records were read, rejected ones not counted.
    pub documents: u64,
    /// Of these, how many were stored under a new key.
    pub inserted: u64,
    /// How many were stored in the place of a document of the same key.
    pub replaced: u64,
    /// How many were not stored, being near-duplicates.
    pub skipped: u64,
    /// How many stored documents were deleted because a new one outranks them.
    pub deleted: u64,
    /// How many have near-duplicates.
    pub duplicates: u64,
    /// How many are too short to judge.
    pub too_short: u64,
    /// How many records could not be taken.
    pub rejected: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Totals {
    pub(super) fn add(&mut self, document: &Document, verdict: &Verdict) {
        self.documents += 1;
        match verdict.change() {
            Change::Inserted => self.inserted += 1,
            Change::Replaced(_) => self.replaced += 1,
            Change::Skipped => self.skipped += 1,
        }
        self.deleted += verdict.deleted().len() as u64;
        self.duplicates += u64::from(verdict.is_duplicate());
        self.too_short += u64::from(document.fingerprint().is_none());
    }
}
