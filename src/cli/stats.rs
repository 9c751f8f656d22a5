//! `simdb stats`: prints what a database holds.

use crate::{Cache, Database, Statistics};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::LiveDatabase;
use super::output::{Output, key_fields};
use super::overview::Overview;
use super::units::cache;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The most memory for what is read of the file, such as 2GB, or a share of the memory, such as 50%
    /// [default: 25%]
    #[arg(long, value_name = "BYTES", value_parser = cache)]
    pub(super) cache: Option<Cache>,

    /// Print the counters of the process that has the database open, as text for Prometheus
    #[arg(long)]
    prometheus: bool,
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    match arguments.cache {
        Some(_) if output.console().is_of_client() => {
            output.complain(
                "--cache is passed over: the cache is that of the process that has the database open",
            );
        }
        Some(cache) => database.set_cache(cache)?,
        None => {}
    }
    if arguments.prometheus {
        if output.is_json() {
            return Err(
                "--prometheus prints text for Prometheus, so it cannot be used with --json".into(),
            );
        }
        if !output.console().is_of_client() {
            let reason = "no process has it open to write, and --prometheus prints the counters of that process; \
                          `simdb stats` without it prints what the file holds";
            return Err(format!("{}: {reason}", arguments.database.database.display()).into());
        }
        output.print_text(&database.metrics().prometheus());
        return Ok(Answer::Yes);
    }
    print(database, output)
}

/// Prints all, in words or as an object.
pub(super) fn print(database: &Database, output: &mut Output) -> CommandResult {
    let overview = Overview::of(database)?;
    if output.is_json() {
        let has_process = output.console().is_of_client();
        output.print(|| overview_object(&overview, has_process), String::new);
    } else {
        overview
            .lines()
            .into_iter()
            .for_each(|line| output.print(|| Value::Null, || line));
    }
    Ok(Answer::Yes)
}

/// The statistics, and what else is told of a database. If no process has it open, nothing is told of one.
fn overview_object(overview: &Overview, has_process: bool) -> Value {
    let mut object = stats_object(&overview.stats);
    let metrics = has_process.then_some(&overview.metrics);
    object["snapshots"] = metrics.map(|it| it.snapshots).into();
    object["pinned_bytes"] = metrics.map(|it| it.pinned_bytes).into();
    object["oldest_pin_seconds"] = metrics
        .and_then(|it| it.oldest_pin)
        .map(|it| it.as_secs_f64())
        .into();
    let groups = overview
        .groups
        .iter()
        .flat_map(|it| &it.groups)
        .map(|group| {
            let mut fields = key_fields(Some(&group.newest_key));
            fields.insert(
                "fingerprint".to_owned(),
                group.fingerprint.to_string().into(),
            );
            fields.insert("documents".to_owned(), group.documents.into());
            Value::Object(fields)
        });
    object["largest_groups"] = groups.collect();
    let prefixes = overview
        .prefixes
        .iter()
        .flat_map(|it| &it.prefixes)
        .map(|prefix| {
            json!({
                "table": prefix.table,
                "prefix_bits": prefix.prefix_bits,
                "mask": format!("{:016x}", prefix.mask),
                "bits": format!("{:016x}", prefix.bits),
                "rows": prefix.rows,
                "expected": prefix.expected,
            })
        });
    object["fullest_prefixes"] = prefixes.collect();
    object["advice"] = overview.advice().into();
    object
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
