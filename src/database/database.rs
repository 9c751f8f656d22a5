//! Database: an open file. Create, open, begin, reopen.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "admin")]
use super::door::{Door, OpenDoor};
use super::options::{CreateOptions, OpenOptions};
use super::snapshot::Snapshot;
use super::write::WriteTxn;
use super::writer::Writer;
use super::writer_options::WriterOptions;
use crate::error::{Error, Result};
use crate::memory::Cache;
use crate::sketch::SketchSize;
use crate::store::{Access, Patience, Store};
#[cfg(feature = "text")]
use crate::text::Fingerprinter;
use crate::text::Scheme;

/// An open database: one file, one writer at a time, any number of readers.
///
/// Threads share a handle by reference or in an `Arc`. The file is locked as long as the handle lives,
/// or a snapshot or transaction of it.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, Document, Policy, Query};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let database = Database::create(&path, &CreateOptions::new())?;
/// let fingerprinter = database.fingerprinter()?;
/// let page = "The quick brown fox jumps over the lazy dog, and then it runs away into the deep dark wood. \
///             Nobody has seen it since, though the dog still waits for it beside the gate every evening.";
/// let fingerprint = fingerprinter.fingerprint(page).ok_or("too short to judge")?;
///
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("https://example.org/a", fingerprint))?;
/// let verdict = txn.insert_if_new(&Document::new("https://example.org/b", fingerprint), &Policy::skip())?;
/// let nearest = verdict.matches().nearest().expect("there is a match");
/// assert_eq!(nearest.document.key(), b"https://example.org/a");
/// txn.commit()?;
///
/// let found = database.snapshot()?.query(&Query::new(fingerprint).max_distance(3))?;
/// assert_eq!(found.total(), 1);
///
/// let mut txn = database.begin_write()?;
/// txn.delete("https://example.org/a")?;
/// txn.commit()?;
/// assert_eq!(database.snapshot()?.stats()?.documents, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Database {
    // Before the store, so that nobody else asks for the database when it is closed.
    #[cfg(feature = "admin")]
    _door: Option<OpenDoor>,
    pub(super) store: Arc<Store>,
}

impl Database {
    /// Creates an empty database at `path`, where nothing may stand yet.
    ///
    /// The file gets its name when it is whole. So a crash leaves either no database or a whole one. Some
    /// file systems, such as NFS, have no files without a name. There the file is made under a temporary
    /// name in the same directory. A crash may leave it behind, as a file called `.simdb-….tmp`, which can
    /// be removed.
    ///
    /// # Errors
    ///
    /// * [`Error::AlreadyExists`] if something stands at `path`.
    /// * [`Error::MaxDistance`] for a max distance above 64.
    /// * [`Error::UnknownPlan`] if no plan has the name that was given.
    /// * [`Error::Io`] and [`Error::Storage`] if the file cannot be written.
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let settings = options.settings()?;
        let limit = options.open.cache_limit();
        let sizes = options.open.sizes(&limit);
        let store = Store::create(path.as_ref(), &settings, limit, sizes)?;
        Self::with_door(store, &options.open)
    }

    /// Opens the database at `path`.
    ///
    /// Everything that was committed is there, also after a crash of the last writer.
    ///
    /// # Errors
    ///
    /// * [`Error::NotFound`] if nothing stands at `path`.
    /// * [`Error::Busy`] if another handle has the database open, unless both only read.
    /// * [`Error::NotSimdb`], [`Error::FormatVersion`], [`Error::UnknownFeatures`] and
    ///   [`Error::UnknownScheme`] for files that this release cannot read.
    /// * [`Error::NeedsRecovery`] if the database was not closed in order and is opened read-only.
    /// * [`Error::Damaged`], [`Error::Corrupted`], [`Error::Io`] and [`Error::Storage`] if the file
    ///   cannot be read.
    ///
    /// # Cost
    ///
    /// A tenth of a second, after a crash too. The directories are read, and the rows of recent documents
    /// are made again from the log. A million changes that are not merged yet take 0.2 s on two cores. The
    /// log has at most eight times as many changes as [`recent_documents`](OpenOptions::recent_documents),
    /// and mostly less than twice as many.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let access = if options.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let limit = options.cache_limit();
        let sizes = options.sizes(&limit);
        let store = Store::open(path.as_ref(), access, limit, sizes)?;
        Self::with_door(store, options)
    }

    /// Opens the database at `path` for reading and writing, or creates it with `options` if there is
    /// none.
    ///
    /// For a database that exists, only [`cache`](CreateOptions::cache) and
    /// [`recent_documents`](CreateOptions::recent_documents) count.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let path = path.as_ref();
        match Self::open(path, &options.open) {
            Err(Error::NotFound { .. }) => {}
            opened => return opened,
        }
        match Self::create(path, options) {
            // Somebody else created it in the meantime.
            Err(Error::AlreadyExists { .. }) => Self::open(path, &options.open),
            created => created,
        }
    }

    /// Opens the door, if the options ask for one.
    fn with_door(store: Store, options: &OpenOptions) -> Result<Self> {
        let store = Arc::new(store);
        #[cfg(feature = "admin")]
        let _door = options.door.map(|Door(open)| open(&store)).transpose()?;
        #[cfg(not(feature = "admin"))]
        let _ = options;
        Ok(Self {
            #[cfg(feature = "admin")]
            _door,
            store,
        })
    }

    /// Another handle of an open file.
    #[cfg(any(test, all(feature = "admin", unix)))]
    pub(crate) fn of_store(store: Arc<Store>) -> Self {
        Self {
            #[cfg(feature = "admin")]
            _door: None,
            store,
        }
    }

    #[cfg(feature = "admin")]
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The path with which the database was created or opened. After [`build`](Self::build) it is absolute.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// The scheme of the fingerprints in the database.
    pub fn scheme(&self) -> Scheme {
        self.store.settings().scheme
    }

    /// The max distance of queries that name none.
    pub fn max_distance(&self) -> u32 {
        self.store.settings().max_distance
    }

    /// The size of the sketches in the database.
    pub fn sketch_size(&self) -> SketchSize {
        self.store.settings().sketch_size
    }

    /// The least similarity of queries and policies that name none. `None` if there is none.
    pub fn min_similarity(&self) -> Option<f64> {
        self.store.settings().min_similarity
    }

    /// The fingerprinter whose fingerprints and sketches compare with those in the database. It needs the feature
    /// `text`.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalScheme`] if the fingerprints are made elsewhere.
    #[cfg(feature = "text")]
    pub fn fingerprinter(&self) -> Result<Fingerprinter> {
        Ok(Fingerprinter::new(self.scheme())?.with_sketch_size(self.sketch_size()))
    }

    /// Sets another limit of the memory for data that was read from the file, as
    /// [`OpenOptions::cache`] does. What does not fit any more is let go at once.
    ///
    /// The part for pages of the file stays as it was, and so do the directories and an eighth of the rest.
    /// [`recent_documents`](OpenOptions::recent_documents) does not follow either.
    ///
    /// # Errors
    ///
    /// Those of [`snapshot`](Self::snapshot).
    pub fn set_cache(&self, cache: Cache) -> Result<()> {
        self.store.set_cache(cache)
    }

    /// A view of what is committed now, which later commits do not change.
    ///
    /// It never waits for a writer. Space in the file that is freed while the snapshot lives, also by
    /// merging, is used again only when the snapshot is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`], [`Error::Corrupted`] or [`Error::Damaged`] if the file cannot be read. This
    /// can only happen after a [`check`](Self::check).
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(self.store.clone())
    }

    /// Waits until no other transaction writes, then begins one.
    ///
    /// Who waits is served in the order of asking, so nobody is left waiting while others write again and
    /// again. A [`compact`](Self::compact) and a [`Writer`](crate::Writer) stand in the same line.
    ///
    /// A thread that has a transaction open would wait for itself, without end. So it gets an error instead.
    /// A transaction may be moved to another thread. The thread that has it is the one that has used it last,
    /// by beginning it or by any later call.
    ///
    /// # Errors
    ///
    /// * [`Error::WouldDeadlock`] if this thread has a transaction open.
    /// * [`Error::ReadOnly`] if the database was opened read-only.
    /// * [`Error::OutcomeUnknown`] if an earlier commit or a merge could not be written.
    /// * The errors of [`snapshot`](Self::snapshot).
    pub fn begin_write(&self) -> Result<WriteTxn> {
        let begun = WriteTxn::begin(&self.store, Patience::Endless)?;
        Ok(begun.expect("endless patience ends with a transaction"))
    }

    /// Begins a transaction if nobody else writes or waits to write. Otherwise returns `None` at once.
    ///
    /// That somebody writes is no error, so the answer is an option, as with the locks of other libraries.
    ///
    /// # Errors
    ///
    /// Those of [`begin_write`](Self::begin_write), but for [`Error::WouldDeadlock`].
    pub fn try_begin_write(&self) -> Result<Option<WriteTxn>> {
        WriteTxn::begin(&self.store, Patience::None)
    }

    /// As [`begin_write`](Self::begin_write), but waits no longer than `timeout`. Then returns `None`.
    ///
    /// # Errors
    ///
    /// Those of [`begin_write`](Self::begin_write).
    pub fn begin_write_within(&self, timeout: Duration) -> Result<Option<WriteTxn>> {
        let end = Instant::now().checked_add(timeout);
        WriteTxn::begin(&self.store, end.map_or(Patience::Endless, Patience::Until))
    }

    /// Starts a writer, with which many threads and tasks submit documents.
    ///
    /// # Errors
    ///
    /// * [`Error::ReadOnly`] if the database was opened read-only.
    /// * [`Error::NoThread`] if the system gives no thread.
    pub fn writer(&self, options: WriterOptions) -> Result<Writer> {
        Writer::start(&self.store, options)
    }

    /// Opens the file again, with this handle, after a failure.
    ///
    /// A commit or a merge that cannot be written leaves it unknown what the file holds, and the handle then
    /// refuses to write ([`Error::OutcomeUnknown`]). An error of the disk while reading ends reading too. When
    /// the cause is removed, this call reads what the file really holds, and the handle goes on from there.
    /// A commit that failed is there as a whole or not at all. On a handle that has not failed, this does
    /// nothing.
    ///
    /// The file stays locked meanwhile, so no other process can get between. Snapshots that were taken before
    /// can only be dropped then. Each of their calls gives right answers from memory or [`Error::Reopened`].
    ///
    /// # Errors
    ///
    /// * [`Error::WouldDeadlock`] if this thread has a transaction open.
    /// * [`Error::Corrupted`] if commits are gone that were acknowledged.
    /// * Those of [`open`](Self::open) if the cause is still there. The handle stays as it is, and the call can
    ///   be repeated.
    ///
    /// # Cost
    ///
    /// That of [`open`](Self::open). A transaction that is open in another thread is waited for.
    pub fn reopen(&self) -> Result<()> {
        self.store.open_again()
    }

    /// Waits until no merge is due.
    ///
    /// Merges go on by themselves, so this is only for measurements.
    ///
    /// # Errors
    ///
    /// * [`Error::Storage`] if merging failed, for example because the disk is full.
    /// * [`Error::Corrupted`] if merging met damage.
    /// * [`Error::OutcomeUnknown`] if a commit or a merge could not be written.
    #[doc(hidden)]
    pub fn settle(&self) -> Result<()> {
        self.store.settle()
    }
}
