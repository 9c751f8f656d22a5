//! `simdb top`: what `simdb stats` prints, again and again, of a database in use.

use std::time::Duration;

use super::arguments::LiveDatabase;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The seconds from one look to the next, 0.1 or more
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    every: Duration,

    /// How often it is looked [default: until Ctrl-C, or until nobody has the database open]
    #[arg(long, short = 'n', value_name = "N", value_parser = super::units::positive_count::<u64>)]
    count: Option<u64>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "must be 0.1 to 86400 seconds".to_owned())
}

#[cfg(feature = "cli")]
mod watching {
    use std::io::{self, IsTerminal};
    use std::thread;

    use super::Arguments;
    use crate::cli::answer::{Answer, CommandResult};
    use crate::cli::live::Live;
    use crate::cli::output::Output;
    use crate::cli::running;

    impl Arguments {
        /// Asks the process that has the database open, until it closes it. A database that nobody has open is looked
        /// at once: to open it every second could keep others from opening it.
        pub(in crate::cli) fn watch(&self, live: &Live, output: &mut Output) -> CommandResult {
            let is_terminal = io::stdout().is_terminal() && !output.is_json();
            for round in 1.. {
                if !running::is_answered(live)? {
                    let answer = running::run(live, output)?;
                    output.remark("nobody has the database open, so nothing changes");
                    return Ok(answer);
                }
                // To the first place of the screen, and all of it empty.
                let between = if is_terminal { "\x1b[H\x1b[2J" } else { "\n" };
                let is_needed = is_terminal || (round > 1 && !output.is_json());
                match output.console().write(if is_needed { between.as_bytes() } else { b"" }) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Answer::Yes),
                    written => written?,
                }
                let answer = running::run(live, output)?;
                output.flush()?;
                if output.is_closed() || self.count == Some(round) {
                    return Ok(answer);
                }
                thread::sleep(self.every);
            }
            unreachable!("the rounds have no end")
        }
    }
}
