//! `simdb query`: prints the documents near a text, a fingerprint or a document.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};
use simdb::ingest::{Fingerprinting, InputFormat, Records, Rejected};
use simdb::{Database, Fingerprint, Matches, Order, Query, Scheme, SketchSize, Snapshot, Unit};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{
    DatabaseArgument, Reading, key_bytes, max_distance_parser, parse_scheme, parse_time, similarity_parser,
};
use super::open::open_to_read;
use super::output::{
    Output, add_fingerprint, add_matches, complain, document_fields, key_fields, matches_line, printable,
};
use super::question::{Judged, Question};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    #[command(flatten)]
    asked: Asked,

    #[command(flatten)]
    reading: Reading,

    /// The distance, inclusive, at which documents match [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The least similarity, 0 to 1, at which documents match [default: that of the database]
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    min_similarity: Option<f64>,

    /// The order in which matches are printed
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    order: MatchOrder,

    /// How many matches are printed, the first in the order
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    limit: usize,

    /// Only documents seen at this time or later (Unix seconds, or as in RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true)]
    since: Option<i64>,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// The scheme of the fingerprints in the input
    #[arg(long, value_name = "NAME", value_parser = parse_scheme, requires = "input")]
    scheme: Option<Scheme>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum MatchOrder {
    /// The nearest first
    #[default]
    Distance,
    /// The most similar first
    Similarity,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Asked {
    /// Ask for a text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Ask for the text of a file; `.html` is read as HTML, `-` is standard input
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Ask for a fingerprint: 16 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,

    /// Ask for a stored document; it is a match of itself
    #[arg(long, value_name = "KEY")]
    key: Option<OsString>,

    /// Ask for every document of a file, one line each; `-` is standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let database = open_to_read(&arguments.database.database)?;
    let snapshot = database.snapshot()?;
    let options = arguments.reading.options();
    match &arguments.asked {
        Asked { input: Some(path), .. } => {
            return run_batch(arguments, &database, &snapshot, Records::open([path], options)?, output);
        }
        Asked { file: Some(path), .. } if arguments.reading.unit() != Unit::Document => {
            let records = Records::open([path], options.format(InputFormat::Text))?;
            return run_batch(arguments, &database, &snapshot, records, output);
        }
        Asked { text: Some(text), .. } if arguments.reading.unit() != Unit::Document => {
            let questions = questions_of_text(arguments, &database, text)?;
            let any_match = answer_all(arguments, &snapshot, &questions, output)?;
            return Ok(Answer::yes_if(any_match));
        }
        _ => {}
    }
    let Some(Question { key, judged }) = arguments.question(&database, &snapshot)? else {
        return Ok(Answer::No);
    };
    if judged.is_none() {
        complain("the text is too short to judge, so nothing matches it");
    }
    let fingerprint = judged.map(|(fingerprint, _)| fingerprint);
    let matches = match judged {
        Some(judged) => snapshot.query(&arguments.query(judged))?,
        None => Matches::default(),
    };
    print_one(output, key.as_deref(), fingerprint, &matches, arguments.limit)?;
    Ok(Answer::yes_if(matches.total() > 0))
}

/// Prints one JSON object, or one line per match: its distance, its similarity and its key, with tabs between
/// them. The similarity is `-` if it is not known. If the limit is 0, the line is the total.
fn print_one(
    output: &mut Output,
    key: Option<&[u8]>,
    fingerprint: Option<Fingerprint>,
    matches: &Matches,
    limit: usize,
) -> Result<(), Failure> {
    if output.is_json() || limit == 0 {
        output.print(|| answer_object(key, fingerprint, matches), || matches.total().to_string());
        return Ok(());
    }
    for found in matches {
        let similarity = found.similarity.map_or("-".to_owned(), |it| format!("{:.2}", it.jaccard()));
        let line = || format!("{}\t{similarity}\t{}", found.distance, printable(found.document.key()));
        output.print(|| Value::Object(document_fields(&found.document)), line);
    }
    if matches.total() > matches.as_slice().len() as u64 {
        let at_least = if matches.total_is_exact() { "" } else { "at least " };
        let listed = matches.as_slice().len();
        output.flush()?;
        complain(&format!("{listed} of {at_least}{} matches shown; --limit shows more", matches.total()));
    }
    Ok(())
}

fn answer_object(key: Option<&[u8]>, fingerprint: Option<Fingerprint>, matches: &Matches) -> Value {
    let mut object = key_fields(key);
    add_fingerprint(&mut object, fingerprint);
    add_matches(&mut object, matches);
    Value::Object(object)
}

/// The units of a text that are not too short, by their numbers.
fn questions_of_text(
    arguments: &Arguments,
    database: &Database,
    text: &str,
) -> Result<Vec<Question>, Failure> {
    let fingerprinter = database.fingerprinter()?;
    let units = arguments.reading.unit().cut(text).enumerate();
    let questions = units.filter_map(|(index, unit)| {
        let judged = Some(fingerprinter.fingerprint_and_sketch(unit)?);
        Some(Question { key: Some(format!("#{}", index + 1).into_bytes()), judged })
    });
    Ok(questions.collect())
}

/// Answers questions in order, one line each. Returns whether there was any match.
fn answer_all(
    arguments: &Arguments,
    snapshot: &Snapshot,
    questions: &[Question],
    output: &mut Output,
) -> Result<bool, Failure> {
    let judged = questions.iter().filter_map(|question| question.judged);
    let queries: Vec<Query> = judged.map(|it| arguments.query(it)).collect();
    let mut answers = snapshot.query_batch(&queries)?.into_iter();
    let mut any_match = false;
    for question in questions {
        let (key, fingerprint) = (question.key.as_deref(), question.fingerprint());
        let matches = fingerprint.and_then(|_| answers.next()).unwrap_or_default();
        any_match |= matches.total() > 0;
        output
            .print(|| answer_object(key, fingerprint, &matches), || answer_line(key, fingerprint, &matches));
    }
    output.flush()?;
    Ok(any_match)
}

/// Answers all records of a file in order, one line for each record or each of its units. If a record is
/// rejected, the answer of the command is "could not tell". With "no match", a caller would take the rejected
/// record for a new document.
fn run_batch(
    arguments: &Arguments,
    database: &Database,
    snapshot: &Snapshot,
    mut records: Records,
    output: &mut Output,
) -> CommandResult {
    let size = database.sketch_size();
    // If the database has no sketches, no record can be answered, and the first query says so.
    let needs_sketches = arguments.asks_for_similarity() && size != SketchSize::None;
    let rule = Fingerprinting::new(database.scheme(), arguments.scheme)?.sketch_size(size);
    let rule = rule.needs_sketches(needs_sketches);
    let unit = arguments.reading.unit();
    let mut any_match = false;
    let mut any_rejected = false;
    while !output.is_closed() {
        let chunk = records.next_chunk(|record| Question::of_record(record, rule, unit))?;
        if chunk.is_empty() {
            break;
        }
        let mut questions = Vec::new();
        for record in chunk {
            match record {
                Ok(asked) => questions.extend(asked),
                Err(rejected) => {
                    any_rejected = true;
                    any_match |= answer_all(arguments, snapshot, &std::mem::take(&mut questions), output)?;
                    complain(&format!("rejected: {rejected}"));
                    output.print(|| rejected_object(&rejected), || format!("rejected: {}", rejected.reason));
                }
            }
        }
        any_match |= answer_all(arguments, snapshot, &questions, output)?;
    }
    Ok(if any_rejected { Answer::CouldNotTell } else { Answer::yes_if(any_match) })
}

fn rejected_object(rejected: &Rejected) -> Value {
    json!({"key": null, "rejected": rejected.reason.to_string(), "line": rejected.line})
}

fn answer_line(key: Option<&[u8]>, fingerprint: Option<Fingerprint>, matches: &Matches) -> String {
    let name = key.map_or("(no key)".into(), printable);
    match fingerprint {
        None => format!("{name} is too short to judge"),
        Some(_) if matches.total() == 0 => format!("{name} is near nothing"),
        Some(_) => format!("{name} is near {}", matches_line(matches)),
    }
}

fn judge_file(arguments: &Arguments, database: &Database, path: &PathBuf) -> Result<Option<Judged>, Failure> {
    let rule = Fingerprinting::new(database.scheme(), None)?.sketch_size(database.sketch_size());
    let options = arguments.reading.options().format(InputFormat::Text);
    let record =
        Records::open([path], options)?.next_chunk(|record| record.fingerprint_and_sketch(rule))?.pop();
    match record {
        Some(judged) => Ok(judged.map_err(simdb::Error::from)?),
        None => Ok(None),
    }
}

impl Arguments {
    /// The question of these arguments. If it is a key that is not stored, prints a message and returns
    /// `None`.
    pub(super) fn question(
        &self,
        database: &Database,
        snapshot: &Snapshot,
    ) -> Result<Option<Question>, Failure> {
        let Asked { text, file, fingerprint, key, input } = &self.asked;
        if self.reading.unit() != Unit::Document {
            return Err(
                "only the texts of a query are cut into units: `--unit` needs --text, --file or --input \
                        of `query`"
                    .into(),
            );
        }
        if input.is_some() {
            return Err(
                "one fingerprint, text or document at a time is explained, not the records of an input"
                    .into(),
            );
        }
        let judged = if let Some(text) = text {
            database.fingerprinter()?.fingerprint_and_sketch(text)
        } else if let Some(path) = file {
            judge_file(self, database, path)?
        } else if let Some(key) = key {
            let key = key_bytes(key);
            let Some(document) = snapshot.get(&key)? else {
                complain(&format!("{}: no such key", printable(&key)));
                return Ok(None);
            };
            let judged = document.fingerprint().map(|fingerprint| (fingerprint, document.sketch().copied()));
            return Ok(Some(Question { key: Some(key), judged }));
        } else {
            fingerprint.map(|fingerprint| (fingerprint, None))
        };
        Ok(Some(Question { key: None, judged }))
    }

    /// Whether a fingerprint without a sketch cannot be asked for.
    fn asks_for_similarity(&self) -> bool {
        self.min_similarity.is_some_and(|least| least > 0.0) || matches!(self.order, MatchOrder::Similarity)
    }

    pub(super) fn query(&self, (fingerprint, sketch): Judged) -> Query {
        let order = match self.order {
            MatchOrder::Distance => Order::Distance,
            MatchOrder::Similarity => Order::Similarity,
        };
        let mut query = Query::new(fingerprint).with_sketch(sketch).order(order).limit(self.limit);
        if let Some(min_similarity) = self.min_similarity {
            query = query.min_similarity(min_similarity);
        }
        if let Some(max_distance) = self.max_distance {
            query = query.max_distance(max_distance);
        }
        if let Some(since) = self.since {
            query = query.since(since);
        }
        if !self.scope.is_empty() {
            query = query.scopes(&self.scope);
        }
        query
    }
}
