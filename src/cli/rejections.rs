//! Rejected records: the first few of a kind as messages, the others as a number, and all of them in a file on demand.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::ingest::{Offset, Rejected};
use serde_json::{Value, json};

use super::console::Console;
use super::output::name_fields;

/// How many of a kind are told.
const TOLD: u64 = 5;

/// The rejected records of a command.
pub(super) struct Rejections {
    console: Console,
    kinds: HashMap<&'static str, Kind>,
    file: Option<(PathBuf, BufWriter<File>)>,
    json: bool,
}

struct Kind {
    count: u64,
    /// The last that was told.
    example: String,
}

impl Rejections {
    /// No rejected records yet. They are added to the end of the file at `path`, if there is one.
    pub(super) fn new(console: &Console, path: Option<&Path>, json: bool) -> Result<Self, Error> {
        let open = |path: &Path| {
            let file = File::options()
                .create(true)
                .append(true)
                .open(console.place_of(path));
            file.map(|file| (path.to_owned(), BufWriter::new(file)))
                .map_err(|source| failed(path, source))
        };
        Ok(Self {
            console: console.clone(),
            kinds: HashMap::new(),
            file: path.map(open).transpose()?,
            json,
        })
    }

    pub(super) fn add(&mut self, rejected: &Rejected) -> Result<(), Error> {
        let kind = self.kinds.entry(rejected.reason.kind());
        let kind = kind.or_insert_with(|| Kind {
            count: 0,
            example: String::new(),
        });
        kind.count += 1;
        if kind.count <= TOLD {
            kind.example = rejected.to_string();
            self.console
                .complain(&format!("rejected: {}", kind.example));
        }
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let line = if self.json {
            object(rejected).to_string()
        } else {
            rejected.to_string()
        };
        writeln!(file, "{line}").map_err(|source| failed(path, source))
    }

    /// Writes out what is to go to the file.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        match &mut self.file {
            Some((path, file)) => file.flush().map_err(|source| failed(path, source)),
            None => Ok(()),
        }
    }

    /// Tells how many records were rejected that were not told one by one.
    pub(super) fn tell_others(&self) {
        let mut others: Vec<_> = self
            .kinds
            .values()
            .filter(|kind| kind.count > TOLD)
            .collect();
        others.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        for Kind { count, example } in &others {
            self.console.complain(&format!(
                "rejected: {} more records like this one: {example}",
                count - TOLD
            ));
        }
        if self.file.is_none() && !others.is_empty() {
            self.console
                .complain("--rejected FILE writes all rejected records to a file");
        }
    }
}

/// The message about a rejected record, or about an input that cannot be read.
pub(super) fn message(rejected: &Rejected) -> String {
    if rejected.is_input() {
        rejected.to_string()
    } else {
        format!("rejected: {rejected}")
    }
}

/// A rejected record as a JSON object.
pub(super) fn object(rejected: &Rejected) -> Value {
    let mut object = json!({
        "key": null,
        "rejected": rejected.reason.to_string(),
        "kind": rejected.reason.kind(),
        "line": rejected.line,
    });
    if let Some(fields) = object.as_object_mut() {
        fields.extend(name_fields(
            "source",
            rejected.path.as_os_str().as_encoded_bytes(),
        ));
    }
    match rejected.offset {
        Some(Offset::Stored(bytes)) => object["offset"] = bytes.into(),
        Some(Offset::Unpacked(bytes)) => object["unpacked_offset"] = bytes.into(),
        _ => {}
    }
    object
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}
