//! Output: a Parquet file that gets its name when it is whole and durable.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::inputs::is_parquet;
use crate::error::{Error, Result};
use crate::files::{Existing, NewFile, absolute_file, already_exists, open_if_file};

/// How files of pairs and of clusters are written.
pub(super) fn properties_of_pairs() -> WriterProperties {
    const GROUP_ROWS: usize = 1 << 20;
    WriterProperties::builder()
        .set_created_by(concat!("simdb ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build()
}

/// A column with its name and its type, and some of its values.
pub(super) type Column = (Field, ArrayRef);

/// A column of this name, and whether it may have nulls.
pub(super) fn column(name: &str, may_be_null: bool, values: impl Array + 'static) -> Column {
    let field = Field::new(name, values.data_type().clone(), may_be_null);
    (field, Arc::new(values))
}

pub(super) struct Output {
    path: PathBuf,
    existing: Existing,
    file: NewFile,
    writer: ArrowWriter<File>,
    schema: SchemaRef,
}

impl Output {
    /// Begins a file with these columns, whose values are not written. `replace` says whether it may take the place
    /// of an old one.
    pub(super) fn create(
        path: &Path,
        replace: bool,
        columns: Vec<Column>,
        properties: WriterProperties,
    ) -> Result<Self> {
        // What is no Parquet is seen before the work.
        let may_stand = path.symlink_metadata().is_err() || is_parquet_at(path);
        if !replace && !may_stand {
            return Err(already_exists(path));
        }
        let path = absolute_file(path).map_err(Error::io(path))?;
        if path.is_dir() {
            return Err(Error::io(&path)(io::ErrorKind::IsADirectory.into()));
        }
        let existing = match replace {
            true => Existing::Replace,
            false => Existing::Refuse,
        };
        let (path, file) = NewFile::at(&path, existing)?;
        let (fields, _): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let schema = Arc::new(Schema::new(fields));
        // The schema of Arrow would only repeat that of Parquet.
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        let second = file.file.try_clone().map_err(Error::io(&path))?;
        let writer = ArrowWriter::try_new_with_options(second, schema.clone(), options);
        let writer = writer.map_err(write_failed(&path))?;
        Ok(Self {
            path,
            existing,
            file,
            writer,
            schema,
        })
    }

    /// Writes the rows of the same columns in the same order.
    pub(super) fn write(&mut self, columns: Vec<Column>) -> Result<()> {
        let values = columns.into_iter().map(|(_, values)| values).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), values);
        let batch = batch.map_err(write_failed(&self.path))?;
        self.writer.write(&batch).map_err(write_failed(&self.path))
    }

    /// Ends the file, makes it durable and gives it its name. Returns its length.
    pub(super) fn keep(self) -> Result<u64> {
        let Self {
            path,
            existing,
            file,
            mut writer,
            ..
        } = self;
        writer.finish().map_err(write_failed(&path))?;
        drop(writer);
        let bytes = file.file.metadata().map_err(Error::io(&path))?.len();
        file.finish(&path, existing)?;
        Ok(bytes)
    }
}

fn is_parquet_at(path: &Path) -> bool {
    let Ok(Some(mut file)) = open_if_file(path) else {
        return false;
    };
    is_parquet(&mut file).unwrap_or(false)
}

/// The error of a file that cannot be written: `map_err(write_failed(path))`.
pub(super) fn write_failed<E: Into<ParquetError>>(path: &Path) -> impl Fn(E) -> Error {
    move |error| {
        let source = match error.into() {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(cause) => io::Error::other(cause),
            },
            error => io::Error::other(error),
        };
        Error::io(path)(source)
    }
}
