//! Rejected records: the first few of a kind as messages, the others as a number, and all of them in a file on demand.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::files::{ensure_named_as_plain, leads_nowhere};
use crate::ingest::{Offset, Rejected};
use crate::plural::counted;
use serde_json::{Value, json};

use super::console::Console;
use super::escaping::printable;
use super::output::{Output, add_name};

const MOST_SHOWN: u64 = 5;

pub(super) struct Rejections {
    console: Console,
    kinds: HashMap<&'static str, Kind>,
    file: Option<(PathBuf, BufWriter<File>)>,
    json: bool,
    /// Whether the command has an option for such a file.
    has_option: bool,
}

#[derive(Default)]
struct Kind {
    count: u64,
    /// The last that was shown.
    example: String,
}

impl Rejections {
    /// No rejected records yet, of a command that writes them to no file.
    pub(super) fn new(console: &Console) -> Self {
        Self {
            console: console.clone(),
            kinds: HashMap::new(),
            file: None,
            json: false,
            has_option: false,
        }
    }

    /// No rejected records yet. They are added to the end of the file at `path`, if there is one.
    pub(super) fn with_file(
        console: &Console,
        path: Option<&Path>,
        json: bool,
    ) -> Result<Self, Error> {
        let mut rejections = Self {
            json,
            has_option: true,
            ..Self::new(console)
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

    /// Says why a record is rejected, if it is one of the first of its kind. An input that cannot be read is no record,
    /// and is always named.
    pub(super) fn show(&mut self, rejected: &Rejected) {
        if rejected.is_input() {
            self.console.complain(&rejected.to_string());
            return;
        }
        let kind = self.kinds.entry(rejected.reason.kind()).or_default();
        kind.count += 1;
        if kind.count <= MOST_SHOWN {
            kind.example = rejected.to_string();
            self.console
                .complain(&format!("rejected: {}", kind.example));
        }
    }

    /// Shows a rejected record, and adds it to the file.
    pub(super) fn add(&mut self, rejected: &Rejected) -> Result<(), Error> {
        self.show(rejected);
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let line = match self.json {
            true => object(rejected).to_string(),
            false => printable(rejected.to_string().as_bytes()).into_owned(),
        };
        writeln!(file, "{line}").map_err(Error::io(path))
    }

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
        if self.has_option && self.file.is_none() && !others.is_empty() {
            self.console
                .complain("--rejected FILE writes all rejected records to a file");
        }
        Ok(())
    }
}

/// Refuses to add to what is no list: a link that leads to nothing, which may become the database, and a file that is
/// no text.
pub(super) fn ensure_is_list(path: &Path, place: &Path) -> Result<(), Error> {
    const LOOKED_AT: u64 = 4096;
    if let Some(error) = leads_nowhere(place) {
        return Err(error);
    }
    // What cannot be read cannot be told, and a pipe would wait.
    if !fs::metadata(place).is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    let Ok(file) = File::open(place) else {
        return Ok(());
    };
    let mut beginning = Vec::new();
    file.take(LOOKED_AT)
        .read_to_end(&mut beginning)
        .map_err(Error::io(path))?;
    let mut bytes = beginning.iter();
    let has_controls = bytes.any(|byte| !matches!(byte, b'\t' | b'\n' | b'\r' | b' '..));
    if beginning.starts_with(b"WARC/") || has_controls {
        let reason = "it is no list of rejected records, and such records are added to the end of the file: name another";
        return Err(Error::output(path, reason));
    }
    Ok(())
}

/// Opens an output that need not be a file. A pipe is opened only if somebody reads it already: whoever waits for a
/// reader hears no signal.
fn open_output(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(told_without_reader)?;
        // From here on writing waits for a slow reader, as it does elsewhere.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(file)
    }
    #[cfg(not(unix))]
    {
        options.open(path)
    }
}

/// Says what is meant by the error of a pipe that nobody reads, which the system calls a device.
#[cfg(unix)]
fn told_without_reader(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(rustix::io::Errno::NXIO.raw_os_error()) {
        return error;
    }
    let reason = "it is no file but a pipe that nobody reads, or a socket; give a file";
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Prints the line that stands for a rejected record among the answers.
pub(super) fn print(rejected: &Rejected, output: &mut Output) {
    if !rejected.is_input() {
        let line = format!("rejected: {}", rejected.reason);
        output.print_record(&object(rejected), &line);
    }
}

pub(super) fn object(rejected: &Rejected) -> Value {
    let mut object = json!({
        "key": null,
        "reason": rejected.reason.to_string(),
        "kind": rejected.reason.kind(),
        "line": rejected.line,
    });
    let source = rejected.path.as_os_str().as_encoded_bytes();
    add_name(&mut object, "source", source);
    match rejected.offset {
        Some(Offset::Stored(bytes)) => object["offset"] = bytes.into(),
        Some(Offset::Unpacked(bytes)) => object["unpacked_offset"] = bytes.into(),
        Some(Offset::Row(row)) => object["row"] = row.into(),
        _ => {}
    }
    object
}
