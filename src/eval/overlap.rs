//! The exact Jaccard similarity of all pairs of sets, by an inverted index.

use std::collections::HashMap;

use crate::parallel;

/// Two documents, the first index the lower one, and a score.
pub(super) type Scored = (u32, u32, f64);

/// All pairs of sets whose Jaccard similarity is `least` or more, in order. A pair without a common element is
/// never among them. Sets are sorted and have no element twice.
///
/// # Cost
///
/// For each element, the square of the number of sets that have it. No pair is compared that has nothing in
/// common.
pub(super) fn jaccard_pairs(sets: &[Vec<u64>], least: f64) -> Vec<Scored> {
    let mut index: HashMap<u64, Vec<u32>> = HashMap::new();
    for (number, set) in sets.iter().enumerate() {
        for &element in set {
            index.entry(element).or_default().push(number as u32);
        }
    }
    index.retain(|_, owners| owners.len() > 1);
    let parts = 16 * parallel::cores();
    let found = parallel::map(parts, |part| {
        let mut pairs = Vec::new();
        let mut common = vec![0u32; sets.len()];
        let mut candidates: Vec<u32> = Vec::new();
        for first in (part..sets.len()).step_by(parts) {
            for element in &sets[first] {
                let owners = index.get(element).map_or(&[][..], Vec::as_slice);
                for &second in &owners[owners.partition_point(|&owner| owner as usize <= first)..] {
                    if common[second as usize] == 0 {
                        candidates.push(second);
                    }
                    common[second as usize] += 1;
                }
            }
            for second in candidates.drain(..) {
                let both = std::mem::take(&mut common[second as usize]) as usize;
                let either = sets[first].len() + sets[second as usize].len() - both;
                let similarity = both as f64 / either as f64;
                if similarity >= least {
                    pairs.push((first as u32, second, similarity));
                }
            }
        }
        pairs
    });
    let mut pairs = found.concat();
    pairs.sort_unstable_by_key(|&(first, second, _)| (first, second));
    pairs
}

/// The Jaccard similarity of two sorted sets. That of two empty sets is 0.
pub(super) fn jaccard(a: &[u64], b: &[u64]) -> f64 {
    let both = common(a, b);
    let either = a.len() + b.len() - both;
    if either == 0 {
        0.0
    } else {
        both as f64 / either as f64
    }
}

fn common(a: &[u64], b: &[u64]) -> usize {
    let mut i = 0;
    let mut j = 0;
    let mut both = 0;
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        both += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets of numbers below 40, of which many are alike.
    fn sets() -> impl proptest::strategy::Strategy<Value = Vec<Vec<u64>>> {
        let set = proptest::collection::btree_set(0u64..40, 0..30);
        proptest::collection::vec(
            proptest::strategy::Strategy::prop_map(set, |it| it.into_iter().collect()),
            0..20,
        )
    }

    proptest::proptest! {
        #[test]
        fn the_index_finds_the_pairs_that_comparing_all_finds(sets in sets()) {
            for least in [0.01, 0.3, 0.5, 1.0] {
                let mut expected = Vec::new();
                for a in 0..sets.len() {
                    for b in a + 1..sets.len() {
                        let both = sets[a].iter().filter(|it| sets[b].contains(it)).count();
                        let either = sets[a].iter().filter(|it| !sets[b].contains(it)).count() + sets[b].len();
                        let similarity = both as f64 / either.max(1) as f64;
                        proptest::prop_assert_eq!(similarity, jaccard(&sets[a], &sets[b]));
                        if similarity >= least {
                            expected.push((a as u32, b as u32, similarity));
                        }
                    }
                }
                proptest::prop_assert_eq!(jaccard_pairs(&sets, least), expected);
            }
        }
    }
}
