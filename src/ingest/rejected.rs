//! Rejected records, and the reasons why.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::numbered_key::RecordId;
use super::parsed::other_meaning;
use crate::error::{Error, path_name};
use crate::plural::counted;
use crate::text::{Scheme, Unit};

/// The field by which the first line of a dump is known.
const DUMP_HEADER: &str = "simdb_dump";

/// A record that cannot be taken: where it is in the input, and why. Or an input that cannot be read, or not further:
/// then the reason is [`Reason::Input`].
///
/// # Example
///
/// ```
/// use simdb::ingest::{Reason, ReadOptions, Record, Records, Rejected};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
///
/// std::fs::write(&path, "a\tone page\nno tab\n")?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let chunk = records.next_chunk(Ok::<Record, Rejected>)?;
/// let rejected = chunk[1].as_ref().expect_err("a line without a tab");
/// assert!(matches!(rejected.reason, Reason::NoTab));
/// assert_eq!((rejected.line, rejected.offset, rejected.reason.kind()), (Some(2), None, "no-tab"));
/// assert!(rejected.to_string().ends_with("pages.tsv, line 2: the line has no tab between key and content"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// The input: a path, or `-` for standard input.
    pub path: Arc<Path>,
    /// The line, from 1. `None` if the record is no line.
    pub line: Option<u64>,
    /// Where it is, if it is the record of a web archive or the row of a Parquet file.
    pub offset: Option<Offset>,
    /// What is wrong.
    pub reason: Reason,
    /// Its place, if the inputs are read with numbers.
    pub(crate) id: Option<Box<RecordId>>,
}

/// Where a record is that is no line.
///
/// See the example of [`Rejected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Offset {
    /// Where it begins in the file as it is stored (bytes).
    Stored(u64),
    /// Where it begins in what a packed part of the file holds (bytes). Most web archives pack each record as a part of
    /// its own, and then this does not come.
    Unpacked(u64),
    /// The number of the row of a Parquet file, from 1.
    Row(u64),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&path_name(&self.path))?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        match self.offset {
            Some(Offset::Stored(bytes)) => write!(f, ", offset {bytes}")?,
            Some(Offset::Unpacked(bytes)) => write!(f, ", unpacked offset {bytes}")?,
            Some(Offset::Row(row)) => write!(f, ", row {row}")?,
            None => {}
        }
        write!(f, ": {}", self.reason)
    }
}

impl Rejected {
    /// Whether it is the input that cannot be read, and not a record of it.
    pub fn is_input(&self) -> bool {
        matches!(self.reason, Reason::Input { .. })
    }
}

impl From<&Rejected> for Error {
    /// The error of an ingestion that ends at this record.
    fn from(rejected: &Rejected) -> Self {
        let reason = match rejected.offset {
            Some(Offset::Row(row)) => format!("row {row}: {}", rejected.reason),
            _ => rejected.reason.to_string(),
        };
        Self::Input {
            source_name: path_name(&rejected.path),
            line: rejected.line,
            reason,
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Self {
        Self::from(&rejected)
    }
}

/// Why a record cannot be taken.
///
/// See the example of [`Rejected`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// No record, but the input cannot be read, or not further. What was read of it before has come before this, and
    /// the next input comes behind it.
    Input {
        /// What is wrong.
        problem: String,
    },
    /// The record is too long.
    TooLong {
        /// The length of the record. Of a packed page that is too long, it is the limit and one: no more is unpacked.
        bytes: u64,
        /// The largest length that is allowed.
        max_bytes: usize,
    },
    /// The record is not UTF-8.
    NotUtf8 {
        /// The number of bytes before the first that is not UTF-8.
        valid_bytes: usize,
    },
    /// The text of a row of a Parquet file is not UTF-8.
    ColumnNotUtf8 {
        /// The number of its bytes before the first that is not UTF-8.
        valid_bytes: usize,
    },
    /// A page or a text is in no encoding in which its bytes fit. It is not judged by what is left of it.
    Encoding {
        /// The first encoding that was tried: the one that is said, or UTF-8.
        label: String,
        /// The number of its characters that do not fit. `None` if the encoding is one that is not read.
        misfits: Option<usize>,
    },
    /// What is said to be a page or a text is something else.
    NotText {
        /// What it is.
        found: &'static str,
    },
    /// The file holds many documents in a format that is not read.
    ManyDocuments {
        /// What it is, and what to do.
        found: &'static str,
    },
    /// The record is not a JSON object, or a field has the wrong type.
    Json {
        /// The message of the parser.
        problem: String,
        /// The byte at which the parser stopped, from 1. It is 0 if the parser did not begin.
        column: usize,
    },
    /// The record of a web archive, or the page in it, cannot be read.
    Warc {
        /// What is wrong.
        problem: String,
    },
    /// The record has no key.
    NoKey,
    /// The record has neither a fingerprint nor a text.
    NoContent {
        /// The fields that the caller has named for the content. Without any, all that a content may be in are wanted.
        named: Vec<String>,
        /// The names of its first fields.
        fields: Vec<String>,
    },
    /// The line has no tab between key and content.
    NoTab,
    /// The value of a field cannot be used.
    Field {
        /// The field.
        name: String,
        /// What is expected of its value.
        expected: &'static str,
    },
    /// A number of seconds is more likely a date.
    NoSeconds {
        /// The field.
        name: String,
        /// Its value.
        number: i64,
    },
    /// The field `features` is neither an object of numbers nor a list of texts. A text or a page beside it is not
    /// taken instead: fingerprints of features and of texts have nothing in common.
    Features,
    /// A part of the document exceeds its limit, or its fingerprint cannot be parsed.
    Document(Error),
    /// The record brings no text that could be cut into paragraphs or sentences.
    NothingToCut {
        /// What it should be cut into.
        unit: Unit,
    },
    /// The record has too many paragraphs or sentences.
    TooManyUnits {
        /// What it was cut into.
        unit: Unit,
        /// The largest number that is allowed.
        max_units: usize,
    },
    /// The record has a text, but the database takes only ready fingerprints.
    TextInExternal,
    /// The record has a ready fingerprint, but the database makes its own.
    FingerprintInScheme {
        /// The scheme of the database.
        scheme: Scheme,
    },
}

/// The fields without which a record is still a document.
pub(super) const CAN_BE_IGNORED: [&str; 7] = [
    "seen",
    "time",
    "repeats",
    "rank",
    "scope",
    "payload",
    "payload_base64",
];

impl Reason {
    /// There is no content where no fields are.
    pub(super) fn no_content() -> Self {
        Self::NoContent {
            named: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// A short name of the kind of reason, such as `not-utf8`. It stays the same from release to release.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Input { .. } => "input",
            Self::TooLong { .. } => "too-long",
            Self::NotUtf8 { .. } | Self::ColumnNotUtf8 { .. } => "not-utf8",
            Self::Encoding { .. } => "encoding",
            Self::NotText { .. } => "not-text",
            Self::ManyDocuments { .. } => "many-documents",
            Self::Json { .. } => "json",
            Self::Warc { .. } => "warc",
            Self::NoKey => "no-key",
            Self::NoContent { .. } => "no-content",
            Self::NoTab => "no-tab",
            Self::Field { .. } => "field",
            Self::NoSeconds { .. } => "seconds",
            Self::Features => "features",
            Self::Document(_) => "document",
            Self::NothingToCut { .. } => "nothing-to-cut",
            Self::TooManyUnits { .. } => "too-many-units",
            Self::TextInExternal => "text-in-external",
            Self::FingerprintInScheme { .. } => "fingerprint-in-scheme",
        }
    }
}

/// A text for a message: its beginning and its end, if it is long.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    const END: usize = 40;
    let count = text.chars().count();
    if count <= MOST {
        return text.to_owned();
    }
    let begin = text.chars().take(MOST - END);
    let end = text.chars().skip(count - END);
    begin.chain(['…']).chain(end).collect()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, max_bytes } => {
                write!(f, "the record has {bytes} bytes; at most {max_bytes} are allowed: `--max-record` takes longer ones")
            }
            Self::NotUtf8 { valid_bytes } => {
                let byte = valid_bytes + 1;
                write!(f, "the record is not UTF-8 (byte {byte}); if the text is in another encoding, ")?;
                f.write_str("convert it with `iconv -f ENCODING -t UTF-8`")
            }
            Self::ColumnNotUtf8 { valid_bytes } => {
                let byte = valid_bytes + 1;
                write!(f, "the text is not UTF-8 (byte {byte}); write its column as STRING, in UTF-8")
            }
            Self::Encoding { label, misfits: Some(misfits) } => write!(
                f,
                "not judged: its bytes fit no encoding (in {label}, at least {misfits} do not); if you know it, \
                 convert it with `iconv -f ENCODING -t UTF-8`"
            ),
            Self::Encoding { label, misfits: None } => write!(
                f,
                "not judged: its encoding ({label}) is not read; convert it with `iconv -f {label} -t UTF-8`"
            ),
            Self::NotText { found } => write!(f, "is no text: it {found}"),
            Self::ManyDocuments { found } => f.write_str(found),
            Self::Json { problem, column: 0 } => write!(f, "not a JSON record: {problem}"),
            Self::Json { problem, column } => write!(f, "not a JSON record: {problem} (column {column})"),
            Self::Warc { problem } | Self::Input { problem } => f.write_str(problem),
            Self::NoKey => f.write_str(
                "the record has no key: field `key`, `id` or `url`, the one that was named, or `WARC-Target-URI` in a \
                 web archive, is wanted; `--key-by-place` names each record by its file and its number there",
            ),
            Self::NoContent { fields, .. } if fields.iter().any(|name| name == DUMP_HEADER) => f.write_str(
                "the first line of a dump, which is no document: `simdb load` builds a new database from a dump",
            ),
            Self::NoContent { named, fields } => {
                let wanted = match named.is_empty() {
                    true => "fingerprint`, `features`, `text` or `html".to_owned(),
                    false => named.join("` or `"),
                };
                write!(f, "the record has no content: field `{wanted}` is wanted")?;
                if fields.is_empty() {
                    return Ok(());
                }
                let fields: Vec<String> = fields.iter().map(|name| shortened(name)).collect();
                let fields = fields.join("`, `");
                write!(f, ", and it has `{fields}`; `--text-field` or `--html-field` names the one that holds the text")
            }
            Self::NoTab => f.write_str("the line has no tab between key and content"),
            Self::Field { name, expected } => {
                write!(f, "field `{name}`: {expected} is wanted")?;
                match CAN_BE_IGNORED.contains(&name.as_str()) {
                    true => write!(f, "; if it means something else, `--ignore-field {name}` passes over it"),
                    false => Ok(()),
                }
            }
            Self::NoSeconds { name, number } => {
                let (meaning, mut written) = other_meaning(*number).unwrap_or(("no time", String::new()));
                // Of a time of a record, the day alone is none.
                if !written.ends_with('Z') {
                    written += "T00:00:00Z";
                }
                write!(
                    f,
                    "field `{name}`: {number} could be {meaning}; write \"{written}\", or Unix seconds; if it means \
                     something else, `--ignore-field {name}` passes over it"
                )
            }
            Self::Features => f.write_str(
                "field `features`: an object of features with their weights, or a list of features, is wanted; if it \
                 means something else, with `--ignore-field features` `text` or `html` is used",
            ),
            Self::Document(error) => error.fmt(f),
            Self::NothingToCut { unit } => {
                write!(
                    f,
                    "the record brings no text, so it cannot be cut into {unit}s: `text` or `html` is wanted"
                )
            }
            Self::TooManyUnits { unit, max_units } => {
                write!(f, "the record has more than {}; cut it into several records", counted(max_units, &unit.to_string()))
            }
            Self::TextInExternal => Error::ExternalScheme.fmt(f),
            Self::FingerprintInScheme { scheme } => write!(
                f,
                "the record brings a fingerprint, but the database makes its own (scheme {scheme}); if the \
                 fingerprint was made by that scheme, say so with `--scheme {scheme}`; if it means something else, with \
                 `--ignore-field fingerprint` `text` or `html` is used"
            ),
        }
    }
}
