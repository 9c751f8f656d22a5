//! Inputs to raw records: opening, gzip and format by content, lines with their numbers. Hides how input is read.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};

/// How an input is cut into records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputFormat {
    /// By the name of the input, or else by how it begins: `.txt`, `.md`, `.html`, `.htm` and `.xhtml` are
    /// [`Text`](Self::Text); `.jsonl`, `.ndjson`, `.json` or a first character `{` is [`Jsonl`](Self::Jsonl); `.tsv`,
    /// or standard input whose first line has a tab, is [`Tsv`](Self::Tsv); everything else is [`Text`](Self::Text).
    #[default]
    Auto,
    /// A JSON object per line.
    Jsonl,
    /// A key, a tab and a text per line, without header; `\t`, `\n`, `\r` and `\\` stand for tab, line feed,
    /// carriage return and backslash.
    Tsv,
    /// A file is a document, and its path the key. HTML by the names `.html`, `.htm` and `.xhtml`.
    Text,
    /// A key, a tab and 16 hexadecimal digits per line.
    Fingerprints,
}

/// How inputs are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    pub(super) format: InputFormat,
    pub(super) max_record_bytes: usize,
    pub(super) key_field: Option<String>,
    pub(super) html_field: Option<String>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { format: InputFormat::Auto, max_record_bytes: 64 << 20, key_field: None, html_field: None }
    }
}

impl ReadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The format of all inputs. Default: [`InputFormat::Auto`].
    #[must_use]
    pub fn format(mut self, format: InputFormat) -> Self {
        self.format = format;
        self
    }

    /// The longest record, in bytes; a longer one is rejected without being held in memory. Default: 64 MiB.
    #[must_use]
    pub fn max_record_bytes(mut self, bytes: usize) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// The JSON field that names a document, instead of `key`, `id` and `url`. Default: none.
    #[must_use]
    pub fn key_field(mut self, name: impl Into<String>) -> Self {
        self.key_field = Some(name.into());
        self
    }

    /// A JSON field that is read as HTML, whatever its name says. Default: none but `html`.
    #[must_use]
    pub fn html_field(mut self, name: impl Into<String>) -> Self {
        self.html_field = Some(name.into());
        self
    }
}

/// A record as it stands in its input.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) path: Arc<Path>,
    /// From 1; `None` where the whole input is the record.
    pub(super) line: Option<u64>,
    /// Never [`InputFormat::Auto`].
    pub(super) format: InputFormat,
    pub(super) content: RawContent,
}

#[derive(Clone, Debug)]
pub(super) enum RawContent {
    Bytes(Vec<u8>),
    /// More than the longest record; so many bytes, or at least that many.
    TooLong(u64),
}

impl Raw {
    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            RawContent::Bytes(bytes) => bytes.len(),
            RawContent::TooLong(_) => 0,
        }
    }
}

/// The inputs that are left to read.
#[derive(Debug)]
pub(super) struct Inputs {
    waiting: VecDeque<PathBuf>,
    current: Option<Lines>,
    /// What ended the reading, to be told once the records before it have been taken.
    failed: Option<Error>,
    options: ReadOptions,
    progress: Progress,
}

/// How far reading has come. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// How many bytes were read, compressed ones counted as they are.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How many bytes there are in all, where that is known: not of standard input.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }
}

/// The name of standard input.
const STDIN: &str = "-";

impl Inputs {
    /// Checks that every input can be read, before any is.
    pub(super) fn open(paths: Vec<PathBuf>, options: ReadOptions) -> Result<Self> {
        if paths.iter().filter(|path| path.as_path() == Path::new(STDIN)).count() > 1 {
            return Err(Error::Input {
                source_name: STDIN.to_owned(),
                line: None,
                reason: "standard input can be read only once".to_owned(),
            });
        }
        let mut total = Some(0);
        for path in &paths {
            let bytes = if path == Path::new(STDIN) { None } else { readable_bytes(path)? };
            total = total.zip(bytes).map(|(total, bytes)| total + bytes);
        }
        let progress = Progress { read: Arc::default(), total };
        Ok(Self { waiting: paths.into(), current: None, failed: None, options, progress })
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(super) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The next records: as many as are at hand without waiting for more input, at least one, at most `limit` and
    /// about 4 MiB. None at the end.
    pub(super) fn next_chunk(&mut self, limit: usize) -> Result<Vec<Raw>> {
        const CHUNK_BYTES: usize = 4 << 20;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < limit && bytes < CHUNK_BYTES {
            let raw = match self.failed.take().map_or_else(|| self.next_raw(), Err) {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(error) if chunk.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            };
            bytes += raw.bytes();
            chunk.push(raw);
            if self.current.as_ref().is_some_and(Lines::would_wait) {
                break;
            }
        }
        Ok(chunk)
    }

    fn next_raw(&mut self) -> Result<Option<Raw>> {
        loop {
            if let Some(lines) = &mut self.current {
                if let Some(raw) = lines.next_raw()? {
                    return Ok(Some(raw));
                }
                self.current = None;
            }
            let Some(path) = self.waiting.pop_front() else { return Ok(None) };
            self.current = Some(Lines::open(&path, &self.options, &self.progress)?);
        }
    }
}

/// The size of a regular file that can be opened, `None` for a pipe and the like; or why it cannot be read.
fn readable_bytes(path: &Path) -> Result<Option<u64>> {
    let failed = |source| cannot_read(path, None, &source);
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::Input {
            source_name: path.display().to_string(),
            line: None,
            reason: "is a directory; name the files in it, for example with `DIRECTORY/*`".to_owned(),
        });
    }
    if !metadata.is_file() {
        // Opening a pipe and closing it again would end whoever writes to it.
        return Ok(None);
    }
    File::open(path).map_err(failed)?;
    Ok(Some(metadata.len()))
}

fn cannot_read(path: &Path, line: Option<u64>, source: &io::Error) -> Error {
    let reason = match (source.kind(), line) {
        (io::ErrorKind::NotFound, None) => "no such file".to_owned(),
        (_, None) => format!("cannot be read: {source}"),
        (_, Some(_)) => format!("cannot be read further: {source}"),
    };
    Error::Input { source_name: path.display().to_string(), line, reason }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("path", &self.path).field("lines", &self.lines).finish_non_exhaustive()
    }
}

/// One input, cut into records.
struct Lines {
    path: Arc<Path>,
    reader: BufReader<Box<dyn Read + Send>>,
    format: InputFormat,
    max_record_bytes: usize,
    lines: u64,
    ended: bool,
}

impl Lines {
    fn open(path: &Path, options: &ReadOptions, progress: &Progress) -> Result<Self> {
        let open = || -> io::Result<(Box<dyn Read + Send>, Vec<u8>)> {
            let file: Box<dyn Read + Send> =
                if path == Path::new(STDIN) { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
            let mut reader = decompressed(Counted { inner: file, read: progress.read.clone() })?;
            let beginning = read_beginning(&mut reader, |bytes| bytes.contains(&b'\n'))?;
            Ok((reader, beginning))
        };
        let (rest, beginning) = open().map_err(|source| cannot_read(path, None, &source))?;
        let format = match options.format {
            InputFormat::Auto => detect(path, &beginning)?,
            named => named,
        };
        let reader: Box<dyn Read + Send> =
            Box::new(Cursor::new(without_byte_order_mark(beginning)).chain(rest));
        Ok(Self {
            path: path.into(),
            reader: BufReader::with_capacity(256 << 10, reader),
            format,
            max_record_bytes: options.max_record_bytes,
            lines: 0,
            ended: false,
        })
    }

    fn next_raw(&mut self) -> Result<Option<Raw>> {
        let read = if self.ended {
            None
        } else if self.format == InputFormat::Text {
            self.ended = true;
            let content = self.read_all().map_err(|source| cannot_read(&self.path, None, &source))?;
            // An empty file is a document without words; nothing on standard input is no document.
            let is_nothing = matches!(&content, RawContent::Bytes(bytes) if bytes.is_empty());
            (!is_nothing || *self.path != *Path::new(STDIN)).then_some(content)
        } else {
            self.read_line().map_err(|source| cannot_read(&self.path, Some(self.lines + 1), &source))?
        };
        let line = (self.format != InputFormat::Text).then_some(self.lines);
        Ok(read.map(|content| Raw { path: self.path.clone(), line, format: self.format, content }))
    }

    /// Whether the next record is not at hand, so that reading it may wait.
    fn would_wait(&self) -> bool {
        !self.ended && self.reader.buffer().is_empty()
    }

    fn read_all(&mut self) -> io::Result<RawContent> {
        let mut bytes = Vec::new();
        let limit = self.max_record_bytes as u64;
        self.reader.by_ref().take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= limit {
            return Ok(RawContent::Bytes(bytes));
        }
        let rest = io::copy(&mut self.reader, &mut io::sink())?;
        Ok(RawContent::TooLong(bytes.len() as u64 + rest))
    }

    /// The next line that is not empty, without its end, or `None` at the end of the input.
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

    /// Reads one line and returns its length, line feed included. Of a line that is longer than the longest record and
    /// its end, nothing is kept.
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

/// What the input holds, unpacked if it begins as gzip does.
fn decompressed(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let beginning = read_beginning(&mut reader, |bytes| bytes.len() >= 2)?;
    let is_gzip = beginning.starts_with(&[0x1f, 0x8b]);
    let whole = Cursor::new(beginning).chain(reader);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, whole)))
    } else {
        Box::new(whole)
    })
}

/// Reads until `enough`, the end, or 64 KiB.
fn read_beginning(reader: &mut impl Read, enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < 64 << 10 && !enough(&bytes) {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn without_byte_order_mark(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    bytes
}

/// The format of an input that was not told.
fn detect(path: &Path, beginning: &[u8]) -> Result<InputFormat> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if beginning.starts_with(b"WARC/") || name.ends_with(".warc") || name.ends_with(".arc") {
        return Err(Error::Input {
            source_name: path.display().to_string(),
            line: None,
            reason:
                "is a web archive (WARC or ARC), which this release does not read; turn it into JSON Lines"
                    .to_owned(),
        });
    }
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    let first_line = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(if ends(&[".txt", ".md", ".html", ".htm", ".xhtml"]) {
        InputFormat::Text
    } else if ends(&[".jsonl", ".ndjson", ".json"]) || beginning.first() == Some(&b'{') {
        InputFormat::Jsonl
    } else if ends(&[".tsv"]) || (path == Path::new(STDIN) && first_line.contains(&b'\t')) {
        InputFormat::Tsv
    } else {
        InputFormat::Text
    })
}

/// Counts what is read through it.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
