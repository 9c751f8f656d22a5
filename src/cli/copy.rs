//! `simdb compact` and `simdb backup`

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use simdb::Database;

use super::output::Output;
use super::{Answer, DatabaseArgument, Run, open_to_read, open_to_write};

#[derive(clap::Args)]
pub(super) struct Compact {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,
}

#[derive(clap::Args)]
pub(super) struct Backup {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The copy; nothing may stand there yet
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Makes a database dense, and prints its sizes before and after.
pub(super) fn compact(arguments: &Compact, output: &mut Output) -> Run {
    let database = open_to_write(&arguments.database.database)?;
    let before = allocated(&database)?;
    let bar = bar();
    database.compact(|done, all| update(&bar, done, all))?;
    bar.finish_and_clear();
    let after = allocated(&database)?;
    output.print(
        || json!({"allocated_bytes_before": before, "allocated_bytes": after}),
        || format!("{}: {before} bytes before, {after} after", arguments.database.database.display()),
    );
    Ok(Answer::Yes)
}

/// Makes a dense copy of a database.
pub(super) fn backup(arguments: &Backup, output: &mut Output) -> Run {
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

fn allocated(database: &Database) -> Result<u64, simdb::Error> {
    Ok(database.snapshot()?.stats()?.allocated_bytes)
}

/// Shown on a terminal only.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {percent} %, {eta} left");
    ProgressBar::no_length().with_style(style.expect("the template is a constant"))
}

fn update(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}
