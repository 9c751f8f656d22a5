//! The answers that a client of RESP has not got yet. They are sent by the thread of the client, or, when one verdict
//! is all that is waited for, by the thread of the writer.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::call::Refusal;
use super::caller::send_more;
use super::reply::write_verdict;
use super::resp::Answers;
use super::server::Counted;
use crate::database::Verdict;
use crate::error::{Error, ErrorKind, Result};
use crate::process::Kept;

pub(super) struct Outgoing {
    stream: Arc<Kept<UnixStream>>,
    pub(super) answers: Answers,
    /// So many bytes of the answers are sent.
    sent: usize,
    /// When the client has read anything last.
    pub(super) read_last: Instant,
    /// Whether the client reads nothing any more. What it has sent before it went is done all the same.
    pub(super) is_gone: bool,
}

/// Why a session ends at once: the database is closed, or the stream has failed.
pub(super) struct Ended;

impl Outgoing {
    pub(super) fn new(stream: Arc<Kept<UnixStream>>) -> Self {
        Self {
            stream,
            answers: Answers::new(),
            sent: 0,
            read_last: Instant::now(),
            is_gone: false,
        }
    }

    /// Adds the answer to a submission.
    pub(super) fn verdict(&mut self, verdict: Result<Verdict>) -> Result<(), Ended> {
        let before = self.answers.bytes().len();
        let written = verdict.and_then(|verdict| {
            write_verdict(&verdict, &mut self.answers);
            self.answers.ensure_sendable(before)
        });
        match written {
            Ok(()) => Ok(()),
            Err(error) => self.error(error),
        }
    }

    /// Adds an answer that says what is wrong.
    pub(super) fn error(&mut self, error: Error) -> Result<(), Ended> {
        let refusal = refusal_of(error)?;
        self.answers.error(refusal.code, &refusal.message);
        Ok(())
    }

    /// Sends as much as is possible without waiting. To a client that has gone nothing is sent.
    pub(super) fn send(&mut self) {
        let bytes = self.answers.bytes();
        if !self.is_gone {
            match send_more(&self.stream, bytes, &mut self.sent) {
                Ok(true) => self.read_last = Instant::now(),
                Ok(false) => {}
                Err(_) => self.is_gone = true,
            }
        }
        if self.is_gone {
            *bytes = Vec::new();
            self.sent = 0;
        }
    }

    /// The number of bytes that are still to be sent.
    pub(super) fn unsent(&mut self) -> usize {
        self.answers.bytes().len() - self.sent
    }
}

/// What a client is told of an error. Of a database that is closed it is told nothing: whoever opens it next answers.
pub(super) fn refusal_of(error: Error) -> Result<Refusal, Ended> {
    match error.kind() {
        ErrorKind::Closed | ErrorKind::Forked => Err(Ended),
        _ => Ok(error.into()),
    }
}

/// What the writer's thread adds and sends a verdict with. It gives the answers back when it is dropped, also by a
/// panic.
pub(super) struct LastAnswer {
    /// `None` when they were given back.
    outgoing: Option<Outgoing>,
    is_sent: bool,
    sent: Arc<Sent>,
    answering: Counted,
}

/// The answers, when they are given back.
#[derive(Default)]
pub(super) struct Sent {
    outgoing: Mutex<Option<Result<Outgoing, Ended>>>,
    given_back: Condvar,
}

impl LastAnswer {
    /// Hands the answers over. `answering` ends when the verdict is sent.
    pub(super) fn hand_over(outgoing: Outgoing, answering: Counted) -> (Self, Arc<Sent>) {
        let sent = Arc::new(Sent::default());
        let last_answer = Self {
            outgoing: Some(outgoing),
            is_sent: false,
            sent: sent.clone(),
            answering,
        };
        (last_answer, sent)
    }

    pub(super) fn send(mut self, verdict: Result<Verdict>) {
        if let Some(outgoing) = &mut self.outgoing {
            self.is_sent = outgoing.verdict(verdict).is_ok();
            outgoing.send();
        }
    }
}

impl Drop for LastAnswer {
    fn drop(&mut self) {
        // A process that was forked has no thread that waits, and the lock may be held for ever there.
        if self.answering.is_here() {
            let outgoing = self.outgoing.take().filter(|_| self.is_sent);
            self.sent.give_back(outgoing.ok_or(Ended));
        }
    }
}

impl Sent {
    fn give_back(&self, outgoing: Result<Outgoing, Ended>) {
        *self.outgoing.lock() = Some(outgoing);
        self.given_back.notify_one();
    }

    /// Whether the answers were given back.
    pub(super) fn is_there(&self) -> bool {
        self.outgoing.lock().is_some()
    }

    /// Waits until the answers are given back.
    pub(super) fn wait(&self) -> Result<Outgoing, Ended> {
        let mut outgoing = self.outgoing.lock();
        loop {
            match outgoing.take() {
                Some(outgoing) => return outgoing,
                None => self.given_back.wait(&mut outgoing),
            }
        }
    }
}
