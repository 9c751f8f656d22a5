//! Inputs: Parquet files, and the directories of them that Spark writes. Nothing in a file makes a reader panic.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::error::{Error, Result};
use crate::store::caught;

/// What is said of a file that cannot be understood.
const DAMAGED: &str = "it is damaged, not whole, or no Parquet file; make it again";

/// The Parquet files that paths stand for. A directory stands for the files in it and in its directories that end in
/// `.parquet`, in the order of their names. Spark hides other files by `_` and `.` in front of their names, but not
/// directories of a partition such as `_a=1`.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source: io::Error| Error::Io {
        path: path.to_owned(),
        source: source.into(),
    };
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort_unstable();
    let mut files = Vec::new();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b".") || name.starts_with(b"_") && !name.contains(&b'=') {
            continue;
        }
        if entry.is_dir() {
            files.extend(files_of(&entry)?);
        } else if entry.extension().is_some_and(|it| it == "parquet") {
            files.push(entry);
        }
    }
    Ok(files)
}

/// Opens a file and reads its footer. Times of the type INT96 are read in seconds: in nanoseconds, those before 1677 or
/// after 2262 would be others.
pub(super) fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    // The types of Parquet are enough, and fewer than those of Arrow.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    open_with(path, |file| {
        let metadata = ArrowReaderMetadata::load(file, options.clone())?;
        match with_times_in_seconds(&metadata) {
            None => Ok(metadata),
            Some(schema) => ArrowReaderMetadata::try_new(
                metadata.metadata().clone(),
                options.with_schema(schema),
            ),
        }
    })
}

/// Opens a file with the types that the program that has written it says.
#[cfg(feature = "ingest")]
pub(super) fn open_as_written(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    open_with(path, |file| {
        ArrowReaderMetadata::load(file, ArrowReaderOptions::new())
    })
}

fn open_with(
    path: &Path,
    load: impl FnOnce(&File) -> Result<ArrowReaderMetadata, ParquetError>,
) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = File::open(path).map_err(|source| Error::Io {
        path: path.to_owned(),
        source: source.into(),
    })?;
    let metadata = guarded(path, || load(&file))?;
    ensure_packing(metadata.metadata()).map_err(|reason| bad_input(path, reason))?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(
        file, metadata,
    ))
}

/// The columns, with seconds where they are INT96. `None` if none is.
fn with_times_in_seconds(metadata: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let columns = metadata
        .metadata()
        .file_metadata()
        .schema_descr()
        .root_schema()
        .get_fields();
    let in_seconds = |field: &Arc<Field>| {
        let is_int96 = |name| columns.iter().any(|it| it.name() == name && is_int96(it));
        let is_time = field.data_type() == &DataType::Timestamp(TimeUnit::Nanosecond, None);
        let seconds = || {
            field
                .as_ref()
                .clone()
                .with_data_type(DataType::Timestamp(TimeUnit::Second, None))
        };
        (is_time && is_int96(field.name())).then(|| Arc::new(seconds()))
    };
    let fields = metadata.schema().fields();
    fields.iter().any(|it| in_seconds(it).is_some()).then(|| {
        let fields: Vec<_> = fields
            .iter()
            .map(|it| in_seconds(it).unwrap_or_else(|| it.clone()))
            .collect();
        Arc::new(Schema::new_with_metadata(
            fields,
            metadata.schema().metadata().clone(),
        ))
    })
}

/// Whether a column is of the type INT96, in which many programs still write times.
pub(super) fn is_int96(column: &parquet::schema::types::Type) -> bool {
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

/// The rows of a file, some at a time. After an error it ends.
pub(super) struct Batches {
    path: PathBuf,
    reader: Option<ParquetRecordBatchReader>,
}

impl Batches {
    /// Begins to read. `path` is that of the file.
    pub(super) fn of(path: &Path, builder: ParquetRecordBatchReaderBuilder<File>) -> Result<Self> {
        let reader = guarded(path, || builder.build())?;
        Ok(Self {
            path: path.to_owned(),
            reader: Some(reader),
        })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        let next = guarded(&self.path, || Ok(reader.next().transpose()?)).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.reader = None;
        }
        next
    }
}

/// Runs what may panic if the file is damaged.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match caught(read) {
        Ok(read) => read.map_err(|error| read_failed(path, &error)),
        Err(panic) => Err(bad_input(path, format!("{DAMAGED} ({panic})"))),
    }
}

/// A file is not as it should be.
pub(super) fn bad_input(path: &Path, reason: String) -> Error {
    Error::Input {
        source_name: path.display().to_string(),
        line: None,
        reason,
    }
}

/// A file cannot be read.
fn read_failed(path: &Path, error: &ParquetError) -> Error {
    let advice = match error {
        ParquetError::NYI(_) | ParquetError::General(_) if error.to_string().contains("ncrypt") => {
            "it is encrypted, which is not read; write it without encryption"
        }
        ParquetError::NYI(_) => "it was written in a way that this release does not read",
        _ => DAMAGED,
    };
    bad_input(path, format!("{advice} ({error})"))
}
