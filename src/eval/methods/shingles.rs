//! The methods of 4-token and 8-token shingles: `exact`, `minwise-hash`, `bottom-k` and `supershingles`.

use std::cmp::Ordering;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::eval::corpus::Corpus;
use crate::eval::method::{Method, Scale};
use crate::eval::overlap::{Scored, jaccard, jaccard_pairs};

/// The least similarity that is searched for.
const LEAST_TWENTIETHS: u32 = 6;

/// `exact`: the Jaccard similarity of the sets of 4-token shingles, which estimates are measured by. Keeps every
/// shingle.
///
/// # References
///
/// Broder, Glassman, Manasse, Zweig: Syntactic Clustering of the Web, WWW 1997: resemblance.
pub(in crate::eval) struct Exact {
    shingles: Vec<Vec<u64>>,
}

impl Exact {
    pub(in crate::eval) fn new(corpus: &Corpus) -> Self {
        Self {
            shingles: corpus.shingles(4),
        }
    }
}

impl Method for Exact {
    fn scale(&self) -> Scale {
        Scale::twentieths(LEAST_TWENTIETHS)
    }

    fn bytes(&self) -> usize {
        bytes(&self.shingles)
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(jaccard(&self.shingles[a], &self.shingles[b]))
    }

    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        Some(jaccard_pairs(&self.shingles, least))
    }
}

type Score = Box<dyn Fn(&[u64], &[u64]) -> f64 + Sync>;

/// A list of hashes for each document, and the score of two lists.
pub(in crate::eval) struct HashLists {
    lists: Vec<Vec<u64>>,
    score: Score,
    scale: Scale,
    /// Whether the score estimates the Jaccard similarity of 4-token shingles.
    estimates: bool,
}

impl HashLists {
    /// `minwise-hash`: the least value of each of K hash functions over the 4-token shingles. The share of the
    /// functions whose least values are equal, position by position, estimates the Jaccard similarity.
    ///
    /// # References
    ///
    /// Broder: On the Resemblance and Containment of Documents, SEQUENCES 1997. Broder, Charikar, Frieze,
    /// Mitzenmacher: Min-Wise Independent Permutations, STOC 1998.
    pub(in crate::eval) fn minwise_hash(corpus: &Corpus, functions: u32) -> Self {
        let functions = functions as usize;
        let shingles = corpus.shingles(4);
        Self {
            lists: shingles.iter().map(|set| minima(set, functions)).collect(),
            score: Box::new(move |a, b| equal(a, b) as f64 / functions as f64),
            scale: Scale::twentieths(LEAST_TWENTIETHS),
            estimates: true,
        }
    }

    /// `bottom-k`: the K least hashes of the 4-token shingles under one hash function. The K least values of both
    /// documents together are a sample of the union. The share of them that both documents have estimates the Jaccard
    /// similarity.
    ///
    /// # References
    ///
    /// Broder: On the Resemblance and Containment of Documents, SEQUENCES 1997, the sketch MIN_s and its first
    /// theorem, which is this estimate. Cohen, Kaplan: Summarizing Data Using Bottom-k Sketches, PODC 2007.
    pub(in crate::eval) fn bottom_k(corpus: &Corpus, kept: u32) -> Self {
        let kept = kept as usize;
        // Shingles are hashes already, and in order.
        let mut lists = corpus.shingles(4);
        for set in &mut lists {
            set.truncate(kept);
            set.shrink_to_fit();
        }
        Self {
            lists,
            score: Box::new(move |a, b| estimate(a, b, kept)),
            scale: Scale::twentieths(LEAST_TWENTIETHS),
            estimates: true,
        }
    }

    /// `supershingles`: 84 minwise values of 8-token shingles, folded into 6 supershingles.
    ///
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
    pub(in crate::eval) fn supershingles(corpus: &Corpus) -> Self {
        Self {
            lists: supershingles(corpus),
            score: Box::new(|a, b| equal(a, b) as f64),
            scale: Scale::Equal(SUPERSHINGLES as u32),
            estimates: false,
        }
    }
}

impl Method for HashLists {
    fn scale(&self) -> Scale {
        self.scale.clone()
    }

    fn bytes(&self) -> usize {
        bytes(&self.lists)
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some((self.score)(&self.lists[a], &self.lists[b]))
    }

    fn estimate(&self, a: usize, b: usize) -> Option<f64> {
        self.score(a, b).filter(|_| self.estimates)
    }
}

/// The least value of each function over the elements. Empty if there are none.
fn minima(elements: &[u64], functions: usize) -> Vec<u64> {
    let mut minima = Vec::with_capacity(functions);
    for function in 0..functions as u64 {
        let values = elements
            .iter()
            .map(|element| xxh3_64_with_seed(&element.to_le_bytes(), function));
        minima.extend(values.min());
    }
    minima
}

/// Of the `kept` least elements of the union of two sorted lists, the share that is in both.
fn estimate(mut a: &[u64], mut b: &[u64], kept: usize) -> f64 {
    let mut seen = 0;
    let mut both = 0;
    while seen < kept {
        let order = match (a.first(), b.first()) {
            (Some(x), Some(y)) => x.cmp(y),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        a = &a[usize::from(order.is_le())..];
        b = &b[usize::from(order.is_ge())..];
        both += usize::from(order.is_eq());
        seen += 1;
    }
    match seen {
        0 => 0.0,
        seen => both as f64 / seen as f64,
    }
}

/// The tokens of a shingle that is folded.
const TOKENS: usize = 8;
/// The number of hash functions, m.
const FUNCTIONS: usize = 84;
/// The number of supershingles, m'.
const SUPERSHINGLES: usize = 6;

/// The supershingles of each document. A document without tokens has none.
pub(super) fn supershingles(corpus: &Corpus) -> Vec<Vec<u64>> {
    let mut all = Vec::with_capacity(corpus.len());
    for set in corpus.shingles(TOKENS) {
        all.push(folded(&minima(&set, FUNCTIONS)));
    }
    all
}

fn folded(minima: &[u64]) -> Vec<u64> {
    let mut folded = Vec::with_capacity(SUPERSHINGLES);
    for part in minima.chunks(FUNCTIONS / SUPERSHINGLES) {
        let bytes: Vec<u8> = part.iter().flat_map(|value| value.to_le_bytes()).collect();
        folded.push(xxh3_64(&bytes));
    }
    folded
}

/// The bytes of the hashes of all documents.
pub(super) fn bytes(lists: &[Vec<u64>]) -> usize {
    lists.iter().map(|list| size_of::<u64>() * list.len()).sum()
}

/// The number of positions at which two lists are equal.
pub(super) fn equal(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).filter(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The example of the paper has `a rose is a rose is a rose`, whose distinct 4-shingles are `a rose is a`,
    /// `rose is a rose` and `is a rose is`. The second text, by hand, adds `a rose is red`.
    #[test]
    fn a_rose_is_a_rose() {
        let corpus = Corpus::from_texts(&[
            "a rose is a rose is a rose",
            "a rose is a rose is a rose is red",
            "thorn",
        ]);
        let described = Exact::new(&corpus);
        assert_eq!(described.bytes(), 8 * (3 + 4 + 1));
        assert_eq!(described.score(0, 1), Some(0.75));
        assert_eq!(described.score(0, 2), Some(0.0));
        assert_eq!(described.indexed(0.5), Some(vec![(0, 1, 0.75)]));
    }

    /// By hand: 3 of 4 positions are equal. The sets {0..90} and {10..100} have 80 of 100 in common, and with
    /// 4,096 functions the standard error is 0.006.
    #[test]
    fn the_share_of_equal_positions_estimates_the_similarity() {
        assert_eq!(equal(&[1, 2, 3, 4], &[1, 2, 5, 4]), 3);
        let a = minima(&Vec::from_iter(0..90), 4096);
        let b = minima(&Vec::from_iter(10..100), 4096);
        let estimate = equal(&a, &b) as f64 / 4096.0;
        assert!((estimate - 0.8).abs() < 0.025, "{estimate}");
        assert!(minima(&[], 16).is_empty());
    }

    /// By hand: the 4 least of {1, 2, 5, 7} and {1, 3, 5, 9} together are 1, 2, 3, 5. Both have 1 and 5.
    #[test]
    fn the_least_of_both_are_a_sample_of_the_union() {
        assert_eq!(estimate(&[1, 2, 5, 7], &[1, 3, 5, 9], 4), 0.5);
        assert_eq!(estimate(&[], &[], 4), 0.0);
    }

    proptest::proptest! {
        #[test]
        fn the_estimate_is_that_of_the_definition(
            a in proptest::collection::btree_set(0u64..60, 0..30),
            b in proptest::collection::btree_set(0u64..60, 0..30),
            kept in 1usize..40,
        ) {
            let union: BTreeSet<u64> = a.union(&b).copied().collect();
            let sample: Vec<u64> = union.into_iter().take(kept).collect();
            let both = sample.iter().filter(|value| a.contains(value) && b.contains(value)).count();
            let expected = both as f64 / sample.len().max(1) as f64;
            let a: Vec<u64> = a.into_iter().take(kept).collect();
            let b: Vec<u64> = b.into_iter().take(kept).collect();
            proptest::prop_assert_eq!(estimate(&a, &b, kept), expected);
        }
    }

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
            for &place in places {
                changed[place] += 1_000;
            }
            let equal = equal(&folded(&values), &folded(&changed));
            assert_eq!(equal, expected, "{places:?}");
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
            let mut matched = 0;
            for trial in 0..trials {
                let begin = trial * 1_000;
                let a = minima(&Vec::from_iter(begin..begin + 200 - alone), FUNCTIONS);
                let b = minima(&Vec::from_iter(begin + alone..begin + 200), FUNCTIONS);
                matched += u64::from(equal(&folded(&a), &folded(&b)) >= 2);
            }
            let share = matched as f64 / trials as f64;
            // Three standard errors.
            let error = 3.0 * (law * (1.0 - law) / trials as f64).sqrt();
            assert!(
                (share - law).abs() < error,
                "{share} of the pairs of similarity {similarity}, not {law}"
            );
        }
    }
}
