//! The wording of errors: the fact, and the remedy if there is one.

use std::fmt;
use std::io;

use super::error::{Error, Holder};
use crate::plural::counted;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => {
                write!(f, "{}: cannot be read or written{}", path.display(), remedy(source))
            }
            Self::NotFound { path } => write!(f, "{}: no such database; create it first", path.display()),
            Self::AlreadyExists { path } => {
                write!(f, "{}: already exists, and nothing is overwritten; choose another name", path.display())
            }
            Self::Busy { path, holder } => write!(f, "{}: {holder}", path.display()),
            Self::NotSimdb { path } => {
                write!(
                    f,
                    "{}: not a simdb database, or one whose beginning is damaged: then `simdb salvage` takes out \
                     what is whole",
                    path.display()
                )
            }
            Self::NotSalvaged { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::NeedsRecovery { path } => write!(
                f,
                "{}: was not closed in order, and to recover it means to write to it; open it for writing once",
                path.display()
            ),
            Self::FormatVersion { found, supported } => write!(
                f,
                "the file has format version {found}, and this release reads version {supported}: use a release \
                 that reads version {found}, or build a new file"
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
                "the database is damaged: table {table}, key {key}: {problem}; restore a copy, or take \
                 out what is whole: `simdb salvage`"
            ),
            Self::ReadOnly => f.write_str("the database was opened read-only"),
            Self::InUse { snapshots, transaction } => write!(
                f,
                "open snapshots of this database: {snapshots}, open write transactions: {}; end them first, then \
                 try again",
                u8::from(*transaction)
            ),
            Self::WouldDeadlock => f.write_str(
                "this thread would wait for itself: it has a write transaction of the database open, or was called by \
                 a writer, a compaction or a client: end the transaction first, or use it; what was called asks another \
                 thread",
            ),
            Self::WriterClosed => {
                f.write_str("the writer is closed, and the submission was not done: start a new writer")
            }
            Self::Closed => f.write_str("the database or the client was closed by `close`; open it, or connect, again"),
            Self::Reopened => f.write_str(
                "the database was opened again after this snapshot was taken, and the snapshot cannot be read any \
                 more: take a new one",
            ),
            Self::Forked => f.write_str(
                "this handle belongs to the process that this one was forked from, and nothing was done: let that \
                 process do the work, or close the database there before the fork and open it here; \
                 `Database::abandon` gives up what was inherited",
            ),
            Self::SchemeMismatch { stored, given } => write!(
                f,
                "the database holds fingerprints of scheme {stored}, not {given}; fingerprints of different schemes \
                 cannot be compared: create a new database for scheme {given}"
            ),
            Self::CreatedOtherwise { option: option @ "plan", stored, given } => write!(
                f,
                "the database has {option} {stored}, and {given} is asked for: leave it out to take the database as \
                 it is, or give it the other tables first (`simdb compact --plan`)"
            ),
            Self::CreatedOtherwise { option, stored, given } => write!(
                f,
                "the database was created with {option} {stored}, and {given} is asked for: leave it out to take the \
                 database as it is, or create another one"
            ),
            Self::NotSeconds { given, unit, seconds } => write!(
                f,
                "the time {given} lies outside of the years -9999 to 9999, and looks like {unit}: give Unix seconds, \
                 here {seconds}"
            ),
            Self::ExternalScheme => f.write_str(
                "fingerprints of the scheme external are made elsewhere, so simdb cannot make one from a text that \
                 compares with them: give a fingerprint instead",
            ),
            Self::KeyLength { bytes: 0, .. } => f.write_str("the key is empty"),
            Self::KeyLength { bytes, max_bytes } => {
                write!(f, "the key has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::ScopeLength { bytes, max_bytes } => {
                write!(f, "the scope has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::SourceName { bytes, max_bytes } => {
                write!(f, "the name of a source has {bytes} bytes; 1 to {max_bytes} are allowed")
            }
            Self::PayloadLength { bytes, max_bytes } => {
                write!(f, "the payload has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::RankLength { numbers, max_numbers } => {
                write!(f, "the rank has {numbers} numbers; at most {max_numbers} are allowed")
            }
            Self::InvalidSketch { bytes, shingles } => write!(
                f,
                "{} and {} are no sketch: it has 16 or 32 bytes and at least one shingle",
                counted(bytes, "byte"),
                counted(shingles, "shingle")
            ),
            Self::InvalidSketchDigits { text } => {
                write!(f, "{text:?} is not a sketch: 32 or 64 hexadecimal digits are wanted")
            }
            Self::SketchSizes { stored: 0, .. } => f.write_str(
                "the database has no sketches, so nothing is known of similarity: leave the sketch and the least \
                 similarity out, or create a new database with sketches: with `--scheme minwise-1` if simdb has made \
                 them from texts, or else with `--sketch 16`",
            ),
            Self::SketchSizes { stored, given } => write!(
                f,
                "sketches of {stored} and of {given} bytes cannot be compared: make sketches of the size that the \
                 database has"
            ),
            Self::FeatureWeight { given, most } => write!(
                f,
                "the weight {given} of a feature cannot be used: weights are above 0, and their sum is at most {most}; \
                 divide all weights of all texts by the same number"
            ),
            Self::TooManyUnits { max_units } => write!(
                f,
                "the text has more than {max_units} paragraphs or sentences: give it in parts, or in units that are \
                 larger"
            ),
            Self::RequestLength { bytes, texts, max_bytes, max_texts } => write!(
                f,
                "the request has {bytes} bytes and {texts} texts, and at most {max_bytes} bytes and {max_texts} texts \
                 can be sent to the process that has the database open: name fewer scopes, or ask in that process"
            ),
            Self::AnswerLength { bytes, max_bytes } => write!(
                f,
                "the answer has {bytes} bytes, and at most {max_bytes} can be sent to another process: ask for fewer \
                 matches; a document that was submitted is decided all the same"
            ),
            Self::TextLength { given, max } => write!(
                f,
                "the text has {given} bytes, and at most {max} can be sent to the process that has the database open: \
                 give it in parts, or ask in that process"
            ),
            Self::PairPosition => f.write_str(
                "the position belongs to another search: the question, the documents of the database or its tables \
                 have changed; start again without it",
            ),
            Self::NoSketch => f.write_str(
                "a similarity is asked for, but no sketch is given to compare with: give the text or its sketch, \
                 or leave the similarity out",
            ),
            Self::SketchMissing { bytes } => write!(
                f,
                "the document has a fingerprint but no sketch, and the database compares texts by sketches of {bytes} \
                 bytes, so it would not be found: make the document from its text (`Fingerprinter::document`, \
                 `document_html`), give its sketch too, or create a database without sketches (`--sketch 0`, \
                 `SketchSize::None`)"
            ),
            Self::MinSimilarity { given } => {
                write!(f, "a least similarity of {given} was given; 0 to 1 is possible, for example 0.7")
            }
            Self::KeepNone => f.write_str(
                "a policy that keeps up to 0 documents of a group would store none: keep at least 1, the first of each group",
            ),
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
            Self::Output { path, reason } => write!(f, "{}: {reason}", path.display()),
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
                "the database has numbered 2^40 documents since it was created, and can number no more: build a new one of \
                 what it holds",
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
            Self::NotServed { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Served { message, .. } => f.write_str(message),
            Self::NotSendable => f.write_str(
                "a function cannot be sent to the process that serves the database: leave it out, or open the \
                 database in this process",
            ),
            Self::OutcomeUnknown { reason } => write!(
                f,
                "writing failed before ({reason}), and nothing was written since: remove the cause, then open the \
                 database again, or call `reopen`; what was committed is there"
            ),
            Self::NoThread(_) => f.write_str(
                "the system gives no thread: let the user or the control group of this process have more (`ulimit -u`, \
                 `pids.max`), or try again later",
            ),
            Self::Interrupted => f.write_str("it was ended before it was done"),
            Self::Verify(_) => f.write_str("a match cannot be verified"),
            Self::Corrupted(_) => f.write_str(
                "the database file is damaged; restore a copy, or take out what is whole: `simdb salvage`",
            ),
            Self::Storage(cause) => {
                let cause = cause.downcast_ref::<io::Error>();
                write!(f, "cannot read or write the database file{}", cause.map_or("", remedy))
            }
        }
    }
}

/// What to do about an error of the system, if it is a limit that can be raised.
fn remedy(cause: &io::Error) -> &'static str {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let limits = [
            (
                Errno::MFILE,
                ": let this process open more files (`ulimit -n`)",
            ),
            (
                Errno::NFILE,
                ": let this system open more files (`fs.file-max`)",
            ),
        ];
        for (number, remedy) in limits {
            if cause.raw_os_error() == Some(number.raw_os_error()) {
                return remedy;
            }
        }
    }
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": make room first",
        io::ErrorKind::FileTooLarge => ": let this process write larger files (`ulimit -f`)",
        _ => "",
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str(
                "in use by this process; use the handle that has it open, or close that handle and its snapshots",
            ),
            Self::Inherited => f.write_str(
                "in use by this process, by a handle that it inherited when it was forked; give that handle up with \
                 `Database::abandon`, or drop it",
            ),
            Self::Process(number) => write!(
                f,
                "in use by another process, number {number}; wait until it has closed the database, or stop it"
            ),
            Self::Child(number) => write!(
                f,
                "kept in use by process {number}, which was forked from the one that had it open and is gone; wait \
                 until process {number} ends, or stop it; a process that calls `Database::abandon` keeps nothing in use"
            ),
            Self::Unknown => {
                f.write_str("in use by another process; wait until it has closed the database, or stop it")
            }
        }
    }
}

#[cfg(any(feature = "ingest", feature = "parquet"))]
/// The path as text. Bytes that are not UTF-8 are escaped as `\xff`. So that no two paths have one name, a backslash is
/// doubled then, and wherever it does not part the folders of a path.
pub(crate) fn path_name(path: &std::path::Path) -> String {
    use std::fmt::Write as _;
    let bytes = path.as_os_str().as_encoded_bytes();
    let text = std::str::from_utf8(bytes);
    if let Ok(text) = text
        && (cfg!(windows) || !text.contains('\\'))
    {
        return text.to_owned();
    }
    let mut name = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        name += &chunk.valid().replace('\\', r"\\");
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            _ = write!(name, "\\x{byte:02x}");
        }
    }
    name
}

#[cfg(all(test, unix, feature = "ingest"))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn different_paths_have_different_names() {
        let name = |bytes: &[u8]| path_name(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(name("a/é b".as_bytes()), "a/é b");
        assert_eq!(name(b"a/\xff\xe9.txt"), r"a/\xff\xe9.txt");
        assert_eq!(name(br"a/\xff"), r"a/\\xff");
        assert_eq!(name(b"\\\xff"), r"\\\xff");
    }
}
