//! Where the admin socket of a database is, and connecting to it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The socket beside a database: `crawl.simdb.sock` for `crawl.simdb`. If the path is a link, it is beside the file
/// itself.
pub(crate) fn socket_beside(database: &Path) -> io::Result<PathBuf> {
    let mut path = fs::canonicalize(database)?.into_os_string();
    path.push(OsStr::new(".sock"));
    Ok(path.into())
}

/// What tells a file from all others: its device and its number there.
pub(crate) fn identity_of(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Connects to the process that listens on a socket.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    match UnixStream::connect(path) {
        // The address of a socket has 108 bytes, and paths may be longer.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => connect_to_long(path),
        connected => connected,
    }
}

/// Connects by a handle of the socket file, which has a short path.
#[cfg(target_os = "linux")]
fn connect_to_long(path: &Path) -> io::Result<UnixStream> {
    use rustix::fs::{Mode, OFlags, open};
    use std::os::fd::AsRawFd;
    let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn connect_to_long(path: &Path) -> io::Result<UnixStream> {
    _ = path;
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "the path is longer than the address of a socket may be",
    ))
}
