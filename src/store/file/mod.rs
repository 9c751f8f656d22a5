//! All sets of a file at one commit: which sets there are, what is kept in memory, and how it changes.

mod cache_limit;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../../tests/hostile/records.rs"]
pub(crate) mod hostile;
mod meta;
mod names;
mod operation;
mod schema;
mod shared;
mod state;
mod statistics;
mod turns;
mod view;

pub(crate) use cache_limit::CacheLimit;
pub use meta::FORMAT_VERSION;
pub(crate) use meta::{Counters, FORMAT, SETTINGS, Settings, check_format, decode_settings};
pub(crate) use names::{KnownNames, SourceRows, decode_source};
pub(crate) use operation::{
    Change, Operation, Overlays, RowSink, Runs, Sets, give_fingerprint_rows, runs_of,
};
pub(crate) use schema::{
    AnySet, ByRow, COPIED, DEAD, DOCUMENTS, KEYS, POSTINGS, PerSet, RowFamily, Set, SetRow,
    all_listed, all_sets, by_row, fingerprint_of, key_row, number_of, permuted, posting_row,
    scope_of,
};
pub(crate) use shared::{Progress, Shared, StoredSnapshot};
#[cfg(test)]
pub(crate) use state::first_rows;
pub(crate) use state::{Edit, STATE, State, StateHead, create, decode_page, state_head};
pub use statistics::{LevelStatistics, SetStatistics, Statistics};
pub(crate) use turns::{Patience, Turn};
pub(crate) use view::{LiveDocuments, ProbeSets, View, damaged_document, decoded};
