//! WriteTxn: insert, delete, touch, note how far sources were read, commit. Verdicts are made in verdict.rs.

use std::sync::Arc;

use super::near_search::NearWritten;
use crate::document::{Document, validate_key};
use crate::error::Result;
use crate::metrics::Verdicts;
use crate::planted::planted;
use crate::source::{Reached, Source};
use crate::store::{Numbered, Patience, Store, Transaction};
use crate::unix_seconds::UnixSeconds;

/// The transaction that writes. There is one at a time.
///
/// Its changes become visible and durable together when it is committed. They are undone when it is
/// dropped.
///
/// An operation that is refused (a document out of bounds, a max distance above 64) changes nothing. An
/// operation that fails while it looks up the document of its key, or while it changes something, breaks
/// the transaction, since its sorted sets may no longer agree. The transaction can then only be dropped,
/// and every further call returns [`Error::Aborted`](crate::Error::Aborted).
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("a", Fingerprint::from_bits(7)))?;
/// drop(txn);
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("b", Fingerprint::from_bits(7)))?;
/// txn.commit()?;
/// let snapshot = database.snapshot()?;
/// assert!(snapshot.get("a")?.is_none());
/// assert!(snapshot.get("b")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is undone"]
pub struct WriteTxn {
    // Before the store, so that the engine's transaction ends before the engine.
    pub(super) writer: Transaction,
    pub(super) near_written: NearWritten,
    pub(super) verdicts: Verdicts,
    /// The number of the first document that it stores.
    first_number: u64,
    store: Arc<Store>,
}

impl WriteTxn {
    /// Begins the transaction when its turn has come. `None` if that is not in time.
    pub(super) fn begin(store: &Arc<Store>, patience: Patience) -> Result<Option<Self>> {
        let Some(writer) = store.begin_write(patience)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            first_number: writer.reader().counters().next_document,
            writer,
            near_written: NearWritten::default(),
            verdicts: Verdicts::default(),
            store: store.clone(),
        }))
    }

    /// Stores a document, whatever it resembles, and returns the document of the same key that it
    /// replaces.
    ///
    /// It is stored as it is given, with its count of repeats. [`insert_if_new`](Self::insert_if_new) keeps that of the
    /// old one.
    ///
    /// So a crawler can tell new pages, unchanged pages and changed pages apart.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`](crate::Error::KeyLength),
    ///   [`Error::ScopeLength`](crate::Error::ScopeLength),
    ///   [`Error::PayloadLength`](crate::Error::PayloadLength) and
    ///   [`Error::RankLength`](crate::Error::RankLength) for a document out of bounds,
    ///   [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit, and
    ///   [`Error::SketchSizes`](crate::Error::SketchSizes) for a sketch of another size than the database has.
    ///   They change nothing.
    /// * [`Error::SketchMissing`](crate::Error::SketchMissing) for a document that has a fingerprint but no sketch, in
    ///   a database that compares texts by sketches. Queries would miss it. It changes nothing.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::SpillFile`](crate::Error::SpillFile) if documents that do not stay in memory cannot be
    ///   written beside the database.
    /// * [`Error::TooManyDocuments`](crate::Error::TooManyDocuments) after about 2^40 insertions in the
    ///   life of the database.
    /// * [`Error::TooManyScopes`](crate::Error::TooManyScopes) for a new scope after 2^24 - 2 others,
    ///   the empty one not counted.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    ///
    /// # Cost
    ///
    /// About two microseconds for a new key. For a known key, its document is read, and there are up to
    /// two searches more. Until the commit a document takes about 120 bytes of memory. The documents
    /// themselves take up to 64 MiB. Beyond that they wait in a file without a name beside the database.
    pub fn insert(&mut self, document: &Document) -> Result<Option<Document>> {
        self.writer.reader().settings().validate(document)?;
        let old = self.writer.find_to_change(document.key())?;
        self.writer.put(document, old.as_ref())?;
        Ok(old.map(|(_, old)| old))
    }

    /// The document of a key, as this transaction has it.
    ///
    /// # Errors
    ///
    /// As for [`delete`](Self::delete).
    #[cfg(feature = "ingest")]
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<Option<Document>> {
        validate_key(key)?;
        let found = self.writer.find_to_change(key)?;
        Ok(found.map(|(_, document)| document))
    }

    /// Removes the document of a key and returns it, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`](crate::Error::KeyLength) for a key that no document can have. It changes
    ///   nothing.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    ///
    /// # Cost
    ///
    /// A search for the key, the reading of its document, and one search more.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Document>> {
        validate_key(key.as_ref())?;
        let Some(found) = self.writer.find_to_change(key.as_ref())? else {
            return Ok(None);
        };
        self.writer.remove(&found)?;
        Ok(Some(found.1))
    }

    /// The number of documents that it has stored.
    pub(crate) fn stored(&self) -> u64 {
        self.writer.reader().counters().next_document - self.first_number
    }

    /// Whether somebody else waits to write.
    #[cfg(feature = "ingest")]
    pub(crate) fn is_wanted(&self) -> bool {
        self.writer.is_wanted()
    }

    /// The number that the next document gets.
    #[cfg(feature = "ingest")]
    pub(crate) fn next_number(&self) -> u64 {
        self.writer.reader().counters().next_document
    }

    /// Says that the document of a key was seen again, and when, and whether there is such a document.
    ///
    /// It is counted ([`Document::repeats`]), and its time becomes the later of the two. So a page that was met again,
    /// but not stored, can stay in a window of time. For matches of equal distance and fingerprint, the document then
    /// counts as the one that was written last.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete); [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit,
    /// which changes nothing; and [`Error::TooManyDocuments`](crate::Error::TooManyDocuments) after
    /// about 2^40 insertions and touches in the life of the database.
    ///
    /// # Cost
    ///
    /// That of inserting a document whose key is there: the document is written anew.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// txn.insert(&Document::new("page", Fingerprint::from_bits(7)).with_seen(100))?;
    /// assert!(txn.touch("page", 200)?);
    /// assert!(!txn.touch("other page", 200)?);
    /// txn.commit()?;
    /// let page = database.snapshot()?.get("page")?;
    /// assert_eq!(page.map(|page| (page.seen(), page.repeats())), Some((200, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch(&mut self, key: impl AsRef<[u8]>, seen: impl Into<UnixSeconds>) -> Result<bool> {
        validate_key(key.as_ref())?;
        let seen = seen.into().checked()?;
        let Some(found) = self.writer.find_to_change(key.as_ref())? else {
            return Ok(false);
        };
        self.touch_found(&found, seen, 1)?;
        Ok(true)
    }

    /// Says that a document was seen again so many times, and when.
    pub(super) fn touch_found(&mut self, found: &Numbered, seen: i64, repeats: u64) -> Result<()> {
        let (_, old) = found;
        let repeats = match planted("a repeat is not counted") {
            true => 0,
            false => repeats,
        };
        let touched = old
            .clone()
            .with_seen(seen.max(old.seen()))
            .with_repeats(old.repeats().saturating_add(repeats));
        // Under a new number. So documents stay nearly in the order of their times, and blocks of old ones
        // can go as a whole. Also if nothing has changed: a source that is read again takes as many numbers as before,
        // by which it is told what of it has come.
        self.writer.put(&touched, Some(found))
    }

    /// Notes how far a source was read. That becomes durable together with the documents of this transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    #[cfg(any(test, feature = "ingest"))]
    pub(crate) fn set_source(&mut self, source: &Source) -> Result<()> {
        self.writer
            .put_source(&source.name, Some(source.record.clone()))
    }

    /// Notes how far a source was read. It becomes durable together with the documents of this transaction.
    ///
    /// # Errors
    ///
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    pub fn reach(&mut self, reached: &Reached) -> Result<()> {
        let record = self.writer.source(reached.name())?.unwrap_or_default();
        let source = Source::reached(record, reached);
        self.writer.put_source(&source.name, Some(source.record))
    }

    /// Forgets how far a source was read, so it counts as new. Its documents stay. False if it is not known.
    ///
    /// # Errors
    ///
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    pub fn forget_source(&mut self, name: impl AsRef<[u8]>) -> Result<bool> {
        let known = self.writer.source(name.as_ref())?.is_some();
        if known {
            self.writer.put_source(name.as_ref(), None)?;
        }
        Ok(known)
    }

    /// Forgets all sources that were given last before a time, as
    /// [`Source::updated`](crate::source::Source::updated) tells. Their documents stay. Returns how many these were.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeconds`](crate::Error::NotSeconds), and those of [`forget_source`](Self::forget_source).
    pub fn forget_sources_before(&mut self, time: impl Into<UnixSeconds>) -> Result<u64> {
        let time = time.into().checked()?;
        let mut forgotten = 0;
        for source in self.writer.sources()? {
            if source.updated() < time {
                forgotten += u64::from(self.forget_source(source.name())?);
            }
        }
        Ok(forgotten)
    }

    /// Makes all changes visible and durable.
    ///
    /// When it returns, they survive a kill of the process and a loss of power, if the disk keeps the
    /// data that it says it has synced. Without changes nothing is written.
    ///
    /// # Errors
    ///
    /// After these errors nothing is stored:
    ///
    /// * [`Error::Aborted`](crate::Error::Aborted): an earlier operation broke the transaction.
    /// * [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown): an earlier commit or a merge could not
    ///   be written.
    /// * [`Error::Storage`](crate::Error::Storage), or [`Error::Corrupted`](crate::Error::Corrupted) if
    ///   the file is damaged, with a message that levels could not be merged. Transactions get it once
    ///   too many recent documents wait for the merge, and large ones if any document does.
    ///
    /// After any other error, such as [`Error::Storage`](crate::Error::Storage) if the file cannot be
    /// written, it is not known whether the changes are stored. The handle may then refuse all further
    /// changes. [`Database::reopen`](crate::Database::reopen) finds out.
    ///
    /// # Cost
    ///
    /// Two syncs of the disk and about half a millisecond, in a file of several gigabytes about a
    /// millisecond. On top, the written rows are sorted. If merging cannot follow, a commit waits for
    /// it. A transaction with more changes than twice
    /// [`recent_documents`](crate::OpenOptions::recent_documents) waits until all recent documents are
    /// merged, and packs its own rows.
    pub fn commit(self) -> Result<()> {
        let Self {
            writer,
            verdicts,
            store,
            ..
        } = self;
        writer.commit()?;
        store.meters.add_verdicts(&verdicts);
        Ok(())
    }
}
