//! Inputs that are read twice: the second time, their records are copied as they are stored, neither parsed nor
//! changed.

use std::io;
use std::path::{Path, PathBuf};

use super::format::InputFormat;
use super::input::{Behind, Input};
use super::opening::{Standing, cannot_read, is_stdin};
use super::options::ReadOptions;
use super::records::Records;
use super::stored_bytes::Progress;
use super::unpacked::Packing;
use crate::error::{Error, Result};
use crate::source::{Identity, Place, Sample, Source};

/// Inputs that were read before, and are read again to be copied.
pub(crate) struct StoredRecords {
    records: Records,
    failed: Vec<(PathBuf, Error)>,
}

impl StoredRecords {
    /// # Errors
    ///
    /// [`Error::Input`] for an input that cannot be read twice.
    pub(crate) fn open(
        paths: impl IntoIterator<Item = PathBuf>,
        options: ReadOptions,
    ) -> Result<Self> {
        let mut records = Records::open(paths, options)?;
        let failed = records.without_unreadable()?;
        let names = records.names();
        for (path, name) in records.paths().iter().zip(names.iter()) {
            if name.is_none() {
                return Err(Error::input(
                    path,
                    "it can be read only once, but has to be read twice; write it to a file first",
                ));
            }
        }
        Ok(Self { records, failed })
    }

    /// The inputs that cannot be read, and why. They are left out.
    pub(crate) fn failed(&self) -> &[(PathBuf, Error)] {
        &self.failed
    }

    /// Refuses to go on if there is nothing that can be read.
    pub(crate) fn ensure_any(&mut self) -> Result<()> {
        if self.records.paths().is_empty() && !self.failed.is_empty() {
            return Err(self.failed.remove(0).1);
        }
        Ok(())
    }

    /// The paths of the inputs, with the files of directories in their place.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        self.records.paths()
    }

    /// Where the file of an input is.
    pub(crate) fn place_of(&self, index: usize) -> PathBuf {
        self.records
            .options()
            .place_of(&self.paths()[index])
            .into_owned()
    }

    /// By what a database knows the inputs again.
    pub(crate) fn names(&mut self) -> Vec<Vec<u8>> {
        let names = self.records.names();
        let known = names.iter().map(|name| name.as_deref());
        known
            .map(|name| name.unwrap_or_default().to_vec())
            .collect()
    }

    /// The progress of reading from the beginning.
    pub(crate) fn begin_again(&self) -> Progress {
        let progress = self.records.progress();
        progress.begin_again();
        progress
    }

    /// How each input is cut into records, and how it is packed.
    pub(crate) fn kinds(&mut self) -> Result<Vec<(InputFormat, Packing)>> {
        let mut kinds = Vec::with_capacity(self.paths().len());
        for index in 0..self.paths().len() {
            kinds.push(match self.records.open_input(index, None)? {
                Some(input) => input.kind(),
                None => Default::default(),
            });
        }
        Ok(kinds)
    }

    /// Opens an input at a place between two records.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if it cannot be read, or is not as the source says that it was.
    pub(crate) fn open_at(
        &mut self,
        index: usize,
        place: Place,
        source: &Source,
    ) -> Result<Option<Input>> {
        self.ensure_same(index, source)?;
        let identity = Identity {
            last: Sample::default(),
            ..source.identity()
        };
        let behind = Behind {
            place,
            identity,
            is_again: false,
        };
        let is_begun = place != Place::default();
        self.records.open_input(index, is_begun.then_some(behind))
    }

    /// Refuses an input that has changed since it was read.
    pub(crate) fn ensure_same(&self, index: usize, source: &Source) -> Result<()> {
        if self.records.standing(index, source)? == Standing::Same {
            return Ok(());
        }
        let path: &Path = &self.paths()[index];
        let changed = io::Error::other(
            "it has changed since it was read; the same command begins anew when its folder of work is deleted",
        );
        debug_assert!(!is_stdin(path));
        Err(cannot_read(path, None, &changed))
    }
}
