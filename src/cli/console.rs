//! The console of one request: where its output, its messages and its progress go, where its standard input and its
//! relative paths are. It is that of the process, or that of a client of a database that is in use. Long searches write
//! to it while they go on.

use std::io::{self, Read};
use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::answer::Failure;
use super::output::Output;
use super::output_files::is_no_file;
use crate::Error;
use crate::ingest::{ReadOptions, Records};

/// What a console is made of. Several threads may use it.
pub(super) trait Terminal: Send + Sync {
    /// Writes to standard output. That its reader has gone is an error of the kind `BrokenPipe`.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;

    /// Writes a line before the first output, if that goes to a terminal.
    fn head(&self, _: &'static str) {
        // Only the process of the user has a terminal.
    }

    /// Waits until what was written has got to where standard output goes. An error if it may not have got there.
    fn confirm(&self) -> io::Result<()>;

    /// Prints a message on standard error, on one line. A failure to do so is ignored.
    fn complain(&self, message: &str);

    /// Shows how far some work is: what is done, and all there is to do if that is known. `what` names what is counted,
    /// where that is not known. `bytes` may have more to say behind it, as `bytes, 7 documents`.
    fn show(&self, done: u64, all: Option<u64>, what: &str);

    fn hide(&self);

    fn is_ended(&self) -> bool;

    /// Standard input. `None` if it is that of the process.
    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>>;
}

/// The console of one request, with all that its terminal does. Clones are the same console.
#[derive(Clone)]
pub(super) struct Console {
    terminal: Arc<dyn Terminal>,
    /// Whether only errors are wanted on standard error.
    quiet: bool,
    /// Where relative paths begin. `None` if that is the current directory of the process.
    directory: Option<Arc<Path>>,
}

impl Deref for Console {
    type Target = dyn Terminal;

    fn deref(&self) -> &Self::Target {
        self.terminal.as_ref()
    }
}

impl Console {
    /// A console on which remarks and progress are not shown if `quiet`.
    pub(super) fn new(terminal: Arc<dyn Terminal>, directory: Option<&Path>, quiet: bool) -> Self {
        Self {
            terminal,
            quiet,
            directory: directory.map(Arc::from),
        }
    }

    /// Prints a message that is no error, unless quiet was asked for.
    pub(super) fn remark(&self, message: &str) {
        if !self.quiet {
            self.complain(message);
        }
    }

    /// Whether somebody else has asked than this process. What concerns the process is then not changed.
    pub(super) fn is_of_client(&self) -> bool {
        self.directory.is_some()
    }

    pub(super) fn ensure_wanted(&self) -> Result<(), Error> {
        if self.is_ended() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Where the file of a path is that was given as an argument.
    pub(super) fn place_of(&self, path: &Path) -> PathBuf {
        match &self.directory {
            Some(directory) => directory.join(path),
            None => path.to_owned(),
        }
    }

    /// Opens inputs that were given as arguments; `-` is standard input. They are read as long as somebody wants it.
    pub(super) fn records<P: AsRef<Path>>(
        &self,
        paths: &[P],
        options: ReadOptions,
    ) -> Result<Records, Error> {
        for path in paths {
            self.ensure_has_end(path.as_ref())?;
        }
        let terminal = self.terminal.clone();
        let options = options.stop_when(move || terminal.is_ended());
        let options = match &self.directory {
            Some(directory) => options.directory(&**directory),
            None => options,
        };
        let records = Records::open(paths.iter().map(AsRef::as_ref), options)?;
        Ok(match self.terminal.clone().standard_input() {
            Some(input) => records.standard_input(input),
            None => records,
        })
    }

    /// Refuses an input of a client that may have no end, or that another process means something else by: a pipe, a
    /// terminal or a device.
    pub(super) fn ensure_has_end(&self, path: &Path) -> Result<(), Error> {
        if self.is_of_client() && path != "-" && is_no_file(&self.place_of(path)) {
            let reason = "is no file, and the process that has the database open reads files only: give a file, or \
                          `-` and standard input";
            return Err(refused(path, reason));
        }
        Ok(())
    }

    /// Refuses an output of a client that another process means something else by.
    pub(super) fn ensure_shared(&self, path: &Path) -> Result<(), Error> {
        if self.is_of_client() && is_of_process(path) {
            let reason = "only this process has it, and another process has the database open and writes the output: \
                          give a file";
            return Err(refused(path, reason));
        }
        Ok(())
    }

    /// The progress of work whose amount is known.
    pub(super) fn progress(&self) -> Progress {
        self.progress_of("")
    }

    /// The progress of work that counts something.
    pub(super) fn progress_of(&self, what: &str) -> Progress {
        Progress {
            terminal: self.terminal.clone(),
            is_shown: !self.quiet,
            what: what.to_owned(),
        }
    }
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::Input {
        source_name: path.display().to_string(),
        line: None,
        reason: reason.to_owned(),
    }
}

/// Whether a path is something else in each process: what it has open.
pub(super) fn is_of_process(path: &Path) -> bool {
    const OWN: [&str; 6] = [
        "/dev/fd",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "/proc/self",
        "/proc/thread-self",
    ];
    OWN.iter().any(|own| path.starts_with(own))
}

pub(super) fn break_if(is_to_end: bool) -> ControlFlow<()> {
    match is_to_end {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// The progress of some work. It is shown until this is dropped.
pub(super) struct Progress {
    terminal: Arc<dyn Terminal>,
    is_shown: bool,
    what: String,
}

impl Progress {
    /// Shows how far work is whose amount is known, as its steps are told.
    pub(super) fn steps(&self) -> impl Fn(u64, u64) -> ControlFlow<()> + Sync {
        |done, all| self.update(done, Some(all))
    }

    /// Shows how far the work is. Breaks if nobody wants the rest.
    pub(super) fn update(&self, done: u64, all: Option<u64>) -> ControlFlow<()> {
        if self.is_shown {
            self.terminal.show(done, all, &self.what);
        }
        break_if(self.terminal.is_ended())
    }

    /// As [`update`](Self::update), with a new name for what is counted.
    pub(super) fn update_as(
        &mut self,
        done: u64,
        all: Option<u64>,
        what: String,
    ) -> ControlFlow<()> {
        self.what = what;
        self.update(done, all)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.terminal.hide();
    }
}

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
    pub(super) fn new(what: &str, output: &Output) -> Self {
        Self {
            progress: output.console().progress_of(what),
            failed: None,
            was_ended: false,
            goes_on_unread: false,
        }
    }

    pub(super) fn go_on_unread(&mut self) {
        self.goes_on_unread = true;
    }

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
        break_if(self.failed.is_some() || is_unread || self.was_ended)
    }

    /// Whether the search should go on, if what it finds goes elsewhere.
    pub(super) fn wanted(&self) -> ControlFlow<()> {
        break_if(self.was_ended)
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
