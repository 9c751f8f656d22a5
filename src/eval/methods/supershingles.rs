//! `supershingles`: 84 minwise values of 8-token shingles, folded into 6 supershingles.

use xxhash_rust::xxh3::xxh3_64;

use super::hash_lists::{HashLists, equal};
use super::minwise_hash::minima;
use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};

/// The 84 values are cut into 6 parts of 14, and the hash of a part is a supershingle. The number of equal
/// supershingles is the score. The papers take two documents for near-duplicates if 2 of 6 are equal.
///
/// Papers hash with Rabin fingerprints; here it is xxh3. Tokens are those of the text schemes, not the longest
/// runs of letters and digits.
///
/// # References
///
/// Broder, Glassman, Manasse, Zweig: Syntactic Clustering of the Web, WWW 1997. Fetterly, Manasse, Najork: On
/// the Evolution of Clusters of Near-Duplicate Web Pages, 2003. Henzinger: Finding Near-Duplicate Web Pages,
/// SIGIR 2006, section 2, for the numbers: m = 84, m' = 6, l = 14, shingles of 8 tokens, 2 equal.
#[derive(Debug)]
pub(in crate::eval) struct Supershingles;

/// The tokens of a shingle.
const TOKENS: usize = 8;
/// The number of hash functions, m.
const FUNCTIONS: usize = 84;
/// The number of supershingles, m'.
const SUPERSHINGLES: usize = 6;

impl Method for Supershingles {
    fn scale(&self) -> Scale {
        Scale::Equal(SUPERSHINGLES as u32, 1)
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        let score = |a: &[u64], b: &[u64]| equal(a, b) as f64;
        Box::new(HashLists {
            lists: of(corpus),
            score: Box::new(score),
            estimates: false,
        })
    }
}

/// The supershingles of each document. A document without tokens has none.
pub(super) fn of(corpus: &Corpus) -> Vec<Vec<u64>> {
    corpus
        .shingles(TOKENS)
        .iter()
        .map(|set| folded(&minima(set, FUNCTIONS)))
        .collect()
}

fn folded(minima: &[u64]) -> Vec<u64> {
    let parts = minima.chunks(FUNCTIONS / SUPERSHINGLES);
    parts
        .map(|part| {
            xxh3_64(
                &part
                    .iter()
                    .flat_map(|it| it.to_le_bytes())
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a change of one value changes one supershingle, and changes of values 0, 13 and 14 two.
    #[test]
    fn a_supershingle_is_equal_if_its_fourteen_values_are() {
        let values: Vec<u64> = (0..84).collect();
        for (places, expected) in [
            (&[][..], 6),
            (&[83], 5),
            (&[0, 13], 5),
            (&[0, 13, 14], 4),
            (&[0, 20, 30, 50, 60, 80], 0),
        ] {
            let mut changed = values.clone();
            places
                .iter()
                .for_each(|&place: &usize| changed[place] += 1_000);
            assert_eq!(
                equal(&folded(&values), &folded(&changed)),
                expected,
                "{places:?}"
            );
        }
        assert!(folded(&[]).is_empty());
    }

    /// The law of the papers: a part is equal with the probability p = J^14, and 2 of 6 parts or more are with
    /// 1 - (1 - p)^6 - 6 p (1 - p)^5. That is 0.879 for a similarity of 0.95, and 0.026 for 0.8.
    #[test]
    fn two_of_six_are_equal_as_often_as_the_law_says() {
        for (similarity, law) in [(0.95, 0.879), (0.8, 0.026)] {
            // Two sets of this similarity: 200 elements in the union, and half of the rest in each alone.
            let alone = (100.0 * (1.0 - similarity)) as u64;
            let trials = 400;
            let matched = (0..trials).filter(|trial| {
                let begin = trial * 1_000;
                let of = |range: std::ops::Range<u64>| {
                    folded(&minima(
                        &range.map(|it| begin + it).collect::<Vec<_>>(),
                        FUNCTIONS,
                    ))
                };
                equal(&of(0..200 - alone), &of(alone..200)) >= 2
            });
            let share = matched.count() as f64 / trials as f64;
            // Three standard errors.
            let error = 3.0 * (law * (1.0 - law) / trials as f64).sqrt();
            assert!(
                (share - law).abs() < error,
                "{share} of the pairs of similarity {similarity}, not {law}"
            );
        }
    }
}
