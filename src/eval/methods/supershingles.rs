//! `supershingles`: 84 minwise values of 8-token shingles, folded into 6 supershingles.

use xxhash_rust::xxh3::xxh3_64;

use super::minwise_hash::{equal, minima};
use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};

/// The 84 values are cut into 6 parts of 14, and the hash of a part is a supershingle. The number of equal
/// supershingles is the score. The papers take two documents for near-duplicates if 2 of 6 are equal.
///
/// # References
///
/// Broder, Glassman, Manasse, Zweig: Syntactic Clustering of the Web, WWW 1997. Fetterly, Manasse, Najork: On
/// the Evolution of Clusters of Near-Duplicate Web Pages, 2003. Henzinger: Finding Near-Duplicate Web Pages,
/// SIGIR 2006, section 2, for the numbers: m = 84, m' = 6, l = 14, shingles of 8 tokens.
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
        Box::new(Equal(of(corpus)))
    }
}

/// The supershingles of each document. A document without tokens has none.
pub(super) fn of(corpus: &Corpus) -> Vec<Vec<u64>> {
    corpus.shingles(TOKENS).iter().map(|set| folded(&minima(set, FUNCTIONS))).collect()
}

fn folded(minima: &[u64]) -> Vec<u64> {
    let parts = minima.chunks(FUNCTIONS / SUPERSHINGLES);
    parts.map(|part| xxh3_64(&part.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>())).collect()
}

struct Equal(Vec<Vec<u64>>);

impl Described for Equal {
    fn bytes(&self) -> usize {
        self.0.iter().map(|it| size_of::<u64>() * it.len()).sum()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(equal(&self.0[a], &self.0[b]) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a change of one value changes one supershingle, and changes of values 0, 13 and 14 two.
    #[test]
    fn a_supershingle_is_equal_if_its_fourteen_values_are() {
        let values: Vec<u64> = (0..84).collect();
        for (places, expected) in
            [(&[][..], 6), (&[83], 5), (&[0, 13], 5), (&[0, 13, 14], 4), (&[0, 20, 30, 50, 60, 80], 0)]
        {
            let mut changed = values.clone();
            places.iter().for_each(|&place: &usize| changed[place] += 1_000);
            assert_eq!(equal(&folded(&values), &folded(&changed)), expected, "{places:?}");
        }
        assert!(folded(&[]).is_empty());
    }

    /// The definition, without folding: a part is equal if all of its values are.
    #[test]
    fn folding_changes_no_verdict() {
        let base: Vec<u64> = (0..300).collect();
        for removed in [0, 1, 3, 10, 40, 150] {
            let [a, b] = [minima(&base, FUNCTIONS), minima(&base[removed..], FUNCTIONS)];
            let parts = a.chunks(14).zip(b.chunks(14)).filter(|(x, y)| x == y).count();
            assert_eq!(equal(&folded(&a), &folded(&b)), parts, "{removed} removed");
        }
    }
}
