//! Tests of segments: the rows of a level are the same whether they are in memory or not, whoever gives them up or
//! replaces them meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sdd::Guard;

use super::tests::{Stacked, TABLE, level_of, stack};
use super::*;
use crate::error::{Error, Result};
use crate::metrics::Tally;
use crate::store::blocks::{Blocks, CutRows, MemoryBlocks, live_segments};
use crate::store::engine::{BlockTable, LevelChange, LevelName};

const ROOM: u64 = 1 << 30;

/// The same table, with signatures.
static CUT_TABLE: BlockTable = TABLE.with_signatures();

fn spread(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A set with one level of these rows.
fn set_of(rows: impl IntoIterator<Item = u64>) -> Stacked<u64> {
    let rows: BTreeMap<u64, bool> = rows.into_iter().map(|row| (row, true)).collect();
    stack(&[rows, BTreeMap::new()], 1, Rules::REPEATED)
}

/// Blocks with a cache of so many bytes.
fn blocks_of(memory: &MemoryBlocks, capacity: u64) -> Blocks {
    let blocks = memory.blocks();
    blocks.cache.set_capacity(capacity);
    blocks
}

/// Calls `each` with rows of some ranges.
fn read_each(
    set: &SortedSet<u64>,
    blocks: &Blocks,
    ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
    mut each: impl FnMut(&[u64]),
) -> Result<()> {
    let reader = SetReader::new(set, blocks.of_table(&TABLE));
    read_ranges(
        Marks::Ignored,
        usize::MAX,
        |wanted| {
            for range in ranges {
                let (first, last) = range.into_inner();
                let of = ();
                wanted.add(&reader, &[Searched { of, first, last }]);
            }
        },
        |_: &Searched<u64, ()>, puts: &[u64], _: &[u64]| each(puts),
    )?;
    Ok(())
}

/// The rows of a range.
fn read(set: &SortedSet<u64>, blocks: &Blocks, range: &RangeInclusive<u64>) -> Result<Vec<u64>> {
    let mut rows = Vec::new();
    read_each(set, blocks, [range.clone()], |puts| {
        rows.extend(puts.iter().filter(|row| range.contains(row)));
    })?;
    rows.sort_unstable();
    Ok(rows)
}

/// Rows as sets have them, and as they do not: evenly spread, nearly all in one part of the index, one alone.
fn kinds_of_rows() -> Vec<Vec<u64>> {
    let mut crowded: Vec<u64> = (0..4_000).collect();
    crowded.extend([1 << 40, u64::MAX]);
    let mut kinds = vec![(0..4_000).map(spread).collect(), crowded, vec![7]];
    kinds.iter_mut().for_each(|rows| rows.sort_unstable());
    kinds
}

/// Three threads ask, each with numbers of its own and at least a hundred times, while the cache is changed.
fn ask_while_changing(
    ask: impl Fn(u64) -> Result<()> + Sync,
    change: impl Fn(usize),
) -> Result<()> {
    let ask = &ask;
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for number in 0..3 {
            readers.push(scope.spawn(move || -> Result<()> {
                let mut asked = number;
                while !is_over.load(Ordering::Relaxed) || asked < 300 {
                    ask(asked)?;
                    asked += 3;
                }
                Ok(())
            }));
        }
        for round in 0..150 {
            change(round);
            thread::sleep(std::time::Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().expect("no panic"))
    })
}

#[test]
fn rows_are_the_same_while_segments_are_made_and_given_up() -> Result<()> {
    for rows in kinds_of_rows() {
        let stacked = set_of(rows.iter().copied());
        let blocks = blocks_of(&stacked.memory, ROOM);
        let ask = |asked: u64| -> Result<()> {
            let first = rows[spread(asked) as usize % rows.len()];
            let length = u64::MAX >> (spread(asked / 3) % 64);
            let range = first..=first.saturating_add(length);
            let within = rows.iter().copied().filter(|row| range.contains(row));
            let right: Vec<u64> = within.collect();
            assert_eq!(read(&stacked.set, &blocks, &range)?, right, "{range:?}");
            Ok(())
        };
        ask_while_changing(ask, |round| {
            blocks.cache.set_capacity([ROOM, 9_000, 0][round % 3]);
            if round % 10 == 0 {
                blocks.cache.clear();
            }
        })?;
        blocks.cache.set_capacity(0);
        assert_eq!(
            blocks.cache.bytes(),
            0,
            "what was given up is still counted"
        );
    }
    Ok(())
}

/// Somebody who wants the rows of some ranges, and knows rows of the set.
struct Sieve<'s> {
    wanted: Vec<RangeInclusive<u64>>,
    known: &'s BTreeSet<u64>,
    found: BTreeSet<u64>,
    /// The rows whose signatures were looked at.
    sieved: usize,
}

impl Receiver<u64, usize> for &mut Sieve<'_> {
    const SIEVES: bool = true;

    fn receive(&mut self, range: &Searched<u64, usize>, puts: &[u64], _: &[u64]) {
        let wanted = &self.wanted[range.of];
        let within = puts.iter().filter(|row| wanted.contains(row));
        self.found.extend(within);
    }

    fn sieve(
        &mut self,
        range: &Searched<u64, usize>,
        part: CutRows<'_>,
        mut through: impl FnMut(u64),
    ) {
        let wanted = &self.wanted[range.of];
        for &row in part.rows {
            let (low, high): (u64, u64) = part.span(row);
            if low <= *wanted.end() && *wanted.start() <= high {
                through(row);
            }
        }
        self.sieved += part.rows.len();
    }

    fn known(&mut self, range: &Searched<u64, usize>) -> Option<u64> {
        self.known.range(range.first..=range.last).next().copied()
    }
}

/// The rows of ranges that a sieve gets, and the number of rows that it sieved.
fn sieved(
    set: &SortedSet<u64>,
    blocks: &Blocks,
    wanted: &[RangeInclusive<u64>],
    known: &BTreeSet<u64>,
) -> Result<(BTreeSet<u64>, usize)> {
    let mut sieve = Sieve {
        wanted: wanted.to_vec(),
        known,
        found: BTreeSet::new(),
        sieved: 0,
    };
    let reader = SetReader::new(set, blocks.of_table(&CUT_TABLE));
    read_ranges(
        Marks::Ignored,
        usize::MAX,
        |ranges| {
            for (of, range) in wanted.iter().enumerate() {
                let (first, last) = range.clone().into_inner();
                ranges.add(&reader, &[Searched { of, first, last }]);
            }
        },
        &mut sieve,
    )?;
    Ok((sieve.found, sieve.sieved))
}

/// Of the rows of a range none is missing, whether they are in memory, their signatures are, or neither, and whoever
/// cuts them or gives them up meanwhile.
#[test]
fn rows_are_the_same_while_segments_are_cut() -> Result<()> {
    for rows in kinds_of_rows() {
        let stacked = set_of(rows.iter().copied());
        let blocks = blocks_of(&stacked.memory, ROOM);
        let nothing = BTreeSet::new();
        let ask = |asked: u64| -> Result<usize> {
            let first = rows[spread(asked * 3) as usize % rows.len()];
            let length = u64::MAX >> (spread(asked) % 64);
            let range = first..=first.saturating_add(length);
            let within = rows.iter().copied().filter(|row| range.contains(row));
            let right: BTreeSet<u64> = within.collect();
            let (found, sieved) = sieved(
                &stacked.set,
                &blocks,
                std::slice::from_ref(&range),
                &nothing,
            )?;
            assert_eq!(found, right, "{range:?}");
            Ok(sieved)
        };
        ask_while_changing(
            |asked| ask(asked).map(drop),
            |round| {
                blocks.cache.set_rows_fit(round % 7 == 0);
                let capacity = [ROOM, 30_000, 9_000, 0][round % 4];
                blocks.cache.set_capacity(capacity);
            },
        )?;
        // Half of what the rows take is enough for signatures of all.
        blocks.cache.set_rows_fit(false);
        blocks.cache.set_capacity(ROOM);
        blocks.cache.clear();
        (0..2_000).try_for_each(|asked| ask(asked).map(drop))?;
        let rows_bytes = blocks.cache.bytes();
        blocks.cache.set_capacity(rows_bytes * 3 / 4);
        let mut sieved = 0;
        for asked in 0..2_000 {
            sieved += ask(asked)?;
        }
        assert!(rows.len() == 1 || sieved > 2_000, "{sieved} signatures");
        blocks.cache.set_capacity(0);
        assert_eq!(blocks.cache.bytes(), 0);
    }
    Ok(())
}

/// A row that is known is not read, but another one that begins with the same bits is, in whatever source it stands.
#[test]
fn a_known_row_stands_for_no_other() -> Result<()> {
    let mut sources = vec![BTreeMap::new(); 4];
    let mut all = BTreeSet::new();
    for family in 0..1_500 {
        // Rows that differ in the last bits, which no signature has, in one source or in several.
        let first = spread(family) & !0xff;
        for member in 0..1 + family % 3 {
            let row = first | spread(family * 7 + member) & 0xff;
            let source = [0, spread(family + member) % 3][(family % 2) as usize];
            // The last source would be that of a transaction.
            sources[source as usize].insert(row, true);
            all.insert(row);
        }
    }
    let stacked = stack(&sources, 2, Rules::REPEATED);
    let blocks = blocks_of(&stacked.memory, ROOM);
    blocks.cache.set_rows_fit(false);
    let wanted: Vec<RangeInclusive<u64>> = (0..1_500)
        .map(|family| spread(family) & !0xff..=spread(family) | 0xff)
        .collect();
    let nothing = BTreeSet::new();
    for _ in 0..3 {
        sieved(&stacked.set, &blocks, &wanted, &nothing)?;
    }
    blocks.cache.set_capacity(blocks.cache.bytes() * 5 / 9);
    let mut has_sieved = 0;
    for wanted in &wanted {
        for known in [&nothing, &all] {
            let range = std::slice::from_ref(wanted);
            let (found, sieved) = sieved(&stacked.set, &blocks, range, known)?;
            let right: BTreeSet<u64> = all.range(wanted.clone()).copied().collect();
            assert_eq!(found, right, "{wanted:x?}");
            has_sieved += sieved;
        }
    }
    assert!(has_sieved > 1_500, "{has_sieved} signatures");
    // What is known and alone is not read.
    let tally = |known| -> Result<u64> {
        let before = blocks.cache.tallies.sum(Tally::CacheMisses);
        for wanted in &wanted {
            sieved(&stacked.set, &blocks, std::slice::from_ref(wanted), known)?;
        }
        Ok(blocks.cache.tallies.sum(Tally::CacheMisses) - before)
    };
    let read = tally(&nothing)?;
    let read_with_known = tally(&all)?;
    assert!(
        read_with_known < read * 9 / 10,
        "{read_with_known} of {read} blocks"
    );
    Ok(())
}

#[test]
fn what_is_in_memory_is_not_read_again_and_goes_with_its_level() -> Result<()> {
    let rows: Vec<u64> = (0..2_000).map(spread).collect();
    let stacked = set_of(rows.iter().copied());
    let blocks = blocks_of(&stacked.memory, ROOM);
    let all = 0..=u64::MAX;
    let right = read(&stacked.set, &blocks, &all)?;
    assert_eq!(right.len(), rows.len());
    for _ in 0..20 {
        read(&stacked.set, &blocks, &all)?;
    }
    let bytes = blocks.cache.bytes();
    assert!(bytes >= 8 * rows.len() as u64, "{bytes}");
    let Stacked { set, memory, .. } = stacked;
    memory
        .places()
        .into_iter()
        .for_each(|place| memory.lose(place));
    assert_eq!(read(&set, &blocks, &all)?, right);
    // Another version of the level has the same chunks, and so the same segments.
    let other = set.clone();
    drop(set);
    assert_eq!(read(&other, &blocks, &all)?, right);
    assert_eq!(blocks.cache.bytes(), bytes);
    drop(other);
    assert_eq!(blocks.cache.bytes(), 0);
    Ok(())
}

/// While a search reads from storage, others take the places of segments. These are freed before the search ends.
#[test]
fn a_long_search_keeps_little_of_what_is_given_up_meanwhile() -> Result<()> {
    let searched = set_of((0..20_000).map(spread));
    let cold = blocks_of(&searched.memory, 0);
    let other = set_of((0..2_000).map(spread));
    let warm = blocks_of(&other.memory, ROOM);
    let most_live = |has_guard: bool| -> Result<isize> {
        let _guard = has_guard.then(Guard::new);
        let before = live_segments();
        let mut calls = 0;
        let mut most = 0;
        let wanted = (0..1_000).map(|i| spread(i)..=spread(i));
        read_each(&searched.set, &cold, wanted, |_| {
            calls += 1;
            for _ in 0..20 {
                read(&other.set, &warm, &(0..=u64::MAX)).expect("it can be read");
            }
            assert!(warm.cache.bytes() > 0, "no segment is made");
            warm.cache.clear();
            most = most.max(live_segments() - before);
        })?;
        assert!(calls >= 1_000, "{calls} calls");
        Ok(most)
    };
    let kept_by_guard = most_live(true)?;
    assert!(kept_by_guard >= 1_000, "{kept_by_guard}");
    let kept = most_live(false)?;
    assert!(kept < kept_by_guard / 4, "{kept} of {kept_by_guard}");
    Ok(())
}

#[test]
fn a_scan_of_a_set_that_does_not_fit_leaves_what_is_used_often() -> Result<()> {
    let rows: Vec<u64> = (0..8_000).map(spread).collect();
    let stacked = set_of(rows.iter().copied());
    let blocks = blocks_of(&stacked.memory, 16_000);
    let hot = 0..=u64::MAX / 64;
    for _ in 0..400 {
        read(&stacked.set, &blocks, &hot)?;
    }
    for _ in 0..3 {
        read(&stacked.set, &blocks, &(0..=u64::MAX))?;
        read(&stacked.set, &blocks, &hot)?;
    }
    let memory = &stacked.memory;
    memory
        .places()
        .into_iter()
        .for_each(|place| memory.lose(place));
    read(&stacked.set, &blocks, &hot)?;
    assert!(blocks.cache.bytes() <= 16_000);
    Ok(())
}

/// Memory that insertions had filled served no query until each of its blocks was read 64 times.
#[test]
fn what_nobody_uses_any_more_makes_room_soon() -> Result<()> {
    for stays_in_use in [true, false] {
        let stacked = set_of((0..16_000).map(spread));
        let level = &stacked.set.levels[0].level;
        let chunks = (0..).take_while(|&chunk| level.residence(chunk).is_some());
        // The chunk in the middle is of both halves.
        let half = chunks.count() / 2 - 1;
        let resident = |from: usize| {
            let guard = Guard::new();
            let segments = (from..from + half).filter_map(|chunk| level.segment(chunk, &guard));
            segments.count() as f64 / half as f64
        };
        let [first, second] = [0..=u64::MAX / 2, u64::MAX / 2 + 1..=u64::MAX];
        let blocks = blocks_of(&stacked.memory, 100_000);
        for _ in 0..200 {
            read(&stacked.set, &blocks, &first)?;
        }
        assert!(resident(0) > 0.9, "{half} chunks");
        for _ in 0..10 {
            read(&stacked.set, &blocks, &second)?;
            if stays_in_use {
                read(&stacked.set, &blocks, &first)?;
            }
        }
        let shares = [resident(0), resident(half + 2)];
        assert_eq!(shares[0] > 0.9, stays_in_use, "{shares:?}");
        assert_eq!(shares[1] < 0.5, stays_in_use, "{shares:?}");
    }
    Ok(())
}

/// A damaged block does not take the rows of its neighbours along, and is not put into a segment.
#[test]
fn a_damaged_block_is_an_error_for_those_who_need_it_only() -> Result<()> {
    let rows: Vec<u64> = (0..2_000).map(spread).collect();
    let stacked = set_of(rows.iter().copied());
    let places = stacked.memory.places();
    stacked.memory.damage(places[4]);
    let blocks = blocks_of(&stacked.memory, ROOM);
    for _ in 0..100 {
        for (index, (_, last)) in places.iter().enumerate() {
            let row = *last as u64;
            match read(&stacked.set, &blocks, &(row..=row)) {
                Ok(found) => assert_eq!((index == 4, found), (false, vec![row])),
                Err(Error::Damaged { problem, .. }) => {
                    assert_eq!(index, 4);
                    assert_eq!(problem, "its checksum is not the one in the directory");
                }
                Err(error) => return Err(error),
            }
        }
    }
    assert!(blocks.cache.bytes() > 0, "no chunk is in memory");
    Ok(())
}

#[test]
fn what_takes_the_place_of_resident_rows_is_resident_at_once() -> Result<()> {
    let rows: BTreeMap<u64, bool> = (0..3_000).map(|i| (spread(i), true)).collect();
    let memory = MemoryBlocks::default();
    let old = level_of(&rows, Rules::REPEATED, &memory, 0);
    let blocks = blocks_of(&memory, ROOM);
    let of = blocks.of_table(&TABLE);
    let mut set = SortedSet::new(Rules::REPEATED);
    let mut levels = set.new_level();
    levels.level = old.into();
    set.levels.push(levels);
    let all = 0..=u64::MAX;
    for _ in 0..20 {
        read(&set, &blocks, &all)?;
    }
    let old = set.levels[0].level.clone();
    // Two blocks in the middle go, and nothing comes for them. Their neighbours are in new chunks.
    let first = old.after(old.all().start, 40);
    let gone = first..old.after(first, 2);
    let mut left: Vec<u64> = rows.keys().copied().collect();
    for entry in old.entries(gone.clone(), of)? {
        let low = old.entry_before(old.find(entry.high, of)?, of)?;
        let low = low.map_or(0, |low| low.high + 1);
        left.retain(|row| !(low..=entry.high).contains(row));
    }
    let name = LevelName {
        table: &TABLE,
        number: 0,
    };
    let mut change = LevelChange::none(name);
    let new = old.splice(gone, &[], 3, of, &mut change)?;
    memory
        .places()
        .into_iter()
        .for_each(|place| memory.lose(place));
    new.take_over(&old, of)?;
    set.levels[0].level = new.into();
    assert_eq!(read(&set, &blocks, &all)?, left);
    // What no level had in memory is made if there is room, but not where filters keep searches away.
    for (rules, capacity, is_made) in [
        (Rules::REPEATED, 0, false),
        (Rules::REPEATED, ROOM, true),
        (Rules::ONCE_FILTERED, ROOM, false),
    ] {
        let memory = MemoryBlocks::default();
        let cold = level_of(&rows, rules, &memory, 0);
        let blocks = blocks_of(&memory, capacity);
        cold.take_over(&Level::empty(0), blocks.of_table(&TABLE))?;
        assert_eq!(blocks.cache.bytes() > 0, is_made);
    }
    Ok(())
}
