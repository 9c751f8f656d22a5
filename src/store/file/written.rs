//! The documents that a transaction has written: the newest in memory, the others packed in a file without a name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::blocks::documents::{DocumentBlock, Record, pack_documents};
use crate::store::blocks::envelope::Problem;
use crate::store::blocks::packed::{Packed, digest};
use crate::store::store::DocumentNumber;
use crate::store::store::Sizes;
use crate::store::store::directory_of;
use crate::store::store::lock;

/// The bytes of a block on its way into the file.
#[derive(Debug)]
pub(crate) enum BlockBytes {
    Here(Vec<u8>),
    Spilled(SpilledBytes),
}

impl BlockBytes {
    pub(crate) fn load(&self) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Here(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Spilled(spilled) => spilled.load().map(Cow::Owned),
        }
    }
}

/// Bytes in a file without a name.
#[derive(Clone, Debug)]
pub(crate) struct SpilledBytes {
    file: Arc<Mutex<File>>,
    at: u64,
    length: usize,
}

impl SpilledBytes {
    fn load(&self) -> io::Result<Vec<u8>> {
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = vec![0; self.length];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// A block of documents that waits outside memory.
#[derive(Debug)]
pub(crate) struct SpilledBlock {
    pub(crate) bytes: SpilledBytes,
    pub(crate) digest: u64,
    pub(crate) high: u64,
    pub(crate) documents: u16,
}

/// What a transaction has written, in the order of numbers.
#[derive(Debug, Default)]
pub(crate) struct WrittenDocuments {
    newest: DocumentBlock,
    /// Those of the newest that the transaction has removed again.
    removed: BTreeSet<u64>,
    spilled: Vec<SpilledBlock>,
    /// The first number of all.
    first: Option<DocumentNumber>,
}

impl WrittenDocuments {
    /// Adds a document with a number above all others.
    pub(crate) fn push(&mut self, number: DocumentNumber, document: &Document) {
        self.first.get_or_insert(number);
        self.newest.push(number.0, document);
    }

    /// Takes a document away again, if it is still in memory. Otherwise it is to count as dead.
    pub(crate) fn remove(&mut self, number: DocumentNumber) -> bool {
        self.newest.find(number.0).is_some() && self.removed.insert(number.0)
    }

    /// Packs the documents in memory into a file beside the database at `path`, once they take more than the sizes allow.
    pub(crate) fn spill_if_long(&mut self, path: &Path, sizes: &Sizes) -> Result<()> {
        if self.newest.memory_bytes() <= sizes.spill_bytes {
            return Ok(());
        }
        let directory = directory_of(path)?;
        let records: Vec<_> = self.live().collect();
        let packed = pack_documents(&records, sizes.document_block_bytes);
        let spilled = self.spill(packed, directory);
        spilled.map_err(|source| Error::Io { path: directory.to_owned(), source })?;
        self.newest = DocumentBlock::default();
        self.removed.clear();
        Ok(())
    }

    fn spill(&mut self, packed: Vec<Packed<u64>>, directory: &Path) -> io::Result<()> {
        let (file, mut at) = match self.spilled.last() {
            Some(SpilledBlock { bytes, .. }) => (bytes.file.clone(), bytes.at + bytes.length as u64),
            None => (Arc::new(Mutex::new(tempfile::tempfile_in(directory)?)), 0),
        };
        lock(&file).seek(SeekFrom::Start(at))?;
        for Packed { bytes, digest, high, puts, .. } in packed {
            lock(&file).write_all(&bytes)?;
            let spilled = SpilledBytes { file: file.clone(), at, length: bytes.len() };
            at += bytes.len() as u64;
            self.spilled.push(SpilledBlock { bytes: spilled, digest, high, documents: puts });
        }
        Ok(())
    }

    /// The documents in memory that were not removed.
    pub(crate) fn live(&self) -> impl Iterator<Item = Record<'_>> {
        self.newest.records().filter(|record| !self.removed.contains(&record.number))
    }

    /// The blocks outside memory, which come before the documents in memory.
    pub(crate) fn take_spilled(&mut self) -> Vec<SpilledBlock> {
        std::mem::take(&mut self.spilled)
    }

    /// The document of a number, if this transaction wrote it.
    pub(crate) fn document(&self, number: DocumentNumber) -> Option<Result<Document, Problem>> {
        if let Some(place) = self.newest.find(number.0) {
            return Some(self.newest.record(place).to_document());
        }
        let place = self.spilled.partition_point(|block| block.high < number.0);
        let block = self.spilled.get(place).filter(|_| self.first.is_some_and(|first| first <= number))?;
        let read = || {
            let bytes = block.bytes.load().map_err(|_| "the file that it waits in cannot be read")?;
            if digest(&bytes) != block.digest {
                return Err("the file that it waits in was changed");
            }
            let block = DocumentBlock::decode(&bytes)?;
            block.find(number.0).map(|place| block.record(place).to_document()).transpose()
        };
        read().transpose()
    }
}
