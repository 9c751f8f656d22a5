//! `simdb compact`: a dense copy in the place of a database.

use crate::Database;
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::LiveDatabase;
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The tables it is to have then, by name; `simdb plan` lists those there are [default: those it has]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

/// Puts a dense copy in the place of a database. Prints its size before and after.
pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let before = database.snapshot()?.stats()?;
    let progress = output.console().progress();
    let update = |done, all| progress.update(done, Some(all));
    match &arguments.plan {
        Some(plan) => database.compact_with_plan(plan, update)?,
        None => database.compact(update)?,
    }
    drop(progress);
    let after = database.snapshot()?.stats()?;
    let (bytes_before, bytes) = (before.allocated_bytes, after.allocated_bytes);
    output.print(
        || json!({"allocated_bytes_before": bytes_before, "allocated_bytes": bytes, "plan": after.plan}),
        || {
            let path = arguments.database.database.display();
            format!("{path}: {bytes_before} bytes before, {bytes} after, plan {}", after.plan)
        },
    );
    Ok(Answer::Yes)
}
