//! Writing documents: each put or removed document changes every set that knows of it, or none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::store::blocks::documents::pack_documents;
use crate::store::blocks::packed::Packed;
use crate::store::file::log::{self, Change, Operation};
use crate::store::file::meta::{Counters, encode_scopes};
use crate::store::file::shared::Shared;
use crate::store::file::state::{DOCUMENTS_PLACE, Edit};
use crate::store::file::written::{SpilledBlock, WrittenDocuments};
use crate::store::read::{Read, View, Written};
use crate::store::sorted_set::chunk::Entry;
use crate::store::sorted_set::overlay::Overlays;
use crate::store::store::DocumentNumber;
use crate::store::store::ScopeNumber;
use crate::store::store::lock;

/// A last block of documents that takes less of a page than this (of 16) is filled up by the next commit.
const FULL_SIXTEENTHS: usize = 13;

/// The one transaction that writes. Nothing reaches the file before it commits; dropping it undoes it.
pub(crate) struct Writer {
    view: Arc<View>,
    counters: Counters,
    written: Written,
    operations: Vec<Operation>,
    /// An operation stopped half-way, so the sets no longer agree.
    broken: bool,
    // Last, so that the next transaction begins when this one is gone.
    turn: Turn,
}

/// The right to write, given back when it is dropped.
pub(crate) struct Turn(pub(crate) Arc<Shared>);

impl Turn {
    pub(crate) fn wait(shared: Arc<Shared>) -> Self {
        let mut writing = lock(&shared.writing);
        while *writing {
            writing = shared.written.wait(writing).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *writing = true;
        drop(writing);
        Self(shared)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.0.writing) = false;
        self.0.written.notify_one();
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let turn = Turn::wait(shared);
        turn.0.ensure_certain()?;
        let view = turn.0.view()?;
        let written = Written {
            overlays: Overlays::new(&view.settings().plan),
            documents: WrittenDocuments::default(),
            scopes: BTreeMap::new(),
        };
        let counters = view.state().counters;
        Ok(Self { view, counters, written, operations: Vec::new(), broken: false, turn })
    }

    /// Stores a valid document, and returns the one of the same key that it replaces.
    pub(crate) fn put(&mut self, document: &Document) -> Result<Option<Document>> {
        self.all_or_broken(|writer| {
            let replaced = writer.find(document.key())?;
            // First the new rows, then away with the old: a fingerprint that stays is not removed in between.
            writer.link(document)?;
            if let Some((number, old)) = &replaced {
                writer.unlink(*number, old, document.fingerprint())?;
            }
            Ok(replaced.map(|(_, old)| old))
        })
    }

    /// Removes the document of a key and returns it.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<Document>> {
        self.all_or_broken(|writer| {
            let Some((number, document)) = writer.find(key)? else { return Ok(None) };
            writer.unlink(number, &document, None)?;
            Ok(Some(document))
        })
    }

    /// Sorts what was written, for many searches.
    pub(crate) fn sort_written(&mut self) {
        self.written.overlays.sort();
    }

    /// Makes everything durable at once. Without a change nothing is written.
    pub(crate) fn commit(self) -> Result<()> {
        self.ensure_whole()?;
        if self.operations.is_empty() {
            return Ok(());
        }
        let Self { view, counters, mut written, operations, turn, .. } = self;
        let shared = &turn.0;
        shared.keep_pace(operations.len())?;
        shared.ensure_certain()?;
        let appended = Appended::new(&view, &mut written.documents, shared.sizes.document_block_bytes)?;
        let runs = written.overlays.into_runs();
        let scopes = encode_scopes(written.scopes);
        // What it pins can be used again by this commit.
        drop(view);
        shared.committing.fetch_add(1, Ordering::AcqRel);
        let committed = shared.commit(|_, edit| {
            edit.state.counters = counters;
            edit.log = log::encode(edit.state.next_page, &operations);
            edit.state.next_page += edit.log.len() as u64;
            edit.state.recent_operations += operations.len() as u64;
            edit.state.sets.push(runs);
            edit.scopes = scopes;
            appended.apply(edit, shared.sizes.chunk_entries);
            Ok(())
        });
        shared.committing.fetch_sub(1, Ordering::AcqRel);
        committed
    }

    /// Refuses a transaction of which an operation stopped half-way.
    pub(crate) fn ensure_whole(&self) -> Result<()> {
        if self.broken { Err(Error::Aborted) } else { Ok(()) }
    }

    /// Runs one operation; if it fails, the transaction can only be dropped.
    fn all_or_broken<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.ensure_whole()?;
        self.broken = true;
        let value = operation(self)?;
        self.broken = false;
        Ok(value)
    }

    fn link(&mut self, document: &Document) -> Result<()> {
        let number = self.counters.next_number()?;
        self.counters.count(document);
        self.written.documents.push(number, document);
        self.written.documents.spill_if_long(&self.turn.0.path, &self.turn.0.sizes)?;
        let scope = self.scope_number_or_new(document.scope())?;
        self.apply(Operation {
            change: Change::Put,
            number,
            key_hash: self.hash_of(document.key()),
            fingerprint: document.fingerprint(),
            scope,
        });
        Ok(())
    }

    /// `successor`: the fingerprint of the document that has just taken its place.
    fn unlink(
        &mut self,
        number: DocumentNumber,
        document: &Document,
        successor: Option<Fingerprint>,
    ) -> Result<()> {
        self.counters.uncount(document);
        let fingerprint_gone = match document.fingerprint() {
            fingerprint if fingerprint == successor => false,
            Some(fingerprint) => self.documents_of(fingerprint)? == 1,
            None => false,
        };
        let never_stored = self.written.documents.remove(number);
        let scope = self.scope_number_or_new(document.scope())?;
        self.apply(Operation {
            change: Change::Remove { fingerprint_gone, never_stored },
            number,
            key_hash: self.hash_of(document.key()),
            fingerprint: document.fingerprint(),
            scope,
        });
        Ok(())
    }

    fn apply(&mut self, operation: Operation) {
        self.written.overlays.apply(&operation, &self.view.settings().plan);
        self.operations.push(operation);
    }

    fn documents_of(&self, fingerprint: Fingerprint) -> Result<u64> {
        let mut total = 0;
        let wanted = [(fingerprint, ScopeNumber::ALL_DOCUMENTS.into())];
        self.posted(&wanted, |_, _, posted| total += posted.total)?;
        Ok(total)
    }

    fn scope_number_or_new(&mut self, name: &str) -> Result<ScopeNumber> {
        if let Some(number) = self.scope_number(name)? {
            return Ok(number);
        }
        let number = self.counters.next_scope()?;
        self.written.scopes.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// New blocks of documents at the end of the file.
struct Appended {
    /// The last block of the file, if it is not full: what it holds comes first in `packed`.
    tail: Option<Entry<u64>>,
    spilled: Vec<SpilledBlock>,
    packed: Vec<Packed<u64>>,
}

impl Appended {
    fn new(view: &View, written: &mut WrittenDocuments, block_bytes: usize) -> Result<Self> {
        let spilled = written.take_spilled();
        let mut tail = None;
        if let Some(entry) = view.state().documents.last().filter(|_| spilled.is_empty()) {
            let block = view.blocks().documents(entry)?;
            if block.stored_bytes() * 16 < block_bytes * FULL_SIXTEENTHS {
                tail = Some((entry.clone(), block));
            }
        }
        let before = tail.iter().flat_map(|(_, block)| block.records());
        let records: Vec<_> = before.chain(written.live()).collect();
        let packed = pack_documents(&records, block_bytes);
        Ok(Self { tail: tail.map(|(entry, _)| entry), spilled, packed })
    }

    fn apply(self, edit: &mut Edit, chunk_entries: usize) {
        let Self { tail, spilled, packed } = self;
        let level = edit.state.documents.clone();
        let end = level.end();
        // Only transactions change the last block, and there is one at a time.
        let from = tail.map_or(end, |entry| level.find(entry.high));
        let mut new: Vec<_> = spilled.into_iter().map(|block| edit.add_spilled(block)).collect();
        new.extend(packed.into_iter().map(|block| edit.add_block(block)));
        edit.state.documents = edit.replace_entries(DOCUMENTS_PLACE, &level, from..end, &new, chunk_entries);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Read for Writer {
    fn view(&self) -> &View {
        &self.view
    }

    fn written(&self) -> Option<&Written> {
        Some(&self.written)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
