//! What a record gives to a database: a document, or the documents of its paragraphs or sentences. The key of each of
//! these tells its place.

use std::fmt;
use std::iter::Enumerate;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use serde_json::{Value, json};

use super::fingerprinting::Fingerprinting;
use super::record::{Content, Record};
use super::rejected::{Reason, Rejected};
use crate::document::Document;
use crate::text::{Syntax, Unit, visible_paragraphs};

/// The units of a record, in order: records of one paragraph or one sentence, or the whole record. The key of a
/// paragraph or a sentence is that of the record, `#`, and its number, from 1.
pub struct Units(State);

enum State {
    Whole(Option<Box<Record>>),
    Cut {
        /// The record without its text.
        record: Box<Record>,
        text: String,
        ranges: Enumerate<IntoIter<Range<usize>>>,
    },
}

/// The most paragraphs or sentences of a record. It bounds the memory that a hostile record takes.
const MOST_UNITS: usize = 1 << 20;

impl Record {
    /// Cuts the record into the units that [`ReadOptions::unit`](super::ReadOptions::unit) names.
    ///
    /// # Errors
    ///
    /// For paragraphs and sentences: [`Reason::NothingToCut`] if the record brings no text, and
    /// [`Reason::TooManyUnits`] if it has more than 1,048,576 units.
    pub fn into_units(mut self) -> Result<Units, Rejected> {
        let unit = self.unit;
        if unit == Unit::Document {
            return Ok(Units(State::Whole(Some(Box::new(self)))));
        }
        // The text is not copied for each unit.
        let text = match std::mem::replace(&mut self.parsed.content, Content::TooShort) {
            Content::Text(text) => text,
            Content::Html(html) => visible_paragraphs(&html, Syntax::from_beginning(&html)),
            Content::Xhtml(html) => visible_paragraphs(&html, Syntax::Xhtml),
            _ => return Err(self.rejected(Reason::NothingToCut { unit })),
        };
        let ranges = unit.ranges(&text, MOST_UNITS + 1);
        if ranges.len() > MOST_UNITS {
            return Err(self.rejected(Reason::TooManyUnits {
                unit,
                max_units: MOST_UNITS,
            }));
        }
        Ok(Units(State::Cut {
            record: Box::new(self),
            text,
            ranges: ranges.into_iter().enumerate(),
        }))
    }
}

impl Iterator for Units {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        match &mut self.0 {
            State::Whole(record) => record.take().map(|record| *record),
            State::Cut {
                record,
                text,
                ranges,
            } => {
                let (index, range) = ranges.next()?;
                let key = unit_key(record.key().unwrap_or_default(), index + 1);
                let mut unit = (**record).clone();
                unit.parsed.key = Some(key);
                unit.parsed.content = Content::Text(text[range].to_owned());
                Some(unit)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            State::Whole(record) => record.iter().size_hint(),
            State::Cut { ranges, .. } => ranges.size_hint(),
        }
    }
}

impl ExactSizeIterator for Units {}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Units")
            .field("left", &self.len())
            .finish_non_exhaustive()
    }
}

/// The key of the unit with this number of the document with this key.
fn unit_key(key: &[u8], number: usize) -> Vec<u8> {
    [key, b"#", number.to_string().as_bytes()].concat()
}

/// A record that was cut into units.
pub(super) struct CutDocument {
    /// The document of number 0. It has no fingerprint, and tells the number of units. Without it, nobody could
    /// find the old units of a document that comes again with fewer, because units that are too short, or
    /// were skipped, leave gaps in the numbers.
    pub(super) head: Document,
    /// The number of units.
    pub(super) count: usize,
    /// The units that are not too short to judge, without payload.
    pub(super) judged: Vec<Document>,
    /// The payload of each unit. It is here once, because it can be large.
    pub(super) payload: Vec<u8>,
}

/// Sees each document with its text, on any thread.
#[derive(Clone)]
pub(super) struct OnText(Arc<SeeText>);

type SeeText = dyn Fn(&Document, &str) + Send + Sync;

impl OnText {
    pub(super) fn new(function: impl Fn(&Document, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }
}

impl fmt::Debug for OnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnText(..)")
    }
}

/// The document of a record, or of a unit of one. `on_text` sees it with its text.
pub(super) fn document_of(
    record: Record,
    rule: Fingerprinting,
    on_text: Option<&OnText>,
) -> Result<Document, Rejected> {
    let Some(on_text) = on_text else {
        return record.into_document(rule);
    };
    // A page is read once, for its fingerprint and its text.
    let record = record.into_plain(rule);
    let document = record.document(rule)?;
    if let Some(text) = record.text(rule) {
        (on_text.0)(&document, &text);
    }
    Ok(document)
}

impl CutDocument {
    /// Cuts a record. `on_text` sees each unit with its text.
    pub(super) fn new(
        mut record: Record,
        rule: Fingerprinting,
        on_text: Option<&OnText>,
    ) -> Result<Self, Rejected> {
        // Checks the payload too, and finds the time that all units have.
        let whole = record
            .document_with(None)
            .map_err(|reason| record.rejected(reason))?;
        record.parsed.parts.seen = Some(whole.seen());
        record.parsed.parts.payload.clear();
        let units = record.into_units()?;
        let count = units.len();
        let mut judged = Vec::new();
        for unit in units {
            let document = document_of(unit, rule, on_text)?;
            if document.fingerprint().is_some() {
                judged.push(document);
            }
        }
        let head = Document::new(unit_key(whole.key(), 0), None)
            .with_seen(whole.seen())
            .with_scope(whole.scope())
            .with_payload(json!({ "units": count }).to_string());
        Ok(Self {
            head,
            count,
            judged,
            payload: whole.payload().to_vec(),
        })
    }
}

/// The keys of the units that the document of this head can have, apart from the head.
pub(super) fn keys_of(head: &Document) -> impl Iterator<Item = Vec<u8>> {
    let payload: Value = serde_json::from_slice(head.payload()).unwrap_or_default();
    let count = payload["units"].as_u64().unwrap_or_default();
    // Someone else may have written the payload.
    let count = usize::try_from(count).unwrap_or(MOST_UNITS).min(MOST_UNITS);
    let key = head.key().strip_suffix(b"#0").unwrap_or_default().to_vec();
    (1..=count).map(move |number| unit_key(&key, number))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::format::InputFormat;
    use super::super::input::{Raw, RawContent};
    use super::super::options::ReadOptions;
    use super::*;

    fn units(line: &str, unit: Unit) -> Result<Vec<(String, Content)>, String> {
        let content = RawContent::Bytes(line.as_bytes().to_vec());
        let raw = Raw::new(0, Path::new("in"), Some(7), InputFormat::Jsonl, content);
        let record = Record::parse(raw, &ReadOptions::new().unit(unit))
            .map_err(|rejected| rejected.to_string())?;
        let record = record.expect("a line is a record");
        let units = record
            .into_units()
            .map_err(|rejected| rejected.to_string())?;
        let key =
            |unit: &Record| String::from_utf8_lossy(unit.key().unwrap_or_default()).into_owned();
        Ok(units
            .map(|unit| (key(&unit), unit.parsed.content))
            .collect())
    }

    #[test]
    fn keys_tell_the_place() {
        let text = |key: &str, text: &str| (key.to_owned(), Content::Text(text.to_owned()));
        let line = r#"{"id":"a","text":"One two. Three?\n\nFour"}"#;
        assert_eq!(
            units(line, Unit::Document),
            Ok(vec![text("a", "One two. Three?\n\nFour")])
        );
        assert_eq!(
            units(line, Unit::Paragraph),
            Ok(vec![text("a#1", "One two. Three?"), text("a#2", "Four")])
        );
        let sentences = vec![
            text("a#1", "One two."),
            text("a#2", "Three?"),
            text("a#3", "Four"),
        ];
        assert_eq!(units(line, Unit::Sentence), Ok(sentences.clone()));
        let page = r#"{"id":"a","html":"<p>One two. Three?</p>\n<script>x.</script><div>Four"}"#;
        assert_eq!(units(page, Unit::Sentence), Ok(sentences));
        assert_eq!(
            units(r#"{"text":"One."}"#, Unit::Sentence),
            Ok(vec![text("#1", "One.")])
        );
    }

    #[test]
    fn only_texts_are_cut() {
        for line in [
            r#"{"id":1,"fingerprint":"00000000000000ff"}"#,
            r#"{"id":1,"too_short":true}"#,
        ] {
            let reason = units(line, Unit::Sentence).err().unwrap_or_default();
            assert!(
                reason.starts_with("in, line 7: the record brings no text"),
                "{reason}"
            );
        }
        let many = format!(r#"{{"id":1,"text":"{}"}}"#, "A. ".repeat(MOST_UNITS + 1));
        let reason = units(&many, Unit::Sentence).err().unwrap_or_default();
        assert!(
            reason.contains("has more than 1048576 units (sentence)"),
            "{reason}"
        );
    }
}
