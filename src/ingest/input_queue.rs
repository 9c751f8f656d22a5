//! Reads the raw records of all inputs, one input after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use super::directories::with_files_of_directories;
use super::input::{Failed, Input, Mark, Raw};
use super::opening::{self, STDIN, cannot_read, is_stdin, readable_bytes, reason_of};
use super::options::ReadOptions;
use super::stamp::{Standing, standing_of};
use super::stored_bytes::{Pipe, Progress, Stored};
use crate::error::{Error, Result, path_name};
use crate::source::{Identity, Source};

/// The inputs, and where each is read from.
#[derive(Debug)]
pub(super) struct Inputs {
    paths: Vec<PathBuf>,
    /// Where the reading of each input begins.
    begins: Vec<Begin>,
    /// The index of the first input that was not opened yet.
    next: usize,
    current: Option<Input>,
    /// The error that ended the reading, and is none of an input. It is returned after the records that were read
    /// before it.
    failed: Option<Error>,
    options: ReadOptions,
    progress: Progress,
    stdin: Stdin,
    /// The names of the sources, once they are asked for.
    names: Option<Names>,
}

/// What is read as standard input: that of the process, if nothing else is given.
struct Stdin(Option<Stored>);

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
}

/// The names of the sources, in the order of the inputs. `None` for an input that cannot be known again.
pub(super) type Names = Arc<[Option<Arc<[u8]>>]>;

/// Where the reading of an input begins.
#[derive(Clone, Debug)]
enum Begin {
    Start,
    /// Behind what was read before. Whether the record there was read too, as a last line without a line end.
    Behind(Mark, Identity, bool),
    /// It is not read.
    End,
    /// It cannot be read.
    Failed(Failed),
}

impl Inputs {
    /// Looks which inputs can be read. None is read yet.
    pub(super) fn open(paths: Vec<PathBuf>, options: ReadOptions) -> Result<Self> {
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Error::Input {
                source_name: STDIN.to_owned(),
                line: None,
                reason: "standard input can be read only once".to_owned(),
            });
        }
        let found = with_files_of_directories(paths, &options)?;
        let (mut paths, mut begins) = (
            Vec::with_capacity(found.len()),
            Vec::with_capacity(found.len()),
        );
        let mut total = Some(0);
        for (path, problem) in found {
            let bytes = match problem {
                Some(problem) => Err(problem),
                None if is_stdin(&path) => Ok(None),
                None => readable_bytes(&path, &options).map_err(reason_of_input),
            };
            let (bytes, begin) = match bytes {
                Ok(bytes) => (bytes, Begin::Start),
                Err(reason) => (
                    Some(0),
                    Begin::Failed(Failed {
                        reason,
                        is_lasting: false,
                    }),
                ),
            };
            total = total.zip(bytes).map(|(total, bytes)| total + bytes);
            paths.push(path);
            begins.push(begin);
        }
        let progress = Progress::new(total);
        Ok(Self {
            paths,
            begins,
            next: 0,
            current: None,
            failed: None,
            options,
            progress,
            stdin: Stdin(None),
            names: None,
        })
    }

    /// Reads `-` from somewhere else.
    pub(super) fn set_standard_input(&mut self, input: Stored) {
        self.stdin.0 = Some(input);
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(super) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The paths of the inputs.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The names of the sources: the absolute paths of files. `None` for an input that cannot be known again, or not be
    /// read.
    pub(super) fn names(&mut self) -> Names {
        if let Some(names) = &self.names {
            return names.clone();
        }
        let names: Names = (0..self.paths.len())
            .map(|index| self.name_of(index))
            .collect();
        self.names.insert(names).clone()
    }

    fn name_of(&mut self, index: usize) -> Option<Arc<[u8]>> {
        let path = &self.paths[index];
        if is_stdin(path) || self.problem(index).is_some() {
            return None;
        }
        let absolute = match readable_bytes(path, &self.options) {
            Ok(None) => return None,
            Ok(Some(_)) => {
                // By whatever links it is reached.
                let absolute = fs::canonicalize(self.options.place_of(path));
                absolute.map_err(|source| reason_of(None, &source))
            }
            Err(error) => Err(reason_of_input(error)),
        };
        match absolute {
            Ok(absolute) => Some(absolute.into_os_string().into_encoded_bytes().into()),
            Err(reason) => {
                self.fail(index, reason, false);
                None
            }
        }
    }

    /// Why an input cannot be read, if that is known before it is opened.
    pub(super) fn problem(&self, index: usize) -> Option<&str> {
        match &self.begins[index] {
            Begin::Failed(failed) => Some(&failed.reason),
            _ => None,
        }
    }

    /// An input cannot be read, perhaps as long as its content is the same.
    pub(super) fn fail(&mut self, index: usize, reason: String, is_lasting: bool) {
        self.begins[index] = Begin::Failed(Failed { reason, is_lasting });
    }

    /// Opens all inputs, leaves out those that cannot be read, and returns their errors.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if the reading was stopped.
    pub(super) fn without_unreadable(&mut self) -> Result<Vec<(PathBuf, Error)>> {
        for index in 0..self.paths.len() {
            if self.name_of(index).is_none() {
                continue;
            }
            match self
                .open_input(index)
                .map_err(|error| self.or_stopped(error))
            {
                Ok(_) => {}
                Err(Error::Input { reason, .. }) => self.fail(index, reason, false),
                Err(error) => return Err(error),
            }
        }
        Ok(self.without_failed())
    }

    /// Refuses inputs of which one cannot be opened.
    #[cfg(feature = "cli")]
    pub(super) fn ensure_readable(&self) -> Result<()> {
        let failed = self
            .paths
            .iter()
            .zip(&self.begins)
            .find_map(|(path, begin)| match begin {
                Begin::Failed(Failed { reason, .. }) => Some((path, reason.clone())),
                _ => None,
            });
        match failed {
            Some((path, reason)) => Err(Error::Input {
                source_name: path_name(path),
                line: None,
                reason,
            }),
            None => Ok(()),
        }
    }

    fn without_failed(&mut self) -> Vec<(PathBuf, Error)> {
        let (mut failed, mut left) = (Vec::new(), Vec::new());
        for (path, begin) in self.paths.drain(..).zip(self.begins.drain(..)) {
            match begin {
                Begin::Failed(Failed { reason, .. }) => {
                    failed.push((
                        path.clone(),
                        Error::Input {
                            source_name: path_name(&path),
                            line: None,
                            reason,
                        },
                    ));
                }
                begin => left.push((path, begin)),
            }
        }
        (self.paths, self.begins) = left.into_iter().unzip();
        (self.names, self.next) = (None, 0);
        self.progress.begin_again();
        failed
    }

    /// Gives the only input a name.
    pub(super) fn set_name(&mut self, name: &[u8]) -> Result<()> {
        let [_] = self.paths[..] else {
            let reason =
                "a name for the source is for one input; name the others by their paths".to_owned();
            // Safe to show: bytes that are not UTF-8 are escaped.
            let source_name = name.escape_ascii().to_string();
            return Err(Error::Input {
                source_name,
                line: None,
                reason,
            });
        };
        self.names = Some([Some(name.into())].into());
        Ok(())
    }

    /// Compares a file with what was read of it before. Other inputs are compared when they are read.
    pub(super) fn standing(&self, index: usize, source: &Source) -> Result<Standing> {
        let path = &self.paths[index];
        if is_stdin(path) || readable_bytes(path, &self.options)?.is_none() {
            return Ok(Standing::Unknown);
        }
        let standing = standing_of(path, &self.options, &source.identity(), source.has_ended());
        standing.map_err(|source| self.or_stopped(cannot_read(path, None, &source)))
    }

    /// The reading of an input begins where the source says.
    pub(super) fn begin_behind(&mut self, index: usize, source: &Source) {
        let identity = source.identity();
        let mark = Mark {
            place: source.place(),
            last: identity.last,
        };
        let is_again = source.record.last_line.documents > 0;
        self.begins[index] = Begin::Behind(mark, identity, is_again);
    }

    /// The reading of an input begins at a mark.
    pub(super) fn begin_at(&mut self, index: usize, mark: Mark, identity: Identity) {
        self.begins[index] = Begin::Behind(mark, identity, false);
    }

    /// An input is not read.
    pub(super) fn pass_over(&mut self, index: usize) {
        self.begins[index] = Begin::End;
    }

    /// Goes back to the beginning of the first input. False if that is not possible, since a pipe has been opened.
    pub(super) fn begin_again(&mut self) -> bool {
        for path in &self.paths[..self.next] {
            // What cannot be read is met again.
            if is_stdin(path) || matches!(readable_bytes(path, &self.options), Ok(None)) {
                return false;
            }
        }
        self.progress.begin_again();
        (self.next, self.current, self.failed) = (0, None, None);
        true
    }

    /// Reads the next records, at least one and at most `limit`. Stops where it would have to wait for more
    /// input, and at about 4 MiB. Empty at the end. The end of an input counts as a record.
    pub(super) fn next_chunk(&mut self, limit: usize) -> Result<Vec<Raw>> {
        const CHUNK_BYTES: usize = 4 << 20;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < limit && bytes < CHUNK_BYTES {
            let raw = match self.failed.take().map_or_else(|| self.next_raw(), Err) {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(error) if chunk.is_empty() => return Err(self.or_stopped(error)),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            };
            bytes += raw.bytes();
            chunk.push(raw);
            if self.current.as_ref().is_some_and(Input::would_wait) {
                break;
            }
        }
        Ok(chunk)
    }

    /// Why reading has failed: if it was stopped, nothing else counts.
    fn or_stopped(&self, error: Error) -> Error {
        if self.options.stop.is_asked() {
            Error::Interrupted
        } else {
            error
        }
    }

    fn next_raw(&mut self) -> Result<Option<Raw>> {
        loop {
            if let Some(input) = &mut self.current {
                match input.next_raw() {
                    // If the reading was stopped, nothing else counts.
                    Some(raw) if raw.has_failed() && self.options.stop.is_asked() => {
                        return Err(Error::Interrupted);
                    }
                    Some(raw) => return Ok(Some(raw)),
                    None => self.current = None,
                }
            }
            if self.next == self.paths.len() {
                return Ok(None);
            }
            match self.open_next() {
                Ok(opened) => self.current = opened,
                Err(Error::Input { .. }) if self.options.stop.is_asked() => {
                    return Err(Error::Interrupted);
                }
                Err(Error::Input { reason, .. }) => return Ok(Some(self.not_opened(reason))),
                Err(error) => return Err(error),
            }
        }
    }

    /// What stands for the input that was to be opened last.
    fn not_opened(&self, reason: String) -> Raw {
        let index = self.next - 1;
        let is_lasting = matches!(&self.begins[index], Begin::Failed(failed) if failed.is_lasting);
        Raw::of_failed(index, &self.paths[index], Failed { reason, is_lasting })
    }

    /// Opens an input, unless it is passed over.
    pub(super) fn open_input(&mut self, index: usize) -> Result<Option<Input>> {
        self.next = index;
        self.open_next()
    }

    /// Opens the next input, unless it is passed over.
    fn open_next(&mut self) -> Result<Option<Input>> {
        let (index, options, progress) = (self.next, &self.options, &self.progress);
        let path: &Path = &self.paths[index];
        self.next += 1;
        let is_of_process = is_stdin(path) && self.stdin.0.is_none();
        let stdin = || {
            self.stdin
                .0
                .take()
                .unwrap_or_else(|| options.stop.standard_input())
        };
        let (mut opened, mark, is_again) = match &self.begins[index] {
            Begin::Start => (
                opening::open(path, stdin, options, progress)?,
                Mark::default(),
                false,
            ),
            Begin::Behind(mark, identity, is_again) => {
                let opened =
                    opening::open_at(path, stdin, options, progress, mark.place, identity)?;
                if !opened.is_same {
                    let changed = io::Error::other(
                        "it is not what was read before, or ends before the place up to which that was read; \
                         `--restart` reads it from its beginning",
                    );
                    return Err(cannot_read(path, None, &changed));
                }
                (opened, *mark, *is_again)
            }
            Begin::Failed(Failed { reason, .. }) => {
                return Err(Error::Input {
                    source_name: path_name(path),
                    line: None,
                    reason: reason.clone(),
                });
            }
            Begin::End => {
                progress.pass_over(readable_bytes(path, &self.options)?.unwrap_or_default());
                return Ok(None);
            }
        };
        if is_of_process {
            opened.pipe = Pipe::standard_input();
        }
        let mut input = Input::new(index, path, opened, mark, options);
        if is_again {
            input.set_again();
        }
        Ok(Some(input))
    }
}

/// The reason of an error of an input.
fn reason_of_input(error: Error) -> String {
    match error {
        Error::Input { reason, .. } => reason,
        other => other.to_string(),
    }
}
