//! `i-match` and `i-match-k`: the SHA-1 of the words of a document that are neither frequent nor rare.

use sha1::{Digest as _, Sha1};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::eval::corpus::{Corpus, distinct};
use crate::eval::method::{Method, Scale};

/// The lexicon has the words whose idf, log(documents / documents with the word), lies in a window: between a
/// fifth and four fifths of the largest possible, log(documents). The signature of a document is the SHA-1 of
/// its distinct words of the lexicon, in the order of Unicode. A document without such words has none.
///
/// Each of the K further lexica leaves out a third of the words of the first, at random. The score is the
/// number of equal signatures; the paper asks for one.
///
/// The papers try several windows. This one is the default of the program that the authors of SpotSigs published,
/// which has an I-Match too. That program also asks for four words of the lexicon, which is not done here.
///
/// # References
///
/// Chowdhury, Frieder, Grossman, McCabe: Collection Statistics for Fast Duplicate Document Detection, ACM
/// TOIS 2002. Kolcz, Chowdhury, Alspector: Improved Robustness of Signature-Based Near-Replica Detection via
/// Lexicon Randomization, KDD 2004.
pub(in crate::eval) struct IMatch {
    lexica: u32,
    /// For each document, its signature under each lexicon.
    signatures: Vec<Vec<Option<Signature>>>,
}

/// The window, as shares of the largest idf.
const WINDOW: std::ops::RangeInclusive<f64> = 0.2..=0.8;

impl IMatch {
    /// `lexica` is K, the number of random lexica. 0 is plain I-Match.
    pub(in crate::eval) fn new(corpus: &Corpus, lexica: u32) -> Self {
        let lexicon = lexicon(corpus);
        let mut signatures = Vec::with_capacity(corpus.len());
        for document in &corpus.documents {
            let mut words: Vec<(&str, u64)> = Vec::new();
            for word in distinct(&document.tokens) {
                if lexicon[word as usize] {
                    words.push((&corpus.words[word as usize], corpus.word_hash(word)));
                }
            }
            words.sort_unstable();
            let numbers = 0..=lexica;
            signatures.push(numbers.map(|number| signature(&words, number)).collect());
        }
        Self { lexica, signatures }
    }
}

fn lexicon(corpus: &Corpus) -> Vec<bool> {
    let documents = corpus.len() as f64;
    let mut lexicon = Vec::with_capacity(corpus.words.len());
    for frequency in corpus.document_frequencies() {
        let idf = (documents / f64::from(frequency)).ln() / documents.ln();
        lexicon.push(WINDOW.contains(&idf));
    }
    lexicon
}

type Signature = [u8; 20];

/// The signature of sorted words, with their hashes, under one of the lexica. Number 0 has all words.
fn signature(words: &[(&str, u64)], lexicon: u32) -> Option<Signature> {
    let mut sha1 = Sha1::new();
    let mut any = false;
    for (word, hash) in words {
        let random = xxh3_64_with_seed(&hash.to_le_bytes(), u64::from(lexicon));
        if lexicon == 0 || !random.is_multiple_of(3) {
            sha1.update(word.as_bytes());
            sha1.update(b"\n");
            any = true;
        }
    }
    any.then(|| sha1.finalize().into())
}

impl Method for IMatch {
    fn scale(&self) -> Scale {
        Scale::Equal(self.lexica + 1)
    }

    fn bytes(&self) -> usize {
        let signatures = self.signatures.iter().flatten().flatten();
        signatures.count() * size_of::<Signature>()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let both = self.signatures[a].iter().zip(&self.signatures[b]);
        Some(both.filter(|(x, y)| x.is_some() && x == y).count() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with 4 documents: a word of one document has the idf share 1, of two 1/2, of three 0.21, of
    /// four 0. So the lexicon is {common, pair}: `rare` words and `all` do not count, nor does order.
    const TEXTS: [&str; 4] = [
        "all common pair rare",
        "pair all all scarce common",
        "all common",
        "all",
    ];

    #[test]
    fn only_words_of_the_window_count() {
        let corpus = Corpus::from_texts(&TEXTS);
        let lexicon = lexicon(&corpus);
        let mut kept = corpus.words.clone();
        let mut is_in = lexicon.into_iter();
        kept.retain(|_| is_in.next() == Some(true));
        assert_eq!(kept, ["common", "pair"]);
        let described = IMatch::new(&corpus, 0);
        assert_eq!(described.score(0, 1), Some(1.0));
        assert_eq!(described.score(0, 2), Some(0.0));
        assert_eq!(
            described.score(3, 3),
            Some(0.0),
            "no word of the lexicon, no signature"
        );
        assert_eq!(described.bytes(), 60);
    }

    /// `abc` is the example of the standard, FIPS 180.
    #[test]
    fn the_signature_is_the_sha1_of_the_words() {
        let digest: Signature = Sha1::digest(b"abc").into();
        assert_eq!(digest[..4], [0xa9, 0x99, 0x3e, 0x36]);
        let words = [("abc", 1), ("b", 2)];
        assert_eq!(signature(&words, 0), Some(Sha1::digest(b"abc\nb\n").into()));
    }
}
