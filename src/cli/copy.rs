//! `simdb compact` and `simdb backup`: dense copies of a database.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::DatabaseArgument;
use super::open::{open_to_read, open_to_write};
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Compact {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The tables it is to have then, by name; `simdb plan` lists those there are [default: those it has]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct Backup {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The copy; nothing may stand there yet
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Puts a dense copy in the place of a database. Prints its size before and after.
pub(super) fn compact(arguments: &Compact, output: &mut Output) -> CommandResult {
    let database = open_to_write(&arguments.database.database)?;
    let before = database.snapshot()?.stats()?;
    let bar = bar();
    let progress = |done, all| update(&bar, done, all);
    match &arguments.plan {
        Some(plan) => database.compact_with_plan(plan, progress)?,
        None => database.compact(progress)?,
    }
    bar.finish_and_clear();
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

/// Writes a dense copy of a database to another file.
pub(super) fn backup(arguments: &Backup, output: &mut Output) -> CommandResult {
    let database = open_to_read(&arguments.database.database)?;
    let snapshot = database.snapshot()?;
    let bar = bar();
    snapshot.backup(&arguments.to, |done, all| update(&bar, done, all))?;
    bar.finish_and_clear();
    let documents = snapshot.stats()?.documents;
    let bytes = std::fs::metadata(&arguments.to)?.len();
    output.print(
        || json!({"documents": documents, "file_bytes": bytes}),
        || format!("{}: {documents} documents, {bytes} bytes", arguments.to.display()),
    );
    Ok(Answer::Yes)
}

/// A progress bar on standard error. It is shown only on a terminal.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {percent} %, {eta} left");
    ProgressBar::no_length().with_style(style.expect("the template is a constant"))
}

fn update(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}
