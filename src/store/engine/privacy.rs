//! Who may read and write a copy: nobody who may not do so with the original, except for the user who makes
//! it.

use std::fs::File;
use std::io;

/// Gives an empty file the owner, the group, the mode and the access list of the original. Returns false if
/// the owner or the group cannot be given.
pub(super) fn take_all(file: &File, original: &File) -> io::Result<bool> {
    let Taken { owner, group } = take_owner(file, original)?;
    if !owner || !group {
        return Ok(false);
    }
    file.set_permissions(original.metadata()?.permissions())?;
    take_list(file, original)?;
    Ok(true)
}

/// Gives an empty file as much of that as can be given. `usual` is a file that is made by the umask alone.
pub(super) fn take_part(file: &File, original: &File, usual: &File) -> io::Result<()> {
    let Taken { group, .. } = take_owner(file, original)?;
    let listed = take_list(file, original).is_ok();
    restrict(file, original, usual, group && listed)
}

/// Whether a new file has the owner and the group of the original.
struct Taken {
    owner: bool,
    group: bool,
}

#[cfg(unix)]
fn take_owner(file: &File, original: &File) -> io::Result<Taken> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (own, wanted) = (file.metadata()?, original.metadata()?);
    // The group comes first. The right to change it may end with another owner.
    let group = own.gid() == wanted.gid() || fchown(file, None, Some(wanted.gid())).is_ok();
    let owner = own.uid() == wanted.uid() || fchown(file, Some(wanted.uid()), None).is_ok();
    Ok(Taken { owner, group })
}

#[cfg(not(unix))]
fn take_owner(_: &File, _: &File) -> io::Result<Taken> {
    Ok(Taken {
        owner: true,
        group: true,
    })
}

/// Gives a copy the mode of the original, as far as the umask allows. `group` says whether the group of the
/// copy may have what the group of the original has.
#[cfg(unix)]
fn restrict(file: &File, original: &File, usual: &File, group: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode_of = |file: &File| {
        file.metadata()
            .map(|metadata| metadata.permissions().mode())
    };
    let mut mode = mode_of(original)? & mode_of(usual)? & 0o666;
    if !group {
        // Members of the old group are among the others now, and may have had less than them.
        mode &= (mode >> 3 & 0o7) | 0o700;
    }
    // Some file systems give all files one mode. That is no harm if it is not wider.
    _ = file.set_permissions(std::fs::Permissions::from_mode(mode | 0o600));
    if mode_of(file)? & 0o066 & !mode == 0 {
        return Ok(());
    }
    let reason = "more people could read the copy than the original, since this file system gives all files one mode";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

#[cfg(not(unix))]
fn restrict(_: &File, _: &File, _: &File, _: bool) -> io::Result<()> {
    Ok(())
}

/// Gives a new file the access list (ACL) of the original. If there is none, the list that its directory has
/// given to the new file is removed. In a file with a list, the mode of the group means something else.
#[cfg(target_os = "linux")]
fn take_list(file: &File, original: &File) -> io::Result<()> {
    use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
    use rustix::io::Errno;
    const NAME: &str = "system.posix_acl_access";
    /// No attribute is longer.
    const MAX_BYTES: usize = 64 << 10;
    let mut list = vec![0; MAX_BYTES];
    let taken = match fgetxattr(original, NAME, &mut list[..]) {
        Ok(length) => fsetxattr(file, NAME, &list[..length], XattrFlags::empty()),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => match fremovexattr(file, NAME) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            removed => removed,
        },
        Err(error) => Err(error),
    };
    Ok(taken?)
}

#[cfg(not(target_os = "linux"))]
fn take_list(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}
