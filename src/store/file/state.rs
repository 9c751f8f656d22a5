//! State: the part of a commit that is kept in memory: sorted sets, directories, counters.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::meta::{self, Counters};
use super::overlays::Runs;
use super::schema::{ByRow, DOCUMENTS, PerSet, RowFamily, Set, SetRow, all_sets, by_row};
use super::view::KnownScopes;
use crate::parallel;
use crate::plan::Plan;
use crate::store::blocks::{BlockId, Fields, FileSeed, Kind, Problem, Row, seal, unseal};
use crate::store::sorted_set::{Level, Outline, SetLevel, SortedSet};

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
        let bytes = |set: &ByRow<SortedSetFamily>| -> usize {
            by_row!(set, set => set.levels.iter().map(|it| it.level.memory_bytes()).sum())
        };
        self.iter().map(bytes).sum()
    }

    /// Adds the rows that a transaction wrote. Runs are merged if they have together at most `short_rows` rows.
    pub(crate) fn push(&mut self, runs: Runs, short_rows: usize) {
        let rows = runs
            .iter()
            .map(|run| by_row!(run, run => run.len()))
            .max()
            .unwrap_or(0);
        let pairs = self.iter_mut().zip(runs).collect();
        parallel::map_each_of(
            pairs,
            rows,
            |(set, run)| by_row!(set, run, (set, run) => set.push(run, short_rows)),
        );
    }

    /// Makes the recent runs of all sets the frozen ones.
    pub(crate) fn freeze(&mut self) {
        self.iter_mut()
            .for_each(|set| by_row!(set, set => set.freeze()));
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
        let each = self
            .iter()
            .map(|set| by_row!(set, set => (set.levels.len() as u32, set.rows().1)));
        each.fold((0, 0), |sum, it| (sum.0.max(it.0), sum.1 + it.1))
    }
}

/// What the state record says of a level.
pub(super) struct StoredLevel {
    pub(super) number: u8,
    pub(super) next: u128,
    pub(super) directory: StoredDirectory,
}

/// What the state record says of the directory of a level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredDirectory {
    /// The sum of its summaries.
    pub(super) sum: u64,
    /// The last chunk. Rows are given as numbers.
    pub(super) last: Option<Outline<u128>>,
}

/// What the state record says of a set.
pub(super) struct StoredSet {
    /// The first row of the frozen run that is not in the first level yet. `None` if there is no frozen run.
    pub(super) frozen_from: Option<u128>,
    pub(super) levels: Vec<StoredLevel>,
}

/// What the state record says.
pub(super) struct StoredState {
    pub(super) state: State,
    pub(super) documents: StoredDirectory,
    /// In the order of the sets.
    pub(super) sets: Vec<StoredSet>,
}

impl State {
    /// The state of an empty file.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            counters: Counters::NEW,
            sets: Sets::empty(plan),
            documents: Arc::new(Level::empty()),
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
            encode_directory(&self.documents, bytes);
            self.sets
                .iter()
                .for_each(|set| by_row!(set, set => encode_set(set, bytes)));
        })
    }

    /// Reads the state record back. Levels and runs are still empty.
    pub(super) fn decode(
        file: FileSeed,
        plan: &Plan,
        bytes: &[u8],
    ) -> Result<StoredState, Problem> {
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
        let documents = decode_directory(DOCUMENTS.table.has_extents, &mut fields)?;
        let sets = state
            .sets
            .iter()
            .map(|_| decode_set(&mut fields))
            .collect::<Result<_, _>>()?;
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
    for SetLevel {
        number,
        next,
        level,
    } in &set.levels
    {
        bytes.push(*number);
        bytes.extend(next.number().to_le_bytes());
        encode_directory(level, bytes);
    }
}

fn encode_directory<R: Row>(level: &Level<R>, bytes: &mut Vec<u8>) {
    bytes.extend(level.sum().to_le_bytes());
    let last = level.last_chunk();
    bytes.push(u8::from(last.is_some()));
    if let Some(last) = last {
        last.encode(size_of::<u128>(), bytes);
    }
}

fn decode_directory(
    has_extents: bool,
    fields: &mut Fields<'_>,
) -> Result<StoredDirectory, Problem> {
    let sum = u64::from_le_bytes(fields.take()?);
    let [has_chunks] = fields.take()?;
    let outline = |fields: &mut Fields<'_>| Outline::decode(size_of::<u128>(), has_extents, fields);
    let last = (has_chunks != 0).then(|| outline(fields)).transpose()?;
    Ok(StoredDirectory { sum, last })
}

fn decode_set(fields: &mut Fields<'_>) -> Result<StoredSet, Problem> {
    let [has_frozen] = fields.take()?;
    let frozen_from = u128::from_le_bytes(fields.take()?);
    let [count] = fields.take()?;
    let levels = (0..count)
        .map(|_| {
            let [number] = fields.take()?;
            if number > BlockId::MAX_LEVEL {
                return Err("a level has an impossible number");
            }
            let next = u128::from_le_bytes(fields.take()?);
            Ok(StoredLevel {
                number,
                next,
                directory: decode_directory(false, fields)?,
            })
        })
        .collect::<Result<_, Problem>>()?;
    Ok(StoredSet {
        frozen_from: (has_frozen != 0).then_some(frozen_from),
        levels,
    })
}

#[cfg(test)]
mod tests {
    use super::super::schema::{KEYS, permuted};
    use super::*;
    use crate::plan::plan_named;
    use crate::store::sorted_set::Run;

    #[test]
    fn the_state_record_reads_back_and_a_damaged_one_is_refused() -> Result<(), Problem> {
        let plan = plan_named("4x16").expect("a plan");
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
        state.sets[permuted(3)].levels = vec![level.clone(), SetLevel { number: 4, ..level }];
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
        assert_eq!(documents, StoredDirectory { sum: 0, last: None });
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
        assert!(State::decode(file, &plan_named("2x32").expect("a plan"), &bytes).is_err());
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
