//! Filter: which documents match beside the fingerprint, as queries and policies say it.

use std::sync::Arc;

use super::near::{Near, NearBounds};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::sketch::{Similarity, Sketch, SketchSize};
use crate::source::Ignored;
use crate::store::Settings;

/// Which documents match, apart from the fingerprint, and the most that are listed. Queries and policies
/// have one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) near: Near,
    pub(super) order: Order,
    pub(super) limit: usize,
    /// The documents of these numbers do not match.
    pub(super) ignored: Arc<Ignored>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            near: Near::new(),
            order: Order::Distance,
            limit: 10,
            ignored: Arc::default(),
        }
    }
}

impl Filter {
    /// Whether a least similarity or an order by it is asked for, and not only that of the database.
    pub(super) fn asks_for_similarity(&self) -> bool {
        self.near.min_similarity.is_some_and(|least| least > 0.0) || self.order == Order::Similarity
    }

    /// The bounds of what is near to a document, if they and its sketch fit.
    pub(super) fn bounds(&self, document: &Document, settings: &Settings) -> Result<NearBounds> {
        let bounds = self.near.checked(settings)?;
        // Without a fingerprint there is nothing to compare.
        if document.fingerprint().is_some() {
            self.sketch_filter(&bounds, settings, document.sketch())?;
        }
        Ok(bounds)
    }

    /// The filter by the sketches of documents. `None` if they do not matter.
    ///
    /// If nothing is said of similarity, that of the database holds for questions that have a sketch.
    pub(super) fn sketch_filter(
        &self,
        bounds: &NearBounds,
        settings: &Settings,
        sketch: Option<&Sketch>,
    ) -> Result<Option<SketchFilter>> {
        let is_asked = self.asks_for_similarity();
        let stored = settings.sketch_size;
        match sketch {
            None if is_asked && stored == SketchSize::None => Err(Error::SketchSizes {
                stored: 0,
                given: 0,
            }),
            None if is_asked => Err(Error::NoSketch),
            None => Ok(None),
            Some(sketch) if sketch.size() == stored => Ok(Some(SketchFilter {
                sketch: *sketch,
                least: bounds.min_similarity,
                order: self.order,
            })),
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
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Order {
    /// The nearest first.
    ///
    /// They are ordered by distance, then by fingerprint, then the last written comes first.
    #[default]
    Distance,
    /// The most similar first.
    ///
    /// Those without a sketch come last. Equal ones are in the order of distance. The
    /// sketches of all matches are read, however few are listed.
    Similarity,
}

/// The sketch that those of documents are compared with.
#[derive(Clone, Copy)]
pub(super) struct SketchFilter {
    sketch: Sketch,
    least: f64,
    pub(super) order: Order,
}

impl SketchFilter {
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
