//! Inputs: Parquet files, and the directories of them that Spark writes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

use crate::error::{Error, Result};

/// The Parquet files that paths stand for. A directory stands for the files in it and in its directories that end in
/// `.parquet`, in the order of their names. Spark hides other files by `_` and `.` in front of their names.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source: io::Error| Error::Io { path: path.to_owned(), source: source.into() };
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort_unstable();
    let mut files = Vec::new();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b".") || name.starts_with(b"_") {
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

/// Opens a file and reads its footer.
pub(super) fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file =
        File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source: source.into() })?;
    // The types of Parquet are enough, and fewer than those of Arrow.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|error| read_failed(path, &error))
}

/// A file is not as it should be.
pub(super) fn bad_input(path: &Path, reason: String) -> Error {
    Error::Input { source_name: path.display().to_string(), line: None, reason }
}

/// A file cannot be read.
pub(super) fn read_failed(path: &Path, error: &ParquetError) -> Error {
    let advice = match error {
        ParquetError::NYI(_) => "it was written in a way that this release does not read",
        _ => "it is damaged, not whole, or no Parquet file; make it again",
    };
    bad_input(path, format!("{advice} ({error})"))
}
