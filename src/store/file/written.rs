//! Written: what a transaction has written and not committed. Its newest documents are in memory. The
//! others are packed, in a file without a name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::edit::Edit;
use super::meta::{Counters, Settings};
use super::overlays::Overlays;
use super::schema::{DOCUMENTS, permuted};
use super::view::ChangedSources;
use super::view::{View, damaged_document};
use crate::document::Document;
use crate::error::Result;
use crate::files::directory_of;
use crate::plan::{Candidates, Probe};
use crate::store::blocks::{
    Blocks, DocumentBlock, DocumentRef, Entry, FileSeed, Packed, pack_documents,
};
use crate::store::engine::{BlockBytes, SpillFile, SpilledBytes};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::Run;

/// What a transaction has written so far.
pub(crate) struct Written {
    pub(crate) overlays: Overlays,
    pub(crate) documents: WrittenDocuments,
    /// The scopes that are new, with their numbers.
    pub(crate) scopes: BTreeMap<String, ScopeNumber>,
    pub(crate) sources: ChangedSources,
    /// Those of the file, with what was written.
    pub(crate) counters: Counters,
}

impl Written {
    /// Nothing is written yet. `counters` are those of the file.
    pub(crate) fn new(settings: &Settings, counters: Counters) -> Self {
        Self {
            overlays: Overlays::new(&settings.plan),
            documents: WrittenDocuments::new(settings.file),
            scopes: BTreeMap::new(),
            sources: ChangedSources::new(),
            counters,
        }
    }
}

/// The documents that a transaction has written, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct WrittenDocuments {
    /// The seed of the database file.
    seed: FileSeed,
    /// The documents in memory.
    newest: DocumentBlock,
    /// The numbers of documents in memory that the transaction has removed again.
    removed: BTreeSet<u64>,
    /// Blocks of documents that wait outside memory.
    spilled: Vec<Packed<u64, SpilledBytes>>,
    file: Option<SpillFile>,
    /// The number of the first document.
    first: Option<DocumentNumber>,
    /// The greatest time seen of all documents, removed or not.
    latest: i64,
    /// The greatest time seen of each [`GROUP`] of documents in memory.
    latest_of_groups: Vec<i64>,
}

/// The documents in memory that a search by time passes over together.
const GROUP: usize = 128;

impl WrittenDocuments {
    /// No documents. `seed` is the seed of the database file.
    pub(crate) fn new(seed: FileSeed) -> Self {
        Self {
            seed,
            newest: DocumentBlock::default(),
            removed: BTreeSet::new(),
            spilled: Vec::new(),
            file: None,
            first: None,
            latest: i64::MIN,
            latest_of_groups: Vec::new(),
        }
    }

    /// Adds a document. Its number is greater than all others.
    pub(crate) fn push(&mut self, number: DocumentNumber, document: &Document) {
        self.first.get_or_insert(number);
        self.latest = self.latest.max(document.seen());
        match self.latest_of_groups.last_mut() {
            Some(latest) if !self.newest.len().is_multiple_of(GROUP) => {
                *latest = document.seen().max(*latest);
            }
            _ => self.latest_of_groups.push(document.seen()),
        }
        self.newest.push(number.0, document);
    }

    /// Removes a document that is still in memory. Returns false for any other document: it must become a
    /// dead document.
    pub(crate) fn remove(&mut self, number: DocumentNumber) -> bool {
        self.newest.find(number.0).is_some() && self.removed.insert(number.0)
    }

    /// Packs the documents in memory into a file, if they take more than the sizes allow. The file has no
    /// name and is in the directory of `path`.
    pub(crate) fn spill_if_long(&mut self, path: &Path, sizes: &Sizes) -> Result<()> {
        if self.newest.memory_bytes() <= sizes.spill_bytes {
            return Ok(());
        }
        let directory = directory_of(path)?;
        let documents: Vec<_> = self.live().collect();
        let packed = pack_documents(&documents, sizes.document_block_bytes, self.seed);
        self.spill(packed, directory)?;
        self.newest = DocumentBlock::default();
        self.latest_of_groups.clear();
        self.removed.clear();
        Ok(())
    }

    fn spill(&mut self, packed: Vec<Packed<u64>>, directory: &Path) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(SpillFile::new(directory)?),
        };
        for block in packed {
            let spilled = file.append(&block.bytes)?;
            self.spilled.push(block.with_bytes(|_| spilled));
        }
        Ok(())
    }

    /// The documents in memory that were not removed.
    pub(crate) fn live(&self) -> impl Iterator<Item = DocumentRef<'_>> {
        self.newest
            .documents()
            .filter(|document| !self.removed.contains(&document.number))
    }

    /// The first number that a document may have that was seen at `since` or later.
    pub(crate) fn first_since(&self, since: i64) -> Option<u64> {
        self.first
            .filter(|_| self.latest >= since)
            .map(|first| first.0)
    }

    /// The last number up to `last` that a document may have that was seen at `since` or later.
    pub(crate) fn last_since(&self, last: u64, since: i64) -> Option<u64> {
        if self.latest < since || self.first.is_none_or(|first| first.0 > last) {
            return None;
        }
        let mut end = self.newest.before(last.saturating_add(1));
        while let Some(index) = end.checked_sub(1) {
            let group = index / GROUP;
            if self.latest_of_groups[group] >= since {
                for index in (group * GROUP..end).rev() {
                    let document = self.newest.get(index);
                    if document.seen >= since {
                        return Some(document.number);
                    }
                }
            }
            end = group * GROUP;
        }
        let reaching = self.spilled.partition_point(|block| block.high < last);
        let end = (reaching + 1).min(self.spilled.len());
        for block in self.spilled[..end].iter().rev() {
            if let Some(extent) = block.extent
                && extent.greatest_seen >= since
            {
                return Some(block.high.min(last));
            }
        }
        None
    }

    /// Takes the blocks outside memory. Their documents come before those in memory.
    fn take_spilled(&mut self) -> Vec<Packed<u64, SpilledBytes>> {
        std::mem::take(&mut self.spilled)
    }

    /// Changes a byte of a block that waits outside memory.
    #[cfg(test)]
    pub(crate) fn damage_waiting(&self) {
        self.spilled.last().expect("a block waits").bytes.damage();
    }

    /// The document of a number, if this transaction wrote it. Removed documents may still be found.
    pub(crate) fn document(&self, number: DocumentNumber) -> Option<Result<Document>> {
        if let Some(index) = self.newest.find(number.0) {
            return Some(document_of(&self.newest, index, number));
        }
        if self.first.is_none_or(|first| first > number) {
            return None;
        }
        let index = self.spilled.partition_point(|block| block.high < number.0);
        let block = self.spilled.get(index)?;
        spilled_document(block, number).transpose()
    }
}

fn document_of(block: &DocumentBlock, index: usize, number: DocumentNumber) -> Result<Document> {
    let document = block.get(index).to_document();
    document.map_err(|problem| damaged_document(number, problem))
}

fn spilled_document(
    block: &Packed<u64, SpilledBytes>,
    number: DocumentNumber,
) -> Result<Option<Document>> {
    let block = DocumentBlock::decode(&block.bytes.load()?);
    let block = block.map_err(|problem| damaged_document(number, problem))?;
    match block.find(number.0) {
        Some(index) => document_of(&block, index, number).map(Some),
        None => Ok(None),
    }
}

/// The fingerprints that a transaction has written. Some may have no document any more.
pub(crate) struct WrittenFingerprints<'w>(&'w Overlays);

impl<'w> WrittenFingerprints<'w> {
    pub(crate) fn new(overlays: &'w Overlays) -> Self {
        Self(overlays)
    }

    /// Those that are not sorted yet, as rows of the first table.
    pub(crate) fn unsorted(&self) -> Candidates<'w> {
        Candidates::new(self.0[permuted(0)].puts().1)
    }

    /// Those that are sorted, as rows of the first table, in parts.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = Candidates<'w>> + use<'w> {
        self.0[permuted(0)]
            .puts()
            .0
            .iter()
            .map(|run| Candidates::new(run.puts()))
    }

    /// The sorted ones in the range of a probe, perhaps with some neighbours, in parts.
    pub(crate) fn probed(&self, probe: &Probe) -> impl Iterator<Item = Candidates<'w>> + use<'w> {
        let first = probe.first;
        let last = probe.last;
        let runs = self.0[permuted(probe.table)].puts().0.iter();
        let puts = runs
            .map(Run::puts)
            .filter(move |puts| puts.may_have(first, last));
        puts.map(move |puts| Candidates::new(puts.around(&(first..=last))))
    }
}

/// If the last block of documents has less than this number of sixteenths of its most bytes, the next
/// commit fills it up.
const FULL_SIXTEENTHS: usize = 13;

/// New blocks of documents at the end of the file.
pub(crate) struct Appended {
    /// The last block of the file, if it is not full and nothing was spilled. Its documents come first in
    /// `blocks`.
    tail: Option<Entry<u64>>,
    blocks: Vec<Packed<u64, BlockBytes>>,
}

impl Appended {
    pub(crate) fn new(
        view: &View,
        written: &mut WrittenDocuments,
        block_bytes: usize,
    ) -> Result<Self> {
        let spilled = written.take_spilled();
        let mut tail = None;
        let of = view.document_blocks();
        let end = view.state().documents.end();
        if let Some(entry) = view.state().documents.entry_before(end, of)?
            && spilled.is_empty()
        {
            let block = of.documents(entry)?;
            if block.stored_bytes() * 16 < block_bytes * FULL_SIXTEENTHS {
                tail = Some((entry.clone(), block));
            }
        }
        let before = tail.iter().flat_map(|(_, block)| block.documents());
        let documents: Vec<_> = before.chain(written.live()).collect();
        let packed = pack_documents(&documents, block_bytes, view.settings().file);
        let mut blocks = Vec::with_capacity(spilled.len() + packed.len());
        for block in spilled {
            blocks.push(block.with_bytes(BlockBytes::from));
        }
        for block in packed {
            blocks.push(block.with_bytes(BlockBytes::from));
        }
        Ok(Self {
            tail: tail.map(|(entry, _)| entry),
            blocks,
        })
    }

    pub(crate) fn apply(self, edit: &mut Edit, of: &Blocks) -> Result<()> {
        let Self { tail, blocks } = self;
        let level = edit.state.documents.clone();
        let end = level.end();
        // Only transactions change the last block, and there is one transaction at a time.
        let from = match tail {
            Some(entry) => level.find(entry.high, of.of_table(DOCUMENTS.table))?,
            None => end,
        };
        edit.state.documents = edit.replace(DOCUMENTS, &level, from..end, blocks, of)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    fn document(number: u64) -> Document {
        Document::new(format!("key {number}"), Fingerprint::from_bits(number))
            .with_seen(number as i64)
    }

    #[test]
    fn documents_are_found_in_memory_and_where_they_were_spilled() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("d.simdb");
        let sizes = Sizes {
            spill_bytes: 1_000,
            document_block_bytes: 300,
            ..Sizes::default()
        };
        let mut written = WrittenDocuments::new(FileSeed(7));
        for number in 10..100 {
            written.push(DocumentNumber(number), &document(number));
            if number % 7 == 0 {
                assert!(written.remove(DocumentNumber(number)));
            }
            written.spill_if_long(&path, &sizes)?;
        }
        assert!(
            !written.remove(DocumentNumber(11)),
            "what was spilled cannot be removed"
        );
        for number in (8..102).map(DocumentNumber) {
            let found = written
                .document(number)
                .transpose()
                .expect("what waits can be read");
            // Removed documents may be in memory until the others are spilled.
            let is_there = (10..100).contains(&number.0) && (number.0 % 7 != 0 || found.is_some());
            assert_eq!(found, is_there.then(|| document(number.0)), "{number:?}");
            // Later documents were seen later.
            for since in [0, 9, 10, 50, 99, 100].map(|since: u64| since.max(10)) {
                let last = written.last_since(number.0, since as i64);
                let right = (number.0 >= since && since < 100).then(|| number.0.min(99));
                // A block outside memory is not read, so it may be that of a later document.
                assert!(
                    last >= right && last.is_none_or(|last| last <= number.0),
                    "{number:?}, {since}"
                );
                assert!(
                    last.is_none_or(|last| last + 40 > since),
                    "{number:?}, {since}: {last:?}"
                );
            }
        }
        assert_eq!(
            (written.first_since(99), written.first_since(100)),
            (Some(10), None)
        );
        let last = written.take_spilled().last().map(|block| block.high);
        let in_memory: Vec<u64> = written.live().map(|document| document.number).collect();
        assert_eq!(
            last.map(|last| last + 1)
                .zip(in_memory.first().copied())
                .map(|(a, b)| b >= a),
            Some(true)
        );
        assert_eq!(in_memory.last(), Some(&99));
        Ok(())
    }
}
