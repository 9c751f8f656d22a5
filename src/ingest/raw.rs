//! A record as it was read, not yet parsed, and where it is.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use super::format::InputFormat;
use super::rejected::Offset;
use crate::source::{Place, Sample};

/// A record as it was read, and where it is in its input.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) input: Arc<Origin>,
    /// From 1; `None` where the whole input is the record.
    pub(super) line: Option<u64>,
    /// Where it begins, if it is not a line.
    pub(super) offset: Option<Offset>,
    /// Never [`InputFormat::Auto`].
    pub(super) format: InputFormat,
    pub(super) content: RawContent,
    /// Where the input goes on behind it.
    pub(super) mark: Mark,
}

#[derive(Clone, Debug)]
pub(super) enum RawContent {
    Bytes(Vec<u8>),
    /// The record is longer than the longest allowed. This is its length in bytes, with its line end or
    /// without it.
    TooLong(u64),
    /// No document, such as the request in a web archive.
    PassedOver,
    /// Something that cannot be read as a record, and why.
    Broken(Cow<'static, str>),
    /// No record, but the end of the input.
    End,
}

/// The input that a record comes from.
#[derive(Debug)]
pub(super) struct Origin {
    /// Its index among the inputs.
    pub(super) index: usize,
    pub(super) path: Arc<Path>,
    /// The length of the input as it is stored. `None` if it is not known.
    pub(super) length: Option<u64>,
    /// Its first bytes.
    pub(super) first: Sample,
}

/// A place behind a record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) place: Place,
    /// The last bytes of the record before it.
    pub(super) last: Sample,
}

impl Raw {
    /// A record of line 7 of an input called `in`.
    #[cfg(test)]
    pub(super) fn of_line_7(format: InputFormat, content: RawContent) -> Self {
        let input = Origin { index: 0, path: Path::new("in").into(), length: None, first: Sample::default() };
        Self { input: Arc::new(input), line: Some(7), offset: None, format, content, mark: Mark::default() }
    }

    /// The memory that the content takes (bytes).
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            RawContent::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    pub(super) fn is_end(&self) -> bool {
        matches!(self.content, RawContent::End)
    }
}
