//! Filling a new file from its beginning to its end: sorted rows and documents into one level each.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::store::blocks::documents::{DocumentBlock, Record, pack_documents};
use crate::store::blocks::filter::Filter;
use crate::store::blocks::packed::{Packed, Packer, Row};
use crate::store::engine::tables::{self as engine, Engine, open_error};
use crate::store::file::meta::Settings;
use crate::store::file::state::{DOCUMENTS_PLACE, Edit, SetNumber, SetRow, State};
use crate::store::sorted_set::chunk::{self as directory, Chunk, Entry};
use crate::store::sorted_set::level::Level;
use crate::store::sorted_set::reader::Slot;
use crate::store::store::Sizes;
use crate::store::store::temporary_file;

/// So many bytes of blocks are written in one transaction of the engine.
const BYTES_PER_TRANSACTION: usize = 16 << 20;
/// So many bytes of documents are packed at a time.
const DOCUMENT_BYTES_AT_A_TIME: usize = 4 << 20;
/// So many entries of a directory are cut into chunks at a time.
const ENTRIES_AT_A_TIME: usize = 1 << 12;

/// A new file under a temporary name, with the engine that works on it.
pub(crate) struct NewFile {
    pub(crate) temporary: NamedTempFile,
    pub(crate) engine: Engine,
    pub(crate) file: File,
}

impl NewFile {
    /// An empty database in `directory`.
    pub(crate) fn create(directory: &Path, settings: &Settings, cache_bytes: usize) -> Result<Self> {
        let failed = |source: io::Error| Error::Io { path: directory.to_owned(), source };
        let temporary = temporary_file(directory).map_err(failed)?;
        let file = temporary.as_file().try_clone().map_err(failed)?;
        let engine = temporary.as_file().try_clone().map_err(failed)?;
        let mut builder = redb::Builder::new();
        let engine = builder.set_cache_size(cache_bytes).create_file(engine);
        let engine = engine.map_err(|error| open_error(directory, error))?;
        engine::write_first(&engine, settings)?;
        Ok(Self { temporary, engine: Engine::ReadWrite(engine), file })
    }
}

/// Writes blocks to a new file, many in one transaction.
pub(crate) struct Bulk<'a> {
    engine: &'a Engine,
    pub(crate) sizes: &'a Sizes,
    /// What the next transaction writes. Its state is whole only at the end, when the file gets its name, and does not keep the
    /// directories.
    pub(crate) edit: Edit,
    /// How many bytes of blocks wait in it.
    waiting: usize,
}

impl<'a> Bulk<'a> {
    pub(crate) fn new(engine: &'a Engine, sizes: &'a Sizes, state: State) -> Self {
        Self { engine, sizes, edit: Edit::new(state), waiting: 0 }
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.engine.apply(&self.edit)?;
        self.edit.blocks.clear();
        self.edit.chunks.clear();
        self.waiting = 0;
        Ok(())
    }

    /// Writes blocks and their directory.
    fn add<R: Row>(&mut self, packed: Vec<Packed<R>>, directory: &mut DirectoryWriter<R>) -> Result<()> {
        for block in packed {
            self.waiting += block.bytes.len();
            directory.waiting.push(self.edit.add_block(block));
            if directory.waiting.len() >= ENTRIES_AT_A_TIME {
                self.waiting += directory.settle(&mut self.edit, self.sizes);
            }
            if self.waiting >= BYTES_PER_TRANSACTION {
                self.flush()?;
            }
        }
        Ok(())
    }
}

/// The directory of a level, which is written with its blocks and not kept.
struct DirectoryWriter<R> {
    place: u16,
    /// Entries that are in no chunk yet.
    waiting: Vec<(Entry<R>, Filter)>,
    /// How many bytes of chunks are written, and their sum.
    written: usize,
    sum: u64,
}

impl<R: Row> DirectoryWriter<R> {
    fn new(place: u16) -> Self {
        Self { place, waiting: Vec::new(), written: 0, sum: 0 }
    }

    /// Makes the entries that wait part of an edit, and returns how many bytes they take.
    fn settle(&mut self, edit: &mut Edit, sizes: &Sizes) -> usize {
        let filtered: Vec<_> =
            self.waiting.iter().map(|(entry, filter)| (entry.clone(), filter.lines())).collect();
        let before = self.written;
        for part in directory::cut(&filtered, sizes.chunk_entries) {
            let (chunk, key, bytes) = Chunk::new(self.place, part);
            self.sum = self.sum.wrapping_add(chunk.share_of_sum());
            self.written += bytes.len();
            edit.chunks.push((key, bytes));
        }
        self.waiting.clear();
        self.written - before
    }

    /// Writes the rest; the level is `None` if it has no blocks.
    fn finish(mut self, edit: &mut Edit, sizes: &Sizes) -> Option<Arc<Level<R>>> {
        self.settle(edit, sizes);
        (self.written > 0).then(|| Arc::new(Level::not_kept(self.sum)))
    }
}

/// The one level of a sorted set in a new file.
pub(crate) struct SetWriter<R> {
    number: SetNumber,
    packer: Packer<R>,
    directory: DirectoryWriter<R>,
}

impl<R: SetRow> SetWriter<R> {
    pub(crate) fn new(number: SetNumber, bulk: &Bulk<'_>) -> Self {
        let rules = R::set(&bulk.edit.state.sets, number).rules;
        let packer = Packer::new(bulk.sizes.block_bytes, rules.filtered);
        Self { number, packer, directory: DirectoryWriter::new(number.place(0)) }
    }

    /// Adds rows that follow those before.
    pub(crate) fn push(&mut self, bulk: &mut Bulk<'_>, rows: &[R]) -> Result<()> {
        self.packer.waiting.extend((rows, &[]));
        self.packer.settle();
        bulk.add(self.packer.take_blocks(), &mut self.directory)
    }

    /// Writes the rest and the directory.
    pub(crate) fn finish(mut self, bulk: &mut Bulk<'_>) -> Result<()> {
        bulk.add(self.packer.finish(), &mut self.directory)?;
        if let Some(level) = self.directory.finish(&mut bulk.edit, bulk.sizes) {
            let slot = Slot { number: 0, next: R::MIN, level };
            R::set_mut(&mut bulk.edit.state.sets, self.number).levels.push(slot);
        }
        Ok(())
    }
}

/// The documents of a new file.
pub(crate) struct DocumentsWriter {
    pub(crate) documents: DocumentBlock,
    directory: DirectoryWriter<u64>,
}

impl DocumentsWriter {
    pub(crate) fn new() -> Self {
        Self { documents: DocumentBlock::default(), directory: DirectoryWriter::new(DOCUMENTS_PLACE) }
    }

    /// Writes what was added to `documents`, if it is enough for some blocks.
    pub(crate) fn settle(&mut self, bulk: &mut Bulk<'_>) -> Result<()> {
        if self.documents.memory_bytes() < DOCUMENT_BYTES_AT_A_TIME {
            return Ok(());
        }
        let records: Vec<Record<'_>> = self.documents.records().collect();
        let mut packed = pack_documents(&records, bulk.sizes.document_block_bytes);
        // The last block may not be full yet.
        let last = packed.pop().map_or(0, |block| usize::from(block.puts));
        let mut rest = DocumentBlock::default();
        records[records.len() - last..].iter().for_each(|record| rest.push_record(record));
        bulk.add(packed, &mut self.directory)?;
        self.documents = rest;
        Ok(())
    }

    /// Writes the rest and the directory.
    pub(crate) fn finish(mut self, bulk: &mut Bulk<'_>) -> Result<()> {
        let records: Vec<Record<'_>> = self.documents.records().collect();
        bulk.add(pack_documents(&records, bulk.sizes.document_block_bytes), &mut self.directory)?;
        if let Some(level) = self.directory.finish(&mut bulk.edit, bulk.sizes) {
            bulk.edit.state.documents = level;
        }
        Ok(())
    }
}
