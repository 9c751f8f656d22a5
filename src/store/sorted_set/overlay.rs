//! What a transaction puts and marks in the sorted sets, before it commits.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fingerprint::Fingerprint;
use crate::plan::Plan;
use crate::store::blocks::packed::Row;
use crate::store::file::log::{Change, Operation};
use crate::store::sorted_set::run::{Life, Rules, Run, push_run};
use crate::store::store::DocumentNumber;
use crate::store::store::ScopeNumber;

/// Rows that a transaction puts and marks, newest last. They are sorted as late as they can be: a transaction that only
/// inserts never looks for most of them.
#[derive(Debug)]
pub(crate) struct Overlay<R> {
    rules: Rules,
    runs: Vec<Run<R>>,
    /// The newest rows, unsorted, perhaps repeated; no row is in both.
    puts: Vec<R>,
    marks: Vec<R>,
    /// The leading bits of all rows, in sets with filters.
    leads: HashSet<u64, BuildHasherDefault<AsItIs>>,
    /// Whether rows were looked for since the last sort.
    searched: AtomicBool,
}

/// As many unsorted rows are searched one by one about as fast as a run.
const FEW_UNSORTED: usize = 64;
/// So many rows may wait while nobody looks for them; the first who does goes through them.
const MOST_UNSORTED: usize = 4096;

impl<R: Row> Overlay<R> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            runs: Vec::new(),
            puts: Vec::new(),
            marks: Vec::new(),
            leads: HashSet::default(),
            searched: AtomicBool::new(false),
        }
    }

    pub(crate) fn put(&mut self, row: R) {
        self.sort_if_many();
        self.know(row);
        self.marks.retain(|&it| it != row);
        self.puts.push(row);
    }

    pub(crate) fn mark(&mut self, row: R) {
        // The row is looked for among the puts.
        self.searched = AtomicBool::new(true);
        self.sort_if_many();
        self.know(row);
        let before = self.puts.len();
        self.puts.retain(|&it| it != row);
        if self.puts.len() == before || self.rules.life == Life::Repeated {
            self.marks.push(row);
        }
    }

    fn know(&mut self, row: R) {
        if self.rules.filtered {
            self.leads.insert(row.lead());
        }
    }

    fn sort_if_many(&mut self) {
        let most = if *self.searched.get_mut() { FEW_UNSORTED } else { MOST_UNSORTED };
        if self.puts.len() + self.marks.len() >= most {
            self.sort();
        }
    }

    fn sort(&mut self) {
        let sorted = |rows: &mut Vec<R>| {
            let mut rows = std::mem::take(rows);
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        let rules = self.rules.unsearched();
        let run = Run::new(sorted(&mut self.puts), sorted(&mut self.marks), rules);
        push_run(&mut self.runs, run, rules);
        self.searched = AtomicBool::new(false);
    }

    /// Whether there may be a row with these leading bits.
    pub(crate) fn may_have(&self, lead: u64) -> bool {
        !self.rules.filtered || self.leads.contains(&lead)
    }

    /// The sorted runs, the newest last, then the unsorted rows, which are newer.
    pub(crate) fn parts(&self) -> (&[Run<R>], &[R], &[R]) {
        self.searched.store(true, Ordering::Relaxed);
        (&self.runs, &self.puts, &self.marks)
    }

    /// All as one run.
    pub(crate) fn into_run(mut self) -> Run<R> {
        self.sort();
        let rules = self.rules.unsearched();
        let all = self.runs.into_iter().rev().reduce(|newer, older| newer.over(&older, rules));
        all.unwrap_or_else(|| Run::new(Vec::new(), Vec::new(), rules)).prepared(self.rules)
    }
}

/// Leading bits of filtered sets are hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The row of a document in the key directory.
pub(crate) fn key_row(hash: u64, number: DocumentNumber) -> u128 {
    u128::from(hash) << 64 | u128::from(number.0)
}

/// The row of a document among the postings.
pub(crate) fn posting_row(fingerprint: Fingerprint, scope: ScopeNumber, number: DocumentNumber) -> u128 {
    u128::from(fingerprint.bits()) << 64 | u128::from(scope.0) << 40 | u128::from(number.0)
}

/// What operations do to each sorted set.
#[derive(Debug)]
pub(crate) struct Overlays {
    /// Keys and postings.
    pub(crate) wide: [Overlay<u128>; 2],
    /// Dead documents, then the permuted tables.
    pub(crate) narrow: Vec<Overlay<u64>>,
}

impl Overlays {
    pub(crate) fn new(plan: &Plan) -> Self {
        let permuted = plan.tables().iter().map(|_| Overlay::new(Rules::REPEATED));
        Self {
            wide: [Overlay::new(Rules::ONCE_FILTERED), Overlay::new(Rules::ONCE)],
            narrow: std::iter::once(Overlay::new(Rules::ONCE)).chain(permuted).collect(),
        }
    }

    /// Puts and marks the rows of an operation.
    pub(crate) fn apply(&mut self, operation: &Operation, plan: &Plan) {
        let Operation { change, number, key_hash, fingerprint, scope } = *operation;
        let [keys, postings] = &mut self.wide;
        let put = change == Change::Put;
        let set = |overlay: &mut Overlay<u128>, row| if put { overlay.put(row) } else { overlay.mark(row) };
        set(keys, key_row(key_hash, number));
        if let Change::Remove { never_stored: false, .. } = change {
            self.narrow[0].put(number.0);
        }
        let Some(fingerprint) = fingerprint else { return };
        for scope in scope.listing() {
            set(postings, posting_row(fingerprint, scope, number));
        }
        let gone = matches!(change, Change::Remove { fingerprint_gone: true, .. });
        if put || gone {
            for (overlay, table) in self.narrow[1..].iter_mut().zip(plan.tables()) {
                let row = table.permutation.apply(fingerprint).bits();
                if put { overlay.put(row) } else { overlay.mark(row) }
            }
        }
    }

    /// Sorts the rows of the permuted tables.
    pub(crate) fn sort(&mut self) {
        self.narrow[1..].iter_mut().for_each(Overlay::sort);
    }

    /// A run for each set.
    pub(crate) fn into_runs(self) -> Runs {
        Runs {
            wide: self.wide.map(Overlay::into_run),
            narrow: self.narrow.into_iter().map(Overlay::into_run).collect(),
        }
    }
}

/// A run for each set.
pub(crate) struct Runs {
    pub(crate) wide: [Run<u128>; 2],
    pub(crate) narrow: Vec<Run<u64>>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// What is left of a sequence of puts (true) and marks, by the rule of each life.
    fn expected(sequence: &[(u64, bool)], life: Life) -> BTreeMap<u64, bool> {
        let mut rows = BTreeMap::new();
        for &(row, put) in sequence {
            let before = rows.insert(row, put);
            if life == Life::Once && !put && before == Some(true) {
                rows.remove(&row);
            }
        }
        rows
    }

    fn found(run: &Run<u64>) -> BTreeMap<u64, bool> {
        let puts = run.puts().iter().map(|&row| (row, true));
        puts.chain(run.marks().iter().map(|&row| (row, false))).collect()
    }

    proptest! {
        #[test]
        fn an_overlay_is_what_its_sequence_leaves(
            sequence in prop::collection::vec((0..90u64, any::<bool>()), 0..900),
        ) {
            let mut overlay = Overlay::new(Rules::REPEATED);
            for &(row, put) in &sequence {
                if put { overlay.put(row) } else { overlay.mark(row) }
            }
            prop_assert_eq!(found(&overlay.into_run()), expected(&sequence, Life::Repeated));
        }

        #[test]
        fn rows_that_live_once_vanish_with_their_mark(
            deleted in prop::collection::vec(any::<prop::sample::Index>(), 0..300), count in 1..500u64,
        ) {
            let mut overlay = Overlay::new(Rules::ONCE_FILTERED);
            let mut marked: Vec<u64> = deleted.iter().map(|it| it.index(count as usize * 2) as u64).collect();
            marked.sort_unstable();
            marked.dedup();
            (0..count).for_each(|row| overlay.put(row));
            marked.iter().for_each(|&row| overlay.mark(row));
            let sequence: Vec<_> =
                (0..count).map(|row| (row, true)).chain(marked.iter().map(|&row| (row, false))).collect();
            prop_assert_eq!(found(&overlay.into_run()), expected(&sequence, Life::Once));
        }
    }
}
