//! Files and directories: new files under temporary names, renaming, syncing, free space.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A new file under a temporary name.
pub(crate) struct NewFile {
    pub(crate) temporary: NamedTempFile,
    /// A second handle of the file. It can still be used when the file has its final name.
    pub(crate) file: File,
}

/// Creates an empty file in `directory`. The user's umask says who may read it.
pub(crate) fn create_temporary(directory: &Path) -> Result<NewFile> {
    let failed = |source: io::Error| Error::Io { path: directory.to_owned(), source };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".simdb-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(directory).map_err(failed)?;
    let file = temporary.as_file().try_clone().map_err(failed)?;
    Ok(NewFile { temporary, file })
}

/// Gives a finished file its name. A file that has this name already is replaced only if `replace` is set.
pub(crate) fn persist(temporary: NamedTempFile, target: &Path, replace: bool) -> Result<()> {
    let named = if replace { temporary.persist(target) } else { temporary.persist_noclobber(target) };
    named.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: target.to_owned() },
        _ => Error::Io { path: target.to_owned(), source: error.error },
    })
}

/// Makes the name of the new file `path` as durable as its content.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let sync = |directory: &Path| if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) };
    sync(directory_of(path)?).map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// The directory in which the file `path` is or will be. It is an error if there is no such directory.
pub(crate) fn directory_of(path: &Path) -> Result<&Path> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() {
        return Ok(directory);
    }
    let source = io::Error::new(io::ErrorKind::NotFound, "no such directory");
    Err(Error::Io { path: directory.to_owned(), source })
}

/// Refuses a path at which there is anything, even a link that leads nowhere.
pub(crate) fn ensure_nothing_at(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists { path: path.to_owned() });
    }
    Ok(())
}

/// The number of free bytes on the disk of a directory.
pub(crate) fn available_bytes(directory: &Path) -> io::Result<u64> {
    fs4::available_space(directory)
}

/// Whether both are the same file. Some systems do not tell. There an open file cannot be replaced, so the
/// answer is yes.
pub(crate) fn is_same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
    #[cfg(not(unix))]
    {
        _ = (a, b);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_takes_its_name_only_where_nothing_stands_or_replacing_is_asked_for() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let target = folder.path().join("d.simdb");
        ensure_nothing_at(&target)?;
        let first = create_temporary(folder.path())?;
        persist(first.temporary, &target, false)?;
        sync_directory(&target)?;
        let metadata = |file: &File| file.metadata().expect("the file is open");
        let at_target = || fs::metadata(&target).expect("the file is there");
        assert!(is_same_file(&metadata(&first.file), &at_target()));
        assert!(matches!(ensure_nothing_at(&target), Err(Error::AlreadyExists { .. })));
        let second = create_temporary(folder.path())?;
        let refused = persist(second.temporary, &target, false);
        assert!(matches!(refused, Err(Error::AlreadyExists { .. })));
        let third = create_temporary(folder.path())?;
        persist(third.temporary, &target, true)?;
        assert!(is_same_file(&metadata(&third.file), &at_target()));
        assert!(!is_same_file(&metadata(&first.file), &at_target()));
        assert_eq!(fs::read_dir(folder.path()).expect("the folder is there").count(), 1);
        Ok(())
    }

    #[test]
    fn a_path_without_a_directory_stands_in_the_current_one() -> Result<()> {
        assert_eq!(directory_of(Path::new("d.simdb"))?, Path::new("."));
        assert!(matches!(directory_of(Path::new("/no/such/d.simdb")), Err(Error::Io { .. })));
        Ok(())
    }
}
