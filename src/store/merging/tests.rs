//! Tests of merges in memory, with tiny blocks, against a `BTreeMap`. After every step, every set has the
//! rows it had.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::due::{self, Pause, Work};
use super::fold::fold;
use super::reclaim::{self, Look, Sweep};
use super::step;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::Plan;
use crate::store::blocks::{Blocks, DocumentBlock, MemoryBlocks, Packed, pack_documents};
use crate::store::engine::{LevelChange, LevelName};
use crate::store::file::{
    Change, DEAD, DOCUMENTS, Edit, KEYS, Operation, Overlays, POSTINGS, Set, SetRow, State, by_row,
    key_row, permuted, posting_row, runs_of,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{Level, SetReader};

const SIZES: Sizes = Sizes {
    recent_operations: 12,
    short_rows: 2,
    block_bytes: 128,
    document_block_bytes: 200,
    chunk_entries: 3,
    step_blocks: 2,
    part_rows: 50,
    compared_per_query: 0,
    spill_bytes: 1 << 20,
};

/// A file in memory: a state, and blocks. Chunks and the log are only written, never read.
struct MemoryFile {
    plan: Plan,
    state: State,
    memory: MemoryBlocks,
}

impl MemoryFile {
    fn new() -> Self {
        let plan = "2x32".parse::<Plan>().expect("a plan");
        let state = State::new(&plan);
        Self {
            plan,
            state,
            memory: MemoryBlocks::default(),
        }
    }

    /// Commits an edit as the engine would.
    fn commit(&mut self, change: impl FnOnce(&mut Edit, &Blocks) -> Result<()>) -> Result<()> {
        let blocks = self.memory.blocks();
        let mut edit = Edit::new(self.state.clone(), blocks.file(), &SIZES);
        change(&mut edit, &blocks)?;
        for LevelChange {
            level,
            removed,
            added,
            chunks,
            ..
        } in edit.changes.levels
        {
            if let (Some(&first), Some(&last)) = (removed.first(), removed.last()) {
                self.memory.remove(level, first..=last, removed.len());
            }
            for (last, bytes) in added {
                self.memory.store(
                    level,
                    last,
                    bytes.load().expect("it is in memory").into_owned(),
                );
            }
            self.memory.replace_chunks(level, chunks);
        }
        self.state = edit.state;
        Ok(())
    }

    /// Commits operations, and the documents that they put. Many operations do not go through the log.
    fn transact(&mut self, operations: &[Operation]) -> Result<()> {
        let mut overlays = Overlays::new(&self.plan);
        operations
            .iter()
            .for_each(|it| overlays.apply(it, &self.plan));
        let is_long = operations.len() > 2 * SIZES.recent_operations;
        if is_long {
            while !due::has_room_for_levels(&self.state) {
                assert!(self.merge(&mut Sweep::default())?, "no level becomes free");
            }
        }
        let mut documents = DocumentBlock::default();
        for it in operations.iter().filter(|it| it.change == Change::Put) {
            documents.push(it.number.0, &document(it.number.0));
        }
        let generation = self.state.generation();
        let state = self.state.clone();
        self.commit(|edit, blocks| {
            if is_long {
                fold(overlays, &state, blocks, &SIZES)?(edit, blocks)?;
            } else {
                edit.append(operations, overlays.into_runs());
            }
            let refs: Vec<_> = documents.documents().collect();
            let level = edit.state.documents.clone();
            let packed = pack_documents(&refs, SIZES.document_block_bytes, edit.file());
            let end = level.end()..level.end();
            edit.state.documents = edit.replace(DOCUMENTS, &level, end, packed, blocks)?;
            Ok(())
        })?;
        assert!(
            self.state.generation() > generation || operations.is_empty(),
            "two commits look alike"
        );
        Ok(())
    }

    /// The rows of a set.
    fn rows<R: SetRow>(&self, set: Set<R>) -> Result<Vec<R>> {
        let blocks = self.memory.blocks();
        let reader = SetReader::new(&self.state.sets[set], blocks.of_table(set.table()));
        let mut rows = Vec::new();
        reader.each(|row| rows.push(row))?;
        Ok(rows)
    }

    /// Does one step of the most urgent work, as the merging thread does. False if nothing is due.
    fn merge(&mut self, sweep: &mut Sweep) -> Result<bool> {
        match due::next_work(&self.state, &SIZES, Pause::None) {
            Some(Work::Freezing) => {
                self.freeze()?;
                return Ok(true);
            }
            Some(Work::Runs(sets)) => {
                for any in sets {
                    by_row!(any, set => {
                        let merged = self.state.sets[set].merged_runs(SIZES.short_rows, false).expect("runs to merge");
                        self.state.sets[set].replace_runs(merged);
                    });
                }
                return Ok(true);
            }
            Some(Work::Steps(tasks)) => {
                let (set, source) = tasks[0];
                let blocks = self.memory.blocks();
                let sets = &self.state.sets;
                let step = by_row!(set, set => step::prepare(sets, set, source, &blocks, &SIZES)?);
                self.commit(step.apply)?;
                return Ok(true);
            }
            Some(Work::OldPages) => {
                self.commit(|edit, _| {
                    edit.drop_log();
                    Ok(())
                })?;
                return Ok(true);
            }
            None => {}
        }
        let blocks = self.memory.blocks();
        match reclaim::prepare(&self.state, &blocks, sweep, &SIZES)? {
            Look::Found(apply) => {
                self.commit(apply)?;
            }
            Look::NothingYet => {}
            Look::Done => return Ok(false),
        }
        Ok(true)
    }

    /// Folds the log, as whoever closes the file does.
    fn fold(&mut self) -> Result<()> {
        let state = self.state.clone();
        let nothing = Overlays::new(&self.plan);
        self.commit(|edit, blocks| fold(nothing, &state, blocks, &SIZES)?(edit, blocks))
    }

    fn freeze(&mut self) -> Result<()> {
        self.commit(|edit, _| {
            edit.freeze();
            Ok(())
        })
    }

    /// The numbers of all documents in blocks, dead or not.
    fn stored(&self) -> Result<Vec<u64>> {
        let blocks = self.memory.blocks();
        let documents = &self.state.documents;
        let mut numbers = Vec::new();
        let blocks = blocks.of_table(DOCUMENTS.table);
        for entry in documents.entries(documents.all(), blocks)? {
            let block = blocks.documents_once(entry)?;
            numbers.extend(block.documents().map(|it| it.number));
        }
        Ok(numbers)
    }
}

fn document(number: u64) -> Document {
    Document::new(
        format!("key {number}"),
        Fingerprint::from_bits(bits(number)),
    )
    .with_seen(0)
}

/// Some fingerprints are shared.
fn bits(number: u64) -> u64 {
    (number % 37).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn operation(change: Change, number: u64) -> Operation {
    Operation {
        change,
        number: DocumentNumber(number),
        key_hash: number.wrapping_mul(0xd6e8_feb8_6659_fd93),
        fingerprint: Some(Fingerprint::from_bits(bits(number))),
        scope: ScopeNumber::EMPTY,
    }
}

/// What the sets must hold: documents by number.
#[derive(Default)]
struct Model {
    live: BTreeMap<u64, ()>,
    removed: Vec<u64>,
    next: u64,
}

impl Model {
    /// Puts some documents, and removes some that were there before.
    fn transact(&mut self, puts: u64, removes: &[prop::sample::Index]) -> Vec<Operation> {
        let mut operations = Vec::new();
        for index in removes {
            let live: Vec<u64> = self.live.keys().copied().collect();
            if live.is_empty() {
                continue;
            }
            let number = live[index.index(live.len())];
            self.removed.push(number);
            operations.push(self.remove(number, false));
        }
        for _ in 0..puts {
            self.next += 1;
            self.live.insert(self.next, ());
            operations.push(operation(Change::Put, self.next));
        }
        operations
    }

    /// Removes a document.
    fn remove(&mut self, number: u64, unstored: bool) -> Operation {
        self.live.remove(&number);
        let fingerprint_gone = self.live.keys().all(|&other| bits(other) != bits(number));
        let change = Change::Remove {
            fingerprint_gone,
            unstored,
        };
        operation(change, number)
    }

    fn agree(&self, file: &MemoryFile) -> Result<()> {
        let operations = || {
            self.live
                .keys()
                .map(|&number| operation(Change::Put, number))
        };
        let sorted = |mut rows: Vec<u128>| {
            rows.sort_unstable();
            rows
        };
        let keys = sorted(
            operations()
                .map(|it| key_row(it.key_hash, it.number))
                .collect(),
        );
        assert_eq!(file.rows(KEYS)?, keys);
        let fingerprint = |it: &Operation| it.fingerprint.expect("every document has one");
        let postings = sorted(
            operations()
                .map(|it| posting_row(fingerprint(&it), it.scope, it.number))
                .collect(),
        );
        assert_eq!(file.rows(POSTINGS)?, postings);
        for (table, of) in file.plan.tables().iter().enumerate() {
            let mut rows: Vec<u64> = operations()
                .map(|it| of.apply(fingerprint(&it)).bits())
                .collect();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(file.rows(permuted(table))?, rows, "table {table}");
        }
        // A document is dead if it was removed and its bytes are still there.
        let stored = file.stored()?;
        assert!(stored.is_sorted(), "{stored:?}");
        let dead: Vec<u64> = stored
            .iter()
            .copied()
            .filter(|it| !self.live.contains_key(it))
            .collect();
        assert_eq!(file.rows(DEAD)?, dead);
        assert_eq!(stored.len(), dead.len() + self.live.len());
        Ok(())
    }
}

/// The levels of all sets have exactly the blocks that there are.
fn assert_whole(file: &MemoryFile) {
    fn places_of<R: SetRow>(
        name: LevelName,
        level: &Level<R>,
        blocks: &Blocks,
    ) -> Vec<(u16, u128)> {
        let entries = level
            .entries(level.all(), blocks.of_table(name.table))
            .expect("all is in memory");
        entries
            .map(move |entry| (name.id(), entry.high.number()))
            .collect()
    }
    let blocks = file.memory.blocks();
    let mut places: Vec<(u16, u128)> = Vec::new();
    for set in file.state.sets.sets() {
        by_row!(set, set => {
            for it in &file.state.sets[set].levels {
                places.extend(places_of(set.level(it.level.number), &it.level, &blocks));
            }
        });
    }
    places.extend(places_of(DOCUMENTS, &file.state.documents, &blocks));
    places.sort_unstable();
    assert_eq!(places, file.memory.places());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn merges_move_rows_and_lose_none(
        transactions in prop::collection::vec(
            // Half of the transactions are too long for the log. Some of them are the last before the file is closed.
            (0..40u64, prop::collection::vec(any::<prop::sample::Index>(), 0..20), 0..60usize, any::<bool>()), 1..25),
    ) {
        let mut file = MemoryFile::new();
        let mut model = Model::default();
        let mut sweep = Sweep::default();
        let fails = |error: crate::Error| TestCaseError::fail(error.to_string());
        for (puts, removes, steps, closes) in transactions {
            file.transact(&model.transact(puts, &removes)).map_err(fails)?;
            // The merges may be behind when the next transaction comes, or done.
            for _ in 0..steps {
                if !file.merge(&mut sweep).map_err(fails)? {
                    break;
                }
                model.agree(&file).map_err(fails)?;
            }
            if closes {
                file.fold().map_err(fails)?;
                prop_assert!(file.state.is_log_empty() && !file.state.sets.any_frozen());
            }
            model.agree(&file).map_err(fails)?;
            assert_whole(&file);
        }
        let mut steps = 0;
        while file.merge(&mut sweep).map_err(fails)? {
            steps += 1;
            prop_assert!(steps < 10_000, "merges do not come to an end");
        }
        model.agree(&file).map_err(fails)?;
        assert_whole(&file);
    }
}

#[test]
fn sets_grow_into_levels_and_the_space_of_the_dead_is_reclaimed() -> Result<()> {
    let mut file = MemoryFile::new();
    let mut model = Model::default();
    let mut sweep = Sweep::default();
    for _ in 0..60 {
        file.transact(&model.transact(20, &[]))?;
        file.transact(&model.transact(20, &[]))?;
        while file.merge(&mut sweep)? {}
    }
    model.agree(&file)?;
    let levels = file
        .state
        .sets
        .iter()
        .map(|set| by_row!(set, set => set.levels.len()))
        .max();
    assert!(levels > Some(1), "{levels:?}");
    // Two of three documents go, in the order of their numbers.
    let live: Vec<u64> = model.live.keys().copied().collect();
    for numbers in live.chunks(60) {
        let mut operations = Vec::new();
        for &number in numbers.iter().filter(|number| **number % 3 != 0) {
            operations.push(model.remove(number, false));
        }
        file.transact(&operations)?;
        while file.merge(&mut sweep)? {}
    }
    // A quarter of the recent rows' limit may wait in memory, and the last block of documents still grows.
    model.agree(&file)?;
    assert!(
        file.rows(DEAD)?.len() < 400,
        "{} are dead",
        file.rows(DEAD)?.len()
    );
    assert_whole(&file);
    Ok(())
}

/// An expiry takes a block of documents out of the file, and marks the numbers of its dead documents. Until the marks
/// have come down, these numbers stay, also when the blocks around are written anew. Otherwise the marks would mark
/// nothing, and be counted against other numbers.
#[test]
fn numbers_of_a_block_that_an_expiry_took_out_stay_until_their_marks_have_come() -> Result<()> {
    let mut file = MemoryFile::new();
    let mut model = Model::default();
    for _ in 0..6 {
        file.transact(&model.transact(20, &[]))?;
    }
    let mut removals = Vec::new();
    for number in (1..=120).filter(|number| number % 3 != 0) {
        removals.push(model.remove(number, false));
    }
    file.transact(&removals)?;
    let documents = file.state.documents.clone();
    let blocks = file.memory.blocks();
    let of = blocks.of_table(DOCUMENTS.table);
    let highs = documents.entries(documents.all(), of)?;
    let highs: Vec<u64> = highs.map(|entry| entry.high).collect();
    let taken = highs[2];
    let mut operations = Vec::new();
    for number in highs[1] + 1..=taken {
        operations.push(match model.live.contains_key(&number) {
            true => model.remove(number, true),
            false => Operation::forget(DocumentNumber(number)),
        });
    }
    let runs = runs_of(&operations, &file.plan);
    file.commit(|edit, blocks| {
        edit.append(&operations, runs);
        let of = blocks.of_table(DOCUMENTS.table);
        let positions = documents.overlapping(&(taken..=taken), of)?;
        let none: Vec<Packed<u64>> = Vec::new();
        edit.state.documents = edit.replace(DOCUMENTS, &documents, positions, none, blocks)?;
        Ok(())
    })?;
    let mut sweep = Sweep::default();
    let mut rewritten = 0;
    loop {
        match reclaim::prepare(&file.state, &file.memory.blocks(), &mut sweep, &SIZES)? {
            Look::Found(found) => {
                file.commit(found)?;
                rewritten += 1;
            }
            Look::NothingYet => {}
            Look::Done => break,
        }
    }
    assert!(rewritten > 1, "{rewritten} parts were written anew");
    let (puts, marks) = file.state.sets[DEAD].rows();
    assert!(marks > 0, "the marks have come down already");
    assert_eq!(puts - marks, file.rows(DEAD)?.len() as u64);
    model.agree(&file)?;
    file.fold()?;
    model.agree(&file)?;
    assert_whole(&file);
    Ok(())
}

/// If fewer than twenty documents were stored, a walk that had found nothing was begun again and again.
/// The merging thread never slept.
#[test]
fn a_walk_that_finds_nothing_is_not_repeated() -> Result<()> {
    let mut file = MemoryFile::new();
    let mut model = Model::default();
    let mut sweep = Sweep::default();
    file.transact(&model.transact(12, &[]))?;
    while file.merge(&mut sweep)? {}
    // No block is more than a third dead, except the last, which still grows.
    file.transact(&[1, 6, 12].map(|number| model.remove(number, false)))?;
    file.freeze()?;
    let mut steps = 0;
    while file.merge(&mut sweep)? {
        steps += 1;
        assert!(steps < 1_000, "merges do not come to an end");
    }
    assert_eq!(file.rows(DEAD)?, [1, 6, 12]);
    model.agree(&file)
}

/// A level of few rows is never too large. Such levels of transactions that put few different rows stayed
/// above each other, and the next transaction waited for ever for room.
#[test]
fn small_levels_of_large_transactions_are_merged_when_they_are_too_many() -> Result<()> {
    let mut file = MemoryFile::new();
    let mut model = Model::default();
    let mut sweep = Sweep::default();
    let levels = |file: &MemoryFile| file.state.sets.levels_and_marks().0 as usize;
    let mut most = 0;
    for round in 0..30 {
        // The documents of all transactions have the same 37 fingerprints. Half of them are removed again.
        let removes: Vec<u64> = model
            .live
            .keys()
            .copied()
            .filter(|it| it % 2 == round % 2)
            .collect();
        let mut operations = Vec::new();
        for number in removes {
            operations.push(model.remove(number, false));
        }
        operations.extend(model.transact(40, &[]));
        file.transact(&operations)?;
        model.agree(&file)?;
        assert_whole(&file);
        most = most.max(levels(&file));
        assert!(file.state.is_log_empty());
    }
    assert!(most <= due::MOST_LEVELS + 1, "{most} levels");
    while file.merge(&mut sweep)? {}
    assert!(levels(&file) <= due::MOST_LEVELS);
    model.agree(&file)
}
