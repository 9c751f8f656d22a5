//! State: what the file holds at one commit, as far as it is kept in memory: sorted sets, directories, counters.

use std::ops::Range;
use std::sync::Arc;

use crate::plan::Plan;
use crate::store::blocks::cache::Hint;
use crate::store::blocks::envelope::{self as codec, Fields, Kind, Problem};
use crate::store::blocks::filter::Filter;
use crate::store::blocks::packed::{Packed, Row};
use crate::store::blocks::reader::CachedRow;
use crate::store::file::meta::Counters;
use crate::store::file::written::{BlockBytes, SpilledBlock};
use crate::store::sorted_set::chunk::{ChunkKey, Entry};
use crate::store::sorted_set::level::{Level, Place, Splice};
use crate::store::sorted_set::overlay::Runs;
use crate::store::sorted_set::reader::{Slot, SortedSet};
use crate::store::sorted_set::run::Rules;

/// What the file holds at one commit.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) counters: Counters,
    pub(crate) sets: Sets,
    /// The directory of the blocks of documents; its rows are document numbers.
    pub(crate) documents: Arc<Level<u64>>,
    /// The number of the next block; numbers are never used again.
    pub(crate) next_block: u64,
    /// The pages of the log: from the first that is there to the next that is written.
    pub(crate) first_page: u64,
    pub(crate) next_page: u64,
    /// Pages before this one are in the frozen runs, the others in the recent runs.
    pub(crate) frozen_pages: u64,
    /// How many operations the pages of the recent runs have.
    pub(crate) recent_operations: u64,
}

/// All sorted sets.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Keys: hash, 0, document. Postings: fingerprint, scope, document.
    wide: [SortedSet<u128>; 2],
    /// Numbers of dead documents whose bytes are still in their block; then the permuted tables.
    narrow: Vec<SortedSet<u64>>,
}

/// The name of a sorted set, and its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetNumber {
    Wide(usize),
    Narrow(usize),
}

impl SetNumber {
    /// Where the directory of a level of the set is stored.
    pub(crate) fn place(self, level: u8) -> u16 {
        let set = match self {
            Self::Wide(set) => set,
            Self::Narrow(set) => set + 2,
        };
        (set as u16) << 8 | u16::from(level)
    }
}

/// Where the directory of the documents is stored.
pub(crate) const DOCUMENTS_PLACE: u16 = 0xff00;

impl Sets {
    fn new(plan: &Plan) -> Self {
        let permuted = plan.tables().iter().map(|_| SortedSet::new("permuted", Rules::REPEATED));
        let keys = SortedSet::new("keys", Rules::ONCE_FILTERED);
        Self {
            wide: [keys, SortedSet::new("postings", Rules::ONCE)],
            narrow: std::iter::once(SortedSet::new("dead", Rules::ONCE)).chain(permuted).collect(),
        }
    }

    pub(crate) fn keys(&self) -> &SortedSet<u128> {
        &self.wide[0]
    }

    pub(crate) fn postings(&self) -> &SortedSet<u128> {
        &self.wide[1]
    }

    pub(crate) fn dead(&self) -> &SortedSet<u64> {
        &self.narrow[0]
    }

    pub(crate) fn permuted(&self, table: usize) -> &SortedSet<u64> {
        &self.narrow[1 + table]
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = SetNumber> + use<> {
        (0..2).map(SetNumber::Wide).chain((0..self.narrow.len()).map(SetNumber::Narrow))
    }

    /// How much memory the directories take.
    fn directory_bytes(&self) -> usize {
        fn bytes<R: Row>(set: &SortedSet<R>) -> usize {
            set.levels.iter().map(|slot| slot.level.memory_bytes()).sum()
        }
        self.wide.iter().map(bytes).sum::<usize>() + self.narrow.iter().map(bytes).sum::<usize>()
    }

    /// Adds what a transaction wrote.
    pub(crate) fn push(&mut self, runs: Runs) {
        self.wide.iter_mut().zip(runs.wide).for_each(|(set, run)| set.push(run));
        self.narrow.iter_mut().zip(runs.narrow).for_each(|(set, run)| set.push(run));
    }

    /// Makes the recent runs of all sets the frozen ones.
    pub(crate) fn freeze(&mut self) {
        self.wide.iter_mut().for_each(SortedSet::freeze);
        self.narrow.iter_mut().for_each(SortedSet::freeze);
    }

    /// The rows of the largest set that are recent.
    pub(crate) fn recent_rows(&self) -> usize {
        fn rows<R: Row>(set: &SortedSet<R>) -> usize {
            set.recent.iter().map(crate::store::sorted_set::run::Run::len).sum()
        }
        self.wide.iter().map(rows).chain(self.narrow.iter().map(rows)).max().unwrap_or(0)
    }

    /// Whether a set still has frozen rows.
    pub(crate) fn any_frozen(&self) -> bool {
        self.wide.iter().any(|set| set.frozen.is_some()) || self.narrow.iter().any(|set| set.frozen.is_some())
    }

    /// How many rows a set has, put or marked.
    pub(crate) fn rows(&self, number: SetNumber) -> u64 {
        let (puts, marks) = match number {
            SetNumber::Wide(set) => self.wide[set].rows(),
            SetNumber::Narrow(set) => self.narrow[set].rows(),
        };
        puts + marks
    }

    /// How many blocks the sets have, as if the rows in memory were packed too.
    pub(crate) fn blocks(&self, block_bytes: usize) -> u64 {
        fn blocks<R: Row>(set: &SortedSet<R>, block_bytes: usize) -> u64 {
            let memory: usize =
                set.recent.iter().chain(&set.frozen).map(crate::store::sorted_set::run::Run::len).sum();
            let levels: usize = set.levels.iter().map(|slot| slot.level.blocks()).sum();
            (levels + memory * R::BYTES / block_bytes + 1) as u64
        }
        let wide = self.wide.iter().map(|set| blocks(set, block_bytes));
        wide.chain(self.narrow.iter().map(|set| blocks(set, block_bytes))).sum()
    }

    /// The greatest number of levels of a set, and how many marks all sets have.
    pub(crate) fn levels_and_marks(&self) -> (u32, u64) {
        let wide = self.wide.iter().map(|set| (set.levels.len() as u32, set.rows().1));
        let narrow = self.narrow.iter().map(|set| (set.levels.len() as u32, set.rows().1));
        wide.chain(narrow).fold((0, 0), |sum, it| (sum.0.max(it.0), sum.1 + it.1))
    }
}

/// Rows of which there are sets.
pub(crate) trait SetRow: CachedRow {
    /// The set of a number, which has to be one of these rows.
    fn set(sets: &Sets, set: SetNumber) -> &SortedSet<Self>;
    fn set_mut(sets: &mut Sets, set: SetNumber) -> &mut SortedSet<Self>;
}

impl SetRow for u64 {
    fn set(sets: &Sets, set: SetNumber) -> &SortedSet<Self> {
        match set {
            SetNumber::Narrow(set) => &sets.narrow[set],
            SetNumber::Wide(_) => unreachable!("the set has wide rows"),
        }
    }

    fn set_mut(sets: &mut Sets, set: SetNumber) -> &mut SortedSet<Self> {
        match set {
            SetNumber::Narrow(set) => &mut sets.narrow[set],
            SetNumber::Wide(_) => unreachable!("the set has wide rows"),
        }
    }
}

impl SetRow for u128 {
    fn set(sets: &Sets, set: SetNumber) -> &SortedSet<Self> {
        match set {
            SetNumber::Wide(set) => &sets.wide[set],
            SetNumber::Narrow(_) => unreachable!("the set has narrow rows"),
        }
    }

    fn set_mut(sets: &mut Sets, set: SetNumber) -> &mut SortedSet<Self> {
        match set {
            SetNumber::Wide(set) => &mut sets.wide[set],
            SetNumber::Narrow(_) => unreachable!("the set has narrow rows"),
        }
    }
}

/// A change of the file on its way: the next state, and the rows of the tables that lead to it.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) state: State,
    pub(crate) blocks: Vec<(u64, BlockBytes)>,
    pub(crate) removed_blocks: Vec<u64>,
    pub(crate) chunks: Vec<(ChunkKey, Vec<u8>)>,
    pub(crate) removed_chunks: Vec<ChunkKey>,
    pub(crate) log: Vec<(u64, Vec<u8>)>,
    /// Whether pages before the first of the state are to go.
    pub(crate) drops_log: bool,
    pub(crate) scopes: Vec<(String, Vec<u8>)>,
}

impl Edit {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            blocks: Vec::new(),
            removed_blocks: Vec::new(),
            chunks: Vec::new(),
            removed_chunks: Vec::new(),
            log: Vec::new(),
            drops_log: false,
            scopes: Vec::new(),
        }
    }

    /// Makes the recent runs the frozen ones.
    pub(crate) fn freeze(&mut self) {
        self.state.sets.freeze();
        self.state.frozen_pages = self.state.next_page;
        self.state.recent_operations = 0;
        self.drop_log();
    }

    /// Lets the pages of the log go that are in no run any more.
    pub(crate) fn drop_log(&mut self) {
        if !self.state.sets.any_frozen() && self.state.first_page < self.state.frozen_pages {
            self.state.first_page = self.state.frozen_pages;
            self.drops_log = true;
        }
    }

    /// Gives a new block its number.
    pub(crate) fn add_block<R: Row>(&mut self, block: Packed<R>) -> (Entry<R>, Filter) {
        let Packed { bytes, digest, high, puts, marks, filter } = block;
        let id = self.add_bytes(BlockBytes::Here(bytes));
        (Entry { high, id, digest, puts, marks, hint: Hint::default() }, filter)
    }

    /// Gives a block of documents that waits outside memory its number.
    pub(crate) fn add_spilled(&mut self, block: SpilledBlock) -> (Entry<u64>, Filter) {
        let SpilledBlock { bytes, digest, high, documents } = block;
        let id = self.add_bytes(BlockBytes::Spilled(bytes));
        (Entry { high, id, digest, puts: documents, marks: 0, hint: Hint::default() }, Filter::default())
    }

    fn add_bytes(&mut self, bytes: BlockBytes) -> u64 {
        let id = self.state.next_block;
        self.state.next_block += 1;
        self.blocks.push((id, bytes));
        id
    }

    /// The level with new blocks in the place of others.
    pub(crate) fn replace<R: Row>(
        &mut self,
        place: u16,
        level: &Level<R>,
        old: Range<Place>,
        new: Vec<Packed<R>>,
        chunk_entries: usize,
    ) -> Arc<Level<R>> {
        let new: Vec<_> = new.into_iter().map(|block| self.add_block(block)).collect();
        self.replace_entries(place, level, old, &new, chunk_entries)
    }

    /// The level with blocks that have their numbers in the place of others.
    pub(crate) fn replace_entries<R: Row>(
        &mut self,
        place: u16,
        level: &Level<R>,
        old: Range<Place>,
        new: &[(Entry<R>, Filter)],
        chunk_entries: usize,
    ) -> Arc<Level<R>> {
        self.removed_blocks.extend(level.entries(old.clone()).map(|entry| entry.id));
        self.take(level.splice(place, old, new, chunk_entries))
    }

    /// Makes the change of a directory part of the edit.
    fn take<R>(&mut self, splice: Splice<R>) -> Arc<Level<R>> {
        self.removed_chunks.extend(splice.removed);
        self.chunks.extend(splice.written);
        Arc::new(splice.level)
    }
}

/// How a level is to be read, before its directory is.
#[derive(Debug)]
pub(crate) struct StoredLevel {
    pub(crate) number: u8,
    pub(crate) next: u128,
    pub(crate) sum: u64,
}

/// What the state record says of a set.
#[derive(Debug)]
pub(crate) struct StoredSet {
    /// From which row on the frozen run is not in the first level yet; `None` if it has none.
    pub(crate) frozen_from: Option<u128>,
    pub(crate) levels: Vec<StoredLevel>,
}

/// What the state record says.
#[derive(Debug)]
pub(crate) struct StoredState {
    pub(crate) state: State,
    pub(crate) documents_sum: u64,
    /// In the order of [`Sets::numbers`].
    pub(crate) sets: Vec<StoredSet>,
}

impl State {
    /// The state of an empty file.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            counters: Counters::NEW,
            sets: Sets::new(plan),
            documents: Arc::new(Level::empty()),
            next_block: 1,
            first_page: 1,
            next_page: 1,
            frozen_pages: 1,
            recent_operations: 0,
        }
    }

    /// Whether the recent runs have so many rows that they are to be frozen, and nothing is; or the log is that long, where
    /// operations have cancelled each other.
    pub(crate) fn is_freezing_due(&self, least_rows: usize) -> bool {
        let long = self.sets.recent_rows() >= least_rows || self.recent_operations >= 4 * least_rows as u64;
        long && !self.sets.any_frozen()
    }

    /// How much memory the directories take.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.sets.directory_bytes() + self.documents.memory_bytes()
    }

    /// Grows with every transaction that is committed.
    pub(crate) fn position(&self) -> u64 {
        self.next_page
    }

    pub(crate) fn encode(&self, row: u64) -> Vec<u8> {
        codec::seal(Kind::State, row, |bytes| {
            self.counters.encode(bytes);
            for number in [self.next_block, self.first_page, self.next_page, self.frozen_pages] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(self.documents.sum().to_le_bytes());
            self.sets.wide.iter().for_each(|set| encode_set(set, bytes));
            self.sets.narrow.iter().for_each(|set| encode_set(set, bytes));
        })
    }

    /// Reads the record back; levels and runs are still empty.
    pub(crate) fn decode(plan: &Plan, row: u64, bytes: &[u8]) -> Result<StoredState, Problem> {
        let mut fields = Fields(codec::unseal(Kind::State, row, bytes)?);
        let mut state = Self::new(plan);
        state.counters = Counters::decode(&mut fields)?;
        state.next_block = u64::from_le_bytes(fields.take()?);
        state.first_page = u64::from_le_bytes(fields.take()?);
        state.next_page = u64::from_le_bytes(fields.take()?);
        state.frozen_pages = u64::from_le_bytes(fields.take()?);
        if !(state.first_page <= state.frozen_pages && state.frozen_pages <= state.next_page) {
            return Err("its pages are out of order");
        }
        let documents_sum = u64::from_le_bytes(fields.take()?);
        let sets = state.sets.numbers().map(|_| decode_set(&mut fields)).collect::<Result<_, _>>()?;
        fields.finish()?;
        Ok(StoredState { state, documents_sum, sets })
    }
}

fn encode_set<R: Row>(set: &SortedSet<R>, bytes: &mut Vec<u8>) {
    // The first row that is left is as good as the last that was taken.
    let frozen_from = set.frozen.as_ref().map(|run| {
        let first = [run.puts().first(), run.marks().first()].into_iter().flatten().min();
        first.map_or(u128::MAX, |row| row.number())
    });
    bytes.push(u8::from(frozen_from.is_some()));
    bytes.extend(frozen_from.unwrap_or(0).to_le_bytes());
    bytes.push(set.levels.len() as u8);
    for slot in &set.levels {
        bytes.push(slot.number);
        bytes.extend(slot.next.number().to_le_bytes());
        bytes.extend(slot.level.sum().to_le_bytes());
    }
}

fn decode_set(fields: &mut Fields<'_>) -> Result<StoredSet, Problem> {
    let [has_frozen] = fields.take()?;
    let frozen_from = u128::from_le_bytes(fields.take()?);
    let [count] = fields.take()?;
    let levels = (0..count)
        .map(|_| {
            let [number] = fields.take()?;
            let next = u128::from_le_bytes(fields.take()?);
            Ok(StoredLevel { number, next, sum: u64::from_le_bytes(fields.take()?) })
        })
        .collect::<Result<_, Problem>>()?;
    Ok(StoredSet { frozen_from: (has_frozen != 0).then_some(frozen_from), levels })
}

/// An empty level in a set that has none of its number.
pub(crate) fn new_slot<R: Row>(set: &SortedSet<R>) -> Slot<R> {
    let taken = |number: &u8| set.levels.iter().any(|slot| slot.number == *number);
    let number = (0..=u8::MAX).find(|number| !taken(number)).expect("a set has a handful of levels");
    Slot { number, next: R::MIN, level: Arc::new(Level::empty()) }
}
