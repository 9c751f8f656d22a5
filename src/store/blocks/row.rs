//! Row: a fixed-width entry of a sorted set. Lists: rows that are put, and rows that are marked as deleted.

use std::fmt;

/// A fixed-width entry of a sorted set.
pub(crate) trait Row:
    Copy + Ord + fmt::Debug + fmt::LowerHex + Send + Sync + 'static
{
    /// The least and the greatest row.
    const MIN: Self;
    const MAX: Self;
    /// The number of columns behind the prefix.
    const COLUMNS: usize;
    /// The number of bytes of a row that is not packed.
    const BYTES: usize = size_of::<Self>();

    /// The prefix: the leading 64 bits.
    fn prefix(self) -> u64;
    /// The columns behind the prefix.
    fn columns(self) -> [u64; 2];
    /// The row with this prefix and these columns. If these are `u64::MAX`, the last row with the prefix.
    fn join(prefix: u64, columns: [u64; 2]) -> Self;
    /// The row with a value in a column that was 0.
    fn with_column(self, column: usize, value: u64) -> Self;
    /// The row as a number. Numbers have the same order as rows.
    fn number(self) -> u128;
    /// The row of a number.
    fn from_number(number: u128) -> Self;
    /// The row after this one, or `None` after the last.
    fn next(self) -> Option<Self> {
        (self < Self::MAX).then(|| Self::from_number(self.number() + 1))
    }
}

impl Row for u64 {
    const MIN: Self = 0;
    const MAX: Self = Self::MAX;
    const COLUMNS: usize = 0;

    fn prefix(self) -> u64 {
        self
    }

    fn columns(self) -> [u64; 2] {
        [0; 2]
    }

    fn join(prefix: u64, _: [u64; 2]) -> Self {
        prefix
    }

    fn with_column(self, _: usize, _: u64) -> Self {
        self
    }

    fn number(self) -> u128 {
        self.into()
    }

    fn from_number(number: u128) -> Self {
        number as Self
    }
}

/// A row of 64, 24 and 40 bits: a hash or fingerprint, a scope number, a document number.
impl Row for u128 {
    const MIN: Self = 0;
    const MAX: Self = Self::MAX;
    const COLUMNS: usize = 2;

    fn prefix(self) -> u64 {
        (self >> 64) as u64
    }

    fn columns(self) -> [u64; 2] {
        [(self as u64) >> 40, self as u64 & ((1 << 40) - 1)]
    }

    fn join(prefix: u64, columns: [u64; 2]) -> Self {
        Self::from(prefix) << 64 | Self::from(columns[0] << 40 | columns[1])
    }

    fn with_column(self, column: usize, value: u64) -> Self {
        self | Self::from(if column == 0 { value << 40 } else { value })
    }

    fn number(self) -> u128 {
        self
    }

    fn from_number(number: u128) -> Self {
        number
    }
}

/// Two sorted lists that have no row in common: the rows of a block, or of a longer part of a sorted set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lists<R> {
    pub(crate) puts: Vec<R>,
    /// The rows that are marked as deleted.
    pub(crate) marks: Vec<R>,
}

impl<R> Default for Lists<R> {
    fn default() -> Self {
        Self {
            puts: Vec::new(),
            marks: Vec::new(),
        }
    }
}

impl<R: Row> Lists<R> {
    pub(crate) fn len(&self) -> usize {
        self.puts.len() + self.marks.len()
    }

    /// The rows that are put, and those that are marked.
    pub(crate) fn as_slices(&self) -> (&[R], &[R]) {
        (&self.puts, &self.marks)
    }

    /// Removes all rows. The memory is used again.
    pub(crate) fn clear(&mut self) {
        self.puts.clear();
        self.marks.clear();
    }

    /// Adds rows that come after those in the lists.
    pub(crate) fn extend(&mut self, (puts, marks): (&[R], &[R])) {
        self.puts.extend_from_slice(puts);
        self.marks.extend_from_slice(marks);
    }
}
