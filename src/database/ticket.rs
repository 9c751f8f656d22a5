//! Ticket: what a submission gives, and what its answer is taken with. The answer is promised by the writer's thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

#[cfg(feature = "serve")]
use super::submissions::Waiting;
use super::submissions::{Mark, Submissions, Work, call_back};
use super::verdict::Verdict;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::sync::{Condvar, Mutex};

/// What a submission to a [`Writer`](crate::Writer) gives. Its answer comes when the submission is durable, or
/// has failed.
///
/// A thread waits for it with [`wait`](Self::wait), and a task with `await`. It needs no particular runtime.
/// If it is dropped, the submission is done all the same, and its answer is lost.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Policy, WriterOptions};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let writer = database.writer(WriterOptions::new())?;
/// let mut tickets = Vec::new();
/// for key in ["a", "b", "c"] {
///     tickets.push(writer.submit(Document::new(key, Fingerprint::from_bits(7)), &Policy::skip())?);
/// }
/// let mut duplicates = 0;
/// for ticket in tickets {
///     duplicates += u64::from(ticket.wait()?.is_duplicate());
/// }
/// assert_eq!(duplicates, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "without it, nobody learns whether the document was stored"]
pub struct Ticket<T = Verdict> {
    answer: Arc<Answer<T>>,
    submissions: Arc<Submissions>,
}

impl<T> Ticket<T> {
    pub(super) fn new(promise: &Promise<T>, submissions: &Arc<Submissions>) -> Self {
        Self {
            answer: promise.answer().clone(),
            submissions: submissions.clone(),
        }
    }

    /// Waits in this thread for the answer.
    ///
    /// # Errors
    ///
    /// * The error that concerned this submission alone, such as [`Error::KeyLength`] or
    ///   [`Error::MaxDistance`].
    /// * The error of the transaction or the commit that it was in. Nothing of that transaction is stored, as
    ///   [`WriteTxn::commit`](crate::WriteTxn::commit) says.
    /// * [`Error::WouldDeadlock`] if this thread has a write transaction open, which the writer waits for, or
    ///   is the writer's own. The submission is done all the same.
    /// * [`Error::WriterClosed`] if the writer ended without an answer.
    /// * [`Error::Forked`] in a process that was forked from that of the writer, whether there is an answer or not.
    ///
    /// # Panics
    ///
    /// If the ticket was awaited to its end before.
    pub fn wait(self) -> Result<T> {
        let answer = self.answer_before(None);
        answer.expect("without an end, there is an answer")
    }

    /// As [`wait`](Self::wait), but no longer than `timeout`. Then it gives the ticket back.
    ///
    /// Meanwhile the thread counts as one that waits: nobody holds a commit back for what it might submit. So a thread
    /// that has to look at something else now and then, such as a signal, can wait in pieces.
    ///
    /// # Errors
    ///
    /// The ticket, if there is no answer in time.
    pub fn wait_for(self, timeout: Duration) -> Result<Result<T>, Self> {
        let end = Instant::now().checked_add(timeout);
        self.answer_before(end).ok_or(self)
    }

    /// Waits for the answer, until an end if there is one.
    fn answer_before(&self, end: Option<Instant>) -> Option<Result<T>> {
        if let Err(error) = self.submissions.ensure_here() {
            return Some(Err(error));
        }
        if let Some(answer) = self.answer.take() {
            return Some(answer);
        }
        if let Err(error) = self.submissions.ensure_may_wait() {
            return Some(Err(error));
        }
        let waiting = self.submissions.wait_here_for(&self.answer.mark);
        let answer = self.answer.wait(end);
        drop(waiting);
        answer
    }

    /// Has `answered` called with the answer: later on the writer's thread, as [`Writer::submit_with`] says, or here
    /// and now if it is there. Until the returned value is dropped, this thread counts as one that waits.
    ///
    /// [`Writer::submit_with`]: crate::Writer::submit_with
    #[cfg(feature = "serve")]
    pub(crate) fn wait_with(
        &self,
        answered: impl FnOnce(Result<T>) + Send + 'static,
    ) -> Waiting<'_> {
        let waiting = self.submissions.wait_here_for(&self.answer.mark);
        self.answer.give_to(Box::new(answered));
        waiting
    }

    /// Takes the answer if it is there, and gives the ticket back if it is not.
    ///
    /// # Errors
    ///
    /// The ticket, if there is no answer yet.
    pub fn try_wait(self) -> Result<Result<T>, Self> {
        if let Err(error) = self.submissions.ensure_here() {
            return Ok(Err(error));
        }
        self.answer.take().ok_or(self)
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.submissions.ensure_here()?;
        let polled = self.answer.poll(context);
        if polled.is_pending() {
            self.submissions.wait_for(&self.answer.mark);
        }
        polled
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

/// Whoever waits for an answer that is taken would wait for ever.
const TAKEN: &str = "a ticket was asked after it had given its answer";

/// Is called with an answer, on the writer's thread.
type Callback<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// The place of an answer that is there or will be: to a submission, or to whoever waits in the line before a full
/// queue.
pub(super) struct Answer<T> {
    state: Mutex<State<T>>,
    /// Signalled when the answer is given.
    given: Condvar,
    /// Of the submission that is answered.
    mark: Mark,
    process: Process,
}

enum State<T> {
    /// The task that waits, if one does.
    Open(Option<Waker>),
    Callback(Callback<T>),
    Given(Result<T>),
    /// It was given, and taken away.
    Taken,
}

impl<T> Answer<T> {
    fn new(state: State<T>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            given: Condvar::new(),
            mark: Mark::new(),
            process: Process::here(),
        })
    }

    /// One that is not there yet.
    pub(super) fn open() -> Arc<Self> {
        Self::new(State::Open(None))
    }

    /// The answer, if it is there.
    fn take(&self) -> Option<Result<T>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Given(result) => Some(result),
            State::Taken => panic!("{TAKEN}"),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Waits for the answer in this thread, until an end if there is one.
    pub(super) fn wait(&self, end: Option<Instant>) -> Option<Result<T>> {
        let mut state = self.state.lock();
        while !matches!(*state, State::Given(_)) {
            match end {
                None => self.given.wait(&mut state),
                Some(end) if Instant::now() < end => _ = self.given.wait_until(&mut state, end),
                Some(_) => return None,
            }
        }
        drop(state);
        self.take()
    }

    /// The answer, or the promise to wake the task when it is there.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<T>> {
        // This is code of the caller, which may panic.
        let waker = context.waker().clone();
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Given(result) => Poll::Ready(result),
            State::Taken => panic!("{TAKEN}"),
            before => {
                *state = State::Open(Some(waker));
                drop((state, before));
                Poll::Pending
            }
        }
    }

    /// Gives the answer to a function when it is there.
    #[cfg(feature = "serve")]
    fn give_to(&self, callback: Callback<T>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Given(result) => {
                drop(state);
                callback(result);
            }
            State::Open(_) => *state = State::Callback(callback),
            State::Callback(_) | State::Taken => unreachable!("an answer is given once"),
        }
    }

    pub(super) fn give(&self, result: Result<T>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Callback(callback) => {
                drop(state);
                call_back(|| callback(result));
            }
            State::Open(waker) => {
                *state = State::Given(result);
                drop(state);
                self.given.notify_all();
                if let Some(waker) = waker {
                    call_back(|| waker.wake());
                }
            }
            State::Given(_) | State::Taken => unreachable!("an answer was given twice"),
        }
    }
}

/// The duty to give an answer. If it is dropped, the answer is that the writer has ended. A forked process has no such
/// duty: it calls nothing back, and wakes nobody.
pub(super) struct Promise<T>(Option<Arc<Answer<T>>>);

impl<T> Promise<T> {
    pub(super) fn new() -> Self {
        Self(Some(Answer::open()))
    }

    pub(super) fn with_callback(callback: impl FnOnce(Result<T>) + Send + 'static) -> Self {
        Self(Some(Answer::new(State::Callback(Box::new(callback)))))
    }

    fn answer(&self) -> &Arc<Answer<T>> {
        let answer = self.0.as_ref();
        answer.expect("the answer is there until it is given")
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.answer().mark
    }

    pub(super) fn give(mut self, result: Result<T>) {
        if let Some(answer) = self.0.take() {
            answer.give(result);
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take()
            && answer.process.is_here()
        {
            answer.give(Err(Error::WriterClosed));
        }
    }
}

/// A submission on its way into the queue, which may be full.
///
/// It is handed in when it is first polled. If it is dropped before it is in the queue, it is not done.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Policy, Result, Verdict, Writer, WriterOptions};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// async fn submit(writer: &Writer, page: Document) -> Result<Verdict> {
///     let ticket = writer.submit_async(page, &Policy::skip()).await?;
///     ticket.await
/// }
/// let writer = database.writer(WriterOptions::new())?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let page = Document::new("page", Fingerprint::from_bits(7));
/// assert!(!runtime.block_on(submit(&writer, page))?.is_duplicate());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is submitted before it is awaited"]
pub struct Submitting {
    submissions: Arc<Submissions>,
    progress: Progress,
}

enum Progress {
    New(Work, Ticket),
    InLine(Arc<Answer<()>>, Ticket),
    Done,
}

impl Submitting {
    pub(super) fn new(work: Work, ticket: Ticket) -> Self {
        Self {
            submissions: ticket.submissions.clone(),
            progress: Progress::New(work, ticket),
        }
    }
}

impl Future for Submitting {
    type Output = Result<Ticket>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (let_in, ticket) = match std::mem::replace(&mut self.progress, Progress::Done) {
            Progress::New(work, ticket) => {
                self.submissions.ensure_certain()?;
                match self.submissions.line_up(work)? {
                    Some(let_in) => (let_in, ticket),
                    None => return Poll::Ready(Ok(ticket)),
                }
            }
            Progress::InLine(let_in, ticket) => {
                self.submissions.ensure_here()?;
                (let_in, ticket)
            }
            Progress::Done => panic!("a submission was polled after it was done"),
        };
        if let_in.poll(context).is_ready() {
            return Poll::Ready(Ok(ticket));
        }
        self.progress = Progress::InLine(let_in, ticket);
        Poll::Pending
    }
}

impl Drop for Submitting {
    fn drop(&mut self) {
        if let Progress::InLine(let_in, _) = &self.progress {
            self.submissions.withdraw(let_in);
        }
    }
}

impl fmt::Debug for Submitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitting").finish_non_exhaustive()
    }
}
