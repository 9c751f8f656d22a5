//! Query: a question. Matches: its answer.

use std::slice;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Similarity, Sketch, SketchSize};
use crate::store::{Read, ScopeNames};

/// A question: which documents are near this fingerprint?
///
/// # Example
///
/// ```
/// use simdb::{Fingerprint, Query};
///
/// let query = Query::new(Fingerprint::from_bits(42)).max_distance(3).limit(10);
/// let query = query.since(1_700_000_000).scopes(["en"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(super) fingerprint: Fingerprint,
    pub(super) sketch: Option<Sketch>,
    pub(super) filter: Filter,
}

/// Which documents match, apart from the fingerprint, and the most that are listed. Queries and policies
/// have one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) max_distance: Option<u32>,
    pub(super) min_similarity: Option<f64>,
    pub(super) order: Order,
    pub(super) limit: usize,
    pub(super) since: Option<i64>,
    pub(super) scopes: Option<ScopeNames>,
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
        }
    }
}

impl Filter {
    /// The largest distance that matches.
    pub(super) fn distance(&self, reader: &impl Read) -> Result<u32> {
        let max_distance = self.max_distance.unwrap_or(reader.settings().max_distance);
        if max_distance > Fingerprint::BITS {
            return Err(Error::MaxDistance { given: max_distance });
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
    pub(super) fn likeness(&self, reader: &impl Read, sketch: Option<&Sketch>) -> Result<Option<Likeness>> {
        let settings = reader.settings();
        if let Some(given) = self.min_similarity
            && !(0.0..=1.0).contains(&given)
        {
            return Err(Error::MinSimilarity { given });
        }
        let is_asked = self.asks_for_similarity();
        let stored = settings.sketch_size;
        match sketch {
            None if is_asked && stored == SketchSize::None => Err(Error::SketchSizes { stored: 0, given: 0 }),
            None if is_asked => Err(Error::NoSketch),
            None => Ok(None),
            Some(sketch) if sketch.size() == stored => {
                let least = self.min_similarity.or(settings.min_similarity).unwrap_or(0.0);
                Ok(Some(Likeness { sketch: *sketch, least, order: self.order }))
            }
            Some(_) if stored == SketchSize::None && !is_asked => Ok(None),
            Some(sketch) => Err(Error::SketchSizes { stored: stored.bytes(), given: sketch.size().bytes() }),
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
        !self.excludes() || self.similarity(sketch).is_some_and(|it| it.jaccard() >= self.least)
    }
}

impl Query {
    /// A query for the documents near `fingerprint`, with the defaults of the methods below.
    pub fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, sketch: None, filter: Filter::default() }
    }

    /// A query for the documents like this one, by its fingerprint and its sketch, with the defaults of the
    /// methods below. `None` if the document has no fingerprint: its text is too short to judge.
    pub fn like(document: &Document) -> Option<Self> {
        document
            .fingerprint()
            .map(|fingerprint| Self::new(fingerprint).with_sketch(document.sketch().copied()))
    }

    /// The same question about another fingerprint, without a sketch.
    ///
    /// The scopes of the query are looked up once for all such questions ([`scopes`](Self::scopes)).
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self.sketch = None;
        self
    }

    /// Sets the sketch that those of the matches are compared with. Default: none.
    ///
    /// With a sketch, each match says how similar it is ([`Match::similarity`]), and only documents match that
    /// are similar enough ([`min_similarity`](Self::min_similarity)).
    #[must_use]
    pub fn with_sketch(mut self, sketch: impl Into<Option<Sketch>>) -> Self {
        self.sketch = sketch.into();
        self
    }

    /// The least similarity that matches: inclusive, 0 to 1, as [`Similarity::jaccard`] estimates it. Default:
    /// that of the database, if the query has a sketch. 0 takes every document within the max distance.
    ///
    /// A document without a sketch matches only at 0. Within the max distance, no document that is similar
    /// enough is missed.
    ///
    /// # Cost
    ///
    /// For each document within the max distance, its record is read: a fraction of a microsecond if its block
    /// is in memory.
    #[must_use]
    pub fn min_similarity(mut self, min_similarity: f64) -> Self {
        self.filter.min_similarity = Some(min_similarity);
        self
    }

    /// The order in which matches are listed. Default: the nearest first.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.filter.order = order;
        self
    }

    /// The largest distance that matches: inclusive, 0 to 64. Default: the max distance of the database.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.filter.max_distance = Some(max_distance);
        self
    }

    /// The most matches that are listed, the nearest first. Default: 10.
    ///
    /// The total does not depend on it, except for a query with a time or a least similarity
    /// ([`Matches::total`]).
    /// `usize::MAX` lists all matches, and takes the memory for them.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// Only documents seen at this time (Unix seconds) or later match. Default: all.
    #[must_use]
    pub fn since(mut self, seen: i64) -> Self {
        self.filter.since = Some(seen);
        self
    }

    /// Only documents of one of these scopes match. Default: all.
    ///
    /// The empty text is the scope of documents that have none. A scope that no document has matches
    /// nothing.
    ///
    /// What a database knows of the names stays with the query and its clones. So if many scopes are named, the
    /// next question costs less ([`with_fingerprint`](Self::with_fingerprint)).
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.filter.scopes = Some(ScopeNames::new(scopes));
        self
    }

    /// The sketch of the query, if it has one.
    pub fn sketch(&self) -> Option<&Sketch> {
        self.sketch.as_ref()
    }

    /// The fingerprint of the query.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) fn distance_or(&self, of_the_database: u32) -> u32 {
        self.filter.max_distance.unwrap_or(of_the_database)
    }
}

/// A document near the fingerprint of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// The document.
    pub document: Document,
    /// The number of bits in which its fingerprint differs from that of the query.
    pub distance: u32,
    /// How similar it is. `None` if the query or the document has no sketch.
    pub similarity: Option<Similarity>,
}

/// The answer to a query: the nearest matches, and the number of all.
///
/// Matches are in the order of distance, then fingerprint, then time of writing, the last first, unless the
/// query has [another order](Query::order).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    pub(super) list: Vec<Match>,
    pub(super) total: u64,
    /// Whether more documents may match than the total says.
    pub(super) more: bool,
}

impl Matches {
    /// The number of documents that match, listed or not.
    ///
    /// If the query has a time ([`Query::since`]) or a least similarity ([`Query::min_similarity`]), documents
    /// are read to count them. Then the total is exact up to the limit, and with a least similarity up to 128 if
    /// that is more. If more documents match, the total is one more than that, and
    /// [`total_is_exact`](Self::total_is_exact) is false.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether exactly [`total`](Self::total) documents match. Otherwise at least that number match.
    pub fn total_is_exact(&self) -> bool {
        !self.more
    }

    /// The nearest match, or `None` if no match is listed.
    pub fn nearest(&self) -> Option<&Match> {
        self.list.first()
    }

    /// The listed matches, the nearest first.
    pub fn as_slice(&self) -> &[Match] {
        &self.list
    }

    /// Goes through the listed matches, the nearest first.
    pub fn iter(&self) -> slice::Iter<'_, Match> {
        self.list.iter()
    }
}

impl IntoIterator for Matches {
    type Item = Match;
    type IntoIter = std::vec::IntoIter<Match>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Matches {
    type Item = &'a Match;
    type IntoIter = slice::Iter<'a, Match>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
