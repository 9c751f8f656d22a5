//! Gathered: all near documents of a snapshot and the clusters they make.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use super::beside::{AllBeside, Beside};
use super::clustering::Clustering;
use super::grouping;
use super::near_fingerprints::{NearFingerprints, Progress};
use super::nodes::Nodes;
use super::reading::read_nodes;
use crate::database::pairs::Question;
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::store::DocumentNumber;

/// The clusters of a snapshot.
pub(super) struct Gathered {
    /// The nodes and their documents: those of a cluster one after the other, in the order in which they were written.
    nodes: Nodes,
    /// For each node, the node of the survivor.
    centres: Vec<u32>,
    /// The documents of each cluster of at least two. In the order in which the survivors were written.
    clusters: Vec<Range<usize>>,
    /// The connected components of at least two documents, and the documents of the largest, if that is wanted.
    pub(super) components: Option<(u64, u64)>,
    /// What is near to documents of the snapshot beside.
    beside: AllBeside,
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

impl Gathered {
    /// Finds all near documents and their clusters, and connected components if these are wanted. Documents that are
    /// near to one of `beside` are in none. `None` if `progress` breaks.
    pub(super) fn new(
        snapshot: &Snapshot,
        beside: Option<&Snapshot>,
        clustering: &Clustering,
        counts_components: bool,
        progress: Progress<'_>,
    ) -> Result<Option<Self>> {
        let reader = snapshot.reader()?;
        let question = clustering.question(reader)?;
        question.check_conditions(reader)?;
        let beside = match beside {
            None => AllBeside::default(),
            Some(beside) => match Beside::find_all(snapshot, beside, &question, progress)? {
                Some(beside) => beside,
                None => return Ok(None),
            },
        };
        let Some(near) = NearFingerprints::find(snapshot, &question, progress)? else {
            return Ok(None);
        };
        let Some(nodes) = read_nodes(near, &beside, snapshot, clustering, progress)? else {
            return Ok(None);
        };
        let grouped = match clustering.is_connected() {
            true => nodes.connected(snapshot, &question, progress).map(|sets| {
                (
                    grouping::best_of(sets.clone(), &nodes.best_first()),
                    Some(sets),
                )
            }),
            false => stars(&nodes, snapshot, &question, counts_components, progress),
        };
        let (centres, sets) = match grouped {
            Err(Error::Interrupted) => return Ok(None),
            grouped => grouped?,
        };
        let components = sets.map(|sets| count_of(&sets, &nodes.documents));
        let mut gathered = Self {
            nodes,
            centres,
            clusters: Vec::new(),
            components,
            beside,
        };
        gathered.find_clusters();
        Ok(Some(gathered))
    }

    /// Puts the documents of each cluster together. They were in the order in which they were written.
    fn find_clusters(&mut self) {
        let Self {
            nodes: Nodes {
                best, documents, ..
            },
            centres,
            clusters,
            ..
        } = self;
        let centre = |node: u32| centres[node as usize] as usize;
        let (mut cluster_of, mut count) = (vec![0u32; centres.len()], 0);
        for &(node, number) in documents.iter() {
            if best[centre(node)].number() == number {
                cluster_of[centre(node)] = count;
                count += 1;
            }
        }
        let of_documents = documents.iter().map(|it| cluster_of[centre(it.0)] as usize);
        let of_documents: Vec<usize> = of_documents.collect();
        let mut starts = vec![0usize; count as usize + 1];
        of_documents
            .iter()
            .for_each(|cluster| starts[cluster + 1] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut together = vec![(0, DocumentNumber::MIN); documents.len()];
        for (&document, cluster) in documents.iter().zip(of_documents) {
            let next = &mut next[cluster];
            together[*next] = document;
            *next += 1;
        }
        *documents = together;
        clusters.extend(
            starts
                .windows(2)
                .map(|it| it[0]..it[1])
                .filter(|it| it.len() > 1),
        );
    }

    /// The number of clusters of at least two documents.
    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// The survivor of a cluster and all of its documents.
    pub(super) fn cluster(&self, index: usize) -> (DocumentNumber, Vec<Clustered>) {
        let documents = &self.nodes.documents[self.clusters[index].clone()];
        let centre = self.centres[documents[0].0 as usize];
        let clustered = documents
            .iter()
            .map(|&(node, number)| self.clustered(node, centre, number));
        (
            self.nodes.best[centre as usize].number(),
            clustered.collect(),
        )
    }

    /// All clusters.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (DocumentNumber, Vec<Clustered>)> {
        (0..self.len()).map(|index| self.cluster(index))
    }

    fn clustered(&self, node: u32, centre: u32, number: DocumentNumber) -> Clustered {
        let [fingerprint, of_centre] = [node, centre].map(|it| self.nodes.fingerprint(it));
        let similarity = self.nodes.similarity(node, centre);
        Clustered {
            number,
            fingerprint,
            distance: fingerprint.distance(of_centre),
            similarity,
        }
    }

    /// The documents that are near to one of the snapshot beside, with the number of that. They are in no cluster.
    pub(super) fn beside(&self) -> impl Iterator<Item = (DocumentNumber, Clustered)> {
        self.nodes.beside.iter().map(|(content, number)| {
            let Beside {
                number: survivor,
                distance,
                similarity,
            } = self.beside[content];
            (
                survivor,
                Clustered {
                    number: *number,
                    fingerprint: content.0,
                    distance,
                    similarity,
                },
            )
        })
    }
}

/// For each node the centre of its star. If that is wanted, also the connected component of each.
/// [`Error::Interrupted`] if `progress` breaks.
fn stars(
    nodes: &Nodes,
    snapshot: &Snapshot,
    question: &Question,
    wants_components: bool,
    progress: Progress<'_>,
) -> Result<(Vec<u32>, Option<Vec<u32>>)> {
    let all = nodes.len() as u64;
    if !wants_components {
        let near = nodes.near(nodes.neighbours(snapshot, question), |done| {
            progress(done, all)
        });
        return Ok((
            grouping::stars(nodes.len(), &nodes.best_first(), near)?,
            None,
        ));
    }
    // The other thread ends when this one has to.
    let is_ended = AtomicBool::new(false);
    let connect = || {
        let connected = nodes.connected(snapshot, question, progress);
        is_ended.store(connected.is_err(), Ordering::Relaxed);
        connected
    };
    let find_stars = || {
        let wanted = |_| match is_ended.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let near = nodes.near(nodes.neighbours(snapshot, question), wanted);
        grouping::stars(nodes.len(), &nodes.best_first(), near)
    };
    let (connected, stars) = parallel::both(connect, find_stars);
    let connected = connected?;
    Ok((stars?, Some(connected)))
}

/// The sets of nodes with at least two documents, and the documents of the largest.
fn count_of(set_of: &[u32], documents: &[(u32, DocumentNumber)]) -> (u64, u64) {
    let mut counts = vec![0u64; set_of.len()];
    documents
        .iter()
        .for_each(|&(node, _)| counts[set_of[node as usize] as usize] += 1);
    let several = counts.iter().filter(|&&count| count > 1);
    (
        several.clone().count() as u64,
        several.max().copied().unwrap_or(0),
    )
}
