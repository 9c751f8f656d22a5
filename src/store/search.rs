//! Finding a place in sorted rows, from a guess that is near it: rows are hashes or fingerprints, which are evenly spread, so that their place
//! can be told from their value up to a few neighbours, without the cache misses of a binary search.

/// The first of some sorted items for which `before` does not hold; looked for around `guess`, in steps that double.
#[inline]
pub(super) fn partition_point_near<T>(items: &[T], guess: usize, before: impl Fn(&T) -> bool) -> usize {
    // It is not before `low` and not after `high`.
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

/// About how many of `count` rows spread evenly over what lies between two values come before a third.
#[inline]
pub(super) fn guess(count: usize, low: u64, high: u64, value: u64) -> usize {
    let (width, offset) = (high.saturating_sub(low), value.saturating_sub(low));
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
        fn whatever_the_guess_the_place_is_found(
            mut items in prop::collection::vec(0..300u64, 0..200), value in 0..300u64, wrong in 0..400usize,
        ) {
            items.sort_unstable();
            let right = items.partition_point(|&it| it < value);
            prop_assert_eq!(partition_point_near(&items, wrong, |&it| it < value), right);
            let guess = guess(items.len(), 0, 299, value);
            prop_assert!(guess <= items.len());
            prop_assert_eq!(partition_point_near(&items, guess, |&it| it < value), right);
        }
    }
}
