//! Clustering: which documents are put together, and which of them survives.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::database::near::Near;
#[cfg(feature = "ingest")]
use crate::database::options::CreateOptions;
use crate::database::pairs::PairQuery;
use crate::document::Document;
use crate::error::Result;
#[cfg(feature = "ingest")]
use crate::store::ScopeNames;
use crate::store::{DocumentNumber, Reader};
#[cfg(feature = "ingest")]
use crate::unix_seconds::UnixSeconds;

/// How near-duplicates are put together, and which of each cluster survives.
///
/// # Example
///
/// ```
/// use simdb::{Clustering, Survivor};
///
/// let clustering = Clustering::new().near(3).survivor([Survivor::Rank, Survivor::ShortestKey]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clustering {
    near: Near,
    survivor: Option<Vec<Survivor>>,
    connected: bool,
    /// Tells the length of the key that a record has, from that of its document, where these are not the same.
    #[cfg(feature = "ingest")]
    length_of_key: Option<LengthOfKey>,
}

/// Tells the length of the key of a record from the key of its document. `None` if it has none.
#[cfg(feature = "ingest")]
type LengthOfKey = fn(&[u8]) -> Option<u32>;

/// What makes one document of a cluster better than another, so that it survives.
///
/// # Example
///
/// ```
/// use simdb::{Clustering, Document, Fingerprint, Survivor};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, seen) in [("a.example/?from=news", 100), ("a.example", 300), ("b.example", 200)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(7)).with_seen(seen))?;
/// }
/// txn.commit()?;
/// // Two keys are equally short. Of these documents, the one survives that was seen first.
/// let clustering = Clustering::new().survivor([Survivor::ShortestKey, Survivor::Earliest]);
/// assert_eq!(database.delete_duplicates(&clustering)?, 2);
/// assert!(database.snapshot()?.get("b.example")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Survivor {
    /// The greater rank.
    ///
    /// It is compared as by [`OnMatch::Replace`](crate::OnMatch::Replace).
    Rank,
    /// Seen earlier.
    Earliest,
    /// Seen later.
    Latest,
    /// The longer text, as the sketch counts it; without sketches the longer payload.
    ///
    /// A sketch counts the distinct sequences of words.
    Longest,
    /// The shorter key. In a cleaning, a record without a key is worth least.
    ShortestKey,
}

impl Clustering {
    /// Clusters of all documents, with the defaults of the methods below.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which documents are near. Default: [`Near::new`]. Nothing is near to a document without a sketch, unless the
    /// least similarity is 0.
    #[must_use]
    pub fn near(mut self, near: impl Into<Near>) -> Self {
        self.near = near.into();
        self
    }

    /// How the document of a cluster is chosen that survives: the best by the first of these, of equal ones the best by
    /// the second, and so on. Of documents that are equal in all, the one survives that was written first. Default: the
    /// best by rank.
    #[must_use]
    pub fn survivor(mut self, order: impl IntoIterator<Item = Survivor>) -> Self {
        self.survivor = Some(order.into_iter().collect());
        self
    }

    /// Whether a chain of near documents puts documents into one cluster. Default: false; then all documents of a
    /// cluster are near to the one that survives.
    ///
    /// The ends of a long chain may have nothing in common.
    #[must_use]
    pub fn connected(mut self, connected: bool) -> Self {
        self.connected = connected;
        self
    }

    /// The options of a new database for the documents, with the distance and the similarity that were given.
    #[cfg(feature = "ingest")]
    pub(crate) fn options_of_new(&self, mut options: CreateOptions) -> CreateOptions {
        if let Some(max_distance) = self.near.max_distance {
            options = options.max_distance(max_distance);
        }
        if let Some(min_similarity) = self.near.min_similarity {
            options = options.min_similarity(min_similarity);
        }
        options.compared_at_once()
    }

    /// The fields of records on which nothing depends.
    #[cfg(feature = "ingest")]
    pub(crate) fn fields_not_needed(&self) -> Vec<&'static str> {
        let mut fields = vec!["group"];
        if self.near.since.is_none()
            && !self.looks_at(Survivor::Earliest)
            && !self.looks_at(Survivor::Latest)
        {
            fields.extend(["seen", "time"]);
        }
        if !self.looks_at(Survivor::Rank) {
            fields.push("rank");
        }
        if self.near.scopes.is_none() {
            fields.push("scope");
        }
        if !self.looks_at(Survivor::Longest) {
            fields.extend(["payload", "payload_base64"]);
        }
        fields
    }

    /// The same for documents that are not named by the keys of their records.
    #[cfg(feature = "ingest")]
    pub(crate) fn length_of_key(mut self, length: LengthOfKey) -> Self {
        self.length_of_key = Some(length);
        self
    }

    /// Whether a least similarity above 0 is asked for.
    #[cfg(feature = "ingest")]
    pub(crate) fn asks_for_similarity(&self) -> bool {
        self.near.min_similarity.is_some_and(|least| least > 0.0)
    }

    /// The length of a key. That of a record without one is the greatest.
    fn key_length(&self, key: &[u8]) -> i64 {
        #[cfg(feature = "ingest")]
        if let Some(length) = self.length_of_key {
            return length(key).map_or(i64::MAX, i64::from);
        }
        key.len() as i64
    }

    /// The settings as a list whose order stays as it is. A new one comes at its end.
    #[cfg(feature = "ingest")]
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut survivor = self.survivor.as_ref().map(|_| Vec::new());
        for by in self.survivor.iter().flatten() {
            let name = match by {
                Survivor::Rank => "rank",
                Survivor::Earliest => "earliest",
                Survivor::Latest => "latest",
                Survivor::Longest => "longest",
                Survivor::ShortestKey => "shortest-key",
            };
            survivor.get_or_insert_default().push(name);
        }
        serde_json::json!([
            self.near.max_distance,
            self.near.min_similarity,
            self.near.since.map(UnixSeconds::unchecked),
            self.near.scopes.as_ref().map(ScopeNames::names),
            survivor,
            self.connected,
        ])
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

    pub(super) fn pair_query(&self, reader: Reader<'_>) -> Result<PairQuery> {
        PairQuery::new(&self.near, reader.settings())
    }

    pub(super) fn counts(&self, document: &Document) -> bool {
        self.near.counts(document)
    }

    pub(super) fn worth(&self, number: DocumentNumber, document: &Document) -> Worth {
        let mut parts = SmallVec::new();
        for survivor in self.order() {
            parts.push(match survivor {
                Survivor::Rank => Part::Rank(document.rank().into()),
                // The complement turns the order round, and has no overflow.
                Survivor::Earliest => Part::Number(!document.seen()),
                Survivor::Latest => Part::Number(document.seen()),
                Survivor::Longest => Part::Number(match document.sketch() {
                    Some(sketch) => sketch.shingles().into(),
                    None => document.payload().len() as i64,
                }),
                Survivor::ShortestKey => Part::Number(!self.key_length(document.key())),
            });
        }
        Worth { parts, number }
    }
}

/// The worth of a document. The one with the greatest survives.
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
