//! Gathered: all near documents of a snapshot and the clusters they make.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use foldhash::fast::RandomState;

use super::clustering::{Clustering, Worth};
use super::grouping::{self, Edge};
use crate::database::pairs::{Found, Keys, Member, Question};
use crate::database::snapshot::Snapshot;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::DocumentNumber;

/// Is told how far the work is, in parts of a step, and all parts of it. Breaks if nobody wants the rest.
pub(super) type Progress<'p> = &'p mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Nodes that are near to others, or have several documents. A node stands for the documents of one fingerprint, and of
/// one sketch if similarity counts.
#[derive(Default)]
struct Nodes {
    /// The node of each newest document.
    by_newest: HashMap<DocumentNumber, u32, RandomState>,
    fingerprints: Vec<Fingerprint>,
    /// Empty if similarity does not count.
    sketches: Vec<Option<Sketch>>,
    edges: Vec<Edge>,
}

/// The documents of all nodes.
struct DocumentsOfNodes {
    /// Each with its node, in the order in which they were written.
    documents: Vec<(u32, DocumentNumber)>,
    /// For each node, the best document.
    best: Vec<Option<Worth>>,
}

/// The clusters of a snapshot.
pub(super) struct Gathered {
    fingerprints: Vec<Fingerprint>,
    /// For each node, the best document.
    best: Vec<Option<Worth>>,
    /// For each node, the node of the survivor.
    centres: Vec<u32>,
    /// The documents, with their nodes: those of a cluster one after the other, in the order in which they were
    /// written.
    documents: Vec<(u32, DocumentNumber)>,
    /// The documents of each cluster of at least two. In the order in which the survivors were written.
    clusters: Vec<Range<usize>>,
    /// The connected components of at least two documents, and the documents of the largest.
    pub(super) components: (u64, u64),
}

/// A document of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clustered {
    pub(super) number: DocumentNumber,
    pub(super) fingerprint: Fingerprint,
    /// The number of bits in which it differs from the survivor.
    pub(super) distance: u32,
}

impl Gathered {
    /// Finds all near documents and their clusters. `None` if `progress` breaks.
    pub(super) fn new(
        snapshot: &Snapshot,
        clustering: &Clustering,
        progress: Progress<'_>,
    ) -> Result<Option<Self>> {
        let question = clustering.question(&snapshot.reader);
        let Some(nodes) = Nodes::of(snapshot, &question, progress)? else { return Ok(None) };
        let Some(of_nodes) = nodes.documents(snapshot, clustering, progress)? else {
            return Ok(None);
        };
        Ok(Some(Self::grouped(nodes, of_nodes, clustering.is_connected())))
    }

    fn grouped(
        Nodes { fingerprints, edges, .. }: Nodes,
        DocumentsOfNodes { mut documents, best }: DocumentsOfNodes,
        is_connected: bool,
    ) -> Self {
        let mut order: Vec<u32> = (0..fingerprints.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| best[b as usize].cmp(&best[a as usize]));
        let connected = grouping::components(fingerprints.len(), &edges, &order);
        let components = count_of(&connected, &documents);
        let centres =
            if is_connected { connected } else { grouping::stars(fingerprints.len(), &edges, &order) };
        let survivor = |node: u32| best[centres[node as usize] as usize].as_ref().map(Worth::number);
        documents.sort_unstable_by_key(|&(node, number)| (survivor(node), number));
        let mut clusters = Vec::new();
        let mut from = 0;
        for cluster in documents.chunk_by(|a, b| centres[a.0 as usize] == centres[b.0 as usize]) {
            let all = from..from + cluster.len();
            from = all.end;
            clusters.extend(Some(all).filter(|all| all.len() > 1));
        }
        Self { fingerprints, best, centres, documents, clusters, components }
    }

    /// The clusters of at least two documents: the survivor of each and all of its documents.
    pub(super) fn clusters(&self) -> impl ExactSizeIterator<Item = (DocumentNumber, Vec<Clustered>)> {
        self.clusters.iter().map(|all| {
            let documents = &self.documents[all.clone()];
            let centre = self.centres[documents[0].0 as usize] as usize;
            let survivor = self.best[centre].as_ref().map_or(documents[0].1, Worth::number);
            let clustered = documents.iter().map(|&(node, number)| {
                let fingerprint = self.fingerprints[node as usize];
                Clustered { number, fingerprint, distance: fingerprint.distance(self.fingerprints[centre]) }
            });
            (survivor, clustered.collect())
        })
    }
}

/// The sets of nodes with at least two documents, and the documents of the largest.
fn count_of(set_of: &[u32], documents: &[(u32, DocumentNumber)]) -> (u64, u64) {
    let mut counts = vec![0u64; set_of.len()];
    documents.iter().for_each(|&(node, _)| counts[set_of[node as usize] as usize] += 1);
    let several = counts.iter().filter(|&&count| count > 1);
    (several.clone().count() as u64, several.max().copied().unwrap_or(0))
}

impl Nodes {
    fn of(snapshot: &Snapshot, question: &Question, progress: Progress<'_>) -> Result<Option<Self>> {
        let (mut nodes, mut flow) = (Self::default(), ControlFlow::Continue(()));
        let with_sketches = question.min_similarity.is_some();
        question.run(snapshot, None, Keys::None, &mut |found| {
            match found {
                Found::Group(member) => _ = nodes.node(&member, with_sketches),
                Found::Pair { a, b, .. } => {
                    let edge = (nodes.node(&a, with_sketches), nodes.node(&b, with_sketches));
                    nodes.edges.push(edge);
                }
                Found::Progress { done, all, .. } => flow = progress(done, all),
            }
            flow
        })?;
        Ok(flow.is_continue().then_some(nodes))
    }

    fn node(&mut self, member: &Member, with_sketches: bool) -> u32 {
        let Self { by_newest, fingerprints, sketches, .. } = self;
        *by_newest.entry(member.newest).or_insert_with(|| {
            fingerprints.push(member.group.fingerprint);
            if with_sketches {
                sketches.push(member.sketch);
            }
            fingerprints.len() as u32 - 1
        })
    }

    /// The documents of the nodes, in the order in which they were written, and the best of each node. All documents
    /// are read.
    fn documents(
        &self,
        snapshot: &Snapshot,
        clustering: &Clustering,
        progress: Progress<'_>,
    ) -> Result<Option<DocumentsOfNodes>> {
        let mut by_fingerprint: Vec<u32> = (0..self.fingerprints.len() as u32).collect();
        by_fingerprint.sort_unstable_by_key(|&node| self.fingerprints[node as usize]);
        let all = snapshot.stats()?.documents;
        let mut of_nodes =
            DocumentsOfNodes { documents: Vec::new(), best: vec![None; self.fingerprints.len()] };
        let (mut next, mut read) = (DocumentNumber::MIN, 0);
        while let Some((block, after)) = snapshot.reader.documents(next)? {
            next = after;
            read += block.len() as u64;
            for (number, document) in block {
                let document = document?;
                let Some(node) =
                    self.node_of(&by_fingerprint, &document).filter(|_| clustering.counts(&document))
                else {
                    continue;
                };
                of_nodes.documents.push((node, number));
                let best = &mut of_nodes.best[node as usize];
                *best = best.take().max(Some(clustering.worth(number, &document)));
            }
            if progress(read, all).is_break() {
                return Ok(None);
            }
        }
        Ok(Some(of_nodes))
    }

    /// The node of a document.
    fn node_of(&self, by_fingerprint: &[u32], document: &Document) -> Option<u32> {
        let fingerprint = document.fingerprint()?;
        let of = |node: u32| self.fingerprints[node as usize];
        let from = by_fingerprint.partition_point(|&node| of(node) < fingerprint);
        let mut nodes = by_fingerprint[from..].iter().copied().take_while(|&node| of(node) == fingerprint);
        nodes.find(|&node| self.sketches.get(node as usize).is_none_or(|it| it.as_ref() == document.sketch()))
    }
}
