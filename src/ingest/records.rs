//! The records of all inputs, in chunks that all cores work on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use rayon::prelude::*;

use super::fingerprinting::Fingerprinting;
use super::inputs::Inputs;
use super::options::{InputFormat, ReadOptions};
use super::progress::Progress;
use super::raw::Raw;
use super::record::Record;
use super::rejected::Rejected;
use crate::document::Document;
use crate::error::Result;
use crate::text::Scheme;

/// The records of some inputs, in order.
#[derive(Debug)]
pub struct Records {
    inputs: Inputs,
    /// Read ahead to see what the first record brings.
    ahead: VecDeque<Raw>,
}

/// How many records are parsed and fingerprinted together.
const CHUNK_LENGTH: usize = 1024;

impl Records {
    /// Opens inputs: paths, or `-` for standard input. gzip is recognised by content.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] for the first that cannot be read; nothing has been read then.
    pub fn open(paths: impl IntoIterator<Item = impl Into<PathBuf>>, options: ReadOptions) -> Result<Self> {
        let paths = paths.into_iter().map(Into::into).collect();
        Ok(Self { inputs: Inputs::open(paths, options)?, ahead: VecDeque::new() })
    }

    /// How far reading has come.
    pub fn progress(&self) -> Progress {
        self.inputs.progress()
    }

    /// The scheme that suits the inputs, by the first good record: [`Scheme::External`] where it brings a ready
    /// fingerprint, otherwise the default.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if the inputs cannot be read.
    pub fn suitable_scheme(&mut self) -> Result<Scheme> {
        if self.inputs.options().format == InputFormat::Fingerprints {
            return Ok(Scheme::External);
        }
        // So many bad records in front, and there is hardly a good one behind.
        const MOST_RECORDS: usize = 1_000;
        const MOST_BYTES: usize = 64 << 20;
        let mut bytes = 0;
        while self.ahead.len() < MOST_RECORDS && bytes < MOST_BYTES {
            let Some(raw) = self.inputs.next_chunk(1)?.pop() else { break };
            bytes += raw.bytes();
            let parsed = Record::parse(raw.clone(), self.inputs.options());
            self.ahead.push_back(raw);
            match parsed.ok().and_then(|record| record.brings_fingerprint()) {
                Some(true) => return Ok(Scheme::External),
                Some(false) => break,
                // What is read ahead has its turn, and is reported, later.
                None => {}
            }
        }
        Ok(Scheme::default())
    }

    /// The next records that are at hand, parsed and turned into something on all cores; none at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if an input cannot be read further; the records before have been returned then.
    pub fn next_chunk<T: Send, E: From<Rejected> + Send>(
        &mut self,
        turn: impl Fn(Record) -> Result<T, E> + Sync,
    ) -> Result<Vec<Result<T, E>>> {
        let raw = if self.ahead.is_empty() {
            self.inputs.next_chunk(CHUNK_LENGTH)?
        } else {
            self.ahead.drain(..).collect()
        };
        let options = self.inputs.options();
        Ok(raw.into_par_iter().map(|raw| turn(Record::parse(raw, options)?)).collect())
    }
}

pub(super) type Chunk = Vec<Result<Document, Rejected>>;

/// Reads, parses and fingerprints in the background, a few chunks ahead. The last thing sent is an empty chunk, or
/// an error.
pub(super) fn read_ahead(mut records: Records, rule: Fingerprinting) -> mpsc::Receiver<Result<Chunk>> {
    let (sender, receiver) = mpsc::sync_channel(2);
    // Not joined: it may wait for standard input for ever when the receiver has gone.
    thread::spawn(move || {
        loop {
            let chunk = records.next_chunk(|record| record.into_document(rule));
            let ended = chunk.as_ref().map_or(true, Vec::is_empty);
            if sender.send(chunk).is_err() || ended {
                break;
            }
        }
    });
    receiver
}
