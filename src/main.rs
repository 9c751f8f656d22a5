//! The command-line program: parse, run, print an error chain once, return the code.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let command = match cli::Cli::try_parse() {
        Ok(command) => command,
        Err(error) => {
            // Help and version are answers and go to standard output; everything else is a wrong argument.
            let answered = !error.use_stderr();
            _ = error.print();
            return if answered { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match cli::run(&command) {
        Ok(answer) => answer.into(),
        Err(error) => {
            cli::complain(&chain(error.as_ref()));
            cli::Answer::CouldNotTell.into()
        }
    }
}

/// An error and its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
