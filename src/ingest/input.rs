//! One input, cut into raw records: lines with their numbers, or the whole input as one record.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::format::InputFormat;
use super::opening::{StandardInput, cannot_read, is_stdin, open};
use super::options::ReadOptions;
use super::progress::Progress;
use super::raw::{Raw, RawContent};
use crate::error::Result;

/// An open input. Cuts it into raw records.
pub(super) struct Input {
    path: Arc<Path>,
    reader: BufReader<Box<dyn Read + Send>>,
    format: InputFormat,
    max_record_bytes: usize,
    lines: u64,
    ended: bool,
}

impl Input {
    pub(super) fn open(
        path: &Path,
        stdin: impl FnOnce() -> StandardInput,
        options: &ReadOptions,
        progress: &Progress,
    ) -> Result<Self> {
        let (reader, format) = open(path, stdin, options, progress)?;
        Ok(Self {
            path: path.into(),
            reader: BufReader::with_capacity(256 << 10, reader),
            format,
            max_record_bytes: options.max_record_bytes,
            lines: 0,
            ended: false,
        })
    }

    pub(super) fn next_raw(&mut self) -> Result<Option<Raw>> {
        if self.ended {
            return Ok(None);
        }
        let (line, content) = if self.format == InputFormat::Text {
            (None, self.read_all().map_err(|source| cannot_read(&self.path, None, &source))?)
        } else {
            let content =
                self.read_line().map_err(|source| cannot_read(&self.path, Some(self.lines + 1), &source))?;
            (Some(self.lines), content)
        };
        Ok(content.map(|content| Raw { path: self.path.clone(), line, format: self.format, content }))
    }

    /// Whether reading the next record may have to wait, because none of it has been read yet.
    pub(super) fn would_wait(&self) -> bool {
        !self.ended && self.reader.buffer().is_empty()
    }

    /// Reads the whole input as one record. `None` if there is no document.
    fn read_all(&mut self) -> io::Result<Option<RawContent>> {
        self.ended = true;
        let mut bytes = Vec::new();
        let limit = self.max_record_bytes as u64;
        self.reader.by_ref().take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            let rest = io::copy(&mut self.reader, &mut io::sink())?;
            return Ok(Some(RawContent::TooLong(bytes.len() as u64 + rest)));
        }
        // An empty file is a document without words. Empty standard input is no document.
        let is_nothing = bytes.is_empty() && is_stdin(&self.path);
        Ok((!is_nothing).then_some(RawContent::Bytes(bytes)))
    }

    /// Reads the next line that is not empty, without its line end. `None` at the end of the input.
    fn read_line(&mut self) -> io::Result<Option<RawContent>> {
        loop {
            let mut line = Vec::new();
            let length = self.read_until_line_feed(&mut line)?;
            if length == 0 {
                self.ended = true;
                return Ok(None);
            }
            self.lines += 1;
            if line.is_empty() {
                return Ok(Some(RawContent::TooLong(length)));
            }
            while line.last().is_some_and(|&last| last == b'\n' || last == b'\r') {
                line.pop();
            }
            if line.len() > self.max_record_bytes {
                return Ok(Some(RawContent::TooLong(line.len() as u64)));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(RawContent::Bytes(line)));
            }
        }
    }

    /// Reads one line and returns its length with the line feed. If the line is too long to be a record,
    /// `line` is left empty.
    fn read_until_line_feed(&mut self, line: &mut Vec<u8>) -> io::Result<u64> {
        let most = (self.max_record_bytes as u64).saturating_add(2);
        let mut length = 0;
        loop {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let found = memchr::memchr(b'\n', buffer);
            let used = found.map_or(buffer.len(), |at| at + 1);
            length += used as u64;
            if length <= most {
                line.extend_from_slice(&buffer[..used]);
            } else {
                *line = Vec::new();
            }
            self.reader.consume(used);
            if used == 0 || found.is_some() {
                return Ok(length);
            }
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("path", &self.path).field("lines", &self.lines).finish_non_exhaustive()
    }
}
