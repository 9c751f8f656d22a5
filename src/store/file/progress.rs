//! Progress: what the merging thread and the transactions tell each other.

use crate::error::Error;

/// What the merging thread and the transactions tell each other.
#[derive(Default)]
pub(crate) struct Progress {
    /// The number of commits. A thread that waits for a commit compares it, and so misses none.
    pub(crate) commits: u64,
    /// Whether the thread is to end.
    pub(crate) stop: bool,
    /// Why the last merge failed.
    pub(crate) failure: Option<MergeFailure>,
}

/// Why the last merge failed.
pub(crate) struct MergeFailure {
    /// Whether the file is damaged. Otherwise the disk may be full, for example.
    damage: bool,
    reason: String,
}

impl MergeFailure {
    pub(crate) fn new(error: &Error) -> Self {
        let reason = match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        Self {
            damage: matches!(error, Error::Damaged { .. } | Error::Corrupted(_)),
            reason,
        }
    }

    /// Nothing can be merged, since the system gives no thread.
    pub(crate) fn without_thread(error: &std::io::Error) -> Self {
        Self {
            damage: false,
            reason: error.to_string(),
        }
    }

    /// The error for a transaction that waits for the merge.
    pub(crate) fn to_error(&self) -> Error {
        let cause = format!("levels could not be merged: {}", self.reason);
        if self.damage {
            Error::corrupted(cause)
        } else {
            Error::storage(cause)
        }
    }
}
