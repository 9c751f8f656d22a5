//! The file of a page.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Error;
use crate::cli::answer::Failure;
use crate::cli::console::Console;
use crate::cli::resumable::sync_directory;
use crate::cli::standing::ensure_may_stand;

/// How each page begins.
const BEGIN: &str = "<!DOCTYPE html>";

/// The file for a page.
pub(super) struct Page {
    /// As it was given.
    path: PathBuf,
    place: PathBuf,
    replace: bool,
}

impl Page {
    /// Refuses a file that exists or cannot be written, before there is any work for it.
    pub(super) fn new(path: &Path, replace: bool, console: &Console) -> Result<Self, Failure> {
        let page = Self {
            path: path.to_owned(),
            place: console.place_of(path),
            replace,
        };
        if !replace {
            ensure_may_stand(&page.place, BEGIN.as_bytes()).map_err(|_| Error::AlreadyExists {
                path: page.path.clone(),
            })?;
        }
        if page.place.is_dir() {
            return Err(page.refused("it is a folder"));
        }
        // Dropped at once, so nothing is left if the process is killed at its work.
        page.temporary()?;
        Ok(page)
    }

    /// Writes the page. The file has its name only when it is whole.
    pub(super) fn write(&self, page: &str) -> Result<(), Failure> {
        let mut file = self.temporary()?;
        let written = file
            .write_all(page.as_bytes())
            .and_then(|()| file.as_file().sync_all());
        written.map_err(|error| self.failed(&error))?;
        let named = match self.replace {
            true => file.persist(&self.place),
            false => file.persist_noclobber(&self.place),
        };
        match named {
            Ok(_) => sync_directory(&self.place),
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                Err(self.failed(&error.error))
            }
            // A process that was killed had just made it.
            Err(_) if fs::read(&self.place).is_ok_and(|standing| standing == page.as_bytes()) => {
                Ok(())
            }
            Err(_) => Err(Error::AlreadyExists {
                path: self.path.clone(),
            }
            .into()),
        }
    }

    /// A new file beside the page.
    fn temporary(&self) -> Result<NamedTempFile, Failure> {
        let folder = match self.place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut names = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // Those of other new files. Without it, nobody else could read the page.
            names.permissions(fs::Permissions::from_mode(0o666));
        }
        names
            .prefix(".simdb-")
            .tempfile_in(folder)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => self.refused("there is no such folder"),
                _ => self.failed(&error),
            })
    }

    fn failed(&self, error: &io::Error) -> Failure {
        // The error of a temporary file names it, and nobody has heard of that.
        match error.get_ref().and_then(|it| it.source()) {
            Some(cause) => self.refused(&cause.to_string()),
            None => self.refused(&error.to_string()),
        }
    }

    fn refused(&self, reason: &str) -> Failure {
        format!(
            "{}: the page cannot be written: {reason}",
            self.path.display()
        )
        .into()
    }
}
