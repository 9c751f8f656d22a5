//! The queue of a writer, and its tickets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::block_on;

use super::policy::Policy;
use super::submissions::{Submissions, Work, WriterOptions};
use super::ticket::{Promise, Submitting, Ticket};
use super::verdict::Verdict;
use super::writer::Submission;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::sync::thread::{self, JoinHandle};

pub(crate) fn all() -> Vec<(&'static str, usize, fn())> {
    vec![
        (
            "queue::a_group_is_committed_when_all_wait_whoever_else_has_submitted",
            3_000,
            all_wait,
        ),
        (
            "queue::a_full_queue_serves_everybody_in_order_and_stays_in_its_bounds",
            3_000,
            full_queue,
        ),
        (
            "queue::what_is_submitted_beside_a_close_is_done_or_refused",
            3_000,
            closed_beside_others,
        ),
        (
            "queue::everybody_is_answered_if_the_thread_ends",
            3_000,
            thread_ends,
        ),
        (
            "queue::tasks_in_the_line_are_let_in_or_leave_nothing_behind",
            3_000,
            tasks,
        ),
    ]
}

/// A moment that never comes: only who waits makes a group due.
const NEVER: Duration = Duration::from_secs(24 * 3_600);

/// The numbers of documents in the order in which they were decided.
type Decided = Arc<Mutex<Vec<u64>>>;

/// A writer whose thread notes documents instead of storing them.
struct Writer {
    /// While it is there, the queue is open.
    store: Arc<Store>,
    submissions: Arc<Submissions>,
    decided: Decided,
    thread: JoinHandle<()>,
}

impl Writer {
    /// The thread ends without a word after so many groups.
    fn start(options: WriterOptions, most_groups: usize) -> Self {
        let store = Arc::new(Store::default());
        let submissions = Arc::new(Submissions::new(options, &store));
        let decided = Decided::default();
        let thread = {
            let (submissions, decided) = (submissions.clone(), decided.clone());
            thread::spawn(move || {
                for _ in 0..most_groups {
                    let Some((group, _)) = submissions.next_group() else {
                        break;
                    };
                    decide(group, &decided);
                    submissions.answered(Duration::ZERO);
                }
                submissions.abandon();
            })
        };
        Self {
            store,
            submissions,
            decided,
            thread,
        }
    }

    /// Three threads that do this with the queue. Each gets its number.
    fn three_threads<T: Send + 'static>(
        &self,
        work: impl Fn(u64, &Arc<Submissions>) -> T + Copy + Send + 'static,
    ) -> Vec<JoinHandle<T>> {
        let start = |number| {
            let submissions = self.submissions.clone();
            thread::spawn(move || work(number, &submissions))
        };
        (0..3).map(start).collect()
    }

    /// Closes the queue, and returns what was decided.
    fn close(self) -> Vec<u64> {
        self.submissions.close().expect("it is open");
        self.thread.join().expect("no thread panics");
        std::mem::take(&mut *self.decided.lock().expect("no thread panics"))
    }
}

fn ended<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    let ended = threads.into_iter().map(JoinHandle::join);
    ended.map(|it| it.expect("no thread panics")).collect()
}

/// Notes the documents of a group, then answers.
fn decide(group: Vec<Work>, decided: &Decided) {
    let mut promises = Vec::new();
    for work in group {
        match work {
            Work::Insert(insertion, promise) => {
                let mut decided = decided.lock().expect("no thread panics");
                promises.push((promise, Verdict(decided.len())));
                decided.push(insertion.0.document.0);
            }
            Work::Flush(promise) => promise.give(Ok(())),
            Work::Delete(..) | Work::Reach(..) => unreachable!("nobody submits that"),
        }
    }
    thread::yield_now();
    for (promise, verdict) in promises {
        promise.give(Ok(verdict));
    }
}

fn work(number: u64, submissions: &Arc<Submissions>) -> (Work, Ticket) {
    let promise = Promise::new();
    let ticket = Ticket::new(&promise, submissions);
    let submission = Submission {
        document: Document(number),
        reached: None,
    };
    (
        Work::Insert(Box::new((submission, Policy)), promise),
        ticket,
    )
}

fn submit(number: u64, submissions: &Arc<Submissions>) -> Result<Ticket> {
    let (work, ticket) = work(number, submissions);
    submissions.add(work)?;
    Ok(ticket)
}

/// Each number is there once, and those of a thread (of the same hundred) are in order.
fn assert_in_order(decided: &[u64], count: usize) {
    assert_eq!(decided.len(), count, "{decided:?}");
    let mut last = HashMap::new();
    for number in decided {
        let before = last.insert(number / 100, number);
        assert!(before.is_none_or(|before| before < number), "{decided:?}");
    }
}

fn all_wait() {
    let writer = Writer::start(WriterOptions::new().max_age(NEVER), usize::MAX);
    let threads = writer.three_threads(|thread, submissions| {
        let first = submit(100 * thread, submissions).expect("it is open");
        // One thread has two under way, and one does not wait for the first.
        match thread {
            0 => {
                let second = submit(100 * thread + 1, submissions).expect("it is open");
                let second = second.wait().expect("it is decided");
                assert!(first.wait().expect("it is decided") < second);
            }
            1 => {
                drop(first);
                let second = submit(100 * thread + 1, submissions).expect("it is open");
                _ = second.wait().expect("it is decided");
            }
            _ => {
                _ = first.wait().expect("it is decided");
                let second = submit(100 * thread + 1, submissions).expect("it is open");
                _ = block_on(second).expect("it is decided");
            }
        }
    });
    ended(threads);
    assert_in_order(&writer.close(), 6);
}

fn full_queue() {
    let options = WriterOptions::new().max_age(NEVER).queue(2).batch(3);
    let writer = Writer::start(options, usize::MAX);
    let gauge = writer.store.meters.0.clone();
    let threads = writer.three_threads(|thread, submissions| {
        for number in 0..3 {
            let number = 100 * thread + number;
            let (mut work, ticket) = work(number, submissions);
            if thread > 0 {
                submissions.add(work).expect("it is open");
            } else {
                // It asks again until there is room. Who finds the queue full makes a group due.
                while let Some(refused) = submissions.try_add(work).expect("it is open") {
                    work = refused;
                    thread::yield_now();
                }
            }
            drop(ticket);
        }
    });
    ended(threads);
    assert_in_order(&writer.close(), 9);
    assert!(gauge.longest() <= 2, "{} in the queue", gauge.longest());
}

fn closed_beside_others() {
    let options = WriterOptions::new().max_age(NEVER).queue(2);
    let writer = Writer::start(options, usize::MAX);
    let threads = writer.three_threads(|thread, submissions| {
        let mut done = 0;
        for number in 0..2 {
            match submit(100 * thread + number, submissions) {
                Ok(ticket) => {
                    _ = ticket.wait().expect("what was taken is decided");
                    done += 1;
                }
                Err(error) => assert!(matches!(error, Error::WriterClosed), "{error:?}"),
            }
        }
        done
    });
    let submissions = writer.submissions.clone();
    let decided = writer.close();
    let done = ended(threads).iter().sum();
    assert_in_order(&decided, done);
    assert!(matches!(submit(0, &submissions), Err(Error::WriterClosed)));
}

/// The thread of the writer ends after its first group, as if it had panicked.
fn thread_ends() {
    let options = WriterOptions::new().max_age(NEVER).queue(2).batch(1);
    let writer = Writer::start(options, 1);
    let threads = writer.three_threads(|thread, submissions| {
        let answer = submit(100 * thread, submissions).and_then(Ticket::wait);
        match answer {
            Ok(_) => 1,
            Err(Error::WriterClosed) => 0,
            Err(other) => panic!("{other:?}"),
        }
    });
    let done = ended(threads).iter().sum();
    assert_in_order(&writer.close(), done);
    assert!(done <= 1);
}

fn tasks() {
    let options = WriterOptions::new().max_age(NEVER).queue(1).batch(1);
    let writer = Writer::start(options, usize::MAX);
    let threads = writer.three_threads(|thread, submissions| {
        for number in 0..2 {
            let (work, ticket) = work(100 * thread + number, submissions);
            let submitting = Submitting::new(work, ticket);
            let ticket = block_on(submitting).expect("it is open");
            _ = block_on(ticket).expect("it is decided");
        }
    });
    let gives_up = {
        let submissions = writer.submissions.clone();
        thread::spawn(move || {
            let (work, ticket) = work(1_000, &submissions);
            let mut submitting = Box::pin(Submitting::new(work, ticket));
            // It is asked once, and given up.
            let is_in = block_on(std::future::poll_fn(|context| {
                std::task::Poll::Ready(submitting.as_mut().poll(context).is_ready())
            }));
            // A ticket that is dropped takes nothing back, but what stands in the line is not done.
            drop(submitting);
            is_in
        })
    };
    ended(threads);
    let is_in = gives_up.join().expect("no thread panics");
    let decided = writer.close();
    // It may have been let in between the question and the drop.
    let count = decided.len();
    assert!(count == 6 + usize::from(is_in) || !is_in && count == 7);
    assert_in_order(&decided, count);
}
