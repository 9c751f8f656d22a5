//! The commands that a database in use answers too. Each takes an open database. It runs in this process if the
//! database can be opened here, otherwise in the process that has it open.

use std::path::Path;

use crate::{Database, Error};
use clap::Subcommand;

use super::about::name_database;
use super::answer::CommandResult;
use super::arguments::LiveDatabase;
use super::output::Output;
#[cfg(feature = "parquet")]
use super::tables;
use super::{
    check, clusters, compact, delete, get, load, pairs, query, query_arguments, report, sources,
    stats,
};

#[derive(Subcommand)]
pub(super) enum Live {
    /// Print the stored documents that are near a text, a fingerprint or another document
    #[command(visible_aliases = ["search", "find"])]
    Query(query_arguments::Arguments),
    /// Tell how a query is answered: its probes, the candidates expected and met, the time
    Explain(query_arguments::Arguments),
    /// Print all pairs of near documents
    #[command(alias = "join")]
    Pairs(pairs::Arguments),
    /// Print the clusters of near-duplicates, and which document of each survives
    #[command(alias = "groups")]
    Clusters(clusters::Arguments),
    /// Tell what a database looks like: distances, clusters, samples; as text or as a page
    #[command(alias = "summary")]
    Report(report::Arguments),
    /// Print a stored document
    #[command(visible_alias = "show", aliases = ["cat", "print"])]
    Get(get::Arguments),
    /// Delete documents by their keys, or all documents of a scope
    #[command(visible_aliases = ["rm", "remove"], alias = "del")]
    Delete(delete::Arguments),
    /// Delete documents that were seen before a time
    Expire(delete::ExpireArguments),
    /// Print what a database holds and how large it is
    #[command(visible_alias = "info", aliases = ["status", "size"])]
    Stats(stats::Arguments),
    /// Print what `stats` does once a second, of a database in use
    #[command(alias = "watch")]
    Top(stats::TopArguments),
    /// Print which inputs a database was filled from, and how far each was read
    Sources(sources::Arguments),
    /// Check every invariant of a database
    #[command(visible_alias = "verify", alias = "fsck")]
    Check(check::Arguments),
    /// Put a dense copy in the place of a database
    #[command(visible_alias = "vacuum")]
    Compact(compact::Arguments),
    /// Make a dense copy of a database
    #[command(visible_aliases = ["copy", "cp"])]
    Backup(compact::BackupArguments),
    /// Print a whole database as JSON Lines
    #[command(visible_alias = "ls", alias = "list")]
    Dump(load::DumpArguments),
    /// Write all documents to a Parquet file
    #[cfg(feature = "parquet")]
    Export(tables::ExportArguments),
}

/// What a database is opened for.
#[derive(Clone, Copy)]
pub(super) enum Opening {
    Read,
    Write,
    Check,
}

impl Live {
    fn parts(&self) -> (&LiveDatabase, Opening) {
        match self {
            Self::Query(query_arguments::Arguments { database, .. })
            | Self::Explain(query_arguments::Arguments { database, .. })
            | Self::Pairs(pairs::Arguments { database, .. })
            | Self::Clusters(clusters::Arguments { database, .. })
            | Self::Report(report::Arguments { database, .. })
            | Self::Get(get::Arguments { database, .. })
            | Self::Stats(stats::Arguments { database, .. })
            | Self::Top(stats::TopArguments { database, .. })
            | Self::Backup(compact::BackupArguments { database, .. })
            | Self::Dump(load::DumpArguments { database }) => (database, Opening::Read),
            #[cfg(feature = "parquet")]
            Self::Export(tables::ExportArguments { database, .. }) => (database, Opening::Read),
            Self::Delete(it) if it.is_dry_run() => (&it.database, Opening::Read),
            Self::Expire(it) if it.is_dry_run() => (&it.database, Opening::Read),
            Self::Delete(delete::Arguments { database, .. })
            | Self::Expire(delete::ExpireArguments { database, .. })
            | Self::Compact(compact::Arguments { database, .. }) => (database, Opening::Write),
            Self::Sources(it) if !it.forgets() => (&it.database, Opening::Read),
            Self::Sources(sources::Arguments { database, .. }) => (database, Opening::Write),
            Self::Check(check::Arguments { database }) => (database, Opening::Check),
        }
    }

    /// The path of the database, as it was given.
    pub(super) fn database(&self) -> &Path {
        &self.parts().0.database
    }

    /// Whether it has to put things in order before it ends. What only reads the database has not.
    pub(super) fn ends_in_order(&self) -> bool {
        #[cfg(feature = "parquet")]
        if matches!(self, Self::Export(_)) {
            return true;
        }
        !matches!(self.parts().1, Opening::Read) || matches!(self, Self::Backup(_) | Self::Pairs(_))
    }

    /// What is to be known when the command was ended before it was done, unless it has told that itself.
    pub(super) fn told_when_ended(&self) -> Option<&'static str> {
        match self {
            Self::Check(_) => {
                Some("ended before all was checked, so the database may be damaged or not")
            }
            Self::Compact(_) => Some(
                "ended before it was done: the database is as it was; the same command begins anew",
            ),
            Self::Backup(_) => {
                Some("ended before it was done: no copy was made; the same command begins anew")
            }
            #[cfg(feature = "parquet")]
            Self::Export(_) => {
                Some("ended before it was done: no file was made; the same command begins anew")
            }
            _ => None,
        }
    }

    /// Runs the command with an open database.
    pub(super) fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        match self {
            Self::Query(arguments) => query::run(arguments, database, output),
            Self::Explain(arguments) => query::explain(arguments, database, output),
            Self::Pairs(arguments) => pairs::run(arguments, database, output),
            Self::Clusters(arguments) => clusters::run(arguments, database, output),
            Self::Report(arguments) => report::run(arguments, database, output),
            Self::Get(arguments) => get::run(arguments, database, output),
            Self::Delete(arguments) => delete::run(arguments, database, output),
            Self::Expire(arguments) => delete::expire(arguments, database, output),
            Self::Stats(arguments) => stats::run(arguments, database, output),
            Self::Top(_) => stats::print(database, output),
            Self::Sources(arguments) => sources::run(arguments, database, output),
            Self::Check(arguments) => check::run(arguments, database, output),
            Self::Compact(arguments) => compact::run(arguments, database, output),
            Self::Backup(arguments) => compact::backup(arguments, database, output),
            Self::Dump(_) => load::dump(database, output),
            #[cfg(feature = "parquet")]
            Self::Export(arguments) => tables::export(arguments, database, output),
        }
    }
}

impl Live {
    /// The socket that the user named.
    #[cfg(unix)]
    pub(super) fn socket(&self) -> Option<&Path> {
        self.parts().0.socket.as_deref()
    }

    /// The names of the columns, for a terminal.
    pub(super) fn heading(&self) -> Option<&'static str> {
        match self {
            Self::Pairs(arguments) => arguments.heading(),
            _ => None,
        }
    }

    pub(super) fn opening(&self) -> Opening {
        self.parts().1
    }

    /// The inputs of the command, as they were given.
    #[cfg(unix)]
    fn inputs(&self) -> Vec<&Path> {
        match self {
            Self::Query(it) | Self::Explain(it) => it.inputs().collect(),
            Self::Report(it) => it.inputs().collect(),
            Self::Pairs(it) => it.inputs().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the command reads standard input.
    #[cfg(unix)]
    pub(super) fn reads_standard_input(&self) -> bool {
        self.inputs().contains(&Path::new("-"))
    }

    /// Refuses inputs that only this process has, if another process is to read them.
    #[cfg(unix)]
    pub(super) fn ensure_others_can_read(&self) -> Result<(), super::answer::Failure> {
        let own = ["/dev/fd", "/dev/stdin", "/proc/self", "/proc/thread-self"];
        match self.inputs().into_iter().find(|path| own.iter().any(|it| path.starts_with(it))) {
            Some(path) => Err(format!(
                "{}: only this process has it, and another process has the database open and reads the inputs: give a \
                 file, or `-` and standard input",
                path.display()
            )
            .into()),
            None => Ok(()),
        }
    }

    /// What would be the database, if the key was given first.
    fn swapped(&self) -> Option<&Path> {
        match self {
            Self::Get(arguments) => Some(Path::new(&arguments.key)),
            Self::Delete(arguments) => arguments.keys.last().map(Path::new),
            _ => None,
        }
    }

    /// The answer if the database cannot be opened.
    pub(super) fn cannot_open(&self, error: Error, output: &mut Output) -> CommandResult {
        if let Error::NotFound { .. } = &error
            && let Some(other) = self.swapped().filter(|it| it.is_file())
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

/// Prints what is still to be printed, and says what an error is about. `told_when_ended` is told if nobody wanted the
/// command any more.
pub(super) fn finish(
    answer: CommandResult,
    output: &mut Output,
    database: Option<&Path>,
    told_when_ended: Option<&str>,
) -> CommandResult {
    // What was printed before a failure is still true.
    let flushed = output.flush();
    let answer = answer.map_err(|error| {
        if !matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            return name_database(error, database);
        }
        if let Some(told) = told_when_ended {
            output.complain(told);
        }
        error
    })?;
    flushed?;
    Ok(answer)
}
