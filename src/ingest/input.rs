//! One input, cut into raw records: lines with their numbers, or the whole input as one record.

use std::borrow::Cow;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, mem};

use super::format::{Cut, InputFormat};
use super::numbered_key::RecordId;
use super::opening::{Opened, cannot_read, failed, open};
use super::options::ReadOptions;
use super::rejected::{Offset, Reason, Rejected};
use super::stored_bytes::{Progress, Stored};
use super::unpacked::Packing;
use super::warc;
use crate::error::Result;
use crate::source::{Identity, Place, Reached, Sample, SourceRecord};

/// An open input. Cuts it into raw records.
pub(crate) struct Input {
    origin: Arc<Origin>,
    /// The input, and the place up to which it was used.
    opened: Opened,
    max_record_bytes: usize,
    /// The lines and the records before the next one.
    lines: u64,
    records: u64,
    last: Sample,
    ended: bool,
    /// Whether a last line without a line end, or a last record of a web archive that was cut, may become longer later.
    may_grow: bool,
    /// The mark before it, once it was read.
    last_line: Option<Mark>,
    /// What became of the next record if it was read before as such a line.
    again: Again,
}

/// What became of a record that was read before as a last line without a line end, and is read once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Again {
    /// It is read for the first time.
    #[default]
    No,
    /// It was stored under its key, and not counted in another document.
    Stored,
    /// It was counted in the document that it was near to, or some of its units were.
    Counted,
}

/// The place behind what was read of an input before, and by what the input is known again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behind {
    pub(super) place: Place,
    pub(super) identity: Identity,
    /// What became of the record there, if that was read too, as a last line without a line end.
    pub(super) again: Again,
}

/// A place behind a record.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    place: Place,
    /// The last bytes of the record before it.
    last: Sample,
}

impl Input {
    /// Opens an input at its beginning, or behind what was read before. Reads `stdin` in place of the standard input of
    /// the process.
    pub(super) fn open(
        index: usize,
        path: &Path,
        options: &ReadOptions,
        progress: &Progress,
        stdin: Option<Stored>,
        behind: Option<Behind>,
    ) -> Result<Self> {
        let opened = open(path, options, progress, stdin, behind)?;
        let Behind {
            place,
            identity,
            again,
        } = behind.unwrap_or_default();
        let origin = Origin {
            index,
            path: path.into(),
            identity: opened.identity(),
            is_of_rows: opened.content.packing().is_of_rows(),
        };
        let is_read_again = options.source_name.is_some() || origin.is_file();
        // Of a corpus that is cleaned every byte counts, and none is read again.
        let may_grow = is_read_again && !options.numbered && !origin.is_of_rows;
        Ok(Self {
            origin: Arc::new(origin),
            opened,
            max_record_bytes: options.max_record_bytes,
            may_grow,
            last_line: None,
            again,
            lines: place.line,
            records: place.records,
            last: identity.last,
            ended: false,
        })
    }

    /// The next record. Behind the last one the end, or why the input cannot be read further, and then `None`.
    pub(super) fn next_raw(&mut self) -> Option<Raw> {
        if self.ended {
            return None;
        }
        let before = self.mark();
        Some(match self.read_next() {
            Ok((line, offset, Some(content))) => {
                self.records += 1;
                let mark = self.last_line.unwrap_or_else(|| self.mark());
                self.raw(mark, line, offset, content)
            }
            Ok((_, _, None)) => {
                self.end();
                let mark = self.last_line.unwrap_or_else(|| self.mark());
                self.raw(mark, None, None, RawContent::End)
            }
            Err(source) => {
                self.ended = true;
                let has_lines = self.opened.format.cut() == Cut::Line;
                let line = has_lines.then_some(before.place.line + 1);
                let content = failed(line, &source);
                self.raw(before, line, None, content)
            }
        })
    }

    /// Reads the next record: its line, if it is one, and where it begins, if it is not.
    fn read_next(&mut self) -> io::Result<(Option<u64>, Option<Offset>, Option<RawContent>)> {
        Ok(match self.opened.format.cut() {
            Cut::File => (None, None, self.read_all()?),
            Cut::Archive => {
                let (content, offset) = self.read_warc()?.unzip();
                (None, offset, content)
            }
            Cut::Line => {
                let content = self.read_line()?;
                (Some(self.lines), None, content)
            }
        })
    }

    fn raw(
        &mut self,
        mark: Mark,
        line: Option<u64>,
        offset: Option<Offset>,
        content: RawContent,
    ) -> Raw {
        let position = Position {
            input: self.origin.clone(),
            line,
            offset,
            mark,
            is_last_line: self.last_line.is_some(),
            again: mem::take(&mut self.again),
        };
        Raw {
            position,
            format: self.opened.format,
            content,
        }
    }

    /// The place behind what was used.
    fn mark(&mut self) -> Mark {
        let content = &mut self.opened.content;
        let (mut raw_offset, mut skip) = content.part_of(self.opened.offset);
        // What can be read only once has no part to begin with.
        if content.packing() != Packing::None && !self.origin.is_file() {
            raw_offset = 0;
            skip = self.opened.offset;
        }
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
        if self.origin.is_file() {
            let mut origin = Origin::clone(&self.origin);
            origin.identity = self.opened.identity_at_end();
            self.origin = Arc::new(origin);
        }
    }

    /// How the input is cut into records, and how it is packed.
    pub(super) fn kind(&self) -> (InputFormat, Packing) {
        (self.opened.format, self.opened.content.packing())
    }

    /// The line of the next record. In a web archive, its number among the records.
    pub(crate) fn next_number(&self) -> u64 {
        match self.opened.format.cut() {
            Cut::Archive => self.records + 1,
            Cut::Line | Cut::File => self.lines + 1,
        }
    }

    pub(crate) fn max_record_bytes(&self) -> usize {
        self.max_record_bytes
    }

    /// The place before the next record.
    pub(crate) fn place(&mut self) -> Place {
        self.mark().place
    }

    /// Whether a byte order mark was passed over before the next record.
    pub(crate) fn is_behind_byte_order_mark(&self) -> bool {
        self.opened.offset == 3 && self.lines == 0 && self.records == 0
    }

    /// Copies the next line as it is, or the next record of a web archive with the empty lines around it. False at the
    /// end of the input. A line or record may have any length.
    pub(crate) fn copy_next(&mut self, to: &mut dyn Write) -> Result<bool> {
        let line = (self.opened.format.cut() != Cut::Archive).then_some(self.lines + 1);
        let copied = match line {
            Some(_) => self.copy_line(to),
            None => self.copy_warc(to),
        };
        copied.map_err(|source| cannot_read(&self.origin.path, line, &source))
    }

    fn copy_line(&mut self, to: &mut dyn Write) -> io::Result<bool> {
        let (length, _) = self.each_piece_of_line(|piece| to.write_all(piece))?;
        self.opened.offset += length;
        self.lines += u64::from(length > 0);
        Ok(length > 0)
    }

    fn copy_warc(&mut self, to: &mut dyn Write) -> io::Result<bool> {
        let opened = &mut self.opened;
        let first = &mut opened.first_records;
        let has_any = warc::copy_record(&mut opened.content, first, self.max_record_bytes, to)?;
        opened.offset = opened.content.offset();
        self.records += u64::from(has_any);
        Ok(has_any)
    }

    /// Whether reading the next record may have to wait for whoever writes the input, because not all of it is here.
    pub(super) fn would_wait(&self) -> bool {
        if self.ended || self.origin.is_file() {
            return false;
        }
        let here = self.opened.content.buffered();
        let has_record = match self.opened.format.cut() {
            Cut::File => false,
            Cut::Archive => warc::holds_record(here),
            Cut::Line => memchr::memchr(b'\n', here).is_some(),
        };
        !has_record && !self.opened.holds_much()
    }

    /// Reads the whole input as one record. `None` if there is no document, and after the first time.
    fn read_all(&mut self) -> io::Result<Option<RawContent>> {
        if self.records > 0 {
            // Files are compared before. What is no file is known once it comes.
            return match self.opened.content.look(1)?.is_empty() {
                true => Ok(None),
                false => Err(io::Error::other(
                    "it is one document, and has become longer; `--restart` reads it from its beginning",
                )),
            };
        }
        let mut bytes = Vec::new();
        let limit = self.max_record_bytes as u64;
        self.opened
            .content
            .by_ref()
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        self.opened.offset += bytes.len() as u64;
        self.last = Sample::last_of(&bytes);
        if bytes.len() as u64 > limit {
            let rest = io::copy(&mut self.opened.content, &mut io::sink())?;
            self.opened.offset += rest;
            self.last = Sample::default();
            return Ok(Some(RawContent::TooLong(bytes.len() as u64 + rest)));
        }
        // An empty file is a document without words. An empty stream is no document.
        let is_nothing = bytes.is_empty() && !self.origin.is_file();
        Ok((!is_nothing).then_some(RawContent::Bytes(bytes)))
    }

    /// Reads the next record of a web archive, and where it begins.
    fn read_warc(&mut self) -> io::Result<Option<(RawContent, Offset)>> {
        let before = self.mark();
        let opened = &mut self.opened;
        let first = &mut opened.first_records;
        let next = warc::next_record(&mut opened.content, first, self.max_record_bytes)?;
        if let Some((record, _)) = &next {
            if self.may_grow && warc::may_be_cut(record, &mut opened.content) {
                self.last_line = Some(before);
            }
            opened.offset = opened.content.offset();
            // Its place is known again by the part of the archive, or by what is before it in the archive.
            self.last = Sample::default();
        }
        Ok(next)
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
            self.opened.offset += length;
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
        self.each_piece_of_line(|piece| {
            length += piece.len() as u64;
            match length <= most {
                true => line.extend_from_slice(piece),
                false => *line = Vec::new(),
            }
            Ok(())
        })
    }

    /// Gives the next line in pieces. Returns its length with the line feed, and whether it has one.
    fn each_piece_of_line(
        &mut self,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<(u64, bool)> {
        let mut length = 0;
        loop {
            let buffer = match self.opened.content.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let found = memchr::memchr(b'\n', buffer);
            let used = found.map_or(buffer.len(), |at| at + 1);
            take(&buffer[..used])?;
            self.opened.content.consume(used);
            length += used as u64;
            if used == 0 || found.is_some() {
                return Ok((length, found.is_some()));
            }
        }
    }
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
    pub(super) position: Position,
    /// Never [`InputFormat::Auto`].
    pub(super) format: InputFormat,
    pub(super) content: RawContent,
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
    Failed {
        reason: String,
        /// Whether the reason is in the content, so that reading the same content again would fail again.
        is_lasting: bool,
    },
    /// No record, but the end of the input.
    End,
}

impl Raw {
    /// What stands for an input that cannot be opened, or a record of line 7 in a test.
    pub(super) fn new(
        index: usize,
        path: &Path,
        line: Option<u64>,
        format: InputFormat,
        content: RawContent,
    ) -> Self {
        let origin = Origin {
            index,
            path: path.into(),
            identity: Identity::default(),
            is_of_rows: false,
        };
        let position = Position {
            input: Arc::new(origin),
            line,
            offset: None,
            mark: Mark::default(),
            is_last_line: false,
            again: Again::No,
        };
        Self {
            position,
            format,
            content,
        }
    }
}

/// The input that a record comes from.
#[derive(Clone, Debug)]
struct Origin {
    /// Its index among the inputs.
    index: usize,
    path: Arc<Path>,
    /// By what it is known again, apart from the last bytes that were read.
    identity: Identity,
    /// Whether it is a Parquet file, whose rows are its lines.
    is_of_rows: bool,
}

impl Origin {
    /// Whether it is a file, which can be read again.
    fn is_file(&self) -> bool {
        self.identity.length.is_some()
    }
}

/// Where a record is, and the place behind it.
#[derive(Clone, Debug)]
pub(super) struct Position {
    input: Arc<Origin>,
    /// From 1; `None` where the whole input is the record.
    line: Option<u64>,
    /// Where it begins, if it is not a line.
    offset: Option<Offset>,
    /// Where the input goes on behind it. Of a last line without a line end, the place before it.
    mark: Mark,
    /// Whether it is the last line of a file, and has no line end. Perhaps it is not written to its end yet.
    pub(super) is_last_line: bool,
    /// What became of it if it was read before, when it was such a line.
    pub(super) again: Again,
}

impl Position {
    pub(super) fn index(&self) -> usize {
        self.input.index
    }

    pub(super) fn path(&self) -> &Arc<Path> {
        &self.input.path
    }

    /// Whether it is a row of a Parquet file.
    pub(super) fn is_row(&self) -> bool {
        self.input.is_of_rows
    }

    /// The input, and the line of the record or its number among the records.
    pub(super) fn id(&self) -> RecordId {
        RecordId {
            input: self.input.index as u32,
            number: self.line.unwrap_or(self.mark.place.records),
        }
    }

    /// The number of the record, from 1, among all of its input. A last line without a line end has the number that it
    /// has when it is read again.
    pub(super) fn number(&self) -> u64 {
        self.mark.place.records + u64::from(self.is_last_line)
    }

    /// By what the input is known again, once it was read up to here.
    fn identity(&self) -> Identity {
        Identity {
            last: self.mark.last,
            ..self.input.identity
        }
    }

    /// Notes in the record of the source that it was read up to here.
    pub(super) fn note_in(&self, record: &mut SourceRecord) {
        record.place = self.mark.place;
        record.identity = self.identity();
    }

    /// How far the source, of this name, has been read behind the record.
    pub(super) fn reached(&self, name: Arc<[u8]>, ended: bool) -> Reached {
        Reached::new(name, self.mark.place, self.identity(), ended)
    }

    /// That the record cannot be taken. `id` is its place, if the inputs are read with numbers.
    pub(super) fn rejected(&self, reason: Reason, id: Option<RecordId>) -> Rejected {
        let (line, offset) = match self.line {
            Some(row) if self.is_row() => (None, Some(Offset::Row(row))),
            line => (line, self.offset),
        };
        Rejected {
            path: self.input.path.clone(),
            line,
            offset,
            reason,
            id: id.map(Box::new),
        }
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        let Self { line, offset, .. } = self;
        self.input.path == other.input.path && *line == other.line && *offset == other.offset
    }
}
