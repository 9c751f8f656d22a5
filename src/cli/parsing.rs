//! From the arguments of the process to a command. What is wrong with them is printed on standard error, in colours if
//! they are wanted, and without what a hostile argument could do to a terminal.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{MAIN_SEPARATOR, Path};
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, Parser, ValueEnum as _};

use super::answer::Answer;
use super::escaping::{harmless, is_risky};

/// Parses the arguments of the process. If they are no command, prints why and returns the answer of the program.
pub(super) fn parse<Cli: Parser>(
    program: clap::Command,
    arguments: &[OsString],
) -> Result<Cli, Answer> {
    let mut command = program.color(colour(arguments));
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
             documents as JSON Lines, `simdb ingest` reads them"
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
