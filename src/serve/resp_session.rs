//! A client that speaks RESP, from its first request to its end, in a thread of its own.
//!
//! It reads what has come, submits it, waits until all of it is durable, and sends the answers, in order. So a client
//! that sends many requests at once shares commits with itself, and all clients share them with each other, as threads
//! do that use one writer. Nothing is kept of a client that has gone, and what it had submitted is done.

use std::collections::VecDeque;
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use smallvec::SmallVec;

use super::call::{Call, Refusal, Word};
use super::caller::{LONGEST_UNREAD, receive_some, send_more};
#[cfg(feature = "ingest")]
use super::reply::write_overlap;
use super::reply::{Info, write_document, write_matches, write_verdict};
use super::resp::{Answers, RespVersion, find_request};
use super::server::{Counted, Sessions};
use super::socket::{identity_of, wait_for};
use crate::database::{Ticket, Verdict, Writer};
use crate::document::Document;
use crate::error::{Error, ErrorKind, Result};
use crate::process::Kept;
use crate::sync::{Condvar, Mutex};

/// So many bytes of requests are read before they are done.
const MOST_INCOMING: usize = 1 << 20;
/// A client that has so many bytes of answers to read is asked for no more requests.
const MOST_UNSENT: usize = 16 << 20;
/// The most requests of a client that wait for one commit.
const MOST_PENDING: usize = 10_000;
/// As many of them as wait at first. Verdicts wait with their matches, and these may be long.
const FIRST_PENDING: usize = 128;
/// After this time without a request, a client does not keep the writer any more.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// So long a client may read nothing that still submits, and whose answers take little.
const LONGEST_KEPT: Duration = Duration::from_secs(600);

/// The commands of Redis that its clients send by themselves.
const CONNECTION_COMMANDS: [&str; 9] = [
    "CLIENT", "COMMAND", "ECHO", "HELLO", "INFO", "PING", "QUIT", "RESET", "SELECT",
];

pub(super) struct RespSession<'s> {
    sessions: &'s Arc<Sessions>,
    stream: Arc<Kept<UnixStream>>,
    incoming: Vec<u8>,
    outgoing: Outgoing,
    pending: VecDeque<Pending>,
    /// So many requests wait for one commit: as many as had answers of [`MOST_UNSENT`] bytes, by those that came last.
    most_pending: usize,
    writer: Option<Arc<Writer>>,
    /// Whether the client sends nothing more.
    is_at_end: bool,
    /// Whether no more requests are taken, and the rest of the answers is all that is to be done.
    ends: bool,
}

/// An answer that comes with a commit, or has to wait for those before it.
enum Pending {
    Verdict(Ticket),
    Deleted(Ticket<Option<Document>>),
    Refused(Refusal),
}

impl<'s> RespSession<'s> {
    /// A session whose stream does not wait, and has sent the first bytes.
    pub(super) fn new(
        sessions: &'s Arc<Sessions>,
        stream: Arc<Kept<UnixStream>>,
        incoming: Vec<u8>,
    ) -> Self {
        Self {
            sessions,
            outgoing: Outgoing::new(stream.clone()),
            stream,
            incoming,
            pending: VecDeque::new(),
            most_pending: FIRST_PENDING,
            writer: None,
            is_at_end: false,
            ends: false,
        }
    }

    /// Answers until the client has gone, or nobody is to be answered any more.
    pub(super) fn run(mut self) {
        _ = self.answer_all();
    }

    /// Says why the client is not answered.
    pub(super) fn refuse(mut self, reason: &str) {
        self.outgoing.answers.error("ERR", reason);
        self.outgoing.send();
    }

    fn answer_all(&mut self) -> Result<(), Ended> {
        loop {
            if self.outgoing.is_gone && self.sessions.is_closing() {
                return Err(Ended);
            }
            let answering = self.sessions.begin_answering();
            let all_taken = self.take_requests()?;
            if let Some(ticket) = self.only_verdict(all_taken) {
                let has_more = self.let_writer_answer(&ticket, answering)?;
                if has_more && !self.sessions.is_draining() {
                    continue;
                }
            } else {
                self.settle()?;
                self.outgoing.send();
                drop(answering);
            }
            let unsent = self.outgoing.unsent();
            if !all_taken && unsent < MOST_UNSENT {
                continue;
            }
            if unsent == 0 && (self.ends || self.is_at_end || self.sessions.is_draining()) {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Does what the whole requests that have come ask for, also those that come meanwhile. Says whether these are all,
    /// or the client has too much to read.
    fn take_requests(&mut self) -> Result<bool, Ended> {
        loop {
            let before = self.pending.len();
            let all_taken = self.take_whole_requests()?;
            // The rest of a pipeline is in the same commit then.
            let may_go_on = all_taken && self.pending.len() > before + 1 && !self.is_at_end;
            if !may_go_on || !self.receive() {
                return Ok(all_taken);
            }
        }
    }

    /// The ticket of a client that waits for one verdict and nothing else.
    fn only_verdict(&mut self, all_taken: bool) -> Option<Ticket> {
        let is_alone = all_taken && self.pending.len() == 1 && !self.is_at_end && !self.ends;
        if !is_alone || self.outgoing.unsent() > 0 {
            return None;
        }
        match self.pending.pop_front() {
            Some(Pending::Verdict(ticket)) => Some(ticket),
            other => {
                self.pending.extend(other);
                None
            }
        }
    }

    /// Waits until the writer's thread has sent a verdict. Says whether the client has sent something more.
    ///
    /// So this thread need not wake up between the commit and the next request, which comes at once from a client that
    /// submits one document after another.
    fn let_writer_answer(&mut self, ticket: &Ticket, answering: Counted) -> Result<bool, Ended> {
        let unused = Outgoing::new(self.stream.clone());
        let outgoing = mem::replace(&mut self.outgoing, unused);
        let (last_answer, sent) = LastAnswer::hand_over(outgoing, answering);
        let waiting = ticket.wait_with(move |verdict| last_answer.send(verdict));
        let has_more = loop {
            let events = wait_for(&self.stream, PollFlags::IN, Some(PAUSE));
            let is_ready = events.is_ok_and(|events| !events.is_empty());
            if is_ready || sent.is_there() {
                break is_ready;
            }
        };
        self.outgoing = sent.wait()?;
        drop(waiting);
        if has_more {
            self.receive();
        }
        Ok(has_more)
    }

    fn take_whole_requests(&mut self) -> Result<bool, Ended> {
        let mut all_taken = false;
        let incoming = mem::take(&mut self.incoming);
        let mut at = 0;
        while !self.ends && self.outgoing.unsent() < MOST_UNSENT {
            match find_request(&incoming[at..]) {
                Ok(Some(found)) => {
                    let bytes = &incoming[at..];
                    let texts = found.arguments.into_iter().map(|range| &bytes[range]);
                    let texts: SmallVec<[&[u8]; 16]> = texts.collect();
                    self.take_request(&texts)?;
                    at += found.length;
                }
                Ok(None) => {
                    all_taken = true;
                    break;
                }
                Err(reason) => {
                    self.settle()?;
                    let reason = format!("Protocol error: {reason}");
                    self.outgoing.answers.error("ERR", &reason);
                    self.ends = true;
                    return Ok(true);
                }
            }
        }
        self.incoming = incoming;
        self.incoming.drain(..at);
        Ok(all_taken || self.ends)
    }

    fn take_request(&mut self, texts: &[&[u8]]) -> Result<(), Ended> {
        let [name, arguments @ ..] = texts else {
            // Redis passes over an empty request too.
            return Ok(());
        };
        match Call::parse(name, arguments) {
            Some(Ok(call)) => self.take_call(call)?,
            Some(Err(refusal)) => self.pending.push_back(Pending::Refused(refusal)),
            None => {
                self.settle()?;
                if let Err(refusal) = self.take_command(Word::new(name).as_str(), arguments) {
                    self.outgoing.answers.error(refusal.code, &refusal.message);
                }
            }
        }
        if self.pending.len() >= self.most_pending {
            self.settle()?;
        }
        Ok(())
    }

    fn take_call(&mut self, call: Call) -> Result<(), Ended> {
        let refused = match call {
            Call::Add(document, policy) => self
                .writer()
                .and_then(|writer| writer.submit(document, &policy))
                .map(Pending::Verdict),
            Call::Delete(key) => self
                .writer()
                .and_then(|writer| writer.submit_delete(key))
                .map(Pending::Deleted),
            other => {
                self.settle()?;
                match self.answer_now(&other) {
                    Ok(()) => return Ok(()),
                    Err(error) => Err(error),
                }
            }
        };
        let pending = match refused {
            Ok(pending) => pending,
            Err(error) => Pending::Refused(refusal_of(error)?),
        };
        self.pending.push_back(pending);
        Ok(())
    }

    /// Answers a call that no commit is waited for with. Everything before it is durable. An answer that is too long
    /// for a client is an error, and is not sent.
    fn answer_now(&mut self, call: &Call) -> Result<()> {
        let before = self.outgoing.answers.bytes().len();
        self.write_answer(call)?;
        self.outgoing.answers.ensure_sendable(before)
    }

    fn write_answer(&mut self, call: &Call) -> Result<()> {
        let database = self.sessions.database()?;
        match call {
            Call::Query(query) => {
                write_matches(
                    &database.snapshot()?.query(query)?,
                    &mut self.outgoing.answers,
                );
            }
            #[cfg(feature = "ingest")]
            Call::Overlap(text, query) => {
                let sessions = self.sessions;
                let snapshot = database.snapshot()?;
                let overlap = snapshot.overlap_with(text, query, |_, _| sessions.flow());
                let overlap = overlap.map_err(|error| match error {
                    Error::Interrupted => Error::Closed,
                    error => error,
                })?;
                write_overlap(&overlap, &mut self.outgoing.answers);
            }
            Call::Get(key) => {
                let found = database.snapshot()?.get(key)?;
                write_document(found.as_ref(), &mut self.outgoing.answers);
            }
            Call::Expire(expiry) => {
                let sessions = self.sessions;
                let mut is_cut_short = false;
                let deleted = database.expire(expiry, |_| {
                    let flow = sessions.flow();
                    is_cut_short = flow.is_break();
                    flow
                })?;
                // Whoever opens the database next deletes the rest, when the client asks again.
                if is_cut_short {
                    return Err(Error::Closed);
                }
                self.outgoing.answers.integer(deleted.cast_signed());
            }
            Call::Flush => {
                self.writer()?.flush()?;
                self.outgoing.answers.simple("OK");
            }
            Call::Info => {
                let store = &database.store;
                let file = identity_of(&store.metadata()?);
                let documents = database.snapshot()?.stats()?.documents;
                Info::new(store.settings(), file).write(documents, &mut self.outgoing.answers);
            }
            Call::Add(..) | Call::Delete(_) => unreachable!("they wait for a commit"),
        }
        Ok(())
    }

    /// The writer that all clients share.
    fn writer(&mut self) -> Result<&Writer> {
        if self.writer.is_none() {
            self.writer = Some(self.sessions.writer()?);
        }
        Ok(self.writer.as_deref().expect("it was put there"))
    }

    /// Waits until everything that was submitted is durable, and answers it.
    fn settle(&mut self) -> Result<(), Ended> {
        let count = self.pending.len();
        let before = self.outgoing.unsent();
        while let Some(pending) = self.pending.pop_front() {
            match pending {
                Pending::Verdict(ticket) => self.outgoing.verdict(ticket.wait())?,
                Pending::Deleted(ticket) => match ticket.wait() {
                    Ok(document) => write_document(document.as_ref(), &mut self.outgoing.answers),
                    Err(error) => self.outgoing.error(error)?,
                },
                Pending::Refused(refusal) => {
                    self.outgoing.answers.error(refusal.code, &refusal.message);
                }
            }
        }
        if count > 0 {
            let bytes_each = (self.outgoing.unsent() - before).div_ceil(count).max(1);
            let most = (2 * self.most_pending).min(MOST_PENDING);
            self.most_pending = (MOST_UNSENT / bytes_each).clamp(1, most);
        }
        Ok(())
    }

    /// Answers what clients of Redis say when they connect.
    fn take_command(&mut self, name: &str, arguments: &[&[u8]]) -> Result<(), Refusal> {
        let first = arguments.first().map(|first| first.to_ascii_uppercase());
        match (name, first.as_deref()) {
            ("PING", None) => self.outgoing.answers.simple("PONG"),
            ("PING" | "ECHO", Some(_)) => self.outgoing.answers.text(arguments[0]),
            ("HELLO", _) => self.greet(arguments)?,
            ("CLIENT", Some(b"SETINFO" | b"SETNAME" | b"NO-EVICT" | b"NO-TOUCH")) => {
                self.outgoing.answers.simple("OK");
            }
            ("CLIENT", Some(b"GETNAME")) => self.outgoing.answers.null(),
            ("CLIENT", Some(b"ID")) => self.outgoing.answers.integer(1),
            // Nothing is told of the commands. Clients go on without.
            ("COMMAND", _) => self.outgoing.answers.array(0),
            ("INFO", _) => {
                let version = env!("CARGO_PKG_VERSION");
                self.outgoing
                    .answers
                    .text(format!("# Server\r\nsimdb_version:{version}\r\n"));
            }
            ("QUIT", _) => {
                self.outgoing.answers.simple("OK");
                self.ends = true;
            }
            ("RESET", _) => {
                self.outgoing.answers.version = RespVersion::Two;
                self.outgoing.answers.simple("RESET");
            }
            ("SELECT", Some(b"0")) => self.outgoing.answers.simple("OK"),
            _ if CONNECTION_COMMANDS.contains(&name) => {
                let what = first.as_deref().unwrap_or_default();
                let what = String::from_utf8_lossy(&what[..what.len().min(40)]).into_owned();
                return Err(Refusal::syntax(format!("simdb knows no {name} '{what}'")));
            }
            _ => {
                return Err(Refusal::syntax(format!(
                    "unknown command '{name}': simdb has SIM.ADD, SIM.QUERY, SIM.OVERLAP, SIM.GET, SIM.DEL, \
                     SIM.EXPIRE, SIM.FLUSH and SIM.INFO"
                )));
            }
        }
        Ok(())
    }

    /// Takes the version that a client asks for, and says who answers.
    fn greet(&mut self, arguments: &[&[u8]]) -> Result<(), Refusal> {
        let mut rest = arguments.iter();
        let version = match rest.next().copied() {
            None => self.outgoing.answers.version,
            Some(b"2") => RespVersion::Two,
            Some(b"3") => RespVersion::Three,
            Some(_) => {
                let message = "unsupported protocol version: it is 2 or 3".to_owned();
                return Err(Refusal {
                    code: "NOPROTO",
                    message,
                });
            }
        };
        while let Some(word) = rest.next() {
            if word.eq_ignore_ascii_case(b"AUTH") {
                let message = "simdb has no passwords: whoever may open the socket is answered";
                return Err(Refusal::syntax(message));
            }
            // Clients need no names here.
            if !word.eq_ignore_ascii_case(b"SETNAME") || rest.next().is_none() {
                return Err(Refusal::syntax(
                    "HELLO takes a version and SETNAME with a name",
                ));
            }
        }
        let answers = &mut self.outgoing.answers;
        answers.version = version;
        answers.map(7);
        answers.field("server").text("simdb");
        answers.field("version").text(env!("CARGO_PKG_VERSION"));
        answers.field("proto").integer(version as i64);
        answers.field("id").integer(1);
        answers.field("mode").text("standalone");
        answers.field("role").text("master");
        answers.field("modules").array(0);
        Ok(())
    }

    /// Waits until the client sends something, or reads what was sent to it.
    fn wait(&mut self) -> Result<(), Ended> {
        let unsent = self.outgoing.unsent();
        if unsent == 0 {
            self.outgoing.read_last = Instant::now();
        }
        let mut what = PollFlags::empty();
        if !self.ends && !self.is_at_end && unsent < MOST_UNSENT {
            what |= PollFlags::IN;
        }
        if unsent > 0 {
            what |= PollFlags::OUT;
        }
        loop {
            // What it may still read costs little, and its submissions would be sent again by another connection.
            let is_in_the_way =
                unsent >= MOST_UNSENT || self.ends || self.is_at_end || self.sessions.is_draining();
            let longest = if is_in_the_way {
                LONGEST_UNREAD
            } else {
                LONGEST_KEPT
            };
            if self.sessions.is_closing()
                || unsent > 0 && self.outgoing.read_last.elapsed() >= longest
            {
                return Err(Ended);
            }
            // When the server is closed, the stream is shut down, so this ends too.
            let most = match self.writer {
                Some(_) => Some(PAUSE),
                None => (unsent > 0).then_some(LONG_PAUSE),
            };
            let Ok(events) = wait_for(&self.stream, what, most) else {
                return Err(Ended);
            };
            if events.contains(PollFlags::IN) {
                self.receive();
            } else if events.is_empty() {
                self.writer = None;
                continue;
            } else if !events.contains(PollFlags::OUT) {
                if self.outgoing.is_gone {
                    return Err(Ended);
                }
                // It may have sent something before it went.
                self.outgoing.is_gone = true;
            }
            return Ok(());
        }
    }

    /// Reads what has come, and says whether that is anything.
    fn receive(&mut self) -> bool {
        let before = self.incoming.len();
        let received = receive_some(&self.stream, &mut self.incoming, before + MOST_INCOMING);
        // What it has asked for is done and answered still.
        self.is_at_end |= received.is_err();
        self.incoming.len() > before
    }
}

// The answers that a client of RESP has not got yet. They are sent by the thread of the client, or, when one verdict
// is all that is waited for, by the thread of the writer.

struct Outgoing {
    stream: Arc<Kept<UnixStream>>,
    answers: Answers,
    /// So many bytes of the answers are sent.
    sent: usize,
    /// When the client has read anything last.
    read_last: Instant,
    /// Whether the client reads nothing any more. What it has sent before it went is done all the same.
    is_gone: bool,
}

/// Why a session ends at once: the database is closed, or the stream has failed.
struct Ended;

impl Outgoing {
    fn new(stream: Arc<Kept<UnixStream>>) -> Self {
        Self {
            stream,
            answers: Answers::default(),
            sent: 0,
            read_last: Instant::now(),
            is_gone: false,
        }
    }

    fn verdict(&mut self, verdict: Result<Verdict>) -> Result<(), Ended> {
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

    fn error(&mut self, error: Error) -> Result<(), Ended> {
        let refusal = refusal_of(error)?;
        self.answers.error(refusal.code, &refusal.message);
        Ok(())
    }

    /// Sends as much as is possible without waiting. To a client that has gone nothing is sent.
    fn send(&mut self) {
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

    fn unsent(&mut self) -> usize {
        self.answers.bytes().len() - self.sent
    }
}

/// What a client is told of an error. Of a database that is closed it is told nothing: whoever opens it next answers.
fn refusal_of(error: Error) -> Result<Refusal, Ended> {
    match error.kind() {
        ErrorKind::Closed | ErrorKind::Forked => Err(Ended),
        _ => Ok(error.into()),
    }
}

/// What the writer's thread adds and sends a verdict with. It gives the answers back when it is dropped, also by a
/// panic.
struct LastAnswer {
    /// `None` when they were given back.
    outgoing: Option<Outgoing>,
    is_sent: bool,
    sent: Arc<Sent>,
    answering: Counted,
}

#[derive(Default)]
struct Sent {
    outgoing: Mutex<Option<Result<Outgoing, Ended>>>,
    given_back: Condvar,
}

impl LastAnswer {
    /// Hands the answers over. `answering` ends when the verdict is sent.
    fn hand_over(outgoing: Outgoing, answering: Counted) -> (Self, Arc<Sent>) {
        let sent = Arc::new(Sent::default());
        let last_answer = Self {
            outgoing: Some(outgoing),
            is_sent: false,
            sent: sent.clone(),
            answering,
        };
        (last_answer, sent)
    }

    fn send(mut self, verdict: Result<Verdict>) {
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
            *self.sent.outgoing.lock() = Some(outgoing.ok_or(Ended));
            self.sent.given_back.notify_one();
        }
    }
}

impl Sent {
    fn is_there(&self) -> bool {
        self.outgoing.lock().is_some()
    }

    fn wait(&self) -> Result<Outgoing, Ended> {
        let mut outgoing = self.outgoing.lock();
        loop {
            match outgoing.take() {
                Some(outgoing) => return outgoing,
                None => self.given_back.wait(&mut outgoing),
            }
        }
    }
}
