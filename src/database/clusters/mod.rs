//! Clusters of near-duplicates, which of each survives, and the deletion of the others.

mod clustering;
#[expect(clippy::module_inception, reason = "the folder is named after what it shows first")]
mod clusters;
mod deletion;
mod gathered;
mod grouping;

pub use clustering::{Clustering, Survivor};
pub use clusters::{Cluster, ClusterDocument, ClusterEvent, ClusterTotals};
pub use deletion::{DeletionEvent, Duplicate};
