//! A record as it was read, not yet parsed.

use std::path::Path;
use std::sync::Arc;

use super::format::InputFormat;

/// A record as it was read, and where it is in its input.
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
    /// The record is longer than the longest allowed. This is its length in bytes, with its line end or
    /// without it.
    TooLong(u64),
}

impl Raw {
    /// The memory that the content takes (bytes).
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            RawContent::Bytes(bytes) => bytes.len(),
            RawContent::TooLong(_) => 0,
        }
    }
}
