//! The commands: the name of each, and the function that runs it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use super::answer::{Answer, CommandResult};
use super::arguments::Globals;
use super::console::Console;
use super::live::{Live, finish};
use super::output::Output;
use super::process::Process;
use super::signals::let_long_writes_fail;
use super::{bench, create, distance, dump, eval, fingerprint, ingest, load, plan, running};

/// An embedded index of near-duplicate documents.
#[derive(Parser)]
#[command(name = "simdb", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 yes, done; 1 no match, no such key, damage found; 2 could not tell.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    globals: Globals,
}

#[derive(Subcommand)]
enum Command {
    /// Create a database
    Create(create::Arguments),
    /// Read documents, store them, and print every near-duplicate
    Ingest(ingest::Arguments),
    #[command(flatten)]
    Live(Live),
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
    let console = Console::new(Arc::new(Process::default()), None);
    let mut output = Output::new(console, cli.globals.json);
    let answer = run(&cli.command, &mut output);
    finish(answer, &mut output, cli.command.database()).into()
}

fn run(command: &Command, output: &mut Output) -> CommandResult {
    match command {
        Command::Create(arguments) => create::run(arguments, output),
        Command::Ingest(arguments) => ingest::run(arguments, output),
        Command::Live(live) => running::run(live, output),
        Command::Dump(arguments) => dump::run(arguments, output),
        Command::Load(arguments) => load::run(arguments, output),
        Command::Fingerprint(arguments) => fingerprint::run(arguments, output),
        Command::Distance(arguments) => distance::run(arguments, output),
        Command::Eval(arguments) => eval::run(arguments, output),
        Command::Plan(arguments) => plan::run(arguments, output),
        Command::Bench(arguments) => bench::run(arguments, output),
    }
}

impl Command {
    fn database(&self) -> Option<&Path> {
        match self {
            Self::Create(create::Arguments { database, .. })
            | Self::Ingest(ingest::Arguments { database, .. })
            | Self::Dump(dump::Arguments { database })
            | Self::Load(load::Arguments { database, .. }) => Some(&database.database),
            Self::Live(live) => Some(live.database()),
            Self::Fingerprint(_) | Self::Distance(_) | Self::Eval(_) | Self::Plan(_) | Self::Bench(_) => None,
        }
    }
}
