//! The queue of a writer: what was submitted and is not decided yet, and when it is due.
//!
//! It is bounded. Who submits while it is full stands in a line with what is to be submitted, and is let in
//! in the order of coming. So no thread overtakes another.
//!
//! A group is committed when it is full or old enough. It is also committed if nobody will submit anything
//! before an answer comes: if every thread that has submitted something waits, and for every other submission
//! a task waits. Threads that were answered a moment ago may be about to submit again. So such a group
//! waits for as many of them as the last group had, but no longer than a commit takes: whoever waits as long as
//! a commit takes at most doubles the time, and may save a commit.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::policy::Policy;
use super::ticket::{Answer, Promise};
use super::verdict::Verdict;
use super::writer::Submission;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::metrics::{Count, Meters, QueueGauge};
use crate::planted::planted;
use crate::process::Process;
use crate::source::Reached;
use crate::store::Store;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex};

/// When a [`Writer`](crate::Writer) tells what became of a document.
///
/// # Example
///
/// ```
/// use simdb::{Answers, Document, Fingerprint, Policy, WriterOptions};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let writer = database.writer(WriterOptions::new().answers(Answers::Decided))?;
/// let ticket = writer.submit(Document::new("page", Fingerprint::from_bits(7)), &Policy::skip())?;
/// // The answer comes before the commit.
/// assert!(!ticket.wait()?.is_duplicate());
/// writer.flush()?;
/// assert!(database.snapshot()?.get("page")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    batch: usize,
    max_age: Duration,
    queue: usize,
    queue_bytes: usize,
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

/// What is to be done, and who is to be told.
pub(super) enum Work {
    Insert(Box<(Submission, Policy)>, Promise<Verdict>),
    Delete(Vec<u8>, Promise<Option<Document>>),
    /// Notes how far a source was read.
    Reach(Reached, Promise<()>),
    /// Tells when everything before it is durable.
    Flush(Promise<()>),
}

impl Work {
    fn mark(&self) -> &Mark {
        match self {
            Self::Insert(_, promise) => promise.mark(),
            Self::Delete(_, promise) => promise.mark(),
            Self::Reach(_, promise) | Self::Flush(promise) => promise.mark(),
        }
    }

    fn memory_bytes(&self) -> usize {
        let of_work = match self {
            Self::Insert(insertion, _) => {
                let Submission { document, reached } = &insertion.0;
                let reached = reached.as_ref().map_or(0, Reached::memory_bytes);
                document.memory_bytes() + size_of::<Policy>() + reached
            }
            Self::Reach(reached, _) => reached.memory_bytes(),
            Self::Delete(key, _) => key.len(),
            Self::Flush(_) => 0,
        };
        size_of::<Queued>() + of_work
    }

    fn is_flush(&self) -> bool {
        matches!(self, Self::Flush(_))
    }
}

struct Queued {
    work: Work,
    bytes: usize,
    at: Instant,
}

/// The queue of a writer.
///
/// Before a lock is taken, here or in a ticket, it is made sure that this is the process of the writer: one that was
/// forked has no thread that decides, and other threads that it does not have may hold the locks.
pub(super) struct Submissions {
    queue: Mutex<Queue>,
    /// Signalled when a group may be due.
    due: Condvar,
    pub(super) options: WriterOptions,
    meters: Arc<Meters>,
    /// Shows how long the queue is.
    gauge: Arc<QueueGauge>,
    process: Process,
    /// Not kept open by tickets.
    store: Weak<Store>,
    /// The thread that decides, when it has begun.
    thread: OnceLock<ThreadId>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    bytes: usize,
    /// Before a full queue. Whoever waits there is answered once the submission is in the queue.
    line: VecDeque<(Queued, Arc<Answer<()>>)>,
    flushes: usize,
    submitters: HashMap<ThreadId, Submitter>,
    /// The submissions for which nobody waits, whose threads do not wait either.
    open: usize,
    /// The submissions for which somebody waits.
    waited: usize,
    /// The number of them in the last group.
    expected: usize,
    /// Until when a group waits for as many as the last one had.
    hold_until: Option<Instant>,
    /// When the thread that decides wakes up by itself, if it sleeps. `None` if it has to be woken.
    wakes_at: Option<Instant>,
    /// Whether somebody found the queue full, and did not wait.
    has_refused: bool,
    is_closed: bool,
}

/// A thread that has submitted something, or waits.
#[derive(Default)]
struct Submitter {
    /// Its submissions in the queue for which nobody waits.
    queued: usize,
    /// Whether it waits for an answer.
    waits: bool,
}

impl Queue {
    fn ensure_open(&self) -> Result<()> {
        if self.is_closed {
            Err(Error::WriterClosed)
        } else {
            Ok(())
        }
    }

    /// Whether a submission of this size has to wait. One always has room.
    fn is_without_room(&self, options: &WriterOptions, bytes: usize) -> bool {
        let is_full =
            self.waiting.len() >= options.queue || self.bytes + bytes > options.queue_bytes;
        is_full && !self.waiting.is_empty()
    }

    /// Whether a new submission of this size has to wait, perhaps for others that came before.
    fn is_full(&self, options: &WriterOptions, bytes: usize) -> bool {
        !self.line.is_empty() || self.is_without_room(options, bytes)
    }

    fn push(&mut self, submission: Queued) {
        let mark = submission.work.mark();
        mark.set(Stage::Queued);
        let submitter = self.submitters.entry(mark.submitter).or_default();
        submitter.queued += 1;
        self.open += usize::from(!submitter.waits);
        self.flushes += usize::from(submission.work.is_flush());
        self.bytes += submission.bytes;
        self.waiting.push_back(submission);
    }

    /// Notes that somebody waits for a submission.
    fn wait_for(&mut self, mark: &Mark) {
        if mark.stage() == Stage::Queued {
            self.leave(mark);
            mark.set(Stage::Waited);
            self.waited += 1;
        }
    }

    /// Takes a submission for which nobody waits out of the count of its thread.
    fn leave(&mut self, mark: &Mark) {
        if let Some(submitter) = self.submitters.get_mut(&mark.submitter) {
            submitter.queued -= 1;
            self.open -= usize::from(!submitter.waits);
            if submitter.queued == 0 && !submitter.waits {
                self.submitters.remove(&mark.submitter);
            }
        }
    }

    fn pop(&mut self) -> Option<Queued> {
        let submission = self.waiting.pop_front()?;
        let mark = submission.work.mark();
        match mark.stage() {
            Stage::Waited => self.waited -= 1,
            _ => self.leave(mark),
        }
        mark.set(Stage::Grouped);
        self.flushes -= usize::from(submission.work.is_flush());
        self.bytes -= submission.bytes;
        Some(submission)
    }

    /// Takes in who stands first in the line, as long as there is room.
    fn let_in(&mut self, options: &WriterOptions) -> Vec<Arc<Answer<()>>> {
        let mut let_in = Vec::new();
        while let Some((submission, answer)) = self.line.pop_front() {
            if self.is_without_room(options, submission.bytes) {
                self.line.push_front((submission, answer));
                break;
            }
            self.push(submission);
            let_in.push(answer);
        }
        let_in
    }

    /// Until when a group still waits for as many as the last one had.
    fn hold(&self, now: Instant) -> Option<Instant> {
        self.hold_until
            .filter(|&hold| hold > now && self.waited < self.expected)
    }

    fn due(&self, options: &WriterOptions, now: Instant) -> Due {
        const FAR: Duration = Duration::from_secs(3_600);
        let Some(oldest) = self.waiting.front() else {
            return Due::Empty;
        };
        let is_full =
            self.waiting.len() >= options.batch || !self.line.is_empty() || self.has_refused;
        if is_full || self.flushes > 0 || self.is_closed {
            return Due::Now;
        }
        // An age that cannot be reckoned with is not reached.
        let old = oldest.at.checked_add(options.max_age).unwrap_or(now + FAR);
        let due = match self.hold(now) {
            Some(hold) => hold.min(old),
            None if self.open > 0 => old,
            None => now,
        };
        if due > now { Due::At(due) } else { Due::Now }
    }
}

/// When a group is due.
enum Due {
    /// There is nothing to commit.
    Empty,
    Now,
    At(Instant),
}

impl Submissions {
    pub(super) fn new(options: WriterOptions, store: &Arc<Store>) -> Self {
        Self {
            queue: Mutex::default(),
            due: Condvar::new(),
            options,
            meters: store.meters.clone(),
            gauge: store.meters.queue_gauge(),
            process: Process::here(),
            store: Arc::downgrade(store),
            thread: OnceLock::new(),
        }
    }

    /// Refuses to go on in a process that was forked from that of the writer.
    pub(super) fn ensure_here(&self) -> Result<()> {
        self.process.ensure_here()
    }

    /// Refuses to wait for an answer that cannot come before this thread goes on.
    pub(super) fn ensure_may_wait(&self) -> Result<()> {
        if let Some(store) = self.store.upgrade()
            && store.is_writing_here()
        {
            return Err(Error::WouldDeadlock);
        }
        if self.thread.get() == Some(&thread::current().id()) {
            return Err(Error::WouldDeadlock);
        }
        Ok(())
    }

    /// Refuses everything that is to be stored after a commit whose outcome is not known.
    pub(super) fn ensure_certain(&self) -> Result<()> {
        self.ensure_here()?;
        let store = self.store.upgrade().ok_or(Error::WriterClosed)?;
        store.ensure_certain()
    }

    /// A database that is closed takes nothing, though its tickets still give their answers.
    fn ensure_open(&self) -> Result<()> {
        self.ensure_here()?;
        match self.store.upgrade() {
            Some(store) => store.ensure_usable(),
            None => Ok(()),
        }
    }

    /// Puts work into the queue. If it is full, waits until it is let in.
    pub(super) fn add(&self, work: Work) -> Result<()> {
        self.ensure_open()?;
        if let Some(work) = self.try_add(work)? {
            self.ensure_may_wait()?;
            if let Some(let_in) = self.line_up(work)? {
                _ = let_in.wait(None);
            }
        }
        Ok(())
    }

    /// Puts work into the queue, or into the line before it. Returns what is waited for there.
    pub(super) fn line_up(&self, work: Work) -> Result<Option<Arc<Answer<()>>>> {
        self.push_or(work, |queue, submission| {
            let let_in = Answer::open();
            queue.line.push_back((submission, let_in.clone()));
            let_in
        })
    }

    /// Puts work into the queue, or gives it back if the queue is full.
    pub(super) fn try_add(&self, work: Work) -> Result<Option<Work>> {
        self.push_or(work, |queue, submission| {
            queue.has_refused = true;
            submission.work
        })
    }

    /// Puts work into the queue. If it is full, returns what is done `instead`.
    fn push_or<T>(
        &self,
        work: Work,
        instead: impl FnOnce(&mut Queue, Queued) -> T,
    ) -> Result<Option<T>> {
        let submission = Queued {
            bytes: work.memory_bytes(),
            at: Instant::now(),
            work,
        };
        let mut queue = self.queue.lock();
        queue.ensure_open()?;
        if queue.is_full(&self.options, submission.bytes) {
            let done = instead(&mut queue, submission);
            self.due.notify_one();
            return Ok(Some(done));
        }
        queue.push(submission);
        self.notify_after_push(&queue);
        Ok(None)
    }

    /// Counts what came. The thread is woken for the first, unless it wakes up soon enough by itself. More of them
    /// change that only if they make the group full. Whoever waits is told of by [`wait_for`](Self::wait_for).
    fn notify_after_push(&self, queue: &Queue) {
        self.meters.add(Count::Submissions, 1);
        self.show(queue);
        let length = queue.waiting.len();
        let is_full = length == self.options.batch || queue.flushes > 0;
        if is_full || length == 1 && !self.is_awake_in_time(queue) {
            self.due.notify_one();
        }
    }

    /// Whether the thread looks at the queue by itself before the oldest submission is too old.
    fn is_awake_in_time(&self, queue: &Queue) -> bool {
        let oldest = queue.waiting.front();
        let old = oldest.and_then(|oldest| oldest.at.checked_add(self.options.max_age));
        let wakes_at = queue.wakes_at;
        wakes_at.is_some_and(|wakes_at| old.is_none_or(|old| wakes_at <= old))
    }

    fn show(&self, queue: &Queue) {
        self.gauge.set(queue.waiting.len(), queue.bytes);
    }

    /// Takes work out of the line before the queue, if it is still there.
    pub(super) fn withdraw(&self, let_in: &Arc<Answer<()>>) {
        if !self.process.is_here() {
            return;
        }
        let mut queue = self.queue.lock();
        let mut line = queue.line.iter();
        let index = line.position(|(_, other)| Arc::ptr_eq(other, let_in));
        if let Some(index) = index {
            let withdrawn = queue.line.remove(index);
            drop(queue);
            // A promise that is dropped gives its answer.
            drop(withdrawn);
        }
    }

    /// Notes that a task waits for a submission.
    pub(super) fn wait_for(&self, mark: &Mark) {
        let mut queue = self.queue.lock();
        queue.wait_for(mark);
        self.notify_if_all_wait(&queue);
    }

    /// Notes that this thread waits for a submission, until the returned value is dropped.
    pub(super) fn wait_here_for(&self, mark: &Mark) -> Waiting<'_> {
        let thread = thread::current().id();
        let mut queue = self.queue.lock();
        queue.wait_for(mark);
        let submitter = queue.submitters.entry(thread).or_default();
        submitter.waits = true;
        let queued = submitter.queued;
        queue.open -= queued;
        self.notify_if_all_wait(&queue);
        Waiting {
            submissions: self,
            thread,
        }
    }

    fn notify_if_all_wait(&self, queue: &Queue) {
        let all_wait = queue.open == 0 && !queue.waiting.is_empty();
        // While it is held back, the thread wakes up by itself.
        let is_due = all_wait && queue.hold(Instant::now()).is_none();
        if is_due && !planted("nobody is told that all wait") {
            self.due.notify_one();
        }
    }

    /// Waits until a group is due, and takes it out of the queue, with the times at which it was submitted. `None` if
    /// the queue is closed and empty, or in another process. The calling thread is the one that decides.
    pub(super) fn next_group(&self) -> Option<(Vec<Work>, Vec<Instant>)> {
        // A function that was called with an answer may have forked, and have returned in the forked process.
        self.ensure_here().ok()?;
        self.thread.get_or_init(|| thread::current().id());
        let mut queue = self.queue.lock();
        loop {
            let now = Instant::now();
            queue.wakes_at = match queue.due(&self.options, now) {
                Due::Empty if queue.is_closed => return None,
                Due::Empty => queue.hold(now),
                Due::At(due) => Some(due),
                Due::Now => break,
            };
            match queue.wakes_at {
                Some(wakes_at) => _ = self.due.wait_until(&mut queue, wakes_at),
                None => self.due.wait(&mut queue),
            }
        }
        queue.expected = queue.waited;
        queue.has_refused = false;
        let length = queue.waiting.len().min(self.options.batch);
        let mut work = Vec::with_capacity(length);
        let mut submitted = Vec::with_capacity(length);
        while work.len() < length
            && let Some(submission) = queue.pop()
        {
            work.push(submission.work);
            submitted.push(submission.at);
        }
        let let_in = queue.let_in(&self.options);
        self.meters.add(Count::Submissions, let_in.len() as u64);
        self.show(&queue);
        drop(queue);
        // Whoever wakes up may come back to the queue at once.
        for answer in let_in {
            answer.give(Ok(()));
        }
        Some((work, submitted))
    }

    /// Notes that a group was answered, and how long it took to commit it.
    pub(super) fn answered(&self, took: Duration) {
        let hold = took.min(self.options.max_age);
        self.queue.lock().hold_until = Instant::now().checked_add(hold);
    }

    /// Ends the queue without doing what is in it. Everybody is answered.
    pub(super) fn abandon(&self) {
        if !self.process.is_here() {
            return;
        }
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        let waiting = mem::take(&mut queue.waiting);
        let line = mem::take(&mut queue.line);
        self.gauge.set(0, 0);
        drop(queue);
        for (_, let_in) in &line {
            let_in.give(Ok(()));
        }
        // A promise that is dropped gives its answer.
        drop((waiting, line));
    }

    /// Refuses everything from now on. What is in the queue or in the line is still done. The thread ends also if the
    /// database was closed before: it may not have known of this writer yet.
    pub(super) fn close(&self) -> Result<()> {
        self.ensure_here()?;
        self.queue.lock().is_closed = true;
        self.due.notify_one();
        Ok(())
    }
}

/// A thread that waits for an answer. It waits no longer when this is dropped.
pub(crate) struct Waiting<'s> {
    submissions: &'s Submissions,
    thread: ThreadId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut queue = self.submissions.queue.lock();
        if let Some(submitter) = queue.submitters.get_mut(&self.thread) {
            submitter.waits = false;
            let queued = submitter.queued;
            queue.open += queued;
            if queued == 0 {
                queue.submitters.remove(&self.thread);
            }
        }
    }
}

/// What the queue knows of a submission. It changes only while the queue is locked.
pub(super) struct Mark {
    submitter: ThreadId,
    stage: AtomicU8,
}

/// How far a submission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not in the queue yet.
    Outside,
    /// In the queue, and nobody waits for its answer.
    Queued,
    /// In the queue, and somebody waits for its answer.
    Waited,
    /// In a group that is being decided, or answered.
    Grouped,
}

impl Mark {
    const STAGES: [Stage; 4] = [Stage::Outside, Stage::Queued, Stage::Waited, Stage::Grouped];

    pub(super) fn new() -> Self {
        Self {
            submitter: thread::current().id(),
            stage: AtomicU8::new(Stage::Outside as u8),
        }
    }

    fn stage(&self) -> Stage {
        Self::STAGES[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

/// Runs code of a caller in a thread that others wait for. A panic of it must not end that thread. `None` then; the
/// hook of the process has printed it.
pub(crate) fn call_back<T>(call: impl FnOnce() -> T) -> Option<T> {
    let called = panic::catch_unwind(AssertUnwindSafe(call));
    // To drop what the panic brings could panic again.
    called.map_err(mem::forget).ok()
}
