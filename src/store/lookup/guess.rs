//! Finding an index in sorted rows from a guess.
//!
//! Rows are hashes or fingerprints, which are evenly spread. So the index of a row can be guessed from its
//! value, with an error of a few rows. That avoids the cache misses of a binary search.

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
    let (width, offset) = (high.saturating_sub(low), value.saturating_sub(low));
    if offset >= width {
        return count;
    }
    // The quotient is below 1, so the product is at most the count.
    (offset as f64 / width as f64 * count as f64) as usize
}

/// How sorted rows are spread. A guess from it is wrong by a few rows only, even if they are spread unevenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Samples {
    /// The prefix of the first row.
    first: u64,
    /// The range from the first prefix to the last is cut into parts of equal width. For each part but the
    /// first, this is the share of the rows that come before it, in units of 1/256.
    ranks: [u8; PARTS - 1],
}

/// With 16 parts, the samples fit into one line of memory together with the fields that are read with them.
const PARTS: usize = 16;

impl Samples {
    /// Samples of `count` rows with these prefixes, in order. `last` is the prefix of the last row.
    pub(crate) fn new(prefixes: impl Iterator<Item = u64>, count: usize, last: u64) -> Self {
        let mut prefixes = prefixes.peekable();
        let first = prefixes.peek().copied().unwrap_or(last);
        let width = u128::from(last.saturating_sub(first));
        let mut rank = 0;
        let ranks = std::array::from_fn(|part| {
            let end = first + (width * (part as u128 + 1) / PARTS as u128) as u64;
            while prefixes.next_if(|&prefix| prefix < end).is_some() {
                rank += 1;
            }
            ((rank * 256 + count / 2) / count.max(1)).min(255) as u8
        });
        Self { first, ranks }
    }

    /// An estimate of the number of rows before this prefix.
    #[inline]
    pub(crate) fn guess(&self, count: usize, last: u64, prefix: u64) -> usize {
        let (width, offset) = (
            last.saturating_sub(self.first),
            prefix.saturating_sub(self.first),
        );
        if offset >= width {
            return if prefix > last {
                count
            } else {
                count - usize::from(offset > 0)
            };
        }
        // The quotient is below 1, or rounded to 1.
        let parts = offset as f64 / width as f64 * PARTS as f64;
        let part = (parts as usize).min(PARTS - 1);
        let rank = |part: usize| {
            part.checked_sub(1)
                .map_or(0.0, |it| f64::from(self.ranks[it]))
        };
        let next = self.ranks.get(part).map_or(256.0, |&rank| f64::from(rank));
        let rank = rank(part) + (next - rank(part)) * (parts - part as f64);
        (rank / 256.0 * count as f64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let last = items.last().copied().unwrap_or(0);
            let guess = Samples::new(items.iter().copied(), items.len(), last).guess(items.len(), last, value);
            prop_assert!(guess <= items.len());
            prop_assert_eq!(partition_point_from(&items, guess, |&it| it < value), right);
        }
    }

    /// Rows that are spread evenly, and rows of which 99 in 100 lie in the lower half of the range.
    #[test]
    fn samples_tell_the_index_of_a_row_up_to_a_few_rows() {
        for dense in [0.5, 0.99] {
            let random = |i: u64| {
                (i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) as u32)
                    .wrapping_mul(0xbf58_476d)
            };
            let spread = |x: f64| {
                if x < dense {
                    x / dense / 2.0
                } else {
                    0.5 + (x - dense) / (1.0 - dense) / 2.0
                }
            };
            let row = |i| {
                (spread(f64::from(random(i)) / f64::from(u32::MAX)) * (1u64 << 63) as f64) as u64
            };
            let mut rows: Vec<u64> = (0..700).map(row).collect();
            rows.sort_unstable();
            let samples = Samples::new(rows.iter().copied(), rows.len(), rows[699]);
            let far =
                |index: &usize| samples.guess(700, rows[699], rows[*index]).abs_diff(*index) > 8;
            let far = (0..700).filter(far).count();
            assert!(far < 20, "{far} of 700 rows, {dense}");
        }
    }
}
