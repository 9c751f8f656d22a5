//! Metrics: what an open database does, as plain data.

use std::time::Duration;

use super::histogram::Histogram;
use crate::fingerprint::DISTANCES;

/// What has happened in a database since this handle was opened, and how it stands now.
///
/// It is plain data. [`Metrics::prometheus`] prints it for the monitoring of a crawler. The numbers are read one after
/// the other while others work, so two of them may be some operations apart. What other handles or processes did
/// before is not counted.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Policy};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for key in ["a", "b", "c"] {
///     txn.insert_if_new(&Document::new(key, Fingerprint::from_bits(7)), &Policy::skip())?;
/// }
/// txn.commit()?;
/// let metrics = database.metrics();
/// assert_eq!((metrics.documents, metrics.documents_per_commit()), (1, Some(1.0)));
/// assert_eq!((metrics.verdicts.inserted, metrics.verdicts.skipped), (1, 2));
/// assert_eq!(metrics.verdicts.nearest[0], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// How long the handle has been open.
    pub open_for: Duration,

    /// The number of documents in the database now.
    pub documents: u64,
    /// The length of the file now, in bytes. 0 if the system does not tell it.
    pub file_bytes: u64,
    /// Documents that were stored by committed transactions. A document that takes the place of another, or is touched,
    /// is stored too.
    pub documents_stored: u64,
    /// Documents that are gone by committed transactions: deleted, outranked, or replaced by another of their key or
    /// by themselves when they were touched. Expired ones are not counted here.
    pub documents_deleted: u64,
    /// Documents that [`Database::expire`](crate::Database::expire) removed.
    pub documents_expired: u64,
    /// The verdicts of committed transactions.
    pub verdicts: Verdicts,

    /// Queries: single ones, those in batches, and [`Snapshot::any_match`](crate::Snapshot::any_match). The searches
    /// for verdicts are not counted.
    pub queries: u64,
    /// The matches of these queries: their totals added up.
    pub query_matches: u64,
    /// How long single queries took. Each thread times one in 64 of them, since looking at the clock would make them
    /// slower.
    pub query_times: Histogram,
    /// How long [`Snapshot::query_batch`](crate::Snapshot::query_batch) took.
    pub query_batch_times: Histogram,
    /// Fingerprints that probes met, for queries and for verdicts. Each was compared with a query. Fingerprints that a
    /// scan compared are not counted.
    pub candidates: u64,

    /// How long commits took, with the time for which they waited for merges. Only commits that changed something and
    /// succeeded are counted. Those of expiry are not.
    pub commit_times: Histogram,
    /// Commits that returned an error.
    pub failed_commits: u64,

    /// Submissions to writers: documents, removals and flushes.
    pub submissions: u64,
    /// Submissions that wait in the queues of writers now.
    pub queue_length: u64,
    /// The memory that these take, in bytes.
    pub queue_bytes: u64,
    /// The time from a submission until it was durable. Submissions that failed are not counted.
    pub submission_times: Histogram,

    /// Merge debt: the changes in the log with which no merge has begun. A merge begins when they reach
    /// [`OpenOptions::recent_documents`](crate::OpenOptions::recent_documents), and commits are slowed down above that.
    pub waiting_changes: u64,
    /// Merge debt: the rows in memory that are not in a level of the file yet, of all sorted sets together.
    pub waiting_rows: u64,
    /// How long the steps of merges took.
    pub merge_times: Histogram,
    /// The rows that these steps wrote.
    pub merged_rows: u64,
    /// The bytes of the blocks that these steps wrote.
    pub merged_bytes: u64,
    /// Merge steps that failed, for example because the disk was full. They are tried again.
    pub failed_merges: u64,

    /// How often rows or documents that were looked for were in the cache. Those of scans, checks, merges and copies
    /// are not counted, neither here nor as misses.
    pub cache_hits: u64,
    /// How often they were not, and a block was read for them.
    pub cache_misses: u64,
    /// The bytes that directories, rows and documents take in the cache now.
    pub cache_bytes: u64,
    /// The bytes that the cache may take now.
    pub cache_limit_bytes: u64,
    /// Blocks that were read from the file, for whatever reason. The engine may have had their pages in memory.
    pub blocks_read: u64,
    /// The bytes of these blocks.
    pub bytes_read: u64,

    /// The snapshots that are open now.
    pub snapshots: u64,
    /// For how long the oldest commit that a snapshot or transaction reads has not been the newest one. `None` if all
    /// of them read the newest commit. Then they keep nothing.
    pub oldest_pin: Option<Duration>,
    /// The space in the file that is free only after these have ended, in bytes: the blocks, and pages of the log, that
    /// commits have removed since that oldest commit, and the old file after a compaction. The pages of the engine's
    /// trees, some per commit, come on top.
    pub pinned_bytes: u64,

    /// How long compactions took.
    pub compaction_times: Histogram,
}

/// The verdicts of committed transactions since a handle was opened.
///
/// See the example of [`Metrics`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdicts {
    /// Documents of a new key that were stored.
    pub inserted: u64,
    /// Those of them that had a match.
    pub inserted_duplicates: u64,
    /// Documents that replaced another of the same key.
    pub replaced: u64,
    /// Those of them that had a match.
    pub replaced_duplicates: u64,
    /// Documents that were not stored, because they had a match.
    pub skipped: u64,
    /// The number of verdicts by the distance of the nearest listed match, from 0 to 64. Verdicts that list no match,
    /// because there is none or the limit of the policy is 0, are not among them.
    pub nearest: [u64; DISTANCES],
}

/// No verdicts.
impl Default for Verdicts {
    fn default() -> Self {
        Self {
            inserted: 0,
            inserted_duplicates: 0,
            replaced: 0,
            replaced_duplicates: 0,
            skipped: 0,
            nearest: [0; DISTANCES],
        }
    }
}

impl Verdicts {
    /// The number of all verdicts.
    pub fn total(&self) -> u64 {
        self.inserted + self.replaced + self.skipped
    }

    /// The number of verdicts with a match.
    pub fn duplicates(&self) -> u64 {
        self.inserted_duplicates + self.replaced_duplicates + self.skipped
    }
}

impl Metrics {
    /// The mean number of documents that a commit stored. `None` before the first commit.
    pub fn documents_per_commit(&self) -> Option<f64> {
        let commits = self.commit_times.count();
        (commits > 0).then_some(self.documents_stored as f64 / commits as f64)
    }

    /// The share of what was looked for that was in the cache. `None` if nothing was looked for.
    pub fn cache_hit_share(&self) -> Option<f64> {
        let all = self.cache_hits + self.cache_misses;
        (all > 0).then_some(self.cache_hits as f64 / all as f64)
    }
}
