//! `simdb clusters`: prints the clusters of near-duplicates, and which document of each survives.

use std::path::PathBuf;

use crate::plural::counted;
use crate::{Cluster, ClusterEvent, ClusterTotals, Clustering, Database, Error, Near, Survivor};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::{NearArguments, named_file};
use super::console::LongSearch;
use super::escaping::printable;
use super::output::{Output, add_name};
use super::verbs::{LiveDatabase, Verb};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    near: NearArguments,

    #[command(flatten)]
    clusters: ClusterArguments,

    /// Print a line for each cluster, not for each document
    #[arg(long)]
    summary: bool,

    /// Cluster the pairs in a Parquet file: DB is that file, or a directory of such files
    ///
    /// No database is needed. The fingerprint with the most neighbours survives
    #[arg(long, conflicts_with_all = ["since", "scope", "survivor", "min_similarity"])]
    pairs: bool,

    /// With --pairs: write the clusters into this Parquet file, a row for each fingerprint
    #[arg(
        long,
        value_name = "FILE",
        value_parser = named_file(),
        requires = "pairs",
        conflicts_with = "summary"
    )]
    output: Option<PathBuf>,

    /// Replace a file that exists
    #[arg(long, requires = "output", conflicts_with = "summary")]
    replace: bool,
}

/// How documents are put together, and which survive.
#[derive(clap::Args)]
pub(super) struct ClusterArguments {
    /// How the survivor of a cluster is chosen [default: rank]
    ///
    /// Each later order decides between documents that are equal in the earlier ones. If all are equal, the document
    /// that was written first survives
    #[arg(long, value_name = "ORDER", value_enum, value_delimiter = ',')]
    survivor: Vec<Survivor>,

    /// Join documents that a chain of near documents connects
    ///
    /// The first and the last document of a chain need not be near to each other
    #[arg(long)]
    connected: bool,
}

impl Verb for Arguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let clustering = self.clusters.clustering(&self.near);
        let mut search = LongSearch::new("", output);
        let mut number = 0u64;
        let totals = database.snapshot()?.clusters(&clustering, |event| {
            match event {
                ClusterEvent::Cluster(cluster) => {
                    number += 1;
                    match self.summary {
                        true => print_cluster(output, number, &cluster),
                        false => print_documents(output, number, &cluster),
                    }
                }
                ClusterEvent::Progress { done, all } => search.update(done, Some(all)),
            }
            search.flow(output)
        })?;
        if search.end(output)? {
            return Err(Error::Interrupted.into());
        }
        if !output.is_closed() {
            remark_totals(output, &totals, self.clusters.connected);
        }
        Ok(Answer::Yes)
    }

    fn run_alone(&self, output: &mut Output) -> Option<CommandResult> {
        self.pairs.then(|| self.cluster_pairs(output))
    }

    fn heading(&self) -> Option<&'static str> {
        Some(match self.summary {
            true => "cluster\tsurvivor\tdocuments\tgreatest distance",
            false => "cluster\tkey\tsurvivor\tdistance",
        })
    }
}

impl ClusterArguments {
    pub(super) fn clustering(&self, near: impl Into<Near>) -> Clustering {
        let clustering = Clustering::new().near(near).connected(self.connected);
        if self.survivor.is_empty() {
            return clustering;
        }
        clustering.survivor(self.survivor.iter().copied())
    }

    /// Whether chains put documents together.
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    pub(super) fn is_given(&self) -> bool {
        self.connected || !self.survivor.is_empty()
    }
}

/// Prints the numbers, and what chains do.
fn remark_totals(output: &Output, totals: &ClusterTotals, is_connected: bool) {
    let diameter = totals.diameter;
    let diameter = match totals.without_diameter {
        0 => format!("the greatest distance in a cluster is {diameter}"),
        without => format!(
            "the greatest distance in a cluster is at least {diameter} (it is not known of {}, whose fingerprints are \
             too many to compare each with each)",
            counted(without, "cluster")
        ),
    };
    output.remark(&format!(
        "{} with {}, {} among them; the largest has {}; {diameter}",
        counted(totals.clusters, "cluster"),
        counted(totals.documents, "document"),
        counted(totals.duplicates(), "duplicate"),
        counted(totals.largest, "document")
    ));
    if is_connected {
        output.remark(&format!(
            "not near to the survivor of their cluster, but joined to it by a chain: {}",
            counted(totals.beyond, "document")
        ));
    } else if totals.connected < totals.clusters || totals.largest_connected > totals.largest {
        output.remark(&format!(
            "with `--connected`, chains of near documents would join them to {}, the largest with {}",
            counted(totals.connected, "cluster"),
            counted(totals.largest_connected, "document")
        ));
    }
}

fn print_documents(output: &mut Output, number: u64, cluster: &Cluster) {
    let survivor = &cluster.documents[cluster.survivor].key;
    let survivor_text = printable(survivor);
    for document in &cluster.documents {
        let distance = document.distance;
        if output.is_json() {
            let mut object = json!({ "cluster": number });
            add_name(&mut object, "key", &document.key);
            add_name(&mut object, "survivor", survivor);
            object["distance"] = distance.into();
            output.print_json(&object);
        } else {
            let key = printable(&document.key);
            output.print_line(&format!("{number}\t{key}\t{survivor_text}\t{distance}"));
        }
    }
}

fn print_cluster(output: &mut Output, number: u64, cluster: &Cluster) {
    let survivor = &cluster.documents[cluster.survivor].key;
    let documents = cluster.documents.len();
    if output.is_json() {
        let mut object = json!({ "cluster": number });
        add_name(&mut object, "survivor", survivor);
        object["documents"] = documents.into();
        object["diameter"] = cluster.diameter.into();
        output.print_json(&object);
        return;
    }
    let diameter = match cluster.diameter {
        Some(diameter) => diameter.to_string(),
        None => "-".to_owned(),
    };
    let survivor = printable(survivor);
    output.print_line(&format!("{number}\t{survivor}\t{documents}\t{diameter}"));
}

#[cfg(not(feature = "parquet"))]
impl Arguments {
    fn cluster_pairs(&self, _: &mut Output) -> CommandResult {
        Err("this program was built without Parquet: build it with `--features cli,parquet`".into())
    }
}

#[cfg(feature = "parquet")]
impl Arguments {
    /// Prints the clusters of a Parquet file of pairs, without a database.
    fn cluster_pairs(&self, output: &mut Output) -> CommandResult {
        let pairs = self.database.path.as_path();
        if let Some(file) = &self.output {
            if !self.replace {
                super::output_files::ensure_may_stand(file, b"PAR1")?;
            }
            super::output_files::ensure_replaceable(file, None, [pairs])?;
        }
        let is_connected = self.clusters.connected;
        let mut clusters = crate::parquet::PairClusters::open([pairs])?.connected(is_connected);
        if let Some(max_distance) = self.near.bounds.max_distance {
            clusters = clusters.max_distance(max_distance);
        }
        if self.output.is_none() && !output.is_json() {
            output.console().head(match self.summary {
                true => "cluster\tsurvivor\tfingerprints",
                false => "cluster\tfingerprint\tsurvivor\tdistance",
            });
        }
        let progress = output.console().progress_of("pairs");
        let found = clusters.find(progress.steps())?;
        drop(progress);
        let mut number = 0u64;
        let mut fingerprints = 0;
        let mut largest = 0;
        for cluster in found.iter() {
            number += 1;
            fingerprints += cluster.fingerprints.len();
            largest = largest.max(cluster.fingerprints.len());
            if self.output.is_none() && !output.is_closed() {
                print_fingerprints(output, number, &cluster, self.summary);
                if output.is_full() {
                    output.flush()?;
                }
            }
        }
        if let Some(file) = &self.output {
            found.write(file, self.replace)?;
        }
        output.remark(&format!(
            "{} with {}; the largest has {}",
            counted(number, "cluster"),
            counted(fingerprints, "fingerprint"),
            counted(largest, "fingerprint")
        ));
        Ok(Answer::Yes)
    }
}

/// A line for the cluster, or one for each of its fingerprints.
#[cfg(feature = "parquet")]
fn print_fingerprints(
    output: &mut Output,
    number: u64,
    cluster: &crate::parquet::FingerprintCluster,
    is_summary: bool,
) {
    let all = &cluster.fingerprints;
    let Some(&survivor) = all.first() else { return };
    let count = all.len();
    let name = survivor.to_string();
    if is_summary {
        output.print_record(
            &json!({"cluster": number, "survivor": name, "fingerprints": count}),
            &format!("{number}\t{name}\t{count}"),
        );
        return;
    }
    for fingerprint in all {
        let distance = fingerprint.distance(survivor);
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
