//! Clusters of near-duplicates, which of each survives, and the deletion of the others.

mod cluster_set;
mod clustering;
mod clusters;
mod deletion;
mod grouping;
#[cfg(feature = "parquet")]
mod of_pairs;

pub use clustering::{Clustering, Survivor};
pub use clusters::{Cluster, ClusterDocument, ClusterEvent, ClusterTotals};
pub use deletion::{DeletionEvent, Duplicate};
#[cfg(feature = "parquet")]
pub(crate) use of_pairs::GivenPairs;
