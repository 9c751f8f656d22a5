//! The clusters of a snapshot, and what they are like.

use std::ops::{ControlFlow, Range};

use smallvec::SmallVec;

use super::cluster_set::{ClusterSet, Clustered};
use super::clustering::Clustering;
use crate::database::found::Found;
use crate::database::pairs::PairQuery;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::store::{DocumentNumber, Reader};

/// An event of [`Snapshot::clusters`].
///
/// # Example
///
/// ```
/// use simdb::{ClusterEvent, Clustering, Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, bits) in [("a", 0b0), ("b", 0b1), ("c", u64::MAX)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// }
/// txn.commit()?;
/// let mut sizes = Vec::new();
/// for event in database.snapshot()?.each_cluster(&Clustering::new().near(1)) {
///     match event? {
///         ClusterEvent::Cluster(cluster) => sizes.push(cluster.documents.len()),
///         ClusterEvent::Progress { done, all, .. } => assert!(done <= all),
///         _ => {}
///     }
/// }
/// assert_eq!(sizes, [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// A cluster of at least two documents.
    Cluster(Cluster),
    /// How far a step of the work is. The steps are to find pairs, to read documents, and to give clusters.
    #[non_exhaustive]
    Progress {
        /// The parts of the step that are done.
        done: u64,
        /// All parts of the step.
        all: u64,
    },
}

/// Near documents, of which one survives.
///
/// # Example
///
/// ```
/// use simdb::{ClusterEvent, Clustering, Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, bits, rank) in [("a", 0b0, 1), ("b", 0b1, 7), ("c", 0b11, 1)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)).with_rank([rank]))?;
/// }
/// txn.commit()?;
/// let mut clusters = Vec::new();
/// for event in database.snapshot()?.each_cluster(&Clustering::new().near(1)) {
///     if let ClusterEvent::Cluster(cluster) = event? {
///         clusters.push(cluster);
///     }
/// }
/// let cluster = &clusters[0];
/// assert_eq!(cluster.documents[cluster.survivor].key, b"b");
/// assert_eq!((cluster.documents[0].distance, cluster.diameter), (1, Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cluster {
    /// The index of the survivor among the documents.
    pub survivor: usize,
    /// All documents, in the order in which they were written. There are at least two.
    pub documents: Vec<ClusterDocument>,
    /// The largest distance of two of the documents. `None` if there are too many to compare each with each: more than
    /// 16,384 fingerprints.
    pub diameter: Option<u32>,
}

/// A document of a cluster.
///
/// See the example of [`Cluster`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterDocument {
    /// Its key.
    pub key: Vec<u8>,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The number of bits in which it differs from the survivor.
    pub distance: u32,
}

/// The clusters of a snapshot in numbers.
///
/// See the example of [`Snapshot::clusters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterTotals {
    /// The clusters of at least two documents.
    pub clusters: u64,
    /// Their documents.
    pub documents: u64,
    /// The documents of the largest cluster.
    pub largest: u64,
    /// The largest diameter that was computed.
    pub diameter: u32,
    /// The clusters whose diameter was not computed, as they have too many fingerprints.
    pub without_diameter: u64,
    /// The documents that are not near to their survivor, by distance or similarity. Only chains bring them there, so
    /// there are none unless clusters are [`connected`](Clustering::connected).
    pub beyond: u64,
    /// The number of clusters if chains of near documents are joined, as by [`connected`](Clustering::connected). It is
    /// counted in any case.
    pub connected: u64,
    /// The documents of the largest of these.
    pub largest_connected: u64,
}

impl ClusterTotals {
    /// The documents that do not survive.
    pub fn duplicates(&self) -> u64 {
        self.documents - self.clusters
    }
}

/// The clusters whose documents are read by one core. Documents that are near to each other in the file are read one
/// after the other, so these are many.
const TOGETHER: usize = 1 << 16;

/// The most fingerprints of which each is compared with each.
const MOST_COMPARED: usize = 1 << 14;

impl Snapshot {
    /// Finds the clusters of near-duplicates, and gives them to `observe`, in the order in which their survivors were
    /// written. Ends when `observe` breaks, with the totals so far.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::run`](crate::Pairs::run).
    ///
    /// # Cost
    ///
    /// That of all pairs, then of reading all documents once, then of reading each document of a cluster again. Some 40
    /// bytes of memory for each document of a cluster, and for each different fingerprint among them some 100 and 12
    /// for each neighbour, of which at most 32 are kept.
    ///
    /// # Example
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use simdb::{ClusterEvent, Clustering, CreateOptions, Database, Document, Fingerprint, Near, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// for (key, bits, rank) in [("a", 0b0, 1), ("b", 0b1, 7), ("c", 0b11, 1), ("d", u64::MAX, 1)] {
    ///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)).with_rank([rank]))?;
    /// }
    /// txn.commit()?;
    /// let clustering = Clustering::new().near(Near::within(1).min_similarity(0.0));
    /// let totals = database.snapshot()?.clusters(&clustering, |event| {
    ///     if let ClusterEvent::Cluster(cluster) = event {
    ///         assert_eq!(cluster.documents.len(), 3);
    ///         assert_eq!(cluster.documents[cluster.survivor].key, b"b");
    ///     }
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!((totals.clusters, totals.duplicates()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clusters(
        &self,
        clustering: &Clustering,
        mut observe: impl FnMut(ClusterEvent) -> ControlFlow<()>,
    ) -> Result<ClusterTotals> {
        let mut totals = ClusterTotals::default();
        Error::unless_interrupted(self.find_clusters(clustering, &mut totals, &mut |event| {
            Error::if_broken(observe(event))
        }))?;
        Ok(totals)
    }

    /// The events of [`clusters`](Self::clusters), by an iterator. The search goes on in a thread of its own.
    pub fn each_cluster(&self, clustering: &Clustering) -> Found<ClusterEvent> {
        let snapshot = self.clone();
        let clustering = clustering.clone();
        Found::by(move |found| snapshot.clusters(&clustering, found).map(drop))
    }

    fn find_clusters(
        &self,
        clustering: &Clustering,
        totals: &mut ClusterTotals,
        observe: &mut dyn FnMut(ClusterEvent) -> Result<()>,
    ) -> Result<()> {
        let progress = &mut |done, all| observe(ClusterEvent::Progress { done, all });
        let set = ClusterSet::find(self, None, clustering, true, progress)?;
        (totals.connected, totals.largest_connected) = set.components.unwrap_or_default();
        let reader = self.reader()?;
        let query = clustering.pair_query(reader)?;
        let all = set.len() as u64;
        let mut done = 0;

        parallel::stream(
            set.len().div_ceil(TOGETHER),
            |part, hand_over| {
                let indexes = part * TOGETHER..set.len().min((part + 1) * TOGETHER);
                hand_over(ReadClusters::read(indexes, &set, &query, reader)?)
            },
            |_, read| {
                let mut documents = read.documents.iter();
                for cluster in &read.clusters {
                    totals.beyond += cluster.beyond;
                    let cluster = Cluster {
                        survivor: cluster.survivor,
                        documents: documents
                            .by_ref()
                            .take(cluster.documents)
                            .map(|document| read.document(document))
                            .collect(),
                        diameter: cluster.diameter,
                    };
                    totals.add(&cluster);
                    done += 1;
                    observe(ClusterEvent::Cluster(cluster))?;
                    observe(ClusterEvent::Progress { done, all })?;
                }
                Ok(())
            },
        )
    }
}

/// Clusters as one core has read them, with the keys of their documents. They are in few pieces of memory. With a piece
/// for each key, the core that takes them and the one that gives them back would wait for each other.
#[derive(Default)]
struct ReadClusters {
    clusters: Vec<ReadCluster>,
    /// The documents of all clusters, one cluster after the other.
    documents: Vec<ReadDocument>,
    keys: Vec<u8>,
}

struct ReadCluster {
    survivor: usize,
    diameter: Option<u32>,
    /// The number of documents that are not near to the survivor.
    beyond: u64,
    /// The number of its documents.
    documents: usize,
}

struct ReadDocument {
    fingerprint: Fingerprint,
    distance: u32,
    key: Range<usize>,
}

impl ReadClusters {
    fn read(
        indexes: Range<usize>,
        set: &ClusterSet,
        query: &PairQuery,
        reader: Reader<'_>,
    ) -> Result<Self> {
        let mut read = Self::default();
        let mut numbers: Vec<(DocumentNumber, usize)> = Vec::new();
        for index in indexes {
            let (survivor, clustered) = set.cluster(index);
            let mut cluster = ReadCluster {
                survivor: 0,
                diameter: diameter(&clustered),
                beyond: 0,
                documents: clustered.len(),
            };
            for (place, document) in clustered.iter().enumerate() {
                if document.number == survivor {
                    cluster.survivor = place;
                }
                // No least similarity is below each that there is.
                let is_near = document.distance <= query.max_distance
                    && document.similarity >= query.min_similarity;
                cluster.beyond += u64::from(!is_near);
                numbers.push((document.number, read.documents.len()));
                read.documents.push(ReadDocument {
                    fingerprint: document.fingerprint,
                    distance: document.distance,
                    key: 0..0,
                });
            }
            read.clusters.push(cluster);
        }

        // Documents of one block are read one after the other.
        numbers.sort_unstable();
        for (number, place) in numbers {
            let start = read.keys.len();
            read.keys.extend(reader.linked_key(number)?);
            read.documents[place].key = start..read.keys.len();
        }
        Ok(read)
    }

    fn document(&self, document: &ReadDocument) -> ClusterDocument {
        ClusterDocument {
            key: self.keys[document.key.clone()].to_vec(),
            fingerprint: document.fingerprint,
            distance: document.distance,
        }
    }
}

impl ClusterTotals {
    fn add(&mut self, cluster: &Cluster) {
        self.clusters += 1;
        self.documents += cluster.documents.len() as u64;
        self.largest = self.largest.max(cluster.documents.len() as u64);
        match cluster.diameter {
            Some(diameter) => self.diameter = self.diameter.max(diameter),
            None => self.without_diameter += 1,
        }
    }
}

fn diameter(clustered: &[Clustered]) -> Option<u32> {
    let mut fingerprints: SmallVec<[Fingerprint; 16]> = clustered
        .iter()
        .map(|document| document.fingerprint)
        .collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    if fingerprints.len() > MOST_COMPARED {
        return None;
    }

    let mut diameter = 0;
    for (index, a) in fingerprints.iter().enumerate() {
        for b in &fingerprints[index + 1..] {
            diameter = diameter.max(a.distance(*b));
        }
    }
    Some(diameter)
}
