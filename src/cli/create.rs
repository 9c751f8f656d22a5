//! `simdb create`

use simdb::{CreateOptions, Database, Scheme, Statistics};

use super::output::{Output, complain};
use super::{Answer, DatabaseArgument, Run, max_distance_parser, parse_scheme};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The distance, inclusive, at which documents match if a command names none
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: u32,

    /// How fingerprints are made from texts: `text-1`, or `external` if they are made elsewhere
    #[arg(long, value_name = "NAME", default_value_t, value_parser = parse_scheme)]
    scheme: Scheme,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Run {
    let options = CreateOptions::new().max_distance(arguments.max_distance).scheme(arguments.scheme);
    let database = Database::create(&arguments.database.database, &options)?;
    let stats = database.snapshot()?.stats()?;
    note_slow_distance(&stats);
    output.print(
        || super::stats::object(&stats),
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

/// Tells who chooses a large distance for a new database what it costs.
pub(super) fn note_slow_distance(stats: &Statistics) {
    if stats.max_distance > stats.probed_distance {
        complain(&format!(
            "note: at distances above {} a query reads every fingerprint",
            stats.probed_distance
        ));
    }
}
