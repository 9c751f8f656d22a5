//! New files. They have no name until they are whole, where the system can do that. Nobody can read a
//! copy who cannot read the original.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::TempPath;

use super::files::{directory_of, is_same_file, sync_directory};
use super::privacy;
use crate::error::{Error, Result};
use crate::process::{Kept, OfProcess};

/// A new file that is not whole yet.
pub(crate) struct NewFile {
    pub(crate) temporary: Temporary,
    /// A second handle of the file. It can still be used when the file has its final name.
    pub(crate) file: Kept<File>,
}

/// The right to give a new file its name. The file is gone if this is dropped instead.
pub(crate) struct Temporary {
    file: Kept<File>,
    /// Its name until then. If it has none, nothing is left of it even if the process is killed.
    name: Option<OfProcess<TempPath>>,
}

impl NewFile {
    /// An empty file in `directory`. The user's umask says who may read it.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        Self::with_mode(directory, 0o666).map_err(|source: io::Error| Error::Io {
            path: directory.to_owned(),
            source: source.into(),
        })
    }

    /// An empty file that is to replace the file `path`. It has the same owner, group, mode and access list
    /// before anything is written to it.
    pub(crate) fn replacing(path: &Path, original: &File) -> Result<Self> {
        let failed = |source: io::Error| Error::Io {
            path: path.to_owned(),
            source: source.into(),
        };
        let new = Self::with_mode(directory_of(path)?, 0o600).map_err(failed)?;
        if !privacy::take_all(&new.file, original).map_err(failed)? {
            return Err(Error::OwnerNotKept {
                path: path.to_owned(),
            });
        }
        Ok(new)
    }

    /// An empty file in `directory` for a copy. It can be read by those who can read the original, as far
    /// as the user's umask allows, and by nobody else but the user.
    pub(crate) fn copy_of(directory: &Path, original: &File) -> Result<Self> {
        let create = || {
            let usual = Self::with_mode(directory, 0o666)?;
            let new = Self::with_mode(directory, 0o600)?;
            privacy::take_part(&new.file, original, &usual.file)?;
            Ok(new)
        };
        create().map_err(|source: io::Error| Error::Io {
            path: directory.to_owned(),
            source: source.into(),
        })
    }

    fn with_mode(directory: &Path, mode: u32) -> io::Result<Self> {
        let (file, name) = match without_name(directory, mode) {
            Some(file) => (file, None),
            None => with_name(directory, mode)?,
        };
        let second = Kept::new(file.try_clone()?);
        Ok(Self {
            file: second,
            temporary: Temporary {
                file: Kept::new(file),
                name: name.map(OfProcess::new),
            },
        })
    }
}

impl Temporary {
    /// Gives the whole file the name `path`, where nothing may be. Afterwards the name is as durable as the
    /// content, or there is no such name.
    pub(crate) fn keep_as(self, path: &Path) -> Result<()> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::AlreadyExists {
                path: path.to_owned(),
            },
            _ => Error::Io {
                path: path.to_owned(),
                source: source.into(),
            },
        };
        let Self { file, name } = self;
        match name {
            Some(name) => {
                let name = name.take().ok_or(Error::Forked)?;
                name.persist_noclobber(path)
                    .map_err(|error| failed(error.error))?;
            }
            None => link(&file, path).map_err(failed)?,
        }
        // Some file systems ask for the first sync too, since the file had no name when it was synced.
        let durable = file
            .sync_all()
            .map_err(failed)
            .and_then(|()| sync_directory(path));
        if durable.is_err() {
            take_name_back(&file, path);
        }
        durable
    }

    /// Puts the whole file in the place of the file `path`. The caller syncs the file and the directory.
    pub(crate) fn replace(self, path: &Path) -> Result<()> {
        let failed = |source: io::Error| Error::Io {
            path: path.to_owned(),
            source: source.into(),
        };
        let Self { file, name } = self;
        let name = match name {
            Some(name) => name.take().ok_or(Error::Forked)?,
            // Only a file with a name can replace another. The name lives for a moment only. Whoever is
            // killed in this moment leaves it behind, so nothing may be done in between.
            None => {
                let linked = names().make_in(directory_of(path)?, |name| link(&file, name));
                linked.map_err(failed)?.into_temp_path()
            }
        };
        name.persist(path).map_err(|error| failed(error.error))
    }
}

/// Removes the name of a new file. Its error would hide the one that led to this.
fn take_name_back(file: &File, path: &Path) {
    let is_ours = || Ok::<_, io::Error>(is_same_file(&file.metadata()?, &path.symlink_metadata()?));
    if is_ours().unwrap_or(false) {
        _ = std::fs::remove_file(path);
    }
}

/// Temporary names.
fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".simdb-").suffix(".tmp");
    names
}

fn with_name(directory: &Path, mode: u32) -> io::Result<(File, Option<TempPath>)> {
    let mut names = names();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        names.permissions(std::fs::Permissions::from_mode(mode));
    }
    _ = mode;
    let (file, name) = names.tempfile_in(directory)?.into_parts();
    Ok((file, Some(name)))
}

/// A file without a name, which can get one later. `None` if the system or the file system has no such
/// files.
#[cfg(target_os = "linux")]
fn without_name(directory: &Path, mode: u32) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .custom_flags(flags)
        .mode(mode)
        .open(directory)
        .ok()?;
    if is_served(&file).ok()? {
        return None;
    }
    // Only this path leads to a name later. It is missing where /proc is not mounted.
    let reached = std::fs::metadata(path_of(&file)).ok()?;
    is_same_file(&reached, &file.metadata().ok()?).then_some(file)
}

/// Whether the file system is that of a server or of a program. Such a file system may make a file without a
/// name and then fail to name it, when all the work is done.
#[cfg(target_os = "linux")]
fn is_served(file: &File) -> io::Result<bool> {
    const FUSE: u32 = 0x6573_5546;
    const CIFS: u32 = 0xff53_4d42;
    const SMB2: u32 = 0xfe53_4d42;
    // The type has as many bits as the machine, and the numbers have 32.
    Ok([FUSE, CIFS, SMB2].contains(&(rustix::fs::fstatfs(file)?.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn without_name(_: &Path, _: u32) -> Option<File> {
    None
}

/// Gives a file without a name the name `path`, where nothing may be.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(
        CWD,
        path_of(file),
        CWD,
        path,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    unreachable!("a file without a name was made")
}

/// A path that leads to an open file, whether it has a name or not.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::files::{ensure_nothing_at, fail_directory_syncs};
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder can be made")
    }

    fn names_in(folder: &tempfile::TempDir) -> usize {
        fs::read_dir(folder.path())
            .expect("the folder is there")
            .count()
    }

    /// A file as on a file system on which every file has a name.
    fn named(folder: &tempfile::TempDir) -> NewFile {
        let (file, name) = with_name(folder.path(), 0o666).expect("a file can be made");
        let second = file.try_clone().expect("the file is open");
        NewFile {
            file: Kept::new(second),
            temporary: Temporary {
                file: Kept::new(file),
                name: name.map(OfProcess::new),
            },
        }
    }

    #[test]
    fn a_new_file_takes_its_name_only_where_nothing_stands_or_replacing_is_asked_for() -> Result<()>
    {
        let unnamed =
            |folder: &tempfile::TempDir| NewFile::create(folder.path()).expect("it can be made");
        for create in [named, unnamed] {
            let folder = folder();
            let target = folder.path().join("d.simdb");
            ensure_nothing_at(&target)?;
            let first = create(&folder);
            first.temporary.keep_as(&target)?;
            let metadata = |file: &File| file.metadata().expect("the file is open");
            let at_target = || fs::metadata(&target).expect("the file is there");
            assert!(is_same_file(&metadata(&first.file), &at_target()));
            assert!(matches!(
                ensure_nothing_at(&target),
                Err(Error::AlreadyExists { .. })
            ));
            let refused = create(&folder).temporary.keep_as(&target);
            assert!(
                matches!(refused, Err(Error::AlreadyExists { .. })),
                "{refused:?}"
            );
            let third = create(&folder);
            third.temporary.replace(&target)?;
            assert!(is_same_file(&metadata(&third.file), &at_target()));
            assert!(!is_same_file(&metadata(&first.file), &at_target()));
            assert_eq!(names_in(&folder), 1);
        }
        Ok(())
    }

    /// A file had a temporary name while it was made. A signal that ended the process left the whole copy
    /// behind under that name.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_new_file_has_no_name_until_it_is_whole() -> Result<()> {
        let folder = folder();
        let new = NewFile::create(folder.path())?;
        assert!(
            new.temporary.name.is_none(),
            "the file system of this test has no files without a name"
        );
        assert_eq!(names_in(&folder), 0);
        new.temporary.keep_as(&folder.path().join("d.simdb"))?;
        assert_eq!(names_in(&folder), 1);
        Ok(())
    }

    /// Copies had the mode that the umask gives until they were whole. So everybody could read the copy of a
    /// private file.
    #[cfg(unix)]
    #[test]
    fn a_copy_is_as_private_as_the_original_before_anything_is_written() -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let (original, _) = with_name(folder.path(), 0o600).expect("a file can be made");
        let mode_of = |file: &File| {
            file.metadata()
                .expect("the file is open")
                .permissions()
                .mode()
                & 0o7777
        };
        for (mode, of_copy) in [
            (0o600, 0o600),
            (0o640, 0o640),
            (0o444, 0o644),
            (0o000, 0o600),
        ] {
            let mode = fs::Permissions::from_mode(mode);
            original
                .set_permissions(mode.clone())
                .expect("the file is ours");
            let replacing = NewFile::replacing(&folder.path().join("d.simdb"), &original)?;
            assert_eq!(mode_of(&replacing.file), mode.mode());
            // The umask of this process may take more away.
            let copy = mode_of(&NewFile::copy_of(folder.path(), &original)?.file);
            assert_eq!(
                (copy & !of_copy, copy & 0o600),
                (0, 0o600),
                "{copy:o} for {:o}",
                mode.mode()
            );
        }
        Ok(())
    }

    /// The name stayed when the directory could not be synced. The caller was told of a failure, and a
    /// second try found the name taken.
    #[test]
    fn a_name_that_is_not_durable_is_taken_back() -> Result<()> {
        let folder = folder();
        let target = folder.path().join("d.simdb");
        let unnamed =
            |folder: &tempfile::TempDir| NewFile::create(folder.path()).expect("it can be made");
        for create in [named, unnamed] {
            let new = create(&folder);
            fail_directory_syncs(true);
            let failed = new.temporary.keep_as(&target);
            fail_directory_syncs(false);
            assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
            assert_eq!(names_in(&folder), 0);
        }
        NewFile::create(folder.path())?.temporary.keep_as(&target)
    }
}
