//! The other end of a request: what it sends, what it is told, and whether it is still there.
//!
//! Nobody is waited for longer than a while, and nobody at all from where others may wait: progress is shown with locks
//! held, so it is sent without waiting or not at all.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::room::Room;
use crate::cli::{Frame, MOST_REQUEST_BYTES, PIECE_BYTES, Piece, Step, Terminal, Written, line_of};
use crate::process::Kept;

/// How long a client has to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may read nothing of what it is sent, or not say that it has written it.
pub(super) const LONGEST_UNREAD: Duration = Duration::from_secs(30);
/// How long a client is waited for that keeps the socket from being closed.
const LONGEST_AT_END: Duration = Duration::from_secs(2);
/// How often it is looked whether a client is to be waited for any longer.
const LOOK: Duration = Duration::from_millis(50);
/// How often a client is told how far its work is.
const SHOWN_EVERY: Duration = Duration::from_millis(100);
/// The longest line that announces a piece of standard input.
const MOST_LINE_BYTES: usize = 64;

/// A client that is connected.
pub(super) struct Peer {
    /// Reading and writing do not wait. Who waits does so in [`wait`](Self::wait).
    stream: Arc<Kept<UnixStream>>,
    room: Arc<Room>,
    /// What was read and not used yet.
    incoming: Mutex<Vec<u8>>,
    /// The rest of a line that is being sent. At most one line waits.
    outgoing: Mutex<Vec<u8>>,
    has_gone: AtomicBool,
    shown: Mutex<Option<Instant>>,
    has_input: AtomicBool,
    /// How long the client may read nothing.
    longest_unread: Duration,
}

impl Peer {
    /// A client, whose stream does not wait.
    pub(super) fn new(
        stream: Arc<Kept<UnixStream>>,
        room: Arc<Room>,
        longest_unread: Duration,
    ) -> Self {
        Self {
            stream,
            room,
            incoming: Mutex::default(),
            outgoing: Mutex::default(),
            has_gone: AtomicBool::new(false),
            shown: Mutex::default(),
            has_input: AtomicBool::new(false),
            longest_unread,
        }
    }

    /// Reads the line of the request, or says why there is none.
    pub(super) fn request(&self) -> Result<Vec<u8>, String> {
        self.line(MOST_REQUEST_BYTES, Some(PATIENCE))
            .map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => {
                    format!(
                        "no whole request came within {} seconds",
                        PATIENCE.as_secs()
                    )
                }
                io::ErrorKind::InvalidData => {
                    format!("the request is longer than {MOST_REQUEST_BYTES} bytes")
                }
                _ => format!("the request cannot be read: {error}"),
            })
    }

    /// Whether standard input follows the request.
    pub(super) fn set_has_input(&self, has_input: bool) {
        self.has_input.store(has_input, Ordering::Release);
    }

    /// Reads a line, which has to be whole within `most`. It is returned without its end.
    fn line(&self, most_bytes: usize, most: Option<Duration>) -> io::Result<Vec<u8>> {
        let mut incoming = self.incoming.lock();
        let (begun, mut searched) = (Instant::now(), 0);
        loop {
            if let Some(at) = memchr::memchr(b'\n', &incoming[searched..]) {
                let rest = incoming.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut *incoming, rest);
                line.pop();
                return Ok(line);
            }
            searched = incoming.len();
            if searched > most_bytes {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut buffer = [0; 8 << 10];
            let read = self.receive(&mut buffer, begun, most)?;
            incoming.extend_from_slice(&buffer[..read]);
        }
    }

    /// Reads some bytes, at least one. They have to come within `most`.
    fn receive(
        &self,
        buffer: &mut [u8],
        begun: Instant,
        most: Option<Duration>,
    ) -> io::Result<usize> {
        loop {
            match (&**self.stream).read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, begun, most)?;
                }
                read => return read,
            }
        }
    }

    /// Waits until the stream can be read or written, or the client has gone. An error if that takes longer than
    /// `most`, or if nobody is to wait any more.
    fn wait(&self, what: PollFlags, begun: Instant, most: Option<Duration>) -> io::Result<()> {
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.as_nanos() as i64,
        };
        let mut at_end = None;
        while !self.room.is_closing() {
            let mut polled = [PollFd::new(&self.stream, what)];
            match poll(&mut polled, Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if most.is_some_and(|most| begun.elapsed() >= most) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.room.is_full() {
                let at_end: Instant = *at_end.get_or_insert_with(Instant::now);
                if at_end.elapsed() >= LONGEST_AT_END {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }

    /// Sends a line, when the client has read what came before. If that fails, the client has gone, or counts as gone.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut outgoing = self.outgoing.lock();
        self.push(&mut outgoing, true)?;
        *outgoing = line_of(frame);
        self.push(&mut outgoing, true)
    }

    /// Sends a line, if that is possible without waiting.
    fn send_now(&self, frame: &Frame) {
        let Some(mut outgoing) = self.outgoing.try_lock() else {
            return;
        };
        if self.push(&mut outgoing, false).is_ok() && outgoing.is_empty() {
            *outgoing = line_of(frame);
            _ = self.push(&mut outgoing, false);
        }
    }

    /// Sends what is waiting, or as much as is possible without waiting.
    fn push(&self, outgoing: &mut Vec<u8>, waits: bool) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let mut begun = Instant::now();
        while !outgoing.is_empty() {
            if self.has_gone.load(Ordering::Acquire) {
                return Err(gone());
            }
            let sent = match send_some(&self.stream, outgoing) {
                Ok(sent @ 1..) => {
                    outgoing.drain(..sent);
                    begun = Instant::now();
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !waits => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, begun, Some(self.longest_unread))
                }
                _ => Err(gone()),
            };
            sent.map_err(|_| {
                self.has_gone.store(true, Ordering::Release);
                gone()
            })?;
        }
        Ok(())
    }

    /// Sends lines to a stream that does not wait, as many as it takes.
    pub(super) fn send_to(stream: &UnixStream, frames: &[Frame]) {
        let lines: Vec<u8> = frames.iter().flat_map(line_of).collect();
        _ = send_some(stream, &lines);
    }
}

/// Sends some bytes. A client that has gone must not end this process by a signal, whatever the process does with
/// signals.
#[cfg(target_os = "linux")]
fn send_some(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(
        stream,
        bytes,
        rustix::net::SendFlags::NOSIGNAL,
    )?)
}

#[cfg(not(target_os = "linux"))]
fn send_some(mut stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    io::Write::write(&mut stream, bytes)
}

impl Terminal for Peer {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        let mut rest = &*text;
        while !rest.is_empty() {
            // A character is shorter than a piece, so there is such an end.
            let mut pieces = (1..=rest.len().min(PIECE_BYTES))
                .rev()
                .filter_map(|end| rest.split_at_checked(end));
            let (piece, others) = pieces.next().unwrap_or((rest, ""));
            self.send(&Frame::Out(piece.to_owned()))?;
            rest = others;
        }
        Ok(())
    }

    fn confirm(&self) -> io::Result<()> {
        self.send(&Frame::Confirm(true))?;
        let line = self.line(MOST_LINE_BYTES, Some(self.longest_unread))?;
        let Written { written } = serde_json::from_slice(&line)?;
        if written {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn complain(&self, message: &str) {
        _ = self.send(&Frame::Message(message.to_owned()));
    }

    fn show(&self, step: &Step<'_>) {
        let mut shown = self.shown.lock();
        if shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY) {
            *shown = Some(Instant::now());
            self.send_now(&Frame::Progress(Some((
                step.done,
                step.all,
                step.what.clone().into_owned(),
            ))));
        }
    }

    fn hide(&self) {
        if self.shown.lock().take().is_some() {
            _ = self.send(&Frame::Progress(None));
        }
    }

    fn is_ended(&self) -> bool {
        if self.has_gone.load(Ordering::Acquire) || self.room.is_closing() {
            return true;
        }
        let mut poll_it = [PollFd::new(&self.stream, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let polled = poll(&mut poll_it, Some(&now));
        let is_there = polled.is_err()
            || !poll_it[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR);
        if !is_there {
            self.has_gone.store(true, Ordering::Release);
        }
        !is_there
    }

    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>> {
        let ended = !self.has_input.load(Ordering::Acquire);
        Some(Box::new(Input {
            peer: self,
            left: 0,
            ended,
        }))
    }
}

/// The standard input of a client. It comes in pieces.
struct Input {
    peer: Arc<Peer>,
    /// The bytes of the piece that are not read yet.
    left: usize,
    ended: bool,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            // Standard input has all the time it wants.
            let line = self.peer.line(MOST_LINE_BYTES, None)?;
            let piece: Piece = serde_json::from_slice(&line)?;
            if piece.input > PIECE_BYTES {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a piece of it is too long",
                ));
            }
            (self.left, self.ended) = (piece.input, piece.input == 0);
        }
        let most = self.left.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let mut incoming = self.peer.incoming.lock();
        let read = if incoming.is_empty() {
            self.peer
                .receive(&mut buffer[..most], Instant::now(), None)?
        } else {
            let ready = most.min(incoming.len());
            buffer[..ready].copy_from_slice(&incoming[..ready]);
            incoming.drain(..ready);
            ready
        };
        self.left -= read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::sync::Weak;
    use std::thread;

    use super::*;
    use crate::ingest::Stop;

    const SHORT: Duration = Duration::from_millis(300);

    fn pair() -> io::Result<(Peer, UnixStream)> {
        let (here, there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        Ok((
            Peer::new(Arc::new(Kept::new(here)), Room::new(Weak::new()), SHORT),
            there,
        ))
    }

    fn fill(peer: &Peer) -> io::Error {
        loop {
            if let Err(error) = peer.write(&[b'x'; 1 << 16]) {
                return error;
            }
        }
    }

    /// Once a client that did not read was waited for without end, and with it everybody who waited for the request.
    #[test]
    fn a_client_that_does_not_read_counts_as_gone_after_a_while() -> io::Result<()> {
        let (peer, _there) = pair()?;
        let begun = Instant::now();
        assert_eq!(fill(&peer).kind(), io::ErrorKind::BrokenPipe);
        assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
        assert!(peer.is_ended());
        Ok(())
    }

    #[test]
    fn a_client_that_reads_slowly_is_waited_for() -> io::Result<()> {
        let (peer, there) = pair()?;
        let reader = thread::spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 16, there);
            let mut bytes = 0;
            loop {
                thread::sleep(SHORT / 10);
                match lines.read_until(b'\n', &mut Vec::new()) {
                    Ok(read @ 1..) => bytes += read,
                    _ => return bytes,
                }
            }
        });
        for _ in 0..30 {
            peer.write(&[b'x'; 1 << 16])?;
        }
        drop(peer);
        assert!(reader.join().is_ok_and(|bytes| bytes > 30 << 16));
        Ok(())
    }

    /// Progress is shown while the turn to write is held.
    #[test]
    fn progress_is_dropped_rather_than_waited_for_and_leaves_lines_whole() -> io::Result<()> {
        let (peer, there) = pair()?;
        let begun = Instant::now();
        let mut sent = 0u64;
        while begun.elapsed() < SHORT / 2 {
            sent += 1;
            peer.send_now(&Frame::Progress(Some((sent, None, "steps".repeat(100)))));
        }
        assert!(
            !peer.is_ended() && begun.elapsed() < SHORT,
            "{:?}",
            begun.elapsed()
        );
        let reader = thread::spawn(move || {
            let lines = BufReader::new(there)
                .lines()
                .collect::<io::Result<Vec<String>>>()?;
            lines
                .iter()
                .map(|line| Ok(serde_json::from_str(line)?))
                .collect::<io::Result<Vec<Frame>>>()
        });
        peer.send(&Frame::Exit(0))?;
        drop(peer);
        let frames = reader.join().map_err(|_| io::ErrorKind::Other)??;
        assert_eq!(frames.last(), Some(&Frame::Exit(0)));
        assert!(
            (frames.len() as u64) < sent,
            "all {sent} went into the buffer of the socket"
        );
        Ok(())
    }

    /// A request that had the turn to write kept its process from ending, for as long as it took.
    #[test]
    fn a_request_ends_when_its_process_is_to_end() -> io::Result<()> {
        let (peer, _there) = pair()?;
        assert!(!peer.is_ended());
        peer.room.stop_when(Stop::when(|| true));
        assert!(peer.is_ended());
        assert!(peer.line(MOST_LINE_BYTES, None).is_err());
        Ok(())
    }

    /// Once standard input that did not come kept a process from ending.
    #[test]
    fn who_closes_the_socket_does_not_wait_long_for_a_client() -> io::Result<()> {
        let (peer, _there) = pair()?;
        peer.room.wait_until_answered();
        let begun = Instant::now();
        let waited = peer.line(MOST_LINE_BYTES, None);
        assert!(waited.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        assert!(
            begun.elapsed() < 2 * LONGEST_AT_END,
            "{:?}",
            begun.elapsed()
        );
        Ok(())
    }
}
