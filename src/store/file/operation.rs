//! Operation: a document that was put or removed, its bytes in the log, and the rows that it changes in each
//! sorted set. Sets, Overlays, Runs: for each sorted set of a file, the set itself, the rows that operations put and
//! mark in it, and these as a run.

use std::convert::Infallible;

use super::meta::Settings;
use super::schema::{
    AnySet, ByRow, DEAD, KEYS, POSTINGS, PerSet, RowFamily, Set, SetRow, all_sets, by_row, key_row,
    permuted, posting_row,
};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::Plan;
use crate::planted::planted;
use crate::store::blocks::{Fields, Problem, Row};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::{Overlay, Run, SetLevel, SortedSet};

/// The flags of an operation in the log.
const HAS_FINGERPRINT: u8 = 1;
const REMOVE: u8 = 2;
const FINGERPRINT_GONE: u8 = 4;
const UNSTORED: u8 = 8;
const FORGET: u8 = 16;

/// A document that was put or removed, or whose bytes are gone. It has what the sorted sets need to know of
/// the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) change: Change,
    pub(crate) number: DocumentNumber,
    pub(crate) key_hash: u64,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) scope: ScopeNumber,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put,
    Remove {
        /// Whether no other document has its fingerprint.
        fingerprint_gone: bool,
        /// Whether no block of documents has it: the same transaction put it, or takes its block out.
        unstored: bool,
    },
    /// The block of a document that was removed before is taken out.
    Forget,
}

/// Takes the rows that operations put and mark.
pub(crate) trait RowSink {
    type Error;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Self::Error>;
    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Self::Error>;
}

impl Operation {
    /// What is done to a document, whose scope has this number.
    pub(crate) fn new(
        change: Change,
        number: DocumentNumber,
        document: &Document,
        scope: ScopeNumber,
        settings: &Settings,
    ) -> Self {
        Self {
            change,
            number,
            key_hash: settings.key_hash(document.key()),
            fingerprint: document.fingerprint(),
            scope,
        }
    }

    /// The block of a dead document is taken out.
    pub(crate) fn forget(number: DocumentNumber) -> Self {
        Self {
            change: Change::Forget,
            number,
            key_hash: 0,
            fingerprint: None,
            scope: ScopeNumber::EMPTY,
        }
    }

    /// Gives `sink` the rows that the operation puts and marks. docs/format.md lists them, in the section
    /// on the log.
    pub(crate) fn give_rows<S: RowSink>(&self, plan: &Plan, sink: &mut S) -> Result<(), S::Error> {
        self.give_own_rows(sink)?;
        match self.fingerprint_change() {
            Some((put, fingerprint)) => give_fingerprint_rows(put, fingerprint, plan, sink),
            None => Ok(()),
        }
    }

    /// Does what [`give_rows`](Self::give_rows) does, for one permuted table.
    fn give_row_of_table<S: RowSink>(
        &self,
        table: usize,
        plan: &Plan,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        match self.fingerprint_change() {
            Some((put, fingerprint)) => give_permuted_row(put, fingerprint, table, plan, sink),
            None => Ok(()),
        }
    }

    /// The fingerprint whose rows the operation puts (true) or marks in the permuted tables.
    fn fingerprint_change(&self) -> Option<(bool, Fingerprint)> {
        let put = self.change == Change::Put;
        let gone = matches!(
            self.change,
            Change::Remove {
                fingerprint_gone: true,
                ..
            }
        );
        match self.fingerprint {
            Some(fingerprint) if put || gone => Some((put, fingerprint)),
            _ => None,
        }
    }

    /// Gives the rows that belong to this document alone. They have its number.
    pub(crate) fn give_own_rows<S: RowSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        if self.change == Change::Forget {
            return sink.mark(DEAD, self.number.0);
        }
        let put = self.change == Change::Put;
        put_or_mark(put, KEYS, key_row(self.key_hash, self.number), sink)?;
        if let Change::Remove {
            unstored: false, ..
        } = self.change
        {
            sink.put(DEAD, self.number.0)?;
        }
        let Some(fingerprint) = self.fingerprint else {
            return Ok(());
        };
        for scope in self.scope.listing() {
            put_or_mark(
                put,
                POSTINGS,
                posting_row(fingerprint, scope, self.number),
                sink,
            )?;
        }
        Ok(())
    }

    /// Writes the operation as a page of the log has it: in 25 bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut flags = match self.change {
            Change::Put => 0,
            Change::Forget => FORGET,
            Change::Remove {
                fingerprint_gone,
                unstored,
            } => REMOVE | flag(fingerprint_gone, FINGERPRINT_GONE) | flag(unstored, UNSTORED),
        };
        flags |= flag(self.fingerprint.is_some(), HAS_FINGERPRINT);
        bytes.push(flags);
        bytes.extend(&self.number.0.to_le_bytes()[..5]);
        bytes.extend(self.key_hash.to_le_bytes());
        let fingerprint = self.fingerprint.map_or(0, Fingerprint::bits);
        bytes.extend(fingerprint.to_le_bytes());
        bytes.extend(&self.scope.0.to_le_bytes()[..3]);
    }

    /// Reads an operation back.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let [flags] = fields.take()?;
        if flags & !(HAS_FINGERPRINT | REMOVE | FINGERPRINT_GONE | UNSTORED) != 0 && flags != FORGET
        {
            return Err("it has flags this release does not know");
        }
        let mut number = [0; 8];
        number[..5].copy_from_slice(fields.take_slice(5)?);
        let key_hash = u64::from_le_bytes(fields.take()?);
        let bits = u64::from_le_bytes(fields.take()?);
        let mut scope = [0; 4];
        scope[..3].copy_from_slice(fields.take_slice(3)?);
        let change = if flags == FORGET {
            Change::Forget
        } else if flags & REMOVE == 0 {
            Change::Put
        } else {
            Change::Remove {
                fingerprint_gone: flags & FINGERPRINT_GONE != 0,
                unstored: flags & UNSTORED != 0,
            }
        };
        Ok(Self {
            change,
            number: DocumentNumber(u64::from_le_bytes(number)),
            key_hash,
            fingerprint: (flags & HAS_FINGERPRINT != 0).then_some(Fingerprint::from_bits(bits)),
            scope: ScopeNumber(u32::from_le_bytes(scope)),
        })
    }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

/// Gives the rows that all documents of a fingerprint share.
pub(crate) fn give_fingerprint_rows<S: RowSink>(
    put: bool,
    fingerprint: Fingerprint,
    plan: &Plan,
    sink: &mut S,
) -> Result<(), S::Error> {
    for table in 0..plan.tables().len() {
        give_permuted_row(put, fingerprint, table, plan, sink)?;
    }
    Ok(())
}

fn give_permuted_row<S: RowSink>(
    put: bool,
    fingerprint: Fingerprint,
    table: usize,
    plan: &Plan,
    sink: &mut S,
) -> Result<(), S::Error> {
    let row = plan.tables()[table].apply(fingerprint).bits();
    put_or_mark(put, permuted(table), row, sink)
}

fn put_or_mark<R: SetRow, S: RowSink>(
    put: bool,
    set: Set<R>,
    row: R,
    sink: &mut S,
) -> Result<(), S::Error> {
    if put {
        sink.put(set, row)
    } else {
        sink.mark(set, row)
    }
}

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

    /// Sorts the rows of the permuted tables, and indexes those that are new, if `most` or more are not sorted. A
    /// search of one table, as a scan is, may have made it sort alone. Then all are sorted, so that each has sorted the
    /// same fingerprints.
    pub(crate) fn index_permuted(&mut self, most: usize) {
        let first = &self[permuted(0)];
        let are_many = first.puts().1.len() >= most;
        let since_sort = first.since_sort();
        let are_alike = planted("tables are sorted apart")
            || (1..self.tables()).all(|table| self[permuted(table)].since_sort() == since_sort);
        if are_many || !are_alike {
            for table in 0..self.tables() {
                self[permuted(table)].index();
            }
        }
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
    use super::*;

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

    use super::*;

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
