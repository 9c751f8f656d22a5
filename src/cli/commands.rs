//! The commands: the name of each, and the function that runs it.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::Error;

use super::answer::{Answer, CommandResult, chain};
use super::arguments::Globals;
use super::console::Console;
use super::live::{Live, finish};
use super::output::Output;
use super::parsing::{parse, version};
use super::process::Process;
use super::signals::{Ending, let_long_writes_fail};
#[cfg(feature = "parquet")]
use super::tables;
use super::{
    clusters, completions, create, dedup, eval, fingerprint, ingest, load, manual, plan, running,
    stats,
};

/// An embedded index of near-duplicate documents.
#[derive(Parser)]
#[command(name = "simdb", version = version(), about, long_about = None, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 yes, done; 1 no match, no such key, damage found; 2 could not tell."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    globals: Globals,
}

#[derive(Subcommand)]
enum Command {
    /// Create a database
    #[command(visible_alias = "init", alias = "new")]
    Create(create::Arguments),
    /// Read documents, store them, and print every near-duplicate
    #[command(visible_alias = "add", aliases = ["insert", "index"])]
    Ingest(ingest::Arguments),
    #[command(flatten)]
    Live(Live),
    /// Copy the records of inputs that are no near-duplicates of others
    #[command(visible_alias = "clean", alias = "deduplicate")]
    Dedup(dedup::Arguments),
    /// Build a database from what `dump` has printed
    Load(load::Arguments),
    /// Store the documents of Parquet files
    #[cfg(feature = "parquet")]
    Import(tables::ImportArguments),
    /// Print the fingerprints of texts
    #[command(visible_alias = "hash", alias = "simhash")]
    Fingerprint(fingerprint::Arguments),
    /// Print in how many bits two fingerprints differ
    Distance(fingerprint::DistanceArguments),
    /// Measure how good the verdicts of several methods are on labelled documents
    #[command(alias = "evaluate")]
    Eval(eval::Arguments),
    /// Print the plans for a number of documents, what they take and cost, and which is taken
    #[command(alias = "plans")]
    Plan(plan::Arguments),
    /// Print what a shell needs to complete commands and options
    Completions(completions::Arguments),
    /// Print the manual, for `man -l`
    #[command(visible_alias = "manpage")]
    Manual,
}

/// Parses the arguments of the process, runs the command, prints an error once, and returns the exit code.
pub fn main() -> ExitCode {
    let_long_writes_fail();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match parse::<Cli>(&arguments) {
        Ok(cli) => cli,
        Err(answer) => return answer.into(),
    };
    let ending = Ending::default();
    if cli.command.ends_in_order() {
        ending.listen();
    }
    let console = Console::new(Arc::new(Process::new(ending.clone())), None);
    let mut output = Output::new(console.quiet(cli.globals.quiet), cli.globals.json);
    let answer = run(&cli.command, &mut output);
    let finished = finish(
        answer,
        &mut output,
        cli.command.database(),
        cli.command.told_when_ended(),
    );
    let answer = finished.unwrap_or_else(|error| {
        if ending.is_asked() && matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            ending.end_process();
        }
        output.complain(&chain(error.as_ref()));
        Answer::CouldNotTell
    });
    answer.into()
}

fn run(command: &Command, output: &mut Output) -> CommandResult {
    match command {
        Command::Create(arguments) => create::run(arguments, output),
        Command::Ingest(arguments) => ingest::run(arguments, output),
        Command::Live(live @ Live::Top(arguments)) => stats::watch(live, arguments, output),
        Command::Live(Live::Clusters(arguments)) if arguments.are_of_pairs() => {
            clusters::cluster_pairs(arguments, output)
        }
        Command::Live(live) => running::run(live, output),
        Command::Dedup(arguments) => dedup::run(arguments, output),
        Command::Load(arguments) => load::run(arguments, output),
        #[cfg(feature = "parquet")]
        Command::Import(arguments) => tables::import(arguments, output),
        Command::Fingerprint(arguments) => fingerprint::run(arguments, output),
        Command::Distance(arguments) => fingerprint::distance(arguments, output),
        Command::Eval(arguments) => eval::run(arguments, output),
        Command::Plan(arguments) => plan::run(arguments, output),
        Command::Completions(arguments) => completions::run(arguments, Cli::command(), output),
        Command::Manual => manual::run(Cli::command(), output),
    }
}

impl Command {
    /// Whether Ctrl-C has to wait until the command has put everything in order. The others have nothing to lose, and
    /// some of them wait for their input.
    fn ends_in_order(&self) -> bool {
        match self {
            Self::Ingest(_) | Self::Dedup(_) | Self::Load(_) => true,
            #[cfg(feature = "parquet")]
            Self::Import(_) => true,
            Self::Live(live) => live.ends_in_order(),
            _ => false,
        }
    }

    /// What is to be known when the command was ended before it was done, unless it has told that itself.
    fn told_when_ended(&self) -> Option<&'static str> {
        match self {
            Self::Load(_) => {
                Some("ended before it was done: no database was made; the same command begins anew")
            }
            Self::Live(live) => live.told_when_ended(),
            _ => None,
        }
    }

    fn database(&self) -> Option<&Path> {
        match self {
            Self::Create(create::Arguments { database, .. })
            | Self::Ingest(ingest::Arguments { database, .. })
            | Self::Load(load::Arguments { database, .. }) => Some(&database.database),
            #[cfg(feature = "parquet")]
            Self::Import(tables::ImportArguments { database, .. }) => Some(&database.database),
            Self::Live(live) => Some(live.database()),
            Self::Fingerprint(_) | Self::Distance(_) | Self::Eval(_) | Self::Plan(_) => None,
            Self::Completions(_) | Self::Manual | Self::Dedup(_) => None,
        }
    }
}
