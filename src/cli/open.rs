//! Opening the database that a command is about.

use std::path::Path;

use simdb::{Database, Error, OpenOptions};

/// Opens a database to read it: several such commands can run at once, and the permission to read suffices. Should
/// the engine have to recover the file first, it is opened for writing.
pub(super) fn open_to_read(path: &Path) -> Result<Database, Error> {
    match Database::open(path, &OpenOptions::new().read_only(true)) {
        Err(Error::NeedsRecovery { .. }) => open_to_write(path),
        opened => opened,
    }
}

pub(super) fn open_to_write(path: &Path) -> Result<Database, Error> {
    Database::open(path, &OpenOptions::new())
}
