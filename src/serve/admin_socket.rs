//! The guard of an admin socket, as the user of the library has it.

use std::path::Path;
#[cfg(unix)]
use std::sync::Arc;

#[cfg(unix)]
use super::listening::Listening;
#[cfg(unix)]
use super::sessions::RunCommand;
#[cfg(unix)]
use crate::error::Result;
#[cfg(unix)]
use crate::store::Store;

/// An admin socket of a database. It is closed and removed when this is dropped.
///
/// Requests that are being answered then are ended. What they have committed stays. In a process that was forked from
/// the one that listens, a drop ends and removes nothing, and does what
/// [`Database::abandon`](crate::Database::abandon) does.
#[derive(Debug)]
pub struct AdminSocket {
    #[cfg(unix)]
    listening: Listening,
}

impl AdminSocket {
    /// Listens at a path, and answers by `run`.
    #[cfg(unix)]
    pub(crate) fn listen(store: &Arc<Store>, path: &Path, run: RunCommand) -> Result<Self> {
        let listening = Listening::start(store, path, run)?;
        Ok(Self { listening })
    }

    /// Whether any request is being answered.
    pub fn is_answering(&self) -> bool {
        #[cfg(unix)]
        return self.listening.is_answering();
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
        self.listening.stop_when(stop);
        #[cfg(not(unix))]
        let _ = stop;
        self
    }

    /// Lets nobody else in, and waits until the requests that are being answered have ended, or are
    /// [stopped](Self::stop_when). Clients that have not asked anything yet are not waited for, and none is that reads
    /// nothing, or sends nothing of its standard input, for two seconds.
    pub fn close_when_answered(self) {
        #[cfg(unix)]
        self.listening.drain();
    }

    /// Where the socket is. The path is absolute.
    pub fn path(&self) -> &Path {
        #[cfg(unix)]
        return self.listening.path();
        #[cfg(not(unix))]
        unreachable!("there is no socket on this system")
    }
}
