//! Crowds: the prefixes that many rows of a set have.
//!
//! Of a small set all rows are read. Of a large one, only the directories are. If several neighbouring blocks of a
//! level end with the same prefix, all rows of these blocks have it, but for those of the first. So a prefix with more
//! rows than two blocks have is found, and its rows are then counted. What is not found has few rows, and it is known
//! how few.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::read::Reader;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::store::file::{POSTINGS, SetRow, permuted, scope_of};
use crate::store::numbers::ScopeNumber;
use crate::store::sorted_set::{SetLevel, SetReader};

/// Prefixes with fewer rows in a run in memory are not looked at.
const LEAST_IN_RUN: usize = 64;

/// For each prefix that is wanted, this number of prefixes are counted, and some more.
const COUNTED_PER_WANTED: usize = 8;
const COUNTED_AT_LEAST: usize = 64;

/// A prefix that many rows have. The bits behind the prefix are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) prefix: u64,
    pub(crate) rows: u64,
}

/// The prefixes that most rows have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crowds {
    /// The one with the most rows first.
    pub(crate) list: Vec<Crowd>,
    /// Every prefix with this number of rows or more is in the list, if it is not full.
    pub(crate) all_from: u64,
}

impl Reader<'_> {
    /// The fingerprints that most documents have: at most `most`. With no more postings than `most_read`, all are read.
    pub(crate) fn largest_groups(self, most: usize, most_read: u64) -> Result<Crowds> {
        crowds(
            &self.set(POSTINGS),
            64,
            most,
            most_read,
            // Every document is counted once.
            |row| ScopeNumber::ALL_DOCUMENTS.contains(&scope_of(row)),
            |range| self.documents_of(Fingerprint::from_bits(*range.start())),
        )
    }

    /// The prefixes of a table, of the length that it was made for, that most rows have: at most `most`. A table
    /// with no more rows than `most_read` is read as a whole.
    pub(crate) fn fullest_prefixes(
        self,
        table: usize,
        most: usize,
        most_read: u64,
    ) -> Result<Crowds> {
        let bits = self.settings().plan.tables()[table].prefix_bits;
        let set = self.set(permuted(table));
        crowds(
            &set,
            bits,
            most,
            most_read,
            |_| true,
            |range| Ok(set.puts_and_marks(&range)?.0),
        )
    }
}

/// Finds the prefixes of `bits` bits, 1 to 64, that most rows have: at most `most`. A set with no more rows than
/// `most_read` is read as a whole. Only rows of the set that `counts` accepts count. `count` counts those whose prefix
/// is in a range.
fn crowds<R: SetRow>(
    reader: &SetReader<'_, R>,
    bits: u32,
    most: usize,
    most_read: u64,
    counts: impl Fn(R) -> bool,
    count: impl FnMut(RangeInclusive<u64>) -> Result<u64>,
) -> Result<Crowds> {
    let rows = reader.set.rows();
    let mut top = Top {
        list: Vec::new(),
        most,
    };
    // Marks have to be read too.
    let all_from = if rows.0 + rows.1 <= most_read {
        read_all(reader, bits, counts, &mut top)?;
        1
    } else {
        count_found(reader, bits, count, &mut top)?
    };
    Ok(Crowds {
        list: top.list,
        all_from,
    })
}

fn behind(bits: u32) -> u64 {
    u64::MAX.checked_shr(bits).unwrap_or(0)
}

fn read_all<R: SetRow>(
    reader: &SetReader<'_, R>,
    bits: u32,
    counts: impl Fn(R) -> bool,
    top: &mut Top,
) -> Result<()> {
    let behind = behind(bits);
    let mut current: Option<Crowd> = None;
    for range in reader.parts()? {
        for row in reader.rows(&range)? {
            if !counts(row) {
                continue;
            }
            let prefix = row.prefix() & !behind;
            match &mut current {
                Some(crowd) if crowd.prefix == prefix => crowd.rows += 1,
                _ => {
                    if let Some(before) = current.replace(Crowd { prefix, rows: 1 }) {
                        top.add(before);
                    }
                }
            }
        }
    }
    if let Some(last) = current {
        top.add(last);
    }
    Ok(())
}

/// Adds the prefixes that the directories tell of. Returns the number of rows from which on there is no other.
fn count_found<R: SetRow>(
    reader: &SetReader<'_, R>,
    bits: u32,
    mut count: impl FnMut(RangeInclusive<u64>) -> Result<u64>,
    top: &mut Top,
) -> Result<u64> {
    let behind = behind(bits);
    let (known, unknown) = known_prefixes(reader, behind)?;
    let mut known: Vec<(u64, u64)> = known.into_iter().collect();
    known.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let most_counted = COUNTED_PER_WANTED.saturating_mul(top.most);
    let most_counted = most_counted.saturating_add(COUNTED_AT_LEAST);
    for (index, &(prefix, rows)) in known.iter().enumerate() {
        let most = rows + unknown;
        if top.has_all_from(most) {
            break;
        }
        if index == most_counted {
            return Ok(most);
        }
        top.add(Crowd {
            prefix,
            rows: count(prefix..=prefix | behind)?,
        });
    }
    Ok(unknown)
}

/// The prefixes that the directories and the runs in memory know to have many rows, with the number of rows that surely
/// have each, marked or not. Beside these, each prefix has fewer rows than the second number.
fn known_prefixes<R: SetRow>(
    reader: &SetReader<'_, R>,
    behind: u64,
) -> Result<(HashMap<u64, u64>, u64)> {
    let mut known: HashMap<u64, u64> = HashMap::new();
    let mut unknown = 1;
    for SetLevel { level, .. } in &reader.set.levels {
        let mut before = None;
        let mut most = 0;
        for entry in level.entries(level.all(), reader.blocks)? {
            let prefix = entry.high.prefix() & !behind;
            if before == Some(prefix) {
                *known.entry(prefix).or_default() += u64::from(entry.puts);
            }
            before = Some(prefix);
            most = most.max(u64::from(entry.puts));
        }
        // A part of the block that ends with the prefix first, and a part of the block behind the last.
        unknown += 2 * most;
    }
    for run in reader.runs() {
        for rows in run
            .puts()
            .chunk_by(|a, b| a.prefix() & !behind == b.prefix() & !behind)
        {
            if rows.len() >= LEAST_IN_RUN {
                *known.entry(rows[0].prefix() & !behind).or_default() += rows.len() as u64;
            }
        }
        unknown += LEAST_IN_RUN as u64;
    }
    Ok((known, unknown))
}

/// The largest crowds so far.
struct Top {
    /// The largest first, and of equal ones the one with the least prefix.
    list: Vec<Crowd>,
    most: usize,
}

impl Top {
    fn add(&mut self, crowd: Crowd) {
        let index = self
            .list
            .partition_point(|other| (other.rows, !other.prefix) > (crowd.rows, !crowd.prefix));
        if index < self.most && crowd.rows > 0 {
            self.list.insert(index, crowd);
            self.list.truncate(self.most);
        }
    }

    /// Whether the list is full, and a crowd of at most `most` rows would not come into it.
    fn has_all_from(&self, most: u64) -> bool {
        self.list.len() >= self.most && self.list.last().is_none_or(|least| least.rows >= most)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::sorted_set::{Rules, TABLE, stack};

    /// Two levels and a run with prefixes of eight bits: many rows have 7 or 9, some 11, and the others are spread.
    fn sources() -> Vec<BTreeMap<u64, bool>> {
        let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rows = |count: u64, seed: u64| {
            let crowd = |prefix: u64, rows: u64| {
                (0..rows).map(move |i| prefix << 56 | spread(i + seed) >> 8)
            };
            let rows = crowd(7, 3 * count)
                .chain(crowd(9, 2 * count))
                .chain(crowd(11, count / 40));
            let rows = rows.chain((0..count).map(|i| spread(i + seed)));
            rows.map(|row| (row, true)).collect::<BTreeMap<u64, bool>>()
        };
        vec![
            rows(2_000, 0),
            rows(400, 10_000),
            rows(100, 20_000),
            BTreeMap::new(),
        ]
    }

    #[test]
    fn directories_tell_of_every_prefix_that_fills_blocks_and_few_rows_are_counted() -> Result<()> {
        let sources = sources();
        let stacked = stack(&sources, 2, Rules::ONCE);
        let blocks = stacked.memory.blocks();
        let reader = SetReader::new(&stacked.set, blocks.of_table(&TABLE));
        let mut expected = BTreeMap::<u64, u64>::new();
        let all = sources.iter().flat_map(BTreeMap::keys);
        all.for_each(|row| *expected.entry(row >> 56 << 56).or_default() += 1);
        let mut expected: Vec<Crowd> = expected
            .into_iter()
            .map(|(prefix, rows)| Crowd { prefix, rows })
            .collect();
        expected.sort_by_key(|crowd| (std::cmp::Reverse(crowd.rows), crowd.prefix));
        assert_eq!((expected[0].prefix, expected[1].prefix), (7 << 56, 9 << 56));
        let find = |most, most_read| {
            let mut counted = 0;
            let count = |range: RangeInclusive<u64>| {
                counted += 1;
                Ok(expected
                    .iter()
                    .find(|crowd| crowd.prefix == *range.start())
                    .map_or(0, |crowd| crowd.rows))
            };
            crowds(&reader, 8, most, most_read, |_| true, count).map(|found| (found, counted))
        };
        let (found, counted) = find(300, u64::MAX)?;
        assert_eq!(
            (found.list, found.all_from, counted),
            (expected.clone(), 1, 0)
        );
        for most in [0, 1, 2] {
            let (found, counted) = find(most, 0)?;
            assert_eq!(found.list, expected[..most]);
            assert!(counted <= most + 1, "{most}: {counted} were counted");
        }
        let (found, _) = find(300, 0)?;
        assert!(found.all_from < 1_000, "{}", found.all_from);
        let surely = expected
            .iter()
            .filter(|crowd| crowd.rows >= found.all_from)
            .count();
        assert_eq!(found.list[..surely], expected[..surely]);
        Ok(())
    }

    #[test]
    fn the_largest_crowds_are_kept_in_order() {
        let mut top = Top {
            list: Vec::new(),
            most: 3,
        };
        for (prefix, rows) in [(5, 2), (1, 7), (9, 0), (4, 2), (8, 3), (2, 7)] {
            top.add(Crowd { prefix, rows });
        }
        let list: Vec<_> = top.list.iter().map(|it| (it.prefix, it.rows)).collect();
        assert_eq!(list, [(1, 7), (2, 7), (8, 3)]);
        assert!(top.has_all_from(3) && !top.has_all_from(4));
    }
}
