//! Reads the raw records of all inputs, one input after the other.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directories::with_files_of_directories;
use super::input::Input;
use super::opening::{self, STDIN, cannot_read, is_stdin, readable_bytes};
use super::options::ReadOptions;
use super::progress::Progress;
use super::raw::{Mark, Raw};
use super::stop::Pipe;
use super::stored_bytes::Stored;
use crate::error::{Error, Result};
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
    /// The error that ended the reading. It is returned after the records that were read before it.
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
    /// Behind what was read before.
    Behind(Mark, Identity),
    /// It is not read.
    End,
}

/// How the content of an input stands to what was read of it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the same.
    Same,
    /// It has become longer.
    Grown,
    /// It is another content.
    Changed,
    /// That shows when it is read, since it can be read only once.
    Unknown,
}

impl Inputs {
    /// Checks that all inputs can be read. None is read yet.
    pub(super) fn open(paths: Vec<PathBuf>, options: ReadOptions) -> Result<Self> {
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Error::Input {
                source_name: STDIN.to_owned(),
                line: None,
                reason: "standard input can be read only once".to_owned(),
            });
        }
        let paths = with_files_of_directories(paths, &options)?;
        let mut total = Some(0);
        for path in &paths {
            let bytes = if is_stdin(path) { None } else { readable_bytes(path, &options)? };
            total = total.zip(bytes).map(|(total, bytes)| total + bytes);
        }
        let progress = Progress::new(total);
        let begins = vec![Begin::Start; paths.len()];
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

    /// The names of the sources: the absolute paths of files. `None` for an input that cannot be known again.
    pub(super) fn names(&mut self) -> Result<Names> {
        if let Some(names) = &self.names {
            return Ok(names.clone());
        }
        let name_of = |path: &PathBuf| -> Result<Option<Arc<[u8]>>> {
            if is_stdin(path) || readable_bytes(path, &self.options)?.is_none() {
                return Ok(None);
            }
            // By whatever links it is reached.
            let absolute = fs::canonicalize(self.options.place_of(path));
            let absolute = absolute.map_err(|source| cannot_read(path, None, &source))?;
            Ok(Some(absolute.into_os_string().into_encoded_bytes().into()))
        };
        let names: Names = self.paths.iter().map(name_of).collect::<Result<_>>()?;
        Ok(self.names.insert(names).clone())
    }

    /// Gives the only input a name.
    pub(super) fn set_name(&mut self, name: &[u8]) -> Result<()> {
        let [_] = self.paths[..] else {
            let reason = "a name for the source is for one input; name the others by their paths".to_owned();
            let source_name = String::from_utf8_lossy(name).into_owned();
            return Err(Error::Input { source_name, line: None, reason });
        };
        self.names = Some([Some(name.into())].into());
        Ok(())
    }

    /// Compares a file with what was read of it before. Other inputs are compared when they are read.
    pub(super) fn standing(&self, index: usize, source: &Source) -> Result<Standing> {
        let (path, identity) = (&self.paths[index], source.identity());
        let Some(length) = (if is_stdin(path) { None } else { readable_bytes(path, &self.options)? }) else {
            return Ok(Standing::Unknown);
        };
        let before = identity.length.unwrap_or_default();
        if length < before {
            return Ok(Standing::Changed);
        }
        let progress = Progress::new(None);
        let stdin = || unreachable!("standard input is compared when it is read");
        let opened = opening::open_at(path, stdin, &self.options, &progress, source.place(), &identity);
        let opened = opened.map_err(|error| self.or_stopped(error))?;
        Ok(match opened.is_same {
            false => Standing::Changed,
            true if length > before => Standing::Grown,
            true => Standing::Same,
        })
    }

    /// The reading of an input begins where the source says.
    pub(super) fn begin_behind(&mut self, index: usize, source: &Source) {
        let identity = source.identity();
        let mark = Mark { place: source.place(), last: identity.last };
        self.begin_at(index, mark, identity);
    }

    /// The reading of an input begins at a mark.
    pub(super) fn begin_at(&mut self, index: usize, mark: Mark, identity: Identity) {
        self.begins[index] = Begin::Behind(mark, identity);
    }

    /// An input is not read.
    pub(super) fn pass_over(&mut self, index: usize) {
        self.begins[index] = Begin::End;
    }

    /// Goes back to the beginning of the first input. False if that is not possible, since a pipe has been opened.
    pub(super) fn begin_again(&mut self) -> Result<bool> {
        for path in &self.paths[..self.next] {
            if is_stdin(path) || readable_bytes(path, &self.options)?.is_none() {
                return Ok(false);
            }
        }
        self.progress.begin_again();
        (self.next, self.current, self.failed) = (0, None, None);
        Ok(true)
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
        if self.options.stop.is_asked() { Error::Interrupted } else { error }
    }

    fn next_raw(&mut self) -> Result<Option<Raw>> {
        loop {
            if let Some(input) = &mut self.current {
                if let Some(raw) = input.next_raw()? {
                    return Ok(Some(raw));
                }
                self.current = None;
            }
            if self.next == self.paths.len() {
                return Ok(None);
            }
            self.current = self.open_next()?;
        }
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
        let stdin = || self.stdin.0.take().unwrap_or_else(|| options.stop.standard_input());
        let (opened, mark) = match &self.begins[index] {
            Begin::Start => (opening::open(path, stdin, options, progress)?, Mark::default()),
            Begin::Behind(mark, identity) => {
                let opened = opening::open_at(path, stdin, options, progress, mark.place, identity)?;
                if !opened.is_same {
                    let changed = io::Error::other(
                        "it is not what was read before, or ends before the place up to which that was read; \
                         `--restart` reads it from its beginning",
                    );
                    return Err(cannot_read(path, None, &changed));
                }
                (opened, *mark)
            }
            Begin::End => {
                progress.pass_over(readable_bytes(path, &self.options)?.unwrap_or_default());
                return Ok(None);
            }
        };
        let mut opened = opened;
        if is_of_process {
            opened.pipe = Pipe::standard_input();
        }
        Ok(Some(Input::new(index, path, opened, mark, options.max_record_bytes)))
    }
}
