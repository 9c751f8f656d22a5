//! Near: which stored documents are near, said once for queries, policies, pairs and clusters; and the filter that
//! queries and policies make of it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Similarity, Sketch, SketchSize};
use crate::source::Ignored;
use crate::store::{KnownSketches, ScopeNames, Settings};
use crate::unix_seconds::UnixSeconds;

/// Which documents are near: in how many bits fingerprints may differ, how similar the documents have to be, since when
/// they were seen, and of which scopes they are.
///
/// [`Query::near`](crate::Query::near), [`Policy::near`](crate::Policy::near),
/// [`Clustering::near`](crate::Clustering::near) and [`Snapshot::pairs`](crate::Snapshot::pairs) take one. A number
/// stands for a max distance: `.near(3)`.
///
/// # Example
///
/// ```
/// use simdb::{Fingerprint, Near, Policy, Query};
///
/// let query = Query::new(Fingerprint::from_bits(42)).near(3);
/// let of_two_days = Near::within(8).min_similarity(0.7).since(1_700_000_000).scopes(["en"]);
/// let query = query.near(of_two_days.clone());
/// let policy = Policy::skip().near(of_two_days);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Near {
    pub(crate) max_distance: Option<u32>,
    pub(crate) min_similarity: Option<f64>,
    pub(crate) since: Option<UnixSeconds>,
    pub(crate) scopes: Option<ScopeNames>,
}

/// The bounds of what is near in one database, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearBounds {
    pub(super) max_distance: u32,
    /// `None` if the distance alone decides.
    pub(super) min_similarity: Option<f64>,
    /// From when on documents match, if not all do.
    pub(super) since: Option<i64>,
}

impl Near {
    /// As near as the database says, of any time and scope: the defaults of the methods below.
    pub fn new() -> Self {
        Self::default()
    }

    /// Documents whose fingerprints differ in at most `max_distance` bits, with the defaults of the methods below.
    pub fn within(max_distance: u32) -> Self {
        Self::new().max_distance(max_distance)
    }

    /// The largest distance that matches: inclusive, 0 to 64. Default: the max distance of the database.
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.max_distance = Some(max_distance);
        self
    }

    /// The least similarity that matches: inclusive, 0 to 1, as [`Similarity::jaccard`](crate::Similarity::jaccard)
    /// estimates it. Default: that of the database, for what has a sketch. 0 takes every document within the max
    /// distance.
    ///
    /// Above 0, a document without a sketch is near to nothing. A query, and a new document that has a fingerprint,
    /// need a sketch too. Within the max distance, no document that is similar enough is missed.
    ///
    /// # Cost
    ///
    /// For each document within the max distance, its record is read: a fraction of a microsecond if its block is in
    /// memory.
    pub fn min_similarity(mut self, min_similarity: f64) -> Self {
        self.min_similarity = Some(min_similarity);
        self
    }

    /// Only documents seen at this time (Unix seconds or a [`SystemTime`](std::time::SystemTime)) or later. Default:
    /// all.
    pub fn since(mut self, seen: impl Into<UnixSeconds>) -> Self {
        self.since = Some(seen.into());
        self
    }

    /// Only documents of one of these scopes. Default: all.
    ///
    /// The empty text is the scope of documents that have none. A scope that no document has matches nothing.
    ///
    /// What a database knows of the names stays with this value and its clones. So if many scopes are named, the next
    /// question costs less.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = Some(ScopeNames::new(scopes));
        self
    }

    /// The bounds with the defaults of a database. Refuses those that are none.
    pub(super) fn checked(&self, settings: &Settings) -> Result<NearBounds> {
        let least = settings.min_similarity.unwrap_or(0.0);
        self.checked_or(settings.max_distance, least)
    }

    /// The bounds, with these for those that are not named. Refuses those that are none.
    fn checked_or(&self, max_distance: u32, min_similarity: f64) -> Result<NearBounds> {
        let max_distance = self.max_distance.unwrap_or(max_distance);
        let min_similarity = self.min_similarity.unwrap_or(min_similarity);
        let bounds = NearBounds::new(max_distance, min_similarity)?;
        let since = self.since.map(UnixSeconds::checked).transpose()?;
        Ok(NearBounds { since, ..bounds })
    }

    /// Whether a document is of one of the scopes and seen late enough.
    pub(super) fn counts(&self, document: &Document) -> bool {
        if let Some(since) = self.since
            && document.seen() < since.unchecked()
        {
            return false;
        }
        match &self.scopes {
            Some(scopes) => scopes.has(document.scope()),
            None => true,
        }
    }
}

impl NearBounds {
    /// The bounds for documents of any time. Refuses a distance or a similarity that cannot be.
    pub(super) fn new(max_distance: u32, min_similarity: f64) -> Result<Self> {
        if max_distance > Fingerprint::BITS {
            return Err(Error::MaxDistance {
                given: max_distance,
            });
        }
        if !(0.0..=1.0).contains(&min_similarity) {
            return Err(Error::MinSimilarity {
                given: min_similarity,
            });
        }
        Ok(Self {
            max_distance,
            min_similarity: (min_similarity > 0.0).then_some(min_similarity),
            since: None,
        })
    }
}

/// Within this max distance.
impl From<u32> for Near {
    fn from(max_distance: u32) -> Self {
        Self::within(max_distance)
    }
}

/// Why a function of the caller could not tell.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Whether a new document, if there is one, matches a stored one: a function of the caller that looks last at a match.
pub(crate) type Verify =
    SharedFn<dyn Fn(Option<&Document>, &Document) -> Result<bool, Failure> + Send + Sync>;

/// A function of the caller. Clones share it, and it equals only these.
pub(crate) struct SharedFn<F: ?Sized>(pub(crate) Arc<F>);

impl<F: ?Sized> Deref for SharedFn<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F: ?Sized> Clone for SharedFn<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: ?Sized> PartialEq for SharedFn<F> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<F: ?Sized> Eq for SharedFn<F> {}

impl<F: ?Sized> fmt::Debug for SharedFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// Which documents match, apart from the fingerprint, and the most that are listed. Queries and policies
/// have one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    pub(crate) near: Near,
    pub(crate) order: Order,
    pub(crate) limit: usize,
    /// Whether as many documents match as the limit says, and these are the nearest. Never for a policy.
    pub(crate) is_nearest: bool,
    pub(crate) verify: Option<Verify>,
    /// The documents of these numbers do not match.
    pub(crate) ignored: Arc<Ignored>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            near: Near::new(),
            order: Order::Distance,
            limit: 10,
            is_nearest: false,
            verify: None,
            ignored: Arc::default(),
        }
    }
}

impl Filter {
    /// Whether a least similarity or an order by it is asked for, and not only that of the database.
    pub(super) fn asks_for_similarity(&self) -> bool {
        let least = self.near.min_similarity.unwrap_or(0.0);
        least > 0.0 || self.order == Order::Similarity
    }

    /// The bounds of what is near, checked. Those of the database hold unless the nearest are wanted, however far they
    /// are.
    pub(super) fn checked(&self, settings: &Settings) -> Result<NearBounds> {
        match self.is_nearest {
            true => self.near.checked_or(Fingerprint::BITS, 0.0),
            false => self.near.checked(settings),
        }
    }

    /// The bounds of what is near to a document, if they and its sketch fit.
    pub(super) fn bounds(&self, document: &Document, settings: &Settings) -> Result<NearBounds> {
        let bounds = self.checked(settings)?;
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
                least: bounds.min_similarity.unwrap_or(0.0),
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
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Order, Query, Sketch, SketchSize};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External).sketch_size(SketchSize::Bytes16);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let sketch = Sketch::new(&[0; 16], 100)?;
/// let other_sketch = Sketch::new(&[0b11; 16], 100)?;
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("near", Fingerprint::from_bits(0b1)).with_sketch(other_sketch))?;
/// txn.insert(&Document::new("similar", Fingerprint::from_bits(0b11)).with_sketch(sketch))?;
/// txn.commit()?;
/// let query = Query::new(Fingerprint::from_bits(0)).with_sketch(sketch).near(3);
/// let most_similar = query.clone().order(Order::Similarity);
/// let snapshot = database.snapshot()?;
/// assert_eq!(snapshot.query(&query)?.as_slice()[0].document.key(), b"near");
/// assert_eq!(snapshot.query(&most_similar)?.as_slice()[0].document.key(), b"similar");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

    /// Whether a document of a fingerprint may be similar enough, as far as its sketches are known.
    pub(super) fn may_match(&self, known: &KnownSketches, fingerprint: Fingerprint) -> bool {
        !self.excludes() || known.may_have(fingerprint, |sketch| self.matches(Some(sketch)))
    }

    /// Whether a document is similar enough. One without a sketch is not, unless every document is.
    pub(super) fn matches(&self, sketch: Option<&Sketch>) -> bool {
        if !self.excludes() {
            return true;
        }
        match self.similarity(sketch) {
            Some(similarity) => similarity.jaccard() >= self.least,
            None => false,
        }
    }
}
