//! The file of a page.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::cli::answer::Failure;
use crate::cli::console::Console;

/// The file for a page.
pub(super) struct Page {
    /// As it was given.
    path: PathBuf,
    place: PathBuf,
    replace: bool,
}

impl Page {
    /// Refuses a file that exists, before there is any work for it.
    pub(super) fn new(path: &Path, replace: bool, console: &Console) -> Result<Self, Failure> {
        let place = console.place_of(path);
        match !replace && place.symlink_metadata().is_ok() {
            true => Err(Error::AlreadyExists { path: path.to_owned() }.into()),
            false => Ok(Self { path: path.to_owned(), place, replace }),
        }
    }

    /// Writes the page. The file has its name only when it is whole.
    pub(super) fn write(&self, page: &str) -> Result<(), Failure> {
        let folder = match self.place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut names = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // Those of other new files. Without it, nobody else could read the page.
            names.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let written = names.prefix(".simdb-").tempfile_in(folder).and_then(|mut file| {
            file.write_all(page.as_bytes())?;
            file.as_file().sync_all()?;
            match self.replace {
                true => file.persist(&self.place).map_err(|it| it.error),
                false => file.persist_noclobber(&self.place).map_err(|it| it.error),
            }
        });
        match written {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{}: the page cannot be written: {error}", self.path.display()).into()),
        }
    }
}
