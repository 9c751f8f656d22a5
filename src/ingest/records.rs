//! The records of inputs, read in chunks, one input after the other. All cores parse them. And of inputs that are read
//! twice: the second time, their records are copied as they are stored, neither parsed nor changed.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directories::with_files_of_directories;
use super::format::{Cut, InputFormat};
use super::ingestion::Resumed;
use super::input::{Again, Behind, Input, Raw, RawContent};
use super::opening::{Standing, cannot_read, is_stdin, open, readable_bytes, standing_of};
use super::options::ReadOptions;
use super::record::Record;
use super::rejected::Rejected;
use super::resuming;
use super::stored_bytes::{Progress, Stored};
use super::unpacked::Packing;
use crate::database::Snapshot;
use crate::error::{Error, Result};
use crate::parallel;
use crate::source::{Identity, Place, Reached, Sample, Source, Totals};
use crate::text::Scheme;

/// The records of some inputs, in order.
///
/// # Example
///
/// ```
/// use simdb::Scheme;
/// use simdb::ingest::{Fingerprinting, ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\nno tab\nb\tanother page\n")?;
///
/// let rule = Fingerprinting::new(Scheme::Minwise1, None)?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let mut documents = Vec::new();
/// let mut rejected = Vec::new();
/// loop {
///     let chunk = records.next_chunk(|record| record.into_document(rule))?;
///     if chunk.is_empty() {
///         break;
///     }
///     for document in chunk {
///         match document {
///             Ok(document) => documents.push(document),
///             Err(reason) => rejected.push(reason),
///         }
///     }
/// }
/// assert_eq!((documents.len(), rejected.len()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Records {
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
    /// Records read ahead to find a suitable scheme.
    ahead: VecDeque<Raw>,
    /// The field that the record has in place of its text by which the scheme was found.
    instead_of_texts: Option<&'static str>,
}

/// What is read as standard input: that of the process, if nothing else is given.
struct Stdin(Option<Stored>);

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
}

/// The names of the sources, in the order of the inputs. `None` for an input that cannot be known again.
type Names = Arc<[Option<Arc<[u8]>>]>;

/// Where the reading of an input begins.
#[derive(Clone, Debug)]
enum Begin {
    Start,
    Behind(Behind),
    /// It is not read.
    End,
    /// It cannot be read, perhaps as long as its content is the same.
    Failed {
        reason: String,
        is_lasting: bool,
    },
}

/// The largest number of records in a chunk: as many as a batch has by default.
const CHUNK_LENGTH: usize = 10_000;

impl Records {
    /// Opens inputs: paths, or `-` for standard input. Inputs may be packed with gzip or zstd; this is seen from
    /// their content.
    ///
    /// # Errors
    ///
    /// * [`Error::Input`](crate::Error::Input) if a pattern is none, or if standard input is given twice. Inputs that
    ///   cannot be read come in their turn, as [`Rejected`] for [`Reason::Input`](super::Reason::Input).
    /// * [`Error::SourceName`](crate::Error::SourceName) for a [name](ReadOptions::source_name) of no bytes or too
    ///   many.
    pub fn open(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: ReadOptions,
    ) -> Result<Self> {
        let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        Self::open_paths(paths, options)
    }

    /// Looks which inputs can be read. None is read yet.
    fn open_paths(paths: Vec<PathBuf>, options: ReadOptions) -> Result<Self> {
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Error::Input {
                source_name: "-".to_owned(),
                line: None,
                reason: "standard input can be read only once".to_owned(),
            });
        }
        let found = with_files_of_directories(paths, &options)?;
        let mut paths = Vec::with_capacity(found.len());
        if let Some(name) = &options.source_name {
            Source::validate_name(name)?;
            if found.len() != 1 {
                return Err(Error::Input {
                    // Safe to show: bytes that are not UTF-8 are escaped.
                    source_name: name.escape_ascii().to_string(),
                    line: None,
                    reason:
                        "a name for the source is for one input; name the others by their paths"
                            .to_owned(),
                });
            }
        }
        let mut begins = Vec::with_capacity(found.len());
        let mut total = Some(0);
        for (path, problem) in found {
            let bytes = match problem {
                Some(problem) => Err(problem),
                None => readable_bytes(&path, &options).map_err(reason_of_input),
            };
            begins.push(match bytes {
                Ok(bytes) => {
                    total = total.zip(bytes).map(|(total, bytes)| total + bytes);
                    Begin::Start
                }
                Err(reason) => Begin::Failed {
                    reason,
                    is_lasting: false,
                },
            });
            paths.push(path);
        }
        Ok(Self {
            paths,
            begins,
            next: 0,
            current: None,
            failed: None,
            options,
            progress: Progress::new(total),
            stdin: Stdin(None),
            names: None,
            ahead: VecDeque::new(),
            instead_of_texts: None,
        })
    }

    /// Reads `-` from `input` instead of the standard input of the process.
    #[must_use]
    pub fn standard_input(mut self, input: impl Read + Send + 'static) -> Self {
        self.stdin.0 = Some(Box::new(input));
        self
    }

    /// Refuses inputs of which one cannot be opened. Otherwise that is told when its turn comes.
    pub(crate) fn ensure_readable(&self) -> Result<()> {
        for (path, begin) in self.paths.iter().zip(&self.begins) {
            if let Begin::Failed { reason, .. } = begin {
                return Err(Error::input(path, reason));
            }
        }
        Ok(())
    }

    pub(super) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// Sets when records were seen that have no time (Unix seconds). Otherwise that depends on how fast they are read.
    pub(crate) fn date_undated(&mut self, seen: i64) {
        self.options.undated = Some(seen);
    }

    /// The paths of the inputs: those that were given, with the files of directories in their place.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The progress of reading: bytes read, and bytes in all.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The scheme that suits the inputs, judged by the first good record. It is [`Scheme::External`] if that
    /// record brings a ready fingerprint. Otherwise it is the default, and for paragraphs and sentences
    /// [`Scheme::MinwiseShort1`].
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if the reading was [stopped](ReadOptions::stop_when).
    pub fn suitable_scheme(&mut self) -> Result<Scheme> {
        if self.options.format == InputFormat::Fingerprints {
            return Ok(Scheme::External);
        }
        // After this many bad records, a good one is hardly to be expected.
        const MOST_RECORDS: usize = 1_000;
        const MOST_BYTES: usize = 64 << 20;
        let mut bytes = 0;
        while self.ahead.len() < MOST_RECORDS && bytes < MOST_BYTES {
            let Some(raw) = self.read(1)?.pop() else {
                break;
            };
            bytes += bytes_of(&raw);
            self.ahead.push_back(raw.clone());
            if is_end(&raw) {
                continue;
            }
            // A bad record is reported later, by `next_chunk`.
            let Ok(Some(record)) = Record::parse(raw, &self.options) else {
                continue;
            };
            let brings_fingerprint = record.brings_fingerprint();
            if brings_fingerprint.is_some() {
                self.instead_of_texts = record.instead_of_text();
            }
            match brings_fingerprint {
                Some(true) => return Ok(Scheme::External),
                Some(false) => break,
                None => {}
            }
        }
        Ok(self.options.unit.suitable_scheme())
    }

    /// The field that is read in place of the texts, `fingerprint` or `features`, if the record by which
    /// [`suitable_scheme`](Self::suitable_scheme) judged has a text too. The field may be that of another program.
    pub fn instead_of_texts(&self) -> Option<&'static str> {
        self.instead_of_texts
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
            let mut raw = self.next_raw_chunk()?;
            let has_ended = raw.is_empty();
            raw.retain(|raw| !is_end(raw));
            let options = &self.options;
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
        resuming::resume(self, snapshot)
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
        let raw = self.next_raw_chunk()?;
        let names = self.names();
        let options = &self.options;
        Ok(parallel::map_each(raw, |raw| {
            let has_ended = is_end(&raw);
            let reached = match &names[raw.position.index()] {
                // What cannot be read further was read up to the record before.
                Some(name) if !has_failed(&raw) => {
                    Some(raw.position.reached(name.clone(), has_ended))
                }
                _ => None,
            };
            let record = if has_ended {
                None
            } else {
                parse(raw, options, &turn).transpose()
            };
            ReadRecord { record, reached }
        }))
    }

    /// The names of the sources: the absolute paths of files. `None` for an input that cannot be known again, or not be
    /// read.
    pub(crate) fn names(&mut self) -> Names {
        if let Some(names) = &self.names {
            return names.clone();
        }
        let names: Names = (0..self.paths.len())
            .map(|index| self.name_of(index))
            .collect();
        self.names.insert(names).clone()
    }

    fn name_of(&mut self, index: usize) -> Option<Arc<[u8]>> {
        if let Some(name) = &self.options.source_name {
            return Some(name.as_slice().into());
        }
        let path = &self.paths[index];
        if matches!(self.begins[index], Begin::Failed { .. }) {
            return None;
        }
        let reason = match readable_bytes(path, &self.options) {
            Ok(None) => return None,
            // By whatever links it is reached.
            Ok(Some(_)) => match fs::canonicalize(self.options.place_of(path)) {
                Ok(absolute) => {
                    let name = absolute.into_os_string().into_encoded_bytes();
                    match Source::validate_name(&name) {
                        Ok(()) => return Some(name.into()),
                        Err(error) => error.to_string(),
                    }
                }
                Err(source) => reason_of_input(cannot_read(path, None, &source)),
            },
            Err(error) => reason_of_input(error),
        };
        self.fail(index, reason, false);
        None
    }

    /// An input cannot be read, perhaps as long as its content is the same.
    pub(super) fn fail(&mut self, index: usize, reason: String, is_lasting: bool) {
        self.begins[index] = Begin::Failed { reason, is_lasting };
    }

    /// Opens all inputs, leaves out those that cannot be read, and returns their errors.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if the reading was stopped.
    fn without_unreadable(&mut self) -> Result<Vec<(PathBuf, Error)>> {
        for index in 0..self.paths.len() {
            if self.name_of(index).is_none() {
                continue;
            }
            if let Err(error) = self.open_input(index, None) {
                match self.or_stopped(error) {
                    Error::Input { reason, .. } => self.fail(index, reason, false),
                    error => return Err(error),
                }
            }
        }
        let mut failed = Vec::new();
        let begins = mem::take(&mut self.begins);
        for (path, begin) in mem::take(&mut self.paths).into_iter().zip(begins) {
            if let Begin::Failed { reason, .. } = &begin {
                let error = Error::input(&path, reason);
                failed.push((path, error));
            } else {
                self.paths.push(path);
                self.begins.push(begin);
            }
        }
        self.names = None;
        self.next = 0;
        self.progress.begin_again();
        Ok(failed)
    }

    /// Compares a file with what was read of it before. Other inputs are compared when they are read.
    pub(super) fn standing(&self, index: usize, source: &Source) -> Result<Standing> {
        let path = &self.paths[index];
        if readable_bytes(path, &self.options)?.is_none() {
            return Ok(Standing::Unknown);
        }
        let standing = standing_of(path, &self.options, &source.identity(), source.has_ended());
        match standing {
            // Its only record has changed.
            Ok(Standing::Grown) if self.is_one_record(path) => Ok(Standing::Changed),
            Ok(standing) => Ok(standing),
            Err(source) => Err(self.or_stopped(cannot_read(path, None, &source))),
        }
    }

    /// Whether a file is one record as a whole. What cannot be opened is met again when it is read.
    fn is_one_record(&self, path: &Path) -> bool {
        let opened = open(path, &self.options, &Progress::default(), None, None);
        opened.is_ok_and(|opened| opened.format.cut() == Cut::File)
    }

    /// Sets where the reading of an input begins: as `resumed` says of what was read before.
    pub(super) fn begin(&mut self, index: usize, resumed: Resumed, stored: Option<&Source>) {
        match (resumed, stored) {
            (Resumed::PassedOver | Resumed::Repeated, _) => self.begins[index] = Begin::End,
            (Resumed::Failed, Some(stored)) => {
                let reason = stored.failed().unwrap_or_default();
                self.fail(index, reason.to_owned(), true);
            }
            (Resumed::Continued | Resumed::Grown, Some(stored)) => {
                self.begins[index] = Begin::Behind(Behind {
                    place: stored.place(),
                    identity: stored.identity(),
                    again: again_of(&stored.record.last_line),
                });
            }
            _ => {}
        }
    }

    /// Goes back to the beginning of the inputs, if anything was read to find a suitable scheme. A pipe cannot be read
    /// again, so there what was read is kept.
    pub(super) fn begin_again(&mut self) {
        if self.ahead.is_empty() {
            return;
        }
        for path in &self.paths[..self.next] {
            // What cannot be read is met again.
            if matches!(readable_bytes(path, &self.options), Ok(None)) {
                return;
            }
        }
        self.progress.begin_again();
        self.next = 0;
        self.current = None;
        self.failed = None;
        self.ahead.clear();
    }

    /// Reads the next records. Empty at the end. The end of an input counts as a record.
    pub(super) fn next_raw_chunk(&mut self) -> Result<Vec<Raw>> {
        if self.ahead.is_empty() {
            return self.read(CHUNK_LENGTH);
        }
        Ok(mem::take(&mut self.ahead).into())
    }

    /// Reads the next records, at least one and at most `limit`. Stops where it would have to wait for more
    /// input, and at about 4 MiB.
    fn read(&mut self, limit: usize) -> Result<Vec<Raw>> {
        const CHUNK_BYTES: usize = 4 << 20;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < limit && bytes < CHUNK_BYTES {
            let next = match self.failed.take() {
                Some(error) => Err(error),
                None => self.next_raw(),
            };
            let raw = match next {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(error) if chunk.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            };
            bytes += bytes_of(&raw);
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
                    Some(raw) if has_failed(&raw) && self.options.stop.is_asked() => {
                        return Err(Error::Interrupted);
                    }
                    Some(raw) => return Ok(Some(raw)),
                    None => self.current = None,
                }
            }
            if self.next == self.paths.len() {
                return Ok(None);
            }
            match self.open_next().map_err(|error| self.or_stopped(error)) {
                Ok(opened) => self.current = opened,
                Err(Error::Input { reason, .. }) => return Ok(Some(self.not_opened(reason))),
                Err(error) => return Err(error),
            }
        }
    }

    /// What stands for the input that was to be opened last.
    fn not_opened(&self, reason: String) -> Raw {
        let index = self.next - 1;
        let is_lasting = match self.begins[index] {
            Begin::Failed { is_lasting, .. } => is_lasting,
            _ => false,
        };
        let content = RawContent::Failed { reason, is_lasting };
        Raw::new(index, &self.paths[index], None, InputFormat::Text, content)
    }

    /// Opens an input, unless it is passed over. It begins behind what was read of it, if that is given.
    fn open_input(&mut self, index: usize, behind: Option<Behind>) -> Result<Option<Input>> {
        if let Some(behind) = behind {
            self.begins[index] = Begin::Behind(behind);
        }
        self.next = index;
        self.open_next()
    }

    /// Opens the next input, unless it is passed over.
    fn open_next(&mut self) -> Result<Option<Input>> {
        let index = self.next;
        self.next += 1;
        let path = &self.paths[index];
        let behind = match &self.begins[index] {
            Begin::Start => None,
            Begin::Behind(behind) => Some(*behind),
            Begin::Failed { reason, .. } => return Err(Error::input(path, reason)),
            Begin::End => {
                let bytes = readable_bytes(path, &self.options)?;
                self.progress.pass_over(bytes.unwrap_or_default());
                return Ok(None);
            }
        };
        let stdin = if is_stdin(path) {
            self.stdin.0.take()
        } else {
            None
        };
        Input::open(index, path, &self.options, &self.progress, stdin, behind).map(Some)
    }
}

/// The memory that the content of a record takes (bytes).
fn bytes_of(raw: &Raw) -> usize {
    match &raw.content {
        RawContent::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// What became of a last line without a line end, as it was counted.
fn again_of(last_line: &Totals) -> Again {
    match last_line {
        Totals { documents: 0, .. } => Again::No,
        Totals { skipped: 0, .. } => Again::Stored,
        _ => Again::Counted,
    }
}

fn is_end(raw: &Raw) -> bool {
    matches!(raw.content, RawContent::End)
}

fn has_failed(raw: &Raw) -> bool {
    matches!(raw.content, RawContent::Failed { .. })
}

/// A record of an input, or its end, and the place behind it.
///
/// # Example
///
/// ```
/// use simdb::ingest::{Fingerprinting, ReadOptions, Records, Resumed};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\nb\tanother page\n")?;
///
/// let rule = Fingerprinting::new(database.scheme(), None)?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let mut txn = database.begin_write()?;
/// loop {
///     let chunk = records.next_read(|record| Ok::<_, simdb::Error>(record.into_document(rule)?))?;
///     if chunk.is_empty() {
///         break;
///     }
///     for read in chunk {
///         if let Some(document) = read.record {
///             txn.insert(&document?)?;
///         }
///         if let Some(reached) = read.reached {
///             txn.reach(&reached)?;
///         }
///     }
/// }
/// txn.commit()?;
/// // Whoever reads the same input later knows that it was read to its end.
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// assert_eq!(records.resume(&database.snapshot()?)?, [Resumed::PassedOver]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
            again: Again::No,
        };
        let is_begun = place != Place::default();
        self.records.open_input(index, is_begun.then_some(behind))
    }

    /// Refuses an input that has changed since it was read.
    pub(crate) fn ensure_same(&self, index: usize, source: &Source) -> Result<()> {
        if self.records.standing(index, source)? == Standing::Same {
            return Ok(());
        }
        let changed = io::Error::other(
            "it has changed since it was read; the same command begins anew when its folder of work is deleted",
        );
        Err(cannot_read(&self.paths()[index], None, &changed))
    }
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

fn reason_of_input(error: Error) -> String {
    match error {
        Error::Input { reason, .. } => reason,
        other => other.to_string(),
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
