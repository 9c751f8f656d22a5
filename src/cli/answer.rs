//! The answer of a command or its error, and what the program makes of them: an exit code, a message.

use std::env;
use std::error::Error as StdError;
use std::path::Path;
use std::process::ExitCode;

use super::output::Output;
use crate::Error;

/// The answer of a command. Its number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes = 0,
    No = 1,
    /// An error gives this answer too.
    CouldNotTell = 2,
}

impl Answer {
    pub(super) fn yes_if(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }

    /// Yes, unless something is missing from what was done.
    pub(super) fn yes_unless(incomplete: bool) -> Self {
        if incomplete {
            Self::CouldNotTell
        } else {
            Self::Yes
        }
    }
}

/// The answer of an exit code.
impl From<u8> for Answer {
    fn from(code: u8) -> Self {
        match code {
            0 => Self::Yes,
            1 => Self::No,
            _ => Self::CouldNotTell,
        }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        Self::from(answer as u8)
    }
}

/// Why a command could not answer.
pub(super) type Failure = Box<dyn StdError + Send + Sync>;
pub(super) type CommandResult = Result<Answer, Failure>;

/// That something cannot be kept in the folder for temporary files, and what helps. The files in it have names that
/// nobody knows.
pub(super) fn cannot_keep(error: &dyn StdError) -> String {
    format!(
        "{}: this folder for temporary files cannot be used: {}; make room there, or let TMPDIR name another one",
        env::temp_dir().display(),
        Error::with_causes(error)
    )
}

/// Prints what is still to be printed, and says what an error is about. `when_ended` is printed if nobody wanted the
/// command any more.
pub(super) fn finish(
    answer: CommandResult,
    output: &mut Output,
    database: Option<&Path>,
    when_ended: Option<&str>,
) -> CommandResult {
    // What was printed before a failure is still true.
    let flushed = output.flush();
    let answer = answer.map_err(|error| {
        if !matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            return name_databases(error, database.as_slice());
        }
        if let Some(when_ended) = when_ended {
            output.tell_end(when_ended);
        }
        error
    })?;
    flushed?;
    Ok(answer)
}

/// Names the databases of which an error may be about each, unless it names its file or is about none.
pub(super) fn name_databases(error: Failure, databases: &[&Path]) -> Failure {
    let error = match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => return error,
    };
    let needs_no_name = matches!(
        *error,
        Error::Io { .. }
            | Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Busy { .. }
            | Error::NotSimdb { .. }
            | Error::NotSalvaged { .. }
            | Error::NeedsRecovery { .. }
            | Error::NoRoom { .. }
            | Error::Removed { .. }
            | Error::SeveralNames { .. }
            | Error::OwnerNotKept { .. }
            | Error::Input { .. }
            | Error::Output { .. }
            | Error::SpillFile { .. }
            | Error::NoThread(_)
    );
    if needs_no_name || databases.is_empty() {
        return error;
    }
    let names = databases.iter().map(|path| path.display().to_string());
    let mut names: Vec<_> = names.collect();
    // A database may be compared with itself.
    names.dedup();
    let names = names.join(" or ");
    format!("{names}: {}", Error::with_causes(&*error)).into()
}
