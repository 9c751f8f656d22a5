//! `simdb pairs`: prints all pairs of near documents.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::{Database, Error, FingerprintGroup, Pair, PairEvent, PairPosition};
use serde_json::{Map, Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, Reading, max_distance_parser, similarity_parser};
use super::other_side::OtherSide;
use super::output::{Output, name_fields, printable};
use super::times::time;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The distance, inclusive, at which documents are near [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The least similarity, 0 to 1, of the documents of a pair [default: none, the distance alone decides]
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    min_similarity: Option<f64>,

    /// Only documents seen at this time or later: 2020-01-31, 2d, `2 weeks ago`, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    since: Option<i64>,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Print the pairs of a document of DB and one of this database or input, the document of DB first
    #[arg(long, value_name = "OTHER")]
    with: Option<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Print each pair of documents, also those of one fingerprint, instead of groups
    #[arg(long)]
    expand: bool,

    /// Go on from here: what the stopped command has told
    #[arg(long, value_name = "POSITION")]
    from: Option<PairPosition>,
}

pub(super) fn run(arguments: &Arguments, database: &Database, output: &mut Output) -> CommandResult {
    let snapshot = database.snapshot()?;
    let max_distance = arguments.max_distance.unwrap_or_else(|| database.max_distance());
    let other =
        arguments.with.as_ref().map(|path| OtherSide::open(path, database, &arguments.reading, output));
    let other = other.transpose()?;
    let mut pairs = snapshot.pairs(max_distance).each_document(arguments.expand);
    if let Some(other) = &other {
        pairs = pairs.with(&other.snapshot);
    }
    if let Some(min_similarity) = arguments.min_similarity {
        pairs = pairs.min_similarity(min_similarity);
    }
    if let Some(since) = arguments.since {
        pairs = pairs.since(since);
    }
    if !arguments.scope.is_empty() {
        pairs = pairs.scopes(&arguments.scope);
    }
    if let Some(from) = arguments.from {
        pairs = pairs.from(from);
    }
    let progress = output.console().progress();
    let (mut found, mut groups, mut failed, mut reached, mut was_ended) = (0u64, 0u64, None, None, false);
    pairs.run(|event| {
        match event {
            PairEvent::Pair(pair) => {
                found += 1;
                output.print(|| pair_object(&pair), || pair_line(&pair));
            }
            PairEvent::Group(group) => {
                groups += 1;
                output.print(|| group_object(&group), || group_line(&group));
            }
            PairEvent::Progress { done, all, position } => {
                reached = Some(position);
                was_ended = progress.update(done, Some(all)).is_break();
            }
        }
        if output.is_full() {
            failed = output.flush().err();
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
        output.flush()?;
        let from = reached.map(|it| format!("; `--from {it}` goes on from there")).unwrap_or_default();
        output.complain(&format!("ended before all pairs were found{from}"));
        return Err(Error::Interrupted.into());
    }
    output.flush()?;
    match other {
        None => {
            output.remark(&format!("{found} pairs, {groups} groups of documents with one fingerprint"));
            Ok(Answer::Yes)
        }
        Some(other) => {
            output.remark(&format!("{found} pairs"));
            Ok(if other.rejected > 0 { Answer::CouldNotTell } else { Answer::Yes })
        }
    }
}

fn pair_line(Pair { a, b, distance, similarity, .. }: &Pair) -> String {
    let similarity = similarity.map_or_else(String::new, |it| format!("\t{it:.2}"));
    let [key_a, key_b] = [a, b].map(|it| printable(&it.newest_key));
    format!("{distance}\t{key_a}\t{key_b}\t{}\t{}{similarity}", a.documents, b.documents)
}

fn group_line(group: &FingerprintGroup) -> String {
    format!("0\t{}\t\t{}\t0", printable(&group.newest_key), group.documents)
}

fn pair_object(pair: &Pair) -> Value {
    let mut object = Map::new();
    object.insert("a".to_owned(), group_object(&pair.a));
    object.insert("b".to_owned(), group_object(&pair.b));
    object.insert("distance".to_owned(), pair.distance.into());
    if let Some(similarity) = pair.similarity {
        object.insert("similarity".to_owned(), similarity.into());
    }
    Value::Object(object)
}

fn group_object(group: &FingerprintGroup) -> Value {
    let mut object = name_fields("key", &group.newest_key);
    object.insert("fingerprint".to_owned(), json!(group.fingerprint.to_string()));
    object.insert("documents".to_owned(), group.documents.into());
    Value::Object(object)
}
