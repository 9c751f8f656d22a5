//! `words` and `cosine`: texts compared exactly, by their words.

use crate::eval::corpus::Corpus;
use crate::eval::method::{Method, Scale};
use crate::text::TextMeasure;

pub(in crate::eval) struct Texts {
    measure: TextMeasure,
    /// The words of each document, in order, with their counts.
    counts: Vec<Vec<(u32, u32)>>,
}

/// The least value that is looked at. Texts of one language have many words in common.
const LEAST_TWENTIETHS: u32 = 10;

impl Texts {
    pub(in crate::eval) fn new(corpus: &Corpus, measure: TextMeasure) -> Self {
        let mut counts = Vec::with_capacity(corpus.len());
        for document in &corpus.documents {
            let mut sorted = document.tokens.clone();
            sorted.sort_unstable();
            let same = sorted.chunk_by(|a, b| a == b);
            counts.push(same.map(|same| (same[0], same.len() as u32)).collect());
        }
        Self { measure, counts }
    }
}

impl Method for Texts {
    fn scale(&self) -> Scale {
        Scale::twentieths(LEAST_TWENTIETHS)
    }

    fn bytes(&self) -> usize {
        let words: usize = self.counts.iter().map(Vec::len).sum();
        words * size_of::<(u32, u32)>()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let counts = merged(&self.counts[a], &self.counts[b]);
        Some(self.measure.of_counts(counts))
    }
}

/// The counts of each word that is in one of two sorted lists or in both.
fn merged(mut a: &[(u32, u32)], mut b: &[(u32, u32)]) -> impl Iterator<Item = [u64; 2]> {
    std::iter::from_fn(move || {
        let word = a.first().into_iter().chain(b.first()).min()?.0;
        Some([take(&mut a, word), take(&mut b, word)])
    })
}

/// Takes the first count of a list if it is that of a word, which otherwise has none.
fn take(list: &mut &[(u32, u32)], word: u32) -> u64 {
    match list.split_first() {
        Some((first, rest)) if first.0 == word => {
            *list = rest;
            first.1.into()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_texts() {
        let texts = ["a b a", "b A, c b", "d", "...", "c c c d a"];
        let corpus = Corpus::from_texts(&texts);
        for measure in [TextMeasure::Words, TextMeasure::Cosine] {
            let described = Texts::new(&corpus, measure);
            for a in 0..texts.len() {
                for b in 0..texts.len() {
                    let expected = measure.of(texts[a], texts[b]);
                    assert_eq!(described.score(a, b), Some(expected), "{a} {b}");
                }
            }
            assert_eq!(described.bytes(), 8 * (2 + 3 + 1 + 3));
        }
    }
}
