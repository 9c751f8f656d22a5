//! A record as it was read, not yet parsed, and where it is.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use super::format::InputFormat;
use super::rejected::Offset;
use crate::source::{Identity, Place, Sample, Stamp};

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
    /// Where the input goes on behind it. Of a last line without a line end, the place before it.
    pub(super) mark: Mark,
    /// Whether it is the last line of a file, and has no line end. Perhaps it is not written to its end yet.
    pub(super) is_last_line: bool,
    /// Whether it was read before, when it was such a line.
    pub(super) is_again: bool,
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
    /// No record, but the input cannot be read, or not further. The input has ended.
    Failed(Failed),
    /// No record, but the end of the input.
    End,
}

/// Why an input cannot be read, or not further.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) reason: String,
    /// Whether the reason is in the content, so that reading the same content again would fail again.
    pub(super) is_lasting: bool,
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
    /// By what it is known again as it is stored. `None` if it is no file.
    pub(super) stamp: Option<Stamp>,
}

impl Origin {
    /// By what it is known again, once it was read up to a mark.
    pub(super) fn identity_at(&self, mark: Mark) -> Identity {
        Identity {
            length: self.length,
            first: self.first,
            last: mark.last,
            stamp: self.stamp,
        }
    }
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
        let input = Origin {
            index: 0,
            path: Path::new("in").into(),
            length: None,
            first: Sample::default(),
            stamp: None,
        };
        let (line, mark) = (Some(7), Mark::default());
        Self {
            line,
            ..Self::new(Arc::new(input), format, content, mark)
        }
    }

    /// The memory that the content takes (bytes).
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            RawContent::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// What stands for an input that cannot be opened.
    pub(super) fn of_failed(index: usize, path: &Path, failed: Failed) -> Self {
        let input = Origin {
            index,
            path: path.into(),
            length: None,
            first: Sample::default(),
            stamp: None,
        };
        let content = RawContent::Failed(failed);
        let (format, mark) = (InputFormat::Text, Mark::default());
        Self::new(Arc::new(input), format, content, mark)
    }

    pub(super) fn new(
        input: Arc<Origin>,
        format: InputFormat,
        content: RawContent,
        mark: Mark,
    ) -> Self {
        let (line, offset) = (None, None);
        Self {
            input,
            line,
            offset,
            format,
            content,
            mark,
            is_last_line: false,
            is_again: false,
        }
    }

    /// Whether the content ends within a character of UTF-8.
    pub(super) fn ends_in_character(&self) -> bool {
        let RawContent::Bytes(bytes) = &self.content else {
            return false;
        };
        std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.content, RawContent::Failed(_))
    }

    pub(super) fn is_end(&self) -> bool {
        matches!(self.content, RawContent::End)
    }
}
