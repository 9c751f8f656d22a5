//! A small file that a command writes at its end: whole, or not at all. Whether it can be written is known before the
//! work.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::answer::Failure;
use super::console::Console;
use super::existing_output::{ensure_may_stand, ensure_replaceable};
use crate::Error;
use crate::files::{Existing, NewFile, directory_of, ensure_nothing_at};

/// The file.
pub(super) struct WholeFile {
    /// What it is, for messages.
    what: &'static str,
    /// As it was given.
    path: PathBuf,
    pub(super) place: PathBuf,
    replace: bool,
}

impl WholeFile {
    pub(super) fn new(what: &'static str, path: &Path, replace: bool, console: &Console) -> Self {
        Self {
            what,
            path: path.to_owned(),
            place: console.place_of(path),
            replace,
        }
    }

    /// Refuses what the command reads, and what is no file.
    pub(super) fn ensure_apart<'p>(
        &self,
        database: Option<&Path>,
        inputs: impl IntoIterator<Item = &'p PathBuf>,
        console: &Console,
    ) -> Result<(), Failure> {
        let inputs: Vec<PathBuf> = inputs
            .into_iter()
            .map(|path| console.place_of(path))
            .collect();
        ensure_replaceable(&self.place, database, inputs.iter().map(PathBuf::as_path))
    }

    /// Refuses a file that exists or cannot be written, before there is any work for it. One that begins as
    /// `may_begin` says may be what a command that was killed has made, and is compared at the end.
    pub(super) fn ensure_writable(&self, may_begin: Option<&str>) -> Result<(), Failure> {
        if !self.replace {
            let absent = match may_begin {
                Some(begin) => ensure_may_stand(&self.place, begin.as_bytes()),
                None => ensure_nothing_at(&self.place),
            };
            absent.map_err(|_| self.exists())?;
        }
        if self.place.is_dir() {
            return Err(self.refused("it is a folder"));
        }
        // Dropped at once, so nothing is left if the process is killed at its work.
        self.new_file().map(drop)
    }

    /// Writes it. It has its name only when it is whole.
    pub(super) fn write(&self, text: String) -> Result<(), Failure> {
        Self::write_together(&[(self, text)])
    }

    /// Writes all files or none: each is whole before the first has its name. If one cannot get its name, those before
    /// lose theirs again, except in the place of an old file.
    pub(super) fn write_together(files: &[(&Self, String)]) -> Result<(), Failure> {
        let mut written = Vec::with_capacity(files.len());
        for (file, text) in files {
            let new = file.new_file()?;
            (&*new.file)
                .write_all(text.as_bytes())
                .map_err(|error| file.failed(&error))?;
            written.push(new);
        }
        for (index, new) in written.into_iter().enumerate() {
            if let Err(failure) = files[index].0.name(new) {
                for (file, _) in &files[..index] {
                    if !file.replace {
                        _ = fs::remove_file(&file.place);
                    }
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn name(&self, new: NewFile) -> Result<(), Failure> {
        let existing = match self.replace {
            true => Existing::Replace,
            false => Existing::Refuse,
        };
        match new.finish(&self.place, existing) {
            Err(Error::Io { source, .. }) => Err(self.failed(&source)),
            Err(Error::AlreadyExists { .. }) => Err(self.exists().into()),
            finished => Ok(finished?),
        }
    }

    fn new_file(&self) -> Result<NewFile, Failure> {
        let folder =
            directory_of(&self.place).map_err(|_| self.refused("there is no such folder"))?;
        NewFile::create(folder).map_err(|error| match error {
            Error::Io { source, .. } => self.failed(&source),
            error => error.into(),
        })
    }

    fn exists(&self) -> Error {
        Error::AlreadyExists {
            path: self.path.clone(),
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        self.refused(&error.to_string())
    }

    fn refused(&self, reason: &str) -> Failure {
        let path = self.path.display();
        format!("{path}: the {} cannot be written: {reason}", self.what).into()
    }
}
