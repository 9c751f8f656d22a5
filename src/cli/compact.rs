//! `simdb compact` and `simdb backup`: a dense copy, in the place of a database or in another file.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::named_file;
use super::output::Output;
use super::output_files::{StandingDatabase, are_same_file, print_complete};
use super::verbs::{LiveDatabase, Opening, Verb};
use crate::plural::counted;
use crate::{CreateOptions, Database, Error, Snapshot};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The new tables, by name; `simdb plan` lists the names [default: the tables it has]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct BackupArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The file of the copy; it must not exist yet, unless it holds the same copy
    #[arg(value_name = "TO", value_parser = named_file())]
    to: PathBuf,
}

impl Verb for Arguments {
    fn opening(&self) -> Opening {
        Opening::Write
    }

    /// Puts a dense copy in the place of a database. Prints its size before and after.
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let before = database.snapshot()?.stats()?.allocated_bytes;
        let progress = output.console().progress();
        match &self.plan {
            Some(plan) => database.compact_with_plan(plan, progress.steps())?,
            None => database.compact(progress.steps())?,
        }
        drop(progress);

        let stats = database.snapshot()?.stats()?;
        let after = stats.allocated_bytes;
        let plan = stats.plan;
        let path = self.database.path.display();
        output.print_record(
            &json!({"allocated_bytes_before": before, "allocated_bytes": after, "plan": plan}),
            &format!("{path}: {before} bytes before, {after} after, plan {plan}"),
        );
        Ok(Answer::Yes)
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some("ended before it was done: the database is as it was; the same command begins anew")
    }
}

impl Verb for BackupArguments {
    /// Writes a dense copy of a database to another file.
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let snapshot = database.snapshot()?;
        let to = output.console().place_of(&self.to);
        let progress = output.console().progress();
        let copied = snapshot.backup_with(&to, progress.steps());
        drop(progress);

        let copied = match copied {
            Err(Error::AlreadyExists { .. }) if !are_same_file(&to, database.path()) => {
                ensure_is_backup(&to, &snapshot).map(|()| print_complete(&self.to, output))
            }
            copied => copied,
        };
        copied.map_err(|error| as_given(error, &to, &self.to))?;

        let documents = snapshot.stats()?.documents;
        let bytes = std::fs::metadata(&to).map_err(Error::io(&to))?.len();
        let path = self.to.display();
        output.print_record(
            &json!({"documents": documents, "file_bytes": bytes}),
            &format!("{path}: {}, {bytes} bytes", counted(documents, "document")),
        );
        Ok(Answer::Yes)
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some("ended before it was done: no copy was made; the same command begins anew")
    }
}

/// Refuses a file that is no copy of a database.
fn ensure_is_backup(to: &Path, snapshot: &Snapshot) -> Result<(), Error> {
    let Some(standing) = StandingDatabase::open(to)? else {
        return Err(Error::AlreadyExists {
            path: to.to_owned(),
        });
    };
    let stats = snapshot.stats()?;
    let options = CreateOptions::new()
        .scheme(stats.scheme)
        .plan(stats.plan)
        .max_distance(stats.max_distance)
        .sketch_size(stats.sketch_size)
        .min_similarity(stats.min_similarity.unwrap_or_default())
        .created(stats.created);
    standing.compare(&options, &snapshot.sources()?, snapshot.documents())?;
    Ok(())
}

fn as_given(error: Error, place: &Path, given: &Path) -> Error {
    let path = given.to_owned();
    match error {
        Error::AlreadyExists { path: named } if named == place => Error::AlreadyExists { path },
        Error::Io {
            path: named,
            source,
        } if named == place => Error::Io { path, source },
        error => error,
    }
}
