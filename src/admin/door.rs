//! The options that open an admin socket, and the guard of one.

use std::path::Path;
use std::sync::Arc;

#[cfg(unix)]
use super::listening::Listening;
use crate::database::{CreateOptions, Database, Door, OpenDoor, OpenOptions};
use crate::error::{Error, Result};
#[cfg(unix)]
use crate::ingest::Stop;
use crate::store::Store;

impl OpenOptions {
    /// Whether this process answers commands of the program about the database while it is open. Default: false. It
    /// needs the feature `admin`, and a system of the Unix family.
    ///
    /// It listens on a Unix socket beside the file, `crawl.simdb.sock` for `crawl.simdb`, in a thread of its own. The
    /// socket can be used by the user of this process only, and by root. It is removed when the handle is dropped.
    /// `simdb stats`, `get`, `query`, `explain`, `backup`, `compact`, `check`, `delete` and `expire` find it when the
    /// database is in use. Each request runs in a thread of its own, at most eight at once, as the same call in this
    /// process would. Who asks can do everything with the database that those commands do, and can have
    /// `simdb backup` write a file wherever this process may.
    ///
    /// A database that is open read-only gets no socket, since others can read it too.
    ///
    /// # Errors
    ///
    /// Opening fails with [`Error::Io`] if the socket cannot be made: the directory has to be writable, and the file
    /// system has to know sockets. It is [`Error::NoThread`] if the system gives no thread, and
    /// [`Error::AlreadyExists`] if something else stands there. A socket that was left behind by a process that was
    /// killed is replaced.
    #[must_use]
    pub fn admin(mut self, admin: bool) -> Self {
        self.door = admin.then_some(Door(open_door));
        self
    }
}

impl CreateOptions {
    /// As [`OpenOptions::admin`], for the handle that creation returns. It is not stored.
    #[must_use]
    pub fn admin(mut self, admin: bool) -> Self {
        self.open = self.open.admin(admin);
        self
    }
}

impl Database {
    /// Answers commands about this database on a Unix socket at `path`, until the guard is dropped. It needs the
    /// feature `admin`.
    ///
    /// It does what [`OpenOptions::admin`] does, at another place. The program is told of the place by
    /// `--socket PATH`. The guard does not keep the database open. After the handle and its snapshots are dropped,
    /// clients are told that the database was closed.
    ///
    /// # Errors
    ///
    /// Those that opening has with [`OpenOptions::admin`].
    ///
    /// # Example
    ///
    /// ```no_run
    /// # let database = simdb::Database::create("crawl.simdb", &simdb::CreateOptions::new())?;
    /// let socket = database.admin_socket("/run/crawler/admin.sock")?;
    /// // simdb stats --socket /run/crawler/admin.sock crawl.simdb
    /// # Ok::<(), simdb::Error>(())
    /// ```
    pub fn admin_socket(&self, path: impl AsRef<Path>) -> Result<AdminSocket> {
        listen(self.store(), path.as_ref())
    }
}

/// An admin socket of a database. It is closed and removed when this is dropped.
///
/// Requests that are being answered then are ended. What they have committed stays. In a process that was forked from
/// the one that listens, a drop ends and removes nothing, and does what [`Database::abandon`] does.
#[derive(Debug)]
pub struct AdminSocket {
    #[cfg(unix)]
    listening: Listening,
}

impl AdminSocket {
    /// Whether any request is being answered.
    pub fn is_answering(&self) -> bool {
        #[cfg(unix)]
        return self.listening.room().is_answering();
        #[cfg(not(unix))]
        unreachable!("there is no socket on this system")
    }

    /// Ends all requests, and lets nobody else in, as soon as `stop` says so. It is asked several times a second, by
    /// the threads of the requests. Only the first call counts.
    ///
    /// So a program that was asked to end is not kept by a request, whatever it does: one that compacts the database
    /// has the turn to write for minutes.
    #[must_use]
    pub fn stop_when(self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        #[cfg(unix)]
        self.listening.room().stop_when(Stop::when(stop));
        #[cfg(not(unix))]
        let _ = stop;
        self
    }

    /// Lets nobody else in, and waits until the requests that are being answered have ended, or are
    /// [stopped](Self::stop_when). Clients that have not asked anything yet are not waited for, and none is that reads
    /// nothing, or sends nothing of its standard input, for two seconds.
    pub fn close_when_answered(self) {
        #[cfg(unix)]
        self.listening.room().wait_until_answered();
    }

    /// Where the socket is. The path is absolute.
    pub fn path(&self) -> &Path {
        #[cfg(unix)]
        return self.listening.path();
        #[cfg(not(unix))]
        unreachable!("there is no socket on this system")
    }
}

#[cfg(unix)]
fn listen(store: &Arc<Store>, path: &Path) -> Result<AdminSocket> {
    Ok(AdminSocket {
        listening: Listening::start(store, path)?,
    })
}

#[cfg(not(unix))]
fn listen(_: &Arc<Store>, path: &Path) -> Result<AdminSocket> {
    let reason = "an admin socket needs a system of the Unix family";
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, reason);
    Err(Error::Io {
        path: path.to_owned(),
        source: source.into(),
    })
}

/// Listens beside the file.
fn open_door(store: &Arc<Store>) -> Result<OpenDoor> {
    if !store.is_writable() {
        return Ok(OpenDoor::new(()));
    }
    let failed = |source: std::io::Error| Error::Io {
        path: store.path.clone(),
        source: source.into(),
    };
    #[cfg(unix)]
    let beside = crate::cli::socket_beside(&store.path).map_err(failed)?;
    #[cfg(not(unix))]
    let beside = std::path::absolute(&store.path).map_err(failed)?;
    Ok(OpenDoor::new(listen(store, &beside)?))
}
