//! The commands that a database in use answers too. Each takes an open database. It runs in this process if the
//! database can be opened here, otherwise in the process that has it open.

use std::ffi::OsString;
use std::path::Path;

use crate::Database;
use clap::{Parser, Subcommand};

use super::about::name_database;
use super::answer::{Answer, CommandResult, chain};
use super::arguments::{Globals, LiveDatabase};
use super::console::Console;
use super::output::Output;
use super::{asking, backup, check, compact, delete, expire, explain, get, query, sources, stats};

#[derive(Subcommand)]
pub(super) enum Live {
    /// Print the stored documents that are near a text, a fingerprint or another document
    Query(asking::Arguments),
    /// Tell how a query is answered: its probes, the candidates expected and met, the time
    Explain(asking::Arguments),
    /// Print a stored document
    Get(get::Arguments),
    /// Delete documents by their keys, or all documents of a scope
    Delete(delete::Arguments),
    /// Delete documents that were seen before a time
    Expire(expire::Arguments),
    /// Print what a database holds and how large it is
    Stats(stats::Arguments),
    /// Print which inputs a database was filled from, and how far each was read
    Sources(sources::Arguments),
    /// Check every invariant of a database
    Check(check::Arguments),
    /// Put a dense copy in the place of a database
    Compact(compact::Arguments),
    /// Make a dense copy of a database
    Backup(backup::Arguments),
}

/// What a database is opened for.
#[derive(Clone, Copy)]
pub(super) enum Opening {
    Read,
    Write,
    Check,
}

impl Live {
    fn parts(&self) -> (&LiveDatabase, Opening) {
        match self {
            Self::Query(asking::Arguments { database, .. })
            | Self::Explain(asking::Arguments { database, .. })
            | Self::Get(get::Arguments { database, .. })
            | Self::Stats(stats::Arguments { database, .. })
            | Self::Backup(backup::Arguments { database, .. }) => (database, Opening::Read),
            Self::Delete(delete::Arguments { database, .. })
            | Self::Expire(expire::Arguments { database, .. })
            | Self::Compact(compact::Arguments { database, .. }) => (database, Opening::Write),
            Self::Sources(sources::Arguments { database, forget: None }) => (database, Opening::Read),
            Self::Sources(sources::Arguments { database, .. }) => (database, Opening::Write),
            Self::Check(check::Arguments { database }) => (database, Opening::Check),
        }
    }

    /// The path of the database, as it was given.
    pub(super) fn database(&self) -> &Path {
        &self.parts().0.database
    }

    /// Runs the command with an open database.
    pub(super) fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        match self {
            Self::Query(arguments) => query::run(arguments, database, output),
            Self::Explain(arguments) => explain::run(arguments, database, output),
            Self::Get(arguments) => get::run(arguments, database, output),
            Self::Delete(arguments) => delete::run(arguments, database, output),
            Self::Expire(arguments) => expire::run(arguments, database, output),
            Self::Stats(arguments) => stats::run(arguments, database, output),
            Self::Sources(arguments) => sources::run(arguments, database, output),
            Self::Check(arguments) => check::run(arguments, database, output),
            Self::Compact(arguments) => compact::run(arguments, database, output),
            Self::Backup(arguments) => backup::run(arguments, database, output),
        }
    }
}

#[cfg(feature = "cli")]
impl Live {
    /// The socket that the user named.
    #[cfg(unix)]
    pub(super) fn socket(&self) -> Option<&Path> {
        self.parts().0.socket.as_deref()
    }

    pub(super) fn opening(&self) -> Opening {
        self.parts().1
    }

    /// Whether the command reads standard input.
    #[cfg(unix)]
    pub(super) fn reads_standard_input(&self) -> bool {
        match self {
            Self::Query(arguments) | Self::Explain(arguments) => arguments.reads_standard_input(),
            _ => false,
        }
    }

    /// The answer if the database cannot be opened.
    pub(super) fn cannot_open(&self, error: crate::Error, output: &mut Output) -> CommandResult {
        match self {
            Self::Check(arguments) => check::answer(arguments, Err(error), output),
            _ => Err(error.into()),
        }
    }
}

/// A command of a client.
#[derive(Parser)]
#[command(name = "simdb", no_binary_name = true)]
pub(crate) struct LiveCommand {
    #[command(subcommand)]
    live: Live,

    #[command(flatten)]
    globals: Globals,
}

impl LiveCommand {
    /// Parses the arguments of a client, or says what is wrong with them.
    pub(crate) fn of(arguments: Vec<OsString>) -> Result<Self, String> {
        Self::try_parse_from(arguments).map_err(|error| {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("the process that has the database open does not answer this: {first}")
        })
    }

    /// Runs the command, prints an error once, and returns the answer.
    pub(crate) fn run(&self, database: &Database, console: &Console) -> Answer {
        let mut output = Output::new(console.clone(), self.globals.json);
        let answer = self.live.run(database, &mut output);
        finish(answer, &mut output, Some(self.live.database()))
    }
}

/// Writes what is still to be printed, and prints the error if there is one.
pub(super) fn finish(answer: CommandResult, output: &mut Output, database: Option<&Path>) -> Answer {
    // What was printed before a failure is still true.
    let flushed = output.flush();
    let answer = answer.map_err(|error| name_database(error, database));
    let answer = answer.and_then(|answer| flushed.map(|()| answer).map_err(Into::into));
    answer.unwrap_or_else(|error| {
        output.complain(&chain(error.as_ref()));
        Answer::CouldNotTell
    })
}
