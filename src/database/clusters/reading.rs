//! From near fingerprints to nodes: all documents are gone through, and those of near fingerprints are put into nodes.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::iter;
use std::mem;
use std::ops::{ControlFlow, Range};

use foldhash::fast::RandomState;

use super::beside::{AllBeside, Content};
use super::clustering::{Clustering, Worth};
use super::near_fingerprints::{NearFingerprints, Progress};
use super::nodes::Nodes;
use crate::database::snapshot::Snapshot;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::DocumentNumber;
use crate::streaming;

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

/// What one document gives.
enum Seen {
    OfNode {
        index: u32,
        sketch: Option<Sketch>,
        worth: Worth,
    },
    Beside {
        content: Content,
        number: DocumentNumber,
    },
}

/// The numbers of documents that are read by one core, one after the other.
const NUMBERS_OF_PART: u64 = 1 << 14;

/// The nodes of near fingerprints. All documents are gone through, on all cores; only those of near fingerprints
/// are looked at. `None` if `progress` breaks.
pub(super) fn read_nodes(
    near: NearFingerprints,
    beside: &AllBeside,
    snapshot: &Snapshot,
    clustering: &Clustering,
    progress: Progress<'_>,
) -> Result<Option<Nodes>> {
    let least = clustering.question(snapshot.reader()?)?.min_similarity;
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
        Some(Seen::OfNode {
            index: index?,
            sketch: content.1,
            worth: clustering.worth(number, document),
        })
    };
    let seen = each_document(snapshot, &wanted, &see, progress, &mut |seen| match seen {
        Seen::Beside { content, number } => growing.beside.push((content, number)),
        Seen::OfNode {
            index,
            sketch,
            worth,
        } => {
            let node = growing.node(index, sketch);
            growing.add_document(node, worth);
        }
    })?;
    Ok(seen.is_continue().then(|| growing.grown(near, least)))
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
        iter::successors(
            Some(self.last[index as usize]).filter(|&it| it != NONE),
            next,
        )
    }

    /// The node of a content. It is added if there is none.
    fn node(&mut self, index: u32, sketch: Option<Sketch>) -> u32 {
        let Some(sketch) = sketch else {
            let only = self.last[index as usize];
            return if only == NONE {
                self.add(index, None)
            } else {
                only
            };
        };
        let hash = self.by_hash.hasher().hash_one((index, sketch));
        let is_same = |&node: &u32| {
            self.indexes[node as usize] == index && self.sketches[node as usize] == sketch
        };
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
    fn grown(self, near: NearFingerprints, least: Option<f64>) -> Nodes {
        let Self {
            indexes,
            sketches,
            best,
            mut documents,
            beside,
            last,
            before,
            ..
        } = self;
        drop((last, before));
        let mut firsts = vec![0; near.len() + 1];
        indexes
            .iter()
            .for_each(|&index| firsts[index as usize + 1] += 1);
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
        (0..)
            .zip(&written)
            .for_each(|(node, &place)| grown[place as usize] = node);
        documents
            .iter_mut()
            .for_each(|it| it.0 = written[it.0 as usize]);
        Nodes {
            indexes: grown.iter().map(|&node| indexes[node as usize]).collect(),
            firsts,
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
    let all = snapshot.reader()?.counters().next_document;
    let read = |part: usize, hand_over: &mut dyn FnMut(Result<Vec<T>>) -> ControlFlow<()>| {
        let bound = |part: usize| DocumentNumber::MIN.after(part as u64 * NUMBERS_OF_PART);
        _ = hand_over(seen_of_part(
            snapshot,
            bound(part)..bound(part + 1),
            wanted,
            see,
        ));
    };
    let (mut result, mut flow) = (Ok(()), ControlFlow::Continue(()));
    streaming::in_order(
        all.div_ceil(NUMBERS_OF_PART) as usize,
        read,
        |part, seen| {
            match seen {
                Ok(seen) => seen.into_iter().for_each(&mut *take),
                Err(error) => {
                    result = Err(error);
                    return ControlFlow::Break(());
                }
            }
            flow = progress(all.min((part as u64 + 1) * NUMBERS_OF_PART), all);
            flow
        },
    );
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
    let see =
        |it, number, document: &Document| (number < part.end).then(|| see(it, number, document))?;
    while next < part.end {
        match snapshot
            .stored()?
            .seen_of_block(next, |it| wanted(it?), see)?
        {
            Some((of_block, after)) => {
                seen.extend(of_block);
                next = after;
            }
            None => break,
        }
    }
    Ok(seen)
}
