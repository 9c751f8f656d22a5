//! What is in memory of the rows of a chunk. Segments: the rows, decoded, one after the other, with where each prefix
//! begins. A search finds its rows by arithmetic: it reads the index, then the rows.
//!
//! Signatures, where whole rows do not fit: the bits of the rows that follow those that the index knows, 32 of each.
//! They tell nearly alone which rows can be near to a query, in half of the memory. What they let through is read from
//! its block.

use std::ops::{Range, RangeInclusive};

use super::row::{Lists, Row};
use crate::store::lookup::{LargeList, Prefixes, prefetch, prefetch_at};

/// A part of the index has this number of rows, or up to twice this number. Rows of 8 bytes fill half a line of
/// memory, or one.
pub(crate) const ROWS_PER_PREFIX: usize = 4;

/// If a part of the index has more rows than this, an end of a range is searched there. Otherwise all its rows are
/// given.
const MOST_AROUND: usize = 64;

/// The bytes of a line of memory.
const LINE_BYTES: usize = 64;

/// The most lines of a range that are fetched ahead. The processor fetches the next lines by itself while it goes
/// through them.
const MOST_LINES: usize = 16;

/// The indexes of the rows of a range, perhaps with some of their neighbours. `prefixes` is the index of the rows.
#[inline]
pub(crate) fn around<R: Row>(rows: &[R], prefixes: &Prefixes, first: R, last: R) -> Range<usize> {
    let around = prefixes.around(first.prefix(), last.prefix());
    if around.len() <= MOST_AROUND {
        return around;
    }
    let low = prefixes.around(first.prefix(), first.prefix());
    let high = prefixes.around(last.prefix(), last.prefix());
    let mut start = low.start;
    if low.len() > MOST_AROUND {
        start += rows[low].partition_point(|&row| row < first);
    }
    let mut end = high.end;
    if high.len() > MOST_AROUND {
        end = high.start + rows[high].partition_point(|&row| row <= last);
    }
    start..end.max(start)
}

/// The rows of neighbouring blocks. What a search for rows that are put reads stands in one line of memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Segment<R> {
    /// An index over the rows that are put.
    prefixes: Prefixes,
    puts: LargeList<R>,
    marks: Box<[R]>,
    #[cfg(test)]
    _live: live::Live,
}

impl<R: Row> Segment<R> {
    const ROWS_PER_LINE: usize = LINE_BYTES / size_of::<R>();

    /// A segment of these rows, which are in order.
    pub(crate) fn new(puts: LargeList<R>, marks: Vec<R>) -> Self {
        let prefixes = puts.iter().map(|row| row.prefix());
        Self {
            prefixes: Prefixes::new(prefixes, ROWS_PER_PREFIX),
            puts,
            marks: marks.into(),
            #[cfg(test)]
            _live: live::Live::new(),
        }
    }

    /// The rows that are put.
    #[inline]
    pub(crate) fn puts(&self) -> &[R] {
        &self.puts
    }

    /// The rows that are marked.
    pub(crate) fn marks(&self) -> &[R] {
        &self.marks
    }

    /// Fetches what [`prefetch_index`](Self::prefetch_index) reads, and if marks are wanted, where they stand.
    #[inline]
    pub(crate) fn prefetch(&self, with_marks: bool) {
        prefetch(self);
        if with_marks {
            prefetch(&self.marks);
        }
    }

    /// Fetches what [`around`](Self::around) reads.
    #[inline]
    pub(crate) fn prefetch_index(&self, first: R, last: R) {
        self.prefixes.prefetch(first.prefix(), last.prefix());
    }

    /// The indexes of the rows of a range that are put, perhaps with some of their neighbours. These rows fill whole
    /// lines of memory, but for the last row that is put: to compare all rows of a line takes less time than a branch
    /// that the processor cannot predict.
    #[inline]
    pub(crate) fn around(&self, range: &RangeInclusive<R>) -> Range<usize> {
        let around = around(&self.puts, &self.prefixes, *range.start(), *range.end());
        let line = Self::ROWS_PER_LINE;
        let end = around.end.next_multiple_of(line).min(self.puts.len());
        around.start / line * line..end
    }

    /// Fetches these rows.
    #[inline]
    pub(crate) fn prefetch_rows(&self, around: &Range<usize>) {
        let line = Self::ROWS_PER_LINE;
        // Most ranges have one line or two. A loop over these ends where the processor cannot predict it.
        let last = around.end.saturating_sub(1);
        prefetch_at(&self.puts, around.start);
        prefetch_at(&self.puts, last);
        let mut index = around.start + line;
        let end = last.min(around.start + MOST_LINES * line);
        while index + line <= end {
            prefetch_at(&self.puts, index);
            index += line;
        }
    }

    /// The most memory that a segment of so many rows takes, in bytes.
    pub(crate) fn most_bytes(puts: usize, marks: usize) -> usize {
        let index = Prefixes::most_bytes(puts, ROWS_PER_PREFIX);
        size_of::<Self>() + LargeList::<R>::bytes_for(puts) + index + marks * size_of::<R>()
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let rows = self.puts.memory_bytes() + size_of_val(&*self.marks);
        size_of::<Self>() + rows + self.prefixes.memory_bytes()
    }
}

/// The number of segments in memory, by the threads that made them or freed them.
#[cfg(test)]
pub(super) mod live {
    use std::cell::Cell;

    thread_local! {
        static MADE: Cell<isize> = const { Cell::new(0) };
    }

    /// Stands in a segment for as long as that is in memory.
    #[derive(Debug)]
    pub(super) struct Live(());

    impl Live {
        pub(super) fn new() -> Self {
            MADE.set(MADE.get() + 1);
            Self(())
        }
    }

    impl Drop for Live {
        fn drop(&mut self) {
            MADE.set(MADE.get() - 1);
        }
    }

    /// The segments that this thread has made, less those that it has freed.
    pub(crate) fn live_segments() -> isize {
        MADE.get()
    }
}

/// A part of the index has this number of rows, or up to twice this number: a line of memory, or two.
const ROWS_PER_PART: usize = 16;

/// The bits of a signature.
const SIGNATURE_BITS: u32 = u32::BITS;

/// About the most rows that are given at a time.
const TOGETHER: usize = 1024;

/// The signatures of the rows of a chunk that are put. Those that are marked have none: who wants them reads the
/// blocks. What a search reads stands in one line of memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Signatures {
    prefixes: Prefixes,
    signatures: LargeList<u32>,
}

/// Neighbouring rows of which only the first bits are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutRows<'a> {
    /// The prefixes of the rows in order. What is not known of them is 0.
    pub(crate) rows: &'a [u64],
    /// The number of bits that are not known.
    pub(crate) unknown_bits: u32,
    /// Whether no other row of the chunk begins as one of them does.
    are_all: bool,
}

impl CutRows<'_> {
    /// The first and the last row that one of these rows can be.
    pub(crate) fn span<R: Row>(self, row: u64) -> (R, R) {
        let last = row | ((1 << self.unknown_bits) - 1);
        (R::join(row, [0; 2]), R::join(last, [u64::MAX; 2]))
    }

    /// Whether no other row of the chunk begins as this one of them does.
    pub(crate) fn is_alone(self, row: u64) -> bool {
        let first = self.rows.partition_point(|&other| other < row);
        self.are_all && self.rows.get(first + 1) != Some(&row)
    }
}

impl Signatures {
    /// The signatures of rows, which are in order.
    pub(crate) fn new<R: Row>(rows: &[R]) -> Self {
        let prefixes = Prefixes::new(rows.iter().map(|row| row.prefix()), ROWS_PER_PART);
        let unknown_bits = unknown_bits(&prefixes);
        let mut signatures = LargeList::with_capacity(rows.len());
        for row in rows {
            signatures.extend_from_slice(&[signature(row.prefix(), unknown_bits)]);
        }
        Self {
            prefixes,
            signatures,
        }
    }

    /// Fetches what [`prefetch_index`](Self::prefetch_index) reads.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self);
    }

    /// Fetches where the signatures of a range begin and end.
    #[inline]
    pub(crate) fn prefetch_index(&self, first: u64, last: u64) {
        self.prefixes.prefetch(first, last);
    }

    /// Fetches the signatures of a range.
    #[inline]
    pub(crate) fn prefetch_rows(&self, first: u64, last: u64) {
        /// The processor fetches the next lines by itself while it goes through them.
        const MOST_LINES: usize = 8;
        const PER_LINE: usize = LINE_BYTES / size_of::<u32>();
        let around = self.prefixes.around(first, last);
        prefetch_at(&self.signatures, around.end.saturating_sub(1));
        let lines = around.step_by(PER_LINE).take(MOST_LINES);
        lines.for_each(|index| prefetch_at(&self.signatures, index));
    }

    /// Calls `each` with the rows of a range, perhaps with some of their neighbours. `rows` is memory for them.
    #[inline]
    pub(crate) fn each_around(
        &self,
        (first, last): (u64, u64),
        rows: &mut Vec<u64>,
        mut each: impl FnMut(CutRows<'_>),
    ) {
        let unknown_bits = unknown_bits(&self.prefixes);
        rows.clear();
        rows.reserve(TOGETHER);
        for (beginning, items) in self.prefixes.parts(first, last) {
            let whole = self.signatures.get(items).unwrap_or_default();
            let are_all = whole.len() <= MOST_AROUND;
            let part = match are_all {
                true => whole,
                false => self.within(whole, beginning, first, last),
            };
            if !are_all || rows.len() + part.len() > TOGETHER {
                give(rows, unknown_bits, true, &mut each);
            }
            for &signature in part {
                rows.push(beginning | u64::from(signature) << unknown_bits);
            }
            if !are_all {
                give(rows, unknown_bits, false, &mut each);
            }
        }
        give(rows, unknown_bits, true, &mut each);
    }

    /// The signatures of a part that rows of a range can have.
    #[cold]
    fn within<'s>(
        &self,
        mut signatures: &'s [u32],
        beginning: u64,
        first: u64,
        last: u64,
    ) -> &'s [u32] {
        let unknown_bits = unknown_bits(&self.prefixes);
        if self.prefixes.bits_of(last) == self.prefixes.bits_of(beginning) {
            let last = signature(last, unknown_bits);
            let end = signatures.partition_point(|&signature| signature <= last);
            signatures = &signatures[..end];
        }
        if self.prefixes.bits_of(first) == self.prefixes.bits_of(beginning) {
            let first = signature(first, unknown_bits);
            let start = signatures.partition_point(|&signature| signature < first);
            signatures = &signatures[start..];
        }
        signatures
    }

    /// The most memory that the signatures of so many rows take, in bytes.
    pub(crate) fn most_bytes(rows: usize) -> usize {
        let index = Prefixes::most_bytes(rows, ROWS_PER_PART);
        size_of::<Self>() + LargeList::<u32>::bytes_for(rows) + index
    }

    /// The memory that they take, in bytes.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.signatures.memory_bytes() + self.prefixes.memory_bytes()
    }
}

/// Calls `each` with rows, if there are any, and removes them.
#[inline]
fn give(rows: &mut Vec<u64>, unknown_bits: u32, are_all: bool, each: &mut impl FnMut(CutRows<'_>)) {
    if !rows.is_empty() {
        each(CutRows {
            rows,
            unknown_bits,
            are_all,
        });
        rows.clear();
    }
}

/// The number of bits of a row behind its signature, if the index knows those before it.
fn unknown_bits(prefixes: &Prefixes) -> u32 {
    prefixes.unknown_bits().saturating_sub(SIGNATURE_BITS)
}

/// The signature of a row, which has so many bits behind it.
fn signature(row: u64, unknown_bits: u32) -> u32 {
    (row >> unknown_bits) as u32
}

/// What is kept of the rows of a chunk.
pub(crate) enum Kept<R> {
    Rows(Segment<R>),
    Signatures(Signatures),
}

impl<R: Row> Kept<R> {
    pub(crate) fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Rows(segment) => segment.memory_bytes(),
            Self::Signatures(signatures) => signatures.memory_bytes(),
        };
        bytes as u64
    }
}

/// The rows of a block: those that stand in a segment, or that were read.
pub(crate) enum Block<'s, R> {
    Resident(&'s [R], &'s [R]),
    Read(Lists<R>),
}

impl<R> Block<'_, R> {
    pub(crate) fn puts(&self) -> &[R] {
        match self {
            Self::Resident(puts, _) => puts,
            Self::Read(lists) => &lists.puts,
        }
    }

    pub(crate) fn marks(&self) -> &[R] {
        match self {
            Self::Resident(_, marks) => marks,
            Self::Read(lists) => &lists.marks,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_comes_with_the_rest_of_its_lines_and_with_nothing_that_is_marked() {
        let rows: Vec<u64> = (0..1003).map(|row| row << 40).collect();
        let mut puts = LargeList::with_capacity(rows.len());
        puts.extend_from_slice(&rows);
        let segment = Segment::new(puts, vec![77]);
        for first in (0..1003).step_by(7) {
            for last in [first, first + 1, first + 30, 1002] {
                let around = segment.around(&(first << 40..=last << 40));
                let wanted = first as usize..(last as usize + 1).min(rows.len());
                assert!(around.start <= wanted.start && wanted.end <= around.end);
                assert_eq!(around.start % 8, 0);
                assert!(around.end % 8 == 0 || around.end == rows.len());
                segment.prefetch_rows(&around);
            }
        }
        assert_eq!(segment.marks(), [77]);
    }

    /// Whether a row can be one of those that are given of a range.
    fn is_given(signatures: &Signatures, first: u64, last: u64, row: u64) -> bool {
        let mut is_given = false;
        signatures.each_around((first, last), &mut Vec::new(), |part| {
            for &cut in part.rows {
                let (low, high): (u64, u64) = part.span(cut);
                is_given |= (low..=high).contains(&row);
            }
        });
        is_given
    }

    /// The rows of a chunk: `base` bits that all begin with, then random ones, of which many may agree in some.
    fn rows() -> impl Strategy<Value = Vec<u64>> {
        let row = (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift);
        (prop::collection::vec(row, 1..400), 0..64u32).prop_map(|(mut rows, base)| {
            for row in &mut rows {
                *row = *row >> base | 0x5555_5555_5555_5555 & !(u64::MAX >> base);
            }
            rows.sort_unstable();
            rows.dedup();
            rows
        })
    }

    proptest! {
        #[test]
        fn each_row_of_a_range_can_be_one_of_those_that_are_given(
            rows in rows(), wanted in any::<u64>(), length in 0..64u32,
        ) {
            let signatures = Signatures::new(&rows);
            prop_assert!(signatures.memory_bytes() <= Signatures::most_bytes(rows.len()));
            for first in [wanted, rows[wanted as usize % rows.len()], 0] {
                let last = first.saturating_add(u64::MAX >> length);
                signatures.prefetch_rows(first, last);
                for &row in &rows {
                    if (first..=last).contains(&row) {
                        prop_assert!(is_given(&signatures, first, last, row), "{row:x} of {first:x}..={last:x}");
                    }
                }
            }
        }

        /// If one row is said to be alone, no other row of the chunk can be between the ends of what it can be.
        #[test]
        fn a_row_that_is_alone_has_no_neighbour_in_its_span(rows in rows()) {
            let signatures = Signatures::new(&rows);
            for &row in &rows {
                signatures.each_around((row, row), &mut Vec::new(), |part| {
                    for &cut in part.rows {
                        let (low, high): (u64, u64) = part.span(cut);
                        let within = rows.iter().filter(|row| (low..=high).contains(row)).count();
                        assert!(within > 0 && (!part.is_alone(cut) || within == 1), "{within} rows");
                    }
                });
            }
        }
    }

    #[test]
    fn evenly_spread_rows_are_known_nearly_alone() {
        let mut rows: Vec<u64> = (0..100_000u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        rows.sort_unstable();
        let signatures = Signatures::new(&rows);
        let bytes = signatures.memory_bytes() as f64 / rows.len() as f64;
        assert!(bytes < 4.4, "{bytes} bytes a row");
        let mut given = 0;
        for &row in &rows {
            signatures.each_around((row, row), &mut Vec::new(), |part| given += part.rows.len());
        }
        let given = given as f64 / rows.len() as f64;
        assert!(given < 40.0, "{given} rows are given for one");
    }
}
