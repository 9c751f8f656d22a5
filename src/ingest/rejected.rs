//! Records that cannot be taken, and why.

use std::fmt;

use crate::error::Error;
use crate::text::Scheme;

/// A record that cannot be taken, with where it stands and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// The input: a path, or `-` for standard input.
    pub source_name: String,
    /// The line, from 1, where the input has lines.
    pub line: Option<u64>,
    /// What is wrong.
    pub reason: Reason,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.source_name, self.reason),
            None => write!(f, "{}: {}", self.source_name, self.reason),
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Self {
        Self::Input {
            source_name: rejected.source_name,
            line: rejected.line,
            reason: rejected.reason.to_string(),
        }
    }
}

/// Why a record cannot be taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It is longer than allowed.
    TooLong {
        /// Its length.
        bytes: u64,
        /// What is allowed.
        max_bytes: usize,
    },
    /// It is not UTF-8.
    NotUtf8 {
        /// How many of its bytes are, before the first that is not.
        valid_bytes: usize,
    },
    /// It is not a JSON object, or a field has the wrong type.
    Json {
        /// What the parser says.
        problem: String,
        /// The byte it stopped at, from 1; 0 where it did not begin.
        column: usize,
    },
    /// It names no document.
    NoKey,
    /// It has neither a fingerprint nor a text.
    NoContent,
    /// A line has no tab between key and content.
    NoTab,
    /// The value of a field cannot be used.
    Field {
        /// The field.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A part of the document is out of its bounds, or its fingerprint is none.
    Document(Error),
    /// It brings a text, and the database takes ready fingerprints only.
    TextInExternal,
    /// It brings a ready fingerprint, and the database makes its own.
    FingerprintInScheme {
        /// The scheme of the database.
        scheme: Scheme,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, max_bytes } => {
                write!(f, "the record has {bytes} bytes; at most {max_bytes} are allowed")
            }
            Self::NotUtf8 { valid_bytes } => {
                write!(f, "the record is not UTF-8 (byte {})", valid_bytes + 1)
            }
            Self::Json { problem, column: 0 } => write!(f, "not a JSON record: {problem}"),
            Self::Json { problem, column } => write!(f, "not a JSON record: {problem} (column {column})"),
            Self::NoKey => f.write_str(
                "the record has no key: field `key`, `id` or `url`, or the one that was named, is wanted",
            ),
            Self::NoContent => {
                f.write_str("the record has no content: field `fingerprint`, `text` or `html` is wanted")
            }
            Self::NoTab => f.write_str("the line has no tab between key and content"),
            Self::Field { name, expected } => write!(f, "field `{name}`: {expected} is wanted"),
            Self::Document(error) => error.fmt(f),
            Self::TextInExternal => Error::ExternalScheme.fmt(f),
            Self::FingerprintInScheme { scheme } => write!(
                f,
                "the record brings a fingerprint, but the database makes its own (scheme {scheme}); if the fingerprint \
                 was made by that scheme, say so with `--scheme {scheme}`"
            ),
        }
    }
}
