//! The lines of an input, packed with gzip or zstd or not, read on another thread. So a command that waits for standard
//! input can still be ended.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::ingest::unpacked;

/// More than the longest document takes, with every character escaped.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// The least that is handed over at a time.
const HANDED_BYTES: usize = 1 << 18;
/// How often somebody who waits looks whether the command is to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Some lines, or why the next cannot be read.
type Part = Vec<Result<String, String>>;

/// Reads lines that are not blank, and counts all.
pub(super) struct Lines {
    name: String,
    parts: Receiver<Part>,
    part: std::vec::IntoIter<Result<String, String>>,
    line: u64,
    is_ended: Box<dyn Fn() -> bool>,
}

impl Lines {
    /// Opens an input; `-` is standard input. While it waits for a line it asks whether the command is to end.
    pub(super) fn open(path: &Path, is_ended: impl Fn() -> bool + 'static) -> Result<Self, Error> {
        let failed = Error::io(path);
        let input = match path.as_os_str() == "-" {
            true => Input::Standard,
            false if path.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
            // To open a pipe is to wait for whoever writes to it.
            false if fs::metadata(path).map_err(&failed)?.is_file() => {
                Input::File(File::open(path).map_err(&failed)?)
            }
            false => Input::Pipe(path.to_owned()),
        };
        let (send, parts) = sync_channel(4);
        // The thread is not joined. It may wait for its input for ever.
        let thread = thread::Builder::new().spawn(move || read(input, &send));
        thread.map_err(Error::no_thread)?;
        Ok(Self {
            name: path.display().to_string(),
            parts,
            part: Vec::new().into_iter(),
            line: 0,
            is_ended: Box::new(is_ended),
        })
    }

    /// The next line that is not blank. `None` at the end.
    pub(super) fn next(&mut self) -> Option<Result<String, Error>> {
        loop {
            let Some(line) = self.part.next() else {
                match self.parts.recv_timeout(PATIENCE) {
                    Ok(part) => self.part = part.into_iter(),
                    Err(RecvTimeoutError::Disconnected) => {
                        // What is missing is missing in the line after the last.
                        self.line += 1;
                        return None;
                    }
                    Err(RecvTimeoutError::Timeout) if (self.is_ended)() => {
                        return Some(Err(Error::Interrupted));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                continue;
            };
            self.line += 1;
            match line {
                Ok(line) if line.trim_ascii().is_empty() => {}
                Ok(line) => return Some(Ok(line)),
                Err(reason) => return Some(Err(self.failed(&reason))),
            }
        }
    }

    /// An error about the line that was read last.
    pub(super) fn failed(&self, reason: &str) -> Error {
        Error::Input {
            source_name: self.name.clone(),
            line: Some(self.line),
            reason: reason.to_owned(),
        }
    }
}

/// Where lines come from.
enum Input {
    Standard,
    File(File),
    Pipe(PathBuf),
}

impl Input {
    fn open(self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Standard => Box::new(io::stdin()),
            Self::File(file) => Box::new(file),
            Self::Pipe(path) => Box::new(File::open(path)?),
        })
    }
}

/// Reads all lines, or those before an error, and hands them over.
fn read(input: Input, send: &SyncSender<Part>) {
    let mut input = match input.open().and_then(unpacked) {
        Ok(input) => BufReader::with_capacity(1 << 20, input),
        Err(error) => return drop(send.send(vec![Err(error.to_string())])),
    };
    let mut part = Part::new();
    let mut bytes = 0;
    loop {
        let line = next_line(&mut input);
        let is_last = !matches!(line, Some(Ok(_)));
        if let Some(Ok(line)) = &line {
            bytes += line.len();
        }
        part.extend(line);
        if is_last || bytes >= HANDED_BYTES {
            bytes = 0;
            if send.send(std::mem::take(&mut part)).is_err() || is_last {
                return;
            }
        }
    }
}

fn next_line(input: &mut impl BufRead) -> Option<Result<String, String>> {
    let mut line = String::new();
    match input.take(MAX_LINE_BYTES).read_line(&mut line) {
        Ok(0) => None,
        Ok(length) if length as u64 == MAX_LINE_BYTES => {
            Some(Err("it is longer than any document".to_owned()))
        }
        Ok(_) => Some(Ok(line)),
        Err(error) => Some(Err(error.to_string())),
    }
}
