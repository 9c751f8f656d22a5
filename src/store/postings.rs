//! Postings: the documents of each fingerprint, as rows of fingerprint, scope and document.

use std::ops::{Range, RangeInclusive};

use smallvec::{SmallVec, smallvec};

use super::read::Reader;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::source::Numbers;
use crate::store::file::{POSTINGS, all_listed, fingerprint_of, number_of, posting_row, scope_of};
use crate::store::numbers::{DocumentNumber, ReadScopes, ScopeNumber};
use crate::store::sorted_set::{Marks, Searched, SetReader, read_ranges};

/// A fingerprint whose documents are wanted, with the scopes whose lists are to be read, in order.
type WantedPostings = (Fingerprint, ReadScopes);

/// The documents of a fingerprint that one scope lists.
pub(crate) struct Posted {
    /// The index of the fingerprint among those wanted.
    pub(crate) index: usize,
    pub(crate) scope: ScopeNumber,
    /// The number of documents.
    pub(crate) total: u64,
    /// The documents, the newest first. `None` if there may be many.
    pub(crate) numbers: Option<PostedNumbers>,
}

/// Most fingerprints have few documents. To allocate for each took a tenth of the time of queries that are answered
/// together.
pub(crate) type PostedNumbers = SmallVec<[DocumentNumber; 2]>;

/// The most rows of a fingerprint, put and marked, that are read one by one. More rows are counted.
const FEW: usize = 64;

/// The most rows of a range, with neighbours, that are read of one part of a level.
const MOST_READ: usize = 4 * FEW;

/// So many ranges are read without allocating for each list of them. Most queries have no more near fingerprints.
const FEW_RANGES: usize = 4;

/// The most scopes of a fingerprint whose postings are read by ranges of their own.
const FEW_SCOPES: usize = 4;

impl Reader<'_> {
    /// Fetches what [`posted`](Self::posted) reads first. So the processor waits for it while it compares what is left.
    pub(crate) fn prefetch_posted(self, fingerprint: Fingerprint) {
        self.set(POSTINGS)
            .prefetch(*all_listed(fingerprint).start());
    }

    /// The documents of each wanted fingerprint, in each of its scopes.
    pub(crate) fn posted(self, wanted: &[WantedPostings]) -> Result<Vec<Posted>> {
        posted(self.set(POSTINGS), wanted)
    }

    /// The newest documents of a fingerprint in a scope: at most `limit`, the newest first. All their
    /// numbers are in `numbers`.
    pub(crate) fn newest(
        self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        numbers: Range<DocumentNumber>,
        limit: usize,
    ) -> Result<Vec<DocumentNumber>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let Some(last) = numbers.end.previous() else {
            return Ok(Vec::new());
        };
        let range = listed(fingerprint, scope, numbers.start..=last);
        let rows = self.set(POSTINGS).last(&range, limit)?;
        Ok(rows.into_iter().map(number_of).collect())
    }

    /// The documents of each wanted fingerprint in each of its scopes, without those whose numbers are below
    /// the number that stands beside it. If a fingerprint has many scopes, some of those are there too.
    pub(crate) fn posted_from(
        self,
        wanted: &[(WantedPostings, DocumentNumber)],
    ) -> Result<Vec<Posted>> {
        let mut ranges = Vec::new();
        let mut of_ranges = Vec::new();
        let mut many = Vec::new();
        let mut of_many = Vec::new();
        for (index, ((fingerprint, scopes), from)) in wanted.iter().enumerate() {
            if scopes.len() > FEW_SCOPES {
                many.push((*fingerprint, scopes.clone()));
                of_many.push(index);
                continue;
            }
            for &scope in &**scopes {
                ranges.push(listed(*fingerprint, scope, *from..=DocumentNumber::MAX));
                of_ranges.push((index, scope));
            }
        }
        let mut all = posted_in(self.set(POSTINGS), &ranges)?;
        for posted in &mut all {
            (posted.index, posted.scope) = of_ranges[posted.index];
        }
        if !many.is_empty() {
            for mut posted in self.posted(&many)? {
                posted.index = of_many[posted.index];
                all.push(posted);
            }
        }
        Ok(all)
    }

    /// The documents of a fingerprint that are not among these numbers.
    pub(crate) fn leave_out(
        self,
        fingerprint: Fingerprint,
        mut posted: Posted,
        ignored: &Numbers,
    ) -> Result<Posted> {
        if let Some(numbers) = &mut posted.numbers {
            numbers.retain(|number| !number.is_among(ignored));
            posted.total = numbers.len() as u64;
            return Ok(posted);
        }
        let mut ranges = Vec::new();
        for range in ignored.ranges() {
            let first = DocumentNumber(range.start);
            let last = DocumentNumber(range.end - 1).min(DocumentNumber::MAX);
            ranges.push(listed(fingerprint, posted.scope, first..=last));
        }
        for left_out in posted_in(self.set(POSTINGS), &ranges)? {
            posted.total = posted.total.saturating_sub(left_out.total);
        }
        Ok(posted)
    }

    pub(super) fn documents_of(self, fingerprint: Fingerprint) -> Result<u64> {
        let posted = self.posted(&[(fingerprint, ReadScopes::AllDocuments)])?;
        Ok(posted.iter().map(|posted| posted.total).sum())
    }
}

/// The documents of each wanted fingerprint, in each of its scopes. Scopes without any may be left out.
fn posted(reader: SetReader<'_, u128>, wanted: &[WantedPostings]) -> Result<Vec<Posted>> {
    let mut ranges: SmallVec<[RangeInclusive<u128>; FEW_RANGES]> = SmallVec::new();
    for (fingerprint, _) in wanted {
        ranges.push(all_listed(*fingerprint));
    }
    let few = few_rows(reader, &ranges)?;
    let mut all = Vec::with_capacity(2 * wanted.len());
    for (index, (fingerprint, scopes)) in wanted.iter().enumerate() {
        let rows = few.rows_of(index);
        if let Some(rows) = rows.filter(|rows| rows.len() < scopes.len()) {
            add_listed(index, rows, scopes, &mut all);
            continue;
        }
        for &scope in &**scopes {
            let range = listed(
                *fingerprint,
                scope,
                DocumentNumber::MIN..=DocumentNumber::MAX,
            );
            let (total, numbers) = total_of(reader, rows, &range)?;
            all.push(Posted {
                index,
                scope,
                total,
                numbers,
            });
        }
    }
    Ok(all)
}

/// Adds the documents of a fingerprint that has fewer rows than scopes are wanted. The scopes are in order.
fn add_listed(index: usize, rows: &[PostingRow], scopes: &[ScopeNumber], all: &mut Vec<Posted>) {
    for rows in rows.chunk_by(|a, b| scope_of(a.row) == scope_of(b.row)) {
        let scope = scope_of(rows[0].row);
        if scopes.binary_search(&scope).is_ok() {
            let numbers: PostedNumbers = rows.iter().rev().map(|row| number_of(row.row)).collect();
            all.push(Posted {
                index,
                scope,
                total: numbers.len() as u64,
                numbers: Some(numbers),
            });
        }
    }
}

/// The documents that stand in each of some ranges of rows. Each range has rows of one fingerprint and one
/// scope. The index is that of the range.
fn posted_in(reader: SetReader<'_, u128>, ranges: &[RangeInclusive<u128>]) -> Result<Vec<Posted>> {
    let few = few_rows(reader, ranges)?;
    let mut all = Vec::with_capacity(ranges.len());
    for (index, range) in ranges.iter().enumerate() {
        let (total, numbers) = total_of(reader, few.rows_of(index), range)?;
        all.push(Posted {
            index,
            scope: ScopeNumber::EMPTY,
            total,
            numbers,
        });
    }
    Ok(all)
}

/// The number of documents in a range of rows, and the documents themselves if they are among rows that were
/// read. `rows` has all rows of the range, and perhaps others, or nothing if there are many.
fn total_of(
    reader: SetReader<'_, u128>,
    rows: Option<&[PostingRow]>,
    range: &RangeInclusive<u128>,
) -> Result<(u64, Option<PostedNumbers>)> {
    if let Some(rows) = rows {
        let mut numbers = PostedNumbers::new();
        for PostingRow { row, .. } in rows.iter().rev() {
            if range.contains(row) {
                numbers.push(number_of(*row));
            }
        }
        return Ok((numbers.len() as u64, Some(numbers)));
    }
    let (puts, marks) = reader.puts_and_marks(range)?;
    let Some(total) = puts.checked_sub(marks) else {
        let problem = "more documents are marked as deleted than there are";
        let fingerprint = fingerprint_of(*range.start());
        return Err(Error::damaged("postings", &fingerprint, problem));
    };
    Ok((total, None))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PostingRow {
    /// The index of its range.
    index: usize,
    row: u128,
    put: bool,
}

/// The rows of the ranges that have few.
struct FewRows {
    /// In order.
    rows: SmallVec<[PostingRow; 2 * FEW_RANGES]>,
    /// The indexes of the ranges that have many, in order.
    many: Vec<usize>,
}

impl FewRows {
    /// The rows of a range, or `None` if it has many.
    fn rows_of(&self, index: usize) -> Option<&[PostingRow]> {
        if self.many.binary_search(&index).is_ok() {
            return None;
        }
        let from = self.rows.partition_point(|row| row.index < index);
        let count = self.rows[from..].partition_point(|row| row.index == index);
        Some(&self.rows[from..from + count])
    }
}

/// Reads the rows of all ranges together.
fn few_rows(reader: SetReader<'_, u128>, ranges: &[RangeInclusive<u128>]) -> Result<FewRows> {
    let mut counts: SmallVec<[usize; FEW_RANGES]> = smallvec![0; ranges.len()];
    let mut rows = SmallVec::new();
    let read = read_ranges(
        Marks::Wanted,
        MOST_READ,
        |to_read| {
            for (index, range) in ranges.iter().enumerate() {
                let first = *range.start();
                let last = *range.end();
                let of = index;
                to_read.add(&reader, &[Searched { of, first, last }]);
            }
        },
        |range: &Searched<u128, usize>, puts: &[u128], marks: &[u128]| {
            let index = range.of;
            for (found, put) in [(puts, true), (marks, false)] {
                let found = found
                    .iter()
                    .filter(|&&row| range.first <= row && row <= range.last);
                for &row in found.take(FEW + 1 - counts[index]) {
                    rows.push(PostingRow { index, row, put });
                    counts[index] += 1;
                }
            }
        },
    )?;
    let mut many = read.too_long;
    many.extend((0..ranges.len()).filter(|&index| counts[index] > FEW));
    rows.sort_unstable();
    leave_out_marked(&mut rows, &mut many);
    many.sort_unstable();
    Ok(FewRows { rows, many })
}

/// Removes each mark with the row that it marks, which stands behind it. If there is no such row, `many` gets the index
/// of the range: counting finds out what is wrong.
fn leave_out_marked(rows: &mut SmallVec<[PostingRow; 2 * FEW_RANGES]>, many: &mut Vec<usize>) {
    let mut marked: Option<PostingRow> = None;
    rows.retain(|row| {
        if !row.put {
            many.extend(marked.replace(*row).map(|unmatched| unmatched.index));
            return false;
        }
        let is_marked = marked.is_some_and(|mark| mark.index == row.index && mark.row == row.row);
        if is_marked {
            marked = None;
        }
        !is_marked
    });
    many.extend(marked.map(|unmatched| unmatched.index));
}

/// The rows of the documents of a fingerprint in a scope whose numbers are in a range.
fn listed(
    fingerprint: Fingerprint,
    scope: ScopeNumber,
    numbers: RangeInclusive<DocumentNumber>,
) -> RangeInclusive<u128> {
    posting_row(fingerprint, scope, *numbers.start())
        ..=posting_row(fingerprint, scope, *numbers.end())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::store::blocks::{BlockCache, Blocks, MemoryBlocks};
    use crate::store::engine::{BlockSource, LevelName};
    use crate::store::sorted_set::{Rules, TABLE, stack};

    /// Blocks in memory that count how often one is read.
    struct Counted {
        memory: MemoryBlocks,
        reads: AtomicUsize,
    }

    impl BlockSource for Counted {
        fn read_block(
            &self,
            level: LevelName,
            last: u128,
            read: &mut dyn FnMut(&[u8]) -> Result<()>,
        ) -> Result<bool> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.memory.read_block(level, last, read)
        }

        fn read_chunk(
            &self,
            level: LevelName,
            last: u128,
            read: &mut dyn FnMut(&[u8]) -> Result<()>,
        ) -> Result<bool> {
            self.memory.read_chunk(level, last, read)
        }
    }

    /// To remove each pair from a list by itself took time that grew with the square of the pairs.
    #[test]
    fn what_is_marked_is_left_out_and_a_mark_without_its_row_is_told() {
        let posting = |index, row, put| PostingRow { index, row, put };
        let mut rows = SmallVec::new();
        let mut left = Vec::new();
        let mut unmatched = Vec::new();
        for number in 0..300_000u128 {
            let (index, row) = (number as usize / 60, number % 60);
            match number % 7 {
                0..3 => rows.extend([posting(index, row, false), posting(index, row, true)]),
                3 => {
                    rows.push(posting(index, row, false));
                    unmatched.push(index);
                }
                _ => {
                    rows.push(posting(index, row, true));
                    left.push(posting(index, row, true));
                }
            }
        }
        let begun = std::time::Instant::now();
        let mut told = Vec::new();
        leave_out_marked(&mut rows, &mut told);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        assert_eq!((rows.into_vec(), told), (left, unmatched));
    }

    /// Without a cache, a block was read and decoded for each of its fingerprints. They come in the order
    /// of their distance, so neighbours in a block are far apart.
    #[test]
    fn without_a_cache_a_block_is_read_once_for_many_fingerprints() -> Result<()> {
        let fingerprint = |i: u64| Fingerprint::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let row = |i| posting_row(fingerprint(i), ScopeNumber::EMPTY, DocumentNumber(i));
        let stacked = stack(
            &[(0..1_000).map(|i| (row(i), true)).collect(), [].into()],
            1,
            Rules::ONCE,
        );
        let blocks_in_all = stacked.memory.places().len();
        assert!(blocks_in_all > 50, "{blocks_in_all}");
        let counted = Arc::new(Counted {
            memory: stacked.memory.clone(),
            reads: AtomicUsize::new(0),
        });
        let file = stacked.memory.blocks().file();
        let blocks = Blocks::new(counted.clone(), Arc::new(BlockCache::new(0)), file);
        let reader = SetReader::new(&stacked.set, blocks.of_table(&TABLE));
        let wanted: Vec<WantedPostings> = (0..1_000)
            .map(|i| {
                (
                    fingerprint(i),
                    ReadScopes::These([ScopeNumber::EMPTY].into()),
                )
            })
            .collect();
        let posted = posted(reader, &wanted)?;
        assert_eq!(posted.len(), 1_000);
        assert!(posted.iter().all(|it| it.total == 1));
        // The last fingerprint of a block might go on in the next. So it is counted, which reads both again.
        let reads = counted.reads.load(Ordering::Relaxed);
        assert!(
            reads <= 3 * blocks_in_all && 3 * blocks_in_all < 500,
            "{reads} of {blocks_in_all} blocks"
        );
        Ok(())
    }
}
