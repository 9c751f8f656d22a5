//! Rejected records: the first few of a kind as messages, the others as a number, and all of them in a file on demand.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::files::{ensure_named_as_plain, open_output};
use crate::ingest::{Offset, Rejected};
use crate::plural::counted;
use serde_json::{Value, json};

use super::console::Console;
use super::escaping::printable;
use super::output::{Output, name_fields};

/// How many of a kind are shown.
const MOST_SHOWN: u64 = 5;

/// The rejected records of a command.
pub(super) struct Rejections {
    console: Console,
    kinds: HashMap<&'static str, Kind>,
    file: Option<(PathBuf, BufWriter<File>)>,
    json: bool,
}

struct Kind {
    count: u64,
    /// The last that was shown.
    example: String,
}

impl Rejections {
    /// No rejected records yet. They are added to the end of the file at `path`, if there is one.
    pub(super) fn new(console: &Console, path: Option<&Path>, json: bool) -> Result<Self, Error> {
        let mut rejections = Self {
            console: console.clone(),
            kinds: HashMap::new(),
            file: None,
            json,
        };
        if let Some(path) = path {
            ensure_named_as_plain(path)?;
            console.ensure_shared(path)?;
            let place = console.place_of(path);
            let file = open_output(&place, File::options().create(true).append(true));
            let file = file.map_err(Error::io(path))?;
            rejections.file = Some((path.to_owned(), BufWriter::new(file)));
        }
        Ok(rejections)
    }

    pub(super) fn add(&mut self, rejected: &Rejected) -> Result<(), Error> {
        let kind = self.kinds.entry(rejected.reason.kind());
        let kind = kind.or_insert_with(|| Kind {
            count: 0,
            example: String::new(),
        });
        kind.count += 1;
        if kind.count <= MOST_SHOWN {
            kind.example = rejected.to_string();
            self.console
                .complain(&format!("rejected: {}", kind.example));
        }
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let line = match self.json {
            true => object(rejected).to_string(),
            false => printable(rejected.to_string().as_bytes()).into_owned(),
        };
        writeln!(file, "{line}").map_err(Error::io(path))
    }

    /// Writes out what is to go to the file.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        match &mut self.file {
            Some((path, file)) => file.flush().map_err(Error::io(path)),
            None => Ok(()),
        }
    }

    /// Writes out what is to go to the file, and reports how many records were rejected that were not shown one by one.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        let mut others: Vec<&Kind> = self.kinds.values().collect();
        others.retain(|kind| kind.count > MOST_SHOWN);
        others.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        for Kind { count, example } in &others {
            self.console.complain(&format!(
                "rejected: {} like this one: {example}",
                counted(count - MOST_SHOWN, "more record")
            ));
        }
        if self.file.is_none() && !others.is_empty() {
            self.console
                .complain("--rejected FILE writes all rejected records to a file");
        }
        Ok(())
    }
}

/// Says why a record is rejected, and prints its line. An input that cannot be read is no record.
pub(super) fn print(rejected: &Rejected, output: &mut Output) {
    output.complain(&message(rejected));
    if !rejected.is_input() {
        let line = format!("rejected: {}", rejected.reason);
        output.print_record(&object(rejected), &line);
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
        "reason": rejected.reason.to_string(),
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
        Some(Offset::Row(row)) => object["row"] = row.into(),
        _ => {}
    }
    object
}
