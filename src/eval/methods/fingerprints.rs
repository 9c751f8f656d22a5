//! `simhash-1`, `simhash-2` and `minwise-1`: the fingerprints of this library.

use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};
use crate::fingerprint::Fingerprint;
use crate::text::Fingerprinter;

/// The distance of the fingerprints of a scheme, whose recipe and sources [`Fingerprinter`] gives.
#[derive(Debug)]
pub(in crate::eval) struct Fingerprints {
    pub(in crate::eval) fingerprinter: Fingerprinter,
    pub(in crate::eval) max_distance: u32,
}

impl Method for Fingerprints {
    fn scale(&self) -> Scale {
        Scale::Distance(self.max_distance)
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        let of = |text: &String| self.fingerprinter.fingerprint(text);
        Box::new(Distances(corpus.documents.iter().map(|document| of(&document.text)).collect()))
    }

    fn takes_tokens(&self) -> bool {
        false
    }
}

/// Texts that are too short have no fingerprint and match nothing.
struct Distances(Vec<Option<Fingerprint>>);

impl Described for Distances {
    fn bytes(&self) -> usize {
        size_of::<u64>() * self.0.len()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(-f64::from(self.0[a]?.distance(self.0[b]?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Scheme;

    #[test]
    fn the_score_is_the_distance_below_zero() -> crate::Result<()> {
        let texts =
            ["one two three four five six seven eight", "one two three four five six seven nine", "short"];
        for scheme in [Scheme::Simhash1, Scheme::Minwise1] {
            let fingerprinter = Fingerprinter::new(scheme)?;
            let described = Fingerprints { fingerprinter, max_distance: 64 }.describe(&Corpus::of(&texts));
            let [a, b, c] = texts.map(|text| fingerprinter.fingerprint(text));
            let distance = a.zip(b).map(|(a, b)| a.distance(b));
            assert_eq!(described.score(0, 1), distance.map(|it| -f64::from(it)));
            assert_eq!((c, described.score(0, 2)), (None, None));
        }
        Ok(())
    }
}
