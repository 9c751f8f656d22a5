//! Raw records to records, and records to documents: the formats but JSON, and the rules of what is taken.

use std::path::Path;
use std::sync::Arc;

use super::content::{Content, Parsed, Parts};
use super::fingerprinting::Fingerprinting;
use super::json::parse_json;
use super::options::{InputFormat, ReadOptions};
use super::raw::{Raw, RawContent};
use super::rejected::{Reason, Rejected};
use super::tsv::{parse_fingerprint, parse_tsv};
use crate::document::Document;
use crate::fingerprint::Fingerprint;

/// A document to be, as an input gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    path: Arc<Path>,
    line: Option<u64>,
    key: Option<Vec<u8>>,
    content: Content,
    parts: Parts,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::text::Scheme;

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
