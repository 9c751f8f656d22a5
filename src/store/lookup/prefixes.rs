//! An index over the first bits of sorted prefixes: of rows, of blocks, or of chunks.

use std::ops::Range;

use super::prefetch::prefetch_at;

/// An index over sorted items by their prefixes. For each value of the first few bits of a prefix it has
/// the number of items before the items with that value.
///
/// Leading bits that are zero in all items are left out. For example, document numbers use only the bits
/// that the greatest number needs.
#[derive(Debug)]
pub(crate) struct Prefixes {
    starts: Box<[u32]>,
    shift: u32,
}

impl Prefixes {
    /// An index of items with these prefixes, in order. In a damaged file they may be out of order; the index then
    /// means nothing, until somebody looks at the order. If the prefixes are spread evenly over the numbers
    /// of their width, each value of the index has between `share` and twice `share` items.
    pub(crate) fn new(
        prefixes: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone,
        share: usize,
    ) -> Self {
        let count = prefixes.len();
        let bits = (count / share).max(1).ilog2();
        let width = u64::BITS - prefixes.clone().next_back().unwrap_or(0).leading_zeros();
        let shift = width.saturating_sub(bits);
        let mut starts = vec![0; (1 << bits) + 1].into_boxed_slice();
        let last = starts.len() - 1;
        for (i, prefix) in prefixes.enumerate() {
            // The last item of a value decides. A prefix above the last one, out of order, has the last value.
            let value = prefix.checked_shr(shift).unwrap_or(0) as usize;
            starts[value.saturating_add(1).min(last)] = i as u32 + 1;
        }
        for value in 1..starts.len() {
            starts[value] = starts[value].max(starts[value - 1]);
        }
        Self { starts, shift }
    }

    /// An index of `count` items that tells nothing about where they are.
    pub(crate) fn none(count: usize) -> Self {
        Self {
            starts: Box::new([0, count as u32]),
            shift: u64::BITS,
        }
    }

    /// Fetches what [`around`](Self::around) reads for this prefix.
    #[inline]
    pub(crate) fn prefetch(&self, prefix: u64) {
        prefetch_at(
            &self.starts,
            prefix.checked_shr(self.shift).unwrap_or(0) as usize,
        );
    }

    /// The indexes of the items with the same first bits as this prefix. The first item that does not come
    /// before the prefix is one of them, or the item directly behind them.
    pub(crate) fn around(&self, prefix: u64) -> Range<usize> {
        let last = self.starts.len() - 1;
        let value = prefix.checked_shr(self.shift).unwrap_or(0).min(last as u64) as usize;
        self.starts[value] as usize..self.starts[(value + 1).min(last)] as usize
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
                assert!(index.around(wanted).end <= items.len());
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
                for around in [index.around(wanted), Prefixes::none(items.len()).around(wanted)] {
                    prop_assert!((around.start..=around.end).contains(&right), "{around:?}, not {right}");
                }
            }
        }
    }
}
