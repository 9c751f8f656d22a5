//! `exact`: the Jaccard similarity of the sets of 4-token shingles, which estimates are measured by.

use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};
use crate::eval::overlap::{Scored, jaccard, jaccard_pairs};

/// Keeps every shingle.
///
/// # References
///
/// Broder, Glassman, Manasse, Zweig: Syntactic Clustering of the Web, WWW 1997: resemblance.
#[derive(Debug)]
pub(in crate::eval) struct Exact;

/// The least similarity that is searched for.
const LEAST_TWENTIETHS: u32 = 6;

impl Method for Exact {
    fn scale(&self) -> Scale {
        Scale::twentieths(LEAST_TWENTIETHS)
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        Box::new(Shingles(corpus.shingles(4)))
    }
}

struct Shingles(Vec<Vec<u64>>);

impl Described for Shingles {
    fn bytes(&self) -> usize {
        self.0.iter().map(|set| 8 * set.len()).sum()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(jaccard(&self.0[a], &self.0[b]))
    }

    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        Some(jaccard_pairs(&self.0, least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the paper has `a rose is a rose is a rose`, whose distinct 4-shingles are `a rose is a`,
    /// `rose is a rose` and `is a rose is`. The second text, by hand, adds `a rose is red`.
    #[test]
    fn a_rose_is_a_rose() {
        let corpus = Corpus::of(&[
            "a rose is a rose is a rose",
            "a rose is a rose is a rose is red",
            "thorn",
        ]);
        let described = Exact.describe(&corpus);
        assert_eq!(described.bytes(), 8 * (3 + 4 + 1));
        assert_eq!(described.score(0, 1), Some(0.75));
        assert_eq!(described.score(0, 2), Some(0.0));
        assert_eq!(described.indexed(0.5), Some(vec![(0, 1, 0.75)]));
    }
}
