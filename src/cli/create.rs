//! `simdb create`: creates a database.

use simdb::{CreateOptions, Database, Scheme};

use super::answer::{Answer, CommandResult};
use super::arguments::{DatabaseArgument, Preference, max_distance_parser, parse_scheme};
use super::output::Output;
use super::stats::stats_object;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The distance, inclusive, at which documents match if a command names none
    #[arg(
        long,
        value_name = "K",
        default_value_t = 3,
        value_parser = max_distance_parser(),
        allow_negative_numbers = true
    )]
    max_distance: u32,

    /// How many documents there will be; the tables are chosen for so many
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    expect: u64,

    /// What matters in the choice of the tables
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, conflicts_with = "plan")]
    prefer: Preference,

    /// The tables, by name: `simdb plan` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "expect")]
    plan: Option<String>,

    /// How fingerprints are made from texts: `simhash-1`, `minwise-1`, `content-1` for the main content
    /// of HTML pages, or `external` if they are made elsewhere
    #[arg(long, value_name = "NAME", default_value_t, value_parser = parse_scheme)]
    scheme: Scheme,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let mut options = CreateOptions::new()
        .max_distance(arguments.max_distance)
        .scheme(arguments.scheme)
        .expected_documents(arguments.expect)
        .prefer(arguments.prefer.into());
    if let Some(plan) = &arguments.plan {
        options = options.plan(plan);
    }
    let database = Database::create(&arguments.database.database, &options)?;
    let stats = database.snapshot()?.stats()?;
    output.print(
        || stats_object(&stats),
        || {
            format!(
                "created {}: scheme {}, plan {}, max distance {}",
                arguments.database.database.display(),
                stats.scheme,
                stats.plan,
                stats.max_distance
            )
        },
    );
    Ok(Answer::Yes)
}
