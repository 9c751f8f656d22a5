//! What stands where a command is to make something. A command that was killed just after its output had got its name
//! finds that output when it is given again: then it is done. Anything else that stands there is not touched.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::apart::are_same_file;
use super::output::Output;
use super::pairs::open_beside;
use crate::inspect::Statistics;
use crate::{Database, Document, Error, Scheme, SketchSize, Snapshot};

fn already_exists(path: &Path) -> Error {
    Error::AlreadyExists {
        path: path.to_owned(),
    }
}

/// A file that may be whole: it is compared with what the command would write.
pub(super) struct StandingFile {
    path: PathBuf,
    file: BufReader<File>,
}

impl StandingFile {
    /// Refuses what is no file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_file() {
            return Err(already_exists(path));
        }
        let file = File::open(path).map_err(Error::io(path))?;
        let file = BufReader::with_capacity(256 << 10, file);
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Refuses a file that goes on otherwise.
    pub(super) fn compare(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut standing = Vec::with_capacity(bytes.len());
        let read = self
            .file
            .by_ref()
            .take(bytes.len() as u64)
            .read_to_end(&mut standing);
        read.map_err(Error::io(&self.path))?;
        if standing == bytes {
            Ok(())
        } else {
            Err(self.is_another())
        }
    }

    /// Refuses a file with more than was compared. Tells that it is whole.
    pub(super) fn finish(mut self, output: &Output) -> Result<(), Error> {
        let more = self.file.by_ref().take(1).read_to_end(&mut Vec::new());
        match more.map_err(Error::io(&self.path))? {
            0 => print_complete(&self.path, output),
            _ => return Err(self.is_another()),
        }
        Ok(())
    }

    fn is_another(&self) -> Error {
        already_exists(&self.path)
    }
}

/// Tells that nothing was to be done.
pub(super) fn print_complete(path: &Path, output: &Output) {
    output.remark(&format!(
        "{}: it is already there and complete",
        path.display()
    ));
}

/// Refuses what stands there and does not begin as the output does, before there is any work for it.
pub(super) fn ensure_may_stand(path: &Path, begin: &[u8]) -> Result<(), Error> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    StandingFile::open(path)?.compare(begin)
}

/// A database that may be whole: it is compared with what the command would make.
pub(super) struct StandingDatabase {
    path: PathBuf,
    pub(super) snapshot: Snapshot,
}

/// What is chosen when a database is created, and how many documents it has.
#[derive(PartialEq)]
pub(super) struct Outline {
    pub(super) scheme: Scheme,
    pub(super) plan: String,
    pub(super) max_distance: u32,
    pub(super) sketch_size: SketchSize,
    pub(super) min_similarity: f64,
    pub(super) created: i64,
    pub(super) documents: u64,
}

impl Outline {
    pub(super) fn from_statistics(stats: &Statistics) -> Self {
        Self {
            scheme: stats.scheme,
            plan: stats.plan.clone(),
            max_distance: stats.max_distance,
            sketch_size: stats.sketch_size,
            min_similarity: stats.min_similarity.unwrap_or_default(),
            created: stats.created,
            documents: stats.documents,
        }
    }
}

impl StandingDatabase {
    /// Opens what stands there. Nothing if nothing does.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] if something else stands there, or a database that others have open.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Error> {
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        // A command that was killed has not closed its file.
        let snapshot = open_beside(path).and_then(|database| database.snapshot());
        let snapshot = snapshot.map_err(|_| already_exists(path))?;
        Ok(Some(Self {
            path: path.to_owned(),
            snapshot,
        }))
    }

    /// Refuses a database with other settings, or another number of documents.
    pub(super) fn compare(&self, expected: &Outline) -> Result<(), Error> {
        if Outline::from_statistics(&self.snapshot.stats()?) == *expected {
            Ok(())
        } else {
            Err(self.is_another())
        }
    }

    /// Refuses a database with other documents, or in another order.
    pub(super) fn compare_documents(
        &self,
        documents: impl IntoIterator<Item = Result<Document, Error>>,
    ) -> Result<(), Error> {
        let mut standing = self.snapshot.documents();
        for document in documents {
            if standing.next().transpose()? != Some(document?) {
                return Err(self.is_another());
            }
        }
        if standing.next().is_none() {
            Ok(())
        } else {
            Err(self.is_another())
        }
    }

    pub(super) fn is_another(&self) -> Error {
        already_exists(&self.path)
    }
}

/// Refuses a file that is no backup of this snapshot of a database.
pub(super) fn ensure_is_backup(
    path: &Path,
    database: &Database,
    snapshot: &Snapshot,
) -> Result<(), Error> {
    if are_same_file(path, database.path()) {
        return Err(already_exists(path));
    }
    let Some(standing) = StandingDatabase::open(path)? else {
        return Err(already_exists(path));
    };
    standing.compare(&Outline::from_statistics(&snapshot.stats()?))?;
    if standing.snapshot.sources()? != snapshot.sources()? {
        return Err(already_exists(path));
    }
    standing.compare_documents(snapshot.documents())
}
