//! Inputs that are read as one document, though each of their lines may be one.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ingest::Record;
use crate::plural::counted;

use super::console::Console;
use super::escaping::path_text;

const MOST_SHOWN: u64 = 20;

pub(super) struct Lists {
    console: Console,
    count: AtomicU64,
}

impl Lists {
    pub(super) fn new(console: &Console) -> Self {
        Self {
            console: console.clone(),
            count: AtomicU64::new(0),
        }
    }

    /// Names the input of a record if it is such a list. Any thread may do so.
    pub(super) fn look_at(&self, record: &Record) {
        if let Some(lines) = record.lines_of_list() {
            self.add(record.path(), lines);
        }
    }

    pub(super) fn add(&self, path: &Path, lines: u64) {
        if self.count.fetch_add(1, Ordering::Relaxed) < MOST_SHOWN {
            self.console.complain(&format!(
                "{}: is read as one document of {}; `--input-format lines` makes each line a document",
                path_text(path),
                counted(lines, "short line")
            ));
        }
    }

    /// Reports how many were not named.
    pub(super) fn finish(&self) {
        let more = self
            .count
            .load(Ordering::Relaxed)
            .saturating_sub(MOST_SHOWN);
        if more > 0 {
            self.console.complain(&format!(
                "{} of short lines: each is read as one document",
                counted(more, "more input")
            ));
        }
    }
}
