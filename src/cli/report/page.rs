//! The file of a page.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::cli::answer::Failure;
use crate::cli::console::Console;
use crate::cli::standing::ensure_may_stand;
use crate::files::{Existing, NewFile, directory_of};

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
        page.new_file()?;
        Ok(page)
    }

    /// Writes the page. The file has its name only when it is whole.
    pub(super) fn write(&self, page: &str) -> Result<(), Failure> {
        let file = self.new_file()?;
        (&*file.file)
            .write_all(page.as_bytes())
            .map_err(|error| self.failed(&error))?;
        let existing = match self.replace {
            true => Existing::Replace,
            false => Existing::Refuse,
        };
        file.finish(&self.place, existing)
            .map_err(|error| match error {
                Error::Io { source, .. } => self.failed(&source),
                Error::AlreadyExists { .. } => Error::AlreadyExists {
                    path: self.path.clone(),
                }
                .into(),
                error => error.into(),
            })
    }

    fn new_file(&self) -> Result<NewFile, Failure> {
        let folder =
            directory_of(&self.place).map_err(|_| self.refused("there is no such folder"))?;
        NewFile::create(folder).map_err(|error| match error {
            Error::Io { source, .. } => self.failed(&source),
            error => error.into(),
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
