//! `minwise-1` and the other schemes of this library: near fingerprints, alone or told apart by sketches.

use crate::eval::corpus::Corpus;
use crate::eval::method::{Method, Scale};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::text::Fingerprinter;

/// The fingerprints of a scheme, whose recipe and sources [`Fingerprinter`] gives.
///
/// If its sketches have no size, the score is the distance of fingerprints, below zero. Otherwise pairs within
/// the largest distance are candidates. Their score is the Jaccard similarity of 4-token shingles that their
/// sketches estimate, as a query with a least similarity does it. If a least similarity is given, the score is the
/// distance again, for the pairs that have it.
///
/// # References
///
/// Those of [`Fingerprinter`]; Li, König: b-Bit Minwise Hashing, WWW 2010, for the estimate.
pub(in crate::eval) struct Fingerprints {
    /// Texts that are too short have neither fingerprint nor sketch, and match nothing.
    documents: Vec<Option<(Fingerprint, Option<Sketch>)>>,
    sketch_size: SketchSize,
    max_distance: u32,
    /// Of pairs, as their sketches estimate it. `None` if the estimate is the score.
    min_similarity: Option<f64>,
}

impl Fingerprints {
    pub(in crate::eval) fn new(
        corpus: &Corpus,
        fingerprinter: Fingerprinter,
        max_distance: u32,
        min_similarity: Option<f64>,
    ) -> Self {
        let mut documents = Vec::with_capacity(corpus.len());
        for document in &corpus.documents {
            let page = &document.page;
            let text = page.text(|page, syntax| fingerprinter.text_of_page(page, syntax));
            documents.push(text.and_then(|text| fingerprinter.fingerprint_and_sketch(&text)));
        }
        Self {
            documents,
            sketch_size: fingerprinter.sketch_size(),
            max_distance,
            min_similarity,
        }
    }

    fn scores_estimates(&self) -> bool {
        self.sketch_size != SketchSize::None && self.min_similarity.is_none()
    }
}

impl Method for Fingerprints {
    fn scale(&self) -> Scale {
        if !self.scores_estimates() {
            return Scale::Distance(self.max_distance);
        }
        let fortieths = (12..=40).rev();
        Scale::Similarity(fortieths.map(|step| f64::from(step) / 40.0).collect())
    }

    fn takes_tokens(&self) -> bool {
        false
    }

    /// A fingerprint; with a sketch, that and the number of its shingles too.
    fn bytes(&self) -> usize {
        let sketch = match self.sketch_size {
            SketchSize::None => 0,
            size @ (SketchSize::Bytes16 | SketchSize::Bytes32) => size.bytes() + size_of::<u32>(),
        };
        (size_of::<Fingerprint>() + sketch) * self.documents.len()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let distance = self.documents[a]?.0.distance(self.documents[b]?.0);
        if distance > self.max_distance {
            return None;
        }
        if self.scores_estimates() {
            return self.estimate(a, b);
        }
        let is_similar = match self.min_similarity {
            Some(least) => self.estimate(a, b)? >= least,
            None => true,
        };
        is_similar.then_some(-f64::from(distance))
    }

    fn estimate(&self, a: usize, b: usize) -> Option<f64> {
        let a = self.documents[a]?.1?;
        let b = self.documents[b]?.1?;
        Some(a.similarity(&b).ok()?.jaccard())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Scheme;

    #[test]
    fn the_score_is_the_distance_below_zero() -> crate::Result<()> {
        let texts = [
            "one two three four five six seven eight",
            "one two three four five six seven nine",
            "short",
        ];
        let corpus = Corpus::from_texts(&texts);
        for scheme in [Scheme::Simhash1, Scheme::Minwise1] {
            let fingerprinter = Fingerprinter::new(scheme)?.with_sketch_size(SketchSize::None);
            let described = Fingerprints::new(&corpus, fingerprinter, 64, None);
            let [a, b, c] = texts.map(|text| fingerprinter.fingerprint(text));
            let distance = a.zip(b).map(|(a, b)| a.distance(b));
            assert_eq!(described.score(0, 1), distance.map(|it| -f64::from(it)));
            assert_eq!((c, described.score(0, 2)), (None, None));
            assert_eq!((described.bytes(), described.estimate(0, 1)), (24, None));
        }
        Ok(())
    }

    /// The definition, from the public interface: the distance first, then the estimate.
    #[test]
    fn candidates_have_the_estimate_and_others_nothing() -> crate::Result<()> {
        let words: Vec<String> = (0..60).map(|number| format!("w{number}")).collect();
        let texts = [words.join(" "), words[1..].join(" "), words[30..].join(" ")];
        let corpus = Corpus::from_texts(&texts.each_ref().map(String::as_str));
        for size in [SketchSize::Bytes16, SketchSize::Bytes32] {
            let fingerprinter = Fingerprinter::new(Scheme::Minwise1)?.with_sketch_size(size);
            let described = Fingerprints::new(&corpus, fingerprinter, 8, None);
            let from_half = Fingerprints::new(&corpus, fingerprinter, 64, Some(0.5));
            assert_eq!(described.bytes(), 3 * (8 + size.bytes() + 4));
            let made = texts.each_ref().map(|text| {
                let made = fingerprinter.fingerprint_and_sketch(text);
                made.expect("long enough")
            });
            for (a, b, is_candidate) in [(0, 1, true), (0, 2, false), (1, 2, false)] {
                assert_eq!(made[a].0.distance(made[b].0) <= 8, is_candidate);
                let sketches = made[a].1.zip(made[b].1);
                let expected = sketches
                    .and_then(|(x, y)| x.similarity(&y).ok())
                    .map(|similarity| similarity.jaccard());
                assert!(expected.is_some());
                assert_eq!(described.estimate(a, b), expected);
                assert_eq!(described.score(a, b), expected.filter(|_| is_candidate));
                let distance = -f64::from(made[a].0.distance(made[b].0));
                let is_similar = expected.is_some_and(|similarity| similarity >= 0.5);
                assert_eq!(is_similar, is_candidate);
                assert_eq!(from_half.score(a, b), is_similar.then_some(distance));
            }
        }
        Ok(())
    }

    /// By hand: the two pages have one story, and menus that share nothing. Only `content-1` reads the story
    /// alone, and only if it is given the page.
    #[test]
    fn schemes_read_html_in_their_own_way() -> crate::Result<()> {
        let mut story = String::new();
        for number in 0..200 {
            story += &format!("story{number} ");
        }
        let pages = ["a", "b"].map(|site| {
            let mut links = String::new();
            for number in 0..60 {
                links += &format!("<li><a href='/{site}{number}'>{site}{number}</a></li>");
            }
            format!("<body><ul>{links}</ul><p>{story}</p><p>{story} again</p></body>")
        });
        let corpus = Corpus::from_html(&pages);
        for (scheme, is_same) in [(Scheme::Content1, true), (Scheme::Minwise1, false)] {
            let fingerprinter = Fingerprinter::new(scheme)?.with_sketch_size(SketchSize::None);
            let score = Fingerprints::new(&corpus, fingerprinter, 64, None).score(0, 1);
            assert_eq!(score == Some(0.0), is_same, "{scheme}: {score:?}");
            assert!(
                score.is_some_and(|score| score <= 0.0),
                "{scheme}: {score:?}"
            );
        }
        Ok(())
    }
}
