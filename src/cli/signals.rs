//! Signals that must not end the program without a word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Lets a write fail if it goes beyond the limit on the size of files. It is then told like a full disk.
///
/// The system sends a signal before that, which ends a program that does not take it. The library leaves
/// signals alone, since they belong to the whole process.
pub(crate) fn let_long_writes_fail() {
    // Nobody reads the flag that the signal sets. Without the handler, all is as it was.
    #[cfg(unix)]
    drop(signal_hook::flag::register(
        signal_hook::consts::SIGXFSZ,
        Arc::default(),
    ));
}

/// Whether somebody has asked the program to end, by Ctrl-C or by a signal. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Ending {
    is_asked: Arc<AtomicBool>,
    /// The signal that has asked.
    signal: Arc<AtomicUsize>,
}

impl Ending {
    /// Takes the signals that ask a program to end. From now on the first only sets a flag, and a second ends the
    /// program at once.
    pub(super) fn listen(&self) {
        #[cfg(unix)]
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ] {
            use signal_hook::flag::{register, register_conditional_default, register_usize};
            // In this order, since the first asks for what the last sets. If one of them cannot be registered, the
            // signal ends the program as it always did.
            let registered = register_conditional_default(signal, self.is_asked.clone());
            let registered = registered
                .and_then(|_| register_usize(signal, self.signal.clone(), signal as usize));
            _ = registered.and_then(|_| register(signal, self.is_asked.clone()));
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Ends the process as the signal would have, so a shell that waits for it stops too. Returns if there was none.
    pub(super) fn end_process(&self) {
        #[cfg(unix)]
        if let signal @ 1.. = self.signal.load(Ordering::Relaxed) {
            _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
    }
}
