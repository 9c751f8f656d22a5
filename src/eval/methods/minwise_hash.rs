//! `minwise-hash`: the least value of each of K hash functions over the 4-token shingles.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::hash_lists::{HashLists, equal};
use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};

/// Classic minwise hashing. The share of the functions whose least values are equal, position by position,
/// estimates the Jaccard similarity.
///
/// # References
///
/// Broder: On the Resemblance and Containment of Documents, SEQUENCES 1997. Broder, Charikar, Frieze,
/// Mitzenmacher: Min-Wise Independent Permutations, STOC 1998.
#[derive(Debug)]
pub(in crate::eval) struct MinwiseHash {
    pub(in crate::eval) functions: u32,
}

impl Method for MinwiseHash {
    fn scale(&self) -> Scale {
        Scale::twentieths(6)
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        let functions = self.functions as usize;
        let lists = corpus
            .shingles(4)
            .iter()
            .map(|set| minima(set, functions))
            .collect();
        let score = move |a: &[u64], b: &[u64]| equal(a, b) as f64 / functions as f64;
        Box::new(HashLists {
            lists,
            score: Box::new(score),
            estimates: true,
        })
    }
}

/// The least value of each function over the elements. Empty if there are none.
pub(super) fn minima(elements: &[u64], functions: usize) -> Vec<u64> {
    let least = |function: usize| {
        elements
            .iter()
            .map(|it| xxh3_64_with_seed(&it.to_le_bytes(), function as u64))
            .min()
    };
    (0..functions).map_while(least).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 3 of 4 positions are equal. The sets {0..90} and {10..100} have 80 of 100 in common, and with
    /// 4,096 functions the standard error is 0.006.
    #[test]
    fn the_share_of_equal_positions_estimates_the_similarity() {
        assert_eq!(equal(&[1, 2, 3, 4], &[1, 2, 5, 4]), 3);
        let set = |range: std::ops::Range<u64>| minima(&range.collect::<Vec<_>>(), 4096);
        let estimate = equal(&set(0..90), &set(10..100)) as f64 / 4096.0;
        assert!((estimate - 0.8).abs() < 0.025, "{estimate}");
        assert!(minima(&[], 16).is_empty());
    }
}
