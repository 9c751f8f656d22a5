//! `simdb clusters`: prints the clusters of near-duplicates, and which document of each survives.

use std::ops::ControlFlow;

use crate::{Cluster, ClusterEvent, ClusterTotals, Clustering, Database, Error, Survivor};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, max_distance_parser, similarity_parser};
use super::output::{Output, key_fields, name_fields, printable};
use super::times::time;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    clusters: ClusterArguments,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Print a line for each cluster, not for each document
    #[arg(long)]
    summary: bool,
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

    /// Only documents seen at this time or later: 2020-01-31, 2d, `2 weeks ago`, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    since: Option<i64>,

    /// By what the document is chosen that survives, the first that tells: of equal ones that which was written first
    #[arg(long, value_name = "ORDER", value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [SurvivorName::Rank])]
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

impl ClusterArguments {
    pub(super) fn clustering(&self, scopes: &[String]) -> Clustering {
        let survivor = self.survivor.iter().map(|name| match name {
            SurvivorName::Rank => Survivor::Rank,
            SurvivorName::Earliest => Survivor::Earliest,
            SurvivorName::Latest => Survivor::Latest,
            SurvivorName::Longest => Survivor::Longest,
            SurvivorName::ShortestKey => Survivor::ShortestKey,
        });
        let mut clustering = Clustering::new().survivor(survivor).connected(self.connected);
        if let Some(max_distance) = self.max_distance {
            clustering = clustering.max_distance(max_distance);
        }
        if let Some(min_similarity) = self.min_similarity {
            clustering = clustering.min_similarity(min_similarity);
        }
        if let Some(since) = self.since {
            clustering = clustering.since(since);
        }
        if scopes.is_empty() { clustering } else { clustering.scopes(scopes) }
    }

    /// Whether any of these arguments is given.
    pub(super) fn is_given(&self) -> bool {
        let Self { max_distance, min_similarity, since, survivor, connected } = self;
        max_distance.is_some()
            || min_similarity.is_some()
            || since.is_some()
            || *connected
            || survivor[..] != [SurvivorName::Rank]
    }
}

pub(super) fn run(arguments: &Arguments, database: &Database, output: &mut Output) -> CommandResult {
    let clustering = arguments.clusters.clustering(&arguments.scope);
    let progress = output.console().progress();
    let (mut number, mut failed, mut was_ended) = (0u64, None, false);
    let totals = database.snapshot()?.clusters(&clustering, |event| {
        match event {
            ClusterEvent::Cluster(cluster) => {
                number += 1;
                match arguments.summary {
                    true => print_cluster(output, number, &cluster),
                    false => print_documents(output, number, &cluster),
                }
                if output.is_full() {
                    failed = output.flush().err();
                }
            }
            ClusterEvent::Progress { done, all } => was_ended = progress.update(done, Some(all)).is_break(),
        }
        match was_ended || failed.is_some() || output.is_closed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    drop(progress);
    was_ended |= output.console().is_ended();
    if let Some(error) = failed {
        return Err(error.into());
    }
    if was_ended {
        return Err(Error::Interrupted.into());
    }
    output.flush()?;
    if !output.is_closed() {
        remark_totals(output, &totals, arguments.clusters.connected);
    }
    Ok(Answer::Yes)
}

/// Tells the numbers, and what chains do.
fn remark_totals(output: &Output, totals: &ClusterTotals, is_connected: bool) {
    let ClusterTotals { clusters, documents, largest, diameter, beyond, .. } = totals;
    output.remark(&format!(
        "{clusters} clusters of {documents} documents, of which {} are duplicates; the largest has {largest} documents, \
         the greatest distance in a cluster is {diameter}",
        totals.duplicates()
    ));
    if is_connected {
        output.remark(&format!("{beyond} documents are near to their survivor by a chain only"));
    } else if totals.connected < *clusters || totals.largest_connected > *largest {
        output.remark(&format!(
            "chains of near documents would join them to {} clusters, the largest of {} documents (`--connected`)",
            totals.connected, totals.largest_connected
        ));
    }
}

fn print_documents(output: &mut Output, number: u64, cluster: &Cluster) {
    let survivor = &cluster.documents[cluster.survivor].key;
    for it in &cluster.documents {
        let object = || {
            let mut object = Map::from_iter([("cluster".to_owned(), json!(number))]);
            object.extend(key_fields(Some(&it.key)));
            object.extend(name_fields("survivor", survivor));
            object.insert("distance".to_owned(), json!(it.distance));
            Value::Object(object)
        };
        let line = || {
            let [key, survivor] = [&it.key, survivor].map(|it| printable(it));
            format!("{number}\t{key}\t{survivor}\t{}", it.distance)
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
        let diameter = cluster.diameter.map_or_else(|| "-".to_owned(), |it| it.to_string());
        format!("{number}\t{}\t{}\t{diameter}", printable(survivor), cluster.documents.len())
    };
    output.print(object, line);
}
