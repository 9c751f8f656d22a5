//! `simdb stats`: what a database holds in words and units, and what to do if something is off. What only concerns
//! those who look after simdb itself is told if it is asked for. `simdb top`: the same again and again, of a database
//! that is in use.

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::escaping::printable;
use super::output::{Output, key_fields};
#[cfg(unix)]
use super::remote::Remote;
use super::times::local_zone;
use super::units::{self, cache, told_bytes, told_count, told_sketches};
use super::verbs::{self, LiveDatabase, Verb};
use crate::inspect::{FullestPrefixes, LargestGroups, Metrics, Statistics};
use crate::plural::counted;
use crate::{Cache, Database, Error, UnixSeconds};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The most memory for what is read of the file, such as 2GB, or a share of the memory, such as 50%
    /// [default: 25%]
    #[arg(long, value_name = "BYTES", value_parser = cache)]
    cache: Option<Cache>,

    /// Tell more: tables, levels, cache, commits
    #[arg(long, conflicts_with = "prometheus")]
    verbose: bool,

    /// Print the counters of the process that has the database open, as text for Prometheus
    #[arg(long)]
    prometheus: bool,
}

impl Verb for Arguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        // A client asks only a process that has the database open, so this is that process.
        let has_process = output.console().is_of_client();
        match self.cache {
            Some(_) if has_process => {
                output.complain(
                    "--cache is passed over: the cache is that of the process that has the database open",
                );
            }
            Some(cache) => database.set_cache(cache)?,
            None => {}
        }
        if !self.prometheus {
            return print(database, self.verbose, output);
        }
        if output.is_json() {
            return Err(
                "--prometheus prints text for Prometheus, so it cannot be used with --json".into(),
            );
        }
        if !has_process {
            let reason = "no process has it open to write, and --prometheus prints the counters of that process; \
                          `simdb stats` without it prints what the file holds";
            return Err(format!("{}: {reason}", self.database.path.display()).into());
        }
        output.print_text(&database.metrics().prometheus());
        Ok(Answer::Yes)
    }
}

/// Prints what there is, in words or as an object. An object always has all.
fn print(database: &Database, is_verbose: bool, output: &mut Output) -> CommandResult {
    let overview = Overview::new(database)?;
    if output.is_json() {
        output.print_json(&overview.object(output.console().is_of_client()));
    } else {
        overview.print_lines(is_verbose, output);
    }
    Ok(Answer::Yes)
}

const MOST_LISTED: usize = 3;
/// The postings that are read for the groups, at most. With more only the large groups are found.
const MOST_READ: u64 = 1 << 18;
/// A group of more documents than this is worth advice. Smaller ones are usual.
const MANY_OF_A_GROUP: u64 = 10_000;
/// More deletions than this are worth advice, if they are more than the documents.
const MANY_MARKS: u64 = 10_000;
/// A snapshot that is older than this, and keeps more bytes than those, is worth advice.
const OLD_PIN: Duration = Duration::from_secs(3600);
const MANY_PINNED_BYTES: u64 = 1 << 30;

/// A database as it is now: what it holds, and what its process has done with it.
struct Overview {
    stats: Statistics,
    metrics: Metrics,
    /// `None` if a block was damaged that had to be read for it.
    groups: Option<LargestGroups>,
    prefixes: Option<FullestPrefixes>,
}

impl Overview {
    fn new(database: &Database) -> Result<Self, Error> {
        let metrics = database.metrics();
        let snapshot = database.snapshot()?;
        Ok(Self {
            stats: snapshot.stats()?,
            metrics,
            groups: unless_damaged(snapshot.largest_groups(MOST_LISTED, MOST_READ))?,
            prefixes: unless_damaged(snapshot.fullest_prefixes(MOST_LISTED))?,
        })
    }

    /// The statistics, and what else is known of a database. If no process has it open, nothing is known of one.
    fn object(&self, has_process: bool) -> Value {
        let mut object = stats_object(&self.stats);
        for field in ["snapshots", "pinned_bytes", "oldest_pin_seconds"] {
            object[field] = Value::Null;
        }
        if has_process {
            object["snapshots"] = self.metrics.snapshots.into();
            object["pinned_bytes"] = self.metrics.pinned_bytes.into();
            let oldest = self.metrics.oldest_pin;
            object["oldest_pin_seconds"] = oldest.as_ref().map(Duration::as_secs_f64).into();
        }

        let mut groups = Vec::new();
        if let Some(largest) = &self.groups {
            for group in &largest.groups {
                let mut fields = key_fields(Some(&group.newest_key));
                let fingerprint = group.fingerprint.to_string();
                fields["fingerprint"] = fingerprint.into();
                fields["documents"] = group.documents.into();
                groups.push(fields);
            }
        }
        object["largest_groups"] = groups.into();

        let mut prefixes = Vec::new();
        if let Some(fullest) = &self.prefixes {
            for prefix in &fullest.prefixes {
                prefixes.push(json!({
                    "table": prefix.table,
                    "prefix_bits": prefix.prefix_bits,
                    "mask": format!("{:016x}", prefix.mask),
                    "bits": format!("{:016x}", prefix.bits),
                    "rows": prefix.rows,
                    "expected": prefix.expected,
                }));
            }
        }
        object["fullest_prefixes"] = prefixes.into();
        object["advice"] = self.advice().into();
        object
    }

    /// Prints a heading of up to 16 characters for each matter, and its lines.
    fn print_lines(&self, is_verbose: bool, output: &mut Output) {
        let mut matters = vec![
            ("documents", self.documents()),
            ("near means", self.near()),
            ("repeats", self.repeats()),
            ("file", vec![self.file()]),
            ("created", vec![time_text(self.stats.created)]),
            ("memory", vec![self.memory()]),
            ("since opened", self.activity(is_verbose)),
            ("snapshots", self.pinned()),
        ];
        if is_verbose {
            matters.extend([
                ("fingerprints", vec![self.fingerprints()]),
                ("tables", self.tables()),
                ("cache", vec![self.cache()]),
                (
                    "format",
                    vec![format!("version {}", self.stats.format_version)],
                ),
                ("crowded prefixes", self.prefixes()),
            ]);
        }
        matters.push(("advice", self.advice()));
        for (mut heading, lines) in matters {
            for line in lines {
                output.print_line(&format!("{heading:<18}{line}"));
                heading = "";
            }
        }
    }

    fn documents(&self) -> Vec<String> {
        let mut lines = vec![told_count(self.stats.documents)];
        let too_short = self.stats.too_short;
        if too_short > 0 {
            lines.push(format!(
                "{} of them too short to judge",
                told_count(too_short)
            ));
        }
        lines
    }

    fn near(&self) -> Vec<String> {
        let max_distance = self.stats.max_distance;
        let bits = counted(max_distance, "bit");
        let mut lines = vec![format!(
            "distance {max_distance} or less: two fingerprints differ in at most {bits} of 64"
        )];
        if let Some(least) = self.stats.min_similarity
            && least > 0.0
        {
            lines.push(format!(
                "and similarity {least} or more: 1 is the similarity of texts that are the same"
            ));
        }
        lines
    }

    /// How many documents have the fingerprint of another, and the largest groups of such.
    fn repeats(&self) -> Vec<String> {
        let judged = self.stats.documents.saturating_sub(self.stats.too_short);
        if judged == 0 {
            return Vec::new();
        }
        let mut lines = vec![match judged.saturating_sub(self.stats.fingerprints) {
            0 => "no document is known to have the fingerprint of another".to_owned(),
            repeats => format!(
                "about {} with the fingerprint of another document",
                counted(told_count(repeats), "document")
            ),
        }];
        for group in self.groups.iter().flat_map(|largest| &largest.groups) {
            if group.documents > 1 {
                lines.push(format!(
                    "{} have one fingerprint, the newest is {}",
                    counted(told_count(group.documents), "document"),
                    printable(&group.newest_key)
                ));
            }
        }
        lines
    }

    fn file(&self) -> String {
        let stats = &self.stats;
        let allocated = stats.allocated_bytes as f64;
        let mut size = told_bytes(stats.file_bytes as f64);
        if stats.allocated_bytes < stats.file_bytes / 10 * 9 {
            size += &format!(", {} of them on the disk", told_bytes(allocated));
        }
        if stats.documents > 0 {
            let each = allocated / stats.documents as f64;
            size += &format!(", {} a document", told_bytes(each));
        }
        size
    }

    /// Whether queries find the tables in memory.
    fn memory(&self) -> String {
        let limit = told_bytes(self.stats.cache_limit_bytes as f64);
        let need = told_bytes(self.stats.tables_need_bytes as f64);
        let enough = if self.stats.tables_fit {
            "enough"
        } else if self.signatures_fit() {
            "enough for half of the tables"
        } else {
            "too little"
        };
        format!("{enough}: queries need {need}, and the cache may take {limit}")
    }

    fn signatures_fit(&self) -> bool {
        self.stats.signatures_need_bytes <= self.stats.cache_limit_bytes
    }

    fn fingerprints(&self) -> String {
        let stats = &self.stats;
        let different = counted(told_count(stats.fingerprints), "different fingerprint");
        let sketches = told_sketches(stats.sketch_size);
        format!("about {different} of scheme {}, {sketches}", stats.scheme)
    }

    fn tables(&self) -> Vec<String> {
        let stats = &self.stats;
        let plan = &stats.plan;
        // The name of a plan is the number of its tables, `x`, and the bits of the shortest prefix.
        let mut lines = match plan.split_once('x') {
            Some((tables, bits)) => vec![format!(
                "{}, searched by their first {bits} bits or more (plan {plan})",
                counted(tables, "table")
            )],
            None => vec![format!("plan {plan}")],
        };
        lines.push(format!(
            "up to distance {}, a query reads one range of each table; beyond it, several",
            stats.probed_distance
        ));
        if stats.levels > 1 {
            lines.push(format!(
                "in up to {} levels, of which a query reads each until they are merged",
                stats.levels
            ));
        }
        if stats.marks > 0 {
            let deletions = counted(told_count(stats.marks), "row");
            lines.push(format!(
                "{deletions} that say deleted, until they are merged"
            ));
        }
        lines
    }

    fn cache(&self) -> String {
        let stats = &self.stats;
        format!(
            "{} used; {} would hold half of all tables, {} all of them, {} also the lists of documents (postings)",
            told_bytes(stats.cache_bytes as f64),
            told_bytes(stats.signatures_need_bytes as f64),
            told_bytes(stats.tables_need_bytes as f64),
            told_bytes(stats.queries_need_bytes as f64)
        )
    }

    /// What the process that has it open has done with it. Nothing of one that has only looked.
    fn activity(&self, is_verbose: bool) -> Vec<String> {
        let metrics = &self.metrics;
        let commits = metrics.commit_times.count();
        if commits == 0 && metrics.queries == 0 {
            return Vec::new();
        }

        let gone = metrics.documents_deleted + metrics.documents_expired;
        let seconds = metrics.open_for.as_secs_f64().max(1.0);
        let stored_a_second = told_count((metrics.documents_stored as f64 / seconds) as u64);
        let queries_a_second = told_count((metrics.queries as f64 / seconds) as u64);
        let mut lines = vec![
            format!(
                "{} stored, {} deleted or replaced, {}, in {}",
                counted(told_count(metrics.documents_stored), "document"),
                told_count(gone),
                counted(told_count(metrics.queries), "query"),
                span_text(metrics.open_for.as_secs() as i64)
            ),
            format!(
                "{} and {} a second",
                counted(stored_a_second, "document"),
                counted(queries_a_second, "query")
            ),
        ];
        if metrics.queue_length > 0 {
            lines.push(format!(
                "{} waiting to be stored",
                counted(told_count(metrics.queue_length), "document")
            ));
        }
        if !is_verbose {
            return lines;
        }
        if let Some(median) = metrics.commit_times.quantile(0.5) {
            lines.push(format!(
                "{}; half of the commits took at most {median:.1?}",
                counted(told_count(commits), "commit")
            ));
        }
        if metrics.waiting_changes > 0 {
            lines.push(format!(
                "{} waiting to be merged into the tables",
                counted(told_count(metrics.waiting_changes), "change")
            ));
        }
        lines
    }

    /// What others keep from being used again.
    fn pinned(&self) -> Vec<String> {
        let metrics = &self.metrics;
        if metrics.pinned_bytes == 0 {
            return Vec::new();
        }
        let oldest = match metrics.oldest_pin {
            Some(oldest) => format!(", the oldest for {}", span_text(oldest.as_secs() as i64)),
            None => String::new(),
        };
        let pinned = told_bytes(metrics.pinned_bytes as f64);
        let snapshots = counted(metrics.snapshots, "snapshot");
        vec![format!(
            "{snapshots} in use{oldest}: {pinned} of the file cannot be used again before that ends"
        )]
    }

    fn prefixes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for prefix in self.prefixes.iter().flat_map(|fullest| &fullest.prefixes) {
            if prefix.times_expected() >= 2.0 {
                lines.push(format!(
                    "table {}: the first {} are the same for {}, and would be for {:.1} if fingerprints were random",
                    prefix.table,
                    counted(prefix.prefix_bits, "bit"),
                    counted(told_count(prefix.rows), "fingerprint"),
                    prefix.expected
                ));
            }
        }
        // Prefixes of one table may be equally full.
        lines.dedup();
        lines
    }

    /// What is off, and what to do.
    fn advice(&self) -> Vec<String> {
        let stats = &self.stats;
        let mut advice = Vec::new();
        if self.groups.is_none() || self.prefixes.is_none() {
            advice.push("some of the file is damaged: `simdb check` tells what, `simdb salvage` takes out what is whole".to_owned());
        }
        let limit = told_bytes(stats.cache_limit_bytes as f64);
        let need = told_bytes(stats.tables_need_bytes as f64);
        if !stats.tables_fit && self.signatures_fit() {
            advice.push(format!(
                "half of the tables fits into the cache of {limit}, so queries that find something read the file: give \
                 the program that opens the database a cache of {need} or more"
            ));
        } else if !stats.tables_fit {
            advice.push(format!(
                "the tables do not fit into the cache of {limit}, so queries read the file and are slow: give the \
                 program that opens the database a cache of {need} or more, or of {} for half of the tables",
                told_bytes(stats.signatures_need_bytes as f64)
            ));
        }
        if stats.marks > MANY_MARKS && stats.marks > stats.documents {
            advice.push(
                "more was deleted than is stored: `simdb compact` makes the file smaller"
                    .to_owned(),
            );
        }
        let mut groups = self.groups.iter().flat_map(|largest| &largest.groups);
        if groups.any(|group| group.documents > MANY_OF_A_GROUP) {
            advice.push(
                "the largest groups are mostly pages without content of their own, such as errors: leave them out, since \
                 each query near them finds all of them"
                    .to_owned(),
            );
        }
        let oldest = self.metrics.oldest_pin.unwrap_or_default();
        if oldest.as_secs() > OLD_PIN.as_secs() && self.metrics.pinned_bytes > MANY_PINNED_BYTES {
            advice.push(
                "a snapshot has been in use for long, and the file grows until it ends".to_owned(),
            );
        }
        advice
    }
}

fn unless_damaged<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(Error::Damaged { .. } | Error::Corrupted(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// A time in the local zone, and how long ago that is.
fn time_text(seconds: i64) -> String {
    let Ok(time) = Timestamp::from_second(seconds) else {
        return format!("{seconds} (Unix seconds)");
    };
    let ago = match UnixSeconds::now().unchecked().saturating_sub(seconds) {
        ..0 => "in the future".to_owned(),
        ago => format!("{} ago", span_text(ago)),
    };
    let local = time.to_zoned(local_zone());
    format!("{} ({ago})", local.strftime("%Y-%m-%d %H:%M"))
}

/// A time span in its largest unit.
fn span_text(seconds: i64) -> String {
    let (length, unit) = match seconds {
        31_536_000.. => (31_536_000, "year"),
        2_592_000.. => (2_592_000, "month"),
        86_400.. => (86_400, "day"),
        3_600.. => (3_600, "hour"),
        60.. => (60, "minute"),
        _ => (1, "second"),
    };
    counted(seconds / length, unit)
}

/// The statistics, under the names they have in the library.
pub(super) fn stats_object(stats: &Statistics) -> Value {
    json!({
        "documents": stats.documents,
        "too_short": stats.too_short,
        "fingerprints": stats.fingerprints,
        "file_bytes": stats.file_bytes,
        "allocated_bytes": stats.allocated_bytes,
        "format_version": stats.format_version,
        "scheme": stats.scheme.name(),
        "plan": stats.plan,
        "max_distance": stats.max_distance,
        "sketch_bytes": stats.sketch_size.bytes(),
        "min_similarity": stats.min_similarity.unwrap_or_default(),
        "probed_distance": stats.probed_distance,
        "created": stats.created,
        "marks": stats.marks,
        "directory_bytes": stats.directory_bytes,
        "cache_limit_bytes": stats.cache_limit_bytes,
        "cache_bytes": stats.cache_bytes,
        "table_bytes": stats.table_bytes,
        "posting_bytes": stats.posting_bytes,
        "tables_need_bytes": stats.tables_need_bytes,
        "signatures_need_bytes": stats.signatures_need_bytes,
        "queries_need_bytes": stats.queries_need_bytes,
        "tables_fit": stats.tables_fit,
        "levels": stats.levels,
    })
}

#[derive(clap::Args)]
pub(super) struct TopArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Print every so many seconds, 0.1 or more
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    every: Duration,

    /// Tell more: tables, levels, cache, commits
    #[arg(long)]
    verbose: bool,

    /// How many times to print [default: until Ctrl-C, or until nobody has the database open]
    #[arg(long, short = 'n', value_name = "N", value_parser = units::positive_count::<u64>)]
    count: Option<u64>,
}

/// Parses a time: `1`, `0.5`, `60s`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds @ 0.1..=86_400.0) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be 0.1 to 86400 seconds".to_owned()),
    }
}

impl Verb for TopArguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        print(database, self.verbose, output)
    }

    fn run_alone(&self, output: &mut Output) -> Option<CommandResult> {
        Some(self.watch(output))
    }
}

impl TopArguments {
    /// Prints what `simdb stats` does, again and again, of a database in use.
    ///
    /// Asks the process that has the database open, until it closes it. A database that nobody has open is looked
    /// at once: to open it every second could keep others from opening it.
    fn watch(&self, output: &mut Output) -> CommandResult {
        let is_terminal = io::stdout().is_terminal() && !output.is_json();
        for round in 1.. {
            if !is_answered(&self.database)? {
                let answer = verbs::run(&self.database, self, output)?;
                output.remark("nobody has the database open, so nothing changes");
                return Ok(answer);
            }
            // To the first place of the screen, and all of it empty.
            let between = if is_terminal { "\x1b[H\x1b[2J" } else { "\n" };
            if is_terminal || (round > 1 && !output.is_json()) {
                match output.console().write(between.as_bytes()) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        return Ok(Answer::Yes);
                    }
                    written => written?,
                }
            }
            let answer = verbs::run(&self.database, self, output)?;
            output.flush()?;
            if output.is_closed() || self.count == Some(round) {
                return Ok(answer);
            }
            thread::sleep(self.every);
        }
        unreachable!("the rounds have no end")
    }
}

#[cfg(unix)]
fn is_answered(database: &LiveDatabase) -> Result<bool, Failure> {
    match database.path.exists() {
        true => Ok(Remote::connect(database)?.is_some()),
        // What there is to say is said where it is opened.
        false => Ok(false),
    }
}

/// On other systems, no process answers for another.
#[cfg(not(unix))]
fn is_answered(_database: &LiveDatabase) -> Result<bool, Failure> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_in_their_largest_unit() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (59, "59 seconds"),
            (7_300, "2 hours"),
            (86_400, "1 day"),
            (40 * 86_400, "1 month"),
        ] {
            assert_eq!(span_text(seconds), text);
        }
        assert!(time_text(0).contains("years ago"), "{}", time_text(0));
        assert!(time_text(i64::MAX).contains("Unix seconds"));
    }
}
