//! Expiry: removes all documents that meet some conditions, by time and by scope, step by step, or lists them.
//!
//! Selection: which documents are to go, and which blocks may have some of them. By time, the extents of the directory
//! tell which blocks may have older documents. By scope, the postings list the documents that have a fingerprint. To go
//! through all postings costs a fraction of what it costs to go through all documents. For documents without a
//! fingerprint, the extents tell which blocks may have some.
//!
//! Batch: many documents that are to go, gathered from a snapshot. For each, it is known whether another
//! document may have its fingerprint. That takes one look at the postings for each fingerprint. In the order of
//! the fingerprints, many are in one block. So a batch has far more documents than a transaction may remove.
//!
//! Step: a part of a batch, made ready to be removed by one transaction. A step is prepared without the right to
//! write, from the last commit. In its transaction it is only compared with what was committed in the meantime.
//! So other writers wait for little more than the commit.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::metrics::Count;
use crate::planted::planted;
use crate::store::blocks::{
    BlockId, Blocks, DocumentBlock, DocumentRef, Extent, FileSeed, Lists, scope_bit,
};
use crate::store::file::{
    Change, Counters, DEAD, DOCUMENTS, Edit, Operation, POSTINGS, Runs, Shared, Turn, View,
    all_listed, damaged_document, decoded, fingerprint_of, number_of, runs_of, scope_of,
};
use crate::store::merging::wait_for_merges;
use crate::store::numbers::{DocumentNumber, ReadScopes, ScopeNumber};
use crate::store::read::Reader;
use crate::store::sorted_set::{Marks, Position, Searched, SetLevel, read_ranges};

/// Which documents are to go: those that meet all conditions that are given.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Only documents seen before this time.
    pub(crate) before: Option<i64>,
    /// Only documents of these scopes.
    pub(crate) scopes: Option<BTreeSet<String>>,
}

/// The most documents whose numbers are kept. With more, all blocks are looked at.
const MOST_LISTED: usize = 4 << 20;

/// The documents of a file that are to go.
struct Selection<'a> {
    conditions: &'a Conditions,
    /// The bits of the scopes, as extents have them.
    bits: u64,
    /// The numbers of the documents that the postings list under the scopes, in order. `None` if all blocks
    /// are to be looked at.
    listed: Option<Vec<u64>>,
    /// Numbers that no document of the scopes without a fingerprint has, as was found last.
    all_posted: Cell<Range<u64>>,
    /// Documents from this number on came later, and stay.
    end: u64,
}

/// A block that may have documents to go.
struct SelectedBlock {
    id: BlockId,
    /// The number of its last document.
    high: u64,
    block: Arc<DocumentBlock>,
    /// The numbers of those of its documents that are dead.
    dead: Vec<u64>,
}

impl<'a> Selection<'a> {
    /// The documents of `view` that meet the conditions.
    fn new(view: &View, conditions: &'a Conditions) -> Result<Self> {
        let mut selection = Self {
            conditions,
            bits: 0,
            listed: None,
            all_posted: Cell::default(),
            end: view.state().counters.next_document,
        };
        let Some(scopes) = &conditions.scopes else {
            return Ok(selection);
        };
        for scope in scopes {
            selection.bits |= scope_bit(scope);
        }
        let postings = &view.state().sets[POSTINGS];
        let mut blocks = 0;
        for SetLevel { level, .. } in &postings.levels {
            blocks += level.blocks();
        }
        let documents = &view.state().documents;
        // A block of postings costs about as much as a block of documents.
        if blocks < documents.most_wanted(|extent| selection.may_be_older(extent)) {
            selection.listed = listed(view, scopes)?;
        }
        Ok(selection)
    }

    /// Whether a block with this extent may have documents that are seen early enough.
    fn may_be_older(&self, extent: &Extent) -> bool {
        match self.conditions.before {
            Some(before) => extent.least_seen < before,
            None => true,
        }
    }

    /// The documents of a block that are to go.
    fn documents_of<'b>(&self, block: &'b SelectedBlock) -> Result<Vec<DocumentRef<'b>>> {
        let Conditions { before, scopes } = self.conditions;
        let mut taken = Vec::new();
        for document in block.block.documents() {
            let late = i64::from(planted("an expiry is late by a second"));
            if document.number >= self.end
                || before.is_some_and(|before| document.seen >= before - late)
                || block.dead.binary_search(&document.number).is_ok()
            {
                continue;
            }
            if let Some(scopes) = scopes
                && !scopes.contains(scope_name(&document)?)
            {
                continue;
            }
            taken.push(document);
        }
        Ok(taken)
    }

    /// The first block that may have documents to go, with numbers from `from` on.
    fn next_block(&self, view: &View, from: u64) -> Result<Option<SelectedBlock>> {
        let Some(position) = self.next_position(view, from)? else {
            return Ok(None);
        };
        let blocks = view.document_blocks();
        let Some(entry) = view.state().documents.entry(position, blocks)? else {
            return Ok(None);
        };
        let block = blocks.documents_once(entry)?;
        let first = block.documents().next().map_or(0, |first| first.number);
        Ok(Some(SelectedBlock {
            id: entry.id,
            high: entry.high,
            block,
            dead: view.set(DEAD).rows(&(first..=entry.high))?,
        }))
    }

    /// The number from which on to look for the block after another one. `None` if there is none.
    fn after(&self, block: &SelectedBlock) -> Option<u64> {
        let next = block.high + 1;
        (next < self.end).then_some(next)
    }

    fn next_position(&self, view: &View, from: u64) -> Result<Option<Position>> {
        let documents = &view.state().documents;
        let blocks = view.document_blocks();
        let mut position = documents.find(from, blocks)?;
        loop {
            position = match &self.listed {
                Some(listed) => {
                    let before = documents.entry_before(position, blocks)?;
                    let low = before.map_or(from, |entry| from.max(entry.high + 1));
                    let next = listed.partition_point(|&number| number < low);
                    let by_number = match listed.get(next) {
                        Some(&number) => documents.find(number, blocks)?,
                        None => documents.end(),
                    };
                    by_number.min(self.next_unposted(view, position, low)?)
                }
                None => {
                    documents.next_wanted(position, |extent| self.may_be_older(extent), blocks)?
                }
            };
            match documents.extent(position, blocks)? {
                None => return Ok(None),
                Some(extent) if self.may_be_older(&extent) => return Ok(Some(position)),
                Some(_) => position = documents.after(position, 1),
            }
        }
    }

    /// The first block from a position on that may have documents of the scopes without a fingerprint. Documents from
    /// there on have numbers from `low` on.
    ///
    /// Where there are few of them, or none, the whole directory would be gone through for each block.
    fn next_unposted(&self, view: &View, position: Position, low: u64) -> Result<Position> {
        let documents = &view.state().documents;
        let blocks = view.document_blocks();
        let mut known = self.all_posted.take();
        if !known.contains(&low) {
            let has_unposted = |extent: &Extent| extent.unposted & self.bits != 0;
            let found = documents.next_wanted(position, has_unposted, blocks)?;
            let before = documents.entry_before(found, blocks)?;
            let end = match before {
                _ if found == documents.end() => u64::MAX,
                Some(before) => before.high + 1,
                None => 0,
            };
            known = low..end;
        }
        let end = known.end;
        self.all_posted.set(known);
        Ok(position.max(documents.find(end, blocks)?))
    }
}

fn scope_name<'d>(document: &'d DocumentRef<'_>) -> Result<&'d str> {
    document
        .scope()
        .map_err(damaged_document(DocumentNumber(document.number)))
}

/// The numbers of the documents that the postings list under some scopes, and perhaps of some that are dead.
/// `None` if they are too many.
fn listed(view: &View, scopes: &BTreeSet<String>) -> Result<Option<Vec<u64>>> {
    let mut wanted = BTreeSet::new();
    for scope in scopes {
        if scope.is_empty() {
            wanted.insert(ScopeNumber::EMPTY);
        } else {
            wanted.extend(view.scope_number(scope)?);
        }
    }
    let postings = view.set(POSTINGS);
    let mut numbers = Vec::new();
    let mut rows = Lists::default();
    for range in postings.parts()? {
        postings.puts(&range, &mut rows)?;
        for &row in &rows.puts {
            if wanted.contains(&scope_of(row)) {
                numbers.push(number_of(row).0);
            }
        }
        if numbers.len() > MOST_LISTED {
            return Ok(None);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Some(numbers))
}

/// Called with the number of documents that are removed so far. The expiry ends at its error.
pub(crate) type Removed<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// Called with each document that would be removed.
type ToExpire<'a> = &'a mut dyn FnMut(Document) -> Result<()>;

/// The most operations of a step, and the least that steps are cut down to.
const MOST_OF_A_STEP: usize = 25_000;
const LEAST_OF_A_STEP: usize = 500;
/// If a step keeps others from writing for longer than this, the next is smaller.
const LONGEST_TURN: Duration = Duration::from_millis(8);
/// How often a step is prepared anew because others have written, before they have to wait for it.
const MOST_TRIES: usize = 2;

/// Goes through the documents of a view that meet the conditions, in the order in which they were written, until
/// there are none or `each` fails. Reads the blocks that an expiry would read, and no others.
pub(crate) fn list_expired(view: &View, conditions: &Conditions, each: ToExpire<'_>) -> Result<()> {
    let selection = Selection::new(view, conditions)?;
    let mut next = Some(0);
    while let Some(from) = next
        && let Some(block) = selection.next_block(view, from)?
    {
        for document in selection.documents_of(&block)? {
            each(decoded(&document)?)?;
        }
        next = selection.after(&block);
    }
    Ok(())
}

/// Removes the documents that meet the conditions, until there are none or `removed` interrupts. Returns their
/// number. Documents that come meanwhile stay.
pub(crate) fn expire(
    shared: &Arc<Shared>,
    conditions: &Conditions,
    removed: Removed<'_>,
) -> Result<u64> {
    let most = MOST_OF_A_STEP.min(shared.sizes.recent_operations);
    let mut expirer = Expirer {
        shared,
        most,
        size: most,
        total: 0,
    };
    // What was removed until then stays so, and is counted.
    Error::unless_interrupted(expirer.remove_all(conditions, removed))?;
    Ok(expirer.total)
}

struct Expirer<'a> {
    shared: &'a Arc<Shared>,
    /// The most operations of a step.
    most: usize,
    /// The most operations of the next step.
    size: usize,
    /// The number of documents that are removed.
    total: u64,
}

impl Expirer<'_> {
    fn remove_all(&mut self, conditions: &Conditions, removed: Removed<'_>) -> Result<()> {
        let selection = Selection::new(&*self.shared.view()?, conditions)?;
        let mut next = Some(0);
        while let Some(from) = next {
            let batch = Batch::gather(&*self.shared.view()?, &selection, from, self.most)?;
            let left_out = self.remove_batch(&batch, removed)?;
            next = left_out.or(batch.next);
        }
        Ok(())
    }

    /// Removes the documents of a batch. Returns the number of the first document that was left out.
    fn remove_batch(&mut self, batch: &Batch, removed: Removed<'_>) -> Result<Option<u64>> {
        let mut newcomers = Newcomers {
            fingerprints: HashSet::new(),
            next: batch.known_to,
        };
        let mut left_out = None;
        let mut rest = &batch.blocks[..];
        while !rest.is_empty() {
            let (blocks, others) = rest.split_at(self.blocks_of_a_step(rest));
            rest = others;
            let step = self.step(batch, blocks, &mut newcomers)?;
            left_out = left_out.or(step);
            removed(self.total)?;
        }
        Ok(left_out)
    }

    /// The number of the first blocks that make a step together.
    fn blocks_of_a_step(&self, blocks: &[ExpiredBlock]) -> usize {
        let mut operations = 0;
        for (count, block) in blocks.iter().enumerate() {
            operations += block.max_operations;
            if operations > self.size {
                return count.max(1);
            }
        }
        blocks.len()
    }

    /// Removes the documents of some blocks. Returns the number of the first document that was left out.
    fn step(
        &mut self,
        batch: &Batch,
        blocks: &[ExpiredBlock],
        newcomers: &mut Newcomers,
    ) -> Result<Option<u64>> {
        for tries in 0.. {
            // Merges that are behind would hold up the commit, and with it everybody who wants to write.
            wait_for_merges(self.shared)?;
            let mut step = Step::prepare(&*self.shared.view()?, batch, blocks, newcomers)?;
            if step.operations.is_empty() {
                return Ok(step.left_out);
            }
            let turn = Turn::wait(self.shared)?;
            turn.ensure_certain()?;
            let begun = Instant::now();
            if !step.is_right_for(&*turn.view()?)? {
                if tries < MOST_TRIES {
                    continue;
                }
                step = Step::prepare(&*self.shared.view()?, batch, blocks, newcomers)?;
            }
            let removed = step.removed;
            let left_out = step.left_out;
            let committed = turn.commit_transaction(|edit, blocks| step.apply(edit, blocks));
            drop(turn);
            match committed {
                Ok(()) => {}
                Err(NotApplied::Moved) => continue,
                Err(NotApplied::Failed(error)) => return Err(error),
            }
            self.total += removed;
            self.shared.meters.add(Count::Expired, removed);
            self.adapt(begun.elapsed());
            return Ok(left_out);
        }
        unreachable!("a step is tried until it is done")
    }

    /// Makes the next step larger or smaller, by the time that this one kept others from writing.
    fn adapt(&mut self, took: Duration) {
        if took > LONGEST_TURN {
            self.size = (self.size * 3 / 4).max(LEAST_OF_A_STEP.min(self.most));
        } else {
            self.size = (self.size + self.size / 8 + 1).min(self.most);
        }
    }
}

/// The most documents of a batch. Each takes 40 bytes.
const MOST_DOCUMENTS: usize = 1 << 19;
/// A fingerprint with more rows than this in a part of a level, with neighbours, is taken to be shared.
const FEW_ROWS: usize = 256;

/// The removal of a document that is to go. It says that the fingerprint goes with it, unless another document may
/// have had it when the batch was gathered.
fn removal_of(view: &View, document: &DocumentRef<'_>) -> Result<Operation> {
    Ok(Operation {
        change: Change::Remove {
            fingerprint_gone: document.fingerprint.is_some(),
            unstored: false,
        },
        number: DocumentNumber(document.number),
        key_hash: view.settings().key_hash(document.key),
        fingerprint: document.fingerprint,
        scope: Reader::new(view).scope_number_of(scope_name(document)?)?,
    })
}

/// Says whether the fingerprint goes with a removed document.
fn set_fingerprint_gone(removal: &mut Operation, is_gone: bool) {
    if let Change::Remove {
        fingerprint_gone, ..
    } = &mut removal.change
    {
        *fingerprint_gone = is_gone;
    }
}

/// The documents of one block that are to go.
#[derive(Debug)]
struct ExpiredBlock {
    id: BlockId,
    /// The number of the last document of the block.
    high: u64,
    /// The number of its documents, dead or not. `None` if those that are to go are too many for one step, and these
    /// are some of them.
    of_block: Option<usize>,
    /// The number of operations that its step needs for it, at most.
    max_operations: usize,
    /// The indexes of those that are to go, among those of the batch.
    expired: Range<usize>,
}

/// Many documents that are to go.
struct Batch {
    /// The file that they are in. A compaction makes another one, whose blocks have other places, and from which what
    /// was removed is gone.
    file: FileSeed,
    expired: Vec<Operation>,
    /// In order.
    blocks: Vec<ExpiredBlock>,
    /// The next batch begins at this number. `None` if there is none.
    next: Option<u64>,
    /// Documents from this number on were not there yet when fingerprints were looked up.
    known_to: u64,
}

impl Batch {
    /// Gathers documents of `view` with numbers from `from` on. A part of a block has at most `most`.
    fn gather(view: &View, selection: &Selection<'_>, from: u64, most: usize) -> Result<Self> {
        let mut batch = Self {
            file: view.settings().file,
            expired: Vec::new(),
            blocks: Vec::new(),
            next: Some(from),
            known_to: view.state().counters.next_document,
        };
        let enough = MOST_DOCUMENTS.min(most.saturating_mul(8));
        while let Some(next) = batch.next
            && batch.expired.len() < enough
        {
            batch.next = None;
            if let Some(block) = selection.next_block(view, next)? {
                batch.next = selection.after(&block);
                batch.add(view, selection, &block, most)?;
            }
        }
        batch.find_shared(view)?;
        Ok(batch)
    }

    /// Adds the documents of a block that are to go.
    fn add(
        &mut self,
        view: &View,
        selection: &Selection<'_>,
        block: &SelectedBlock,
        most: usize,
    ) -> Result<()> {
        let begin = self.expired.len();
        for document in selection.documents_of(block)? {
            self.expired.push(removal_of(view, &document)?);
        }
        let expired = begin..self.expired.len();
        if expired.len() <= most {
            // A block that goes as a whole needs an operation for each of its dead documents too.
            let all = block.block.len();
            let is_whole = expired.len() + block.dead.len() == all;
            self.blocks.push(ExpiredBlock {
                id: block.id,
                high: block.high,
                of_block: Some(all),
                max_operations: if is_whole { all } else { expired.len() },
                expired,
            });
            return Ok(());
        }
        for begin in expired.clone().step_by(most) {
            let part = begin..(begin + most).min(expired.end);
            self.blocks.push(ExpiredBlock {
                id: block.id,
                high: block.high,
                of_block: None,
                max_operations: part.len(),
                expired: part,
            });
        }
        Ok(())
    }

    /// Finds the fingerprints that other documents may have. If a source has another document of the
    /// fingerprint, it may be one that a newer source removes.
    fn find_shared(&mut self, view: &View) -> Result<()> {
        let reader = view.set(POSTINGS);
        let mut wanted = Vec::with_capacity(self.expired.len());
        for (index, expired) in self.expired.iter().enumerate() {
            if let Some(fingerprint) = expired.fingerprint {
                wanted.push((fingerprint, index));
            }
        }
        let expired = &mut self.expired;
        let read = read_ranges(
            Marks::Ignored,
            FEW_ROWS,
            |ranges| {
                for of in wanted {
                    let (first, last) = all_listed(of.0).into_inner();
                    ranges.add(&reader, &[Searched { of, first, last }]);
                }
            },
            |range: &Searched<u128, (Fingerprint, usize)>, puts: &[u128], _: &[u128]| {
                let (fingerprint, index) = range.of;
                let removal = &mut expired[index];
                let is_shared = puts.iter().any(|&row| {
                    fingerprint_of(row) == fingerprint && number_of(row) != removal.number
                });
                if is_shared {
                    set_fingerprint_gone(removal, false);
                }
            },
        )?;
        for (_, index) in read.too_long {
            set_fingerprint_gone(&mut expired[index], false);
        }
        Ok(())
    }
}

/// The most places at which a step takes whole blocks out of the file. Each place costs a part of a
/// directory. The documents of further blocks become dead, and merges take their blocks away.
const MOST_CUTS: usize = 16;
/// The fingerprints whose documents are counted together.
const COUNTED_TOGETHER: usize = 1024;
/// With more new documents than this, a step is prepared again.
const MOST_NEW: u64 = 20_000;

/// The fingerprints of documents that came after a batch was gathered.
struct Newcomers {
    fingerprints: HashSet<Fingerprint>,
    /// The number of the first document that was not looked at.
    next: u64,
}

impl Newcomers {
    /// Adds those that a view has.
    fn update(&mut self, view: &View) -> Result<()> {
        self.fingerprints
            .extend(fingerprints_from(view, self.next)?);
        self.next = view.state().counters.next_document;
        Ok(())
    }
}

/// The fingerprints of the documents with numbers from `from` on.
fn fingerprints_from(view: &View, mut from: u64) -> Result<Vec<Fingerprint>> {
    let mut fingerprints = Vec::new();
    while let Some((last, live)) = view.stored_documents(from)? {
        from = last + 1;
        for document in live?.iter() {
            fingerprints.extend(document.fingerprint);
        }
    }
    Ok(fingerprints)
}

/// Neighbouring blocks that a step takes out of the file.
struct Cut {
    /// The numbers of the last documents of the first and of the last block.
    highs: RangeInclusive<u64>,
    ids: Vec<BlockId>,
}

/// A step that is ready to be committed.
struct Step {
    file: FileSeed,
    generation: u64,
    counters: Counters,
    operations: Vec<Operation>,
    runs: Runs,
    cuts: Vec<Cut>,
    /// The fingerprints of its documents, in order.
    fingerprints: Vec<Fingerprint>,
    removed: u64,
    too_short: u64,
    /// The number of the first document of a block that was written anew after the batch was gathered. It has
    /// to be gathered again.
    left_out: Option<u64>,
}

impl Step {
    /// Prepares the removal of the documents of some blocks of a batch, as of `view`.
    fn prepare(
        view: &View,
        batch: &Batch,
        blocks: &[ExpiredBlock],
        newcomers: &mut Newcomers,
    ) -> Result<Self> {
        if !planted("an expiry does not look at new documents") {
            newcomers.update(view)?;
        }
        let mut removal = Removal {
            view,
            batch,
            documents: Vec::new(),
            forgotten: Vec::new(),
            left_out: None,
            cuts: Vec::new(),
        };
        for block in blocks {
            removal.add_block(block)?;
        }
        removal.find_last_of_fingerprints(newcomers)?;
        Ok(removal.into_step())
    }

    /// Whether the step is right for a later view too.
    fn is_right_for(&self, view: &View) -> Result<bool> {
        // Another file may have other tables, and its generations begin anew.
        if is_other_file(view, self.file) {
            return Ok(false);
        }
        if view.state().generation() == self.generation
            || planted("a step of an expiry is not compared with what was committed")
        {
            return Ok(true);
        }
        let before = self.counters;
        let now = view.state().counters;
        let new = now.next_document - before.next_document;
        // Whatever was removed might be one of these, or the last other document of a fingerprint.
        if now.documents != before.documents + new || new > MOST_NEW {
            return Ok(false);
        }
        for fingerprint in fingerprints_from(view, before.next_document)? {
            if self.fingerprints.binary_search(&fingerprint).is_ok() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the step part of an edit. It must be [right](Self::is_right_for) for the last transaction.
    fn apply(self, edit: &mut Edit, blocks: &Blocks) -> Result<(), NotApplied> {
        let counters = &mut edit.state.counters;
        counters.documents -= self.removed;
        counters.too_short -= self.too_short;
        edit.append(&self.operations, self.runs);
        let of = blocks.of_table(DOCUMENTS.table);
        for Cut { highs, ids } in self.cuts {
            let level = edit.state.documents.clone();
            let positions = level.overlapping(&highs, of)?;
            let entries = level.entries(positions.clone(), of)?;
            if !entries.map(|entry| entry.id).eq(ids) {
                return Err(NotApplied::Moved);
            }
            edit.state.documents =
                edit.replace::<u64, Vec<u8>>(DOCUMENTS, &level, positions, Vec::new(), blocks)?;
        }
        Ok(())
    }
}

/// Whether a view is of another file, as after a compaction.
fn is_other_file(view: &View, file: FileSeed) -> bool {
    view.settings().file != file && !planted("an expiry goes on in another file")
}

/// Why a step was not applied. Then nothing is committed.
enum NotApplied {
    /// A merge has written one of the blocks anew.
    Moved,
    Failed(Error),
}

impl From<Error> for NotApplied {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The documents that a step removes, as far as they are known.
struct Removal<'a> {
    view: &'a View,
    batch: &'a Batch,
    documents: Vec<Operation>,
    /// The dead documents of blocks that are taken out as a whole.
    forgotten: Vec<u64>,
    left_out: Option<u64>,
    /// Blocks that are taken out as a whole.
    cuts: Vec<Cut>,
}

/// Where a block is among the others.
struct BlockPlace {
    before: Option<BlockId>,
    /// The least number that a document of it may have.
    low: u64,
}

impl Removal<'_> {
    /// Adds the documents of a block. Takes the block out as a whole if no other document is left in it.
    fn add_block(&mut self, block: &ExpiredBlock) -> Result<()> {
        let expired = &self.batch.expired[block.expired.clone()];
        let Some(first) = expired.first() else {
            return Ok(());
        };
        let Some(place) = self.place_of(block)? else {
            self.left_out.get_or_insert(first.number.0);
            return Ok(());
        };
        let dead = self.view.set(DEAD).rows(&(place.low..=block.high))?;
        let begin = self.documents.len();
        for removal in expired {
            if dead.binary_search(&removal.number.0).is_err() {
                self.documents.push(*removal);
            }
        }
        let live = &mut self.documents[begin..];
        let is_whole = !live.is_empty() && block.of_block == Some(live.len() + dead.len());
        // The dead documents of whole blocks are forgotten.
        if is_whole && cut(&mut self.cuts, block, place.before) {
            for removal in live {
                if let Change::Remove { unstored, .. } = &mut removal.change {
                    *unstored = true;
                }
            }
            self.forgotten.extend(dead);
        }
        Ok(())
    }

    /// The place of a block. `None` if a merge or a compaction has written the block anew.
    fn place_of(&self, block: &ExpiredBlock) -> Result<Option<BlockPlace>> {
        if is_other_file(self.view, self.batch.file) {
            return Ok(None);
        }
        let documents = &self.view.state().documents;
        let of = self.view.document_blocks();
        let position = documents.find(block.high, of)?;
        let entry = documents.entry(position, of)?;
        if entry.is_none_or(|entry| entry.id != block.id) {
            return Ok(None);
        }
        let before = documents.entry_before(position, of)?;
        Ok(Some(BlockPlace {
            before: before.map(|before| before.id),
            low: before.map_or(0, |before| before.high + 1),
        }))
    }

    /// Finds the documents with which the last document of their fingerprint goes.
    fn find_last_of_fingerprints(&mut self, newcomers: &Newcomers) -> Result<()> {
        let mut shared: Vec<(Fingerprint, usize)> = Vec::new();
        for (index, removal) in self.documents.iter_mut().enumerate() {
            let Some(fingerprint) = removal.fingerprint else {
                continue;
            };
            let is_alone = matches!(
                removal.change,
                Change::Remove {
                    fingerprint_gone: true,
                    ..
                }
            );
            if !is_alone || newcomers.fingerprints.contains(&fingerprint) {
                set_fingerprint_gone(removal, false);
                shared.push((fingerprint, index));
            }
        }
        shared.sort_unstable();
        let groups: Vec<&[(Fingerprint, usize)]> = shared.chunk_by(|a, b| a.0 == b.0).collect();
        for together in groups.chunks(COUNTED_TOGETHER) {
            let mut wanted = Vec::with_capacity(together.len());
            for group in together {
                wanted.push((group[0].0, ReadScopes::AllDocuments));
            }
            let mut totals = vec![0; together.len()];
            for posted in Reader::new(self.view).posted(&wanted)? {
                totals[posted.index] += posted.total;
            }
            for (group, total) in together.iter().zip(totals) {
                if let Some(&(_, last)) = group.last()
                    && group.len() as u64 >= total
                {
                    set_fingerprint_gone(&mut self.documents[last], true);
                }
            }
        }
        Ok(())
    }

    fn into_step(self) -> Step {
        let forgotten = self.forgotten.into_iter();
        let mut operations: Vec<Operation> = forgotten
            .map(|number| Operation::forget(DocumentNumber(number)))
            .collect();
        operations.extend(&self.documents);
        let removals = self.documents.iter();
        let mut fingerprints: Vec<Fingerprint> =
            removals.filter_map(|removal| removal.fingerprint).collect();
        fingerprints.sort_unstable();
        let state = self.view.state();
        Step {
            file: self.batch.file,
            generation: state.generation(),
            counters: state.counters,
            runs: runs_of(&operations, &self.view.settings().plan),
            operations,
            cuts: self.cuts,
            removed: self.documents.len() as u64,
            too_short: (self.documents.len() - fingerprints.len()) as u64,
            fingerprints,
            left_out: self.left_out,
        }
    }
}

/// Takes a block out as a whole, unless there are too many cuts. `before` is the block before it.
fn cut(cuts: &mut Vec<Cut>, block: &ExpiredBlock, before: Option<BlockId>) -> bool {
    if let Some(cut) = cuts.last_mut()
        && before.is_some()
        && cut.ids.last().copied() == before
    {
        cut.highs = *cut.highs.start()..=block.high;
        cut.ids.push(block.id);
        return true;
    }
    let has_room = cuts.len() < MOST_CUTS;
    if has_room {
        cuts.push(Cut {
            highs: block.high..=block.high,
            ids: vec![block.id],
        });
    }
    has_room
}
