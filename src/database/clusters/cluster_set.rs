//! Cluster set: all near documents of a snapshot and the clusters they make.
//!
//! Clusters are made of nodes. A node stands for the documents of one fingerprint, and of one sketch if similarity
//! counts. All documents are gone through, and those of near fingerprints are put into nodes.

use std::cmp;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::RandomState;

use super::clustering::{Clustering, Worth};
use super::grouping::{self, Components, Places, Visit};
use crate::database::near_search::{NearQuery, NearSearch};
use crate::database::pairs::{FingerprintPairs, Keys, MemberEvent, PairQuery, PairsOfUnit};
use crate::database::snapshot::Snapshot;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::pairs_within;
use crate::sketch::Sketch;
use crate::store::DocumentNumber;

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
            Some(reference) => reference_matches(snapshot, reference, &query, progress)?,
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
            let centres = stars(&nodes, snapshot, &query, |done| progress(done, all))?;
            (centres, None)
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

    pub(super) fn clusters(&self) -> impl Iterator<Item = (DocumentNumber, Vec<Clustered>)> {
        (0..self.len()).map(|index| self.cluster(index))
    }

    /// The documents that are near to one of the reference snapshot, with the number of that. They are in no cluster.
    pub(super) fn near_reference(&self) -> impl Iterator<Item = (DocumentNumber, Clustered)> {
        self.nodes.near_reference.iter().map(|&(content, number)| {
            let nearest = &self.reference_matches[&content];
            (nearest.number, Clustered { number, ..*nearest })
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
    let near = &mut nodes.near(Some((snapshot, query.max_distance)), go_on);
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

/// The nodes whose fingerprints are near to others, or that have several documents. They are in the order of the
/// indexes of their fingerprints. Near fingerprints have near indexes, so that what is read together lies together.
struct Nodes {
    /// For each node, the index of its fingerprint among the near ones.
    indexes: Vec<u32>,
    /// For each near fingerprint its first node, then the number of nodes.
    firsts: Vec<u32>,
    /// For each node, its sketch. Empty if similarity does not count.
    sketches: Vec<Sketch>,
    /// All nodes, in the order in which the first document of each was written.
    written: Vec<u32>,
    /// For each node, the best document.
    best: Vec<Worth>,
    /// Each document with its node, in the order in which they were written.
    documents: Vec<(u32, DocumentNumber)>,
    /// Documents that are near to one of the reference snapshot, in the order in which they were written.
    near_reference: Vec<(Content, DocumentNumber)>,
    near: NearFingerprints,
    /// The least similarity of near nodes, if similarity counts.
    min_similarity: Option<f64>,
}

impl Nodes {
    /// The nodes of near fingerprints. All documents are gone through, on all cores; only those of near fingerprints
    /// are looked at.
    fn read(
        near: NearFingerprints,
        reference_matches: &ReferenceMatches,
        snapshot: &Snapshot,
        clustering: &Clustering,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let reader = snapshot.reader()?;
        let min_similarity = clustering.pair_query(reader)?.min_similarity;
        let documents = DocumentReader {
            snapshot,
            clustering,
            near: &near,
            reference_matches,
            near_reference: reference_matches.keys().map(|content| content.0).collect(),
            looks_at_sketches: min_similarity.is_some(),
        };

        let mut growing = Growing::new(near.len());
        let all = reader.counters().next_document;
        parallel::stream(
            all.div_ceil(NUMBERS_OF_PART) as usize,
            |part, hand_over| {
                let first = DocumentNumber::MIN.after(part as u64 * NUMBERS_OF_PART);
                hand_over(documents.read(first..first.after(NUMBERS_OF_PART))?)
            },
            |part, seen| {
                for seen in seen {
                    match seen {
                        Seen::NearReference(content, number) => {
                            growing.near_reference.push((content, number));
                        }
                        Seen::OfNode {
                            index,
                            sketch,
                            worth,
                        } => {
                            let node = growing.node(index, sketch);
                            growing.add_document(node, worth);
                        }
                    }
                }
                progress(all.min((part as u64 + 1) * NUMBERS_OF_PART), all)
            },
        )?;
        drop(documents);
        Ok(growing.grown(near, min_similarity))
    }

    fn len(&self) -> usize {
        self.indexes.len()
    }

    /// All nodes, in the order of their best documents, the best first.
    fn best_first(&self) -> Vec<u32> {
        let mut order = self.written.clone();
        // Often it is sorted already.
        order.sort_unstable_by(|&a, &b| self.best[b as usize].cmp(&self.best[a as usize]));
        order
    }

    fn nodes_of(&self, index: u32) -> Range<u32> {
        self.firsts[index as usize]..self.firsts[index as usize + 1]
    }

    fn fingerprint(&self, node: u32) -> Fingerprint {
        self.near.fingerprint(self.indexes[node as usize])
    }

    /// The similarity of two nodes, if similarity counts.
    fn similarity(&self, a: u32, b: u32) -> Option<f64> {
        let a = self.sketches.get(a as usize)?;
        let b = self.sketches.get(b as usize)?;
        Some(a.similarity(b).ok()?.jaccard())
    }

    /// Whether nodes with near fingerprints are similar enough.
    fn are_similar(&self, a: u32, b: u32) -> bool {
        // No similarity is below each that there is.
        self.min_similarity.is_none() || self.similarity(a, b) >= self.min_similarity
    }

    /// Visits the nodes near to a node: those of the same fingerprint, and with a snapshot and a max distance those of
    /// its neighbours. Ends when `go_on` fails, which is called now and then.
    fn near<'n>(
        &'n self,
        neighbours: Option<(&'n Snapshot, u32)>,
        mut go_on: impl FnMut(u64) -> Result<()> + 'n,
    ) -> impl FnMut(u32, Visit<'_>) -> Result<()> + 'n {
        let mut left = Left::new(self);
        let mut indexes = Vec::new();
        let mut asked = 0u64;
        move |node: u32, visit: Visit<'_>| {
            asked += 1;
            if asked.is_multiple_of(ASKED_TOGETHER) {
                go_on(asked)?;
            }
            let index = self.indexes[node as usize];
            indexes.clear();
            indexes.push(index);
            if let Some((snapshot, max_distance)) = neighbours {
                self.near
                    .add_neighbours(index, snapshot, max_distance, &mut indexes)?;
            }
            for &index in &indexes {
                left.visit(self, index, |other| {
                    other != node && visit(other, &|| self.are_similar(node, other))
                });
            }
            Ok(())
        }
    }

    /// For each node one node of its component, the same for all of these: the nodes that are connected by chains of
    /// near ones.
    fn connected(
        &self,
        snapshot: &Snapshot,
        query: &PairQuery,
        progress: Progress<'_>,
    ) -> Result<Vec<u32>> {
        let all = self.len() as u64;
        if self.near.has_all() {
            let neighbours = Some((snapshot, query.max_distance));
            let near = &mut self.near(neighbours, |done| progress(done, all));
            return grouping::connected(self.len(), near);
        }

        // There are more pairs of fingerprints than are kept, so they are found once more.
        let sets =
            grouping::connected(self.len(), &mut self.near(None, |done| progress(done, all)))?;
        let mut components = Components::new(self.len());
        for (node, &other) in (0..).zip(&sets) {
            components.join(node, other, &|| true);
        }
        // For each number of the unit, the nodes.
        let mut nodes: Vec<Range<u32>> = Vec::new();
        query.fingerprint_pairs(snapshot, u32::MAX, &mut |found| {
            match found {
                FingerprintPairs::Repeated(_) => {}
                FingerprintPairs::NextUnit => nodes.clear(),
                FingerprintPairs::Pairs(PairsOfUnit { new, pairs }) => {
                    for fingerprint in new {
                        let index = self.near.index_of(fingerprint);
                        nodes.push(index.map_or(0..0, |index| self.nodes_of(index)));
                    }
                    for [a, b] in pairs {
                        for a in nodes[a as usize].clone() {
                            for b in nodes[b as usize].clone() {
                                components.join(a, b, &|| self.are_similar(a, b));
                            }
                        }
                    }
                }
                FingerprintPairs::Progress { done, all } => progress(done, all)?,
            }
            Ok(())
        })?;
        Ok(components.sets())
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
    fn new(nodes: &Nodes) -> Self {
        let firsts = nodes.firsts.windows(2);
        Self {
            nodes: (0..nodes.len() as u32).collect(),
            counts: firsts.map(|bounds| bounds[1] - bounds[0]).collect(),
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

/// Nodes while documents are read, in the order in which the first document of each was written.
struct Growing {
    /// As those of [`Nodes`].
    indexes: Vec<u32>,
    sketches: Vec<Sketch>,
    best: Vec<Worth>,
    documents: Vec<(u32, DocumentNumber)>,
    near_reference: Vec<(Content, DocumentNumber)>,
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

/// The numbers of documents that are read by one core, one after the other.
const NUMBERS_OF_PART: u64 = 1 << 14;

enum Seen {
    OfNode {
        index: u32,
        sketch: Option<Sketch>,
        worth: Worth,
    },
    NearReference(Content, DocumentNumber),
}

/// Reads the documents of near fingerprints, and of those that are near to the reference snapshot.
struct DocumentReader<'r> {
    snapshot: &'r Snapshot,
    clustering: &'r Clustering,
    near: &'r NearFingerprints,
    reference_matches: &'r ReferenceMatches,
    /// The fingerprints of these.
    near_reference: HashSet<Fingerprint, RandomState>,
    looks_at_sketches: bool,
}

impl DocumentReader<'_> {
    /// The documents of a part that count, in the order in which they were written.
    fn read(&self, part: Range<DocumentNumber>) -> Result<Vec<Seen>> {
        let reader = self.snapshot.stored()?;
        let mut seen = Vec::new();
        let mut next = part.start;
        while next < part.end {
            let block = reader.seen_of_block(
                next,
                |fingerprint| self.wanted(fingerprint?),
                // The last block reaches into the next part.
                |wanted, number, document| match number < part.end {
                    true => self.see(wanted, number, &document),
                    false => None,
                },
            )?;
            let Some((of_block, after)) = block else {
                break;
            };
            seen.extend(of_block);
            next = after;
        }
        Ok(seen)
    }

    /// A fingerprint whose documents count, with its index if it is near to others of the snapshot.
    fn wanted(&self, fingerprint: Fingerprint) -> Option<(Fingerprint, Option<u32>)> {
        let index = self.near.index_of(fingerprint);
        let is_wanted = index.is_some() || self.is_near_reference(fingerprint);
        is_wanted.then_some((fingerprint, index))
    }

    fn is_near_reference(&self, fingerprint: Fingerprint) -> bool {
        !self.near_reference.is_empty() && self.near_reference.contains(&fingerprint)
    }

    fn see(
        &self,
        (fingerprint, index): (Fingerprint, Option<u32>),
        number: DocumentNumber,
        document: &Document,
    ) -> Option<Seen> {
        // Without a sketch, nothing is similar.
        let sketch = match self.looks_at_sketches {
            true => Some(*document.sketch()?),
            false => None,
        };
        if !self.clustering.counts(document) {
            return None;
        }
        let content = (fingerprint, sketch);
        if self.is_near_reference(fingerprint) && self.reference_matches.contains_key(&content) {
            return Some(Seen::NearReference(content, number));
        }
        Some(Seen::OfNode {
            index: index?,
            sketch,
            worth: self.clustering.worth(number, document),
        })
    }
}

impl Growing {
    /// No nodes yet, of a number of near fingerprints.
    fn new(fingerprints: usize) -> Self {
        Self {
            indexes: Vec::new(),
            sketches: Vec::new(),
            best: Vec::new(),
            documents: Vec::new(),
            near_reference: Vec::new(),
            last: vec![NONE; fingerprints],
            before: Vec::new(),
            by_hash: NodesByHash::default(),
        }
    }

    /// The node of a content. It is added if there is none.
    fn node(&mut self, index: u32, sketch: Option<Sketch>) -> u32 {
        let Some(sketch) = sketch else {
            let only = self.last[index as usize];
            return match only {
                NONE => self.add(index, None),
                only => only,
            };
        };
        let hash = self.by_hash.hasher().hash_one((index, sketch));
        let Some(&node) = self.by_hash.get(&hash) else {
            let node = self.add(index, Some(sketch));
            self.by_hash.insert(hash, node);
            return node;
        };
        if self.indexes[node as usize] == index && self.sketches[node as usize] == sketch {
            return node;
        }

        // Another content has the same hash.
        let mut node = self.last[index as usize];
        while node != NONE {
            if self.sketches[node as usize] == sketch {
                return node;
            }
            node = self.before[node as usize];
        }
        self.add(index, Some(sketch))
    }

    fn add(&mut self, index: u32, sketch: Option<Sketch>) -> u32 {
        let node = self.indexes.len() as u32;
        self.indexes.push(index);
        self.sketches.extend(sketch);
        self.before
            .push(mem::replace(&mut self.last[index as usize], node));
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
    fn grown(self, near: NearFingerprints, min_similarity: Option<f64>) -> Nodes {
        let Self {
            indexes,
            sketches,
            best,
            mut documents,
            near_reference,
            last,
            before,
            by_hash,
        } = self;
        drop((last, before, by_hash));
        let of_nodes = indexes.iter().map(|&index| index as usize);
        let mut places = Places::new(near.len(), of_nodes);
        let mut written: Vec<u32> = Vec::with_capacity(indexes.len());
        let mut grown: Vec<u32> = vec![NONE; indexes.len()];
        for (node, &index) in (0..).zip(&indexes) {
            let place = places.next(index as usize);
            written.push(place as u32);
            grown[place] = node;
        }
        for (node, _) in &mut documents {
            *node = written[*node as usize];
        }

        Nodes {
            indexes: grown.iter().map(|&node| indexes[node as usize]).collect(),
            firsts: places.starts.iter().map(|&start| start as u32).collect(),
            sketches: match sketches.is_empty() {
                true => sketches,
                false => grown.iter().map(|&node| sketches[node as usize]).collect(),
            },
            written,
            best: grown
                .iter()
                .map(|&node| best[node as usize].clone())
                .collect(),
            documents,
            near_reference,
            near,
            min_similarity,
        }
    }
}

// Near fingerprints: those that several documents have, or that are near to others, and to which. And what is near to
// documents of a reference snapshot.

/// Takes how many parts of a step are done, and how many there are. Fails if nobody wants the rest.
type Progress<'p> = &'p mut dyn FnMut(u64, u64) -> Result<()>;

/// The most neighbours of a fingerprint that are kept. Those of one that has more are looked up when they are needed.
/// So the memory does not grow with the number of pairs, of which a crowd of n fingerprints has n * n / 2.
const MOST_KEPT: u32 = 32;

/// The fingerprints whose finding takes as long as the rest of a query.
const FOUND_PER_QUERY: usize = 256;

/// Near fingerprints. They are named by their indexes.
#[derive(Default)]
struct NearFingerprints {
    indexes: HashMap<Fingerprint, u32, RandomState>,
    fingerprints: Vec<u64>,
    degrees: Vec<u32>,
    /// Where the neighbours begin that are kept of each, and where the last ones end.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
}

impl NearFingerprints {
    fn find(snapshot: &Snapshot, query: &PairQuery, progress: Progress<'_>) -> Result<Self> {
        let mut near = Self::default();
        // A fingerprint and a neighbour of it.
        let mut kept: Vec<(u32, u32)> = Vec::new();
        // For each number of the unit, the index.
        let mut indexes: Vec<u32> = Vec::new();
        query.fingerprint_pairs(snapshot, MOST_KEPT + 1, &mut |found| {
            match found {
                FingerprintPairs::Repeated(fingerprints) => {
                    for fingerprint in fingerprints {
                        near.add(fingerprint);
                    }
                }
                FingerprintPairs::NextUnit => indexes.clear(),
                FingerprintPairs::Pairs(PairsOfUnit { new, pairs }) => {
                    indexes.extend(new.into_iter().map(|fingerprint| near.add(fingerprint)));
                    for [a, b] in pairs {
                        let a = indexes[a as usize];
                        let b = indexes[b as usize];
                        for (index, neighbour) in [(a, b), (b, a)] {
                            if near.keeps_another(index) {
                                kept.push((index, neighbour));
                            }
                        }
                    }
                }
                FingerprintPairs::Progress { done, all } => progress(done, all)?,
            }
            Ok(())
        })?;
        near.sort_in(&kept);
        Ok(near)
    }

    fn add(&mut self, fingerprint: Fingerprint) -> u32 {
        *self.indexes.entry(fingerprint).or_insert_with(|| {
            self.fingerprints.push(fingerprint.bits());
            self.degrees.push(0);
            self.fingerprints.len() as u32 - 1
        })
    }

    /// Counts a neighbour. Whether it is kept.
    fn keeps_another(&mut self, index: u32) -> bool {
        let degree = &mut self.degrees[index as usize];
        *degree = degree.saturating_add(1);
        *degree <= MOST_KEPT
    }

    /// Takes the neighbours, those of each fingerprint one after the other.
    fn sort_in(&mut self, kept: &[(u32, u32)]) {
        let mut places = Places::new(self.len(), kept.iter().map(|kept| kept.0 as usize));
        self.neighbours = vec![0; kept.len()];
        for &(index, neighbour) in kept {
            self.neighbours[places.next(index as usize)] = neighbour;
        }
        self.starts = places.starts;
    }

    fn len(&self) -> usize {
        self.fingerprints.len()
    }

    fn fingerprint(&self, index: u32) -> Fingerprint {
        Fingerprint::from_bits(self.fingerprints[index as usize])
    }

    /// The index of a fingerprint, if it is near to another, or several documents have it.
    fn index_of(&self, fingerprint: Fingerprint) -> Option<u32> {
        self.indexes.get(&fingerprint).copied()
    }

    fn has_all(&self) -> bool {
        self.degrees.iter().all(|&degree| degree <= MOST_KEPT)
    }

    /// Adds the neighbours of a fingerprint to `to`.
    fn add_neighbours(
        &self,
        index: u32,
        snapshot: &Snapshot,
        max_distance: u32,
        to: &mut Vec<u32>,
    ) -> Result<()> {
        let place = index as usize;
        if self.degrees[place] <= MOST_KEPT {
            let kept = self.starts[place]..self.starts[place + 1];
            to.extend_from_slice(&self.neighbours[kept]);
            return Ok(());
        }
        let bits = self.fingerprints[place];
        // To compare with all near fingerprints takes less time than to find many in the tables.
        let few = snapshot.store.sizes.compared_per_query;
        if self.len() <= few + few / FOUND_PER_QUERY * self.degrees[place] as usize {
            for (_, near) in pairs_within(&[bits], Some(&self.fingerprints), max_distance, &[]) {
                if near != index {
                    to.push(near);
                }
            }
            return Ok(());
        }
        let query = [NearQuery {
            fingerprint: Fingerprint::from_bits(bits),
            max_distance,
        }];
        let mut search = NearSearch::new(snapshot.reader()?, &query);
        while let Some(part) = search.next_part()? {
            for (_, near) in &part {
                match self.index_of(near.fingerprint) {
                    Some(near) if near != index => to.push(near),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The content that the documents of a node have in common: the fingerprint, and the sketch if similarity counts.
type Content = (Fingerprint, Option<Sketch>);

/// For the contents that are near to documents of the reference snapshot, the nearest of these, by its number.
type ReferenceMatches = HashMap<Content, Clustered, RandomState>;

/// Finds all contents that are near to documents of the reference snapshot.
fn reference_matches(
    snapshot: &Snapshot,
    reference: &Snapshot,
    query: &PairQuery,
    progress: Progress<'_>,
) -> Result<ReferenceMatches> {
    let mut matches = ReferenceMatches::default();
    query.run(snapshot, Some(reference), Keys::None, &mut |event| {
        match event {
            MemberEvent::Group(_) => {}
            MemberEvent::Pair {
                a,
                b,
                distance,
                similarity,
            } => {
                let fingerprint = a.group.fingerprint;
                let found = Clustered {
                    number: b.newest,
                    fingerprint,
                    distance,
                    similarity,
                };
                let nearest = matches.entry((fingerprint, a.sketch)).or_insert(found);
                if is_nearer(&found, nearest) {
                    *nearest = found;
                }
            }
            MemberEvent::Progress { done, all, .. } => progress(done, all)?,
        }
        Ok(())
    })?;
    Ok(matches)
}

fn is_nearer(a: &Clustered, b: &Clustered) -> bool {
    let by_similarity = b.similarity.partial_cmp(&a.similarity);
    let by_distance = a.distance.cmp(&b.distance);
    by_distance
        .then(by_similarity.unwrap_or(cmp::Ordering::Equal))
        .then(a.number.cmp(&b.number))
        .is_lt()
}
