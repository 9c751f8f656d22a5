//! `henzinger`: pairs with two equal supershingles, filtered by random projection.

use super::minwise_hash::equal;
use super::random_projection::{COSINES, Projections};
use super::supershingles;
use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};

/// A pair is a candidate if 2 of 6 supershingles are equal. Its score is that of random projection with 384
/// bits. The paper takes pairs with 355 equal bits or more, which is a cosine of 0.972.
///
/// # References
///
/// Henzinger: Finding Near-Duplicate Web Pages: A Large-Scale Evaluation of Algorithms, SIGIR 2006, section 5,
/// the combined algorithm.
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
        let supershingles: usize = self.supershingles.iter().map(|it| size_of::<u64>() * it.len()).sum();
        supershingles + self.projections.bytes()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let is_candidate = equal(&self.supershingles[a], &self.supershingles[b]) >= EQUAL_SUPERSHINGLES;
        is_candidate.then(|| self.projections.score(a, b)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RandomProjection, Supershingles};
    use super::*;

    /// By hand: the same words in another order have the cosine 1, but no shingle in common.
    #[test]
    fn both_methods_have_to_agree() {
        let corpus = Corpus::of(&["a b c d e f g h i j", "j i h g f e d c b a", "A b c d e f g h i j"]);
        let described = Henzinger.describe(&corpus);
        assert_eq!(RandomProjection { bits: BITS }.describe(&corpus).score(0, 1), Some(1.0));
        assert_eq!(described.score(0, 1), None);
        assert_eq!(described.score(0, 2), Some(1.0));
    }

    /// The definition, from the two methods alone.
    #[test]
    fn the_score_is_that_of_the_candidates_of_one_by_the_other() {
        let words: Vec<String> = (0..200).map(|it| format!("w{it}")).collect();
        let texts: Vec<String> = (0..8).map(|it| words[it * it / 2..180 - it].join(" ")).collect();
        let corpus = Corpus::of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let [both, first, second] = [
            Henzinger.describe(&corpus),
            Supershingles.describe(&corpus),
            RandomProjection { bits: BITS }.describe(&corpus),
        ];
        let pairs = (0..8).flat_map(|a| (0..a).map(move |b| (a, b)));
        let mut candidates = 0;
        for (a, b) in pairs {
            let is_candidate = first.score(a, b).is_some_and(|it| it >= 2.0);
            candidates += usize::from(is_candidate);
            assert_eq!(both.score(a, b), second.score(a, b).filter(|_| is_candidate));
        }
        assert!((1..28).contains(&candidates), "{candidates} of 28 pairs are candidates");
    }
}
