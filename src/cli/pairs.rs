//! `simdb pairs`: prints all pairs of near documents.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::{Database, Error, FingerprintGroup, Pair, PairEvent, PairPosition};
use serde_json::{Map, Value, json};

use super::answer::{Answer, CommandResult};
use super::apart::ensure_replaceable;
use super::arguments::{LiveDatabase, Reading, max_distance_parser, near, similarity_parser};
use super::finds::Finds;
use super::other_side::OtherSide;
use super::output::{Output, name_fields, printable};
use super::pair_output::{PairArguments, Sides, Sink};
use super::times::time;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The distance, inclusive, at which documents are near [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The least similarity, 0 to 1, of the documents of a pair; with 0 the distance alone decides [default: that of
    /// the database]
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

    /// Print all documents of one fingerprint as one group, and pairs of groups
    #[arg(long)]
    groups: bool,

    /// Go on from here: what the stopped command has told
    #[arg(long, value_name = "POSITION")]
    from: Option<PairPosition>,

    #[command(flatten)]
    written: PairArguments,
}

impl Arguments {
    /// The other side.
    #[cfg(unix)]
    pub(super) fn inputs(&self) -> impl Iterator<Item = &std::path::Path> {
        self.with.as_deref().into_iter()
    }

    /// What is asked, on one line.
    fn question(&self, max_distance: u32) -> String {
        let Self {
            min_similarity,
            since,
            scope,
            with,
            groups,
            ..
        } = self;
        format!("{max_distance} {min_similarity:?} {since:?} {scope:?} {with:?} {groups}")
    }

    /// The names of the columns, if lines are printed.
    pub(super) fn heading(&self) -> Option<&'static str> {
        let heading = match self.groups {
            true => "distance\ta\tb\tdocuments_a\tdocuments_b\tsimilarity",
            false => "distance\ta\tb\tsimilarity",
        };
        self.written.prints_lines().then_some(heading)
    }
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    if let Some(file) = arguments.written.file(output) {
        let with = arguments
            .with
            .as_ref()
            .map(|path| output.console().place_of(path));
        ensure_replaceable(&file, Some(database.path()), with.as_deref())?;
    }
    let snapshot = database.snapshot()?;
    let max_distance = arguments
        .max_distance
        .unwrap_or_else(|| database.max_distance());
    let other = arguments
        .with
        .as_ref()
        .map(|path| OtherSide::open(path, database, &arguments.reading, output));
    let other = other.transpose()?;
    let mut pairs = snapshot
        .pairs(near(
            Some(max_distance),
            arguments.min_similarity,
            arguments.since,
            &arguments.scope,
        ))
        .each_document(!arguments.groups);
    if let Some(other) = &other {
        pairs = pairs.with(&other.snapshot);
    }
    let least = arguments
        .min_similarity
        .or(database.min_similarity())
        .filter(|&least| least > 0.0);
    let sides = match &other {
        None => Sides::One,
        Some(other) if other.is_input() => Sides::AndInput,
        Some(_) => Sides::Two,
    };
    if sides == Sides::AndInput && arguments.from.is_some() {
        return Err(
            "--from is for databases: an input is read anew, and its pairs are found anew".into(),
        );
    }
    let (mut sink, known) = Sink::open(
        &arguments.written,
        &arguments.question(max_distance),
        sides,
        output,
    )?;
    let goes_on = if known.is_some() {
        " since the search went on"
    } else {
        ""
    };
    if let Some(from) = arguments.from.clone().or(known) {
        pairs = pairs.from(from);
    }
    let (mut finds, mut found, mut groups, mut reached) = (Finds::of(output), 0u64, 0u64, None);
    // What was printed behind the position that was reached.
    let (mut failed, mut behind) = (None, 0u64);
    let has_groups = arguments.groups;
    let searched = pairs.run(|event| {
        let taken = match event {
            PairEvent::Pair(mut pair) => {
                if let Some(other) = &other {
                    pair.b.newest_key = other.key_of(pair.b.newest_key);
                }
                (found, behind) = (found + 1, behind + 1);
                sink.pair(&pair, output, |it| {
                    it.print(
                        || pair_object(&pair, has_groups),
                        || pair_line(&pair, has_groups),
                    );
                })
            }
            PairEvent::Group(group) => {
                (groups, behind) = (groups + 1, behind + 1);
                let line = || group_line(&group, least.is_some());
                sink.group(&group, output, |it| it.print(|| group_object(&group), line))
            }
            PairEvent::Progress {
                done,
                all,
                position,
            } => {
                if reached.as_ref() != Some(&position) {
                    (reached, behind) = (Some(position.clone()), 0);
                }
                finds.update(done, all);
                sink.reach(position, output)
            }
        };
        failed = taken.err();
        if failed.is_some() {
            ControlFlow::Break(())
        } else {
            sink.flow(&mut finds, output)
        }
    });
    searched.map_err(|error| sink.explained(error))?;
    if let Some(error) = failed {
        return Err(error);
    }
    if !sink.is_screen() {
        // What comes after the last position is found again.
        output.take();
    }
    if finds.end(output)? {
        let advice = sink.stop(reached.filter(|_| sides != Sides::AndInput), behind)?;
        output.complain(&format!("ended before all pairs were found{advice}"));
        return Err(Error::Interrupted.into());
    }
    sink.finish(output)?;
    let groups = match arguments.groups && other.is_none() {
        true => format!(", {groups} groups of documents with one fingerprint"),
        false => String::new(),
    };
    output.remark(&format!("{found} pairs{groups}{goes_on}"));
    let is_whole = other.is_none_or(|it| it.rejected == 0);
    Ok(if is_whole {
        Answer::Yes
    } else {
        Answer::CouldNotTell
    })
}

fn pair_line(
    Pair {
        a,
        b,
        distance,
        similarity,
        ..
    }: &Pair,
    has_groups: bool,
) -> String {
    let similarity = similarity.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let [key_a, key_b] = [a, b].map(|it| printable(&it.newest_key));
    let documents = match has_groups {
        true => format!("{}\t{}\t", a.documents, b.documents),
        false => String::new(),
    };
    format!("{distance}\t{key_a}\t{key_b}\t{documents}{similarity}")
}

/// A group. Where sketches are compared, its documents have the same.
fn group_line(group: &FingerprintGroup, has_similarity: bool) -> String {
    let similarity = if has_similarity { "1.00" } else { "-" };
    format!(
        "0\t{}\t\t{}\t0\t{similarity}",
        printable(&group.newest_key),
        group.documents
    )
}

fn pair_object(pair: &Pair, has_groups: bool) -> Value {
    let object_of = if has_groups {
        group_object
    } else {
        document_object
    };
    let mut object = Map::new();
    object.insert("a".to_owned(), object_of(&pair.a));
    object.insert("b".to_owned(), object_of(&pair.b));
    object.insert("distance".to_owned(), pair.distance.into());
    if let Some(similarity) = pair.similarity {
        object.insert("similarity".to_owned(), similarity.into());
    }
    Value::Object(object)
}

fn document_object(document: &FingerprintGroup) -> Value {
    let mut object = name_fields("key", &document.newest_key);
    object.insert(
        "fingerprint".to_owned(),
        json!(document.fingerprint.to_string()),
    );
    Value::Object(object)
}

fn group_object(group: &FingerprintGroup) -> Value {
    let mut object = document_object(group);
    object["documents"] = group.documents.into();
    object
}
