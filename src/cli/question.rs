//! What is asked for: a fingerprint, and the key of the document or the unit that it was made from.

use std::sync::Arc;

use crate::ingest::{Fingerprinting, Record, Rejected};
use crate::{Fingerprint, Sketch, Unit};

/// A fingerprint, and a sketch unless only the fingerprint is known.
pub(super) type Judged = (Fingerprint, Option<Sketch>);

/// A fingerprint that a query asks for, or that is printed.
pub(super) struct Question {
    pub(super) key: Option<Vec<u8>>,
    /// `None` if the text is too short to judge.
    pub(super) judged: Option<Judged>,
    /// The text, if it is there and needed.
    pub(super) text: Option<Arc<str>>,
}

/// Whether questions need their texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextsAre {
    Needed,
    NotNeeded,
}

impl Question {
    /// The fingerprint. `None` if the text is too short to judge.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.judged.map(|(fingerprint, _)| fingerprint)
    }

    /// The question about a record. If the record is cut into units, one for each unit that is not too short.
    pub(super) fn of_record(
        record: Record,
        rule: Fingerprinting,
        unit: Unit,
        texts: TextsAre,
    ) -> Result<Vec<Self>, Rejected> {
        let units = record.into_units()?;
        let questions = units.map(|it| {
            let text = (texts == TextsAre::Needed).then(|| it.text(rule)).flatten();
            let (key, judged) = (
                it.key().map(<[u8]>::to_vec),
                it.fingerprint_and_sketch(rule)?,
            );
            Ok(Self {
                key,
                judged,
                text: text.map(Arc::from),
            })
        });
        let is_asked = |it: &Result<Self, Rejected>| {
            unit == Unit::Document || it.as_ref().map_or(true, |it| it.judged.is_some())
        };
        questions.filter(is_asked).collect()
    }
}
