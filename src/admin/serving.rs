//! Answering one request: reading it, running its command, and the exit code at the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::peer::{LONGEST_UNREAD, Peer};
use super::room::{Guest, Room};
use crate::cli::{Answer, Console, Frame, LiveCommand, Request, Terminal, VERSION, identity_of};
use crate::database::Database;
use crate::store::Store;

/// Answers a request. Whatever it is, this process goes on.
pub(super) fn serve(guest: &Guest) {
    let peer = Arc::new(Peer::new(
        guest.stream.clone(),
        guest.room.clone(),
        LONGEST_UNREAD,
    ));
    if peer.send(&Frame::SimdbAdmin(VERSION)).is_err() {
        return;
    }
    let answer = caught(|| answer(&peer, guest)).unwrap_or_else(|reason| {
        peer.complain(&reason);
        Answer::CouldNotTell
    });
    _ = peer.send(&Frame::Exit(answer.code()));
}

/// What is answered. A panic ends the request, and nothing else.
fn caught(answer: impl FnOnce() -> Result<Answer, String>) -> Result<Answer, String> {
    let caught = catch_unwind(AssertUnwindSafe(answer));
    caught.unwrap_or_else(|_| {
        Err("the request met a defect of simdb and was ended; the process that has the database open says more on \
             its standard error"
            .to_owned())
    })
}

fn answer(peer: &Arc<Peer>, guest: &Guest) -> Result<Answer, String> {
    ensure_same_user(guest)?;
    let request = Request::parse(&peer.request()?)?;
    peer.set_has_input(request.input);
    let command = LiveCommand::of(request.arguments()?)?;
    let directory = request.directory()?;
    let directory = Path::new(&directory);
    if !directory.is_absolute() {
        return Err("the directory of the request is no absolute path".to_owned());
    }
    guest.room.answering(|| {
        let store = open_database(&guest.room, request.file)?;
        let console = Console::new(peer.clone(), Some(directory));
        Ok(command.run(&Database::of_store(store), &console))
    })
}

/// The open database, if it is the file that the client means.
fn open_database(room: &Room, file: (u64, u64)) -> Result<Arc<Store>, String> {
    /// A compaction puts another file in the place, and a moment later the database works on that one.
    const TRIES: usize = 20;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..TRIES {
        let store = room
            .store()
            .ok_or("the process has closed the database: run the command again")?;
        let metadata = store.metadata().map_err(|error| error.to_string())?;
        if identity_of(&metadata) == file {
            return Ok(store);
        }
        drop(store);
        thread::sleep(PAUSE);
    }
    Err("the process that listens has another database open: the file was moved or replaced meanwhile"
        .to_owned())
}

/// Refuses other users. The mode of the socket keeps them out too.
#[cfg(target_os = "linux")]
fn ensure_same_user(guest: &Guest) -> Result<(), String> {
    let peer = rustix::net::sockopt::socket_peercred(&*guest.stream);
    let peer = peer
        .map_err(|error| format!("the system does not tell who asks: {error}"))?
        .uid;
    if peer.is_root() || peer == rustix::process::geteuid() {
        return Ok(());
    }
    Err("another user has the database open, and answers nobody else".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn ensure_same_user(_: &Guest) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_request_is_an_answer() {
        let answered = caught(|| panic!("mine"));
        assert!(answered.is_err_and(|reason| reason.contains("defect")));
        assert_eq!(caught(|| Ok(Answer::No)), Ok(Answer::No));
    }
}
