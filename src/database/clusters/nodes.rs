//! Nodes: what clusters are made of. A node stands for the documents of one fingerprint, and of one sketch if
//! similarity counts.

use std::ops::{ControlFlow, Range};

use super::beside::Content;
use super::clustering::Worth;
use super::grouping::{self, Components, NearNodes, Visit};
use super::near_fingerprints::{NearFingerprints, Progress};
use crate::database::pairs::{FoundBare, PairsOfUnit, Question};
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::DocumentNumber;

/// The nodes whose fingerprints are near to others, or that have several documents. They are in the order of the
/// indexes of their fingerprints. Near fingerprints have near indexes, so that what is read together lies together.
pub(super) struct Nodes {
    /// For each node, the index of its fingerprint among the near ones.
    pub(super) indexes: Vec<u32>,
    /// For each near fingerprint its first node, then the number of nodes.
    pub(super) firsts: Vec<u32>,
    /// For each node, its sketch. Empty if similarity does not count.
    pub(super) sketches: Vec<Sketch>,
    /// All nodes, in the order in which the first document of each was written.
    pub(super) written: Vec<u32>,
    /// For each node, the best document.
    pub(super) best: Vec<Worth>,
    /// Each document with its node, in the order in which they were written.
    pub(super) documents: Vec<(u32, DocumentNumber)>,
    /// Documents that are near to one of the snapshot beside, in the order in which they were written.
    pub(super) beside: Vec<(Content, DocumentNumber)>,
    pub(super) near: NearFingerprints,
    /// The least similarity of near nodes, if similarity counts.
    pub(super) least: Option<f64>,
}

impl Nodes {
    pub(super) fn len(&self) -> usize {
        self.indexes.len()
    }

    /// All nodes, in the order of their best documents, the best first.
    pub(super) fn best_first(&self) -> Vec<u32> {
        let mut order = self.written.clone();
        // Often it is sorted already.
        order.sort_unstable_by(|&a, &b| self.best[b as usize].cmp(&self.best[a as usize]));
        order
    }

    /// The nodes of a near fingerprint.
    fn of_index(&self, index: u32) -> Range<u32> {
        self.firsts[index as usize]..self.firsts[index as usize + 1]
    }

    /// The fingerprint of a node.
    pub(super) fn fingerprint(&self, node: u32) -> Fingerprint {
        self.near.fingerprint(self.indexes[node as usize])
    }

    /// The similarity of two nodes, if similarity counts.
    pub(super) fn similarity(&self, a: u32, b: u32) -> Option<f64> {
        let [a, b] = [a, b].map(|it| self.sketches.get(it as usize));
        Some(a?.similarity(b?).ok()?.jaccard())
    }

    /// Whether nodes with near fingerprints are similar enough.
    fn are_similar(&self, a: u32, b: u32) -> bool {
        self.least
            .is_none_or(|least| self.similarity(a, b).is_some_and(|it| it >= least))
    }

    /// What adds the indexes of the neighbours of a fingerprint to a list.
    pub(super) fn neighbours(
        &self,
        snapshot: &Snapshot,
        question: &Question,
    ) -> impl Fn(u32, &mut Vec<u32>) -> Result<()> {
        |index, to| {
            self.near
                .add_neighbours(index, snapshot, question.max_distance, to)
        }
    }

    /// Visits the nodes near to a node: those of the same fingerprint, and of those whose indexes `add_neighbours` adds.
    /// Ends when `wanted` breaks, which is asked now and then.
    pub(super) fn near<'n>(
        &'n self,
        add_neighbours: impl Fn(u32, &mut Vec<u32>) -> Result<()> + 'n,
        mut wanted: impl FnMut(u64) -> ControlFlow<()> + 'n,
    ) -> impl NearNodes + 'n {
        let mut left = Left::of(self);
        let (mut indexes, mut asked) = (Vec::new(), 0u64);
        move |node: u32, visit: Visit<'_>| {
            asked += 1;
            if asked.is_multiple_of(ASKED_TOGETHER) && wanted(asked).is_break() {
                return Err(Error::Interrupted);
            }
            let index = self.indexes[node as usize];
            indexes.clear();
            indexes.push(index);
            add_neighbours(index, &mut indexes)?;
            for &index in &indexes {
                let visit =
                    |other| other != node && visit(other, &|| self.are_similar(node, other));
                left.visit(self, index, visit);
            }
            Ok(())
        }
    }

    /// For each node one node of its component, the same for all of these: the nodes that are connected by chains of
    /// near ones. [`Error::Interrupted`] if `progress` breaks.
    pub(super) fn connected(
        &self,
        snapshot: &Snapshot,
        question: &Question,
        progress: Progress<'_>,
    ) -> Result<Vec<u32>> {
        let all = self.len() as u64;
        if self.near.has_all() {
            let near = self.near(self.neighbours(snapshot, question), |done| {
                progress(done, all)
            });
            return grouping::connected(self.len(), near);
        }
        // There are more pairs of fingerprints than are kept, so they are found once more.
        let of_fingerprint = self.near(|_, _| Ok(()), |done| progress(done, all));
        let sets = grouping::connected(self.len(), of_fingerprint)?;
        let mut components = Components::new(self.len());
        (0..)
            .zip(&sets)
            .for_each(|(node, &other)| components.join(node, other, &|| true));
        let mut join = |a, b| components.join(a, b, &|| self.are_similar(a, b));
        let mut flow = ControlFlow::Continue(());
        // For each number of the unit, the nodes.
        let mut nodes: Vec<Range<u32>> = Vec::new();
        let nodes_of = |it| {
            self.near
                .index_of(it)
                .map_or(0..0, |index| self.of_index(index))
        };
        question.run_bare(snapshot, u32::MAX, &mut |found| {
            match found {
                FoundBare::Often(_) => {}
                FoundBare::Unit => nodes.clear(),
                FoundBare::Pairs(PairsOfUnit { new, pairs }) => {
                    nodes.extend(new.into_iter().map(nodes_of));
                    for pair in pairs {
                        let [a, b] = pair.map(|number| nodes[number as usize].clone());
                        a.for_each(|a| b.clone().for_each(|b| join(a, b)));
                    }
                }
                FoundBare::Progress { done, all } => flow = progress(done, all),
            }
            flow
        })?;
        if flow.is_continue() {
            Ok(components.sets())
        } else {
            Err(Error::Interrupted)
        }
    }
}

/// The nodes of each fingerprint that have to be visited still.
struct Left {
    /// All nodes. Of those of one fingerprint, the first ones are left.
    nodes: Vec<u32>,
    /// For each near fingerprint, how many are left.
    counts: Vec<u32>,
}

/// The nodes whose neighbours are visited before it is asked whether to go on.
const ASKED_TOGETHER: u64 = 1 << 12;

impl Left {
    fn of(nodes: &Nodes) -> Self {
        let counts = nodes.firsts.windows(2).map(|it| it[1] - it[0]).collect();
        Self {
            nodes: (0..nodes.len() as u32).collect(),
            counts,
        }
    }

    /// Visits the nodes of a fingerprint that are left. Those are left no longer for which `visit` is true.
    fn visit(&mut self, nodes: &Nodes, index: u32, mut visit: impl FnMut(u32) -> bool) {
        let count = &mut self.counts[index as usize];
        let all = &mut self.nodes[nodes.firsts[index as usize] as usize..];
        let mut place = 0;
        while place < *count as usize {
            if visit(all[place]) {
                *count -= 1;
                all.swap(place, *count as usize);
            } else {
                place += 1;
            }
        }
    }
}
