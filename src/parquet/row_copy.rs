//! Copies of Parquet files without some of their rows, or with what is said of each row.
//!
//! Rows are copied as Parquet has them: the values of each column and their levels, whatever they stand for. So a copy
//! has what its file has, also where Arrow has no type for it.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Field, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, parquet_to_arrow_schema};
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{
    AsBytes as _, BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::RowGroupPageIndex;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{ReaderProperties, WriterProperties};
use parquet::file::reader::RowGroupReader as _;
use parquet::file::serialized_reader::SerializedRowGroupReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};
use serde_json::{Value, json};

use super::inputs::{damaged, guarded, open_file_of_rows, refused, rows_of};
use super::output::write_failed;
use crate::error::{Error, Result};

pub(crate) enum RowFate {
    LeftOut,
    Copied,
    /// It is copied with this in the columns of groups, if the file gets these.
    Annotated(GroupRow),
}

/// Called with the number of bytes of files whose rows were copied since. The copy ends at its error.
type OnBytes<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

pub(crate) struct RowCopy {
    to: PathBuf,
    /// Whether it gets the columns of groups.
    has_groups: bool,
    begun: Option<Begun>,
    /// The rows of the next row group.
    waiting: Waiting,
    /// The largest row group of the files so far, and at least `SMALL`.
    largest: Size,
}

/// The copy, and the file that has begun it.
struct Begun {
    writer: SerializedFileWriter<File>,
    from: PathBuf,
    schema: SchemaDescriptor,
    /// The numbers of its columns that are copied.
    columns: Vec<usize>,
    is_empty: bool,
    may_join: bool,
}

/// The rows and the bytes of a row group, as they are before they are packed.
#[derive(Clone, Copy, Default)]
struct Size {
    rows: u64,
    bytes: u64,
}

/// Smaller row groups are joined in any case: a file of very many is slow to read.
const SMALL: Size = Size {
    rows: 1 << 10,
    bytes: 1 << 22,
};
/// So many files at most are open together, if their row groups are joined.
const MOST_FILES: usize = 64;

#[derive(Default)]
struct Waiting {
    parts: Vec<Part>,
    /// The number of files that they are of.
    files: usize,
    size: Size,
}

/// A row group of a file, and which of its rows are copied.
struct Part {
    file: Arc<Rows>,
    group: usize,
    is_kept: Vec<bool>,
    /// What is said of these.
    said: GroupColumns,
    /// The share of the group in the bytes of the file.
    file_bytes: u64,
}

struct Rows {
    path: PathBuf,
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
}

impl RowCopy {
    /// A new file at `to`, in the place of an old one.
    pub(crate) fn new(to: &Path, has_groups: bool) -> Self {
        Self {
            to: to.to_owned(),
            has_groups,
            begun: None,
            waiting: Waiting::default(),
            largest: SMALL,
        }
    }

    /// Adds the rows of a file as `fate_of` says, which gets the numbers of rows, from 1, in order. All files have the
    /// same columns. The first with rows says how the copy is packed and what its metadata are. Row groups stay as they
    /// are, but are joined if they are together no larger than one of those before, or small.
    pub(crate) fn add(
        &mut self,
        from: &Path,
        mut fate_of: impl FnMut(u64) -> Result<RowFate>,
        mut copied: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let bytes = from.metadata().map_err(Error::io(from))?.len();
        let file = Arc::new(Rows::open(from)?);
        if let Some(begun) = &self.begun {
            ensure_same_columns(from, file.schema(), &begun.from, &begun.schema)?;
        }
        // A file without rows does not say how they are packed.
        if self.begun.as_ref().is_none_or(|begun| begun.is_empty) {
            // What has begun the same file must not write to it any more.
            self.begun = None;
            self.begun = Some(self.begin(&file)?);
        }
        let rows = rows_of(from, &file.metadata)?;
        let mut row = 0;
        let mut shared = 0;
        for (group, metadata) in file.metadata.row_groups().iter().enumerate() {
            let mut part = Part {
                file: file.clone(),
                group,
                is_kept: Vec::new(),
                said: GroupColumns::default(),
                file_bytes: 0,
            };
            let last = row + metadata.num_rows().cast_unsigned();
            while row < last {
                row += 1;
                let fate = fate_of(row)?;
                part.is_kept.push(!matches!(fate, RowFate::LeftOut));
                match fate {
                    RowFate::Copied if self.has_groups => part.said.push(None),
                    RowFate::Annotated(row) if self.has_groups => part.said.push(Some(row)),
                    _ => {}
                }
            }
            let share = (u128::from(bytes) * u128::from(row) / u128::from(rows.max(1))) as u64;
            part.file_bytes = share - shared;
            shared = share;
            let whole = Size {
                rows: part.is_kept.len() as u64,
                bytes: metadata.total_byte_size().max(0).cast_unsigned(),
            };
            self.largest.rows = self.largest.rows.max(whole.rows);
            self.largest.bytes = self.largest.bytes.max(whole.bytes);
            self.wait(part, whole, &mut copied)?;
        }
        copied(bytes - shared)
    }

    /// Lets the rows of a row group of this size wait. If they would be too many then, those before are written.
    fn wait(&mut self, part: Part, whole: Size, copied: OnBytes<'_>) -> Result<()> {
        let kept = part.is_kept.iter().filter(|&&is_kept| is_kept).count() as u64;
        if kept == 0 {
            return copied(part.file_bytes);
        }
        let bytes = u128::from(whole.bytes) * u128::from(kept) / u128::from(whole.rows);
        let with = Size {
            rows: self.waiting.size.rows + kept,
            bytes: self.waiting.size.bytes.saturating_add(bytes as u64),
        };
        let is_much = with.rows > self.largest.rows || with.bytes > self.largest.bytes;
        let may_join = self.begun.as_ref().is_some_and(|begun| begun.may_join);
        let last = self.waiting.parts.last();
        let is_next_file = last.is_none_or(|last| !Arc::ptr_eq(&last.file, &part.file));
        let are_many = is_next_file && self.waiting.files == MOST_FILES;
        if is_much || !may_join || are_many {
            self.write_waiting(copied)?;
        }
        let waiting = &mut self.waiting;
        waiting.files += usize::from(is_next_file || waiting.parts.is_empty());
        waiting.size.rows += kept;
        waiting.size.bytes = waiting.size.bytes.saturating_add(bytes as u64);
        waiting.parts.push(part);
        Ok(())
    }

    /// Writes a row group of the rows that wait, one column after the other.
    fn write_waiting(&mut self, copied: OnBytes<'_>) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let (Some(begun), false) = (&mut self.begun, waiting.parts.is_empty()) else {
            return Ok(());
        };
        let failed = write_failed(&self.to);
        let mut group = begun.writer.next_row_group().map_err(&failed)?;
        for (index, &column) in begun.columns.iter().enumerate() {
            let writer = group.next_column().map_err(&failed)?;
            let mut writer = writer.expect("the copy has these columns");
            for part in &waiting.parts {
                part.copy_column(column, writer.untyped(), &failed, copied)?;
                let share = |columns: usize| {
                    let columns = u128::from(part.file_bytes) * columns as u128;
                    (columns / begun.columns.len() as u128) as u64
                };
                copied(share(index + 1) - share(index))?;
            }
            writer.close().map_err(&failed)?;
        }
        if self.has_groups {
            let said: Vec<_> = waiting.parts.iter().map(|part| &part.said).collect();
            GroupColumns::write(&said, &mut group).map_err(&failed)?;
        }
        group.close().map_err(&failed)?;
        Ok(())
    }

    fn begin(&self, from: &Rows) -> Result<Begun> {
        let file = File::create(&self.to).map_err(Error::io(&self.to))?;
        let failed = write_failed(&self.to);
        let schema = from.schema().clone();
        let texts = from.metadata.file_metadata().key_value_metadata().cloned();
        let mut written = schema.clone();
        let mut columns: Vec<usize> = (0..schema.num_columns()).collect();
        let properties = if self.has_groups {
            written = with_parquet_columns(&schema).map_err(&failed)?;
            columns.retain(|&column| !is_of_groups(schema.get_column_root(column).name()));
            let arrow = with_arrow_columns(&schema, texts.as_ref());
            let texts = with_column_texts(texts.unwrap_or_default());
            let mut properties = properties_of(&from.metadata, Some(texts));
            if let Some(arrow) = arrow {
                parquet::arrow::add_encoded_arrow_schema_to_metadata(&arrow, &mut properties);
            }
            properties
        } else {
            properties_of(&from.metadata, texts)
        };
        let writer =
            SerializedFileWriter::new(file, written.root_schema_ptr(), Arc::new(properties));
        Ok(Begun {
            writer: writer.map_err(&failed)?,
            from: from.path.clone(),
            schema,
            columns,
            is_empty: from.metadata.file_metadata().num_rows() == 0,
            may_join: !has_short_dictionaries(&from.metadata),
        })
    }

    /// Writes the last rows and ends the file. Whoever calls makes it durable.
    pub(crate) fn finish(mut self, mut copied: impl FnMut(u64) -> Result<()>) -> Result<()> {
        self.write_waiting(&mut copied)?;
        let Some(Begun { writer, .. }) = self.begun else {
            return Ok(());
        };
        writer.into_inner().map_err(write_failed(&self.to))?;
        Ok(())
    }
}

impl Rows {
    fn open(path: &Path) -> Result<Self> {
        let (file, metadata) = open_file_of_rows(path)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            metadata,
        })
    }

    fn schema(&self) -> &SchemaDescriptor {
        self.metadata.file_metadata().schema_descr()
    }
}

/// The bytes of values that are copied together.
const BYTES_TOGETHER: u64 = 4 << 20;
/// The most rows that are copied together.
const MOST_TOGETHER: u64 = 8 << 10;

impl Part {
    fn copy_column(
        &self,
        column: usize,
        writer: &mut ColumnWriter<'_>,
        failed: &dyn Fn(ParquetError) -> Error,
        copied: OnBytes<'_>,
    ) -> Result<()> {
        use ColumnReader as Of;
        use ColumnWriter as To;

        let path = &self.file.path;
        let metadata = self.file.metadata.row_group(self.group);
        let chunk = metadata.column(column);
        let reader = guarded(path, || {
            let index = RowGroupPageIndex::new(self.group, None);
            let properties = Arc::new(ReaderProperties::builder().build());
            let group =
                SerializedRowGroupReader::new(self.file.file.clone(), metadata, index, properties)?;
            let pages = Box::new(FullPages(group.get_column_page_reader(column)?));
            Ok(get_column_reader(chunk.column_descr_ptr(), pages))
        })?;
        let mut copying = Copying {
            part: self,
            chunk,
            failed,
            copied,
        };
        match (reader, writer) {
            (Of::BoolColumnReader(of), To::BoolColumnWriter(to)) => copying.copy(of, to),
            (Of::Int32ColumnReader(of), To::Int32ColumnWriter(to)) => copying.copy(of, to),
            (Of::Int64ColumnReader(of), To::Int64ColumnWriter(to)) => copying.copy(of, to),
            (Of::Int96ColumnReader(of), To::Int96ColumnWriter(to)) => copying.copy(of, to),
            (Of::FloatColumnReader(of), To::FloatColumnWriter(to)) => copying.copy(of, to),
            (Of::DoubleColumnReader(of), To::DoubleColumnWriter(to)) => copying.copy(of, to),
            (Of::ByteArrayColumnReader(of), To::ByteArrayColumnWriter(to)) => copying.copy(of, to),
            (Of::FixedLenByteArrayColumnReader(of), To::FixedLenByteArrayColumnWriter(to)) => {
                copying.copy(of, to)
            }
            _ => Err(damaged(
                path,
                "a column has another type than its file says",
            )),
        }
    }
}

/// The pages of a column that have values. At one without values, whoever reads rows takes the column for ended.
struct FullPages(Box<dyn PageReader>);

impl PageReader for FullPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        loop {
            let page = self.0.get_next_page()?;
            let is_empty = |page: &Page| page.is_data_page() && page.num_values() == 0;
            if !page.as_ref().is_some_and(is_empty) {
                return Ok(page);
            }
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        loop {
            let page = self.0.peek_next_page()?;
            let is_empty = |page: &PageMetadata| !page.is_dict && page.num_levels == Some(0);
            if !page.as_ref().is_some_and(is_empty) {
                return Ok(page);
            }
            self.0.skip_next_page()?;
        }
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.0.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.0.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>, ParquetError> {
        self.0.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.0.at_record_boundary()
    }
}

impl Iterator for FullPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

struct Copying<'c> {
    part: &'c Part,
    chunk: &'c ColumnChunkMetaData,
    failed: &'c dyn Fn(ParquetError) -> Error,
    copied: OnBytes<'c>,
}

impl Copying<'_> {
    fn copy<T: DataType>(
        &mut self,
        mut from: ColumnReaderImpl<T>,
        to: &mut ColumnWriterImpl<'_, T>,
    ) -> Result<()> {
        let path = &self.part.file.path;
        let column = self.chunk.column_descr();
        let [most_definition, most_repetition] = [column.max_def_level(), column.max_rep_level()];
        let mut values = Values::<T>::default();
        for is_kept in self.part.is_kept.chunks(self.together::<T>()) {
            let rows = is_kept.len();
            if !is_kept.contains(&true) {
                let skipped = guarded(path, || from.skip_records(rows))?;
                ensure_rows(path, skipped, rows)?;
                continue;
            }
            let read = guarded(path, || values.read(&mut from, rows))?;
            ensure_rows(path, read, rows)?;
            values.ensure_length(path, column)?;
            if is_kept.contains(&false) {
                values.retain(is_kept, most_definition);
            }
            let definitions = (most_definition > 0).then_some(&values.definitions[..]);
            let repetitions = (most_repetition > 0).then_some(&values.repetitions[..]);
            to.write_batch(&values.values, definitions, repetitions)
                .map_err(self.failed)?;
            (self.copied)(0)?;
        }
        let more = guarded(path, || values.read(&mut from, 1))?;
        ensure_rows(path, more, 0)
    }

    /// The number of rows that are copied together. Values that come often are short in the file, and not in memory.
    fn together<T: DataType>(&self) -> usize {
        let of_value = size_of::<T::T>() + 2 * size_of::<i16>();
        let values = self.chunk.num_values().max(0).cast_unsigned();
        let in_memory = values.saturating_mul(of_value as u64);
        let in_file = self.chunk.uncompressed_size().max(0).cast_unsigned();
        let of_row = in_memory.max(in_file) / (self.part.is_kept.len() as u64) + 1;
        (BYTES_TOGETHER / of_row).clamp(1, MOST_TOGETHER) as usize
    }
}

fn ensure_rows(path: &Path, read: usize, expected: usize) -> Result<()> {
    if read == expected {
        return Ok(());
    }
    Err(damaged(
        path,
        "a column has another number of rows than its file says",
    ))
}

/// Values of a column, and the levels that tell to which rows they belong.
struct Values<T: DataType> {
    values: Vec<T::T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl<T: DataType> Default for Values<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        }
    }
}

impl<T: DataType> Values<T> {
    /// Reads the values of so many rows. Returns of how many there were any.
    fn read(&mut self, from: &mut ColumnReaderImpl<T>, rows: usize) -> Result<usize, ParquetError> {
        self.values.clear();
        self.definitions.clear();
        self.repetitions.clear();
        let (read, ..) = from.read_records(
            rows,
            Some(&mut self.definitions),
            Some(&mut self.repetitions),
            &mut self.values,
        )?;
        Ok(read)
    }

    fn ensure_length(&self, path: &Path, column: &ColumnDescriptor) -> Result<()> {
        let length = usize::try_from(column.type_length()).ok();
        let is_fixed = column.physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY;
        if is_fixed && (self.values.iter()).any(|value| Some(value.as_bytes().len()) != length) {
            return Err(damaged(path, "a value is not as long as its column says"));
        }
        Ok(())
    }

    /// Leaves out the rows that are not kept. A row begins where the level of repetition is 0. A value is there where
    /// the level of definition is the greatest.
    fn retain(&mut self, is_kept: &[bool], most_definition: i16) {
        let levels = (self.definitions.len())
            .max(self.repetitions.len())
            .max(self.values.len());
        let (mut rows, mut value) = (0, 0);
        let (mut kept_levels, mut kept_values) = (0, 0);
        for level in 0..levels {
            rows += usize::from(self.repetitions.get(level).is_none_or(|&level| level == 0));
            let has_value = (self.definitions.get(level)).is_none_or(|&of| of == most_definition);
            if rows.checked_sub(1).is_some_and(|row| is_kept[row]) {
                if let Some(&definition) = self.definitions.get(level) {
                    self.definitions[kept_levels] = definition;
                }
                if let Some(&repetition) = self.repetitions.get(level) {
                    self.repetitions[kept_levels] = repetition;
                }
                kept_levels += 1;
                if has_value {
                    self.values.swap(kept_values, value);
                    kept_values += 1;
                }
            }
            value += usize::from(has_value);
        }
        self.values.truncate(kept_values);
        self.definitions.truncate(kept_levels);
        self.repetitions.truncate(kept_levels);
    }
}

/// Refuses files of which no copy can be made: files with a column of a type that is not known, and files whose columns
/// are not those of the first.
pub(crate) fn ensure_copyable(paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
    let mut first: Option<(PathBuf, SchemaDescriptor)> = None;
    for path in paths {
        let file = Rows::open(&path)?;
        let columns = file.schema();
        ensure_known(&path, columns.root_schema())?;
        match &first {
            Some((first, expected)) => ensure_same_columns(&path, columns, first, expected)?,
            None => first = Some((path, columns.clone())),
        }
    }
    Ok(())
}

fn ensure_known(path: &Path, column: &Type) -> Result<()> {
    if let Some(LogicalType::_Unknown { .. }) = column.get_basic_info().logical_type_ref() {
        let name = column.name();
        let reason = format!("its column `{name}` has a type that this release does not know");
        return Err(refused(path)(reason));
    }
    if column.is_group() {
        for column in column.get_fields() {
            ensure_known(path, column)?;
        }
    }
    Ok(())
}

fn ensure_same_columns(
    path: &Path,
    columns: &SchemaDescriptor,
    first: &Path,
    expected: &SchemaDescriptor,
) -> Result<()> {
    // The name of all columns together is one of the program that has written them.
    let [columns, expected] = [columns, expected].map(|all| all.root_schema().get_fields());
    let is_same = columns.len() == expected.len()
        && (columns.iter().zip(expected)).all(|(one, other)| is_same_column(one, other));
    if is_same {
        return Ok(());
    }
    let reason = format!(
        "its columns are not those of {}, so they cannot be in one file: let the output be a directory",
        first.display()
    );
    Err(refused(path)(reason))
}

/// Whether values of one column can stand in another. What they stand for may be said in an old way, in a new one, or
/// in both.
fn is_same_column(one: &Type, other: &Type) -> bool {
    let [of_one, of_other] = [one, other].map(Type::get_basic_info);
    let kinds = [of_one, of_other].map(|of| of.logical_type_ref());
    let is_same = one.name() == other.name()
        && of_one.has_repetition() == of_other.has_repetition()
        && (!of_one.has_repetition() || of_one.repetition() == of_other.repetition())
        && of_one.converted_type() == of_other.converted_type()
        && (kinds[0] == kinds[1]
            || kinds.contains(&None) && of_one.converted_type() != ConvertedType::NONE);
    is_same
        && match (one, other) {
            (
                Type::PrimitiveType {
                    physical_type,
                    type_length,
                    scale,
                    precision,
                    ..
                },
                Type::PrimitiveType {
                    physical_type: of_other,
                    type_length: length,
                    scale: its_scale,
                    precision: its_precision,
                    ..
                },
            ) => {
                (physical_type, type_length, scale, precision)
                    == (of_other, length, its_scale, its_precision)
            }
            (Type::GroupType { fields, .. }, Type::GroupType { fields: others, .. }) => {
                fields.len() == others.len()
                    && (fields.iter().zip(others)).all(|(one, other)| is_same_column(one, other))
            }
            _ => false,
        }
}

/// Whether Arrow is to read a column of a file as numbers of one or two bytes, with another list of what these stand
/// for in each row group. Such a list may become too long where row groups are joined.
fn has_short_dictionaries(metadata: &ParquetMetaData) -> bool {
    use arrow_schema::DataType::{Dictionary, Int8, Int16, UInt8, UInt16};

    let metadata = metadata.file_metadata();
    let arrow = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata());
    arrow.is_ok_and(|arrow| {
        arrow.flattened_fields().iter().any(|field| {
            matches!(field.data_type(), Dictionary(key, _)
                if matches!(**key, Int8 | Int16 | UInt8 | UInt16))
        })
    })
}

/// How a file was written, as far as it tells: how each column is packed. `texts` are its metadata.
fn properties_of(metadata: &ParquetMetaData, texts: Option<Vec<KeyValue>>) -> WriterProperties {
    let mut properties = WriterProperties::builder();
    let mut packed = HashSet::new();
    for column in metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns)
    {
        let path = column.column_path();
        if packed.insert(path.clone()) {
            properties = properties.set_column_compression(path.clone(), column.compression());
        }
    }
    properties.set_key_value_metadata(texts).build()
}

// Columns of groups: what is said of each row of a file whose rows were all kept, beside its own columns.

/// What is said of a row.
pub(crate) struct GroupRow {
    /// The number of its group.
    pub(crate) group: u64,
    /// The rows of that.
    pub(crate) size: u64,
    /// Whether it is the one that survives of its group.
    pub(crate) survives: bool,
    /// The name of that one.
    pub(crate) survivor: String,
    pub(crate) distance: u32,
    pub(crate) similarity: Option<f64>,
}

/// The text in which Spark keeps the columns. It reads no others than these.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The columns, with their types here and in Spark.
fn columns_of_groups() -> [(Field, &'static str); 6] {
    use arrow_schema::DataType::{Boolean, Float64, Int32, Int64, Utf8};

    [
        ("dedup_group", Int64, "long"),
        ("dedup_size", Int64, "long"),
        ("dedup_survives", Boolean, "boolean"),
        ("dedup_survivor", Utf8, "string"),
        ("dedup_distance", Int32, "integer"),
        ("dedup_similarity", Float64, "double"),
    ]
    .map(|(name, kind, of_spark)| (Field::new(name, kind, true), of_spark))
}

fn is_of_groups(name: &str) -> bool {
    columns_of_groups()
        .iter()
        .any(|(field, _)| field.name() == name)
}

/// The columns of a file without older ones of groups, and those of groups behind them.
fn with_parquet_columns(schema: &SchemaDescriptor) -> Result<SchemaDescriptor, ParquetError> {
    let root = schema.root_schema();
    let mut fields = root.get_fields().to_vec();
    fields.retain(|field| !is_of_groups(field.name()));
    let added = Schema::new(columns_of_groups().map(|(field, _)| field).to_vec());
    let added = ArrowSchemaConverter::new().convert(&added)?;
    fields.extend(added.root_schema().get_fields().iter().cloned());
    let root = Type::group_type_builder(root.name())
        .with_fields(fields)
        .build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// The same of the columns as Arrow has them, if a file tells of these among its texts.
fn with_arrow_columns(schema: &SchemaDescriptor, texts: Option<&Vec<KeyValue>>) -> Option<Schema> {
    let has_arrow = texts?.iter().any(|text| text.key == ARROW_SCHEMA_META_KEY);
    let arrow = has_arrow.then(|| parquet_to_arrow_schema(schema, texts))?;
    // Types that do not fit the columns are no loss.
    let arrow = arrow.ok()?;
    let mut fields = arrow.fields().to_vec();
    fields.retain(|field| !is_of_groups(field.name()));
    fields.extend(columns_of_groups().map(|(field, _)| Arc::new(field)));
    Some(Schema::new_with_metadata(fields, arrow.metadata().clone()))
}

/// The texts of a file that has these columns too, without the types of Arrow, which are others now.
fn with_column_texts(texts: Vec<KeyValue>) -> Vec<KeyValue> {
    let mut kept = Vec::with_capacity(texts.len());
    for mut text in texts {
        if text.key == ARROW_SCHEMA_META_KEY {
            continue;
        }
        if text.key == SPARK_SCHEMA {
            let columns = text.value.as_deref().and_then(with_spark_columns);
            // Without it, Spark takes the columns of the file.
            let Some(columns) = columns else { continue };
            text.value = Some(columns);
        }
        kept.push(text);
    }
    kept
}

/// The columns as Spark keeps them.
fn with_spark_columns(text: &str) -> Option<String> {
    let mut schema: Value = serde_json::from_str(text).ok()?;
    let fields = schema.get_mut("fields")?.as_array_mut()?;
    fields.retain(|field| !field["name"].as_str().is_some_and(is_of_groups));
    for (field, of_spark) in columns_of_groups() {
        fields.push(json!({
            "name": field.name(),
            "type": of_spark,
            "nullable": true,
            "metadata": {},
        }));
    }
    Some(schema.to_string())
}

/// The values of the columns of groups for some rows, which are null where nothing is said.
#[derive(Default)]
struct GroupColumns {
    groups: Vec<i64>,
    sizes: Vec<i64>,
    survive: Vec<bool>,
    survivors: Vec<ByteArray>,
    distances: Vec<i32>,
    similarities: Vec<f64>,
    /// 1 for each row of which something is said, else 0.
    is_said: Vec<i16>,
    /// 1 for each row that has a similarity, else 0.
    has_similarity: Vec<i16>,
}

impl GroupColumns {
    fn push(&mut self, row: Option<GroupRow>) {
        self.is_said.push(row.is_some().into());
        let similarity = row.as_ref().and_then(|row| row.similarity);
        self.has_similarity.push(similarity.is_some().into());
        self.similarities.extend(similarity);
        if let Some(row) = row {
            self.groups.push(row.group.cast_signed());
            self.sizes.push(row.size.cast_signed());
            self.survive.push(row.survives);
            self.survivors.push(row.survivor.into_bytes().into());
            self.distances.push(row.distance.cast_signed());
        }
    }

    /// Writes those of some parts of a row group, in order, behind its other columns.
    fn write(
        parts: &[&Self],
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        write::<Int64Type>(group, parts, |of| (&of.groups, &of.is_said))?;
        write::<Int64Type>(group, parts, |of| (&of.sizes, &of.is_said))?;
        write::<BoolType>(group, parts, |of| (&of.survive, &of.is_said))?;
        write::<ByteArrayType>(group, parts, |of| (&of.survivors, &of.is_said))?;
        write::<Int32Type>(group, parts, |of| (&of.distances, &of.is_said))?;
        write::<DoubleType>(group, parts, |of| (&of.similarities, &of.has_similarity))
    }
}

/// Writes the next column of a row group, of which each part gives the values and whether a row has one.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    parts: &[&GroupColumns],
    values_of: impl Fn(&GroupColumns) -> (&[T::T], &[i16]),
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.expect("the file has the columns of groups");
    for part in parts {
        let (values, is_there) = values_of(part);
        column
            .typed::<T>()
            .write_batch(values, Some(is_there), None)?;
    }
    column.close()
}
