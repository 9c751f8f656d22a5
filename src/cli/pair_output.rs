//! Where the pairs of a search go: to standard output, into a file of lines, or into a Parquet file.
//!
//! A search that was killed goes on where its file of lines is known to be whole: a small file beside it says which
//! position of the search has which length.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::ValueEnum;

use super::answer::Failure;
use super::escaping::printable;
use super::output::{Output, name_fields};
use super::output_files::StandingFile;
use crate::files::{directory_of, ensure_named_as_plain, replace, sync_name};
#[cfg(feature = "parquet")]
use crate::parquet::{KeyColumns, PairFile};
use crate::plural::counted;
use crate::{Error, FingerprintGroup, Pair, PairPosition};
use serde_json::{Value, json};

/// How and where pairs are written.
#[derive(clap::Args)]
pub(super) struct PairArguments {
    /// How pairs are written [default: tsv, with --json jsonl]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<PairFormat>,

    /// Write the pairs into this file
    ///
    /// If the search is stopped or killed, the same command goes on from there
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    output: Option<PathBuf>,

    /// Replace a file that exists; of lines, what is in it goes when the search begins
    #[arg(long, requires = "output", conflicts_with = "from")]
    replace: bool,

    /// Write the keys to Parquet as BINARY, if some are not UTF-8
    #[cfg(feature = "parquet")]
    #[arg(long, requires = "output", conflicts_with = "from")]
    binary_keys: bool,
}

impl PairArguments {
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

    /// Opens what takes the pairs. Also returns the position from which the search goes on. `wanted` says which
    /// pairs are.
    pub(super) fn open(
        &self,
        wanted: &Value,
        sides: Sides,
        output: &mut Output,
    ) -> Result<(Box<dyn Sink>, Option<PairPosition>), Failure> {
        let format = match (self.format, output.is_json()) {
            (None, true) | (Some(PairFormat::Jsonl), _) => PairFormat::Jsonl,
            (Some(PairFormat::Tsv), true) => {
                return Err("--json prints JSON Lines, and --format asks for tsv".into());
            }
            (None, false) => PairFormat::Tsv,
            (Some(format), _) => format,
        };
        output.print_as_json(format == PairFormat::Jsonl);
        let path = self.file(output);
        match (format, path) {
            #[cfg(feature = "parquet")]
            (PairFormat::Parquet, Some(path)) => {
                let keys = match self.binary_keys {
                    true => KeyColumns::Binary,
                    false => KeyColumns::Text,
                };
                let mut file = PairFile::create(path, keys, self.replace)?;
                if sides != Sides::One {
                    file = file.of_two_databases();
                }
                Ok((Box::new(file), None))
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
            (_, None) => Ok((Box::new(Screen), None)),
            (format, Some(path)) => {
                ensure_named_as_plain(&path)?;
                let is_standing = path.symlink_metadata().is_ok();
                if is_standing && !self.replace && !Resumable::is_begun(&path) {
                    return Ok((Box::new(StandingFile::open(&path)?), None));
                }
                let name = if format == PairFormat::Jsonl {
                    "jsonl"
                } else {
                    "tsv"
                };
                let query = format!("{name} {wanted}");
                let (file, position) =
                    Resumable::open(&path, query, sides != Sides::AndInput, self.replace)?;
                Ok((Box::new(file), position))
            }
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

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sides {
    /// One database.
    One,
    /// Two databases.
    Two,
    /// A database and an input, which is read anew each time. So a search for these cannot go on.
    AndInput,
}

/// What takes the pairs of a search.
pub(super) trait Sink {
    fn pair(&mut self, pair: &Pair, lines: PairLines, output: &mut Output) -> Result<(), Failure> {
        lines.print_pair(pair, output);
        self.take(output)
    }

    fn group(
        &mut self,
        group: &FingerprintGroup,
        lines: PairLines,
        output: &mut Output,
    ) -> Result<(), Failure> {
        lines.print_group(group, output);
        self.take(output)
    }

    fn take(&mut self, _: &mut Output) -> Result<(), Failure> {
        Ok(())
    }

    /// All pairs of some units were taken, up to a position. Some of the next unit may have been taken too.
    fn reach(&mut self, _: PairPosition, output: &mut Output) -> Result<(), Failure> {
        self.take(output)
    }

    /// Whether the pairs go to standard output.
    fn is_screen(&self) -> bool {
        false
    }

    /// Ends with all pairs.
    fn finish(self: Box<Self>, output: &Output) -> Result<(), Failure>;

    /// The search has ended before it was done. Returns what to do. So many lines are `behind` the position.
    fn stop(&self, reached: Option<PairPosition>, behind: u64) -> Result<String, Failure>;

    /// The error of a search, with what to do.
    fn explained(&self, error: Error) -> Failure {
        error.into()
    }
}

struct Screen;

impl Sink for Screen {
    fn is_screen(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>, _: &Output) -> Result<(), Failure> {
        Ok(())
    }

    fn stop(&self, reached: Option<PairPosition>, behind: u64) -> Result<String, Failure> {
        let again = match behind {
            0 => String::new(),
            lines => format!(
                ", and prints {} again that came last",
                counted(lines, "line")
            ),
        };
        Ok(match reached {
            Some(position) => format!("; `--from {position}` goes on from there{again}"),
            None => String::new(),
        })
    }
}

impl Sink for Resumable {
    fn take(&mut self, output: &mut Output) -> Result<(), Failure> {
        match output.is_full() {
            true => self.write(&output.take()),
            false => Ok(()),
        }
    }

    fn reach(&mut self, position: PairPosition, output: &mut Output) -> Result<(), Failure> {
        self.write(&output.take())?;
        self.note(position)
    }

    /// The file is whole: nothing has to be known of it any more.
    fn finish(self: Box<Self>, _: &Output) -> Result<(), Failure> {
        self.file.sync_all().map_err(Error::io(&self.path))?;
        sync_name(&self.path)?;
        fs::remove_file(&self.sidecar).map_err(Error::io(&self.sidecar))?;
        Ok(sync_name(&self.path)?)
    }

    fn stop(&self, _: Option<PairPosition>, _: u64) -> Result<String, Failure> {
        self.save()?;
        let how = if self.goes_on {
            "goes on from there"
        } else {
            "begins anew"
        };
        Ok(format!("; the same command {how}"))
    }

    fn explained(&self, error: Error) -> Failure {
        let reason = "the database has changed since, or it is another one";
        match error {
            Error::PairPosition => stuck(&self.path, &self.sidecar, reason),
            error => error.into(),
        }
    }
}

#[cfg(feature = "parquet")]
impl Sink for PairFile {
    fn pair(&mut self, pair: &Pair, _: PairLines, _: &mut Output) -> Result<(), Failure> {
        Ok(PairFile::pair(self, pair).map_err(with_advice)?)
    }

    fn group(
        &mut self,
        group: &FingerprintGroup,
        _: PairLines,
        _: &mut Output,
    ) -> Result<(), Failure> {
        Ok(PairFile::group(self, group).map_err(with_advice)?)
    }

    fn finish(self: Box<Self>, _: &Output) -> Result<(), Failure> {
        Ok(PairFile::finish(*self).map(drop)?)
    }

    fn stop(&self, _: Option<PairPosition>, _: u64) -> Result<String, Failure> {
        Ok("; no file was made, and the same command begins anew".to_owned())
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

#[derive(Clone, Copy)]
pub(super) struct PairLines {
    pub(super) has_groups: bool,
    /// Whether sketches are compared.
    pub(super) has_similarity: bool,
}

impl PairLines {
    fn print_pair(self, pair: &Pair, output: &mut Output) {
        match output.is_json() {
            true => output.print_json(&pair_object(pair, self.has_groups)),
            false => output.print_line(&pair_line(pair, self.has_groups)),
        }
    }

    fn print_group(self, group: &FingerprintGroup, output: &mut Output) {
        match output.is_json() {
            true => output.print_json(&group_object(group)),
            false => output.print_line(&group_line(group, self.has_similarity)),
        }
    }
}

fn pair_line(pair: &Pair, has_groups: bool) -> String {
    let Pair { a, b, distance, .. } = pair;
    let mut line = format!(
        "{distance}\t{}\t{}\t",
        printable(&a.newest_key),
        printable(&b.newest_key)
    );
    if has_groups {
        line += &format!("{}\t{}\t", a.documents, b.documents);
    }
    line += &match pair.similarity {
        Some(similarity) => format!("{similarity:.2}"),
        None => "-".to_owned(),
    };
    line
}

/// A group. Where sketches are compared, its documents have the same.
fn group_line(group: &FingerprintGroup, has_similarity: bool) -> String {
    let key = printable(&group.newest_key);
    let similarity = if has_similarity { "1.00" } else { "-" };
    format!("0\t{key}\t\t{}\t0\t{similarity}", group.documents)
}

fn pair_object(pair: &Pair, has_groups: bool) -> Value {
    let object_of = if has_groups {
        group_object
    } else {
        document_object
    };
    let mut object = json!({
        "a": object_of(&pair.a),
        "b": object_of(&pair.b),
        "distance": pair.distance,
    });
    if let Some(similarity) = pair.similarity {
        object["similarity"] = similarity.into();
    }
    object
}

fn document_object(document: &FingerprintGroup) -> Value {
    let mut object = name_fields("key", &document.newest_key);
    let fingerprint = document.fingerprint.to_string();
    object["fingerprint"] = fingerprint.into();
    object
}

fn group_object(group: &FingerprintGroup) -> Value {
    let mut object = document_object(group);
    object["documents"] = group.documents.into();
    object
}

/// The first line of the small file.
const VERSION: &str = "simdb pairs 3";
/// Saving takes at most this share of the time.
const SHARE: u32 = 20;
/// The least time between two saves.
const PAUSE: Duration = Duration::from_millis(20);

/// A file that is being written.
struct Resumable {
    path: PathBuf,
    sidecar: PathBuf,
    file: File,
    /// Which pairs are wanted, on one line. Another search does not go on with this file.
    query: String,
    /// Whether the search can go on. Otherwise it begins anew with the same file.
    goes_on: bool,
    /// What the small file says with the next save.
    saved: Saved,
    /// The bytes that are written.
    length: u64,
    /// When the next save is due.
    due: Instant,
}

impl Resumable {
    /// Whether a search has begun a file, and has not ended.
    fn is_begun(path: &Path) -> bool {
        sidecar_of(path).symlink_metadata().is_ok()
    }

    /// Opens a file to go on with it, or begins it, in the place of an old one. Also returns the position to go on
    /// from. A search that cannot go on begins its file anew. If it `replaces` another file, that may be there still.
    fn open(
        path: &Path,
        query: String,
        goes_on: bool,
        replaces: bool,
    ) -> Result<(Self, Option<PairPosition>), Failure> {
        let failed = Error::io(path);
        let sidecar = sidecar_of(path);
        directory_of(path)?;
        let is_new = !Self::is_begun(path);
        if let Ok(text) = fs::read_to_string(&sidecar) {
            // Before the file is made.
            parsed(&text, &query).map_err(|reason| stuck(path, &sidecar, &reason))?;
        }
        if is_new {
            // First it is said that nothing is known of the file. Then the file may be there.
            save(&sidecar, &query, &Saved::default())?;
        }
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        if opened.is_err() && is_new {
            // Nothing was begun.
            _ = fs::remove_file(&sidecar);
        }
        let file = opened.map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{}: another search is writing it", path.display()).into());
            }
            Err(TryLockError::Error(source)) => return Err(failed(source).into()),
        }
        // From here on nobody else changes it.
        let saved = match fs::read_to_string(&sidecar) {
            Ok(text) => parsed(&text, &query).map_err(|reason| stuck(path, &sidecar, &reason))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(
                    format!("{}: another search has just written it", path.display()).into(),
                );
            }
            Err(error) => return Err(Error::io(&sidecar)(error).into()),
        };
        let found = file.metadata().map_err(&failed)?;
        let number = number_of(&found);
        // Until the number was kept, nothing was written.
        let is_another = match saved.number {
            Some(_) => saved.number != number,
            None => number.is_some() && !is_new && !replaces && found.len() > 0,
        };
        if is_another {
            return Err(stuck(path, &sidecar, "another file is in its place"));
        }
        let saved = Saved {
            number,
            reached: saved.reached.filter(|_| goes_on),
        };
        let (position, length) = match &saved.reached {
            Some((position, length)) => (Some(position.clone()), *length),
            None => (None, 0),
        };
        if found.len() < length {
            return Err(stuck(path, &sidecar, "the file is shorter than it was"));
        }
        save(&sidecar, &query, &saved)?;
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
            saved,
            length,
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
    fn note(&mut self, position: PairPosition) -> Result<(), Failure> {
        let is_known = matches!(&self.saved.reached, Some((known, _)) if *known == position);
        if !self.goes_on || is_known {
            return Ok(());
        }
        self.saved.reached = Some((position, self.length));
        let began = Instant::now();
        if began >= self.due {
            self.save()?;
            self.due = began + (began.elapsed() * SHARE).max(PAUSE);
        }
        Ok(())
    }

    /// Makes durable what is known of the file.
    fn save(&self) -> Result<(), Failure> {
        // The position must not be durable before what it speaks of.
        self.file.sync_data().map_err(Error::io(&self.path))?;
        save(&self.sidecar, &self.query, &self.saved)
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
    let path = path.display();
    let sidecar = sidecar.display();
    format!("{path}: the search that began this file cannot go on: {reason}; remove {path} and {sidecar}, and start again")
        .into()
}

/// The number of a file on its disk, and when it was made: a disk gives the number of a file that is gone to the next
/// one. `None` where files have no number, or before it is known.
type FileNumber = Option<u128>;

#[cfg(unix)]
fn number_of(file: &fs::Metadata) -> FileNumber {
    let made = file.created().ok();
    let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let number = u128::from(std::os::unix::fs::MetadataExt::ino(file));
    Some(number << 64 | u128::from(made.map_or(0, |made| made.as_nanos() as u64)))
}

#[cfg(not(unix))]
fn number_of(_: &fs::Metadata) -> FileNumber {
    None
}

/// What the small file of a search says.
#[derive(Debug, Default, PartialEq)]
struct Saved {
    /// What the file is known by, whatever its name.
    number: FileNumber,
    /// The last position, and the bytes of the file that belong to it.
    reached: Option<(PairPosition, u64)>,
}

fn parsed(text: &str, query: &str) -> Result<Saved, String> {
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return Err("its `.position` file is of another release, or damaged".to_owned());
    }
    let begun = lines.next().unwrap_or_default();
    if begun != query {
        return Err(format!(
            "it was begun for another question: {begun}, where this is {query}"
        ));
    }
    let number = match lines.next() {
        Some("-") => None,
        line => match line.unwrap_or_default().parse() {
            Ok(number) => Some(number),
            Err(_) => {
                return Err(format!(
                    "{:?} is no number of a file",
                    line.unwrap_or_default()
                ));
            }
        },
    };
    let Some(line) = lines.next() else {
        return Ok(Saved {
            number,
            reached: None,
        });
    };
    let (position, length) = line.split_once(' ').unwrap_or_default();
    match (position.parse(), length.parse()) {
        (Ok(position), Ok(length)) => Ok(Saved {
            number,
            reached: Some((position, length)),
        }),
        _ => Err(format!("{line:?} is no position")),
    }
}

/// Writes the small file, in the place of an older one.
fn save(sidecar: &Path, query: &str, saved: &Saved) -> Result<(), Failure> {
    let number = saved
        .number
        .map_or("-".to_owned(), |number| number.to_string());
    let place = match &saved.reached {
        Some((position, length)) => format!("{position} {length}\n"),
        None => String::new(),
    };
    let text = format!("{VERSION}\n{query}\n{number}\n{place}");
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
        for (number, reached) in [
            (None, None),
            (Some(7), Some((position.clone(), 0))),
            (Some(u128::MAX), Some((position, u64::MAX))),
        ] {
            let saved = Saved { number, reached };
            save(&sidecar, "tsv 3", &saved)?;
            let text = fs::read_to_string(&sidecar)?;
            assert_eq!(parsed(&text, "tsv 3")?, saved);
            assert!(
                parsed(&text, "tsv 4").is_err_and(|reason| reason.contains("another question"))
            );
        }
        let begin = "simdb pairs 3\ntsv 3\n7\n";
        for damaged in [
            String::new(),
            "simdb pairs 2\ntsv 3\n\n".to_owned(),
            "simdb pairs 3\ntsv 3\n".to_owned(),
            "simdb pairs 3\ntsv 3\nx\n".to_owned(),
            format!("{begin}7@ff 9\n"),
            format!("{begin}{text}\n"),
            format!("{begin}{text} x\n"),
        ] {
            assert!(parsed(&damaged, "tsv 3").is_err(), "{damaged}");
        }
        Ok(())
    }
}
