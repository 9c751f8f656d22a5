//! Records: parsed from raw ones, and made into documents. Parses whole files of text or HTML, lines of text, and lines
//! of which a tab parts the key from the text or the fingerprint.

use std::borrow::Cow;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::fingerprinting::{Fingerprinting, Judged};
use super::format::InputFormat;
use super::input::{Position, Raw, RawContent};
use super::json::parse_json;
use super::numbered_key::{NumberedKey, RecordId};
use super::options::ReadOptions;
use super::page::{Said, content};
use super::rejected::{Reason, Rejected};
use super::unreadable::{kind_of_many, lines_of_list};
use super::warc_page::parse_warc;
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::text::Unit;

/// One record of an input, from which a document is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    position: Position,
    pub(super) parsed: Parsed,
    /// What of it gets a fingerprint of its own.
    pub(super) unit: Unit,
    /// Its place, if its document is named by that.
    id: Option<RecordId>,
    /// Whether nobody has said that the whole file is one document, and its name and its beginning do not say
    /// otherwise.
    is_taken_whole: bool,
}

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
            position,
            format,
            content,
        } = raw;
        let place = position.id();
        let id = options.numbered.then_some(place);
        let parsed = match content {
            RawContent::TooLong(bytes) => Err(Reason::TooLong {
                bytes,
                max_bytes: options.max_record_bytes,
            }),
            RawContent::Broken(problem) => Err(Reason::Warc {
                problem: problem.into_owned(),
            }),
            RawContent::Failed { reason, .. } => Err(Reason::Input { problem: reason }),
            RawContent::PassedOver => Ok(None),
            RawContent::End => unreachable!("the end of an input is no record"),
            RawContent::Bytes(bytes) => match format {
                InputFormat::Warc => {
                    parse_warc(&bytes, options.max_record_bytes, !options.ignores("seen"))
                }
                InputFormat::Text | InputFormat::Auto => {
                    parse_text(position.path(), &bytes, options).map(Some)
                }
                _ => match (without_marks(&bytes), format) {
                    ([], _) => Ok(None),
                    (line, InputFormat::Jsonl) => parse_json(line, options).map(Some),
                    (line, InputFormat::Tsv) => parse_tsv(line).map(Some),
                    (line, InputFormat::Fingerprints) => parse_fingerprint(line).map(Some),
                    (line, _) => parse_line(position.path(), place.number, line).map(Some),
                },
            },
        };
        match parsed {
            Ok(None) => Ok(None),
            Ok(Some(parsed)) => Ok(Some(Self {
                position,
                parsed,
                unit: options.unit,
                id,
                is_taken_whole: format == InputFormat::Text && options.format == InputFormat::Auto,
            })),
            Err(reason) => Err(position.rejected(reason, id)),
        }
    }

    /// The key, if the record has one.
    pub fn key(&self) -> Option<&[u8]> {
        self.parsed.key.as_deref()
    }

    /// The number of its lines, if each of them may be a document. Nobody has said that the file is one.
    pub(super) fn lines_of_list(&self) -> Option<u64> {
        match &self.parsed.content {
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
        match self.parsed.content {
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
        rule.judge(&self.parsed.content)
            .map_err(|reason| self.rejected(reason))
    }

    /// The text of the record, from which `rule` makes its fingerprint: of HTML, what the scheme reads. `None` if the
    /// record brings a fingerprint or features in place of a text.
    pub fn text(&self, rule: Fingerprinting) -> Option<Cow<'_, str>> {
        rule.text_of(&self.parsed.content)
    }

    /// The same record, with its text in place of HTML.
    pub(super) fn into_plain(mut self, rule: Fingerprinting) -> Self {
        if let Some(Cow::Owned(text)) = rule.text_of(&self.parsed.content) {
            self.parsed.content = Content::Text(text);
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
            .judge(&self.parsed.content)
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
        let Some(key) = self.parsed.key.clone() else {
            return Err(self.rejected(Reason::NoKey));
        };
        match self.parsed.content {
            Content::Text(text) => Ok((key, self.parsed.parts.group, Page::Text(text))),
            Content::Html(html) => Ok((key, self.parsed.parts.group, Page::Html(html))),
            Content::Xhtml(page) => Ok((key, self.parsed.parts.group, Page::Xhtml(page))),
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => {
                Err(self.rejected(Reason::NoContent { fields: Vec::new() }))
            }
        }
    }

    pub(super) fn document_with(&self, judged: Option<Judged>) -> Result<Document, Reason> {
        let key = match self.id {
            None => Cow::Borrowed(self.parsed.key.as_deref().ok_or(Reason::NoKey)?),
            Some(id) => {
                let text = match judged {
                    Some(_) => None,
                    None => self.hash_of_text(),
                };
                let key = self.parsed.key.as_deref();
                let numbered = NumberedKey { id, text, key };
                Cow::Owned(numbered.to_bytes())
            }
        };
        let Parts {
            seen,
            rank,
            scope,
            payload,
            group: _,
        } = &self.parsed.parts;
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
        match &self.parsed.content {
            Content::Text(text) => Some(xxh3_128_with_seed(text.as_bytes(), 0)),
            Content::Html(html) => Some(xxh3_128_with_seed(html.as_bytes(), 1)),
            Content::Xhtml(page) => Some(xxh3_128_with_seed(page.as_bytes(), 2)),
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => None,
        }
    }

    pub(super) fn rejected(&self, reason: Reason) -> Rejected {
        self.position.rejected(reason, self.id)
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

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|error| Reason::NotUtf8 {
        valid_bytes: error.valid_up_to(),
    })
}

/// The record of a whole file.
fn parse_text(path: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Parsed, Reason> {
    // The beginning of the file has not shown all of it.
    if let (InputFormat::Auto, Some(found)) = (options.format, kind_of_many(bytes)) {
        return Err(Reason::ManyDocuments { found });
    }
    let content =
        content(bytes, &Said::from_name(path))?.ok_or(Reason::NoContent { fields: Vec::new() })?;
    Ok(Parsed {
        key: Some(key_of(path)),
        content,
        parts: Parts::default(),
    })
}

/// The record of a line. Its key is that of the file with a colon and the number of the line.
fn parse_line(path: &Path, number: u64, line: &[u8]) -> Result<Parsed, Reason> {
    let content = Content::Text(utf8(line)?.to_owned());
    let key = [&*key_of(path), b":", number.to_string().as_bytes()].concat();
    Ok(Parsed {
        key: Some(key),
        content,
        parts: Parts::default(),
    })
}

/// The path as the system has it. On Unix it need not be UTF-8.
fn key_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

fn parse_tsv(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, text) = split_at_tab(line)?;
    let text = unescape(text);
    let content = Content::Text(utf8(&text)?.to_owned());
    Ok(Parsed {
        key: Some(unescape(key)),
        content,
        parts: Parts::default(),
    })
}

fn parse_fingerprint(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, digits) = split_at_tab(line)?;
    let fingerprint = String::from_utf8_lossy(digits.trim_ascii())
        .parse()
        .map_err(Reason::Document)?;
    let content = Content::Fingerprint(fingerprint, None);
    Ok(Parsed {
        key: Some(unescape(key)),
        content,
        parts: Parts::default(),
    })
}

fn split_at_tab(line: &[u8]) -> Result<(&[u8], &[u8]), Reason> {
    let tab = memchr::memchr(b'\t', line).ok_or(Reason::NoTab)?;
    Ok((&line[..tab], &line[tab + 1..]))
}

/// Resolves the escapes `\t`, `\n`, `\r` and `\\`. A backslash before any other byte stands for itself.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        plain.extend_from_slice(&rest[..at]);
        let (byte, used) = match rest.get(at + 1) {
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'\\') => (b'\\', 2),
            _ => (b'\\', 1),
        };
        plain.push(byte);
        rest = &rest[at + used..];
    }
    plain.extend_from_slice(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_record_is_named_by_its_input_and_line() {
        let content = RawContent::Bytes(b"{\"id\":1}".to_vec());
        let raw = Raw::new(0, Path::new("in"), Some(7), InputFormat::Jsonl, content);
        let rejected = Record::parse(raw, &ReadOptions::new())
            .err()
            .map(|rejected| rejected.to_string());
        assert!(rejected.is_some_and(|message| message.starts_with("in, line 7: the record has no content")));
    }

    #[test]
    fn tab_separated_lines_are_unescaped() -> Result<(), Reason> {
        let parsed = parse_tsv(b"a\\tb\tone\\ntwo\\\\three\\four\tfive")?;
        assert_eq!(parsed.key.as_deref(), Some(&b"a\tb"[..]));
        assert_eq!(
            parsed.content,
            Content::Text("one\ntwo\\three\\four\tfive".into())
        );
        assert!(matches!(parse_tsv(b"no tab"), Err(Reason::NoTab)));
        Ok(())
    }
}
