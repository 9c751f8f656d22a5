//! State: the part of a commit that is kept in memory: sorted sets, directories, counters. Edit: a change of the
//! file that is not committed yet, with the next state.
//!
//! The state also says which pages the log has. A page stays until all sets have its rows in their levels. An
//! operation takes 25 bytes, and a page has up to 162 operations. Pages are numbered one after the other.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::meta::{Counters, FORMAT, SETTINGS, Settings, encode_format, encode_settings};
use super::names::KnownNames;
use super::operation::{Operation, Runs, Sets, runs_of};
use super::schema::{DOCUMENTS, Set, SetRow, block_tables, by_row};
use crate::error::{Error, Result};
use crate::files::NewFile;
use crate::plan::Plan;
use crate::planted::planted;
use crate::store::blocks::{
    BlockId, Blocks, Fields, FileSeed, HEADER_BYTES, Kind, Packed, Problem, Row, seal,
    share_of_sum, unseal,
};
use crate::store::engine::{
    BlockBytes, BlockTable, Changes, Engine, LevelChange, LevelName, MetaRow, Tables,
};
use crate::store::sizes::{PAGE_BYTES, Sizes};
use crate::store::sorted_set::{Level, NewBlock, Position, SetLevel, SortedSet, StoredDirectory};

/// The most pages of the log that a commit removes. To remove one takes some 5 us.
const PAGES_AT_A_TIME: u64 = 256;
const OPERATION_BYTES: usize = 25;
/// The number of operations that fit into a page of the engine. Beside a value of the log, 16 bytes of it are taken.
const OPERATIONS_PER_PAGE: usize = (PAGE_BYTES - 16 - HEADER_BYTES - 2) / OPERATION_BYTES;

/// More pages and commits than any file has had. Their sum and the numbers behind it are numbers too.
const MOST_COMMITS: u64 = u64::MAX / 4;

/// The name of the row of the state in the table meta.
pub(crate) const STATE: &str = "state";

/// The part of a commit that is kept in memory.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) counters: Counters,
    pub(crate) sets: Sets,
    /// The directory of the blocks of documents. Its rows are document numbers.
    pub(crate) documents: Arc<Level<u64>>,
    /// The number of the next block. Numbers are never used again.
    pub(crate) next_block: u64,
    /// The oldest page of the log that may still be there. Pages before the first one mean nothing any more, and
    /// are removed some at a time.
    oldest_page: u64,
    /// The first page of the log, and the next page to be written.
    first_page: u64,
    next_page: u64,
    /// Pages before this one are in the frozen runs. The others are in the recent runs.
    frozen_pages: u64,
    /// The number of operations in the pages of the recent runs.
    pub(crate) recent_operations: u64,
    /// The sums of the pages of the frozen runs and of the recent runs. A page adds its checksum and one.
    log_sums: LogSums,
    /// The sum of the rows of all scopes. A row adds the checksum of its record and one.
    pub(super) scopes_sum: u64,
    /// The sum of the rows of all sources, as that of the scopes.
    pub(super) sources_sum: u64,
    /// The number of commits that have changed sources.
    pub(super) source_commits: u64,
    /// What was found of scopes and sources since the file was opened, also by other commits.
    pub(crate) known: Arc<KnownNames>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogSums {
    frozen: u64,
    recent: u64,
}

/// What the state record says of a level.
struct StoredLevel {
    number: u8,
    next: u128,
    directory: StoredDirectory,
}

/// What the state record says of a set.
struct StoredSet {
    /// The first row of the frozen run that is not in the first level yet. `None` if there is no frozen run.
    frozen_from: Option<u128>,
    levels: Vec<StoredLevel>,
}

/// What the state record says.
pub(super) struct StoredState {
    pub(super) state: State,
    documents: StoredDirectory,
    /// In the order of the sets.
    sets: Vec<StoredSet>,
}

impl State {
    /// The state of an empty file.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            counters: Counters::default(),
            sets: Sets::new(plan),
            documents: Arc::new(Level::empty(DOCUMENTS.number)),
            next_block: 1,
            oldest_page: 1,
            first_page: 1,
            next_page: 1,
            frozen_pages: 1,
            recent_operations: 0,
            log_sums: LogSums::default(),
            scopes_sum: 0,
            sources_sum: 0,
            source_commits: 0,
            known: Arc::default(),
        }
    }

    /// The memory that the directories take once all of them are read, in bytes.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.sets.directory_bytes() + self.documents.memory_bytes()
    }

    /// Whether the log has no pages. Then all rows of all sets are in levels.
    pub(crate) fn is_log_empty(&self) -> bool {
        self.first_page == self.next_page
    }

    /// Whether there are pages of the log that mean nothing any more.
    pub(crate) fn has_old_pages(&self) -> bool {
        self.oldest_page < self.first_page
    }

    /// The pages of the log that may be there.
    pub(crate) fn log_pages(&self) -> Range<u64> {
        self.oldest_page..self.next_page
    }

    /// A number that grows with every transaction.
    pub(crate) fn generation(&self) -> u64 {
        // A transaction that only notes how far a source was read writes no page.
        self.next_page + self.source_commits
    }

    /// The state record.
    pub(super) fn encode(&self, file: FileSeed) -> Vec<u8> {
        seal(Kind::State, file, STATE.as_bytes(), |bytes| {
            self.counters.encode(bytes);
            for number in [
                self.next_block,
                self.first_page,
                self.frozen_pages,
                self.next_page,
                self.log_sums.frozen,
                self.log_sums.recent,
                self.scopes_sum,
                self.sources_sum,
                self.source_commits,
            ] {
                bytes.extend(number.to_le_bytes());
            }
            self.documents.encode(bytes);
            for set in self.sets.iter() {
                by_row!(set, set => encode_set(set, bytes));
            }
        })
    }

    /// Reads the state record back. Levels and runs are still empty.
    pub(super) fn decode(
        file: FileSeed,
        plan: &Plan,
        bytes: &[u8],
    ) -> Result<StoredState, Problem> {
        let mut fields = Fields(unseal(Kind::State, file, STATE.as_bytes(), bytes)?);
        let mut state = Self::new(plan);
        state.counters = Counters::decode(&mut fields)?;
        [
            state.next_block,
            state.first_page,
            state.frozen_pages,
            state.next_page,
            state.log_sums.frozen,
            state.log_sums.recent,
            state.scopes_sum,
            state.sources_sum,
            state.source_commits,
        ] = decode_numbers(&mut fields)?;
        // The blocks and levels that are made next need numbers too, and so do pages and commits.
        if state.next_block > BlockId::MAX_NUMBER / 2 {
            return Err("its next block has an impossible number");
        }
        if state.next_page.max(state.source_commits) > MOST_COMMITS {
            return Err("its next page has an impossible number");
        }
        if !(state.first_page <= state.frozen_pages && state.frozen_pages <= state.next_page) {
            return Err("its pages are out of order");
        }
        let documents = StoredDirectory::decode(DOCUMENTS.table.has_extents, &mut fields)?;
        let mut sets = Vec::new();
        for _ in state.sets.iter() {
            sets.push(decode_set(&mut fields)?);
        }
        fields.finish()?;
        Ok(StoredState {
            state,
            documents,
            sets,
        })
    }
}

/// What a state record says without its directories.
#[derive(Clone)]
pub(crate) struct StateHead {
    pub(crate) counters: Counters,
    /// The pages of the log.
    pub(crate) log: Range<u64>,
    /// The first grows with every transaction that changes documents or sources, the second with every step of a merge.
    pub(crate) age: (u64, u64),
}

pub(crate) fn state_head(file: FileSeed, bytes: &[u8]) -> Result<StateHead, Problem> {
    let mut fields = Fields(unseal(Kind::State, file, STATE.as_bytes(), bytes)?);
    let counters = Counters::decode(&mut fields)?;
    let [next_block, first_page, _, next_page, .., source_commits] = decode_numbers(&mut fields)?;
    Ok(StateHead {
        counters,
        log: first_page..next_page,
        age: (next_page.saturating_add(source_commits), next_block),
    })
}

/// The numbers behind the counters of a state record.
fn decode_numbers(fields: &mut Fields<'_>) -> Result<[u64; 9], Problem> {
    let mut numbers = [0; 9];
    for number in &mut numbers {
        *number = u64::from_le_bytes(fields.take()?);
    }
    Ok(numbers)
}

fn encode_set<R: Row>(set: &SortedSet<R>, bytes: &mut Vec<u8>) {
    // The first row that is left tells as much as the last row that was taken.
    let firsts = set
        .frozen
        .iter()
        .flat_map(|run| [run.puts().first(), run.marks().first()]);
    let frozen_from = match firsts.flatten().min() {
        Some(row) => row.number(),
        None if set.frozen.is_empty() => 0,
        None => u128::MAX,
    };
    bytes.push(u8::from(!set.frozen.is_empty()));
    bytes.extend(frozen_from.to_le_bytes());
    bytes.push(set.levels.len() as u8);
    for SetLevel { next, level } in &set.levels {
        bytes.push(level.number);
        bytes.extend(next.number().to_le_bytes());
        level.encode(bytes);
    }
}

fn decode_set(fields: &mut Fields<'_>) -> Result<StoredSet, Problem> {
    let [has_frozen] = fields.take()?;
    let frozen_from = u128::from_le_bytes(fields.take()?);
    let [count] = fields.take()?;
    let mut levels = Vec::with_capacity(count.into());
    for _ in 0..count {
        let [number] = fields.take()?;
        if number > BlockId::MAX_LEVEL {
            return Err("a level has an impossible number");
        }
        levels.push(StoredLevel {
            number,
            next: u128::from_le_bytes(fields.take()?),
            directory: StoredDirectory::decode(false, fields)?,
        });
    }
    Ok(StoredSet {
        frozen_from: (has_frozen != 0).then_some(frozen_from),
        levels,
    })
}

/// The tables of blocks of a file, and the rows of the table meta in its first commit.
pub(crate) fn first_rows(settings: &Settings) -> (&'static [BlockTable], [MetaRow; 3]) {
    let state = State::new(&settings.plan).encode(settings.file);
    let meta = [
        (FORMAT, encode_format(settings.file)),
        (SETTINGS, encode_settings(settings)),
        (STATE, state),
    ];
    (block_tables(settings.plan.tables().len()), meta)
}

/// Makes an empty database of a new file that gets the name `path`.
pub(crate) fn create(
    new: &NewFile,
    path: &Path,
    settings: &Settings,
    page_cache_bytes: usize,
) -> Result<Engine> {
    let (block_tables, meta) = first_rows(settings);
    Engine::create(new, path, page_cache_bytes, block_tables, &meta)
}

/// The most pages that are removed some at a time after opening. A damaged number of a page could otherwise
/// cause many commits that remove nothing.
const MOST_OLD_PAGES: u64 = 1 << 14;

/// Reads the state: everything that is kept in memory.
pub(super) fn read_state(tables: &Tables, settings: &Settings) -> Result<State> {
    let Some(bytes) = tables.meta(STATE)? else {
        return Err(damaged_state("it is missing"));
    };
    let StoredState {
        mut state,
        documents,
        sets,
    } = State::decode(settings.file, &settings.plan, &bytes).map_err(damaged_state)?;
    let opening = Opening { tables, settings };
    state.documents = Arc::new(opening.read_level(DOCUMENTS, &documents)?);
    let last = state.documents.high();
    if last.is_some_and(|last| last >= state.counters.next_document) {
        return Err(damaged_state("its next document is there already"));
    }
    for (set, stored) in state.sets.sets().zip(&sets) {
        by_row!(set, set => state.sets[set].levels = opening.read_levels(set, stored)?);
    }
    let frozen = opening.read_log(state.first_page..state.frozen_pages, state.log_sums.frozen)?;
    state.sets.push(runs_of(&frozen, &settings.plan), 0);
    drop(frozen);
    state.sets.freeze();
    for (set, stored) in state.sets.iter_mut().zip(&sets) {
        by_row!(set, set => trim_frozen(set, stored));
    }
    let recent = opening.read_log(state.frozen_pages..state.next_page, state.log_sums.recent)?;
    state.sets.push(runs_of(&recent, &settings.plan), 0);
    state.recent_operations = recent.len() as u64;
    let (oldest, last) = tables.ends_of_log()?.unwrap_or((state.first_page, 0));
    // A state record of an older commit would leave out the newest pages.
    if last >= state.next_page {
        return Err(damaged_state("the log has pages that it does not know"));
    }
    // Whatever is older goes with the first pages that are removed.
    let least = state.first_page.saturating_sub(MOST_OLD_PAGES).max(1);
    state.oldest_page = oldest.max(least).min(state.first_page);
    Ok(state)
}

fn damaged_state(problem: Problem) -> Error {
    Error::damaged("meta", STATE, problem)
}

/// What is read when a file is opened.
struct Opening<'a> {
    tables: &'a Tables,
    settings: &'a Settings,
}

impl Opening<'_> {
    fn read_levels<R: SetRow>(&self, set: Set<R>, stored: &StoredSet) -> Result<Vec<SetLevel<R>>> {
        let mut levels = Vec::with_capacity(stored.levels.len());
        for stored in &stored.levels {
            let level = self.read_level(set.level(stored.number), &stored.directory)?;
            levels.push(SetLevel {
                next: R::from_number(stored.next),
                level: Arc::new(level),
            });
        }
        Ok(levels)
    }

    fn read_level<R: Row>(&self, name: LevelName, stored: &StoredDirectory) -> Result<Level<R>> {
        let mut summaries = Vec::new();
        self.tables.summaries(name, |last, bytes| {
            summaries.push((last, bytes.to_vec()));
            Ok(())
        })?;
        let level = stored.level(name, self.settings.file, &summaries);
        level.map_err(|(last, problem)| damaged_summary(name, last, problem))
    }

    /// Reads the operations of some pages of the log. The sum of the pages must be the one that the state
    /// record has.
    fn read_log(&self, pages: Range<u64>, wanted: u64) -> Result<Vec<Operation>> {
        let mut operations = Vec::new();
        let mut sum = 0u64;
        self.tables.log_pages(pages.clone(), |page, bytes| {
            let Some(bytes) = bytes else {
                return Err(Error::damaged("log", &page, "it is missing"));
            };
            sum = sum.wrapping_add(share_of_sum([bytes]));
            decode_page(self.settings.file, page, bytes, &mut operations)
                .map_err(|problem| Error::damaged("log", &page, problem))
        })?;
        if sum != wanted && !planted("the sum of the log is not compared") {
            let problem = "the pages from here on are not those of the last commit";
            return Err(Error::damaged("log", &pages.start, problem));
        }
        Ok(operations)
    }
}

fn damaged_summary(name: LevelName, last: u128, problem: Problem) -> Error {
    let LevelName { table, number } = name;
    let key = format!("{table}, level {number}, up to {last:x}");
    Error::damaged("summaries", &key, problem)
}

/// Takes the rows that the first level has already out of the frozen run.
fn trim_frozen<R: Row>(set: &mut SortedSet<R>, stored: &StoredSet) {
    let Some(from) = stored.frozen_from else {
        return set.frozen.clear();
    };
    for run in &mut set.frozen {
        *run = run.from(R::from_number(from));
    }
    set.frozen.retain(|run| run.len() > 0);
}

/// The pages of a commit. The first page has the number `first`.
pub(super) fn encode_log(
    file: FileSeed,
    first: u64,
    operations: &[Operation],
) -> Vec<(u64, Vec<u8>)> {
    let mut pages = Vec::new();
    for (number, operations) in (first..).zip(operations.chunks(OPERATIONS_PER_PAGE)) {
        let bytes = seal(Kind::Log, file, &number.to_le_bytes(), |bytes| {
            bytes.extend((operations.len() as u16).to_le_bytes());
            for operation in operations {
                operation.encode(bytes);
            }
        });
        pages.push((number, bytes));
    }
    pages
}

/// Reads a page back, and adds its operations to others.
pub(crate) fn decode_page(
    file: FileSeed,
    number: u64,
    bytes: &[u8],
    operations: &mut Vec<Operation>,
) -> Result<(), Problem> {
    let mut fields = Fields(unseal(Kind::Log, file, &number.to_le_bytes(), bytes)?);
    let count = u16::from_le_bytes(fields.take()?);
    for _ in 0..count {
        operations.push(Operation::decode(&mut fields)?);
    }
    fields.finish()
}

/// A change of the file that is not committed yet: the next state, and the changed rows of the engine's
/// tables.
pub(crate) struct Edit {
    pub(crate) state: State,
    pub(crate) changes: Changes,
    /// Blocks that the change removes.
    pub(crate) gone: Vec<BlockId>,
    /// The bytes of these blocks and of the pages of the log that it removes, in whole pages of the engine.
    pub(crate) freed_bytes: u64,
    file: FileSeed,
    sizes: Sizes,
}

impl Edit {
    /// An edit of `state` that changes nothing yet. `file` is the seed of the file.
    pub(crate) fn new(state: State, file: FileSeed, sizes: &Sizes) -> Self {
        Self {
            state,
            changes: Changes::default(),
            gone: Vec::new(),
            freed_bytes: 0,
            file,
            sizes: *sizes,
        }
    }

    pub(crate) fn file(&self) -> FileSeed {
        self.file
    }

    /// Makes the change part of the file, whole and durable.
    pub(crate) fn write(&self, engine: &Engine) -> Result<()> {
        let state = self.state.encode(self.file);
        engine.apply(&self.changes, &[(STATE, state)])
    }

    /// Makes the rows of the change part of the file, but not the state. They are durable when the next edit
    /// is written.
    pub(crate) fn stage(&self, engine: &Engine) -> Result<()> {
        engine.stage(&self.changes)
    }

    /// Adds operations to the log, and their rows to the sets.
    pub(crate) fn append(&mut self, operations: &[Operation], runs: Runs) {
        let pages = encode_log(self.file, self.state.next_page, operations);
        let sum = share_of_sum(pages.iter().map(|(_, bytes)| bytes.as_slice()));
        self.state.log_sums.recent = self.state.log_sums.recent.wrapping_add(sum);
        self.state.next_page += pages.len() as u64;
        self.state.recent_operations += operations.len() as u64;
        self.changes.log.extend(pages);
        self.state.sets.push(runs, self.sizes.short_rows);
    }

    /// Makes the recent runs the frozen runs. There must be no frozen run. They are not merged here, since a
    /// million rows take longer than a transaction may have to wait.
    pub(crate) fn freeze(&mut self) {
        // Pages of frozen runs that are merged may still be there.
        self.drop_log();
        self.state.sets.freeze();
        self.state.frozen_pages = self.state.next_page;
        self.state.log_sums = LogSums {
            frozen: self.state.log_sums.recent,
            recent: 0,
        };
        self.state.recent_operations = 0;
        self.drop_log();
    }

    /// Leaves out all pages of the log and removes them. The edit puts their rows into levels.
    ///
    /// It leaves out a number of a page too. So the numbers grow with every transaction, also with one that writes no
    /// page. By them, an older commit is told from a newer one.
    pub(crate) fn empty_log(&mut self) {
        self.freed_bytes += (self.state.next_page - self.state.oldest_page) * PAGE_BYTES as u64;
        self.state.next_page += 1;
        self.state.oldest_page = self.state.next_page;
        self.state.first_page = self.state.next_page;
        self.state.frozen_pages = self.state.next_page;
        self.state.log_sums = LogSums::default();
        self.state.recent_operations = 0;
        self.changes.log_begins_at = Some(self.state.first_page);
    }

    /// Leaves out the pages of the log whose rows are in no run any more, and removes some of those that were left
    /// out. To remove all at once takes longer than a transaction may have to wait.
    pub(crate) fn drop_log(&mut self) {
        let is_needed =
            self.state.sets.any_frozen() && !planted("the log is dropped before it is merged");
        if !is_needed && self.state.first_page < self.state.frozen_pages {
            self.state.first_page = self.state.frozen_pages;
            self.state.log_sums.frozen = 0;
        }
        if self.state.has_old_pages() && self.changes.log_begins_at.is_none() {
            let end = self
                .state
                .first_page
                .min(self.state.oldest_page + PAGES_AT_A_TIME);
            self.freed_bytes += (end - self.state.oldest_page) * PAGE_BYTES as u64;
            self.state.oldest_page = end;
            self.changes.log_begins_at = Some(end);
        }
    }

    /// Replaces blocks of a level by new ones, and returns the new level. `blocks` are those of the commit.
    pub(crate) fn replace<R: Row, B: Into<BlockBytes>>(
        &mut self,
        name: LevelName,
        level: &Level<R>,
        old: Range<Position>,
        new: Vec<Packed<R, B>>,
        blocks: &Blocks,
    ) -> Result<Arc<Level<R>>> {
        let blocks = blocks.of_table(name.table);
        let mut rows: Vec<u128> = Vec::new();
        for entry in level.entries(old.clone(), blocks)? {
            rows.push(entry.high.number());
            self.gone.push(entry.id);
        }
        let bytes = if name.table.has_extents {
            self.sizes.document_block_bytes
        } else {
            self.sizes.block_bytes
        };
        self.freed_bytes += rows.len() as u64 * (bytes as u64).next_multiple_of(PAGE_BYTES as u64);
        let mut change = LevelChange::none(name);
        change.removed = rows;
        let mut numbered = Vec::with_capacity(new.len());
        for block in new {
            numbered.push(self.number_block(block, &mut change));
        }
        let most = self.sizes.chunk_entries;
        let level = level.splice(old, &numbered, most, blocks, &mut change)?;
        self.changes.levels.push(change);
        Ok(Arc::new(level))
    }

    /// Gives a new block its number, and adds it to the change of a level.
    pub(crate) fn number_block<R: Row, B: Into<BlockBytes>>(
        &mut self,
        block: Packed<R, B>,
        change: &mut LevelChange,
    ) -> NewBlock<R> {
        let id = BlockId::new(change.level.number, self.state.next_block);
        self.state.next_block += 1;
        let (block, bytes) = NewBlock::numbered(block, id);
        change.added.push((block.entry.high.number(), bytes.into()));
        block
    }
}

#[cfg(test)]
mod tests;
