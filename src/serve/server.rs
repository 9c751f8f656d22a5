//! The server, as the user of the library has it: one thread lets clients in, and each is answered in a thread of its
//! own. Hides how many there are at most, and how all are ended.

use std::fmt;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, getrlimit};

use super::caller::{Caller, receive_some};
use super::request::{Frame, REMOVED, Request, VERSION};
use super::resp_session::RespSession;
use super::socket::{SocketFile, identity_of, wait_for};
use crate::database::{Database, Writer, WriterOptions, call_back};
use crate::error::{Error, Result};
use crate::process::{Kept, OfProcess, Process, give_up_inherited};
use crate::store::Store;
use crate::sync::{Condvar, Mutex};

#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../tests/hostile/socket.rs"]
pub(crate) mod hostile;

const MOST_CLIENTS: usize = 1_000;
/// So many of the files that the process may have open are not for clients, but for the database and for commands.
const FILES_OF_OTHERS: u64 = 24;
const MOST_COMMANDS: usize = 8;
/// So long nobody else is let in while it is looked in which language a client is to be refused.
const PATIENCE_TO_REFUSE: Duration = Duration::from_millis(20);
/// How long requests have to end when the socket is closed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The exit code of a request that could not be answered.
const COULD_NOT_TELL: u8 = 2;
/// What a client is told whose request is not begun any more.
const CLOSES: &str =
    "the process that has the database open is about to close it; try again in a moment";

/// Runs the command of a request with the open database, and returns its exit code, or says why it does not.
pub(crate) type RunCommand = fn(&Request, &Database, &Arc<Caller>) -> Result<u8, String>;

/// What answers other processes about an open database, at a socket. The socket is closed and removed when this is
/// dropped.
///
/// Requests that are being answered then are ended. What they have committed stays. In a process that was forked from
/// the one that listens, a drop ends and removes nothing, and does what
/// [`Database::abandon`](crate::Database::abandon) does.
///
/// # Example
///
/// ```
/// use simdb::{Client, ClientOptions};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let server = database.serve()?;
/// let socket = server.path().to_owned();
/// assert!(socket.ends_with("pages.simdb.sock"));
/// let client = Client::connect(database.path(), &ClientOptions::new())?;
/// assert_eq!(client.max_distance(), database.max_distance());
/// server.close_when_answered();
/// assert!(!socket.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the database is served until this is dropped"]
pub struct Server {
    sessions: Arc<Sessions>,
    path: PathBuf,
    /// `None` after the end. A process that is forked from the one that listens has no such thread.
    file: Option<OfProcess<SocketFile>>,
    /// The thread ends when this is shut down.
    stop: Kept<UnixStream>,
    thread: Option<OfProcess<JoinHandle<()>>>,
}

impl Server {
    /// Listens at a path, and answers by `run`.
    pub(crate) fn listen(store: &Arc<Store>, path: &Path, run: RunCommand) -> Result<Self> {
        store.ensure_usable()?;
        let (listener, file) = SocketFile::bind(path)?;
        let listener = Kept::new(listener);
        listener.set_nonblocking(true).map_err(Error::io(path))?;
        let (stop, stopped) = UnixStream::pair().map_err(Error::io(path))?;
        let stop = Kept::new(stop);
        let stopped = Kept::new(stopped);
        let sessions = Sessions::new(Arc::downgrade(store), run);
        sessions.file_of(store)?;
        let thread = thread::Builder::new().name("simdb-serve".to_owned());
        let thread = thread.spawn({
            let sessions = sessions.clone();
            move || listen(&listener, &stopped, &sessions)
        });
        let thread = thread.map_err(Error::no_thread)?;
        Ok(Self {
            sessions,
            path: file.path.clone(),
            file: Some(OfProcess::new(file)),
            stop,
            thread: Some(OfProcess::new(thread)),
        })
    }

    /// Whether any request is being answered.
    pub fn is_answering(&self) -> bool {
        self.sessions.is_answering()
    }

    /// For how long nobody has been connected. Zero if somebody is.
    pub fn idle_for(&self) -> Duration {
        self.sessions.idle_for()
    }

    /// Ends all requests, and lets nobody else in, as soon as `stop` says so. It is asked several times a second, by
    /// the threads of the requests. Only the first call counts.
    ///
    /// So a program that was asked to end is not kept by a request, whatever it does: one that compacts the database
    /// has the turn to write for minutes.
    pub fn stop_when(self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.sessions.stop_when(stop);
        self
    }

    /// Lets nobody else in, and waits until the requests that are being answered have ended, or are
    /// [stopped](Self::stop_when). Clients that have not asked anything yet are not waited for, and none is that reads
    /// nothing, or sends nothing of its standard input, for two seconds.
    pub fn close_when_answered(self) {
        self.sessions.drain(None);
    }

    /// As [`close_when_answered`](Self::close_when_answered), but waits no longer than `patience`. Then all are ended.
    pub fn close_within(self, patience: Duration) {
        self.sessions.drain(Some(patience));
    }

    /// Where the socket is. The path is absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.sessions.is_here() {
            // The socket and the thread belong to the process that this one was forked from. But a client that connects
            // would wait for ever if that process is gone and this one still listens.
            _ = give_up_inherited();
            return;
        }
        // Nobody finds it any more.
        self.file = None;
        self.sessions.close();
        // Closing it would not do, since a process that was forked from this one has it too.
        _ = self.stop.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take().and_then(OfProcess::take) {
            _ = thread.join();
        }
    }
}

/// Lets requests in until `stopped` is shut down at its other end. Then it tells the rest why they are not answered.
fn listen(listener: &UnixListener, stopped: &UnixStream, sessions: &Arc<Sessions>) {
    /// So long nobody is let in after the system had no handle for another.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let mut waiting = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN | PollFlags::HUP),
        ];
        let polled = poll(&mut waiting, None);
        let is_stopped = !waiting[1].revents().is_empty();
        match polled
            .map_err(io::Error::from)
            .and_then(|_| listener.accept())
        {
            Ok((stream, _)) => let_in(Kept::new(stream), sessions),
            Err(_) if is_stopped => return,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionAborted => {}
                _ => thread::sleep(PAUSE),
            },
        }
    }
}

/// The most clients that are connected at once, each of which is an open file.
fn most_clients() -> usize {
    match getrlimit(Resource::Nofile).current {
        Some(files) => {
            let clients = files.saturating_sub(FILES_OF_OTHERS).max(1);
            MOST_CLIENTS.min(usize::try_from(clients).unwrap_or(MOST_CLIENTS))
        }
        None => MOST_CLIENTS,
    }
}

fn let_in(stream: Kept<UnixStream>, sessions: &Arc<Sessions>) {
    // Nobody is waited for but where it is said how long.
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    let session = match sessions.enter(stream) {
        Ok(session) => session,
        Err(stream) => {
            let reason = match sessions.is_draining() || sessions.is_closing() {
                true => CLOSES.to_owned(),
                false => format!(
                    "the process that has the database open has {} clients already; try again when one has ended",
                    most_clients()
                ),
            };
            return refuse(Arc::new(stream), sessions, reason);
        }
    };
    let stream = session.stream.clone();
    let thread = thread::Builder::new().name("simdb-request".to_owned());
    if let Err(error) = thread.spawn(move || session.answer()) {
        let reason = format!(
            "the process that has the database open gets no thread for the request: {error}; try again later"
        );
        refuse(stream, sessions, reason);
    }
}

/// Tells a client why it is not answered, in the language in which it asks.
fn refuse(stream: Arc<Kept<UnixStream>>, sessions: &Arc<Sessions>, reason: String) {
    let mut first = [0];
    _ = wait_for(&stream, PollFlags::IN, Some(PATIENCE_TO_REFUSE));
    _ = (&**stream).read(&mut first);
    match first {
        [FIRST_OF_COMMAND] => refuse_command(&stream, reason),
        _ => RespSession::new(sessions, stream, Vec::new()).refuse(&reason),
    }
}

/// With this byte begins a request for a command of the program. RESP begins with another.
const FIRST_OF_COMMAND: u8 = b'{';

/// Tells a client why its command is not run, without waiting for it.
fn refuse_command(stream: &UnixStream, reason: String) {
    let mut frames = vec![Frame::SimdbAdmin(VERSION)];
    frames.extend(refusal(reason));
    Caller::send_to(stream, &frames);
}

/// What is said to a client whose command cannot be answered. One that came too late is told that it can ask again.
fn refusal(reason: String) -> impl Iterator<Item = Frame> {
    let not_begun = (reason == CLOSES).then_some(Frame::Begun(false));
    let end = [Frame::Message(reason), Frame::Exit(COULD_NOT_TELL)];
    not_begun.into_iter().chain(end)
}

pub(super) struct Sessions {
    /// The database is not kept open by those who wait for requests.
    store: Weak<Store>,
    run: RunCommand,
    /// The process that answers.
    process: Process,
    is_closing: AtomicBool,
    /// Says whether all requests are to end.
    stop: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Whether nobody else is let in, and those who are answered are waited for.
    is_draining: AtomicBool,
    /// The requests that are understood and not answered yet.
    answering: AtomicUsize,
    /// The commands of the program that are asked for.
    commands: AtomicUsize,
    clients: Mutex<Clients>,
    ended: Condvar,
    /// The writer of all clients that have it.
    writer: Mutex<Weak<Writer>>,
    /// The files that the database has been, as far as they were seen. A compaction makes another.
    files: Mutex<Vec<(u64, u64)>>,
}

struct Clients {
    streams: Vec<Arc<Kept<UnixStream>>>,
    /// When the last one has gone.
    left: Instant,
}

/// A client that is connected, until this is dropped.
struct Session {
    sessions: Arc<Sessions>,
    stream: Arc<Kept<UnixStream>>,
}

impl Sessions {
    pub(super) fn new(store: Weak<Store>, run: RunCommand) -> Arc<Self> {
        Arc::new(Self {
            store,
            run,
            process: Process::here(),
            is_closing: AtomicBool::new(false),
            stop: OnceLock::new(),
            is_draining: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
            commands: AtomicUsize::new(0),
            clients: Mutex::new(Clients {
                streams: Vec::new(),
                left: Instant::now(),
            }),
            ended: Condvar::new(),
            writer: Mutex::default(),
            files: Mutex::default(),
        })
    }

    /// The file that the database is now, which is noted.
    fn file_of(&self, store: &Store) -> Result<(u64, u64)> {
        let file = identity_of(&store.metadata()?);
        let mut files = self.files.lock();
        if !files.contains(&file) {
            files.push(file);
        }
        Ok(file)
    }

    /// The writer that all clients share, as long as any of them has it. Without clients there is none, since it keeps
    /// the database open.
    pub(super) fn writer(&self) -> Result<Arc<Writer>> {
        let mut shared = self.writer.lock();
        if let Some(writer) = shared.upgrade() {
            return Ok(writer);
        }
        let writer = Arc::new(self.database()?.writer(WriterOptions::new())?);
        *shared = Arc::downgrade(&writer);
        Ok(writer)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire) || self.is_asked_to_stop()
    }

    /// Whether the function of the program says so. If it panics, that is an answer too: the thread that lets clients
    /// in must not end by it.
    fn is_asked_to_stop(&self) -> bool {
        let Some(stop) = self.stop.get() else {
            return false;
        };
        call_back(stop).unwrap_or(true)
    }

    /// Ends all requests as soon as `stop` says so. The first one stays.
    fn stop_when(&self, stop: impl Fn() -> bool + Send + Sync + 'static) {
        _ = self.stop.set(Box::new(stop));
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    /// Lets a client in. Gives the stream back if there are too many.
    fn enter(self: &Arc<Self>, stream: Kept<UnixStream>) -> Result<Session, Kept<UnixStream>> {
        let is_asked_to_stop = self.is_asked_to_stop();
        let mut clients = self.clients.lock();
        let is_closing = is_asked_to_stop || self.is_closing.load(Ordering::Acquire);
        if clients.streams.len() >= most_clients() || is_closing || self.is_draining() {
            return Err(stream);
        }
        let stream = Arc::new(stream);
        clients.streams.push(stream.clone());
        let sessions = self.clone();
        Ok(Session { sessions, stream })
    }

    /// Whether this is the process that answers. One that is forked from it has none of its threads.
    fn is_here(&self) -> bool {
        self.process.is_here()
    }

    fn is_answering(&self) -> bool {
        self.is_here() && self.answering.load(Ordering::SeqCst) > 0
    }

    /// Notes that a request is being answered, until the returned value is dropped.
    pub(super) fn begin_answering(self: &Arc<Self>) -> Counted {
        Counted::begin(self, |sessions| &sessions.answering)
    }

    fn idle_for(&self) -> Duration {
        if !self.is_here() {
            return Duration::ZERO;
        }
        let clients = self.clients.lock();
        match clients.streams.is_empty() {
            true => clients.left.elapsed(),
            false => Duration::ZERO,
        }
    }

    /// Whether to wait for requests. If this thread writes, those that wait for their turn would wait for this thread.
    fn may_wait(&self) -> bool {
        let store = self.store.upgrade();
        store.is_none_or(|store| !store.is_writing_here())
    }

    /// Lets nobody else in, and waits until nothing is being answered, or all is to end.
    ///
    /// A command is counted before it looks whether this has begun (`Session::run`), and here it is the other way
    /// round. So one that begins is waited for.
    fn drain(&self, patience: Option<Duration>) {
        let begun = Instant::now();
        const LOOK: Duration = Duration::from_millis(20);
        self.is_draining.store(true, Ordering::SeqCst);
        let may_wait = self.may_wait();
        while may_wait && self.is_answering() && !self.is_closing() {
            if patience.is_some_and(|patience| begun.elapsed() >= patience) {
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Ends all requests, and waits a while until they have ended.
    fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        let end = Instant::now() + PATIENCE;
        let may_wait = self.may_wait();
        let mut clients = self.clients.lock();
        for stream in &clients.streams {
            // Nobody waits for this client any more. It can be told still why it is not answered.
            _ = stream.shutdown(Shutdown::Read);
        }
        while may_wait && !clients.streams.is_empty() {
            if self.ended.wait_until(&mut clients, end).timed_out() {
                break;
            }
        }
        for stream in &clients.streams {
            _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends what takes long when the server is closed.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        match self.is_closing() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    pub(super) fn database(&self) -> Result<Database> {
        let store = self.store.upgrade().filter(|_| !self.is_closing());
        store.map(Database::of_store).ok_or(Error::Closed)
    }

    /// The open database, if it is the file that the client means.
    fn open_database(&self, file: (u64, u64)) -> Result<Arc<Store>, String> {
        /// A compaction puts another file in the place, and a moment later the database works on that one.
        const TRIES: usize = 20;
        const PAUSE: Duration = Duration::from_millis(10);
        for _ in 0..TRIES {
            if self.is_closing() {
                return Err(CLOSES.to_owned());
            }
            let store = self.store.upgrade();
            let store = store.ok_or(CLOSES)?;
            let current = self.file_of(&store).map_err(|error| error.to_string())?;
            if current == file {
                return Ok(store);
            }
            // Whoever names the socket may save what is in it.
            if file == REMOVED {
                let names = store.metadata().map_err(|error| error.to_string())?.nlink();
                return match names {
                    0 => Ok(store),
                    _ => Err("no such database: the file that is served here has another name by now; give that, with \
                              `--socket`"
                        .to_owned()),
                };
            }
            if self.files.lock().contains(&file) {
                // Who asks again means the file of today.
                return Err(CLOSES.to_owned());
            }
            drop(store);
            thread::sleep(PAUSE);
        }
        Err("the process that listens has another database open: the file was moved or replaced meanwhile".to_owned())
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Session {
    /// Answers the client. Whatever it says, this process goes on.
    fn answer(&self) {
        let Some(first) = self.first_bytes() else {
            return;
        };
        match first[0] {
            FIRST_OF_COMMAND => self.answer_command(first),
            _ => self.answer_calls(first),
        }
    }

    /// Waits for what the client says first, however long it takes. `None` if it says nothing.
    fn first_bytes(&self) -> Option<Vec<u8>> {
        let mut first = Vec::new();
        loop {
            receive_some(&self.stream, &mut first, 1).ok()?;
            if !first.is_empty() {
                return Some(first);
            }
            // When the server is closed, the stream is shut down, so this ends.
            _ = wait_for(&self.stream, PollFlags::IN, None);
        }
    }

    /// Answers calls until the client has gone.
    fn answer_calls(&self, first: Vec<u8>) {
        let session = RespSession::new(&self.sessions, self.stream.clone(), first);
        match self.ensure_same_user() {
            // A panic ends the client, and nothing else. The hook of the process has printed it.
            Ok(()) => _ = catch_unwind(AssertUnwindSafe(|| session.run())),
            Err(reason) => session.refuse(&reason),
        }
    }

    fn answer_command(&self, first: Vec<u8>) {
        let _answering = self.sessions.begin_answering();
        let commands = Counted::begin(&self.sessions, |sessions| &sessions.commands);
        if commands.number > MOST_COMMANDS {
            let reason = format!(
                "the process that has the database open answers {MOST_COMMANDS} commands already; try again when one \
                 has ended"
            );
            return refuse_command(&self.stream, reason);
        }
        let caller = Caller::new(self.stream.clone(), self.sessions.clone(), first);
        let caller = Arc::new(caller);
        if caller.send(&Frame::SimdbAdmin(VERSION)).is_err() {
            return;
        }
        match caught(|| self.run(&caller)) {
            Ok(code) => _ = caller.send(&Frame::Exit(code)),
            Err(reason) => refusal(reason).for_each(|frame| _ = caller.send(&frame)),
        }
    }

    fn run(&self, caller: &Arc<Caller>) -> Result<u8, String> {
        self.ensure_same_user()?;
        let line = caller.request();
        let line = line.map_err(|reason| match self.sessions.is_closing() {
            true => CLOSES.to_owned(),
            false => reason,
        })?;
        let request = Request::parse(&line)?;
        if !Path::new(&request.directory()?).is_absolute() {
            return Err("the directory of the request is no absolute path".to_owned());
        }
        let store = self.sessions.open_database(request.file)?;
        if self.sessions.is_draining() {
            return Err(CLOSES.to_owned());
        }
        // Who does not hear it asks again, so then it is not begun.
        let told = caller.send(&Frame::Begun(true));
        told.map_err(|_| CLOSES.to_owned())?;
        (self.sessions.run)(&request, &Database::of_store(store), caller)
    }

    /// Refuses other users. The mode of the socket keeps them out too.
    #[cfg(target_os = "linux")]
    fn ensure_same_user(&self) -> Result<(), String> {
        let peer = rustix::net::sockopt::socket_peercred(&*self.stream)
            .map_err(|error| format!("the system does not tell who asks: {error}"))?;
        if peer.uid.is_root() || peer.uid == rustix::process::geteuid() {
            return Ok(());
        }
        Err("another user has the database open, and answers nobody else".to_owned())
    }

    #[cfg(not(target_os = "linux"))]
    fn ensure_same_user(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut clients = self.sessions.clients.lock();
        clients
            .streams
            .retain(|stream| !Arc::ptr_eq(stream, &self.stream));
        clients.left = Instant::now();
        drop(clients);
        self.sessions.ended.notify_all();
    }
}

/// Is one of those that are counted until this is dropped, also by a panic.
pub(super) struct Counted {
    sessions: Arc<Sessions>,
    count: fn(&Sessions) -> &AtomicUsize,
    /// The number of them with this one.
    number: usize,
}

impl Counted {
    fn begin(sessions: &Arc<Sessions>, count: fn(&Sessions) -> &AtomicUsize) -> Self {
        let number = count(sessions).fetch_add(1, Ordering::SeqCst) + 1;
        Self {
            sessions: sessions.clone(),
            count,
            number,
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.sessions.is_here()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.sessions).fetch_sub(1, Ordering::AcqRel);
    }
}

/// The exit code of a request. A panic ends the request, and nothing else.
fn caught(run: impl FnOnce() -> Result<u8, String>) -> Result<u8, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err("the request met a defect of simdb and was ended; the process that has the database open says more on \
             its standard error"
            .to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_request_is_an_answer() {
        let answered = caught(|| panic!("mine"));
        assert!(answered.is_err_and(|reason| reason.contains("defect")));
        assert_eq!(caught(|| Ok(1)), Ok(1));
    }

    /// The longest line of the tests.
    const MOST_LINE_BYTES: usize = 64;

    fn connected() -> io::Result<(Arc<Sessions>, Caller, UnixStream)> {
        let (here, there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        let sessions = Sessions::new(Weak::new(), |_, _, _| Ok(0));
        let client = Caller::new(Arc::new(Kept::new(here)), sessions.clone(), Vec::new());
        Ok((sessions, client, there))
    }

    /// A request that had the turn to write kept its process from ending, for as long as it took.
    #[test]
    fn a_request_ends_when_its_process_is_to_end() -> io::Result<()> {
        let (sessions, client, _there) = connected()?;
        assert!(!client.is_ended());
        sessions.stop_when(|| true);
        assert!(client.is_ended());
        assert!(client.line(MOST_LINE_BYTES, None).is_err());
        Ok(())
    }

    /// Once standard input that did not come kept a process from ending.
    #[test]
    fn who_closes_the_socket_does_not_wait_long_for_a_client() -> io::Result<()> {
        // On a busy machine, one try may take longer.
        for _ in 0..5 {
            let (sessions, client, _there) = connected()?;
            sessions.drain(None);
            let begun = Instant::now();
            let waited = client.line(MOST_LINE_BYTES, None);
            assert!(waited.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
            if begun.elapsed() < PATIENCE {
                return Ok(());
            }
        }
        panic!("it took more than {PATIENCE:?} five times")
    }
}

#[cfg(all(test, feature = "cli"))]
mod closing_tests {
    use std::io::Write as _;

    use super::super::request::line_of;
    use super::*;
    use crate::database::CreateOptions;
    use crate::text::Scheme;

    type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

    fn database(folder: &Path) -> Result<Database> {
        let options = CreateOptions::new().scheme(Scheme::External);
        Database::create(folder.join("d.simdb"), &options)
    }

    /// What is said to a client that is let in, and asks for the file of a database behind what is done `before`.
    fn answer_to(
        database: &Database,
        file: (u64, u64),
        before: impl FnOnce(&Sessions) -> Result<()>,
    ) -> TestResult<String> {
        let (here, mut there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        let store = Arc::downgrade(&database.store);
        let sessions = Sessions::new(store, |_, _, _| panic!("it is begun"));
        sessions.file_of(&database.store)?;
        let session = sessions.enter(Kept::new(here));
        let session = session.map_err(|_| "nobody is let in")?;
        before(&sessions)?;
        let request = Request::new([].into_iter(), Path::new("/"), None, file, false);
        there.write_all(&line_of(&request))?;
        session.answer();
        drop(session);
        let mut answer = String::new();
        there.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Whoever was let in before the server closes, and asked only then, was told that his command was begun. Then it
    /// was ended.
    #[test]
    fn a_command_that_comes_when_the_server_closes_is_not_begun() -> TestResult {
        let folder = tempfile::tempdir()?;
        let database = database(folder.path())?;
        let file = identity_of(&database.store.metadata()?);
        let answer = answer_to(&database, file, |sessions| {
            sessions.drain(None);
            Ok(())
        })?;
        assert!(answer.contains(r#"{"begun":false}"#), "{answer}");
        assert!(answer.contains(CLOSES), "{answer}");
        Ok(())
    }

    /// It was told that the file was moved or replaced.
    #[test]
    fn a_command_that_meets_the_end_of_a_compaction_is_not_begun() -> TestResult {
        let folder = tempfile::tempdir()?;
        let database = database(folder.path())?;
        let file = identity_of(&database.store.metadata()?);
        let compact = |_: &Sessions| database.compact(|_, _| ControlFlow::Continue(()));
        let answer = answer_to(&database, file, compact)?;
        assert!(answer.contains(r#"{"begun":false}"#), "{answer}");
        let other = answer_to(&database, (file.0, u64::MAX), |_| Ok(()))?;
        assert!(other.contains("another database open"), "{other}");
        Ok(())
    }
}
