//! Copies of Parquet files without some of their rows, or with what is said of each row.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::BooleanArray;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescriptor;

use super::group_columns::{
    GroupRow, with_column_texts, with_columns, with_parquet_columns, with_values,
};
use super::inputs::{Batches, bad_input, is_int96, open_as_written};
use super::output::write_failed;
use crate::error::{Error, Result};

/// The rows that are copied together.
const TOGETHER: usize = 1024;

/// What becomes of a row.
pub(crate) enum RowFate {
    LeftOut,
    Copied,
    /// It is copied with this in the columns of groups, if the file gets these.
    Annotated(GroupRow),
}

/// A file that gets rows of others.
pub(crate) struct RowCopy {
    to: PathBuf,
    /// Whether it gets the columns of groups.
    has_groups: bool,
    begun: Option<Begun>,
}

/// The copy, and the file that has begun it.
struct Begun {
    writer: ArrowWriter<File>,
    from: PathBuf,
    /// The columns of that file.
    schema: SchemaDescriptor,
    /// Those of the copy.
    written: SchemaRef,
}

impl RowCopy {
    /// A new file at `to`, in the place of an old one.
    pub(crate) fn new(to: &Path, has_groups: bool) -> Self {
        Self {
            to: to.to_owned(),
            has_groups,
            begun: None,
        }
    }

    /// Adds the rows of a file as `fate_of` says, which gets the numbers of rows, from 1, in order. All files have the
    /// same columns. The first says how the copy is packed and what its metadata are.
    pub(crate) fn add(
        &mut self,
        from: &Path,
        mut fate_of: impl FnMut(u64) -> Result<RowFate>,
        mut copied: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let bytes = from.metadata().map_or(0, |metadata| metadata.len());
        let builder = open_as_written(from)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin(from, &builder)?,
        };
        ensure_same_columns(from, builder.parquet_schema(), &begun.from, &begun.schema)?;
        let mut row = 0;
        let mut reported = 0;
        for batch in Batches::new(from, builder.with_batch_size(TOGETHER))? {
            let batch = batch?;
            let mut wanted = Vec::with_capacity(batch.num_rows());
            let mut said = Vec::new();
            for _ in 0..batch.num_rows() {
                row += 1;
                let fate = fate_of(row)?;
                wanted.push(!matches!(fate, RowFate::LeftOut));
                match fate {
                    RowFate::LeftOut => {}
                    RowFate::Copied => said.push(None),
                    RowFate::Annotated(row) => said.push(Some(row)),
                }
            }
            let mut kept = filter_record_batch(&batch, &BooleanArray::from(wanted));
            if self.has_groups {
                kept = kept.and_then(|kept| with_values(&kept, &said, &begun.written));
            }
            let written = kept
                .map_err(ParquetError::from)
                .and_then(|kept| begun.writer.write(&kept));
            written.map_err(write_failed(&self.to))?;
            let share = (u128::from(bytes) * u128::from(row) / u128::from(rows.max(1))) as u64;
            copied(share - reported)?;
            reported = share;
        }
        self.begun = Some(begun);
        copied(bytes - reported)
    }

    /// What the first file has begun.
    fn begin(&self, from: &Path, builder: &ParquetRecordBatchReaderBuilder<File>) -> Result<Begun> {
        let file = File::create(&self.to).map_err(Error::io(&self.to))?;
        let schema = builder.parquet_schema().clone();
        let metadata = builder.metadata();
        let texts = metadata.file_metadata().key_value_metadata().cloned();
        let mut written = builder.schema().clone();
        // What other programs keep of the types of Arrow is among the texts that are copied.
        let mut options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
        if self.has_groups {
            let (texts, has_arrow) = with_column_texts(texts.unwrap_or_default());
            let columns = with_parquet_columns(&schema).map_err(write_failed(&self.to))?;
            written = with_columns(&written);
            options = options
                .with_skip_arrow_metadata(!has_arrow)
                .with_properties(properties_of(metadata, Some(texts)))
                .with_parquet_schema(columns);
        } else {
            options = options
                .with_properties(properties_of(metadata, texts))
                .with_parquet_schema(schema.clone());
        }
        let writer = ArrowWriter::try_new_with_options(file, written.clone(), options);
        let writer = writer.map_err(write_failed(&self.to))?;
        Ok(Begun {
            writer,
            from: from.to_owned(),
            schema,
            written,
        })
    }

    /// Ends the file and makes it durable.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(Begun { writer, .. }) = self.begun else {
            return Ok(());
        };
        let file = writer.into_inner().map_err(write_failed(&self.to))?;
        file.sync_all().map_err(write_failed(&self.to))
    }
}

/// Refuses files of which no copy can be made: files with a column that cannot be written as it is, and files whose
/// columns are not those of the first.
pub(crate) fn ensure_copyable(paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
    let mut first: Option<(PathBuf, SchemaDescriptor)> = None;
    for path in paths {
        let builder = open_as_written(&path)?;
        let columns = builder.parquet_schema();
        ensure_no_int96(&path, columns)?;
        match &first {
            Some((first, expected)) => ensure_same_columns(&path, columns, first, expected)?,
            None => first = Some((path, columns.clone())),
        }
    }
    Ok(())
}

fn ensure_no_int96(path: &Path, columns: &SchemaDescriptor) -> Result<()> {
    for column in columns.columns() {
        if is_int96(column.self_type()) {
            return Err(bad_input(
                path,
                format!(
                    "its column `{}` is of the old type INT96, which cannot be copied; write it as TIMESTAMP (in Spark: \
                     SET spark.sql.parquet.outputTimestampType = TIMESTAMP_MICROS)",
                    column.path().string()
                ),
            ));
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
    if columns.root_schema() == expected.root_schema() {
        return Ok(());
    }
    let reason = format!(
        "its columns are not those of {}, so they cannot be in one file: let the output be a directory",
        first.display()
    );
    Err(bad_input(path, reason))
}

/// How a file was written, as far as it tells: how each column is packed, how many rows a group has. `texts` are its
/// metadata.
fn properties_of(metadata: &ParquetMetaData, texts: Option<Vec<KeyValue>>) -> WriterProperties {
    let mut properties = WriterProperties::builder();
    let rows = metadata
        .row_groups()
        .iter()
        .map(RowGroupMetaData::num_rows)
        .max()
        .unwrap_or(0);
    if let Some(rows) = usize::try_from(rows).ok().filter(|&rows| rows > 0) {
        properties = properties.set_max_row_group_row_count(Some(rows));
    }
    let mut packed = HashSet::new();
    for group in metadata.row_groups() {
        for column in group.columns() {
            if packed.insert(column.column_path().clone()) {
                properties = properties
                    .set_column_compression(column.column_path().clone(), column.compression());
            }
        }
    }
    properties.set_key_value_metadata(texts).build()
}
