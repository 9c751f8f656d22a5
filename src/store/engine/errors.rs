//! Errors of the engine as errors of simdb.

use std::io;
use std::path::Path;

use redb::DatabaseError;

use super::holders::holder_of;
use crate::error::Error;

/// The error for a failure of the engine to open or create the file at `path`.
pub(crate) fn open_error(path: &Path, error: DatabaseError) -> Error {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Busy {
            holder: holder_of(&path),
            path,
        },
        DatabaseError::RepairAborted => Error::NeedsRecovery { path },
        DatabaseError::UpgradeRequired(_) => Error::NotSimdb { path },
        DatabaseError::Storage(redb::StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Error::NotSimdb { path },
            _ => Error::Io {
                path,
                source: source.into(),
            },
        },
        error => engine_error(error),
    }
}

/// The error for a failure of the engine. Damage has a variant of its own, since callers can act on it.
pub(crate) fn engine_error(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TypeDefinitionChanged { .. }) => Error::corrupted(error),
        // The engine never reads behind the end of a file that is whole.
        redb::Error::Io(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
            ) =>
        {
            Error::corrupted(cause)
        }
        error => Error::storage(error),
    }
}
