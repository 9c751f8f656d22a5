//! `simdb import`: from Parquet files to a database.

use std::path::PathBuf;

use crate::parquet::Import;
use crate::{Database, Error, Scheme};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{DatabaseArgument, max_distance_parser, parse_scheme};
use super::open::open_to_write;
use super::output::Output;
use super::stats::stats_object;
use super::units;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The database file; created if it does not exist
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// Parquet files, and directories of them, with the columns `key` and `fp`
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// How the fingerprints were made, of files that do not say it [default: external]
    #[arg(long, value_name = "NAME", value_parser = parse_scheme)]
    scheme: Option<Scheme>,

    /// The distance, inclusive, at which documents of a new database match if a command names none [default: that of
    /// the database that was exported, or that of the scheme]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The memory to sort with for a new database, at least some 30 MB
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    #[arg(value_parser = units::bytes::<usize>, allow_negative_numbers = true)]
    memory: usize,
}

/// The documents that are inserted in a transaction.
const TOGETHER: usize = 50_000;

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let import = Import::open(&arguments.inputs)?;
    let database = match arguments.database.database.symlink_metadata() {
        Ok(_) => add(arguments, import, output)?,
        Err(_) => build(arguments, &import, output)?,
    };
    let stats = database.snapshot()?.stats()?;
    let path = arguments.database.database.display();
    let line = format!("{path}: {} documents", stats.documents);
    output.print_record(&stats_object(&stats), &line);
    Ok(Answer::Yes)
}

/// The scheme of the fingerprints, as the files and the user say.
fn scheme(arguments: &Arguments, import: &Import) -> Result<Scheme, Failure> {
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
fn build(arguments: &Arguments, import: &Import, output: &Output) -> Result<Database, Failure> {
    let mut options = import.create_options()?.scheme(scheme(arguments, import)?);
    if let Some(max_distance) = arguments.max_distance {
        options = options.max_distance(max_distance);
    }
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
    let path = &arguments.database.database;
    let memory = arguments.memory;
    Ok(Database::build_with(
        path,
        &options,
        documents,
        memory,
        |done, all| packing.update(done, Some(all)),
    )?)
}

/// Inserts the documents into a database that is there. Those of known keys replace the stored ones.
fn add(arguments: &Arguments, import: Import, output: &Output) -> Result<Database, Failure> {
    if arguments.max_distance.is_some() {
        return Err("--max-distance is for a new database, and there is one already".into());
    }
    let database = open_to_write(&arguments.database.database)?;
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
                "ended before it was done: {done} documents are in the database; the same command puts in all"
            ));
            return Err(Error::Interrupted.into());
        }
    }
    Ok(database)
}
