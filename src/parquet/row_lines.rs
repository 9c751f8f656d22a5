//! Rows of a Parquet file as lines of JSON, as which they are ingested.

use std::io::{self, Read, Write};
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD as BASE64;
use parquet::arrow::ProjectionMask;
use parquet::basic::LogicalType;
use parquet::schema::types::SchemaDescriptor;

use super::inputs::{FileRows, bytes_of, names_of, open, refused, time_of, whole_of};
use crate::error::{Error, Result};

/// The most rows that are read together.
const TOGETHER: usize = 64;
/// Stands behind the name of a field whose value is bytes in base64, since they are not UTF-8. No column has such a
/// name.
pub(crate) const IN_BASE64: &str = "\0base64";

/// The rows of a file, a line of JSON for each, with some of its columns. Texts, whole numbers and times are written.
/// Columns of other types are left out, except where they are refused by whoever parses the line, and so are values
/// that are null.
pub(crate) struct RowLines {
    rows: FileRows,
    forms: Vec<Form>,
    /// The line of a row, and how much of it was used.
    line: Vec<u8>,
    used: usize,
    /// How much of a line is still to come that is longer than the longest record. It has no content.
    long_line: u64,
    max_record_bytes: u64,
    /// Called with the bytes of the file that were read since it was called before.
    read: Box<dyn FnMut(u64) + Send>,
    reported: u64,
    all_bytes: u64,
}

impl RowLines {
    /// The rows of a file with the columns for which there is a use. A file is refused if no row could be a document,
    /// since no column holds the text, or since those that hold it or the keys are of types that are not read. `named`
    /// are the columns that the caller has named for the text. The line of a row that is longer than the longest record
    /// has its length only.
    pub(crate) fn open<'n>(
        path: &Path,
        named: impl Iterator<Item = &'n str>,
        use_of: impl Fn(&str) -> Option<Use>,
        max_record_bytes: usize,
        read: impl FnMut(u64) + Send + 'static,
    ) -> Result<Self> {
        let builder = open(path)?;
        let named: Vec<&str> = named.collect();
        ensure_readable(builder.schema(), &named, &use_of).map_err(refused(path))?;
        let mut wanted = Vec::new();
        let mut forms = Vec::new();
        for (index, field) in builder.schema().fields().iter().enumerate() {
            if let Some(used) = use_of(field.name()) {
                wanted.push(index);
                forms.push(Form::of(used, field.name(), builder.parquet_schema()));
            }
        }
        let columns = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let all_bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let rows = FileRows::new(path, builder, columns, TOGETHER)?;
        Ok(Self {
            rows,
            forms,
            line: Vec::new(),
            used: 0,
            long_line: 0,
            max_record_bytes: max_record_bytes as u64,
            read: Box::new(read),
            reported: 0,
            all_bytes,
        })
    }

    /// Makes the next line. False at the end.
    fn next_line(&mut self) -> io::Result<bool> {
        self.used = 0;
        self.line.clear();
        let next = self.rows.next_row().map_err(|error| match error {
            // The path comes with the error of whoever reads.
            Error::Input { reason, .. } => io::Error::new(io::ErrorKind::InvalidData, reason),
            error => io::Error::other(error),
        })?;
        let Some((batch, row, _)) = next else {
            self.report(self.all_bytes);
            return Ok(false);
        };
        let mut length = Length(0);
        if bytes_in(batch, row) > self.max_record_bytes {
            write_line(batch, &self.forms, row, &mut length)?;
        }
        if length.0 > self.max_record_bytes {
            self.long_line = length.0;
        } else {
            write_line(batch, &self.forms, row, &mut self.line)?;
        }
        if row == 0 {
            let FileRows { rows, read, .. } = self.rows;
            let share = u128::from(self.all_bytes) * u128::from(read) / u128::from(rows.max(1));
            let share = u64::try_from(share).unwrap_or(self.all_bytes);
            self.report(share.min(self.all_bytes));
        }
        Ok(true)
    }

    /// Gives what is still to come of a long line.
    fn read_long_line(&mut self, buffer: &mut [u8]) -> usize {
        let length =
            usize::try_from(self.long_line).map_or(buffer.len(), |it| it.min(buffer.len()));
        let given = &mut buffer[..length];
        given.fill(b' ');
        self.long_line -= length as u64;
        if self.long_line == 0
            && let Some(last) = given.last_mut()
        {
            *last = b'\n';
        }
        length
    }

    fn report(&mut self, bytes: u64) {
        (self.read)(bytes - self.reported);
        self.reported = bytes;
    }
}

/// Counts the bytes that are written, and keeps none.
struct Length(u64);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of all texts in a row. Its line is longer than they are.
fn bytes_in(batch: &RecordBatch, row: usize) -> u64 {
    let mut bytes = 0;
    for column in batch.columns() {
        // What stands in the place of a value that is missing may be anything.
        if !is_null(column, row) {
            bytes += bytes_of(column, row).map_or(0, |bytes| bytes.len() as u64);
        }
    }
    bytes
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A document is made of it.
    Content,
    /// A document is made of it, as the caller has said.
    NamedContent,
    /// It names the document.
    Key,
    /// A number or a time. Whether it can be used is for whoever parses the line to say, also of other types.
    Value,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As a text, a whole number or a time; not at all if it is none of these.
    Text,
    /// As the usual text of a UUID.
    Uuid,
    /// As JSON has it, whatever it is.
    Value,
}

impl Form {
    fn of(used: Use, name: &str, schema: &SchemaDescriptor) -> Self {
        let columns = schema.root_schema().get_fields();
        let column = columns.iter().find(|column| column.name() == name);
        let kind = column.and_then(|column| column.get_basic_info().logical_type_ref());
        if kind == Some(&LogicalType::Uuid) {
            return Self::Uuid;
        }
        match used {
            Use::Value => Self::Value,
            _ => Self::Text,
        }
    }

    fn takes(self, column: &ArrayRef, row: usize) -> bool {
        let kind = column.data_type();
        match self {
            _ if is_null(column, row) => false,
            Self::Text => is_key(kind) || matches!(kind, DataType::Timestamp(..)),
            Self::Uuid => is_text(kind),
            // Programs without null write this in its place.
            Self::Value => !float_of(column, row).is_some_and(f64::is_nan),
        }
    }
}

/// Whether a row has no value. All of a column of the type null have none, though it has no list of them.
fn is_null(column: &ArrayRef, row: usize) -> bool {
    column.data_type() == &DataType::Null || column.is_null(row)
}

/// Refuses columns of which each row would be rejected for the same reason.
fn ensure_readable(
    schema: &Schema,
    named: &[&str],
    use_of: &impl Fn(&str) -> Option<Use>,
) -> Result<(), String> {
    let mut contents = Vec::new();
    let mut keys = Vec::new();
    for field in schema.fields() {
        match use_of(field.name()) {
            Some(Use::Key) => keys.push(field.as_ref()),
            Some(Use::Content) => contents.push((field.as_ref(), false)),
            Some(Use::NamedContent) => contents.push((field.as_ref(), true)),
            Some(Use::Value | Use::Other) | None => {}
        }
    }
    if contents.is_empty() {
        let wanted = match named {
            [] => &["text", "html"],
            named => named,
        };
        return Err(format!(
            "it has no column `{}`; `--text-field` names another of {}",
            wanted.join("` or `"),
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

fn is_key(kind: &DataType) -> bool {
    is_text(kind) || kind.is_integer()
}

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

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::BinaryView | DataType::FixedSizeBinary(_))
}

fn write_line(
    batch: &RecordBatch,
    forms: &[Form],
    row: usize,
    line: &mut impl Write,
) -> io::Result<()> {
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().zip(batch.columns());
    let mut before = b'{';
    for ((field, column), form) in columns.zip(forms) {
        if form.takes(column, row) {
            line.write_all(&[before])?;
            before = b',';
            write_field(field.name(), column, *form, row, line)?;
        }
    }
    line.write_all(if before == b'{' { b"{}\n" } else { b"}\n" })
}

fn write_field(
    name: &str,
    column: &ArrayRef,
    form: Form,
    row: usize,
    line: &mut impl Write,
) -> io::Result<()> {
    let bytes = bytes_of(column, row);
    if let (Form::Uuid, Some(bytes)) = (form, bytes) {
        write_name(name, line)?;
        return write_uuid(bytes, line);
    }
    match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
        Some(Err(bytes)) => {
            write_name(&[name, IN_BASE64].concat(), line)?;
            write!(line, "\"{}\"", Base64Display::new(bytes, &BASE64))
        }
        Some(Ok(text)) => {
            write_name(name, line)?;
            Ok(serde_json::to_writer(line, text)?)
        }
        None => {
            write_name(name, line)?;
            write_value(column, row, line)
        }
    }
}

fn write_name(name: &str, line: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *line, name)?;
    line.write_all(b":")
}

fn write_uuid(bytes: &[u8], line: &mut impl Write) -> io::Result<()> {
    line.write_all(b"\"")?;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            line.write_all(b"-")?;
        }
        write!(line, "{byte:02x}")?;
    }
    line.write_all(b"\"")
}

/// Writes a value as JSON has it. One of a type that JSON does not have becomes an empty object, which is refused where
/// the value is needed.
fn write_value(column: &ArrayRef, row: usize, line: &mut impl Write) -> io::Result<()> {
    if is_null(column, row) {
        return line.write_all(b"null");
    }
    if let Some(number) = whole_of(column, row) {
        return write!(line, "{number}");
    }
    if let Some(seconds) = time_of(column, row) {
        return write!(line, "{seconds}");
    }
    if let Some(number) = float_of(column, row) {
        return write_float(number, line);
    }
    if let Some(text) = bytes_of(column, row) {
        return Ok(serde_json::to_writer(line, &String::from_utf8_lossy(text))?);
    }
    match column.data_type() {
        DataType::Boolean => write!(line, "{}", column.as_boolean().value(row)),
        DataType::Decimal128(..) => {
            let column = column.as_primitive::<Decimal128Type>();
            write_decimal(&column.value_as_string(row), line)
        }
        DataType::Decimal256(..) => {
            let column = column.as_primitive::<Decimal256Type>();
            write_decimal(&column.value_as_string(row), line)
        }
        DataType::List(_) => write_list(&column.as_list::<i32>().value(row), line),
        _ => line.write_all(b"{}"),
    }
}

fn write_list(values: &ArrayRef, line: &mut impl Write) -> io::Result<()> {
    line.write_all(b"[")?;
    for row in 0..values.len() {
        if row > 0 {
            line.write_all(b",")?;
        }
        write_value(values, row, line)?;
    }
    line.write_all(b"]")
}

/// Writes a floating-point number. A whole one is written as such: a program that has no whole numbers with gaps makes
/// these of them.
fn write_float(number: f64, line: &mut impl Write) -> io::Result<()> {
    // From here on not each of them is one of 64 bits.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && number.abs() < TOO_LARGE {
        return write!(line, "{}", number as i64);
    }
    match number.is_finite() {
        true => Ok(serde_json::to_writer(line, &number)?),
        // JSON has no such number.
        false => write!(line, "\"{number}\""),
    }
}

/// Writes a decimal number. A whole one is written as such.
fn write_decimal(digits: &str, line: &mut impl Write) -> io::Result<()> {
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    line.write_all(digits.as_bytes())
}

/// The floating-point number of a row that has a value. `None` if the column holds others.
fn float_of(column: &ArrayRef, row: usize) -> Option<f64> {
    match column.data_type() {
        DataType::Float16 => Some(column.as_primitive::<Float16Type>().value(row).into()),
        DataType::Float32 => Some(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(row)),
        _ => None,
    }
}

impl Read for RowLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.line.len() && self.long_line == 0 {
            if !self.next_line()? {
                self.line = Vec::new();
                self.used = 0;
                return Ok(0);
            }
        }
        if self.long_line > 0 {
            return Ok(self.read_long_line(buffer));
        }
        let length = buffer.len().min(self.line.len() - self.used);
        buffer[..length].copy_from_slice(&self.line[self.used..self.used + length]);
        self.used += length;
        Ok(length)
    }
}
