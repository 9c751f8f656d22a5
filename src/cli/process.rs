//! The process of the user: its standard output, its standard error and a progress bar on it, and the signals that must
//! not end it without a word.

use std::fmt;
use std::io::{self, IsTerminal as _, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::console::Terminal;
use super::escaping::harmless;
use super::units::told_count;

/// The standard streams of the process. A progress bar is shown only on a terminal.
#[derive(Default)]
pub(super) struct Process {
    bar: Mutex<Option<ProgressBar>>,
    /// The line that comes before the first output.
    heading: Mutex<Option<&'static str>>,
    /// Whether somebody has asked the program to end, by Ctrl-C or by a signal.
    is_ended: Arc<AtomicBool>,
    /// The signal that has asked.
    signal: Arc<AtomicUsize>,
}

impl Process {
    /// Lets a write fail if it goes beyond the limit on the size of files. It is then told like a full disk.
    ///
    /// The system sends a signal before that, which ends a program that does not take it. The library leaves
    /// signals alone, since they belong to the whole process.
    pub(super) fn new() -> Self {
        // Nobody reads the flag that the signal sets. Without the handler, all is as it was.
        #[cfg(unix)]
        drop(signal_hook::flag::register(
            signal_hook::consts::SIGXFSZ,
            Arc::default(),
        ));
        Self::default()
    }

    /// Takes the signals that ask a program to end. From now on the first only sets a flag, and a second ends the
    /// program at once. A signal that is passed over stays so.
    pub(super) fn end_in_order(&self) {
        #[cfg(unix)]
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ] {
            use signal_hook::flag::{register, register_conditional_default, register_usize};
            if is_ignored(signal) {
                continue;
            }
            // In this order, since the first asks for what the last sets. If one of them cannot be registered, the
            // signal ends the program as it always did.
            let registered = register_conditional_default(signal, self.is_ended.clone());
            let registered = registered
                .and_then(|_| register_usize(signal, self.signal.clone(), signal as usize));
            _ = registered.and_then(|_| register(signal, self.is_ended.clone()));
        }
    }

    /// Ends as the signal would have, so a shell that waits for the process stops too. Returns if there was none.
    pub(super) fn end_by_signal(&self) {
        #[cfg(unix)]
        if let signal @ 1.. = self.signal.load(Ordering::Relaxed) {
            _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
    }

    /// Hides the bar while `print` runs, so that the two do not mix.
    fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        match &*locked(&self.bar) {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// The right to what a lock holds, whatever a panic has left there.
pub(super) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether whoever has started this process wants it to pass over a signal: `nohup`, or a shell that starts it in the
/// background. Only Linux tells it here.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

impl Terminal for Process {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let heading = locked(&self.heading)
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
            *locked(&self.heading) = Some(line);
        }
    }

    fn confirm(&self) -> io::Result<()> {
        // It was written at once.
        Ok(())
    }

    fn complain(&self, message: &str) {
        self.above(|| _ = writeln!(io::stderr(), "simdb: {}", harmless(message, &[])));
    }

    fn show(&self, done: u64, all: Option<u64>, what: &str) {
        let mut bar = locked(&self.bar);
        let (is_of_bytes, message) = match what.strip_prefix("bytes") {
            Some(more) => (true, more),
            None => (false, what),
        };
        let bar = bar.get_or_insert_with(|| new_bar(all.is_some(), is_of_bytes, message));
        bar.set_message(message.to_owned());
        if let Some(all) = all {
            bar.set_length(all);
        }
        bar.set_position(done);
    }

    fn hide(&self) {
        if let Some(bar) = locked(&self.bar).take() {
            bar.finish_and_clear();
        }
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    fn standard_input(self: Arc<Self>) -> Option<Box<dyn Read + Send>> {
        None
    }
}

/// A bar for work of which the end is known, or not.
fn new_bar(has_end: bool, is_of_bytes: bool, message: &str) -> ProgressBar {
    let template = match (has_end, is_of_bytes) {
        (true, true) => "{wide_bar} {percent} %, {bytes_per_sec}{msg}, {eta} left",
        (true, false) if message.is_empty() => "{wide_bar} {percent} %, {eta} left",
        (true, false) => "{wide_bar} {percent} %, {human_pos} {msg}, {rate}, {eta} left",
        (false, true) => "{bytes} read, {bytes_per_sec}{msg}",
        (false, false) => "{human_pos} {msg}, {rate}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    // Written anew, since the usual one has four decimals.
    let style = style.with_key("rate", |state: &ProgressState, to: &mut dyn fmt::Write| {
        _ = write!(to, "{}/s", told_count(state.per_sec() as u64));
    });
    ProgressBar::no_length().with_style(style)
}
