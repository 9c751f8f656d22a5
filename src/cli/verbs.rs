//! The verbs: the commands about a database that is there, also in use. A verb runs in this process if the database can
//! be opened here, otherwise in the process that has it open.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::thread;
#[cfg(unix)]
use std::time::{Duration, Instant};

use clap::Subcommand;

use super::answer::CommandResult;
#[cfg(unix)]
use super::answer::{Answer, Failure};
use super::arguments::named_file;
use super::output::Output;
#[cfg(unix)]
use super::remote::{Remote, ensure_not_removed, nobody_answers};
#[cfg(feature = "parquet")]
use super::tables;
use super::{
    check, clusters, compact, delete, ingest, load, overlap, pairs, query, report, sources, stats,
};
use crate::{Database, Error, OpenOptions};

/// A verb, which is its arguments. Among them is its database, which the table of the verbs finds.
pub(super) trait Verb {
    fn opening(&self) -> Opening {
        Opening::Read
    }

    /// Runs with the open database.
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult;

    /// Runs without an open database, if this verb is one that can.
    fn run_alone(&self, _: &mut Output) -> Option<CommandResult> {
        None
    }

    /// Whether Ctrl-C has to wait until the verb has put things in order, and has told what is to be known. What only
    /// reads the database has nothing to put in order.
    fn ends_in_order(&self) -> bool {
        self.opening() != Opening::Read || self.when_ended().is_some()
    }

    /// What is to be known when the verb was ended before it was done, unless it has said so itself.
    fn when_ended(&self) -> Option<&'static str> {
        None
    }

    /// The inputs, as they were given.
    fn inputs(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// What would be the database, if the key was given first.
    fn key(&self) -> Option<&OsStr> {
        None
    }

    /// The names of the columns, for a terminal.
    fn heading(&self) -> Option<&'static str> {
        None
    }

    fn cannot_open(&self, error: Error, _: &mut Output) -> CommandResult {
        Err(error.into())
    }
}

/// The database of a verb.
#[derive(clap::Args)]
pub(super) struct LiveDatabase {
    /// The database file
    #[arg(value_name = "DB", value_parser = named_file())]
    pub(super) path: PathBuf,

    /// Ask the process at this socket [default: DB.sock, if DB is in use]
    ///
    /// The process that listens there has the database open
    #[cfg(unix)]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(super) enum DatabaseVerb {
    /// Read documents, store them, and print every near-duplicate
    ///
    /// The database is created if it does not exist
    #[command(visible_alias = "add")]
    Ingest(ingest::Arguments),
    /// Print the stored documents that are near a text or a document
    #[command(visible_alias = "search")]
    #[command(
        override_usage = "simdb query [OPTIONS] <--text TEXT|--file PATH|--fingerprint HEX|--key KEY|--input FILE> <DB>"
    )]
    Query(query::Arguments),
    /// Tell how a query is answered: probes, candidates, time
    #[command(
        override_usage = "simdb explain [OPTIONS] <--text TEXT|--file PATH|--fingerprint HEX|--key KEY> <DB>"
    )]
    #[command(mut_arg("input", |input| input.hide(true)))]
    #[command(mut_arg("scheme", |scheme| scheme.hide(true)))]
    Explain(query::ExplainArguments),
    /// Print how much of a text stood in stored documents, sentence by sentence
    ///
    /// The database has to hold the sentences or paragraphs of its documents: see `--unit` of `ingest`
    #[command(override_usage = "simdb overlap [OPTIONS] <DB> <INPUT...|--text TEXT>")]
    #[command(mut_arg("unit", |unit| unit.default_value("sentence")))]
    Overlap(overlap::Arguments),
    /// Print all pairs of near documents
    Pairs(pairs::Arguments),
    /// Print the clusters of near-duplicates, and which document of each survives
    Clusters(clusters::Arguments),
    /// Describe a database: distances, clusters, samples
    Report(report::Arguments),
    /// Print a stored document
    Get(load::GetArguments),
    /// Delete documents by key, or all of a scope
    #[command(visible_alias = "rm")]
    Delete(delete::Arguments),
    /// Delete documents that were seen before a time
    Expire(delete::ExpireArguments),
    /// Print what a database holds, and what to do if something is off
    #[command(visible_alias = "info")]
    Stats(stats::Arguments),
    /// Print `stats` once a second, of a database in use
    Top(stats::TopArguments),
    /// Print the inputs of a database, and how far each was read
    Sources(sources::Arguments),
    /// Check whether a database is damaged
    #[command(visible_alias = "verify")]
    Check(check::Arguments),
    /// Rewrite a database without its unused space
    #[command(visible_alias = "vacuum")]
    Compact(compact::Arguments),
    /// Copy a database without its unused space, also while it is in use
    Backup(compact::BackupArguments),
    /// Print a whole database as JSON Lines
    Dump(load::DumpArguments),
    /// Write all documents to a Parquet file
    #[cfg(feature = "parquet")]
    Export(tables::ExportArguments),
}

impl DatabaseVerb {
    /// The table of the verbs, each with its database.
    pub(super) fn parts(&self) -> (&LiveDatabase, &dyn Verb) {
        match self {
            Self::Ingest(verb) => (&verb.database, verb),
            Self::Query(verb) => (&verb.database, verb),
            Self::Explain(verb) => (&verb.query.database, verb),
            Self::Overlap(verb) => (&verb.database, verb),
            Self::Pairs(verb) => (&verb.database, verb),
            Self::Clusters(verb) => (&verb.database, verb),
            Self::Report(verb) => (&verb.database, verb),
            Self::Get(verb) => (&verb.database, verb),
            Self::Delete(verb) => (&verb.database, verb),
            Self::Expire(verb) => (&verb.database, verb),
            Self::Stats(verb) => (&verb.database, verb),
            Self::Top(verb) => (&verb.database, verb),
            Self::Sources(verb) => (&verb.database, verb),
            Self::Check(verb) => (&verb.database, verb),
            Self::Compact(verb) => (&verb.database, verb),
            Self::Backup(verb) => (&verb.database, verb),
            Self::Dump(verb) => (&verb.database, verb),
            #[cfg(feature = "parquet")]
            Self::Export(verb) => (&verb.database, verb),
        }
    }
}

/// How long a database in use is tried if nobody answers for it. Its process may just be opening or closing it.
#[cfg(unix)]
const OPENS_WITHIN: Duration = Duration::from_secs(1);
/// The time between two tries.
#[cfg(unix)]
const PAUSE: Duration = Duration::from_millis(40);
/// How long a command that came when a process was about to close the database tries to open it, or to ask the next
/// process. The requests that it still answers have 5 seconds to end, and then comes the last commit.
#[cfg(unix)]
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

/// Opens the database and runs the verb, or asks whoever has it open.
pub(super) fn run(database: &LiveDatabase, verb: &dyn Verb, output: &mut Output) -> CommandResult {
    if !output.is_json()
        && let Some(heading) = verb.heading()
    {
        output.console().head(heading);
    }
    #[cfg(unix)]
    if database.socket.is_some()
        && let Some(remote) = Remote::connect(database)?
        && let Some(answer) = ask(verb, &remote, output)?
    {
        return Ok(answer);
    }
    #[cfg(unix)]
    let begun = Instant::now();
    #[cfg(unix)]
    let mut answered = begun;
    loop {
        match verb.opening().open(&database.path) {
            Ok(opened) => return verb.run(&opened, output),
            #[cfg(unix)]
            Err(busy @ Error::Busy { .. }) => {
                match Remote::connect_beside(&database.path)? {
                    Some(remote) => match ask(verb, &remote, output)? {
                        Some(answer) => return Ok(answer),
                        None if begun.elapsed() >= CLOSES_WITHIN => return Err(remote.too_late()),
                        None => answered = Instant::now(),
                    },
                    None if answered.elapsed() >= OPENS_WITHIN => {
                        return Err(nobody_answers(&busy));
                    }
                    None => {}
                }
                if output.console().is_ended() {
                    return Err(Error::Interrupted.into());
                }
                thread::sleep(PAUSE);
            }
            Err(error) => {
                #[cfg(unix)]
                if let Error::NotFound { .. } = error {
                    let place = output.console().place_of(&database.path);
                    ensure_not_removed(&database.path, &place)?;
                }
                warn_of_order(verb, &error, output);
                return verb.cannot_open(error, output);
            }
        }
    }
}

/// Asks whoever has the database open. `None` if that process closes it before it has begun.
#[cfg(unix)]
fn ask(
    verb: &dyn Verb,
    remote: &Remote<'_>,
    output: &mut Output,
) -> Result<Option<Answer>, Failure> {
    let answer = remote.ask(&verb.inputs(), output);
    let is_ended =
        matches!(&answer, Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)));
    if is_ended && verb.ends_in_order() {
        output.tell_end(match verb.when_ended() {
            None => "stopped; the process that has the database open ends the work in order",
            // It may have been at the end of the work.
            Some(_) => {
                "stopped; the process that has the database open may have done the work before it heard of that: look \
                 what is there, or run the command again"
            }
        });
    }
    answer
}

/// Says so if there is no such database, since the key was given first.
fn warn_of_order(verb: &dyn Verb, error: &Error, output: &Output) {
    let key = verb.key().map(Path::new);
    if let Error::NotFound { .. } = error
        && let Some(other) = key.filter(|key| key.is_file())
    {
        let path = other.display();
        output.complain(&format!(
            "the database comes before the key: is {path} the database?"
        ));
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Opening {
    /// To read it. Several commands that read can run at once, and the permission to read is enough. If the engine has
    /// to recover the file first, the file is opened for writing.
    Read,
    Write,
    /// To check it. If it may only be read, it is opened to read. Then the checksums of the pages are not verified.
    Check,
}

impl Opening {
    /// For a command that only looks unless `changes`.
    pub(super) fn new(changes: bool) -> Self {
        if changes { Self::Write } else { Self::Read }
    }

    pub(super) fn open(self, path: &Path) -> Result<Database, Error> {
        match self {
            Self::Read => match Database::open(path, &OpenOptions::new().read_only(true)) {
                Err(unrecovered @ Error::NeedsRecovery { .. }) => match Self::Write.open(path) {
                    // What has to be done is said by the first error only.
                    Err(error) if may_only_read(&error) => Err(unrecovered),
                    opened => opened,
                },
                opened => opened,
            },
            Self::Write => Database::open(path, &OpenOptions::new()),
            Self::Check => match Self::Write.open(path) {
                Err(error) if may_only_read(&error) => Self::Read.open(path),
                opened => opened,
            },
        }
    }
}

/// Whether a database could not be opened to write because the file or the file system may only be read.
/// It may still be possible to open it to read.
fn may_only_read(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, Error::Io { source, .. } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}
