//! Hidden: the rows and documents that damaged blocks hide. Both sides of the comparison leave out what
//! follows from them. So a damaged block is one finding, and everything else is still compared.

use crate::fingerprint::Fingerprint;
use crate::plan::{Permuted, Table};
use crate::store::blocks::Row;
use crate::store::file::{POSTINGS, PerSet, RowFamily, Set, SetRow, all_sets, by_row, number_of};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::Life;

/// The rows and documents that nobody knows.
pub(super) struct Hidden {
    rows: PerSet<RangesFamily>,
    /// The numbers of documents.
    numbers: Ranges<u64>,
    is_empty: bool,
}

struct RangesFamily;

impl RowFamily for RangesFamily {
    type Of<R: SetRow> = Ranges<R>;
}

/// First and last rows.
struct Ranges<R>(Vec<(R, R)>);

impl<R: Row> Ranges<R> {
    /// Adds others, puts all in order, and joins those that overlap.
    fn merge(&mut self, others: Self) {
        self.0.extend(others.0);
        self.0.sort_unstable();
        self.0.dedup_by(|next, before| {
            let joined = next.0 <= before.1;
            if joined {
                before.1 = before.1.max(next.1);
            }
            joined
        });
    }

    /// Whether a range has one of the rows from `first` to `last`. The ranges must be in order.
    fn touches(&self, first: R, last: R) -> bool {
        let next = self.0.partition_point(|range| range.1 < first);
        self.0.get(next).is_some_and(|range| range.0 <= last)
    }
}

impl Hidden {
    /// Nothing is hidden.
    pub(super) fn nothing(tables: usize) -> Self {
        let rows = all_sets(tables)
            .map(|set| by_row!(set, _ => keep Ranges(Vec::new())))
            .collect();
        Self {
            rows,
            numbers: Ranges(Vec::new()),
            is_empty: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Whether every document is known.
    pub(super) fn knows_documents(&self) -> bool {
        self.numbers.0.is_empty()
    }

    /// Hides the rows of a set from `first` to `last`.
    pub(super) fn hide_rows<R: SetRow>(&mut self, set: Set<R>, first: R, last: R) {
        self.rows[set].0.push((first, last));
        self.is_empty = false;
    }

    /// Hides the documents from `first` to `last`.
    pub(super) fn hide_documents(&mut self, first: u64, last: u64) {
        self.numbers.0.push((first, last));
        self.is_empty = false;
    }

    /// Hides also what others hide, and puts all ranges in order, for questions.
    pub(super) fn merge(&mut self, other: Self) {
        for (rows, others) in self.rows.iter_mut().zip(other.rows) {
            by_row!(rows, others, (rows, others) => rows.merge(others));
        }
        self.numbers.merge(other.numbers);
        self.is_empty &= other.is_empty;
    }

    /// Whether it is not known if a set has a row.
    pub(super) fn hides_row<R: SetRow>(&self, set: Set<R>, row: R) -> bool {
        self.rows[set].touches(row, row)
    }

    /// Whether it is not known if a fingerprint has documents.
    pub(super) fn hides_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        let bits = fingerprint.bits();
        let first = [ScopeNumber::EMPTY.0.into(), DocumentNumber::MIN.0];
        let last = [ScopeNumber::ANY.0.into(), DocumentNumber::MAX.0];
        let first = u128::join(bits, first);
        let last = u128::join(bits, last);
        self.rows[POSTINGS].touches(first, last)
    }

    /// Whether it is not known if a row that a set has is right. `table` is given if the set is a
    /// permuted one.
    pub(super) fn hides_stored<R: SetRow>(
        &self,
        set: Set<R>,
        row: R,
        table: Option<&Table>,
    ) -> bool {
        let number = number_of(row.number()).0;
        self.hides_row(set, row)
            // Rows that live once have the number of a document.
            || set.rules.life == Life::Once && self.numbers.touches(number, number)
            || table.is_some_and(|table| {
                self.hides_fingerprint(table.invert(Permuted::from_bits(row.prefix())))
            })
    }
}
