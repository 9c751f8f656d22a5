//! `random-projection`: the signs of B random projections of the vector of words. And `henzinger`, which combines them
//! with supershingles.

use std::f64::consts::PI;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::shingles::{bytes, equal, supershingles};
use crate::eval::corpus::Corpus;
use crate::eval::method::{Method, Scale};

/// Each word has a random vector of B values, each 1 or -1. The vectors of a document are added, one for each
/// occurrence of a word. A bit is one where the sum is positive, and zero otherwise. If a share s of the bits is
/// equal, the angle of two documents is about pi (1 - s). Its cosine is the score.
///
/// # References
///
/// Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002, section 3, for random
/// hyperplanes. Henzinger: Finding Near-Duplicate Web Pages, SIGIR 2006, section 2, for vectors of 1 and -1, words
/// with their frequency, B = 384, and at least 372 equal bits.
pub(in crate::eval) struct RandomProjection {
    /// The bits of each document. A document without tokens has none.
    words: Vec<Option<Vec<u64>>>,
    bits: u32,
}

/// The cosines at which projections are measured. Of 384 bits, 372 are equal at 0.995, and 355 at 0.971.
const COSINES: [f64; 12] = [
    1.0, 0.9995, 0.999, 0.998, 0.995, 0.99, 0.98, 0.971, 0.95, 0.92, 0.9, 0.85,
];

impl RandomProjection {
    /// `bits` is B.
    pub(in crate::eval) fn new(corpus: &Corpus, bits: u32) -> Self {
        let mut words = Vec::with_capacity(corpus.len());
        for document in &corpus.documents {
            let tokens = document.tokens.iter();
            let hashes: Vec<u64> = tokens.map(|&word| corpus.word_hash(word)).collect();
            words.push((!hashes.is_empty()).then(|| projected(hashes, bits)));
        }
        Self { words, bits }
    }
}

/// The signs of the sums. The words are given by their hashes, once for each occurrence.
fn projected(mut hashes: Vec<u64>, bits: u32) -> Vec<u64> {
    hashes.sort_unstable();
    let mut sums = vec![0i64; bits.next_multiple_of(64) as usize];
    for same in hashes.chunk_by(|a, b| a == b) {
        for (index, sums) in sums.chunks_exact_mut(64).enumerate() {
            let signs = xxh3_64_with_seed(&same[0].to_le_bytes(), index as u64);
            for (bit, sum) in sums.iter_mut().enumerate() {
                *sum += (2 * (signs >> bit & 1) as i64 - 1) * same.len() as i64;
            }
        }
    }
    sums.truncate(bits as usize);
    let mut words = Vec::new();
    for sums in sums.chunks(64) {
        let mut word = 0;
        for (bit, &sum) in sums.iter().enumerate() {
            word |= u64::from(sum > 0) << bit;
        }
        words.push(word);
    }
    words
}

impl Method for RandomProjection {
    fn scale(&self) -> Scale {
        Scale::Similarity(COSINES.to_vec())
    }

    fn bytes(&self) -> usize {
        self.words.len() * (self.bits as usize).div_ceil(8)
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let a = self.words[a].as_ref()?;
        let b = self.words[b].as_ref()?;
        let different = a.iter().zip(b).map(|(x, y)| (x ^ y).count_ones());
        Some(cosine(different.sum(), self.bits))
    }
}

fn cosine(different: u32, bits: u32) -> f64 {
    (PI * f64::from(different) / f64::from(bits)).cos()
}

/// `henzinger`: pairs with two equal supershingles, filtered by random projection.
///
/// A pair is a candidate if 2 of 6 supershingles are equal. Its score is that of random projection with 384
/// bits. The paper takes pairs with 355 equal bits or more, which is a cosine of 0.971.
///
/// # References
///
/// Henzinger: Finding Near-Duplicate Web Pages: A Large-Scale Evaluation of Algorithms, SIGIR 2006: the combined
/// algorithm at the end of section 3, whose threshold of 355 was chosen on a training set.
pub(in crate::eval) struct Henzinger {
    supershingles: Vec<Vec<u64>>,
    projections: RandomProjection,
}

const BITS: u32 = 384;
const EQUAL_SUPERSHINGLES: usize = 2;

impl Henzinger {
    pub(in crate::eval) fn new(corpus: &Corpus) -> Self {
        Self {
            supershingles: supershingles(corpus),
            projections: RandomProjection::new(corpus, BITS),
        }
    }
}

impl Method for Henzinger {
    fn scale(&self) -> Scale {
        Scale::Similarity(COSINES.to_vec())
    }

    fn bytes(&self) -> usize {
        bytes(&self.supershingles) + self.projections.bytes()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        match equal(&self.supershingles[a], &self.supershingles[b]) {
            EQUAL_SUPERSHINGLES.. => self.projections.score(a, b),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of equal bits that the paper asks for, 372 and, combined with supershingles, 355, are each what
    /// one of the thresholds asks for.
    #[test]
    fn two_thresholds_are_those_of_the_paper() {
        for (equal, threshold) in [(372, 0.995), (355, 0.971)] {
            assert!(COSINES.contains(&threshold));
            for different in 0..=384 {
                let is_similar = 384 - different >= equal;
                assert_eq!(
                    cosine(different, 384) >= threshold,
                    is_similar,
                    "{different} bits differ"
                );
            }
        }
    }

    /// By hand: two texts of 201 words, 151 of them in both, have the cosine 151/201. With 4,096 bits the standard
    /// error of the share of equal bits is 0.007, and that of the cosine 0.014. Texts of a few words, whose sums
    /// are often 0, are overestimated.
    #[test]
    fn the_score_estimates_the_cosine() {
        let words: Vec<String> = (0..251).map(|number| format!("w{number}")).collect();
        let first = words[..201].join(" ");
        let second = words[50..].join(" ");
        let corpus = Corpus::from_texts(&[first.as_str(), second.as_str(), "", first.as_str()]);
        let described = RandomProjection::new(&corpus, 4096);
        let cosine = described.score(0, 1);
        assert!(
            cosine.is_some_and(|cosine| (cosine - 151.0 / 201.0).abs() < 0.06),
            "{cosine:?}"
        );
        assert_eq!(
            (described.score(0, 2), described.score(0, 3)),
            (None, Some(1.0))
        );
    }

    /// By hand: the same words in another order have the cosine 1, but no shingle in common.
    #[test]
    fn both_methods_have_to_agree() {
        let corpus = Corpus::from_texts(&[
            "a b c d e f g h i j",
            "j i h g f e d c b a",
            "A b c d e f g h i j",
        ]);
        let described = Henzinger::new(&corpus);
        let projections = RandomProjection::new(&corpus, BITS);
        assert_eq!(projections.score(0, 1), Some(1.0));
        assert_eq!(described.score(0, 1), None);
        assert_eq!(described.score(0, 2), Some(1.0));
    }
}
