//! Writer: one handle with which many threads and tasks submit documents.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::database::Database;
use super::group_commit;
use super::policy::Policy;
use super::submissions::{Submissions, Work, WriterOptions};
use super::ticket::{Promise, Submitting, Ticket};
use super::verdict::Verdict;
use crate::document::{Document, validate_key};
use crate::error::{Error, Result};
use crate::process::OfProcess;
use crate::source::Reached;
use crate::store::User;
use crate::sync::Mutex;

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

impl Database {
    /// Starts a writer, with which many threads and tasks submit documents.
    ///
    /// # Errors
    ///
    /// * [`Error::ReadOnly`] if the database was opened read-only.
    /// * [`Error::NoThread`] if the system gives no thread.
    pub fn writer(&self, options: WriterOptions) -> Result<Writer> {
        let store = &self.store;
        store.ensure_writable()?;
        let submissions = Arc::new(Submissions::new(options, store));
        let failure = Arc::new(Mutex::new(None));
        let thread = thread::Builder::new().name("simdb-writer".to_owned());
        let thread = thread.spawn({
            let store = store.clone();
            let submissions = submissions.clone();
            let failure = failure.clone();
            move || group_commit::run(&store, &submissions, &failure)
        });
        let thread = OfProcess::new(thread.map_err(Error::no_thread)?);
        let handle = Arc::new(Handle {
            submissions,
            failure,
            thread: Mutex::new(Some(thread)),
        });
        // First a name, since a coercion within the call would make a weak pointer to something else.
        let user: Arc<dyn User> = handle.clone();
        store.note_user(Arc::downgrade(&user));
        Ok(Writer { handle })
    }
}

impl Writer {
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
    /// * [`Error::WouldDeadlock`] if the queue is full and this thread has a write transaction open, which the
    ///   writer waits for, or is the writer's own.
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
        let promise = Promise::with_callback(answered);
        self.hand_in(insertion(submission.into(), policy, promise))
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
        let submissions = &self.handle.submissions;
        submissions.ensure_certain()?;
        Ok(match submissions.try_add(work)? {
            Some(Work::Insert(insertion, _)) => TrySubmit::Full(insertion.0),
            _ => TrySubmit::Accepted(ticket),
        })
    }

    /// Submits a document from a task. The task waits while the queue is full, and its thread does not.
    ///
    /// The future gives the ticket, which is a future too: `writer.submit_async(..).await?.await?`. If it is
    /// dropped before the document is in the queue, the document is not submitted. There may be room for it at any
    /// moment, so it may be in the queue although the future has not given the ticket yet.
    ///
    /// # Errors
    ///
    /// [`Error::WriterClosed`] and [`Error::OutcomeUnknown`], as for [`submit`](Self::submit).
    pub fn submit_async(&self, submission: impl Into<Submission>, policy: &Policy) -> Submitting {
        let (work, ticket) = self.insertion(submission.into(), policy);
        Submitting::new(work, ticket)
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
        let ticket = Ticket::new(&promise, &self.handle.submissions);
        self.hand_in(Work::Delete(key, promise))?;
        Ok(ticket)
    }

    /// Notes how far a source was read, for a record that gives no document, and for the end of the source. It becomes
    /// durable after what was submitted before, or together with it.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit).
    pub fn submit_reached(&self, reached: Reached) -> Result<Ticket<()>> {
        let promise = Promise::new();
        let ticket = Ticket::new(&promise, &self.handle.submissions);
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
        let ticket = Ticket::new(&promise, &self.handle.submissions);
        // After a failure too: then it tells of the failure.
        self.handle.submissions.add(Work::Flush(promise))?;
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

    fn insertion(&self, submission: Submission, policy: &Policy) -> (Work, Ticket) {
        let promise = Promise::new();
        let ticket = Ticket::new(&promise, &self.handle.submissions);
        (insertion(submission, policy, promise), ticket)
    }

    fn hand_in(&self, work: Work) -> Result<()> {
        self.handle.submissions.ensure_certain()?;
        self.handle.submissions.add(work)
    }
}

fn insertion(submission: Submission, policy: &Policy, promise: Promise<Verdict>) -> Work {
    let policy = policy.clone().catching_panics();
    Work::Insert(Box::new((submission, policy)), promise)
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("options", &self.handle.submissions.options)
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
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Policy, Submission, WriterOptions};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let writer = database.writer(WriterOptions::new())?;
/// let submission = Submission::from(Document::new("page", Fingerprint::from_bits(7)));
/// assert_eq!(submission.reached, None);
/// writer.submit(submission, &Policy::skip())?.wait()?;
/// assert!(database.snapshot()?.get("page")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Policy, TrySubmit, WriterOptions};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let writer = database.writer(WriterOptions::new())?;
/// let mut tickets = Vec::new();
/// let mut for_later = Vec::new();
/// match writer.try_submit(Document::new("page", Fingerprint::from_bits(7)), &Policy::skip())? {
///     TrySubmit::Accepted(ticket) => tickets.push(ticket),
///     TrySubmit::Full(submission) => for_later.push(submission),
/// }
/// assert_eq!((tickets.len(), for_later.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// What the clones of a writer share.
struct Handle {
    submissions: Arc<Submissions>,
    failure: Arc<Mutex<Option<Error>>>,
    /// `None` when it has ended.
    thread: Mutex<Option<OfProcess<JoinHandle<()>>>>,
}

impl Handle {
    fn close(&self) -> Result<()> {
        self.submissions.close()?;
        // Whoever closes it last need not wait for the thread, which ends by itself.
        self.submissions.ensure_may_wait()?;
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
        self.submissions.ensure_may_wait()
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

#[cfg(test)]
mod tests;
