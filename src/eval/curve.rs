//! What an evaluation measures of a method: a point for each threshold.

use super::method::Scale;

/// A band of Jaccard similarities of 4-token shingles, and the pairs in it.
///
/// # Example
///
/// ```
/// use simdb::eval::Band;
///
/// let band = Band { pairs: 4, found: 3 };
/// assert_eq!(band.recall(), Some(0.75));
/// assert_eq!(Band::default().recall(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// The pairs in the band.
    pub pairs: u64,
    /// Those of them that matched.
    pub found: u64,
}

impl Band {
    /// The least similarity of each band. The first has no upper bound, and each other one ends where the one
    /// before it begins.
    pub const LEAST: [f64; 4] = [0.9, 0.8, 0.7, 0.5];

    /// The share of the pairs that matched. `None` if there are no pairs.
    pub fn recall(&self) -> Option<f64> {
        (self.pairs > 0).then_some(self.found as f64 / self.pairs as f64)
    }
}

/// The pairs that people have judged, and which of them matched.
///
/// # Example
///
/// ```
/// use simdb::eval::{Band, Verdicts};
///
/// let verdicts = Verdicts {
///     same: Band { pairs: 8, found: 6 },
///     different: Band { pairs: 5, found: 2 },
/// };
/// assert_eq!((verdicts.same.recall(), verdicts.precision()), (Some(0.75), Some(0.75)));
/// assert_eq!(verdicts.f1(), Some(0.75));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Those that people call the same.
    pub same: Band,
    /// Those that people call different.
    pub different: Band,
}

impl Verdicts {
    /// The share of the matches that are the same. `None` if nothing matched.
    pub fn precision(&self) -> Option<f64> {
        Band {
            pairs: self.same.found + self.different.found,
            found: self.same.found,
        }
        .recall()
    }

    /// The harmonic mean of precision and recall. `None` if nothing is the same.
    pub fn f1(&self) -> Option<f64> {
        let both = self.same.pairs + self.same.found + self.different.found;
        (self.same.pairs > 0).then_some(2.0 * self.same.found as f64 / both as f64)
    }
}

/// A method at one threshold.
///
/// # Example
///
/// ```
/// use simdb::eval::{Band, Point};
///
/// let point = Point {
///     threshold: 3.0,
///     bands: [(10, 10), (10, 9), (10, 6), (10, 1)].map(|(pairs, found)| Band { pairs, found }),
///     unrelated: Band { pairs: 500_000, found: 1 },
///     verdicts: None,
/// };
/// assert_eq!(point.recall_from_80(), Some(0.95));
/// assert_eq!(point.false_per_million(), Some(2.0));
/// ```
#[derive(Clone, Debug)]
pub struct Point {
    /// The largest distance that matches, or the least similarity or number of equal parts.
    pub threshold: f64,
    /// The pairs by their Jaccard similarity.
    pub bands: [Band; 4],
    /// The unrelated pairs: of different groups, with a Jaccard similarity below 0.5.
    pub unrelated: Band,
    /// The judged pairs, if people have called some the same and others different.
    pub verdicts: Option<Verdicts>,
}

impl Point {
    /// The false matches in a million unrelated pairs. `None` if no pairs are unrelated.
    pub fn false_per_million(&self) -> Option<f64> {
        self.unrelated.recall().map(|share| 1e6 * share)
    }

    /// The share of the pairs with a Jaccard similarity of 0.8 or more that matched.
    pub fn recall_from_80(&self) -> Option<f64> {
        let [first, second, ..] = self.bands;
        Band {
            pairs: first.pairs + second.pairs,
            found: first.found + second.found,
        }
        .recall()
    }
}

/// How far estimates of the Jaccard similarity of 4-token shingles are off: over the pairs of the bands whose
/// similarity, computed from the texts, is 0.5 or more. Whether a pair is a candidate does not matter.
///
/// See the example of [`Curve`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EstimateError {
    /// The pairs. A pair with a text that is too short for an estimate is not among them.
    pub pairs: u64,
    /// The root of the mean of the squared differences between estimate and similarity.
    pub rmse: f64,
}

impl EstimateError {
    /// The error of estimates, given with the similarities. `None` if there are none.
    pub(super) fn from_estimates(estimates: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let mut pairs = 0;
        let mut squares = 0.0;
        for (estimate, similarity) in estimates {
            pairs += 1;
            squares += (estimate - similarity).powi(2);
        }
        (pairs > 0).then(|| Self {
            pairs,
            rmse: (squares / pairs as f64).sqrt(),
        })
    }
}

/// A method, measured.
///
/// # Example
///
/// ```
/// use simdb::eval::{Labels, Settings, Yardstick};
/// # use simdb::eval::Corpus;
/// # use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
/// # let page = "one two three four five six seven eight nine ten eleven twelve";
/// # std::fs::write(&path, format!("a\t{page}\nb\t{page}\nc\tnothing of all this is in the third page\n"))?;
/// # let corpus = Corpus::read(Records::open([&path], ReadOptions::new())?, |_| {})?;
///
/// let yardstick = Yardstick::new(&corpus, &Labels::default());
/// let curve = yardstick.measure("minwise-1+sketch".parse()?, &Settings::default());
/// assert_eq!((&curve.method[..], curve.threshold_name()), ("minwise-1+sketch", "similarity"));
/// let loosest = curve.at_one_false().ok_or("there is no such point")?;
/// assert_eq!((loosest.bands[0].found, loosest.unrelated.found), (1, 0));
/// // Two pages have the same text. So the estimate is right.
/// let error = curve.estimate_error.ok_or("sketches give estimates")?;
/// assert_eq!((error.pairs, error.rmse), (1, 0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Curve {
    /// The name of the method.
    pub method: String,
    /// Bytes that describe a document, in the mean.
    pub bytes: f64,
    /// Time to describe a document on one core, from its text or its HTML (microseconds, mean).
    pub describe_us: f64,
    /// Time of one core for each pair of documents (nanoseconds, mean). An index looks at few of the pairs.
    pub pair_ns: f64,
    /// One point for each threshold, the strictest first.
    pub points: Vec<Point>,
    /// How far the method's estimates of the Jaccard similarity are off, if it makes such estimates.
    pub estimate_error: Option<EstimateError>,
    pub(super) scale: Scale,
}

impl Curve {
    /// The name of a threshold of this method: `k` for a distance, `similarity`, or `equal` parts.
    pub fn threshold_name(&self) -> &'static str {
        match self.scale {
            Scale::Distance(_) => "k",
            Scale::Similarity(_) => "similarity",
            Scale::Equal(_) => "equal",
        }
    }

    /// Whether its thresholds are distances.
    pub fn is_by_distance(&self) -> bool {
        matches!(self.scale, Scale::Distance(_))
    }

    /// The loosest point with at most one false match in a million unrelated pairs.
    pub fn at_one_false(&self) -> Option<&Point> {
        let loosest_first = self.points.iter().rev();
        let mut with_share =
            loosest_first.filter_map(|point| Some((point, point.false_per_million()?)));
        Some(with_share.find(|&(_, share)| share <= 1.0)?.0)
    }

    /// The point with the best F1 over the judged pairs.
    pub fn best_f1(&self) -> Option<(&Point, f64)> {
        let mut best: Option<(&Point, f64)> = None;
        for point in &self.points {
            let f1 = point.verdicts.and_then(|verdicts| verdicts.f1());
            // None is less than any.
            if f1 > best.map(|best| best.1) {
                best = f1.map(|f1| (point, f1));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the differences are 0.3 and 0.1, and the mean of their squares is 0.05.
    #[test]
    fn the_error_is_the_root_of_the_mean_square() {
        let error = EstimateError::from_estimates([(0.9, 0.6), (0.5, 0.6)].into_iter());
        assert!(
            error.is_some_and(
                |error| error.pairs == 2 && (error.rmse - 0.05f64.sqrt()).abs() < 1e-12
            )
        );
        assert_eq!(EstimateError::from_estimates(std::iter::empty()), None);
    }

    /// By hand: of 10 pairs that are the same, 6 matched, and 2 others beside them.
    #[test]
    fn precision_recall_and_f1_are_those_of_the_textbook() {
        let verdicts = Verdicts {
            same: Band {
                pairs: 10,
                found: 6,
            },
            different: Band { pairs: 5, found: 2 },
        };
        assert_eq!(verdicts.same.recall(), Some(0.6));
        assert_eq!(verdicts.precision(), Some(0.75));
        let expected = 2.0 * 0.75 * 0.6 / (0.75 + 0.6);
        assert!(
            verdicts
                .f1()
                .is_some_and(|f1| (f1 - expected).abs() < 1e-12)
        );
        assert_eq!(Verdicts::default().precision(), None);
        assert_eq!(Verdicts::default().f1(), None);
    }
}
