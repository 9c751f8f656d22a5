//! `simdb stats`: prints what a database holds.

use serde_json::{Value, json};
use simdb::Statistics;

use super::answer::{Answer, CommandResult};
use super::arguments::DatabaseArgument;
use super::open::open_to_read;
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let database = open_to_read(&arguments.database.database)?;
    let stats = database.snapshot()?.stats()?;
    let object = stats_object(&stats);
    if output.is_json() {
        output.print(|| object, String::new);
        return Ok(Answer::Yes);
    }
    for (name, value) in object.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output.print(|| Value::Null, || format!("{name}\t{value}"));
    }
    Ok(Answer::Yes)
}

/// The statistics, under the names they have in the library.
pub(super) fn stats_object(stats: &Statistics) -> Value {
    json!({
        "documents": stats.documents,
        "too_short": stats.too_short,
        "fingerprints": stats.fingerprints,
        "file_bytes": stats.file_bytes,
        "allocated_bytes": stats.allocated_bytes,
        "format_version": stats.format_version,
        "scheme": stats.scheme.name(),
        "plan": stats.plan,
        "max_distance": stats.max_distance,
        "probed_distance": stats.probed_distance,
        "created": stats.created,
        "marks": stats.marks,
        "directory_bytes": stats.directory_bytes,
        "levels": stats.levels,
    })
}
