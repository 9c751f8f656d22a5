//! The commands: the name of each, its place in the help, and what is asked of it. The manual page and what a shell
//! needs are made of the same definitions.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{MAIN_SEPARATOR, Path};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum as _,
};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use super::answer::{Answer, CommandResult, Failure, finish};
use super::escaping::{harmless, is_risky};
use super::output::{Globals, Output};
use super::process::Process;
#[cfg(feature = "parquet")]
use super::tables;
use super::verbs::{self, DatabaseVerb};
use super::{audit, create, dedup, eval, fingerprint, load, plan, salvage};
use crate::Error;

/// A command, which is its arguments.
pub(super) trait Command {
    fn run(&self, output: &mut Output) -> CommandResult;

    fn database(&self) -> Option<&Path> {
        None
    }

    /// Whether Ctrl-C has to wait until the command has put everything in order, and has told what is to be known. The
    /// others have nothing to lose, and some of them wait for their input.
    fn ends_in_order(&self) -> bool {
        self.when_ended().is_some()
    }

    /// What is to be known when the command was ended before it was done, unless it has said so itself.
    fn when_ended(&self) -> Option<&'static str> {
        None
    }
}

/// What is to be known when a command was ended while it built a database.
pub(super) const NOT_BUILT: &str =
    "ended before it was done: no database was made; the same command begins anew";

impl Command for DatabaseVerb {
    fn run(&self, output: &mut Output) -> CommandResult {
        let (database, verb) = self.parts();
        match verb.run_alone(output) {
            Some(answer) => answer,
            None => verbs::run(database, verb, output),
        }
    }

    fn database(&self) -> Option<&Path> {
        let (database, _) = self.parts();
        Some(&database.path)
    }

    fn ends_in_order(&self) -> bool {
        let (_, verb) = self.parts();
        verb.ends_in_order()
    }

    fn when_ended(&self) -> Option<&'static str> {
        let (_, verb) = self.parts();
        verb.when_ended()
    }
}

/// An embedded, persistent, transactional index of near-duplicate documents
#[derive(Parser)]
#[command(name = "simdb", version = version(), about, long_about = None, max_term_width = 100)]
#[command(disable_help_flag = true)]
#[command(
    after_help = "`simdb COMMAND --help` lists the options of a command, `simdb help COMMAND` explains their values.\n\
                  Exit codes: 0 yes, done; 1 no match, no such key, damage found; 2 could not tell."
)]
struct Cli {
    #[command(subcommand)]
    command: Commands,

    #[command(flatten)]
    globals: Globals,
}

#[derive(Subcommand)]
enum Commands {
    /// Create a database
    Create(create::Arguments),
    #[command(flatten)]
    Database(DatabaseVerb),
    /// Open a database for other processes
    Serve(create::ServeArguments),
    /// Copy a corpus without its near-duplicates
    ///
    /// Without --database, the default distance is 10 if sketches are compared
    #[command(mut_arg("unit", |unit| unit.hide(true)))]
    Dedup(dedup::Arguments),
    /// Prove that all near-duplicates were removed from a corpus, and nothing else
    ///
    /// No two kept records are near, and each removed record is near to its survivor
    #[command(mut_arg("unit", |unit| unit.hide(true)))]
    Audit(audit::Arguments),
    /// Build a database from the output of `dump`
    Load(load::Arguments),
    /// Build a new database from what is whole in a damaged one
    Salvage(salvage::Arguments),
    /// Store the documents of Parquet files
    #[cfg(feature = "parquet")]
    Import(tables::ImportArguments),
    /// Print the fingerprints of texts
    Fingerprint(fingerprint::Arguments),
    /// Print in how many bits two fingerprints differ
    Distance(fingerprint::DistanceArguments),
    /// Measure on labelled documents how well near-duplicates are found
    Eval(eval::Arguments),
    /// Print the plans for a number of documents, and what they cost
    Plan(plan::Arguments),
    /// Print what a shell needs to complete commands and options
    Completions(CompletionArguments),
    /// Print the manual, for `man -l`
    Manual(ManualArguments),
}

/// The commands as the help shows them, the main job first.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Find near-duplicates",
        &["ingest", "query", "dedup", "audit", "serve"],
    ),
    (
        "Look after a database",
        &[
            "stats", "get", "delete", "expire", "check", "compact", "backup", "salvage",
        ],
    ),
    (
        "See more of it",
        &[
            "overlap", "pairs", "clusters", "report", "explain", "sources", "top", "dump", "export",
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
    let process = Arc::new(Process::new());
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let Cli { command, globals } = match parse(&arguments) {
        Ok(cli) => cli,
        Err(answer) => return answer.into(),
    };
    let command = command.command();
    if command.ends_in_order() {
        process.end_in_order();
    }
    let mut output = globals.output(process.clone(), None);
    let answer = command.run(&mut output);
    let database = command.database();
    let finished = finish(answer, &mut output, database, command.when_ended());
    let answer = finished.unwrap_or_else(|error| {
        if output.console().is_ended() && matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            process.end_by_signal();
        }
        output.complain(&Error::with_causes(error.as_ref()));
        Answer::CouldNotTell
    });
    answer.into()
}

impl Commands {
    /// The table of the commands.
    fn command(&self) -> &dyn Command {
        match self {
            Self::Create(command) => command,
            Self::Database(command) => command,
            Self::Serve(command) => command,
            Self::Dedup(command) => command,
            Self::Audit(command) => command,
            Self::Load(command) => command,
            Self::Salvage(command) => command,
            #[cfg(feature = "parquet")]
            Self::Import(command) => command,
            Self::Fingerprint(command) => command,
            Self::Distance(command) => command,
            Self::Eval(command) => command,
            Self::Plan(command) => command,
            Self::Completions(command) => command,
            Self::Manual(command) => command,
        }
    }
}

// `simdb completions`. The help of a command stands in the list of commands.
#[derive(clap::Args)]
struct CompletionArguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

// `simdb manual`.
#[derive(clap::Args)]
struct ManualArguments {}

impl Command for CompletionArguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        let mut script = Vec::new();
        generate(self.shell, &mut program(), "simdb", &mut script);
        output.print_text(&String::from_utf8_lossy(&script));
        Ok(Answer::Yes)
    }
}

impl Command for ManualArguments {
    /// Prints one page for `man`: the program, then each of its commands.
    fn run(&self, output: &mut Output) -> CommandResult {
        let mut program = program();
        program.build();
        let whole = Man::new(program.clone());
        let mut page = Vec::new();
        whole.render_title(&mut page)?;
        whole.render_name_section(&mut page)?;
        whole.render_synopsis_section(&mut page)?;
        whole.render_description_section(&mut page)?;
        whole.render_options_section(&mut page)?;
        whole.render_extra_section(&mut page)?;
        let mut page = String::from_utf8(page)?;
        for command in program
            .get_subcommands()
            .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        {
            page += &section(command)?;
        }
        output.print_text(&page);
        Ok(Answer::Yes)
    }
}

/// The section of one command, with what would be sections of a page of its own below it.
fn section(command: &clap::Command) -> Result<String, Failure> {
    // Those of all commands are told once, at the beginning.
    let command = command.clone().mut_args(|argument| {
        let is_own = matches!(argument.get_id().as_str(), "help" | "version");
        let is_common = argument.is_global_set() || is_own;
        argument.hide(is_common)
    });
    let man = Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut parts)?;
    }
    let parts = String::from_utf8(parts)?.replace(".SH ", ".SS ");
    Ok(format!(
        ".SH \"SIMDB {}\"\n{parts}",
        command.get_name().to_uppercase()
    ))
}

// From the arguments of the process to a command. What is wrong with them is printed on standard error, in colours if
// they are wanted, and without what a hostile argument could do to a terminal.

/// Parses the arguments of the process. If they are no command, prints why and returns the answer of the program.
fn parse(arguments: &[OsString]) -> Result<Cli, Answer> {
    let mut command = program().color(colour(arguments));
    let parsed = command.try_get_matches_from_mut(arguments);
    let parsed = parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| {
        let error = with_advice(error, &mut command);
        // Help and version are answers and go to standard output. Everything else means a wrong argument.
        let is_answer = !error.use_stderr();
        let is_risky = arguments
            .iter()
            .any(|text| text.to_string_lossy().contains(is_risky));
        let printed = if is_risky && !is_answer {
            let text = error.render().to_string();
            io::stderr().write_all(harmless(&text, &['\n']).as_bytes())
        } else {
            error.print()
        };
        match printed {
            // That nobody reads it is no failure.
            Err(error) if is_answer && error.kind() != io::ErrorKind::BrokenPipe => {
                _ = writeln!(
                    io::stderr(),
                    "simdb: standard output cannot be written: {error}"
                );
                Answer::CouldNotTell
            }
            _ => Answer::yes_unless(!is_answer),
        }
    })
}

/// When colours are wanted. This has to be known before the arguments are parsed.
fn colour(arguments: &[OsString]) -> ColorChoice {
    let mut given = None;
    let mut arguments = arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--") => break,
            Some("--color") => {
                given = arguments.peek().and_then(|next| next.to_str()).or(given);
            }
            Some(argument) => given = argument.strip_prefix("--color=").or(given),
            None => {}
        }
    }
    let choice = given.and_then(|name| ColorChoice::from_str(name, false).ok());
    choice.unwrap_or_default()
}

/// Says what to do instead where somebody has named a command that there is not.
fn with_advice(error: clap::Error, command: &mut clap::Command) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    match instead(name) {
        Some(advice) if error.kind() == ErrorKind::InvalidSubcommand => {
            let message = format!(
                "there is no command '{}'; {}",
                harmless(name, &[]),
                harmless(&advice, &[])
            );
            command.error(ErrorKind::InvalidSubcommand, message)
        }
        _ => error,
    }
}

/// The release, the commit it was built from, and the version of the files it writes.
pub(super) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let commit = match option_env!("SIMDB_COMMIT") {
            Some(commit) => format!("commit {commit}, "),
            None => String::new(),
        };
        let release = env!("CARGO_PKG_VERSION");
        format!("{release} ({commit}format {})", crate::FORMAT_VERSION)
    })
}

/// What to do instead of a command that there is not. `None` if there is nothing better to say than clap does.
fn instead(name: &str) -> Option<String> {
    let advice = match name {
        "prune" | "gc" => {
            "`simdb expire DB --before TIME` deletes old documents, `simdb compact DB` gives back space"
        }
        #[cfg(not(feature = "parquet"))]
        "export" | "import" => {
            "this program was built without Parquet: build it with `--features cli,parquet`. `simdb dump` prints all \
             documents as JSON Lines, `simdb load` reads them"
        }
        "restore" => {
            "what `simdb backup` has written is a database itself, ready to be used; `simdb load` takes what \
             `simdb dump` has printed"
        }
        "repair" | "recover" => {
            "`simdb check DB` tells what is damaged, and `simdb salvage DB NEW` takes out what is whole"
        }
        "update" | "put" => {
            "`simdb ingest DB INPUT` stores documents, and one with the key of a stored document replaces it"
        }
        name => return instead_of_path(name),
    };
    Some(advice.to_owned())
}

/// Who writes the database first means a command after it.
fn instead_of_path(name: &str) -> Option<String> {
    let path = Path::new(name);
    let is_path = name.contains(MAIN_SEPARATOR) || path.extension().is_some() || path.is_file();
    is_path.then(|| format!("the command stands before the database: `simdb stats {name}`"))
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
        ensure_one_screen(&help, 51);
    }

    #[test]
    fn the_help_of_each_command_is_one_screen() {
        let mut program = program();
        program.build();
        for command in program.get_subcommands_mut() {
            ensure_one_screen(&command.render_help().to_string(), 48);
        }
    }

    fn ensure_one_screen(help: &str, most_lines: usize) {
        assert!(help.lines().count() <= most_lines, "{help}");
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{help}");
    }
}
