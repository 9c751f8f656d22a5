//! Who has a file open: this process, by a list of the files that it has open, or another one, by the list
//! of locks that the system keeps.

use std::fs::{self, File, Metadata};
use std::path::Path;

use parking_lot::Mutex;

use crate::holder::Holder;

/// What tells a file from all others: its device and its number there.
type Identity = (u64, u64);

/// The databases that this process has open, one entry for each handle.
static OPEN_HERE: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

/// An entry in the list of the files that this process has open. It is removed when this is dropped.
pub(super) struct Registered(Option<Identity>);

impl Registered {
    /// A system that does not tell which file is open gives no entry.
    pub(super) fn new(file: &File) -> Self {
        let identity = file.metadata().ok().and_then(|it| identity_of(&it));
        OPEN_HERE.lock().extend(identity);
        Self(identity)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = OPEN_HERE.lock();
        if let Some(index) = self.0.and_then(|own| open.iter().position(|it| *it == own)) {
            open.swap_remove(index);
        }
    }
}

/// Who has the file at `path` open.
pub(super) fn holder_of(path: &Path) -> Holder {
    let Some(identity) = fs::metadata(path).ok().and_then(|it| identity_of(&it)) else {
        return Holder::Unknown;
    };
    if OPEN_HERE.lock().contains(&identity) {
        return Holder::ThisProcess;
    }
    // Where the system keeps no such list, nobody is named.
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    match process_of(identity, &locks) {
        Some(number) if number == std::process::id() => Holder::ThisProcess,
        Some(number) => Holder::Process(number),
        None => Holder::Unknown,
    }
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

/// The process that holds a lock of a file, by the list that Linux has of all locks.
///
/// A line looks like `4: FLOCK ADVISORY WRITE 26585 fe:00:10011542 0 EOF`: the kind of the lock, the process,
/// and the device and the number of the file. Some kinds of locks belong to no process, and have the process
/// -1. Who only waits for a lock has an arrow in the second column.
fn process_of((device, number): Identity, locks: &str) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
    let held = locks.lines().map(|line| line.split_whitespace().skip(1));
    held.filter_map(|mut fields| {
        let process = fields.nth(3)?;
        (fields.next()? == file).then(|| process.parse().ok())?
    })
    .find(|&process| process > 0)
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
        assert_eq!(process_of((device, 42), locks), Some(26585));
        assert_eq!(process_of((device, 4), locks), Some(77));
        assert_eq!(process_of((device, 7), locks), None);
        assert_eq!(process_of((rustix::fs::makedev(8, 1), 42), locks), None);
        assert_eq!(process_of((device, 42), "nonsense\n1: FLOCK\n"), None);
    }
}
