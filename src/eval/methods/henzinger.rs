//! `henzinger`: pairs with two equal supershingles, filtered by random projection.

use super::hash_lists::equal;
use super::random_projection::{COSINES, Projections};
use super::supershingles;
use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};

/// A pair is a candidate if 2 of 6 supershingles are equal. Its score is that of random projection with 384
/// bits. The paper takes pairs with 355 equal bits or more, which is a cosine of 0.971.
///
/// # References
///
/// Henzinger: Finding Near-Duplicate Web Pages: A Large-Scale Evaluation of Algorithms, SIGIR 2006: the combined
/// algorithm at the end of section 3, whose threshold of 355 was chosen on a training set.
#[derive(Debug)]
pub(in crate::eval) struct Henzinger;

const BITS: u32 = 384;
const EQUAL_SUPERSHINGLES: usize = 2;

impl Method for Henzinger {
    fn scale(&self) -> Scale {
        Scale::Similarity(COSINES.to_vec())
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        Box::new(Both {
            supershingles: supershingles::of(corpus),
            projections: Projections::of(corpus, BITS),
        })
    }
}

struct Both {
    supershingles: Vec<Vec<u64>>,
    projections: Projections,
}

impl Described for Both {
    fn bytes(&self) -> usize {
        let supershingles: usize = self
            .supershingles
            .iter()
            .map(|it| size_of::<u64>() * it.len())
            .sum();
        supershingles + self.projections.bytes()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let is_candidate =
            equal(&self.supershingles[a], &self.supershingles[b]) >= EQUAL_SUPERSHINGLES;
        is_candidate.then(|| self.projections.score(a, b)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::RandomProjection;
    use super::*;

    /// By hand: the same words in another order have the cosine 1, but no shingle in common.
    #[test]
    fn both_methods_have_to_agree() {
        let corpus = Corpus::of(&[
            "a b c d e f g h i j",
            "j i h g f e d c b a",
            "A b c d e f g h i j",
        ]);
        let described = Henzinger.describe(&corpus);
        assert_eq!(
            RandomProjection { bits: BITS }
                .describe(&corpus)
                .score(0, 1),
            Some(1.0)
        );
        assert_eq!(described.score(0, 1), None);
        assert_eq!(described.score(0, 2), Some(1.0));
    }
}
