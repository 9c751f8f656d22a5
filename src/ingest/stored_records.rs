//! The records of inputs as they are stored: cut, but neither parsed nor changed.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::format::InputFormat;
use super::input::Input;
use super::input_queue::Inputs;
use super::opening::{cannot_read, is_stdin};
use super::options::ReadOptions;
use super::progress::Progress;
use super::raw::Mark;
use super::stamp::Standing;
pub(crate) use super::unpacked::Packing;
use crate::error::{Error, Result, path_name};
use crate::source::{Place, Sample, Source};

/// Inputs that were read before, and are read again to be copied.
pub(crate) struct StoredRecords {
    inputs: Inputs,
    current: Option<Input>,
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
        let mut inputs = Inputs::open(paths.into_iter().collect(), options)?;
        let failed = inputs.without_unreadable()?;
        let names = inputs.names();
        match inputs
            .paths()
            .iter()
            .zip(names.iter())
            .find(|(_, name)| name.is_none())
        {
            None => Ok(Self {
                inputs,
                current: None,
                failed,
            }),
            Some((path, _)) => Err(Error::Input {
                source_name: path_name(path),
                line: None,
                reason:
                    "it can be read only once, but has to be read twice; write it to a file first"
                        .to_owned(),
            }),
        }
    }

    /// The inputs that cannot be read, and why. They are left out.
    pub(crate) fn failed(&self) -> &[(PathBuf, Error)] {
        &self.failed
    }

    /// Refuses to go on if there is nothing that can be read.
    pub(crate) fn ensure_any(&mut self) -> Result<()> {
        match self.inputs.paths().is_empty() && !self.failed.is_empty() {
            true => Err(self.failed.remove(0).1),
            false => Ok(()),
        }
    }

    /// The paths of the inputs, with the files of directories in their place.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        self.inputs.paths()
    }

    /// Where the file of an input is.
    pub(crate) fn place_of(&self, index: usize) -> PathBuf {
        self.inputs
            .options()
            .place_of(&self.paths()[index])
            .into_owned()
    }

    /// By what a database knows the inputs again.
    pub(crate) fn names(&mut self) -> Result<Vec<Vec<u8>>> {
        let names = self.inputs.names();
        Ok(names
            .iter()
            .map(|name| name.as_deref().unwrap_or_default().to_vec())
            .collect())
    }

    /// The progress of reading from the beginning.
    pub(crate) fn begin_again(&self) -> Progress {
        let progress = self.inputs.progress();
        progress.begin_again();
        progress
    }

    /// How an input is cut into records, and how it is packed.
    pub(crate) fn kind_of(&mut self, index: usize) -> Result<(InputFormat, Packing)> {
        Ok(self
            .inputs
            .open_input(index)?
            .map(|it| it.kind())
            .unwrap_or_default())
    }

    /// Opens an input at a place between two records. True if a byte order mark stands before its first one.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if it cannot be read, or is not as the source says that it was.
    pub(crate) fn begin(&mut self, index: usize, place: Place, source: &Source) -> Result<bool> {
        self.ensure_same(index, source)?;
        if place != Place::default() {
            let mut identity = source.identity();
            identity.last = Sample::default();
            self.inputs.begin_at(
                index,
                Mark {
                    place,
                    last: identity.last,
                },
                identity,
            );
        }
        self.current = self.inputs.open_input(index)?;
        Ok(self
            .current
            .as_ref()
            .is_some_and(Input::is_behind_byte_order_mark))
    }

    /// The line of the next record. In a web archive, its number among the records.
    pub(crate) fn next_number(&self) -> u64 {
        self.current.as_ref().map_or(0, Input::next_number)
    }

    /// Copies the next record as it is. False at the end.
    pub(crate) fn copy_next(&mut self, to: &mut dyn Write) -> Result<bool> {
        self.current
            .as_mut()
            .map_or(Ok(false), |input| input.copy_next(to))
    }

    /// The place before the next record.
    pub(crate) fn place(&mut self) -> Place {
        self.current
            .as_mut()
            .map_or_else(Place::default, Input::place)
    }

    /// Refuses an input that has changed since it was read.
    pub(crate) fn ensure_same(&self, index: usize, source: &Source) -> Result<()> {
        if self.inputs.standing(index, source)? == Standing::Same {
            return Ok(());
        }
        let path: &Path = &self.paths()[index];
        let changed = std::io::Error::other(
            "it has changed since it was read; the same command begins anew when its folder of work is deleted",
        );
        debug_assert!(!is_stdin(path));
        Err(cannot_read(path, None, &changed))
    }
}
