//! Sets, Overlays, Runs: for each sorted set of a file, the set itself, the rows that operations put and mark in
//! it, and these as a run.

use std::convert::Infallible;

use super::operation::{Operation, RowSink};
use super::schema::{
    AnySet, ByRow, KEYS, PerSet, RowFamily, Set, SetRow, all_sets, by_row, permuted,
};
use crate::parallel;
use crate::plan::Plan;
use crate::planted::planted;
use crate::store::blocks::Row;
use crate::store::sorted_set::{Overlay, Run, SetLevel, SortedSet};

/// The sorted sets at one commit.
pub(crate) type Sets = PerSet<SortedSetFamily>;

pub(crate) struct SortedSetFamily;

impl RowFamily for SortedSetFamily {
    type Of<R: SetRow> = SortedSet<R>;
}

impl Clone for Sets {
    fn clone(&self) -> Self {
        self.iter()
            .map(|set| by_row!(set, set => keep set.clone()))
            .collect()
    }
}

impl Sets {
    /// All sets of a plan, empty.
    pub(super) fn new(plan: &Plan) -> Self {
        all_sets(plan.tables().len())
            .map(|set| by_row!(set, set => keep SortedSet::new(set.rules)))
            .collect()
    }

    /// The memory that the directories take once all of them are read, in bytes.
    pub(super) fn directory_bytes(&self) -> usize {
        let mut bytes = 0;
        for set in self.iter() {
            by_row!(set, set => for SetLevel { level, .. } in &set.levels {
                bytes += level.memory_bytes();
            });
        }
        bytes
    }

    /// Adds the rows that a transaction wrote. Runs are merged if they have together at most `short_rows` rows.
    pub(crate) fn push(&mut self, runs: Runs, short_rows: usize) {
        let rows = runs.iter().map(|run| by_row!(run, run => run.len()));
        let rows = rows.max().unwrap_or(0);
        let pairs = self.iter_mut().zip(runs).collect();
        parallel::map_each_of(
            pairs,
            rows,
            |(set, run)| by_row!(set, run, (set, run) => set.push(run, short_rows)),
        );
    }

    /// Makes the recent runs of all sets the frozen ones.
    pub(crate) fn freeze(&mut self) {
        for set in self.iter_mut() {
            by_row!(set, set => set.freeze());
        }
    }

    /// Whether a set still has frozen rows.
    pub(crate) fn any_frozen(&self) -> bool {
        self.iter()
            .any(|set| by_row!(set, set => !set.frozen.is_empty()))
    }

    /// The number of rows that a set puts or marks.
    pub(crate) fn rows<R: SetRow>(&self, set: Set<R>) -> u64 {
        let (puts, marks) = self[set].rows();
        puts + marks
    }

    /// The number of blocks of all sets, as if the rows in memory were packed too.
    pub(crate) fn blocks(&self, block_bytes: usize) -> u64 {
        self.iter()
            .map(|set| by_row!(set, set => set.blocks(block_bytes)))
            .sum()
    }

    /// The greatest number of levels of a set, and of marks in a set.
    pub(crate) fn levels_and_marks(&self) -> (u32, u64) {
        let mut levels = 0;
        let mut marks = 0;
        for set in self.iter() {
            levels = levels.max(by_row!(set, set => set.levels.len()));
            marks = marks.max(by_row!(set, set => set.rows().1));
        }
        (levels as u32, marks)
    }
}

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
        let Ok(()) = operation.give_rows(plan, self);
    }

    /// Sorts the rows of the permuted tables, and indexes those that are new.
    pub(crate) fn index_permuted(&mut self) {
        for table in 0..self.tables() {
            self[permuted(table)].index();
        }
    }

    /// Whether the permuted tables have sorted the same fingerprints.
    pub(crate) fn permuted_are_sorted_alike(&self) -> bool {
        let first = self[permuted(0)].since_sort();
        (1..self.tables()).all(|table| self[permuted(table)].since_sort() == first)
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
        if set.permuted_number() == Some(1) && planted("a table is forgotten") {
            return Ok(());
        }
        self[set].put(row);
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Infallible> {
        self[set].mark(row);
        Ok(())
    }
}

/// The runs that operations leave, the oldest first.
pub(crate) fn runs_of(operations: &[Operation], plan: &Plan) -> Runs {
    let sets = all_sets(plan.tables().len()).collect();
    let runs = parallel::map_each_of(
        sets,
        operations.len(),
        |set: AnySet| by_row!(set, set => keep run_of(operations, set, plan)),
    );
    runs.into_iter().collect()
}

fn run_of<R: SetRow>(operations: &[Operation], set: Set<R>, plan: &Plan) -> Run<R> {
    let mut rows = RowsOf {
        set,
        puts: Vec::with_capacity(operations.len()),
        marks: Vec::new(),
    };
    for operation in operations {
        let Ok(()) = match set.permuted_number() {
            Some(table) => operation.give_row_of_table(table, plan, &mut rows),
            None => operation.give_own_rows(&mut rows),
        };
    }
    Run::of_sequence(rows.puts, rows.marks, set.rules)
}

/// Takes the rows of one set.
struct RowsOf<R> {
    set: Set<R>,
    puts: Vec<R>,
    /// Each with the number of puts before it.
    marks: Vec<(R, usize)>,
}

impl<R: SetRow> RowSink for RowsOf<R> {
    type Error = Infallible;

    fn put<S: SetRow>(&mut self, set: Set<S>, row: S) -> Result<(), Infallible> {
        if set.is(self.set) {
            self.puts.push(same_row(row));
        }
        Ok(())
    }

    fn mark<S: SetRow>(&mut self, set: Set<S>, row: S) -> Result<(), Infallible> {
        if set.is(self.set) {
            self.marks.push((same_row(row), self.puts.len()));
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
    use super::super::operation::Change;
    use super::*;
    use crate::fingerprint::Fingerprint;
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
        let plan = "2x32".parse::<Plan>().expect("a plan");
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

#[cfg(test)]
mod replay_tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::operation::Change;
    use super::super::overlays::Overlays;
    use super::*;
    use crate::fingerprint::Fingerprint;
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
            let plan = "2x32".parse::<Plan>().expect("a plan");
            let operations = history(before, &changes);
            let mut overlays = Overlays::new(&plan);
            operations.iter().for_each(|it| overlays.apply(it, &plan));
            prop_assert_eq!(rows(&runs_of(&operations, &plan)), rows(&overlays.into_runs()));
        }
    }
}
