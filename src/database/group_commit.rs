//! The thread of a writer. It takes what was submitted, decides it in one transaction, commits, and answers.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use super::policy::Policy;
use super::submissions::{Answers, Submissions, Work};
use super::ticket::Promise;
use super::verdict::Verdict;
use super::write::WriteTxn;
use super::writer::Submission;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::metrics::Timed;
use crate::planted::planted;
use crate::source::Reached;
use crate::store::{Patience, Store};
use crate::sync::Mutex;

/// Works until the queue is closed and empty. `failure` is the first group that failed since somebody flushed.
pub(super) fn run(store: &Arc<Store>, submissions: &Submissions, failure: &Mutex<Option<Error>>) {
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
                decided.delete(promise, deleted);
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
    fn insert(&mut self, promise: Promise<Verdict>, verdict: Result<Verdict>) {
        match self.answers {
            Answers::Durable if !planted("an answer comes before the commit") => {
                self.pending.push(Pending::Insert(promise, verdict));
            }
            Answers::Durable | Answers::Decided => promise.give(verdict),
        }
    }

    fn delete(&mut self, promise: Promise<Option<Document>>, deleted: Result<Option<Document>>) {
        match self.answers {
            Answers::Durable => self.pending.push(Pending::Delete(promise, deleted)),
            Answers::Decided => promise.give(deleted),
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
                    decided.insert(promise, verdict);
                }
                ControlFlow::Continue(())
            }),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = inserted {
            for promise in promises {
                decided.insert(promise, Err(error.clone()));
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
