//! Everything that can go wrong, as values. `source()` has the cause.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result with simdb's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. `Display` names the fact and, if there is one, the remedy. The cause is in
/// [`source()`](std::error::Error::source).
///
/// An error can be cloned, so that one failure reaches everybody whom it concerns. Clones share the cause.
///
/// # Example
///
/// ```
/// use simdb::{Database, Error, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let error = Database::open(&path, &OpenOptions::new()).expect_err("there is no file yet");
/// assert!(matches!(&error, Error::NotFound { path: missing, .. } if *missing == path));
/// println!("{error}");
/// let mut cause = std::error::Error::source(&error);
/// while let Some(error) = cause {
///     println!("because of this: {error}");
///     cause = error.source();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// There is no database at the path.
    #[non_exhaustive]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// Something exists already where a database or another result is to be made: a file, or a directory that is not
    /// empty.
    #[non_exhaustive]
    AlreadyExists {
        /// The path.
        path: PathBuf,
    },
    /// Another process, or another handle of this one, has the database open.
    #[non_exhaustive]
    Busy {
        /// The database.
        path: PathBuf,
        /// Who has it open.
        holder: Holder,
    },
    /// The file is not a simdb database, or is too damaged to be recognised as one.
    #[non_exhaustive]
    NotSimdb {
        /// The file.
        path: PathBuf,
    },
    /// Nothing was taken out of a damaged database.
    #[non_exhaustive]
    NotSalvaged {
        /// The damaged database.
        path: PathBuf,
        /// The reason.
        problem: &'static str,
    },
    /// The database was not closed in order, and it was opened read-only. So it cannot be recovered.
    #[non_exhaustive]
    NeedsRecovery {
        /// The database.
        path: PathBuf,
    },
    /// The database has a format that this release does not read.
    #[non_exhaustive]
    FormatVersion {
        /// The version of the file.
        found: u32,
        /// The version that this release reads and writes.
        supported: u32,
    },
    /// The database uses features that this release does not know.
    #[non_exhaustive]
    UnknownFeatures {
        /// The unknown feature bits.
        bits: u64,
    },
    /// The database holds fingerprints of a scheme that this release does not know.
    #[non_exhaustive]
    UnknownScheme {
        /// The number of the scheme.
        number: u32,
    },
    /// No scheme has this name.
    #[non_exhaustive]
    UnknownSchemeName {
        /// The name.
        name: String,
        /// The names of all schemes.
        known: Vec<&'static str>,
    },
    /// No plan has this name.
    #[non_exhaustive]
    UnknownPlan {
        /// The name.
        name: String,
    },
    /// A stored row or block is missing, unreadable, or contradicts another.
    #[non_exhaustive]
    Damaged {
        /// The table of the row.
        table: &'static str,
        /// The key of the row, as text.
        key: String,
        /// The problem.
        problem: &'static str,
    },
    /// The database was opened read-only.
    ReadOnly,
    /// The operation needs the database for itself, but snapshots or a transaction of this handle are open.
    #[non_exhaustive]
    InUse {
        /// The number of snapshots that are open.
        snapshots: usize,
        /// Whether a write transaction is open.
        transaction: bool,
    },
    /// The thread would wait for itself: it has a write transaction of this handle open, or a writer, a compaction or a
    /// client has called it.
    WouldDeadlock,
    /// The writer was closed, or its thread has ended. So the submission was not done.
    WriterClosed,
    /// The snapshot is of the time before [`Database::reopen`](crate::Database::reopen), and the engine that
    /// it reads with is closed.
    Reopened,
    /// The database was closed, by [`Database::close`](crate::Database::close), or the client was.
    Closed,
    /// The handle was opened by the process that this one was forked from. Only that process can use it. A copy of it
    /// answers only what needs no lock: path, scheme, max distance, least similarity, sketch size, and the counts of
    /// [`Database::metrics`](crate::Database::metrics).
    Forked,
    /// Fingerprints of one scheme cannot be mixed with those of another.
    #[non_exhaustive]
    SchemeMismatch {
        /// The name of the scheme of the database.
        stored: &'static str,
        /// The name of the scheme of the fingerprints or options given.
        given: &'static str,
    },
    /// Something was set for a new database, and the database that is there was created otherwise.
    #[non_exhaustive]
    CreatedOtherwise {
        /// What was set, such as `max distance`.
        option: &'static str,
        /// The value that the database has.
        stored: Box<str>,
        /// The value that was set.
        given: Box<str>,
    },
    /// A time is given in another unit than Unix seconds: see [`UnixSeconds`](crate::UnixSeconds).
    #[non_exhaustive]
    NotSeconds {
        /// The number given.
        given: i64,
        /// The unit that it seems to be in.
        unit: &'static str,
        /// The seconds that it then stands for.
        seconds: i64,
    },
    /// A text cannot be fingerprinted under the external scheme, which takes ready fingerprints only.
    ExternalScheme,
    /// A key is empty or too long.
    #[non_exhaustive]
    KeyLength {
        /// Its length.
        bytes: usize,
        /// The most a key may have.
        max_bytes: usize,
    },
    /// A scope is too long.
    #[non_exhaustive]
    ScopeLength {
        /// Its length.
        bytes: usize,
        /// The most a scope may have.
        max_bytes: usize,
    },
    /// The name of a source is empty or too long.
    #[non_exhaustive]
    SourceName {
        /// Its length.
        bytes: usize,
        /// The most it may have.
        max_bytes: usize,
    },
    /// A payload is too long.
    #[non_exhaustive]
    PayloadLength {
        /// Its length.
        bytes: usize,
        /// The most a payload may have.
        max_bytes: usize,
    },
    /// A rank has too many numbers.
    #[non_exhaustive]
    RankLength {
        /// The number of its numbers.
        numbers: usize,
        /// The most a rank may have.
        max_numbers: usize,
    },
    /// The parts of a sketch do not make one.
    #[non_exhaustive]
    InvalidSketch {
        /// The number of its bytes. A sketch has 16 or 32.
        bytes: usize,
        /// The number of shingles. It is at least 1.
        shingles: u32,
    },
    /// A text is not the digits of a sketch.
    #[non_exhaustive]
    InvalidSketchDigits {
        /// The text, cut to 70 characters.
        text: String,
    },
    /// Two sketches of different sizes cannot be compared, nor kept in one database.
    #[non_exhaustive]
    SketchSizes {
        /// The bytes of the sketches of the database, or of the one sketch. 0 stands for none.
        stored: usize,
        /// The bytes of the sketch given, or of the other sketch.
        given: usize,
    },
    /// A text has too many paragraphs or sentences.
    #[non_exhaustive]
    TooManyUnits {
        /// The most it may have.
        max_units: usize,
    },
    /// A question or a document is too long to be sent to the process that has the database open.
    #[non_exhaustive]
    RequestLength {
        /// The bytes of the request.
        bytes: usize,
        /// The texts of the request, such as the names of scopes.
        texts: usize,
        /// The most bytes it may have.
        max_bytes: usize,
        /// The most texts it may have.
        max_texts: usize,
    },
    /// An answer is too long to be sent to another process.
    #[non_exhaustive]
    AnswerLength {
        /// The bytes of the answer.
        bytes: usize,
        /// The most bytes it may have.
        max_bytes: usize,
    },
    /// A text is too long to be sent to the process that has the database open.
    #[non_exhaustive]
    TextLength {
        /// The bytes of the text.
        given: usize,
        /// The most bytes it may have.
        max: usize,
    },
    /// The weight of a feature is not above 0, or the weights of a text are too large.
    #[non_exhaustive]
    FeatureWeight {
        /// The weight at which that was seen.
        given: f64,
        /// The largest sum of the weights of a text.
        most: f64,
    },
    /// A least similarity or an order by similarity needs a sketch, and none is given.
    NoSketch,
    /// A document has a fingerprint, but not the sketch by which the database compares it. So nothing would find it.
    #[non_exhaustive]
    SketchMissing {
        /// The bytes of the sketches of the database.
        bytes: usize,
    },
    /// No similarity can be as given: it is a number from 0 to 1.
    #[non_exhaustive]
    MinSimilarity {
        /// What was given.
        given: f64,
    },
    /// A policy keeps none of a group: see [`Policy::keep`](crate::Policy::keep).
    KeepNone,
    /// A document of a batch is out of bounds. So nothing of the batch was done.
    InBatch {
        /// Its index in the batch. The first document has the index 0.
        index: usize,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A max distance is larger than the number of bits of a fingerprint.
    #[non_exhaustive]
    MaxDistance {
        /// The distance given.
        given: u32,
    },
    /// A text is not a fingerprint.
    #[non_exhaustive]
    InvalidFingerprint {
        /// The text, cut to 40 characters.
        text: String,
    },
    /// An input cannot be read further, or has a bad record that the caller wants to be fatal.
    Input {
        /// The input: a path, or `-` for standard input.
        source_name: String,
        /// The line, if the input has lines.
        line: Option<u64>,
        /// The problem.
        reason: String,
    },
    /// An output cannot be written.
    #[non_exhaustive]
    Output {
        /// The path.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// An operation of this transaction failed before. So nothing of it can be committed.
    Aborted,
    /// Two documents have the same key, but all keys have to be different.
    #[non_exhaustive]
    KeyRepeated {
        /// The key, as text.
        key: String,
    },
    /// The database holds the most scopes it can.
    TooManyScopes,
    /// The database has given out all its document numbers.
    TooManyDocuments,
    /// The temporary file for documents of a transaction that do not fit into memory failed. Nothing of the
    /// transaction is stored.
    #[non_exhaustive]
    SpillFile {
        /// The directory of the file, which has no name.
        directory: PathBuf,
        /// What failed.
        source: Arc<io::Error>,
    },
    /// The disk has no room for a copy of the database.
    #[non_exhaustive]
    NoRoom {
        /// The directory in which the file was to be written.
        directory: PathBuf,
        /// The number of bytes that the file may need.
        needed: u64,
        /// The number of bytes that are free.
        available: u64,
    },
    /// The file was removed or replaced while it was open. So nothing can be stored in it any more.
    #[non_exhaustive]
    Removed {
        /// The database.
        path: PathBuf,
    },
    /// The file has several names (hard links). A compaction would replace it under one of them only.
    #[non_exhaustive]
    SeveralNames {
        /// The database.
        path: PathBuf,
        /// The number of its names.
        names: u64,
    },
    /// The file belongs to another user or group, and a copy that replaces it cannot be given to them.
    #[non_exhaustive]
    OwnerNotKept {
        /// The database.
        path: PathBuf,
    },
    /// An earlier commit could not be written, perhaps one of a merge. So the handle takes no further
    /// commits.
    #[non_exhaustive]
    OutcomeUnknown {
        /// The reason why it could not be written.
        reason: String,
    },
    /// Nobody serves the database, or whoever does does not answer. What was not answered may be done or not.
    #[non_exhaustive]
    NotServed {
        /// The database.
        path: PathBuf,
        /// What is known of the reason.
        reason: String,
    },
    /// An error of the process that serves the database.
    #[non_exhaustive]
    Served {
        /// What a caller can do about it.
        kind: ErrorKind,
        /// What that process says.
        message: String,
    },
    /// A policy or a query has a function, which cannot be sent to the process that serves the database.
    NotSendable,
    /// The caller ended the operation, by the progress that it gave.
    Interrupted,
    /// The system gives no thread for the work.
    NoThread(Arc<io::Error>),
    /// A text is not the position of a search for pairs, or that of another search.
    PairPosition,
    /// A function of the caller that verifies matches failed.
    Verify(Arc<dyn std::error::Error + Send + Sync>),
    /// The storage engine found its own pages damaged.
    Corrupted(Arc<dyn std::error::Error + Send + Sync>),
    /// The storage engine failed.
    Storage(Arc<dyn std::error::Error + Send + Sync>),
}

/// What a caller can do about an [`Error`]: the same for all errors of a kind.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, ErrorKind, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let database = Database::create(&path, &CreateOptions::new())?;
/// let opened_again = Database::open(&path, &OpenOptions::new());
/// let advice = match opened_again.map_err(|error| error.kind()) {
///     Ok(_) => "go on",
///     Err(ErrorKind::Busy) => "try again later",
///     Err(ErrorKind::Damaged) => "salvage the file",
///     Err(_) => "tell the user",
/// };
/// assert_eq!(advice, "try again later");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was given is out of its bounds, or does not fit to the database. Give something else.
    Input,
    /// There is no database at the path.
    NotFound,
    /// Something stands at the path where a file is to be made.
    AlreadyExists,
    /// Others have the database open, or this process has. Wait, or close it there.
    Busy,
    /// The database was opened read-only. Open it to write.
    ReadOnly,
    /// The handle was closed, or what it read with is gone. Open the database again.
    Closed,
    /// The handle is of the process that this one was forked from. Open the database here.
    Forked,
    /// The file is of another release. Use that one.
    Version,
    /// The file is damaged, or is no database. Take a backup, or salvage what is there.
    Damaged,
    /// The system refused: the disk is full or fails, a right is missing, there is no thread. What was acknowledged is
    /// safe.
    Storage,
    /// A commit failed, and it is not known whether it is in the file. Reopen the database.
    OutcomeUnknown,
    /// Nobody serves the database. Serve it, then make the call again.
    NotServed,
    /// The operation cannot be done as things stand. The message says what stands in its way.
    Refused,
    /// The caller ended the operation.
    Interrupted,
    /// A function of the caller failed.
    Callback,
}

/// Who has a database open, as far as the system tells.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, Error, Holder, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let database = Database::create(&path, &CreateOptions::new())?;
/// match Database::open(&path, &OpenOptions::new()) {
///     Err(Error::Busy { holder: Holder::Process(number), .. }) => println!("process {number} has it open"),
///     Err(Error::Busy { holder, .. }) => assert_eq!(holder, Holder::ThisProcess),
///     opened => panic!("{opened:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Holder {
    /// This process, by another handle, or by a snapshot or transaction of one.
    ThisProcess,
    /// This process, by a handle that it inherited when it was forked. The process that opened it is gone.
    /// [`Database::abandon`](crate::Database::abandon) gives it up.
    Inherited,
    /// Another process, with this number.
    Process(u32),
    /// Another process, with this number, which was forked from the one that opened the database. That one is gone.
    Child(u32),
    /// The system does not tell.
    Unknown,
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::SchemeMismatch { .. }
            | Self::CreatedOtherwise { .. }
            | Self::UnknownSchemeName { .. }
            | Self::UnknownPlan { .. }
            | Self::NotSeconds { .. }
            | Self::ExternalScheme
            | Self::KeyLength { .. }
            | Self::ScopeLength { .. }
            | Self::SourceName { .. }
            | Self::PayloadLength { .. }
            | Self::RankLength { .. }
            | Self::InvalidSketch { .. }
            | Self::InvalidSketchDigits { .. }
            | Self::SketchSizes { .. }
            | Self::TooManyUnits { .. }
            | Self::TextLength { .. }
            | Self::RequestLength { .. }
            | Self::AnswerLength { .. }
            | Self::FeatureWeight { .. }
            | Self::NoSketch
            | Self::SketchMissing { .. }
            | Self::MinSimilarity { .. }
            | Self::KeepNone
            | Self::InBatch { .. }
            | Self::MaxDistance { .. }
            | Self::InvalidFingerprint { .. }
            | Self::Input { .. }
            | Self::KeyRepeated { .. }
            | Self::PairPosition => ErrorKind::Input,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::Busy { .. } | Self::InUse { .. } => ErrorKind::Busy,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::WriterClosed | Self::Reopened | Self::Closed => ErrorKind::Closed,
            Self::Forked => ErrorKind::Forked,
            Self::FormatVersion { .. }
            | Self::UnknownFeatures { .. }
            | Self::UnknownScheme { .. } => ErrorKind::Version,
            Self::NotSimdb { .. }
            | Self::NotSalvaged { .. }
            | Self::Damaged { .. }
            | Self::Corrupted(_) => ErrorKind::Damaged,
            Self::Io { .. }
            | Self::Output { .. }
            | Self::SpillFile { .. }
            | Self::NoRoom { .. }
            | Self::Removed { .. }
            | Self::NoThread(_)
            | Self::Storage(_) => ErrorKind::Storage,
            Self::OutcomeUnknown { .. } => ErrorKind::OutcomeUnknown,
            Self::NotServed { .. } => ErrorKind::NotServed,
            Self::Served { kind, .. } => *kind,
            Self::NeedsRecovery { .. }
            | Self::WouldDeadlock
            | Self::Aborted
            | Self::TooManyScopes
            | Self::TooManyDocuments
            | Self::SeveralNames { .. }
            | Self::NotSendable
            | Self::OwnerNotKept { .. } => ErrorKind::Refused,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Verify(_) => ErrorKind::Callback,
        }
    }

    /// The error of a file or directory, made from that of the system: `map_err(Error::io(path))`.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// A stored row or block is not what it should be.
    pub(crate) fn damaged(
        table: &'static str,
        key: &(impl ToString + ?Sized),
        problem: &'static str,
    ) -> Self {
        Self::Damaged {
            table,
            key: key.to_string(),
            problem,
        }
    }

    /// Turns the answer of a caller's function into a result: [`Error::Interrupted`] if it breaks.
    pub(crate) fn if_broken(flow: ControlFlow<()>) -> Result<()> {
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Self::Interrupted),
        }
    }

    /// The result of work that the caller may end at any time, and that is a success then too: an operation whose
    /// interface says so does what was asked for.
    pub(crate) fn unless_interrupted(result: Result<()>) -> Result<()> {
        match result {
            Err(Self::Interrupted) => Ok(()),
            result => result,
        }
    }

    /// An input cannot be read, or not so, for this reason.
    #[cfg(feature = "ingest")]
    pub(crate) fn input(path: &Path, reason: impl Into<String>) -> Self {
        Self::Input {
            source_name: super::path_name(path),
            line: None,
            reason: reason.into(),
        }
    }

    /// An output cannot be written, for this reason.
    #[cfg(any(feature = "ingest", feature = "parquet"))]
    pub(crate) fn output(path: &Path, reason: &str) -> Self {
        Self::Output {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// An error and its causes, on one line.
    #[cfg(any(feature = "cli", all(unix, feature = "serve")))]
    pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    /// A thread could not be started.
    pub(crate) fn no_thread(source: io::Error) -> Self {
        Self::NoThread(source.into())
    }

    /// The storage engine failed for this cause.
    pub(crate) fn storage(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Storage(Arc::from(cause.into()))
    }

    /// Names the file in an error of the storage engine, which names none, for work with several files:
    /// `map_err(Error::of_file(path))`.
    pub(crate) fn of_file(path: &Path) -> impl Fn(Self) -> Self {
        move |error| match error {
            Self::Storage(cause) => Self::io(path)(as_io_error(cause)),
            error => error,
        }
    }

    /// The storage engine found damage, for this cause.
    pub(crate) fn corrupted(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Corrupted(Arc::from(cause.into()))
    }
}

/// The cause of a failure as an error of the system, with the number and the kind that it has there.
fn as_io_error(cause: Arc<dyn std::error::Error + Send + Sync>) -> io::Error {
    let Some(error) = cause.downcast_ref::<io::Error>() else {
        return io::Error::other(cause);
    };
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), cause.to_string()),
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::SpillFile { source, .. } | Self::NoThread(source) => {
                Some(source.as_ref())
            }
            Self::InBatch { source, .. } => Some(source.as_ref()),
            Self::Verify(source) | Self::Corrupted(source) | Self::Storage(source) => {
                Some(source.as_ref())
            }
            _ => None,
        }
    }
}
