//! Text and JSON Lines on standard output. It carries data only, one record per line.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::console::{Console, Terminal};
use super::escaping::{harmless, json_line};
use crate::{Document, Fingerprint, Sketch};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of all commands.
#[derive(Args)]
#[command(next_help_heading = "Options of all commands")]
pub(super) struct Globals {
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    json: bool,

    /// Print no messages but errors, and no progress
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Colours: auto, always, never [default: auto]
    ///
    /// `auto` uses colours on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    color: clap::ColorChoice,

    /// Print help
    #[arg(long, short, global = true, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
}

impl Globals {
    /// The output of a command. Relative paths begin in `directory`, or in the current one of the process.
    pub(super) fn output(&self, terminal: Arc<dyn Terminal>, directory: Option<&Path>) -> Output {
        Output {
            console: Console::new(terminal, directory, self.quiet),
            waiting: Vec::new(),
            json: self.json,
            closed: false,
            has_told_end: false,
        }
    }
}

/// The standard output of a console. When its reader has closed it, further output is dropped and the command goes
/// on.
pub(super) struct Output {
    console: Console,
    /// Printed, but not yet written to standard output.
    waiting: Vec<u8>,
    json: bool,
    closed: bool,
    /// Whether it was told what became of work that was ended.
    has_told_end: bool,
}

impl Output {
    pub(super) fn console(&self) -> &Console {
        &self.console
    }

    /// Prints a message on standard error, on one line.
    pub(super) fn complain(&self, message: &str) {
        self.console.complain(message);
    }

    /// Tells what became of work that was ended, unless that was told.
    pub(super) fn tell_end(&mut self, what: &str) {
        if !self.has_told_end {
            self.has_told_end = true;
            self.complain(what);
        }
    }

    /// Prints a message that is no error, unless quiet was asked for.
    pub(super) fn remark(&self, message: &str) {
        self.console.remark(message);
    }

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

    /// Prints a record: the object if JSON was asked for, otherwise the line. The record waits for the next flush.
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
    pub(super) fn flush(&mut self) -> io::Result<()> {
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

/// Adds bytes to an object: as text under `field` if they are UTF-8, otherwise as base64 under `field_base64`.
pub(super) fn add_name(object: &mut Value, field: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object[field] = text.into(),
        Err(_) => object[format!("{field}_base64")] = BASE64.encode(bytes).into(),
    }
}

/// The field of a name that may be any bytes: as text, or as base64 in a field with `_base64` behind its name.
pub(super) fn name_fields(field: &str, name: &[u8]) -> Value {
    let mut object = json!({});
    add_name(&mut object, field, name);
    object
}

/// The field of a key: `key`, or `key_base64` if the key is not UTF-8. Without a key, `key` is null.
pub(super) fn key_fields(key: Option<&[u8]>) -> Value {
    match key {
        Some(key) => name_fields("key", key),
        None => json!({ "key": null }),
    }
}

/// Adds `fingerprint`. If there is none, adds `too_short` too.
pub(super) fn add_fingerprint(object: &mut Value, fingerprint: Option<Fingerprint>) {
    object["fingerprint"] = fingerprint.map(|bits| bits.to_string()).into();
    if fingerprint.is_none() {
        object["too_short"] = true.into();
    }
}

/// Adds the `sketch` of a document and the number of its `shingles`, if it has a sketch.
pub(super) fn add_sketch(object: &mut Value, sketch: Option<&Sketch>) {
    if let Some(sketch) = sketch {
        object["sketch"] = sketch.to_string().into();
        object["shingles"] = sketch.shingles().into();
    }
}

/// All fields of a document. Empty fields are left out.
pub(super) fn document_fields(document: &Document) -> Value {
    let mut object = key_fields(Some(document.key()));
    add_fingerprint(&mut object, document.fingerprint());
    add_sketch(&mut object, document.sketch());
    object["seen"] = document.seen().into();
    if document.repeats() > 0 {
        object["repeats"] = document.repeats().into();
    }
    if !document.rank().is_empty() {
        object["rank"] = document.rank().into();
    }
    if !document.scope().is_empty() {
        object["scope"] = document.scope().into();
    }
    if !document.payload().is_empty() {
        add_name(&mut object, "payload", document.payload());
    }
    object
}
