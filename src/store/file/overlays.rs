//! Overlays: the rows that operations put and mark in each sorted set.

use std::convert::Infallible;

use super::operation::{Operation, RowSink};
use super::schema::{ByRow, KEYS, PerSet, RowFamily, Set, SetRow, all_sets, by_row, permuted};
use crate::parallel;
use crate::plan::Plan;
use crate::store::sorted_set::{Overlay, Run};

/// The rows that operations put and mark in each set.
pub(crate) type Overlays = PerSet<OverlayFamily>;

pub(crate) struct OverlayFamily;

impl RowFamily for OverlayFamily {
    type Of<R: SetRow> = Overlay<R>;
}

/// A run for each set.
pub(crate) type Runs = PerSet<RunFamily>;

pub(crate) struct RunFamily;

impl RowFamily for RunFamily {
    type Of<R: SetRow> = Run<R>;
}

impl Overlays {
    pub(crate) fn new(plan: &Plan) -> Self {
        all_sets(plan.tables().len())
            .map(|set| by_row!(set, set => keep Overlay::new(set.rules)))
            .collect()
    }

    /// Puts and marks the rows of an operation.
    pub(crate) fn apply(&mut self, operation: &Operation, plan: &Plan) {
        match operation.give_rows(plan, self) {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Sorts the rows of the permuted tables, and indexes those that are new.
    pub(crate) fn index_permuted(&mut self) {
        (0..self.tables()).for_each(|table| self[permuted(table)].index());
    }

    /// All rows of each set as one run.
    pub(crate) fn into_runs(self) -> Runs {
        let rows = self[KEYS].rows();
        let overlays = self.into_iter().collect();
        let runs = parallel::map_each_of(
            overlays,
            rows,
            |overlay: ByRow<OverlayFamily>| by_row!(overlay, overlay => keep overlay.into_run()),
        );
        runs.into_iter().collect()
    }
}

impl RowSink for Overlays {
    type Error = Infallible;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Infallible> {
        self[set].put(row);
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Infallible> {
        self[set].mark(row);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Change;
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::plan::plan_named;
    use crate::store::numbers::{DocumentNumber, ScopeNumber};

    fn operation(change: Change, number: u64, scope: u32) -> Operation {
        let fingerprint = Some(Fingerprint::from_bits(0x0123_4567_89ab_cdef));
        Operation {
            change,
            number: DocumentNumber(number),
            key_hash: 7,
            fingerprint,
            scope: ScopeNumber(scope),
        }
    }

    /// The number of rows put and marked in each set, in the order of their numbers.
    fn counts(operations: &[Operation]) -> Vec<(usize, usize)> {
        let plan = plan_named("2x32").expect("a plan");
        let mut overlays = Overlays::new(&plan);
        operations.iter().for_each(|it| overlays.apply(it, &plan));
        let runs = overlays.into_runs();
        runs.iter()
            .map(|run| by_row!(run, run => (run.puts().len(), run.marks().len())))
            .collect()
    }

    #[test]
    fn an_operation_changes_the_sets_that_the_format_says() {
        let gone = |unstored| Change::Remove {
            fingerprint_gone: true,
            unstored,
        };
        assert_eq!(
            counts(&[operation(Change::Put, 1, 0)]),
            [(1, 0), (1, 0), (0, 0), (1, 0), (1, 0)]
        );
        assert_eq!(
            counts(&[operation(Change::Put, 1, 5)]),
            [(1, 0), (2, 0), (0, 0), (1, 0), (1, 0)]
        );
        assert_eq!(
            counts(&[operation(gone(false), 1, 5)]),
            [(0, 1), (0, 2), (1, 0), (0, 1), (0, 1)]
        );
        assert_eq!(
            counts(&[operation(gone(true), 1, 0)]),
            [(0, 1), (0, 1), (0, 0), (0, 1), (0, 1)]
        );
        let stays = Change::Remove {
            fingerprint_gone: false,
            unstored: false,
        };
        assert_eq!(
            counts(&[operation(stays, 1, 0)]),
            [(0, 1), (0, 1), (1, 0), (0, 0), (0, 0)]
        );
        // A dead document whose block is taken out is dead no more.
        let forget = Operation::forget(DocumentNumber(1));
        assert_eq!(counts(&[forget]), [(0, 0), (0, 0), (0, 1), (0, 0), (0, 0)]);
        // If a transaction puts and removes a document, only the permuted tables keep marks. There the
        // newer counts.
        let both = [operation(Change::Put, 1, 0), operation(gone(true), 1, 0)];
        assert_eq!(counts(&both), [(0, 0), (0, 0), (0, 0), (0, 1), (0, 1)]);
    }
}
