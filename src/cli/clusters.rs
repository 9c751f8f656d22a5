//! `simdb clusters`: prints the clusters of near-duplicates, and which document of each survives.

use std::path::PathBuf;

use crate::{Cluster, ClusterEvent, ClusterTotals, Clustering, Database, Error, Survivor};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, max_distance_parser, near, similarity_parser};
use super::finds::Finds;
use super::output::{Output, key_fields, name_fields, printable};
use super::pair_clusters::OfPairs;
use super::times::time;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    clusters: ClusterArguments,

    /// Only documents seen at this time or later: 2020-01-31, 2d, `2 weeks ago`, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    since: Option<i64>,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Print a line for each cluster, not for each document
    #[arg(long)]
    summary: bool,

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
    output: Option<PathBuf>,

    /// Put the new file in the place of an old one
    #[arg(long, requires = "output")]
    replace: bool,
}

/// How documents are put together, and which survive.
#[derive(clap::Args)]
pub(super) struct ClusterArguments {
    /// The distance, inclusive, at which documents are near [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The least similarity, 0 to 1, of near documents [default: that of the database]
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    min_similarity: Option<f64>,

    /// By what the document is chosen that survives, the first that tells: of equal ones that which was written first
    /// [default: rank]
    #[arg(long, value_name = "ORDER", value_enum, value_delimiter = ',')]
    survivor: Vec<SurvivorName>,

    /// Put documents into one cluster that a chain of near documents connects; its ends may have nothing in common
    #[arg(long)]
    connected: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum SurvivorName {
    /// The greater rank
    Rank,
    /// Seen earlier
    Earliest,
    /// Seen later
    Latest,
    /// The longer text, as the sketch counts it; without sketches the longer payload
    Longest,
    /// The shorter key
    ShortestKey,
}

impl Arguments {
    /// What is to be done with a file of pairs, if the arguments name one in place of a database.
    pub(super) fn of_pairs(&self) -> Option<OfPairs<'_>> {
        self.pairs.then_some(OfPairs {
            pairs: &self.database.database,
            max_distance: self.clusters.max_distance,
            is_connected: self.clusters.connected,
            is_summary: self.summary,
            file: self.output.as_deref(),
            replace: self.replace,
        })
    }
}

impl ClusterArguments {
    /// The clusters of the documents that were seen at a time or later, and are of some scopes.
    pub(super) fn among(&self, since: Option<i64>, scopes: &[String]) -> Clustering {
        let near = near(self.max_distance, self.min_similarity, since, scopes);
        let survivor = self.survivor.iter().map(|name| match name {
            SurvivorName::Rank => Survivor::Rank,
            SurvivorName::Earliest => Survivor::Earliest,
            SurvivorName::Latest => Survivor::Latest,
            SurvivorName::Longest => Survivor::Longest,
            SurvivorName::ShortestKey => Survivor::ShortestKey,
        });
        let clustering = Clustering::new().near(near).connected(self.connected);
        if self.survivor.is_empty() {
            return clustering;
        }
        clustering.survivor(survivor)
    }

    /// Whether chains put documents together.
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether any of these arguments is given.
    pub(super) fn is_given(&self) -> bool {
        let Self {
            max_distance,
            min_similarity,
            survivor,
            connected,
        } = self;
        max_distance.is_some() || min_similarity.is_some() || *connected || !survivor.is_empty()
    }
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let clustering = arguments.clusters.among(arguments.since, &arguments.scope);
    let (mut finds, mut number) = (Finds::of(output), 0u64);
    let totals = database.snapshot()?.clusters(&clustering, |event| {
        match event {
            ClusterEvent::Cluster(cluster) => {
                number += 1;
                match arguments.summary {
                    true => print_cluster(output, number, &cluster),
                    false => print_documents(output, number, &cluster),
                }
            }
            ClusterEvent::Progress { done, all } => finds.update(done, all),
        }
        finds.flow(output)
    })?;
    if finds.end(output)? {
        return Err(Error::Interrupted.into());
    }
    if !output.is_closed() {
        remark_totals(output, &totals, arguments.clusters.connected);
    }
    Ok(Answer::Yes)
}

/// Tells the numbers, and what chains do.
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
    let printed = printable(survivor);
    for it in &cluster.documents {
        let object = || {
            let mut object = Map::from_iter([("cluster".to_owned(), json!(number))]);
            object.extend(key_fields(Some(&it.key)));
            object.extend(name_fields("survivor", survivor));
            object.insert("distance".to_owned(), json!(it.distance));
            Value::Object(object)
        };
        let line = || {
            format!(
                "{number}\t{}\t{printed}\t{}",
                printable(&it.key),
                it.distance
            )
        };
        output.print(object, line);
    }
}

fn print_cluster(output: &mut Output, number: u64, cluster: &Cluster) {
    let survivor = &cluster.documents[cluster.survivor].key;
    let object = || {
        let mut object = Map::from_iter([("cluster".to_owned(), json!(number))]);
        object.extend(name_fields("survivor", survivor));
        object.insert("documents".to_owned(), json!(cluster.documents.len()));
        object.insert("diameter".to_owned(), json!(cluster.diameter));
        Value::Object(object)
    };
    let line = || {
        let diameter = cluster
            .diameter
            .map_or_else(|| "-".to_owned(), |it| it.to_string());
        format!(
            "{number}\t{}\t{}\t{diameter}",
            printable(survivor),
            cluster.documents.len()
        )
    };
    output.print(object, line);
}
