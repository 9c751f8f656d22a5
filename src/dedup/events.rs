//! What a cleaning tells while it runs, and at its end.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::ingest::Rejected;

/// What [`Dedup::run`](super::Dedup::run) tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum DedupEvent<'e> {
    /// A record cannot be judged. It survives, unless the caller wants such records dropped.
    Rejected(&'e Rejected),
    /// An input cannot be read, or not to its end. It is left out, and nothing of it is in the output.
    Failed {
        /// The path of the input.
        path: &'e Path,
        /// Why: [`Error::Input`](crate::Error::Input).
        error: &'e Error,
    },
    /// How far a step is.
    Progress {
        /// The step.
        step: DedupStep,
        /// The parts of it that are done. Of reading and writing, the bytes of the inputs as they are stored.
        done: u64,
        /// All parts of it.
        all: u64,
    },
}

/// The steps of a cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DedupStep {
    /// The inputs are read, and fingerprints are made.
    Reading,
    /// Near-duplicates are found.
    Comparing,
    /// The records that survive are copied.
    Writing,
    /// The documents that survive are stored in the database that was named.
    Storing,
}

/// What came of a cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DedupTotals {
    /// The records that were read: those that were judged, those that were too short for that, and those that could not
    /// be judged.
    pub records: u64,
    /// The records whose texts are too short to judge. They are removed only if their texts are the same.
    pub too_short: u64,
    /// The records that could not be judged. They survive, unless the caller wants them [dropped].
    ///
    /// [dropped]: super::Dedup::drop_unjudged
    pub rejected: u64,
    /// Those of them that were dropped.
    pub dropped_unjudged: u64,
    /// The inputs that could not be read, or not to their ends. Nothing of them is in the output.
    pub failed: u64,
    /// The records that were removed.
    pub removed: u64,
    /// Those of them that have the same fingerprint as their survivor, or the same text.
    pub removed_as_equal: u64,
    /// Those of them whose survivor is a document of the database that was named.
    pub removed_as_known: u64,
    /// The time that the run took, without those that were stopped before it.
    pub elapsed: Duration,
}

impl DedupTotals {
    /// The records that survive.
    pub fn kept(&self) -> u64 {
        self.records - self.removed - self.dropped_unjudged
    }
}

impl DedupEvent<'_> {
    pub(super) fn comparing(done: u64, all: u64) -> Self {
        Self::Progress {
            step: DedupStep::Comparing,
            done,
            all,
        }
    }
}
