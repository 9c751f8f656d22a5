//! Found: what a pass over a file learns besides the rows.

use super::findings::Findings;
use super::hidden::Hidden;
use crate::store::numbers::DocumentNumber;

/// The repeated hashes of keys that are remembered. They are rare, since the hash is seeded.
const MOST_REPEATED: usize = 1 << 12;

/// What a pass found besides the rows.
pub(super) struct Found {
    pub(super) findings: Findings,
    /// What damaged blocks hide.
    pub(super) hidden: Hidden,
    pub(super) documents: u64,
    pub(super) too_short: u64,
    pub(super) last_document: DocumentNumber,
    /// The number of distinct fingerprints of the postings.
    pub(super) fingerprints: u64,
    /// Hashes that more than one row of the keys has, and whether there are too many to remember.
    pub(super) repeated: Vec<u64>,
    pub(super) too_many_repeated: bool,
    /// The first and the last hash or fingerprint of each part of the keys and of the postings.
    pub(super) key_ends: Vec<PartEnds>,
    pub(super) posting_ends: Vec<PartEnds>,
}

/// The index of a part, and the prefixes of its first and its last row.
pub(super) type PartEnds = (usize, u64, u64);

impl Found {
    pub(super) fn new(tables: usize) -> Self {
        Self {
            findings: Findings::default(),
            hidden: Hidden::nothing(tables),
            documents: 0,
            too_short: 0,
            last_document: DocumentNumber::MIN,
            fingerprints: 0,
            repeated: Vec::new(),
            too_many_repeated: false,
            key_ends: Vec::new(),
            posting_ends: Vec::new(),
        }
    }

    /// Remembers a hash that more than one row of the keys has.
    pub(super) fn repeat(&mut self, hash: u64) {
        if self.repeated.last() == Some(&hash) {
            return;
        }
        if self.repeated.len() < MOST_REPEATED {
            self.repeated.push(hash);
        } else {
            self.too_many_repeated = true;
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.findings.merge(other.findings);
        self.hidden.merge(other.hidden);
        self.documents += other.documents;
        self.too_short += other.too_short;
        self.last_document = self.last_document.max(other.last_document);
        self.fingerprints += other.fingerprints;
        other
            .repeated
            .into_iter()
            .for_each(|hash| self.repeat(hash));
        self.too_many_repeated |= other.too_many_repeated;
        self.key_ends.extend(other.key_ends);
        self.posting_ends.extend(other.posting_ends);
    }
}
