//! Listening: one thread that lets requests in, each of which is answered in a thread of its own.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::peer::Peer;
use super::room::{MOST_GUESTS, Room};
use super::serving::serve;
use super::socket_file::SocketFile;
use crate::cli::{Answer, Frame, VERSION};
use crate::error::{Error, Result};
use crate::process::{Kept, OfProcess, give_up_inherited};
use crate::store::Store;

/// A socket on which a thread listens, until this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    room: Arc<Room>,
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
    pub(super) fn start(store: &Arc<Store>, path: &Path) -> Result<Self> {
        store.ensure_usable()?;
        let failed = |source: io::Error| Error::Io {
            path: path.to_owned(),
            source: source.into(),
        };
        let (listener, file) = SocketFile::bind(path)?;
        let listener = Kept::new(listener);
        listener.set_nonblocking(true).map_err(failed)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let (stop, stopped) = (Kept::new(stop), Kept::new(stopped));
        let room = Room::new(Arc::downgrade(store));
        let thread = thread::Builder::new().name("simdb-admin".to_owned());
        let thread = thread.spawn({
            let room = room.clone();
            move || listen(&listener, &stopped, &room)
        });
        let thread = Some(OfProcess::new(thread.map_err(Error::no_thread)?));
        let (path, file) = (file.path.clone(), Some(OfProcess::new(file)));
        Ok(Self {
            room,
            path,
            file,
            stop,
            thread,
        })
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.room.is_here() {
            // The socket and the thread belong to the process that this one was forked from. But a client that connects
            // would wait for ever if that process is gone and this one still listens.
            _ = give_up_inherited();
            return;
        }
        // Nobody finds it any more.
        self.file = None;
        // Closing it would not do, since a process that was forked from this one has it too.
        _ = self.stop.shutdown(Shutdown::Both);
        self.room.close(PATIENCE);
        if let Some(thread) = self.thread.take().and_then(OfProcess::take) {
            _ = thread.join();
        }
    }
}

/// Lets requests in until `stopped` is shut down at its other end.
fn listen(listener: &UnixListener, stopped: &UnixStream, room: &Arc<Room>) {
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
            Ok((stream, _)) => let_in(Kept::new(stream), room),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionAborted => {}
                _ => thread::sleep(PAUSE),
            },
        }
    }
}

fn let_in(stream: Kept<UnixStream>, room: &Arc<Room>) {
    // Nobody is waited for but where it is said how long.
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    let guest = match room.enter(stream) {
        Ok(guest) => guest,
        Err(stream) => {
            let reason =
                format!("answers {MOST_GUESTS} requests already; try again when one has ended");
            return refuse(&stream, &reason);
        }
    };
    let stream = guest.stream.clone();
    let thread = thread::Builder::new().name("simdb-request".to_owned());
    if let Err(error) = thread.spawn(move || serve(&guest)) {
        refuse(
            &stream,
            &format!("gets no thread for the request: {error}; try again later"),
        );
    }
}

/// Tells a client why it is not answered, without waiting for it.
fn refuse(stream: &UnixStream, reason: &str) {
    let reason = format!("the process that has the database open {reason}");
    let exit = Frame::Exit(Answer::CouldNotTell.code());
    Peer::send_to(
        stream,
        &[Frame::SimdbAdmin(VERSION), Frame::Message(reason), exit],
    );
}
