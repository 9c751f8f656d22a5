//! Clustering: which documents are put together, and which of them survives.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::database::pairs::Question;
use crate::document::Document;
use crate::store::{DocumentNumber, Reader, ScopeNames};
use crate::unix_seconds::UnixSeconds;

/// How near-duplicates are put together, and which of each cluster survives.
///
/// # Example
///
/// ```
/// use simdb::{Clustering, Survivor};
///
/// let clustering = Clustering::new().max_distance(3).survivor([Survivor::Rank, Survivor::ShortestKey]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clustering {
    max_distance: Option<u32>,
    min_similarity: Option<f64>,
    since: Option<UnixSeconds>,
    scopes: Option<ScopeNames>,
    survivor: Option<Vec<Survivor>>,
    connected: bool,
}

/// By what one document is better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Survivor {
    /// The greater rank, as in [`OnMatch::Replace`](crate::OnMatch::Replace).
    Rank,
    /// Seen earlier.
    Earliest,
    /// Seen later.
    Latest,
    /// More distinct sequences of words, as the sketch counts them. Without sketches, the longer payload.
    Longest,
    /// The shorter key.
    ShortestKey,
}

impl Clustering {
    /// Clusters of all documents, with the defaults of the methods below.
    pub fn new() -> Self {
        Self::default()
    }

    /// The distance, inclusive, at which documents are near. Default: that of the database.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.max_distance = Some(max_distance);
        self
    }

    /// The least similarity of near documents, 0 to 1. Default: that of the database. Of a document without a sketch
    /// nothing is near, unless the least similarity is 0.
    #[must_use]
    pub fn min_similarity(mut self, min_similarity: f64) -> Self {
        self.min_similarity = Some(min_similarity);
        self
    }

    /// Only documents seen at this time (Unix seconds or a [`SystemTime`](std::time::SystemTime)) or later. Default:
    /// all.
    #[must_use]
    pub fn since(mut self, since: impl Into<UnixSeconds>) -> Self {
        self.since = Some(since.into());
        self
    }

    /// Only documents of these scopes. Default: of all.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = Some(ScopeNames::new(scopes));
        self
    }

    /// By what the best document of a cluster is found, which survives: by the first of these, of equal ones by the
    /// second, and so on. Of documents that are equal in all, the one survives that was written first. Default: by the
    /// rank.
    #[must_use]
    pub fn survivor(mut self, order: impl IntoIterator<Item = Survivor>) -> Self {
        self.survivor = Some(order.into_iter().collect());
        self
    }

    /// Whether documents are in one cluster that are connected by a chain of near documents. Default: false; then all
    /// documents of a cluster are near to the one that survives.
    ///
    /// The ends of a long chain may have nothing in common.
    #[must_use]
    pub fn connected(mut self, connected: bool) -> Self {
        self.connected = connected;
        self
    }

    /// The distance that was given.
    #[cfg(feature = "ingest")]
    pub(crate) fn wanted_distance(&self) -> Option<u32> {
        self.max_distance
    }

    /// The fields of records on which nothing depends.
    #[cfg(feature = "ingest")]
    pub(crate) fn fields_not_needed(&self) -> Vec<&'static str> {
        let mut fields = vec!["group"];
        if self.since.is_none()
            && !self.looks_at(Survivor::Earliest)
            && !self.looks_at(Survivor::Latest)
        {
            fields.extend(["seen", "time"]);
        }
        if !self.looks_at(Survivor::Rank) {
            fields.push("rank");
        }
        if self.scopes.is_none() {
            fields.push("scope");
        }
        if !self.looks_at(Survivor::Longest) {
            fields.extend(["payload", "payload_base64"]);
        }
        fields
    }

    /// Whether the caller has not said which document survives.
    #[cfg(feature = "ingest")]
    pub(crate) fn is_by_default(&self) -> bool {
        self.survivor.is_none()
    }

    /// Whether this decides, among others, which document survives.
    #[cfg(feature = "ingest")]
    fn looks_at(&self, survivor: Survivor) -> bool {
        self.order().contains(&survivor)
    }

    fn order(&self) -> &[Survivor] {
        self.survivor.as_deref().unwrap_or(&[Survivor::Rank])
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// The search for the pairs of near documents.
    pub(super) fn question(&self, reader: Reader<'_>) -> Question {
        let settings = reader.settings();
        let least = self
            .min_similarity
            .or(settings.min_similarity)
            .filter(|&least| least != 0.0);
        Question {
            min_similarity: least,
            since: self.since,
            scopes: self.scopes.clone(),
            ..Question::new(self.max_distance.unwrap_or(settings.max_distance))
        }
    }

    /// Whether a document counts.
    pub(super) fn counts(&self, document: &Document) -> bool {
        self.since
            .is_none_or(|since| document.seen() >= since.unchecked())
            && self
                .scopes
                .as_ref()
                .is_none_or(|scopes| scopes.has(document.scope()))
    }

    /// What a document is worth beside others.
    pub(super) fn worth(&self, number: DocumentNumber, document: &Document) -> Worth {
        let order = self.order();
        let part = |by: &Survivor| match by {
            Survivor::Rank => Part::Rank(document.rank().into()),
            // The complement turns the order round, and has no overflow.
            Survivor::Earliest => Part::Number(!document.seen()),
            Survivor::Latest => Part::Number(document.seen()),
            Survivor::Longest => Part::Number(match document.sketch() {
                Some(sketch) => sketch.shingles().into(),
                None => document.payload().len() as i64,
            }),
            Survivor::ShortestKey => Part::Number(!(document.key().len() as i64)),
        };
        Worth {
            parts: order.iter().map(part).collect(),
            number,
        }
    }
}

/// What a document is worth. The greatest survives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Worth {
    parts: SmallVec<[Part; 1]>,
    number: DocumentNumber,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Rank(Box<[i64]>),
    Number(i64),
}

impl Worth {
    pub(super) fn number(&self) -> DocumentNumber {
        self.number
    }
}

impl Ord for Worth {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equal ones the one that was written first.
        self.parts
            .cmp(&other.parts)
            .then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
