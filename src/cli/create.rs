//! `simdb create`: creates a database. `simdb serve`: opens or creates one for other processes, until it is told to
//! end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::serve::ensure_free_beside;
use crate::{CreateOptions, Database, Error, Prefer, Scheme, SketchSize};

use super::answer::{Answer, CommandResult};
use super::arguments::{
    Given as _, expected_documents, max_distance_parser, named_file, similarity_parser,
};
use super::commands::Command;
use super::console::break_if;
use super::output::Output;
#[cfg(unix)]
use super::remote::ensure_not_removed;
use super::stats::{seconds, stats_object};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The database file
    #[arg(value_name = "DB", value_parser = named_file())]
    database: PathBuf,

    #[command(flatten)]
    settings: NewDatabase,
}

#[derive(clap::Args)]
pub(super) struct ServeArguments {
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

/// What a database is created with. What is not given is as [`CreateOptions`] has it.
#[derive(clap::Args)]
struct NewDatabase {
    /// The largest distance at which documents match, if a command names no other [default: with
    /// sketches 8, for simhash-2 10; without sketches or with --min-similarity 0: 5, for simhash-1 and external 3]
    #[arg(long, value_name = "K", value_parser = max_distance_parser, allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The size of the sketch of each document, in bytes; sketches tell how similar documents are [default:
    /// 16; 0 for external]
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchSize>,

    /// The least similarity, 0 to 1, at which documents match, if a command names no other [default: 0.7 for texts
    /// with sketches, otherwise 0]
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    min_similarity: Option<f64>,

    /// How many documents there will be; the tables are chosen for so many [default: 1000000]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = expected_documents, allow_negative_numbers = true)]
    expect: Option<u64>,

    /// What the tables are chosen for
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        default_value_t,
        conflicts_with = "plan"
    )]
    prefer: Prefer,

    /// The tables, by name: `simdb plan` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "expect")]
    plan: Option<String>,

    /// How fingerprints are made from texts: `simhash-1`, `simhash-2`, `minwise-1`, `minwise-short-1` for
    /// sentences, `content-1` for the main content of HTML pages, or `external` if they are made elsewhere
    /// [default: minwise-1]
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,
}

impl NewDatabase {
    fn options(&self) -> CreateOptions {
        CreateOptions::new()
            .prefer(self.prefer)
            .given(self.expect, CreateOptions::expected_documents)
            .given(self.scheme, CreateOptions::scheme)
            .given(self.max_distance, CreateOptions::max_distance)
            .given(self.sketch, CreateOptions::sketch_size)
            .given(self.min_similarity, CreateOptions::min_similarity)
            .given(self.plan.as_ref(), CreateOptions::plan)
    }
}

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        #[cfg(unix)]
        ensure_not_removed(&self.database, &output.console().place_of(&self.database))?;
        let database = Database::create(&self.database, &self.settings.options())?;
        let stats = database.snapshot()?.stats()?;
        let mut line = format!(
            "created {}: scheme {}, plan {}, max distance {}",
            self.database.display(),
            stats.scheme,
            stats.plan,
            stats.max_distance
        );
        if let Some(least) = stats.min_similarity {
            line += &format!(", least similarity {least}");
        }
        output.print_record(&stats_object(&stats), &line);
        Ok(Answer::Yes)
    }

    fn database(&self) -> Option<&Path> {
        Some(&self.database)
    }
}

/// Puts into memory what queries read, unless the process is to end before.
fn warm(database: &Database, is_ending: &AtomicBool) {
    // What cannot be read is told to who asks for it.
    _ = database.warm(|_, _| break_if(is_ending.load(Ordering::Relaxed)));
}

impl ServeArguments {
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
            break_if(output.console().is_ended() || is_idle)
        })
    }
}

impl Command for ServeArguments {
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
