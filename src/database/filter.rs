//! Filter: which documents match beside the fingerprint, as queries and policies say it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Similarity, Sketch, SketchSize};
use crate::source::Ignored;
use crate::store::{Reader, ScopeNames};
use crate::unix_seconds::UnixSeconds;

/// Which documents match, apart from the fingerprint, and the most that are listed. Queries and policies
/// have one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) max_distance: Option<u32>,
    pub(super) min_similarity: Option<f64>,
    pub(super) order: Order,
    pub(super) limit: usize,
    pub(super) since: Option<UnixSeconds>,
    pub(super) scopes: Option<ScopeNames>,
    /// The documents of these numbers do not match.
    pub(super) ignored: Arc<Ignored>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            max_distance: None,
            min_similarity: None,
            order: Order::Distance,
            limit: 10,
            since: None,
            scopes: None,
            ignored: Arc::default(),
        }
    }
}

impl Filter {
    /// From when on documents match, if not all do.
    pub(super) fn since(&self) -> Result<Option<i64>> {
        self.since.map(UnixSeconds::checked).transpose()
    }

    /// The largest distance that matches, if it and the time are within their bounds.
    pub(super) fn distance(&self, reader: Reader<'_>) -> Result<u32> {
        self.since()?;
        let max_distance = self.max_distance.unwrap_or(reader.settings().max_distance);
        if max_distance > Fingerprint::BITS {
            return Err(Error::MaxDistance {
                given: max_distance,
            });
        }
        Ok(max_distance)
    }

    /// Whether a least similarity or an order by it is asked for, and not only that of the database.
    pub(super) fn asks_for_similarity(&self) -> bool {
        self.min_similarity.is_some_and(|least| least > 0.0) || self.order == Order::Similarity
    }

    /// What the sketch of a match has to be compared with. `None` if it does not matter.
    ///
    /// If nothing is said of similarity, that of the database holds for questions that have a sketch.
    pub(super) fn likeness(
        &self,
        reader: Reader<'_>,
        sketch: Option<&Sketch>,
    ) -> Result<Option<Likeness>> {
        let settings = reader.settings();
        if let Some(given) = self.min_similarity
            && !(0.0..=1.0).contains(&given)
        {
            return Err(Error::MinSimilarity { given });
        }
        let is_asked = self.asks_for_similarity();
        let stored = settings.sketch_size;
        match sketch {
            None if is_asked && stored == SketchSize::None => Err(Error::SketchSizes {
                stored: 0,
                given: 0,
            }),
            None if is_asked => Err(Error::NoSketch),
            None => Ok(None),
            Some(sketch) if sketch.size() == stored => {
                let least = self
                    .min_similarity
                    .or(settings.min_similarity)
                    .unwrap_or(0.0);
                Ok(Some(Likeness {
                    sketch: *sketch,
                    least,
                    order: self.order,
                }))
            }
            Some(_) if stored == SketchSize::None && !is_asked => Ok(None),
            Some(sketch) => Err(Error::SketchSizes {
                stored: stored.bytes(),
                given: sketch.size().bytes(),
            }),
        }
    }
}

/// The order in which matches are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The nearest first: by distance, then by fingerprint, then the last written first.
    #[default]
    Distance,
    /// The most similar first, and those without a sketch last. Equal ones are in the order of distance. The
    /// sketches of all matches are read, however few are listed.
    Similarity,
}

/// What a match is compared with beside its fingerprint.
#[derive(Clone, Copy)]
pub(super) struct Likeness {
    sketch: Sketch,
    least: f64,
    pub(super) order: Order,
}

impl Likeness {
    /// Whether it excludes any document.
    pub(super) fn excludes(&self) -> bool {
        self.least > 0.0
    }

    /// How similar a document is. `None` if that cannot be told.
    pub(super) fn similarity(&self, sketch: Option<&Sketch>) -> Option<Similarity> {
        self.sketch.similarity(sketch?).ok()
    }

    /// Whether a document is similar enough. One without a sketch is not, unless every document is.
    pub(super) fn matches(&self, sketch: Option<&Sketch>) -> bool {
        !self.excludes()
            || self
                .similarity(sketch)
                .is_some_and(|it| it.jaccard() >= self.least)
    }
}
