//! Everything that can go wrong, as values. `Display` has the wording, `source()` the cause.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::holder::Holder;

/// A result with simdb's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. `Display` names the fact and, if there is one, the remedy. The cause is in
/// [`source()`](std::error::Error::source).
///
/// An error can be cloned, so that one failure reaches everybody whom it concerns. Clones share the cause.
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
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A file exists already where a database is to be created.
    AlreadyExists {
        /// The path.
        path: PathBuf,
    },
    /// Another process, or another handle of this one, has the database open.
    Busy {
        /// The database.
        path: PathBuf,
        /// Who has it open.
        holder: Holder,
    },
    /// The file is not a simdb database, or is too damaged to be recognised as one.
    NotSimdb {
        /// The file.
        path: PathBuf,
    },
    /// The database was not closed in order, and it was opened read-only. So it cannot be recovered.
    NeedsRecovery {
        /// The database.
        path: PathBuf,
    },
    /// The database has a format that this release does not read.
    FormatVersion {
        /// The version of the file.
        found: u32,
        /// The version that this release reads and writes.
        supported: u32,
    },
    /// The database uses features that this release does not know.
    UnknownFeatures {
        /// The unknown feature bits.
        bits: u64,
    },
    /// The database holds fingerprints of a scheme that this release does not know.
    UnknownScheme {
        /// The number of the scheme.
        number: u32,
    },
    /// No scheme has this name.
    UnknownSchemeName {
        /// The name.
        name: String,
        /// The names of all schemes.
        known: Vec<&'static str>,
    },
    /// No plan has this name.
    UnknownPlan {
        /// The name.
        name: String,
    },
    /// A stored row or block is missing, unreadable, or contradicts another.
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
    InUse {
        /// The number of snapshots that are open.
        snapshots: usize,
        /// Whether a write transaction is open.
        transaction: bool,
    },
    /// The thread that wants to write has a write transaction of this handle open. It would wait for itself.
    WouldDeadlock,
    /// The writer was closed, or its thread has ended. So the submission was not done.
    WriterClosed,
    /// The snapshot is of the time before [`Database::reopen`](crate::Database::reopen), and the engine that
    /// it reads with is closed.
    Reopened,
    /// Fingerprints of one scheme cannot be mixed with those of another.
    SchemeMismatch {
        /// The name of the scheme of the database.
        stored: &'static str,
        /// The name of the scheme of the fingerprints or options given.
        given: &'static str,
    },
    /// A text cannot be fingerprinted under the external scheme, which takes ready fingerprints only.
    ExternalScheme,
    /// A key is empty or too long.
    KeyLength {
        /// Its length.
        bytes: usize,
        /// The most a key may have.
        max_bytes: usize,
    },
    /// A scope is too long.
    ScopeLength {
        /// Its length.
        bytes: usize,
        /// The most a scope may have.
        max_bytes: usize,
    },
    /// A payload is too long.
    PayloadLength {
        /// Its length.
        bytes: usize,
        /// The most a payload may have.
        max_bytes: usize,
    },
    /// A rank has too many numbers.
    RankLength {
        /// The number of its numbers.
        numbers: usize,
        /// The most a rank may have.
        max_numbers: usize,
    },
    /// A document of a batch is out of bounds. So nothing of the batch was done.
    InBatch {
        /// Its index in the batch. The first document has the index 0.
        index: usize,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A max distance is larger than the number of bits of a fingerprint.
    MaxDistance {
        /// The distance given.
        given: u32,
    },
    /// A text is not a fingerprint.
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
    /// An operation of this transaction failed before. So nothing of it can be committed.
    Aborted,
    /// Two documents have the same key, but all keys have to be different.
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
    SpillFile {
        /// The directory of the file, which has no name.
        directory: PathBuf,
        /// What failed.
        source: Arc<io::Error>,
    },
    /// The disk has no room for a copy of the database.
    NoRoom {
        /// The directory in which the file was to be written.
        directory: PathBuf,
        /// The number of bytes that the file may need.
        needed: u64,
        /// The number of bytes that are free.
        available: u64,
    },
    /// The file was removed or replaced while it was open. So nothing can be stored in it any more.
    Removed {
        /// The database.
        path: PathBuf,
    },
    /// The file has several names (hard links). A compaction would replace it under one of them only.
    SeveralNames {
        /// The database.
        path: PathBuf,
        /// The number of its names.
        names: u64,
    },
    /// The file belongs to another user or group, and a copy that replaces it cannot be given to them.
    OwnerNotKept {
        /// The database.
        path: PathBuf,
    },
    /// An earlier commit could not be written, perhaps one of a merge. So the handle takes no further
    /// commits.
    OutcomeUnknown {
        /// The reason why it could not be written.
        reason: String,
    },
    /// The storage engine found its own pages damaged.
    Corrupted(Arc<dyn std::error::Error + Send + Sync>),
    /// The storage engine failed.
    Storage(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The storage engine failed for this cause.
    pub(crate) fn storage(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Storage(Arc::from(cause.into()))
    }

    /// The storage engine found damage, for this cause.
    pub(crate) fn corrupted(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Corrupted(Arc::from(cause.into()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, .. } => write!(f, "{}: cannot be read or written", path.display()),
            Self::NotFound { path } => write!(f, "{}: no such database; create it first", path.display()),
            Self::AlreadyExists { path } => {
                write!(f, "{}: already exists, and nothing is overwritten; choose another name", path.display())
            }
            Self::Busy { path, holder } => write!(f, "{}: {holder}", path.display()),
            Self::NotSimdb { path } => {
                write!(f, "{}: not a simdb database, or one that is damaged beyond recognition", path.display())
            }
            Self::NeedsRecovery { path } => write!(
                f,
                "{}: was not closed in order and cannot be recovered read-only; open it for writing once",
                path.display()
            ),
            Self::FormatVersion { found, supported } => write!(
                f,
                "the file has format version {found}, and this release reads version {supported}: use a release \
                 that reads version {found}, or build the file anew"
            ),
            Self::UnknownFeatures { bits } => write!(
                f,
                "the file uses features this release does not know (bits {bits:#x}): use a newer release"
            ),
            Self::UnknownScheme { number } => write!(
                f,
                "the file holds fingerprints of scheme number {number}, which this release does not know: use a \
                 newer release"
            ),
            Self::UnknownSchemeName { name, known } => {
                write!(f, "no scheme is called {name:?}; there are {}", known.join(", "))
            }
            Self::UnknownPlan { name } => {
                write!(f, "no plan is called {name:?}; `simdb plan` lists those there are, such as 4x16")
            }
            Self::Damaged { table, key, problem } => write!(
                f,
                "the database is damaged: table {table}, key {key}: {problem}; restore a copy, or build the \
                 database anew"
            ),
            Self::ReadOnly => f.write_str("the database was opened read-only"),
            Self::InUse { snapshots, transaction } => write!(
                f,
                "open snapshots of this database: {snapshots}, open write transactions: {}; end them first, then \
                 try again",
                u8::from(*transaction)
            ),
            Self::WouldDeadlock => f.write_str(
                "this thread has a write transaction of the database open, and would wait for itself: end that \
                 transaction first, or use it",
            ),
            Self::WriterClosed => {
                f.write_str("the writer is closed, and the submission was not done: start a new writer")
            }
            Self::Reopened => f.write_str(
                "the database was opened again after this snapshot was taken, and the snapshot cannot be read any \
                 more: take a new one",
            ),
            Self::SchemeMismatch { stored, given } => write!(
                f,
                "the database holds fingerprints of scheme {stored}, not {given}; fingerprints of different schemes \
                 cannot be compared: create a new database for scheme {given}"
            ),
            Self::ExternalScheme => f.write_str(
                "the database holds fingerprints made elsewhere (scheme external), so simdb cannot make one from a \
                 text that compares with them: give a fingerprint instead",
            ),
            Self::KeyLength { bytes: 0, .. } => f.write_str("the key is empty"),
            Self::KeyLength { bytes, max_bytes } => {
                write!(f, "the key has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::ScopeLength { bytes, max_bytes } => {
                write!(f, "the scope has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::PayloadLength { bytes, max_bytes } => {
                write!(f, "the payload has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::RankLength { numbers, max_numbers } => {
                write!(f, "the rank has {numbers} numbers; at most {max_numbers} are allowed")
            }
            Self::InBatch { index, .. } => {
                write!(f, "document {index} of the batch, counted from 0, is out of bounds: nothing was done")
            }
            Self::MaxDistance { given } => {
                write!(f, "a max distance of {given} was given; a fingerprint has 64 bits, so 0 to 64 is possible")
            }
            Self::InvalidFingerprint { text } => {
                write!(f, "{text:?} is not a fingerprint: 16 hexadecimal digits are wanted")
            }
            Self::Input { source_name, line: Some(line), reason } => {
                write!(f, "{source_name}, line {line}: {reason}")
            }
            Self::Input { source_name, line: None, reason } => write!(f, "{source_name}: {reason}"),
            Self::Aborted => f.write_str(
                "an operation of this transaction failed before, and nothing of it was stored: begin a new one",
            ),
            Self::KeyRepeated { key } => {
                write!(
                    f,
                    "two documents have the key {key:?}; a database is built from different keys: nothing was \
                     built"
                )
            }
            Self::TooManyScopes => f.write_str("the database holds 2^24 - 2 scopes, and can hold no more"),
            Self::TooManyDocuments => f.write_str(
                "the database has stored 2^40 documents in its time, and can number no more: build it anew",
            ),
            Self::SpillFile { directory, .. } => write!(
                f,
                "{}: the temporary file of this transaction cannot be written or read back; nothing of the \
                 transaction was stored, and the database is unchanged: make room, or check the disk",
                directory.display()
            ),
            Self::NoRoom { directory, needed, available } => write!(
                f,
                "{}: {needed} bytes may be needed, and {available} are free: nothing was done; make room first",
                directory.display()
            ),
            Self::Removed { path } => write!(
                f,
                "{}: was removed or replaced while it was open, and nothing was stored: open the file that \
                 stands there now, or make a backup of this one while it is open",
                path.display()
            ),
            Self::SeveralNames { path, names } => write!(
                f,
                "{}: the file has {names} names (hard links), and only this one would be compacted: nothing was \
                 done; remove the other names, or make a backup instead",
                path.display()
            ),
            Self::OwnerNotKept { path } => write!(
                f,
                "{}: belongs to another user or group, and a copy cannot be given to them: nothing was done; \
                 compact it as that user, or as one who may change owners",
                path.display()
            ),
            Self::OutcomeUnknown { reason } => write!(
                f,
                "writing failed before ({reason}), and nothing was written since: remove the cause, then open the \
                 database again, or call `reopen`; what was committed is there"
            ),
            Self::Corrupted(_) => f.write_str("the database file is damaged; restore a copy, or build it anew"),
            Self::Storage(_) => f.write_str("cannot read or write the database file"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::SpillFile { source, .. } => Some(source.as_ref()),
            Self::InBatch { source, .. } => Some(source.as_ref()),
            Self::Corrupted(source) | Self::Storage(source) => Some(source.as_ref()),
            _ => None,
        }
    }
}
