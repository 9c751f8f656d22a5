//! A journal of what reaches the file system in a folder that a test watches: new files, writes, lengths, syncs, names.
//! From it the folders are made that a power cut could leave.
//!
//! The assumption about a file system: what a sync of a file has covered of its content is there, and what a sync of
//! the directory has covered of its names. Each name that was given or taken since then has come or not, independently
//! of the others and of the content of the file.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::sync::Mutex;

use super::folder_of;

/// The number of a file in its folder.
pub(crate) type FileNumber = u64;

/// Something that reached the file system, or that a test noted.
#[derive(Clone, Debug)]
pub(crate) enum DiskEvent {
    Created(FileNumber),
    Write {
        file: FileNumber,
        offset: u64,
        data: Vec<u8>,
    },
    SetLength {
        file: FileNumber,
        length: u64,
    },
    Sync(FileNumber),
    /// A file has got a name, in place of what may have had it before. Names are paths in the folder that is watched.
    Named(FileNumber, PathBuf),
    /// A name was given in the place of another, at once.
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
    MadeDirectory(PathBuf),
    SyncDirectory(PathBuf),
    /// The number of commits that may be there from now on.
    Begun(usize),
    /// The number of commits that have been acknowledged.
    Acknowledged(usize),
}

/// The journal of a folder. It ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Journal(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    folder: PathBuf,
    events: Mutex<Vec<DiskEvent>>,
    /// They stay open, so that no other file gets their numbers.
    files: Mutex<Vec<File>>,
    /// Files whose writes are not noted. What they hold is noted when they are synced.
    plain: Mutex<Vec<(FileNumber, File)>>,
}

static JOURNALS: Mutex<Vec<Weak<Watched>>> = Mutex::new(Vec::new());

/// The journal for which this holds.
fn journal_where(holds: impl Fn(&Watched) -> bool) -> Option<Journal> {
    let mut journals = JOURNALS.lock();
    journals.retain(|journal| journal.strong_count() > 0);
    let found = journals.iter().filter_map(Weak::upgrade);
    found.map(Journal).find(|journal| holds(&journal.0))
}

fn journal_of_folder(folder: &Path) -> Option<Journal> {
    let folder = fs::canonicalize(folder).ok()?;
    journal_where(|watched| folder.starts_with(&watched.folder))
}

/// The journal that a file is in, and its number there.
pub(crate) fn journal_of(file: &File) -> Option<(Journal, FileNumber)> {
    let number = file.metadata().ok()?.ino();
    let journal = journal_where(|watched| watched.has(file))?;
    Some((journal, number))
}

impl Watched {
    fn has(&self, file: &File) -> bool {
        let Ok(own) = file.metadata() else {
            return false;
        };
        let files = self.files.lock();
        let mut known = files.iter().filter_map(|known| known.metadata().ok());
        known.any(|known| known.dev() == own.dev() && known.ino() == own.ino())
    }
}

impl Journal {
    /// Begins the journal of a folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let watched = Arc::new(Watched {
            folder: fs::canonicalize(folder).expect("there is such a folder"),
            events: Mutex::default(),
            files: Mutex::default(),
            plain: Mutex::default(),
        });
        JOURNALS.lock().push(Arc::downgrade(&watched));
        Self(watched)
    }

    /// The path in the folder that is watched.
    fn name_of(&self, path: &Path) -> PathBuf {
        let folder = fs::canonicalize(folder_of(path)).expect("it has a folder");
        let name = path.file_name().expect("it has a name");
        let name = folder.join(name);
        let inside = name.strip_prefix(&self.0.folder);
        inside
            .expect("it is in the folder that is watched")
            .to_owned()
    }

    pub(crate) fn note(&self, event: DiskEvent) {
        self.0.events.lock().push(event);
    }

    /// Flips a bit of these bytes in the newest file, as a disk may do behind the back of everybody. Returns whether it
    /// has them.
    pub(crate) fn damage_newest(&self, bytes: &[u8]) -> bool {
        let files = self.0.files.lock();
        files
            .last()
            .is_some_and(|file| damage(file, bytes).is_some())
    }

    /// What happened so far.
    pub(crate) fn events(&self) -> Vec<DiskEvent> {
        self.0.events.lock().clone()
    }
}

/// Flips a bit of these bytes in a file.
fn damage(file: &File, bytes: &[u8]) -> Option<()> {
    let mut content = vec![0; file.metadata().ok()?.len() as usize];
    file.read_exact_at(&mut content, 0).ok()?;
    let at = content
        .windows(bytes.len())
        .position(|part| part == bytes)?;
    let flipped = [bytes[0] ^ 1];
    file.write_all_at(&flipped, at as u64).ok()
}

/// Notes a new file in a folder.
pub(crate) fn is_new(folder: &Path, file: &File) {
    if let Some(journal) = journal_of_folder(folder)
        && let Ok(kept) = file.try_clone()
        && let Ok(metadata) = file.metadata()
    {
        journal.0.files.lock().push(kept);
        journal.note(DiskEvent::Created(metadata.ino()));
    }
}

/// Notes that a file has a name and is open to be written to, by writes that are not noted.
pub(crate) fn is_written_plainly(path: &Path, file: &File) {
    if journal_of(file).is_none() {
        is_new(folder_of(path), file);
        is_named(file, path);
    }
    if let Some((journal, number)) = journal_of(file)
        && let Ok(to_read) = File::open(path)
    {
        journal.0.plain.lock().push((number, to_read));
    }
}

/// Notes that a file was synced, and what it holds if its writes were not noted.
pub(crate) fn is_synced(file: &File) {
    let Some((journal, file)) = journal_of(file) else {
        return;
    };
    let plain = journal.0.plain.lock();
    if let Some((_, to_read)) = plain.iter().find(|(number, _)| *number == file) {
        let length = to_read.metadata().map_or(0, |metadata| metadata.len());
        let mut data = vec![0; length as usize];
        to_read.read_exact_at(&mut data, 0).expect("it can be read");
        journal.note(DiskEvent::SetLength { file, length });
        let offset = 0;
        journal.note(DiskEvent::Write { file, offset, data });
    }
    journal.note(DiskEvent::Sync(file));
}

/// Notes that a file has these bytes.
pub(crate) fn has_bytes(file: &File, bytes: &[u8]) {
    if let Some((journal, file)) = journal_of(file) {
        let data = bytes.to_vec();
        journal.note(DiskEvent::Write {
            file,
            offset: 0,
            data,
        });
    }
}

/// Notes that a file has a name.
pub(crate) fn is_named(file: &File, path: &Path) {
    if let Some((journal, file)) = journal_of(file) {
        journal.note(DiskEvent::Named(file, journal.name_of(path)));
    }
}

/// Notes that a name is gone.
pub(crate) fn is_removed(path: &Path) {
    if let Some(journal) = journal_of_folder(folder_of(path)) {
        journal.note(DiskEvent::Removed(journal.name_of(path)));
    }
}

/// Notes that a name was given in the place of another.
pub(crate) fn is_renamed(from: &Path, to: &Path) {
    if let Some(journal) = journal_of_folder(folder_of(to)) {
        let names = [from, to].map(|path| journal.name_of(path));
        let [from, to] = names;
        journal.note(DiskEvent::Renamed(from, to));
    }
}

/// Notes that a directory was made.
pub(crate) fn directory_is_made(path: &Path) {
    if let Some(journal) = journal_of_folder(folder_of(path)) {
        journal.note(DiskEvent::MadeDirectory(journal.name_of(path)));
    }
}

/// Notes that a directory is removed, with the files in it.
pub(crate) fn directory_is_removed(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        is_removed(&entry.path());
    }
    is_removed(path);
}

/// Notes that the names in a folder were synced.
pub(crate) fn directory_is_synced(folder: &Path) {
    if let Some(journal) = journal_of_folder(folder) {
        let name = journal.name_of(&folder.join("a name"));
        let folder = name.parent().unwrap_or(Path::new("")).to_owned();
        journal.note(DiskEvent::SyncDirectory(folder));
    }
}

/// Which call of the system about files and names fails on this thread, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// So many calls come before it.
    pub(crate) after: u64,
    /// The number of the error.
    pub(crate) error: i32,
    /// Whether all calls behind it fail too.
    pub(crate) lasts: bool,
}

thread_local! {
    static REFUSAL: Cell<Option<Refusal>> = const { Cell::new(None) };
    static REFUSED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Lets a call of this thread fail.
pub(crate) fn refuse(refusal: Refusal) {
    REFUSAL.set(Some(refusal));
    REFUSED.set(None);
}

/// Nothing fails from now on. Which call has failed first.
pub(crate) fn refuse_no_more() -> Option<&'static str> {
    REFUSAL.set(None);
    REFUSED.take()
}

/// Asks whether a call may be made.
pub(crate) fn ask(call: &'static str) -> io::Result<()> {
    let Some(refusal) = REFUSAL.get() else {
        return Ok(());
    };
    if refusal.after > 0 {
        let after = refusal.after - 1;
        REFUSAL.set(Some(Refusal { after, ..refusal }));
        return Ok(());
    }
    if REFUSED.get().is_none() {
        REFUSED.set(Some(call));
    } else if !refusal.lasts {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(refusal.error))
}
