//! Listening: one thread that lets requests in, each of which is answered in a thread of its own.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::client::Client;
use super::protocol::{COULD_NOT_TELL, Frame, VERSION};
use super::sessions::{MOST_SESSIONS, RunCommand, Sessions};
use super::socket::SocketFile;
use crate::error::{Error, Result};
use crate::process::{Kept, OfProcess, give_up_inherited};
use crate::store::Store;

/// A socket on which a thread listens, until this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    sessions: Arc<Sessions>,
    path: PathBuf,
    /// `None` after the end. A process that is forked from the one that listens has no such thread.
    file: Option<OfProcess<SocketFile>>,
    /// The thread ends when this is shut down.
    stop: Kept<UnixStream>,
    thread: Option<OfProcess<JoinHandle<()>>>,
}

/// How long requests have to end when the socket is closed.
const PATIENCE: Duration = Duration::from_secs(5);

impl Listening {
    /// Listens at a path, and answers by `run`.
    pub(super) fn start(store: &Arc<Store>, path: &Path, run: RunCommand) -> Result<Self> {
        store.ensure_usable()?;
        let (listener, file) = SocketFile::bind(path)?;
        let listener = Kept::new(listener);
        listener.set_nonblocking(true).map_err(Error::io(path))?;
        let (stop, stopped) = UnixStream::pair().map_err(Error::io(path))?;
        let stop = Kept::new(stop);
        let stopped = Kept::new(stopped);
        let sessions = Sessions::new(Arc::downgrade(store), run);
        let thread = thread::Builder::new().name("simdb-admin".to_owned());
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether any request is being answered.
    pub(super) fn is_answering(&self) -> bool {
        self.sessions.is_answering()
    }

    /// Ends all requests as soon as `stop` says so. The first one stays.
    pub(super) fn stop_when(&self, stop: impl Fn() -> bool + Send + Sync + 'static) {
        self.sessions.stop_when(stop);
    }

    /// Lets nobody else in, and waits until nothing is being answered, or all is to end.
    pub(super) fn drain(&self) {
        self.sessions.drain();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.sessions.is_here() {
            // The socket and the thread belong to the process that this one was forked from. But a client that connects
            // would wait for ever if that process is gone and this one still listens.
            _ = give_up_inherited();
            return;
        }
        // Nobody finds it any more.
        self.file = None;
        // Closing it would not do, since a process that was forked from this one has it too.
        _ = self.stop.shutdown(Shutdown::Both);
        self.sessions.close(PATIENCE);
        if let Some(thread) = self.thread.take().and_then(OfProcess::take) {
            _ = thread.join();
        }
    }
}

/// Lets requests in until `stopped` is shut down at its other end.
fn listen(listener: &UnixListener, stopped: &UnixStream, sessions: &Arc<Sessions>) {
    /// So long nobody is let in after the system had no handle for another.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let mut waiting = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN | PollFlags::HUP),
        ];
        let polled = poll(&mut waiting, None);
        if !waiting[1].revents().is_empty() {
            return;
        }
        match polled
            .map_err(io::Error::from)
            .and_then(|_| listener.accept())
        {
            Ok((stream, _)) => let_in(Kept::new(stream), sessions),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionAborted => {}
                _ => thread::sleep(PAUSE),
            },
        }
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
            let reason =
                format!("answers {MOST_SESSIONS} requests already; try again when one has ended");
            return refuse(&stream, &reason);
        }
    };
    let stream = session.stream.clone();
    let thread = thread::Builder::new().name("simdb-request".to_owned());
    if let Err(error) = thread.spawn(move || session.answer()) {
        let reason = format!("gets no thread for the request: {error}; try again later");
        refuse(&stream, &reason);
    }
}

/// Tells a client why it is not answered, without waiting for it.
fn refuse(stream: &UnixStream, reason: &str) {
    let reason = format!("the process that has the database open {reason}");
    let exit = Frame::Exit(COULD_NOT_TELL);
    Client::send_to(
        stream,
        &[Frame::SimdbAdmin(VERSION), Frame::Message(reason), exit],
    );
}
