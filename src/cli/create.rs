//! `simdb create`

use simdb::{CreateOptions, Database, Scheme};

use super::output::Output;
use super::{Answer, DatabaseArgument, Run, max_distance_parser, parse_scheme};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    database: DatabaseArgument,

    /// The distance, inclusive, at which documents match if a command names none
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = max_distance_parser())]
    max_distance: u32,

    /// How fingerprints are made from texts: `text-1`, or `external` if they are made elsewhere
    #[arg(long, value_name = "NAME", default_value_t, value_parser = parse_scheme)]
    scheme: Scheme,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Run {
    let options = CreateOptions::new().max_distance(arguments.max_distance).scheme(arguments.scheme);
    let database = Database::create(&arguments.database.database, &options)?;
    let stats = database.snapshot()?.stats()?;
    if stats.max_distance > stats.probed_distance {
        eprintln!(
            "simdb: note: at distances above {} a query reads every fingerprint",
            stats.probed_distance
        );
    }
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
    )?;
    Ok(Answer::Yes)
}
