//! Ingestion: its settings, the run that stores all records, and what that reports.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::batches::{LOOK, take_records};
use super::record::{Fingerprinting, OnText};
use super::records::Records;
use super::rejected::Rejected;
use super::resuming::{Reread, Sources};
use super::stored_bytes::Stop;
use crate::database::{Database, Policy, SharedFn, Verdict};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::sketch::SketchSize;
use crate::source::Totals;
use crate::store::NamesTaken;
use crate::text::Scheme;

/// Ingests records into a database.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::Policy;
/// use simdb::ingest::{Ingest, ReadOptions, Records};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&path, format!("a\t{text}\nb\t{text}\n"))?;
///
/// let ingest = Ingest::new(&database).policy(Policy::skip()).batch(1_000);
/// let records = Records::open([&path], ReadOptions::new())?;
/// let ingested = ingest.run(records, |_event| ControlFlow::Continue(()))?;
/// assert_eq!((ingested.now.inserted, ingested.now.skipped), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ingest<'d> {
    pub(super) database: &'d Database,
    pub(super) policy: Policy,
    pub(super) batch: usize,
    pub(super) strict: bool,
    pub(super) asks: bool,
    pub(super) stop: Stop,
    reread: Reread,
    scheme: Option<Scheme>,
    pub(super) on_text: Option<OnText>,
}

impl<'d> Ingest<'d> {
    /// Ingestion into `database`, with the defaults of the setters below.
    pub fn new(database: &'d Database) -> Self {
        Self {
            database,
            policy: Policy::link(),
            batch: 10_000,
            strict: false,
            asks: true,
            stop: Stop::default(),
            reread: Reread::default(),
            scheme: None,
            on_text: None,
        }
    }

    /// What to do with near-duplicates. Default: [`Policy::link`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The number of records that are committed together, at least 1. Default: 10,000. Each paragraph or sentence
    /// counts, if records are cut into these. Those of one record are committed together in any case.
    ///
    /// A batch is committed with fewer records when its oldest record was read nearly a second ago. So of an input
    /// that comes slowly, no record waits for more than about a second.
    #[must_use]
    pub fn batch(mut self, records: usize) -> Self {
        self.batch = records.max(1);
        self
    }

    /// Whether the first bad record, or the first input that cannot be read, ends the ingestion with an error. The
    /// records before it are committed. Default: false; both are reported and counted.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Whether near-duplicates are looked for. Default: true. Otherwise all documents are stored, whatever the policy
    /// says, and none is reported as a duplicate. That takes less time.
    #[must_use]
    pub fn asks(mut self, asks: bool) -> Self {
        self.asks = asks;
        self
    }

    /// The scheme of the ready fingerprints in the records. It must be the scheme of the database. Default:
    /// none; ready fingerprints are then taken only if the scheme of the database is [`Scheme::External`].
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// A function that sees each document with its text, before it is decided what becomes of the document. Of a page
    /// it sees what the scheme reads, of units the text of each. Default: none.
    ///
    /// So a program can keep the texts that [`Policy::verify`] compares. It is called by several threads at once, a
    /// few thousand records ahead. Records that bring no text are not shown.
    #[must_use]
    pub fn on_text(mut self, see: impl Fn(&Document, &str) + Send + Sync + 'static) -> Self {
        self.on_text = Some(SharedFn(Arc::new(see)));
        self
    }

    /// Which inputs are read again that were read before. Default: none.
    ///
    /// Reading them again gives the verdicts of the first time: documents that were stored while they were read
    /// do not count before their turn has come again.
    #[must_use]
    pub fn reread(mut self, reread: Reread) -> Self {
        self.reread = reread;
        self
    }

    /// A function that is asked several times a second whether to end. If it says so, what was read is committed.
    /// Default: never.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Stop::when(stop);
        self
    }

    /// Ingests all records that were not ingested before. Reports each event to `observe`. If it breaks, the ingestion
    /// ends, and the batch that is not committed yet is not stored.
    ///
    /// The events of a batch come before it is committed. Others wait for their turn to write meanwhile, so `observe`
    /// should return soon.
    ///
    /// With each batch, the place up to which each input was read is committed. So after a stop at any moment, the
    /// same ingestion goes on from there. What its inputs hold in all is then what they hold after an ingestion that
    /// was not stopped.
    ///
    /// Of several ingestions of one input at once, each waits for the one before.
    ///
    /// An input that cannot be read, or not further, is reported and counted, and the next one is read. If the
    /// reason is in its content, it is not tried again before that has changed.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`] if [`scheme`](Self::scheme) is not that of the database.
    /// [`Error::SketchSizes`] if the policy asks for a similarity and the database has no sketches.
    /// [`Error::WouldDeadlock`] if this thread is within another ingestion of one of the inputs. [`Error::Input`]
    /// for a bad record or an input that cannot be read, if [`strict`](Self::strict) is set; the records before it are
    /// committed. [`Error::NoThread`] if the system gives no thread for the reading.
    /// [`Error::ReadOnly`], [`Error::Damaged`] and [`Error::Storage`]; only whole batches are committed then.
    ///
    /// # Cost
    ///
    /// One thread reads, all cores make fingerprints and look for near-duplicates, one thread writes. Memory
    /// grows with the batch: for each record a document, and matches up to the limit of the policy.
    pub fn run(
        &self,
        records: Records,
        mut observe: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Ingested> {
        self.run_until_error(records, &mut |event| Error::if_broken(observe(event)))
    }

    /// As [`run`](Self::run). An error of `report` ends the ingestion.
    fn run_until_error(
        &self,
        mut records: Records,
        report: &mut dyn FnMut(Event<'_>) -> Result<()>,
    ) -> Result<Ingested> {
        // Before anything is read of the inputs.
        self.database.store.ensure_usable()?;
        let began = Instant::now();
        let needs_sketches = self.policy.needs_sketches();
        let sketch_size = self.database.sketch_size();
        if needs_sketches && sketch_size == SketchSize::None {
            return Err(Error::SketchSizes {
                stored: 0,
                given: 0,
            });
        }
        let rule = Fingerprinting::new(self.database.scheme(), self.scheme)?
            .sketch_size(sketch_size)
            .needs_sketches(needs_sketches)
            .stores(true);
        records.begin_again();
        let _in_use = self.wait_for_sources(&records.names(), report)?;
        let (sources, resumptions) = Sources::plan(
            self.database,
            &mut records,
            self.reread,
            self.asks && self.policy.counts(),
        )?;
        take_records(self, records, rule, sources, &resumptions, report, began)
    }

    /// Waits until no other ingestion of this process reads any of the inputs: each goes on from where the one before
    /// has ended. Otherwise both would read the same records, and count these twice.
    fn wait_for_sources(
        &self,
        names: &[Option<Arc<[u8]>>],
        report: &mut dyn FnMut(Event<'_>) -> Result<()>,
    ) -> Result<NamesTaken<'_>> {
        let mut is_told = false;
        loop {
            let known = names.iter().flatten().cloned();
            if let Some(taken) = self.database.store.sources_in_use.take(known)? {
                return Ok(taken);
            }
            if !is_told {
                report(Event::Waiting)?;
                is_told = true;
            }
            if self.stop.is_asked() {
                return Err(Error::Interrupted);
            }
            thread::sleep(LOOK);
        }
    }
}

/// What an ingestion reports while it runs. First how each input is read, if it was read before. Then, for each
/// batch, the events of its records in their order, that they are complete, and that the batch is durable.
///
/// The events of a batch come before its commit. If the program is stopped in between, they come again when the
/// ingestion goes on. So none is lost, and some may come twice.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::ingest::{Event, Ingest, ReadOptions, Records};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&path, format!("a\t{text}\nb\t{text}\nno tab\n"))?;
///
/// let mut told = Vec::new();
/// let records = Records::open([&path], ReadOptions::new())?;
/// Ingest::new(&database).run(records, |event| {
///     match event {
///         Event::Duplicate { document, .. } => told.push(format!("{:?} is near to another", document.key())),
///         Event::Rejected(rejected) => told.push(rejected.reason.to_string()),
///         Event::Committed { totals } => told.push(format!("{} documents", totals.documents)),
///         _ => {}
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(told, ["[98] is near to another", "the line has no tab between key and content", "2 documents"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// Another ingestion of this process reads one of the inputs. Its end is waited for.
    Waiting,
    /// An input was read before.
    Source {
        /// The path of the input.
        path: &'e Path,
        /// How it is read now.
        resumed: Resumed,
    },
    /// A document has near-duplicates.
    Duplicate {
        /// The document.
        document: &'e Document,
        /// What was done with it, and the documents it is near to.
        verdict: &'e Verdict,
    },
    /// A record could not be taken.
    Rejected(&'e Rejected),
    /// An input could not be read, or not further. What was read of it before is stored, and the next one is read.
    Failed {
        /// The path of the input.
        path: &'e Path,
        /// Why: [`Error::Input`](crate::Error::Input).
        error: &'e Error,
        /// Whether the reason is in the content. Then the input is not tried again before that has changed.
        is_lasting: bool,
    },
    /// The last line of an input has no line end, and is no record. Most likely whoever writes the input has not ended
    /// it yet. It is left for the next run, which reads it when the input has become longer.
    Left(&'e Rejected),
    /// An input is read as one document, and each of its many short lines may be one. Whoever means that reads it with
    /// [`InputFormat::Lines`](super::InputFormat::Lines), and otherwise says
    /// [`InputFormat::Text`](super::InputFormat::Text).
    List {
        /// The path of the input.
        path: &'e Path,
        /// The number of lines that are not empty.
        lines: u64,
    },
    /// The events of a batch are complete, and it is committed next. What was printed of them has to be written
    /// out now.
    Reported,
    /// A batch is durable.
    Committed {
        /// The totals up to this commit.
        totals: &'e Totals,
    },
}

/// How an input is read, if it or another of its name was read before.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::ingest::{Event, Ingest, ReadOptions, Records};
/// # use simdb::ingest::Resumed;
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
///
/// let mut told = Vec::new();
/// for content in ["a\tone page\n", "a\tone page\nb\tanother page\n", "c\ta third page\n"] {
///     std::fs::write(&path, content)?;
///     Ingest::new(&database).run(Records::open([&path], ReadOptions::new())?, |event| {
///         if let Event::Source { resumed, .. } = event {
///             told.push(resumed);
///         }
///         ControlFlow::Continue(())
///     })?;
/// }
/// assert_eq!(told, [Resumed::Grown, Resumed::Changed]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resumed {
    /// From its beginning, since it was not read before.
    New,
    /// Not at all, since it was read to its end.
    PassedOver,
    /// Not at all, since it is among the inputs before.
    Repeated,
    /// From where its reading was stopped.
    Continued,
    /// From where it ended when it was read. It has become longer.
    Grown,
    /// From its beginning, since it has another content now.
    Changed,
    /// From its beginning, since the caller wants it.
    Again,
    /// Not at all, since it could not be read further before, and has the same content.
    Failed,
}

/// What an ingestion has done.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::ingest::{Ingest, ReadOptions, Records};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\nb\tanother page\n")?;
///
/// let mut documents = Vec::new();
/// for unchanged in [0, 1] {
///     let records = Records::open([&path], ReadOptions::new())?;
///     let ingested = Ingest::new(&database).run(records, |_event| ControlFlow::Continue(()))?;
///     documents.push((ingested.now.documents, ingested.in_all.documents));
///     assert_eq!((ingested.unchanged, ingested.failed), (unchanged, 0));
/// }
/// assert_eq!(documents, [(2, 2), (0, 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ingested {
    /// What it has read now.
    pub now: Totals,
    /// What its inputs hold in all: what was read of them now, and before.
    pub in_all: Totals,
    /// The number of inputs that were not read, since they were read to their end before and have not changed, or are
    /// given more than once.
    pub unchanged: u64,
    /// The number of inputs that could not be read, or not further.
    pub failed: u64,
}
