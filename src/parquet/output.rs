//! Output: a Parquet file that gets its name when it is whole and durable.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::process::OfProcess;
use crate::same_bytes::are_same_bytes;

/// What is done with a file that stands where a new one is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It stays. It is an error, unless it has the same bytes as the new file: then a process that was killed had just
    /// made it.
    Refuse,
    /// The new file takes its place.
    Replace,
}

/// A file that is being written.
pub(super) struct Output {
    path: PathBuf,
    existing: Existing,
    file: OfProcess<NamedTempFile>,
    writer: ArrowWriter<File>,
}

impl Output {
    pub(super) fn create(
        path: &Path,
        existing: Existing,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self> {
        let failed = |source: io::Error| Error::Io {
            path: path.to_owned(),
            source: source.into(),
        };
        // What is no Parquet is seen before the work.
        let may_stand = || is_parquet(path) || path.symlink_metadata().is_err();
        if existing == Existing::Refuse && !may_stand() {
            return Err(Error::AlreadyExists {
                path: path.to_owned(),
            });
        }
        // The caller's progress may change the directory of the process.
        let path = std::path::absolute(path).map_err(failed)?;
        if path.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let mut names = tempfile::Builder::new();
        names.prefix(".simdb-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // As the user's umask allows.
            names.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = names
            .tempfile_in(path.parent().unwrap_or(Path::new(".")))
            .map_err(failed)?;
        // The schema of Arrow would only repeat that of Parquet.
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        let second = file.as_file().try_clone().map_err(failed)?;
        let writer = ArrowWriter::try_new_with_options(second, schema, options);
        let writer = writer.map_err(|error| write_failed(&path, error))?;
        Ok(Self {
            path,
            existing,
            file: OfProcess::new(file),
            writer,
        })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer
            .write(batch)
            .map_err(|error| write_failed(&self.path, error))
    }

    /// Ends the file, makes it durable and gives it its name. Returns its length.
    pub(super) fn keep(self) -> Result<u64> {
        let Self {
            path,
            existing,
            file,
            mut writer,
        } = self;
        let failed = |source: io::Error| Error::Io {
            path: path.clone(),
            source: source.into(),
        };
        writer
            .finish()
            .map_err(|error| write_failed(&path, error))?;
        drop(writer);
        let file = file.take().ok_or(Error::Forked)?;
        file.as_file().sync_all().map_err(failed)?;
        let bytes = file.as_file().metadata().map_err(failed)?.len();
        let named = match existing {
            Existing::Refuse => file.persist_noclobber(&path),
            Existing::Replace => file.persist(&path),
        };
        match named {
            Ok(_) => {}
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error.error));
            }
            Err(error) if are_same_bytes(error.file.path(), &path) => {}
            Err(_) => return Err(Error::AlreadyExists { path: path.clone() }),
        }
        if cfg!(unix) {
            File::open(path.parent().unwrap_or(Path::new(".")))
                .and_then(|it| it.sync_all())
                .map_err(failed)?;
        }
        Ok(bytes)
    }
}

/// Whether a file begins as Parquet does.
fn is_parquet(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut magic))
        .is_ok()
        && magic == *b"PAR1"
}

/// A file cannot be written.
pub(super) fn write_failed(path: &Path, error: impl Into<ParquetError>) -> Error {
    let source = match error.into() {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    };
    Error::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}
