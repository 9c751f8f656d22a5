//! Policy: which documents count as near-duplicates of a new one, and what happens then.

use std::sync::Arc;

use super::near::{Failure, Filter, Near, Order, SharedFn};
use super::submissions::call_back;
use crate::document::Document;
use crate::error::{Error, Result};
#[cfg(feature = "ingest")]
use crate::source::Ignored;

/// What [`WriteTxn::insert_if_new`](crate::WriteTxn::insert_if_new) does with a document that has near-duplicates.
///
/// A document without near-duplicates is always stored. `--on-duplicate` of the program takes one of these.
///
/// # Example
///
/// ```
/// use simdb::{Change, Document, Fingerprint, OnMatch, Policy};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// let mut is_stored = Vec::new();
/// for (key, rank) in [("draft", 1), ("article", 3), ("copy", 2)] {
///     let document = Document::new(key, Fingerprint::from_bits(7)).with_rank([rank]);
///     let verdict = txn.insert_if_new(&document, &Policy::new(OnMatch::Replace))?;
///     is_stored.push(*verdict.change() == Change::Inserted);
/// }
/// txn.commit()?;
/// assert_eq!(is_stored, [true, true, false]);
/// assert!(database.snapshot()?.get("draft")?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum OnMatch {
    /// Store it and report its near-duplicates.
    #[default]
    Link,
    /// Do not store it.
    ///
    /// Nothing is changed, unless the policy [touches](Policy::touch) the nearest match. A stored document of the same
    /// key stays too.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub(crate) on_match: OnMatch,
    pub(crate) touch: bool,
    /// The number of near documents from which on a new one has to give way.
    pub(crate) keep: usize,
    /// Whether the new documents were given before, and counted then. So they add nothing to the repeats of others.
    pub(crate) counted_before: bool,
    pub(crate) filter: Filter,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_match: OnMatch::default(),
            touch: false,
            keep: 1,
            counted_before: false,
            filter: Filter::default(),
        }
    }
}

impl Policy {
    /// The number of matches that a search has to find.
    pub(super) fn most_listed(&self) -> usize {
        let least = match self.on_match {
            OnMatch::Link => 0,
            // So many have to be found, whatever is listed, to know whether there are fewer.
            OnMatch::Skip => self.keep,
            // A document is compared with all matches, not only with the listed ones.
            OnMatch::Replace => usize::MAX,
        };
        self.filter.limit.max(least)
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.keep {
            0 => Err(Error::KeepNone),
            _ => Ok(()),
        }
    }

    /// The policy for a thread that others wait for: a panic of its function is an error. The hook of the process has
    /// printed it.
    pub(super) fn catching_panics(mut self) -> Self {
        if let Some(verify) = self.filter.verify.take() {
            self = self.verify(move |new, stored| {
                let verified = call_back(|| verify(Some(new), stored));
                verified.unwrap_or_else(|| Err("the function panicked".into()))
            });
        }
        self
    }

    /// Whether a document that is not stored is counted in its nearest match.
    #[cfg(feature = "ingest")]
    pub(crate) fn counts(&self) -> bool {
        self.touch && self.on_match != OnMatch::Link
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
    ///
    /// A document that is skipped leaves no trace. With [`touch`](Self::touch) it is counted.
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
    /// Its total does not depend on it, except for some policies with a time, a least similarity or a function that
    /// verifies: see [`Matches::total`](crate::Matches::total).
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// Only stored documents match for which this function returns true. It is given the new document first, then the
    /// stored one. Default: all.
    ///
    /// See [`Query::verify`](crate::Query::verify). It is asked before the commit, also of documents that the same
    /// transaction has stored, and perhaps of some that it removes before the turn of the new one. It must not write to
    /// the database. If it fails, the new document gets the error and is not stored, and nothing is changed.
    /// [`insert_batch_if_new`](crate::WriteTxn::insert_batch_if_new) ends there. With
    /// [`insert_each_if_new`](crate::WriteTxn::insert_each_if_new) and a [`Writer`](crate::Writer), other documents
    /// go on. In a writer, whose thread many wait for, a panic of the function is such a failure.
    #[must_use]
    pub fn verify(
        mut self,
        verify: impl Fn(&Document, &Document) -> Result<bool, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.filter.verify = Some(SharedFn(Arc::new(
            move |new: Option<&Document>, stored: &Document| match new {
                Some(new) => verify(new, stored),
                None => Ok(true),
            },
        )));
        self
    }

    /// If a document is skipped, its nearest match counts as seen once more, and at the time of the document, if that
    /// is later. Default: no.
    ///
    /// So a page that is met again and again stays in a window of time, and its near-duplicates are found as
    /// long as they come. [`Document::repeats`] of the match tells how often that was: the document adds one, and what
    /// it has been counted itself. With [`OnMatch::Replace`], a document that is stored takes over the counts of those
    /// that are deleted for it, and one for each. See [`WriteTxn::touch`](crate::WriteTxn::touch). The verdict has the
    /// match as it was before.
    #[must_use]
    pub fn touch(mut self, touch: bool) -> Self {
        self.touch = touch;
        self
    }

    /// How many documents of a group are stored: a new one is stored if fewer than this number of stored documents are
    /// near to it. At least 1. Default: 1.
    ///
    /// * With [`OnMatch::Skip`], a document to which so many are near is not stored.
    /// * With [`OnMatch::Replace`], it is stored if it outranks so many of them that this number is left with it. These
    ///   are deleted, the ones of the least rank first. Of equal ones, the farthest goes first, and of equally far ones
    ///   the one that is listed last.
    /// * [`OnMatch::Link`] stores every document, whatever this says.
    ///
    /// What is near is said of each document for itself. So of a group in which not all are near to each other, more
    /// documents may be stored. With a time, a least similarity or a function that verifies, up to this number of
    /// near documents are read for each new one.
    ///
    /// # Errors
    ///
    /// 0 is refused by [`Error::KeepNone`], when a document is inserted.
    #[must_use]
    pub fn keep(mut self, most: usize) -> Self {
        self.keep = most;
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
