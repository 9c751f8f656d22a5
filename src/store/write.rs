//! Transaction: the transaction that writes. A document that is put or removed changes every set that knows of
//! it, or none.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::read::Reader;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::events::{Event, Operation as Watched, Watch};
use crate::fingerprint::Fingerprint;
use crate::metrics::{Count, Timed};
use crate::source::{Source, SourceRecord};
use crate::store::blocks::Blocks;
use crate::store::file::{
    Appended, Change, Edit, KEYS, Operation, Settings, Shared, SourceRows, Turn, View, Written,
    WrittenFingerprints, permuted,
};
use crate::store::merging::{Fold, throttle, wait_for_room_for_a_level};
use crate::store::numbers::{DocumentNumber, ScopeNumber};

/// A transaction does not go through the log if it has more operations than this multiple of those that may
/// be recent. The log is replayed at opening, so it must not become long.
const MOST_LOGGED: usize = 2;

/// The one transaction that writes. Nothing reaches the file before it commits. Dropping it undoes it.
pub(crate) struct Transaction {
    view: Arc<View>,
    written: Written,
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
        turn.shared().ensure_certain()?;
        let view = turn.shared().view()?;
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

    /// Reads what is committed and what this transaction has written.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::with_written(&self.view, &self.written)
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.view.settings()
    }

    /// What is committed, without what this transaction has written.
    pub(crate) fn committed(&self) -> Arc<View> {
        self.view.clone()
    }

    /// Sorts the fingerprints that this transaction has written, if many are not sorted.
    pub(crate) fn index_written(&mut self) {
        if self.written.overlays[permuted(0)].puts().1.len() >= MOST_COMPARED {
            self.written.overlays.index_permuted();
        }
    }

    /// The fingerprints that this transaction has written.
    pub(crate) fn written_fingerprints(&self) -> WrittenFingerprints<'_> {
        WrittenFingerprints::new(&self.written.overlays)
    }

    /// Whether this transaction has put or removed a document of this key, or perhaps of another key.
    pub(crate) fn may_have_changed(&self, key: &[u8]) -> bool {
        self.written.overlays[KEYS].may_have(self.view.settings().key_hash(key))
    }

    /// Whether this transaction has removed a document of this fingerprint.
    pub(crate) fn has_removed(&self, fingerprint: Fingerprint) -> bool {
        self.removed.contains(&fingerprint)
    }

    /// Whether this transaction has removed any document with a fingerprint.
    pub(crate) fn has_removed_any(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Notes how far a source was read. `None` forgets the source.
    pub(crate) fn put_source(&mut self, name: &[u8], record: Option<SourceRecord>) -> Result<()> {
        self.ensure_whole()?;
        self.written.sources.insert(name.to_vec(), record);
        Ok(())
    }

    /// The record of a source, as this transaction has it.
    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<SourceRecord>> {
        self.turn.shared().ensure_usable()?;
        match self.written.sources.get(name) {
            Some(record) => Ok(record.clone()),
            None => self.view.source(name),
        }
    }

    /// The sources that were there when this transaction began, without those that it has changed.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        self.turn.shared().ensure_usable()?;
        let mut sources = self.view.sources()?;
        sources.retain(|source| !self.written.sources.contains_key(source.name()));
        Ok(sources)
    }

    /// The number that the next document gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.written.counters.next_document
    }

    /// Makes all changes durable at once. If nothing was changed, nothing is written.
    pub(crate) fn commit(self) -> Result<()> {
        self.turn.shared().ensure_usable()?;
        if self.operations.as_ref().is_some_and(Vec::is_empty) && self.written.sources.is_empty() {
            return self.ensure_whole();
        }
        let shared = self.turn.shared().clone();
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
            view,
            mut written,
            operations,
            turn,
            ..
        } = self;
        let shared = turn.shared();
        let Some(operations) = operations else {
            return commit_as_levels(shared, view, written);
        };
        throttle(shared, operations.len())?;
        shared.ensure_certain()?;
        let appended = Appended::new(
            &view,
            &mut written.documents,
            shared.sizes.document_block_bytes,
        )?;
        let runs = written.overlays.into_runs();
        let sources = SourceRows::new(written.sources, &view)?;
        // The view keeps pages that this commit can then use again.
        drop(view);
        shared.commit_transaction(|edit, of| {
            edit.state.counters = written.counters;
            edit.log(&operations);
            edit.add_runs(runs);
            edit.add_scopes(written.scopes);
            edit.put_sources(sources);
            appended.apply(edit, of)
        })
    }

    /// Commits a change that was prepared elsewhere. This transaction must have changed nothing itself.
    pub(crate) fn commit_change(
        self,
        change: impl FnOnce(&mut Edit, &Blocks) -> Result<()>,
    ) -> Result<()> {
        let Self { view, turn, .. } = self;
        drop(view);
        turn.shared().commit_transaction(change)
    }

    /// Refuses a transaction in which an operation stopped half-way. Every operation begins with this. So it
    /// is known which thread has the transaction.
    pub(crate) fn ensure_whole(&self) -> Result<()> {
        self.turn.shared().ensure_usable()?;
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
        self.written.documents.push(number, document);
        let shared = self.turn.shared();
        self.written
            .documents
            .spill_if_long(&shared.target, &shared.sizes)?;
        let scope = self.scope_number_or_new(document.scope())?;
        let settings = self.view.settings();
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
        self.written.counters.uncount(document);
        self.removed.extend(document.fingerprint());
        let fingerprint_gone = match document.fingerprint() {
            fingerprint if fingerprint == successor => false,
            Some(fingerprint) => self.reader().documents_of(fingerprint)? == 1,
            None => false,
        };
        let unstored = self.written.documents.remove(number);
        // With a new number, rows would be marked that were never put.
        let scope = self.reader().scope_number_of(document)?;
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
        let most = MOST_LOGGED.saturating_mul(self.turn.shared().sizes.recent_operations);
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

/// Commits a transaction that is too long for the log: as a new first level of each set. Rows of the log
/// count as newer than those of levels. So those that are in it go into the new levels too.
fn commit_as_levels(shared: &Shared, view: Arc<View>, mut written: Written) -> Result<()> {
    // Until the commit, nobody changes levels.
    let _merging = wait_for_room_for_a_level(shared)?;
    // The last view does not keep the pages that merges have freed in the meantime.
    drop(view);
    let view = shared.view()?;
    let appended = Appended::new(
        &view,
        &mut written.documents,
        shared.sizes.document_block_bytes,
    )?;
    let Written {
        overlays,
        scopes,
        documents,
        sources,
        counters,
    } = written;
    drop(documents);
    let sources = SourceRows::new(sources, &view)?;
    let fold = Fold::new(overlays, view.state(), view.blocks(), &shared.sizes)?;
    drop(view);
    shared.commit_transaction(|edit, of| {
        edit.state.counters = counters;
        fold.apply(edit, of)?;
        edit.add_scopes(scopes);
        edit.put_sources(sources);
        appended.apply(edit, of)
    })
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("counters", &self.written.counters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::Access;
    use crate::store::file::CacheLimit;
    use crate::store::file::MergeFailure;
    use crate::store::{Recording, Sizes, Store};

    fn document(number: u64) -> Document {
        Document::new(format!("key {number}"), Fingerprint::from_bits(number)).with_seen(0)
    }

    fn begin(shared: &Arc<Shared>) -> Result<Transaction> {
        Transaction::new(Turn::wait(shared)?)
    }

    fn put_all(store: &Store, numbers: std::ops::Range<u64>) -> Result<Transaction> {
        let mut writer = begin(&store.shared)?;
        for number in numbers {
            writer.put(&document(number), None)?;
        }
        Ok(writer)
    }

    /// A block that waited in the temporary file was committed without being compared with its checksum. The
    /// commit succeeded, and the block was damaged for ever. An error of that file was told as damage of the
    /// database, and ended the handle.
    #[test]
    fn a_waiting_block_that_has_changed_is_not_committed_and_the_database_goes_on() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let sizes = Sizes {
            spill_bytes: 1_000,
            document_block_bytes: 300,
            ..Sizes::default()
        };
        let store = Store::create(
            &folder.path().join("d.simdb"),
            &Settings::for_tests(),
            CacheLimit::for_tests(),
            sizes,
        )?;
        put_all(&store, 0..100)?.commit()?;
        let writer = put_all(&store, 100..200)?;
        writer.written.documents.damage_waiting();
        let refused = writer.commit();
        assert!(
            matches!(refused, Err(Error::SpillFile { .. })),
            "{refused:?}"
        );
        let reader = store.begin_read()?;
        assert!(reader.reader().find(b"key 99")?.is_some());
        assert!(reader.reader().find(b"key 150")?.is_none());
        put_all(&store, 100..200)?.commit()?;
        for number in 0..200 {
            let found = store
                .begin_read()?
                .reader()
                .find(document(number).key())?
                .map(|(_, found)| found);
            assert_eq!(found, Some(document(number)));
        }
        Ok(())
    }

    /// Opening took ten seconds after a transaction of three million documents, since all of them were in the
    /// log.
    #[test]
    fn a_large_transaction_leaves_no_log_and_nothing_of_it_is_read_at_opening() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("d.simdb");
        let sizes = Sizes {
            recent_operations: 20,
            ..Sizes::default()
        };
        let store = Store::create(
            &path,
            &Settings::for_tests(),
            CacheLimit::for_tests(),
            sizes,
        )?;
        // Forty operations go through the log, then into a level below the large transaction.
        put_all(&store, 0..5)?.commit()?;
        put_all(&store, 5..45)?.commit()?;
        let before = store.shared.view()?.state().generation();
        put_all(&store, 45..86)?.commit()?;
        let view = store.shared.view()?;
        assert!(view.state().is_log_empty() && view.state().generation() > before);
        view.tables()
            .log_page_numbers(|page| panic!("page {page} is there"))?;
        drop((view, store));
        let store = Store::open(&path, Access::ReadOnly, CacheLimit::for_tests(), sizes)?;
        let view = store.shared.view()?;
        assert_eq!(
            (
                view.state().recent_operations,
                view.state().sets.any_frozen()
            ),
            (0, false)
        );
        let reader = store.begin_read()?;
        for number in 0..86 {
            assert!(
                reader.reader().find(document(number).key())?.is_some(),
                "{number}"
            );
        }
        Ok(())
    }

    /// A transaction that waits for merges would wait for ever if nobody merges.
    #[test]
    fn a_large_transaction_returns_the_error_of_the_merges_and_smaller_ones_go_on() -> Result<()> {
        // With these sizes, each transaction of more than eight documents becomes a level.
        let sizes = Sizes {
            recent_operations: 4,
            short_rows: 0,
            ..Sizes::default()
        };
        let store = Store::on_backend(Recording::default(), Some(&Settings::for_tests()), sizes)?;
        let shared = store.shared.clone();
        // Its thread ends.
        drop(store);
        let failure = MergeFailure::without_thread(&std::io::Error::other("no thread"));
        shared.progress.lock().failure = Some(failure);
        let put = |numbers: std::ops::Range<u64>| -> Result<()> {
            let mut writer = begin(&shared)?;
            numbers
                .into_iter()
                .try_for_each(|number| writer.put(&document(number), None))?;
            writer.commit()
        };
        // A fold takes a level that is not larger than what it writes.
        for level in 0..9 {
            put(level * 100..level * 100 + 60 - 5 * level)?;
        }
        assert!(matches!(put(900..915), Err(Error::Storage(_))));
        put(1000..1001)?;
        let writer = begin(&shared)?;
        assert!(writer.reader().find(b"key 910")?.is_none());
        assert!(writer.reader().find(b"key 1000")?.is_some());
        Ok(())
    }

    /// The removal made a scope with a new number, and marked rows of that scope. The rows of the document
    /// stayed, and lists and counts no longer agreed.
    #[test]
    fn removing_a_document_whose_scope_is_lost_finds_the_damage() -> Result<()> {
        let store = Store::on_backend(
            Recording::default(),
            Some(&Settings::for_tests()),
            Sizes::default(),
        )?;
        let mut writer = begin(&store.shared)?;
        let document = Document::new("k", Fingerprint::from_bits(1)).with_scope("lost");
        writer.put(&document, None)?;
        let stored = writer.find_to_change(b"k")?.expect("it was put");
        writer.written.scopes.clear();
        let removed = writer.remove(&stored);
        assert!(
            matches!(&removed, Err(Error::Damaged { table: "scopes", key, .. }) if key == "lost")
        );
        assert!(writer.written.scopes.is_empty(), "no scope is made");
        assert!(matches!(writer.commit(), Err(Error::Aborted)));
        Ok(())
    }
}
