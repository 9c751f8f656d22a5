//! Rows of a Parquet file as lines of JSON, as which they are ingested.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;

use super::inputs::{Batches, bytes, names_of, open, refused, seconds, whole};
use crate::error::{Error, Result};

/// How every Parquet file begins.
const MAGIC: &[u8] = b"PAR1";
/// The rows that are turned into lines together. Each may be a page of a megabyte.
const TOGETHER: usize = 64;

/// The rows of a file, a line of JSON for each, with some of its columns. Texts, whole numbers and times are written.
/// Columns of other types, and values that are null, are left out. What is not UTF-8 is written as it is.
pub(crate) struct RowLines {
    batches: Batches,
    lines: Vec<u8>,
    used: usize,
    /// Called with the bytes of the file that were read since it was called before.
    read: Box<dyn FnMut(u64) + Send>,
    rows: u64,
    all_rows: u64,
    reported: u64,
    all_bytes: u64,
}

impl RowLines {
    /// The rows of a file with the columns for which there is a use. A file is refused if no row could be a document,
    /// since no column holds the text, or since those that hold it or the keys are of types that are not read.
    pub(crate) fn open(
        path: &Path,
        use_of: impl Fn(&str) -> Option<Use>,
        read: impl FnMut(u64) + Send + 'static,
    ) -> Result<Self> {
        let builder = open(path)?;
        ensure_readable(builder.schema(), &use_of).map_err(refused(path))?;
        let mut wanted = Vec::new();
        for (index, field) in builder.schema().fields().iter().enumerate() {
            if use_of(field.name()).is_some() {
                wanted.push(index);
            }
        }
        let columns = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let metadata = builder.metadata();
        let all_rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
        let all_bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let batches = Batches::new(
            path,
            builder.with_projection(columns).with_batch_size(TOGETHER),
        )?;
        Ok(Self {
            batches,
            lines: Vec::new(),
            used: 0,
            read: Box::new(read),
            rows: 0,
            all_rows,
            reported: 0,
            all_bytes,
        })
    }

    /// Makes the next lines. False at the end.
    fn next_lines(&mut self) -> io::Result<bool> {
        let Some(batch) = self.batches.next() else {
            self.report(self.all_bytes);
            return Ok(false);
        };
        let batch = batch.map_err(|error| match error {
            // The path comes with the error of whoever reads.
            Error::Input { reason, .. } => io::Error::new(io::ErrorKind::InvalidData, reason),
            error => io::Error::other(error),
        })?;
        self.used = 0;
        self.rows += batch.num_rows() as u64;
        self.lines.clear();
        for row in 0..batch.num_rows() {
            write_line(&batch, row, &mut self.lines)?;
        }
        let share =
            u128::from(self.all_bytes) * u128::from(self.rows) / u128::from(self.all_rows.max(1));
        let share = u64::try_from(share).unwrap_or(self.all_bytes);
        self.report(share.min(self.all_bytes));
        Ok(true)
    }

    fn report(&mut self, bytes: u64) {
        (self.read)(bytes - self.reported);
        self.reported = bytes;
    }
}

/// What a column is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A document is made of it.
    Content,
    /// A document is made of it, as the caller has said.
    NamedContent,
    /// It names the document.
    Key,
    Other,
}

/// Refuses columns of which each row would be rejected for the same reason.
fn ensure_readable(schema: &Schema, use_of: &impl Fn(&str) -> Option<Use>) -> Result<(), String> {
    let mut contents = Vec::new();
    let mut keys = Vec::new();
    for field in schema.fields() {
        match use_of(field.name()) {
            Some(Use::Key) => keys.push(field.as_ref()),
            Some(Use::Content) => contents.push((field.as_ref(), false)),
            Some(Use::NamedContent) => contents.push((field.as_ref(), true)),
            Some(Use::Other) | None => {}
        }
    }
    if contents.is_empty() {
        return Err(format!(
            "it has no column `text` or `html`; `--text-field` names another of {}",
            names_of(schema)
        ));
    }
    if let Some(field) = unread_content(&contents) {
        return Err(format!(
            "its column `{}` is {}, which is not read; texts are wanted (STRING): `--text-field` names another of {}",
            field.name(),
            in_words(field.data_type()),
            names_of(schema)
        ));
    }
    match keys.first() {
        Some(field) if !keys.iter().any(|key| is_key(key.data_type())) => Err(format!(
            "its column `{}` is {}, which is not read; a key is a text or a whole number (STRING, INT64): \
             `--key-field` names another of {}",
            field.name(),
            in_words(field.data_type()),
            names_of(schema)
        )),
        _ => Ok(()),
    }
}

/// A column that was to be a text and is none: one that the caller has named, or the first, if none is a text.
fn unread_content<'f>(contents: &[(&'f Field, bool)]) -> Option<&'f Field> {
    let mut any_text = false;
    for &(field, is_named) in contents {
        let is_text = is_text(field.data_type());
        if is_named && !is_text {
            return Some(field);
        }
        any_text |= is_text;
    }
    match contents.first() {
        Some(&(first, _)) if !any_text => Some(first),
        _ => None,
    }
}

/// Whether a column can hold keys.
fn is_key(kind: &DataType) -> bool {
    is_text(kind) || kind.is_integer()
}

/// A type in words.
fn in_words(kind: &DataType) -> String {
    let word = match kind {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => "a list",
        DataType::Struct(_) => "a structure",
        DataType::Map(..) => "a map",
        kind if kind.is_decimal() => "a decimal number",
        kind if kind.is_floating() => "a floating-point number",
        _ => "no text",
    };
    format!("{word} (type {kind})")
}

/// Whether a column holds texts.
fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::Binary | DataType::FixedSizeBinary(_)
    )
}

/// Writes a row as an object on one line.
fn write_line(batch: &RecordBatch, row: usize, line: &mut Vec<u8>) -> io::Result<()> {
    let schema = batch.schema_ref();
    let mut before = b'{';
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let name = field.name();
        if column.is_null(row) {
            continue;
        }
        let number = match field.data_type() {
            DataType::Timestamp(..) => seconds(batch, name, row).map(i128::from),
            _ => whole(batch, name, row),
        };
        let text = bytes(batch, name, row);
        if number.is_none() && text.is_none() {
            continue;
        }
        line.push(before);
        before = b',';
        serde_json::to_writer(&mut *line, name)?;
        line.push(b':');
        match (text, number) {
            (Some(text), _) => write_text(text, line)?,
            (None, Some(number)) => write!(line, "{number}")?,
            (None, None) => {}
        }
    }
    line.extend_from_slice(if before == b'{' { b"{}\n" } else { b"}\n" });
    Ok(())
}

/// Writes a text as JSON. Bytes that are not UTF-8 stay, so whoever parses the line sees that they are there.
fn write_text(text: &[u8], line: &mut Vec<u8>) -> io::Result<()> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Ok(serde_json::to_writer(line, text)?);
    }
    let mut quoted = Vec::new();
    line.push(b'"');
    for chunk in text.utf8_chunks() {
        quoted.clear();
        serde_json::to_writer(&mut quoted, chunk.valid())?;
        line.extend_from_slice(&quoted[1..quoted.len() - 1]);
        line.extend_from_slice(chunk.invalid());
    }
    line.push(b'"');
    Ok(())
}

impl Read for RowLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.lines.len() {
            if !self.next_lines()? {
                self.lines = Vec::new();
                self.used = 0;
                return Ok(0);
            }
        }
        let length = buffer.len().min(self.lines.len() - self.used);
        buffer[..length].copy_from_slice(&self.lines[self.used..self.used + length]);
        self.used += length;
        Ok(length)
    }
}

/// Whether a file on the disk is a Parquet file.
pub(crate) fn is_parquet(file: &mut File) -> io::Result<bool> {
    let mut beginning = Vec::new();
    Read::take(&mut *file, MAGIC.len() as u64).read_to_end(&mut beginning)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(beginning == MAGIC)
}
