//! Files and directories: what stands at a path, and making a file whole and durable before it has its name. Hides how
//! systems do that. Nobody can read a copy who cannot read the original.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

#[cfg(any(feature = "ingest", feature = "parquet"))]
use crate::error::path_name;
use crate::error::{Error, Result};
use crate::planted::planted;
use crate::process::{Kept, OfProcess};

#[cfg(all(test, unix))]
#[path = "../tests/stand/disk.rs"]
#[cfg_attr(
    not(feature = "ingest"),
    expect(dead_code, reason = "a cleaning notes the others")
)]
pub(crate) mod disk;

#[cfg(test)]
thread_local! {
    static DIRECTORY_SYNC_FAILS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes every sync of a directory on this thread fail from now on, or no longer.
#[cfg(test)]
pub(crate) fn fail_directory_syncs(fail: bool) {
    DIRECTORY_SYNC_FAILS.set(fail);
}

/// Comes before each call of the system that makes, names or keeps a file, so that a test can let it fail.
fn ask(_call: &'static str) -> io::Result<()> {
    #[cfg(all(test, unix))]
    disk::ask(_call)?;
    Ok(())
}

/// What is said of a link to a directory in which it is itself.
#[cfg(any(feature = "ingest", feature = "parquet"))]
pub(crate) fn leads_in_a_circle(to: &Path) -> String {
    format!(
        "is a link to {}, in which it is itself: that is a loop without an end",
        path_name(to)
    )
}

/// Makes the names in a directory durable, where the system can do that.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    #[cfg(test)]
    if DIRECTORY_SYNC_FAILS.get() {
        return Err(io::Error::other("a test lets it fail"));
    }
    ask("sync a directory")?;
    if cfg!(unix) {
        File::open(directory)?.sync_all()?;
    }
    #[cfg(all(test, unix))]
    disk::directory_is_synced(directory);
    Ok(())
}

/// Makes the content of a new file durable, with its length and its mode.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    ask("sync a file")?;
    file.sync_all()?;
    #[cfg(all(test, unix))]
    disk::is_synced(file);
    Ok(())
}

/// Makes the name of the file `path` as durable as its content, or that it has gone.
pub(crate) fn sync_name(path: &Path) -> Result<()> {
    sync_directory(directory_of(path)?).map_err(Error::io(path))
}

#[cfg(feature = "ingest")]
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    ask("make a directory")?;
    fs::create_dir(path)?;
    #[cfg(all(test, unix))]
    disk::directory_is_made(path);
    let durable = sync_directory(folder_of(path));
    if durable.is_err() {
        // The error of this would hide the one that led to it.
        _ = fs::remove_dir(path);
    }
    durable
}

/// Makes a file, or empties the one that is there.
#[cfg(feature = "ingest")]
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open_by(
        path,
        File::options().write(true).create(true).truncate(true),
    )
}

/// Opens a file to write to it. Makes it if it is not there.
#[cfg(feature = "ingest")]
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    open_by(
        path,
        File::options().write(true).create(true).truncate(false),
    )
}

#[cfg(feature = "ingest")]
fn open_by(path: &Path, options: &fs::OpenOptions) -> io::Result<File> {
    ask("create")?;
    let file = options.open(path)?;
    #[cfg(all(test, unix))]
    disk::is_written_plainly(path, &file);
    Ok(file)
}

/// Opens a file to read it. `None` if it is no file: whoever opens a pipe waits until somebody writes to it, and no
/// signal ends that.
pub(crate) fn open_if_file(path: &Path) -> io::Result<Option<File>> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path).map(Some),
        false => Ok(None),
    }
}

/// Opens a file to read it, more than once or not from its beginning to its end. What is no file is an error.
#[cfg(feature = "parquet")]
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open_if_file(path)?.ok_or_else(|| {
        let reason = "it is no file but a directory, a pipe, a socket or a device; give a file";
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })
}

/// Removes the name of a file. That is not durable until its directory is synced.
#[cfg(feature = "ingest")]
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    ask("remove")?;
    fs::remove_file(path)?;
    #[cfg(all(test, unix))]
    disk::is_removed(path);
    Ok(())
}

/// Removes a directory with what is in it. That is not durable until the directory above is synced.
#[cfg(feature = "ingest")]
pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    ask("remove")?;
    #[cfg(all(test, unix))]
    disk::directory_is_removed(path);
    fs::remove_dir_all(path)
}

/// Gives a file or a directory another name, durably. The name may be that of another file, which is gone then.
#[cfg(feature = "ingest")]
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    ask("rename")?;
    fs::rename(from, to)?;
    #[cfg(all(test, unix))]
    disk::is_renamed(from, to);
    sync_directory(folder_of(to))
}

/// The directory in which the file `path` is or will be. There may be no such directory.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The absolute path of a file that is to be made. Progress of the caller may change the directory of the process.
pub(crate) fn absolute_file(path: &Path) -> io::Result<PathBuf> {
    // A dot behind a slash would go, and with it what says that this is a directory.
    ensure_named_as_file(path)?;
    std::path::absolute(path)
}

/// Whether a path ends in a slash, or in a slash and a dot.
pub(crate) fn is_named_as_directory(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    let name = name.strip_suffix(b".").unwrap_or(name);
    name.last()
        .is_some_and(|&last| std::path::is_separator(last.into()))
}

fn ensure_named_as_file(path: &Path) -> io::Result<()> {
    if is_named_as_directory(path) {
        let reason = "a path with a slash at its end is that of a directory; name a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    Ok(())
}

/// The directory in which the file `path` is or will be. It is an error if there is no such directory, or if the path
/// is named as a directory.
pub(crate) fn directory_of(path: &Path) -> Result<&Path> {
    ensure_named_as_file(path).map_err(Error::io(path))?;
    let directory = folder_of(path);
    if directory.is_dir() {
        return Ok(directory);
    }
    let source = io::Error::new(io::ErrorKind::NotFound, "no such directory");
    Err(Error::io(directory)(source))
}

/// Refuses a path at which there is anything, even a link that leads nowhere.
pub(crate) fn ensure_nothing_at(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(already_exists(path)),
        Err(_) => Ok(()),
    }
}

#[cfg(feature = "ingest")]
pub(crate) fn is_named_as_packed(path: &Path) -> bool {
    has_extension(path, &["gz", "zst"])
}

/// Whether the name of a file says that it is packed in a way in which none is written.
#[cfg(feature = "ingest")]
pub(crate) fn is_named_as_unwritten(path: &Path) -> bool {
    let unwritten = [
        "bz2", "xz", "gzip", "zstd", "bgz", "lz4", "lz", "lzma", "br", "sz", "z", "zip", "7z",
        "rar",
    ];
    has_extension(path, &unwritten)
}

#[cfg(feature = "ingest")]
fn has_extension(path: &Path, known: &[&str]) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| {
        known
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Refuses a name that says that a file is packed, for one that is written as plain text.
#[cfg(feature = "ingest")]
pub(crate) fn ensure_named_as_plain(path: &Path) -> Result<()> {
    if is_named_as_packed(path) || is_named_as_unwritten(path) {
        let reason =
            "it is written as plain text: give it a name that does not say that it is packed";
        return Err(Error::output(path, reason));
    }
    Ok(())
}

/// The error of a path at which there is something, and nothing may be.
pub(crate) fn already_exists(path: &Path) -> Error {
    leads_nowhere(path).unwrap_or(Error::AlreadyExists {
        path: path.to_owned(),
    })
}

/// The error of a link that leads to nothing, if the path is one: what it leads to is missing, and is not made.
pub(crate) fn leads_nowhere(path: &Path) -> Option<Error> {
    let target = fs::read_link(path).ok()?;
    let at = folder_of(path).join(target);
    let reason = format!(
        "it is a link to {}, where nothing is; remove the link, or name another path",
        at.display()
    );
    let source = io::Error::new(io::ErrorKind::NotFound, reason);
    (!path.exists()).then(|| Error::io(path)(source))
}

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
        a.dev() == b.dev() && a.ino() == b.ino()
    }
    #[cfg(not(unix))]
    {
        _ = (a, b);
        true
    }
}

/// Whether two paths lead to one file, by links or as two of its names. A path that leads nowhere leads to no file.
#[cfg(any(feature = "ingest", feature = "cli", feature = "parquet"))]
pub(crate) fn are_same_file(a: &Path, b: &Path) -> bool {
    let Ok(there) = fs::metadata(a) else {
        return false;
    };
    let Ok(here) = fs::metadata(b) else {
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
    match open_if_file(a) {
        Ok(Some(file)) => has_bytes_of(&file, b),
        Ok(None) | Err(_) => false,
    }
}

/// Whether both are files, and have the same bytes. Reads the open one from where it stands.
#[cfg(any(feature = "ingest", feature = "parquet"))]
fn has_bytes_of(file: &File, path: &Path) -> bool {
    use std::io::{BufReader, Read as _};
    let Ok(Some(other)) = open_if_file(path) else {
        return false;
    };
    let Ok(one) = file.metadata() else {
        return false;
    };
    let Ok(two) = other.metadata() else {
        return false;
    };
    if !one.is_file() || one.len() != two.len() {
        return false;
    }
    let bytes = BufReader::with_capacity(1 << 20, file).bytes();
    let others = BufReader::with_capacity(1 << 20, other).bytes();
    bytes
        .zip(others)
        .all(|pair| matches!(pair, (Ok(a), Ok(b)) if a == b))
}

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
    name: OfProcess<Option<TempPath>>,
}

/// What is done with a file that stands where a new one is to be.
#[cfg(any(feature = "ingest", feature = "parquet"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays. It is an error, unless it has the same bytes as the new file: then a process that was killed had
    /// just made it.
    Refuse,
    /// The new file takes its place.
    Replace,
}

impl NewFile {
    /// An empty file in `directory`. The user's umask says who may read it.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        Self::with_mode(directory, 0o666).map_err(Error::io(directory))
    }

    /// An empty file that is to get the name `path`. Until then it is called so with `.new` at the end: what a
    /// killed process leaves is known by that, and the next one writes over it.
    #[cfg(feature = "ingest")]
    fn beside(path: &Path) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = ask("create")
            .and_then(|()| options.open(&name))
            .map_err(Error::io(path))?;
        #[cfg(all(test, unix))]
        disk::is_new(folder_of(path), &file);
        #[cfg(all(test, unix))]
        disk::is_named(&file, Path::new(&name));
        let name = TempPath::try_from_path(&name).map_err(Error::io(path))?;
        Self::new(file, Some(name)).map_err(Error::io(path))
    }

    /// An empty file that is to replace the file `path`. It has the same owner, group, mode and access list
    /// before anything is written to it.
    pub(crate) fn replacing(path: &Path, original: &File) -> Result<Self> {
        let new = Self::with_mode(directory_of(path)?, 0o600).map_err(Error::io(path))?;
        if !take_all(&new.file, original).map_err(Error::io(path))? {
            return Err(Error::OwnerNotKept {
                path: path.to_owned(),
            });
        }
        Ok(new)
    }

    /// An empty file in `directory` for a copy. It can be read by those who can read the original, as far
    /// as the user's umask allows, and by nobody else but the user.
    pub(crate) fn copy_of(directory: &Path, original: &File) -> Result<Self> {
        let usual = Self::create(directory)?;
        let new = Self::with_mode(directory, 0o600).map_err(Error::io(directory))?;
        take_part(&new.file, original, &usual.file).map_err(Error::io(directory))?;
        Ok(new)
    }

    /// An empty file that is to get the name `path`, and where it is to stand. If it is to replace the file there, that
    /// is where a link leads to, and it can be read by those who can read that file.
    #[cfg(any(feature = "cli", feature = "parquet"))]
    pub(crate) fn at(path: &Path, existing: Existing) -> Result<(PathBuf, Self)> {
        if existing == Existing::Refuse {
            return Ok((path.to_owned(), Self::create(directory_of(path)?)?));
        }
        if let Some(error) = leads_nowhere(path) {
            return Err(error);
        }
        let place = path.canonicalize().ok().filter(|place| place.is_file());
        // Whoever may not read a file may replace it all the same.
        let original = place.as_ref().and_then(|place| File::open(place).ok());
        let (Some(place), Some(original)) = (place, original) else {
            return Ok((path.to_owned(), Self::create(directory_of(path)?)?));
        };
        let new = Self::copy_of(directory_of(&place)?, &original)?;
        Ok((place, new))
    }

    fn with_mode(directory: &Path, mode: u32) -> io::Result<Self> {
        let new = match without_name(directory, mode) {
            Some(file) => Self::new(file, None)?,
            None => {
                let (file, name) = with_name(directory, mode)?;
                Self::new(file, Some(name))?
            }
        };
        #[cfg(all(test, unix))]
        disk::is_new(directory, &new.file);
        Ok(new)
    }

    fn new(file: File, name: Option<TempPath>) -> io::Result<Self> {
        ask("duplicate a descriptor")?;
        Ok(Self {
            file: Kept::new(file.try_clone()?),
            temporary: Temporary {
                file: Kept::new(file),
                name: OfProcess::new(name),
            },
        })
    }

    /// Makes the whole file durable, gives it the name `path`, and makes that durable.
    #[cfg(any(feature = "ingest", feature = "parquet"))]
    pub(crate) fn finish(self, path: &Path, existing: Existing) -> Result<()> {
        let Self { temporary, file } = self;
        sync_file(&file).map_err(Error::io(path))?;
        match existing {
            Existing::Replace => {
                temporary.replace(path)?;
                // Some file systems ask for the first sync too, since the file had no name when it was synced.
                sync_file(&file).map_err(Error::io(path))?;
                sync_name(path)
            }
            Existing::Refuse => match temporary.keep_as(path) {
                Err(Error::AlreadyExists { .. }) if is_standing(&file, path) => {
                    // Whoever gave it the name may have been killed before both were durable.
                    let standing = File::open(path).map_err(Error::io(path))?;
                    sync_file(&standing).map_err(Error::io(path))?;
                    sync_name(path)
                }
                kept => kept,
            },
        }
    }
}

/// Writes the whole of a small file, durably, in the place of an older one. Until it is whole its name ends in `.new`.
#[cfg(feature = "ingest")]
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    let new = NewFile::beside(path)?;
    ask("write")
        .and_then(|()| (&*new.file).write_all(bytes))
        .map_err(Error::io(path))?;
    #[cfg(all(test, unix))]
    disk::has_bytes(&new.file, bytes);
    new.finish(path, Existing::Replace)
}

/// Whether a file with the same bytes stands at the path.
#[cfg(any(feature = "ingest", feature = "parquet"))]
fn is_standing(mut file: &File, path: &Path) -> bool {
    use std::io::Seek as _;
    file.rewind().is_ok() && has_bytes_of(file, path)
}

impl Temporary {
    /// Gives the whole file the name `path`, where nothing may be. Afterwards the name is as durable as the
    /// content, or there is no such name.
    pub(crate) fn keep_as(self, path: &Path) -> Result<()> {
        let Self { file, name } = self;
        let named = match name.take().ok_or(Error::Forked)? {
            Some(name) => {
                ask("link").and_then(|()| name.persist_noclobber(path).map_err(|error| error.error))
            }
            None => link(&file, path),
        };
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists(path),
            _ => Error::io(path)(error),
        })?;
        #[cfg(all(test, unix))]
        disk::is_named(&file, path);
        if planted("the name of a new file is not synced") {
            return Ok(());
        }
        // Some file systems ask for the first sync too, since the file had no name when it was synced.
        let durable = sync_file(&file)
            .map_err(Error::io(path))
            .and_then(|()| sync_name(path));
        if durable.is_err() {
            take_name_back(&file, path);
        }
        durable
    }

    /// Puts the whole file in the place of the file `path`. The caller syncs the file and the directory.
    pub(crate) fn replace(self, path: &Path) -> Result<()> {
        let Self { file, name } = self;
        let name = match name.take().ok_or(Error::Forked)? {
            Some(name) => name,
            // Only a file with a name can replace another. The name lives for a moment only. Whoever is
            // killed in this moment leaves it behind, so nothing may be done in between.
            None => names()
                .make_in(directory_of(path)?, |name| link(&file, name))
                .map_err(Error::io(path))?
                .into_temp_path(),
        };
        ask("rename")
            .and_then(|()| name.persist(path).map_err(|error| error.error))
            .map_err(Error::io(path))?;
        #[cfg(all(test, unix))]
        disk::is_named(&file, path);
        Ok(())
    }
}

/// Removes the name of a new file, so that it does not come back after a power cut. Its error would hide the one that
/// led to this.
fn take_name_back(file: &File, path: &Path) {
    if let Ok(ours) = file.metadata()
        && let Ok(there) = path.symlink_metadata()
        && is_same_file(&ours, &there)
    {
        _ = fs::remove_file(path);
        #[cfg(all(test, unix))]
        disk::is_removed(path);
        _ = sync_directory(folder_of(path));
    }
}

fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".simdb-").suffix(".tmp");
    names
}

#[cfg(unix)]
fn names_of_mode(mode: u32) -> tempfile::Builder<'static, 'static> {
    use std::os::unix::fs::PermissionsExt;
    let mut names = names();
    names.permissions(fs::Permissions::from_mode(mode));
    names
}

/// Other systems have no modes.
#[cfg(not(unix))]
fn names_of_mode(_mode: u32) -> tempfile::Builder<'static, 'static> {
    names()
}

fn with_name(directory: &Path, mode: u32) -> io::Result<(File, TempPath)> {
    ask("create")?;
    let made = names_of_mode(mode).tempfile_in(directory);
    Ok(made.map_err(without_temporary_name)?.into_parts())
}

/// The error of the system behind one of tempfile. That names the file, of which nobody has heard, and hides the number
/// by which an advice is found.
fn without_temporary_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    let Some((reason, _)) = text.split_once(" at path ") else {
        return error;
    };
    let number = reason.rsplit_once("(os error ");
    match number.and_then(|(_, number)| number.trim_end_matches(')').parse().ok()) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), reason.to_owned()),
    }
}

/// A file without a name, which can get one later. `None` if the system or the file system has no such
/// files.
#[cfg(target_os = "linux")]
fn without_name(directory: &Path, mode: u32) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    ask("create").ok()?;
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
    let reached = fs::metadata(path_of(&file)).ok()?;
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
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    Ok([FUSE, CIFS, SMB2].contains(&kind))
}

#[cfg(not(target_os = "linux"))]
fn without_name(_: &Path, _: u32) -> Option<File> {
    None
}

/// Gives a file without a name the name `path`, where nothing may be.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    ask("link")?;
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
fn path_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Gives an empty file the owner, the group, the mode and the access list of the original. Returns false if
/// the owner or the group cannot be given.
fn take_all(file: &File, original: &File) -> io::Result<bool> {
    ask("change the owner")?;
    let Taken { owner, group } = take_owner(file, original)?;
    if !owner || !group {
        return Ok(false);
    }
    file.set_permissions(original.metadata()?.permissions())?;
    take_list(file, original)?;
    Ok(true)
}

/// Gives an empty file as much of that as can be given. `usual` is a file that is made by the umask alone.
fn take_part(file: &File, original: &File, usual: &File) -> io::Result<()> {
    ask("change the owner")?;
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
    let own = file.metadata()?;
    let wanted = original.metadata()?;
    // The group comes first. The right to change it may end with another owner.
    let gid = wanted.gid();
    let uid = wanted.uid();
    let group = own.gid() == gid || fchown(file, None, Some(gid)).is_ok();
    let owner = own.uid() == uid || fchown(file, Some(uid), None).is_ok();
    Ok(Taken { owner, group })
}

#[cfg(not(unix))]
fn take_owner(_: &File, _: &File) -> io::Result<Taken> {
    Ok(Taken {
        owner: true,
        group: true,
    })
}

#[cfg(unix)]
fn mode_of(file: &File) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode())
}

/// Gives a copy the mode of the original, as far as the umask allows. `group` says whether the group of the
/// copy may have what the group of the original has.
#[cfg(unix)]
fn restrict(file: &File, original: &File, usual: &File, group: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut mode = mode_of(original)? & mode_of(usual)? & 0o666;
    if !group {
        // Members of the old group are among the others now, and may have had less than them.
        mode &= (mode >> 3 & 0o7) | 0o700;
    }
    // Some file systems give all files one mode. That is no harm if it is not wider.
    _ = file.set_permissions(fs::Permissions::from_mode(mode | 0o600));
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
        for name in ["/", "d/", "d/."] {
            let refused = directory_of(Path::new(name));
            let Err(Error::Io { source, .. }) = refused else {
                panic!("{name}: {refused:?}");
            };
            assert!(source.to_string().contains("name a file"), "{name}");
        }
        Ok(())
    }

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
        NewFile::new(file, Some(name)).expect("the file is open")
    }

    fn unnamed(folder: &tempfile::TempDir) -> NewFile {
        NewFile::create(folder.path()).expect("it can be made")
    }

    #[test]
    fn a_new_file_takes_its_name_only_where_nothing_stands_or_replacing_is_asked_for() -> Result<()>
    {
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
        let mode_of = |file: &File| mode_of(file).expect("the file is open") & 0o7777;
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
