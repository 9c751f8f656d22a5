//! Inputs: Parquet files, and the directories of them that Spark writes. Nothing in a file makes a reader panic.
//! Columns are read as the types that are needed, whatever whole numbers, bytes and times another program has written.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type};
use parquet::errors::ParquetError;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader as _, Length as _};
use parquet::schema::types::{SchemaDescriptor, Type as ColumnType};
use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::files::{leads_in_a_circle, open_file};
use crate::fingerprint::Fingerprint;
use crate::plural::counted;
use crate::store::caught;

/// The bytes of rows that are read together.
const BYTES_TOGETHER: i64 = 32 << 20;

/// What is said of a file that cannot be understood.
const DAMAGED: &str =
    "it is damaged, not whole, or no Parquet file, or has encrypted columns; make it again";

/// The Parquet files that paths stand for. A directory stands for the files in it and in its directories that end in
/// `.parquet`, in the order of their names. Spark hides other files by `_` and `.` in front of their names, but not
/// directories of a partition such as `_a=1`. An error if there is none.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = WalkDir::new(path)
        .min_depth(1)
        .follow_links(true)
        .sort_by_file_name();
    let mut files = Vec::new();
    for entry in entries
        .into_iter()
        .filter_entry(|entry| is_data(entry.path()))
    {
        match entry {
            Ok(entry) if entry.file_type().is_dir() => {}
            Ok(entry) => files.extend(named_as_parquet(entry.path())),
            Err(error) => files.extend(file_behind(error, path)?),
        }
    }
    if files.is_empty() {
        return Err(refused(path)("no file in it ends in .parquet".to_owned()));
    }
    Ok(files)
}

fn is_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    !name.starts_with(b".") && (!name.starts_with(b"_") || name.contains(&b'='))
}

fn named_as_parquet(path: &Path) -> Option<PathBuf> {
    (path.extension() == Some("parquet".as_ref())).then(|| path.to_owned())
}

/// What an entry below `root` stands for that cannot be looked at. A link that leads nowhere stands for its file, which
/// is met when it is opened.
fn file_behind(error: walkdir::Error, root: &Path) -> Result<Option<PathBuf>> {
    let path = error.path().unwrap_or(root).to_owned();
    if path != root && !is_data(&path) {
        return Ok(None);
    }
    if let Some(above) = error.loop_ancestor() {
        return Err(refused(&path)(leads_in_a_circle(above)));
    }
    if path.is_symlink() && !path.is_dir() {
        return Ok(named_as_parquet(&path));
    }
    Err(Error::io(&path)(error.into()))
}

/// Opens a file and reads its footer. Times of the type INT96 are read in seconds: in nanoseconds, those before 1677 or
/// after 2262 would be others. Texts are read as bytes, so one that is not UTF-8 is met with its row, and is no damage
/// of the file. Bytes are views of the pages: copies of many long ones would be more than a batch can hold.
pub(super) fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let (file, metadata) = open_file_of_rows(path)?;
    // The types of Parquet are enough, and fewer than those of Arrow.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = guarded(path, || {
        let metadata = Arc::new(with_texts_as_bytes(&metadata)?);
        let inferred = ArrowReaderMetadata::try_new(metadata.clone(), options.clone())?;
        let schema = with_types_as_read(&inferred);
        ArrowReaderMetadata::try_new(metadata, options.with_schema(schema))
    })?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(
        file, metadata,
    ))
}

/// Opens a file and reads its footer, for its rows as Parquet has them.
pub(super) fn open_file_of_rows(path: &Path) -> Result<(File, Arc<ParquetMetaData>)> {
    let file = open_file(path).map_err(Error::io(path))?;
    let metadata = metadata_of(path, &file)?;
    ensure_packing(&metadata).map_err(refused(path))?;
    Ok((file, metadata))
}

/// Reads the footer of a file. Its columns may be nested as deep as its footer is long, and whoever reads them calls
/// itself as often. So this has a stack of its own, and what is nested too deep is refused before others see it.
fn metadata_of(path: &Path, file: &File) -> Result<Arc<ParquetMetaData>> {
    /// The stack for each byte of a footer, and the bounds of all.
    const STACK_OF_A_BYTE: u64 = 4096;
    const LEAST_STACK: u64 = 1 << 20;
    const MOST_STACK: u64 = 1 << 28;

    let stack = (footer_bytes(file) * STACK_OF_A_BYTE).clamp(LEAST_STACK, MOST_STACK);
    let read = || {
        guarded(path, || {
            let metadata = ParquetMetaDataReader::new().parse_and_finish(file)?;
            ensure_flat(metadata.file_metadata().schema(), MOST_NESTED)?;
            Ok(Arc::new(metadata))
        })
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("simdb-footer".to_owned())
            .stack_size(stack as usize);
        let read = thread.spawn_scoped(scope, read).map_err(Error::no_thread)?;
        read.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether a file on the disk begins as Parquet does. It is as if nothing had been read.
pub(crate) fn is_parquet(file: &mut File) -> io::Result<bool> {
    const MAGIC: &[u8] = b"PAR1";
    let mut beginning = Vec::new();
    Read::take(&mut *file, MAGIC.len() as u64).read_to_end(&mut beginning)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(beginning == MAGIC)
}

/// The length of the footer, as the end of the file tells. 0 if it does not.
fn footer_bytes(file: &File) -> u64 {
    let end = file.len().saturating_sub(FOOTER_SIZE as u64);
    let bytes = file.get_bytes(end, FOOTER_SIZE);
    match bytes.as_deref() {
        Ok([a, b, c, d, ..]) => u32::from_le_bytes([*a, *b, *c, *d]).into(),
        _ => 0,
    }
}

/// The most columns that are within each other.
const MOST_NESTED: usize = 100;

fn ensure_flat(column: &ColumnType, most: usize) -> Result<(), ParquetError> {
    let Some(left) = most.checked_sub(1) else {
        return Err(ParquetError::NYI(format!(
            "columns within more than {MOST_NESTED} others"
        )));
    };
    if column.is_group() {
        for column in column.get_fields() {
            ensure_flat(column, left)?;
        }
    }
    Ok(())
}

/// The number of rows of a file. An error if its row groups have another number.
pub(super) fn rows_of(path: &Path, metadata: &ParquetMetaData) -> Result<u64> {
    let rows = u64::try_from(metadata.file_metadata().num_rows()).ok();
    let mut of_groups = Some(0_u64);
    for group in metadata.row_groups() {
        let of_group = u64::try_from(group.num_rows()).ok();
        of_groups = of_groups
            .zip(of_group)
            .and_then(|(all, of)| all.checked_add(of));
    }
    match (rows, of_groups) {
        (Some(rows), Some(found)) if rows == found => Ok(rows),
        (Some(rows), Some(found)) => Err(other_rows(path, rows, found)),
        _ => Err(damaged(path, "it has less than no rows")),
    }
}

/// The metadata of a file whose columns of texts are columns of bytes.
fn with_texts_as_bytes(metadata: &ParquetMetaData) -> Result<ParquetMetaData, ParquetError> {
    let of_file = metadata.file_metadata();
    let root = of_file.schema_descr().root_schema();
    let mut columns = Vec::with_capacity(root.get_fields().len());
    for column in root.get_fields() {
        columns.push(match is_text(column) {
            true => Arc::new(with_bytes(column)?),
            false => column.clone(),
        });
    }
    let root = ColumnType::group_type_builder(root.name())
        .with_fields(columns)
        .build()?;
    let of_file = FileMetaData::new(
        of_file.version(),
        of_file.num_rows(),
        of_file.created_by().map(str::to_owned),
        of_file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        None,
    );
    let groups = metadata.row_groups().to_vec();
    Ok(ParquetMetaData::new(of_file, groups))
}

fn is_text(column: &ColumnType) -> bool {
    let info = column.get_basic_info();
    let is_said = match info.logical_type_ref() {
        Some(kind) => matches!(kind, LogicalType::String | LogicalType::Json),
        None => matches!(
            info.converted_type(),
            ConvertedType::UTF8 | ConvertedType::JSON
        ),
    };
    is_said
        && column.is_primitive()
        && column.get_physical_type() == Type::BYTE_ARRAY
        && info.repetition() != Repetition::REPEATED
}

/// The same column, of which nothing says that its bytes are texts.
fn with_bytes(column: &ColumnType) -> Result<ColumnType, ParquetError> {
    let info = column.get_basic_info();
    ColumnType::primitive_type_builder(column.name(), Type::BYTE_ARRAY)
        .with_repetition(info.repetition())
        .with_id(info.has_id().then(|| info.id()))
        .build()
}

/// The columns, with seconds where they are INT96, and with views where they are bytes.
fn with_types_as_read(inferred: &ArrowReaderMetadata) -> SchemaRef {
    let columns = inferred.parquet_schema().root_schema().get_fields();
    let mut fields: Vec<Arc<Field>> = inferred.schema().fields().to_vec();
    for field in &mut fields {
        let column = columns.iter().find(|column| column.name() == field.name());
        let kind = match field.data_type() {
            DataType::Binary => DataType::BinaryView,
            DataType::Timestamp(TimeUnit::Nanosecond, None)
                if column.is_some_and(|column| is_int96(column)) =>
            {
                DataType::Timestamp(TimeUnit::Second, None)
            }
            _ => continue,
        };
        *field = Arc::new(field.as_ref().clone().with_data_type(kind));
    }
    let texts = inferred.schema().metadata().clone();
    Arc::new(Schema::new_with_metadata(fields, texts))
}

/// Whether a column is of the type INT96, in which many programs still write times.
fn is_int96(column: &ColumnType) -> bool {
    column.is_primitive() && column.get_physical_type() == Type::INT96
}

/// Refuses a file with a column that is packed in a way that cannot be unpacked.
fn ensure_packing(metadata: &ParquetMetaData) -> Result<(), String> {
    for column in metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns)
    {
        let packing = match column.compression() {
            Compression::BROTLI(_) => "BROTLI",
            Compression::LZO => "LZO",
            _ => continue,
        };
        return Err(format!(
            "its column `{}` is packed with {packing}, which this release does not read; write it with ZSTD, SNAPPY, \
             GZIP or LZ4",
            column.column_path().string()
        ));
    }
    Ok(())
}

/// How many rows are read together: at most so many, and fewer if those of a group are long.
fn rows_together(metadata: &ParquetMetaData, most: usize) -> usize {
    let mut together = most;
    for group in metadata.row_groups() {
        let mut bytes: i64 = 0;
        for column in group.columns() {
            bytes = bytes.saturating_add(column.uncompressed_size().max(0));
        }
        let bytes_of_row = bytes / group.num_rows().max(1);
        let rows = BYTES_TOGETHER / bytes_of_row.max(1);
        together = together.min(rows as usize);
    }
    together.max(1)
}

/// All rows of a file, of which some are in memory at a time. After an error it ends. Rows that are missing are an
/// error at the end: where pages are damaged, the reader may just stop.
pub(super) struct FileRows {
    path: PathBuf,
    reader: Option<ParquetRecordBatchReader>,
    /// The rows that were read together, and the next of them.
    batch: Option<RecordBatch>,
    row: usize,
    /// The rows that the file says it has, and those that were read.
    pub(super) rows: u64,
    pub(super) read: u64,
}

impl FileRows {
    /// Of these columns, and of at most so many rows each. `path` is that of the file.
    pub(super) fn new(
        path: &Path,
        builder: ParquetRecordBatchReaderBuilder<File>,
        columns: ProjectionMask,
        most: usize,
    ) -> Result<Self> {
        let rows = rows_of(path, builder.metadata())?;
        let together = rows_together(builder.metadata(), most);
        let builder = builder.with_projection(columns).with_batch_size(together);
        let reader = guarded(path, || builder.build())?;
        Ok(Self {
            path: path.to_owned(),
            reader: Some(reader),
            batch: None,
            row: 0,
            rows,
            read: 0,
        })
    }

    /// The next row: those that were read with it, its place among them, and its number in the file, from 1.
    pub(super) fn next_row(&mut self) -> Result<Option<(&RecordBatch, usize, u64)>> {
        while self
            .batch
            .as_ref()
            .is_none_or(|batch| self.row == batch.num_rows())
        {
            // There may be no room for two.
            self.batch = None;
            self.row = 0;
            let Some(batch) = self.next_batch()? else {
                return Ok(None);
            };
            self.batch = Some(batch);
        }
        let row = self.row;
        self.row += 1;
        Ok(self.batch.as_ref().map(|batch| {
            let before = self.read - batch.num_rows() as u64;
            (batch, row, before + self.row as u64)
        }))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        let next = guarded(&self.path, || Ok(reader.next().transpose()?));
        if let Ok(Some(batch)) = &next {
            self.read += batch.num_rows() as u64;
            return next;
        }
        self.reader = None;
        match next {
            Ok(None) if self.read != self.rows => Err(other_rows(&self.path, self.rows, self.read)),
            next => next,
        }
    }
}

/// The error of a file that says how many rows it has, and has others.
fn other_rows(path: &Path, said: u64, found: u64) -> Error {
    let found = counted(found, "row");
    damaged(
        path,
        &format!("it has {found} where its footer says {said}"),
    )
}

/// Runs what may panic if the file is damaged.
pub(super) fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match caught(read) {
        Ok(read) => read.map_err(|error| read_failed(path, &error)),
        Err(panic) => Err(damaged(path, &panic)),
    }
}

/// The error of a file that is not as it should be: `map_err(refused(path))`.
pub(super) fn refused(path: &Path) -> impl Fn(String) -> Error {
    move |reason| Error::Input {
        source_name: path.display().to_string(),
        line: None,
        reason,
    }
}

pub(super) fn damaged(path: &Path, reason: &str) -> Error {
    refused(path)(format!("{DAMAGED} ({reason})"))
}

fn read_failed(path: &Path, error: &ParquetError) -> Error {
    let advice = match error {
        ParquetError::NYI(_) | ParquetError::General(_) if error.to_string().contains("ncrypt") => {
            "it is encrypted, which is not read; write it without encryption"
        }
        ParquetError::NYI(_) => "it was written in a way that this release does not read",
        _ => DAMAGED,
    };
    refused(path)(format!("{advice} ({error})"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The bits of a fingerprint.
    Bits,
    Number,
    Bytes,
    Time,
}

impl Kind {
    fn takes(self, kind: &DataType) -> bool {
        match self {
            Self::Bits => matches!(kind, DataType::Int64 | DataType::UInt64),
            Self::Number => kind.is_integer(),
            Self::Bytes => matches!(kind, DataType::BinaryView | DataType::FixedSizeBinary(_)),
            Self::Time => matches!(kind, DataType::Timestamp(..) | DataType::Int64),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Bits => "INT64, the bit pattern of a fingerprint (in SQL: CAST(... AS BIGINT))",
            Self::Number => "a whole number, such as INT64,",
            Self::Bytes => "STRING or BINARY",
            Self::Time => "TIMESTAMP, or INT64 with Unix seconds",
        }
    }
}

/// Refuses a schema in which a column has a type that its kind cannot be read from.
pub(super) fn ensure_types(schema: &Schema, columns: &[(&str, Kind)]) -> Result<(), String> {
    for (name, kind) in columns {
        if let Ok(field) = schema.field_with_name(name)
            && !kind.takes(field.data_type())
        {
            let found = match field.data_type() {
                DataType::BinaryView => "BYTE_ARRAY".to_owned(),
                found => found.to_string(),
            };
            let wanted = kind.wanted();
            return Err(format!(
                "its column `{name}` is of the type {found}; {wanted} is needed"
            ));
        }
    }
    Ok(())
}

pub(super) fn names_of(schema: &Schema) -> String {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| &**field.name())
        .collect();
    names.join(", ")
}

fn column_with<'b>(batch: &'b RecordBatch, name: &str, row: usize) -> Option<&'b ArrayRef> {
    let column = batch.column_by_name(name)?;
    column.is_valid(row).then_some(column)
}

/// The whole number of a row in a column, of any width. `None` if there is none, or no such column.
fn whole(batch: &RecordBatch, name: &str, row: usize) -> Option<i128> {
    whole_of(column_with(batch, name, row)?, row)
}

/// The whole number of a row that has a value. `None` if the column holds others.
pub(super) fn whole_of(column: &ArrayRef, row: usize) -> Option<i128> {
    match column.data_type() {
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt64 => Some(column.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Int32 => Some(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt32 => Some(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Int16 => Some(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::UInt16 => Some(column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::Int8 => Some(column.as_primitive::<Int8Type>().value(row).into()),
        DataType::UInt8 => Some(column.as_primitive::<UInt8Type>().value(row).into()),
        _ => None,
    }
}

/// The number of a row in a column. `None` if there is none, or no such column. One that is too large is an error.
pub(super) fn number(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<i64>, String> {
    match whole(batch, name, row) {
        None => Ok(None),
        Some(number) => match i64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!(
                "its `{name}` is {number}, which is more than INT64 holds"
            )),
        },
    }
}

/// The fingerprint of a row in a column of bit patterns. `None` if there is none, or no such column.
pub(super) fn fingerprint(batch: &RecordBatch, name: &str, row: usize) -> Option<Fingerprint> {
    // A number with a sign stands for the same 64 bits.
    let bits = whole(batch, name, row)? as u64;
    Some(Fingerprint::from_bits(bits))
}

/// The bytes of a row in a column. `None` if there are none, or no such column.
pub(super) fn bytes<'b>(batch: &'b RecordBatch, name: &str, row: usize) -> Option<&'b [u8]> {
    bytes_of(column_with(batch, name, row)?, row)
}

/// The bytes of a row that has a value. `None` if the column holds others.
pub(super) fn bytes_of(column: &ArrayRef, row: usize) -> Option<&[u8]> {
    match column.data_type() {
        DataType::BinaryView => Some(column.as_binary_view().value(row)),
        // Within a list.
        DataType::Utf8 => Some(column.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => Some(column.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => Some(column.as_fixed_size_binary().value(row)),
        _ => None,
    }
}

/// The Unix seconds of a row in a column of times, rounded down. `None` if there are none, or no such column.
pub(super) fn seconds(batch: &RecordBatch, name: &str, row: usize) -> Option<i64> {
    let column = column_with(batch, name, row)?;
    match column.data_type() {
        DataType::Timestamp(..) => time_of(column, row),
        _ => number(batch, name, row).ok().flatten(),
    }
}

/// The Unix seconds of a row that has a value, rounded down; of a date those of midnight in UTC. `None` if the column
/// holds others.
pub(super) fn time_of(column: &ArrayRef, row: usize) -> Option<i64> {
    let unit = match column.data_type() {
        DataType::Timestamp(unit, _) => unit,
        DataType::Date32 => {
            let days = column.as_primitive::<Date32Type>().value(row);
            return Some(i64::from(days) * 86_400);
        }
        _ => return None,
    };
    Some(match unit {
        TimeUnit::Second => column.as_primitive::<TimestampSecondType>().value(row),
        TimeUnit::Millisecond => column
            .as_primitive::<TimestampMillisecondType>()
            .value(row)
            .div_euclid(1_000),
        TimeUnit::Microsecond => column
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
            .div_euclid(1_000_000),
        TimeUnit::Nanosecond => column
            .as_primitive::<TimestampNanosecondType>()
            .value(row)
            .div_euclid(1_000_000_000),
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use parquet::arrow::ArrowWriter;

    use super::*;

    #[test]
    fn as_many_rows_are_read_together_as_are_not_long() -> Result<(), Box<dyn std::error::Error>> {
        let file = tempfile::NamedTempFile::new()?;
        for (length, together) in [(10, 64), (1 << 20, 31), (10 << 20, 3), (33 << 20, 1)] {
            let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(length)]));
            let batch = RecordBatch::try_from_iter([("text", text)])?;
            let mut writer = ArrowWriter::try_new(file.reopen()?, batch.schema(), None)?;
            writer.write(&batch)?;
            writer.close()?;
            let builder = open(file.path())?;
            assert_eq!(rows_together(builder.metadata(), 64), together, "{length}");
        }
        Ok(())
    }
}
