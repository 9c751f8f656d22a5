//! What an ingestion reports: events while it runs, totals at its end.

use std::path::Path;

use super::rejected::Rejected;
use crate::database::{Change, Verdict};
use crate::document::Document;
use crate::error::Error;
use crate::source::Totals;

/// What an ingestion reports while it runs. First how each input is read, if it was read before. Then, for each
/// batch, the events of its records in their order, that they are complete, and that the batch is durable.
///
/// The events of a batch come before its commit. If the program is stopped in between, they come again when the
/// ingestion goes on. So none is lost, and some may come twice.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// An input was read before.
    Source {
        /// The path of the input.
        path: &'e Path,
        /// How it is read now.
        resumed: Resumed,
    },
    /// A document has near-duplicates.
    Duplicate {
        /// The document.
        document: &'e Document,
        /// What was done with it, and the documents it is near to.
        verdict: &'e Verdict,
    },
    /// A record could not be taken.
    Rejected(&'e Rejected),
    /// An input could not be read, or not further. What was read of it before is stored, and the next one is read.
    Failed {
        /// The path of the input.
        path: &'e Path,
        /// Why: [`Error::Input`](crate::Error::Input).
        error: &'e Error,
        /// Whether the reason is in the content. Then the input is not tried again before that has changed.
        is_lasting: bool,
    },
    /// The last line of an input has no line end, and is no record. Most likely whoever writes the input has not ended
    /// it yet. It is left for the next run, which reads it when the input has become longer.
    Left(&'e Rejected),
    /// An input is read as one document, and each of its many short lines may be one. Whoever means that reads it with
    /// [`InputFormat::Lines`](super::InputFormat::Lines), and otherwise says [`InputFormat::Text`](super::InputFormat::Text).
    List {
        /// The path of the input.
        path: &'e Path,
        /// The number of lines that are not empty.
        lines: u64,
    },
    /// The events of a batch are complete, and it is committed next. What was printed of them has to be written
    /// out now.
    Reported,
    /// A batch is durable.
    Committed {
        /// The totals up to this commit.
        totals: &'e Totals,
    },
}

/// How an input is read, if it or another of its name was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resumed {
    /// From its beginning, since it was not read before.
    New,
    /// Not at all, since it was read to its end.
    PassedOver,
    /// Not at all, since it is among the inputs before.
    Repeated,
    /// From where its reading was stopped.
    Continued,
    /// From where it ended when it was read. It has become longer.
    Grown,
    /// From its beginning, since it has another content now.
    Changed,
    /// From its beginning, since the caller wants it.
    Again,
    /// Not at all, since it could not be read further before, and has the same content.
    Failed,
}

/// What an ingestion has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ingested {
    /// What it has read now.
    pub now: Totals,
    /// What its inputs hold in all: what was read of them now, and before.
    pub in_all: Totals,
    /// The number of inputs that were not read, since they were read to their end before and have not changed, or are
    /// given more than once.
    pub unchanged: u64,
    /// The number of inputs that could not be read, or not further.
    pub failed: u64,
}

/// Adds a document, or a unit of one, to totals.
pub(super) fn add_verdict(totals: &mut Totals, document: &Document, verdict: &Verdict) {
    match verdict.change() {
        Change::Inserted => totals.inserted += 1,
        Change::Replaced(_) => totals.replaced += 1,
        Change::Skipped => totals.skipped += 1,
    }
    totals.deleted += verdict.deleted().len() as u64;
    totals.duplicates += u64::from(verdict.is_duplicate());
    totals.too_short += u64::from(document.fingerprint().is_none());
}
