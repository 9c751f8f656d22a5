//! One input, cut into raw records: lines with their numbers, or the whole input as one record.

use std::borrow::Cow;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, mem};

use super::format::InputFormat;
use super::opening::{Opened, OpenedFile, cannot_read, is_of_content, is_stdin, reason_of};
use super::options::ReadOptions;
use super::rejected::Offset;
use super::stamp::stamp_at_end;
use super::stored_bytes::Pipe;
use super::unpacked::{Packing, Unpacked};
use super::warc::{Cutter, WarcHeader, line_ends};
use crate::error::Result;
use crate::source::{Identity, Place, Reached, Sample, Stamp};

/// An open input. Cuts it into raw records.
pub(super) struct Input {
    origin: Arc<Origin>,
    reader: Unpacked,
    format: InputFormat,
    max_record_bytes: usize,
    /// The unpacked bytes that were used, as the reader counts them.
    used: u64,
    /// The lines and the records before the next one.
    lines: u64,
    records: u64,
    last: Sample,
    ended: bool,
    /// Whether a last line without a line end may become longer later.
    may_grow: bool,
    /// The mark before such a line, once it was read.
    last_line: Option<Mark>,
    /// Whether the next record was read before as such a line.
    is_again: bool,
    /// The pipe that it comes from, if it is known.
    pipe: Option<Pipe>,
    /// The file, if it is one.
    file: Option<OpenedFile>,
}

impl Input {
    /// An input that was opened at the place behind `mark`.
    pub(super) fn new(
        index: usize,
        path: &Path,
        opened: Opened,
        mark: Mark,
        options: &ReadOptions,
    ) -> Self {
        let Opened {
            content,
            format,
            first,
            length,
            offset,
            is_same: _,
            pipe,
            file,
        } = opened;
        let stamp = file.as_ref().map(|file| file.stamp);
        let is_of_rows = content.is_of_rows();
        Self {
            origin: Arc::new(Origin {
                index,
                path: path.into(),
                length,
                first,
                stamp,
            }),
            reader: content,
            format,
            max_record_bytes: options.max_record_bytes,
            // Of a corpus that is cleaned every byte counts, and none is read again.
            may_grow: length.is_some() && !options.numbered && !is_of_rows,
            last_line: None,
            is_again: false,
            used: offset,
            lines: mark.place.line,
            records: mark.place.records,
            last: mark.last,
            ended: false,
            pipe,
            file,
        }
    }

    /// The next record. Behind the last one the end, or why the input cannot be read further, and then `None`.
    pub(super) fn next_raw(&mut self) -> Option<Raw> {
        if self.ended {
            return None;
        }
        let before = self.mark();
        match self.read_next() {
            Ok((line, offset, Some(content))) => {
                self.records += 1;
                let is_again = mem::take(&mut self.is_again);
                Some(Raw {
                    is_again,
                    ..self.raw(line, offset, content)
                })
            }
            Ok((_, _, None)) => {
                self.end();
                Some(self.raw(None, None, RawContent::End))
            }
            Err(source) => {
                self.ended = true;
                let line = self.has_lines().then_some(before.place.line + 1);
                let reason = reason_of(line, &source);
                let failed = Failed {
                    reason,
                    is_lasting: is_of_content(&source),
                };
                Some(Raw {
                    mark: before,
                    ..self.raw(line, None, RawContent::Failed(failed))
                })
            }
        }
    }

    /// Reads the next record: its line, if it is one, and where it begins, if it is not.
    fn read_next(&mut self) -> io::Result<(Option<u64>, Option<Offset>, Option<RawContent>)> {
        Ok(match self.format {
            InputFormat::Text => (None, None, self.read_all()?),
            InputFormat::Warc => {
                let (content, offset) = self.read_warc()?.unzip();
                (None, offset, content)
            }
            _ => {
                let content = self.read_line()?;
                (Some(self.lines), None, content)
            }
        })
    }

    fn raw(&mut self, line: Option<u64>, offset: Option<Offset>, content: RawContent) -> Raw {
        let mark = self.last_line.unwrap_or_else(|| self.mark());
        let is_last_line = self.last_line.is_some() && !matches!(content, RawContent::End);
        Raw {
            line,
            offset,
            is_last_line,
            ..Raw::new(self.origin.clone(), self.format, content, mark)
        }
    }

    /// The next record was read before, as a last line without a line end.
    pub(super) fn set_again(&mut self) {
        self.is_again = true;
    }

    fn has_lines(&self) -> bool {
        !matches!(self.format, InputFormat::Text | InputFormat::Warc)
    }

    /// The place behind what was used.
    fn mark(&mut self) -> Mark {
        let (raw_offset, skip) = self.reader.place_of(self.used);
        let place = Place {
            raw_offset,
            skip,
            line: self.lines,
            records: self.records,
        };
        Mark {
            place,
            last: self.last,
        }
    }

    /// Notes that the input has ended, its length, and by what it is known again.
    fn end(&mut self) {
        self.ended = true;
        if self.origin.length.is_some() {
            let Origin {
                index,
                ref path,
                first,
                ..
            } = *self.origin;
            let length = self.reader.stored_offset();
            let stamp = match &self.file {
                Some(file) => stamp_at_end(&file.file, length, file.stamp, &file.whole),
                None => None,
            };
            self.origin = Arc::new(Origin {
                index,
                path: path.clone(),
                first,
                length: Some(length),
                stamp,
            });
        }
    }

    /// How the input is cut into records, and how it is packed.
    pub(super) fn kind(&self) -> (InputFormat, Packing) {
        (self.format, self.reader.packing())
    }

    /// The line of the next record. In a web archive, its number among the records.
    pub(super) fn next_number(&self) -> u64 {
        if self.format == InputFormat::Warc {
            self.records + 1
        } else {
            self.lines + 1
        }
    }

    /// The place before the next record.
    pub(super) fn place(&mut self) -> Place {
        self.mark().place
    }

    /// Whether a byte order mark was passed over before the next record.
    pub(super) fn is_behind_byte_order_mark(&self) -> bool {
        self.used == 3 && self.lines == 0 && self.records == 0
    }

    /// Copies the next line as it is, or the next record of a web archive with the empty lines around it. False at the
    /// end of the input. A line or record may have any length.
    pub(super) fn copy_next(&mut self, to: &mut dyn Write) -> Result<bool> {
        let line = (self.format != InputFormat::Warc).then_some(self.lines + 1);
        let copied = match line {
            Some(_) => self.copy_line(to),
            None => self.copy_warc(to),
        };
        copied.map_err(|source| cannot_read(&self.origin.path, line, &source))
    }

    fn copy_line(&mut self, to: &mut dyn Write) -> io::Result<bool> {
        let mut has_any = false;
        loop {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let found = memchr::memchr(b'\n', buffer);
            let used = found.map_or(buffer.len(), |at| at + 1);
            to.write_all(&buffer[..used])?;
            self.reader.consume(used);
            self.used += used as u64;
            has_any |= used > 0;
            if used == 0 || found.is_some() {
                self.lines += u64::from(has_any);
                return Ok(has_any);
            }
        }
    }

    fn copy_warc(&mut self, to: &mut dyn Write) -> io::Result<bool> {
        let mut cutter = Cutter::new(&mut self.reader, self.max_record_bytes, Some(to));
        let cut = cutter.next_record()?;
        // The empty lines behind a record belong to it. What else is behind is met again.
        let behind = cutter.pass_over_blank_lines();
        if self.reader.failure().is_none() {
            behind?;
        }
        self.used = self.reader.offset();
        self.records += u64::from(cut.is_some());
        Ok(cut.is_some())
    }

    /// Whether reading the next record may have to wait for whoever writes the input, because not all of it is here.
    pub(super) fn would_wait(&self) -> bool {
        if self.ended || self.origin.length.is_some() {
            return false;
        }
        let here = self.reader.buffered();
        let has_record = match self.format {
            InputFormat::Text => false,
            InputFormat::Warc => holds_warc_record(here),
            _ => memchr::memchr(b'\n', here).is_some(),
        };
        !has_record && !self.pipe.as_ref().is_some_and(Pipe::holds_much)
    }

    /// Reads the whole input as one record. `None` if there is no document, and after the first time.
    fn read_all(&mut self) -> io::Result<Option<RawContent>> {
        if self.records > 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let limit = self.max_record_bytes as u64;
        self.reader
            .by_ref()
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        self.used += bytes.len() as u64;
        self.last = Sample::last_of(&bytes);
        if bytes.len() as u64 > limit {
            let rest = io::copy(&mut self.reader, &mut io::sink())?;
            self.used += rest;
            self.last = Sample::default();
            return Ok(Some(RawContent::TooLong(bytes.len() as u64 + rest)));
        }
        // An empty file is a document without words. Empty standard input is no document.
        let is_nothing = bytes.is_empty() && is_stdin(&self.origin.path);
        Ok((!is_nothing).then_some(RawContent::Bytes(bytes)))
    }

    /// Reads the next record of a web archive, and where it begins.
    fn read_warc(&mut self) -> io::Result<Option<(RawContent, Offset)>> {
        let mut cutter = Cutter::new(&mut self.reader, self.max_record_bytes, None);
        let Some(cut) = cutter.next_record()? else {
            return Ok(None);
        };
        let offset = match (cut.damage, self.reader.part_of(cut.at)) {
            (Some(stored), _) | (None, (stored, 0)) => Offset::Stored(stored),
            (None, (_, unpacked)) => Offset::Unpacked(unpacked),
        };
        self.used = self.reader.offset();
        // Its place is known again by the part of the archive, or by what is before it in the archive.
        self.last = Sample::default();
        Ok(Some((cut.content, offset)))
    }

    /// Reads the next line that is not empty, without its line end. `None` at the end of the input.
    fn read_line(&mut self) -> io::Result<Option<RawContent>> {
        loop {
            let mut line = Vec::new();
            let (length, has_end) = self.read_until_line_feed(&mut line)?;
            if length == 0 {
                return Ok(None);
            }
            if !has_end && self.may_grow {
                self.last_line = Some(self.mark());
            }
            self.lines += 1;
            self.used += length;
            self.last = Sample::last_of(&line);
            if line.is_empty() {
                return Ok(Some(RawContent::TooLong(length)));
            }
            while line
                .last()
                .is_some_and(|&last| last == b'\n' || last == b'\r')
            {
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

    /// Reads one line and returns its length with the line feed, and whether it has one. If the line is too long to be
    /// a record, `line` is left empty.
    fn read_until_line_feed(&mut self, line: &mut Vec<u8>) -> io::Result<(u64, bool)> {
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
                return Ok((length, found.is_some()));
            }
        }
    }
}

/// Whether bytes hold a whole record of a web archive, and the beginning of what is behind it.
fn holds_warc_record(bytes: &[u8]) -> bool {
    let (header, body) = WarcHeader::split(&bytes[line_ends(bytes)..]);
    header
        .length()
        .is_some_and(|length| body.len() as u64 > length)
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("path", &self.origin.path)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

/// A record as it was read, and where it is in its input.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) input: Arc<Origin>,
    /// From 1; `None` where the whole input is the record.
    pub(super) line: Option<u64>,
    /// Where it begins, if it is not a line.
    pub(super) offset: Option<Offset>,
    /// Never [`InputFormat::Auto`].
    pub(super) format: InputFormat,
    pub(super) content: RawContent,
    /// Where the input goes on behind it. Of a last line without a line end, the place before it.
    pub(super) mark: Mark,
    /// Whether it is the last line of a file, and has no line end. Perhaps it is not written to its end yet.
    pub(super) is_last_line: bool,
    /// Whether it was read before, when it was such a line.
    pub(super) is_again: bool,
}

#[derive(Clone, Debug)]
pub(super) enum RawContent {
    Bytes(Vec<u8>),
    /// The record is longer than the longest allowed. This is its length in bytes, with its line end or
    /// without it.
    TooLong(u64),
    /// No document, such as the request in a web archive.
    PassedOver,
    /// Something that cannot be read as a record, and why.
    Broken(Cow<'static, str>),
    /// No record, but the input cannot be read, or not further. The input has ended.
    Failed(Failed),
    /// No record, but the end of the input.
    End,
}

/// Why an input cannot be read, or not further.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) reason: String,
    /// Whether the reason is in the content, so that reading the same content again would fail again.
    pub(super) is_lasting: bool,
}

/// The input that a record comes from.
#[derive(Debug)]
pub(super) struct Origin {
    /// Its index among the inputs.
    pub(super) index: usize,
    pub(super) path: Arc<Path>,
    /// The length of the input as it is stored. `None` if it is not known.
    length: Option<u64>,
    /// Its first bytes.
    first: Sample,
    /// By what it is known again as it is stored. `None` if it is no file.
    stamp: Option<Stamp>,
}

impl Origin {
    /// By what it is known again, once it was read up to a mark.
    pub(super) fn identity_at(&self, mark: Mark) -> Identity {
        Identity {
            length: self.length,
            first: self.first,
            last: mark.last,
            stamp: self.stamp,
        }
    }
}

/// A place behind a record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) place: Place,
    /// The last bytes of the record before it.
    pub(super) last: Sample,
}

impl Raw {
    /// A record of line 7 of an input called `in`.
    #[cfg(test)]
    pub(super) fn of_line_7(format: InputFormat, content: RawContent) -> Self {
        let input = Origin {
            index: 0,
            path: Path::new("in").into(),
            length: None,
            first: Sample::default(),
            stamp: None,
        };
        let (line, mark) = (Some(7), Mark::default());
        Self {
            line,
            ..Self::new(Arc::new(input), format, content, mark)
        }
    }

    /// The memory that the content takes (bytes).
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            RawContent::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// What stands for an input that cannot be opened.
    pub(super) fn of_failed(index: usize, path: &Path, failed: Failed) -> Self {
        let input = Origin {
            index,
            path: path.into(),
            length: None,
            first: Sample::default(),
            stamp: None,
        };
        let content = RawContent::Failed(failed);
        let (format, mark) = (InputFormat::Text, Mark::default());
        Self::new(Arc::new(input), format, content, mark)
    }

    pub(super) fn new(
        input: Arc<Origin>,
        format: InputFormat,
        content: RawContent,
        mark: Mark,
    ) -> Self {
        let (line, offset) = (None, None);
        Self {
            input,
            line,
            offset,
            format,
            content,
            mark,
            is_last_line: false,
            is_again: false,
        }
    }

    /// How far its source, of this name, has been read behind it.
    pub(super) fn reached(&self, name: Arc<[u8]>) -> Reached {
        let identity = self.input.identity_at(self.mark);
        Reached::new(name, self.mark.place, identity, self.is_end())
    }

    /// Whether the content ends within a character of UTF-8.
    pub(super) fn ends_in_character(&self) -> bool {
        let RawContent::Bytes(bytes) = &self.content else {
            return false;
        };
        std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.content, RawContent::Failed(_))
    }

    /// Whether it would fail again as long as the content is the same.
    pub(super) fn has_failed_for_good(&self) -> bool {
        matches!(&self.content, RawContent::Failed(failed) if failed.is_lasting)
    }

    pub(super) fn is_end(&self) -> bool {
        matches!(self.content, RawContent::End)
    }
}
