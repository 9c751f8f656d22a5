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
    let width = high.saturating_sub(low);
    let offset = value.saturating_sub(low);
    if offset >= width {
        return count;
    }
    // The quotient is below 1, so the product is at most the count.
    (offset as f64 / width as f64 * count as f64) as usize
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
        }
    }
}
