//! `simdb stats`: prints what a database holds.

use crate::{Cache, Database, Statistics};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, cache_parser};
use super::output::Output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The most memory for what is read of the file, in bytes or as a share of the memory, such as 50%
    /// [default: 25%]
    #[arg(long, value_name = "BYTES", value_parser = cache_parser)]
    pub(super) cache: Option<Cache>,
}

pub(super) fn run(arguments: &Arguments, database: &Database, output: &mut Output) -> CommandResult {
    match arguments.cache {
        Some(_) if output.console().is_of_client() => {
            output.complain(
                "--cache is passed over: the cache is that of the process that has the database open",
            );
        }
        Some(cache) => database.set_cache(cache)?,
        None => {}
    }
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
    if !stats.tables_fit {
        output.complain(&advice(&stats));
    }
    Ok(Answer::Yes)
}

/// What it would take if the tables do not fit.
fn advice(stats: &Statistics) -> String {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    format!(
        "the permuted tables do not fit into the cache of {}, so queries read the file; they fit from {} on, and \
         with the postings from {} on",
        megabytes(stats.cache_limit_bytes),
        megabytes(stats.tables_need_bytes),
        megabytes(stats.queries_need_bytes)
    )
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
        "sketch_bytes": stats.sketch_size.bytes(),
        "min_similarity": stats.min_similarity.unwrap_or_default(),
        "probed_distance": stats.probed_distance,
        "created": stats.created,
        "marks": stats.marks,
        "directory_bytes": stats.directory_bytes,
        "cache_limit_bytes": stats.cache_limit_bytes,
        "cache_bytes": stats.cache_bytes,
        "table_bytes": stats.table_bytes,
        "posting_bytes": stats.posting_bytes,
        "tables_need_bytes": stats.tables_need_bytes,
        "queries_need_bytes": stats.queries_need_bytes,
        "tables_fit": stats.tables_fit,
        "levels": stats.levels,
    })
}
