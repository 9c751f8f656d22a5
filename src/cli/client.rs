//! The client: asks the process that has a database open to answer the command, and prints what it says, as if the
//! command had run here.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Holder};

use super::answer::{Answer, CommandResult, Failure};
use super::console::{Console, Step};
use super::served::{PIECE_BYTES, Piece, Written};
use crate::serve::{
    Frame, MOST_REQUEST_BYTES, Request, VERSION, connect, identity_of, line_of, socket_beside,
};

/// How often the client looks whether its own user still wants the answer.
const LOOK: Duration = Duration::from_millis(20);
/// How long the process that listens has to say its version.
const PATIENCE: Duration = Duration::from_secs(4);

/// Connects to the process that has a database open. `None` if nobody listens beside the database.
pub(super) fn connect_beside(database: &Path) -> Result<Option<UnixStream>, Failure> {
    let socket = socket_beside(database).map_err(Error::io(database))?;
    match connect(&socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(Error::io(&socket)(error).into()),
        },
    }
}

/// Connects to the process that listens on a socket that the user named.
pub(super) fn connect_to(socket: &Path) -> Result<UnixStream, Failure> {
    connect(socket).map_err(|source| {
        let reason = match source.kind() {
            io::ErrorKind::ConnectionRefused => "nobody listens there any more".to_owned(),
            _ => source.to_string(),
        };
        format!("{}: {reason}", socket.display()).into()
    })
}

/// Asks the process at the other end, and prints what it answers.
pub(super) fn ask(
    stream: &UnixStream,
    database: &Path,
    has_input: bool,
    console: &Console,
) -> CommandResult {
    let file = fs::metadata(database).map_err(Error::io(database))?;
    let file = identity_of(&file);
    let directory = std::env::current_dir()?;
    let request = line_of(&Request::new(
        std::env::args_os().skip(1),
        &directory,
        file,
        has_input,
    ));
    if request.len() > MOST_REQUEST_BYTES {
        let reason =
            "the arguments are too many for a database that is in use: give fewer of them at once";
        return Err(format!("{}: {reason}", database.display()).into());
    }
    let mut answers = Answers::new(stream)?;
    // If it is refused, the answer says why.
    _ = (&*stream).write_all(&request);
    answers
        .greet(console)
        .map_err(|reason| reason.about(database))?;
    if has_input {
        let stream = stream.try_clone()?;
        // The thread ends with the process. It may wait for standard input for ever.
        let thread =
            thread::Builder::new().spawn(move || _ = send_input(io::stdin().lock(), &stream));
        thread.map_err(Error::no_thread)?;
    }
    loop {
        match answers
            .next(console, None)
            .map_err(|reason| reason.about(database))?
        {
            Frame::Out(text) => match console.write(text.as_bytes()) {
                // Nobody reads the rest, so nobody asks for it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Answer::Yes),
                written => written?,
            },
            Frame::Confirm(_) => (&*stream).write_all(&line_of(&Written { written: true }))?,
            Frame::Message(message) => console.complain(&message),
            Frame::Progress(Some((done, all, what))) => {
                console.show(&Step {
                    done,
                    all,
                    what: what.into(),
                });
            }
            Frame::Progress(None) => console.hide(),
            Frame::Exit(code) => return Ok(Answer::from_code(code)),
            Frame::SimdbAdmin(_) => {}
        }
    }
}

fn send_input(mut input: impl Read, mut stream: &UnixStream) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = match input.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        stream.write_all(&line_of(&Piece { input: read }))?;
        stream.write_all(&piece[..read])?;
        if read == 0 {
            return Ok(());
        }
    }
}

/// Why there is no answer.
enum Unanswered {
    /// The user wants none.
    Unwanted,
    Late,
    /// The process ended before it had answered.
    Ended,
    Unknown(String),
}

impl Unanswered {
    fn about(self, database: &Path) -> Failure {
        let reason = match self {
            Self::Unwanted => return Error::Interrupted.into(),
            Self::Late => "the process that has it open does not answer; it may be stopped",
            Self::Ended => {
                "the process that has it open ended before it had answered, or ended this request, since its output \
                 was not read for 30 seconds; what it had committed is there: run the command again"
            }
            Self::Unknown(reason) => &reason.clone(),
        };
        format!("{}: {reason}", database.display()).into()
    }
}

/// The lines that the other end sends.
struct Answers<'a> {
    reader: BufReader<&'a UnixStream>,
    line: Vec<u8>,
}

impl<'a> Answers<'a> {
    fn new(stream: &'a UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Self {
            reader: BufReader::with_capacity(PIECE_BYTES, stream),
            line: Vec::new(),
        })
    }

    /// Reads the version of the other end.
    fn greet(&mut self, console: &Console) -> Result<(), Unanswered> {
        match self.next(console, Some(Instant::now() + PATIENCE))? {
            Frame::SimdbAdmin(VERSION) => Ok(()),
            Frame::SimdbAdmin(version) => Err(Unanswered::Unknown(format!(
                "the process that has it open answers version {version} of the protocol, and this program asks by \
                 version {VERSION}: use the same release of simdb for both"
            ))),
            _ => Err(Unanswered::Unknown(
                "what listens on its socket does not name its version".to_owned(),
            )),
        }
    }

    /// Waits for the next line, until `end` if there is one.
    fn next(&mut self, console: &Console, end: Option<Instant>) -> Result<Frame, Unanswered> {
        use io::ErrorKind::{ConnectionReset, Interrupted, TimedOut, WouldBlock};
        self.line.clear();
        loop {
            // Progress may come without a pause.
            if console.is_ended() {
                return Err(Unanswered::Unwanted);
            }
            match self.reader.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => break,
                Ok(_) => return Err(Unanswered::Ended),
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {
                    if end.is_some_and(|end| Instant::now() >= end) {
                        return Err(Unanswered::Late);
                    }
                }
                Err(error) if error.kind() == ConnectionReset => return Err(Unanswered::Ended),
                Err(error) => {
                    return Err(Unanswered::Unknown(format!(
                        "its socket cannot be read: {error}"
                    )));
                }
            }
        }
        serde_json::from_slice(&self.line).map_err(|error| {
            Unanswered::Unknown(format!(
                "what listens on its socket does not answer as simdb does: {error}"
            ))
        })
    }
}

/// The error if nobody answers for a database that is in use.
pub(super) fn nobody_answers(busy: &Error) -> Failure {
    let name = match busy {
        Error::Busy {
            holder: Holder::Process(number),
            ..
        } => name_of_process(*number),
        _ => None,
    };
    let name = name
        .map(|name| format!(" (it is called {name})"))
        .unwrap_or_default();
    format!(
        "{busy}{name}; it answers no commands itself: `simdb ingest` does, and so does a program that opens the \
         database with `OpenOptions::admin(true)`; if it listens at another place, say so with `--socket PATH`; then \
         `simdb backup` copies it while it is in use, where a copy \
         that `cp` makes may be damaged"
    )
    .into()
}

/// The name of a process, where the system tells.
fn name_of_process(number: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{number}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned()).filter(|name| !name.is_empty())
}
