//! Ticket: what a submission gives, and what its answer is taken with.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

use super::answer::{Answer, Place, Promise};
use super::submissions::{Submissions, Work};
use super::verdict::Verdict;
use super::writer_options::WriterOptions;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::store::Store;

/// What a submission to a [`Writer`](crate::Writer) gives. Its answer comes when the submission is durable, or
/// has failed.
///
/// A thread waits for it with [`wait`](Self::wait), and a task with `await`. It needs no particular runtime.
/// If it is dropped, the submission is done all the same, and its answer is lost.
#[must_use = "without it, nobody learns whether the document was stored"]
pub struct Ticket<T = Verdict> {
    answer: Arc<Answer<T>>,
    desk: Arc<Desk>,
}

impl<T> Ticket<T> {
    pub(super) fn new(promise: &Promise<T>, desk: &Arc<Desk>) -> Self {
        Self {
            answer: promise.answer().clone(),
            desk: desk.clone(),
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
    pub fn wait(self) -> Result<T> {
        let submissions = self.desk.submissions()?;
        if let Some(answer) = self.answer.take() {
            return answer;
        }
        self.desk.ensure_may_wait()?;
        let waiting = submissions.wait_here_for(&self.answer.mark);
        let answer = self.answer.wait();
        drop(waiting);
        answer
    }

    /// Takes the answer if it is there, and gives the ticket back if it is not.
    ///
    /// # Errors
    ///
    /// The ticket, if there is no answer yet.
    pub fn try_wait(self) -> Result<Result<T>, Self> {
        if let Err(error) = self.desk.submissions() {
            return Ok(Err(error));
        }
        self.answer.take().ok_or(self)
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let submissions = self.desk.submissions()?;
        let polled = self.answer.poll(context);
        if polled.is_pending() {
            submissions.wait_for(&self.answer.mark);
        }
        polled
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

/// Where submissions are handed in.
pub(super) struct Desk {
    submissions: Submissions,
    process: Process,
    /// Not kept open by tickets.
    store: Weak<Store>,
    /// The thread that decides, when it has begun.
    thread: OnceLock<ThreadId>,
}

impl Desk {
    pub(super) fn new(submissions: Submissions, store: &Arc<Store>) -> Arc<Self> {
        let store = Arc::downgrade(store);
        Arc::new(Self {
            submissions,
            process: Process::here(),
            store,
            thread: OnceLock::new(),
        })
    }

    /// The queue. Everything that is done with a writer or a ticket begins with this, before a lock is taken: a process
    /// that was forked has no thread that decides, and other threads that it does not have may hold the locks.
    pub(super) fn submissions(&self) -> Result<&Submissions> {
        self.process.ensure_here().map(|()| &self.submissions)
    }

    /// The queue, for what is handed in. A database that is closed takes nothing, though its tickets still give their
    /// answers.
    pub(super) fn open_submissions(&self) -> Result<&Submissions> {
        let submissions = self.submissions()?;
        self.store
            .upgrade()
            .map_or(Ok(()), |store| store.ensure_usable())?;
        Ok(submissions)
    }

    /// How the writer was started.
    pub(super) fn options(&self) -> &WriterOptions {
        self.submissions.options()
    }

    /// Notes that this thread decides.
    pub(super) fn decide_here(&self) {
        self.thread.get_or_init(|| thread::current().id());
    }

    /// Refuses to wait for an answer that cannot come before this thread goes on.
    pub(super) fn ensure_may_wait(&self) -> Result<()> {
        let has_turn = self
            .store
            .upgrade()
            .is_some_and(|store| store.is_writing_here());
        if has_turn || self.thread.get() == Some(&thread::current().id()) {
            Err(Error::WouldDeadlock)
        } else {
            Ok(())
        }
    }

    /// The queue, for submissions. They are refused after a commit whose outcome is not known.
    pub(super) fn ready(&self) -> Result<&Submissions> {
        let submissions = self.submissions()?;
        self.store
            .upgrade()
            .ok_or(Error::WriterClosed)?
            .ensure_certain()?;
        Ok(submissions)
    }
}

/// A submission on its way into the queue, which may be full.
///
/// It is handed in when it is first polled. If it is dropped before it is in the queue, it is not done.
#[must_use = "nothing is submitted before it is awaited"]
pub struct Submitting {
    desk: Arc<Desk>,
    progress: Progress,
}

enum Progress {
    New(Work, Ticket),
    InLine(Arc<Place>, Ticket),
    Done,
}

impl Submitting {
    pub(super) fn new(desk: &Arc<Desk>, work: Work, ticket: Ticket) -> Self {
        Self {
            desk: desk.clone(),
            progress: Progress::New(work, ticket),
        }
    }
}

impl Future for Submitting {
    type Output = Result<Ticket>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (place, ticket) = match std::mem::replace(&mut self.progress, Progress::Done) {
            Progress::New(work, ticket) => {
                let handed_in = self
                    .desk
                    .ready()
                    .and_then(|submissions| submissions.line_up(work));
                match handed_in {
                    Ok(None) => return Poll::Ready(Ok(ticket)),
                    Ok(Some(place)) => (place, ticket),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            Progress::InLine(place, ticket) => {
                self.desk.submissions()?;
                (place, ticket)
            }
            Progress::Done => panic!("a submission was polled after it was done"),
        };
        if place.is_let_in_or_wakes(context.waker()) {
            return Poll::Ready(Ok(ticket));
        }
        self.progress = Progress::InLine(place, ticket);
        Poll::Pending
    }
}

impl Drop for Submitting {
    fn drop(&mut self) {
        if let Progress::InLine(place, _) = &self.progress {
            _ = self
                .desk
                .submissions()
                .map(|submissions| submissions.withdraw(place));
        }
    }
}

impl fmt::Debug for Submitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitting").finish_non_exhaustive()
    }
}
