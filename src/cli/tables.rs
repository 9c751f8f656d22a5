//! The commands for Parquet files: `simdb export` and `simdb import`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{Given as _, max_distance_parser, named_file};
use super::commands::{Command, NOT_BUILT};
use super::output::Output;
use super::output_files::ensure_replaceable;
use super::stats::stats_object;
use super::units;
use super::verbs::{LiveDatabase, Opening, Verb};
use crate::parquet::{Export, Import};
use crate::plural::counted;
use crate::{CreateOptions, Database, Error, Scheme};

#[derive(clap::Args)]
pub(super) struct ImportArguments {
    /// The database file; created if it does not exist
    #[arg(value_name = "DB", value_parser = named_file())]
    database: PathBuf,

    /// Parquet files, and directories of them, with the columns `key` and `fp`
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// How the fingerprints were made, if the files do not say it [default: external]
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,

    /// The largest distance at which documents of a new database match, if a command names no other [default: that
    /// of the database that was exported, or that of the scheme]
    #[arg(long, value_name = "K", value_parser = max_distance_parser, allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The memory to sort with for a new database, at least some 30 MB
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    #[arg(value_parser = units::bytes::<usize>, allow_negative_numbers = true)]
    memory: usize,
}

#[derive(clap::Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The Parquet file; it must not exist yet
    #[arg(value_name = "OUT", value_parser = named_file())]
    to: PathBuf,

    /// Write the payloads too
    #[arg(long)]
    payload: bool,

    /// Replace a file that exists
    #[arg(long)]
    replace: bool,
}

/// The documents that are inserted in a transaction.
const TOGETHER: usize = 50_000;

impl Command for ImportArguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        let import = Import::open(&self.inputs)?;
        let database = match self.database.symlink_metadata() {
            Ok(_) => add(self, import, output)?,
            Err(_) => build(self, &import, output).inspect_err(|error| {
                if let Some(Error::Interrupted) = error.downcast_ref() {
                    output.complain(NOT_BUILT);
                }
            })?,
        };
        let stats = database.snapshot()?.stats()?;
        let path = self.database.display();
        let line = format!("{path}: {}", counted(stats.documents, "document"));
        output.print_record(&stats_object(&stats), &line);
        Ok(Answer::Yes)
    }

    fn database(&self) -> Option<&Path> {
        Some(&self.database)
    }

    fn ends_in_order(&self) -> bool {
        true
    }
}

impl Verb for ExportArguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let snapshot = database.snapshot()?;
        let to = output.console().place_of(&self.to);
        ensure_replaceable(&to, Some(database.path()), [])?;
        let progress = output.console().progress_of("documents");
        let export = Export::of(&snapshot)
            .payloads(self.payload)
            .replace(self.replace);
        let exported = export.run(&to, progress.steps());
        drop(progress);
        let path = &self.to;
        let exported = match exported {
            Err(Error::AlreadyExists { .. }) => {
                return Err(Error::AlreadyExists { path: path.clone() }.into());
            }
            exported => exported?,
        };
        let left_out = exported.payloads_left_out;
        if left_out > 0 {
            output.remark(&format!(
                "the payloads of {} were left out; --payload writes them too",
                counted(left_out, "document")
            ));
        }
        let documents = exported.documents;
        let bytes = exported.bytes;
        output.print_record(
            &json!({"documents": documents, "file_bytes": bytes}),
            &format!(
                "{}: {}, {bytes} bytes",
                path.display(),
                counted(documents, "document")
            ),
        );
        Ok(Answer::Yes)
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some("ended before it was done: no file was made; the same command begins anew")
    }
}

/// The scheme of the fingerprints, as the files and the user say.
fn scheme(arguments: &ImportArguments, import: &Import) -> Result<Scheme, Failure> {
    match (import.scheme(), arguments.scheme) {
        (Some(stored), Some(given)) if stored != given => Err(format!(
            "the files were exported from a database of scheme {stored}, and --scheme names {given}; --scheme is for files \
             that do not say it"
        )
        .into()),
        (stored, given) => Ok(stored.or(given).unwrap_or(Scheme::External)),
    }
}

/// Builds a new database. Either it is whole or it is not there.
fn build(
    arguments: &ImportArguments,
    import: &Import,
    output: &Output,
) -> Result<Database, Failure> {
    let options = import
        .create_options()?
        .scheme(scheme(arguments, import)?)
        .given(arguments.max_distance, CreateOptions::max_distance);
    let progress = output.console().progress_of("documents");
    let packing = output.console().progress();
    let all = Some(import.rows());
    let mut read = 0;
    let mut documents = import.documents();
    let documents = std::iter::from_fn(|| {
        if read % 1024 == 0 && progress.update(read, all).is_break() {
            return Some(Err(Error::Interrupted));
        }
        read += 1;
        documents.next()
    });
    let path = &arguments.database;
    let memory = arguments.memory;
    Ok(Database::build_with(
        path,
        &options,
        documents,
        memory,
        packing.steps(),
    )?)
}

/// Inserts the documents into a database that is there. Those of known keys replace the stored ones.
fn add(arguments: &ImportArguments, import: Import, output: &Output) -> Result<Database, Failure> {
    if arguments.max_distance.is_some() {
        return Err("--max-distance is for a new database, and there is one already".into());
    }
    let database = Opening::Write.open(&arguments.database)?;
    let scheme = scheme(arguments, &import)?;
    if scheme != database.scheme() {
        if import.scheme().or(arguments.scheme).is_none() {
            let stored = database.scheme();
            return Err(format!(
                "the files do not say the scheme of their fingerprints, so it is external, and the database holds \
                 fingerprints of scheme {stored}: give --scheme {stored} if they were made so"
            )
            .into());
        }
        return Err(Error::SchemeMismatch {
            stored: database.scheme().name(),
            given: scheme.name(),
        }
        .into());
    }
    let import = import.stored_in(scheme, database.sketch_size());
    let progress = output.console().progress_of("documents");
    let mut documents = import.documents().peekable();
    let mut done = 0;
    while documents.peek().is_some() {
        let mut txn = database.begin_write()?;
        for document in documents.by_ref().take(TOGETHER) {
            txn.insert(&document?)?;
            done += 1;
        }
        txn.commit()?;
        if progress.update(done, Some(import.rows())).is_break() {
            drop(progress);
            output.complain(&format!(
                "stopped after {}, which the database has; the same command begins anew and stores all",
                counted(done, "document")
            ));
            return Err(Error::Interrupted.into());
        }
    }
    Ok(database)
}
