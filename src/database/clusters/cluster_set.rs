//! Cluster set: all near documents of a snapshot and the clusters they make.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clustering::Clustering;
use super::grouping::{self, Places};
use super::near_fingerprints::{NearFingerprints, Progress, ReferenceMatch, ReferenceMatches};
use super::nodes::Nodes;
use crate::database::pairs::PairQuery;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::store::DocumentNumber;

/// The clusters of a snapshot.
pub(super) struct ClusterSet {
    /// The nodes and their documents: those of a cluster one after the other, in the order in which they were written.
    nodes: Nodes,
    /// For each node, the node of the survivor.
    centres: Vec<u32>,
    /// The documents of each cluster of at least two. In the order in which the survivors were written.
    clusters: Vec<Range<usize>>,
    /// The connected components of at least two documents, and the documents of the largest, if that is wanted.
    pub(super) components: Option<(u64, u64)>,
    reference_matches: ReferenceMatches,
}

/// A document of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clustered {
    pub(super) number: DocumentNumber,
    pub(super) fingerprint: Fingerprint,
    /// The number of bits in which it differs from the survivor.
    pub(super) distance: u32,
    /// The similarity with the survivor, if similarity counts.
    pub(super) similarity: Option<f64>,
}

impl ClusterSet {
    /// Finds all near documents and their clusters, and connected components if these are wanted. Documents that are
    /// near to one of `reference` are in none.
    pub(super) fn find(
        snapshot: &Snapshot,
        reference: Option<&Snapshot>,
        clustering: &Clustering,
        counts_components: bool,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let reader = snapshot.reader()?;
        let query = clustering.pair_query(reader)?;
        query.check_conditions(reader)?;
        let reference_matches = match reference {
            None => ReferenceMatches::default(),
            Some(reference) => ReferenceMatch::find_all(snapshot, reference, &query, progress)?,
        };
        let near = NearFingerprints::find(snapshot, &query, progress)?;
        let nodes = Nodes::read(near, &reference_matches, snapshot, clustering, progress)?;

        let (centres, sets) = if clustering.is_connected() {
            let sets = nodes.connected(snapshot, &query, progress)?;
            let centres = grouping::best_of(sets.clone(), &nodes.best_first());
            (centres, Some(sets))
        } else if counts_components {
            let (centres, sets) = stars_and_components(&nodes, snapshot, &query, progress)?;
            (centres, Some(sets))
        } else {
            let all = nodes.len() as u64;
            let go_on = |done| progress(done, all);
            (stars(&nodes, snapshot, &query, go_on)?, None)
        };
        let mut found = Self {
            components: sets.map(|sets| count_sets(&sets, &nodes.documents)),
            nodes,
            centres,
            clusters: Vec::new(),
            reference_matches,
        };
        found.put_together();
        Ok(found)
    }

    /// Puts the documents of each cluster together. They were in the order in which they were written.
    fn put_together(&mut self) {
        let centres = &self.centres;
        let documents = &mut self.nodes.documents;
        // For each centre the number of its cluster.
        let mut numbers = vec![0u32; centres.len()];
        let mut count = 0;
        for &(node, number) in documents.iter() {
            let centre = centres[node as usize] as usize;
            if self.nodes.best[centre].number() == number {
                numbers[centre] = count;
                count += 1;
            }
        }

        let mut clusters = Vec::with_capacity(documents.len());
        for &(node, _) in documents.iter() {
            clusters.push(numbers[centres[node as usize] as usize] as usize);
        }
        let mut places = Places::new(count as usize, clusters.iter().copied());
        let mut together = vec![(0, DocumentNumber::MIN); documents.len()];
        for (&document, &cluster) in documents.iter().zip(&clusters) {
            together[places.next(cluster)] = document;
        }
        *documents = together;
        for bounds in places.starts.windows(2) {
            if bounds[1] - bounds[0] > 1 {
                self.clusters.push(bounds[0]..bounds[1]);
            }
        }
    }

    /// The number of clusters of at least two documents.
    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// The survivor of a cluster and all of its documents.
    pub(super) fn cluster(&self, index: usize) -> (DocumentNumber, Vec<Clustered>) {
        let documents = &self.nodes.documents[self.clusters[index].clone()];
        let centre = self.centres[documents[0].0 as usize];
        let of_centre = self.nodes.fingerprint(centre);

        let mut clustered = Vec::with_capacity(documents.len());
        for &(node, number) in documents {
            let fingerprint = self.nodes.fingerprint(node);
            clustered.push(Clustered {
                number,
                fingerprint,
                distance: fingerprint.distance(of_centre),
                similarity: self.nodes.similarity(node, centre),
            });
        }
        (self.nodes.best[centre as usize].number(), clustered)
    }

    /// All clusters.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (DocumentNumber, Vec<Clustered>)> {
        (0..self.len()).map(|index| self.cluster(index))
    }

    /// The documents that are near to one of the reference snapshot, with the number of that. They are in no cluster.
    pub(super) fn near_reference(&self) -> impl Iterator<Item = (DocumentNumber, Clustered)> {
        self.nodes.near_reference.iter().map(|&(content, number)| {
            let nearest = &self.reference_matches[&content];
            let clustered = Clustered {
                number,
                fingerprint: content.0,
                distance: nearest.distance,
                similarity: nearest.similarity,
            };
            (nearest.number, clustered)
        })
    }
}

/// For each node the centre of its star.
fn stars(
    nodes: &Nodes,
    snapshot: &Snapshot,
    query: &PairQuery,
    go_on: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<u32>> {
    let near = nodes.near(nodes.neighbours(snapshot, query), go_on);
    grouping::stars(nodes.len(), &nodes.best_first(), near)
}

/// For each node the centre of its star, and for each its connected component.
fn stars_and_components(
    nodes: &Nodes,
    snapshot: &Snapshot,
    query: &PairQuery,
    progress: Progress<'_>,
) -> Result<(Vec<u32>, Vec<u32>)> {
    // The other thread ends when this one has to.
    let has_ended = AtomicBool::new(false);
    let (components, stars) = parallel::both(
        || {
            let components = nodes.connected(snapshot, query, progress);
            has_ended.store(components.is_err(), Ordering::Relaxed);
            components
        },
        || {
            stars(nodes, snapshot, query, |_| {
                match has_ended.load(Ordering::Relaxed) {
                    true => Err(Error::Interrupted),
                    false => Ok(()),
                }
            })
        },
    );
    let components = components?;
    Ok((stars?, components))
}

/// The sets of nodes with at least two documents, and the documents of the largest.
fn count_sets(set_of: &[u32], documents: &[(u32, DocumentNumber)]) -> (u64, u64) {
    let mut counts = vec![0u64; set_of.len()];
    for &(node, _) in documents {
        counts[set_of[node as usize] as usize] += 1;
    }
    counts.retain(|&count| count > 1);
    (counts.len() as u64, counts.into_iter().max().unwrap_or(0))
}
