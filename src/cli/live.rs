//! The commands that a database in use answers too: each takes an open database, and says how it wants it opened.

use std::path::Path;

use crate::{Database, Error};
use clap::Subcommand;

use super::answer::CommandResult;
use super::open::{Opening, open};
use super::output::Output;
use super::{asking, backup, check, compact, delete, expire, explain, get, query, sources, stats};

#[derive(Subcommand)]
pub(crate) enum Live {
    /// Print the stored documents that are near a text, a fingerprint or another document
    #[command(visible_aliases = ["search", "find"])]
    Query(asking::Arguments),
    /// Tell how a query is answered: its probes, the candidates expected and met, the time
    Explain(asking::Arguments),
    /// Print a stored document
    #[command(visible_alias = "show", aliases = ["cat", "print"])]
    Get(get::Arguments),
    /// Delete documents by their keys, or all documents of a scope
    #[command(visible_aliases = ["rm", "remove"], alias = "del")]
    Delete(delete::Arguments),
    /// Delete documents that were seen before a time
    Expire(expire::Arguments),
    /// Print what a database holds and how large it is
    #[command(visible_alias = "info", aliases = ["status", "size"])]
    Stats(stats::Arguments),
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
    Backup(backup::Arguments),
}

impl Live {
    /// The path of the database, and what it is opened for.
    fn opening(&self) -> (&Path, Opening) {
        let (database, opening) = match self {
            Self::Query(asking::Arguments { database, .. })
            | Self::Explain(asking::Arguments { database, .. })
            | Self::Get(get::Arguments { database, .. })
            | Self::Stats(stats::Arguments { database, .. })
            | Self::Backup(backup::Arguments { database, .. }) => (database, Opening::Read),
            Self::Delete(it) if it.is_dry_run() => (&it.database, Opening::Read),
            Self::Expire(it) if it.is_dry_run() => (&it.database, Opening::Read),
            Self::Delete(delete::Arguments { database, .. })
            | Self::Expire(expire::Arguments { database, .. })
            | Self::Compact(compact::Arguments { database, .. }) => (database, Opening::Write),
            Self::Sources(sources::Arguments { database, forget: None }) => (database, Opening::Read),
            Self::Sources(sources::Arguments { database, .. }) => (database, Opening::Write),
            Self::Check(check::Arguments { database }) => (database, Opening::Check),
        };
        (&database.database, opening)
    }

    /// The path of the database, as it was given.
    pub(super) fn database(&self) -> &Path {
        self.opening().0
    }

    /// Whether it has to put things in order before it ends. What only reads the database has not.
    pub(super) fn ends_in_order(&self) -> bool {
        !matches!(self.opening().1, Opening::Read) || matches!(self, Self::Backup(_))
    }

    /// What is to be known when the command was ended before it was done, unless it has told that itself.
    pub(super) fn told_when_ended(&self) -> Option<&'static str> {
        match self {
            Self::Check(_) => Some("ended before all was checked, so the database may be damaged or not"),
            Self::Compact(_) => {
                Some("ended before it was done: the database is as it was; the same command begins anew")
            }
            Self::Backup(_) => {
                Some("ended before it was done: no copy was made; the same command begins anew")
            }
            _ => None,
        }
    }

    /// Opens the database and runs the command.
    pub(super) fn open_and_run(&self, output: &mut Output) -> CommandResult {
        let (path, opening) = self.opening();
        match open(path, opening) {
            Ok(database) => self.run(&database, output),
            Err(error) => self.cannot_open(error, output),
        }
    }

    /// Runs the command with an open database.
    pub(crate) fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        match self {
            Self::Query(arguments) => query::run(arguments, database, output),
            Self::Explain(arguments) => explain::run(arguments, database, output),
            Self::Get(arguments) => get::run(arguments, database, output),
            Self::Delete(arguments) => delete::run(arguments, database, output),
            Self::Expire(arguments) => expire::run(arguments, database, output),
            Self::Stats(arguments) => stats::run(arguments, database, output),
            Self::Sources(arguments) => sources::run(arguments, database, output),
            Self::Check(arguments) => check::run(arguments, database, output),
            Self::Compact(arguments) => compact::run(arguments, database, output),
            Self::Backup(arguments) => backup::run(arguments, database, output),
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
    fn cannot_open(&self, error: Error, output: &mut Output) -> CommandResult {
        if let Error::NotFound { .. } = &error
            && let Some(other) = self.swapped().filter(|it| it.is_file())
        {
            let path = other.display();
            output.complain(&format!("the database comes before the key: is {path} the database?"));
        }
        match self {
            Self::Check(arguments) => check::answer(arguments, Err(error), output),
            _ => Err(error.into()),
        }
    }
}
