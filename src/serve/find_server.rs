//! How a client finds the process that serves its database, starts one if that is wanted, and learns whether it is
//! still there. Whoever waits here is ended when its options say so.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::call::plain_request;
use super::reply::{Info, refused};
use super::resp::{AnswerScan, Value};
use super::socket::{connect, identity_of, socket_beside, wait_for};
use crate::database::SharedFn;
use crate::error::{Error, Result};
use crate::process::Kept;

/// How often who waits looks whether it waits in vain.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// The time between two tries to connect.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// As good as no limit: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// How a [`Client`](crate::Client) finds who serves a database.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use simdb::{Client, ClientOptions, ErrorKind};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let options = ClientOptions::new().timeout(Duration::from_millis(10));
/// let refused = Client::connect(&path, &options).map(drop).map_err(|error| error.kind());
/// assert_eq!(refused, Err(ErrorKind::NotServed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub(super) timeout: Duration,
    start: Vec<OsString>,
    /// Says whether whoever waits is to stop.
    stop: Option<SharedFn<dyn Fn() -> bool + Send + Sync>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            start: Vec::new(),
            stop: None,
        }
    }
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long to wait for somebody who serves the database, at the beginning and after the connection was lost.
    /// Default: 5 seconds.
    ///
    /// An answer may take longer. But if nothing comes for so long, it is asked whether anybody is there. With
    /// `Duration::MAX` there is no limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        // No clock counts to the longest time there is.
        self.timeout = timeout.min(LONGEST);
        self
    }

    /// A command that serves the database, which is started if nobody does. The path of the database is added to it.
    /// Default: none.
    ///
    /// It is in a process group of its own, and goes on when this process has ended. `["simdb", "serve",
    /// "--until-idle", "60s"]` ends by itself. If several clients start one at once, one of them gets the database, and
    /// serves all.
    #[must_use]
    pub fn start(mut self, command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.start = command.into_iter().map(Into::into).collect();
        self
    }

    /// Ends a wait by [`Error::Interrupted`] as soon as `stop` says so: for somebody who serves, for an answer, or for
    /// room. It is asked several times a second, by the thread that waits. What was submitted goes on.
    ///
    /// So a program that is asked to end is not kept by one that does not answer. `stop` itself cannot wait for an
    /// answer: then it gets [`Error::WouldDeadlock`]. [`ClientTicket::wait_for`](crate::ClientTicket::wait_for) gives
    /// its ticket back instead: who waits in pieces looks by itself.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Some(SharedFn(Arc::new(stop)));
        self
    }

    pub(super) fn is_to_stop(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop())
    }
}

/// A connection, and what its other end serves.
type Connected = (Arc<Kept<UnixStream>>, Info);

/// Connects to whoever serves a database, and starts somebody if that is wanted.
pub(super) fn find_server(
    database: &Path,
    options: &ClientOptions,
    started: &mut Option<Started>,
) -> Result<Connected> {
    let end = Instant::now() + options.timeout;
    loop {
        match find_server_once(database, options, None, started, end) {
            Ok(found) => return Ok(found),
            Err(Unserved::Refused(error)) => return Err(error),
            Err(Unserved::ForNow(reason)) if Instant::now() >= end => {
                let path = database.to_owned();
                return Err(Error::NotServed { path, reason });
            }
            Err(Unserved::ForNow(_)) if !options.is_to_stop() => thread::sleep(PAUSE),
            Err(Unserved::ForNow(_) | Unserved::Interrupted) => return Err(Error::Interrupted),
        }
    }
}

pub(super) enum Unserved {
    /// It may be otherwise soon.
    ForNow(String),
    Refused(Error),
    /// Whoever waits is to stop.
    Interrupted,
}

impl From<String> for Unserved {
    fn from(reason: String) -> Self {
        Self::ForNow(reason)
    }
}

impl From<io::Error> for Unserved {
    fn from(error: io::Error) -> Self {
        Self::ForNow(format!("who serves it does not answer ({error})"))
    }
}

/// Tries once to connect, and starts somebody if nobody listens and that is wanted.
pub(super) fn find_server_once(
    database: &Path,
    options: &ClientOptions,
    known: Option<&Info>,
    started: &mut Option<Started>,
    end: Instant,
) -> Result<Connected, Unserved> {
    match connect_beside(database)? {
        Some((socket, stream)) => {
            let info = ask_for_info(&stream, options, end)?;
            greet(database, &socket, stream, info, known)
        }
        None if options.start.is_empty() => {
            let reason =
                "nobody serves it: run `simdb serve`, or open it with `OpenOptions::serve(true)`";
            Err(Unserved::ForNow(reason.to_owned()))
        }
        None => match Started::or_start(started, &options.start, database) {
            Ok(said) => Err(Unserved::ForNow(said)),
            Err(error) => {
                let program = Path::new(&options.start[0]);
                Err(Unserved::Refused(Error::io(program)(error)))
            }
        },
    }
}

/// Connects to the socket beside a database. `None` if nobody listens there.
fn connect_beside(database: &Path) -> Result<Option<(PathBuf, UnixStream)>, Unserved> {
    let socket = match socket_beside(database) {
        Ok(socket) => socket,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unserved::Refused(Error::io(database)(error))),
    };
    match connect(&socket) {
        Ok(stream) => Ok(Some((socket, stream))),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            io::ErrorKind::WouldBlock => Err(Unserved::ForNow("its socket has no room".to_owned())),
            _ => Err(Unserved::Refused(Error::io(&socket)(error))),
        },
    }
}

/// Sees to it that who listens serves the database.
fn greet(
    database: &Path,
    socket: &Path,
    stream: UnixStream,
    info: Info,
    known: Option<&Info>,
) -> Result<Connected, Unserved> {
    let there = std::fs::metadata(database).map(|metadata| identity_of(&metadata));
    if there.ok() != Some(info.file) {
        let reason =
            "who listens at its socket has another file open: it was moved or replaced meanwhile";
        return Err(Unserved::ForNow(reason.to_owned()));
    }
    // A compaction puts another file in the place. Everything else is as it was.
    let expected = known.map(|known| Info {
        file: info.file,
        ..known.clone()
    });
    if expected.is_some_and(|expected| expected != info) {
        let reason = "who serves it now has another database under its name: connect anew";
        return Err(Unserved::ForNow(reason.to_owned()));
    }
    match stream.set_nonblocking(true) {
        Ok(()) => Ok((Arc::new(Kept::new(stream)), info)),
        Err(error) => Err(Unserved::Refused(Error::io(socket)(error))),
    }
}

/// Asks who serves what it serves.
fn ask_for_info(
    stream: &UnixStream,
    options: &ClientOptions,
    end: Instant,
) -> Result<Info, Unserved> {
    let mut incoming = Vec::new();
    let mut scan = AnswerScan::default();
    ask(stream, "SIM.INFO", end)?;
    loop {
        receive(stream, &mut incoming, options, end)?;
        if let Some(length) = scan.find_end(&incoming)? {
            let value = Value::parse(&incoming[..length])?;
            let value = refused(value).map_err(|error| error.to_string())?;
            return Ok(Info::read(&value)?);
        }
    }
}

/// Asks over a second connection whether anybody is there.
pub(super) fn is_anybody_there(database: &Path, options: &ClientOptions) -> Result<(), Unserved> {
    let end = Instant::now() + options.timeout.max(PAUSE);
    let Some((_, stream)) = connect_beside(database)? else {
        return Err(Unserved::ForNow("nobody listens".to_owned()));
    };
    ask(&stream, "PING", end)?;
    receive(&stream, &mut Vec::new(), options, end)
}

fn ask(mut stream: &UnixStream, what: &str, end: Instant) -> Result<(), Unserved> {
    let left = end.saturating_duration_since(Instant::now()).max(PAUSE);
    stream.set_write_timeout(Some(left))?;
    Ok(stream.write_all(&plain_request(what, None))?)
}

/// Waits for bytes until the end, and looks now and then whether to go on.
fn receive(
    mut stream: &UnixStream,
    incoming: &mut Vec<u8>,
    options: &ClientOptions,
    end: Instant,
) -> Result<(), Unserved> {
    let mut buffer = [0; 4 << 10];
    while wait_for(stream, PollFlags::IN, Some(LOOK))?.is_empty() {
        if options.is_to_stop() {
            return Err(Unserved::Interrupted);
        }
        if Instant::now() >= end {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
    }
    match stream.read(&mut buffer)? {
        0 => Err("who serves it ended the connection".to_owned().into()),
        read => {
            incoming.extend_from_slice(&buffer[..read]);
            Ok(())
        }
    }
}

/// How much is read of what a process has said before it ended.
const MOST_SAID_BYTES: u64 = 4 << 10;

/// A process that was started, and what it says on its standard error.
pub(super) struct Started {
    has_ended: Arc<AtomicBool>,
    said: File,
    /// What the one before it had said when it ended.
    said_before: String,
}

impl Started {
    /// Starts the command for a database, unless what was started before goes on. Says why nobody serves yet.
    ///
    /// One that ends at once is started again and again, so the reason is what any of them said last.
    fn or_start(
        started: &mut Option<Self>,
        command: &[OsString],
        database: &Path,
    ) -> io::Result<String> {
        let mut said_before = String::new();
        if let Some(before) = started {
            if !before.has_ended.load(Ordering::Acquire) {
                return Ok(before.reason());
            }
            said_before = before.said()?;
        }
        let started = started.insert(Self::start(command, database, said_before)?);
        Ok(started.reason())
    }

    fn reason(&self) -> String {
        match self.said_before.trim_end() {
            "" => "the process that was started does not serve it yet".to_owned(),
            said => format!("the process that was started said: {said}"),
        }
    }

    fn start(command: &[OsString], database: &Path, said_before: String) -> io::Result<Self> {
        let mut words = command.iter();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let said = tempfile::tempfile()?;
        let mut command = Command::new(program);
        command
            .args(words)
            .arg(database)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            // It serves others too, whom a Ctrl-C at this terminal does not concern.
            .process_group(0);
        inherit_nothing_else(&mut command);
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        // It may go on when the client is gone. Until somebody has waited for its end, it stays in the list of
        // processes.
        let (sender, child) = mpsc::channel::<Child>();
        let waiting = thread::Builder::new().name("simdb-started".to_owned());
        waiting.spawn(move || {
            _ = child.recv().map(|mut child| child.wait());
            ended.store(true, Ordering::Release);
        })?;
        _ = sender.send(command.spawn()?);
        Ok(Self {
            has_ended,
            said,
            said_before,
        })
    }

    fn said(&mut self) -> io::Result<String> {
        let mut said = Vec::new();
        self.said.rewind()?;
        (&self.said).take(MOST_SAID_BYTES).read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Sees to it that a process gets no descriptor of this one but the first three. Whoever waits for the end of a pipe of
/// this process would wait for that of the other.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a child closes descriptors before it is the program"
)]
fn inherit_nothing_else(command: &mut Command) {
    let close = || {
        // SAFETY: it marks descriptors of the child, which end with this process image, as all of std do. A system that
        // does not know the call does nothing.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        Ok(())
    };
    // SAFETY: it makes one call to the system, which a forked process may do.
    unsafe { command.pre_exec(close) };
}

#[cfg(not(target_os = "linux"))]
fn inherit_nothing_else(_: &mut Command) {}
