//! Segments: the rows of the blocks of a chunk, decoded, one after the other, with where each prefix begins. A search
//! finds its rows by arithmetic: it reads the index, then the rows.

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

/// A segment that is made block by block.
pub(crate) struct SegmentBuilder<R> {
    puts: LargeList<R>,
    marks: Vec<R>,
}

impl<R: Row> SegmentBuilder<R> {
    /// A segment of so many rows.
    pub(crate) fn new(puts: usize, marks: usize) -> Self {
        Self {
            puts: LargeList::with_capacity(puts),
            marks: Vec::with_capacity(marks),
        }
    }

    /// Adds the rows of the next block.
    pub(crate) fn add(&mut self, puts: &[R], marks: &[R]) {
        self.puts.extend_from_slice(puts);
        self.marks.extend_from_slice(marks);
    }

    pub(crate) fn finish(self) -> Segment<R> {
        let prefixes = self.puts.iter().map(|row| row.prefix());
        Segment {
            prefixes: Prefixes::new(prefixes, ROWS_PER_PREFIX),
            puts: self.puts,
            marks: self.marks.into(),
            #[cfg(test)]
            _live: live::Live::new(),
        }
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
    use super::*;

    #[test]
    fn a_range_comes_with_the_rest_of_its_lines_and_with_nothing_that_is_marked() {
        let rows: Vec<u64> = (0..1003).map(|row| row << 40).collect();
        let mut builder = SegmentBuilder::new(rows.len(), 1);
        builder.add(&rows, &[77]);
        let segment = builder.finish();
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
}
