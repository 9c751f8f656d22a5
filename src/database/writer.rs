//! Writer: one handle with which many threads and tasks submit documents. Its thread takes what was submitted, decides
//! it in one transaction, commits, and answers.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::database::Database;
use super::policy::Policy;
use super::submissions::{Answers, Submissions, Work, WriterOptions};
use super::ticket::{Promise, Submitting, Ticket};
use super::verdict::Verdict;
use super::write::WriteTxn;
use crate::document::{Document, validate_key};
use crate::error::{Error, Result};
use crate::metrics::Timed;
use crate::planted::planted;
use crate::process::OfProcess;
use crate::source::Reached;
use crate::store::{Patience, Store, User};
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
            move || run(&store, &submissions, &failure)
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

// The thread of a writer.

/// Works until the queue is closed and empty. `failure` is the first group that failed since somebody flushed.
fn run(store: &Arc<Store>, submissions: &Submissions, failure: &Mutex<Option<Error>>) {
    // If this panics, nobody may wait for an answer that will not come.
    let _ends = Ends(submissions);
    let answers = submissions.options.answers;
    while let Some((work, submitted)) = submissions.next_group() {
        let begun = Instant::now();
        commit(store, answers, work, &submitted, failure);
        submissions.answered(begun.elapsed());
    }
}

/// Decides, commits and answers a group.
fn commit(
    store: &Arc<Store>,
    answers: Answers,
    work: Vec<Work>,
    submitted: &[Instant],
    failure: &Mutex<Option<Error>>,
) {
    let mut decided = Decided {
        answers,
        pending: Vec::with_capacity(work.len()),
    };
    let outcome = decide(store, work, &mut decided).and_then(WriteTxn::commit);
    match &outcome {
        Ok(()) => {
            let now = Instant::now();
            let waited = submitted.iter();
            let waited = waited.map(|&at| now.saturating_duration_since(at));
            store.meters.record(Timed::Submission, waited);
        }
        Err(error) => _ = failure.lock().get_or_insert_with(|| error.clone()),
    }
    for pending in decided.pending {
        match pending {
            Pending::Insert(promise, verdict) => promise.give(after(verdict, &outcome)),
            Pending::Delete(promise, deleted) => promise.give(after(deleted, &outcome)),
            Pending::Reach(promise, reached) => promise.give(after(reached, &outcome)),
            Pending::Flush(promise) => {
                promise.give(failure.lock().take().map_or(Ok(()), Err));
            }
        }
    }
}

/// Decides everything in one transaction, in order. After an error it is dropped, and everybody gets the
/// error.
fn decide(store: &Arc<Store>, group: Vec<Work>, decided: &mut Decided) -> Result<WriteTxn> {
    let mut txn = WriteTxn::begin(store, Patience::Endless)
        .map(|txn| txn.expect("endless patience ends with a transaction"));
    let mut documents = Documents::default();
    for work in group {
        match work {
            Work::Insert(asked, promise) => documents.add(*asked, promise),
            Work::Delete(key, promise) => {
                documents.insert(&mut txn, decided);
                let deleted = act(&mut txn, |open| open.delete(&key));
                decided.answer(promise, deleted, Pending::Delete);
            }
            Work::Reach(reached, promise) => {
                documents.insert(&mut txn, decided);
                let noted = act(&mut txn, |open| open.reach(&reached));
                decided.pending.push(Pending::Reach(promise, noted));
            }
            Work::Flush(promise) => {
                documents.insert(&mut txn, decided);
                decided.pending.push(Pending::Flush(promise));
            }
        }
    }
    documents.insert(&mut txn, decided);
    txn
}

/// Does something in a transaction, which an error ends. What concerns one submission alone was refused when it came.
fn act<T>(
    txn: &mut Result<WriteTxn>,
    action: impl FnOnce(&mut WriteTxn) -> Result<T>,
) -> Result<T> {
    let done = match txn {
        Ok(open) => action(open),
        Err(error) => Err(error.clone()),
    };
    if let Err(error) = &done {
        *txn = Err(error.clone());
    }
    done
}

/// The answer when the outcome of the commit is known. An error of one submission alone stays.
fn after<T>(answer: Result<T>, outcome: &Result<()>) -> Result<T> {
    let answer = answer?;
    outcome.clone()?;
    Ok(answer)
}

/// Answers everybody when the thread ends, whatever the reason.
struct Ends<'g>(&'g Submissions);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What is decided and not answered yet, in the order of submission.
struct Decided {
    answers: Answers,
    pending: Vec<Pending>,
}

enum Pending {
    Insert(Promise<Verdict>, Result<Verdict>),
    Delete(Promise<Option<Document>>, Result<Option<Document>>),
    Reach(Promise<()>, Result<()>),
    Flush(Promise<()>),
}

impl Decided {
    /// Answers what was decided, or keeps the answer until the commit.
    fn answer<T>(
        &mut self,
        promise: Promise<T>,
        decided: Result<T>,
        pending: impl FnOnce(Promise<T>, Result<T>) -> Pending,
    ) {
        match self.answers {
            Answers::Durable if !planted("an answer comes before the commit") => {
                self.pending.push(pending(promise, decided));
            }
            Answers::Durable | Answers::Decided => promise.give(decided),
        }
    }
}

/// Neighbouring documents of a group, which are decided together.
#[derive(Default)]
struct Documents {
    asked: Vec<(Submission, Policy)>,
    promises: Vec<Promise<Verdict>>,
}

impl Documents {
    fn add(&mut self, asked: (Submission, Policy), promise: Promise<Verdict>) {
        self.asked.push(asked);
        self.promises.push(promise);
    }

    /// Decides the documents, and leaves none.
    fn insert(&mut self, txn: &mut Result<WriteTxn>, decided: &mut Decided) {
        if self.asked.is_empty() {
            return;
        }
        let mut asked: Vec<(&Document, &Policy)> = Vec::with_capacity(self.asked.len());
        for (submission, policy) in &self.asked {
            asked.push((&submission.document, policy));
        }
        let mut promises = self.promises.drain(..);
        let inserted = match txn {
            Ok(open) => open.insert_each_if_new(&asked, |verdict| {
                if let Some(promise) = promises.next() {
                    decided.answer(promise, verdict, Pending::Insert);
                }
                ControlFlow::Continue(())
            }),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = inserted {
            for promise in promises {
                decided.answer(promise, Err(error.clone()), Pending::Insert);
            }
            *txn = Err(error);
        }
        for reached in last_of_each_source(&self.asked) {
            // An error ends the transaction, and everybody gets it with the commit.
            _ = act(txn, |open| open.reach(reached));
        }
        self.asked.clear();
    }
}

/// The last place of each source among some documents. Those of one source come in the order of their places.
fn last_of_each_source(asked: &[(Submission, Policy)]) -> impl Iterator<Item = &Reached> {
    let mut last: HashMap<&[u8], &Reached> = HashMap::new();
    for (submission, _) in asked {
        if let Some(reached) = &submission.reached {
            last.insert(reached.name(), reached);
        }
    }
    last.into_values()
}

#[cfg(test)]
mod tests;
