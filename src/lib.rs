#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "a test may panic if the system gives no thread"
    )
)]

#[cfg(feature = "serve")]
mod admin;
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
#[cfg(feature = "ingest")]
pub mod ingest;
mod memory;
mod metrics;
mod parallel;
#[cfg(feature = "parquet")]
pub mod parquet;
mod plan;
mod process;
#[cfg(feature = "serve")]
mod serve;
mod sketch;
mod source;
mod store;
mod streaming;
mod text;
mod unix_seconds;

pub use database::{
    Answers, Change, CheckReport, Cluster, ClusterDocument, ClusterEvent, ClusterTotals,
    Clustering, CreateOptions, Database, DeletionEvent, Documents, Duplicate, Expiry, Explanation,
    FingerprintGroup, FullPrefix, FullestPrefixes, LargestGroups, LevelStatistics, Match, Matches,
    Metrics, Near, OnMatch, OpenOptions, Order, Pair, PairEvent, PairPosition, Pairs, Policy,
    Problem, Query, SetStatistics, Snapshot, Statistics, Submitting, Survivor, TableProbes, Ticket,
    TrySubmit, Verdict, Verdicts, WriteTxn, Writer, WriterOptions,
};
pub use document::Document;
pub use error::{Error, Holder, Result};
pub use fingerprint::Fingerprint;
pub use memory::Cache;
pub use metrics::Histogram;
pub use plan::{PlanEstimate, Prefer, SqlDialect, SqlJob, SqlWork};
#[cfg(feature = "serve")]
pub use serve::AdminSocket;
pub use sketch::{Similarity, Sketch, SketchSize};
pub use source::{Identity, Place, Reached, Sample, Source, Stamp};
pub use store::FORMAT_VERSION;
pub use text::Scheme;
#[cfg(feature = "ingest")]
pub use text::Unit;
#[cfg(feature = "text")]
pub use text::{Fingerprinter, TextMeasure};
pub use unix_seconds::UnixSeconds;

#[doc = include_str!("../docs/format.md")]
pub mod format {}

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide.md")]
mod guide {}
