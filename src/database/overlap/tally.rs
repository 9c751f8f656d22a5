//! Which documents have which units of a text: exact for any number of documents, in bounded memory.
//!
//! A sentence such as a notice of copyright may stand in millions of documents. The documents are counted in passes
//! over all matches. A pass counts those of the least keys that were not counted before, as many as there is room for.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::overlap::{OverlapDocument, Wanted};

/// The memory of a pass.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// What a document takes beside its key and its units, with what the allocator adds.
const BYTES_OF_DOCUMENT: usize = 112;
const BYTES_OF_UNIT: usize = size_of::<u32>();

/// The documents of a pass.
pub(super) struct Pass {
    /// Documents before this one were counted by earlier passes.
    begin: Box<[u8]>,
    /// This document and those after it are left for the next pass.
    end: Option<Box<[u8]>>,
    documents: BTreeMap<Box<[u8]>, Counted>,
    bytes: usize,
    most_bytes: usize,
}

struct Counted {
    /// The indexes of the units that it has. Some may be there repeatedly.
    wanted: Vec<u32>,
    /// When the earliest of the matches was seen.
    seen: i64,
}

impl Pass {
    /// The first pass.
    pub(super) fn first(most_bytes: usize) -> Self {
        Self::beginning(Box::default(), most_bytes)
    }

    fn beginning(begin: Box<[u8]>, most_bytes: usize) -> Self {
        Self {
            begin,
            end: None,
            documents: BTreeMap::new(),
            bytes: 0,
            most_bytes,
        }
    }

    /// Adds a match: a document that has the unit with this index.
    pub(super) fn add(&mut self, document: &[u8], wanted: u32, seen: i64) {
        let is_left = self.end.as_deref().is_some_and(|end| document >= end);
        if is_left || document < &*self.begin {
            return;
        }
        match self.documents.get_mut(document) {
            Some(counted) => {
                counted.seen = counted.seen.min(seen);
                if counted.wanted.last() == Some(&wanted) {
                    return;
                }
                counted.wanted.push(wanted);
                self.bytes += BYTES_OF_UNIT;
            }
            None => {
                let counted = Counted {
                    wanted: vec![wanted],
                    seen,
                };
                self.bytes += counted.bytes(document);
                self.documents.insert(document.into(), counted);
            }
        }
        if self.bytes > self.most_bytes {
            self.make_room();
        }
    }

    /// Leaves documents for the next pass, until half of the room is free. One document is kept in any case.
    fn make_room(&mut self) {
        self.bytes = 0;
        for (key, counted) in &mut self.documents {
            counted.tidy();
            self.bytes += counted.bytes(key);
        }
        while self.bytes > self.most_bytes / 2 && self.documents.len() > 1 {
            if let Some((key, counted)) = self.documents.pop_last() {
                self.bytes -= counted.bytes(&key);
                self.end = Some(key);
            }
        }
    }

    /// Adds the documents of this pass to those of the others. Returns the next pass, if any document is left.
    pub(super) fn end(self, wanted: &[Wanted], into: &mut Largest) -> Option<Self> {
        let all: u64 = wanted.iter().map(|wanted| wanted.characters).sum();
        for (key, mut counted) in self.documents {
            counted.tidy();
            let mut document = OverlapDocument {
                key: key.into_vec(),
                units: 0,
                characters: 0,
                share: 0.0,
                first_units: 0,
                seen: counted.seen,
            };
            for index in counted.wanted {
                let wanted = &wanted[index as usize];
                document.units += wanted.units;
                document.characters += wanted.characters;
            }
            document.share = document.characters as f64 / all as f64;
            into.add(document);
        }
        Some(Self::beginning(self.end?, self.most_bytes))
    }
}

impl Counted {
    /// Each unit once.
    fn tidy(&mut self) {
        self.wanted.sort_unstable();
        self.wanted.dedup();
        self.wanted.shrink_to_fit();
    }

    fn bytes(&self, key: &[u8]) -> usize {
        key.len() + self.wanted.len() * BYTES_OF_UNIT + BYTES_OF_DOCUMENT
    }
}

/// The documents with the largest shares of the text, and the number of all.
pub(super) struct Largest {
    list: Vec<OverlapDocument>,
    total: u64,
    limit: usize,
}

impl Largest {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            list: Vec::new(),
            total: 0,
            limit,
        }
    }

    fn add(&mut self, document: OverlapDocument) {
        /// So many more are held, so that memory grows with the limit and not with the documents.
        const MORE: usize = 64;
        self.total += 1;
        self.list.push(document);
        if self.list.len() >= self.limit.saturating_mul(2).saturating_add(MORE) {
            self.keep_largest();
        }
    }

    fn keep_largest(&mut self) {
        let order = |document: &OverlapDocument| (Reverse(document.characters), document.seen);
        self.list
            .sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key)));
        self.list.truncate(self.limit);
    }

    /// The largest, in order, and the number of all.
    pub(super) fn end(mut self) -> (Vec<OverlapDocument>, u64) {
        self.keep_largest();
        (self.list, self.total)
    }
}
