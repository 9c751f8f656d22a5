//! `simdb clusters --pairs`: the clusters of a Parquet file of pairs, without a database.

use std::path::Path;

#[cfg(feature = "parquet")]
use crate::Fingerprint;
#[cfg(feature = "parquet")]
use crate::parquet::{FingerprintCluster, PairClusters};
#[cfg(feature = "parquet")]
use serde_json::json;

#[cfg(feature = "parquet")]
use super::answer::Answer;
use super::answer::CommandResult;
#[cfg(feature = "parquet")]
use super::apart::ensure_replaceable;
use super::output::Output;
#[cfg(feature = "parquet")]
use super::standing::ensure_may_stand;

/// How clusters are made of pairs, and where they go.
#[cfg_attr(
    not(feature = "parquet"),
    expect(dead_code, reason = "without Parquet there are no such files")
)]
pub(super) struct PairClustering<'a> {
    pub(super) pairs: &'a Path,
    pub(super) max_distance: Option<u32>,
    pub(super) is_connected: bool,
    pub(super) is_summary: bool,
    /// The Parquet file for the clusters. Without it, they are printed.
    pub(super) file: Option<&'a Path>,
    pub(super) replace: bool,
}

#[cfg(not(feature = "parquet"))]
impl PairClustering<'_> {
    pub(super) fn run(&self, _: &mut Output) -> CommandResult {
        Err("this program was built without Parquet: build it with `--features cli,parquet`".into())
    }
}

#[cfg(feature = "parquet")]
impl PairClustering<'_> {
    pub(super) fn run(&self, output: &mut Output) -> CommandResult {
        if let Some(file) = self.file.filter(|_| !self.replace) {
            ensure_may_stand(file, b"PAR1")?;
        }
        if let Some(file) = self.file {
            ensure_replaceable(file, None, [self.pairs])?;
        }
        let mut clusters = PairClusters::open([self.pairs])?.connected(self.is_connected);
        if let Some(max_distance) = self.max_distance {
            clusters = clusters.max_distance(max_distance);
        }
        let progress = output.console().progress_of("pairs");
        let found = clusters.find(|done, all| progress.update(done, Some(all)))?;
        drop(progress);
        let mut number = 0u64;
        let mut fingerprints = 0;
        let mut largest = 0;
        for cluster in found.iter() {
            number += 1;
            fingerprints += cluster.fingerprints.len();
            largest = largest.max(cluster.fingerprints.len());
            if self.file.is_none() && !output.is_closed() {
                self.print(output, number, &cluster);
                if output.is_full() {
                    output.flush()?;
                }
            }
        }
        if let Some(file) = self.file {
            found.write(file, self.replace)?;
        }
        output.remark(&format!(
            "{number} clusters of {fingerprints} fingerprints; the largest has {largest} fingerprints"
        ));
        Ok(Answer::Yes)
    }

    /// A line for the cluster, or one for each of its fingerprints.
    fn print(&self, output: &mut Output, number: u64, cluster: &FingerprintCluster) {
        let all = &cluster.fingerprints;
        let Some(&survivor) = all.first() else { return };
        let count = all.len();
        let name = survivor.to_string();
        if self.is_summary {
            output.print_record(
                &json!({"cluster": number, "survivor": name, "fingerprints": count}),
                &format!("{number}\t{name}\t{count}"),
            );
            return;
        }
        for fingerprint in all {
            let distance = Fingerprint::distance(*fingerprint, survivor);
            let digits = fingerprint.to_string();
            if output.is_json() {
                output.print_json(&json!({
                    "cluster": number,
                    "fingerprint": digits,
                    "survivor": name,
                    "distance": distance,
                }));
            } else {
                output.print_line(&format!("{number}\t{digits}\t{name}\t{distance}"));
            }
        }
    }
}
