//! The commands and their arguments. Sees only the public interface of the library.

mod bench;
mod check;
mod copy;
mod create;
mod delete;
mod distance;
mod dump;
mod explain;
mod fingerprint;
mod get;
mod ingest;
mod output;
mod plan;
mod query;
mod stats;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use simdb::ingest::{InputFormat, ReadOptions};
use simdb::{Database, Error, OpenOptions, Prefer, Scheme};

pub(crate) use output::complain;

use output::Output;

/// An embedded index of near-duplicate documents.
#[derive(Parser)]
#[command(name = "simdb", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 yes, done; 1 no match, no such key, damage found; 2 could not tell.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print JSON, one object per line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Create a database
    Create(create::Arguments),
    /// Read documents, store them, and print every near-duplicate
    Ingest(ingest::Arguments),
    /// Print the stored documents that are near a text, a fingerprint or another document
    Query(query::Arguments),
    /// Tell how a query is answered: its probes, the candidates expected and met, the time
    Explain(query::Arguments),
    /// Print a stored document
    Get(get::Arguments),
    /// Delete documents by their keys
    Delete(delete::Arguments),
    /// Print what a database holds and how large it is
    Stats(stats::Arguments),
    /// Check every invariant of a database
    Check(check::Arguments),
    /// Put a dense copy in the place of a database
    Compact(copy::Compact),
    /// Make a dense copy of a database
    Backup(copy::Backup),
    /// Print a whole database as JSON Lines
    Dump(dump::Dump),
    /// Build a database from what `dump` has printed
    Load(dump::Load),
    /// Print the fingerprints of texts
    Fingerprint(fingerprint::Arguments),
    /// Print in how many bits two fingerprints differ
    Distance(distance::Arguments),
    /// Print the plans for a number of documents, what they take and cost, and which is taken
    Plan(plan::Arguments),
    /// Measure inserts, queries and deletes of generated documents on this machine
    Bench(bench::Arguments),
}

/// What a command answers, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// Also the answer of every error.
    CouldNotTell,
}

impl Answer {
    fn yes_if(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        Self::from(match answer {
            Answer::Yes => 0,
            Answer::No => 1,
            Answer::CouldNotTell => 2,
        })
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Run = Result<Answer, Failure>;

pub(crate) fn run(cli: &Cli) -> Run {
    let mut output = Output::new(cli.json);
    let answer = match &cli.command {
        Command::Create(arguments) => create::run(arguments, &mut output),
        Command::Ingest(arguments) => ingest::run(arguments, &mut output),
        Command::Query(arguments) => query::run(arguments, &mut output),
        Command::Explain(arguments) => explain::run(arguments, &mut output),
        Command::Get(arguments) => get::run(arguments, &mut output),
        Command::Delete(arguments) => delete::run(arguments, &mut output),
        Command::Stats(arguments) => stats::run(arguments, &mut output),
        Command::Check(arguments) => check::run(arguments, &mut output),
        Command::Compact(arguments) => copy::compact(arguments, &mut output),
        Command::Backup(arguments) => copy::backup(arguments, &mut output),
        Command::Dump(arguments) => dump::dump(arguments, &mut output),
        Command::Load(arguments) => dump::load(arguments, &mut output),
        Command::Fingerprint(arguments) => fingerprint::run(arguments, &mut output),
        Command::Distance(arguments) => Ok(distance::run(arguments, &mut output)),
        Command::Plan(arguments) => plan::run(arguments, &mut output),
        Command::Bench(arguments) => bench::run(arguments, &mut output),
    };
    // What was printed before a failure is true all the same.
    let flushed = output.flush();
    let answer = answer.map_err(|error| cli.command.name_database(error))?;
    flushed?;
    Ok(answer)
}

impl Command {
    fn database(&self) -> Option<&Path> {
        match self {
            Self::Create(create::Arguments { database, .. })
            | Self::Ingest(ingest::Arguments { database, .. })
            | Self::Query(query::Arguments { database, .. })
            | Self::Explain(query::Arguments { database, .. })
            | Self::Get(get::Arguments { database, .. })
            | Self::Delete(delete::Arguments { database, .. })
            | Self::Stats(stats::Arguments { database })
            | Self::Check(check::Arguments { database })
            | Self::Compact(copy::Compact { database, .. })
            | Self::Backup(copy::Backup { database, .. })
            | Self::Dump(dump::Dump { database })
            | Self::Load(dump::Load { database, .. }) => Some(&database.database),
            Self::Fingerprint(_) | Self::Distance(_) | Self::Plan(_) | Self::Bench(_) => None,
        }
    }

    /// Says which database an error is about, where the error itself does not.
    fn name_database(&self, error: Failure) -> Failure {
        let error = match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => return error,
        };
        let names_its_file = matches!(
            *error,
            Error::Io { .. }
                | Error::NotFound { .. }
                | Error::AlreadyExists { .. }
                | Error::Busy { .. }
                | Error::NotSimdb { .. }
                | Error::NeedsRecovery { .. }
                | Error::NoRoom { .. }
                | Error::Input { .. }
        );
        match self.database() {
            Some(path) if !names_its_file => Box::new(About { path: path.to_owned(), error: *error }),
            _ => error,
        }
    }
}

/// An error with the database it is about.
#[derive(Debug)]
struct About {
    path: PathBuf,
    error: Error,
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for About {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// How inputs are read.
#[derive(Args)]
struct Reading {
    /// How the inputs are cut into documents
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    input_format: Format,

    /// The JSON field that names a document, instead of `key`, `id` or `url`
    #[arg(long, value_name = "FIELD")]
    key_field: Option<String>,

    /// A JSON field that holds HTML, beside `html`
    #[arg(long, value_name = "FIELD")]
    html_field: Option<String>,

    /// The longest record; longer ones are rejected (bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    max_record: usize,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Format {
    /// By the name of the input, or by how it begins
    #[default]
    Auto,
    /// A JSON object per line
    Jsonl,
    /// A key, a tab and a text per line
    Tsv,
    /// A file is a document, its path the key
    Text,
    /// A key, a tab and 16 hexadecimal digits per line
    Fingerprints,
}

impl Reading {
    fn options(&self) -> ReadOptions {
        let format = match self.input_format {
            Format::Auto => InputFormat::Auto,
            Format::Jsonl => InputFormat::Jsonl,
            Format::Tsv => InputFormat::Tsv,
            Format::Text => InputFormat::Text,
            Format::Fingerprints => InputFormat::Fingerprints,
        };
        let mut options = ReadOptions::new().format(format).max_record_bytes(self.max_record);
        if let Some(field) = &self.key_field {
            options = options.key_field(field);
        }
        if let Some(field) = &self.html_field {
            options = options.html_field(field);
        }
        options
    }
}

/// A max distance on the command line.
fn max_distance_parser() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=64)
}

/// The text schemes and `external`, by name.
fn parse_scheme(name: &str) -> Result<Scheme, Error> {
    name.parse()
}

/// Opens a database to read it: several such commands can run at once, and the permission to read suffices. Should
/// the engine have to recover the file first, it is opened for writing.
fn open_to_read(path: &Path) -> Result<Database, Error> {
    match Database::open(path, &OpenOptions::new().read_only(true)) {
        Err(Error::NeedsRecovery { .. }) => open_to_write(path),
        opened => opened,
    }
}

fn open_to_write(path: &Path) -> Result<Database, Error> {
    Database::open(path, &OpenOptions::new())
}

/// The bytes of a key argument: on Unix whatever was given, elsewhere its text.
fn key_bytes(argument: &std::ffi::OsStr) -> Vec<u8> {
    argument.as_encoded_bytes().to_vec()
}

/// The path of the database, the first argument of most commands.
#[derive(Args)]
struct DatabaseArgument {
    /// The database file
    #[arg(value_name = "DB")]
    database: PathBuf,
}

/// What matters in the choice of a plan.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Preference {
    /// The fewest tables
    Space,
    /// Twice the space has to be worth half the time
    #[default]
    Balance,
    /// The least time
    Speed,
}

impl From<Preference> for Prefer {
    fn from(preference: Preference) -> Self {
        match preference {
            Preference::Space => Self::Space,
            Preference::Balance => Self::Balance,
            Preference::Speed => Self::Speed,
        }
    }
}
