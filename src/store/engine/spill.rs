//! Blocks that are not in the database file yet: in memory, or in a temporary file without a name.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

/// The bytes of a block that is about to be written.
#[derive(Debug)]
pub(crate) enum BlockBytes {
    InMemory(Vec<u8>),
    Spilled(SpilledBytes),
}

impl BlockBytes {
    pub(crate) fn load(&self) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::InMemory(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Spilled(spilled) => spilled.load().map(Cow::Owned),
        }
    }
}

/// A temporary file without a name, to which bytes are appended. It is gone when this and all its
/// [`SpilledBytes`] are dropped.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: Arc<Mutex<File>>,
    end: u64,
}

impl SpillFile {
    /// An empty file in `directory`.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self { file: Arc::new(Mutex::new(tempfile::tempfile_in(directory)?)), end: 0 })
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<SpilledBytes> {
        let mut file = self.file.lock();
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(bytes)?;
        let spilled = SpilledBytes { file: self.file.clone(), offset: self.end, length: bytes.len() };
        self.end += bytes.len() as u64;
        Ok(spilled)
    }
}

/// Bytes in a [`SpillFile`].
#[derive(Clone, Debug)]
pub(crate) struct SpilledBytes {
    file: Arc<Mutex<File>>,
    offset: u64,
    length: usize,
}

impl SpilledBytes {
    pub(crate) fn load(&self) -> io::Result<Vec<u8>> {
        let mut file = self.file.lock();
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = vec![0; self.length];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_back_in_any_order_while_the_file_grows() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut spill = SpillFile::new(folder.path())?;
        let parts: Vec<Vec<u8>> = (0..20u8).map(|i| vec![i; usize::from(i) * 7]).collect();
        let mut spilled = Vec::new();
        for part in &parts {
            spilled.push(spill.append(part)?);
            for i in (0..spilled.len()).rev() {
                assert_eq!(spilled[i].load()?, parts[i]);
            }
        }
        drop(spill);
        assert_eq!(spilled[9].load()?, parts[9]);
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 0, "the file has a name");
        Ok(())
    }
}
