//! State: the part of a commit that is kept in memory: sorted sets, directories, counters.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::log;
use super::meta::{self, Counters, Settings};
use super::operation::Operation;
use super::overlays::{Runs, runs_of};
use super::schema::{DOCUMENTS, PerSet, RowFamily, Set, SetRow, all_sets, block_tables, by_row};
use super::view::KnownScopes;
use crate::error::{Error, Result};
use crate::files::NewFile;
use crate::parallel;
use crate::plan::Plan;
use crate::store::blocks::{
    BlockId, Fields, FileSeed, Kind, Problem, Row, seal, share_of_sum, unseal,
};
use crate::store::engine::{BlockTable, Engine, FirstRows, LevelName, MetaRow, ReadTxn};
use crate::store::sorted_set::{Level, SetLevel, SortedSet, StoredDirectory};

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
    pub(crate) oldest_page: u64,
    /// The first page of the log, and the next page to be written.
    pub(crate) first_page: u64,
    pub(crate) next_page: u64,
    /// Pages before this one are in the frozen runs. The others are in the recent runs.
    pub(crate) frozen_pages: u64,
    /// The number of operations in the pages of the recent runs.
    pub(crate) recent_operations: u64,
    /// The sums of the pages of the frozen runs and of the recent runs. A page adds its checksum and one.
    pub(crate) log_sums: LogSums,
    /// The sum of the rows of all scopes. A row adds the checksum of its record and one.
    pub(crate) scopes_sum: u64,
    /// The sum of the rows of all sources, as that of the scopes.
    pub(crate) sources_sum: u64,
    /// The number of commits that have changed sources.
    pub(crate) source_commits: u64,
    /// Whether the sources were compared with their sum since the file was opened.
    pub(crate) sources_are_whole: Arc<AtomicBool>,
    /// Whether the scopes were compared with their sum since the file was opened.
    pub(crate) scopes_are_whole: Arc<AtomicBool>,
    /// Scopes that were looked up since the file was opened, also by other commits.
    pub(crate) known_scopes: Arc<KnownScopes>,
}

/// Sums of pages of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogSums {
    pub(crate) frozen: u64,
    pub(crate) recent: u64,
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
    fn empty(plan: &Plan) -> Self {
        all_sets(plan.tables().len())
            .map(|set| by_row!(set, set => keep SortedSet::new(set.rules)))
            .collect()
    }

    /// The memory that the directories take once all of them are read, in bytes.
    fn directory_bytes(&self) -> usize {
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

    /// The greatest number of levels of a set, and the number of marks in all sets.
    pub(crate) fn levels_and_marks(&self) -> (u32, u64) {
        let mut levels = 0;
        let mut marks = 0;
        for set in self.iter() {
            levels = levels.max(by_row!(set, set => set.levels.len()));
            marks += by_row!(set, set => set.rows().1);
        }
        (levels as u32, marks)
    }
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
struct StoredState {
    state: State,
    documents: StoredDirectory,
    /// In the order of the sets.
    sets: Vec<StoredSet>,
}

impl State {
    /// The state of an empty file.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            counters: Counters::NEW,
            sets: Sets::empty(plan),
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
            sources_are_whole: Arc::default(),
            scopes_are_whole: Arc::default(),
            known_scopes: Arc::default(),
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

    /// A number that grows with every transaction.
    pub(crate) fn generation(&self) -> u64 {
        // A transaction that only notes how far a source was read writes no page.
        self.next_page + self.source_commits
    }

    /// The state record.
    pub(crate) fn encode(&self, file: FileSeed) -> Vec<u8> {
        seal(Kind::State, file, meta::STATE.as_bytes(), |bytes| {
            self.counters.encode(bytes);
            let LogSums { frozen, recent } = self.log_sums;
            for number in [
                self.next_block,
                self.first_page,
                self.frozen_pages,
                self.next_page,
            ] {
                bytes.extend(number.to_le_bytes());
            }
            for sum in [
                frozen,
                recent,
                self.scopes_sum,
                self.sources_sum,
                self.source_commits,
            ] {
                bytes.extend(sum.to_le_bytes());
            }
            self.documents.encode(bytes);
            for set in self.sets.iter() {
                by_row!(set, set => encode_set(set, bytes));
            }
        })
    }

    /// Reads the state record back. Levels and runs are still empty.
    fn decode(file: FileSeed, plan: &Plan, bytes: &[u8]) -> Result<StoredState, Problem> {
        let mut fields = Fields(unseal(Kind::State, file, meta::STATE.as_bytes(), bytes)?);
        let mut state = Self::new(plan);
        state.counters = Counters::decode(&mut fields)?;
        state.next_block = u64::from_le_bytes(fields.take()?);
        state.first_page = u64::from_le_bytes(fields.take()?);
        state.frozen_pages = u64::from_le_bytes(fields.take()?);
        state.next_page = u64::from_le_bytes(fields.take()?);
        state.log_sums.frozen = u64::from_le_bytes(fields.take()?);
        state.log_sums.recent = u64::from_le_bytes(fields.take()?);
        state.scopes_sum = u64::from_le_bytes(fields.take()?);
        state.sources_sum = u64::from_le_bytes(fields.take()?);
        state.source_commits = u64::from_le_bytes(fields.take()?);
        // The blocks and levels that are made next need numbers too.
        if state.next_block > BlockId::MAX_NUMBER / 2 {
            return Err("its next block has an impossible number");
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
    let meta = [
        (meta::FORMAT, meta::encode_format(settings.file)),
        (meta::SETTINGS, meta::encode_settings(settings)),
        (
            meta::STATE,
            State::new(&settings.plan).encode(settings.file),
        ),
    ];
    (block_tables(settings.plan.tables().len()), meta)
}

/// Makes an empty database of a new file in `directory`.
pub(crate) fn create(
    new: &NewFile,
    directory: &Path,
    settings: &Settings,
    page_cache_bytes: usize,
) -> Result<Engine> {
    let (block_tables, meta) = first_rows(settings);
    let first = FirstRows {
        block_tables,
        meta: &meta,
    };
    Engine::create(new, directory, page_cache_bytes, &first)
}

/// The most pages that are removed some at a time after opening. A damaged number of a page could otherwise
/// cause many commits that remove nothing.
const MOST_OLD_PAGES: u64 = 1 << 14;

/// Checks the format of a file, then reads its settings.
pub(crate) fn read_settings(txn: &ReadTxn, path: &Path) -> Result<Settings> {
    // Without this row, the file has the same engine, but belongs to another program.
    let format = txn.meta(meta::FORMAT)?.ok_or_else(|| Error::NotSimdb {
        path: path.to_owned(),
    })?;
    let file = meta::check_format(&format)?;
    let settings = txn.meta(meta::SETTINGS)?;
    let settings = settings.ok_or_else(|| meta::damaged(meta::SETTINGS, "it is missing"))?;
    meta::decode_settings(file, &settings)
}

/// Reads the state: everything that is kept in memory.
pub(crate) fn read_state(txn: &ReadTxn, settings: &Settings) -> Result<State> {
    let bytes = txn.meta(meta::STATE)?;
    let bytes = bytes.ok_or_else(|| damaged_state("it is missing"))?;
    let StoredState {
        mut state,
        documents,
        sets,
    } = State::decode(settings.file, &settings.plan, &bytes).map_err(damaged_state)?;
    let opening = Opening { txn, settings };
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
    let (oldest, last) = txn.ends_of_log()?.unwrap_or((state.first_page, 0));
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
    meta::damaged(meta::STATE, problem)
}

/// What is read when a file is opened.
struct Opening<'a> {
    txn: &'a ReadTxn,
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

    /// Reads the summaries of a level.
    fn read_level<R: Row>(&self, name: LevelName, stored: &StoredDirectory) -> Result<Level<R>> {
        let mut summaries = Vec::new();
        self.txn.summaries(name, |last, bytes| {
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
        self.txn.log_pages(pages.clone(), |page, bytes| {
            let bytes = bytes.ok_or_else(|| Error::damaged("log", &page, "it is missing"))?;
            sum = sum.wrapping_add(share_of_sum([bytes]));
            log::decode_page(self.settings.file, page, bytes, &mut operations)
                .map_err(|problem| Error::damaged("log", &page, problem))
        })?;
        if sum != wanted {
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

#[cfg(test)]
mod tests {
    use super::super::schema::{KEYS, permuted};
    use super::*;
    use crate::store::sorted_set::Run;

    #[test]
    fn the_state_record_reads_back_and_a_damaged_one_is_refused() -> Result<(), Problem> {
        let plan = "4x16".parse::<Plan>().expect("a plan");
        let mut state = State::new(&plan);
        state.counters.documents = 7;
        state.counters.next_document = 9;
        (
            state.next_block,
            state.first_page,
            state.frozen_pages,
            state.next_page,
        ) = (99, 2, 5, 8);
        let keys = &mut state.sets[KEYS];
        keys.push(Run::new(vec![5, 6], vec![3], keys.rules), 9);
        keys.freeze();
        let level = SetLevel {
            next: 77,
            ..state.sets[permuted(3)].new_level()
        };
        let another = SetLevel {
            level: Arc::new(Level::empty(4)),
            ..level.clone()
        };
        state.sets[permuted(3)].levels = vec![level, another];
        (state.log_sums, state.scopes_sum) = (
            LogSums {
                frozen: 11,
                recent: 12,
            },
            13,
        );
        let file = FileSeed(7);
        let bytes = state.encode(file);
        let StoredState {
            state: read,
            documents,
            sets,
        } = State::decode(file, &plan, &bytes)?;
        assert_eq!((read.counters, read.next_block), (state.counters, 99));
        assert_eq!(
            (read.first_page, read.frozen_pages, read.next_page),
            (2, 5, 8)
        );
        assert_eq!((read.log_sums, read.scopes_sum), (state.log_sums, 13));
        let mut of_documents = Vec::new();
        state.documents.encode(&mut of_documents);
        let has_extents = DOCUMENTS.table.has_extents;
        let expected = StoredDirectory::decode(has_extents, &mut Fields(&of_documents))?;
        assert_eq!(documents, expected);
        assert_eq!(sets.len(), state.sets.sets().count());
        assert_eq!(
            sets.iter().map(|set| set.frozen_from).collect::<Vec<_>>()[..2],
            [Some(3), None]
        );
        let last = sets.last().ok_or("there are no sets")?;
        let levels: Vec<_> = last
            .levels
            .iter()
            .map(|it| (it.number, it.next, &it.directory))
            .collect();
        assert_eq!(levels, [(0, 77, &documents), (4, 77, &documents)]);
        assert!(State::decode(file, &"2x32".parse::<Plan>().expect("a plan"), &bytes).is_err());
        assert!(State::decode(FileSeed(8), &plan, &bytes).is_err());
        assert!(State::decode(file, &plan, &bytes[..bytes.len() - 1]).is_err());
        state.first_page = 6;
        assert!(
            State::decode(file, &plan, &state.encode(file)).is_err(),
            "pages out of order are taken"
        );
        Ok(())
    }
}
