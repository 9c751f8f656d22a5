//! Transaction: the transaction that writes. A document that is put or removed changes every set that knows of
//! it, or none.
//!
//! Written: what a transaction has written and not committed. Its newest documents are in memory. The others are
//! packed, in a file without a name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::events::{Event, Operation as Watched, Watch};
use crate::files::directory_of;
use crate::fingerprint::Fingerprint;
use crate::metrics::{Count, Timed};
use crate::plan::{Candidates, CostModel};
use crate::planted::planted;
use crate::source::{Source, SourceRecord};
use crate::store::blocks::{Blocks, DocumentBlock, DocumentRef, FileSeed, Packed, pack_documents};
use crate::store::engine::{BlockBytes, SpillFile};
use crate::store::file::{
    Change, Counters, DOCUMENTS, Edit, KEYS, Operation, Overlays, Runs, Settings, Shared,
    SourceRows, Turn, View, damaged_document, decoded, permuted,
};
use crate::store::known_sketches::KnownSketches;
use crate::store::merging::{Apply, fold, throttle, wait_for_room_for_a_level};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::Run;

/// A transaction does not go through the log if it has more operations than this multiple of those that may
/// be recent. The log is replayed at opening, so it must not become long.
const MOST_LOGGED: usize = 2;

/// The one transaction that writes. Nothing reaches the file before it commits. Dropping it undoes it.
pub(crate) struct Transaction {
    pub(super) view: Arc<View>,
    pub(super) written: Written,
    /// What goes to the log. `None` if that is too long for it.
    operations: Option<Vec<Operation>>,
    /// The fingerprints of the documents that were removed or replaced.
    removed: HashSet<Fingerprint>,
    /// Whether an operation stopped half-way. Then the sets no longer agree.
    broken: bool,
    // Last, so the next transaction begins when everything else is gone.
    turn: Turn,
}

/// The most fingerprints of a transaction that wait unsorted while it searches for others. A search compares
/// them one by one.
const MOST_COMPARED: usize = 1024;

/// A document with its number.
pub(crate) type Numbered = (DocumentNumber, Document);

impl Transaction {
    /// Begins the transaction whose turn it is.
    pub(crate) fn new(turn: Turn) -> Result<Self> {
        turn.ensure_certain()?;
        let view = turn.view()?;
        let written = Written::new(view.settings(), view.state().counters);
        Ok(Self {
            view,
            written,
            operations: Some(Vec::new()),
            removed: HashSet::new(),
            broken: false,
            turn,
        })
    }

    /// Finds the document of a key that is about to be changed.
    pub(crate) fn find_to_change(&mut self, key: &[u8]) -> Result<Option<Numbered>> {
        self.all_or_broken(|writer| writer.reader().find(key))
    }

    /// Stores a valid document instead of `old`, which [`find_to_change`](Self::find_to_change) found
    /// under its key.
    pub(crate) fn put(&mut self, document: &Document, old: Option<&Numbered>) -> Result<()> {
        self.all_or_broken(|writer| {
            // The new rows are put before the old ones are removed. So a fingerprint that stays is not
            // removed in between.
            writer.link(document)?;
            match old {
                Some((number, old)) => writer.unlink(*number, old, document.fingerprint()),
                None => Ok(()),
            }
        })
    }

    /// Removes a document that was found.
    pub(crate) fn remove(&mut self, (number, document): &Numbered) -> Result<()> {
        self.all_or_broken(|writer| writer.unlink(*number, document, None))
    }

    /// What is committed, without what this transaction has written.
    pub(crate) fn committed(&self) -> Arc<View> {
        self.view.clone()
    }

    /// Sorts the fingerprints that this transaction has written, if many are not sorted.
    pub(crate) fn index_written(&mut self) {
        self.written.overlays.index_permuted(MOST_COMPARED);
    }

    /// The fingerprints that this transaction has written.
    pub(crate) fn written_fingerprints(&self) -> WrittenFingerprints<'_> {
        WrittenFingerprints(&self.written.overlays)
    }

    /// The sketches of the documents that this transaction has written. Of a fingerprint that it has not written,
    /// nothing is known.
    pub(crate) fn written_sketches(&self) -> &KnownSketches {
        &self.written.sketches
    }

    /// Whether this transaction has put or removed a document of this key, or perhaps of another key.
    pub(crate) fn may_have_changed(&self, key: &[u8]) -> bool {
        self.written.overlays[KEYS].may_have(self.view.settings().key_hash(key))
    }

    /// The fingerprints of the documents that this transaction has removed or replaced.
    pub(crate) fn removed_fingerprints(&self) -> &HashSet<Fingerprint> {
        &self.removed
    }

    /// Notes how far a source was read. `None` forgets the source.
    pub(crate) fn put_source(&mut self, name: &[u8], record: Option<SourceRecord>) -> Result<()> {
        self.ensure_whole()?;
        self.written.sources.insert(name.to_vec(), record);
        Ok(())
    }

    /// The record of a source, as this transaction has it.
    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<SourceRecord>> {
        self.turn.ensure_usable()?;
        match self.written.sources.get(name) {
            Some(record) => Ok(record.clone()),
            None => self.view.source(name),
        }
    }

    /// The sources that were there when this transaction began, without those that it has changed.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        self.turn.ensure_usable()?;
        let mut sources = self.view.sources()?;
        sources.retain(|source| !self.written.sources.contains_key(source.name()));
        Ok(sources)
    }

    /// Makes all changes durable at once. If nothing was changed, nothing is written.
    pub(crate) fn commit(self) -> Result<()> {
        self.turn.ensure_usable()?;
        if self.operations.as_ref().is_some_and(Vec::is_empty) && self.written.sources.is_empty() {
            return self.ensure_whole();
        }
        let shared = self.turn.clone();
        let (stored, deleted) = self.stored_and_deleted();
        let watch = Watch::begin(Watched::Commit, &shared.path);
        let committed = watch.end(self.make_durable());
        if committed.is_err() {
            shared.meters.add(Count::FailedCommits, 1);
        }
        let ((), took) = committed?;
        shared.meters.add(Count::Stored, stored);
        shared.meters.add(Count::Deleted, deleted);
        shared.meters.record(Timed::Commit, [took]);
        Event::Committed { stored, deleted }.report(took);
        Ok(())
    }

    /// The number of documents that this transaction has stored, and of those that are gone with it.
    fn stored_and_deleted(&self) -> (u64, u64) {
        let before = self.view.state().counters;
        let stored = self.written.counters.next_document - before.next_document;
        (
            stored,
            before.documents + stored - self.written.counters.documents,
        )
    }

    fn make_durable(self) -> Result<()> {
        self.ensure_whole()?;
        let Self {
            mut view,
            mut written,
            operations,
            turn,
            ..
        } = self;
        let shared = &turn;
        // Until levels are committed, nobody changes any.
        let mut _merging = None;
        if let Some(operations) = &operations {
            throttle(shared, operations.len())?;
            shared.ensure_certain()?;
        } else {
            _merging = Some(wait_for_room_for_a_level(shared)?);
            // The last view does not keep the pages that merges have freed in the meantime.
            view = shared.view()?;
        }
        let block_bytes = shared.sizes.document_block_bytes;
        let append = appended(&view, &mut written.documents, block_bytes)?;
        drop(written.documents);
        let sources = SourceRows::new(written.sources, &view)?;
        let rows = match operations {
            Some(mut operations) => {
                if planted("the log loses its tail") {
                    operations.pop();
                }
                Rows::Logged(operations, written.overlays.into_runs())
            }
            None => {
                let overlays = written.overlays;
                Rows::Folded(fold(overlays, view.state(), view.blocks(), &shared.sizes)?)
            }
        };
        // The view keeps pages that this commit can then use again.
        drop(view);
        let mut sources = Some(sources);
        if planted("a position of a source is committed before its documents") {
            put_sources_alone(shared, &mut sources)?;
        }
        let comes_late = planted("a position of a source is committed late");
        shared.commit_transaction(|edit, of| {
            edit.state.counters = written.counters;
            match rows {
                Rows::Logged(operations, runs) => edit.append(&operations, runs),
                Rows::Folded(apply_fold) => apply_fold(edit, of)?,
            }
            edit.add_scopes(written.scopes);
            if !comes_late && let Some(sources) = sources.take() {
                edit.put_sources(sources);
            }
            append(edit, of)
        })?;
        put_sources_alone(shared, &mut sources)
    }

    /// Whether somebody else waits to write.
    #[cfg(feature = "ingest")]
    pub(crate) fn is_wanted(&self) -> bool {
        self.turn.is_wanted()
    }

    /// Refuses a transaction in which an operation stopped half-way. Every operation begins with this. So it
    /// is known which thread has the transaction.
    pub(crate) fn ensure_whole(&self) -> Result<()> {
        self.turn.ensure_usable()?;
        self.turn.use_here();
        if self.broken {
            Err(Error::Aborted)
        } else {
            Ok(())
        }
    }

    /// Runs one operation. If it fails, the transaction can only be dropped.
    fn all_or_broken<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.ensure_whole()?;
        self.broken = true;
        let value = operation(self)?;
        self.broken = false;
        Ok(value)
    }

    fn link(&mut self, document: &Document) -> Result<()> {
        let number = self.written.counters.next_number()?;
        self.written.counters.count(document);
        self.written.note_sketch(document);
        self.written.documents.push(number, document);
        let shared = &self.turn;
        self.written
            .documents
            .spill_if_long(&shared.target, &shared.sizes)?;
        let scope = self.scope_number_or_new(document.scope())?;
        let settings = self.view.settings();
        let scope = match planted("a document is listed in the wrong scope") {
            true => ScopeNumber::EMPTY,
            false => scope,
        };
        let put = Operation::new(Change::Put, number, document, scope, settings);
        self.apply(put);
        Ok(())
    }

    /// Removes a document. `successor` is the fingerprint of the document that has just replaced it.
    fn unlink(
        &mut self,
        number: DocumentNumber,
        document: &Document,
        successor: Option<Fingerprint>,
    ) -> Result<()> {
        if !planted("a removal is not counted") {
            self.written.counters.uncount(document);
        }
        let next = &mut self.written.counters.next_document;
        if number.0 + 1 == *next && planted("a number is given twice") {
            *next -= 1;
        }
        self.removed.extend(document.fingerprint());
        let fingerprint_gone = match document.fingerprint() {
            fingerprint if fingerprint == successor => false,
            Some(fingerprint) => self.reader().documents_of(fingerprint)? == 1,
            None => false,
        };
        let unstored = self.written.documents.remove(number);
        // With a new number, rows would be marked that were never put.
        let scope = self.reader().scope_number_of(document.scope())?;
        let change = Change::Remove {
            fingerprint_gone,
            unstored,
        };
        let settings = self.view.settings();
        self.apply(Operation::new(change, number, document, scope, settings));
        Ok(())
    }

    fn apply(&mut self, operation: Operation) {
        self.written
            .overlays
            .apply(&operation, &self.view.settings().plan);
        let most = MOST_LOGGED.saturating_mul(self.turn.sizes.recent_operations);
        if let Some(operations) = self
            .operations
            .as_mut()
            .filter(|operations| operations.len() < most)
        {
            operations.push(operation);
        } else {
            self.operations = None;
        }
    }

    fn scope_number_or_new(&mut self, name: &str) -> Result<ScopeNumber> {
        if let Some(number) = self.reader().scope_number(name)? {
            return Ok(number);
        }
        let number = self.written.counters.next_scope()?;
        self.written.scopes.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// Commits rows of sources without the documents that they belong to. Only planted bugs leave any.
fn put_sources_alone(shared: &Shared, sources: &mut Option<SourceRows>) -> Result<()> {
    let Some(sources) = sources.take() else {
        return Ok(());
    };
    shared.commit_transaction(|edit, _| {
        edit.put_sources(sources);
        Ok(())
    })
}

/// The rows of a transaction.
enum Rows {
    /// They go through the log.
    Logged(Vec<Operation>, Runs),
    /// They are too many for the log, and become a new first level of each set. Rows of the log count as newer than
    /// those of levels. So those that are in it go into the new levels too.
    Folded(Apply),
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("counters", &self.written.counters)
            .finish_non_exhaustive()
    }
}

/// What a transaction has written so far.
pub(super) struct Written {
    pub(super) overlays: Overlays,
    pub(super) documents: WrittenDocuments,
    /// The scopes that are new, with their numbers.
    pub(super) scopes: BTreeMap<String, ScopeNumber>,
    sources: BTreeMap<Vec<u8>, Option<SourceRecord>>,
    /// Those of the file, with what was written.
    pub(super) counters: Counters,
    /// Those of the documents that were put, removed or not.
    sketches: KnownSketches,
}

impl Written {
    /// Nothing is written yet. `counters` are those of the file.
    fn new(settings: &Settings, counters: Counters) -> Self {
        Self {
            overlays: Overlays::new(&settings.plan),
            documents: WrittenDocuments::new(settings.file),
            scopes: BTreeMap::new(),
            sources: BTreeMap::new(),
            counters,
            sketches: KnownSketches::default(),
        }
    }

    fn note_sketch(&mut self, document: &Document) {
        if let Some(fingerprint) = document.fingerprint()
            && let Some(sketch) = document.sketch()
        {
            self.sketches.add(fingerprint, Some(sketch));
        }
    }
}

/// The documents that a transaction has written, in the order of their numbers.
#[derive(Debug)]
pub(super) struct WrittenDocuments {
    /// The seed of the database file.
    seed: FileSeed,
    newest: DocumentBlock,
    /// The numbers of documents in memory that the transaction has removed again.
    removed: BTreeSet<u64>,
    /// Blocks of documents that wait outside memory. These documents come before those in memory.
    spilled: Vec<Packed<u64, BlockBytes>>,
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
    fn new(seed: FileSeed) -> Self {
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
    fn push(&mut self, number: DocumentNumber, document: &Document) {
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
    fn remove(&mut self, number: DocumentNumber) -> bool {
        self.newest.find(number.0).is_some() && self.removed.insert(number.0)
    }

    /// Packs the documents in memory into a file, if they take more than the sizes allow. The file has no
    /// name and is in the directory of `path`.
    fn spill_if_long(&mut self, path: &Path, sizes: &Sizes) -> Result<()> {
        if self.newest.memory_bytes() <= sizes.spill_bytes {
            return Ok(());
        }
        let documents: Vec<_> = self.live().collect();
        let packed = pack_documents(&documents, sizes.document_block_bytes, self.seed);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(SpillFile::new(directory_of(path)?)?),
        };
        for block in packed {
            let spilled = file.append(&block.bytes)?;
            self.spilled.push(block.with_bytes(|_| spilled));
        }
        self.newest = DocumentBlock::default();
        self.latest_of_groups.clear();
        self.removed.clear();
        Ok(())
    }

    /// The documents in memory that were not removed.
    fn live(&self) -> impl Iterator<Item = DocumentRef<'_>> {
        self.newest
            .documents()
            .filter(|document| !self.removed.contains(&document.number))
    }

    /// The first number that a document may have that was seen at `since` or later.
    pub(super) fn first_since(&self, since: i64) -> Option<u64> {
        match self.first {
            Some(first) if self.latest >= since => Some(first.0),
            _ => None,
        }
    }

    /// The last number up to `last` that a document may have that was seen at `since` or later.
    pub(super) fn last_since(&self, last: u64, since: i64) -> Option<u64> {
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

    /// The document of a number, if this transaction wrote it. Removed documents may still be found.
    pub(super) fn document(&self, number: DocumentNumber) -> Option<Result<Document>> {
        if let Some(index) = self.newest.find(number.0) {
            return Some(decoded(&self.newest.get(index)));
        }
        if self.first.is_none_or(|first| first > number) {
            return None;
        }
        let index = self.spilled.partition_point(|block| block.high < number.0);
        let block = self.spilled.get(index)?;
        spilled_document(block, number).transpose()
    }
}

fn spilled_document(
    block: &Packed<u64, BlockBytes>,
    number: DocumentNumber,
) -> Result<Option<Document>> {
    let block = DocumentBlock::decode(&block.bytes.load()?);
    let block = block.map_err(damaged_document(number))?;
    match block.find(number.0) {
        Some(index) => decoded(&block.get(index)).map(Some),
        None => Ok(None),
    }
}

/// The fingerprints that a transaction has written. Some may have no document any more.
pub(crate) struct WrittenFingerprints<'w>(&'w Overlays);

impl<'w> WrittenFingerprints<'w> {
    /// What the cost of a query for the sorted ones depends on.
    pub(crate) fn cost_model(&self) -> CostModel {
        let mut all_shares = Vec::with_capacity(self.0.tables());
        for table in 0..self.0.tables() {
            let runs = self.0[permuted(table)].puts().0;
            let largest = runs.iter().max_by_key(|run| run.len());
            all_shares.push(largest.map_or(Vec::new(), Run::shares));
        }
        let lengths: Vec<f64> = self.sorted().map(|rows| rows.len() as f64).collect();
        let rows = lengths.iter().sum();
        CostModel::stored(rows, all_shares, 0, lengths, f64::INFINITY)
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

    /// The sorted ones in a range of a table, perhaps with some neighbours, in parts.
    pub(crate) fn within(
        &self,
        table: usize,
        (first, last): (u64, u64),
    ) -> impl Iterator<Item = Candidates<'w>> + use<'w> {
        let runs = self.0[permuted(table)].puts().0.iter();
        let puts = runs
            .map(Run::puts)
            .filter(move |puts| puts.may_have(first, last));
        puts.map(move |puts| Candidates::new(puts.around(&(first..=last))))
    }
}

/// If the last block of documents has less than this number of sixteenths of its most bytes, the next
/// commit fills it up.
const FULL_SIXTEENTHS: usize = 13;

/// Packs the new blocks of documents at the end of the file. Returns what makes them part of an edit.
fn appended(
    view: &View,
    written: &mut WrittenDocuments,
    block_bytes: usize,
) -> Result<impl FnOnce(&mut Edit, &Blocks) -> Result<()> + use<>> {
    let mut blocks = std::mem::take(&mut written.spilled);
    // The last block of the file, if it is not full and nothing was spilled. Its documents come first.
    let mut tail = None;
    let of = view.document_blocks();
    let end = view.state().documents.end();
    if let Some(entry) = view.state().documents.entry_before(end, of)?
        && blocks.is_empty()
    {
        let block = of.documents(entry)?;
        if block.stored_bytes() * 16 < block_bytes * FULL_SIXTEENTHS {
            tail = Some((entry.high, block));
        }
    }
    let before = tail.iter().flat_map(|(_, block)| block.documents());
    let documents: Vec<_> = before.chain(written.live()).collect();
    let packed = pack_documents(&documents, block_bytes, view.settings().file);
    blocks.reserve(packed.len());
    for block in packed {
        blocks.push(block.with_bytes(BlockBytes::from));
    }
    let tail = tail.map(|(high, _)| high);
    Ok(move |edit: &mut Edit, of: &Blocks| {
        let level = edit.state.documents.clone();
        let end = level.end();
        // Only transactions change the last block, and there is one transaction at a time.
        let from = match tail {
            Some(high) => level.find(high, of.of_table(DOCUMENTS.table))?,
            None => end,
        };
        edit.state.documents = edit.replace(DOCUMENTS, &level, from..end, blocks, of)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests;
