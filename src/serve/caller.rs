//! The other end of a request: what it sends, what it is told, and whether it is still there.
//!
//! Nobody is waited for longer than a while. Progress is shown with locks held, so it is sent without waiting or not at
//! all.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::request::{Frame, MOST_REQUEST_BYTES, line_of};
use super::server::Sessions;
use super::socket::wait_for;
use crate::process::Kept;
use crate::sync::Mutex;

/// How long a client has to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may read nothing of what it is sent, or not say that it has written it.
pub(crate) const LONGEST_UNREAD: Duration = Duration::from_secs(30);
/// How long a client is waited for that keeps the socket from being closed.
const LONGEST_AT_END: Duration = Duration::from_secs(2);
/// How often it is looked whether a client is to be waited for any longer.
const LOOK: Duration = Duration::from_millis(50);

/// A client that is connected, and asks for a command of the program.
pub(crate) struct Caller {
    /// Reading and writing do not wait. Who waits does so in [`wait`](Self::wait).
    stream: Arc<Kept<UnixStream>>,
    sessions: Arc<Sessions>,
    /// What was read and not used yet.
    incoming: Mutex<Vec<u8>>,
    /// The rest of a line that is being sent. At most one line waits.
    outgoing: Mutex<Vec<u8>>,
    has_gone: AtomicBool,
    /// How long the client may read nothing.
    longest_unread: Duration,
}

impl Caller {
    /// A client, whose stream does not wait, and what was read of it already.
    pub(super) fn new(
        stream: Arc<Kept<UnixStream>>,
        sessions: Arc<Sessions>,
        incoming: Vec<u8>,
    ) -> Self {
        Self {
            stream,
            sessions,
            incoming: Mutex::new(incoming),
            outgoing: Mutex::default(),
            has_gone: AtomicBool::new(false),
            longest_unread: LONGEST_UNREAD,
        }
    }

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

    /// Reads a line, which has to be whole within `most`. It is returned without its end.
    pub(crate) fn line(&self, most_bytes: usize, most: Option<Duration>) -> io::Result<Vec<u8>> {
        let mut incoming = self.incoming.lock();
        let begun = Instant::now();
        let mut searched = 0;
        loop {
            let mut unsearched = incoming[searched..].iter();
            if let Some(at) = unsearched.position(|&byte| byte == b'\n') {
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
        let mut at_end = None;
        while !self.sessions.is_closing() {
            if !wait_for(&self.stream, what, Some(LOOK))?.is_empty() {
                return Ok(());
            }
            if most.is_some_and(|most| begun.elapsed() >= most) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.sessions.is_draining() {
                let at_end: Instant = *at_end.get_or_insert_with(Instant::now);
                if at_end.elapsed() >= LONGEST_AT_END {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }

    /// Sends a line, when the client has read what came before. If that fails, the client has gone, or counts as gone.
    pub(crate) fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut outgoing = self.outgoing.lock();
        self.push(&mut outgoing, true)?;
        *outgoing = line_of(frame);
        self.push(&mut outgoing, true)
    }

    /// Sends what is waiting, or as much as is possible without waiting.
    fn push(&self, outgoing: &mut Vec<u8>, waits: bool) -> io::Result<()> {
        let mut begun = Instant::now();
        while !outgoing.is_empty() {
            if self.has_gone.load(Ordering::Acquire) {
                return Err(io::ErrorKind::BrokenPipe.into());
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
                _ => Err(io::ErrorKind::BrokenPipe.into()),
            };
            if sent.is_err() {
                self.has_gone.store(true, Ordering::Release);
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    /// Sends lines to a stream that does not wait, as many as it takes.
    pub(super) fn send_to(stream: &UnixStream, frames: &[Frame]) {
        let lines: Vec<u8> = frames.iter().flat_map(line_of).collect();
        _ = send_some(stream, &lines);
    }
}

/// What commands need besides.
#[cfg(feature = "cli")]
impl Caller {
    /// Sends a line, if that is possible without waiting.
    pub(crate) fn send_now(&self, frame: &Frame) {
        let Some(mut outgoing) = self.outgoing.try_lock() else {
            return;
        };
        if self.push(&mut outgoing, false).is_ok() && outgoing.is_empty() {
            *outgoing = line_of(frame);
            _ = self.push(&mut outgoing, false);
        }
    }

    /// How long the client may read nothing, or not say that it has written what it was sent.
    pub(crate) fn longest_unread(&self) -> Duration {
        self.longest_unread
    }

    /// Whether the client has sent something, perhaps that it sends no more. It is not read by this.
    pub(crate) fn has_sent(&self) -> bool {
        let sent = wait_for(&self.stream, PollFlags::IN, Some(Duration::ZERO));
        sent.is_ok_and(|events| events.contains(PollFlags::IN))
    }

    /// Reads some bytes, at least one, however long they take.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.incoming.lock();
        if incoming.is_empty() {
            return self.receive(buffer, Instant::now(), None);
        }
        let ready = buffer.len().min(incoming.len());
        buffer[..ready].copy_from_slice(&incoming[..ready]);
        incoming.drain(..ready);
        Ok(ready)
    }

    /// Whether the client has gone, or its request is to end.
    pub(crate) fn is_ended(&self) -> bool {
        if self.has_gone.load(Ordering::Acquire) || self.sessions.is_closing() {
            return true;
        }
        let answered = wait_for(&self.stream, PollFlags::empty(), Some(Duration::ZERO));
        let ends = PollFlags::HUP | PollFlags::ERR;
        let has_gone = answered.is_ok_and(|events| events.intersects(ends));
        if has_gone {
            self.has_gone.store(true, Ordering::Release);
        }
        has_gone
    }
}

/// What is read from a stream at a time.
const READ_BYTES: usize = 64 << 10;

/// Reads what a stream has, behind the bytes that came before, which need not be zeroed for that, until there are
/// `most`. Whether there may be more. An error if the other end sends nothing more.
pub(super) fn receive_some(
    stream: &UnixStream,
    incoming: &mut Vec<u8>,
    most: usize,
) -> io::Result<bool> {
    loop {
        incoming.reserve(READ_BYTES);
        let room = incoming.capacity() - incoming.len();
        match rustix::io::read(stream, rustix::buffer::spare_capacity(incoming)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) if read == room && incoming.len() < most => {}
            Ok(read) => return Ok(read == room),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
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

/// So much memory (bytes) is kept for what is to be sent next.
const MOST_KEPT: usize = 1 << 20;

/// Sends what is behind the first `sent` bytes, as much as is possible without waiting. Whether any was sent. An error
/// if the other end has gone.
///
/// What was sent is taken away once it is half of all. So no byte is moved more often than once, however little is sent
/// at a time.
pub(super) fn send_more(
    stream: &UnixStream,
    bytes: &mut Vec<u8>,
    sent: &mut usize,
) -> io::Result<bool> {
    let before = *sent;
    while *sent < bytes.len() {
        match send_some(stream, &bytes[*sent..]) {
            Ok(more @ 1..) => *sent += more,
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let any = *sent > before;
    if *sent >= bytes.len() - *sent {
        bytes.drain(..*sent);
        *sent = 0;
    }
    // What was much is not remembered for ever.
    if bytes.is_empty() && bytes.capacity() > MOST_KEPT {
        *bytes = Vec::new();
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::sync::Weak;
    use std::thread;

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    fn pair() -> io::Result<(Caller, UnixStream)> {
        let (here, there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        let sessions = Sessions::new(Weak::new(), |_, _, _| Ok(0));
        let mut client = Caller::new(Arc::new(Kept::new(here)), sessions, Vec::new());
        client.longest_unread = SHORT;
        Ok((client, there))
    }

    fn write(client: &Caller) -> io::Result<()> {
        client.send(&Frame::Out("x".repeat(1 << 16)))
    }

    fn fill(client: &Caller) -> io::Error {
        loop {
            if let Err(error) = write(client) {
                return error;
            }
        }
    }

    /// All that was left was moved each time that some was sent. So 64 MiB took 12 seconds through a socket that holds
    /// 8 KB.
    #[test]
    fn much_is_sent_in_a_time_that_grows_with_its_length() -> io::Result<()> {
        const BYTES: usize = 64 << 20;
        let (here, mut there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&here, 4 << 10)?;
        let mut bytes = vec![0; BYTES];
        bytes[BYTES / 2..].fill(7);
        let mut received = Vec::with_capacity(BYTES);
        let mut buffer = vec![0; 64 << 10];
        let (mut sent, mut rounds) = (0, 0);
        let begun = Instant::now();
        while received.len() < BYTES {
            send_more(&here, &mut bytes, &mut sent)?;
            let read = there.read(&mut buffer)?;
            received.extend_from_slice(&buffer[..read]);
            rounds += 1;
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?} for {rounds} times");
        assert!(bytes.is_empty() && sent == 0 && rounds > 100);
        assert!(received[..BYTES / 2].iter().all(|&byte| byte == 0));
        assert!(received[BYTES / 2..].iter().all(|&byte| byte == 7));
        Ok(())
    }

    /// Once a client that did not read was waited for without end, and with it everybody who waited for the request.
    #[test]
    fn a_client_that_does_not_read_counts_as_gone_after_a_while() -> io::Result<()> {
        let (client, _there) = pair()?;
        let begun = Instant::now();
        assert_eq!(fill(&client).kind(), io::ErrorKind::BrokenPipe);
        assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
        assert!(client.is_ended());
        Ok(())
    }

    /// Writes to a client that reads in more time than it may leave alone, with a pause between two lines. Whether all
    /// was written.
    fn is_waited_for(longest_unread: Duration) -> io::Result<bool> {
        let (mut client, there) = pair()?;
        client.longest_unread = longest_unread;
        let reader = thread::spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 16, there);
            let mut bytes = 0;
            loop {
                thread::sleep(longest_unread / 10);
                match lines.read_until(b'\n', &mut Vec::new()) {
                    Ok(read @ 1..) => bytes += read,
                    _ => return bytes,
                }
            }
        });
        let written = (0..30).try_for_each(|_| write(&client));
        drop(client);
        let read = reader.join().map_err(|_| io::ErrorKind::Other)?;
        Ok(written.is_ok() && read > 30 << 16)
    }

    /// On a busy machine, the reader itself may lose its processor for so long that it counts as gone. So there are
    /// several tries, with longer and longer times.
    #[test]
    fn a_client_that_reads_slowly_is_waited_for() -> io::Result<()> {
        for longer in [1, 4, 16] {
            if is_waited_for(SHORT * longer)? {
                return Ok(());
            }
        }
        panic!("it counted as gone three times")
    }

    /// Progress is shown while the turn to write is held.
    #[test]
    fn progress_is_dropped_rather_than_waited_for_and_leaves_lines_whole() -> io::Result<()> {
        let (client, there) = pair()?;
        // Much more than the buffers of a socket take. Whoever waited for one would count the client as gone.
        let sent = 20_000;
        for number in 0..sent {
            client.send_now(&Frame::Progress(Some((number, None, "steps".repeat(100)))));
        }
        assert!(!client.is_ended());
        let reader = thread::spawn(move || {
            let lines = BufReader::new(there)
                .lines()
                .collect::<io::Result<Vec<String>>>()?;
            lines
                .iter()
                .map(|line| Ok(serde_json::from_str(line)?))
                .collect::<io::Result<Vec<Frame>>>()
        });
        client.send(&Frame::Exit(0))?;
        drop(client);
        let frames = reader.join().map_err(|_| io::ErrorKind::Other)??;
        assert_eq!(frames.last(), Some(&Frame::Exit(0)));
        assert!(
            (frames.len() as u64) < sent,
            "all {sent} went into the buffer of the socket"
        );
        Ok(())
    }
}
