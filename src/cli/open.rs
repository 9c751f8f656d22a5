//! Opening the database that a command is about.

use std::path::Path;

use simdb::{Database, Error, OpenOptions};

/// Opens a database to read it. Several commands that read can run at once, and the permission to read is
/// enough. If the engine has to recover the file first, the file is opened for writing.
pub(super) fn open_to_read(path: &Path) -> Result<Database, Error> {
    match Database::open(path, &OpenOptions::new().read_only(true)) {
        Err(Error::NeedsRecovery { .. }) => open_to_write(path),
        opened => opened,
    }
}

/// Opens a database to read and write it.
pub(super) fn open_to_write(path: &Path) -> Result<Database, Error> {
    Database::open(path, &OpenOptions::new())
}
