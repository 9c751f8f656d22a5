//! A map of the prefixes that occur in a run. Most ranges that are searched have no row in a run. The map
//! says so, and reading it is a wait for one line of memory.

use super::prefetch::prefetch_at;

/// A bit for each value of the first few bits of a prefix: four to eight bits for each row.
#[derive(Debug)]
pub(crate) struct Occupied {
    words: Box<[u64]>,
    shift: u32,
}

/// The most bits of a map for each row. But a map has at least 64 bits.
const BITS_PER_ROW: usize = 8;

impl Occupied {
    /// The map of `count` rows with these prefixes.
    pub(crate) fn new(prefixes: impl Iterator<Item = u64>, count: usize) -> Self {
        let bits = (count * BITS_PER_ROW).max(u64::BITS as usize).ilog2();
        let shift = u64::BITS - bits;
        let mut words = vec![0; 1 << (bits - u64::BITS.ilog2())].into_boxed_slice();
        for prefix in prefixes {
            let bit = prefix >> shift;
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        Self { words, shift }
    }

    /// A map that says "perhaps" of every range.
    pub(crate) fn unknown() -> Self {
        Self {
            words: Box::new([u64::MAX]),
            shift: u64::BITS - u64::BITS.ilog2(),
        }
    }

    /// Whether there may be a row with a prefix in this range.
    ///
    /// If the bits of the range are not all in one word, no word is read and the answer is true. Most of
    /// these ranges are wide and have rows.
    #[inline]
    pub(crate) fn may_have(&self, first: u64, last: u64) -> bool {
        let first = first >> self.shift;
        let last = last >> self.shift;
        let from_first = u64::MAX << (first % 64);
        let up_to_last = u64::MAX >> (63 - last % 64);
        first / 64 != last / 64 || self.words[(first / 64) as usize] & from_first & up_to_last != 0
    }

    /// Fetches what [`may_have`](Self::may_have) reads for a range that begins at `first`.
    #[inline]
    pub(crate) fn prefetch(&self, first: u64) {
        prefetch_at(&self.words, (first >> self.shift) as usize / 64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_row_is_missed_and_most_gaps_are_seen(
            rows in prop::collection::vec(any::<u64>(), 0..300),
            ranges in prop::collection::vec((any::<u64>(), 0..64u32), 100),
        ) {
            let occupied = Occupied::new(rows.iter().copied(), rows.len());
            let mut wrong = 0;
            for (first, bits) in ranges {
                let last = first.saturating_add((1 << bits) - 1);
                let has = rows.iter().any(|row| (first..=last).contains(row));
                prop_assert!(occupied.may_have(first, last) || !has);
                prop_assert!(Occupied::unknown().may_have(first, last));
                let narrow = u128::from(last - first) * (rows.len() as u128) < 1 << 60;
                wrong += usize::from(narrow && !has && occupied.may_have(first, last));
            }
            prop_assert!(wrong < 60, "{wrong} of 100");
        }
    }
}
