//! From fingerprints to the documents that have them: the postings, rows of fingerprint, scope and document.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::store::sorted_set::overlay::posting_row;
use crate::store::sorted_set::ranges::{Wanted, read_ranges};
use crate::store::sorted_set::reader::SetReader;
use crate::store::store::DocumentNumber;
use crate::store::store::ScopeNumber;

/// The documents of a fingerprint that a scope lists.
pub(crate) struct Posted {
    pub(crate) total: u64,
    /// Newest first; `None` where there may be many.
    pub(crate) numbers: Option<Vec<DocumentNumber>>,
}

/// Of so many rows a fingerprint may have, put and marked, each is looked at; of more, they are counted.
const FEW: usize = 64;

/// Calls `each` with the number of a fingerprint, each of its scopes, and the documents that the scope lists under it.
pub(crate) fn posted<'a>(
    reader: impl Fn() -> SetReader<'a, u128>,
    wanted: &[(Fingerprint, Arc<[ScopeNumber]>)],
    mut each: impl FnMut(usize, ScopeNumber, Posted),
) -> Result<()> {
    let few = few_rows(&reader, wanted.iter().map(|it| it.0))?;
    for (number, (fingerprint, scopes)) in wanted.iter().enumerate() {
        let rows = few.of(number);
        for &scope in &**scopes {
            let range = listed(*fingerprint, scope, DocumentNumber::MAX);
            let (total, numbers) = match rows {
                Some(rows) => {
                    let listed = rows.iter().rev().map(|found| found.row).filter(|row| range.contains(row));
                    let numbers: Vec<DocumentNumber> = listed.map(number_of).collect();
                    (numbers.len() as i64, Some(numbers))
                }
                None => (reader().count(&range)?, None),
            };
            let total = u64::try_from(total).map_err(|_| Error::Damaged {
                table: "postings",
                key: fingerprint.to_string(),
                problem: "more documents are marked as deleted than there are",
            })?;
            each(number, scope, Posted { total, numbers });
        }
    }
    Ok(())
}

/// A row of a fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    /// The number of the fingerprint.
    number: usize,
    row: u128,
    put: bool,
}

/// The rows of fingerprints that have few.
struct FewRows {
    /// In order.
    rows: Vec<Found>,
    /// The numbers of the fingerprints that have many, in order.
    many: Vec<usize>,
}

impl FewRows {
    /// Those of a fingerprint, or `None` if it has many.
    fn of(&self, number: usize) -> Option<&[Found]> {
        if self.many.binary_search(&number).is_ok() {
            return None;
        }
        let from = self.rows.partition_point(|it| it.number < number);
        let count = self.rows[from..].partition_point(|it| it.number == number);
        Some(&self.rows[from..from + count])
    }
}

/// One look-up tells of all scopes of a fingerprint, and all fingerprints are looked up together.
fn few_rows<'a>(
    reader: impl Fn() -> SetReader<'a, u128>,
    fingerprints: impl Iterator<Item = Fingerprint> + Clone,
) -> Result<FewRows> {
    let range = |fingerprint| {
        let first = posting_row(fingerprint, ScopeNumber::EMPTY, DocumentNumber::MIN);
        first..=posting_row(fingerprint, ScopeNumber::ANY, DocumentNumber::MAX)
    };
    let ranges: Vec<RangeInclusive<u128>> = fingerprints.map(range).collect();
    let wanted =
        ranges.iter().map(|range| Wanted { reader: reader(), first: *range.start(), last: *range.end() });
    let mut counts = vec![0; ranges.len()];
    let mut rows = Vec::with_capacity(2 * ranges.len());
    let mut many = read_ranges("postings", reader().blocks, wanted, 1, |number, puts, marks| {
        for (found, put) in [(puts, true), (marks, false)] {
            let found = found.iter().filter(|row| ranges[number].contains(row));
            for &row in found.take(FEW + 1 - counts[number]) {
                rows.push(Found { number, row, put });
                counts[number] += 1;
            }
        }
    })?
    .cut;
    many.extend((0..ranges.len()).filter(|&number| counts[number] > FEW));
    rows.sort_unstable();
    // Each mark takes away the row it marks; where there is none, counting tells what is wrong.
    let marks: Vec<Found> = rows.iter().filter(|it| !it.put).copied().collect();
    for mark in marks {
        match rows.binary_search(&Found { put: true, ..mark }) {
            Ok(put) => drop(rows.drain(put - 1..=put)),
            Err(_) => many.push(mark.number),
        }
    }
    many.sort_unstable();
    Ok(FewRows { rows, many })
}

/// The rows of a fingerprint's documents in a scope, up to a document.
pub(crate) fn listed(
    fingerprint: Fingerprint,
    scope: ScopeNumber,
    last: DocumentNumber,
) -> RangeInclusive<u128> {
    posting_row(fingerprint, scope, DocumentNumber::MIN)..=posting_row(fingerprint, scope, last)
}

/// The document of a key or posting row.
pub(crate) fn number_of(row: u128) -> DocumentNumber {
    DocumentNumber(row as u64 & DocumentNumber::MAX.0)
}
