//! `simdb manual` and `simdb completions`: the manual page, and what a shell needs, made of the same definitions as the
//! help of each command.

use clap_complete::{Shell, generate};
use clap_mangen::Man;

use super::answer::{Answer, CommandResult, Failure};
use super::commands::{Command, program};
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(clap::Args)]
pub(super) struct ManualArguments {}

impl Command for Arguments {
    /// Prints what a shell needs to complete commands and options.
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
