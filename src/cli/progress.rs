//! The progress bar of commands that copy a database.

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on standard error. It is shown only on a terminal.
pub(super) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {percent} %, {eta} left");
    ProgressBar::no_length().with_style(style.expect("the template is a constant"))
}

pub(super) fn update(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}
