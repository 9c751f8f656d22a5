//! `simdb serve`: opens a database for other processes, until it is told to end.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::serve::ensure_free_beside;
use crate::{Database, Error};

use super::answer::{Answer, CommandResult};
use super::arguments::named_file;
use super::commands::Command;
use super::create::NewDatabase;
use super::output::Output;
use super::stats::seconds;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The database file; created if it does not exist
    #[arg(value_name = "DB", value_parser = named_file())]
    database: PathBuf,

    /// End when nobody was connected for so many seconds [default: go on until Ctrl-C or SIGTERM]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until_idle: Option<Duration>,

    /// Put into memory what queries read, as far as there is room
    ///
    /// Others are answered meanwhile. Without it, the first queries of a large file are slower
    #[arg(long)]
    warm: bool,

    #[command(flatten)]
    settings: NewDatabase,
}

/// Puts into memory what queries read, unless the process is to end before.
fn warm(database: &Database, is_ending: &AtomicBool) {
    // What cannot be read is told to who asks for it.
    _ = database.warm(|_, _| match is_ending.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
}

impl Arguments {
    /// Serves until it is to end.
    fn serve(&self, database: &Database, output: &Output) -> Result<(), Error> {
        let mut has_said = false;
        database.serve_until(|server| {
            if !has_said {
                output.remark(&format!("serves at {}", server.path().display()));
                has_said = true;
            }
            let is_idle = self
                .until_idle
                .is_some_and(|most| server.idle_for() >= most);
            match output.console().is_ended() || is_idle {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }
}

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        ensure_free_beside(&self.database)?;
        let database = Database::open_or_create(&self.database, &self.settings.options())?;
        let is_ending = AtomicBool::new(false);
        thread::scope(|scope| {
            if self.warm {
                let thread = thread::Builder::new().name("simdb-warm".to_owned());
                // Without a thread, memory fills as queries come.
                _ = thread.spawn_scoped(scope, || warm(&database, &is_ending));
            }
            let served = self.serve(&database, output);
            is_ending.store(true, Ordering::Relaxed);
            served
        })?;
        database.close()?;
        Ok(Answer::Yes)
    }

    fn database(&self) -> Option<&Path> {
        Some(&self.database)
    }

    fn ends_in_order(&self) -> bool {
        true
    }
}
