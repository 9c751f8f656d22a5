//! All sets of a file at one commit: which sets there are, what is kept in memory, and how it changes.

mod appended;
mod cache_limit;
mod edit;
mod known_scopes;
mod log;
mod meta;
mod now;
mod opening;
mod operation;
mod overlays;
mod pins;
mod progress;
mod replay;
mod schema;
mod shared;
mod sources;
mod state;
mod turn;
mod turns;
mod view;
mod written;
mod written_fingerprints;

pub(crate) use appended::Appended;
pub(crate) use cache_limit::{CacheLimit, CacheUse};
pub(crate) use edit::Edit;
pub(crate) use known_scopes::KnownScopes;
pub use meta::FORMAT_VERSION;
pub(crate) use meta::{Counters, Settings, decode_scope};
pub(crate) use now::Now;
#[cfg(test)]
pub(crate) use opening::first_rows;
pub(crate) use opening::{create, read_state};
pub(crate) use operation::{Change, Operation, RowSink, give_fingerprint_rows};
pub(crate) use overlays::{Overlays, Runs};
pub(crate) use pins::CountedSnapshot;
pub(crate) use progress::{MergeFailure, Progress};
pub(crate) use replay::runs_of;
pub(crate) use schema::{
    AnySet, ByRow, DEAD, DOCUMENTS, FIXED, KEYS, POSTINGS, PerSet, RowFamily, Set, SetRow,
    all_listed, all_sets, by_row, fingerprint_of, key_row, number_of, permuted, posting_row,
    scope_of,
};
pub(crate) use shared::Shared;
pub(crate) use sources::SourceRows;
pub(crate) use state::{Sets, State};
pub(crate) use turn::Turn;
pub(crate) use turns::Patience;
pub(crate) use view::{LiveDocuments, View, damaged_document, missing_scope};
pub(crate) use written::Written;
pub(crate) use written_fingerprints::WrittenFingerprints;
