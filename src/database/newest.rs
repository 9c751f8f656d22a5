//! The documents of a near fingerprint, the newest first.

use std::collections::BinaryHeap;

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::source::Numbers;
use crate::store::{DocumentNumber, Reader, ScopeNumber};

/// The documents of a near fingerprint.
#[derive(Default)]
pub(super) struct Group {
    /// The documents in each scope, the newest first. `None` if there may be many.
    pub(super) scopes: Vec<(ScopeNumber, Option<Vec<DocumentNumber>>)>,
    pub(super) documents: u64,
}

/// Which documents of a group are wanted.
#[derive(Clone, Copy)]
pub(super) struct NewestWanted<'n> {
    /// About as many are going to be taken.
    pub(super) limit: usize,
    /// Documents seen before this time may be left out.
    pub(super) since: Option<i64>,
    /// Documents with numbers below this one are left out, if there may be many.
    pub(super) from: DocumentNumber,
    /// Documents of these numbers are left out.
    pub(super) ignored: &'n Numbers,
}

/// The documents of one fingerprint in some scopes, the newest first. It merges the lists of the scopes,
/// and reads them in parts. So a group of millions costs no more than the documents that are taken of
/// it. In a search by time it leaves out documents of blocks that have none that is recent enough.
pub(super) struct NewestFirst<'r> {
    reader: Reader<'r>,
    fingerprint: Fingerprint,
    from: DocumentNumber,
    ignored: &'r Numbers,
    since: Option<i64>,
    part_length: usize,
    scopes: Vec<ScopePart>,
    /// For each scope the newest number that is not taken yet, with the index of the scope in `scopes`.
    heads: BinaryHeap<(DocumentNumber, usize)>,
}

struct ScopePart {
    scope: ScopeNumber,
    /// Numbers that are read and not taken, the oldest first.
    numbers: Vec<DocumentNumber>,
    /// All numbers from this one on have been read.
    read_down_to: DocumentNumber,
}

impl<'r> NewestFirst<'r> {
    pub(super) fn new(
        reader: Reader<'r>,
        fingerprint: Fingerprint,
        group: &Group,
        wanted: NewestWanted<'r>,
    ) -> Result<Self> {
        let NewestWanted {
            limit,
            since,
            from,
            ignored,
        } = wanted;
        // One more than the limit, in case one of them is to be ignored.
        let part_length = limit.saturating_add(1).min(256);
        let part = |(scope, known): &(ScopeNumber, Option<Vec<DocumentNumber>>)| ScopePart {
            scope: *scope,
            numbers: known.iter().flatten().rev().copied().collect(),
            read_down_to: if known.is_some() {
                DocumentNumber::MIN
            } else {
                DocumentNumber::MAX
            },
        };
        let scopes: Vec<ScopePart> = group.scopes.iter().map(part).collect();
        let heads = BinaryHeap::new();
        let mut newest = Self {
            reader,
            fingerprint,
            from,
            ignored,
            since,
            part_length,
            scopes,
            heads,
        };
        for index in 0..newest.scopes.len() {
            newest.advance(index)?;
        }
        Ok(newest)
    }

    pub(super) fn next(&mut self) -> Result<Option<DocumentNumber>> {
        let Some((number, index)) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(index)?;
        Ok(Some(number))
    }

    /// Puts the next number of a scope among the heads.
    fn advance(&mut self, index: usize) -> Result<()> {
        let part = &mut self.scopes[index];
        loop {
            if part.numbers.is_empty() {
                let numbers = self.from..part.read_down_to;
                part.numbers =
                    self.reader
                        .newest(self.fingerprint, part.scope, numbers, self.part_length)?;
                part.numbers.reverse();
                // A part that is not full is the last.
                let full = part.numbers.len() == self.part_length;
                let first = part.numbers.first().filter(|_| full);
                part.read_down_to = first.copied().unwrap_or(DocumentNumber::MIN);
            }
            let Some(number) = part.numbers.pop() else {
                return Ok(());
            };
            let wanted = match (self.since, number.last_outside(self.ignored)) {
                (Some(since), Some(outside)) if outside == number => {
                    self.reader.last_since(number, since)?
                }
                (_, outside) => outside,
            };
            if wanted == Some(number) {
                self.heads.push((number, index));
                return Ok(());
            }
            // Nothing between the two numbers is wanted.
            let below = wanted.map_or(DocumentNumber::MIN, DocumentNumber::next);
            part.numbers
                .truncate(part.numbers.partition_point(|&number| number < below));
            if part.numbers.is_empty() {
                part.read_down_to = part.read_down_to.min(below);
            }
        }
    }
}
