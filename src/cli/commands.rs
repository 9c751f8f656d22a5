//! The commands: the name of each, its place in the help, and the function that runs it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::Error;

use super::answer::{Answer, CommandResult, chain};
use super::arguments::Globals;
use super::console::Console;
use super::output::Output;
use super::parsing::{parse, version};
use super::process::Process;
use super::signals::{Ending, let_long_writes_fail};
#[cfg(feature = "parquet")]
use super::tables;
use super::verbs::{DatabaseVerb, finish};
use super::{
    clusters, create, dedup, eval, fingerprint, ingest, load, manual, plan, running, stats,
};

/// An embedded, persistent, transactional index of near-duplicate documents
#[derive(Parser)]
#[command(name = "simdb", version = version(), about, long_about = None, max_term_width = 100)]
#[command(disable_help_flag = true)]
#[command(
    after_help = "`simdb COMMAND --help` lists the options of a command, `simdb help COMMAND` explains their values.\n\
                  Exit codes: 0 yes, done; 1 no match, no such key, damage found; 2 could not tell."
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
    Create(create::Arguments),
    /// Read documents, store them, and print every near-duplicate
    #[command(visible_alias = "add")]
    Ingest(ingest::Arguments),
    #[command(flatten)]
    Database(DatabaseVerb),
    /// Copy the records of inputs that are no near-duplicates of others
    Dedup(dedup::Arguments),
    /// Build a database from what `dump` has printed
    Load(load::Arguments),
    /// Store the documents of Parquet files
    #[cfg(feature = "parquet")]
    Import(tables::ImportArguments),
    /// Print the fingerprints of texts
    Fingerprint(fingerprint::Arguments),
    /// Print in how many bits two fingerprints differ
    Distance(fingerprint::DistanceArguments),
    /// Measure how good the verdicts are on labelled documents
    Eval(eval::Arguments),
    /// Print the plans for a number of documents, and what they cost
    Plan(plan::Arguments),
    /// Print what a shell needs to complete commands and options
    Completions(manual::Arguments),
    /// Print the manual, for `man -l`
    Manual,
}

/// The commands as the help shows them, the main job first.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Find near-duplicates", &["ingest", "query", "dedup"]),
    (
        "Look after a database",
        &[
            "stats", "get", "delete", "expire", "check", "compact", "backup",
        ],
    ),
    (
        "See more of it",
        &[
            "pairs", "clusters", "report", "explain", "sources", "top", "dump", "export",
        ],
    ),
    (
        "And also",
        &[
            "create",
            "plan",
            "load",
            "import",
            "fingerprint",
            "distance",
            "eval",
            "completions",
            "manual",
        ],
    ),
];

/// The program as clap knows it. Its help shows the commands in groups, which clap has for options only.
fn program() -> clap::Command {
    let program = Cli::command();
    let header = *program.get_styles().get_header();
    let literal = *program.get_styles().get_literal();
    let mut help = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        _ = write!(help, "\n{header}{heading}:{header:#}\n");
        for name in names {
            // Some are only in a program with Parquet.
            if let Some(command) = program.find_subcommand(name) {
                let about = command
                    .get_about()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let aliases: Vec<&str> = command.get_visible_aliases().collect();
                let aliases = match &aliases[..] {
                    [] => String::new(),
                    aliases => format!(" [also: {}]", aliases.join(", ")),
                };
                _ = writeln!(help, "  {literal}{name:<11}{literal:#}  {about}{aliases}");
            }
        }
    }
    _ = write!(
        help,
        "\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    program.help_template(help)
}

/// Parses the arguments of the process, runs the command, prints an error once, and returns the exit code.
pub fn main() -> ExitCode {
    let_long_writes_fail();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match parse::<Cli>(program(), &arguments) {
        Ok(cli) => cli,
        Err(answer) => return answer.into(),
    };
    let ending = Ending::default();
    if cli.command.ends_in_order() {
        ending.listen();
    }
    let console = Console::new(Arc::new(Process::new(ending.clone())), None);
    let mut output = Output::new(console.quiet(cli.globals.quiet), cli.globals.json);
    let answer = cli.command.run(&mut output);
    let database = cli.command.database();
    let finished = finish(answer, &mut output, database, cli.command.when_ended());
    let answer = finished.unwrap_or_else(|error| {
        if ending.is_asked() && matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            ending.end_process();
        }
        output.complain(&chain(error.as_ref()));
        Answer::CouldNotTell
    });
    answer.into()
}

impl Command {
    fn run(&self, output: &mut Output) -> CommandResult {
        match self {
            Self::Create(arguments) => create::run(arguments, output),
            Self::Ingest(arguments) => ingest::run(arguments, output),
            Self::Database(verb @ DatabaseVerb::Top(arguments)) => {
                stats::watch(verb, arguments, output)
            }
            Self::Database(DatabaseVerb::Clusters(arguments)) if arguments.are_of_pairs() => {
                clusters::cluster_pairs(arguments, output)
            }
            Self::Database(verb) => running::run(verb, output),
            Self::Dedup(arguments) => dedup::run(arguments, output),
            Self::Load(arguments) => load::run(arguments, output),
            #[cfg(feature = "parquet")]
            Self::Import(arguments) => tables::import(arguments, output),
            Self::Fingerprint(arguments) => fingerprint::run(arguments, output),
            Self::Distance(arguments) => fingerprint::distance(arguments, output),
            Self::Eval(arguments) => eval::run(arguments, output),
            Self::Plan(arguments) => plan::run(arguments, output),
            Self::Completions(arguments) => manual::print_completions(arguments, program(), output),
            Self::Manual => manual::print_manual(program(), output),
        }
    }

    /// Whether Ctrl-C has to wait until the command has put everything in order. The others have nothing to lose, and
    /// some of them wait for their input.
    fn ends_in_order(&self) -> bool {
        match self {
            Self::Ingest(_) | Self::Dedup(_) | Self::Load(_) => true,
            #[cfg(feature = "parquet")]
            Self::Import(_) => true,
            Self::Database(verb) => verb.ends_in_order(),
            _ => false,
        }
    }

    /// What is to be known when the command was ended before it was done, unless it has said so itself.
    fn when_ended(&self) -> Option<&'static str> {
        match self {
            Self::Load(_) => {
                Some("ended before it was done: no database was made; the same command begins anew")
            }
            Self::Database(verb) => verb.when_ended(),
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
            Self::Database(verb) => Some(verb.database()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_shows_every_command_once_on_a_screen() {
        let help = program().render_help().to_string();
        for command in program()
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
        {
            let shown = help
                .lines()
                .filter(|line| line.starts_with(&format!("  {command} ")));
            assert_eq!(shown.count(), 1, "{command}: {help}");
        }
        assert!(help.lines().count() < 52, "{help}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
    }
}
