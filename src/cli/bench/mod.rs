//! `simdb bench`: inserts, queries, deletes and reopens generated documents, asserts the answers, and tells the times.

mod asking;
mod changing;
mod collection;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use simdb::{CreateOptions, Database, OpenOptions, Scheme};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::max_distance_parser;
use super::output::Output;
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

    /// The distance the database is made for
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = max_distance_parser())]
    max_distance: u32,

    /// The distances that are asked for, one after the other [default: that of the database]
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = max_distance_parser())]
    query_distance: Vec<u32>,

    /// The tables, by name [default: those chosen for as many documents]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,

    /// How many documents a commit has
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,

    /// How many queries are timed; fewer where they take more than 20 seconds
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    queries: u64,

    /// How many threads ask in the phases query, list and any; each of these numbers in turn
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1], value_parser = clap::value_parser!(u64).range(1..))]
    threads: Vec<u64>,

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
    /// Insert all documents, or as many again, in durable commits, each compared with all before
    Link,
    /// Insert a thousand more, each in a commit of its own
    Commit,
    /// Ask one query after the other for the number of its matches
    Query,
    /// Ask for the ten nearest documents
    List,
    /// Ask whether there is any match
    Any,
    /// Ask all queries at once, for the number of their matches, on all cores
    Batch,
    /// Ask as `query` does while another thread inserts documents in durable commits
    Beside,
    /// Ask as `query` does just after opening, when nothing of the file is in memory (Linux only)
    Cold,
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
    /// Where the database is.
    path: PathBuf,
    /// Closed now and then.
    database: Option<Database>,
    /// The documents are those below this number; of these, after the deletion, every tenth is gone.
    inserted: u64,
    deleted: bool,
    /// How many times all documents were replaced.
    replaced: u64,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let folder = tempfile::Builder::new().prefix("simdb-bench-").tempdir_in(&arguments.directory)?;
    let path = folder.path().join("bench.simdb");
    let options = arguments.create_options();
    let mut bench = Bench {
        arguments,
        collection: arguments.collection(0),
        database: Some(Database::create(&path, &options)?),
        path,
        inserted: 0,
        deleted: false,
        replaced: 0,
    };
    for &phase in &arguments.phases {
        let name = phase.to_possible_value().map_or_else(String::new, |it| it.get_name().to_owned());
        for (distance, threads) in arguments.questions(phase) {
            let mut row = Map::new();
            row.insert("phase".to_owned(), name.as_str().into());
            let begun = Instant::now();
            bench.measure(phase, distance, threads, &mut row)?;
            row.insert("seconds_in_all".to_owned(), rounded(begun.elapsed().as_secs_f64()));
            bench.add_sizes(&mut row)?;
            print(output, &row);
            output.flush()?;
        }
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

    /// The distances at which a phase asks, and with how many threads; once where it does not ask.
    fn questions(&self, phase: Phase) -> Vec<(u32, u64)> {
        use Phase::{Any, Batch, Beside, Cold, List, Query};
        let asks = matches!(phase, Query | List | Any | Batch | Beside | Cold);
        let distances = match &self.query_distance[..] {
            given @ [_, ..] if asks => given,
            _ => &[self.max_distance],
        };
        let threads = if matches!(phase, Query | List | Any) { &self.threads[..] } else { &[1] };
        distances
            .iter()
            .flat_map(|&distance| threads.iter().map(move |&threads| (distance, threads)))
            .collect()
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
    fn measure(
        &mut self,
        phase: Phase,
        distance: u32,
        threads: u64,
        row: &mut Map<String, Value>,
    ) -> Result<(), Failure> {
        match phase {
            Phase::Build => self.build(row)?,
            Phase::Insert => self.insert(self.arguments.documents, self.arguments.batch, row)?,
            Phase::Link => self.link(row)?,
            Phase::Commit => self.insert(1000, 1, row)?,
            Phase::Replace => self.replace(row)?,
            Phase::Query => self.query(distance, threads, row)?,
            Phase::List => self.list(distance, threads, row)?,
            Phase::Any => self.any(distance, threads, row)?,
            Phase::Batch => self.batch(distance, row)?,
            Phase::Beside => self.beside(distance, row)?,
            Phase::Cold => self.cold(distance, row)?,
            Phase::Delete => self.delete(row)?,
            Phase::Settle => {
                self.database()?.settle()?;
                // Merges that wait for a pause begin after a second without commits.
                std::thread::sleep(Duration::from_secs(2));
                self.database()?.settle()?;
            }
            Phase::Compact => {
                let begun = Instant::now();
                self.database()?.compact(|_, _| {})?;
                row.insert("seconds".to_owned(), rounded(begun.elapsed().as_secs_f64()));
            }
            Phase::Reopen => {
                let begun = Instant::now();
                self.database = None;
                row.insert("close_seconds".to_owned(), rounded(begun.elapsed().as_secs_f64()));
                let begun = Instant::now();
                self.open()?;
                row.insert("open_seconds".to_owned(), rounded(begun.elapsed().as_secs_f64()));
            }
        }
        Ok(())
    }

    fn database(&self) -> Result<&Database, Failure> {
        self.database.as_ref().ok_or_else(|| "the database is closed".into())
    }

    fn open(&mut self) -> Result<(), Failure> {
        let options = OpenOptions::new().cache_bytes(self.arguments.cache);
        self.database = Some(Database::open(&self.path, &options)?);
        Ok(())
    }

    fn add_sizes(&self, row: &mut Map<String, Value>) -> Result<(), Failure> {
        let stats = self.database()?.snapshot()?.stats()?;
        row.insert("file_bytes".to_owned(), stats.file_bytes.into());
        row.insert("allocated_bytes".to_owned(), stats.allocated_bytes.into());
        row.insert("directory_bytes".to_owned(), stats.directory_bytes.into());
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
