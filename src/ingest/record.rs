//! Raw records to records, and records to documents: the formats but JSON, and the rules of what is taken.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::json::parse_json;
use super::source::{InputFormat, Raw, RawContent, ReadOptions};
use crate::document::Document;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::text::{Fingerprinter, Scheme};

/// A document to be, as an input gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    path: Arc<Path>,
    line: Option<u64>,
    key: Option<Vec<u8>>,
    content: Content,
    parts: Parts,
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

impl Record {
    /// Reads a raw record.
    pub(super) fn parse(raw: Raw, options: &ReadOptions) -> Result<Self, Rejected> {
        let Raw { path, line, format, content } = raw;
        let parsed = match content {
            RawContent::TooLong(bytes) => Err(Reason::TooLong { bytes, max_bytes: options.max_record_bytes }),
            RawContent::Bytes(bytes) => match format {
                InputFormat::Jsonl => parse_json(&bytes, options),
                InputFormat::Tsv => parse_tsv(&bytes),
                InputFormat::Fingerprints => parse_fingerprint(&bytes),
                InputFormat::Text | InputFormat::Auto => parse_text(&path, bytes),
            },
        };
        match parsed {
            Ok((key, content, parts)) => Ok(Self { path, line, key, content, parts }),
            Err(reason) => Err(Rejected { source_name: path.display().to_string(), line, reason }),
        }
    }

    /// The key, if the record has one.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Whether the record brings its fingerprint ready made; `None` where that cannot be told from it, because it has no
    /// content or would be rejected anyhow.
    pub(super) fn brings_fingerprint(&self) -> Option<bool> {
        self.document_with(None).ok()?;
        match self.content {
            Content::Fingerprint(_) => Some(true),
            Content::Text(_) | Content::Html(_) => Some(false),
            Content::TooShort => None,
        }
    }

    /// The fingerprint of the record, made if need be; `None` where its text is too short to judge.
    ///
    /// # Errors
    ///
    /// [`Reason::TextInExternal`] and [`Reason::FingerprintInScheme`], as `rule` says.
    pub fn fingerprint(&self, rule: Fingerprinting) -> Result<Option<Fingerprint>, Rejected> {
        self.make_fingerprint(rule).map_err(|reason| self.rejected(reason))
    }

    /// The document of the record, its fingerprint made if need be.
    ///
    /// # Errors
    ///
    /// As for [`fingerprint`](Self::fingerprint); [`Reason::NoKey`]; [`Reason::Document`] where a part is out of
    /// its bounds.
    pub fn into_document(self, rule: Fingerprinting) -> Result<Document, Rejected> {
        self.make_document(rule).map_err(|reason| self.rejected(reason))
    }

    fn make_document(&self, rule: Fingerprinting) -> Result<Document, Reason> {
        self.document_with(self.make_fingerprint(rule)?)
    }

    fn document_with(&self, fingerprint: Option<Fingerprint>) -> Result<Document, Reason> {
        let key = self.key.as_deref().ok_or(Reason::NoKey)?;
        let Parts { seen, rank, scope, payload } = &self.parts;
        let mut document = Document::new(key, fingerprint)
            .with_rank(rank.as_slice())
            .with_scope(scope)
            .with_payload(payload.as_slice());
        if let Some(seen) = *seen {
            document = document.with_seen(seen);
        }
        document.validate().map_err(Reason::Document)?;
        Ok(document)
    }

    fn make_fingerprint(&self, rule: Fingerprinting) -> Result<Option<Fingerprint>, Reason> {
        match (&self.content, rule.fingerprinter) {
            (Content::TooShort, _) => Ok(None),
            (Content::Fingerprint(fingerprint), _) if rule.takes_ready => Ok(Some(*fingerprint)),
            (Content::Fingerprint(_), _) => Err(Reason::FingerprintInScheme { scheme: rule.scheme }),
            (_, None) => Err(Reason::TextInExternal),
            (Content::Text(text), Some(fingerprinter)) => Ok(fingerprinter.fingerprint(text)),
            (Content::Html(html), Some(fingerprinter)) => Ok(fingerprinter.fingerprint_html(html)),
        }
    }

    fn rejected(&self, reason: Reason) -> Rejected {
        Rejected { source_name: self.path.display().to_string(), line: self.line, reason }
    }
}

/// Which contents a database takes: texts if its scheme makes fingerprints, ready fingerprints if it does not or
/// if the caller vouches for them.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinting {
    scheme: Scheme,
    fingerprinter: Option<Fingerprinter>,
    takes_ready: bool,
}

impl Fingerprinting {
    /// The rule for a database of the scheme `stored`. If the caller has `named` that scheme, ready fingerprints
    /// are taken to be of it.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`] if another scheme was named.
    pub fn new(stored: Scheme, named: Option<Scheme>) -> Result<Self, Error> {
        if let Some(given) = named.filter(|&named| named != stored) {
            return Err(Error::SchemeMismatch { stored: stored.name(), given: given.name() });
        }
        let fingerprinter = Fingerprinter::new(stored).ok();
        Ok(Self { scheme: stored, fingerprinter, takes_ready: fingerprinter.is_none() || named.is_some() })
    }
}

/// Key, content and the rest.
pub(super) type Parsed = (Option<Vec<u8>>, Content, Parts);

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|error| Reason::NotUtf8 { valid_bytes: error.valid_up_to() })
}

fn parse_text(path: &Path, bytes: Vec<u8>) -> Result<Parsed, Reason> {
    let text = String::from_utf8(bytes)
        .map_err(|error| Reason::NotUtf8 { valid_bytes: error.utf8_error().valid_up_to() })?;
    let name = path.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let is_html = [".html", ".htm", ".xhtml"].iter().any(|ending| name.ends_with(ending));
    let content = if is_html { Content::Html(text) } else { Content::Text(text) };
    // The name as the system has it: on Unix it need not be UTF-8.
    Ok((Some(path.as_os_str().as_encoded_bytes().to_vec()), content, Parts::default()))
}

fn parse_tsv(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, text) = split_at_tab(line)?;
    let text = unescape(text);
    Ok((Some(unescape(key)), Content::Text(utf8(&text)?.to_owned()), Parts::default()))
}

fn parse_fingerprint(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, digits) = split_at_tab(line)?;
    let fingerprint = String::from_utf8_lossy(digits.trim_ascii()).parse().map_err(Reason::Document)?;
    Ok((Some(unescape(key)), Content::Fingerprint(fingerprint), Parts::default()))
}

fn split_at_tab(line: &[u8]) -> Result<(&[u8], &[u8]), Reason> {
    let tab = memchr::memchr(b'\t', line).ok_or(Reason::NoTab)?;
    Ok((&line[..tab], &line[tab + 1..]))
}

/// Resolves the four escapes; a backslash before anything else stands for itself.
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

    fn parse_as(format: InputFormat, line: &[u8], options: &ReadOptions) -> Result<Record, Rejected> {
        let content = RawContent::Bytes(line.to_vec());
        Record::parse(Raw { path: Path::new("in").into(), line: Some(7), format, content }, options)
    }

    fn json(line: &str) -> Result<Record, Rejected> {
        parse_as(InputFormat::Jsonl, line.as_bytes(), &ReadOptions::new())
    }

    #[test]
    fn the_first_field_that_is_not_empty_names_the_document() -> Result<(), Rejected> {
        assert_eq!(json(r#"{"url":"u","id":"i","key":"k","text":"t"}"#)?.key(), Some(&b"k"[..]));
        assert_eq!(json(r#"{"url":"u","id":17,"key":"","text":"t"}"#)?.key(), Some(&b"17"[..]));
        assert_eq!(json(r#"{"url":"u","id":null,"text":"t"}"#)?.key(), Some(&b"u"[..]));
        assert_eq!(json(r#"{"key_base64":"/w==","text":"t"}"#)?.key(), Some(&b"\xff"[..]));
        assert_eq!(json(r#"{"text":"t"}"#)?.key(), None);
        assert_eq!(
            json(r#"{"key_base64":"","id":18446744073709551615,"text":"t"}"#)?.key(),
            Some(&b"18446744073709551615"[..])
        );
        assert_eq!(json(r#"{"key":"k","id":{"oid":1},"url":[],"text":"t"}"#)?.key(), Some(&b"k"[..]));
        let options = ReadOptions::new().key_field("name");
        let named = parse_as(InputFormat::Jsonl, br#"{"name":"n","key":"k","text":"t"}"#, &options)?;
        assert_eq!(named.key(), Some(&b"n"[..]));
        Ok(())
    }

    #[test]
    fn a_fingerprint_comes_before_a_text_and_a_text_before_html() -> Result<(), Rejected> {
        let both = json(r#"{"id":1,"fingerprint":"00000000000000ff","text":"t"}"#)?;
        assert_eq!(both.content, Content::Fingerprint(Fingerprint::from_bits(255)));
        assert_eq!(json(r#"{"id":1,"text":"t","html":"h"}"#)?.content, Content::Text("t".into()));
        assert_eq!(json(r#"{"id":1,"text":"","html":"h"}"#)?.content, Content::Html("h".into()));
        assert_eq!(json(r#"{"id":1,"text":""}"#)?.content, Content::Text(String::new()));
        assert_eq!(json(r#"{"id":1,"fingerprint":null,"too_short":true}"#)?.content, Content::TooShort);
        assert!(
            json(r#"{"id":1,"fingerprint":"00000000000000ff","text":7}"#).is_ok(),
            "the text is not needed"
        );
        let options = ReadOptions::new().html_field("page");
        let page = parse_as(InputFormat::Jsonl, br#"{"id":1,"html":"<p>","page":null}"#, &options)?;
        assert_eq!(page.content, Content::Html("<p>".into()));
        let options = ReadOptions::new().html_field("text");
        let page = parse_as(InputFormat::Jsonl, br#"{"id":1,"text":"<p>"}"#, &options)?;
        assert_eq!(page.content, Content::Html("<p>".into()));
        Ok(())
    }

    #[test]
    fn times_ranks_and_payloads_are_read_in_every_form() -> Result<(), Rejected> {
        let parts =
            |fields: &str| json(&format!(r#"{{"id":1,"text":"t",{fields}}}"#)).map(|record| record.parts);
        assert_eq!(parts(r#""seen":-5"#)?.seen, Some(-5));
        assert_eq!(parts(r#""seen":1700000000.75"#)?.seen, Some(1_700_000_000));
        assert!(parts(r#""seen":1e300"#).is_err());
        assert_eq!(parts(r#""time":"1970-01-01T01:00:01+01:00""#)?.seen, Some(1));
        assert_eq!(parts(r#""seen":9,"time":"soon""#)?.seen, Some(9));
        assert_eq!(parts(r#""rank":5"#)?.rank, [5]);
        assert_eq!(parts(r#""rank":[5,-6]"#)?.rank, [5, -6]);
        assert_eq!(parts(r#""payload":"é""#)?.payload, "é".as_bytes());
        assert_eq!(parts(r#""payload_base64":"AAE=""#)?.payload, [0, 1]);
        assert_eq!(parts(r#""scope":"en""#)?.scope, "en");
        assert!(parts(r#""seen":"yesterday""#).is_err());
        assert!(parts(r#""rank":"high""#).is_err());
        assert!(parts(r#""payload_base64":"%""#).is_err());
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let message = |line: &[u8]| match parse_as(InputFormat::Jsonl, line, &ReadOptions::new()) {
            Ok(_) => "accepted".to_owned(),
            Err(rejected) => rejected.to_string(),
        };
        assert_eq!(message(b"{\"id\":1,\"text\":5}"), "in, line 7: field `text`: a text is wanted");
        assert_eq!(message(b"{\"id\":1,\"text\":\"\xff\"}"), "in, line 7: the record is not UTF-8 (byte 17)");
        assert!(message(b"[1]").contains("expected an object"), "{}", message(b"[1]"));
        assert!(message(b"{\"id\":[1],\"text\":\"t\"}").contains("field `id`: a text or a whole number"));
        assert!(
            message(b"{\"id\":123456789012345678901,\"text\":\"t\"}")
                .contains("field `id`: a text or a whole number")
        );
        assert!(
            message(b"{\"id\":1,\"text\":")
                .contains("not a JSON record: EOF while parsing a value (column 15)")
        );
        assert!(message(b"{\"id\":1}").contains("no content"));
        assert!(message(b"{\"id\":1,\"text\":\"t\"} x").contains("trailing characters"));
        assert!(message(b"{\"id\":1,\"fingerprint\":\"12\"}").contains("16 hexadecimal digits"));
    }

    #[test]
    fn tab_separated_lines_are_unescaped() -> Result<(), Rejected> {
        let read = |line: &[u8]| parse_as(InputFormat::Tsv, line, &ReadOptions::new());
        let record = read(b"a\\tb\tone\\ntwo\\\\three\\four\tfive")?;
        assert_eq!(record.key(), Some(&b"a\tb"[..]));
        assert_eq!(record.content, Content::Text("one\ntwo\\three\\four\tfive".into()));
        assert!(matches!(read(b"no tab"), Err(Rejected { reason: Reason::NoTab, .. })));
        Ok(())
    }

    #[test]
    fn ready_fingerprints_and_texts_go_only_where_they_belong() -> Result<(), Error> {
        let ready = json(r#"{"id":1,"fingerprint":"00000000000000ff"}"#)?;
        let text = json(r#"{"id":1,"text":"some text"}"#)?;
        let external = Fingerprinting::new(Scheme::External, None)?;
        let made_here = Fingerprinting::new(Scheme::Text1, None)?;
        let vouched_for = Fingerprinting::new(Scheme::Text1, Some(Scheme::Text1))?;
        assert!(ready.fingerprint(external).is_ok());
        assert!(ready.fingerprint(vouched_for).is_ok());
        assert!(text.fingerprint(made_here).is_ok());
        assert!(matches!(
            ready.fingerprint(made_here),
            Err(Rejected { reason: Reason::FingerprintInScheme { .. }, .. })
        ));
        assert!(matches!(text.fingerprint(external), Err(Rejected { reason: Reason::TextInExternal, .. })));
        assert!(Fingerprinting::new(Scheme::Text1, Some(Scheme::External)).is_err());
        Ok(())
    }
}
