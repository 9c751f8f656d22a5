//! Overlays: the rows that operations put and mark in each sorted set.

use super::log::{Change, Operation};
use super::sets::{
    DEAD, KEYS, Kind, POSTINGS, PerSet, SetRow, all_sets, by_row, key_row, permuted, posting_row,
};
use crate::plan::Plan;
use crate::store::sorted_set::{Overlay, Run};

/// The rows that operations put and mark in each set.
pub(crate) type Overlays = PerSet<OverlayKind>;

pub(crate) struct OverlayKind;

impl Kind for OverlayKind {
    type Of<R: SetRow> = Overlay<R>;
}

/// A run for each set.
pub(crate) type Runs = PerSet<RunKind>;

pub(crate) struct RunKind;

impl Kind for RunKind {
    type Of<R: SetRow> = Run<R>;
}

impl Overlays {
    pub(crate) fn new(plan: &Plan) -> Self {
        all_sets(plan.tables().len()).map(|set| by_row!(set, set => keep Overlay::new(set.rules))).collect()
    }

    /// Puts and marks the rows of an operation.
    pub(crate) fn apply(&mut self, operation: &Operation, plan: &Plan) {
        let Operation { change, number, key_hash, fingerprint, scope } = *operation;
        let put = change == Change::Put;
        let set = |overlay: &mut Overlay<u128>, row| if put { overlay.put(row) } else { overlay.mark(row) };
        set(&mut self[KEYS], key_row(key_hash, number));
        if let Change::Remove { never_stored: false, .. } = change {
            self[DEAD].put(number.0);
        }
        let Some(fingerprint) = fingerprint else { return };
        for scope in scope.listing() {
            set(&mut self[POSTINGS], posting_row(fingerprint, scope, number));
        }
        let gone = matches!(change, Change::Remove { fingerprint_gone: true, .. });
        if put || gone {
            for (table, of) in plan.tables().iter().enumerate() {
                let row = of.permutation.apply(fingerprint).bits();
                let overlay = &mut self[permuted(table)];
                if put { overlay.put(row) } else { overlay.mark(row) }
            }
        }
    }

    /// Sorts the rows of the permuted tables.
    pub(crate) fn sort_permuted(&mut self) {
        for table in 0..self.tables() {
            self[permuted(table)].sort();
        }
    }

    /// All rows of each set as one run.
    pub(crate) fn into_runs(self) -> Runs {
        self.into_iter().map(|overlay| by_row!(overlay, overlay => keep overlay.into_run())).collect()
    }
}

#[cfg(test)]
mod tests {
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
        runs.iter().map(|run| by_row!(run, run => (run.puts().len(), run.marks().len()))).collect()
    }

    #[test]
    fn an_operation_changes_the_sets_that_the_format_says() {
        let gone = |never_stored| Change::Remove { fingerprint_gone: true, never_stored };
        assert_eq!(counts(&[operation(Change::Put, 1, 0)]), [(1, 0), (1, 0), (0, 0), (1, 0), (1, 0)]);
        assert_eq!(counts(&[operation(Change::Put, 1, 5)]), [(1, 0), (2, 0), (0, 0), (1, 0), (1, 0)]);
        assert_eq!(counts(&[operation(gone(false), 1, 5)]), [(0, 1), (0, 2), (1, 0), (0, 1), (0, 1)]);
        assert_eq!(counts(&[operation(gone(true), 1, 0)]), [(0, 1), (0, 1), (0, 0), (0, 1), (0, 1)]);
        let stays = Change::Remove { fingerprint_gone: false, never_stored: false };
        assert_eq!(counts(&[operation(stays, 1, 0)]), [(0, 1), (0, 1), (1, 0), (0, 0), (0, 0)]);
        // If a transaction puts and removes a document, only the permuted tables keep marks. There the
        // newer counts.
        let both = [operation(Change::Put, 1, 0), operation(gone(true), 1, 0)];
        assert_eq!(counts(&both), [(0, 0), (0, 0), (0, 0), (0, 1), (0, 1)]);
    }
}
