//! Where the pairs of a search go: to standard output, into a file of lines, or into a Parquet file.
//!
//! A search that was killed goes on where its file of lines is known to be whole: a small file beside it says which
//! position of the search has which length.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::answer::Failure;
use super::output::Output;
use super::standing::StandingFile;
use crate::files::{directory_of, replace, sync_name};
#[cfg(feature = "parquet")]
use crate::parquet::{KeyColumns, PairFile};
use crate::{Error, FingerprintGroup, Pair, PairPosition};
use serde_json::Value;

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
    /// Opens what takes the pairs. Also returns the position from which the search goes on. `wanted` says which
    /// pairs are.
    pub(super) fn open(
        arguments: &PairArguments,
        wanted: &Value,
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
                let query = format!("{name} {wanted}");
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

/// The first line of the small file.
const VERSION: &str = "simdb pairs 2";
/// Saving takes at most this share of the time.
const SHARE: u32 = 20;
/// The least time between two saves.
const PAUSE: Duration = Duration::from_millis(20);

/// A file that is being written.
pub(super) struct Resumable {
    path: PathBuf,
    sidecar: PathBuf,
    file: File,
    /// Which pairs are wanted, on one line. Another search does not go on with this file.
    query: String,
    /// Whether the search can go on. Otherwise it begins anew with the same file.
    goes_on: bool,
    /// The bytes that are written.
    length: u64,
    /// The last position, and the bytes of the file that belong to it.
    reached: Option<(PairPosition, u64)>,
    /// When the next save is due.
    due: Instant,
}

impl Resumable {
    /// Whether a search has begun a file, and has not ended.
    fn is_begun(path: &Path) -> bool {
        sidecar_of(path).symlink_metadata().is_ok()
    }

    /// Opens a file to go on with it, or begins it, in the place of an old one. Also returns the position to go on
    /// from. A search that cannot go on begins its file anew.
    fn open(
        path: &Path,
        query: String,
        goes_on: bool,
    ) -> Result<(Self, Option<PairPosition>), Failure> {
        let failed = Error::io(path);
        let sidecar = sidecar_of(path);
        let saved = match fs::read_to_string(&sidecar) {
            Ok(text) => {
                Some(parsed(&text, &query).map_err(|reason| stuck(path, &sidecar, &reason))?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(&sidecar)(error).into()),
        };
        if directory_of(path).is_err() {
            let folder = path.parent().unwrap_or(path).display();
            return Err(format!("{}: there is no directory {folder}", path.display()).into());
        }
        if saved.is_none() {
            // First it is said that nothing is known of the file. Then the file may be there.
            save(&sidecar, &query, None)?;
        }
        let reached = saved.flatten().filter(|_| goes_on);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{}: another search is writing it", path.display()).into());
            }
            Err(TryLockError::Error(source)) => return Err(failed(source).into()),
        }
        let (position, length) = match &reached {
            Some((position, length)) => (Some(position.clone()), *length),
            None => (None, 0),
        };
        if file.metadata().map_err(&failed)?.len() < length {
            return Err(stuck(path, &sidecar, "the file is shorter than it was"));
        }
        // What came after is written again.
        file.set_len(length).map_err(&failed)?;
        (&file).seek(SeekFrom::Start(length)).map_err(&failed)?;
        let path = path.to_owned();
        let due = Instant::now();
        let file = Self {
            path,
            sidecar,
            file,
            query,
            goes_on,
            length,
            reached,
            due,
        };
        Ok((file, position))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(Error::io(&self.path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Notes that everything up to a position is written. From time to time that is made durable.
    ///
    /// A position may come again, when some of what follows it is written. What follows it is found again by who goes
    /// on from there, so it is the first time that counts.
    fn reach(&mut self, position: PairPosition) -> Result<(), Failure> {
        let is_known = matches!(&self.reached, Some((known, _)) if *known == position);
        if !self.goes_on || is_known {
            return Ok(());
        }
        self.reached = Some((position, self.length));
        let began = Instant::now();
        if began >= self.due {
            self.save()?;
            self.due = began + (began.elapsed() * SHARE).max(PAUSE);
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Makes durable what is known of the file.
    fn save(&self) -> Result<(), Failure> {
        // The position must not be durable before what it speaks of.
        self.file.sync_data().map_err(Error::io(&self.path))?;
        save(&self.sidecar, &self.query, self.reached.as_ref())
    }

    /// The file is whole: nothing has to be known of it any more.
    fn finish(self) -> Result<(), Failure> {
        self.file.sync_all().map_err(Error::io(&self.path))?;
        sync_name(&self.path)?;
        fs::remove_file(&self.sidecar).map_err(Error::io(&self.sidecar))?;
        Ok(sync_name(&self.path)?)
    }

    /// What to do if the search does not know the position.
    fn of_another_search(&self) -> Failure {
        stuck(
            &self.path,
            &self.sidecar,
            "the database has changed since, or it is another one",
        )
    }
}

/// The small file of a file.
fn sidecar_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".position");
    name.into()
}

/// A file that cannot be gone on with.
fn stuck(path: &Path, sidecar: &Path, reason: &str) -> Failure {
    let (path, sidecar) = (path.display(), sidecar.display());
    format!("{path}: the search that has begun it cannot go on: {reason}; remove {path} and {sidecar} to begin anew")
        .into()
}

/// A position and the bytes of the file up to it, or nothing, from the text of the small file of a search.
fn parsed(text: &str, query: &str) -> Result<Option<(PairPosition, u64)>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return Err("what is said of it beside it is of another release, or damaged".to_owned());
    }
    let begun = lines.next().unwrap_or_default();
    if begun != query {
        return Err(format!(
            "it was begun for another question: {begun}, and not {query}"
        ));
    }
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    let (position, length) = line.split_once(' ').unwrap_or_default();
    match (position.parse(), length.parse()) {
        (Ok(position), Ok(length)) => Ok(Some((position, length))),
        _ => Err(format!("{line:?} is no position")),
    }
}

/// Writes the small file, in the place of an older one.
fn save(sidecar: &Path, query: &str, reached: Option<&(PairPosition, u64)>) -> Result<(), Failure> {
    let place = match reached {
        Some((position, length)) => format!("{position} {length}\n"),
        None => String::new(),
    };
    let text = format!("{VERSION}\n{query}\n{place}");
    Ok(replace(sidecar, text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_saved_and_only_for_its_question() -> Result<(), Failure> {
        let folder = tempfile::tempdir()?;
        let sidecar = folder.path().join("p.position");
        let text = "1:5/3:0/0:0:0.16.0,1.16.0:00000000000000ff";
        let position: PairPosition = text.parse()?;
        for reached in [
            None,
            Some((position.clone(), 0)),
            Some((position, u64::MAX)),
        ] {
            save(&sidecar, "tsv 3", reached.as_ref())?;
            let text = fs::read_to_string(&sidecar)?;
            assert_eq!(parsed(&text, "tsv 3")?, reached);
            assert!(
                parsed(&text, "tsv 4").is_err_and(|reason| reason.contains("another question"))
            );
        }
        let begin = "simdb pairs 2\ntsv 3\n";
        for damaged in [
            String::new(),
            "simdb pairs 1\ntsv 3\n\n".to_owned(),
            format!("{begin}7@ff 9\n"),
            format!("{begin}{text}\n"),
            format!("{begin}{text} x\n"),
        ] {
            assert!(parsed(&damaged, "tsv 3").is_err(), "{damaged}");
        }
        Ok(())
    }
}
