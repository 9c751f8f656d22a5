//! The answer of a command or its error, and what the program makes of them: an exit code, a message.

use std::process::ExitCode;

/// The answer of a command. It decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// An error gives this answer too.
    CouldNotTell,
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

    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::CouldNotTell => 2,
        }
    }

    /// The answer of an exit code.
    pub(super) fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Yes,
            1 => Self::No,
            _ => Self::CouldNotTell,
        }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        Self::from(answer.code())
    }
}

/// Why a command could not answer.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type CommandResult = Result<Answer, Failure>;

/// An error and its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
