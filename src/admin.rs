//! The admin socket in the interface of the library: the options that open one. `cli/verbs.rs` says what it answers.

use std::path::Path;
use std::sync::Arc;

use crate::database::{CreateOptions, Database, Listen, Listener, OpenOptions};
use crate::error::{Error, Result};
#[cfg(unix)]
use crate::serve::AdminSocket;
#[cfg(all(unix, any(test, not(feature = "cli"))))]
use crate::serve::Request;
#[cfg(unix)]
use crate::serve::{RunCommand, socket_beside};
use crate::store::Store;

/// How the commands of clients are run.
#[cfg(all(unix, feature = "cli"))]
const RUN: RunCommand = crate::cli::run_for_client;
#[cfg(all(unix, not(feature = "cli")))]
const RUN: RunCommand = |request, _, _| refuse(request);

/// The answer to a command where there is none.
#[cfg(all(unix, any(test, not(feature = "cli"))))]
fn refuse(request: &Request) -> std::result::Result<u8, String> {
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
    /// Whether this process answers commands of the program about the database while it is open. Default: false. It
    /// needs the feature `serve`, and a system of the Unix family. The commands are those of the feature `cli`: without
    /// it, each is answered by an error that says so.
    ///
    /// It listens on a Unix socket beside the file, `crawl.simdb.sock` for `crawl.simdb`, in a thread of its own. The
    /// socket can be used by the user of this process only, and by root. It is removed when the handle is dropped.
    /// The commands of the program about a database that is there, such as `simdb stats`, find it when the database is
    /// in use. Each request runs in a thread of its own, at most eight at once, as the same call in this process would.
    /// Who asks can do everything with the database that those commands do, and can have `simdb backup` write a file
    /// wherever this process may.
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
        self.listener = admin.then_some(Listen(listen_beside));
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
    /// feature `serve`.
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
        listen(&self.store, path.as_ref())
    }
}

#[cfg(unix)]
fn listen(store: &Arc<Store>, path: &Path) -> Result<AdminSocket> {
    AdminSocket::listen(store, path, RUN)
}

#[cfg(not(unix))]
fn listen(_: &Arc<Store>, path: &Path) -> Result<AdminSocket> {
    let reason = "an admin socket needs a system of the Unix family";
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, reason);
    Err(Error::io(path)(source))
}

/// Listens beside the file.
fn listen_beside(store: &Arc<Store>) -> Result<Listener> {
    if store.ensure_writable().is_err() {
        return Ok(Listener::new(()));
    }
    #[cfg(unix)]
    let beside = socket_beside(&store.path);
    #[cfg(not(unix))]
    let beside = std::path::absolute(&store.path);
    let beside = beside.map_err(Error::io(&store.path))?;
    Ok(Listener::new(listen(store, &beside)?))
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A program that embeds simdb may do without the commands.
    #[test]
    fn a_command_is_refused_by_a_program_without_commands()
    -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("d.simdb");
        let database = Database::create(&path, &CreateOptions::new())?;
        let socket = AdminSocket::listen(
            &database.store,
            &folder.path().join("s"),
            |request, _, _| refuse(request),
        )?;
        let mut client = UnixStream::connect(socket.path())?;
        let file = std::fs::metadata(&path)?;
        let file = format!("[{},{}]", file.dev(), file.ino());
        let request =
            r#"{"simdb_admin":2,"arguments":["get","d.simdb","k"],"directory":"/","file":"#;
        writeln!(client, "{request}{file}}}")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        let lines: Vec<&str> = answer.lines().collect();
        assert_eq!(
            (lines[0], lines[2]),
            (r#"{"simdb_admin":2}"#, r#"{"exit":2}"#)
        );
        assert!(
            lines[1].contains("`get`") && lines[1].contains("without the feature `cli`"),
            "{answer}"
        );
        Ok(())
    }
}
