//! The file of a socket: made so that nobody else can ever connect, and removed at the end.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{self, Path, PathBuf};

use crate::cli::{connect, identity_of};
use crate::error::{Error, Result};

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
    pub(super) fn bind(path: &Path) -> Result<(UnixListener, Self)> {
        let failed = |source: io::Error| Error::Io {
            path: path.to_owned(),
            source: source.into(),
        };
        let path = path::absolute(path).map_err(failed)?;
        ensure_free(&path)?;
        let directory = path.parent().unwrap_or(&path);
        let private = tempfile::Builder::new()
            .prefix(".simdb-")
            .suffix(".tmp")
            .tempdir_in(directory);
        let private = private.map_err(failed)?;
        let place = private.path().join(NAME);
        let listener = bind_in(private.path(), &place).map_err(failed)?;
        fs::set_permissions(&place, Permissions::from_mode(0o600)).map_err(failed)?;
        let identity = identity_of(&fs::symlink_metadata(&place).map_err(failed)?);
        fs::rename(&place, &path).map_err(failed)?;
        Ok((listener, Self { path, identity }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|there| identity_of(&there) == self.identity)
        {
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

/// Refuses a path at which somebody listens, or at which something else than a socket stands.
fn ensure_free(path: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Io {
        path: path.to_owned(),
        source: source.into(),
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(there) if !there.file_type().is_socket() => {
            return Err(Error::AlreadyExists {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match connect(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(failed(error)),
        Ok(_) => Err(failed(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there",
        ))),
    }
}
