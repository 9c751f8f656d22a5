//! The terminal of the process: its standard output, its standard error and a progress bar on it.

use std::fmt;
use std::io::{self, IsTerminal as _, Read, Write};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use parking_lot::Mutex;

use super::console::{Step, Terminal};
use super::output::complain;
use super::signals::Ending;
use super::units::told_count;

/// The standard streams of the process. A progress bar is shown only on a terminal.
pub(super) struct Process {
    ending: Ending,
    bar: Mutex<Option<ProgressBar>>,
    /// The line that comes before the first output.
    heading: Mutex<Option<&'static str>>,
}

impl Process {
    pub(super) fn new(ending: Ending) -> Self {
        Self {
            ending,
            bar: Mutex::default(),
            heading: Mutex::default(),
        }
    }

    /// Hides the bar while `print` runs, so that the two do not mix.
    fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        match &*self.bar.lock() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Terminal for Process {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let heading = self
            .heading
            .lock()
            .take()
            .map(|line| format!("{line}\n"))
            .unwrap_or_default();
        let mut out = io::stdout().lock();
        self.above(|| {
            out.write_all(heading.as_bytes())?;
            out.write_all(bytes)?;
            out.flush()
        })
    }

    fn head(&self, line: &'static str) {
        if io::stdout().is_terminal() {
            *self.heading.lock() = Some(line);
        }
    }

    fn confirm(&self) -> io::Result<()> {
        // It was written at once.
        Ok(())
    }

    fn complain(&self, message: &str) {
        self.above(|| complain(message));
    }

    fn show(&self, step: &Step<'_>) {
        let mut bar = self.bar.lock();
        let bar = bar.get_or_insert_with(|| new_bar(step));
        if let Some(all) = step.all {
            bar.set_length(all);
        }
        bar.set_position(step.done);
    }

    fn hide(&self) {
        if let Some(bar) = self.bar.lock().take() {
            bar.finish_and_clear();
        }
    }

    fn is_ended(&self) -> bool {
        self.ending.is_asked()
    }

    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>> {
        None
    }
}

fn new_bar(step: &Step<'_>) -> ProgressBar {
    let template = match (step.all.is_some(), &*step.what) {
        (true, "") => "{wide_bar} {percent} %, {eta} left",
        (true, "bytes") => "{wide_bar} {percent} %, {bytes_per_sec}, {eta} left",
        (true, _) => "{wide_bar} {percent} %, {human_pos} {msg}, {rate}, {eta} left",
        (false, "bytes") => "{bytes} read, {bytes_per_sec}",
        (false, _) => "{human_pos} {msg}, {rate}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    // Written anew, since the usual one has four decimals.
    let style = style.with_key("rate", |state: &ProgressState, to: &mut dyn fmt::Write| {
        _ = write!(to, "{}/s", told_count(state.per_sec() as u64));
    });
    ProgressBar::no_length()
        .with_style(style)
        .with_message(step.what.clone().into_owned())
}
