//! Signals that must not end the program without a word.

/// Lets a write fail if it goes beyond the limit on the size of files. It is then told like a full disk.
///
/// The system sends a signal before that, which ends a program that does not take it. The library leaves
/// signals alone, since they belong to the whole process.
pub(crate) fn let_long_writes_fail() {
    // Nobody reads the flag that the signal sets. Without the handler, all is as it was.
    #[cfg(unix)]
    drop(signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default()));
}
