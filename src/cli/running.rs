//! Running a command that asks or changes a database: here if it can be opened, otherwise by asking the process that
//! has it open.

use std::thread;
use std::time::Duration;

use crate::Error;

use super::answer::CommandResult;
use super::open::open;
use super::output::Output;
use super::verbs::DatabaseVerb;

/// How often a database that is in use is tried again if nobody answers for it, and the time in between. Its process
/// may just be opening or closing it.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(40);

/// Whether a process has the database open and answers for it.
pub(super) fn is_answered(verb: &DatabaseVerb) -> Result<bool, super::answer::Failure> {
    #[cfg(unix)]
    return match verb.socket() {
        Some(socket) => super::client::connect_to(socket).map(|_| true),
        None => super::client::connect_beside(verb.database()).map(|stream| stream.is_some()),
    };
    #[cfg(not(unix))]
    Ok(false)
}

/// Opens the database and runs the command, or asks whoever has it open.
pub(super) fn run(verb: &DatabaseVerb, output: &mut Output) -> CommandResult {
    let path = verb.database();
    if let Some(heading) = verb.heading().filter(|_| !output.is_json()) {
        output.console().head(heading);
    }
    #[cfg(unix)]
    if let Some(socket) = verb.socket() {
        let stream = super::client::connect_to(socket)?;
        return ask(verb, &stream, output);
    }
    for tries in 1.. {
        match open(path, verb.opening()) {
            Ok(database) => return verb.run(&database, output),
            #[cfg(unix)]
            Err(busy @ Error::Busy { .. }) => match super::client::connect_beside(path)? {
                Some(stream) => return ask(verb, &stream, output),
                None if tries == TRIES => return Err(super::client::nobody_answers(&busy)),
                None => thread::sleep(PAUSE),
            },
            Err(error) => return verb.cannot_open(error, output),
        }
    }
    unreachable!("the tries come to an end")
}

/// Asks the process at the other end.
#[cfg(unix)]
fn ask(
    verb: &DatabaseVerb,
    stream: &std::os::unix::net::UnixStream,
    output: &Output,
) -> CommandResult {
    verb.ensure_others_can_read()?;
    super::client::ask(
        stream,
        verb.database(),
        verb.reads_standard_input(),
        output.console(),
    )
}
