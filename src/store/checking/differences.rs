//! Differences: which rows are missing and which are too many, in words.

use super::findings::{Finding, Findings};
use super::tally::{Collected, Rows};
use crate::fingerprint::Fingerprint;
use crate::plan::{Permuted, Table};
use crate::store::file::{DEAD, KEYS, POSTINGS, Set, SetRow, View, by_row, number_of};
use crate::store::numbers::DocumentNumber;

/// Adds the rows that differ.
pub(super) fn find(view: &View, collected: Collected, findings: &mut Findings) {
    for (set, rows) in collected.sets.sets().zip(collected.sets) {
        by_row!(set, rows, (set, rows) => find_in(view, set, rows, findings));
    }
}

fn find_in<R: SetRow>(view: &View, set: Set<R>, rows: Rows<R>, findings: &mut Findings) {
    let Rows {
        chosen,
        mut expected,
        mut stored,
    } = rows;
    expected.sort_unstable();
    stored.sort_unstable();
    let mut add = |row: R, is_missing: bool| {
        // Words cost the reading of a document.
        if findings.is_full() {
            findings.count(1);
        } else {
            findings.add_in(usize::MAX, describe(view, set, row, is_missing));
        }
    };
    let (mut expected, mut stored) = (
        expected.into_iter().peekable(),
        stored.into_iter().peekable(),
    );
    loop {
        match (expected.peek(), stored.peek()) {
            (Some(row), Some(other)) if row == other => _ = (expected.next(), stored.next()),
            (Some(row), other) if other.is_none_or(|other| row < other) => {
                add(*row, true);
                expected.next();
            }
            (_, Some(&row)) => {
                add(row, false);
                stored.next();
            }
            (_, None) => break,
        }
    }
    if chosen.unlisted > 0 {
        findings.add(
            set.table().name,
            "rows",
            format!("{} or more other rows differ", chosen.unlisted),
        );
        findings.count(chosen.unlisted - 1);
    }
}

/// A row that is missing or too many, in words.
fn describe<R: SetRow>(view: &View, set: Set<R>, row: R, is_missing: bool) -> Finding {
    let number = number_of(row.number());
    let says = |key: String, missing: String, more: String| Finding {
        table: set.table().name,
        key,
        problem: if is_missing { missing } else { more },
    };
    let names = format!(
        "a row names document {}, to which it does not belong",
        number.0
    );
    if set.is(KEYS) {
        let key = key_of(view, number).unwrap_or_else(|| format!("hash {:016x}", row.prefix()));
        says(key, "the row of the document is missing".to_owned(), names)
    } else if set.is(POSTINGS) {
        let fingerprint = Fingerprint::from_bits(row.prefix()).to_string();
        let key = key_of(view, number).unwrap_or_else(|| number.0.to_string());
        says(
            fingerprint,
            format!("the row of document {key} is missing"),
            names,
        )
    } else if let Some((table, of)) = set.permuted_number().zip(table_of(view, set)) {
        let fingerprint = of
            .permutation
            .invert(Permuted::from_bits(row.prefix()))
            .to_string();
        let missing = format!("the row in table {table} is missing");
        says(
            fingerprint,
            missing,
            format!("table {table} has a row of it, but no document has it"),
        )
    } else if set.is(DEAD) {
        let more = "it is marked as removed, but no block has the document".to_owned();
        says(number.0.to_string(), "its row is missing".to_owned(), more)
    } else {
        says(
            format!("{row:x}"),
            "the row is missing".to_owned(),
            "the row should not be there".to_owned(),
        )
    }
}

fn table_of<R: SetRow>(view: &View, set: Set<R>) -> Option<&Table> {
    view.settings().plan.tables().get(set.permuted_number()?)
}

/// The key of a document, if it can be read.
pub(super) fn key_of(view: &View, number: DocumentNumber) -> Option<String> {
    let document = view.document(number).ok()?;
    Some(String::from_utf8_lossy(document.key()).into_owned())
}
