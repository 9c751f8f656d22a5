//! Database: an open file. Create, open, begin, compact, check.

use std::path::Path;
use std::sync::Arc;

use super::check::{self, CheckReport};
use super::options::{self, CreateOptions, OpenOptions};
use super::read::Snapshot;
use super::write::WriteTxn;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::{Access, Store};
use crate::text::{Fingerprinter, Scheme};

/// An open database: one file, one writer at a time, any number of readers.
///
/// A handle is shared between threads by reference or in an `Arc`. The file is locked as long as the handle, or
/// a snapshot or transaction of it, lives.
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
/// assert_eq!(verdict.matches().nearest().map(|near| near.document.key()), Some(&b"https://example.org/a"[..]));
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
    pub(super) store: Arc<Store>,
}

impl Database {
    /// Creates a database at `path`, where nothing may stand yet.
    ///
    /// It is made under a temporary name in the same directory and then renamed, so that a crash leaves either
    /// no database or a whole one, and perhaps a file called `.simdb-….tmp`, which can be removed.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`]; [`Error::MaxDistance`] for more than 64; [`Error::Io`] and [`Error::Storage`]
    /// where the directory cannot be written.
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let settings = options.settings()?;
        let store = Store::create(path.as_ref(), &settings, options.open.cache_bytes, options.open.sizes())?;
        Ok(Self { store: Arc::new(store) })
    }

    /// Builds a database at `path`, where nothing may stand yet, from documents whose keys are all different: much faster
    /// than inserting them, and as dense as after [`compact`](Self::compact). Either the whole database is there afterwards
    /// or nothing.
    ///
    /// Rows are sorted in `memory_bytes` of memory; what does not fit goes to files without a name in the same directory,
    /// up to 80 bytes for a document, 96 with a scope.
    ///
    /// # Errors
    ///
    /// The first error that `documents` yields; [`Error::KeyRepeated`]; [`Error::KeyLength`] and the other errors of
    /// length; and as for [`create`](Self::create).
    pub fn build(
        path: impl AsRef<Path>,
        options: &CreateOptions,
        documents: impl IntoIterator<Item = Result<Document>>,
        memory_bytes: usize,
    ) -> Result<Self> {
        let settings = options.settings()?;
        Store::build(path.as_ref(), &settings, documents.into_iter(), memory_bytes, options.open.sizes())?;
        Self::open(path, &options.open)
    }

    /// Opens the database at `path`. After a crash of its last writer this takes milliseconds, and what was
    /// committed is there.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Busy`] where another handle writes, or, unless both are read-only, has it
    /// open; [`Error::NotSimdb`], [`Error::FormatVersion`], [`Error::UnknownFeatures`] and
    /// [`Error::UnknownScheme`] for files this release cannot read; [`Error::NeedsRecovery`] from a read-only
    /// opening; [`Error::Damaged`], [`Error::Corrupted`], [`Error::Io`] and [`Error::Storage`].
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let access = if options.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let store = Store::open(path.as_ref(), access, options.cache_bytes, options.sizes())?;
        Ok(Self { store: Arc::new(store) })
    }

    /// Opens the database at `path` for reading and writing, and creates it with `options` if there is none. For a
    /// database that exists, only [`cache_bytes`](CreateOptions::cache_bytes) and
    /// [`recent_documents`](CreateOptions::recent_documents) count.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        let path = path.as_ref();
        match Self::open(path, &options.open) {
            Err(Error::NotFound { .. }) => {}
            opened => return opened,
        }
        match Self::create(path, options) {
            // Somebody else was faster.
            Err(Error::AlreadyExists { .. }) => Self::open(path, &options.open),
            created => created,
        }
    }

    /// The path the database was created or opened with.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// The scheme of the fingerprints in the database.
    pub fn scheme(&self) -> Scheme {
        self.store.settings().scheme
    }

    /// The distance at which queries match that name none.
    pub fn max_distance(&self) -> u32 {
        self.store.settings().max_distance
    }

    /// What makes fingerprints that compare with those in the database.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalScheme`] where the fingerprints are made elsewhere.
    pub fn fingerprinter(&self) -> Result<Fingerprinter> {
        Fingerprinter::new(self.scheme())
    }

    /// A view of what is committed now, which does not change any more. It never waits for a writer.
    ///
    /// Space that is given back after it was taken, also by merging, cannot be used again as long as it lives.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] if the file cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(self.store.clone())
    }

    /// Begins the transaction that writes, and waits for another to end before. A thread that has one open
    /// already would wait for itself.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`]; [`Error::OutcomeUnknown`] where an earlier commit or a merge could not be written;
    /// [`Error::Storage`] if the file cannot be read.
    pub fn begin_write(&self) -> Result<WriteTxn> {
        WriteTxn::new(self.store.clone())
    }

    /// Puts a dense copy in the place of the file: all rows in one level, full blocks, nothing deleted. It is made beside
    /// the file, read back and synced before it takes its name, so that a crash at any moment leaves the one or the other.
    ///
    /// Nobody can write meanwhile; snapshots can be taken and go on. `progress` is called now and then with rows copied
    /// and rows in all.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`], before anything is done; [`Error::ReadOnly`]; [`Error::OutcomeUnknown`];
    /// [`Error::Damaged`], [`Error::Io`] and [`Error::Storage`], which leave the file as it was. If only the directory cannot be
    /// synced in the end, that is an [`Error::Io`] too: the copy is in its place then, but after a loss of power the old file may be.
    ///
    /// # Cost
    ///
    /// Reads the whole file, and writes what is live. The space of the old file is free when the last snapshot of it is
    /// gone.
    pub fn compact(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.store.compact(None, &mut progress)
    }

    /// As [`compact`](Self::compact), into the permuted tables of another plan, of a name that [`CreateOptions::plans`] lists: for a
    /// database that has outgrown the number of documents it was created for, or is asked at another distance. Answers stay the same.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPlan`]; otherwise as for [`compact`](Self::compact).
    ///
    /// # Cost
    ///
    /// On top of that of compaction, the rows of each table that is new are sorted in half of the cache; what does not fit goes to
    /// files without a name beside the database, 8 bytes a row for one table at a time.
    pub fn compact_with_plan(&self, plan: &str, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.store.compact(Some(options::plan_of_name(plan)?), &mut progress)
    }

    /// Waits until the merges that are due are done. They go on by themselves; this is for measurements.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] if merging failed, for example because the disk is full.
    #[doc(hidden)]
    pub fn settle(&self) -> Result<()> {
        self.store.settle()
    }

    /// Checks every invariant of the file: the checksum of each page and value, that each document is found by
    /// its key and its fingerprint, and that nothing else is found.
    ///
    /// Damage is not an error but what the report says. While it lasts, whoever wants a snapshot or a transaction waits.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while a snapshot or transaction of this handle is open; [`Error::ReadOnly`], since
    /// pages can only be verified by a handle that may write; [`Error::OutcomeUnknown`]; [`Error::Storage`] if the file cannot
    /// be read.
    ///
    /// # Cost
    ///
    /// Reads the whole file, and for each document one row of every sorted set, at random.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(&self.store)
    }
}
