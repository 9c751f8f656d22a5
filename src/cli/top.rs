//! `simdb top`: what `simdb stats` prints, again and again, of a database that is in use.

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use crate::Database;

use super::answer::{Answer, CommandResult, Failure};
use super::output::Output;
#[cfg(unix)]
use super::remote::Remote;
use super::stats::{self, Detail};
use super::units;
use super::verbs::{self, LiveDatabase, Verb};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    database: LiveDatabase,

    /// Print every so many seconds, 0.1 or more
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    every: Duration,

    /// Tell more: tables, levels, cache, commits
    #[arg(long)]
    verbose: bool,

    /// How many times to print [default: until Ctrl-C, or until nobody has the database open]
    #[arg(long, short = 'n', value_name = "N", value_parser = units::positive_count::<u64>)]
    count: Option<u64>,
}

/// Parses a time: `1`, `0.5`, `60s`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds @ 0.1..=86_400.0) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be 0.1 to 86400 seconds".to_owned()),
    }
}

impl Verb for Arguments {
    fn database(&self) -> &LiveDatabase {
        &self.database
    }

    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        stats::print(database, Detail::all_if(self.verbose), output)
    }

    fn run_alone(&self, output: &mut Output) -> Option<CommandResult> {
        Some(self.watch(output))
    }
}

impl Arguments {
    /// Prints what `simdb stats` does, again and again, of a database in use.
    ///
    /// Asks the process that has the database open, until it closes it. A database that nobody has open is looked
    /// at once: to open it every second could keep others from opening it.
    fn watch(&self, output: &mut Output) -> CommandResult {
        let is_terminal = io::stdout().is_terminal() && !output.is_json();
        for round in 1.. {
            if !is_answered(&self.database)? {
                let answer = verbs::run(self, output)?;
                output.remark("nobody has the database open, so nothing changes");
                return Ok(answer);
            }
            // To the first place of the screen, and all of it empty.
            let between = if is_terminal { "\x1b[H\x1b[2J" } else { "\n" };
            if is_terminal || (round > 1 && !output.is_json()) {
                match output.console().write(between.as_bytes()) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        return Ok(Answer::Yes);
                    }
                    written => written?,
                }
            }
            let answer = verbs::run(self, output)?;
            output.flush()?;
            if output.is_closed() || self.count == Some(round) {
                return Ok(answer);
            }
            thread::sleep(self.every);
        }
        unreachable!("the rounds have no end")
    }
}

/// Whether a process has the database open and answers for it.
#[cfg(unix)]
fn is_answered(database: &LiveDatabase) -> Result<bool, Failure> {
    Ok(Remote::connect(database)?.is_some())
}

/// On other systems, no process answers for another.
#[cfg(not(unix))]
fn is_answered(_database: &LiveDatabase) -> Result<bool, Failure> {
    Ok(false)
}
