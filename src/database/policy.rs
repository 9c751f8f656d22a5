//! Policy: which documents count as near-duplicates of a new one, and what happens then.

use std::sync::Arc;

use super::near::{Failure, Filter, Near, Order, Verify};
use crate::document::Document;
#[cfg(feature = "ingest")]
use crate::source::Ignored;

/// What [`WriteTxn::insert_if_new`](crate::WriteTxn::insert_if_new) does with a document that has near-duplicates.
///
/// A document without near-duplicates is always stored. `--on-duplicate` of the program takes one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum OnMatch {
    /// Store it and report its near-duplicates.
    #[default]
    Link,
    /// Do not store it.
    ///
    /// Nothing is changed. A stored document of the same key stays too.
    Skip,
    /// Store it and delete its near-duplicates if its rank is above theirs, otherwise do not store it.
    ///
    /// So the better document survives.
    /// If the document outranks every match, it is stored and the matches are deleted. Otherwise, ties
    /// included, nothing is changed. [`Document::with_rank`](crate::Document::with_rank) says which document
    /// is better.
    Replace,
}

/// Which documents count as near-duplicates of a new document, and what happens if there are any.
///
/// # Example
///
/// ```
/// use simdb::{Near, Policy};
///
/// let two_days_ago = 1_700_000_000 - 2 * 86_400;
/// let policy = Policy::skip().near(Near::within(2).since(two_days_ago));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub(crate) on_match: OnMatch,
    pub(crate) touch: bool,
    pub(crate) filter: Filter,
}

impl Policy {
    /// The number of matches that a search has to find.
    pub(super) fn most_listed(&self) -> usize {
        // With this policy a document has to outrank every match, not only the listed ones.
        let least = usize::from(self.touch);
        if self.on_match == OnMatch::Replace {
            usize::MAX
        } else {
            self.filter.limit.max(least)
        }
    }

    /// Whether a least similarity or an order by it is asked for. So every document needs a sketch.
    #[cfg(feature = "ingest")]
    pub(crate) fn needs_sketches(&self) -> bool {
        self.filter.asks_for_similarity()
    }

    /// A policy that acts on matches as `on_match` says, with the defaults of the methods below.
    pub fn new(on_match: OnMatch) -> Self {
        Self {
            on_match,
            ..Self::default()
        }
    }

    /// Stores every document and reports its matches: [`OnMatch::Link`]. This is the default.
    pub fn link() -> Self {
        Self::new(OnMatch::Link)
    }

    /// Stores only documents without a match: [`OnMatch::Skip`].
    pub fn skip() -> Self {
        Self::new(OnMatch::Skip)
    }

    /// Lets the better document survive: [`OnMatch::Replace`].
    pub fn replace() -> Self {
        Self::new(OnMatch::Replace)
    }

    /// Which stored documents are near to a new one. Default: [`Near::new`].
    #[must_use]
    pub fn near(mut self, near: impl Into<Near>) -> Self {
        self.filter.near = near.into();
        self
    }

    /// The order in which the verdict lists matches. Default: the nearest first.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.filter.order = order;
        self
    }

    /// The most matches that the verdict lists, the nearest first. Default: 10.
    ///
    /// Its total does not depend on it, except for a policy with a time, a least similarity or a function that
    /// verifies ([`Matches::total`](crate::Matches::total)).
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// Only stored documents match of which this function says so. It is given the new document first, then the
    /// stored one. Default: all.
    ///
    /// See [`Query::verify`](crate::Query::verify). It is asked before the commit, also of documents that the same
    /// transaction has stored, and perhaps of some that it removes before the turn of the new one. It must not write to
    /// the database. If it fails, the new document gets the error and is not stored, and nothing is changed.
    /// [`insert_batch_if_new`](crate::WriteTxn::insert_batch_if_new) ends there. With
    /// [`insert_each_if_new`](crate::WriteTxn::insert_each_if_new) and a [`Writer`](crate::Writer), other documents
    /// go on.
    #[must_use]
    pub fn verify(
        mut self,
        verify: impl Fn(&Document, &Document) -> Result<bool, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.filter.verify = Some(Verify::Pair(Arc::new(verify)));
        self
    }

    /// If a document is skipped, its nearest match counts as seen at the time of the document, if that is
    /// later. Default: no.
    ///
    /// So a page that is met again and again stays in a window of time, and its near-duplicates are found as
    /// long as they come. See [`WriteTxn::touch`](crate::WriteTxn::touch). The verdict has the match as it was
    /// before.
    #[must_use]
    pub fn touch(mut self, touch: bool) -> Self {
        self.touch = touch;
        self
    }

    /// The stored documents of these numbers do not match. If a document of the same key is among them, and the new
    /// document is not stored, the old one gets a number of its own, and counts from then on, unless a later record has
    /// stored it.
    ///
    /// So a source can be read again as if what was stored by the first reading were not there yet.
    #[cfg(feature = "ingest")]
    pub(crate) fn ignoring(mut self, ignored: Arc<Ignored>) -> Self {
        self.filter.ignored = ignored;
        self
    }
}
