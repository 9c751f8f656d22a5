//! The file of a socket: where it is, connecting to it, and making it so that nobody else ever can. And waiting for
//! what a stream has.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{self, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::error::{Error, Result};

/// The socket beside a database: `crawl.simdb.sock` for `crawl.simdb`. If the path is a link, it is beside the file
/// itself.
pub(crate) fn socket_beside(database: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(database).map(socket_of)
}

/// The socket of a database whose file is at this path, or is yet to be there.
pub(crate) fn socket_of(file: PathBuf) -> PathBuf {
    let mut path = file.into_os_string();
    path.push(".sock");
    path.into()
}

/// What tells a file from all others: its device and its number there.
pub(crate) fn identity_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Connects to the process that listens on a socket. If so many wait there to be let in that there is no room for more,
/// that is an error of the kind `WouldBlock` at once: a process that is stopped would never let anybody in.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    match SocketAddrUnix::new(path) {
        Ok(address) => connect_to(&address),
        // The address of a socket has 108 bytes, and paths may be longer.
        Err(Errno::NAMETOOLONG) => connect_to_long(path),
        Err(error) => Err(error.into()),
    }
}

fn connect_to(address: &SocketAddrUnix) -> io::Result<UnixStream> {
    // A child of this process must not keep the connection. Some systems know no sockets that are made so.
    #[cfg(target_os = "linux")]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SocketFlags::empty();
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, true)?;
    rustix::net::connect(&socket, address)?;
    ioctl_fionbio(&socket, false)?;
    Ok(socket.into())
}

/// Connects by a handle of the socket file, which has a short path.
#[cfg(target_os = "linux")]
fn connect_to_long(path: &Path) -> io::Result<UnixStream> {
    use rustix::fs::{Mode, OFlags, open};
    use std::os::fd::AsRawFd;
    let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", handle.as_raw_fd()))?;
    connect_to(&address)
}

#[cfg(not(target_os = "linux"))]
fn connect_to_long(path: &Path) -> io::Result<UnixStream> {
    _ = path;
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "the path is longer than the address of a socket may be",
    ))
}

/// Waits until something can be done with a stream, or its other end has gone, but no longer than `most` if that is
/// given. What can be done: nothing after so long. Signals that come meanwhile do not make it longer.
pub(super) fn wait_for(
    stream: &UnixStream,
    what: PollFlags,
    most: Option<Duration>,
) -> io::Result<PollFlags> {
    let begun = Instant::now();
    let mut polled = [PollFd::new(stream, what)];
    loop {
        let left = most.map(|most| most.saturating_sub(begun.elapsed()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut polled, left.as_ref()) {
            Ok(_) => return Ok(polled[0].revents()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A socket at a path. It is removed when this is dropped, unless something else stands there by then.
#[derive(Debug)]
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at a path. A socket at which nobody listens any more is replaced.
    ///
    /// The socket is made in a directory that only this user may enter, and gets its name when it has its mode. So
    /// there is no moment in which others could connect. The mask of the process for new files could do the same, but
    /// belongs to all its threads.
    pub(super) fn bind(given: &Path) -> Result<(UnixListener, Self)> {
        let path = path::absolute(given).map_err(Error::io(given))?;
        ensure_free(&path)?;
        Self::bind_free(path).map_err(Error::io(given))
    }

    fn bind_free(path: PathBuf) -> io::Result<(UnixListener, Self)> {
        let private = tempfile::Builder::new()
            .prefix(".simdb-")
            .suffix(".tmp")
            .tempdir_in(path.parent().unwrap_or(&path))?
            .keep();
        let bound = Self::bind_by_way_of(&private, path);
        // A directory is removed with all in it by a descriptor, and there may be none left. These need none.
        _ = fs::remove_file(private.join(NAME));
        _ = fs::remove_dir(private);
        bound
    }

    fn bind_by_way_of(private: &Path, path: PathBuf) -> io::Result<(UnixListener, Self)> {
        let place = private.join(NAME);
        let listener = bind_in(private, &place)?;
        fs::set_permissions(&place, Permissions::from_mode(0o600))?;
        let identity = identity_of(&fs::symlink_metadata(&place)?);
        fs::rename(&place, &path)?;
        Ok((listener, Self { path, identity }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| identity_of(&there) == self.identity) {
            _ = fs::remove_file(&self.path);
        }
    }
}

/// The name of a socket before it has its own.
const NAME: &str = "socket";

/// Listens at `place`, which is in `directory`.
fn bind_in(directory: &Path, place: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(place) {
        // The address of a socket has 108 bytes, and paths may be longer.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => bind_in_long(directory, error),
        bound => bound,
    }
}

/// Listens by way of a handle of the directory, which has a short path.
#[cfg(target_os = "linux")]
fn bind_in_long(directory: &Path, _: io::Error) -> io::Result<UnixListener> {
    use std::os::fd::AsRawFd;
    let handle = fs::File::open(directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{NAME}", handle.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn bind_in_long(_: &Path, error: io::Error) -> io::Result<UnixListener> {
    Err(error)
}

/// Refuses a database that is yet to be created if the socket beside it is taken.
pub(crate) fn ensure_free_beside(database: &Path) -> Result<()> {
    if database.symlink_metadata().is_ok() {
        // What stands there is told by whoever creates the file.
        return Ok(());
    }
    let path = path::absolute(database).map_err(Error::io(database))?;
    ensure_free(&socket_of(path))
}

/// Refuses a path at which somebody listens, or at which something else than a socket stands.
fn ensure_free(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(path)(error)),
        Ok(there) if !there.file_type().is_socket() => {
            let path = path.to_owned();
            return Err(Error::AlreadyExists { path });
        }
        Ok(_) => {}
    }
    let failed = match connect(path) {
        Ok(_) => None,
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => return Ok(()),
            io::ErrorKind::WouldBlock => None,
            _ => Some(error),
        },
    };
    let failed = failed.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there already")
    });
    Err(Error::io(path)(failed))
}
