//! The verbs that a database in use answers too. Each takes an open database. It runs in this process if the database
//! can be opened here, otherwise in the process that has it open.

use std::path::Path;

use crate::{Database, Error};
use clap::Subcommand;

use super::answer::{CommandResult, Failure, name_database};
use super::arguments::LiveDatabase;
use super::output::Output;
#[cfg(feature = "parquet")]
use super::tables;
use super::{
    check, clusters, compact, delete, get, load, pairs, query, query_arguments, report, sources,
    stats,
};

#[derive(Subcommand)]
pub(super) enum DatabaseVerb {
    /// Print the stored documents that are near a text or a document
    #[command(visible_alias = "search")]
    Query(query_arguments::Arguments),
    /// Tell how a query is answered: probes, candidates, time
    Explain(query_arguments::Arguments),
    /// Print all pairs of near documents
    Pairs(pairs::Arguments),
    /// Print the clusters of near-duplicates, and who survives
    Clusters(clusters::Arguments),
    /// Describe a database: distances, clusters, samples
    Report(report::Arguments),
    /// Print a stored document
    Get(get::Arguments),
    /// Delete documents by key, or all of a scope
    #[command(visible_alias = "rm")]
    Delete(delete::Arguments),
    /// Delete documents that were seen before a time
    Expire(delete::ExpireArguments),
    /// Print what a database holds and how large it is
    #[command(visible_alias = "info")]
    Stats(stats::Arguments),
    /// Print `stats` once a second, of a database in use
    Top(stats::TopArguments),
    /// Print the inputs of a database, and how far each was read
    Sources(sources::Arguments),
    /// Check every page and every invariant
    #[command(visible_alias = "verify")]
    Check(check::Arguments),
    /// Put a dense copy in the place of a database
    #[command(visible_alias = "vacuum")]
    Compact(compact::Arguments),
    /// Make a dense copy of a database, also of one in use
    Backup(compact::BackupArguments),
    /// Print a whole database as JSON Lines
    Dump(load::DumpArguments),
    /// Write all documents to a Parquet file
    #[cfg(feature = "parquet")]
    Export(tables::ExportArguments),
}

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Opening {
    Read,
    Write,
    Check,
}

/// Runs a verb with the open database.
type Run<'a> = Box<dyn Fn(&Database, &mut Output) -> CommandResult + 'a>;

/// What there is to know of a verb.
struct Verb<'a> {
    database: &'a LiveDatabase,
    opening: Opening,
    run: Run<'a>,
    /// Whether Ctrl-C has to wait until it has put things in order. What only reads the database has not.
    ends_in_order: bool,
    /// What is to be known when it was ended before it was done, unless it has said so itself.
    when_ended: Option<&'static str>,
    /// The inputs, as they were given.
    inputs: Vec<&'a Path>,
    /// What would be the database, if the key was given first.
    key: Option<&'a Path>,
}

impl<'a> Verb<'a> {
    fn new<A>(
        database: &'a LiveDatabase,
        opening: Opening,
        arguments: &'a A,
        run: fn(&A, &Database, &mut Output) -> CommandResult,
    ) -> Self {
        Self {
            database,
            opening,
            run: Box::new(move |database, output| run(arguments, database, output)),
            ends_in_order: opening != Opening::Read,
            when_ended: None,
            inputs: Vec::new(),
            key: None,
        }
    }

    fn inputs(self, inputs: impl Iterator<Item = &'a Path>) -> Self {
        let inputs = inputs.collect();
        Self { inputs, ..self }
    }

    fn key(self, key: Option<&'a (impl AsRef<std::ffi::OsStr> + ?Sized)>) -> Self {
        let key = key.map(Path::new);
        Self { key, ..self }
    }

    fn ends_in_order(self) -> Self {
        let ends_in_order = true;
        Self {
            ends_in_order,
            ..self
        }
    }

    fn when_ended(self, when_ended: &'static str) -> Self {
        let when_ended = Some(when_ended);
        Self { when_ended, ..self }.ends_in_order()
    }
}

/// What a verb is given a database for that only looks, unless it is to do more.
fn write_if(writes: bool) -> Opening {
    if writes {
        Opening::Write
    } else {
        Opening::Read
    }
}

impl DatabaseVerb {
    /// The table of the verbs.
    fn verb(&self) -> Verb<'_> {
        use Opening::{Check, Read, Write};
        match self {
            Self::Query(given) => Verb::new(&given.database, Read, given, query::run).inputs(given.inputs()),
            Self::Explain(given) => Verb::new(&given.database, Read, given, query::explain).inputs(given.inputs()),
            Self::Pairs(given) => Verb::new(&given.database, Read, given, pairs::run)
                .inputs(given.inputs())
                .ends_in_order(),
            Self::Clusters(given) => Verb::new(&given.database, Read, given, clusters::run),
            Self::Report(given) => Verb::new(&given.database, Read, given, report::run).inputs(given.inputs()),
            Self::Get(given) => Verb::new(&given.database, Read, given, get::run).key(Some(&given.key)),
            Self::Delete(given) => Verb::new(&given.database, write_if(!given.is_dry_run()), given, delete::run)
                .key(given.keys.last()),
            Self::Expire(given) => Verb::new(&given.database, write_if(!given.is_dry_run()), given, delete::expire),
            Self::Stats(given) => Verb::new(&given.database, Read, given, stats::run),
            Self::Top(given) => Verb::new(&given.database, Read, given, |_, database, output| {
                stats::print(database, output)
            }),
            Self::Sources(given) => Verb::new(&given.database, write_if(given.forgets()), given, sources::run),
            Self::Check(given) => Verb::new(&given.database, Check, given, check::run)
                .when_ended("ended before all was checked, so the database may be damaged or not"),
            Self::Compact(given) => Verb::new(&given.database, Write, given, compact::run).when_ended(
                "ended before it was done: the database is as it was; the same command begins anew",
            ),
            Self::Backup(given) => Verb::new(&given.database, Read, given, compact::backup)
                .when_ended("ended before it was done: no copy was made; the same command begins anew"),
            Self::Dump(given) => Verb::new(&given.database, Read, given, |_, database, output| {
                load::dump(database, output)
            }),
            #[cfg(feature = "parquet")]
            Self::Export(given) => Verb::new(&given.database, Read, given, tables::export)
                .when_ended("ended before it was done: no file was made; the same command begins anew"),
        }
    }

    /// The path of the database, as it was given.
    pub(super) fn database(&self) -> &Path {
        &self.verb().database.database
    }

    pub(super) fn opening(&self) -> Opening {
        self.verb().opening
    }

    pub(super) fn ends_in_order(&self) -> bool {
        self.verb().ends_in_order
    }

    pub(super) fn when_ended(&self) -> Option<&'static str> {
        self.verb().when_ended
    }

    /// Runs the command with an open database.
    pub(super) fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        (self.verb().run)(database, output)
    }

    /// The names of the columns, for a terminal.
    pub(super) fn heading(&self) -> Option<&'static str> {
        match self {
            Self::Pairs(arguments) => arguments.heading(),
            _ => None,
        }
    }

    /// The answer if the database cannot be opened.
    pub(super) fn cannot_open(&self, error: Error, output: &mut Output) -> CommandResult {
        if let Error::NotFound { .. } = &error
            && let Some(other) = self.verb().key.filter(|key| key.is_file())
        {
            let path = other.display();
            output.complain(&format!(
                "the database comes before the key: is {path} the database?"
            ));
        }
        match self {
            Self::Check(arguments) => check::answer(arguments, Err(error), output),
            _ => Err(error.into()),
        }
    }
}

#[cfg(unix)]
impl DatabaseVerb {
    /// The socket that the user named.
    pub(super) fn socket(&self) -> Option<&Path> {
        self.verb().database.socket.as_deref()
    }

    /// Whether the command reads standard input.
    pub(super) fn reads_standard_input(&self) -> bool {
        self.verb().inputs.contains(&Path::new("-"))
    }

    /// Refuses inputs that only this process has, if another process is to read them.
    pub(super) fn ensure_others_can_read(&self) -> Result<(), Failure> {
        const OWN: [&str; 4] = ["/dev/fd", "/dev/stdin", "/proc/self", "/proc/thread-self"];
        for path in self.verb().inputs {
            if OWN.iter().any(|own| path.starts_with(own)) {
                return Err(format!(
                    "{}: only this process has it, and another process has the database open and reads the inputs: give \
                     a file, or `-` and standard input",
                    path.display()
                )
                .into());
            }
        }
        Ok(())
    }
}

/// Prints what is still to be printed, and says what an error is about. `when_ended` is printed if nobody wanted the
/// command any more.
pub(super) fn finish(
    answer: CommandResult,
    output: &mut Output,
    database: Option<&Path>,
    when_ended: Option<&str>,
) -> CommandResult {
    // What was printed before a failure is still true.
    let flushed = output.flush();
    let answer = answer.map_err(|error| {
        if !matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            return name_database(error, database);
        }
        if let Some(when_ended) = when_ended {
            output.complain(when_ended);
        }
        error
    })?;
    flushed?;
    Ok(answer)
}
