//! `simdb expire`: removes documents by time, by scope, or by both.

use crate::{Database, Expiry};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, parse_time};
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Remove documents seen before this time (Unix seconds, or as in RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true)]
    before: i64,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, database: &Database, output: &mut Output) -> CommandResult {
    let expiry = Expiry::new().before(arguments.before);
    let scopes = &arguments.scope;
    expire(database, &if scopes.is_empty() { expiry } else { expiry.scopes(scopes) }, output)
}

/// Removes documents and prints how many. The same command can be run again after it was stopped.
pub(super) fn expire(database: &Database, expiry: &Expiry, output: &mut Output) -> CommandResult {
    let progress = output.console().progress_of("documents removed");
    let removed = database.expire(expiry, |removed| progress.update(removed, None))?;
    drop(progress);
    output.print(|| json!({"removed": removed}), || format!("removed {removed} documents"));
    Ok(Answer::Yes)
}
