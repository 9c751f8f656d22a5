//! The other end of a request: what it sends, what it is told, and whether it is still there.

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
/// How often a client is told how far its work is.
const SHOWN_EVERY: Duration = Duration::from_millis(100);
/// The longest line that announces a piece of standard input.
const MOST_LINE_BYTES: usize = 64;

/// A client that is connected.
pub(super) struct Peer {
    stream: Arc<Kept<UnixStream>>,
    room: Arc<Room>,
    /// What was read and not used yet.
    incoming: Mutex<Vec<u8>>,
    /// Held while a line is sent.
    sending: Mutex<()>,
    has_gone: AtomicBool,
    shown: Mutex<Option<Instant>>,
    has_input: AtomicBool,
}

impl Peer {
    pub(super) fn new(stream: Arc<Kept<UnixStream>>, room: Arc<Room>) -> Self {
        Self {
            stream,
            room,
            incoming: Mutex::default(),
            sending: Mutex::default(),
            has_gone: AtomicBool::new(false),
            shown: Mutex::default(),
            has_input: AtomicBool::new(false),
        }
    }

    /// Reads the line of the request, or says why there is none.
    pub(super) fn request(&self) -> Result<Vec<u8>, String> {
        let unread = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("no whole request came within {} seconds", PATIENCE.as_secs())
            }
            io::ErrorKind::InvalidData => {
                format!("the request is longer than {MOST_REQUEST_BYTES} bytes")
            }
            _ => format!("the request cannot be read: {error}"),
        };
        let line = self.line(MOST_REQUEST_BYTES, Some(Instant::now() + PATIENCE)).map_err(unread)?;
        // Standard input has all the time it wants.
        self.stream.set_read_timeout(None).map_err(unread)?;
        Ok(line)
    }

    /// Whether standard input follows the request.
    pub(super) fn set_has_input(&self, has_input: bool) {
        self.has_input.store(has_input, Ordering::Release);
    }

    /// Reads a line. It is returned without its end.
    fn line(&self, most_bytes: usize, end: Option<Instant>) -> io::Result<Vec<u8>> {
        let mut incoming = self.incoming.lock();
        let mut searched = 0;
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
            if let Some(end) = end {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.stream.set_read_timeout(Some(left))?;
            }
            let mut buffer = [0; 8 << 10];
            let read = self.receive(&mut buffer)?;
            incoming.extend_from_slice(&buffer[..read]);
        }
    }

    /// Reads some bytes, at least one.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&**self.stream).read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Sends a line. If that fails, the client has gone.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let _sending = self.sending.lock();
        if self.has_gone.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Self::send_to(&self.stream, frame).inspect_err(|_| self.has_gone.store(true, Ordering::Release))
    }

    pub(super) fn send_to(stream: &UnixStream, frame: &Frame) -> io::Result<()> {
        let line = line_of(frame);
        let mut rest = &line[..];
        while !rest.is_empty() {
            match send_some(stream, rest) {
                Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        Ok(())
    }
}

/// Sends some bytes. A client that has gone must not end this process by a signal, whatever the process does with
/// signals.
#[cfg(target_os = "linux")]
fn send_some(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL)?)
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
            let mut pieces =
                (1..=rest.len().min(PIECE_BYTES)).rev().filter_map(|end| rest.split_at_checked(end));
            let (piece, others) = pieces.next().unwrap_or((rest, ""));
            self.send(&Frame::Out(piece.to_owned()))?;
            rest = others;
        }
        Ok(())
    }

    fn confirm(&self) -> io::Result<()> {
        self.send(&Frame::Confirm(true))?;
        // A client that is stopped must not keep others from writing.
        let line = self.line(MOST_LINE_BYTES, Some(Instant::now() + PATIENCE));
        self.stream.set_read_timeout(None)?;
        let Written { written } = serde_json::from_slice(&line?)?;
        if written { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn complain(&self, message: &str) {
        _ = self.send(&Frame::Message(message.to_owned()));
    }

    fn show(&self, step: &Step<'_>) {
        let mut shown = self.shown.lock();
        if shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY) {
            *shown = Some(Instant::now());
            _ = self.send(&Frame::Progress(Some((step.done, step.all, step.what.clone().into_owned()))));
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
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut poll_it, Some(&now));
        let is_there = polled.is_err() || !poll_it[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        if !is_there {
            self.has_gone.store(true, Ordering::Release);
        }
        !is_there
    }

    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>> {
        let ended = !self.has_input.load(Ordering::Acquire);
        Some(Box::new(Input { peer: self, left: 0, ended }))
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
            let line = self.peer.line(MOST_LINE_BYTES, None)?;
            let piece: Piece = serde_json::from_slice(&line)?;
            if piece.input > PIECE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a piece of it is too long"));
            }
            (self.left, self.ended) = (piece.input, piece.input == 0);
        }
        let most = self.left.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let mut incoming = self.peer.incoming.lock();
        let read = if incoming.is_empty() {
            self.peer.receive(&mut buffer[..most])?
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
