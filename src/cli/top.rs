//! The arguments of `simdb top`.

use std::time::Duration;

use super::arguments::LiveDatabase;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The seconds from one look to the next, 0.1 or more
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(super) every: Duration,

    /// How often it is looked [default: until Ctrl-C, or until nobody has the database open]
    #[arg(long, short = 'n', value_name = "N", value_parser = super::units::positive_count::<u64>)]
    pub(super) count: Option<u64>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "must be 0.1 to 86400 seconds".to_owned())
}
