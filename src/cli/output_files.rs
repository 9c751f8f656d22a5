//! The files that a command makes, and what stands in their places. A command that was killed just after its output
//! had got its name finds that output when it is given again: then it is done. Anything else that stands there is not
//! touched, and an output is never what the command reads.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::{self, Path, PathBuf};

use super::answer::Failure;
use super::console::Console;
use super::output::Output;
use super::pair_output::Sink;
use super::verbs::Opening;
use crate::files::{self, Existing, NewFile, ensure_nothing_at};
use crate::source::Source;
use crate::{CreateOptions, Database, Document, Error, PairPosition, Snapshot};

fn already_exists(path: &Path) -> Error {
    Error::AlreadyExists {
        path: path.to_owned(),
    }
}

/// A file that may be whole: it is compared with what the command would write.
pub(super) struct StandingFile {
    path: PathBuf,
    file: BufReader<File>,
}

impl StandingFile {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_file() {
            return Err(already_exists(path));
        }
        let file = File::open(path).map_err(Error::io(path))?;
        let file = BufReader::with_capacity(256 << 10, file);
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Refuses a file that goes on otherwise.
    fn compare(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut standing = Vec::with_capacity(bytes.len());
        let read = self
            .file
            .by_ref()
            .take(bytes.len() as u64)
            .read_to_end(&mut standing);
        read.map_err(Error::io(&self.path))?;
        if standing == bytes {
            Ok(())
        } else {
            Err(already_exists(&self.path))
        }
    }
}

/// The pairs of a search that was killed just after its file was whole are those of the file.
impl Sink for StandingFile {
    fn take(&mut self, output: &mut Output) -> Result<(), Failure> {
        Ok(self.compare(&output.take())?)
    }

    /// Refuses a file with more than was compared. Tells that it is whole.
    fn finish(mut self: Box<Self>, output: &Output) -> Result<(), Failure> {
        let more = self.file.by_ref().take(1).read_to_end(&mut Vec::new());
        match more.map_err(Error::io(&self.path))? {
            0 => print_complete(&self.path, output),
            _ => return Err(already_exists(&self.path).into()),
        }
        Ok(())
    }

    fn stop(&self, _: Option<PairPosition>, _: u64) -> Result<String, Failure> {
        Ok("; the file was there before, and stays as it is".to_owned())
    }
}

/// Tells that nothing was to be done.
pub(super) fn print_complete(path: &Path, output: &Output) {
    output.remark(&format!(
        "{}: it is already there and complete",
        path.display()
    ));
}

/// Refuses what stands there and does not begin as the output does, before there is any work for it.
pub(super) fn ensure_may_stand(path: &Path, begin: &[u8]) -> Result<(), Error> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    StandingFile::open(path)?.compare(begin)
}

/// A database that may be whole: it is compared with what the command would make.
pub(super) struct StandingDatabase {
    path: PathBuf,
    database: Database,
}

impl StandingDatabase {
    /// Opens what stands there. Nothing if nothing does.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] if something else stands there, or a database that others have open.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Error> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        // A command that was killed has not closed its file.
        let database = Opening::Read.open(path);
        Ok(Some(Self {
            path: path.to_owned(),
            database: database.map_err(|_| already_exists(path))?,
        }))
    }

    /// Refuses a database that was created with other options, has other sources, or other documents or the same in
    /// another order. Returns what it holds.
    pub(super) fn compare(
        &self,
        options: &CreateOptions,
        sources: &[Source],
        documents: impl IntoIterator<Item = Result<Document, Error>>,
    ) -> Result<Snapshot, Error> {
        let snapshot = self.database.snapshot()?;
        let created = self.database.ensure_created_with(options);
        if created.is_err() || snapshot.sources()? != sources {
            return Err(already_exists(&self.path));
        }
        let mut standing = snapshot.documents();
        for document in documents {
            if standing.next().transpose()? != Some(document?) {
                return Err(already_exists(&self.path));
            }
        }
        if standing.next().is_some() {
            return Err(already_exists(&self.path));
        }
        drop(standing);
        Ok(snapshot)
    }
}

/// As [`ensure_apart`], for an output that takes the place of what stands there. Refuses what is no file too, such as
/// the socket of a database.
pub(super) fn ensure_replaceable<'p>(
    output: &Path,
    database: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    if is_no_file(output) {
        let reason =
            "is no file but a socket, a pipe or a device; choose another name for the output";
        return Err(format!("{}: {reason}", output.display()).into());
    }
    ensure_apart(output, database, inputs)
}

/// Whether something else than a file or a directory stands there: a socket, a pipe, a terminal or a device.
pub(super) fn is_no_file(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(there) => !there.is_file() && !there.is_dir(),
        Err(_) => false,
    }
}

/// Refuses to write into the database, or into an input or a file in a directory that is one. `output` and `inputs` are
/// where the files are.
pub(super) fn ensure_apart<'p>(
    output: &Path,
    database: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    let is_database = database.is_some_and(|database| are_same_file(output, database));
    let mut meant = is_database.then_some("the database itself");
    for input in inputs {
        if are_same_file(output, input) || is_below(output, input) {
            meant = meant.or(Some("one of the inputs"));
        }
    }
    match meant {
        Some(meant) => {
            let path = output.display();
            Err(format!("{path}: is {meant}; choose another file for the output").into())
        }
        None => Ok(()),
    }
}

/// Whether two paths lead to one file, by links or as two of its names. The file need not be there yet.
pub(super) fn are_same_file(a: &Path, b: &Path) -> bool {
    if files::are_same_file(a, b) {
        return true;
    }
    match (place_of(a), place_of(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Where a file is or will be, whatever links lead to its folder.
fn place_of(path: &Path) -> Option<PathBuf> {
    let path = path::absolute(path).ok()?;
    let folder = path.parent()?;
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    Some(folder.join(path.file_name()?))
}

/// Whether a file is in a directory. It need not be there yet.
pub(super) fn is_below(file: &Path, directory: &Path) -> bool {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (
        fs::canonicalize(file).or(fs::canonicalize(folder)),
        fs::canonicalize(directory),
    ) {
        (Ok(file), Ok(directory)) => file.starts_with(directory),
        _ => false,
    }
}

// A small file that a command writes at its end: whole, or not at all. Whether it can be written is known before the
// work.

pub(super) struct WholeFile {
    /// What it is, for messages.
    what: &'static str,
    /// As it was given.
    path: PathBuf,
    pub(super) place: PathBuf,
    existing: Existing,
}

impl WholeFile {
    pub(super) fn new(what: &'static str, path: &Path, replace: bool, console: &Console) -> Self {
        Self {
            what,
            path: path.to_owned(),
            place: console.place_of(path),
            existing: match replace {
                true => Existing::Replace,
                false => Existing::Refuse,
            },
        }
    }

    /// Refuses what the command reads, and what is no file.
    pub(super) fn ensure_apart<'p>(
        &self,
        database: Option<&Path>,
        inputs: impl IntoIterator<Item = &'p PathBuf>,
        console: &Console,
    ) -> Result<(), Failure> {
        let inputs: Vec<PathBuf> = inputs
            .into_iter()
            .map(|path| console.place_of(path))
            .collect();
        ensure_replaceable(&self.place, database, inputs.iter().map(PathBuf::as_path))
    }

    /// Refuses a file that exists or cannot be written, before there is any work for it. One that begins as
    /// `may_begin` says may be what a command that was killed has made, and is compared at the end.
    pub(super) fn ensure_writable(&self, may_begin: Option<&str>) -> Result<(), Failure> {
        if self.existing == Existing::Refuse {
            let absent = match may_begin {
                Some(begin) => ensure_may_stand(&self.place, begin.as_bytes()),
                None => ensure_nothing_at(&self.place),
            };
            absent.map_err(|_| self.exists())?;
        }
        if self.place.is_dir() {
            return Err(self.refused("it is a folder"));
        }
        // Dropped at once, so nothing is left if the process is killed at its work.
        self.new_file().map(drop)
    }

    /// Writes it. It has its name only when it is whole.
    pub(super) fn write(&self, text: String) -> Result<(), Failure> {
        Self::write_together(&[(self, text)])
    }

    /// Writes all files or none: each is whole before the first has its name. If one cannot get its name, those before
    /// lose theirs again, except in the place of an old file.
    pub(super) fn write_together(files: &[(&Self, String)]) -> Result<(), Failure> {
        let mut written = Vec::with_capacity(files.len());
        for (file, text) in files {
            let (place, new) = file.new_file()?;
            (&*new.file)
                .write_all(text.as_bytes())
                .map_err(|error| file.failed(&error))?;
            written.push((place, new));
        }
        for (index, (place, new)) in written.into_iter().enumerate() {
            if let Err(failure) = files[index].0.name(&place, new) {
                for (file, _) in &files[..index] {
                    if file.existing == Existing::Refuse {
                        _ = fs::remove_file(&file.place);
                    }
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn name(&self, place: &Path, new: NewFile) -> Result<(), Failure> {
        match new.finish(place, self.existing) {
            Err(Error::Io { source, .. }) => Err(self.failed(&source)),
            Err(Error::AlreadyExists { .. }) => Err(self.exists().into()),
            finished => Ok(finished?),
        }
    }

    /// The new file, and where it is to stand.
    fn new_file(&self) -> Result<(PathBuf, NewFile), Failure> {
        NewFile::at(&self.place, self.existing).map_err(|error| match error {
            Error::Io { source, .. } => self.failed(&source),
            error => error.into(),
        })
    }

    fn exists(&self) -> Error {
        Error::AlreadyExists {
            path: self.path.clone(),
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        self.refused(&error.to_string())
    }

    fn refused(&self, reason: &str) -> Failure {
        let path = self.path.display();
        format!("{path}: the {} cannot be written: {reason}", self.what).into()
    }
}
