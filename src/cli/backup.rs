//! `simdb backup`: a dense copy of a database in another file.

use std::path::{Path, PathBuf};

use crate::{Database, Error};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::LiveDatabase;
use super::output::Output;
use super::standing::{ensure_is_backup, tell_complete};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The copy; nothing may stand there yet, but such a copy
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Writes a dense copy of a database to another file.
pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let to = output.console().place_of(&arguments.to);
    let progress = output.console().progress();
    let copied = snapshot.backup(&to, |done, all| progress.update(done, Some(all)));
    drop(progress);
    let made = match copied {
        Err(Error::AlreadyExists { .. }) => ensure_is_backup(&to, database, &snapshot)
            .map(|()| tell_complete(&arguments.to, output)),
        copied => copied,
    };
    made.map_err(|error| as_given(error, &to, &arguments.to))?;
    let documents = snapshot.stats()?.documents;
    let bytes = std::fs::metadata(&to)?.len();
    output.print(
        || json!({"documents": documents, "file_bytes": bytes}),
        || {
            format!(
                "{}: {documents} documents, {bytes} bytes",
                arguments.to.display()
            )
        },
    );
    Ok(Answer::Yes)
}

/// The error with the path of the copy as it was given.
fn as_given(error: Error, place: &Path, given: &Path) -> Error {
    let path = given.to_owned();
    match error {
        Error::AlreadyExists { path: named } if named == place => Error::AlreadyExists { path },
        Error::Io {
            path: named,
            source,
        } if named == place => Error::Io { path, source },
        error => error,
    }
}
