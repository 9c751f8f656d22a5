//! How results get into their places at the end of a run, and what is looked at before it so that they can.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::dedup::Dedup;
use crate::error::{Error, Result};
use crate::files::{Existing, NewFile, are_same_bytes, sync_directory};

/// Refuses results that could not get into their places at the end.
pub(super) fn ensure_places(dedup: &Dedup) -> Result<()> {
    if dedup.output == Path::new("-") {
        let reason = "the output is written to a file, since a run that was stopped goes on with it: name one";
        return Err(Error::output(&dedup.output, reason));
    }
    let directories = dedup.inputs.iter().filter_map(|input| {
        let place = dedup.options.place_of(input);
        place
            .is_dir()
            .then(|| place.canonicalize().ok())
            .flatten()
            .map(|canonical| (input, canonical))
    });
    let directories: Vec<_> = directories.collect();
    let mut taken: Vec<PathBuf> = Vec::new();
    for result in dedup.results() {
        ensure_absent(result)?;
        ensure_no_mount_point(result)?;
        let folder = folder_of(result);
        // That a file can be made there is known when one is made.
        let made = folder
            .canonicalize()
            .and_then(|it| tempfile::tempfile_in(&it).map(|_| it));
        let folder =
            made.map_err(|source| Error::output(result, &format!("cannot be made: {source}")))?;
        if let Some((input, _)) = directories
            .iter()
            .find(|(_, directory)| folder.starts_with(directory))
        {
            let reason = format!(
                "it would be in {}, which is an input, and be read itself when a stopped run goes on: name a place \
                 outside",
                input.display()
            );
            return Err(Error::output(result, &reason));
        }
        let place = folder.join(result.file_name().unwrap_or_default());
        if taken.contains(&place) {
            return Err(Error::output(
                result,
                "two results cannot have the same name",
            ));
        }
        taken.push(place);
    }
    Ok(())
}

/// Brings a file or a directory into its place.
pub(super) fn deliver(from: &Path, to: &Path) -> Result<()> {
    // A copy to another disk may have been whole when the run was stopped.
    if are_same_bytes(from, to) {
        return fs::remove_file(from).map_err(|source| cannot_write(from, &source));
    }
    ensure_absent(to)?;
    match put_in_place(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            move_across(from, to).map_err(|error| as_output(to, error))
        }
        put => put.map_err(|source| cannot_write(to, &source)),
    }
}

/// Refuses to write over something.
fn ensure_absent(path: &Path) -> Result<()> {
    // With a slash at its end, a link would be followed.
    let path: PathBuf = path.components().collect();
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() && is_empty(&path) => Ok(()),
        Ok(metadata) if metadata.is_dir() => Err(Error::output(
            &path,
            "is a directory that is not empty, and nothing is written over: name another",
        )),
        Ok(_) => Err(Error::output(
            &path,
            "exists, and is not written over: delete it, or name another",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(cannot_write(&path, &source)),
    }
}

/// A disk cannot be replaced by a directory.
fn ensure_no_mount_point(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let device = |path: &Path| fs::metadata(path).map(|it| it.dev());
        if let (Ok(own), Ok(above)) = (device(path), device(folder_of(path)))
            && own != above
        {
            return Err(Error::output(
                path,
                "is where a disk is mounted: name a directory on it",
            ));
        }
    }
    let _ = path;
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// The folder in which a file or a directory stands.
fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|it| !it.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    if to.is_dir() {
        // It is empty. The one that takes its place has the same rights.
        fs::set_permissions(from, fs::metadata(to)?.permissions())?;
        fs::remove_dir(to)?;
    }
    fs::rename(from, to)?;
    sync_directory(folder_of(to))
}

/// Copies a file to another disk, and removes it here.
fn move_across(from: &Path, to: &Path) -> Result<()> {
    let copy = NewFile::create(folder_of(to))?;
    let copied = File::open(from).and_then(|mut file| {
        io::copy(&mut file, &mut &*copy.file)?;
        copy.file.set_permissions(file.metadata()?.permissions())
    });
    copied.map_err(Error::io(to))?;
    copy.finish(to, Existing::Refuse)?;
    fs::remove_file(from).map_err(Error::io(from))
}

/// The same error as an output that cannot be written.
pub(super) fn as_output(path: &Path, error: Error) -> Error {
    match error {
        Error::Io { source, .. } => cannot_write(path, &source),
        error => error,
    }
}

pub(super) fn cannot_write(path: &Path, source: &io::Error) -> Error {
    Error::output(path, &format!("cannot be written: {source}"))
}
