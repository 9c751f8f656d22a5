//! What a record says of its document, whatever format it is in.

use super::rejected::Reason;
use crate::fingerprint::Fingerprint;

/// What a record holds: the result of every parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) key: Option<Vec<u8>>,
    pub(super) content: Content,
    pub(super) parts: Parts,
}

/// What a fingerprint is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Fingerprint(Fingerprint),
    Text(String),
    Html(String),
    /// Known to be too short to judge, as another database has it.
    TooShort,
}

/// What a record says of its document beside key and content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) seen: Option<i64>,
    pub(super) rank: Vec<i64>,
    pub(super) scope: String,
    pub(super) payload: Vec<u8>,
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|error| Reason::NotUtf8 { valid_bytes: error.valid_up_to() })
}
