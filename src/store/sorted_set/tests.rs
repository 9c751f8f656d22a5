//! Tests of a sorted set in memory, with tiny blocks, against a `BTreeMap`. Rows are put and marked in any
//! order, and spread over an overlay, runs and levels in any manner. Every method of reading must find
//! what the map has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::{Error, Result};
use crate::store::blocks::{BlockId, Fields, FileSeed, Lists, MemoryBlocks, Packer, Row};
use crate::store::engine::{BlockTable, LevelChange, LevelName};

/// Rows from the oldest source to the newest, each put (true) or marked.
type Sources = Vec<BTreeMap<u64, bool>>;

const CHUNK_ENTRIES: usize = 3;

pub(crate) static TABLE: BlockTable = BlockTable::new(0, "test", false);

/// Stores a source as the level of this number.
pub(super) fn level_of<R: Row>(
    rows: &BTreeMap<R, bool>,
    rules: Rules,
    memory: &MemoryBlocks,
    number: u8,
) -> Level<R> {
    let name = LevelName {
        table: &TABLE,
        number,
    };
    let blocks = memory.blocks();
    let mut packer = Packer::new(128, rules.filtered, blocks.file());
    let (puts, marks) = lists(rows);
    packer.waiting.extend((&puts, &marks));
    let mut new = Vec::new();
    for block in packer.finish() {
        let id = BlockId::new(number, memory.places().len() as u64 + 1);
        let (block, bytes) = NewBlock::numbered(block, id);
        memory.store(name, block.entry.high.number(), bytes);
        new.push(block);
    }
    let empty = Level::empty(number);
    let of = blocks.of_table(&TABLE);
    let mut change = LevelChange::none(name);
    let level = empty
        .splice(empty.all(), &new, CHUNK_ENTRIES, of, &mut change)
        .expect("nothing is read");
    memory.replace_chunks(name, change.chunks);
    // Nothing is in memory, as after opening a file.
    reopened(name, blocks.file(), &change.summaries.written, &level)
}

/// A level as it is after opening a file: no chunk is read yet.
pub(super) fn reopened<R: Row>(
    name: LevelName,
    file: FileSeed,
    summaries: &[(u128, Vec<u8>)],
    level: &Level<R>,
) -> Level<R> {
    let mut record = Vec::new();
    level.encode(&mut record);
    StoredDirectory::decode(name.table.has_extents, &mut Fields(&record))
        .expect("it was just encoded")
        .level(name, file, summaries)
        .expect("it was just written")
}

fn lists<R: Copy>(rows: &BTreeMap<R, bool>) -> (Vec<R>, Vec<R>) {
    let list = |put: bool| {
        rows.iter()
            .filter(|it| *it.1 == put)
            .map(|it| *it.0)
            .collect()
    };
    (list(true), list(false))
}

/// A set. Its oldest sources are levels. Then come the frozen run, the recent runs, and the rows of a
/// transaction.
pub(crate) struct Stacked<R: 'static> {
    pub(crate) set: SortedSet<R>,
    overlay: Overlay<R>,
    pub(crate) memory: MemoryBlocks,
}

/// A set of these sources, of which the first are levels.
pub(crate) fn stack<R: Row>(
    sources: &[BTreeMap<R, bool>],
    levels: usize,
    rules: Rules,
) -> Stacked<R> {
    let memory = MemoryBlocks::default();
    let mut set = SortedSet::new(rules);
    let mut overlay = Overlay::new(rules);
    for (i, rows) in sources.iter().enumerate() {
        if i < levels {
            let mut new = set.new_level();
            new.level = Arc::new(level_of(rows, rules, &memory, new.level.number));
            set.levels.insert(0, new);
        } else if i + 1 < sources.len() {
            let (puts, marks) = lists(rows);
            set.push(Run::new(puts, marks, rules), 8);
            // One frozen run, or two.
            if i == levels + sources.len() % 2 {
                set.freeze();
            }
        } else {
            rows.iter().for_each(|(&row, &put)| {
                if put {
                    overlay.put(row);
                } else {
                    overlay.mark(row);
                }
            });
        }
    }
    if sources.len().is_multiple_of(3) {
        set.merged_runs(8, sources.len().is_multiple_of(2))
            .into_iter()
            .for_each(|merged| set.replace_runs(merged));
    }
    Stacked {
        set,
        overlay,
        memory,
    }
}

#[test]
fn merged_runs_take_the_place_of_what_they_were_made_of_or_of_nothing() {
    let mut set = SortedSet::new(Rules::ONCE);
    let run = |first: u64| Run::new((first..first + 10).collect(), Vec::new(), Rules::ONCE);
    let lengths = |set: &SortedSet<u64>| {
        let mut lengths: Vec<usize> = set.runs().map(Run::len).collect();
        lengths.reverse();
        lengths
    };
    [0, 10, 20]
        .into_iter()
        .for_each(|first| set.push(run(first), 4));
    assert_eq!(
        lengths(&set),
        [10, 10, 10],
        "long runs are merged by whoever adds them"
    );
    let merged: Vec<_> = (0..3).filter_map(|_| set.merged_runs(4, false)).collect();
    [30, 40]
        .into_iter()
        .for_each(|first| set.push(run(first), 4));
    for merged in merged {
        // The second and the third time, the runs are not there any more.
        set.replace_runs(merged);
        assert_eq!(lengths(&set), [30, 10, 10]);
    }
    let mut rows: Vec<u64> = set.runs().flat_map(|run| run.puts().to_vec()).collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..50).collect::<Vec<_>>());
}

/// The rows that the sources leave, by the plain rule: the newest put or mark of a row counts.
fn left<R: Ord + Copy>(sources: &[BTreeMap<R, bool>]) -> Vec<R> {
    let mut rows = BTreeMap::new();
    sources
        .iter()
        .for_each(|source| rows.extend(source.iter().map(|(&row, &put)| (row, put))));
    rows.into_iter().filter(|it| it.1).map(|it| it.0).collect()
}

/// Compares every method of reading a range with the rows that are left.
fn agree<R: Row>(
    stacked: &Stacked<R>,
    left: &[R],
    ranges: &[RangeInclusive<R>],
    lives_once: bool,
) -> Result<()> {
    let blocks = stacked.memory.blocks();
    let reader = || SetReader {
        set: &stacked.set,
        overlay: Some(&stacked.overlay),
        blocks: blocks.of_table(&TABLE),
    };
    let set = reader();
    let mut all = Vec::new();
    set.each(|row| all.push(row))?;
    assert_eq!(all, left);
    // Everything is read twice. The second time, blocks are cached.
    for range in ranges.iter().chain(ranges) {
        let right: Vec<R> = left
            .iter()
            .copied()
            .filter(|row| range.contains(row))
            .collect();
        assert_eq!(set.rows(range)?, right, "{range:?}");
        for limit in [1, 3, usize::MAX] {
            let last: Vec<R> = right.iter().rev().take(limit).copied().collect();
            assert_eq!(
                set.last(range, limit)?,
                last,
                "the last {limit} of {range:?}"
            );
        }
        if lives_once {
            let (puts, marks) = set.puts_and_marks(range)?;
            assert_eq!(puts - marks, right.len() as u64, "{range:?}");
        }
        let mut puts = Lists::default();
        set.puts(range, &mut puts)?;
        assert!(right.iter().all(|row| puts.puts.contains(row)), "{range:?}");
        assert!(puts.puts.iter().all(|row| range.contains(row)), "{range:?}");
        for row in right.iter().filter(|_| stacked.set.rules.filtered) {
            assert!(set.may_have(row.prefix())?);
        }
    }
    read_together(reader, left, ranges)
}

/// Reads all ranges together, and each alone. No row of a range may be missing. The puts without the marks
/// are the rows of the range.
fn read_together<'a, R: Row>(
    reader: impl Fn() -> SetReader<'a, R>,
    left: &[R],
    ranges: &[RangeInclusive<R>],
) -> Result<()> {
    for together in ranges.chunks(1).chain([ranges]) {
        for most_rows in [usize::MAX, 8] {
            let read = |marks| -> Result<(Vec<Lists<R>>, Vec<usize>)> {
                let mut found = vec![Lists::default(); together.len()];
                let read = read_ranges(
                    marks,
                    most_rows,
                    |wanted| {
                        for (index, range) in together.iter().enumerate() {
                            let (first, last) = range.clone().into_inner();
                            let of = index;
                            wanted.add(&reader(), &[Searched { of, first, last }]);
                        }
                    },
                    |of: &Searched<R, usize>, puts: &[R], marks: &[R]| {
                        found[of.of].extend((puts, marks));
                    },
                )?;
                Ok((found, read.too_long))
            };
            let (found, too_long) = read(Marks::Wanted)?;
            let (alone, too_long_alone) = read(Marks::Ignored)?;
            for (index, range) in together.iter().enumerate() {
                let within = |lists: &Lists<R>| {
                    let rows = lists.puts.iter().copied().filter(|row| range.contains(row));
                    rows.collect::<BTreeSet<R>>()
                };
                // What is too long is told otherwise once the rows are in memory.
                let is_whole = !too_long.contains(&index);
                assert!(
                    !is_whole
                        || too_long_alone.contains(&index)
                        || within(&alone[index]) == within(&found[index]),
                    "{range:?}"
                );
                let right = left.iter().filter(|row| range.contains(row));
                assert!(
                    !is_whole || right.clone().all(|row| found[index].puts.contains(row)),
                    "{range:?}"
                );
                // A row that is put and not left has a newer mark. If rows live again and again, the mark
                // may also be older.
                let gone = found[index]
                    .puts
                    .iter()
                    .filter(|row| range.contains(row) && !left.contains(row));
                assert!(
                    !is_whole || gone.clone().all(|row| found[index].marks.contains(row)),
                    "{range:?}"
                );
            }
            assert!(most_rows == 8 || too_long.is_empty());
        }
    }
    Ok(())
}

fn sources(rows: u64) -> impl Strategy<Value = Sources> {
    prop::collection::vec(
        prop::collection::btree_map(0..rows, any::<bool>(), 0..90),
        2..6,
    )
}

/// Spreads small numbers over all rows, so that some are neighbours and others far apart.
fn spread(row: u64) -> u64 {
    if row.is_multiple_of(3) {
        row
    } else {
        row.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

proptest! {
    #[test]
    fn rows_that_live_again_and_again_are_read_as_the_newest_source_says(
        sources in sources(150), levels in 0..5usize, ends in prop::collection::vec((0..160u64, 0..160u64), 1..40),
    ) {
        let sources: Sources =
            sources.into_iter().map(|it| it.into_iter().map(|(row, put)| (spread(row), put)).collect()).collect();
        let stacked = stack(&sources, levels.min(sources.len() - 1), Rules::REPEATED);
        let ends = ends.into_iter().map(|(a, b)| (spread(a), spread(b)));
        let mut ranges: Vec<_> = ends.map(|(a, b)| a.min(b)..=a.max(b)).collect();
        ranges.push(0..=u64::MAX);
        agree(&stacked, &left(&sources), &ranges, false).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn rows_that_live_once_are_read_and_counted_with_and_without_filters(
        sources in sources(60), levels in 0..5usize, filtered: bool,
        ends in prop::collection::vec((0..70u64, 0..3u64, 0..70u64), 1..30),
    ) {
        // Rows of three columns. A row is put in the first source that has it, and marked in the second.
        let row = |row: u64| u128::from(spread(row / 4)) << 64 | u128::from(row % 4 / 2) << 40 | u128::from(row);
        let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
        let sources: Vec<BTreeMap<u128, bool>> = sources.into_iter().map(|source| {
            let mut rows = BTreeMap::new();
            for it in source.into_keys() {
                let times = seen.entry(it).or_default();
                *times += 1;
                if *times <= 2 {
                    rows.insert(row(it), *times == 1);
                }
            }
            rows
        }).collect();
        let rules = if filtered { Rules::ONCE_FILTERED } else { Rules::ONCE };
        let stacked = stack(&sources, levels.min(sources.len() - 1), rules);
        let mut ranges: Vec<_> = ends.into_iter().map(|(first, scope, length)| {
            let start = row(first) & !0xff | u128::from(scope) << 40;
            start..=start.saturating_add(u128::from(length) << if length % 2 == 0 { 64 } else { 0 })
        }).collect();
        ranges.push(0..=u128::MAX);
        agree(&stacked, &left(&sources), &ranges, true).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

#[test]
fn a_damaged_or_missing_block_is_an_error_that_names_the_set() {
    let rows: BTreeMap<u64, bool> = (0..400).map(|i| (spread(i), true)).collect();
    let stacked = stack(&[rows, BTreeMap::new()], 1, Rules::REPEATED);
    let places = stacked.memory.places();
    assert!(places.len() > 8);
    let blocks = stacked.memory.blocks();
    let set = SetReader::new(&stacked.set, blocks.of_table(&TABLE));
    let problem = || match set.each(|_| ()) {
        Err(Error::Damaged {
            table: "test",
            key,
            problem,
        }) => (key, problem),
        other => panic!("{other:?}"),
    };
    stacked.memory.damage(places[3]);
    let (key, what) = problem();
    assert_eq!(key, format!("test, level 0, block up to {:x}", places[3].1));
    assert_eq!(what, "its checksum is not the one in the directory");
    stacked.memory.lose(places[1]);
    assert_eq!(problem().1, "it is missing");
}

/// In a large level, not all chunks are read. Three quarters of the skewed rows have the same first six bits.
#[test]
fn the_shares_of_prefixes_are_those_of_the_rows() -> Result<()> {
    for (count, skewed) in [
        (3_000u64, false),
        (3_000, true),
        (60_000, false),
        (60_000, true),
    ] {
        let spread = |i: u64| {
            i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> if skewed && i % 4 < 3 { 6 } else { 0 }
        };
        let rows: BTreeMap<u64, bool> = (0..count).map(|i| (spread(i), true)).collect();
        let all: Vec<u64> = rows.keys().copied().collect();
        let stacked = stack(&[rows, BTreeMap::new()], 1, Rules::REPEATED);
        let blocks = stacked.memory.blocks();
        let set = SetReader::new(&stacked.set, blocks.of_table(&TABLE));
        for read in [false, true] {
            let shares = set.shares(read)?;
            assert_eq!(shares.len(), 65);
            for bits in [0u32, 2, 4, 6, 7, 8] {
                let prefix = |row: u64| row.unbounded_shr(64 - bits);
                let groups = all
                    .chunk_by(|&a, &b| prefix(a) == prefix(b))
                    .map(|it| (it.len() as f64).powi(2));
                let right = groups.sum::<f64>() / (all.len() as f64).powi(2);
                let ratio = shares[bits as usize] / right;
                // Few blocks tell only of short prefixes, and beyond that take rows to be spread evenly.
                let told = bits <= 4 || count > 3_000 || !skewed;
                assert!(
                    !told || (0.7..1.4).contains(&ratio),
                    "{count}, {bits} bits: {ratio}, read {read}"
                );
            }
        }
    }
    Ok(())
}
