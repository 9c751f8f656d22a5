//! Query: a question. Matches: its answer.

use std::slice;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub(super) fingerprint: Fingerprint,
    pub(super) filter: Filter,
}

/// Which documents match, apart from the fingerprint, and the most that are listed. Queries and policies
/// have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) max_distance: Option<u32>,
    pub(super) limit: usize,
    pub(super) since: Option<i64>,
    pub(super) scopes: Option<ScopeNames>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { max_distance: None, limit: 10, since: None, scopes: None }
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
}

impl Query {
    /// A query for the documents near `fingerprint`, with the defaults of the methods below.
    pub fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, filter: Filter::default() }
    }

    /// The same question about another fingerprint.
    ///
    /// The scopes of the query are looked up once for all such questions ([`scopes`](Self::scopes)).
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
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
    /// The total does not depend on it, except for a query with a time ([`Matches::total`]).
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
}

/// The answer to a query: the nearest matches, and the number of all.
///
/// Matches are in the order of distance, then fingerprint, then time of writing, the last first.
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
    /// If the query has a time ([`Query::since`]) and more documents match than its limit, the total is
    /// the limit plus one. Then [`total_is_exact`](Self::total_is_exact) is false.
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
