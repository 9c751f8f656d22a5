//! The folder of a cleaning that is under way: what was done so far, and how results get into their places at the end.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::dedup::Dedup;
use super::events::DedupTotals;
use super::writing::Written;
use crate::database::{Database, OpenOptions};
use crate::error::{Error, Result};
use crate::files::{
    Existing, NewFile, already_exists, are_same_bytes, create, ensure_named_as_plain, folder_of,
    is_named_as_directory, make_directory, remove, remove_directory, rename, replace,
    sync_directory, sync_file,
};
use crate::ingest::{RecordId, Records, StoredRecords};
use crate::process::Process;

/// The folder, and the state in it.
pub(super) struct Work {
    folder: PathBuf,
    pub(super) state: State,
    /// Keeps other runs from the folder.
    _lock: Option<FolderLock>,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// The hash of the inputs and the settings.
    command: u64,
    /// Once it is decided which records survive.
    pub(super) decided: Option<DedupTotals>,
    /// The indices of the inputs that were left out then, since they cannot be read to their ends.
    pub(super) left_out: BTreeSet<usize>,
    /// How far the copies of the inputs are.
    #[serde(rename = "written")]
    pub(super) reached: Written,
    /// Whether all results are made. Perhaps not all are in place.
    #[serde(rename = "is_written")]
    pub(super) has_results: bool,
    /// Whether it was begun to store what survives in the database that was named, and whether it is stored.
    pub(super) is_being_stored: bool,
    pub(super) is_stored: bool,
    /// By what the content of that database is known again for which it is decided.
    #[serde(default)]
    pub(super) known_content: Option<u64>,
    /// The names of the results that were made, and how many bytes they have.
    #[serde(default)]
    made: Vec<(String, u64)>,
}

const VERSION: u32 = 4;

impl Work {
    pub(super) fn folder_of(output: &Path) -> PathBuf {
        let mut folder = OsString::from(without_slash(output));
        folder.push(".dedup");
        folder.into()
    }

    /// Opens the folder of a run that was stopped, or makes a new one.
    pub(super) fn begin(dedup: &Dedup, records: &StoredRecords) -> Result<Self> {
        let folder = Self::folder_of(&dedup.output);
        let command = dedup.command(records.paths());
        let mut lock = lock_of(&folder)?;
        match state_of(&folder).map_err(cannot_make(&folder))? {
            Found::State(state) if state.command == command => {
                let work = Self {
                    folder,
                    state: *state,
                    _lock: lock,
                };
                if !work.state.has_results {
                    work.ensure_unchanged(records)?;
                }
                return Ok(work);
            }
            // A command that was wrong, and now is right.
            Found::State(_) if no_record_was_stored(&folder) => {
                remove_work(&folder).map_err(cannot_write(&folder))?;
            }
            // Where folders cannot be locked.
            Found::State(_) | Found::Foreign if lock.is_none() && is_at_work(&folder) => {
                return Err(Error::output(&folder, AT_WORK));
            }
            Found::State(_) | Found::Foreign => {
                return Err(Error::output(
                    &folder,
                    "it holds the work of a run with other settings or inputs, which was stopped: give that command \
                     again to go on, or delete the folder to begin anew",
                ));
            }
            // A run was stopped when it had made no more than its folder, or when it had removed all but that.
            Found::Nothing => {
                let is_removed = remove_beginnings(&folder).map_err(cannot_make(&folder))?;
                if !is_removed && folder.exists() {
                    let reason = "something else is in the place of the folder for the work";
                    return Err(Error::output(&folder, reason));
                }
            }
        }
        ensure_places(dedup)?;
        make_directory(&folder).map_err(cannot_make(&folder))?;
        lock = lock_of(&folder)?;
        let work = Self {
            folder,
            state: State {
                version: VERSION,
                command,
                ..State::default()
            },
            _lock: lock,
        };
        let stamps = stamps_of(records)?.concat();
        write_durably(&work.path(STAMPS), |out| out.write_all(&stamps))?;
        // The state comes last: where it is, all of the beginning is.
        work.save()?;
        Ok(work)
    }

    pub(super) fn ensure_unchanged(&self, records: &StoredRecords) -> Result<()> {
        let path = self.path(STAMPS);
        let before = fs::read(&path).map_err(Error::io(&path))?;
        let now = stamps_of(records)?;
        let same = before
            .chunks(STAMP_BYTES)
            .zip(&now)
            .take_while(|(before, now)| before == now)
            .count();
        if same == now.len() {
            return Ok(());
        }
        Err(Error::input(
            &records.paths()[same],
            format!(
                "it was changed after the run had begun: delete {} to begin anew",
                self.folder.display()
            ),
        ))
    }

    pub(super) fn save(&self) -> Result<()> {
        let path = self.path(STATE);
        let state = serde_json::to_vec(&self.state).map_err(cannot_write(&path))?;
        // A power cut may keep the name of the state, and lose those of files that it speaks of.
        sync_directory(&self.folder).map_err(cannot_write(&path))?;
        replace(&path, &state).map_err(|error| as_output(&path, error))
    }

    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn open_or_create_records(
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
        let options = dedup.options_of_records(known, unread)?;
        Database::create(&path, &options)
    }

    /// The database of the records of this run, once all are in it.
    pub(super) fn open_records(&self) -> Result<Database> {
        Database::open(self.path(RECORDS), &OpenOptions::new())
    }

    pub(super) fn has_made_results(&mut self, dedup: &Dedup) -> Result<()> {
        self.state.made.clear();
        for (name, _) in dedup.results() {
            let made = self.path(name);
            if made.exists() {
                let bytes = bytes_of(&made).map_err(cannot_write(&made))?;
                self.state.made.push((name.to_owned(), bytes));
            }
        }
        self.state.has_results = true;
        self.save()
    }

    /// Forgets what was decided if the database that was named has changed since, as long as no result is in its place.
    pub(super) fn forget_unless_decided_for(&mut self, content: u64) {
        let mut made = self.state.made.iter();
        let is_as_before = self.state.known_content.is_none_or(|then| then == content);
        if is_as_before || made.any(|(name, _)| !self.path(name).exists()) {
            return;
        }
        self.state.decided = None;
        self.state.has_results = false;
        self.state.reached = Written::default();
    }

    /// Begins the output, in the place of one for which it was decided otherwise.
    pub(super) fn begin_output(&self) -> Result<()> {
        let output = self.path(OUTPUT);
        if !output.exists() {
            return Ok(());
        }
        // First it is kept that nothing of it is there.
        self.save()?;
        let removed = match output.is_dir() {
            true => remove_directory(&output),
            false => remove(&output),
        };
        removed.map_err(cannot_write(&output))
    }

    pub(super) fn deliver(&self, dedup: &Dedup) -> Result<()> {
        for (name, place) in dedup.results() {
            let made = self.path(name);
            let known = self.state.made.iter().find(|(known, _)| known == name);
            if made.exists() {
                if let Some((_, bytes)) = known {
                    self.ensure_whole(&made, *bytes)?;
                }
                deliver_one(&made, place)?;
            } else if known.is_some() && place.symlink_metadata().is_err() {
                return Err(self.is_gone(dedup, place));
            }
        }
        Ok(())
    }

    fn ensure_whole(&self, made: &Path, bytes: u64) -> Result<()> {
        let found = bytes_of(made).map_err(cannot_write(made))?;
        if found == bytes {
            return Ok(());
        }
        let folder = self.folder.display();
        let reason = format!(
            "its size is not that with which it was made: something has changed it since the command was stopped; \
             delete {folder} to begin anew"
        );
        Err(Error::output(made, &reason))
    }

    /// The error of a result that was in its place before the run was stopped, and is not there any more.
    fn is_gone(&self, dedup: &Dedup, place: &Path) -> Error {
        let folder = self.folder.display();
        // Of what is stored, nothing would be kept once more.
        let stored = match &dedup.database {
            Some(database) => format!(
                ", with a copy of {} from before, in which some of its records may be stored already",
                database.display()
            ),
            None => String::new(),
        };
        let reason = format!(
            "it was there when the command was stopped, and was moved or removed since: put it back and give the \
             command again, or delete {folder} to begin anew{stored}"
        );
        Error::output(place, &reason)
    }

    /// Removes the folder, if nothing of the run is in it that would be lost.
    pub(super) fn remove_if_empty(&self) {
        if no_record_was_stored(&self.folder) {
            _ = remove_work(&self.folder);
        }
    }

    /// Removes the folder.
    pub(super) fn end(self) -> Result<DedupTotals> {
        remove_work(&self.folder).map_err(|source| {
            let reason = format!(
                "cannot be removed: {source}; all results are in their places, so it can be deleted"
            );
            Error::output(&self.folder, &reason)
        })?;
        Ok(self.state.decided.unwrap_or_default())
    }
}

/// Removes the folder, so that what a stop in between leaves is known: the state and the stamps, or no more than a
/// beginning.
fn remove_work(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == STATE || entry.file_name() == STAMPS {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_directory(&entry.path())?;
        } else {
            remove(&entry.path())?;
        }
    }
    sync_directory(folder)?;
    remove(&folder.join(STATE))?;
    // Nothing is left to go on with from here on, so this may fail.
    _ = sync_directory(folder);
    remove_directory(folder)
}

/// The bytes of a file, or of all files in a directory and those below, each with one more for itself.
fn bytes_of(path: &Path) -> io::Result<u64> {
    if !path.is_dir() {
        return Ok(1 + path.metadata()?.len());
    }
    let mut bytes = 1;
    for entry in fs::read_dir(path)? {
        bytes += bytes_of(&entry?.path())?;
    }
    Ok(bytes)
}

pub(super) const OUTPUT: &str = "output";
pub(super) const REMOVED: &str = "removed.jsonl";
const RECORDS: &str = "records.simdb";
const STATE: &str = "state.json";
/// The state until it is whole. It has a name that is known, so that what a killed run leaves is known as its own.
const NEW_STATE: &str = "state.json.new";
const STAMPS: &str = "inputs.stamps";

/// Returns what `write` returns.
pub(super) fn write_durably<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> Result<T> {
    let written = create(path).and_then(|file| {
        let mut out = BufWriter::with_capacity(256 << 10, file);
        let written = write(&mut out)?;
        sync_file(&out.into_inner()?)?;
        Ok(written)
    });
    written.map_err(cannot_write(path))
}

enum Found {
    /// None, or no folder.
    Nothing,
    /// One that cannot be read, of another release or of somebody else.
    Foreign,
    State(Box<State>),
}

fn state_of(folder: &Path) -> io::Result<Found> {
    let bytes = match fs::read(folder.join(STATE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        read => read?,
    };
    Ok(match serde_json::from_slice::<State>(&bytes) {
        Ok(state) if state.version == VERSION => Found::State(state.into()),
        _ => Found::Foreign,
    })
}

/// The bytes of a stamp: the length of an input and the time of its last change.
const STAMP_BYTES: usize = 24;

/// By what it is seen that an input was changed, for each input.
fn stamps_of(records: &StoredRecords) -> Result<Vec<[u8; STAMP_BYTES]>> {
    let mut stamps = Vec::with_capacity(records.paths().len());
    for index in 0..records.paths().len() {
        let path = records.place_of(index);
        let metadata = fs::metadata(&path).map_err(Error::io(&path))?;
        let modified = metadata.modified().ok();
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&metadata.len().to_le_bytes());
        stamp[8..].copy_from_slice(&modified.unwrap_or_default().as_nanos().to_le_bytes());
        stamps.push(stamp);
    }
    Ok(stamps)
}

/// Removes a folder if it has nothing but what a run makes before it has a state, so no work. Whether it was so.
fn remove_beginnings(folder: &Path) -> io::Result<bool> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(false);
    };
    let mut beginnings = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) if entry.file_name() == STAMPS || entry.file_name() == NEW_STATE => {
                beginnings.push(entry.path());
            }
            _ => return Ok(false),
        }
    }
    for path in beginnings {
        remove(&path)?;
    }
    fs::remove_dir(folder)?;
    Ok(true)
}

/// Locks a folder for one run, as long as what is returned lives. `None` if there is no folder, or the system locks
/// none.
///
/// # Errors
///
/// Another run is at work in it.
fn lock_of(folder: &Path) -> Result<Option<FolderLock>> {
    let Ok(opened) = File::open(folder) else {
        return Ok(None);
    };
    match opened.try_lock() {
        Ok(()) => Ok(Some(FolderLock {
            folder: opened,
            process: Process::here(),
        })),
        Err(TryLockError::WouldBlock) => Err(Error::output(folder, AT_WORK)),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The lock of a folder. To close it would not do: a process that was forked from this one has the folder open too,
/// until it runs another program.
struct FolderLock {
    folder: File,
    process: Process,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.process.is_here() {
            // A system that cannot do that has not locked it.
            _ = self.folder.unlock();
        }
    }
}

const AT_WORK: &str = "another run is at work in it";

fn is_at_work(folder: &Path) -> bool {
    let opened = Database::open(folder.join(RECORDS), &OpenOptions::new());
    matches!(opened, Err(Error::Busy { .. }))
}

/// Whether a run has ended before it stored anything.
fn no_record_was_stored(folder: &Path) -> bool {
    match Database::open(folder.join(RECORDS), &OpenOptions::new()) {
        Ok(database) => is_empty_database(&database).unwrap_or(false),
        Err(Error::NotFound { .. }) => true,
        Err(_) => false,
    }
}

/// Whether there is nothing in a database but which inputs cannot be read.
fn is_empty_database(database: &Database) -> Result<bool> {
    let snapshot = database.snapshot()?;
    let sources = snapshot.sources()?;
    let have_failed = sources.iter().all(|source| source.failed().is_some());
    Ok(snapshot.stats()?.documents == 0 && have_failed)
}

/// Refuses results that could not get into their places at the end.
fn ensure_places(dedup: &Dedup) -> Result<()> {
    if dedup.output == Path::new("-") {
        let reason = "the output is written to a file, since a run that was stopped goes on with it: name one";
        return Err(Error::output(&dedup.output, reason));
    }
    let mut directories = Vec::new();
    for input in &dedup.inputs {
        let place = dedup.options.place_of(input);
        if place.is_dir()
            && let Ok(canonical) = place.canonicalize()
        {
            directories.push((input, canonical));
        }
    }
    let work = Work::folder_of(&dedup.output);
    // Before it is said of a result that it exists and may be deleted.
    ensure_database_apart(dedup, &work)?;
    let mut taken: Vec<PathBuf> = Vec::new();
    for (name, result) in dedup.results() {
        if name == REMOVED {
            ensure_named_as_plain(result)?;
        }
        // Such as `.`, which no file can become.
        if result.file_name().is_none() {
            let reason = "a new name is wanted here, and this is that of a directory that is there: name another";
            return Err(Error::output(result, reason));
        }
        if name != OUTPUT && (is_named_as_directory(result) || result.is_dir()) {
            let reason = "it is the name of a directory, and this is written into a file: name one";
            return Err(Error::output(result, reason));
        }
        ensure_absent(&without_slash(result), name == OUTPUT)?;
        ensure_no_mount_point(result)?;
        let folder = folder_of(result);
        let folder = folder.canonicalize().map_err(cannot_make(result))?;
        // That a file can be made there is known when one is made.
        tempfile::tempfile_in(&folder).map_err(cannot_make(result))?;
        for (input, directory) in &directories {
            if folder.starts_with(directory) {
                let reason = format!(
                    "it would be in {}, which is an input, and be read itself when a stopped run goes on: name a \
                     place outside",
                    input.display()
                );
                return Err(Error::output(result, &reason));
            }
        }
        let place = folder.join(result.file_name().unwrap_or_default());
        if place_of(&work).as_ref() == Some(&place) {
            let reason = "the folder for the work has this name until the end: name another";
            return Err(Error::output(result, reason));
        }
        for other in &taken {
            if place == *other {
                let reason = "two results cannot have the same name";
                return Err(Error::output(result, reason));
            }
            if place.starts_with(other) || other.starts_with(&place) {
                let reason = format!(
                    "one of this and {} would be in the other, which this command makes: name a place outside",
                    other.display()
                );
                return Err(Error::output(result, &reason));
            }
        }
        taken.push(place);
    }
    Ok(())
}

/// Refuses a database that is a result, or in one, or in the folder for the work. If there is none yet, it would be
/// made before the results have their names, and stand where they are to be.
fn ensure_database_apart(dedup: &Dedup, work: &Path) -> Result<()> {
    let Some(database) = &dedup.database else {
        return Ok(());
    };
    let Some(place) = place_of(database) else {
        return Ok(());
    };
    let results = dedup.results();
    for result in results.iter().map(|(_, path)| *path).chain([work]) {
        let Some(taken) = place_of(result) else {
            continue;
        };
        if place == taken {
            let reason = "two results cannot have the same name, and the database has this one: name another";
            return Err(Error::output(database, reason));
        }
        if place.starts_with(&taken) {
            let reason = format!(
                "the database would be in {}, which this command makes: name a place outside",
                result.display()
            );
            return Err(Error::output(database, &reason));
        }
    }
    Ok(())
}

/// Where a file is or will be, whatever links lead there. Folders on the way may be yet to be made.
fn place_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    for folder in path.ancestors() {
        if let Ok(place) = folder.canonicalize() {
            return Some(place.join(path.strip_prefix(folder).ok()?));
        }
    }
    None
}

fn deliver_one(from: &Path, to: &Path) -> Result<()> {
    let to = &without_slash(to);
    // A copy to another disk may have been whole when the run was stopped.
    if are_same_bytes(from, to) {
        return remove(from).map_err(cannot_write(from));
    }
    ensure_absent(to, from.is_dir())?;
    match put_in_place(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            move_across(from, to).map_err(|error| as_output(to, error))
        }
        put => put.map_err(cannot_write(to)),
    }
}

/// A path without the slash at its end that the name of a directory may have. With it, a link would be followed.
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Refuses a path at which there is something, but for an empty directory if another may take its place.
fn ensure_absent(path: &Path, may_be_empty_directory: bool) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if may_be_empty_directory && metadata.is_dir() && is_empty_directory(path) => {
            Ok(())
        }
        Ok(_) => Err(already_exists(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(cannot_write(path)(source)),
    }
}

/// A disk cannot be replaced by a directory.
fn ensure_no_mount_point(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if let Ok(own) = fs::metadata(path)
            && let Ok(above) = fs::metadata(folder_of(path))
            && own.dev() != above.dev()
        {
            return Err(Error::output(
                path,
                "is where a disk is mounted: name a directory on it",
            ));
        }
    }
    let _ = path;
    Ok(())
}

fn is_empty_directory(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    if to.is_dir() {
        // It is empty. The one that takes its place has the same owner, as far as that is allowed, and the same rights.
        let metadata = fs::metadata(to)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt as _, chown};
            _ = chown(from, Some(metadata.uid()), Some(metadata.gid()));
        }
        fs::set_permissions(from, metadata.permissions())?;
        fs::remove_dir(to)?;
    }
    rename(from, to)
}

/// Copies a file to another disk, and removes it here.
fn move_across(from: &Path, to: &Path) -> Result<()> {
    let copy = NewFile::create(folder_of(to))?;
    let copied = File::open(from).and_then(|mut file| {
        io::copy(&mut file, &mut &*copy.file)?;
        copy.file.set_permissions(file.metadata()?.permissions())
    });
    copied.map_err(Error::io(to))?;
    copy.finish(to, Existing::Refuse)?;
    remove(from).map_err(Error::io(from))
}

/// Rows about records, in the order of these. Asked for in that order, they are read as they are needed.
pub(super) struct InOrder<T> {
    path: PathBuf,
    rows: BufReader<File>,
    /// Reads what stands behind the place of a record.
    read_row: fn(&mut dyn Read) -> io::Result<T>,
    /// The first one that was not passed yet.
    next: Option<(RecordId, T)>,
}

impl<T> InOrder<T> {
    pub(super) fn open(
        path: PathBuf,
        read_row: fn(&mut dyn Read) -> io::Result<T>,
    ) -> Result<Self> {
        let file = File::open(&path).map_err(Error::io(&path))?;
        let mut rows = Self {
            path,
            rows: BufReader::with_capacity(256 << 10, file),
            read_row,
            next: None,
        };
        rows.next = rows.read()?;
        Ok(rows)
    }

    /// What is said of a record. None that is asked for comes before the one before.
    pub(super) fn of(&mut self, id: RecordId) -> Result<Option<&T>> {
        while self.next.as_ref().is_some_and(|(next, _)| *next < id) {
            self.next = self.read()?;
        }
        Ok(match &self.next {
            Some((next, row)) if *next == id => Some(row),
            _ => None,
        })
    }

    fn read(&mut self) -> Result<Option<(RecordId, T)>> {
        let mut id = [0; RecordId::BYTES];
        match self.rows.read_exact(&mut id) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(Error::io(&self.path))?,
        }
        let row = (self.read_row)(&mut self.rows).map_err(Error::io(&self.path))?;
        Ok(Some((RecordId::from(&id), row)))
    }
}

fn as_output(path: &Path, error: Error) -> Error {
    match error {
        Error::Io { source, .. } => cannot_write(path)(source),
        error => error,
    }
}

/// The error of a result or a folder that cannot be made: `map_err(cannot_make(path))`.
fn cannot_make(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::output(path, &format!("cannot be made: {source}"))
}

/// The error of a result that cannot be written: `map_err(cannot_write(path))`.
pub(super) fn cannot_write<E: Display>(path: &Path) -> impl Fn(E) -> Error {
    move |source| Error::output(path, &format!("cannot be written: {source}"))
}
