//! Where the pairs of a search go: to standard output, into a file of lines, or into a Parquet file.

use std::path::PathBuf;

use clap::ValueEnum;

use super::answer::Failure;
use super::output::Output;
use super::resumable::Resumable;
use super::standing::StandingFile;
#[cfg(feature = "parquet")]
use crate::parquet::{KeyColumns, PairFile};
use crate::{Error, FingerprintGroup, Pair, PairPosition};

/// How and where pairs are written.
#[derive(clap::Args)]
pub(super) struct PairArguments {
    /// How pairs are written [default: tsv, with --json jsonl]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<PairFormat>,

    /// Write the pairs into this file. A search that was killed goes on if the same command is given again
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    output: Option<PathBuf>,

    /// Put the new file in the place of an old one
    #[arg(long, requires = "output")]
    replace: bool,

    /// Write the keys to Parquet as BINARY: some are not UTF-8
    #[cfg(feature = "parquet")]
    #[arg(long, requires = "output")]
    binary_keys: bool,
}

impl PairArguments {
    /// Whether lines go to standard output.
    pub(super) fn prints_lines(&self) -> bool {
        let is_screen = match &self.output {
            Some(path) => path.as_os_str() == "-",
            None => true,
        };
        is_screen && !matches!(self.format, Some(PairFormat::Jsonl | PairFormat::Parquet))
    }

    /// Where the file for the pairs is. `-` is standard output.
    pub(super) fn file(&self, output: &Output) -> Option<PathBuf> {
        match &self.output {
            Some(path) if path.as_os_str() != "-" => Some(output.console().place_of(path)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PairFormat {
    /// Tabs between distance, keys and numbers of documents
    Tsv,
    /// A JSON object per line
    Jsonl,
    /// Parquet; needs --output
    Parquet,
}

/// What the pairs are of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sides {
    /// One database.
    One,
    /// Two databases.
    Two,
    /// A database and an input, which is read anew each time. So a search for these cannot go on.
    AndInput,
}

/// What takes the pairs.
pub(super) enum Sink {
    Screen,
    Lines(Resumable),
    /// A file is there already. It may be whole, and of a command that was killed just after that.
    Standing(StandingFile),
    #[cfg(feature = "parquet")]
    Parquet(Box<PairFile>),
}

impl Sink {
    /// Opens what takes the pairs. Also returns the position from which the search goes on. `query` says which
    /// pairs are wanted.
    pub(super) fn open(
        arguments: &PairArguments,
        query: &str,
        sides: Sides,
        output: &mut Output,
    ) -> Result<(Self, Option<PairPosition>), Failure> {
        let format = match (arguments.format, output.is_json()) {
            (None, true) | (Some(PairFormat::Jsonl), _) => PairFormat::Jsonl,
            (Some(PairFormat::Tsv), true) => {
                return Err("--json prints JSON Lines, and --format asks for tsv".into());
            }
            (None, false) => PairFormat::Tsv,
            (Some(format), _) => format,
        };
        output.print_as_json(format == PairFormat::Jsonl);
        let path = arguments.file(output);
        match (format, path) {
            #[cfg(feature = "parquet")]
            (PairFormat::Parquet, Some(path)) => {
                let keys = match arguments.binary_keys {
                    true => KeyColumns::Binary,
                    false => KeyColumns::Text,
                };
                let mut file = PairFile::create(path, keys, arguments.replace)?;
                if sides != Sides::One {
                    file = file.of_two_databases();
                }
                Ok((Self::Parquet(Box::new(file)), None))
            }
            #[cfg(not(feature = "parquet"))]
            (PairFormat::Parquet, Some(_)) => Err(
                "this program was built without Parquet: build it with `--features cli,parquet`"
                    .into(),
            ),
            (PairFormat::Parquet, None) => Err(
                "--format parquet needs a file: give --output, such as --output pairs.parquet"
                    .into(),
            ),
            (_, None) => Ok((Self::Screen, None)),
            (format, Some(path)) => {
                let is_standing = path.symlink_metadata().is_ok();
                if is_standing && !arguments.replace && !Resumable::is_begun(&path) {
                    return Ok((Self::Standing(StandingFile::open(&path)?), None));
                }
                let name = if format == PairFormat::Jsonl {
                    "jsonl"
                } else {
                    "tsv"
                };
                let query = format!("{name} {query}");
                let (file, position) = Resumable::open(&path, query, sides != Sides::AndInput)?;
                Ok((Self::Lines(file), position))
            }
        }
    }

    /// Takes a pair. `print` prints it.
    pub(super) fn pair(
        &mut self,
        pair: &Pair,
        output: &mut Output,
        print: impl FnOnce(&mut Output),
    ) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet(file) => Ok(file.pair(pair).map_err(with_advice)?),
            _ => {
                _ = pair;
                print(output);
                self.take(output)
            }
        }
    }

    /// Takes a group. `print` prints it.
    pub(super) fn group(
        &mut self,
        group: &FingerprintGroup,
        output: &mut Output,
        print: impl FnOnce(&mut Output),
    ) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet(file) => Ok(file.group(group).map_err(with_advice)?),
            _ => {
                _ = group;
                print(output);
                self.take(output)
            }
        }
    }

    fn take(&mut self, output: &mut Output) -> Result<(), Failure> {
        match self {
            Self::Lines(file) if output.is_full() => file.write(&output.take()),
            Self::Standing(file) => Ok(file.compare(&output.take())?),
            _ => Ok(()),
        }
    }

    /// Whether the pairs go to standard output.
    pub(super) fn is_screen(&self) -> bool {
        matches!(self, Self::Screen)
    }

    /// All pairs of some units were taken, up to a position. Some of the next unit may have been taken too.
    pub(super) fn reach(
        &mut self,
        position: PairPosition,
        output: &mut Output,
    ) -> Result<(), Failure> {
        match self {
            Self::Lines(file) => {
                file.write(&output.take())?;
                file.reach(position)
            }
            Self::Standing(file) => Ok(file.compare(&output.take())?),
            _ => Ok(()),
        }
    }

    /// Ends with all pairs.
    pub(super) fn finish(self, output: &Output) -> Result<(), Failure> {
        match self {
            Self::Screen => Ok(()),
            Self::Standing(file) => Ok(file.finish(output)?),
            Self::Lines(file) => file.finish(),
            #[cfg(feature = "parquet")]
            Self::Parquet(file) => Ok(file.finish().map(drop)?),
        }
    }

    /// The search has ended before it was done. Returns what to do. So many lines are `behind` the position.
    pub(super) fn stop(
        &self,
        reached: Option<PairPosition>,
        behind: u64,
    ) -> Result<String, Failure> {
        let again = match behind {
            0 => String::new(),
            lines => format!(", and prints the last {lines} lines again"),
        };
        match self {
            Self::Screen => Ok(match reached {
                Some(position) => format!("; `--from {position}` goes on from there{again}"),
                None => String::new(),
            }),
            Self::Standing(_) => Ok("; the file was there before, and stays as it is".to_owned()),
            Self::Lines(file) => {
                file.save()?;
                let how = if file.goes_on() {
                    "goes on from there"
                } else {
                    "begins anew"
                };
                Ok(format!("; the same command {how}"))
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(_) => {
                Ok("; no file was made, and the same command begins anew".to_owned())
            }
        }
    }

    /// The error of a search, with what to do.
    pub(super) fn explained(&self, error: Error) -> Failure {
        match (self, error) {
            (Self::Lines(file), Error::PairPosition) => file.of_another_search(),
            (_, error) => error.into(),
        }
    }
}

#[cfg(feature = "parquet")]
fn with_advice(error: Error) -> Error {
    match error {
        Error::Input {
            source_name,
            line,
            reason,
        } => {
            let reason = format!("{reason}: give --binary-keys");
            Error::Input {
                source_name,
                line,
                reason,
            }
        }
        error => error,
    }
}
