//! The places of the removed records, read in their order.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::delivery::cannot_write;
use crate::error::Result;
use crate::ingest::RecordId;

/// The places of the removed records. Asked for in order, they are read as they are needed.
pub(super) struct Removed {
    ids: BufReader<File>,
    /// The first one that was not passed yet.
    next: Option<RecordId>,
}

impl Removed {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let opened = File::open(path).and_then(|file| {
            let mut removed = Self { ids: BufReader::with_capacity(256 << 10, file), next: None };
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
