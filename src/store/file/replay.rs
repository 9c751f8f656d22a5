//! Replay: the runs that the operations of the log leave, made at opening.
//!
//! A set needs nothing of the other sets. So each is made by one thread, which goes through all operations,
//! takes the rows of its set and sorts them once.

use std::convert::Infallible;

use super::operation::{Operation, RowSink};
use super::overlays::Runs;
use super::schema::{AnySet, Set, SetRow, all_sets, by_row};
use crate::parallel;
use crate::plan::Plan;
use crate::store::blocks::Row;
use crate::store::sorted_set::{Collected, Run};

/// The runs that operations leave, the oldest first.
pub(crate) fn runs_of(operations: &[Operation], plan: &Plan) -> Runs {
    let sets = all_sets(plan.tables().len()).collect();
    let run_of = |set: AnySet| by_row!(set, set => keep run_of(operations, set, plan));
    parallel::map_each_of(sets, operations.len(), run_of)
        .into_iter()
        .collect()
}

fn run_of<R: SetRow>(operations: &[Operation], set: Set<R>, plan: &Plan) -> Run<R> {
    let mut rows = RowsOf {
        set,
        rows: Collected::new(set.rules, operations.len()),
    };
    let given = operations
        .iter()
        .try_for_each(|operation| match set.permuted_number() {
            Some(table) => operation.give_row_of_table(table, plan, &mut rows),
            None => operation.give_own_rows(&mut rows),
        });
    match given {
        Ok(()) => rows.rows.into_run(),
        Err(never) => match never {},
    }
}

/// Takes the rows of one set.
struct RowsOf<R> {
    set: Set<R>,
    rows: Collected<R>,
}

impl<R: SetRow> RowSink for RowsOf<R> {
    type Error = Infallible;

    fn put<S: SetRow>(&mut self, set: Set<S>, row: S) -> Result<(), Infallible> {
        if set.is(self.set) {
            self.rows.put(same_row(row));
        }
        Ok(())
    }

    fn mark<S: SetRow>(&mut self, set: Set<S>, row: S) -> Result<(), Infallible> {
        if set.is(self.set) {
            self.rows.mark(same_row(row));
        }
        Ok(())
    }
}

/// A row of the same set, whose type the compiler does not know to be the same.
fn same_row<S: Row, R: Row>(row: S) -> R {
    R::from_number(row.number())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::operation::Change;
    use super::super::overlays::Overlays;
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::plan::plan_named;
    use crate::store::numbers::{DocumentNumber, ScopeNumber};

    /// Operations that a history of insertions and deletions could leave. An item puts a document with one
    /// of a few fingerprints, or removes one of those that are there. The first documents were put before
    /// the log began.
    fn history(
        before: usize,
        changes: &[(Option<prop::sample::Index>, u64, bool)],
    ) -> Vec<Operation> {
        let mut live: BTreeMap<u64, Option<Fingerprint>> = BTreeMap::new();
        let mut next = 1;
        let mut put = |live: &mut BTreeMap<u64, _>, bits: u64| {
            let fingerprint = (bits != 0).then(|| Fingerprint::from_bits(bits << 30 | bits));
            live.insert(next, fingerprint);
            next += 1;
            operation(Change::Put, next - 1, fingerprint)
        };
        for bits in 0..before as u64 {
            put(&mut live, bits % 9);
        }
        let change = |&(removed, bits, unstored): &(Option<prop::sample::Index>, u64, bool)| {
            let Some(index) = removed.filter(|_| !live.is_empty()) else {
                return put(&mut live, bits);
            };
            let number = live
                .keys()
                .copied()
                .nth(index.index(live.len()))
                .expect("the index is one of them");
            let fingerprint = live.remove(&number).expect("it is there");
            let fingerprint_gone = live.values().all(|it| *it != fingerprint);
            operation(
                Change::Remove {
                    fingerprint_gone,
                    unstored,
                },
                number,
                fingerprint,
            )
        };
        changes.iter().map(change).collect()
    }

    fn operation(change: Change, number: u64, fingerprint: Option<Fingerprint>) -> Operation {
        let scope = ScopeNumber(number as u32 % 3);
        Operation {
            change,
            number: DocumentNumber(number),
            key_hash: number % 7,
            fingerprint,
            scope,
        }
    }

    /// The rows put and marked in each set, as numbers.
    fn rows(runs: &Runs) -> Vec<(Vec<u128>, Vec<u128>)> {
        fn numbers<R: Row>(rows: &[R]) -> Vec<u128> {
            rows.iter().map(|row| row.number()).collect()
        }
        runs.iter()
            .map(|run| by_row!(run, run => (numbers(run.puts()), numbers(run.marks()))))
            .collect()
    }

    proptest! {
        #[test]
        fn replayed_runs_are_those_that_the_transactions_left(
            before in 0..20usize,
            changes in prop::collection::vec((any::<Option<prop::sample::Index>>(), 0..9u64, any::<bool>()), 0..200),
        ) {
            let plan = plan_named("2x32").expect("a plan");
            let operations = history(before, &changes);
            let mut overlays = Overlays::new(&plan);
            operations.iter().for_each(|it| overlays.apply(it, &plan));
            prop_assert_eq!(rows(&runs_of(&operations, &plan)), rows(&overlays.into_runs()));
        }
    }
}
