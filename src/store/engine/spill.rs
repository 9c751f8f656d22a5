//! Blocks that are not in the database file yet: in memory, or in a temporary file without a name.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::planted::planted;
use crate::sync::Mutex;

/// The bytes of a block that is about to be written.
#[derive(Debug)]
pub(crate) enum BlockBytes {
    InMemory(Vec<u8>),
    Spilled(SpilledBytes),
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::InMemory(bytes)
    }
}

impl BlockBytes {
    /// The bytes. If they were spilled, they are read back and verified.
    pub(crate) fn load(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::InMemory(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Spilled(spilled) => spilled.load().map(Cow::Owned),
        }
    }

    /// Changes the first of these bytes where they were spilled.
    #[cfg(test)]
    pub(crate) fn damage(&self) {
        let Self::Spilled(spilled) = self else {
            panic!("these bytes are in memory")
        };
        let mut file = spilled.shared.file.lock();
        let mut byte = [0];
        file.seek(SeekFrom::Start(spilled.offset))
            .expect("the file can be read");
        file.read_exact(&mut byte).expect("the file can be read");
        file.seek(SeekFrom::Start(spilled.offset))
            .expect("the file can be written");
        file.write_all(&[byte[0] ^ 1])
            .expect("the file can be written");
    }
}

/// A temporary file without a name, to which bytes are appended. It is gone when this and all its
/// [`BlockBytes`] are dropped.
#[derive(Debug)]
pub(crate) struct SpillFile {
    shared: Arc<SharedFile>,
    end: u64,
}

#[derive(Debug)]
struct SharedFile {
    file: Mutex<File>,
    directory: PathBuf,
}

impl SharedFile {
    fn failed(&self, source: io::Error) -> Error {
        Error::SpillFile {
            directory: self.directory.clone(),
            source: source.into(),
        }
    }
}

impl SpillFile {
    /// An empty file in `directory`.
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory).map_err(|source| Error::SpillFile {
            directory: directory.to_owned(),
            source: source.into(),
        })?;
        let shared = SharedFile {
            file: Mutex::new(file),
            directory: directory.to_owned(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            end: 0,
        })
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<BlockBytes> {
        let mut file = self.shared.file.lock();
        let written = file
            .seek(SeekFrom::Start(self.end))
            .and_then(|_| file.write_all(bytes));
        written.map_err(|source| self.shared.failed(source))?;
        let offset = self.end;
        self.end += bytes.len() as u64;
        Ok(BlockBytes::Spilled(SpilledBytes {
            shared: self.shared.clone(),
            offset,
            length: bytes.len(),
            checksum: xxh3_64(bytes),
        }))
    }
}

#[derive(Debug)]
pub(crate) struct SpilledBytes {
    shared: Arc<SharedFile>,
    offset: u64,
    length: usize,
    checksum: u64,
}

impl SpilledBytes {
    /// Reads the bytes back. It is an error if they are not those that were appended.
    fn load(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.length];
        let mut file = self.shared.file.lock();
        let read = file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|source| self.shared.failed(source))?;
        if xxh3_64(&bytes) != self.checksum && !planted("what waited in a file is not compared") {
            return Err(self.shared.failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "its bytes have changed",
            )));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_back_in_any_order_while_the_file_grows() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut spill = SpillFile::new(folder.path())?;
        let parts: Vec<Vec<u8>> = (0..20u8).map(|i| vec![i; usize::from(i) * 7]).collect();
        let mut spilled = Vec::new();
        for part in &parts {
            spilled.push(spill.append(part)?);
            for i in (0..spilled.len()).rev() {
                assert_eq!(*spilled[i].load()?, *parts[i]);
            }
        }
        drop(spill);
        assert_eq!(*spilled[9].load()?, *parts[9]);
        let left = std::fs::read_dir(folder.path())
            .expect("the folder is there")
            .count();
        assert_eq!(left, 0, "the file has a name");
        Ok(())
    }

    #[test]
    fn bytes_that_were_changed_are_refused() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut spill = SpillFile::new(folder.path())?;
        let first = spill.append(b"first")?;
        let second = spill.append(b"second")?;
        first.damage();
        assert!(matches!(first.load(), Err(Error::SpillFile { .. })));
        assert_eq!(*second.load()?, *b"second");
        Ok(())
    }
}
