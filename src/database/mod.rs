//! An open file and its transactions, snapshots and queries: the interface of the library.

mod answering;
mod check;
#[cfg(test)]
mod check_tests;
mod clusters;
mod crowding;
mod database;
mod dense;
#[cfg(test)]
mod durability_tests;
mod expiry;
mod explain;
#[cfg(all(test, feature = "ingest"))]
mod format_tests;
mod found;
#[cfg(feature = "serve")]
mod listener;
mod near;
mod near_search;
mod options;
#[cfg(feature = "ingest")]
mod overlap;
mod pairs;
mod policy;
mod query;
#[cfg(test)]
mod reopen_tests;
mod search;
mod snapshot;
#[cfg(test)]
#[path = "../../tests/stand/mod.rs"]
mod stand;
mod submissions;
mod ticket;
mod unlike;
mod verdict;
mod write;
mod writer;

pub use check::SalvageOptions;
#[cfg(feature = "parquet")]
pub(crate) use clusters::GivenPairs;
pub use clusters::{
    Cluster, ClusterDocument, ClusterEvent, ClusterTotals, Clustering, DeletionEvent, Duplicate,
    Survivor,
};
pub use crowding::{FingerprintGroup, FullPrefix, FullestPrefixes, LargestGroups};
pub use database::Database;
pub use expiry::Expiry;
pub use explain::{Explanation, TableProbes};
pub use found::Found;
#[cfg(feature = "serve")]
pub(crate) use listener::{Listen, Listener};
#[cfg(all(unix, feature = "serve"))]
pub(crate) use near::Filter;
#[cfg(any(feature = "ingest", all(unix, feature = "serve")))]
pub(crate) use near::SharedFn;
pub use near::{Near, Order};
pub use options::{CreateOptions, OpenOptions};
#[cfg(feature = "ingest")]
pub use overlap::{FirstMatch, Overlap, OverlapDocument, OverlapQuery, OverlapUnit};
pub use pairs::{NearCount, Pair, PairEvent, PairPosition, Pairs};
pub use policy::{OnMatch, Policy};
pub use query::{Match, Matches, Query};
pub use snapshot::{Documents, Snapshot};
#[cfg(all(unix, feature = "serve"))]
pub(crate) use submissions::call_back;
pub use submissions::{Answers, WriterOptions};
pub use ticket::{Submitting, Ticket};
pub use verdict::{Change, Verdict};
pub use write::WriteTxn;
pub use writer::{Submission, TrySubmit, Writer};
