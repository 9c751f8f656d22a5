//! The places of the records that do not get into the output: those that were removed, read in their order, and those
//! that could not be judged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use super::delivery::cannot_write;
use crate::error::Result;
use crate::ingest::RecordId;

/// The places of the records that could not be judged, kept while the inputs are read.
pub(super) struct Unjudged {
    path: PathBuf,
    /// Those that are not in the file yet.
    new: Vec<u8>,
}

impl Unjudged {
    /// The list in this file, which is made when there is something to write.
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            path,
            new: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, id: RecordId) {
        self.new.extend(id.to_bytes());
    }

    /// Writes the new ones durably. It has to be done before it is committed that their records were read. A run that is
    /// killed in between writes them again when it goes on.
    pub(super) fn keep(&mut self) -> Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .and_then(|mut file| {
                // A run that was killed may have left a part of one at the end.
                let whole =
                    file.metadata()?.len() / RecordId::BYTES as u64 * RecordId::BYTES as u64;
                file.set_len(whole)?;
                file.write_all(&self.new)?;
                file.sync_data()
            });
        self.new.clear();
        written.map_err(|source| cannot_write(&self.path, &source))
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Result<Vec<RecordId>> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|source| cannot_write(&self.path, &source))?,
        };
        let (whole, _) = bytes.as_chunks::<{ RecordId::BYTES }>();
        let mut ids: Vec<RecordId> = whole.iter().map(RecordId::of_bytes).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

/// The places of the removed records. Asked for in order, they are read as they are needed.
pub(super) struct Removed {
    ids: BufReader<File>,
    /// The first one that was not passed yet.
    next: Option<RecordId>,
}

impl Removed {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let opened = File::open(path).and_then(|file| {
            let mut removed = Self {
                ids: BufReader::with_capacity(256 << 10, file),
                next: None,
            };
            removed.next = removed.read()?;
            Ok(removed)
        });
        opened.map_err(|source| cannot_write(path, &source))
    }

    /// Whether a record is removed. Each that is asked for is behind the one before.
    pub(super) fn has(&mut self, id: RecordId) -> io::Result<bool> {
        while self.next.is_some_and(|next| next < id) {
            self.next = self.read()?;
        }
        Ok(self.next == Some(id))
    }

    fn read(&mut self) -> io::Result<Option<RecordId>> {
        let mut bytes = [0; RecordId::BYTES];
        match self.ids.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(RecordId::of_bytes(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}
