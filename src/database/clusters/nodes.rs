//! Nodes: what clusters are made of. A node stands for the documents of one fingerprint, and of one sketch if
//! similarity counts. From near fingerprints to nodes and their documents.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::iter;
use std::mem;
use std::ops::{ControlFlow, Range};

use foldhash::fast::RandomState;

use super::clustering::{Clustering, Worth};
use super::grouping::{self, Components, NearNodes, Visit};
use super::near_fingerprints::{NearFingerprints, Progress};
use crate::database::pairs::{Found, FoundBare, Keys, PairsOfUnit, Question};
use crate::database::snapshot::Snapshot;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::{DocumentNumber, Read};
use crate::streaming;

/// What the documents of a node have in common: the fingerprint, and the sketch if similarity counts.
type Content = (Fingerprint, Option<Sketch>);

/// The nodes whose fingerprints are near to others, or that have several documents. They are in the order of the
/// indexes of their fingerprints. Near fingerprints have near indexes, so that what is read together lies together.
pub(super) struct Nodes {
    /// For each node, the index of its fingerprint among the near ones.
    indexes: Vec<u32>,
    /// For each near fingerprint its first node, then the number of nodes.
    firsts: Vec<u32>,
    /// For each node, its sketch. Empty if similarity does not count.
    sketches: Vec<Sketch>,
    /// All nodes, in the order in which the first document of each was written.
    written: Vec<u32>,
    /// For each node, the best document.
    pub(super) best: Vec<Worth>,
    /// Each document with its node, in the order in which they were written.
    pub(super) documents: Vec<(u32, DocumentNumber)>,
    /// Documents that are near to one of the snapshot beside, in the order in which they were written.
    pub(super) beside: Vec<(Content, DocumentNumber)>,
    near: NearFingerprints,
    /// The least similarity of near nodes, if similarity counts.
    least: Option<f64>,
}

/// Nodes while documents are read, in the order in which the first document of each was written.
struct Growing {
    /// As those of [`Nodes`].
    indexes: Vec<u32>,
    sketches: Vec<Sketch>,
    best: Vec<Worth>,
    documents: Vec<(u32, DocumentNumber)>,
    beside: Vec<(Content, DocumentNumber)>,
    /// For each near fingerprint its last node, or none.
    last: Vec<u32>,
    /// For each node, the one before it that has the same fingerprint, or none.
    before: Vec<u32>,
    by_hash: NodesByHash,
}

/// Nodes by the hash of their content.
type NodesByHash = HashMap<u64, u32, RandomState>;

/// No node.
const NONE: u32 = u32::MAX;

/// For what is near to documents of a snapshot beside, the nearest of these.
pub(super) type AllBeside = HashMap<Content, Beside, RandomState>;

/// The nearest document of the snapshot beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Beside {
    pub(super) number: DocumentNumber,
    pub(super) distance: u32,
    pub(super) similarity: Option<f64>,
}

impl Beside {
    fn is_nearer(&self, other: &Self) -> bool {
        let by_similarity = other.similarity.partial_cmp(&self.similarity).unwrap_or(Ordering::Equal);
        self.distance.cmp(&other.distance).then(by_similarity).then(self.number.cmp(&other.number)).is_lt()
    }

    /// Finds what is near to documents of a snapshot beside. `None` if `progress` breaks.
    pub(super) fn find_all(
        snapshot: &Snapshot,
        beside: &Snapshot,
        question: &Question,
        progress: Progress<'_>,
    ) -> Result<Option<AllBeside>> {
        let (mut all, mut flow) = (AllBeside::default(), ControlFlow::Continue(()));
        question.run(snapshot, Some(beside), Keys::None, &mut |found| {
            match found {
                Found::Group(_) => {}
                Found::Pair { a, b, distance, similarity } => {
                    let found = Self { number: b.newest, distance, similarity };
                    let nearest = all.entry((a.group.fingerprint, a.sketch)).or_insert(found);
                    if found.is_nearer(nearest) {
                        *nearest = found;
                    }
                }
                Found::Progress { done, all, .. } => flow = progress(done, all),
            }
            flow
        })?;
        Ok(flow.is_continue().then_some(all))
    }
}

/// What one document gives.
enum Seen {
    OfNode { index: u32, sketch: Option<Sketch>, worth: Worth },
    Beside { content: Content, number: DocumentNumber },
}

/// The numbers of documents that are read by one core, one after the other.
const NUMBERS_OF_PART: u64 = 1 << 14;

impl Nodes {
    /// The nodes of near fingerprints. All documents are gone through, on all cores; only those of near fingerprints
    /// are looked at. `None` if `progress` breaks.
    pub(super) fn of(
        near: NearFingerprints,
        beside: &AllBeside,
        snapshot: &Snapshot,
        clustering: &Clustering,
        progress: Progress<'_>,
    ) -> Result<Option<Self>> {
        let least = clustering.question(&snapshot.reader).min_similarity;
        let mut growing = Growing::of(near.len());
        let all_beside: HashSet<Fingerprint, RandomState> = beside.keys().map(|it| it.0).collect();
        let is_beside = |it| !all_beside.is_empty() && all_beside.contains(&it);
        let wanted = |it: Fingerprint| {
            let index = near.index_of(it);
            (index.is_some() || is_beside(it)).then_some((it, index))
        };
        let see = |(fingerprint, index): (_, Option<u32>), number, document: &Document| {
            // Without a sketch, nothing is similar.
            let content = match least {
                None => (fingerprint, None),
                Some(_) => (fingerprint, Some(*document.sketch()?)),
            };
            if !clustering.counts(document) {
                return None;
            }
            if is_beside(fingerprint) && beside.contains_key(&content) {
                return Some(Seen::Beside { content, number });
            }
            Some(Seen::OfNode { index: index?, sketch: content.1, worth: clustering.worth(number, document) })
        };
        let seen = each_document(snapshot, &wanted, &see, progress, &mut |seen| match seen {
            Seen::Beside { content, number } => growing.beside.push((content, number)),
            Seen::OfNode { index, sketch, worth } => {
                let node = growing.node(index, sketch);
                growing.add_document(node, worth);
            }
        })?;
        Ok(seen.is_continue().then(|| growing.grown(near, least)))
    }

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
        self.least.is_none_or(|least| self.similarity(a, b).is_some_and(|it| it >= least))
    }

    /// What adds the indexes of the neighbours of a fingerprint to a list.
    pub(super) fn neighbours(
        &self,
        snapshot: &Snapshot,
        question: &Question,
    ) -> impl Fn(u32, &mut Vec<u32>) -> Result<()> {
        |index, to| self.near.add_neighbours(index, snapshot, question.max_distance, to)
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
                let visit = |other| other != node && visit(other, &|| self.are_similar(node, other));
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
            let near = self.near(self.neighbours(snapshot, question), |done| progress(done, all));
            return grouping::connected(self.len(), near);
        }
        // There are more pairs of fingerprints than are kept, so they are found once more.
        let of_fingerprint = self.near(|_, _| Ok(()), |done| progress(done, all));
        let sets = grouping::connected(self.len(), of_fingerprint)?;
        let mut components = Components::new(self.len());
        (0..).zip(&sets).for_each(|(node, &other)| components.join(node, other, &|| true));
        let mut join = |a, b| components.join(a, b, &|| self.are_similar(a, b));
        let mut flow = ControlFlow::Continue(());
        // For each number of the unit, the nodes.
        let mut nodes: Vec<Range<u32>> = Vec::new();
        let nodes_of = |it| self.near.index_of(it).map_or(0..0, |index| self.of_index(index));
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
        if flow.is_continue() { Ok(components.sets()) } else { Err(Error::Interrupted) }
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
        Self { nodes: (0..nodes.len() as u32).collect(), counts }
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

impl Growing {
    /// No nodes yet, of a number of near fingerprints.
    fn of(near: usize) -> Self {
        Self {
            indexes: Vec::new(),
            sketches: Vec::new(),
            best: Vec::new(),
            documents: Vec::new(),
            beside: Vec::new(),
            last: vec![NONE; near],
            before: Vec::new(),
            by_hash: NodesByHash::default(),
        }
    }

    /// The nodes of a near fingerprint.
    fn of_index(&self, index: u32) -> impl Iterator<Item = u32> {
        let next = |&node: &u32| Some(self.before[node as usize]).filter(|&it| it != NONE);
        iter::successors(Some(self.last[index as usize]).filter(|&it| it != NONE), next)
    }

    /// The node of a content. It is added if there is none.
    fn node(&mut self, index: u32, sketch: Option<Sketch>) -> u32 {
        let Some(sketch) = sketch else {
            let only = self.last[index as usize];
            return if only == NONE { self.add(index, None) } else { only };
        };
        let hash = self.by_hash.hasher().hash_one((index, sketch));
        let is_same =
            |&node: &u32| self.indexes[node as usize] == index && self.sketches[node as usize] == sketch;
        match self.by_hash.get(&hash) {
            None => {
                let node = self.add(index, Some(sketch));
                self.by_hash.insert(hash, node);
                node
            }
            Some(node) if is_same(node) => *node,
            // Another content has the same hash.
            Some(_) => {
                let same = self.of_index(index).find(is_same);
                same.unwrap_or_else(|| self.add(index, Some(sketch)))
            }
        }
    }

    fn add(&mut self, index: u32, sketch: Option<Sketch>) -> u32 {
        let node = self.indexes.len() as u32;
        self.indexes.push(index);
        self.sketches.extend(sketch);
        self.before.push(mem::replace(&mut self.last[index as usize], node));
        node
    }

    fn add_document(&mut self, node: u32, worth: Worth) {
        self.documents.push((node, worth.number()));
        match self.best.get_mut(node as usize) {
            Some(best) if *best < worth => *best = worth,
            Some(_) => {}
            None => self.best.push(worth),
        }
    }

    /// The nodes in the order of their indexes.
    fn grown(self, near: NearFingerprints, least: Option<f64>) -> Nodes {
        let Self { indexes, sketches, best, mut documents, beside, last, before, .. } = self;
        drop((last, before));
        let mut firsts = vec![0; near.len() + 1];
        indexes.iter().for_each(|&index| firsts[index as usize + 1] += 1);
        let mut sum = 0;
        for first in &mut firsts {
            sum += *first;
            *first = sum;
        }
        let mut next = firsts.clone();
        let mut grown: Vec<u32> = vec![NONE; indexes.len()];
        let place_of = |index: &u32| {
            let place = &mut next[*index as usize];
            *place += 1;
            *place - 1
        };
        let written: Vec<u32> = indexes.iter().map(place_of).collect();
        (0..).zip(&written).for_each(|(node, &place)| grown[place as usize] = node);
        documents.iter_mut().for_each(|it| it.0 = written[it.0 as usize]);
        Nodes {
            indexes: grown.iter().map(|&node| indexes[node as usize]).collect(),
            firsts,
            sketches: match sketches.is_empty() {
                true => sketches,
                false => grown.iter().map(|&node| sketches[node as usize]).collect(),
            },
            written,
            best: grown.iter().map(|&node| best[node as usize].clone()).collect(),
            documents,
            beside,
            near,
            least,
        }
    }
}

/// Looks at all documents of wanted fingerprints on all cores, and takes what they give in the order in which they were
/// written. Breaks if `progress` does.
fn each_document<W, T: Send>(
    snapshot: &Snapshot,
    wanted: &(impl Fn(Fingerprint) -> Option<W> + Sync),
    see: &(impl Fn(W, DocumentNumber, &Document) -> Option<T> + Sync),
    progress: Progress<'_>,
    take: &mut impl FnMut(T),
) -> Result<ControlFlow<()>> {
    let all = snapshot.reader.counters().next_document;
    let read = |part: usize, hand_over: &mut dyn FnMut(Result<Vec<T>>) -> ControlFlow<()>| {
        let bound = |part: usize| DocumentNumber::MIN.after(part as u64 * NUMBERS_OF_PART);
        _ = hand_over(seen_of_part(snapshot, bound(part)..bound(part + 1), wanted, see));
    };
    let (mut result, mut flow) = (Ok(()), ControlFlow::Continue(()));
    streaming::in_order(all.div_ceil(NUMBERS_OF_PART) as usize, read, |part, seen| {
        match seen {
            Ok(seen) => seen.into_iter().for_each(&mut *take),
            Err(error) => {
                result = Err(error);
                return ControlFlow::Break(());
            }
        }
        flow = progress(all.min((part as u64 + 1) * NUMBERS_OF_PART), all);
        flow
    });
    result.map(|()| flow)
}

/// What the documents of a part give, in the order in which they were written.
fn seen_of_part<W, T>(
    snapshot: &Snapshot,
    part: Range<DocumentNumber>,
    wanted: &impl Fn(Fingerprint) -> Option<W>,
    see: &impl Fn(W, DocumentNumber, &Document) -> Option<T>,
) -> Result<Vec<T>> {
    let (mut seen, mut next) = (Vec::new(), part.start);
    // The last block reaches into the next part.
    let see = |it, number, document: &Document| (number < part.end).then(|| see(it, number, document))?;
    while next < part.end {
        match snapshot.reader.seen_of_block(next, |it| wanted(it?), see)? {
            Some((of_block, after)) => {
                seen.extend(of_block);
                next = after;
            }
            None => break,
        }
    }
    Ok(seen)
}
