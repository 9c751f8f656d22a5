//! Text and JSON Lines on standard output. It carries data only, one record per line.

use std::io;

use super::console::Console;
pub(super) use super::escaping::printable;
use super::escaping::{harmless, json_line};
use crate::{Document, Fingerprint, Matches, Sketch};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

/// The exact values of matches, in their order, and what they are called.
pub(super) struct Verified {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
}

impl Verified {
    /// The name and the value of the match of this index.
    pub(super) fn get(&self, index: usize) -> Option<(&'static str, f64)> {
        self.values.get(index).map(|&value| (self.name, value))
    }
}

/// The standard output of a console. When its reader has closed it, further output is dropped and the command goes
/// on.
pub(crate) struct Output {
    console: Console,
    /// Printed, but not yet written to standard output.
    waiting: Vec<u8>,
    json: bool,
    closed: bool,
}

impl Output {
    pub(crate) fn new(console: Console, json: bool) -> Self {
        Self {
            console,
            waiting: Vec::new(),
            json,
            closed: false,
        }
    }

    /// The console, for messages and progress.
    pub(super) fn console(&self) -> &Console {
        &self.console
    }

    /// Prints a message on standard error, on one line.
    pub(super) fn complain(&self, message: &str) {
        self.console.complain(message);
    }

    /// Prints a message that is no error, unless quiet was asked for.
    pub(super) fn remark(&self, message: &str) {
        self.console.remark(message);
    }

    /// Whether JSON was asked for.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints JSON from now on, or lines.
    pub(super) fn print_as_json(&mut self, json: bool) {
        self.json = json;
    }

    /// Takes what was printed and not written yet, to write it elsewhere.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether the reader has closed standard output, or nobody wants the command to go on.
    pub(super) fn is_closed(&self) -> bool {
        self.closed || self.console.is_ended()
    }

    /// Whether enough is waiting that it should be flushed.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() > 64 << 10
    }

    /// Prints a record: an object if JSON was asked for, otherwise a line. The record waits for the next
    /// flush.
    pub(super) fn print(&mut self, object: impl FnOnce() -> Value, line: impl FnOnce() -> String) {
        match self.json {
            true => self.print_json(&object()),
            false => self.print_line(&line()),
        }
    }

    /// Prints a record of which both forms are made already.
    pub(super) fn print_record(&mut self, object: &Value, line: &str) {
        match self.json {
            true => self.print_json(object),
            false => self.print_line(line),
        }
    }

    /// Prints a line, whether JSON was asked for or not.
    pub(super) fn print_line(&mut self, line: &str) {
        // Tabs stand between the parts of a line. Paths are in lines too, as they are.
        self.print_text(&harmless(line, &['\t']));
        self.waiting.push(b'\n');
    }

    /// Prints several lines.
    pub(super) fn print_lines(&mut self, text: &str) {
        self.print_text(&harmless(text, &['\t', '\n']));
        self.waiting.push(b'\n');
    }

    /// Prints an object, whether JSON was asked for or not.
    pub(super) fn print_json(&mut self, object: &Value) {
        self.print_text(&json_line(object));
        self.waiting.push(b'\n');
    }

    /// Prints what the program itself has made, as it is.
    pub(super) fn print_text(&mut self, text: &str) {
        self.waiting.extend_from_slice(text.as_bytes());
    }

    /// Writes to standard output what was printed so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let nothing = self.closed || self.waiting.is_empty();
        let written = if nothing {
            Ok(())
        } else {
            self.console.write(&self.waiting)
        };
        self.waiting.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            // The error alone does not say which file is meant.
            written => written.map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("standard output cannot be written: {error}"),
                )
            }),
        }
    }
}

/// Prints a message on standard error, on one line. A failure to do so is ignored.
pub(crate) fn complain(message: &str) {
    use io::Write as _;
    _ = writeln!(io::stderr(), "simdb: {}", harmless(message, &[]));
}

/// Adds bytes to an object: as text under `name` if they are UTF-8, otherwise as base64 under `name_base64`.
fn add_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), BASE64.encode(bytes).into()),
    };
}

/// The bytes that [`name_fields`] has put into an object.
pub(super) fn bytes_of(object: &Map<String, Value>, field: &str) -> Option<Vec<u8>> {
    match object.get(field).and_then(Value::as_str) {
        Some(text) => Some(text.as_bytes().to_vec()),
        None => BASE64
            .decode(object.get(&format!("{field}_base64"))?.as_str()?)
            .ok(),
    }
}

/// The field of a name that may be any bytes: as text, or as base64 in a field with `_base64` behind its name.
pub(super) fn name_fields(field: &str, name: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    add_bytes(&mut object, field, name);
    object
}

/// The field of a key: `key`, or `key_base64` if the key is not UTF-8. Without a key, `key` is null.
pub(super) fn key_fields(key: Option<&[u8]>) -> Map<String, Value> {
    let mut object = Map::new();
    match key {
        Some(key) => add_bytes(&mut object, "key", key),
        None => _ = object.insert("key".to_owned(), Value::Null),
    }
    object
}

/// Adds `fingerprint`. If there is none, adds `too_short` too.
pub(super) fn add_fingerprint(object: &mut Map<String, Value>, fingerprint: Option<Fingerprint>) {
    object.insert(
        "fingerprint".to_owned(),
        fingerprint.map(|bits| bits.to_string()).into(),
    );
    if fingerprint.is_none() {
        object.insert("too_short".to_owned(), true.into());
    }
}

/// Adds the `sketch` of a document and the number of its `shingles`, if it has a sketch.
pub(super) fn add_sketch(object: &mut Map<String, Value>, sketch: Option<&Sketch>) {
    if let Some(sketch) = sketch {
        object.insert("sketch".to_owned(), sketch.to_string().into());
        object.insert("shingles".to_owned(), sketch.shingles().into());
    }
}

/// All fields of a document. Empty fields are left out.
pub(super) fn document_fields(document: &Document) -> Map<String, Value> {
    let mut object = key_fields(Some(document.key()));
    add_fingerprint(&mut object, document.fingerprint());
    add_sketch(&mut object, document.sketch());
    object.insert("seen".to_owned(), document.seen().into());
    if !document.rank().is_empty() {
        object.insert("rank".to_owned(), document.rank().into());
    }
    if !document.scope().is_empty() {
        object.insert("scope".to_owned(), document.scope().into());
    }
    if !document.payload().is_empty() {
        add_bytes(&mut object, "payload", document.payload());
    }
    object
}

/// Adds `matches`, nearest first, and `total`. Adds `total_is_exact` only if it is false.
pub(super) fn add_matches(
    object: &mut Map<String, Value>,
    matches: &Matches,
    verified: Option<&Verified>,
) {
    let list: Vec<Value> = matches
        .iter()
        .enumerate()
        .map(|(index, found)| {
            let mut fields = document_fields(&found.document);
            fields.insert("distance".to_owned(), found.distance.into());
            if let Some(similarity) = found.similarity {
                fields.insert(
                    "similarity".to_owned(),
                    rounded(similarity.jaccard()).into(),
                );
                fields.insert(
                    "containment".to_owned(),
                    rounded(similarity.containment()).into(),
                );
            }
            if let Some((name, value)) = verified.and_then(|verified| verified.get(index)) {
                fields.insert(name.to_owned(), rounded(value).into());
            }
            // Payloads can be large, and a list of near-duplicates does not need them. Nor does it need the
            // sketches.
            for name in ["payload", "payload_base64", "sketch", "shingles"] {
                fields.remove(name);
            }
            Value::Object(fields)
        })
        .collect();
    object.insert("matches".to_owned(), list.into());
    object.insert("total".to_owned(), matches.total().into());
    if !matches.total_is_exact() {
        object.insert("total_is_exact".to_owned(), json!(false));
    }
}

/// A similarity to four decimals. An estimate is not known better, and what is exact need not be.
fn rounded(similarity: f64) -> f64 {
    (similarity * 1e4).round() / 1e4
}

/// The matches on one line, nearest first: `a (distance 1, similarity 0.97), b (distance 3) and 4 more`.
pub(super) fn matches_line(matches: &Matches, verified: Option<&Verified>) -> String {
    let listed: Vec<String> = matches
        .iter()
        .enumerate()
        .map(|(index, found)| {
            let similarity = found
                .similarity
                .map(|similarity| format!(", similarity {:.2}", similarity.jaccard()));
            let key = printable(found.document.key());
            let distance = found.distance;
            let verified = verified.and_then(|verified| verified.get(index));
            let verified = verified.map(|(name, value)| format!(", {name} {value:.2}"));
            format!(
                "{key} (distance {distance}{}{})",
                similarity.unwrap_or_default(),
                verified.unwrap_or_default()
            )
        })
        .collect();
    let more = matches.total() - listed.len() as u64;
    let at_least = if matches.total_is_exact() {
        ""
    } else {
        "at least "
    };
    match (listed.is_empty(), more) {
        (_, 0) => listed.join(", "),
        (true, more) => format!("{at_least}{more} documents"),
        (false, more) => format!("{} and {at_least}{more} more", listed.join(", ")),
    }
}
