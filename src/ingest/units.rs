//! The units of a record: each is a record of its own, and its key tells its place.

use std::fmt;
use std::iter::Enumerate;
use std::ops::Range;
use std::vec::IntoIter;

use super::parsed::Content;
use super::record::Record;
use super::rejected::{Reason, Rejected};
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
pub(super) const MOST_UNITS: usize = 1 << 20;

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
        let text = match std::mem::replace(&mut self.content, Content::TooShort) {
            Content::Text(text) => text,
            Content::Html(html) => visible_paragraphs(&html, Syntax::of(&html)),
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
                (unit.key, unit.content) = (Some(key), Content::Text(text[range].to_owned()));
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
pub(super) fn unit_key(key: &[u8], number: usize) -> Vec<u8> {
    [key, b"#", number.to_string().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::super::format::InputFormat;
    use super::super::options::ReadOptions;
    use super::super::raw::{Raw, RawContent};
    use super::*;

    fn units(line: &str, unit: Unit) -> Result<Vec<(String, Content)>, String> {
        let content = RawContent::Bytes(line.as_bytes().to_vec());
        let raw = Raw::of_line_7(InputFormat::Jsonl, content);
        let record =
            Record::parse(raw, &ReadOptions::new().unit(unit)).map_err(|it| it.to_string())?;
        let record = record.expect("a line is a record");
        let units = record.into_units().map_err(|it| it.to_string())?;
        let key =
            |unit: &Record| String::from_utf8_lossy(unit.key().unwrap_or_default()).into_owned();
        Ok(units.map(|unit| (key(&unit), unit.content)).collect())
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
