//! The commands: the name of each, and the function that runs it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::Error;
use clap::{Parser, Subcommand};

use super::answer::{Answer, CommandResult, Failure, chain};
use super::output::{Output, complain};
use super::signals::let_long_writes_fail;
use super::{
    asking, backup, bench, check, compact, create, delete, distance, dump, eval, expire, explain,
    fingerprint, get, ingest, load, plan, query, stats,
};

/// An embedded index of near-duplicate documents.
#[derive(Parser)]
#[command(name = "simdb", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 yes, done; 1 no match, no such key, damage found; 2 could not tell.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print JSON, one object per line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Create a database
    Create(create::Arguments),
    /// Read documents, store them, and print every near-duplicate
    Ingest(ingest::Arguments),
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
    /// Check every invariant of a database
    Check(check::Arguments),
    /// Put a dense copy in the place of a database
    Compact(compact::Arguments),
    /// Make a dense copy of a database
    Backup(backup::Arguments),
    /// Print a whole database as JSON Lines
    Dump(dump::Arguments),
    /// Build a database from what `dump` has printed
    Load(load::Arguments),
    /// Print the fingerprints of texts
    Fingerprint(fingerprint::Arguments),
    /// Print in how many bits two fingerprints differ
    Distance(distance::Arguments),
    /// Measure how good the verdicts of several methods are on labelled documents
    Eval(eval::Arguments),
    /// Print the plans for a number of documents, what they take and cost, and which is taken
    Plan(plan::Arguments),
    /// Measure inserts, queries and deletes of generated documents on this machine
    Bench(bench::Arguments),
}

/// Parses the arguments of the process, runs the command, prints an error once, and returns the exit code.
pub fn main() -> ExitCode {
    let_long_writes_fail();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers and go to standard output. Everything else means a wrong argument.
            let answered = !error.use_stderr();
            _ = error.print();
            return if answered { Answer::Yes } else { Answer::CouldNotTell }.into();
        }
    };
    let answer = run(&cli).unwrap_or_else(|error| {
        complain(&chain(error.as_ref()));
        Answer::CouldNotTell
    });
    answer.into()
}

fn run(cli: &Cli) -> CommandResult {
    let mut output = Output::new(cli.json);
    let answer = match &cli.command {
        Command::Create(arguments) => create::run(arguments, &mut output),
        Command::Ingest(arguments) => ingest::run(arguments, &mut output),
        Command::Query(arguments) => query::run(arguments, &mut output),
        Command::Explain(arguments) => explain::run(arguments, &mut output),
        Command::Get(arguments) => get::run(arguments, &mut output),
        Command::Delete(arguments) => delete::run(arguments, &mut output),
        Command::Expire(arguments) => expire::run(arguments, &mut output),
        Command::Stats(arguments) => stats::run(arguments, &mut output),
        Command::Check(arguments) => check::run(arguments, &mut output),
        Command::Compact(arguments) => compact::run(arguments, &mut output),
        Command::Backup(arguments) => backup::run(arguments, &mut output),
        Command::Dump(arguments) => dump::run(arguments, &mut output),
        Command::Load(arguments) => load::run(arguments, &mut output),
        Command::Fingerprint(arguments) => fingerprint::run(arguments, &mut output),
        Command::Distance(arguments) => distance::run(arguments, &mut output),
        Command::Eval(arguments) => eval::run(arguments, &mut output),
        Command::Plan(arguments) => plan::run(arguments, &mut output),
        Command::Bench(arguments) => bench::run(arguments, &mut output),
    };
    // What was printed before a failure is still true.
    let flushed = output.flush();
    let answer = answer.map_err(|error| cli.command.name_database(error))?;
    flushed?;
    Ok(answer)
}

impl Command {
    fn database(&self) -> Option<&Path> {
        match self {
            Self::Create(create::Arguments { database, .. })
            | Self::Ingest(ingest::Arguments { database, .. })
            | Self::Query(asking::Arguments { database, .. })
            | Self::Explain(asking::Arguments { database, .. })
            | Self::Get(get::Arguments { database, .. })
            | Self::Delete(delete::Arguments { database, .. })
            | Self::Expire(expire::Arguments { database, .. })
            | Self::Stats(stats::Arguments { database, .. })
            | Self::Check(check::Arguments { database })
            | Self::Compact(compact::Arguments { database, .. })
            | Self::Backup(backup::Arguments { database, .. })
            | Self::Dump(dump::Arguments { database })
            | Self::Load(load::Arguments { database, .. }) => Some(&database.database),
            Self::Fingerprint(_) | Self::Distance(_) | Self::Eval(_) | Self::Plan(_) | Self::Bench(_) => None,
        }
    }

    /// Names the database that an error is about, if the error itself does not.
    fn name_database(&self, error: Failure) -> Failure {
        let error = match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => return error,
        };
        let names_its_file = matches!(
            *error,
            Error::Io { .. }
                | Error::NotFound { .. }
                | Error::AlreadyExists { .. }
                | Error::Busy { .. }
                | Error::NotSimdb { .. }
                | Error::NeedsRecovery { .. }
                | Error::NoRoom { .. }
                | Error::Removed { .. }
                | Error::SeveralNames { .. }
                | Error::OwnerNotKept { .. }
                | Error::Input { .. }
        );
        match self.database() {
            Some(path) if !names_its_file => Box::new(About { path: path.to_owned(), error: *error }),
            _ => error,
        }
    }
}

/// An error with the database it is about.
#[derive(Debug)]
struct About {
    path: PathBuf,
    error: Error,
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for About {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
