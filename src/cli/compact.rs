//! `simdb compact` and `simdb backup`: a dense copy, in the place of a database or in another file.

use std::path::{Path, PathBuf};

use crate::{Database, Error};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::LiveDatabase;
use super::output::Output;
use super::standing::{ensure_is_backup, print_complete};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The tables it is to have then, by name; `simdb plan` lists those there are [default: those it has]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct BackupArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The copy; nothing may stand there yet, but such a copy
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Puts a dense copy in the place of a database. Prints its size before and after.
pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let before = database.snapshot()?.stats()?.allocated_bytes;
    let progress = output.console().progress();
    let update = |done, all| progress.update(done, Some(all));
    match &arguments.plan {
        Some(plan) => database.compact_with_plan(plan, update)?,
        None => database.compact(update)?,
    }
    drop(progress);

    let stats = database.snapshot()?.stats()?;
    let after = stats.allocated_bytes;
    let plan = stats.plan;
    let path = arguments.database.database.display();
    output.print_record(
        &json!({"allocated_bytes_before": before, "allocated_bytes": after, "plan": plan}),
        &format!("{path}: {before} bytes before, {after} after, plan {plan}"),
    );
    Ok(Answer::Yes)
}

/// Writes a dense copy of a database to another file.
pub(super) fn backup(
    arguments: &BackupArguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let to = output.console().place_of(&arguments.to);
    let progress = output.console().progress();
    let copied = snapshot.backup_with(&to, |done, all| progress.update(done, Some(all)));
    drop(progress);

    let copied = match copied {
        Err(Error::AlreadyExists { .. }) => ensure_is_backup(&to, database, &snapshot)
            .map(|()| print_complete(&arguments.to, output)),
        copied => copied,
    };
    copied.map_err(|error| as_given(error, &to, &arguments.to))?;

    let documents = snapshot.stats()?.documents;
    let bytes = std::fs::metadata(&to)?.len();
    let path = arguments.to.display();
    output.print_record(
        &json!({"documents": documents, "file_bytes": bytes}),
        &format!("{path}: {documents} documents, {bytes} bytes"),
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
