//! What an ingestion reports: events while it runs, totals at its end.

use super::rejected::Rejected;
use crate::database::{Change, Verdict};
use crate::document::Document;
use crate::source::Totals;

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
