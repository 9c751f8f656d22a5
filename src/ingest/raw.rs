//! A record as it is read, not yet understood.

use std::path::Path;
use std::sync::Arc;

use super::options::InputFormat;

/// A record as it stands in its input.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) path: Arc<Path>,
    /// From 1; `None` where the whole input is the record.
    pub(super) line: Option<u64>,
    /// Never [`InputFormat::Auto`].
    pub(super) format: InputFormat,
    pub(super) content: RawContent,
}

#[derive(Clone, Debug)]
pub(super) enum RawContent {
    Bytes(Vec<u8>),
    /// More than the longest record; so many bytes, or at least that many.
    TooLong(u64),
}

impl Raw {
    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            RawContent::Bytes(bytes) => bytes.len(),
            RawContent::TooLong(_) => 0,
        }
    }
}
