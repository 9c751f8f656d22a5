//! A search that takes long and prints what it finds while it goes on.

use std::io;
use std::ops::ControlFlow;

use super::answer::Failure;
use super::console::Progress;
use super::output::Output;

/// A search that is under way: how far it is, and whether it should go on.
pub(super) struct LongSearch {
    progress: Progress,
    failed: Option<io::Error>,
    was_ended: bool,
    /// Whether the search goes on when nobody reads what it prints.
    goes_on_unread: bool,
}

impl LongSearch {
    /// A search that counts something, or whose amount is known if `what` is empty.
    pub(super) fn new(what: &'static str, output: &Output) -> Self {
        Self {
            progress: output.console().progress_of(what),
            failed: None,
            was_ended: false,
            goes_on_unread: false,
        }
    }

    /// Lets the search go on when nobody reads what it prints.
    pub(super) fn go_on_unread(&mut self) {
        self.goes_on_unread = true;
    }

    /// Shows how far the search is.
    pub(super) fn update(&mut self, done: u64, all: Option<u64>) {
        self.was_ended |= self.progress.update(done, all).is_break();
    }

    /// Writes what was printed so far. If that fails, the search is to end.
    fn flush(&mut self, output: &mut Output) {
        let failed = output.flush().err();
        self.failed = self.failed.take().or(failed);
    }

    /// Writes what was printed so far, and waits until it has got to where it goes. If it may not have got there, the
    /// search is to end.
    pub(super) fn confirm(&mut self, output: &mut Output) {
        self.flush(output);
        self.was_ended |= output.console().confirm().is_err();
    }

    /// Whether the search should go on. Writes what was printed if it is enough.
    pub(super) fn flow(&mut self, output: &mut Output) -> ControlFlow<()> {
        if output.is_full() {
            self.flush(output);
        }
        let is_unread = output.is_closed() && !self.goes_on_unread;
        match self.failed.is_some() || is_unread {
            true => ControlFlow::Break(()),
            false => self.wanted(),
        }
    }

    /// Whether the search should go on, if what it finds goes elsewhere.
    pub(super) fn wanted(&self) -> ControlFlow<()> {
        match self.was_ended {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Takes the progress from the screen, and writes the rest. Whether the search was ended from outside.
    ///
    /// # Errors
    ///
    /// What was printed cannot be written.
    pub(super) fn end(mut self, output: &mut Output) -> Result<bool, Failure> {
        drop(self.progress);
        if self.failed.is_none() {
            self.failed = output.flush().err();
        }
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(self.was_ended || !self.goes_on_unread && output.console().is_ended()),
        }
    }
}
