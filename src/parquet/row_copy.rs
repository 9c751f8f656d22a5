//! Copies of Parquet files without some of their rows.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescriptor;

use super::inputs::{Batches, bad_input, is_int96, open_as_written};
use super::output::write_failed;
use crate::error::{Error, Result};

/// The rows that are copied together.
const TOGETHER: usize = 1024;

/// A file that gets rows of others.
pub(crate) struct RowCopy {
    to: PathBuf,
    begun: Option<Begun>,
}

/// The copy, and the file that has begun it.
struct Begun {
    writer: ArrowWriter<File>,
    from: PathBuf,
    schema: SchemaDescriptor,
}

impl RowCopy {
    /// A new file at `to`, in the place of an old one.
    pub(crate) fn new(to: &Path) -> Self {
        Self {
            to: to.to_owned(),
            begun: None,
        }
    }

    /// Adds the rows of a file that `keeps` wants, which gets the numbers of rows, from 1, in order. All files have the
    /// same columns. The first says how the copy is packed and what its metadata are.
    pub(crate) fn add(
        &mut self,
        from: &Path,
        mut keeps: impl FnMut(u64) -> Result<bool>,
        mut copied: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let bytes = from.metadata().map_or(0, |metadata| metadata.len());
        let builder = open_as_written(from)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin(from, &builder)?,
        };
        if begun.schema.root_schema() != builder.parquet_schema().root_schema() {
            let first = begun.from.display();
            let reason = format!(
                "its columns are not those of {first}, so they cannot be in one file: let the output be a directory"
            );
            return Err(bad_input(from, reason));
        }
        let mut row = 0;
        let mut reported = 0;
        for batch in Batches::new(from, builder.with_batch_size(TOGETHER))? {
            let batch = batch?;
            let mut wanted = Vec::with_capacity(batch.num_rows());
            for _ in 0..batch.num_rows() {
                row += 1;
                wanted.push(keeps(row)?);
            }
            let kept = filter_record_batch(&batch, &BooleanArray::from(wanted));
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
        // What other programs keep of the types of Arrow is among the metadata that are copied.
        let options = ArrowWriterOptions::new()
            .with_skip_arrow_metadata(true)
            .with_properties(properties_of(builder.metadata()))
            .with_parquet_schema(schema.clone());
        let writer = ArrowWriter::try_new_with_options(file, builder.schema().clone(), options);
        let writer = writer.map_err(write_failed(&self.to))?;
        Ok(Begun {
            writer,
            from: from.to_owned(),
            schema,
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

/// Refuses a file with a column that cannot be written as it is.
pub(crate) fn ensure_copyable(path: &Path) -> Result<()> {
    let builder = open_as_written(path)?;
    for column in builder.parquet_schema().columns() {
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

/// How a file was written, as far as it tells: how each column is packed, how many rows a group has, its metadata.
fn properties_of(metadata: &ParquetMetaData) -> WriterProperties {
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
    let texts = metadata.file_metadata().key_value_metadata();
    properties.set_key_value_metadata(texts.cloned()).build()
}
