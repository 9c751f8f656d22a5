//! The end by Ctrl-C or by a signal: the files are removed, and nothing else is to be brought to a good end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::{Failure, no_thread};

/// Whether the program was asked to end.
#[derive(Clone, Default)]
pub(crate) struct Ending {
    is_asked: Arc<AtomicBool>,
}

impl Ending {
    /// Watches for the end in a thread of its own: a phase can take minutes, and hours for large files. A second signal
    /// ends the program at once.
    pub(crate) fn remove_when_asked(folder: &Path) -> Result<Self, Failure> {
        let ending = Self::default();
        let signal = ending.listen()?;
        let folder = folder.to_owned();
        let is_asked = ending.is_asked.clone();
        let watch = move || {
            while !is_asked.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            // A phase that goes on meanwhile may put a file there once more.
            while folder.exists() && std::fs::remove_dir_all(&folder).is_err() {
                thread::sleep(Duration::from_millis(1));
            }
            eprintln!("bench: ended before it was done; nothing is left behind");
            end_process(&signal);
        };
        thread::Builder::new().spawn(watch).map_err(no_thread)?;
        Ok(ending)
    }

    /// Waits for the end of the process, if it is to end. Errors then come from the removal of the files.
    pub(crate) fn wait_if_asked(&self) {
        while self.is_asked.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_secs(1));
        }
    }
}

#[cfg(unix)]
mod signals {
    use super::*;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_default, register_usize};
    use std::sync::atomic::AtomicUsize;

    pub(super) type Signal = Arc<AtomicUsize>;

    impl Ending {
        /// Returns what will be the signal that asks.
        pub(super) fn listen(&self) -> io::Result<Signal> {
            let number = Signal::default();
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                // In this order, since the first asks for what the last sets.
                register_conditional_default(signal, self.is_asked.clone())?;
                register_usize(signal, number.clone(), signal as usize)?;
                register(signal, self.is_asked.clone())?;
            }
            Ok(number)
        }
    }

    /// Ends the process as the signal would have, so a shell that waits for it stops too.
    pub(super) fn end_process(signal: &Signal) {
        let signal = signal.load(Ordering::Relaxed) as i32;
        _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

#[cfg(not(unix))]
mod signals {
    use super::*;

    impl Ending {
        pub(super) fn listen(&self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(super) fn end_process(_: &()) {}
}

use signals::end_process;
