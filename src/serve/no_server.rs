//! The server where the system has none: listening fails, so nobody has this guard.

use std::convert::Infallible;
use std::path::Path;

use crate::error::Result;

/// There is no socket, so none is taken.
pub(crate) fn ensure_free_beside(_: &Path) -> Result<()> {
    Ok(())
}

/// What answers other processes, which needs a system of the Unix family.
#[derive(Debug)]
#[must_use = "the database is served until this is dropped"]
pub struct Server(Infallible);

impl Server {
    /// Whether any request is being answered.
    pub fn is_answering(&self) -> bool {
        match self.0 {}
    }

    /// For how long nobody has been connected.
    pub fn idle_for(&self) -> std::time::Duration {
        match self.0 {}
    }

    /// Ends all requests, and lets nobody else in, as soon as `stop` says so.
    pub fn stop_when(self, _: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self
    }

    /// Lets nobody else in, and waits until the requests that are being answered have ended.
    pub fn close_when_answered(self) {}

    /// As [`close_when_answered`](Self::close_when_answered), but waits no longer than `patience`.
    pub fn close_within(self, _: std::time::Duration) {}

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }
}
