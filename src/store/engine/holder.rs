//! Who has a file open: this process, by a list of the files that it has open, or another one, by the lists of locks
//! that the system keeps.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use crate::error::Holder;
use crate::process::{PerProcess, Process};
use crate::sync::Mutex;

/// What tells a file from all others: its device and its number there.
type Identity = (u64, u64);

/// The databases that this process has open, one entry for each handle. A forked process has opened none.
static OPEN_HERE: PerProcess<Mutex<Vec<Identity>>> = PerProcess::new(|| Mutex::new(Vec::new()));

/// An entry in the list of the files that this process has open. It is removed when this is dropped.
pub(super) struct Registered {
    identity: Option<Identity>,
    process: Process,
}

impl Registered {
    /// A system that does not tell which file is open gives no entry.
    pub(super) fn new(file: &File) -> Self {
        let metadata = file.metadata().ok();
        let identity = metadata.as_ref().and_then(identity_of);
        OPEN_HERE.get().lock().extend(identity);
        Self {
            identity,
            process: Process::here(),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The list of a forked process never had it.
        let Some(own) = self.identity.filter(|_| self.process.is_here()) else {
            return;
        };
        let mut open = OPEN_HERE.get().lock();
        if let Some(index) = open.iter().position(|identity| *identity == own) {
            open.swap_remove(index);
        }
    }
}

/// Who has the file at `path` open.
///
/// The system keeps a list of all locks, with the processes that took them. But a lock outlives such a process if
/// another one was forked from it and lives. So a process is named only if it has the lock now.
pub(super) fn holder_of(path: &Path) -> Holder {
    let metadata = fs::metadata(path).ok();
    let Some(identity) = metadata.as_ref().and_then(identity_of) else {
        return Holder::Unknown;
    };
    if OPEN_HERE.get().lock().contains(&identity) {
        return Holder::ThisProcess;
    }
    let own = std::process::id();
    // Where the system keeps no such list, nobody is named.
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let took = takers(identity, &locks)
        .into_iter()
        .find(|&taker| taker > 0);
    match took.map(|taker| (taker, holding(taker, identity))) {
        Some((taker, Holding::Took | Holding::NotTold)) if taker == own => Holder::ThisProcess,
        Some((taker, Holding::Took | Holding::NotTold)) => Holder::Process(taker),
        // The number may be that of a new process, or of one that was forked.
        _ if holding(own, identity) != Holding::No => Holder::Inherited,
        _ => living_holder(identity),
    }
}

/// The first of all processes that has a lock of the file.
fn living_holder(identity: Identity) -> Holder {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Holder::Unknown;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match holding(number, identity) {
            Holding::Took => return Holder::Process(number),
            Holding::Inherited => return Holder::Child(number),
            Holding::No | Holding::NotTold => {}
        }
    }
    Holder::Unknown
}

/// Whether a process has a lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    No,
    /// It took it.
    Took,
    /// A process took it that it was forked from.
    Inherited,
    /// The process is that of another user.
    NotTold,
}

/// Whether a process has a lock of a file, by what Linux tells of its descriptors.
fn holding(process: u32, identity: Identity) -> Holding {
    let descriptors = match fs::read_dir(format!("/proc/{process}/fdinfo")) {
        Ok(descriptors) => descriptors,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Holding::NotTold,
        Err(_) => return Holding::No,
    };
    for descriptor in descriptors {
        let text = match descriptor.and_then(|entry| fs::read_to_string(entry.path())) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Holding::NotTold;
            }
            // It was closed meanwhile.
            Err(_) => continue,
        };
        let mut locks = String::new();
        for lock in text.lines().filter_map(|line| line.strip_prefix("lock:")) {
            locks += lock;
            locks.push('\n');
        }
        match takers(identity, &locks)[..] {
            [] => {}
            [taker, ..] if taker == process => return Holding::Took,
            _ => return Holding::Inherited,
        }
    }
    Holding::No
}

#[cfg(unix)]
fn identity_of(metadata: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity_of(_: &Metadata) -> Option<Identity> {
    None
}

/// The processes that took the locks of a file, by lines of the form in which Linux lists locks. 0 if it cannot be
/// named: it is gone, or cannot be seen from here.
///
/// A line looks like `4: FLOCK ADVISORY WRITE 26585 fe:00:10011542 0 EOF`: the kind of the lock, the process,
/// and the device and the number of the file. Some kinds of locks belong to no process, and have the process
/// -1. Who only waits for a lock has an arrow in the second column.
fn takers((device, number): Identity, locks: &str) -> Vec<u32> {
    let file = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
    let mut takers = Vec::new();
    for line in locks.lines() {
        takers.extend(taker_in(line, &file));
    }
    takers
}

fn taker_in(line: &str, file: &str) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    fields.next().filter(|&kind| kind != "->")?;
    let process = fields.nth(2)?;
    if fields.next()? != file {
        return None;
    }
    process.parse().ok()
}

#[cfg(target_os = "linux")]
use rustix::fs::{major, minor};

#[cfg(not(target_os = "linux"))]
fn major(device: u64) -> u64 {
    device
}

#[cfg(not(target_os = "linux"))]
fn minor(device: u64) -> u64 {
    device
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_locks_names_the_process_that_holds_a_file() {
        let locks = "1: OFDLCK ADVISORY  READ -1 fe:00:42 0 4611686018427387904\n\
                     2: FLOCK  ADVISORY  WRITE 77 fe:00:4 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 78 fe:00:42 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 0 fe:00:42 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 26585 fe:00:42 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(takers((device, 42), locks), [0, 26585]);
        assert_eq!(takers((device, 4), locks), [77]);
        assert!(takers((device, 7), locks).is_empty());
        assert!(takers((rustix::fs::makedev(8, 1), 42), locks).is_empty());
        assert!(takers((device, 42), "nonsense\n1: FLOCK\n").is_empty());
    }
}
