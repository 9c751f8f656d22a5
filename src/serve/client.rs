//! Client: a database that another process serves, with the calls of a database.
//!
//! A client has no thread of its own. Whoever waits for an answer reads for all: one thread at a time sends and
//! receives, and the others wait for it. What was not answered is kept, and is sent again, in its order, when the
//! connection was lost and somebody serves again.

use std::collections::VecDeque;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

#[cfg(feature = "ingest")]
use super::call::overlap_request;
use super::call::{add_request, expire_request, plain_request, query_request};
use super::caller::{receive_some, send_more};
use super::find_server::Started;
use super::find_server::{
    ClientOptions, LOOK, PAUSE, Unserved, find_server, find_server_once, is_anybody_there,
};
#[cfg(feature = "ingest")]
use super::reply::read_overlap;
use super::reply::{Info, read_document, read_matches, read_number, read_verdict, refused};
use super::resp::{AnswerScan, Value};
use super::socket::wait_for;
use crate::database::{Expiry, Matches, Policy, Query, Verdict};
#[cfg(feature = "ingest")]
use crate::database::{Overlap, OverlapQuery};
use crate::document::{Document, validate_key};
use crate::error::{Error, Result};
use crate::process::{Kept, Process};
use crate::sketch::{Sketch, SketchSize};
use crate::sync::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "text")]
use crate::text::Fingerprinter;
use crate::text::Scheme;

/// The most submissions that wait for answers.
const MOST_WAITING: usize = 20_000;
/// The most memory for them (bytes).
const MOST_WAITING_BYTES: usize = 64 << 20;
/// With so many bytes to send, they are sent, also if more come.
const MOST_UNSENT: usize = 64 << 10;
/// After so many submissions, answers are taken that have come.
const TAKEN_TOGETHER: usize = 64;
/// So many bytes of answers are read before they are given to those who wait.
const MOST_INCOMING: usize = 1 << 20;
/// How often the connection may be lost without an answer in between.
const MOST_LOST: u32 = 5;
/// So long who serves has to say what it serves when the connection was lost, before it is tried again.
const LONGEST_TRY: Duration = Duration::from_secs(2);

/// A database that another process [serves](crate::OpenOptions::serve). It needs the feature `serve`, and a system of
/// the Unix family.
///
/// Clones are the same client, and threads share it. Every answer comes when it is durable. All clients of a database
/// share commits, as the threads of one process do.
///
/// * *The connection is lost*, since the other process was killed, say: the client waits until somebody serves the
///   database again, for as long as [`ClientOptions::timeout`] says, or starts somebody. What was not answered is sent
///   again, in its order. Nothing is stored twice by that: a document is never near to the stored one of the same key,
///   and replaces it. So its verdict may say that it replaced itself, and the list of what was
///   [deleted](Verdict::deleted) is empty the second time. But a document that is not stored may be
///   [counted](crate::Policy::touch) twice.
/// * *Nobody serves in time*: what was not answered gets [`Error::NotServed`]. It may be stored or not, and can be
///   submitted again. The next call tries anew.
/// * *An error of the other process* is [`Error::Served`]. Its [kind](Error::kind) is that of the error there.
///
/// A client belongs to the process that made it. In a process that was forked from that one, each call is
/// [`Error::Forked`].
///
/// # Example
///
/// ```
/// use simdb::{Client, ClientOptions, CreateOptions, Database, Document, Fingerprint, Policy, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// // In one process:
/// let options = CreateOptions::new().scheme(Scheme::External).serve(true);
/// let database = Database::create(&path, &options)?;
///
/// // In others:
/// let client = Client::connect(&path, &ClientOptions::new())?;
/// let document = Document::new("page", Fingerprint::from_bits(7));
/// assert!(!client.insert_if_new(&document, &Policy::skip())?.is_duplicate());
/// assert_eq!(client.get("page")?, Some(document));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What a submission by a [`Client`] gives. Its answer comes when the submission is durable, or has failed.
///
/// If it is dropped, the submission is done all the same, and its answer is lost.
///
/// # Example
///
/// ```
/// use simdb::{Client, ClientOptions, Document, Fingerprint, Policy};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
/// # let database = Database::create(&path, &CreateOptions::new().scheme(Scheme::External).serve(true))?;
///
/// let client = Client::connect(&path, &ClientOptions::new())?;
/// let mut tickets = Vec::new();
/// for key in ["a", "b", "c"] {
///     tickets.push(client.submit(&Document::new(key, Fingerprint::from_bits(7)), &Policy::skip())?);
/// }
/// let mut duplicates = 0;
/// for ticket in tickets {
///     duplicates += u64::from(ticket.wait()?.is_duplicate());
/// }
/// assert_eq!(duplicates, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "without it, nobody learns whether the document was stored"]
pub struct ClientTicket<T = Verdict> {
    shared: Arc<Shared>,
    place: AnswerPlace,
    /// What the question compares with.
    sketch: Option<Sketch>,
    read: ReadAnswer<T>,
}

/// Reads an answer, or says what is wrong with it.
type ReadAnswer<T> = fn(&Value<'_>, Option<&Sketch>) -> Result<T, String>;

/// Where an answer comes: its bytes.
type AnswerPlace = Arc<Mutex<Option<Result<Vec<u8>>>>>;

impl Client {
    /// Connects to the process that serves the database at `path`.
    ///
    /// # Errors
    ///
    /// * [`Error::NotServed`] if nobody does in time. It says why, as far as that is known.
    /// * [`Error::Io`] if the socket may not be opened.
    /// * [`Error::Interrupted`], as [`ClientOptions::stop_when`] says.
    pub fn connect(path: impl AsRef<Path>, options: &ClientOptions) -> Result<Self> {
        let database = path.as_ref();
        let database = std::path::absolute(database).map_err(Error::io(database))?;
        let mut started = None;
        let (stream, info) = find_server(&database, options, &mut started)?;
        let state = State {
            stream: Some(stream),
            outgoing: Vec::new(),
            sent: 0,
            incoming: Vec::new(),
            scan: AnswerScan::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lost: 0,
            heard: Instant::now(),
            driver: None,
            is_closed: false,
            unheard: None,
            started,
            search: None,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                database,
                options: options.clone(),
                info,
                process: Process::here(),
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
        })
    }

    /// The path of the database. It is absolute.
    pub fn path(&self) -> &Path {
        &self.shared.database
    }

    /// The scheme of the fingerprints in the database.
    pub fn scheme(&self) -> Scheme {
        self.shared.info.scheme
    }

    /// The max distance of queries that name none.
    pub fn max_distance(&self) -> u32 {
        self.shared.info.max_distance
    }

    /// The size of the sketches in the database.
    pub fn sketch_size(&self) -> SketchSize {
        self.shared.info.sketch_size
    }

    /// The least similarity of queries and policies that name none. `None` if there is none.
    pub fn min_similarity(&self) -> Option<f64> {
        self.shared.info.min_similarity
    }

    /// Checks that a document can be stored in the database, as [`Database::validate`](crate::Database::validate) does.
    /// Nothing is sent for that.
    ///
    /// # Errors
    ///
    /// Those of [`Database::validate`](crate::Database::validate).
    pub fn validate(&self, document: &Document) -> Result<()> {
        document.validate()?;
        self.scheme().check_sketch(self.sketch_size(), document)
    }

    /// The fingerprinter whose fingerprints and sketches compare with those in the database. It needs the feature
    /// `text`.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalScheme`] if the fingerprints are made elsewhere.
    #[cfg(feature = "text")]
    pub fn fingerprinter(&self) -> Result<Fingerprinter> {
        Ok(Fingerprinter::new(self.scheme())?.with_sketch_size(self.sketch_size()))
    }

    /// Submits a document. Its ticket gives the verdict later. Answers come in the order of submission.
    ///
    /// If 20,000 submissions or 64 MiB of them wait for answers, this waits until some have come.
    ///
    /// # Errors
    ///
    /// * [`Error::NotSendable`] for a policy with a function, and [`Error::RequestLength`] for one of very many scopes.
    /// * [`Error::Closed`] after [`close`](Self::close), and [`Error::Forked`] in a forked process.
    /// * [`Error::Interrupted`], as [`ClientOptions::stop_when`] says. It is not known then whether it was submitted.
    ///
    /// The bounds of the document and of the policy are checked when it is decided. Their errors are in the answer.
    pub fn submit(&self, document: &Document, policy: &Policy) -> Result<ClientTicket> {
        self.submit_document(document, policy, true)
    }

    /// Submits a document, and waits for the verdict.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit) and of [`ClientTicket::wait`].
    pub fn insert_if_new(&self, document: &Document, policy: &Policy) -> Result<Verdict> {
        self.submit(document, policy)?.wait()
    }

    /// Submits many documents, and waits for their verdicts, in order.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit). The error of a document is in its place.
    pub fn insert_each_if_new<'d>(
        &self,
        documents: impl IntoIterator<Item = &'d Document>,
        policy: &Policy,
    ) -> Result<Vec<Result<Verdict>>> {
        let mut tickets = VecDeque::new();
        let mut verdicts = Vec::new();
        for document in documents {
            tickets.push_back(self.submit_document(document, policy, false)?);
            // Answers that are there take no memory twice.
            if tickets.len() >= MOST_WAITING {
                verdicts.extend(tickets.drain(..MOST_WAITING / 2).map(ClientTicket::wait));
            }
        }
        verdicts.extend(tickets.into_iter().map(ClientTicket::wait));
        Ok(verdicts)
    }

    /// Submits the removal of the document of a key. Its ticket gives the document, or `None` if there is none. If it
    /// had to be sent again, it may be `None` though it was removed.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`] for a key that no document can have.
    /// * [`Error::Closed`] after [`close`](Self::close), and [`Error::Forked`] in a forked process.
    pub fn submit_delete(&self, key: impl Into<Vec<u8>>) -> Result<ClientTicket<Option<Document>>> {
        let key = key.into();
        validate_key(&key)?;
        let place = self.send(plain_request("SIM.DEL", Some(&key)))?;
        Ok(self.ticket(place, None, |value, _| read_document(value)))
    }

    /// Answers a query, with everything that was answered before.
    ///
    /// # Errors
    ///
    /// * [`Error::NotSendable`] for a query with a function, and [`Error::RequestLength`] for one of very many scopes.
    /// * Those of [`ClientTicket::wait`].
    pub fn query(&self, query: &Query) -> Result<Matches> {
        let place = self.send(query_request(query)?)?;
        self.ticket(place, query.sketch(), read_matches).wait()
    }

    /// Tells how much of a text stood elsewhere, as [`Snapshot::overlap`](crate::Snapshot::overlap) does, with
    /// everything that was answered before. It needs the feature `ingest`, here and in the process that serves.
    ///
    /// # Errors
    ///
    /// * [`Error::TextLength`] for a text of more than 960 KiB, and [`Error::RequestLength`] for very many scopes.
    /// * Those of [`ClientTicket::wait`].
    #[cfg(feature = "ingest")]
    pub fn overlap(&self, text: &str, query: &OverlapQuery) -> Result<Overlap> {
        let place = self.send(overlap_request(text, query)?)?;
        let ticket = self.ticket(place, None, |value, _| read_overlap(value));
        let overlap = ticket.wait()?;
        // Whoever shows a unit cuts it out of the text.
        let are_in_text = overlap
            .units
            .iter()
            .all(|unit| text.get(unit.range.clone()).is_some());
        let are_in_order = overlap
            .units
            .is_sorted_by(|unit, next| unit.range.end <= next.range.start);
        match are_in_text && are_in_order {
            true => Ok(overlap),
            false => Err(self
                .shared
                .odd_answer("its units are not those of the text")),
        }
    }

    /// The document of a key, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] for a key that no document can have, and those of [`ClientTicket::wait`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Document>> {
        let key = key.as_ref();
        validate_key(key)?;
        let place = self.send(plain_request("SIM.GET", Some(key)))?;
        self.ticket(place, None, |value, _| read_document(value))
            .wait()
    }

    /// Removes the document of a key, and returns it.
    ///
    /// # Errors
    ///
    /// Those of [`submit_delete`](Self::submit_delete) and of [`ClientTicket::wait`].
    pub fn delete(&self, key: impl Into<Vec<u8>>) -> Result<Option<Document>> {
        self.submit_delete(key)?.wait()
    }

    /// Removes all documents that an expiry names, and returns their number, as
    /// [`Database::expire`](crate::Database::expire) does. Without a condition it removes nothing.
    ///
    /// If the connection is lost meanwhile, the number is that of the documents which were left.
    ///
    /// # Errors
    ///
    /// [`Error::RequestLength`] for very many scopes, and those of [`ClientTicket::wait`].
    pub fn expire(&self, expiry: &Expiry) -> Result<u64> {
        if *expiry == Expiry::new() {
            return Ok(0);
        }
        let place = self.send(expire_request(expiry)?)?;
        self.ticket(place, None, |value, _| read_number(value))
            .wait()
    }

    /// Waits until everything that was submitted before is durable, or has failed.
    ///
    /// # Errors
    ///
    /// * The first error of a commit there since the last flush of any client.
    /// * Those of [`ClientTicket::wait`].
    pub fn flush(&self) -> Result<()> {
        let place = self.send(plain_request("SIM.FLUSH", None))?;
        self.ticket(place, None, |_, _| Ok(())).wait()
    }

    /// Waits until everything that was submitted is answered, and ends the connection. This concerns all clones. A
    /// second call does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] in a forked process, and [`Error::Interrupted`], as [`ClientOptions::stop_when`] says. Tickets
    /// give their answers. [`Error::NotServed`] if something was not answered whose ticket was let go.
    pub fn close(&self) -> Result<()> {
        self.shared.process.ensure_here()?;
        self.shared.close()
    }

    fn submit_document(
        &self,
        document: &Document,
        policy: &Policy,
        at_once: bool,
    ) -> Result<ClientTicket> {
        let place = match (add_request(document, policy), document.validate()) {
            // It is not even sent, and gets its error as one that is refused there.
            (Err(Error::RequestLength { .. }), Err(error)) => {
                Arc::new(Mutex::new(Some(Err(error))))
            }
            (request, _) => self.shared.submit(request?, at_once)?,
        };
        Ok(self.ticket(place, document.sketch(), read_verdict))
    }

    fn send(&self, request: Vec<u8>) -> Result<AnswerPlace> {
        self.shared.submit(request, true)
    }

    fn ticket<T>(
        &self,
        place: AnswerPlace,
        sketch: Option<&Sketch>,
        read: ReadAnswer<T>,
    ) -> ClientTicket<T> {
        ClientTicket {
            shared: self.shared.clone(),
            place,
            sketch: sketch.copied(),
            read,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("database", &self.shared.database)
            .finish_non_exhaustive()
    }
}

impl<T> ClientTicket<T> {
    /// Waits in this thread for the answer.
    ///
    /// # Errors
    ///
    /// * [`Error::Served`] for an error of the process that serves.
    /// * [`Error::NotServed`] if the connection was lost and nobody serves in time, or if the process that serves does
    ///   not answer at all. The submission may be done or not, and can be made again.
    /// * [`Error::Interrupted`], as [`ClientOptions::stop_when`] says. The submission goes on.
    /// * [`Error::Forked`] in a process that was forked from that of the client.
    pub fn wait(self) -> Result<T> {
        let answer = self.answer_before(None);
        answer.expect("without an end, there is an answer")
    }

    /// As [`wait`](Self::wait), but no longer than `timeout`. Then it gives the ticket back. While nobody is connected,
    /// it tries once to connect, which may take some 50 ms longer.
    ///
    /// # Errors
    ///
    /// The ticket, if there is no answer in time.
    pub fn wait_for(self, timeout: Duration) -> Result<Result<T>, Self> {
        let end = Instant::now().checked_add(timeout);
        self.answer_before(end).ok_or(self)
    }

    fn answer_before(&self, end: Option<Instant>) -> Option<Result<T>> {
        let shared = &self.shared;
        if let Err(error) = shared.process.ensure_here() {
            return Some(Err(error));
        }
        let mut state = shared.state.lock();
        match shared.drive(&mut state, |_| self.place.lock().is_some(), end) {
            Ok(true) => drop(state),
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let answer = self.place.lock().take();
        let answer = answer.expect("an answer is taken once");
        Some(answer.and_then(|bytes| {
            let value = Value::parse(&bytes).map_err(|reason| shared.odd_answer(&reason))?;
            let read = (self.read)(&refused(value)?, self.sketch.as_ref());
            read.map_err(|reason| shared.odd_answer(&reason))
        }))
    }
}

impl<T> fmt::Debug for ClientTicket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTicket").finish_non_exhaustive()
    }
}

/// What the clones of a client and their tickets share.
struct Shared {
    database: PathBuf,
    options: ClientOptions,
    info: Info,
    process: Process,
    state: Mutex<State>,
    /// Signalled when nobody sends and receives any more, which is after each step.
    changed: Condvar,
}

struct State {
    /// `None` if the connection was lost.
    stream: Option<Arc<Kept<UnixStream>>>,
    /// What is to be sent by this connection.
    outgoing: Vec<u8>,
    /// So many bytes of that are sent.
    sent: usize,
    incoming: Vec<u8>,
    scan: AnswerScan,
    /// What was not answered, in its order.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// How often the connection was lost since the last answer.
    lost: u32,
    /// When anything was received last, or sent after everything had been answered.
    heard: Instant,
    /// The thread that sends and receives for all.
    driver: Option<ThreadId>,
    is_closed: bool,
    /// The first error of a submission whose ticket was let go.
    unheard: Option<Error>,
    started: Option<Started>,
    /// The search for somebody who serves, while nobody is connected.
    search: Option<Search>,
}

/// A search for somebody who serves. It goes on while somebody waits.
#[derive(Clone, Copy)]
struct Search {
    end: Instant,
    tried: Instant,
}

struct Waiting {
    request: Vec<u8>,
    place: AnswerPlace,
}

impl State {
    fn has_room(&self) -> bool {
        self.waiting.is_empty()
            || self.waiting.len() < MOST_WAITING && self.waiting_bytes < MOST_WAITING_BYTES
    }

    /// The connection is of no use any more. What was not answered stays.
    fn lose(&mut self) {
        self.clear();
        self.lost += 1;
    }

    fn clear(&mut self) {
        self.stream = None;
        self.outgoing.clear();
        self.sent = 0;
        self.incoming.clear();
        self.scan = AnswerScan::default();
    }

    fn fail(&mut self, error: &Error) {
        self.lose();
        self.lost = 0;
        self.search = None;
        self.waiting_bytes = 0;
        for waiting in self.waiting.drain(..) {
            if Arc::strong_count(&waiting.place) == 1 {
                self.unheard.get_or_insert_with(|| error.clone());
            }
            *waiting.place.lock() = Some(Err(error.clone()));
        }
    }

    /// Takes a new connection, by which everything that was not answered is sent again.
    fn take(&mut self, stream: Arc<Kept<UnixStream>>) {
        self.clear();
        self.stream = Some(stream);
        self.search = None;
        self.heard = Instant::now();
        for waiting in &self.waiting {
            self.outgoing.extend_from_slice(&waiting.request);
        }
    }

    /// Sends as much as is possible without waiting.
    fn send(&mut self) {
        let Some(stream) = self.stream.clone() else {
            return;
        };
        if send_more(&stream, &mut self.outgoing, &mut self.sent).is_err() {
            // Whoever ended the connection may have answered before. What is no answer is not wanted any more.
            while self.receive().is_ok_and(|has_more| has_more) {}
            if self.stream.is_some() {
                self.lose();
            }
        }
    }

    /// Receives what has come, and gives it to those who wait. Says so if it is no answer, and whether there may be
    /// more.
    fn receive(&mut self) -> Result<bool, String> {
        let Some(stream) = self.stream.clone() else {
            return Ok(false);
        };
        let received = receive_some(&stream, &mut self.incoming, MOST_INCOMING);
        self.give_answers()?;
        if received.is_err() {
            self.lose();
        }
        Ok(received.unwrap_or(false))
    }

    fn give_answers(&mut self) -> Result<(), String> {
        let mut at = 0;
        while let Some(length) = self.scan.find_end(&self.incoming[at..])? {
            let answer = self.incoming[at..at + length].to_vec();
            at += length;
            let waiting = self.waiting.pop_front();
            let waiting = waiting.ok_or("an answer came that nobody has asked for")?;
            self.waiting_bytes -= waiting.request.len();
            self.lost = 0;
            self.heard = Instant::now();
            *waiting.place.lock() = Some(Ok(answer));
        }
        self.incoming.drain(..at);
        Ok(())
    }
}

impl Shared {
    /// Submits a request. `at_once` says whether it is sent now, or with others.
    fn submit(&self, request: Vec<u8>, at_once: bool) -> Result<AnswerPlace> {
        self.process.ensure_here()?;
        let place = AnswerPlace::default();
        let mut state = self.state.lock();
        self.drive(&mut state, State::has_room, None)?;
        if state.is_closed {
            return Err(Error::Closed);
        }
        if state.waiting.is_empty() {
            state.heard = Instant::now();
        }
        if state.stream.is_some() {
            state.outgoing.extend_from_slice(&request);
        }
        state.waiting_bytes += request.len();
        state.waiting.push_back(Waiting {
            request,
            place: place.clone(),
        });
        if at_once || state.outgoing.len() - state.sent >= MOST_UNSENT {
            state.send();
        }
        // Who submits and does not wait reads all the same. Otherwise a server would have to keep its answers.
        if state.waiting.len().is_multiple_of(TAKEN_TOGETHER) {
            self.receive(&mut state);
        }
        if state.stream.is_none() {
            // Whoever serves now gets it, whether anybody waits for the answer or not. If nobody does, who waits looks
            // on.
            let driven = self.drive(
                &mut state,
                |state| state.stream.is_some() || state.waiting.is_empty(),
                Some(Instant::now() + LOOK),
            );
            // It is sent all the same, by whoever drives.
            if !matches!(driven, Err(Error::WouldDeadlock)) {
                driven?;
            }
        }
        Ok(place)
    }

    /// Sends and receives until `is_done`, or until the end. Whether it is done.
    fn drive(
        &self,
        state: &mut MutexGuard<'_, State>,
        is_done: impl Fn(&State) -> bool,
        end: Option<Instant>,
    ) -> Result<bool> {
        let mut looked = Instant::now();
        let mut is_over = false;
        // Whoever is asked whether to stop may use the client, but not while that waits for the answer.
        let would_wait_for_itself = state.driver == Some(thread::current().id());
        loop {
            if is_done(state) {
                return Ok(true);
            }
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                // Who does not wait takes what has come, or tries once to connect.
                if is_over || state.driver.is_some() {
                    return Ok(false);
                }
                is_over = true;
            }
            if would_wait_for_itself {
                return Err(Error::WouldDeadlock);
            }
            let look = looked + LOOK;
            if end.is_none() && now >= look {
                looked = now;
                // What is asked may wait for another thread that waits for the lock.
                if MutexGuard::unlocked(state, || self.options.is_to_stop()) {
                    return Err(Error::Interrupted);
                }
                continue;
            }
            if state.driver.is_some() {
                let look = now + LOOK;
                self.changed
                    .wait_until(state, end.map_or(look, |end| end.min(look)));
                continue;
            }
            let stepped = {
                let driving = Driving::begin(state, &self.changed);
                self.step(driving.state, end)
            };
            match stepped {
                // Who waits for a while looks by itself.
                Err(_) if end.is_some() => return Ok(false),
                stepped => stepped?,
            }
        }
    }

    /// Finds somebody who serves if there is nobody. Then sends and receives something, or waits a moment.
    fn step(&self, state: &mut MutexGuard<'_, State>, end: Option<Instant>) -> Result<()> {
        if state.stream.is_none() {
            return self.find_server_again(state, end);
        }
        state.send();
        let Some(stream) = state.stream.clone() else {
            return Ok(());
        };
        let what = match state.outgoing.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        let now = Instant::now();
        let most = end.map_or(LOOK, |end| end.saturating_duration_since(now).min(LOOK));
        let events = MutexGuard::unlocked(state, || wait_for(&stream, what, Some(most)));
        if events.is_ok_and(|events| !events.is_empty()) {
            // Another thread may have lost the connection meanwhile, which is no matter.
            self.receive(state);
        } else if state.heard.elapsed() >= self.options.timeout {
            return self.probe(state);
        }
        Ok(())
    }

    /// Takes what has come. If that is no answer, all get an error.
    fn receive(&self, state: &mut State) {
        if let Err(reason) = state.receive() {
            let error = self.odd_answer(&reason);
            state.fail(&error);
        }
    }

    /// Tries once to connect anew, up to `end`. So who waits only for a while, or looks for signals, is not kept by a
    /// long search.
    fn find_server_again(
        &self,
        state: &mut MutexGuard<'_, State>,
        end: Option<Instant>,
    ) -> Result<()> {
        if state.lost > MOST_LOST {
            let times = state.lost;
            let reason = format!("whoever serves it has ended {times} times before an answer came");
            let error = self.not_served(reason);
            state.fail(&error);
            return Ok(());
        }
        let now = Instant::now();
        let most = end.map_or(LONGEST_TRY, |end| end.saturating_duration_since(now));
        let most = most.clamp(LOOK, LONGEST_TRY);
        // A search that nobody has gone on with is over. Who looks now and then goes on with it.
        let longest = self.options.timeout.max(2 * LONGEST_TRY);
        let before = state
            .search
            .filter(|search| now.duration_since(search.tried) < longest);
        let end = before.map_or(now + self.options.timeout, |search| search.end);
        state.search = Some(Search { end, tried: now });
        let mut started = state.started.take();
        let tried = MutexGuard::unlocked(state, || {
            let end = end.min(now + most);
            let known = Some(&self.info);
            let tried = find_server_once(&self.database, &self.options, known, &mut started, end);
            if let Err(Unserved::ForNow(_)) = tried {
                thread::sleep(PAUSE);
            }
            tried
        });
        state.started = started;
        match tried {
            Ok((stream, _)) => state.take(stream),
            // It concerns this thread alone.
            Err(Unserved::Interrupted) => return Err(Error::Interrupted),
            Err(Unserved::Refused(error)) => state.fail(&error),
            Err(Unserved::ForNow(_)) if Instant::now() < end => {}
            Err(Unserved::ForNow(reason)) => {
                let error = self.not_served(reason);
                state.fail(&error);
            }
        }
        Ok(())
    }

    /// Asks whether anybody is there, since nothing has come for a while.
    fn probe(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        let timeout = self.options.timeout;
        let answers =
            MutexGuard::unlocked(state, || is_anybody_there(&self.database, &self.options));
        match answers {
            Ok(()) => state.heard = Instant::now(),
            Err(Unserved::Interrupted) => return Err(Error::Interrupted),
            Err(Unserved::Refused(error)) => state.fail(&error),
            Err(Unserved::ForNow(reason)) => {
                let error = self.not_served(format!(
                    "whoever serves it has not answered for {} s, and may be stopped ({reason})",
                    timeout.as_secs_f64()
                ));
                state.fail(&error);
            }
        }
        Ok(())
    }

    fn odd_answer(&self, reason: &str) -> Error {
        self.not_served(format!(
            "what listens at its socket does not answer as simdb does: {reason}"
        ))
    }

    fn not_served(&self, reason: String) -> Error {
        Error::NotServed {
            path: self.database.clone(),
            reason,
        }
    }

    fn close(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.is_closed = true;
        // Who is interrupted leaves the connection to those who wait for their answers.
        self.drive(&mut state, |state| state.waiting.is_empty(), None)?;
        state.clear();
        state.unheard.take().map_or(Ok(()), Err)
    }
}

/// That a thread sends and receives for all, until this is dropped, also by a panic of what the caller has handed in.
struct Driving<'d, 's> {
    state: &'d mut MutexGuard<'s, State>,
    changed: &'d Condvar,
}

impl<'d, 's> Driving<'d, 's> {
    fn begin(state: &'d mut MutexGuard<'s, State>, changed: &'d Condvar) -> Self {
        state.driver = Some(thread::current().id());
        Self { state, changed }
    }
}

impl Drop for Driving<'_, '_> {
    fn drop(&mut self) {
        self.state.driver = None;
        self.changed.notify_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What is not answered is unknown to a forked process.
        if self.process.is_here() {
            _ = self.close();
        }
    }
}
