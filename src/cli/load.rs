//! `simdb get`: prints a stored document. `simdb dump` and `simdb load`: from a database to JSON Lines, and back.
//!
//! The first line of a dump is a header. Each further line is one document with all its fields.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::ingest::{Stop, TextLines};
use crate::planted::planted;
use crate::plural::counted;
use crate::{CreateOptions, Database, Document, Error, Fingerprint, Scheme, Sketch, SketchSize};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{Given as _, named_file};
use super::commands::{Command, NOT_BUILT};
use super::escaping::printable;
use super::output::{Output, document_fields};
use super::output_files::{StandingDatabase, print_complete};
use super::stats::stats_object;
use super::units;
use super::verbs::{LiveDatabase, Verb};

#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../tests/hostile/dump.rs"]
pub(crate) mod hostile;

/// The version of the dump format. It is independent of the version of the file format.
const DUMP_VERSION: u32 = 3;
/// The oldest version that is read. Its documents have no count of repeats.
const OLDEST_DUMP_VERSION: u32 = 2;

#[derive(clap::Args)]
pub(super) struct GetArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The key of the document
    key: OsString,
}

#[derive(clap::Args)]
pub(super) struct DumpArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The new database file; it must not exist yet, unless this command has made it
    #[arg(value_name = "DB", value_parser = named_file())]
    database: PathBuf,

    /// The output of `simdb dump`, also packed with gzip or zstd; `-` is standard input
    #[arg(value_name = "INPUT", default_value = "-")]
    input: PathBuf,

    /// The memory to sort with, at least some 30 MB
    ///
    /// What does not fit goes to temporary files beside the database. They take 32 bytes a document, 48 with a scope,
    /// and 8 more for each table
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    #[arg(value_parser = units::bytes::<usize>, allow_negative_numbers = true)]
    memory: usize,
}

#[derive(Deserialize)]
struct Header {
    simdb_dump: u32,
    scheme: String,
    plan: Option<String>,
    max_distance: u32,
    sketch_bytes: usize,
    min_similarity: f64,
    /// When the database was created that was dumped (Unix seconds).
    created: Option<i64>,
    /// The number of documents that follow.
    documents: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: Option<String>,
    key_base64: Option<String>,
    fingerprint: Option<String>,
    sketch: Option<String>,
    #[serde(default)]
    shingles: u32,
    #[serde(default)]
    too_short: bool,
    seen: i64,
    #[serde(default)]
    repeats: u64,
    #[serde(default)]
    rank: Vec<i64>,
    #[serde(default)]
    scope: String,
    payload: Option<String>,
    payload_base64: Option<String>,
}

impl Verb for GetArguments {
    fn key(&self) -> Option<&OsStr> {
        Some(&self.key)
    }

    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let key = self.key.as_encoded_bytes();
        let Some(document) = database.snapshot()?.get(key)? else {
            output.complain(&format!("{}: no such key", printable(key)));
            return Ok(Answer::No);
        };
        let object = document_fields(&document);
        if output.is_json() {
            output.print_json(&object);
            return Ok(Answer::Yes);
        }
        for (name, value) in object.as_object().into_iter().flatten() {
            let value = match value {
                Value::String(text) => printable(text.as_bytes()).into_owned(),
                value => value.to_string(),
            };
            output.print_line(&format!("{name}\t{value}"));
        }
        Ok(Answer::Yes)
    }
}

impl Verb for DumpArguments {
    /// Prints a header and all documents in the order in which they were written. The output is always JSON.
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let snapshot = database.snapshot()?;
        let stats = snapshot.stats()?;
        let header = json!({
            "simdb_dump": DUMP_VERSION,
            "scheme": stats.scheme.name(),
            "plan": stats.plan,
            "max_distance": stats.max_distance,
            "sketch_bytes": stats.sketch_size.bytes(),
            "min_similarity": stats.min_similarity.unwrap_or_default(),
            "created": stats.created,
            "documents": stats.documents,
        });
        output.print_json(&header);
        let progress = output.console().progress_of("documents");
        for (printed, document) in (0u64..).zip(snapshot.documents()) {
            output.print_json(&document_fields(&document?));
            if output.is_full() {
                output.flush()?;
                _ = progress.update(printed, Some(stats.documents));
            }
            if output.is_closed() {
                break;
            }
        }
        Ok(Answer::Yes)
    }
}

impl Command for Arguments {
    /// Builds a database from the output of `dump`. The order of the documents is kept.
    fn run(&self, output: &mut Output) -> CommandResult {
        let console = output.console().clone();
        let stop = Stop::when(move || console.is_ended());
        let mut lines = TextLines::open(&self.input, stop)?;
        let header = header(&mut lines)?;
        let Some(options) = header.create_options()? else {
            return Err(lines
                .failed("its header names a size that sketches cannot have")
                .into());
        };
        let path = &self.database;
        let standing = StandingDatabase::open(path)?;
        let progress = output.console().progress_of("documents");
        let packing = output.console().progress();
        let mut read = 0;
        let documents = std::iter::from_fn(|| {
            if read % 1024 == 0 && progress.update(read, Some(header.documents)).is_break() {
                return Some(Err(Error::Interrupted));
            }
            let line = match lines.next_line() {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            let Some(line) = line else {
                let reason = format!(
                    "it ends after {}, and its header says {}",
                    counted(read, "document"),
                    header.documents
                );
                let is_whole =
                    read == header.documents || planted("a dump that was cut is taken for whole");
                return (!is_whole).then(|| Err(lines.failed(reason)));
            };
            read += 1;
            Some(document(&line, &options).map_err(|reason| lines.failed(reason)))
        });
        let snapshot = match standing {
            // What is loaded knows no source.
            Some(standing) => {
                let snapshot = standing.compare(&options, &[], documents)?;
                print_complete(path, output);
                snapshot
            }
            None => {
                let memory = self.memory;
                let built =
                    Database::build_with(path, &options, documents, memory, packing.steps());
                built?.snapshot()?
            }
        };
        drop((progress, packing));
        let stats = snapshot.stats()?;
        let documents = counted(stats.documents, "document");
        let line = format!("{}: {documents}", path.display());
        output.print_record(&stats_object(&stats), &line);
        Ok(Answer::Yes)
    }

    fn database(&self) -> Option<&Path> {
        Some(&self.database)
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some(NOT_BUILT)
    }
}

impl Header {
    /// The options of a database as it was dumped. `None` if there are no sketches of that size.
    fn create_options(&self) -> Result<Option<CreateOptions>, Error> {
        let scheme: Scheme = self.scheme.parse()?;
        let Some(sketch_size) = SketchSize::from_bytes(self.sketch_bytes) else {
            return Ok(None);
        };
        let options = CreateOptions::new()
            .scheme(scheme)
            .max_distance(self.max_distance)
            .sketch_size(sketch_size)
            .min_similarity(self.min_similarity)
            .given(self.created, CreateOptions::created);
        Ok(Some(match &self.plan {
            Some(plan) => options.plan(plan),
            None => options.expected_documents(self.documents),
        }))
    }
}

/// Reads the first line. It must be the header of a dump that this release can read.
fn header(lines: &mut TextLines) -> Result<Header, Error> {
    let Some(line) = lines.next_line()? else {
        return Err(lines.failed("it is empty, and a dump begins with a header"));
    };
    let header: Header = match serde_json::from_str(&line) {
        Ok(header) => header,
        Err(error) => {
            let reason = json_reason(&error);
            let reason = format!("it does not begin with the header of a dump: {reason}");
            return Err(lines.failed(reason));
        }
    };
    let version = header.simdb_dump;
    if (OLDEST_DUMP_VERSION..=DUMP_VERSION).contains(&version) {
        return Ok(header);
    }
    let reason = format!(
        "it is a dump of version {version}, and this release reads {OLDEST_DUMP_VERSION} to {DUMP_VERSION}"
    );
    Err(lines.failed(reason))
}

/// Reads a document from a line, or says what is wrong with the line. The database has to take it.
fn document(line: &str, options: &CreateOptions) -> Result<Document, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| json_reason(&error))?;
    let key = bytes(line.key, line.key_base64, "key")?.ok_or("it has no key")?;
    let fingerprint = match line.fingerprint {
        Some(digits) => Some(
            digits
                .parse::<Fingerprint>()
                .map_err(|error| error.to_string())?,
        ),
        None => None,
    };
    match (fingerprint, line.too_short) {
        (None, false) => return Err("it has neither a fingerprint nor `too_short`".to_owned()),
        (Some(_), true) => {
            return Err("it has a fingerprint, and is said to be too short for one".to_owned());
        }
        _ => {}
    }
    let sketch = match line.sketch {
        Some(digits) => {
            let sketch = Sketch::parse(&digits, line.shingles);
            Some(sketch.map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let payload = bytes(line.payload, line.payload_base64, "payload")?.unwrap_or_default();
    let document = Document::new(key, fingerprint)
        .with_sketch(sketch)
        .with_seen(line.seen)
        .with_repeats(line.repeats)
        .with_rank(line.rank)
        .with_scope(line.scope)
        .with_payload(payload);
    options
        .validate(&document)
        .map_err(|error| error.to_string())?;
    Ok(document)
}

/// What is wrong with a line of JSON. The number of the line in the input is named elsewhere.
fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(text) if error.column() > 0 => format!("{text} at column {}", error.column()),
        _ => text,
    }
}

/// Bytes that are given as text or as base64. `None` if they are not given.
fn bytes(
    text: Option<String>,
    base64: Option<String>,
    name: &str,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("it has both {name} and {name}_base64")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(encoded)) => BASE64
            .decode(encoded)
            .map(Some)
            .map_err(|error| format!("{name}_base64: {error}")),
        (None, None) => Ok(None),
    }
}
