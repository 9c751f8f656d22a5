//! An error with the database it is about.

use std::path::{Path, PathBuf};

use super::answer::Failure;
use crate::Error;

/// Names the database that an error is about, if the error itself does not.
pub(super) fn name_database(error: Failure, database: Option<&Path>) -> Failure {
    let error = match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => return error,
    };
    let names_its_file = matches!(
        *error,
        Error::Io { .. }
            | Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Busy { .. }
            | Error::NotSimdb { .. }
            | Error::NeedsRecovery { .. }
            | Error::NoRoom { .. }
            | Error::Removed { .. }
            | Error::SeveralNames { .. }
            | Error::OwnerNotKept { .. }
            | Error::Input { .. }
    );
    match database {
        Some(path) if !names_its_file => Box::new(About {
            path: path.to_owned(),
            error: *error,
        }),
        _ => error,
    }
}

/// An error with the database it is about.
#[derive(Debug)]
struct About {
    path: PathBuf,
    error: Error,
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for About {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
