//! Methods of comparing documents: what each gives to an evaluation, their names, and their settings.

use std::fmt;
use std::str::FromStr;

use super::corpus::Corpus;
use super::methods::{
    Exact, Fingerprints, HashLists, Henzinger, IMatch, RandomProjection, SpotSigs, Texts,
};
use super::overlap::Scored;
use crate::sketch::SketchSize;
use crate::text::{Fingerprinter, Scheme, TextMeasure};

/// The settings of the methods.
///
/// # Example
///
/// ```
/// use simdb::eval::{Labels, Settings, Yardstick};
/// # use simdb::eval::Corpus;
/// # use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\nb\tanother page\n")?;
/// # let corpus = Corpus::read(Records::open([&path], ReadOptions::new())?, |_| {})?;
///
/// let settings = Settings {
///     max_distance: 24,
///     ..Settings::default()
/// };
/// let curve = Yardstick::new(&corpus, &Labels::default()).measure("minwise-1".parse()?, &settings);
/// assert_eq!(curve.points.last().map(|point| point.threshold), Some(24.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest distance of fingerprints. 16 by default.
    pub max_distance: u32,
    /// The largest distance of the candidates whose sketches are compared. By default 10 for simhash, 8 for
    /// the other schemes.
    pub candidate_distance: Option<u32>,
    /// The hash functions of minwise hashing, and the hashes that bottom-k keeps. 128 by default.
    pub functions: u32,
    /// The bits of random projection. 384 by default.
    pub bits: u32,
    /// The random lexica of I-Match. 10 by default.
    pub lexica: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_distance: 16,
            candidate_distance: None,
            functions: 128,
            bits: 384,
            lexica: 10,
        }
    }
}

/// A method, by its name. Made with [`all`](Self::all) or from a string.
///
/// Each text scheme is a method under its own name, such as `minwise-1`, and two more with sketches of 16 and 32 bytes,
/// `minwise-1+sketch` and `minwise-1+sketch32`. Their thresholds are similarities. `minwise-1+sketch@0.7` has distances
/// as thresholds, and takes only pairs whose sketches estimate a similarity of 0.7 or more. Others are `exact`,
/// `minwise-hash`, `bottom-k`, `supershingles`, `i-match`, `i-match-k`, `random-projection`, `spotsigs`, `henzinger`,
/// `words` and `cosine`.
///
/// # Example
///
/// ```
/// use simdb::eval::MethodName;
///
/// let method: MethodName = "minwise-1+sketch@0.7".parse()?;
/// assert_eq!(method.to_string(), "minwise-1+sketch@0.7");
/// assert!(MethodName::all().any(|method| method.to_string() == "spotsigs"));
/// assert!("soundex".parse::<MethodName>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exact,
    /// The fingerprints of a text scheme, with sketches unless these have no size. With a least similarity in
    /// hundredths, they are compared by the distance, and only pairs count whose sketches estimate that.
    Scheme(Scheme, SketchSize, Option<u8>),
    MinwiseHash,
    BottomK,
    Supershingles,
    IMatch,
    IMatchK,
    RandomProjection,
    SpotSigs,
    Henzinger,
    /// Texts compared exactly.
    Texts(TextMeasure),
}

impl MethodName {
    /// All methods, but for those with a least similarity in their names.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut all = vec![Kind::Exact];
        for &size in SketchSize::ALL {
            for &scheme in Scheme::ALL {
                if Fingerprinter::new(scheme).is_ok() {
                    all.push(Kind::Scheme(scheme, size, None));
                }
            }
        }
        all.extend([
            Kind::MinwiseHash,
            Kind::BottomK,
            Kind::Supershingles,
            Kind::IMatch,
            Kind::IMatchK,
            Kind::RandomProjection,
            Kind::SpotSigs,
            Kind::Henzinger,
            Kind::Texts(TextMeasure::Words),
            Kind::Texts(TextMeasure::Cosine),
        ]);
        all.into_iter().map(Self)
    }

    /// The method by its distances, for the pairs that have this similarity or more, which is given as text.
    fn with_least(self, least: &str) -> Result<Self, String> {
        let Kind::Scheme(scheme, size @ (SketchSize::Bytes16 | SketchSize::Bytes32), None) = self.0
        else {
            return Err(format!(
                "only a method with sketches takes a least similarity, such as minwise-1+sketch@0.7, and not {self}"
            ));
        };
        let hundredths = least.parse().map_or(f64::NAN, |least: f64| least * 100.0);
        let rounded = hundredths.round();
        match (0.0..=100.0).contains(&rounded) && (hundredths - rounded).abs() < 1e-9 {
            true => Ok(Self(Kind::Scheme(scheme, size, Some(rounded as u8)))),
            false => Err(format!(
                "{least:?} is no similarity: it is a number from 0 to 1 with up to two decimals"
            )),
        }
    }

    /// Whether its thresholds are distances.
    pub fn is_by_distance(self) -> bool {
        match self.0 {
            Kind::Scheme(_, size, least) => size == SketchSize::None || least.is_some(),
            _ => false,
        }
    }

    /// Describes all documents, on one core.
    pub(super) fn describe(self, corpus: &Corpus, settings: &Settings) -> Box<dyn Method> {
        match self.0 {
            Kind::Exact => Box::new(Exact::new(corpus)),
            Kind::Scheme(scheme, size, hundredths) => {
                let max_distance = match size {
                    SketchSize::Bytes16 | SketchSize::Bytes32 if hundredths.is_none() => {
                        // The distance at which docs/benchmarks.md finds nearly all pairs of 0.8 and above.
                        let of_scheme = if scheme.method() == "simhash" { 10 } else { 8 };
                        settings.candidate_distance.unwrap_or(of_scheme)
                    }
                    _ => settings.max_distance,
                };
                let fingerprinter = Fingerprinter::new(scheme);
                let fingerprinter = fingerprinter.expect("only text schemes are methods");
                let fingerprinter = fingerprinter.with_sketch_size(size);
                let least = hundredths.map(similarity);
                Box::new(Fingerprints::new(
                    corpus,
                    fingerprinter,
                    max_distance,
                    least,
                ))
            }
            Kind::MinwiseHash => Box::new(HashLists::minwise_hash(corpus, settings.functions)),
            Kind::BottomK => Box::new(HashLists::bottom_k(corpus, settings.functions)),
            Kind::Supershingles => Box::new(HashLists::supershingles(corpus)),
            Kind::IMatch => Box::new(IMatch::new(corpus, 0)),
            Kind::IMatchK => Box::new(IMatch::new(corpus, settings.lexica)),
            Kind::RandomProjection => Box::new(RandomProjection::new(corpus, settings.bits)),
            Kind::SpotSigs => Box::new(SpotSigs::new(corpus)),
            Kind::Henzinger => Box::new(Henzinger::new(corpus)),
            Kind::Texts(measure) => Box::new(Texts::new(corpus, measure)),
        }
    }
}

fn similarity(hundredths: u8) -> f64 {
    f64::from(hundredths) / 100.0
}

/// The name on the command line.
impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Exact => "exact",
            Kind::Scheme(scheme, size, Some(hundredths)) => {
                let method = Self(Kind::Scheme(scheme, size, None));
                return write!(f, "{method}@{}", similarity(hundredths));
            }
            Kind::Scheme(scheme, SketchSize::None, None) => scheme.name(),
            Kind::Scheme(scheme, SketchSize::Bytes16, None) => return write!(f, "{scheme}+sketch"),
            Kind::Scheme(scheme, SketchSize::Bytes32, None) => {
                return write!(f, "{scheme}+sketch32");
            }
            Kind::MinwiseHash => "minwise-hash",
            Kind::BottomK => "bottom-k",
            Kind::Supershingles => "supershingles",
            Kind::IMatch => "i-match",
            Kind::IMatchK => "i-match-k",
            Kind::RandomProjection => "random-projection",
            Kind::SpotSigs => "spotsigs",
            Kind::Henzinger => "henzinger",
            Kind::Texts(measure) => measure.name(),
        })
    }
}

impl FromStr for MethodName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((method, least)) = name.split_once('@') {
            return method.parse::<Self>()?.with_least(least);
        }
        let mut known = Vec::new();
        for method in Self::all() {
            if method.to_string() == name {
                return Ok(method);
            }
            known.push(method.to_string());
        }
        let known = known.join(", ");
        Err(format!("there is no method {name:?}; there are {known}"))
    }
}

/// A method that has described each document of a corpus in some bytes. It scores pairs by their descriptions.
pub(super) trait Method: Sync {
    fn scale(&self) -> Scale;

    /// Whether it has started from the tokens that the corpus has. Their time is then part of its own.
    fn takes_tokens(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize;

    /// The score of two documents, higher if they are more alike. `None` if the method does not match them at
    /// any threshold.
    fn score(&self, a: usize, b: usize) -> Option<f64>;

    /// The Jaccard similarity of the 4-token shingles of two documents, if the descriptions estimate it.
    fn estimate(&self, a: usize, b: usize) -> Option<f64> {
        _ = (a, b);
        None
    }

    /// All pairs that score `least` or more, if the method has an index that is faster than to score every
    /// pair.
    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        _ = least;
        None
    }
}

/// The thresholds of a method, the strictest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    /// Distances from 0 to this one. The score of a pair is its distance below zero.
    Distance(u32),
    /// Similarities.
    Similarity(Vec<f64>),
    /// Equal parts, from this number down to one.
    Equal(u32),
}

impl Scale {
    /// Similarities from 1 down to `least`, in steps of 0.05.
    pub(super) fn twentieths(least: u32) -> Self {
        let twentieths = (least..=20).rev();
        Self::Similarity(twentieths.map(|step| f64::from(step) / 20.0).collect())
    }

    /// The least score at each threshold.
    pub(super) fn scores(&self) -> Vec<f64> {
        match self {
            Self::Distance(most) => (0..=*most).map(|distance| -f64::from(distance)).collect(),
            Self::Similarity(scores) => scores.clone(),
            Self::Equal(most) => (1..=*most).rev().map(f64::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_scheme_is_a_method_alone_and_with_sketches_of_each_size() -> Result<(), String> {
        for scheme in Scheme::ALL
            .iter()
            .filter(|scheme| **scheme != Scheme::External)
        {
            for name in [
                scheme.to_string(),
                format!("{scheme}+sketch"),
                format!("{scheme}+sketch32"),
            ] {
                assert_eq!(name.parse::<MethodName>()?.to_string(), name);
            }
        }
        assert!("external".parse::<MethodName>().is_err());
        Ok(())
    }

    #[test]
    fn a_method_with_sketches_takes_a_least_similarity() -> Result<(), String> {
        for name in [
            "minwise-1+sketch@0.7",
            "simhash-1+sketch32@0.75",
            "minwise-1+sketch@1",
        ] {
            assert_eq!(name.parse::<MethodName>()?.to_string(), name);
        }
        for name in [
            "minwise-1@0.7",
            "exact@0.7",
            "minwise-1+sketch@",
            "minwise-1+sketch@nan",
            "minwise-1+sketch@0.705",
            "minwise-1+sketch@1.1",
            "minwise-1+sketch@0.7@0.7",
            "guess@0.7",
        ] {
            assert!(name.parse::<MethodName>().is_err(), "{name}");
        }
        Ok(())
    }
}
