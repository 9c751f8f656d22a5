//! Pairs: the search for all near documents of a snapshot.

use std::ops::ControlFlow;

use super::search::{Keys, MemberEvent, PairQuery};
use super::units::PairPosition;
use crate::database::crowding::FingerprintGroup;
use crate::database::found::Found;
use crate::database::near::Near;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};

/// The search for all pairs of near documents of a snapshot, made by [`Snapshot::pairs`]. [`run`](Self::run) gives them
/// to a function, and a loop takes them one after the other, while the search goes on in a thread of its own.
///
/// Documents of one fingerprint are a *group*, which is listed once. Each pair of near fingerprints is listed once,
/// with the groups of both. [`each_document`](Self::each_document) lists single documents instead.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, PairEvent};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, bits) in [("a", 7), ("b", 6), ("c", 7), ("d", u64::MAX)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// }
/// txn.commit()?;
/// let mut distances = Vec::new();
/// for event in database.snapshot()?.pairs(3).each_document(true) {
///     if let PairEvent::Pair(pair) = event? {
///         distances.push(pair.distance);
///     }
/// }
/// distances.sort_unstable();
/// assert_eq!(distances, [0, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a search does nothing until it is run"]
pub struct Pairs {
    snapshot: Snapshot,
    other: Option<Snapshot>,
    near: Near,
    each_document: bool,
    from: Option<PairPosition>,
}

/// What a search for pairs tells.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, PairEvent};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # for (key, bits) in [("a", 7), ("b", 6), ("c", 7)] {
/// #     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// # }
/// # txn.commit()?;
///
/// let mut groups = 0;
/// let mut pairs = 0;
/// for event in database.snapshot()?.pairs(3) {
///     match event? {
///         PairEvent::Group(group) => groups += group.documents * (group.documents - 1) / 2,
///         PairEvent::Pair(pair) => pairs += pair.a.documents * pair.b.documents,
///         PairEvent::Progress { done, all, .. } => eprintln!("{done} of {all} units are done"),
///         _ => {}
///     }
/// }
/// assert_eq!((groups, pairs), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PairEvent {
    /// Several documents have one fingerprint. Each two of them are a pair at distance 0.
    Group(FingerprintGroup),
    /// Two near documents, or all documents of one group with all of another.
    Pair(Pair),
    /// How far the search is. It comes at the beginning, now and then, and at the end.
    #[non_exhaustive]
    Progress {
        /// The units of work that are done.
        done: u64,
        /// All units.
        all: u64,
        /// A search that goes on from here gives what was not given before. It gives again what was given since this
        /// position came for the first time.
        position: PairPosition,
    },
}

/// Two near documents, or two groups.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::{Document, Fingerprint, PairEvent};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("a", Fingerprint::from_bits(7)))?;
/// txn.insert(&Document::new("b", Fingerprint::from_bits(6)))?;
/// txn.commit()?;
/// let mut pairs = Vec::new();
/// database.snapshot()?.pairs(3).run(|event| {
///     if let PairEvent::Pair(pair) = event {
///         pairs.push(pair);
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!((&pairs[0].a.newest_key[..], &pairs[0].b.newest_key[..]), (&b"b"[..], &b"a"[..]));
/// assert_eq!((pairs[0].distance, pairs[0].similarity), (1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pair {
    /// One side. Its fingerprint is not the greater one, unless the other side is of another snapshot.
    pub a: FingerprintGroup,
    /// The other side.
    pub b: FingerprintGroup,
    /// The number of bits in which the fingerprints differ.
    pub distance: u32,
    /// The estimated similarity. `None` if it was not looked at: of groups if the distance alone decides, and of
    /// documents without a sketch.
    pub similarity: Option<f64>,
}

impl Snapshot {
    /// The search for all pairs of near documents. A number says how near: `pairs(3)` takes fingerprints that differ in
    /// at most 3 bits.
    ///
    /// If documents have to be similar too, a group has the documents of one fingerprint that have the same sketch, and
    /// documents without a sketch are in no pair. But if no least similarity is asked for, those of
    /// [another snapshot](Pairs::with) are compared by the distance alone, as a query without a sketch is.
    ///
    /// # Example
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, PairEvent, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// for (key, bits) in [("a", 7), ("b", 6), ("c", 7), ("d", u64::MAX)] {
    ///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
    /// }
    /// txn.commit()?;
    /// let mut groups = Vec::new();
    /// let mut pairs = Vec::new();
    /// database.snapshot()?.pairs(3).run(|event| {
    ///     match event {
    ///         PairEvent::Group(group) => groups.push(group),
    ///         PairEvent::Pair(pair) => pairs.push(pair),
    ///         _ => {}
    ///     }
    ///     ControlFlow::Continue(())
    /// })?;
    /// // Two documents have the fingerprint 7. One is near to both.
    /// assert_eq!((groups.len(), groups[0].documents), (1, 2));
    /// assert_eq!((pairs.len(), pairs[0].distance), (1, 1));
    /// assert_eq!((&pairs[0].a.newest_key[..], pairs[0].b.documents), (&b"b"[..], 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pairs(&self, near: impl Into<Near>) -> Pairs {
        Pairs {
            snapshot: self.clone(),
            other: None,
            near: near.into(),
            each_document: false,
            from: None,
        }
    }
}

impl Pairs {
    /// Only pairs of a document of this snapshot, which is `a`, and one of another, which is `b`. Default: none, so
    /// pairs of documents of the same snapshot.
    ///
    /// There are no events of groups then. Pairs at distance 0 are pairs like others. The tables of the side that has
    /// more fingerprints are gone through once for 33 million fingerprints of the other side, which take 16 bytes each
    /// in memory.
    pub fn with(mut self, other: &Snapshot) -> Self {
        self.other = Some(other.clone());
        self
    }

    /// Whether to list each pair of documents, also those of one fingerprint. Then there are no groups of several
    /// documents. Default: false.
    ///
    /// A fingerprint of a thousand documents has half a million pairs. On each core, the keys of all documents of two
    /// fingerprints are in memory at a time.
    pub fn each_document(mut self, each_document: bool) -> Self {
        self.each_document = each_document;
        self
    }

    /// Goes on where another search for the same has stopped. Default: from the beginning.
    ///
    /// See [`PairPosition`] for when a position holds.
    pub fn from(mut self, position: PairPosition) -> Self {
        self.from = Some(position);
        self
    }

    /// Refuses a question that cannot be answered, before anything is made for the answer.
    #[cfg(feature = "cli")]
    pub(crate) fn ensure_answerable(&self) -> Result<()> {
        let query = self.query()?;
        query.sides(&self.snapshot, self.other.as_ref()).map(drop)
    }

    fn query(&self) -> Result<PairQuery> {
        let reader = self.snapshot.reader()?;
        let mut query = PairQuery::new(&self.near, reader.settings())?;
        query.takes_unsketched = self.near.min_similarity.is_none();
        query.each_document = self.each_document;
        query.from = self.from.clone();
        Ok(query)
    }

    /// Finds all pairs, each once, and gives them to `observe`: first the groups, in the order of their fingerprints,
    /// then the pairs, in the order of the tables in which they are found. The order is always the same for the same
    /// file; merges and compaction may change it. Ends when `observe` breaks.
    ///
    /// # Errors
    ///
    /// * [`Error::MaxDistance`](crate::Error::MaxDistance) for a max distance above 64,
    ///   [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit, and
    ///   [`Error::MinSimilarity`](crate::Error::MinSimilarity) for a similarity that is not from 0 to 1.
    /// * [`Error::SketchSizes`](crate::Error::SketchSizes) if a similarity above 0 is asked for and the database has
    ///   no sketches, or if the sketches of the two sides cannot be compared: ask for the least similarity 0.
    /// * [`Error::SchemeMismatch`](crate::Error::SchemeMismatch) if the other side has fingerprints of another scheme.
    /// * [`Error::PairPosition`](crate::Error::PairPosition) if the position is of another search, or the documents or
    ///   the plan have changed since.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// Each of some tables is read once, in order, and each row is compared with those that share a prefix with it;
    /// with larger distances, with those of some more prefixes. All cores work. A prefix that many rows share is cut
    /// further. For each pair, its documents are looked up. Memory is some dozens of megabytes beside the cache,
    /// however many pairs there are.
    ///
    /// # References
    ///
    /// Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, section 4.
    pub fn run(&self, mut observe: impl FnMut(PairEvent) -> ControlFlow<()>) -> Result<()> {
        let query = self.query()?;
        let observe = &mut |event| Error::if_broken(observe(PairEvent::from_members(event)));
        Error::unless_interrupted(query.run(
            &self.snapshot,
            self.other.as_ref(),
            Keys::Newest,
            observe,
        ))
    }
}

impl IntoIterator for Pairs {
    type Item = Result<PairEvent>;
    type IntoIter = Found<PairEvent>;

    /// Begins the search in a thread of its own.
    fn into_iter(self) -> Found<PairEvent> {
        Found::by(move |found| self.run(found))
    }
}

impl PairEvent {
    pub(super) fn from_members(event: MemberEvent) -> Self {
        match event {
            MemberEvent::Group(member) => Self::Group(member.group),
            MemberEvent::Pair {
                a,
                b,
                distance,
                similarity,
            } => Self::Pair(Pair {
                a: a.group,
                b: b.group,
                distance,
                similarity,
            }),
            MemberEvent::Progress {
                done,
                all,
                position,
            } => Self::Progress {
                done,
                all,
                position,
            },
        }
    }
}
