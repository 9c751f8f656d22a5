//! Documents that are described by lists of hashes.

use crate::eval::method::Described;

/// Scores two lists.
type Score = Box<dyn Fn(&[u64], &[u64]) -> f64 + Sync>;

/// A list for each document, and the score of two lists.
pub(super) struct HashLists {
    pub(super) lists: Vec<Vec<u64>>,
    pub(super) score: Score,
    /// Whether the score estimates the Jaccard similarity of 4-token shingles.
    pub(super) estimates: bool,
}

impl Described for HashLists {
    fn bytes(&self) -> usize {
        self.lists
            .iter()
            .map(|it| size_of::<u64>() * it.len())
            .sum()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some((self.score)(&self.lists[a], &self.lists[b]))
    }

    fn estimate(&self, a: usize, b: usize) -> Option<f64> {
        self.score(a, b).filter(|_| self.estimates)
    }
}

/// The number of positions at which two lists are equal.
pub(super) fn equal(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).filter(|(x, y)| x == y).count()
}
