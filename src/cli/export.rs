//! `simdb export`: from a database to a Parquet file.

use std::path::PathBuf;

use crate::parquet::Export;
use crate::{Database, Error};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::apart::ensure_replaceable;
use super::arguments::LiveDatabase;
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The Parquet file; nothing may stand there yet
    #[arg(value_name = "OUT")]
    to: PathBuf,

    /// Write the payloads too
    #[arg(long)]
    payload: bool,

    /// Put the new file in the place of an old one
    #[arg(long)]
    replace: bool,
}

/// Writes all documents to a Parquet file.
pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let to = output.console().place_of(&arguments.to);
    ensure_replaceable(&to, Some(database.path()), [])?;
    let progress = output.console().progress_of("documents");
    let export = Export::of(&snapshot)
        .payloads(arguments.payload)
        .replace(arguments.replace);
    let exported = export.run(&to, |done, all| progress.update(done, Some(all)));
    drop(progress);
    let path = &arguments.to;
    let exported = match exported {
        Err(Error::AlreadyExists { .. }) => {
            return Err(Error::AlreadyExists { path: path.clone() }.into());
        }
        exported => exported?,
    };
    let left_out = exported.payloads_left_out;
    if left_out > 0 {
        output.remark(&format!(
            "the payloads of {left_out} documents were left out; --payload writes them too"
        ));
    }
    let documents = exported.documents;
    let bytes = exported.bytes;
    output.print_record(
        &json!({"documents": documents, "file_bytes": bytes}),
        &format!("{}: {documents} documents, {bytes} bytes", path.display()),
    );
    Ok(Answer::Yes)
}
