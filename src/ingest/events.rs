//! What an ingestion reports: events while it runs, totals at its end.

use std::time::Duration;

use super::rejected::Rejected;
use crate::database::{Change, Verdict};
use crate::document::Document;

/// What an ingestion reports while it runs. After each commit come the events of the records in the batch, in
/// their order, and then the commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A document has near-duplicates.
    Duplicate {
        /// The document.
        document: &'e Document,
        /// What was done with it, and the documents it is near to.
        verdict: &'e Verdict,
    },
    /// A record could not be taken.
    Rejected(&'e Rejected),
    /// A batch is durable.
    Committed {
        /// The totals up to this commit.
        totals: &'e Totals,
    },
}

/// The numbers of records by what was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of records that were read, without the rejected ones.
    pub documents: u64,
    /// The number of paragraphs or sentences into which they were cut. 0 if they were not cut. If they were, the
    /// numbers below are of these units.
    pub units: u64,
    /// The number of these that were stored under a new key.
    pub inserted: u64,
    /// The number of these that replaced a document of the same key.
    pub replaced: u64,
    /// The number of these that were not stored because they are near-duplicates.
    pub skipped: u64,
    /// The number of stored documents that were deleted, because a new one has a higher rank, or because they were
    /// the units of a document that came again.
    pub deleted: u64,
    /// The number of records that have near-duplicates.
    pub duplicates: u64,
    /// The number of records that are too short to judge. Units that are too short are not stored.
    pub too_short: u64,
    /// The number of records that were rejected.
    pub rejected: u64,
    /// The time it took.
    pub elapsed: Duration,
}

impl Totals {
    /// Adds a document, or a unit of one.
    pub(super) fn add(&mut self, document: &Document, verdict: &Verdict) {
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
