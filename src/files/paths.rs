//! What stands at a path, whether two files are the same or have the same bytes, syncing, free space.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::error::{Error, Result};

#[cfg(test)]
thread_local! {
    static DIRECTORY_SYNC_FAILS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes every sync of a directory on this thread fail from now on, or no longer.
#[cfg(test)]
pub(crate) fn fail_directory_syncs(fail: bool) {
    DIRECTORY_SYNC_FAILS.set(fail);
}

/// Makes the names in a directory durable, where the system can do that.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    #[cfg(test)]
    if DIRECTORY_SYNC_FAILS.get() {
        return Err(io::Error::other("a test lets it fail"));
    }
    if cfg!(unix) {
        File::open(directory)?.sync_all()
    } else {
        Ok(())
    }
}

/// Makes the name of the file `path` as durable as its content, or that it has gone.
pub(crate) fn sync_name(path: &Path) -> Result<()> {
    sync_directory(directory_of(path)?).map_err(Error::io(path))
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
    Err(Error::io(directory)(source))
}

/// Refuses a path at which there is anything, even a link that leads nowhere.
pub(crate) fn ensure_nothing_at(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// The number of free bytes on the disk of a directory.
pub(crate) fn available_bytes(directory: &Path) -> io::Result<u64> {
    fs4::available_space(directory)
}

/// The number of names of an open file. A system that does not tell it gives one.
pub(crate) fn names_of(file: &File) -> io::Result<u64> {
    // Linux gives a file an exact time at the first change after somebody asked for its times, and the next
    // sync writes that time. A commit was a tenth slower for it. So only the names are asked for.
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        if let Ok(found) = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
            return Ok(found.stx_nlink.into());
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        file.metadata().map(|metadata| metadata.nlink())
    }
    #[cfg(not(unix))]
    {
        _ = file;
        Ok(1)
    }
}

/// The bytes that the file system has allocated. A sparse file takes less room than its length.
pub(crate) fn allocated_bytes(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        metadata.blocks() * 512
    }
    #[cfg(not(unix))]
    {
        metadata.len()
    }
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

/// Whether two paths lead to one file, by links or as two of its names. A path that leads nowhere leads to no file.
#[cfg(feature = "parquet")]
pub(crate) fn are_same_file(a: &Path, b: &Path) -> bool {
    let Some((there, here)) = fs::metadata(a).ok().zip(fs::metadata(b).ok()) else {
        return false;
    };
    if cfg!(unix) {
        return is_same_file(&there, &here);
    }
    let real = fs::canonicalize(a).ok();
    real.is_some() && real == fs::canonicalize(b).ok()
}

/// Whether both are files, and have the same bytes. What cannot be read is not the same.
#[cfg(feature = "ingest")]
pub(crate) fn are_same_bytes(a: &Path, b: &Path) -> bool {
    File::open(a).is_ok_and(|file| has_bytes_of(&file, b))
}

/// Whether both are files, and have the same bytes. Reads the open one from where it stands.
#[cfg(any(feature = "ingest", feature = "parquet"))]
pub(super) fn has_bytes_of(file: &File, path: &Path) -> bool {
    use std::io::{BufReader, Read as _};
    let Ok(other) = File::open(path) else {
        return false;
    };
    let (Ok(one), Ok(two)) = (file.metadata(), other.metadata()) else {
        return false;
    };
    if !one.is_file() || !two.is_file() || one.len() != two.len() {
        return false;
    }
    let bytes = BufReader::with_capacity(1 << 20, file).bytes();
    let others = BufReader::with_capacity(1 << 20, other).bytes();
    bytes
        .zip(others)
        .all(|pair| matches!(pair, (Ok(a), Ok(b)) if a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_directory_stands_in_the_current_one() -> Result<()> {
        assert_eq!(directory_of(Path::new("d.simdb"))?, Path::new("."));
        assert!(matches!(
            directory_of(Path::new("/no/such/d.simdb")),
            Err(Error::Io { .. })
        ));
        Ok(())
    }
}
