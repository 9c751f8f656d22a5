//! `simdb bench`: inserts, queries, deletes and reopens generated documents, asserts the answers, and tells the times.

mod collection;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use simdb::{CreateOptions, Database, Document, Fingerprint, OpenOptions, Query, Scheme, Snapshot};

use super::output::{Output, complain};
use super::{Answer, Failure, Run};
use collection::{Collection, Spread};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// How many documents to insert
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    documents: u64,

    /// How the fingerprints are spread
    #[arg(long, value_enum, default_value_t)]
    data: Data,

    /// The share of documents that are near-duplicates of an earlier one
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    near_duplicates: f64,

    /// The distance at which queries match
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = super::max_distance_parser())]
    max_distance: u32,

    /// The tables, by name [default: those chosen for as many documents]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,

    /// How many documents a commit has
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,

    /// How many queries are timed
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    queries: u64,

    /// What to measure, in this order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PHASES",
          default_values_t = [Phase::Insert, Phase::Commit, Phase::Query, Phase::Batch, Phase::Delete, Phase::Compact, Phase::Query, Phase::Reopen])]
    phases: Vec<Phase>,

    /// The memory for what is read of the file (bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    cache: usize,

    /// Where the database is made, and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Other seeds give other documents
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Data {
    /// Every fingerprint is as likely as any other
    #[default]
    Uniform,
    /// Some prefixes are more frequent than others, as with real pages
    Skewed,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    /// Build the database from all documents at once; before any other phase
    Build,
    /// Insert all documents, in durable commits
    Insert,
    /// Insert a thousand more, each in a commit of its own
    Commit,
    /// Ask one query after the other
    Query,
    /// Ask all queries at once
    Batch,
    /// Delete a tenth of the documents, in durable commits
    Delete,
    /// Put another document in the place of each, with another fingerprint, in durable commits
    Replace,
    /// Pause until no merge is due
    Settle,
    /// Put a dense copy in the place of the database
    Compact,
    /// Close the database and open it again
    Reopen,
}

/// What is under test, as far as it has come.
struct Bench<'a> {
    arguments: &'a Arguments,
    collection: Collection,
    database: Database,
    /// The documents are those below this number; of these, after the deletion, every tenth is gone.
    inserted: u64,
    deleted: bool,
    /// How many times all documents were replaced.
    replaced: u64,
}

/// Every document whose number leaves this remainder by ten is deleted.
const DELETED: u64 = 3;

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Run {
    let folder = tempfile::Builder::new().prefix("simdb-bench-").tempdir_in(&arguments.directory)?;
    let path = folder.path().join("bench.simdb");
    let options = arguments.create_options();
    let mut bench = Bench {
        arguments,
        collection: arguments.collection(0),
        database: Database::create(&path, &options)?,
        inserted: 0,
        deleted: false,
        replaced: 0,
    };
    for &phase in &arguments.phases {
        let name = phase.to_possible_value().map_or_else(String::new, |it| it.get_name().to_owned());
        let mut row = Map::new();
        row.insert("phase".to_owned(), name.into());
        let begun = Instant::now();
        bench = bench.measure(phase, &path, &mut row)?;
        row.insert("seconds_in_all".to_owned(), rounded(begun.elapsed().as_secs_f64()));
        bench.add_sizes(&mut row)?;
        print(output, &row);
        output.flush()?;
    }
    Ok(Answer::Yes)
}

/// A phase as an object, or as a line of its numbers.
fn print(output: &mut Output, row: &Map<String, Value>) {
    let line = || {
        let fields = row.iter().filter(|(name, _)| *name != "phase");
        let fields = fields.map(|(name, value)| format!("{name} {value}"));
        format!("{}: {}", row["phase"].as_str().unwrap_or(""), fields.collect::<Vec<_>>().join(", "))
    };
    output.print(|| Value::Object(row.clone()), line);
}

impl Arguments {
    fn create_options(&self) -> CreateOptions {
        let options = CreateOptions::new()
            .scheme(Scheme::External)
            .max_distance(self.max_distance)
            .expected_documents(self.documents)
            .cache_bytes(self.cache);
        match &self.plan {
            Some(plan) => options.plan(plan),
            None => options,
        }
    }

    /// The documents after so many replacements.
    fn collection(&self, replaced: u64) -> Collection {
        let spread = match self.data {
            Data::Uniform => Spread::Uniform,
            Data::Skewed => Spread::Skewed,
        };
        Collection::new(spread, self.near_duplicates, self.seed.wrapping_add(replaced << 32))
    }
}

impl Bench<'_> {
    fn measure(mut self, phase: Phase, path: &Path, row: &mut Map<String, Value>) -> Result<Self, Failure> {
        match phase {
            Phase::Build => {
                let Self { arguments, collection, database, .. } = self;
                drop(database);
                std::fs::remove_file(path)?;
                let documents = (0..arguments.documents).map(|number| {
                    let document = Document::new(key(number), collection.fingerprint(number));
                    Ok(document.with_seen(1_700_000_000))
                });
                let options = arguments.create_options();
                let begun = Instant::now();
                let database = Database::build(path, &options, documents, arguments.cache)?;
                let seconds = begun.elapsed().as_secs_f64();
                row.insert("seconds".to_owned(), rounded(seconds));
                row.insert("per_second".to_owned(), rounded(arguments.documents as f64 / seconds));
                let inserted = arguments.documents;
                self = Self { arguments, collection, database, inserted, deleted: false, replaced: 0 };
            }
            Phase::Insert => self.insert(self.arguments.documents, self.arguments.batch, row)?,
            Phase::Commit => self.insert(1000, 1, row)?,
            Phase::Replace => self.replace(row)?,
            Phase::Query => self.query(row)?,
            Phase::Batch => self.batch(row)?,
            Phase::Delete => self.delete(row)?,
            Phase::Settle => {
                self.database.settle()?;
                // Merges that wait for a pause begin after a second without commits.
                std::thread::sleep(Duration::from_secs(2));
                self.database.settle()?;
            }
            Phase::Compact => {
                let begun = Instant::now();
                self.database.compact(|_, _| {})?;
                row.insert("seconds".to_owned(), rounded(begun.elapsed().as_secs_f64()));
            }
            Phase::Reopen => {
                let Self { arguments, collection, database, inserted, deleted, replaced } = self;
                let begun = Instant::now();
                drop(database);
                row.insert("close_seconds".to_owned(), rounded(begun.elapsed().as_secs_f64()));
                let begun = Instant::now();
                let database = Database::open(path, &OpenOptions::new().cache_bytes(arguments.cache))?;
                row.insert("open_seconds".to_owned(), rounded(begun.elapsed().as_secs_f64()));
                self = Self { arguments, collection, database, inserted, deleted, replaced };
            }
        }
        Ok(self)
    }

    fn insert(&mut self, documents: u64, batch: u64, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let end = self.inserted + documents;
        self.put(self.inserted..end, batch, row)?;
        self.inserted = end;
        self.assert_stored()
    }

    fn replace(&mut self, row: &mut Map<String, Value>) -> Result<(), Failure> {
        self.replaced += 1;
        self.collection = self.arguments.collection(self.replaced);
        self.put(0..self.inserted, self.arguments.batch, row)?;
        self.deleted = false;
        self.assert_stored()
    }

    /// Inserts documents, so many a commit; those that are there already are replaced.
    fn put(&self, numbers: Range<u64>, batch: u64, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let documents = numbers.end - numbers.start;
        let mut commits = Vec::new();
        let begun = Instant::now();
        let mut told = begun;
        let mut next = numbers.start;
        while next < numbers.end {
            let mut txn = self.database.begin_write()?;
            let end = numbers.end.min(next + batch);
            for number in next..end {
                let document = Document::new(key(number), self.collection.fingerprint(number));
                let replaced = txn.insert(&document.with_seen(1_700_000_000))?;
                if replaced.is_some() != self.is_live(number) {
                    return Err(format!("the key of document {number} was there, or was not").into());
                }
            }
            let committing = Instant::now();
            txn.commit()?;
            commits.push(committing.elapsed());
            next = end;
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                let put = next - numbers.start;
                let rate = put as f64 / begun.elapsed().as_secs_f64();
                complain(&format!("{put} documents inserted, {rate:.0} per second"));
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        row.insert("documents".to_owned(), documents.into());
        row.insert("seconds".to_owned(), rounded(seconds));
        row.insert("per_second".to_owned(), rounded(documents as f64 / seconds));
        add_times(row, "commit", commits, 1e3, "ms");
        Ok(())
    }

    fn assert_stored(&self) -> Result<(), Failure> {
        let stored = self.database.snapshot()?.stats()?.documents;
        if stored == self.live() { Ok(()) } else { Err(format!("{stored} documents are stored").into()) }
    }

    fn live(&self) -> u64 {
        let gone = |below: u64| below / 10 + u64::from(below % 10 > DELETED);
        self.inserted - if self.deleted { gone(self.arguments.documents.min(self.inserted)) } else { 0 }
    }

    fn is_live(&self, number: u64) -> bool {
        number < self.inserted
            && !(self.deleted && number % 10 == DELETED && number < self.arguments.documents)
    }

    /// Half of the queries are near a stored document, the others anywhere.
    fn queries(&self) -> Vec<(Query, Option<u64>)> {
        let query = |number: u64| {
            let (fingerprint, near) = self.collection.query(number, self.inserted);
            let near = near.filter(|&near| {
                let distance = self.collection.fingerprint(near).distance(fingerprint);
                self.is_live(near) && distance <= self.arguments.max_distance
            });
            let query = Query::new(fingerprint).max_distance(self.arguments.max_distance).limit(usize::MAX);
            (query, near)
        };
        (0..self.arguments.queries).map(query).collect()
    }

    fn query(&self, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let queries = self.queries();
        let snapshot = self.database.snapshot()?;
        self.assert_answers(&snapshot, &queries)?;
        let mut times = Vec::with_capacity(queries.len());
        let mut matches = 0;
        for (query, _) in &queries {
            let query = query.clone().limit(0);
            let begun = Instant::now();
            matches += snapshot.query(&query)?.total();
            times.push(begun.elapsed());
        }
        row.insert("queries".to_owned(), queries.len().into());
        row.insert("matches".to_owned(), matches.into());
        add_times(row, "query", times, 1e6, "us");
        Ok(())
    }

    /// That planted matches are found; and for a few queries, that a scan of the whole collection finds the same.
    fn assert_answers(&self, snapshot: &Snapshot, queries: &[(Query, Option<u64>)]) -> Result<(), Failure> {
        for (query, near) in queries {
            let found = snapshot.query(query)?;
            let is_found = |near: u64| found.iter().any(|it| it.document.key() == key(near));
            if near.is_some_and(|near| !is_found(near)) {
                return Err(format!("a match of {} was missed", query.fingerprint()).into());
            }
        }
        let sample: Vec<Fingerprint> =
            queries.iter().take(16).map(|(query, _)| query.fingerprint()).collect();
        let mut totals = vec![0; sample.len()];
        for number in (0..self.inserted).filter(|&number| self.is_live(number)) {
            let fingerprint = self.collection.fingerprint(number);
            for (total, query) in totals.iter_mut().zip(&sample) {
                *total += u64::from(fingerprint.distance(*query) <= self.arguments.max_distance);
            }
        }
        for ((query, _), total) in queries.iter().zip(totals) {
            let found = snapshot.query(&query.clone().limit(0))?.total();
            if found != total {
                return Err(format!("{}: {found} matches, by a scan {total}", query.fingerprint()).into());
            }
        }
        Ok(())
    }

    fn batch(&self, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let queries: Vec<Query> = self.queries().into_iter().map(|(query, _)| query.limit(0)).collect();
        let snapshot = self.database.snapshot()?;
        let begun = Instant::now();
        let matches: u64 = snapshot.query_batch(&queries)?.iter().map(simdb::Matches::total).sum();
        let seconds = begun.elapsed().as_secs_f64();
        row.insert("queries".to_owned(), queries.len().into());
        row.insert("matches".to_owned(), matches.into());
        row.insert("us_per_query".to_owned(), rounded(seconds * 1e6 / queries.len().max(1) as f64));
        Ok(())
    }

    fn delete(&mut self, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let end = self.arguments.documents.min(self.inserted);
        let numbers: Vec<u64> = (0..end).filter(|number| number % 10 == DELETED).collect();
        let mut commits = Vec::new();
        let begun = Instant::now();
        for numbers in numbers.chunks(self.arguments.batch as usize) {
            let mut txn = self.database.begin_write()?;
            for &number in numbers {
                if txn.delete(key(number))?.is_none() {
                    return Err(format!("document {number} was not there").into());
                }
            }
            let committing = Instant::now();
            txn.commit()?;
            commits.push(committing.elapsed());
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.deleted = true;
        row.insert("documents".to_owned(), numbers.len().into());
        row.insert("per_second".to_owned(), rounded(numbers.len() as f64 / seconds));
        add_times(row, "commit", commits, 1e3, "ms");
        self.assert_stored()
    }

    fn add_sizes(&self, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let stats = self.database.snapshot()?.stats()?;
        row.insert("file_bytes".to_owned(), stats.file_bytes.into());
        row.insert("allocated_bytes".to_owned(), stats.allocated_bytes.into());
        if let Some(memory) = memory_bytes() {
            row.insert("memory_bytes".to_owned(), memory.into());
        }
        Ok(())
    }
}

/// Median, 99th percentile and longest of some times.
fn add_times(
    row: &mut Map<String, Value>,
    what: &str,
    mut times: Vec<Duration>,
    per_second: f64,
    unit: &str,
) {
    times.sort_unstable();
    let at =
        |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    for (name, share) in [("median", 0.5), ("p99", 0.99), ("longest", 1.0)] {
        let time = at(share).copied().unwrap_or_default().as_secs_f64() * per_second;
        row.insert(format!("{what}_{name}_{unit}"), rounded(time));
    }
}

/// Three digits after the point are more than such a measurement is good for.
fn rounded(number: f64) -> Value {
    json!((number * 1000.0).round() / 1000.0)
}

/// The key of a document: its number, in eight bytes.
fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// How much memory the process has in use, where the system tells.
fn memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
