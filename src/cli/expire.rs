//! `simdb expire`: removes documents by time, by scope, or by both.

use std::ops::ControlFlow;

use crate::{Database, Expiry};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::{DatabaseArgument, parse_time};
use super::open::open_to_write;
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// Remove documents seen before this time (Unix seconds, or as in RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true)]
    before: i64,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let database = open_to_write(&arguments.database.database)?;
    let expiry = Expiry::new().before(arguments.before);
    let scopes = &arguments.scope;
    expire(&database, &if scopes.is_empty() { expiry } else { expiry.scopes(scopes) }, output)
}

/// Removes documents and prints how many. The same command can be run again after it was stopped.
pub(super) fn expire(database: &Database, expiry: &Expiry, output: &mut Output) -> CommandResult {
    let style = ProgressStyle::with_template("{pos} documents removed, {per_sec}");
    let bar = ProgressBar::no_length().with_style(style.expect("the template is a constant"));
    let removed = database.expire(expiry, |removed| {
        bar.set_position(removed);
        ControlFlow::Continue(())
    })?;
    bar.finish_and_clear();
    output.print(|| json!({"removed": removed}), || format!("removed {removed} documents"));
    Ok(Answer::Yes)
}
