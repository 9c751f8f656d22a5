//! The records of inputs: read in chunks, of which all cores parse and fingerprint the records, or copied as they are
//! stored, neither parsed nor changed.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::{mem, thread};

use super::fingerprinting::Fingerprinting;
use super::format::{InputFormat, not_readable};
use super::ingestion::Resumed;
use super::input::{Input, Mark, Origin, Raw};
use super::input_queue::Inputs;
use super::opening::{cannot_read, is_stdin};
use super::options::ReadOptions;
use super::record::Record;
use super::rejected::Rejected;
use super::resuming;
use super::stamp::Standing;
use super::stored_bytes::Progress;
use super::units::{CutDocument, OnText, document_of};
use super::unpacked::Packing;
use crate::database::Snapshot;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::parallel;
use crate::source::{Identity, Place, Reached, Sample, Source};
use crate::text::{Scheme, Unit};

/// The records of some inputs, in order.
#[derive(Debug)]
pub struct Records {
    inputs: Inputs,
    /// Records read ahead to find a suitable scheme.
    ahead: VecDeque<Raw>,
}

/// The largest number of records in a chunk: as many as a batch has by default.
const CHUNK_LENGTH: usize = 10_000;

impl Records {
    /// Opens inputs: paths, or `-` for standard input. Inputs may be compressed with gzip; this is seen from
    /// their content.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) if a pattern is none, or if standard input is given twice. Inputs that
    /// cannot be read come in their turn, as [`Rejected`] for [`Reason::Input`](super::Reason::Input).
    pub fn open(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: ReadOptions,
    ) -> Result<Self> {
        let paths = paths.into_iter().map(Into::into).collect();
        Ok(Self {
            inputs: Inputs::open(paths, options)?,
            ahead: VecDeque::new(),
        })
    }

    /// Reads `-` from `input` instead of the standard input of the process.
    #[must_use]
    pub fn standard_input(mut self, input: impl Read + Send + 'static) -> Self {
        self.inputs.set_standard_input(Box::new(input));
        self
    }

    /// Refuses inputs of which one cannot be opened. Otherwise that is told when its turn comes.
    #[cfg(feature = "cli")]
    pub(crate) fn ensure_readable(&self) -> Result<()> {
        self.inputs.ensure_readable()
    }

    /// What gets a fingerprint of its own.
    pub(super) fn unit(&self) -> Unit {
        self.inputs.options().unit
    }

    /// The paths of the inputs: those that were given, with the files of directories in their place.
    pub fn paths(&self) -> &[PathBuf] {
        self.inputs.paths()
    }

    /// The progress of reading: bytes read, and bytes in all.
    pub fn progress(&self) -> Progress {
        self.inputs.progress()
    }

    /// The scheme that suits the inputs, judged by the first good record. It is [`Scheme::External`] if that
    /// record brings a ready fingerprint. Otherwise it is the default, and for paragraphs and sentences
    /// [`Scheme::MinwiseShort1`].
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if the reading was [stopped](ReadOptions::stop_when).
    pub fn suitable_scheme(&mut self) -> Result<Scheme> {
        if self.inputs.options().format == InputFormat::Fingerprints {
            return Ok(Scheme::External);
        }
        // After this many bad records, a good one is hardly to be expected.
        const MOST_RECORDS: usize = 1_000;
        const MOST_BYTES: usize = 64 << 20;
        let mut bytes = 0;
        while self.ahead.len() < MOST_RECORDS && bytes < MOST_BYTES {
            let Some(raw) = self.inputs.next_chunk(1)?.pop() else {
                break;
            };
            bytes += raw.bytes();
            self.ahead.push_back(raw.clone());
            if raw.is_end() {
                continue;
            }
            // A bad record is reported later, by `next_chunk`.
            let Ok(Some(record)) = Record::parse(raw, self.inputs.options()) else {
                continue;
            };
            match record.brings_fingerprint() {
                Some(true) => return Ok(Scheme::External),
                Some(false) => break,
                None => {}
            }
        }
        Ok(match self.unit() {
            Unit::Document => Scheme::default(),
            Unit::Paragraph | Unit::Sentence => Scheme::MinwiseShort1,
        })
    }

    /// Reads the next chunk of records. All cores parse the records and apply `turn` to them. Empty at the
    /// end. An input that cannot be read, or not further, is a [`Rejected`] of its own, and the next one is read.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if the reading was [stopped](ReadOptions::stop_when). The records before it have been
    /// returned then.
    pub fn next_chunk<T: Send, E: From<Rejected> + Send>(
        &mut self,
        turn: impl Fn(Record) -> Result<T, E> + Sync,
    ) -> Result<Vec<Result<T, E>>> {
        loop {
            let mut raw = self.next_raw()?;
            let has_ended = raw.is_empty();
            raw.retain(|raw| !raw.is_end());
            let options = self.inputs.options();
            let turned = parallel::map_each(raw, |raw| parse(raw, options, &turn).transpose());
            let turned: Vec<_> = turned.into_iter().flatten().collect();
            if has_ended || !turned.is_empty() {
                return Ok(turned);
            }
        }
    }

    /// Goes on where the inputs were read up to, as the database knows it. Returns how each is read. Inputs that were
    /// read to their end are passed over. To be called before anything is read.
    ///
    /// So a program that stores documents itself can stop at any moment: with each document it commits the place behind
    /// it, which [`next_read`](Self::next_read) gives.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) if an input cannot be read. Those of
    /// [`Snapshot::source`](crate::Snapshot::source).
    pub fn resume(&mut self, snapshot: &Snapshot) -> Result<Vec<Resumed>> {
        self.begin_again();
        resuming::resume(&mut self.inputs, snapshot)
    }

    /// As [`next_chunk`](Self::next_chunk), with the place behind each record, and with the ends of inputs.
    ///
    /// # Errors
    ///
    /// Those of [`next_chunk`](Self::next_chunk).
    pub fn next_read<T: Send, E: From<Rejected> + Send>(
        &mut self,
        turn: impl Fn(Record) -> Result<T, E> + Sync,
    ) -> Result<Vec<ReadRecord<T, E>>> {
        let raw = self.next_raw()?;
        let names = self.inputs.names();
        let options = self.inputs.options();
        Ok(parallel::map_each(raw, |raw| {
            let reached = match &names[raw.input.index] {
                // What cannot be read further was read up to the record before.
                Some(name) if !raw.has_failed() => Some(raw.reached(name.clone())),
                _ => None,
            };
            let record = if raw.is_end() {
                None
            } else {
                parse(raw, options, &turn).transpose()
            };
            ReadRecord { record, reached }
        }))
    }

    /// Goes back to the beginning of the inputs, if anything was read to find a suitable scheme. A pipe cannot be read
    /// again, so there what was read is kept.
    pub(super) fn begin_again(&mut self) {
        if !self.ahead.is_empty() && self.inputs.begin_again() {
            self.ahead.clear();
        }
    }

    /// The inputs, before anything of them is read.
    pub(super) fn inputs(&mut self) -> &mut Inputs {
        &mut self.inputs
    }

    fn next_raw(&mut self) -> Result<Vec<Raw>> {
        if self.ahead.is_empty() {
            return self.inputs.next_chunk(CHUNK_LENGTH);
        }
        Ok(mem::take(&mut self.ahead).into())
    }
}

/// A record of an input, or its end, and the place behind it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadRecord<T, E> {
    /// What the record was turned into. `None` at the end of the input, and for what is no document, such as the
    /// request in a web archive.
    pub record: Option<Result<T, E>>,
    /// How far the input has been read. `None` if that cannot be told again, as for a pipe, and for an input that
    /// cannot be read further.
    pub reached: Option<Reached>,
}

/// Parses a record, and turns it into something else. `None` if it is no document.
fn parse<T, E: From<Rejected>>(
    raw: Raw,
    options: &ReadOptions,
    turn: impl Fn(Record) -> Result<T, E>,
) -> Result<Option<T>, E> {
    match Record::parse(raw, options)? {
        Some(record) => turn(record).map(Some),
        None => Ok(None),
    }
}

/// One record of an input, or its end.
pub(super) struct Step {
    pub(super) taken: Taken,
    pub(super) input: Arc<Origin>,
    /// Where the input goes on behind it.
    pub(super) mark: Mark,
    /// As those of [`Raw`].
    pub(super) is_last_line: bool,
    pub(super) is_again: bool,
}

/// What a database takes of a record.
pub(super) enum Taken {
    Document {
        document: Document,
        /// The number of its lines, if each of them may be a document.
        lines: Option<u64>,
    },
    Cut(CutDocument),
    /// It is no document, such as the request in a web archive.
    PassedOver,
    /// It is a last line without a line end, and no record. Most likely the rest is not written yet.
    Left(Rejected),
    Rejected(Rejected),
    /// The input cannot be read, or not further.
    Failed {
        rejected: Rejected,
        /// Whether that is so as long as its content is the same.
        is_lasting: bool,
    },
    /// The end of the input.
    End,
}

/// How records become documents.
struct Taker {
    options: ReadOptions,
    rule: Fingerprinting,
    on_text: Option<OnText>,
}

impl Taker {
    fn step(&self, raw: Raw) -> Step {
        let input = raw.input.clone();
        let mark = raw.mark;
        let is_last_line = raw.is_last_line;
        let is_again = raw.is_again;
        let is_lasting = raw.has_failed_for_good();
        let is_in_character = is_last_line && raw.ends_in_character();
        let taken = if raw.is_end() {
            Taken::End
        } else {
            match self.take(raw) {
                Ok(taken) => taken,
                Err(rejected) if is_last_line && rejected.may_be_cut(is_in_character) => {
                    Taken::Left(rejected)
                }
                Err(rejected) if rejected.is_input() => Taken::Failed {
                    rejected,
                    is_lasting,
                },
                Err(rejected) => Taken::Rejected(rejected),
            }
        };
        Step {
            taken,
            input,
            mark,
            is_last_line,
            is_again,
        }
    }

    fn take(&self, raw: Raw) -> Result<Taken, Rejected> {
        let Some(record) = Record::parse(raw, &self.options)? else {
            return Ok(Taken::PassedOver);
        };
        let on_text = self.on_text.as_ref();
        if record.unit != Unit::Document {
            return CutDocument::new(record, self.rule, on_text).map(Taken::Cut);
        }
        let lines = record.lines_of_list();
        let document = document_of(record, self.rule, on_text)?;
        Ok(Taken::Document { document, lines })
    }
}

/// Reads on another thread, and parses and fingerprints on yet another, each a few chunks ahead. So to unpack what is
/// packed, which one thread has to do, does not keep the others waiting. The last thing that is sent is an empty chunk
/// or an error.
pub(super) fn read_ahead(
    mut records: Records,
    rule: Fingerprinting,
    on_text: Option<OnText>,
) -> Result<mpsc::Receiver<Result<Vec<Step>>>> {
    let options = records.inputs.options().clone();
    let taker = Taker {
        options,
        rule,
        on_text,
    };
    let chunks = sent_ahead(move || records.next_raw())?;
    sent_ahead(move || {
        // The last thing it sends is an empty chunk or an error, unless it panics.
        let chunk = chunks
            .recv()
            .expect("the thread that reads the input goes on to its end")?;
        Ok(parallel::map_each(chunk, |raw| taker.step(raw)))
    })
}

/// Makes chunks on another thread, a few ahead, up to an empty one or an error.
fn sent_ahead<T: Send + 'static>(
    mut next: impl FnMut() -> Result<Vec<T>> + Send + 'static,
) -> Result<mpsc::Receiver<Result<Vec<T>>>> {
    let (sender, receiver) = mpsc::sync_channel(2);
    // The thread is not joined. It may wait for standard input for ever after the receiver is dropped.
    thread::Builder::new()
        .name("simdb-read".to_owned())
        .spawn(move || {
            loop {
                let chunk = next();
                let has_ended = chunk.as_ref().map_or(true, Vec::is_empty);
                if sender.send(chunk).is_err() || has_ended {
                    break;
                }
            }
        })
        .map_err(Error::no_thread)?;
    Ok(receiver)
}

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
        for (path, name) in inputs.paths().iter().zip(names.iter()) {
            if name.is_none() {
                return Err(not_readable(
                    path,
                    "it can be read only once, but has to be read twice; write it to a file first",
                ));
            }
        }
        Ok(Self {
            inputs,
            current: None,
            failed,
        })
    }

    /// The inputs that cannot be read, and why. They are left out.
    pub(crate) fn failed(&self) -> &[(PathBuf, Error)] {
        &self.failed
    }

    /// Refuses to go on if there is nothing that can be read.
    pub(crate) fn ensure_any(&mut self) -> Result<()> {
        if self.inputs.paths().is_empty() && !self.failed.is_empty() {
            return Err(self.failed.remove(0).1);
        }
        Ok(())
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
        let mut known = Vec::with_capacity(names.len());
        for name in &*names {
            known.push(name.as_deref().unwrap_or_default().to_vec());
        }
        Ok(known)
    }

    /// The progress of reading from the beginning.
    pub(crate) fn begin_again(&self) -> Progress {
        let progress = self.inputs.progress();
        progress.begin_again();
        progress
    }

    /// How an input is cut into records, and how it is packed.
    pub(crate) fn kind_of(&mut self, index: usize) -> Result<(InputFormat, Packing)> {
        Ok(match self.inputs.open_input(index)? {
            Some(input) => input.kind(),
            None => Default::default(),
        })
    }

    /// Opens an input at a place between two records. True if a byte order mark stands before its first one.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if it cannot be read, or is not as the source says that it was.
    pub(crate) fn begin(&mut self, index: usize, place: Place, source: &Source) -> Result<bool> {
        self.ensure_same(index, source)?;
        if place != Place::default() {
            let last = Sample::default();
            let identity = Identity {
                last,
                ..source.identity()
            };
            self.inputs.begin_at(index, Mark { place, last }, identity);
        }
        self.current = self.inputs.open_input(index)?;
        let input = self.current.as_ref();
        Ok(input.is_some_and(Input::is_behind_byte_order_mark))
    }

    /// The line of the next record. In a web archive, its number among the records.
    pub(crate) fn next_number(&self) -> u64 {
        self.current.as_ref().map_or(0, Input::next_number)
    }

    /// Copies the next record as it is. False at the end.
    pub(crate) fn copy_next(&mut self, to: &mut dyn Write) -> Result<bool> {
        match &mut self.current {
            Some(input) => input.copy_next(to),
            None => Ok(false),
        }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn keys(mut records: Records) -> Result<Vec<Option<Vec<u8>>>> {
        let key = |record: Record| Ok::<_, Rejected>(record.key().map(<[u8]>::to_vec));
        Ok(records
            .next_chunk(key)?
            .into_iter()
            .map(|key| key.expect("the records are good"))
            .collect())
    }

    #[test]
    fn paths_begin_in_a_directory_that_is_given_and_keep_their_names() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::write(folder.path().join("a.txt"), "some words").expect("the folder is there");
        let options = ReadOptions::new().directory(folder.path());
        assert_eq!(
            keys(Records::open(["a.txt"], options.clone())?)?,
            [Some(b"a.txt".to_vec())]
        );
        let mut missing = Records::open(["b.txt", "a.txt"], options)?;
        let read = missing.next_chunk(|record: Record| Ok::<_, Rejected>(record))?;
        let [Err(missing), Ok(_)] = &read[..] else {
            panic!("{read:?}")
        };
        assert_eq!(
            (missing.is_input(), missing.to_string()),
            (true, "b.txt: no such file".to_owned())
        );
        Ok(())
    }

    #[test]
    fn standard_input_can_be_another_than_that_of_the_process() -> Result<()> {
        let records = Records::open(["-"], ReadOptions::new())?;
        let records = records.standard_input(&b"a\tsome words\nb\tother words\n"[..]);
        assert_eq!(keys(records)?, [Some(b"a".to_vec()), Some(b"b".to_vec())]);
        Ok(())
    }
}
