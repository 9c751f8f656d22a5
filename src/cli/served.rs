//! A command that another process asks for: it is parsed here and runs with the open database of this process, and its
//! console is the client at the other end of the admin socket.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, chain};
use super::arguments::Globals;
use super::console::{Console, Step, Terminal};
use super::output::Output;
use super::verbs::{DatabaseVerb, finish};
use crate::Database;
use crate::serve::{Client, Frame, Request};

/// The most bytes of output in one answer, and of standard input in one piece.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// The longest line that announces a piece of standard input.
const MOST_LINE_BYTES: usize = 64;
/// How often a client is told how far its work is.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// Announces a piece of standard input of as many bytes. None announces its end.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) input: usize,
}

/// Says that the output that came before a [`Frame::Confirm`] is written.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) written: bool,
}

/// Runs the command of a request, and returns its exit code, or says why it is not answered.
pub(crate) fn run_for_client(
    request: &Request,
    database: &Database,
    client: &Arc<Client>,
) -> Result<u8, String> {
    let command = ClientCommand::parse(request.arguments()?)?;
    let terminal = ClientTerminal {
        client: client.clone(),
        has_input: request.input,
        shown: Mutex::default(),
    };
    let directory = request.directory()?;
    let console = Console::new(Arc::new(terminal), Some(Path::new(&directory)));
    Ok(command.run(database, &console).code())
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
    /// Parses the arguments of a client, or says what is wrong with them.
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
    fn run(&self, database: &Database, console: &Console) -> Answer {
        let mut output = Output::new(console.clone().quiet(self.globals.quiet), self.globals.json);
        let answer = self.verb.run(database, &mut output);
        let finished = finish(
            answer,
            &mut output,
            Some(self.verb.database()),
            self.verb.when_ended(),
        );
        finished.unwrap_or_else(|error| {
            console.complain(&chain(error.as_ref()));
            Answer::CouldNotTell
        })
    }
}

/// The console of a client. Nobody is waited for where others may wait: progress is shown with locks held, so it is
/// sent without waiting or not at all.
struct ClientTerminal {
    client: Arc<Client>,
    has_input: bool,
    /// When progress was shown last, while it is shown.
    shown: Mutex<Option<Instant>>,
}

impl Terminal for ClientTerminal {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        let mut rest = &*text;
        while !rest.is_empty() {
            // A character is shorter than a piece, so there is such an end.
            let mut pieces = (1..=rest.len().min(PIECE_BYTES))
                .rev()
                .filter_map(|end| rest.split_at_checked(end));
            let (piece, others) = pieces.next().unwrap_or((rest, ""));
            self.client.send(&Frame::Out(piece.to_owned()))?;
            rest = others;
        }
        Ok(())
    }

    fn confirm(&self) -> io::Result<()> {
        self.client.send(&Frame::Confirm(true))?;
        let line = self
            .client
            .line(MOST_LINE_BYTES, Some(self.client.longest_unread()))?;
        let Written { written } = serde_json::from_slice(&line)?;
        if written {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn complain(&self, message: &str) {
        _ = self.client.send(&Frame::Message(message.to_owned()));
    }

    fn show(&self, step: &Step<'_>) {
        let mut shown = self.shown.lock();
        if shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY) {
            *shown = Some(Instant::now());
            self.client.send_now(&Frame::Progress(Some((
                step.done,
                step.all,
                step.what.clone().into_owned(),
            ))));
        }
    }

    fn hide(&self) {
        if self.shown.lock().take().is_some() {
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

/// The standard input of a client. It comes in pieces.
struct Input {
    client: Arc<Client>,
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
