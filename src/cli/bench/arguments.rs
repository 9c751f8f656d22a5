//! The arguments of `simdb bench`, and what is derived from them.

use std::num::NonZeroU64;
use std::path::PathBuf;

use crate::{Cache, CreateOptions, Scheme, SketchSize};
use clap::ValueEnum;

use super::collection::{Collection, Spread, mixed};
use crate::cli::arguments::{SketchBytes, max_distance_parser, similarity_parser};
use crate::cli::units::{cache, count, positive_count};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// How many documents to insert
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = positive_count::<u64>)]
    pub(super) documents: u64,

    /// How the fingerprints are spread
    #[arg(long, value_enum, default_value_t)]
    data: Data,

    /// The share of documents that are near-duplicates of an earlier one
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    near_duplicates: f64,

    /// The distance the database is made for
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = max_distance_parser())]
    pub(super) max_distance: u32,

    /// The bytes of the sketches of the documents
    #[arg(long, value_name = "BYTES", value_enum, default_value = "0")]
    sketch: SketchBytes,

    /// The least similarity that is asked for, if there are sketches. Half of the near-duplicates have 0.7
    /// [default: 0.7]
    #[arg(long, value_name = "S", value_parser = similarity_parser)]
    pub(super) min_similarity: Option<f64>,

    /// The distances that are asked for, one after the other [default: that of the database]
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = max_distance_parser())]
    pub(super) query_distance: Vec<u32>,

    /// The tables, by name [default: those chosen for as many documents]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,

    /// How many more documents the phase link inserts [default: as many as --documents]
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    pub(super) more: Option<u64>,

    /// How many scopes the documents have, at random [default: none]
    #[arg(long, value_name = "N", value_parser = positive_count::<u64>)]
    pub(super) scopes: Option<u64>,

    /// How many of the scopes a query is limited to [default: no limit]
    #[arg(long, value_name = "N", requires = "scopes", value_parser = positive_count::<u64>)]
    pub(super) query_scopes: Option<u64>,

    /// How many documents a commit has
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive_count::<u64>)]
    pub(super) batch: u64,

    /// How many documents the phase link gives to each call [default: all of a commit]
    #[arg(long, value_name = "N", value_parser = positive_count::<u64>)]
    pub(super) together: Option<u64>,

    /// How many queries are timed; fewer where they take more than 20 seconds
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive_count::<u64>)]
    pub(super) queries: u64,

    /// How many documents a second are submitted in the phase writer [default: as many as it takes]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(super) rate: Option<NonZeroU64>,

    /// How many threads ask in the phases query, list and any, or submit in the phase writer; each of these
    /// numbers in turn
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values_t = [1],
        value_parser = positive_count::<u64>
    )]
    pub(super) threads: Vec<u64>,

    /// How often the phase window replaces all documents [default: 100]
    #[arg(long, value_name = "N", value_parser = positive_count::<u64>)]
    pub(super) turnovers: Option<u64>,

    /// What to measure, in this order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PHASES", default_values_t = PHASES)]
    pub(super) phases: Vec<Phase>,

    /// The most memory for what is read of the file, such as 2GB, or a share of the memory, such as 50%
    /// [default: 25%, that of the library]
    #[arg(long, value_name = "BYTES", value_parser = cache)]
    cache: Option<Cache>,

    /// Where the database is made, and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) directory: PathBuf,

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
pub(super) enum Phase {
    /// Build the database from all documents at once; before any other phase
    Build,
    /// Insert all documents, in durable commits
    Insert,
    /// Insert all documents, or as many again, in durable commits, each compared with all before
    Link,
    /// Insert as `link` does, but many threads submit the documents to one writer and get durable answers
    Writer,
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
    /// Remove the older half of all documents while another thread writes
    Expire,
    /// Fill a file, let a window of as many documents move over a stream, and compare the end with the
    /// beginning; as the only phase
    Window,
    /// Pause until no merge is due
    Settle,
    /// Put a dense copy in the place of the database
    Compact,
    /// Close the database and open it again
    Reopen,
}

impl Phase {
    /// As it is written on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |it| it.get_name().to_owned())
    }
}

/// The phases that are measured if none are named.
const PHASES: [Phase; 8] = [
    Phase::Insert,
    Phase::Commit,
    Phase::Query,
    Phase::Batch,
    Phase::Delete,
    Phase::Compact,
    Phase::Query,
    Phase::Reopen,
];

/// Parses how many documents come in a second.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    positive_count::<u64>(text)
        .and_then(|it| NonZeroU64::new(it).ok_or_else(|| "it must be at least 1".to_owned()))
}

/// Parses a share.
fn share(text: &str) -> Result<f64, String> {
    similarity_parser(text)
        .map_err(|_| "it must be a share from 0 to 1, for example 0.1".to_owned())
}

/// The name of a scope.
pub(super) fn scope_name(number: u64) -> String {
    format!("scope {number}")
}

impl Arguments {
    /// How often the phase `window` replaces all documents.
    pub(super) fn turnovers(&self) -> u64 {
        self.turnovers.unwrap_or(100)
    }

    pub(super) fn has_sketches(&self) -> bool {
        self.sketch_size() != SketchSize::None
    }

    /// The number of documents that the phase `link` gives to each call.
    pub(super) fn together(&self) -> usize {
        self.together.unwrap_or(self.batch) as usize
    }

    /// The scopes that queries are limited to. `None` if they are not limited.
    pub(super) fn asked_scopes(&self) -> Option<impl Iterator<Item = String>> {
        self.query_scopes.map(|scopes| (0..scopes).map(scope_name))
    }

    /// The number of the scope of a document, if documents have scopes.
    pub(super) fn scope_of(&self, document: u64) -> Option<u64> {
        self.scopes.map(|scopes| mixed(document) % scopes)
    }

    /// Whether a query may find a document, as far as its scope says.
    pub(super) fn is_asked_for(&self, document: u64) -> bool {
        self.query_scopes
            .is_none_or(|scopes| self.scope_of(document).is_some_and(|scope| scope < scopes))
    }

    /// The number of documents that the phase `link` inserts.
    pub(super) fn more(&self) -> u64 {
        self.more.unwrap_or(self.documents)
    }

    pub(super) fn cache(&self) -> Cache {
        self.cache.unwrap_or_default()
    }

    /// The memory to sort in when a database is built: that of the cache, if it is given in bytes.
    pub(super) fn sorting_bytes(&self) -> usize {
        match self.cache {
            Some(Cache::Bytes(bytes)) => bytes,
            _ => 1 << 30,
        }
    }

    fn sketch_size(&self) -> SketchSize {
        self.sketch.into()
    }

    /// The least similarity that is asked for. `None` without sketches.
    pub(super) fn min_similarity(&self) -> Option<f64> {
        self.has_sketches()
            .then(|| self.min_similarity.unwrap_or(0.7))
    }

    pub(super) fn create_options(&self) -> CreateOptions {
        let options = CreateOptions::new()
            .scheme(Scheme::External)
            .max_distance(self.max_distance)
            .expected_documents(self.documents)
            .sketch_size(self.sketch_size())
            .min_similarity(self.min_similarity().unwrap_or(0.0))
            .cache(self.cache());
        match &self.plan {
            Some(plan) => options.plan(plan),
            None => options,
        }
    }

    /// The max distances and numbers of threads with which a phase is measured. A phase without queries is
    /// measured once.
    pub(super) fn questions(&self, phase: Phase) -> Vec<(u32, u64)> {
        use Phase::{Any, Batch, Beside, Cold, List, Query, Writer};
        let asks = matches!(phase, Query | List | Any | Batch | Beside | Cold);
        let distances = match &self.query_distance[..] {
            given @ [_, ..] if asks => given,
            _ => &[self.max_distance],
        };
        let threads = if matches!(phase, Query | List | Any | Writer) {
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
    pub(super) fn collection(&self, replaced: u64) -> Collection {
        let spread = match self.data {
            Data::Uniform => Spread::Uniform,
            Data::Skewed => Spread::Skewed,
        };
        Collection::new(
            spread,
            self.sketch_size(),
            self.near_duplicates,
            self.seed.wrapping_add(replaced << 32),
        )
    }
}
