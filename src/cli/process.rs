//! The terminal of the process: its standard output, its standard error and a progress bar on it.

use std::io::{self, Read, Write};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::console::{Step, Terminal};
use super::output::complain;

/// The standard streams of the process. A progress bar is shown only on a terminal.
#[derive(Default)]
pub(super) struct Process {
    bar: Mutex<Option<ProgressBar>>,
}

impl Process {
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
        let mut out = io::stdout().lock();
        self.above(|| out.write_all(bytes).and_then(|()| out.flush()))
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
        false
    }

    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>> {
        None
    }
}

fn new_bar(step: &Step<'_>) -> ProgressBar {
    let template = match step.all {
        Some(_) => "{wide_bar} {percent} %, {eta} left",
        None => "{pos} {msg}, {per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::no_length().with_style(style).with_message(step.what.clone().into_owned())
}
