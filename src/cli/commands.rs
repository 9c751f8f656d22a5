//! The commands: the name of each, and the function that runs it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use super::about::name_database;
use super::answer::{Answer, CommandResult, chain};
use super::console::Console;
use super::live::Live;
use super::output::Output;
use super::process::Process;
use super::signals::let_long_writes_fail;
use super::{bench, create, distance, dump, eval, fingerprint, ingest, load, plan};

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
    let answer = run(&cli, &console).unwrap_or_else(|error| {
        console.complain(&chain(error.as_ref()));
        Answer::CouldNotTell
    });
    answer.into()
}

fn run(cli: &Cli, console: &Console) -> CommandResult {
    let mut output = Output::new(console.clone(), cli.json);
    let answer = match &cli.command {
        Command::Create(arguments) => create::run(arguments, &mut output),
        Command::Ingest(arguments) => ingest::run(arguments, &mut output),
        Command::Live(live) => live.open_and_run(&mut output),
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
    let answer = answer.map_err(|error| name_database(error, cli.command.database()))?;
    flushed?;
    Ok(answer)
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
