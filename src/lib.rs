#![doc = include_str!(concat!(env!("OUT_DIR"), "/README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "a test may panic if the system gives no thread"
    )
)]
#![cfg_attr(
    not(unix),
    allow(
        dead_code,
        reason = "what only the socket and signals need, which are of Unix"
    )
)]

// All floors may ask for it in their tests.
#[cfg(test)]
#[path = "../tests/stand/allocations.rs"]
mod allocations;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod database;
#[cfg(feature = "ingest")]
pub mod dedup;
mod document;
mod error;
#[cfg(feature = "eval")]
pub mod eval;
mod events;
mod files;
mod fingerprint;
// Some of its examples need features.
#[cfg(any(not(doctest), feature = "cli"))]
pub mod guide;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[doc(hidden)]
#[path = "../tests/hostile/mod.rs"]
pub mod hostile;
#[cfg(feature = "ingest")]
pub mod ingest;
mod memory;
mod metrics;
mod parallel;
#[cfg(feature = "parquet")]
pub mod parquet;
mod plan;
mod planted;
mod plural;
mod process;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod serving;
mod sketch;
pub mod source;
mod sql_join;
mod store;
mod sync;
mod text;
mod unix_seconds;

pub use database::{
    Answers, Change, Cluster, ClusterDocument, ClusterEvent, ClusterTotals, Clustering,
    CreateOptions, Database, DeletionEvent, Documents, Duplicate, Expiry, FingerprintGroup, Found,
    Match, Matches, Near, OnMatch, OpenOptions, Order, Pair, PairEvent, PairPosition, Pairs,
    Policy, Query, SalvageOptions, Snapshot, Submission, Submitting, Survivor, Ticket, TrySubmit,
    Verdict, WriteTxn, Writer, WriterOptions,
};
#[cfg(feature = "ingest")]
pub use database::{FirstMatch, Overlap, OverlapDocument, OverlapQuery, OverlapUnit};
pub use document::Document;
pub use error::{Error, ErrorKind, Holder, Result};
pub use fingerprint::Fingerprint;
pub use memory::Cache;
pub use plan::Prefer;
#[cfg(feature = "serve")]
pub use serve::Server;
#[cfg(all(unix, feature = "serve"))]
pub use serve::{Client, ClientOptions, ClientTicket};
pub use sketch::{Similarity, Sketch, SketchSize};
pub use store::{FORMAT_VERSION, MissingDocuments, SalvageReport};
pub use text::Scheme;
#[cfg(feature = "ingest")]
pub use text::Unit;
#[cfg(feature = "text")]
pub use text::{Fingerprinter, TextMeasure};
pub use unix_seconds::UnixSeconds;

/// How a database stands, for those who look after one: what it holds, what it does, and how it answers.
///
/// * *What it holds*: [`Statistics`](inspect::Statistics) from [`Snapshot::stats`], with the levels of its sorted sets;
///   the largest groups and the fullest prefixes of a snapshot; [`NearCount`](inspect::NearCount), how many documents
///   are near by other choices, from [`Snapshot::count_near`]; and the problems that [`Database::check`] finds.
/// * *What it does*: [`Metrics`](inspect::Metrics) from [`Database::metrics`].
/// * *How it answers*: [`Explanation`](inspect::Explanation) from [`Snapshot::explain`], and
///   [`PlanEstimate`](inspect::PlanEstimate) from [`CreateOptions::plans`].
pub mod inspect {
    pub use crate::database::{
        Explanation, FullPrefix, FullestPrefixes, LargestGroups, NearCount, TableProbes,
    };
    pub use crate::metrics::{Histogram, Metrics, Verdicts};
    pub use crate::plan::PlanEstimate;
    pub use crate::store::{CheckReport, LevelStatistics, Problem, SetStatistics, Statistics};
}

/// The search for all pairs as statements in SQL, for fingerprints that stand in a database of another kind.
pub mod sql {
    pub use crate::sql_join::{SqlDialect, SqlJob, SqlWork};
}
