//! By the first bits of prefixes: an index over sorted ones of rows, of blocks, or of chunks, and a map of those that
//! occur in a run. And finding an index from a guess: prefixes are hashes or fingerprints, which are evenly spread, so
//! the guess is wrong by a few rows, and there are fewer waits for memory than in a binary search.

use std::ops::Range;

use super::large_list::LargeList;

/// An index over sorted items by their first bits. The items that agree on these bits are a part, and for each part it
/// has the number of items before it. The parts go from that of the first item to that of the last. So it serves all
/// prefixes, and as well those that begin with the same bits, as in a part of a table, or with zeros, as the numbers of
/// documents. A prefix of as many bits or fewer begins and ends with a part.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Prefixes {
    starts: LargeList<u32>,
    /// The first bits of the first part.
    first: u64,
    /// The number of bits behind the first ones. A part has two to the power of it prefixes.
    shift: u32,
}

impl Prefixes {
    /// An index of items with these prefixes, in order. In a damaged file they may be out of order; the index then
    /// means nothing, until somebody looks at the order. If the prefixes are spread evenly, each part has between
    /// `share` and twice `share` items.
    pub(crate) fn new(
        prefixes: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone,
        share: usize,
    ) -> Self {
        let count = prefixes.len();
        let first = prefixes.clone().next().unwrap_or(0);
        let last = prefixes.clone().next_back().unwrap_or(0);
        let width = last.saturating_sub(first);
        let most_parts = (count / share).max(1) as u64;
        let mut shift = (u64::BITS - width.leading_zeros()).saturating_sub(most_parts.ilog2());
        if shift > 0 && width >> (shift - 1) < most_parts {
            shift -= 1;
        }
        let first = first.unbounded_shr(shift);
        let last = last.unbounded_shr(shift);
        let parts = last.saturating_sub(first) as usize + 1;
        let mut starts = LargeList::with_capacity(parts + 1);
        let mut before = 0;
        for prefix in prefixes {
            // A prefix below the first one, out of order, is in the first part.
            let part = prefix.unbounded_shr(shift).saturating_sub(first);
            while starts.len() <= part.min(parts as u64 - 1) as usize {
                starts.extend_from_slice(&[before]);
            }
            before += 1;
        }
        while starts.len() <= parts {
            starts.extend_from_slice(&[before]);
        }
        Self {
            starts,
            first,
            shift,
        }
    }

    /// An index of `count` items that tells nothing about where they are.
    pub(crate) fn none(count: usize) -> Self {
        let mut starts = LargeList::with_capacity(2);
        starts.extend_from_slice(&[0, count as u32]);
        Self {
            starts,
            first: 0,
            shift: u64::BITS,
        }
    }

    /// The most memory that the index of so many items takes, in bytes.
    pub(crate) fn most_bytes(count: usize, share: usize) -> usize {
        LargeList::<u32>::bytes_for((count / share).max(1) + 2)
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.starts.memory_bytes()
    }

    /// The part of a prefix. Behind the last one, it is the last.
    #[inline]
    fn part_of(&self, prefix: u64) -> usize {
        let part = self.bits_of(prefix);
        (part.saturating_sub(self.first) as usize).min(self.starts.len() - 2)
    }

    /// The number of bits that the index does not know of a prefix.
    pub(crate) fn unknown_bits(&self) -> u32 {
        self.shift
    }

    /// The bits of a prefix that the index knows.
    #[inline]
    pub(crate) fn bits_of(&self, prefix: u64) -> u64 {
        prefix.unbounded_shr(self.shift)
    }

    /// The parts of two prefixes, and those between: the bits that all prefixes of a part begin with, and the indexes
    /// of its items.
    #[inline]
    pub(crate) fn parts(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
        (self.part_of(first)..=self.part_of(last)).map(|part| {
            let bits = (self.first + part as u64).unbounded_shl(self.shift);
            let items = self.starts[part] as usize..self.starts[part + 1] as usize;
            (bits, items)
        })
    }

    /// Fetches what [`around`](Self::around) reads.
    #[inline]
    pub(crate) fn prefetch(&self, first: u64, last: u64) {
        prefetch_at(&self.starts, self.part_of(first));
        prefetch_at(&self.starts, self.part_of(last) + 1);
    }

    /// The indexes of the items of the parts of two prefixes, and of those between. The first item that does not come
    /// before the first prefix is one of them, or the item directly behind them.
    #[inline]
    pub(crate) fn around(&self, first: u64, last: u64) -> Range<usize> {
        let start = self.starts[self.part_of(first)];
        let end = self.starts[self.part_of(last) + 1];
        start as usize..end.max(start) as usize
    }
}

/// A map of the prefixes that occur in a run: a bit for each value of the first few bits of a prefix, four to eight
/// bits for each row. Most ranges that are searched have no row in a run. The map says so, and reading it is a wait for
/// one line of memory.
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

/// The index of the first sorted item for which `before` does not hold. The search begins at `guess` and goes
/// away from it in steps that double.
#[inline]
pub(crate) fn partition_point_from<T>(
    items: &[T],
    guess: usize,
    before: impl Fn(&T) -> bool,
) -> usize {
    // The index is not below `low` and not above `high`.
    let (mut low, mut high);
    let mut step = 1;
    let guess = guess.min(items.len());
    if guess < items.len() && before(&items[guess]) {
        (low, high) = (guess + 1, guess + 1);
        while high < items.len() && before(&items[high]) {
            low = high + 1;
            high = (high + step).min(items.len());
            step *= 2;
        }
    } else {
        (low, high) = (guess, guess);
        while low > 0 && !before(&items[low - 1]) {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
    }
    low + items[low..high].partition_point(before)
}

/// An estimate of the number of rows before `value`, of `count` rows. It assumes that the rows are spread
/// evenly between `low` and `high`.
#[inline]
pub(crate) fn guess(count: usize, low: u64, high: u64, value: u64) -> usize {
    let width = high.saturating_sub(low);
    let offset = value.saturating_sub(low);
    if offset >= width {
        return count;
    }
    // The quotient is below 1, so the product is at most the count.
    (offset as f64 / width as f64 * count as f64) as usize
}

// Asking the processor to fetch memory that will be read soon. The processor waits for a read, but not
// for a prefetch. Therefore many prefetches go on at the same time.

/// Fetches the line of memory in which `item` begins.
#[allow(
    unsafe_code,
    reason = "the instructions take an address; they read nothing and cannot fail, whatever it is"
)]
#[inline(always)]
pub(crate) fn prefetch<T>(item: &T) {
    let address = std::ptr::from_ref(item);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and its only effect is on the caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every 64-bit ARM processor has the instruction, and its only effect is on the caches.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Fetches the line of memory in which the item at `index` begins, if the list has such an item.
#[inline(always)]
pub(crate) fn prefetch_at<T>(items: &[T], index: usize) {
    if let Some(item) = items.get(index) {
        prefetch(item);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A summary of a damaged file had chunks out of order. The index was built before anybody saw it.
    #[test]
    fn prefixes_out_of_order_are_no_panic() {
        for items in [&[3u64, 9, 1][..], &[u64::MAX, 0], &[1 << 40, 5, 6, 7]] {
            let index = Prefixes::new(items.iter().copied(), 1);
            for wanted in [0, 5, u64::MAX] {
                assert!(index.around(wanted, wanted).end <= items.len());
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_item_not_before_a_prefix_is_around_it(
            mut items in prop::collection::vec(any::<u64>(), 0..300), bits in 0..64u32, share in 1..9usize,
            wanted in any::<u64>(),
        ) {
            items.iter_mut().for_each(|it| *it >>= bits);
            items.sort_unstable();
            let index = Prefixes::new(items.iter().copied(), share);
            for wanted in [wanted, wanted >> bits, 0, u64::MAX] {
                let right = items.partition_point(|&it| it < wanted);
                for around in [index.around(wanted, wanted), Prefixes::none(items.len()).around(wanted, wanted)] {
                    prop_assert!((around.start..=around.end).contains(&right), "{around:?}, not {right}");
                }
            }
        }

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

    proptest! {
        #[test]
        fn whatever_the_guess_the_right_index_is_found(
            mut items in prop::collection::vec(0..300u64, 0..200), value in 0..300u64, wrong in 0..400usize,
        ) {
            items.sort_unstable();
            let right = items.partition_point(|&it| it < value);
            prop_assert_eq!(partition_point_from(&items, wrong, |&it| it < value), right);
            let guess = guess(items.len(), 0, 299, value);
            prop_assert!(guess <= items.len());
            prop_assert_eq!(partition_point_from(&items, guess, |&it| it < value), right);
        }
    }
}
