//! The content of a record, the same for all formats.

use super::rejected::Reason;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;

/// A record as a parser returns it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) key: Option<Vec<u8>>,
    pub(super) content: Content,
    pub(super) parts: Parts,
}

/// What a fingerprint is made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Fingerprint(Fingerprint, Option<Sketch>),
    /// Features that the caller has found, with their weights.
    Features(Vec<(String, f64)>),
    Text(String),
    Html(String),
    /// HTML in the syntax of XML.
    Xhtml(String),
    /// Too short to judge; the text itself is not known. Dumps of databases contain such records.
    TooShort,
}

/// The other fields of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) seen: Option<i64>,
    pub(super) rank: Vec<i64>,
    pub(super) scope: String,
    pub(super) payload: Vec<u8>,
    /// Documents that are known to belong together. Only an evaluation reads it.
    pub(super) group: Option<String>,
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|error| Reason::NotUtf8 {
        valid_bytes: error.valid_up_to(),
    })
}
