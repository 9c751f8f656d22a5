//! The folder of a cleaning that is under way: what was done so far, and what goes into place at the end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::dedup::Dedup;
use super::events::DedupTotals;
use crate::database::{CreateOptions, Database, OpenOptions};
use crate::error::{Error, Result};
use crate::ingest::Records;
use crate::source::Place;
use crate::text::Scheme;

/// The folder, and the state in it.
pub(super) struct Work {
    folder: PathBuf,
    pub(super) state: State,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// The hash of the inputs and the settings.
    command: u64,
    /// Once it is decided which records survive.
    pub(super) decided: Option<DedupTotals>,
    pub(super) written: Written,
    /// Whether all is done, but not all in place.
    pub(super) is_written: bool,
}

/// How far the survivors are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    /// The input that is being copied.
    pub(super) input: usize,
    /// The place up to which it is copied.
    pub(super) place: Place,
    /// The length of its output up to there (bytes).
    pub(super) length: u64,
    /// Whether the output ends within a line.
    pub(super) is_in_line: bool,
}

/// The version of the folder.
const VERSION: u32 = 1;

impl Work {
    pub(super) fn folder_of(output: &Path) -> PathBuf {
        // Without the slash at the end that a directory may have.
        let output: PathBuf = output.components().collect();
        let mut folder = OsString::from(output);
        folder.push(".dedup");
        folder.into()
    }

    /// Opens the folder of a run that was stopped, or makes a new one.
    pub(super) fn begin(dedup: &Dedup, inputs: &[PathBuf]) -> Result<Self> {
        let folder = Self::folder_of(&dedup.output);
        let command = command_of(dedup, inputs);
        let failed = |source: &io::Error| Error::output(&folder, &format!("cannot be made: {source}"));
        let state = match fs::read(folder.join(STATE)) {
            Ok(bytes) => {
                Some(serde_json::from_slice::<State>(&bytes).ok().filter(|it| it.version == VERSION))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&error)),
        };
        match state {
            Some(Some(state)) if state.command == command => return Ok(Self { folder, state }),
            // A command that was wrong, and now is right.
            Some(Some(_)) if has_nothing(&folder) => {
                fs::remove_dir_all(&folder).map_err(|source| cannot_write(&folder, &source))?;
            }
            Some(_) => {
                return Err(Error::output(
                    &folder,
                    "it holds the work of a run with other settings or inputs, which was stopped: give that command \
                     again to go on, or delete the folder to begin anew",
                ));
            }
            None => {}
        }
        ensure_places(dedup)?;
        if folder.exists() && !is_empty(&folder) {
            return Err(Error::output(&folder, "something else is in the place of the folder for the work"));
        }
        if !folder.exists() {
            fs::create_dir(&folder).map_err(|source| failed(&source))?;
        }
        let work = Self { folder, state: State { version: VERSION, command, ..State::default() } };
        work.save()?;
        Ok(work)
    }

    /// Keeps the state.
    pub(super) fn save(&self) -> Result<()> {
        let bytes = serde_json::to_vec(&self.state).map_err(io::Error::from).and_then(|bytes| {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(&bytes)?;
            file.as_file().sync_data()?;
            file.persist(self.folder.join(STATE)).map_err(|error| error.error)?;
            sync_folder(&self.folder)
        });
        bytes.map_err(|source| cannot_write(&self.folder.join(STATE), &source))
    }

    /// The place of a file in the folder.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// The database of the records of this run.
    pub(super) fn database(
        &self,
        dedup: &Dedup,
        known: Option<&Database>,
        unread: &mut Records,
    ) -> Result<Database> {
        let path = self.path(RECORDS);
        match Database::open(&path, &OpenOptions::new()) {
            Err(Error::NotFound { .. }) => {}
            opened => return opened,
        }
        let options = match known {
            Some(known) => CreateOptions::new()
                .scheme(known.scheme())
                .sketch_size(known.sketch_size())
                .max_distance(known.max_distance())
                .min_similarity(known.min_similarity().unwrap_or(0.0)),
            None => dedup.options_of_new(unread)?,
        };
        Database::create(&path, &options)
    }

    /// Brings the results into their places, and removes the folder.
    pub(super) fn deliver(&self, dedup: &Dedup) -> Result<DedupTotals> {
        let outputs = [
            (self.path(OUTPUT), Some(&dedup.output)),
            (self.path(REMOVED), dedup.removed.as_ref()),
            (self.path(REPORT), dedup.report.as_ref().map(|it| &it.0)),
        ];
        for (from, to) in outputs {
            let Some(to) = to.filter(|_| from.exists()) else { continue };
            // A copy to another disk may have been whole when the run was stopped.
            if !is_copy(&from, to) {
                ensure_absent(to)?;
                put_in_place(&from, to).map_err(|source| cannot_write(to, &source))?;
            }
        }
        self.remove().map_err(|source| cannot_write(&self.folder, &source))?;
        Ok(self.state.decided.unwrap_or_default())
    }

    /// Removes the folder: the state last, so that a stop in between is known.
    fn remove(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name() == STATE {
                continue;
            }
            let is_folder = entry.file_type()?.is_dir();
            if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }?;
        }
        fs::remove_dir_all(&self.folder)
    }
}

/// Names in the folder.
pub(super) const OUTPUT: &str = "output";
pub(super) const REMOVED: &str = "removed.jsonl";
const RECORDS: &str = "records.simdb";
pub(super) const REPORT: &str = "report";
pub(super) const IDS: &str = "removed.ids";
const STATE: &str = "state.json";

pub(super) fn cannot_write(path: &Path, source: &io::Error) -> Error {
    Error::output(path, &format!("cannot be written: {source}"))
}

/// Writes a file of the folder.
pub(super) fn write_durably(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::with_capacity(256 << 10, file);
        write(&mut out)?;
        out.into_inner()?.sync_all()
    });
    written.map_err(|source| cannot_write(path, &source))
}

/// The hash of all that the result depends on.
fn command_of(dedup: &Dedup, inputs: &[PathBuf]) -> u64 {
    let Dedup { output, options, clustering, database, removed, scheme, sketch_size, again, .. } = dedup;
    let report = dedup.report.as_ref().map(|it| &it.0);
    let scheme = scheme.as_ref().map(Scheme::to_string);
    let results = (output, removed, report);
    let settings = format!(
        "{inputs:?} {results:?} {options:?} {clustering:?} {database:?} {scheme:?} {sketch_size:?} {again}"
    );
    xxh3_64_with_seed(settings.as_bytes(), 0)
}

/// Whether a run has ended before it stored anything.
fn has_nothing(folder: &Path) -> bool {
    match Database::open(folder.join(RECORDS), &OpenOptions::new()) {
        Ok(database) => {
            let stats = database.snapshot().and_then(|it| Ok((it.stats()?.documents, it.sources()?.len())));
            stats.is_ok_and(|stats| stats == (0, 0))
        }
        Err(Error::NotFound { .. }) => true,
        Err(_) => false,
    }
}

/// Refuses results that could not get into their places at the end.
fn ensure_places(dedup: &Dedup) -> Result<()> {
    let mut taken: Vec<PathBuf> = Vec::new();
    let directories = dedup.inputs.iter().filter_map(|it| {
        let place = dedup.options.place_of(it);
        place.is_dir().then(|| place.canonicalize().ok()).flatten().map(|canonical| (it, canonical))
    });
    let directories: Vec<_> = directories.collect();
    for result in dedup.results() {
        ensure_absent(result)?;
        let folder = folder_of(result);
        // That a file can be made there is known when one is made.
        let made = folder.canonicalize().and_then(|it| tempfile::tempfile_in(&it).map(|_| it));
        let folder = made.map_err(|source| Error::output(result, &format!("cannot be made: {source}")))?;
        if let Some((input, _)) = directories.iter().find(|(_, directory)| folder.starts_with(directory)) {
            let reason = format!(
                "it would be in {}, which is an input, and be read itself when a stopped run goes on: name a place \
                 outside",
                input.display()
            );
            return Err(Error::output(result, &reason));
        }
        let place = folder.join(result.file_name().unwrap_or_default());
        if taken.contains(&place) {
            return Err(Error::output(result, "two results cannot have the same name"));
        }
        taken.push(place);
    }
    Ok(())
}

/// The folder in which a file or a directory stands.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether `to` is a file with the same bytes as `from`.
fn is_copy(from: &Path, to: &Path) -> bool {
    let read = |path: &Path| Some(io::BufReader::with_capacity(1 << 20, File::open(path).ok()?));
    let length = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|it| it.len());
    if length(from).is_none() || length(from) != length(to) {
        return false;
    }
    let (Some(from), Some(to)) = (read(from), read(to)) else { return false };
    from.bytes().zip(to.bytes()).all(|(a, b)| matches!((a, b), (Ok(a), Ok(b)) if a == b))
}

/// Refuses to write over something.
fn ensure_absent(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() && is_empty(path) => Ok(()),
        Ok(_) => Err(Error::output(path, "exists, and is not written over: delete it, or name another")),
        Err(_) => Ok(()),
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Brings a file or a directory into its place.
fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    if to.is_dir() {
        // It is empty.
        fs::remove_dir(to)?;
    }
    let folder = folder_of(to);
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let mut copy = tempfile::NamedTempFile::new_in(folder)?;
            io::copy(&mut File::open(from)?, &mut copy)?;
            copy.as_file().sync_all()?;
            copy.persist_noclobber(to).map_err(|error| error.error)?;
            fs::remove_file(from)?;
        }
        renamed => renamed?,
    }
    sync_folder(folder)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
