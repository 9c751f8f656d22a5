//! Files: which are pictures, and how they are named in the database.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use image::ImageFormat;
use simdb::{Database, Document, OpenOptions};
use walkdir::{DirEntry, WalkDir};

use crate::{Failure, Result};

/// A picture, by its name.
pub(crate) struct PictureFile {
    pub(crate) path: PathBuf,
    /// When it was changed, in Unix seconds.
    pub(crate) changed: i64,
    pub(crate) bytes: u64,
}

/// What is in folders.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) pictures: Vec<PictureFile>,
    /// Files that are no pictures by their names.
    pub(crate) others: u64,
    /// Files and folders that could not be looked at. Each was told.
    pub(crate) unreadable: u64,
}

/// The pictures in folders, and in theirs. A file may stand for a folder.
pub(crate) fn pictures(folders: &[PathBuf]) -> Result<Found> {
    let mut found = Found::default();
    for folder in folders {
        // With its whole path a picture has the same key wherever the command is given.
        let folder = folder
            .canonicalize()
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in WalkDir::new(folder).sort_by_file_name() {
            match entry.map_err(Failure::from).and_then(picture_file) {
                Ok(Some(picture)) if is_picture(&picture.path) => found.pictures.push(picture),
                Ok(Some(_)) => found.others += 1,
                Ok(None) => {}
                Err(error) => {
                    eprintln!("pictures: {error}");
                    found.unreadable += 1;
                }
            }
        }
    }
    Ok(found)
}

/// What has to be known of a file, or `None` of a folder.
fn picture_file(entry: DirEntry) -> Result<Option<PictureFile>> {
    let metadata = entry.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let changed = metadata.modified()?;
    let seconds = match changed.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs() as i64,
        Err(before) => -(before.duration().as_secs() as i64),
    };
    Ok(Some(PictureFile {
        path: entry.into_path(),
        changed: seconds,
        bytes: metadata.len(),
    }))
}

fn is_picture(path: &Path) -> bool {
    ImageFormat::from_path(path).is_ok_and(|format| format.reading_enabled())
}

/// The key of a picture: its path.
pub(crate) fn key(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// The path of a document, to be read by people.
pub(crate) fn name(document: &Document) -> String {
    String::from_utf8_lossy(document.key()).into_owned()
}

/// The width and the height, which are kept as the payload.
pub(crate) fn size(document: &Document) -> String {
    String::from_utf8_lossy(document.payload()).into_owned()
}

/// A database that is there.
pub(crate) fn opened(path: &Path) -> Result<Database> {
    Ok(Database::open(path, &OpenOptions::new())?)
}
