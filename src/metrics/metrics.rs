//! Metrics: what an open database does, as plain data, and as text for Prometheus: the exposition format, version
//! 0.0.4.

use std::fmt::{Display, Write};
use std::path::Path;
use std::time::Duration;

use super::meters::Histogram;
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

impl Metrics {
    /// The metrics as text that Prometheus reads: its exposition format, version 0.0.4.
    ///
    /// The names begin with `simdb_`. Counters end in `_total`, times are in seconds and sizes in bytes. Serve it with
    /// the content type `text/plain; version=0.0.4`.
    pub fn prometheus(&self) -> String {
        self.exposition(None)
    }

    /// As [`prometheus`](Self::prometheus), with the label `database` on every line. It tells several databases of one
    /// process apart.
    pub fn prometheus_of(&self, database: &Path) -> String {
        self.exposition(Some(database))
    }

    fn exposition(&self, database: Option<&Path>) -> String {
        let label =
            database.map(|path| format!("database=\"{}\"", escaped(&path.to_string_lossy())));
        let mut text = Exposition {
            text: String::new(),
            label,
        };
        self.add_all(&mut text);
        text.text
    }

    /// Adds all, a line each.
    #[rustfmt::skip]
    fn add_all(&self, text: &mut Exposition) {
        let oldest_pin = self.oldest_pin.unwrap_or_default().as_secs_f64();
        text.gauge("open_seconds", "Time since the database was opened.", self.open_for.as_secs_f64());
        text.gauge("documents", "Documents in the database.", self.documents);
        text.gauge("file_bytes", "Length of the file.", self.file_bytes);
        text.counter("documents_stored_total", "Documents stored by commits.", self.documents_stored);
        text.counter("documents_deleted_total", "Documents gone by commits, without expiry.", self.documents_deleted);
        text.counter("documents_expired_total", "Documents removed by expiry.", self.documents_expired);
        self.add_verdicts(text);
        text.counter("queries_total", "Queries, single and in batches.", self.queries);
        text.counter("query_matches_total", "Matches of queries.", self.query_matches);
        text.counter("candidates_total", "Fingerprints that probes met.", self.candidates);
        text.times("query_seconds", "Time of single queries, one in 64 of them.", &self.query_times);
        text.times("query_batch_seconds", "Time of query batches.", &self.query_batch_times);
        text.times("commit_seconds", "Time of commits.", &self.commit_times);
        text.counter("commits_failed_total", "Commits that returned an error.", self.failed_commits);
        text.counter("submissions_total", "Submissions to writers.", self.submissions);
        text.gauge("queue_length", "Submissions in the queues of writers.", self.queue_length);
        text.gauge("queue_bytes", "Memory of the submissions in queues.", self.queue_bytes);
        text.times("submission_seconds", "Time from submission to durability.", &self.submission_times);
        text.gauge("waiting_changes", "Changes that no merge has begun with.", self.waiting_changes);
        text.gauge("waiting_rows", "Rows in memory that are not in a level.", self.waiting_rows);
        text.times("merge_seconds", "Time of the steps of merges.", &self.merge_times);
        text.counter("merged_rows_total", "Rows written by merges.", self.merged_rows);
        text.counter("merged_bytes_total", "Bytes of blocks written by merges.", self.merged_bytes);
        text.counter("merges_failed_total", "Merge steps that failed.", self.failed_merges);
        text.times("compaction_seconds", "Time of compactions.", &self.compaction_times);
        text.counter("cache_hits_total", "Times that rows or documents were in the cache.", self.cache_hits);
        text.counter("cache_misses_total", "Times that a block was read since they were not.", self.cache_misses);
        text.gauge("cache_bytes", "Bytes that the cache takes.", self.cache_bytes);
        text.gauge("cache_limit_bytes", "Bytes that the cache may take.", self.cache_limit_bytes);
        text.counter("blocks_read_total", "Blocks read from the file.", self.blocks_read);
        text.counter("read_bytes_total", "Bytes of blocks read from the file.", self.bytes_read);
        text.gauge("snapshots", "Open snapshots.", self.snapshots);
        text.gauge("oldest_pin_seconds", "Age of the oldest commit that is read beside newer ones.", oldest_pin);
        text.gauge("pinned_bytes", "Space that old snapshots keep.", self.pinned_bytes);
    }

    fn add_verdicts(&self, text: &mut Exposition) {
        let verdicts = &self.verdicts;
        let name = "verdicts_total";
        text.head(
            name,
            "Verdicts by kind, with and without a match.",
            "counter",
        );
        for (kind, all, duplicates) in [
            ("inserted", verdicts.inserted, verdicts.inserted_duplicates),
            ("replaced", verdicts.replaced, verdicts.replaced_duplicates),
            ("skipped", verdicts.skipped, verdicts.skipped),
        ] {
            let kind = format!("kind=\"{kind}\"");
            let others = all.saturating_sub(duplicates);
            text.sample(name, &format!("{kind},matched=\"true\""), duplicates);
            text.sample(name, &format!("{kind},matched=\"false\""), others);
        }
        let name = "verdicts_by_distance_total";
        text.head(
            name,
            "Verdicts by the distance of the nearest listed match.",
            "counter",
        );
        for (distance, count) in verdicts.nearest.iter().enumerate() {
            text.sample(name, &format!("distance=\"{distance}\""), count);
        }
    }
}

/// A text in the exposition format.
struct Exposition {
    text: String,
    /// On every line.
    label: Option<String>,
}

impl Exposition {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.text += &format!("# HELP simdb_{name} {help}\n# TYPE simdb_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let labels = match self.label.as_deref() {
            None if labels.is_empty() => String::new(),
            None => format!("{{{labels}}}"),
            Some(own) if labels.is_empty() => format!("{{{own}}}"),
            Some(own) => format!("{{{own},{labels}}}"),
        };
        writeln!(self.text, "simdb_{name}{labels} {value}").expect("a string takes any text");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.sample(name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "gauge");
        self.sample(name, "", value);
    }

    fn times(&mut self, name: &str, help: &str, times: &Histogram) {
        self.head(name, help, "histogram");
        let mut count = 0;
        for (bound, of_bucket) in times.buckets() {
            count += of_bucket;
            let bound = bound.as_ref().map_or("+Inf".to_owned(), |bound| {
                Duration::as_secs_f64(bound).to_string()
            });
            self.sample(&format!("{name}_bucket"), &format!("le=\"{bound}\""), count);
        }
        self.sample(&format!("{name}_sum"), "", times.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), "", count);
    }
}

/// The value of a label as the format wants it. Other control characters would be allowed, but may harm a terminal.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped += "\\\\",
            '"' => escaped += "\\\"",
            '\n' => escaped += "\\n",
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}
