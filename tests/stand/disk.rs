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

use parking_lot::Mutex;

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
    /// A file has got a name, in place of what may have had it before.
    Named(FileNumber, PathBuf),
    Removed(PathBuf),
    SyncDirectory,
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
    journal_where(|watched| watched.folder == folder)
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
        });
        JOURNALS.lock().push(Arc::downgrade(&watched));
        Self(watched)
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

/// Notes that a file was synced.
pub(crate) fn is_synced(file: &File) {
    if let Some((journal, file)) = journal_of(file) {
        journal.note(DiskEvent::Sync(file));
    }
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
        journal.note(DiskEvent::Named(file, path.to_owned()));
    }
}

/// Notes that a name is gone.
pub(crate) fn is_removed(path: &Path) {
    if let Some(journal) = path.parent().and_then(journal_of_folder) {
        journal.note(DiskEvent::Removed(path.to_owned()));
    }
}

/// Notes that the names in a folder were synced.
pub(crate) fn directory_is_synced(folder: &Path) {
    if let Some(journal) = journal_of_folder(folder) {
        journal.note(DiskEvent::SyncDirectory);
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
