//! What a record gives to a database: a document, or the documents of its paragraphs or sentences.

use serde_json::{Value, json};

use super::fingerprinting::Fingerprinting;
use super::on_text::OnText;
use super::record::Record;
use super::rejected::Rejected;
use super::units::{MOST_UNITS, unit_key};
use crate::document::Document;
use crate::text::Unit;

/// What a record gives to a database.
pub(super) enum Taken {
    Document {
        document: Document,
        /// The number of its lines, if each of them may be a document.
        lines: Option<u64>,
    },
    Cut(CutDocument),
    /// It is no document, such as the request in a web archive.
    PassedOver,
    /// It is a last line without a line end, and no record. Most likely the rest is not written yet.
    Left(Rejected),
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

impl Taken {
    /// What a record gives. Makes its fingerprints, and shows each text to `on_text`.
    pub(super) fn of(
        record: Record,
        rule: Fingerprinting,
        on_text: Option<&OnText>,
    ) -> Result<Self, Rejected> {
        match record.unit {
            Unit::Document => {
                let lines = record.lines_of_list();
                document_of(record, rule, on_text)
                    .map(|document| Self::Document { document, lines })
            }
            Unit::Paragraph | Unit::Sentence => {
                CutDocument::of(record, rule, on_text).map(Self::Cut)
            }
        }
    }
}

fn document_of(
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
        on_text.call(&document, &text);
    }
    Ok(document)
}

impl CutDocument {
    fn of(
        mut record: Record,
        rule: Fingerprinting,
        on_text: Option<&OnText>,
    ) -> Result<Self, Rejected> {
        // Checks the payload too, and finds the time that all units have.
        let whole = record
            .document_with(None)
            .map_err(|reason| record.rejected(reason))?;
        record.parts.seen = Some(whole.seen());
        record.parts.payload.clear();
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
    let told: Option<Value> = serde_json::from_slice(head.payload()).ok();
    let count = told
        .and_then(|told| told["units"].as_u64())
        .unwrap_or_default();
    // Someone else may have written the payload.
    let count = usize::try_from(count).unwrap_or(MOST_UNITS).min(MOST_UNITS);
    let key = head.key().strip_suffix(b"#0").unwrap_or_default().to_vec();
    (1..=count).map(move |number| unit_key(&key, number))
}
