//! A verb that runs in another process, which has the database open: the end that asks, and the end that answers.
//!
//! Who asks prints what the other end says, as if the verb had run here. There it is parsed, and runs with the open
//! database; its console is the client at the other end of the admin socket.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Failure, finish};
use super::console::{Console, Terminal, is_of_process};
use super::output::{Globals, Output};
use super::process::locked;
use super::times::{in_zone_of_client, name_of_local_zone};
use super::verbs::{DatabaseVerb, LiveDatabase};
use crate::serve::{
    Caller, Frame, LONGEST_UNREAD, MOST_REQUEST_BYTES, REMOVED, Request, VERSION, connect,
    identity_of, line_of, socket_beside, socket_of,
};
use crate::{Database, Error, Holder};

/// How often who asks looks whether its own user still wants the answer.
const LOOK: Duration = Duration::from_millis(20);
/// How long who asks waits for the version of the process that listens. A session that is let in says it at once.
const PATIENCE: Duration = Duration::from_secs(4);

/// The most bytes of output in one answer, and of standard input in one piece.
const PIECE_BYTES: usize = 64 << 10;
/// The longest line that announces a piece of standard input.
const MOST_LINE_BYTES: usize = 64;
/// How often a client is told how far its work is.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// Announces standard input: `input` bytes follow. 0 is the end of the input.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Piece {
    input: usize,
}

/// Says that what came before a [`Frame::Confirm`] is written, as far as anybody reads it. Or without being asked, that
/// nobody reads the output any more.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Written {
    written: bool,
}

/// The process that has a database open, and answers for it.
pub(super) struct Remote<'a> {
    stream: UnixStream,
    /// The path of the database, as it was given.
    database: &'a Path,
    /// Whether the user has named the socket.
    is_named: bool,
}

impl<'a> Remote<'a> {
    /// Connects to the socket that the user named, or else to the one beside the database. `None` if nobody listens
    /// there.
    pub(super) fn connect(database: &'a LiveDatabase) -> Result<Option<Self>, Failure> {
        match &database.socket {
            Some(socket) => Ok(Some(Self {
                stream: connect_to(socket)?,
                database: &database.path,
                is_named: true,
            })),
            None => Self::connect_beside(&database.path),
        }
    }

    /// Connects to the socket beside the database. `None` if nobody listens there.
    pub(super) fn connect_beside(database: &'a Path) -> Result<Option<Self>, Failure> {
        let socket = socket_beside(database).map_err(Error::io(database))?;
        match connect_in_time(&socket) {
            Ok(stream) => Ok(Some(Self {
                stream,
                database,
                is_named: false,
            })),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
                io::ErrorKind::WouldBlock => Err(Unanswered::Late.about(database)),
                _ => Err(Error::io(&socket)(error).into()),
            },
        }
    }

    /// Asks for what the arguments of this process say, and prints the answers. The inputs are as they were given.
    /// `None` if the process has closed the database, or is about to, before it had begun. Then nothing was read or
    /// done.
    pub(super) fn ask(
        &self,
        inputs: &[&Path],
        output: &mut Output,
    ) -> Result<Option<Answer>, Failure> {
        ensure_others_can_read(inputs)?;
        let has_input = inputs.contains(&Path::new("-"));
        let request = self.request(has_input)?;
        let mut answers = Answers::new(&self.stream)?;
        // If it is refused, the answer says why.
        _ = (&self.stream).write_all(&request);
        match answers.greet(output.console()) {
            Ok(()) => self.print_answers(&mut answers, has_input, output),
            Err(Unanswered::Ended) => Ok(None),
            Err(reason) => Err(reason.about(self.database)),
        }
    }

    /// The error if no process that has the database open lived long enough to begin.
    pub(super) fn too_late(&self) -> Failure {
        let reason = "the process that has it open is about to close it; try again in a moment";
        format!("{}: {reason}", self.database.display()).into()
    }

    fn request(&self, has_input: bool) -> Result<Vec<u8>, Failure> {
        let file = match fs::metadata(self.database) {
            // Its file may have been removed. Who has it open knows.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_named => REMOVED,
            found => identity_of(&found.map_err(Error::io(self.database))?),
        };
        let directory = std::env::current_dir()?;
        let arguments = std::env::args_os().skip(1);
        let zone = name_of_local_zone();
        let request = Request::new(arguments, &directory, zone, file, has_input);
        let line = line_of(&request);
        if line.len() <= MOST_REQUEST_BYTES {
            return Ok(line);
        }
        let reason =
            "the arguments are too many for a database that is in use: give fewer of them at once";
        Err(format!("{}: {reason}", self.database.display()).into())
    }

    /// Prints what the process says, until it says the exit code. `None` if it does not begin.
    fn print_answers(
        &self,
        answers: &mut Answers<'_>,
        has_input: bool,
        output: &mut Output,
    ) -> Result<Option<Answer>, Failure> {
        let console = output.console().clone();
        let mut is_begun = false;
        let mut progress = None;
        loop {
            let frame = match answers.next(&console, None) {
                Err(Unanswered::Ended) if !is_begun => return Ok(None),
                frame => frame.map_err(|reason| reason.about(self.database))?,
            };
            match frame {
                Frame::Begun(false) => return Ok(None),
                Frame::Begun(true) => {
                    is_begun = true;
                    // What was sent before could not be given to another process.
                    if has_input {
                        self.send_standard_input()?;
                    }
                }
                Frame::Out(text) => {
                    let was_closed = output.is_closed();
                    output.print_text(&text);
                    output.flush()?;
                    // What is more than an answer is done to its end, and it has an exit code. But a line between
                    // pieces of standard input would be taken for one of these.
                    if output.is_closed() && !was_closed && !has_input {
                        self.say_written(false);
                    }
                }
                Frame::Confirm(_) => self.say_written(true),
                Frame::Message(message) => console.complain(&message),
                Frame::Progress(Some((done, all, what))) => {
                    let shown = progress.get_or_insert_with(|| console.progress());
                    // Whether the user wants more is asked before each answer.
                    _ = shown.update_as(done, all, what);
                }
                Frame::Progress(None) => progress = None,
                Frame::Exit(code) => return Ok(Some(code.into())),
                Frame::SimdbAdmin(_) => {}
            }
        }
    }

    /// Sends [`Written`]. If the other end has gone, the next answer says so.
    fn say_written(&self, written: bool) {
        _ = (&self.stream).write_all(&line_of(&Written { written }));
    }

    fn send_standard_input(&self) -> Result<(), Failure> {
        let stream = self.stream.try_clone()?;
        // The thread ends with the process. It may wait for standard input for ever.
        let thread = thread::Builder::new().spawn(move || {
            _ = send_input(io::stdin().lock(), &stream);
        });
        thread.map_err(Error::no_thread)?;
        Ok(())
    }
}

fn ensure_others_can_read(inputs: &[&Path]) -> Result<(), Failure> {
    for path in inputs {
        if is_of_process(path) {
            return Err(format!(
                "{}: only this process has it, and another process has the database open and reads the inputs: give \
                 a file, or `-` and standard input",
                path.display()
            )
            .into());
        }
    }
    Ok(())
}

/// Connects to the process that listens on a socket that the user named.
fn connect_to(socket: &Path) -> Result<UnixStream, Failure> {
    connect_in_time(socket).map_err(|source| {
        let reason = match source.kind() {
            io::ErrorKind::ConnectionRefused => "nobody listens there any more",
            io::ErrorKind::WouldBlock => "who listens there lets nobody in; it may be stopped",
            _ => &source.to_string(),
        };
        format!("{}: {reason}", socket.display()).into()
    })
}

/// Refuses a database that is missing if somebody listens at its socket: its file was removed, and what is in it would
/// be lost with that process.
pub(super) fn ensure_not_removed(database: &Path, place: &Path) -> Result<(), Failure> {
    if place.symlink_metadata().is_ok() {
        return Ok(());
    }
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
        return Ok(());
    };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let socket = socket_of(folder.join(name));
    if connect(&socket).is_err() {
        return Ok(());
    }
    let database = database.display();
    let socket = socket.display();
    Err(format!(
        "{database}: its file was removed or renamed, and the process that listens at {socket} still has it open: \
         `simdb backup {database} TO --socket {socket}` saves what is in it, as long as that process lives; of a file \
         that was renamed, give its new name"
    )
    .into())
}

/// Connects to a socket. If it has no room, this waits a while until it has: many may have come at once.
fn connect_in_time(socket: &Path) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match connect(socket) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(LOOK);
            }
            connected => return connected,
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
        let reason = match &self {
            Self::Unwanted => return Error::Interrupted.into(),
            Self::Late => "the process that has it open does not answer; it may be stopped",
            Self::Ended => &format!(
                "the process that has it open ended before it had answered, or ended this request, since its \
                     output was not read for {} seconds; what it had committed is there: run the command again",
                LONGEST_UNREAD.as_secs()
            ),
            Self::Unknown(reason) => reason,
        };
        format!("{}: {reason}", database.display()).into()
    }
}

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

    fn greet(&mut self, console: &Console) -> Result<(), Unanswered> {
        match self.next(console, Some(Instant::now() + PATIENCE)) {
            Ok(Frame::SimdbAdmin(VERSION)) => Ok(()),
            Ok(Frame::SimdbAdmin(version)) => Err(Unanswered::Unknown(format!(
                "the process that has it open answers version {version} of the protocol, and this program asks by \
                 version {VERSION}: use the same release of simdb for both"
            ))),
            Err(reason) => Err(reason),
            Ok(_) => Err(Unanswered::Unknown(
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

pub(super) fn nobody_answers(busy: &Error) -> Failure {
    let name = match busy {
        Error::Busy {
            holder: Holder::Process(number),
            ..
        } => name_of_process(*number),
        _ => None,
    };
    let name = match name {
        Some(name) => format!(" (it is called {name})"),
        None => String::new(),
    };
    format!(
        "{busy}{name}; nobody answers commands beside it: if the process listens at another place, perhaps since the \
         file has another name or was moved, say so with `--socket PATH`; `simdb serve`, `simdb ingest` and programs \
         that open the database with `OpenOptions::serve(true)` listen; then `simdb backup` copies it while it is in \
         use, where a copy that `cp` makes may be damaged"
    )
    .into()
}

/// The name of a process, where the system tells.
fn name_of_process(number: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{number}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Runs the command of a request, and returns its exit code, or says why it is not answered.
pub(crate) fn run_for_client(
    request: &Request,
    database: &Database,
    client: &Arc<Caller>,
) -> Result<u8, String> {
    let terminal = ClientTerminal {
        client: client.clone(),
        has_input: request.input,
        is_unread: AtomicBool::new(false),
        shown: Mutex::default(),
    };
    let directory = request.directory()?;
    in_zone_of_client(request.zone.as_deref(), || {
        let command = ClientCommand::parse(request.arguments()?)?;
        let answer = command.run(database, Arc::new(terminal), Path::new(&directory));
        Ok(answer as u8)
    })?
}

/// A command of a client.
#[derive(Parser)]
#[command(name = "simdb", no_binary_name = true, disable_help_flag = true)]
struct ClientCommand {
    #[command(subcommand)]
    verb: DatabaseVerb,

    #[command(flatten)]
    globals: Globals,
}

impl ClientCommand {
    fn parse(arguments: Vec<OsString>) -> Result<Self, String> {
        Self::try_parse_from(arguments).map_err(|error| {
            let error = error.to_string();
            let first = error
                .lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ");
            format!("the process that has the database open does not answer this: {first}")
        })
    }

    /// Runs the command, prints an error once, and returns the answer.
    fn run(&self, database: &Database, terminal: Arc<ClientTerminal>, directory: &Path) -> Answer {
        let (named, verb) = self.verb.parts();
        let mut output = self.globals.output(terminal, Some(directory));
        let answer = verb.run(database, &mut output);
        let finished = finish(answer, &mut output, Some(&named.path), verb.when_ended());
        finished.unwrap_or_else(|error| {
            output.complain(&Error::with_causes(error.as_ref()));
            Answer::CouldNotTell
        })
    }
}

/// The console of a client. Progress is shown with locks held, so `show` never waits for the client: what it cannot
/// send at once is dropped. The other methods may wait.
struct ClientTerminal {
    client: Arc<Caller>,
    has_input: bool,
    /// Whether nobody reads the output any more.
    is_unread: AtomicBool,
    /// When progress was shown last, while it is shown.
    shown: Mutex<Option<Instant>>,
}

impl ClientTerminal {
    /// Reads the line by which the client says that it has written what it was sent. Before that, it may say that
    /// nobody reads its output any more.
    fn read_written(&self, most: Duration) -> io::Result<bool> {
        let line = self.client.line(MOST_LINE_BYTES, Some(most))?;
        let Written { written } = serde_json::from_slice(&line)?;
        self.is_unread.fetch_or(!written, Ordering::Relaxed);
        Ok(written)
    }

    /// Whether the client has said that nobody reads its output any more.
    fn is_unread(&self) -> bool {
        if !self.has_input && self.client.has_sent() {
            _ = self.read_written(Duration::ZERO);
        }
        self.is_unread.load(Ordering::Relaxed)
    }
}

impl Terminal for ClientTerminal {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if self.is_unread() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let text = String::from_utf8_lossy(bytes);
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, others) = split_at_char_boundary(rest, PIECE_BYTES);
            self.client.send(&Frame::Out(piece.to_owned()))?;
            rest = others;
        }
        Ok(())
    }

    fn confirm(&self) -> io::Result<()> {
        self.client.send(&Frame::Confirm(true))?;
        while !self.read_written(self.client.longest_unread())? {}
        Ok(())
    }

    fn complain(&self, message: &str) {
        _ = self.client.send(&Frame::Message(message.to_owned()));
    }

    fn show(&self, done: u64, all: Option<u64>, what: &str) {
        let mut shown = locked(&self.shown);
        if shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY) {
            *shown = Some(Instant::now());
            let what = what.to_owned();
            self.client
                .send_now(&Frame::Progress(Some((done, all, what))));
        }
    }

    fn hide(&self) {
        if locked(&self.shown).take().is_some() {
            _ = self.client.send(&Frame::Progress(None));
        }
    }

    fn is_ended(&self) -> bool {
        self.client.is_ended()
    }

    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>> {
        Some(Box::new(Input {
            client: self.client.clone(),
            left: 0,
            ended: !self.has_input,
        }))
    }
}

/// Splits off the longest beginning of at most so many bytes, which are enough for any character.
fn split_at_char_boundary(text: &str, bytes: usize) -> (&str, &str) {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.split_at(end)
}

/// The standard input of a client. It comes in pieces.
struct Input {
    client: Arc<Caller>,
    /// The bytes of the piece that are not read yet.
    left: usize,
    ended: bool,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            // Standard input has all the time it wants.
            let line = self.client.line(MOST_LINE_BYTES, None)?;
            let piece: Piece = serde_json::from_slice(&line)?;
            if piece.input > PIECE_BYTES {
                let reason = "a piece of it is too long";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            self.left = piece.input;
            self.ended = piece.input == 0;
        }
        let most = self.left.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.client.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// An option that was there twice ended every request.
    #[test]
    fn the_commands_of_clients_are_well_defined() {
        ClientCommand::command().debug_assert();
    }
}
