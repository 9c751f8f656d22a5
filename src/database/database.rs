//! Database: an open file. Create, open, begin, reopen.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "serve")]
use super::listener::{Listen, Listener};
use super::options::{CreateOptions, OpenOptions};
use super::write::WriteTxn;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::memory::Cache;
use crate::metrics::Metrics;
use crate::process::give_up_inherited;
use crate::sketch::SketchSize;
use crate::store::{Access, Patience, Store};
#[cfg(feature = "serve")]
use crate::sync::Mutex;
#[cfg(feature = "text")]
use crate::text::Fingerprinter;
use crate::text::Scheme;

/// An open database: one file, one writer at a time, any number of readers.
///
/// Threads share a handle by reference or in an `Arc`. The file is locked as long as the handle lives,
/// or a snapshot or transaction of it.
///
/// A handle belongs to the process that opened it, and so does all that comes from it. In a process that was forked
/// from that one, each call is [`Error::Forked`], and a drop touches neither the file nor its lock. Only what takes no
/// lock still answers: [`path`](Self::path), [`scheme`](Self::scheme), [`max_distance`](Self::max_distance),
/// [`min_similarity`](Self::min_similarity), [`sketch_size`](Self::sketch_size) and [`metrics`](Self::metrics). A
/// forked process that lives on should drop the handle or [`abandon`](Self::abandon) it, since it keeps the file
/// locked if the other process is killed.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, Policy, Query};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let database = Database::create(&path, &CreateOptions::new())?;
/// let fingerprinter = database.fingerprinter()?;
/// let page = "The quick brown fox jumps over the lazy dog, and then it runs away into the deep dark wood. \
///             Nobody has seen it since, though the dog still waits for it beside the gate every evening.";
///
/// let mut txn = database.begin_write()?;
/// txn.insert(&fingerprinter.document("https://example.org/a", page))?;
/// let again = fingerprinter.document("https://example.org/b", page);
/// let verdict = txn.insert_if_new(&again, &Policy::skip())?;
/// let nearest = verdict.matches().nearest().expect("there is a match");
/// assert_eq!(nearest.document.key(), b"https://example.org/a");
/// txn.commit()?;
///
/// let query = Query::like(&again).ok_or("too short to judge")?;
/// assert_eq!(database.snapshot()?.query(&query.near(3))?.total(), 1);
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
    #[cfg(feature = "serve")]
    listener: Mutex<Option<Listener>>,
    pub(crate) store: Arc<Store>,
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
    /// * [`Error::NotSeconds`] for a time of creation in another unit.
    /// * [`Error::Io`] and [`Error::Storage`] if the file cannot be written.
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let settings = options.settings()?;
        let (limit, sizes) = options.open.limits();
        let path = path.as_ref();
        options.open.ensure_new_can_be_served(path)?;
        let store = Store::create(path, &settings, limit, sizes)?;
        Self::with_listener(store, &options.open)
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
        let access = if options.read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let (limit, sizes) = options.limits();
        let store = Store::open(path.as_ref(), access, limit, sizes)?;
        Self::with_listener(store, options)
    }

    /// Opens the database at `path` for reading and writing, or creates it with `options` if there is
    /// none.
    ///
    /// A database that exists has to have what was set in `options`. What was not set is as the database has it.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), [`create`](Self::create) and [`ensure_created_with`](Self::ensure_created_with).
    pub fn open_or_create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let path = path.as_ref();
        let opened = match Self::open(path, &options.open) {
            Err(Error::NotFound { .. }) => match Self::create(path, options) {
                // Somebody else created it in the meantime.
                Err(Error::AlreadyExists { .. }) => Self::open(path, &options.open),
                created => return created,
            },
            opened => opened,
        }?;
        opened.ensure_created_with(options)?;
        Ok(opened)
    }

    /// Starts the listener, if the options ask for one.
    fn with_listener(store: Store, options: &OpenOptions) -> Result<Self> {
        let store = Arc::new(store);
        #[cfg(feature = "serve")]
        let listener = Mutex::new(
            options
                .listener
                .map(|Listen { start, .. }| start(&store))
                .transpose()?,
        );
        #[cfg(not(feature = "serve"))]
        let _ = options;
        Ok(Self {
            #[cfg(feature = "serve")]
            listener,
            store,
        })
    }

    /// Another handle of an open file.
    #[cfg(any(test, all(feature = "serve", unix)))]
    pub(crate) fn of_store(store: Arc<Store>) -> Self {
        Self {
            #[cfg(feature = "serve")]
            listener: Mutex::new(None),
            store,
        }
    }

    /// The path with which the database was created or opened. After [`build`](Self::build) it is absolute.
    pub fn path(&self) -> &Path {
        &self.store.path
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

    /// Checks that a document can be stored in the database, as every write does first.
    ///
    /// # Errors
    ///
    /// Those of [`Document::validate`]; [`Error::SketchSizes`] for a sketch of another size than the database has;
    /// [`Error::SketchMissing`] for a fingerprint without a sketch where texts are compared by sketches.
    pub fn validate(&self, document: &Document) -> Result<()> {
        self.store.settings().validate(document)
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

    /// Puts into memory what queries read, as far as [the cache](OpenOptions::cache) has room.
    ///
    /// Without it, memory fills as queries come. After a large file is opened, the first hundred thousand of them then
    /// take some twenty times as long as later ones. Others read and write meanwhile. So a program can do this on a
    /// thread of its own, and answer at once. Keys, and documents with their sketches, are still read when they are
    /// needed.
    ///
    /// `progress` is called now and then with the rows that are in memory, and all rows. When it breaks, what is in
    /// memory stays there.
    ///
    /// # Errors
    ///
    /// * [`Error::Interrupted`](crate::Error::Interrupted) if `progress` breaks.
    /// * Those of [`snapshot`](Self::snapshot). Damage is no error here: the query that needs the rows gets it.
    ///
    /// # Cost
    ///
    /// Reads the rows of all tables on all cores: about 70 bytes a document with six tables.
    ///
    /// # Example
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # use simdb::{CreateOptions, Database};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
    ///
    /// database.warm(|done, all| {
    ///     eprintln!("{done} of {all} rows are in memory");
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn warm(&self, mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send) -> Result<()> {
        self.store.warm(&mut progress)
    }

    /// Waits until no other transaction writes, then begins one.
    ///
    /// Those who wait get their turn in the order in which they have asked. So nobody waits for ever while others write
    /// again and again. A [`compact`](Self::compact) and a [`Writer`](crate::Writer) wait in the same line.
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

    /// What has happened since this handle was opened, and how the database stands now.
    ///
    /// In a process that was forked from the one that opened the database, the counts are those of the moment of the
    /// fork, and how the database stands now is told as 0.
    ///
    /// # Cost
    ///
    /// Some hundred counters are read. Nothing is read from the file, and nobody has to wait.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, Query, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
    /// txn.commit()?;
    /// database.snapshot()?.query(&Query::new(Fingerprint::from_bits(6)))?;
    ///
    /// let metrics = database.metrics();
    /// assert_eq!((metrics.documents_stored, metrics.queries, metrics.query_matches), (1, 1, 1));
    /// assert!(metrics.prometheus().contains("simdb_documents_stored_total 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.store.metrics()
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
        self.store.reopen()
    }

    /// Closes the database in order, and says what failed.
    ///
    /// It waits until everything that was submitted to a [`Writer`](crate::Writer) is durable, and until a transaction
    /// of another thread has ended. Then it puts the rows of the log into the tables of the file, ends all snapshots,
    /// and gives the lock of the file away. From then on every call on any handle of the database is
    /// [`Error::Closed`]: the database, its transactions, snapshots and writers. Tickets still give their answers.
    ///
    /// Dropping the last handle does the same, but its errors are lost, and snapshots are handles: one that lives
    /// keeps the file open. A process that is killed closes nothing. Nothing is lost by that: the log stays in the
    /// file, and the next opening reads it.
    ///
    /// # Errors
    ///
    /// * [`Error::WouldDeadlock`] if this thread has a transaction open, or is that of a writer. The database stays
    ///   open.
    /// * [`Error::Closed`] if it is closed already, and [`Error::Forked`] in a forked process.
    /// * The first error of a writer since its last [`flush`](crate::Writer::flush).
    /// * [`Error::NoRoom`], [`Error::Storage`], [`Error::Io`], [`Error::OutcomeUnknown`], [`Error::Damaged`] or
    ///   [`Error::Corrupted`] if the rows could not be put into the tables, for example because the disk is full. The
    ///   database is closed all the same. What was committed is in the file.
    ///
    /// # Cost
    ///
    /// Less than 0.1 s for each 100,000 documents that were stored since the file was opened and are not merged, and
    /// nothing if there are none.
    ///
    /// # Example
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    /// let database = simdb::Database::create(&path, &simdb::CreateOptions::new())?;
    /// let snapshot = database.snapshot()?;
    /// database.close()?;
    /// assert!(matches!(snapshot.stats(), Err(simdb::Error::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        self.store.ensure_may_close()?;
        // Nobody else asks for anything any more.
        #[cfg(feature = "serve")]
        drop(self.listener.lock().take());
        let watch = Watch::begin(Operation::Closing, self.path());
        let ((), took) = watch.end(self.store.close())?;
        Event::Closed.report(took);
        Ok(())
    }

    /// Gives up what a forked process has inherited, so that it no longer keeps the file locked.
    ///
    /// A process that was forked while the database was open shares the lock of the file, though it can use nothing.
    /// So if the process that opened the database is killed, the file stays in use until the forked one ends too. This
    /// call closes what the forked process has of files and sockets of simdb: those of this database, and of all others
    /// that it has inherited. The lock stays with the process that opened the database. Nothing is written, and nobody
    /// is waited for. Afterwards every call is [`Error::Forked`], as before. To drop the handle does the same.
    ///
    /// What this process has opened itself stays as it is. So in the process that opened the database, this does
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system gives no descriptor, which is needed for a moment.
    pub fn abandon(&self) -> Result<()> {
        give_up_inherited().map_err(Error::io(self.path()))
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

impl Drop for Database {
    fn drop(&mut self) {
        // Others may have the store too, also threads that a forked process does not have. So it may never be dropped.
        if !self.store.is_here() {
            // Without a descriptor, they are closed when the process ends.
            _ = give_up_inherited();
        }
    }
}
