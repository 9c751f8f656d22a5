//! Leaving out documents by their numbers.

use std::ops::Range;

use super::numbers::DocumentNumber;
use super::postings::{self, Posted, listed};
use super::read::Read;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::source::{Ignored, Numbers};
use crate::store::file::POSTINGS;

impl DocumentNumber {
    pub(crate) fn is_among(self, numbers: &Numbers) -> bool {
        numbers.range_of(self.0).is_some()
    }

    /// Whether the document was stored by a record of its source that comes later.
    pub(crate) fn is_of_later_record(self, ignored: &Ignored, stored: u64) -> bool {
        ignored.is_of_later_record(self.0, stored)
    }

    /// The greatest number up to this one that is not among those. `None` if there is none.
    pub(crate) fn last_outside(self, numbers: &Numbers) -> Option<Self> {
        // Ranges do not adjoin.
        numbers
            .range_of(self.0)
            .map_or(Some(self), |range| Self(range.start).previous())
    }
}

/// The documents of a fingerprint that are not among these numbers.
pub(crate) fn leave_out(
    reader: &impl Read,
    fingerprint: Fingerprint,
    posted: Posted,
    ignored: &Numbers,
) -> Result<Posted> {
    let Posted {
        index,
        scope,
        total,
        numbers,
    } = posted;
    if let Some(mut numbers) = numbers {
        numbers.retain(|number| !number.is_among(ignored));
        return Ok(Posted {
            index,
            scope,
            total: numbers.len() as u64,
            numbers: Some(numbers),
        });
    }
    let rows = |range: &Range<u64>| {
        let last = DocumentNumber(range.end - 1).min(DocumentNumber::MAX);
        listed(fingerprint, scope, DocumentNumber(range.start)..=last)
    };
    let ranges: Vec<_> = ignored.ranges().iter().map(rows).collect();
    let left_out = postings::posted_in(|| reader.set(POSTINGS), &ranges)?;
    let total = total.saturating_sub(left_out.iter().map(|it| it.total).sum());
    Ok(Posted {
        index,
        scope,
        total,
        numbers: None,
    })
}
