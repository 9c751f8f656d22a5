//! The methods with `+sketch`: near fingerprints, told apart by a sketch of 16 bytes.

use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::text::Fingerprinter;

/// Pairs within a distance are candidates. Their score is the Jaccard similarity of 4-token shingles that
/// their sketches estimate, as a query with a least similarity does it.
///
/// # References
///
/// Those of [`Fingerprinter`]; Li, König: b-Bit Minwise Hashing, WWW 2010, for the estimate.
#[derive(Debug)]
pub(in crate::eval) struct Sketches {
    pub(in crate::eval) fingerprinter: Fingerprinter,
    pub(in crate::eval) candidate_distance: u32,
}

impl Method for Sketches {
    fn scale(&self) -> Scale {
        Scale::Similarity((12..=40).rev().map(|it| f64::from(it) / 40.0).collect())
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        let fingerprinter = self.fingerprinter.with_sketch_size(SketchSize::Bytes16);
        let of = |text: &String| {
            let (fingerprint, sketch) = fingerprinter.fingerprint_and_sketch(text)?;
            Some((fingerprint, sketch?))
        };
        Box::new(Estimates {
            documents: corpus.documents.iter().map(|document| of(&document.text)).collect(),
            candidate_distance: self.candidate_distance,
        })
    }

    fn takes_tokens(&self) -> bool {
        false
    }
}

/// Texts that are too short have neither fingerprint nor sketch, and match nothing.
struct Estimates {
    documents: Vec<Option<(Fingerprint, Sketch)>>,
    candidate_distance: u32,
}

impl Described for Estimates {
    /// A fingerprint, a sketch and the number of its shingles.
    fn bytes(&self) -> usize {
        (size_of::<u64>() + SketchSize::Bytes16.bytes() + size_of::<u32>()) * self.documents.len()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        let ((a, a_sketch), (b, b_sketch)) = (self.documents[a]?, self.documents[b]?);
        if a.distance(b) > self.candidate_distance {
            return None;
        }
        a_sketch.similarity(&b_sketch).ok().map(|it| it.jaccard())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Scheme;

    /// The definition, from the public interface: the distance first, then the estimate.
    #[test]
    fn candidates_have_the_estimate_and_others_nothing() -> crate::Result<()> {
        let words: Vec<String> = (0..60).map(|it| format!("w{it}")).collect();
        let texts = [words.join(" "), words[1..].join(" "), words[30..].join(" ")];
        let corpus = Corpus::of(&texts.each_ref().map(String::as_str));
        let fingerprinter = Fingerprinter::new(Scheme::Minwise1)?;
        let described = Sketches { fingerprinter, candidate_distance: 8 }.describe(&corpus);
        let made = texts.each_ref().map(|it| {
            fingerprinter
                .with_sketch_size(SketchSize::Bytes16)
                .fingerprint_and_sketch(it)
                .expect("long enough")
        });
        for (a, b, is_candidate) in [(0, 1, true), (0, 2, false), (1, 2, false)] {
            assert_eq!(made[a].0.distance(made[b].0) <= 8, is_candidate);
            let sketches = made[a].1.zip(made[b].1).filter(|_| is_candidate);
            let expected = sketches.and_then(|(x, y)| x.similarity(&y).ok()).map(|it| it.jaccard());
            assert_eq!(described.score(a, b), expected);
        }
        Ok(())
    }
}
