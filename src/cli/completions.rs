//! `simdb completions`: what a shell needs to complete the commands and options of the program.

use clap_complete::{Shell, generate};

use super::answer::{Answer, CommandResult};
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(
    arguments: &Arguments,
    mut program: clap::Command,
    output: &mut Output,
) -> CommandResult {
    let mut script = Vec::new();
    generate(arguments.shell, &mut program, "simdb", &mut script);
    output.print_text(&String::from_utf8_lossy(&script));
    Ok(Answer::Yes)
}
