//! Reads the raw records of all inputs, one input after the other.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use super::input::Input;
use super::opening::{STDIN, StandardInput, is_stdin, readable_bytes};
use super::options::ReadOptions;
use super::progress::Progress;
use super::raw::Raw;
use crate::error::{Error, Result};

/// The inputs that are not read to the end yet.
#[derive(Debug)]
pub(super) struct Inputs {
    waiting: VecDeque<PathBuf>,
    current: Option<Input>,
    /// The error that ended the reading. It is returned after the records that were read before it.
    failed: Option<Error>,
    options: ReadOptions,
    progress: Progress,
    stdin: Stdin,
}

/// What is read as standard input: that of the process, if nothing else is given.
struct Stdin(Option<StandardInput>);

impl std::fmt::Debug for Stdin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
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
        let mut total = Some(0);
        for path in &paths {
            let bytes = if is_stdin(path) { None } else { readable_bytes(path, &options)? };
            total = total.zip(bytes).map(|(total, bytes)| total + bytes);
        }
        let progress = Progress::new(total);
        let stdin = Stdin(None);
        Ok(Self { waiting: paths.into(), current: None, failed: None, options, progress, stdin })
    }

    /// Reads `-` from somewhere else.
    pub(super) fn set_standard_input(&mut self, input: StandardInput) {
        self.stdin.0 = Some(input);
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(super) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// Reads the next records, at least one and at most `limit`. Stops where it would have to wait for more
    /// input, and at about 4 MiB. Empty at the end.
    pub(super) fn next_chunk(&mut self, limit: usize) -> Result<Vec<Raw>> {
        const CHUNK_BYTES: usize = 4 << 20;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < limit && bytes < CHUNK_BYTES {
            let raw = match self.failed.take().map_or_else(|| self.next_raw(), Err) {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(error) if chunk.is_empty() => return Err(error),
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

    fn next_raw(&mut self) -> Result<Option<Raw>> {
        loop {
            if let Some(input) = &mut self.current {
                if let Some(raw) = input.next_raw()? {
                    return Ok(Some(raw));
                }
                self.current = None;
            }
            let Some(path) = self.waiting.pop_front() else { return Ok(None) };
            let stdin = || self.stdin.0.take().unwrap_or_else(|| Box::new(io::stdin()));
            self.current = Some(Input::open(&path, stdin, &self.options, &self.progress)?);
        }
    }
}
