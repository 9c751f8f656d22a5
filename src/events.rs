//! Events: what simdb tells those who watch the program, for example in a log. Without the feature `tracing`,
//! it tells nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// What is watched: it has a span, and an event at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Commit,
    MergeStep,
    QueryBatch,
    Expiry,
    Compaction,
    Backup,
    Check,
    Reopening,
    Closing,
}

/// An operation with a database that is watched. Its span ends when this is dropped.
pub(crate) struct Watch<'p> {
    operation: Operation,
    path: &'p Path,
    begun: Instant,
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

impl<'p> Watch<'p> {
    /// Begins an operation with the database at `path`.
    pub(crate) fn begin(operation: Operation, path: &'p Path) -> Self {
        Self {
            operation,
            path,
            #[cfg(feature = "tracing")]
            _entered: span(operation, path).entered(),
            begun: Instant::now(),
        }
    }

    /// Reports a failure, or returns the time that the operation took. Of success, the caller reports.
    pub(crate) fn end<T>(&self, result: Result<T>) -> Result<(T, Duration)> {
        match result {
            Ok(value) => Ok((value, self.begun.elapsed())),
            Err(error) => {
                failed(self.operation, self.path, &error);
                Err(error)
            }
        }
    }
}

#[cfg(feature = "tracing")]
fn span(operation: Operation, path: &Path) -> tracing::Span {
    macro_rules! span {
        ($level:ident, $name:literal) => {
            tracing::span!(target: "simdb", tracing::Level::$level, $name, path = %path.display())
        };
    }
    match operation {
        Operation::Commit => span!(DEBUG, "commit"),
        Operation::MergeStep => span!(DEBUG, "merge_step"),
        Operation::QueryBatch => span!(DEBUG, "query_batch"),
        Operation::Expiry => span!(INFO, "expiry"),
        Operation::Compaction => span!(INFO, "compaction"),
        Operation::Backup => span!(INFO, "backup"),
        Operation::Check => span!(INFO, "check"),
        Operation::Reopening => span!(INFO, "reopening"),
        Operation::Closing => span!(INFO, "closing"),
    }
}

/// Tells of something, with numbers.
macro_rules! tell {
    ($level:ident, $text:literal, $($field:ident),+) => {
        #[cfg(feature = "tracing")]
        tracing::event!(target: "simdb", tracing::Level::$level, $($field),+, $text);
        #[cfg(not(feature = "tracing"))]
        let _ = ($($field,)+);
    };
}

/// Something that was done, with its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A commit is durable. Documents were stored, and others are gone.
    Committed { stored: u64, deleted: u64 },
    /// A step of a merge wrote rows, in blocks of these bytes, in a number of sets.
    Merged { sets: usize, rows: u64, bytes: u64 },
    /// A batch of queries was answered.
    Answered { queries: usize, matches: u64 },
    /// Documents were removed because they expired.
    Expired { removed: u64 },
    /// A dense copy took the place of the file.
    Compacted { bytes_before: u64, bytes_after: u64 },
    /// A snapshot was copied into a file of its own.
    BackedUp { documents: u64 },
    /// A database was checked.
    Checked { documents: u64, problems: u64 },
    /// The file was opened again, if the handle had failed.
    Reopened { had_failed: bool },
    /// The database was closed.
    Closed,
}

impl Event {
    /// Reports it, with the time that it took.
    pub(crate) fn report(self, took: Duration) {
        let elapsed_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match self {
            Self::Committed { stored, deleted } => {
                tell!(DEBUG, "committed", stored, deleted, elapsed_us);
            }
            Self::Merged { sets, rows, bytes } => {
                tell!(DEBUG, "merged", sets, rows, bytes, elapsed_us);
            }
            Self::Answered { queries, matches } => {
                tell!(DEBUG, "answered", queries, matches, elapsed_us);
            }
            Self::Expired { removed } => {
                tell!(INFO, "expired", removed, elapsed_us);
            }
            Self::Compacted {
                bytes_before,
                bytes_after,
            } => {
                tell!(INFO, "compacted", bytes_before, bytes_after, elapsed_us);
            }
            Self::BackedUp { documents } => {
                tell!(INFO, "backed up", documents, elapsed_us);
            }
            Self::Checked {
                documents,
                problems,
            } => {
                tell!(INFO, "checked", documents, problems, elapsed_us);
            }
            Self::Reopened { had_failed } => {
                tell!(INFO, "reopened", had_failed, elapsed_us);
            }
            Self::Closed => {
                tell!(INFO, "closed", elapsed_us);
            }
        }
    }
}

fn failed(operation: Operation, path: &Path, error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "simdb", operation = ?operation, path = %path.display(), %error, "failed");
    #[cfg(not(feature = "tracing"))]
    let _ = (operation, path, error);
}

/// The permuted tables of a database no longer fit into its cache.
pub(crate) fn tables_do_not_fit(path: &Path, limit_bytes: u64, needed_bytes: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "simdb",
        path = %path.display(),
        cache_limit_bytes = limit_bytes,
        tables_need_bytes = needed_bytes,
        "the permuted tables do not fit into the cache, so as many signatures of them are kept as fit, and queries \
         read the file; a larger cache makes them faster"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (path, limit_bytes, needed_bytes);
}
