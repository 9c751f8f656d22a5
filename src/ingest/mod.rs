//! From inputs to documents: JSON Lines, tab-separated, plain text and fingerprint files, gzip or not, read,
//! fingerprinted on all cores and committed in batches.
//!
//! # Example
//!
//! ```
//! use simdb::ingest::{Event, Ingest, ReadOptions, Records};
//! use simdb::{CreateOptions, Database};
//! # let directory = tempfile::tempdir()?;
//! # let (path, input) = (directory.path().join("pages.simdb"), directory.path().join("pages.tsv"));
//! # std::fs::write(&input, "a\tone two three four five six seven eight nine ten eleven twelve thirteen\n")?;
//!
//! let database = Database::create(&path, &CreateOptions::new())?;
//! let records = Records::open([&input], ReadOptions::new())?;
//! let totals = Ingest::new(&database).run(records, |event| {
//!     if let Event::Duplicate { document, verdict } = event {
//!         println!("{:?} has {} near-duplicates", document.key(), verdict.matches().total());
//!     }
//! })?;
//! assert_eq!(totals.inserted, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod content;
mod fingerprinting;
mod json;
mod record;
mod rejected;
mod source;
mod tsv;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;

pub use fingerprinting::Fingerprinting;
pub use record::Record;
pub use rejected::{Reason, Rejected};
pub use source::{InputFormat, Progress, ReadOptions};

use crate::database::{Change, Database, Policy, Verdict, WriteTxn};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::text::Scheme;
use source::{Inputs, Raw};

/// The records of some inputs, in order.
#[derive(Debug)]
pub struct Records {
    inputs: Inputs,
    /// Read ahead to see what the first record brings.
    ahead: VecDeque<Raw>,
}

/// How many records are parsed and fingerprinted together.
const CHUNK_LENGTH: usize = 1024;

impl Records {
    /// Opens inputs: paths, or `-` for standard input. gzip is recognised by content.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] for the first that cannot be read; nothing has been read then.
    pub fn open(paths: impl IntoIterator<Item = impl Into<PathBuf>>, options: ReadOptions) -> Result<Self> {
        let paths = paths.into_iter().map(Into::into).collect();
        Ok(Self { inputs: Inputs::open(paths, options)?, ahead: VecDeque::new() })
    }

    /// How far reading has come.
    pub fn progress(&self) -> Progress {
        self.inputs.progress()
    }

    /// The scheme that suits the inputs, by the first good record: [`Scheme::External`] where it brings a ready
    /// fingerprint, otherwise the default.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if the inputs cannot be read.
    pub fn suitable_scheme(&mut self) -> Result<Scheme> {
        if self.inputs.options().format == InputFormat::Fingerprints {
            return Ok(Scheme::External);
        }
        // So many bad records in front, and there is hardly a good one behind.
        const MOST_RECORDS: usize = 1_000;
        const MOST_BYTES: usize = 64 << 20;
        let mut bytes = 0;
        while self.ahead.len() < MOST_RECORDS && bytes < MOST_BYTES {
            let Some(raw) = self.inputs.next_chunk(1)?.pop() else { break };
            bytes += raw.bytes();
            let parsed = Record::parse(raw.clone(), self.inputs.options());
            self.ahead.push_back(raw);
            match parsed.ok().and_then(|record| record.brings_fingerprint()) {
                Some(true) => return Ok(Scheme::External),
                Some(false) => break,
                // What is read ahead has its turn, and is reported, later.
                None => {}
            }
        }
        Ok(Scheme::default())
    }

    /// The next records that are at hand, parsed and turned into something on all cores; none at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if an input cannot be read further; the records before have been returned then.
    pub fn next_chunk<T: Send, E: From<Rejected> + Send>(
        &mut self,
        turn: impl Fn(Record) -> Result<T, E> + Sync,
    ) -> Result<Vec<Result<T, E>>> {
        let raw = if self.ahead.is_empty() {
            self.inputs.next_chunk(CHUNK_LENGTH)?
        } else {
            self.ahead.drain(..).collect()
        };
        let options = self.inputs.options();
        Ok(raw.into_par_iter().map(|raw| turn(Record::parse(raw, options)?)).collect())
    }
}

/// A way to ingest records into a database.
#[derive(Clone, Debug)]
pub struct Ingest<'d> {
    database: &'d Database,
    policy: Policy,
    batch: usize,
    strict: bool,
    scheme: Option<Scheme>,
}

/// What is told of an ingestion while it goes on, once it is durable: a batch's records in their order, then its
/// commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A document has near-duplicates.
    Duplicate {
        /// The document.
        document: &'e Document,
        /// What was done with it, and what it resembles.
        verdict: &'e Verdict,
    },
    /// A record could not be taken.
    Rejected(&'e Rejected),
    /// A batch is durable.
    Committed {
        /// The totals so far.
        totals: &'e Totals,
    },
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// How many records were read, rejected ones not counted.
    pub documents: u64,
    /// Of these, how many were stored under a new key.
    pub inserted: u64,
    /// How many were stored in the place of a document of the same key.
    pub replaced: u64,
    /// How many were not stored, being near-duplicates.
    pub skipped: u64,
    /// How many stored documents were deleted because a new one outranks them.
    pub deleted: u64,
    /// How many have near-duplicates.
    pub duplicates: u64,
    /// How many are too short to judge.
    pub too_short: u64,
    /// How many records could not be taken.
    pub rejected: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Totals {
    fn add(&mut self, document: &Document, verdict: &Verdict) {
        self.documents += 1;
        match verdict.change() {
            Change::Inserted => self.inserted += 1,
            Change::Replaced(_) => self.replaced += 1,
            Change::Skipped => self.skipped += 1,
        }
        self.deleted += verdict.deleted().len() as u64;
        self.duplicates += u64::from(verdict.is_duplicate());
        self.too_short += u64::from(document.fingerprint().is_none());
    }
}

impl<'d> Ingest<'d> {
    /// Ingestion into `database` with the defaults of the methods below.
    pub fn new(database: &'d Database) -> Self {
        Self { database, policy: Policy::link(), batch: 10_000, strict: false, scheme: None }
    }

    /// What happens with near-duplicates. Default: [`Policy::link`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How many records are committed together, at least 1; fewer where the input pauses for a second, and where what
    /// is to be told of them takes more than 64 MiB. Default: 10,000.
    #[must_use]
    pub fn batch(mut self, records: usize) -> Self {
        self.batch = records.max(1);
        self
    }

    /// Whether the first bad record ends the ingestion with an error. What stands before it is committed. Default:
    /// false, bad records are reported and counted.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The scheme of ready fingerprints in the records. It has to be that of the database, which takes ready
    /// fingerprints only with this, unless it is [`Scheme::External`]. Default: none.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// Ingests all records, and tells `observe` what happens, as soon as it is durable.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`]; [`Error::Input`] if an input cannot be read further, or for a bad record if that
    /// is to be fatal, what stands before being committed; [`Error::ReadOnly`], [`Error::Damaged`] and
    /// [`Error::Storage`], only whole batches being committed.
    ///
    /// # Cost
    ///
    /// One thread reads, all cores fingerprint and look for near-duplicates, one thread writes. Memory grows with the batch, by a document and
    /// up to the policy's limit of matches each.
    pub fn run(&self, records: Records, observe: impl FnMut(Event<'_>)) -> Result<Totals> {
        let rule = Fingerprinting::new(self.database.scheme(), self.scheme)?;
        let mut batches = Batches {
            ingest: self,
            observe,
            txn: None,
            pending: Vec::new(),
            pending_bytes: 0,
            in_batch: 0,
            totals: Totals::default(),
            began: Instant::now(),
        };
        let taken = batches.take_all(&read_ahead(records, rule));
        // What was read before an input failed is good; after a failure of the database nothing is.
        if matches!(taken, Ok(()) | Err(Error::Input { .. })) {
            batches.commit()?;
        }
        taken.map(|()| batches.totals)
    }
}

type Chunk = Vec<Result<Document, Rejected>>;

/// Reads, parses and fingerprints in the background, a few chunks ahead. The last thing sent is an empty chunk, or
/// an error.
fn read_ahead(mut records: Records, rule: Fingerprinting) -> mpsc::Receiver<Result<Chunk>> {
    let (sender, receiver) = mpsc::sync_channel(2);
    // Not joined: it may wait for standard input for ever when the receiver has gone.
    thread::spawn(move || {
        loop {
            let chunk = records.next_chunk(|record| record.into_document(rule));
            let ended = chunk.as_ref().map_or(true, Vec::is_empty);
            if sender.send(chunk).is_err() || ended {
                break;
            }
        }
    });
    receiver
}

/// The batch at hand, and what is to be told once it is committed.
struct Batches<'i, F> {
    ingest: &'i Ingest<'i>,
    observe: F,
    txn: Option<WriteTxn>,
    pending: Vec<Pending>,
    /// About how much memory `pending` takes: payloads can make a batch of verdicts large.
    pending_bytes: usize,
    in_batch: usize,
    totals: Totals,
    began: Instant,
}

/// A batch ends where what is to be told of it takes so much memory.
const MOST_PENDING_BYTES: usize = 64 << 20;

enum Pending {
    Duplicate(Box<(Document, Verdict)>),
    Rejected(Rejected),
}

impl<F: FnMut(Event<'_>)> Batches<'_, F> {
    fn take_all(&mut self, chunks: &mpsc::Receiver<Result<Chunk>>) -> Result<()> {
        loop {
            let chunk = match chunks.recv_timeout(Duration::from_secs(1)) {
                Ok(chunk) => chunk?,
                Err(RecvTimeoutError::Timeout) => {
                    self.commit()?;
                    continue;
                }
                // It always sends an empty chunk or an error last: this is a defect of ours, not of the input.
                Err(RecvTimeoutError::Disconnected) => panic!("the thread that reads the input has panicked"),
            };
            if chunk.is_empty() {
                return Ok(());
            }
            self.take_chunk(chunk)?;
        }
    }

    fn take_chunk(&mut self, chunk: Chunk) -> Result<()> {
        let mut documents = Vec::new();
        for document in chunk {
            match document {
                Ok(document) => documents.push(document),
                Err(rejected) => {
                    self.insert(std::mem::take(&mut documents))?;
                    self.reject(rejected)?;
                }
            }
        }
        self.insert(documents)
    }

    fn reject(&mut self, rejected: Rejected) -> Result<()> {
        if self.ingest.strict {
            return Err(rejected.into());
        }
        self.totals.rejected += 1;
        self.pending.push(Pending::Rejected(rejected));
        self.in_batch += 1;
        if self.is_full() { self.commit() } else { Ok(()) }
    }

    /// Inserts documents, and commits whenever a batch is full.
    fn insert(&mut self, documents: Vec<Document>) -> Result<()> {
        let mut documents = VecDeque::from(documents);
        while !documents.is_empty() {
            let mut txn = match self.txn.take() {
                Some(txn) => txn,
                None => self.ingest.database.begin_write()?,
            };
            let together = documents.len().min(self.ingest.batch - self.in_batch);
            let mut verdicts = Vec::with_capacity(together);
            let mut bytes = self.pending_bytes;
            let part = &documents.make_contiguous()[..together];
            txn.insert_each_if_new(part, &self.ingest.policy, |verdict| {
                if verdict.is_duplicate() {
                    let listed = verdict.matches().iter().map(|found| &found.document);
                    let listed = listed.chain(verdict.deleted()).chain([&part[verdicts.len()]]);
                    bytes += listed.map(bytes_of).sum::<usize>();
                }
                verdicts.push(verdict);
                if bytes > MOST_PENDING_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            self.txn = Some(txn);
            self.pending_bytes = bytes;
            for (document, verdict) in documents.drain(..verdicts.len()).zip(verdicts) {
                self.in_batch += 1;
                self.totals.add(&document, &verdict);
                if verdict.is_duplicate() {
                    self.pending.push(Pending::Duplicate(Box::new((document, verdict))));
                }
            }
            if self.is_full() {
                self.commit()?;
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.in_batch >= self.ingest.batch || self.pending_bytes > MOST_PENDING_BYTES
    }

    /// Commits the batch and tells what was in it.
    fn commit(&mut self) -> Result<()> {
        if let Some(txn) = self.txn.take() {
            txn.commit()?;
        }
        self.totals.elapsed = self.began.elapsed();
        for pending in self.pending.drain(..) {
            (self.observe)(match &pending {
                Pending::Duplicate(both) => Event::Duplicate { document: &both.0, verdict: &both.1 },
                Pending::Rejected(rejected) => Event::Rejected(rejected),
            });
        }
        self.pending_bytes = 0;
        if self.in_batch > 0 {
            self.in_batch = 0;
            (self.observe)(Event::Committed { totals: &self.totals });
        }
        Ok(())
    }
}

/// About how much memory a document takes.
fn bytes_of(document: &Document) -> usize {
    size_of::<Document>() + document.key().len() + document.scope().len() + document.payload().len()
}
