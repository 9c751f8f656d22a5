//! The command-line program: parses the arguments, runs the command, prints an error once, returns the exit
//! code.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cli::let_long_writes_fail();
    let command = match cli::Cli::try_parse() {
        Ok(command) => command,
        Err(error) => {
            // Help and version are answers and go to standard output. Everything else means a wrong argument.
            let answered = !error.use_stderr();
            _ = error.print();
            return if answered { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match cli::run(&command) {
        Ok(answer) => answer.into(),
        Err(error) => {
            cli::complain(&cli::chain(error.as_ref()));
            cli::Answer::CouldNotTell.into()
        }
    }
}
