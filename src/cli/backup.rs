//! `simdb backup`: a dense copy of a database in another file.

use std::path::PathBuf;

use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::DatabaseArgument;
use super::open::open_to_read;
use super::output::Output;
use super::progress::{bar, update};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The copy; nothing may stand there yet
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Writes a dense copy of a database to another file.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
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
