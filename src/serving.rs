//! Serving in the interface of the library: the options with which an open database answers other processes.
//! `cli/verbs.rs` says what it answers.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::database::{CreateOptions, Database, Listen, Listener, OpenOptions};
use crate::error::{Error, ErrorKind, Result};
#[cfg(all(unix, any(test, not(feature = "cli"))))]
use crate::serve::Request;
#[cfg(unix)]
use crate::serve::{RunCommand, socket_beside};
use crate::serve::{Server, ensure_free_beside};
use crate::store::Store;

#[cfg(all(unix, feature = "cli"))]
const RUN: RunCommand = crate::cli::run_for_client;
#[cfg(all(unix, not(feature = "cli")))]
const RUN: RunCommand = |request, _, _| refuse(request);

/// The answer to a command where there is none.
#[cfg(all(unix, any(test, not(feature = "cli"))))]
fn refuse(request: &Request) -> Result<u8, String> {
    let arguments = request.arguments()?;
    let command = arguments.first().map(|name| name.display());
    Err(match command {
        Some(name) => format!(
            "the process that has the database open does not answer `{name}`: it was built without the feature `cli` \
             of simdb"
        ),
        None => "the request names no command".to_owned(),
    })
}

impl OpenOptions {
    /// Whether this process answers others about the database while it is open. Default: false. It needs the feature
    /// `serve`, and a system of the Unix family.
    ///
    /// Other processes insert and ask by a [`Client`](crate::Client), or by any client of Redis; docs/protocol.md
    /// describes the calls. All clients share commits, as threads do with a [`Writer`](crate::Writer). The commands of
    /// the program are answered too, if this process has the feature `cli`: without it, each is answered by an error
    /// that says so.
    ///
    /// It listens on a Unix socket beside the file, `crawl.simdb.sock` for `crawl.simdb`, in a thread of its own. The
    /// socket can be used by the user of this process only, and by root. It is removed when the handle is dropped. The
    /// commands of the program about a database that is there, such as `simdb stats`, find it when the database is in
    /// use. Each client has a thread of its own: at most 1,000 are connected at once, fewer if the process may not have
    /// so many files open, and at most eight commands run. Who asks can do everything with the database that this
    /// process can, and can have `simdb backup` write a file wherever this process may.
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
    pub fn serve(mut self, serve: bool) -> Self {
        self.listener = serve.then_some(Listen {
            ensure_free: ensure_free_beside,
            start: listen_beside,
        });
        self
    }
}

impl CreateOptions {
    /// As [`OpenOptions::serve`], for the handle that creation returns. It is not stored.
    #[must_use]
    pub fn serve(mut self, serve: bool) -> Self {
        self.open = self.open.serve(serve);
        self
    }
}

impl Database {
    /// Answers other processes about this database on the Unix socket beside the file, until the guard is dropped, as
    /// [`OpenOptions::serve`] has it as long as the handle lives. It needs the feature `serve`.
    ///
    /// # Errors
    ///
    /// Those that opening has with [`OpenOptions::serve`], and [`Error::ReadOnly`].
    pub fn serve(&self) -> Result<Server> {
        self.store.ensure_writable()?;
        listen(&self.store, &beside(&self.store)?)
    }

    /// Serves at the socket beside the file for as long as `goes_on` says. It is asked some twenty times a second,
    /// first when others can connect.
    ///
    /// After a commit or a read of the file that failed, it is [opened again](Self::reopen) as soon as that is
    /// possible, so that those who are connected can go on. At the end, requests have five seconds to be answered. This
    /// is all that `simdb serve` does.
    ///
    /// # Errors
    ///
    /// Those of [`serve`](Self::serve), and [`Error::Closed`] if the database is closed meanwhile.
    pub fn serve_until(&self, mut goes_on: impl FnMut(&Server) -> ControlFlow<()>) -> Result<()> {
        const LOOK: Duration = Duration::from_millis(50);
        const PATIENCE: Duration = Duration::from_secs(5);
        let server = self.serve()?;
        for looks in 1u32.. {
            if goes_on(&server).is_break() {
                break;
            }
            thread::sleep(LOOK);
            // Now and then, since it takes the turn to write.
            if looks.is_multiple_of(10) {
                match self.try_begin_write().map(|txn| txn.map(drop)) {
                    // Somebody writes. Whoever opens the file again would wait for that.
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::OutcomeUnknown => _ = self.reopen(),
                    Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
                    _ if self.store.has_failed() => _ = self.reopen(),
                    _ => {}
                }
            }
        }
        server.close_within(PATIENCE);
        Ok(())
    }

    /// Answers other processes about this database on a Unix socket at `path`, until the guard is dropped. It needs the
    /// feature `serve`.
    ///
    /// It does what [`OpenOptions::serve`] does, at another place. The program is told of the place by
    /// `--socket PATH`. The guard does not keep the database open. After the handle and its snapshots are dropped,
    /// clients are told that the database was closed.
    ///
    /// # Errors
    ///
    /// Those that opening has with [`OpenOptions::serve`].
    ///
    /// # Example
    ///
    /// ```no_run
    /// # let database = simdb::Database::create("crawl.simdb", &simdb::CreateOptions::new())?;
    /// let server = database.serve_at("/run/crawler/simdb.sock")?;
    /// // simdb stats --socket /run/crawler/simdb.sock crawl.simdb
    /// # Ok::<(), simdb::Error>(())
    /// ```
    pub fn serve_at(&self, path: impl AsRef<Path>) -> Result<Server> {
        listen(&self.store, path.as_ref())
    }
}

#[cfg(unix)]
fn listen(store: &Arc<Store>, path: &Path) -> Result<Server> {
    Server::listen(store, path, RUN)
}

#[cfg(not(unix))]
fn listen(_: &Arc<Store>, path: &Path) -> Result<Server> {
    let reason = "to serve needs a system of the Unix family";
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, reason);
    Err(Error::io(path)(source))
}

fn listen_beside(store: &Arc<Store>) -> Result<Listener> {
    if store.ensure_writable().is_err() {
        return Ok(Box::new(()));
    }
    Ok(Box::new(listen(store, &beside(store)?)?))
}

/// Where the socket beside the file is, also if the directory of the process has changed since the file was opened.
fn beside(store: &Store) -> Result<PathBuf> {
    #[cfg(unix)]
    let beside = socket_beside(&store.target);
    #[cfg(not(unix))]
    let beside = std::path::absolute(&store.target);
    beside.map_err(Error::io(&store.path))
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A program that embeds simdb may do without the commands.
    #[test]
    fn a_command_is_refused_by_a_program_without_commands() -> Result<(), Box<dyn std::error::Error>>
    {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("d.simdb");
        let database = Database::create(&path, &CreateOptions::new())?;
        let socket = Server::listen(
            &database.store,
            &folder.path().join("s"),
            |request, _, _| refuse(request),
        )?;
        let mut client = UnixStream::connect(socket.path())?;
        let file = std::fs::metadata(&path)?;
        let file = format!("[{},{}]", file.dev(), file.ino());
        let request =
            r#"{"simdb_admin":3,"arguments":["get","d.simdb","k"],"directory":"/","file":"#;
        writeln!(client, "{request}{file}}}")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        let lines: Vec<&str> = answer.lines().collect();
        assert_eq!(
            (lines[0], lines[1], lines[3]),
            (r#"{"simdb_admin":3}"#, r#"{"begun":true}"#, r#"{"exit":2}"#)
        );
        assert!(
            lines[2].contains("`get`") && lines[2].contains("without the feature `cli`"),
            "{answer}"
        );
        Ok(())
    }
}
