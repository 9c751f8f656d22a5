//! `simdb top`: what `simdb stats` prints, again and again, of a database in use.

use std::io::{self, IsTerminal};
use std::thread;

use super::answer::{Answer, CommandResult};
use super::output::Output;
use super::running;
use super::stats::TopArguments;
use super::verbs::DatabaseVerb;

/// Asks the process that has the database open, until it closes it. A database that nobody has open is looked
/// at once: to open it every second could keep others from opening it.
pub(super) fn watch(
    verb: &DatabaseVerb,
    arguments: &TopArguments,
    output: &mut Output,
) -> CommandResult {
    let is_terminal = io::stdout().is_terminal() && !output.is_json();
    for round in 1.. {
        if !running::is_answered(verb)? {
            let answer = running::run(verb, output)?;
            output.remark("nobody has the database open, so nothing changes");
            return Ok(answer);
        }
        // To the first place of the screen, and all of it empty.
        let between = if is_terminal { "\x1b[H\x1b[2J" } else { "\n" };
        if is_terminal || (round > 1 && !output.is_json()) {
            match output.console().write(between.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Answer::Yes),
                written => written?,
            }
        }
        let answer = running::run(verb, output)?;
        output.flush()?;
        if output.is_closed() || arguments.count == Some(round) {
            return Ok(answer);
        }
        thread::sleep(arguments.every);
    }
    unreachable!("the rounds have no end")
}
