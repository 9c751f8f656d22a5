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

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// A commit is durable. Documents were stored, and others are gone.
pub(crate) fn committed(stored: u64, deleted: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(DEBUG, "committed", stored, deleted, elapsed_us);
}

/// A step of a merge wrote rows, in blocks of these bytes, in a number of sets.
pub(crate) fn merged(sets: usize, rows: u64, bytes: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(DEBUG, "merged", sets, rows, bytes, elapsed_us);
}

/// A batch of queries was answered.
pub(crate) fn answered(queries: usize, matches: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(DEBUG, "answered", queries, matches, elapsed_us);
}

/// Documents were removed because they expired.
pub(crate) fn expired(removed: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(INFO, "expired", removed, elapsed_us);
}

/// A dense copy took the place of the file.
pub(crate) fn compacted(bytes_before: u64, bytes_after: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(INFO, "compacted", bytes_before, bytes_after, elapsed_us);
}

/// A snapshot was copied into a file of its own.
pub(crate) fn backed_up(documents: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(INFO, "backed up", documents, elapsed_us);
}

/// A database was checked.
pub(crate) fn checked(documents: u64, problems: u64, took: Duration) {
    let elapsed_us = micros(took);
    tell!(INFO, "checked", documents, problems, elapsed_us);
}

/// The file was opened again, if the handle had failed.
pub(crate) fn reopened(had_failed: bool, took: Duration) {
    let elapsed_us = micros(took);
    tell!(INFO, "reopened", had_failed, elapsed_us);
}

/// The database was closed.
pub(crate) fn closed(took: Duration) {
    let elapsed_us = micros(took);
    tell!(INFO, "closed", elapsed_us);
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
        "the permuted tables do not fit into the cache, so queries read the file; a larger cache makes them \
         about ten times as fast"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (path, limit_bytes, needed_bytes);
}
