//! What is said of the folder for temporary files when it is full or not there.

use std::env;
use std::error::Error;

/// That something cannot be kept there, and what helps. The files in it have names that nobody knows.
pub(super) fn cannot_keep(error: &dyn Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason += &format!(": {error}");
        cause = error.source();
    }
    format!(
        "{}: this folder for temporary files cannot be used: {reason}; make room there, or let TMPDIR name another one",
        env::temp_dir().display()
    )
}
