//! The arguments of `simdb bench`, and what is derived from them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum, value_parser};
use simdb::{Cache, CreateOptions, Scheme, SketchSize};

use crate::Failure;
use crate::collection::{Collection, Spread, mixed};

/// Measure inserts, queries and deletes of generated documents on this machine.
#[derive(Parser)]
#[command(name = "bench", max_term_width = 100)]
pub(crate) struct Arguments {
    /// How many documents to insert
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = positive_count)]
    pub(crate) documents: u64,

    /// How the fingerprints are spread
    #[arg(long, value_enum, default_value_t)]
    data: Data,

    /// The share of documents that are near-duplicates of an earlier one
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    near_duplicates: f64,

    /// How many documents the near-duplicates are made from [default: any that came before]
    #[arg(long, value_name = "N", value_parser = positive_count)]
    originals: Option<u64>,

    /// Take each block of 16 bits from one of these fingerprints at random, instead of --data: 8 bytes each,
    /// little-endian
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    blocks_of: Option<PathBuf>,

    /// The distance the database is made for
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = value_parser!(u32).range(0..=64))]
    pub(crate) max_distance: u32,

    /// The bytes of the sketches of the documents
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = sketch_size)]
    sketch: SketchSize,

    /// The least similarity that is asked for, if there are sketches. Half of the near-duplicates have 0.7
    /// [default: 0.7]
    #[arg(long, value_name = "S", value_parser = share)]
    pub(crate) min_similarity: Option<f64>,

    /// The distances that are asked for, one after the other [default: that of the database]
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = value_parser!(u32).range(0..=64))]
    pub(crate) query_distance: Vec<u32>,

    /// The tables, by name [default: those chosen for as many documents]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,

    /// How many more documents the phase link inserts [default: as many as --documents]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) more: Option<u64>,

    /// How many scopes the documents have, at random [default: none]
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub(crate) scopes: Option<u64>,

    /// How many of the scopes a query is limited to [default: no limit]
    #[arg(long, value_name = "N", requires = "scopes", value_parser = positive_count)]
    pub(crate) query_scopes: Option<u64>,

    /// How many documents a commit has
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive_count)]
    pub(crate) batch: u64,

    /// How many documents the phase link gives to each call [default: all of a commit]
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub(crate) together: Option<u64>,

    /// How many queries are timed; fewer where they take more than 20 seconds
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive_count)]
    pub(crate) queries: u64,

    /// How many documents a second are submitted in the phase writer [default: as many as it takes]
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub(crate) rate: Option<u64>,

    /// How many threads ask in the phases query, list, any and nearest, or submit in the phase writer, or how many
    /// processes in the phase clients; each of these numbers in turn
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values_t = [1],
        value_parser = positive_count
    )]
    pub(crate) threads: Vec<u64>,

    /// The answers that each thread of the phase writer, or each client of the phase clients, may have outstanding;
    /// with 1 it waits for each
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = positive_count)]
    pub(crate) outstanding: u64,

    /// This process is a client of the phase clients, for the database at this path
    #[arg(long, value_name = "PATH", hide = true)]
    pub(crate) client_of: Option<PathBuf>,

    /// The first document of this client, the first of the next one, and how many were there before the phase
    #[arg(long, value_name = "N", value_delimiter = ',', hide = true)]
    pub(crate) numbers: Vec<u64>,

    /// How often the phase window replaces all documents [default: 100]
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub(crate) turnovers: Option<u64>,

    /// What to measure, in this order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PHASES", default_values_t = PHASES)]
    pub(crate) phases: Vec<Phase>,

    /// The most memory for what is read of the file, such as 2GB, or a share of the memory, such as 50%
    /// [default: 25%, that of the library]
    #[arg(long, value_name = "BYTES", value_parser = cache)]
    cache: Option<Cache>,

    /// Where the database is made, and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,

    /// Other seeds give other documents
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
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
pub(crate) enum Phase {
    /// Build the database from all documents at once; before any other phase
    Build,
    /// Insert all documents, in durable commits
    Insert,
    /// Insert all documents, or as many again, in durable commits, each compared with all before
    Link,
    /// Insert as `link` does, but many threads submit the documents to one writer and get durable answers
    Writer,
    /// Insert as `writer` does, but by processes of their own, to which this one serves the database (Unix only)
    Clients,
    /// Insert a thousand more, each in a commit of its own
    Commit,
    /// Ask one query after the other for the number of its matches
    Query,
    /// Ask for the ten nearest documents
    List,
    /// Ask whether there is any match
    Any,
    /// Ask for the ten nearest documents, whatever their distance
    Nearest,
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
    /// Remove the older half of all documents while another thread writes
    Expire,
    /// Fill a file, let a window of as many documents move over a stream, and compare the end with the
    /// beginning; as the only phase
    Window,
    /// Pause until no merge is due
    Settle,
    /// Put a dense copy in the place of the database
    Compact,
    /// Put into memory what queries read
    Warm,
    /// Close the database and open it again
    Reopen,
}

impl Phase {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

use Phase::{
    Any, Batch, Beside, Build, Clients, Cold, Commit, Compact, Delete, Expire, Insert, Link, List,
    Nearest, Query, Reopen, Replace, Window, Writer,
};

/// The phases that are measured if none are named.
const PHASES: [Phase; 8] = [Insert, Commit, Query, Batch, Delete, Compact, Query, Reopen];

/// Parses a number of documents or bytes: `5000`, `10k`, `2.5M`, `1e8`.
fn count(text: &str) -> Result<u64, String> {
    let number = text.replace('_', "");
    let number = number
        .replace('k', "e3")
        .replace('M', "e6")
        .replace('G', "e9");
    match number.parse::<f64>() {
        Ok(number) if (0.0..=1e15).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
        _ => Err("it must be a whole number, such as 5000, 10k, 100M or 1e8".to_owned()),
    }
}

/// Parses a number of at least 1.
fn positive_count(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("it must be at least 1".to_owned()),
        number => Ok(number),
    }
}

/// Parses the limit of a cache: bytes, or a share.
fn cache(text: &str) -> Result<Cache, String> {
    if let Some(percent) = text.strip_suffix('%') {
        return match percent.parse() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Cache::Share(percent / 100.0)),
            _ => Err("it must be a share from 0% to 100%".to_owned()),
        };
    }
    count(text.trim_end_matches('B')).map(|bytes| Cache::Bytes(bytes as usize))
}

/// Parses a share.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("it must be a share from 0 to 1, for example 0.1".to_owned()),
    }
}

/// Parses the bytes of a sketch.
fn sketch_size(text: &str) -> Result<SketchSize, String> {
    match text {
        "0" => Ok(SketchSize::None),
        "16" => Ok(SketchSize::Bytes16),
        "32" => Ok(SketchSize::Bytes32),
        _ => Err("it must be 0, 16 or 32".to_owned()),
    }
}

/// The name of a scope.
pub(crate) fn scope_name(number: u64) -> String {
    format!("scope {number}")
}

impl Arguments {
    /// How often the phase `window` replaces all documents.
    pub(crate) fn turnovers(&self) -> u64 {
        self.turnovers.unwrap_or(100)
    }

    pub(crate) fn has_sketches(&self) -> bool {
        self.sketch != SketchSize::None
    }

    /// The number of documents that the phase `link` gives to each call.
    pub(crate) fn together(&self) -> usize {
        self.together.unwrap_or(self.batch) as usize
    }

    /// The scopes that queries are limited to. `None` if they are not limited.
    pub(crate) fn asked_scopes(&self) -> Option<impl Iterator<Item = String>> {
        self.query_scopes.map(|scopes| (0..scopes).map(scope_name))
    }

    /// The number of the scope of a document, if documents have scopes.
    pub(crate) fn scope_of(&self, document: u64) -> Option<u64> {
        self.scopes.map(|scopes| mixed(document) % scopes)
    }

    /// Whether a query may find a document, as far as its scope says.
    pub(crate) fn is_asked_for(&self, document: u64) -> bool {
        self.query_scopes
            .is_none_or(|scopes| self.scope_of(document).is_some_and(|scope| scope < scopes))
    }

    /// The number of documents that the phase `link` inserts.
    pub(crate) fn more(&self) -> u64 {
        self.more.unwrap_or(self.documents)
    }

    pub(crate) fn cache(&self) -> Cache {
        self.cache.unwrap_or_default()
    }

    /// The memory to sort in when a database is built: that of the cache, if it is given in bytes.
    pub(crate) fn sorting_bytes(&self) -> usize {
        match self.cache {
            Some(Cache::Bytes(bytes)) => bytes,
            _ => 1 << 30,
        }
    }

    /// The least similarity that is asked for. `None` without sketches.
    pub(crate) fn min_similarity(&self) -> Option<f64> {
        self.has_sketches()
            .then(|| self.min_similarity.unwrap_or(0.7))
    }

    pub(crate) fn create_options(&self) -> CreateOptions {
        let options = CreateOptions::new()
            .scheme(Scheme::External)
            .max_distance(self.max_distance)
            .expected_documents(self.documents)
            .sketch_size(self.sketch)
            .min_similarity(self.min_similarity().unwrap_or(0.0))
            .cache(self.cache());
        match &self.plan {
            Some(plan) => options.plan(plan),
            None => options,
        }
    }

    /// The max distances and numbers of threads with which a phase is measured. A phase without queries is
    /// measured once.
    pub(crate) fn questions(&self, phase: Phase) -> Vec<(u32, u64)> {
        let asks = matches!(phase, Query | List | Any | Batch | Beside | Cold);
        let distances = match &self.query_distance[..] {
            given @ [_, ..] if asks => given,
            _ => &[self.max_distance],
        };
        let threads = if matches!(phase, Query | List | Any | Nearest | Writer | Clients) {
            &self.threads[..]
        } else {
            &[1]
        };
        distances
            .iter()
            .flat_map(|&distance| threads.iter().map(move |&threads| (distance, threads)))
            .collect()
    }

    /// The documents after they were all replaced `replaced` times.
    pub(crate) fn collection(&self, replaced: u64) -> Result<Collection, Failure> {
        let spread = match (&self.blocks_of, self.data) {
            (Some(path), _) => Spread::BlocksOf(fingerprints_of(path)?),
            (None, Data::Uniform) => Spread::Uniform,
            (None, Data::Skewed) => Spread::Skewed,
        };
        let collection = Collection::new(
            spread,
            self.sketch,
            self.near_duplicates,
            self.seed.wrapping_add(replaced << 32),
        );
        Ok(collection.with_originals(self.originals))
    }
}

/// The fingerprints of a file of 8 bytes each.
fn fingerprints_of(path: &Path) -> Result<Vec<u64>, Failure> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let fingerprints: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| u64::from_le_bytes(bytes))
        .collect();
    if fingerprints.is_empty() {
        return Err(format!("{}: no fingerprints of 8 bytes", path.display()).into());
    }
    Ok(fingerprints)
}

const MOST_THREADS: u64 = 1024;

impl Arguments {
    /// Refuses phases and options that make no sense together.
    pub(crate) fn ensure_sense(&self) -> Result<(), String> {
        ensure_order(&self.phases)?;
        let has = |wanted: &[Phase]| self.phases.iter().any(|phase| wanted.contains(phase));
        let asking = [Query, List, Any, Batch, Beside, Cold, Window, Nearest];
        for (is_given, option, wanted) in [
            (self.more.is_some(), "more", &[Link, Writer][..]),
            (self.together.is_some(), "together", &[Link]),
            (self.rate.is_some(), "rate", &[Writer]),
            (self.turnovers.is_some(), "turnovers", &[Window]),
            (
                !self.query_distance.is_empty(),
                "query-distance",
                &asking[..6],
            ),
            (self.query_scopes.is_some(), "query-scopes", &asking),
        ] {
            if is_given && !has(wanted) {
                let names: Vec<String> = wanted.iter().map(|phase| phase.name()).collect();
                return Err(format!(
                    "--{option} is for the phases {}, and none of them is asked for",
                    names.join(", ")
                ));
            }
        }
        if self.query_scopes > self.scopes {
            return Err("--query-scopes cannot be more than --scopes".to_owned());
        }
        if self.min_similarity.is_some() && !self.has_sketches() {
            return Err("--min-similarity needs sketches: --sketch 16 or --sketch 32".to_owned());
        }
        if let Some(many) = self.threads.iter().find(|&&threads| threads > MOST_THREADS) {
            return Err(format!(
                "{many} threads are too many; the most are {MOST_THREADS}"
            ));
        }
        Ok(())
    }
}

/// Each phase finds what the earlier ones have left.
fn ensure_order(phases: &[Phase]) -> Result<(), String> {
    for (index, phase) in phases.iter().enumerate() {
        let before = &phases[..index];
        let was = |wanted: &[Phase]| before.iter().any(|phase| wanted.contains(phase));
        let name = phase.name();
        let refused = match phase {
            Build if index > 0 => "builds a file, so it is the first phase",
            Window if phases.len() > 1 => "fills a file of its own, so it is the only phase",
            Delete if was(&[Delete]) => "deletes the same documents each time, so it comes once",
            Delete | Replace if was(&[Expire]) => {
                "needs all documents, so it comes before `expire`"
            }
            Expire if was(&[Delete]) => "counts what it removes, so it cannot come after `delete`",
            Query | List | Any | Nearest | Batch | Beside | Cold | Delete | Replace | Expire
                if !was(&[Build, Insert, Link, Writer, Clients, Commit]) =>
            {
                "needs documents, so it comes after `insert`, `link`, `writer` or `build`"
            }
            _ => continue,
        };
        return Err(format!("the phase `{name}` {refused}"));
    }
    Ok(())
}
