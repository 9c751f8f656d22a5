//! Database: a file that is open, and the options to create and open it with.

mod batch;
mod check;
#[cfg(test)]
mod crash;
mod explain;
mod near;
mod query;
mod read;
mod search;
mod write;

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use check::{CheckReport, Problem};
pub use explain::{Explanation, TableProbes};
pub use query::{Match, Matches, Query};
pub use read::{Documents, Snapshot, Statistics};
pub use write::{Change, OnMatch, Policy, Verdict, WriteTxn};

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::{self, Plan, PlanEstimate, Prefer};
use crate::store::{Access, Settings, Sizes, Store};
use crate::text::{Fingerprinter, Scheme};

/// What is chosen when a database is created, and stored in it.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Scheme};
///
/// let options = CreateOptions::new().scheme(Scheme::External).max_distance(2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    scheme: Scheme,
    max_distance: u32,
    /// The name of a plan; without one it is chosen.
    plan: Option<String>,
    expected_documents: u64,
    prefer: Prefer,
    open: OpenOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            scheme: Scheme::default(),
            max_distance: 3,
            plan: None,
            expected_documents: 1_000_000,
            prefer: Prefer::default(),
            open: OpenOptions::default(),
        }
    }
}

impl CreateOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How fingerprints are made from texts. Default: [`Scheme::Text1`].
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// The distance, inclusive, at which queries match that name none; 0 to 64. Default: 3, as for web pages.
    /// Queries of any other distance are answered just as exactly, but the tables are chosen for this one.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.max_distance = max_distance;
        self
    }

    /// How many documents there will be; the tables are chosen for so many. With more, queries become slower, with fewer, space is
    /// wasted; the answers are the same. Default: 1,000,000.
    #[must_use]
    pub fn expected_documents(mut self, documents: u64) -> Self {
        self.expected_documents = documents;
        self
    }

    /// What matters in the choice of the tables. Default: [`Prefer::Balance`].
    #[must_use]
    pub fn prefer(mut self, prefer: Prefer) -> Self {
        self.prefer = prefer;
        self
    }

    /// The tables, by the name of their plan (`4x16`, say: four tables probed on 16 leading bits; `simdb plan` lists them). Default:
    /// what is best for the expected documents and the max distance.
    #[must_use]
    pub fn plan(mut self, name: impl Into<String>) -> Self {
        self.plan = Some(name.into());
        self
    }

    /// As [`OpenOptions::cache_bytes`], for the handle that creation returns; it is not stored.
    #[must_use]
    pub fn cache_bytes(mut self, cache_bytes: usize) -> Self {
        self.open.cache_bytes = cache_bytes;
        self
    }

    /// As [`OpenOptions::recent_documents`], for the handle that creation returns; it is not stored.
    #[must_use]
    pub fn recent_documents(mut self, recent_documents: usize) -> Self {
        self.open = self.open.recent_documents(recent_documents);
        self
    }

    /// As `OpenOptions::tiny_blocks`, for the handle that creation returns.
    #[doc(hidden)]
    #[must_use]
    pub fn tiny_blocks(mut self) -> Self {
        self.open = self.open.tiny_blocks();
        self
    }
}

fn named(plan: &str) -> Result<Plan> {
    plan::plan_named(plan).ok_or_else(|| Error::UnknownPlan { name: plan.to_owned() })
}

impl CreateOptions {
    fn chosen_plan(&self) -> Result<Plan> {
        match &self.plan {
            Some(name) => named(name),
            None => {
                let all =
                    plan::plans_and_estimates(self.expected_documents, self.max_distance, self.prefer, &[]);
                let preferred = all.into_iter().find(|(_, estimate)| estimate.preferred);
                Ok(preferred.expect("there are plans for every distance").0)
            }
        }
    }

    /// The plans there are for the expected documents and the max distance, from the fewest tables to the most, with what they would
    /// take and cost; one is preferred. `sample` may have fingerprints that show how unevenly they are spread, some hundred
    /// thousand, say; if it is empty, they are taken to be uniform.
    pub fn plans(&self, sample: &[Fingerprint]) -> Vec<PlanEstimate> {
        let all = plan::plans_and_estimates(self.expected_documents, self.max_distance, self.prefer, sample);
        all.into_iter().map(|(_, estimate)| estimate).collect()
    }

    /// What a new file says of itself.
    fn settings(&self) -> Result<Settings> {
        if self.max_distance > Fingerprint::BITS {
            return Err(Error::MaxDistance { given: self.max_distance });
        }
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Settings {
            scheme: self.scheme,
            plan: self.chosen_plan()?,
            max_distance: self.max_distance,
            // The standard library seeds its hash maps from the system's randomness, and so do we.
            key_seed: RandomState::new().hash_one(created),
            created: i64::try_from(created).unwrap_or(i64::MAX),
        })
    }
}

/// What concerns only this handle of a database.
///
/// # Example
///
/// ```
/// use simdb::OpenOptions;
///
/// let options = OpenOptions::new().cache_bytes(1 << 30).read_only(true);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    cache_bytes: usize,
    read_only: bool,
    recent_documents: Option<usize>,
    sizes: Sizes,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let sizes = Sizes::default();
        Self { cache_bytes: 256 << 20, read_only: false, recent_documents: None, sizes }
    }
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much memory what is read of the file may take in this process, in bytes. Default: 256 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, cache_bytes: usize) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }

    /// How many rows of the longest sorted set are kept in memory before they are merged into the file; at least 1. A document has
    /// one row there, or two if it has a scope. When merging cannot follow, up to four times as many wait, and as many
    /// again are being merged; a document takes about 100 bytes. More of them make writing faster, and queries beside it, since there are fewer
    /// levels; and opening after a crash slower. Default: one for each KiB of the cache, but 250,000 at least, and a million
    /// at most.
    #[must_use]
    pub fn recent_documents(mut self, recent_documents: usize) -> Self {
        self.recent_documents = Some(recent_documents.max(1));
        self
    }

    fn sizes(&self) -> Sizes {
        /// For each recent document the cache has ten times the memory that it takes.
        const CACHE_BYTES_EACH: usize = 1024;
        let by_cache = || (self.cache_bytes / CACHE_BYTES_EACH).clamp(250_000, 1_000_000);
        Sizes { recent_rows: self.recent_documents.unwrap_or_else(by_cache), ..self.sizes }
    }

    /// Makes blocks and merges tiny, so that a test of a few documents goes every way that millions go.
    #[doc(hidden)]
    #[must_use]
    pub fn tiny_blocks(mut self) -> Self {
        self.sizes = Sizes {
            block_bytes: 128,
            document_block_bytes: 128,
            chunk_entries: 3,
            step_blocks: 2,
            spill_bytes: 200,
            ..self.sizes
        };
        self
    }

    /// Whether the file is only read. Several processes may then have it open, as long as none writes; and the
    /// permission to read it suffices. Default: false.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

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
    store: Arc<Store>,
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
        self.store.compact(Some(named(plan)?), &mut progress)
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
