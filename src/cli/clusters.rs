//! `simdb clusters`: prints the clusters of near-duplicates, and which document of each survives.

use std::path::PathBuf;

use crate::{Cluster, ClusterEvent, ClusterTotals, Clustering, Database, Error, Near, Survivor};
use serde_json::{Map, Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, NearArguments};
use super::long_search::LongSearch;
use super::output::{Output, key_fields, name_fields, printable};
#[cfg(feature = "parquet")]
pub(super) use super::tables::cluster_pairs;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    pub(super) near: NearArguments,

    #[command(flatten)]
    pub(super) clusters: ClusterArguments,

    /// Print a line for each cluster, not for each document
    #[arg(long)]
    pub(super) summary: bool,

    /// DB is a Parquet file of pairs, or a directory of such files: cluster their fingerprints, without a database; the
    /// one with most neighbours survives
    #[arg(long, conflicts_with_all = ["since", "scope", "survivor", "min_similarity"])]
    pairs: bool,

    /// With --pairs: write the clusters into this Parquet file, a row for each fingerprint
    #[arg(
        long,
        value_name = "FILE",
        requires = "pairs",
        conflicts_with = "summary"
    )]
    pub(super) output: Option<PathBuf>,

    /// Put the new file in the place of an old one
    #[arg(long, requires = "output")]
    pub(super) replace: bool,
}

/// How documents are put together, and which survive.
#[derive(clap::Args)]
pub(super) struct ClusterArguments {
    /// By what the document is chosen that survives, the first that tells: of equal ones that which was written first
    /// [default: rank]
    #[arg(long, value_name = "ORDER", value_enum, value_delimiter = ',')]
    survivor: Vec<Survivor>,

    /// Put documents into one cluster that a chain of near documents connects; its ends may have nothing in common
    #[arg(long)]
    connected: bool,
}

impl Arguments {
    /// Whether the arguments name a file of pairs in place of a database.
    pub(super) fn are_of_pairs(&self) -> bool {
        self.pairs
    }
}

/// Clusters a file of pairs.
#[cfg(not(feature = "parquet"))]
pub(super) fn cluster_pairs(_: &Arguments, _: &mut Output) -> CommandResult {
    Err("this program was built without Parquet: build it with `--features cli,parquet`".into())
}

impl ClusterArguments {
    /// The clusters of near documents.
    pub(super) fn clustering(&self, near: Near) -> Clustering {
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

    /// Whether any of these arguments is given.
    pub(super) fn is_given(&self) -> bool {
        self.connected || !self.survivor.is_empty()
    }
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let clustering = arguments.clusters.clustering(arguments.near.near());
    let mut search = LongSearch::new(output);
    let mut number = 0u64;
    let totals = database.snapshot()?.clusters(&clustering, |event| {
        match event {
            ClusterEvent::Cluster(cluster) => {
                number += 1;
                match arguments.summary {
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
        remark_totals(output, &totals, arguments.clusters.connected);
    }
    Ok(Answer::Yes)
}

/// Prints the numbers, and what chains do.
fn remark_totals(output: &Output, totals: &ClusterTotals, is_connected: bool) {
    let ClusterTotals {
        clusters,
        documents,
        largest,
        diameter,
        without_diameter,
        beyond,
        ..
    } = totals;
    let diameter = match without_diameter {
        0 => format!("the greatest distance in a cluster is {diameter}"),
        without => format!(
            "the greatest distance in a cluster is at least {diameter}, as {without} have too many fingerprints to \
             compare each with each"
        ),
    };
    output.remark(&format!(
        "{clusters} clusters of {documents} documents, of which {} are duplicates; the largest has {largest} \
         documents, {diameter}",
        totals.duplicates()
    ));
    if is_connected {
        output.remark(&format!(
            "{beyond} documents are near to their survivor by a chain only"
        ));
    } else if totals.connected < *clusters || totals.largest_connected > *largest {
        output.remark(&format!(
            "chains of near documents would join them to {} clusters, the largest of {} documents (`--connected`)",
            totals.connected, totals.largest_connected
        ));
    }
}

fn print_documents(output: &mut Output, number: u64, cluster: &Cluster) {
    let survivor = &cluster.documents[cluster.survivor].key;
    let survivor_text = printable(survivor);
    for document in &cluster.documents {
        let distance = document.distance;
        if output.is_json() {
            let mut object = Map::from_iter([("cluster".to_owned(), json!(number))]);
            object.extend(key_fields(Some(&document.key)));
            object.extend(name_fields("survivor", survivor));
            object.insert("distance".to_owned(), json!(distance));
            output.print_json(&Value::Object(object));
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
        let mut object = Map::from_iter([("cluster".to_owned(), json!(number))]);
        object.extend(name_fields("survivor", survivor));
        object.insert("documents".to_owned(), json!(documents));
        object.insert("diameter".to_owned(), json!(cluster.diameter));
        output.print_json(&Value::Object(object));
        return;
    }
    let diameter = match cluster.diameter {
        Some(diameter) => diameter.to_string(),
        None => "-".to_owned(),
    };
    let survivor = printable(survivor);
    output.print_line(&format!("{number}\t{survivor}\t{documents}\t{diameter}"));
}
