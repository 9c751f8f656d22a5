//! Query: a question. Matches: its answer.

use std::slice;
use std::sync::Arc;

use super::near::{Failure, Filter, Near, Order, SharedFn};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Similarity, Sketch};

/// A question: which documents are near this fingerprint?
///
/// # Example
///
/// ```
/// use simdb::{Fingerprint, Near, Query};
///
/// let query = Query::new(Fingerprint::from_bits(42)).near(3).limit(10);
/// let query = query.near(Near::within(3).since(1_700_000_000).scopes(["en"]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    fingerprint: Fingerprint,
    sketch: Option<Sketch>,
    pub(crate) filter: Filter,
}

impl Query {
    /// A query for the documents near `fingerprint`, with the defaults of the methods below.
    pub fn new(fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint,
            sketch: None,
            filter: Filter::default(),
        }
    }

    /// A query for the documents like this one, by its fingerprint and its sketch, with the defaults of the
    /// methods below. `None` if the document has no fingerprint: its text is too short to judge.
    pub fn like(document: &Document) -> Option<Self> {
        let query = Self::new(document.fingerprint()?);
        Some(query.with_sketch(document.sketch().copied()))
    }

    /// The same question about another fingerprint, without a sketch.
    ///
    /// The scopes of the query are looked up once for all such questions ([`Near::scopes`]).
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self.sketch = None;
        self
    }

    /// Sets the sketch that those of the matches are compared with. Default: none.
    ///
    /// With a sketch, each match says how similar it is ([`Match::similarity`]), and only documents match that
    /// are similar enough ([`Near::min_similarity`]).
    #[must_use]
    pub fn with_sketch(mut self, sketch: impl Into<Option<Sketch>>) -> Self {
        self.sketch = sketch.into();
        self
    }

    /// Which documents are near. Default: [`Near::new`].
    #[must_use]
    pub fn near(mut self, near: impl Into<Near>) -> Self {
        self.filter.near = near.into();
        self
    }

    /// The order in which matches are listed. Default: the nearest first.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.filter.order = order;
        self
    }

    /// The most matches that are listed, the nearest first. Default: 10.
    ///
    /// The total does not depend on it, except for a query with a time, a least similarity or a function that
    /// verifies ([`Matches::total`]).
    /// `usize::MAX` lists all matches, and takes the memory for them.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// The `n` nearest documents match, however far they are. Default: those within the max distance.
    ///
    /// It sets the [limit](Self::limit) to `n`. The max distance and the least similarity of the database do not hold.
    /// What [`near`](Self::near) names itself holds: a max distance, a least similarity, a time and scopes. So does
    /// [`verify`](Self::verify). Fewer than `n` documents are found only if no more meet these conditions.
    ///
    /// The answer is exact. Of documents at the same distance those are taken that come first in the order of
    /// [`Matches`]. With [`Order::Similarity`] the same documents are listed, the most similar first. As `n` documents
    /// match at most, the [total](Matches::total) is the number of those that are listed.
    ///
    /// # Cost
    ///
    /// The database is searched within a small distance, then within larger ones, each as far as it is expected to cost
    /// no more than twice all searches before, until `n` documents match. All together cost up to about twice the last
    /// one, which costs as much as a query at the distance of the farthest match or somewhat more. So it depends on the
    /// data: in ten million fingerprints at random, the nearest are some 12 bits away. Where it is cheapest to compare
    /// every fingerprint, that is the last search, and only what can still be among the `n` nearest is kept. Conditions
    /// that few documents meet may take the look-up of every fingerprint. Memory grows with `n`. The first such query
    /// of a database also chooses probes for each of the distances, as the first query at any distance does: some
    /// milliseconds for each.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, Near, Query, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// for (key, bits) in [("a", 0xff), ("b", 0xffff_ffff), ("c", u64::MAX)] {
    ///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
    /// }
    /// txn.commit()?;
    /// let query = Query::new(Fingerprint::from_bits(0)).nearest(2);
    /// let snapshot = database.snapshot()?;
    /// let matches = snapshot.query(&query)?;
    /// let distances: Vec<u32> = matches.iter().map(|found| found.distance).collect();
    /// assert_eq!((distances, matches.total()), (vec![8, 32], 2));
    /// // A max distance that is named stays a bound.
    /// assert_eq!(snapshot.query(&query.near(Near::within(10)))?.total(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn nearest(mut self, n: usize) -> Self {
        self.filter.limit = n;
        self.filter.is_nearest = true;
        self
    }

    /// Only documents match for which this function returns true. Default: all.
    ///
    /// It is asked last, of documents that match in everything else, and may compare what simdb does not keep, such
    /// as texts ([`TextMeasure`](crate::TextMeasure)). It may be asked several times of a document, and by several
    /// threads at once, and has to give the same answer each time. If it fails, so does the query, with
    /// [`Error::Verify`](crate::Error::Verify).
    ///
    /// # Cost
    ///
    /// As for [`Near::min_similarity`], and a call for each document that is left. The calls end when
    /// as many match as are counted ([`Matches::total`]).
    ///
    /// # Example
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use simdb::{Fingerprint, Query, TextMeasure};
    ///
    /// let texts = HashMap::from([(b"a".to_vec(), "the text of the stored document"), /* .. */]);
    /// let text = "the text that is asked for";
    /// let query = Query::new(Fingerprint::from_bits(42)).verify(move |stored| {
    ///     let stored = texts.get(stored.key()).ok_or("a text is missing")?;
    ///     Ok(TextMeasure::Words.of(text, stored) >= 0.8)
    /// });
    /// ```
    #[must_use]
    pub fn verify(
        mut self,
        verify: impl Fn(&Document) -> Result<bool, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.filter.verify = Some(SharedFn(Arc::new(
            move |_: Option<&Document>, stored: &Document| verify(stored),
        )));
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
}

/// A document near the fingerprint of a query.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Match, Query};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(0b111)))?;
/// # txn.commit()?;
///
/// let matches = database.snapshot()?.query(&Query::new(Fingerprint::from_bits(0b100)))?;
/// let nearest: &Match = matches.nearest().ok_or("nothing is near")?;
/// assert_eq!(nearest.document.key(), b"page");
/// assert_eq!((nearest.distance, nearest.similarity), (2, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

impl Match {
    /// A match of these parts, for programs that get it from elsewhere.
    pub fn new(document: Document, distance: u32, similarity: Option<Similarity>) -> Self {
        Self {
            document,
            distance,
            similarity,
        }
    }
}

/// The answer to a query: the nearest matches, and the number of all.
///
/// Matches are in the order of distance, then fingerprint, then time of writing, the last first, unless the
/// query has [another order](Query::order).
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Query};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, bits) in [("a", 0b1), ("b", 0b11), ("c", 0b111)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// }
/// txn.commit()?;
/// let query = Query::new(Fingerprint::from_bits(0)).near(3).limit(2);
/// let matches = database.snapshot()?.query(&query)?;
/// assert_eq!((matches.as_slice().len(), matches.total(), matches.total_is_exact()), (2, 3, true));
/// for (found, distance) in matches.iter().zip([1, 2]) {
///     assert_eq!(found.distance, distance);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    pub(super) list: Vec<Match>,
    pub(super) total: u64,
    /// Whether more documents may match than the total says.
    pub(super) more: bool,
}

impl Matches {
    /// An answer of these parts, for programs that get it from elsewhere: the listed matches, the number of all, and
    /// whether that number is exact.
    pub fn new(list: Vec<Match>, total: u64, total_is_exact: bool) -> Self {
        Self {
            total: total.max(list.len() as u64),
            list,
            more: !total_is_exact,
        }
    }

    /// The number of documents that match, listed or not.
    ///
    /// If the query has a time ([`Near::since`]), a least similarity ([`Near::min_similarity`]) or a function that
    /// verifies ([`Query::verify`]), documents are read to count them. Then the total is exact up to the limit, and
    /// with a least similarity or such a function up to 128 if that is more. If more documents match, the total is one
    /// more than that, and [`total_is_exact`](Self::total_is_exact) is false. With [`Order::Similarity`] all are
    /// read, and the total is exact.
    ///
    /// If the nearest were asked for ([`Query::nearest`]), no others match: the total is the number of those listed,
    /// and exact.
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
