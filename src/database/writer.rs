//! Writer: one handle with which many threads and tasks submit documents.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::answer::Promise;
use super::group_commit::GroupCommit;
use super::policy::Policy;
use super::submissions::{Submissions, Work};
use super::ticket::{Desk, Submitting, Ticket};
use super::verdict::Verdict;
use crate::document::{Document, validate_key};
use crate::error::{Error, Result};
use crate::process::OfProcess;
use crate::source::Reached;
use crate::store::{Store, User};

/// A handle with which many threads and tasks write, without a transaction of their own.
///
/// What they submit goes into one queue. A thread of the writer takes what waits there, decides it in one
/// transaction, commits it, and answers each submission. So one commit, which takes about a millisecond, is
/// shared by many documents.
///
/// * Submissions are decided in the order in which they come. So the verdicts of one thread are in the order
///   of its submissions. Of two near-duplicates that two threads submit at once, exactly one is new.
/// * The queue is bounded. Who submits while it is full waits, and is served in the order of coming.
/// * A document out of bounds fails alone. An error of the disk reaches everybody who waits.
///
/// Clones are the same writer. Dropping the last of them does what [`close`](Self::close) does. A
/// [`WriteTxn`](crate::WriteTxn) can be used beside it: the transactions of both take turns.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, Document, Fingerprint, Policy, Scheme, WriterOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let database = Database::create(&path, &CreateOptions::new().scheme(Scheme::External))?;
/// let writer = database.writer(WriterOptions::new())?;
/// let verdicts: Vec<_> = std::thread::scope(|scope| {
///     let crawlers = (0..8).map(|thread| {
///         let writer = writer.clone();
///         scope.spawn(move || {
///             let document = Document::new(format!("page of {thread}"), Fingerprint::from_bits(7));
///             writer.insert_if_new(&document, &Policy::skip())
///         })
///     });
///     let crawlers: Vec<_> = crawlers.collect();
///     crawlers.into_iter().map(|it| it.join().expect("no thread panics")).collect::<simdb::Result<_>>()
/// })?;
/// assert_eq!(verdicts.iter().filter(|verdict| !verdict.is_duplicate()).count(), 1);
/// writer.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Writer {
    handle: Arc<Handle>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(store: &Arc<Store>, options: WriterOptions) -> Result<Self> {
        store.ensure_writable()?;
        let desk = Desk::new(Submissions::new(options, store.meters.clone()), store);
        let failure = Arc::new(Mutex::new(None));
        let work = GroupCommit {
            store: store.clone(),
            desk: desk.clone(),
            failure: failure.clone(),
        };
        let thread = thread::Builder::new()
            .name("simdb-writer".to_owned())
            .spawn(move || work.run());
        let thread = Mutex::new(Some(OfProcess::new(thread.map_err(Error::no_thread)?)));
        let handle = Arc::new(Handle {
            desk,
            failure,
            thread,
        });
        // First a name, since a coercion within the call would make a weak pointer to something else.
        let user: Arc<dyn User> = handle.clone();
        store.note_user(Arc::downgrade(&user));
        Ok(Self { handle })
    }

    /// Submits a document. Its ticket gives the verdict later.
    ///
    /// If the queue is full, this waits until there is room. With a document that was read from a source, the place
    /// behind it can be submitted too ([`Submission`]).
    ///
    /// # Errors
    ///
    /// * [`Error::WriterClosed`] after [`close`](Self::close).
    /// * [`Error::OutcomeUnknown`] if an earlier commit or a merge could not be written. After
    ///   [`Database::reopen`](crate::Database::reopen) the writer goes on.
    /// * [`Error::WouldDeadlock`] if this thread has a write transaction open, which the writer waits for, or
    ///   is the writer's own.
    ///
    /// The bounds of the document and of the policy are checked when it is decided. Their errors are in the
    /// answer.
    pub fn submit(&self, submission: impl Into<Submission>, policy: &Policy) -> Result<Ticket> {
        let (work, ticket) = self.insertion(submission.into(), policy);
        self.hand_in(work)?;
        Ok(ticket)
    }

    /// Submits a document, and calls `answered` with the answer later.
    ///
    /// It is called on the writer's thread. So it should be short, and it must not wait for the writer: that
    /// would be an [`Error::WouldDeadlock`]. If it panics, the writer goes on.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit). `answered` may then be called with [`Error::WriterClosed`].
    pub fn submit_with(
        &self,
        submission: impl Into<Submission>,
        policy: &Policy,
        answered: impl FnOnce(Result<Verdict>) + Send + 'static,
    ) -> Result<()> {
        let promise = Promise::with_callback(Box::new(answered));
        self.hand_in(Work::insert(submission.into(), policy, promise))
    }

    /// Submits a document if there is room in the queue. Otherwise gives it back at once.
    ///
    /// # Errors
    ///
    /// [`Error::WriterClosed`] and [`Error::OutcomeUnknown`], as for [`submit`](Self::submit).
    pub fn try_submit(
        &self,
        submission: impl Into<Submission>,
        policy: &Policy,
    ) -> Result<TrySubmit> {
        let (work, ticket) = self.insertion(submission.into(), policy);
        let submissions = self.handle.desk.ready()?;
        Ok(match submissions.try_add(work)? {
            Some(Work::Insert(insertion, _)) => TrySubmit::Full(insertion.submission),
            _ => TrySubmit::Accepted(ticket),
        })
    }

    /// Submits a document from a task. The task waits while the queue is full, and its thread does not.
    ///
    /// The future gives the ticket, which is a future too: `writer.submit_async(..).await?.await?`. If it is
    /// dropped before it gives the ticket, the document is not submitted.
    ///
    /// # Errors
    ///
    /// [`Error::WriterClosed`] and [`Error::OutcomeUnknown`], as for [`submit`](Self::submit).
    pub fn submit_async(&self, submission: impl Into<Submission>, policy: &Policy) -> Submitting {
        let (work, ticket) = self.insertion(submission.into(), policy);
        Submitting::new(&self.handle.desk, work, ticket)
    }

    /// Submits a document, and waits for the verdict.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit) and of [`Ticket::wait`].
    ///
    /// # Cost
    ///
    /// A commit, alone or shared. If nobody else submits anything, it begins at once.
    pub fn insert_if_new(&self, document: &Document, policy: &Policy) -> Result<Verdict> {
        self.submit(document.clone(), policy)?.wait()
    }

    /// Submits the removal of the document of a key. Its ticket gives the document, or `None` if there is none.
    ///
    /// It is decided in the order of submissions, as documents are.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`] for a key that no document can have.
    /// * Those of [`submit`](Self::submit).
    pub fn submit_delete(&self, key: impl Into<Vec<u8>>) -> Result<Ticket<Option<Document>>> {
        let key = key.into();
        validate_key(&key)?;
        let promise = Promise::new();
        let ticket = Ticket::new(&promise, &self.handle.desk);
        self.hand_in(Work::Delete(key, promise))?;
        Ok(ticket)
    }

    /// Notes how far a source was read, for a record that gives no document, and for the end of the source. It becomes
    /// durable after what was submitted before, or together with it.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit). The ticket may give [`Error::SourceName`].
    pub fn submit_reached(&self, reached: Reached) -> Result<Ticket<()>> {
        let promise = Promise::new();
        let ticket = Ticket::new(&promise, &self.handle.desk);
        self.hand_in(Work::Reach(reached, promise))?;
        Ok(ticket)
    }

    /// Waits until everything that was submitted before is durable, or has failed. It is committed at once.
    ///
    /// # Errors
    ///
    /// * The first error of a transaction or a commit since the last flush, also if a ticket has given it.
    ///   Errors that concern one submission alone are told only by its ticket.
    /// * [`Error::WriterClosed`] and [`Error::WouldDeadlock`], as for [`submit`](Self::submit).
    pub fn flush(&self) -> Result<()> {
        let promise = Promise::new();
        let ticket = Ticket::new(&promise, &self.handle.desk);
        // After a failure too: then it tells of the failure.
        self.queue_up(Work::Flush(promise))?;
        ticket.wait()
    }

    /// Refuses further submissions, waits until everything that was submitted is durable or has failed, and
    /// ends the thread. This concerns all clones.
    ///
    /// # Errors
    ///
    /// * The first error of a transaction or a commit since the last flush.
    /// * [`Error::WouldDeadlock`] if this thread has a write transaction open, or is the writer's own. The
    ///   writer is closed all the same, and ends by itself.
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }

    /// Ends the queue as if the thread had panicked.
    #[cfg(test)]
    pub(super) fn abandon(&self) {
        self.handle
            .desk
            .submissions()
            .expect("it is the same process")
            .abandon();
    }

    fn insertion(&self, submission: Submission, policy: &Policy) -> (Work, Ticket) {
        let promise = Promise::new();
        let ticket = Ticket::new(&promise, &self.handle.desk);
        (Work::insert(submission, policy, promise), ticket)
    }

    fn hand_in(&self, work: Work) -> Result<()> {
        self.handle.desk.ready()?;
        self.queue_up(work)
    }

    /// Puts work into the queue. Waits if it is full.
    fn queue_up(&self, work: Work) -> Result<()> {
        let desk = &self.handle.desk;
        let submissions = desk.open_submissions()?;
        match submissions.try_add(work)? {
            None => Ok(()),
            Some(work) => {
                desk.ensure_may_wait()?;
                submissions.add(work)
            }
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("options", self.handle.desk.options())
            .finish_non_exhaustive()
    }
}

/// A document for a [`Writer`], and the place behind it if it was read from a source.
///
/// Both become durable together. So a program that is stopped at any moment can go on behind the last document that is
/// durable ([`ingest::Records::resume`](crate::ingest::Records::resume)). The documents of one source have to be
/// submitted in their order, by one thread.
///
/// A [`Document`] becomes one, and so does a pair of a document and a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submission {
    /// The document.
    pub document: Document,
    /// The place behind it. `None` if it is of no source, or of one that cannot be known again.
    pub reached: Option<Reached>,
}

impl From<Document> for Submission {
    fn from(document: Document) -> Self {
        (document, None).into()
    }
}

impl From<(Document, Reached)> for Submission {
    fn from((document, reached): (Document, Reached)) -> Self {
        (document, Some(reached)).into()
    }
}

impl From<(Document, Option<Reached>)> for Submission {
    fn from((document, reached): (Document, Option<Reached>)) -> Self {
        Self { document, reached }
    }
}

/// What [`Writer::try_submit`] did with a document.
#[derive(Debug)]
#[must_use = "if the queue is full, the document is in here"]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box would be one allocation more"
)]
pub enum TrySubmit {
    /// It is in the queue.
    Accepted(Ticket),
    /// The queue is full. Here is the document again.
    Full(Submission),
}

/// When a [`Writer`](crate::Writer) tells what became of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// When the document is durable.
    #[default]
    Durable,
    /// When it is decided what is done with the document, before the commit.
    ///
    /// If the commit then fails, the document is not stored. [`Writer::flush`](crate::Writer::flush) and
    /// [`Writer::close`](crate::Writer::close) tell of that.
    Decided,
}

/// The choices of a [`Writer`](crate::Writer).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use simdb::WriterOptions;
///
/// let options = WriterOptions::new().max_age(Duration::from_millis(2)).batch(1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    pub(super) batch: usize,
    pub(super) max_age: Duration,
    pub(super) queue: usize,
    pub(super) queue_bytes: usize,
    pub(super) answers: Answers,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch: 10_000,
            max_age: Duration::from_millis(5),
            queue: 20_000,
            queue_bytes: 64 << 20,
            answers: Answers::default(),
        }
    }
}

impl WriterOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most submissions that are committed together. Default: 10,000. The least is one.
    #[must_use]
    pub fn batch(mut self, submissions: usize) -> Self {
        self.batch = submissions.max(1);
        self
    }

    /// The longest time that a submission waits for others, before it is decided and committed with them.
    /// Default: 5 ms.
    ///
    /// This matters for those who submit and do not wait. If everybody waits who has submitted something,
    /// nothing more can come, and the commit begins at once. It also begins when somebody finds the queue full.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// The most submissions that wait in the queue. Default: 20,000. The least is one.
    ///
    /// Whoever submits more waits until there is room.
    #[must_use]
    pub fn queue(mut self, submissions: usize) -> Self {
        self.queue = submissions.max(1);
        self
    }

    /// The most memory that the queue takes, in bytes. Default: 64 MiB.
    ///
    /// As much again may be in the group that is being committed. One submission always has room, however
    /// large it is.
    #[must_use]
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// When the writer tells what became of a document. Default: [`Answers::Durable`].
    #[must_use]
    pub fn answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }
}

/// What the clones of a writer share.
struct Handle {
    desk: Arc<Desk>,
    failure: Arc<Mutex<Option<Error>>>,
    /// `None` when it has ended.
    thread: Mutex<Option<OfProcess<JoinHandle<()>>>>,
}

impl Handle {
    fn close(&self) -> Result<()> {
        self.desk.open_submissions()?.close();
        // Whoever closes it last need not wait for the thread, which ends by itself.
        self.desk.ensure_may_wait()?;
        let mut thread = self.thread.lock();
        if let Some(thread) = thread.take().and_then(OfProcess::take) {
            // A panic of the thread has answered everybody.
            _ = thread.join();
        }
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}

impl User for Handle {
    fn ensure_may_wait(&self) -> Result<()> {
        self.desk.ensure_may_wait()
    }

    fn end(&self) -> Result<()> {
        self.close()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A drop has nobody to tell. Tickets have told their errors. In a forked process nothing is done.
        _ = self.close();
    }
}
