//! `simdb load`: from the output of `simdb dump` to a database.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::{CreateOptions, Database, Document, Error, Fingerprint, Scheme, Sketch, SketchSize};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::DatabaseArgument;
use super::dump::DUMP_VERSION;
use super::output::Output;
use super::stats::stats_object;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The database file; nothing may stand there yet
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// What `simdb dump` has printed, also compressed with gzip; `-` is standard input
    #[arg(value_name = "INPUT", default_value = "-")]
    input: PathBuf,

    /// The memory to sort with, at least some 30 MB; what does not fit goes to temporary files beside the
    /// database: a document takes 32 bytes, 48 with a scope, and 8 more for each table (bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
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
    #[serde(default, rename = "too_short")]
    _too_short: bool,
    seen: i64,
    #[serde(default)]
    rank: Vec<i64>,
    #[serde(default)]
    scope: String,
    payload: Option<String>,
    payload_base64: Option<String>,
}

/// Builds a database from the output of `dump`. The order of the documents is kept.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let mut lines = Lines::open(&arguments.input)?;
    let header = lines.header()?;
    let scheme: Scheme = header.scheme.parse()?;
    let sketch_size = SketchSize::from_bytes(header.sketch_bytes)
        .ok_or_else(|| lines.failed("its header names a size that sketches cannot have"))?;
    let options = CreateOptions::new().scheme(scheme).max_distance(header.max_distance);
    let options = options.sketch_size(sketch_size).min_similarity(header.min_similarity);
    let options = match header.plan {
        Some(plan) => options.plan(plan),
        None => options.expected_documents(header.documents),
    };
    let mut read = 0;
    let documents = std::iter::from_fn(|| {
        let Some(line) = lines.next() else {
            let reason = format!("it ends after {read} documents, and its header says {}", header.documents);
            return (read != header.documents).then(|| Err(lines.failed(&reason)));
        };
        read += 1;
        Some(line.and_then(|line| document(&line, sketch_size).map_err(|reason| lines.failed(&reason))))
    });
    let database = Database::build(&arguments.database.database, &options, documents, arguments.memory)?;
    let stats = database.snapshot()?.stats()?;
    output.print(
        || stats_object(&stats),
        || format!("{}: {} documents", arguments.database.database.display(), stats.documents),
    );
    Ok(Answer::Yes)
}

/// Reads a document from a line, or says what is wrong with the line. A sketch has to have the size of the header.
fn document(line: &str, sketch_size: SketchSize) -> Result<Document, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let key = bytes(line.key, line.key_base64, "key")?.ok_or("it has no key")?;
    let fingerprint = line.fingerprint.map(|text| text.parse::<Fingerprint>()).transpose();
    let fingerprint = fingerprint.map_err(|error| error.to_string())?;
    let sketch = line.sketch.map(|digits| Sketch::parse(&digits, line.shingles)).transpose();
    let sketch = sketch.map_err(|error| error.to_string())?;
    if let Some(given) = sketch.map(|it| it.size()).filter(|&it| it != sketch_size) {
        let [stored, given] = [sketch_size, given].map(SketchSize::bytes);
        return Err(Error::SketchSizes { stored, given }.to_string());
    }
    let payload = bytes(line.payload, line.payload_base64, "payload")?.unwrap_or_default();
    let document =
        Document::new(key, fingerprint).with_sketch(sketch).with_seen(line.seen).with_rank(line.rank);
    let document = document.with_scope(line.scope).with_payload(payload);
    document.validate().map_err(|error| error.to_string())?;
    Ok(document)
}

/// Bytes that are given as text or as base64. `None` if they are not given.
fn bytes(text: Option<String>, base64: Option<String>, name: &str) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("it has both {name} and {name}_base64")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(encoded)) => {
            BASE64.decode(encoded).map(Some).map_err(|error| format!("{name}_base64: {error}"))
        }
        (None, None) => Ok(None),
    }
}

/// More than the longest document takes, with every character escaped.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Reads the lines of an input and counts them.
struct Lines {
    name: String,
    input: Box<dyn BufRead>,
    line: u64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let mut input: Box<dyn BufRead> = if path.as_os_str() == "-" {
            Box::new(BufReader::with_capacity(1 << 20, io::stdin()))
        } else {
            let file = File::open(path)
                .map_err(|source| Error::Io { path: path.to_owned(), source: source.into() })?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        };
        let begins =
            input.fill_buf().map_err(|source| Error::Io { path: path.to_owned(), source: source.into() })?;
        if begins.starts_with(&[0x1f, 0x8b]) {
            input = Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(input)));
        }
        Ok(Self { name, input, line: 0 })
    }

    /// Reads the first line. It must be the header of a dump that this release can read.
    fn header(&mut self) -> Result<Header, Error> {
        let line =
            self.next().ok_or_else(|| self.failed("it is empty, and a dump begins with a header"))??;
        let header: Header = serde_json::from_str(&line)
            .map_err(|error| self.failed(&format!("it does not begin with the header of a dump: {error}")))?;
        match header.simdb_dump {
            DUMP_VERSION => Ok(header),
            found => {
                let reason =
                    format!("it is a dump of version {found}, and this release reads {DUMP_VERSION}");
                Err(self.failed(&reason))
            }
        }
    }

    /// Reads the next line. `None` at the end.
    fn next(&mut self) -> Option<Result<String, Error>> {
        self.line += 1;
        let mut line = String::new();
        match (&mut self.input).take(MAX_LINE_BYTES).read_line(&mut line) {
            Ok(0) => None,
            Ok(length) if length as u64 == MAX_LINE_BYTES => {
                Some(Err(self.failed("it is longer than any document")))
            }
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(self.failed(&error.to_string()))),
        }
    }

    fn failed(&self, reason: &str) -> Error {
        Error::Input { source_name: self.name.clone(), line: Some(self.line), reason: reason.to_owned() }
    }
}
