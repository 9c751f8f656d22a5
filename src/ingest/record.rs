//! From raw records to records, and from records to documents. Documents may be named by the places of their
//! records, so that records of one key stay apart.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::fingerprinting::{Fingerprinting, Judged};
use super::format::InputFormat;
use super::input::{Raw, RawContent};
use super::json::parse_json;
use super::options::ReadOptions;
use super::parsed::{Content, Parsed, Parts, parse_fingerprint, parse_line, parse_text, parse_tsv};
use super::rejected::{Offset, Reason, Rejected};
use super::unreadable::lines_of_list;
use super::warc_page::parse_warc;
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::text::Unit;

/// One record of an input, from which a document is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    path: Arc<Path>,
    line: Option<u64>,
    offset: Option<Offset>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) content: Content,
    pub(super) parts: Parts,
    /// What of it gets a fingerprint of its own.
    pub(super) unit: Unit,
    /// Its place, if its document is named by that.
    id: Option<RecordId>,
    /// Whether nobody has said that the whole file is one document, and its name and its beginning do not say
    /// otherwise.
    is_taken_whole: bool,
}

/// What a record brings to read, as it came.
#[cfg(feature = "eval")]
#[derive(Debug)]
pub(crate) enum Page {
    Text(String),
    Html(String),
    /// XHTML by its type.
    Xhtml(String),
}

impl Record {
    /// Parses a raw record. `None` if it is no document, such as the request in a web archive.
    pub(super) fn parse(raw: Raw, options: &ReadOptions) -> Result<Option<Self>, Rejected> {
        let Raw {
            input,
            line,
            offset,
            format,
            content,
            mark,
            ..
        } = raw;
        let path = input.path.clone();
        let number = line.unwrap_or(mark.place.records);
        let id = options.numbered.then_some(RecordId {
            input: input.index as u32,
            number,
        });
        let parsed = match content {
            RawContent::TooLong(bytes) => Err(Reason::TooLong {
                bytes,
                max_bytes: options.max_record_bytes,
            }),
            RawContent::Broken(problem) => Err(Reason::Warc {
                problem: problem.into_owned(),
            }),
            RawContent::Failed(failed) => Err(Reason::Input {
                problem: failed.reason,
            }),
            RawContent::PassedOver => return Ok(None),
            RawContent::End => unreachable!("the end of an input is no record"),
            RawContent::Bytes(bytes) if line.is_some() => match without_marks(&bytes) {
                [] => return Ok(None),
                line => match format {
                    InputFormat::Jsonl => parse_json(line, options),
                    InputFormat::Tsv => parse_tsv(line),
                    InputFormat::Fingerprints => parse_fingerprint(line),
                    InputFormat::Lines => parse_line(&path, number, line),
                    InputFormat::Warc | InputFormat::Text | InputFormat::Auto => {
                        unreachable!("it is not cut into lines")
                    }
                },
            },
            RawContent::Bytes(bytes) => match format {
                InputFormat::Warc => {
                    match parse_warc(&bytes, options.max_record_bytes, !options.ignores("seen")) {
                        Ok(Some(parsed)) => Ok(parsed),
                        Ok(None) => return Ok(None),
                        Err(reason) => Err(reason),
                    }
                }
                _ => parse_text(&path, &bytes, options),
            },
        };
        match parsed {
            Ok(Parsed {
                key,
                content,
                parts,
            }) => {
                let is_taken_whole =
                    format == InputFormat::Text && options.format == InputFormat::Auto;
                let unit = options.unit;
                Ok(Some(Self {
                    path,
                    line,
                    offset,
                    key,
                    content,
                    parts,
                    unit,
                    id,
                    is_taken_whole,
                }))
            }
            Err(reason) => Err(Rejected {
                path,
                line,
                offset,
                reason,
                id: id.map(Box::new),
            }),
        }
    }

    /// The key, if the record has one.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// The number of its lines, if each of them may be a document. Nobody has said that the file is one.
    pub(super) fn lines_of_list(&self) -> Option<u64> {
        match &self.content {
            Content::Text(text) if self.is_taken_whole => lines_of_list(text),
            _ => None,
        }
    }

    /// Its place, if the inputs are read with numbers.
    pub(crate) fn id(&self) -> Option<RecordId> {
        self.id
    }

    /// Whether the record brings a ready fingerprint. `None` if that cannot be told: the record is
    /// marked as too short, or it would be rejected.
    pub(super) fn brings_fingerprint(&self) -> Option<bool> {
        self.document_with(None).ok()?;
        match self.content {
            Content::Fingerprint(..) => Some(true),
            Content::Features(_) | Content::Text(_) | Content::Html(_) | Content::Xhtml(_) => {
                Some(false)
            }
            Content::TooShort => None,
        }
    }

    /// The fingerprint and the sketch of the record, ready or made from its text. `None` if the text is too
    /// short to judge. A ready fingerprint may come without a sketch.
    ///
    /// # Errors
    ///
    /// [`Reason::TextInExternal`] or [`Reason::FingerprintInScheme`] if `rule` does not take the content,
    /// [`Reason::Document`] if it does not take the sketch.
    pub fn fingerprint_and_sketch(
        &self,
        rule: Fingerprinting,
    ) -> Result<Option<(Fingerprint, Option<Sketch>)>, Rejected> {
        rule.judge(&self.content)
            .map_err(|reason| self.rejected(reason))
    }

    /// The text of the record, from which `rule` makes its fingerprint: of HTML, what the scheme reads. `None` if the
    /// record brings a fingerprint or features in place of a text.
    pub fn text(&self, rule: Fingerprinting) -> Option<Cow<'_, str>> {
        match &self.content {
            Content::Text(text) => Some(Cow::Borrowed(text)),
            Content::Html(html) => Some(Cow::Owned(rule.text_of_html(html))),
            Content::Xhtml(page) => Some(Cow::Owned(rule.text_of_xhtml(page))),
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => None,
        }
    }

    /// The same record, with its text in place of HTML.
    pub(super) fn into_plain(mut self, rule: Fingerprinting) -> Self {
        match &self.content {
            Content::Html(html) => self.content = Content::Text(rule.text_of_html(html)),
            Content::Xhtml(page) => self.content = Content::Text(rule.text_of_xhtml(page)),
            _ => {}
        }
        self
    }

    /// The document of the record. Its fingerprint is ready or made from its text.
    ///
    /// # Errors
    ///
    /// Those of [`fingerprint_and_sketch`](Self::fingerprint_and_sketch); [`Reason::NoKey`];
    /// [`Reason::Document`] if a part of the document exceeds its limit.
    pub fn into_document(self, rule: Fingerprinting) -> Result<Document, Rejected> {
        self.document(rule)
    }

    pub(super) fn document(&self, rule: Fingerprinting) -> Result<Document, Rejected> {
        let made = rule
            .judge(&self.content)
            .and_then(|judged| self.document_with(judged));
        made.map_err(|reason| self.rejected(reason))
    }

    /// The key, the group and the page of the record.
    ///
    /// # Errors
    ///
    /// [`Reason::NoKey`]; [`Reason::NoContent`] if the record has a fingerprint in place of a text.
    #[cfg(feature = "eval")]
    pub(crate) fn into_page(self) -> Result<(Vec<u8>, Option<String>, Page), Rejected> {
        let Some(key) = self.key.clone() else {
            return Err(self.rejected(Reason::NoKey));
        };
        match self.content {
            Content::Text(text) => Ok((key, self.parts.group, Page::Text(text))),
            Content::Html(html) => Ok((key, self.parts.group, Page::Html(html))),
            Content::Xhtml(page) => Ok((key, self.parts.group, Page::Xhtml(page))),
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => {
                Err(self.rejected(Reason::NoContent { fields: Vec::new() }))
            }
        }
    }

    pub(super) fn document_with(&self, judged: Option<Judged>) -> Result<Document, Reason> {
        let key = match self.id {
            None => Cow::Borrowed(self.key.as_deref().ok_or(Reason::NoKey)?),
            Some(id) => {
                let mut numbered = NumberedKey {
                    id,
                    text: None,
                    key: self.key.as_deref(),
                };
                if judged.is_none() {
                    numbered.text = self.hash_of_text();
                }
                if numbered
                    .key
                    .is_some_and(|key| key.len() > NumberedKey::MAX_KEY_BYTES)
                {
                    numbered.key = None;
                }
                Cow::Owned(numbered.to_bytes())
            }
        };
        let Parts {
            seen,
            rank,
            scope,
            payload,
            group: _,
        } = &self.parts;
        let mut document = Document::new(key, judged.map(|(fingerprint, _)| fingerprint))
            .with_sketch(judged.and_then(|(_, sketch)| sketch))
            .with_rank(rank.as_slice())
            .with_scope(scope)
            .with_payload(payload.as_slice());
        if let Some(seen) = *seen {
            document = document.with_seen(seen);
        }
        document.validate().map_err(Reason::Document)?;
        Ok(document)
    }

    /// The hash of a text as it came.
    fn hash_of_text(&self) -> Option<u128> {
        match &self.content {
            Content::Text(text) => Some(xxh3_128_with_seed(text.as_bytes(), 0)),
            Content::Html(html) => Some(xxh3_128_with_seed(html.as_bytes(), 1)),
            Content::Xhtml(page) => Some(xxh3_128_with_seed(page.as_bytes(), 2)),
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => None,
        }
    }

    pub(super) fn rejected(&self, reason: Reason) -> Rejected {
        Rejected {
            path: self.path.clone(),
            line: self.line,
            offset: self.offset,
            reason,
            id: self.id.map(Box::new),
        }
    }
}

/// A line without the byte order marks before it. Where files were put together that begin with one, each leaves its
/// own before a line.
fn without_marks(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf") {
        line = rest;
    }
    line
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId {
    /// The index of its input.
    pub(crate) input: u32,
    /// Its line, from 1. Of an input that is not cut into lines, its number among the records.
    pub(crate) number: u64,
}

/// What the key of a numbered document says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberedKey<'k> {
    pub(crate) id: RecordId,
    /// The hash of a text that is too short to judge. By it, texts that are the same are found.
    pub(crate) text: Option<u128>,
    /// The key that the record itself has, unless it has more than [`MAX_KEY_BYTES`](Self::MAX_KEY_BYTES).
    pub(crate) key: Option<&'k [u8]>,
}

const HAS_KEY: u8 = 1;
const HAS_TEXT: u8 = 2;

impl RecordId {
    /// The size of the bytes of a place.
    pub(crate) const BYTES: usize = 12;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.input.to_le_bytes());
        bytes[4..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (input, number) = bytes.split_at(4);
        let (Ok(input), Ok(number)) = (input.try_into(), number.try_into()) else {
            unreachable!("they have four and eight bytes")
        };
        Self {
            input: u32::from_le_bytes(input),
            number: u64::from_le_bytes(number),
        }
    }
}

impl<'k> NumberedKey<'k> {
    /// The longest key for which there is room behind the rest.
    const MAX_KEY_BYTES: usize = Document::MAX_KEY_BYTES - RecordId::BYTES - 1 - size_of::<u128>();

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut flags = 0;
        if self.key.is_some() {
            flags |= HAS_KEY;
        }
        if self.text.is_some() {
            flags |= HAS_TEXT;
        }
        let mut bytes = self.id.to_bytes().to_vec();
        bytes.push(flags);
        if let Some(text) = self.text {
            bytes.extend(text.to_le_bytes());
        }
        bytes.extend(self.key.unwrap_or_default());
        bytes
    }

    /// What the bytes say. `None` if they are not those of such a key.
    pub(crate) fn of_bytes(bytes: &'k [u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (&flags, mut rest) = rest.split_first()?;
        let mut text = None;
        if flags & HAS_TEXT != 0 {
            let (hash, key) = rest.split_first_chunk()?;
            text = Some(u128::from_le_bytes(*hash));
            rest = key;
        }
        Some(Self {
            id: RecordId::of_bytes(id),
            text,
            key: (flags & HAS_KEY != 0).then_some(rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_record_is_named_by_its_input_and_line() {
        let content = RawContent::Bytes(b"{\"id\":1}".to_vec());
        let raw = Raw::of_line_7(InputFormat::Jsonl, content);
        let rejected = Record::parse(raw, &ReadOptions::new())
            .err()
            .map(|rejected| rejected.to_string());
        assert!(rejected.is_some_and(|message| message.starts_with("in, line 7: the record has no content")));
    }

    #[test]
    fn keys_are_read_as_they_were_made() {
        for (input, number) in [
            (0, 1),
            (0, 255),
            (0, 256),
            (1, 1),
            (256, 0),
            (u32::MAX, u64::MAX),
        ] {
            let id = RecordId { input, number };
            for (text, key) in [
                (None, None),
                (None, Some(&b""[..])),
                (Some(7), None),
                (Some(u128::MAX), Some(b"k")),
            ] {
                let numbered = NumberedKey { id, text, key };
                let bytes = numbered.to_bytes();
                assert_eq!(NumberedKey::of_bytes(&bytes), Some(numbered));
            }
        }
        assert_eq!(NumberedKey::of_bytes(b"short"), None);
    }
}
