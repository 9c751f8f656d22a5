//! Opening the database that a command is about.

use std::io;
use std::path::Path;

use crate::{Database, Error, OpenOptions};

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Opening {
    /// To read it. Several commands that read can run at once, and the permission to read is enough. If the engine has
    /// to recover the file first, the file is opened for writing.
    Read,
    /// To read and write it.
    Write,
    /// To check it. If it may only be read, it is opened to read. Then the checksums of the pages are not verified.
    Check,
}

impl Opening {
    /// For a command that only looks unless `changes`.
    pub(super) fn new(changes: bool) -> Self {
        if changes { Self::Write } else { Self::Read }
    }

    pub(super) fn open(self, path: &Path) -> Result<Database, Error> {
        match self {
            Self::Read => match Database::open(path, &OpenOptions::new().read_only(true)) {
                Err(unrecovered @ Error::NeedsRecovery { .. }) => match Self::Write.open(path) {
                    // What has to be done is said by the first error only.
                    Err(error) if may_only_read(&error) => Err(unrecovered),
                    opened => opened,
                },
                opened => opened,
            },
            Self::Write => Database::open(path, &OpenOptions::new()),
            Self::Check => match Self::Write.open(path) {
                Err(error) if may_only_read(&error) => Self::Read.open(path),
                opened => opened,
            },
        }
    }
}

/// Whether a database could not be opened to write because the file or the file system may only be read.
/// It may still be possible to open it to read.
fn may_only_read(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, Error::Io { source, .. } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}
