//! Parquet files for tests: arrays, batches, and files that Arrow does not write.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::support::TestResult;

pub(crate) fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

pub(crate) fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    array(Int64Array::from_iter_values(values))
}

pub(crate) fn strings<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    array(StringArray::from_iter_values(values))
}

/// Writes a file of one batch.
pub(crate) fn write_batch(
    path: &Path,
    batch: &RecordBatch,
    properties: Option<WriterProperties>,
) -> TestResult {
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), properties)?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

pub(crate) type GroupWriter<'g> = SerializedRowGroupWriter<'g, File>;

/// Writes a file of a schema: a group of rows for each of these.
pub(crate) fn write_groups<G>(
    path: &Path,
    schema: &str,
    properties: WriterProperties,
    groups: impl IntoIterator<Item = G>,
    write: impl Fn(&mut GroupWriter<'_>, G) -> Result<(), ParquetError>,
) -> TestResult<ParquetMetaData> {
    let schema = Arc::new(parse_message_type(schema)?);
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, Arc::new(properties))?;
    for rows in groups {
        let mut group = file.next_row_group()?;
        write(&mut group, rows)?;
        group.close()?;
    }
    Ok(file.close()?)
}

/// Writes the next column of a group.
pub(crate) fn column<T: DataType>(
    group: &mut GroupWriter<'_>,
    values: &[T::T],
    levels: Option<(&[i16], Option<&[i16]>)>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("there is one more column");
    let definitions = levels.map(|levels| levels.0);
    let repetitions = levels.and_then(|levels| levels.1);
    column
        .typed::<T>()
        .write_batch(values, definitions, repetitions)?;
    column.close()
}
