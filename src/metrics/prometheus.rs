//! Metrics as text for Prometheus: the exposition format, version 0.0.4.

use std::fmt::{Display, Write};
use std::path::Path;
use std::time::Duration;

use super::histogram::Histogram;
use super::metrics::Metrics;

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
