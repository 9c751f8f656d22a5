//! Filling a new file from its beginning to its end: sorted rows and documents into one level each.

use std::sync::Arc;

use crate::error::Result;
use crate::store::blocks::{
    DocumentBlock, DocumentRef, FileSeed, Packed, Packer, Row, pack_documents, share_of_sum,
};
use crate::store::engine::{Changes, Engine, LevelChange, LevelName};
use crate::store::file::{DOCUMENTS, Edit, Set, SetRow, State};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{
    Chunk, Level, NewBlock, Outline, SetLevel, cut, encode_summary, most_outlines,
};

/// The bytes of blocks that are written in one transaction of the engine.
const BYTES_PER_TRANSACTION: usize = 16 << 20;
/// The bytes of documents that are packed at a time.
const DOCUMENT_BYTES_AT_A_TIME: usize = 4 << 20;
/// The entries of a directory that are cut into chunks at a time.
const ENTRIES_AT_A_TIME: usize = 1 << 12;

/// Writes blocks to a new file, many in one transaction.
pub(super) struct Bulk<'a> {
    engine: &'a Engine,
    sizes: &'a Sizes,
    /// The changes that the next transaction writes. The state is whole only at the end, when the file
    /// gets its name. It does not keep the directories.
    pub(super) edit: Edit,
    /// The bytes of blocks that wait in the edit.
    waiting: usize,
}

impl<'a> Bulk<'a> {
    /// A file with the seed `file`.
    pub(super) fn new(engine: &'a Engine, sizes: &'a Sizes, file: FileSeed, state: State) -> Self {
        Self {
            engine,
            sizes,
            edit: Edit::new(state, file, sizes),
            waiting: 0,
        }
    }

    /// Writes what waits. It need not be durable yet, since the file has no name.
    fn flush(&mut self) -> Result<()> {
        self.edit.stage(self.engine)?;
        self.edit.changes = Changes::default();
        self.waiting = 0;
        Ok(())
    }

    /// Writes what waits and the state, and makes all of it durable.
    pub(super) fn finish(self) -> Result<()> {
        self.edit.write(self.engine)
    }

    /// Writes blocks and their directory.
    fn add<R: Row>(
        &mut self,
        packed: Vec<Packed<R>>,
        directory: &mut DirectoryWriter<R>,
    ) -> Result<()> {
        let mut change = LevelChange::none(directory.level);
        for block in packed {
            self.waiting += block.bytes.len();
            directory
                .waiting
                .push(self.edit.number_block(block, &mut change));
        }
        self.edit.changes.levels.push(change);
        if directory.waiting.len() >= ENTRIES_AT_A_TIME {
            self.waiting += directory.write_waiting(&mut self.edit, self.sizes);
        }
        if self.waiting >= BYTES_PER_TRANSACTION {
            self.flush()?;
        }
        Ok(())
    }
}

/// The directory of a level. It is written with the blocks, and not kept in memory.
struct DirectoryWriter<R> {
    level: LevelName,
    /// Entries that are in no chunk yet.
    waiting: Vec<NewBlock<R>>,
    /// The bytes of the chunks that were written.
    written: usize,
    /// The outlines of chunks that are in no summary yet.
    outlines: Vec<Outline<R>>,
    /// The sum of the summaries so far.
    sum: u64,
}

impl<R: Row> DirectoryWriter<R> {
    fn new(level: LevelName) -> Self {
        Self {
            level,
            waiting: Vec::new(),
            written: 0,
            outlines: Vec::new(),
            sum: 0,
        }
    }

    /// Makes the waiting entries part of an edit, and returns the bytes that they take.
    fn write_waiting(&mut self, edit: &mut Edit, sizes: &Sizes) -> usize {
        let listed: Vec<_> = self.waiting.iter().map(NewBlock::listed).collect();
        let before = self.written;
        let mut change = LevelChange::none(self.level);
        for part in cut(&listed, sizes.chunk_entries) {
            let (chunk, last, bytes) = Chunk::new(self.level, edit.file(), part);
            self.outlines.push(chunk.outline());
            self.written += bytes.len();
            change.chunks.written.push((last, bytes));
        }
        // The last chunk of the level is in no summary.
        let most = most_outlines(self.level);
        let full = self.outlines.len().saturating_sub(1) / most * most;
        self.summarize(full, &mut change, edit.file());
        edit.changes.levels.push(change);
        self.waiting.clear();
        self.written - before
    }

    /// Makes the first outlines into summaries.
    fn summarize(&mut self, outlines: usize, change: &mut LevelChange, file: FileSeed) {
        let summarized: Vec<_> = self.outlines.drain(..outlines).collect();
        for part in summarized.chunks(most_outlines(self.level)) {
            let (last, bytes) = encode_summary(self.level, file, part);
            self.sum = self.sum.wrapping_add(share_of_sum([bytes.as_slice()]));
            change.summaries.written.push((last, bytes));
        }
    }

    /// Writes the rest. Returns the level, or `None` if it has no blocks.
    fn finish(mut self, edit: &mut Edit, sizes: &Sizes) -> Option<Arc<Level<R>>> {
        self.write_waiting(edit, sizes);
        let mut change = LevelChange::none(self.level);
        let last = self.outlines.pop();
        self.summarize(self.outlines.len(), &mut change, edit.file());
        edit.changes.levels.push(change);
        last.map(|last| Arc::new(Level::not_kept(self.sum, last)))
    }
}

/// The one level of a sorted set in a new file.
pub(super) struct SetWriter<R> {
    set: Set<R>,
    packer: Packer<R>,
    directory: DirectoryWriter<R>,
}

impl<R: SetRow> SetWriter<R> {
    pub(super) fn new(set: Set<R>, bulk: &Bulk<'_>) -> Self {
        let packer = Packer::new(bulk.sizes.block_bytes, set.rules.filtered, bulk.edit.file());
        Self {
            set,
            packer,
            directory: DirectoryWriter::new(set.level(0)),
        }
    }

    /// Adds rows that come after those before.
    pub(super) fn push(&mut self, bulk: &mut Bulk<'_>, rows: &[R]) -> Result<()> {
        self.packer.waiting.extend((rows, &[]));
        self.packer.settle();
        bulk.add(self.packer.take_blocks(), &mut self.directory)
    }

    /// Writes the rest and the directory.
    pub(super) fn finish(mut self, bulk: &mut Bulk<'_>) -> Result<()> {
        bulk.add(self.packer.finish(), &mut self.directory)?;
        if let Some(level) = self.directory.finish(&mut bulk.edit, bulk.sizes) {
            bulk.edit.state.sets[self.set].levels.push(SetLevel {
                number: 0,
                next: R::MIN,
                level,
            });
        }
        Ok(())
    }
}

/// The documents of a new file.
pub(super) struct DocumentsWriter {
    pub(super) documents: DocumentBlock,
    directory: DirectoryWriter<u64>,
}

impl DocumentsWriter {
    pub(super) fn new() -> Self {
        Self {
            documents: DocumentBlock::default(),
            directory: DirectoryWriter::new(DOCUMENTS),
        }
    }

    /// Writes the documents that were added, if they are enough for some blocks.
    pub(super) fn write_full(&mut self, bulk: &mut Bulk<'_>) -> Result<()> {
        if self.documents.memory_bytes() < DOCUMENT_BYTES_AT_A_TIME {
            return Ok(());
        }
        let documents: Vec<DocumentRef<'_>> = self.documents.documents().collect();
        let mut packed = pack_documents(
            &documents,
            bulk.sizes.document_block_bytes,
            bulk.edit.file(),
        );
        // The last block may not be full yet.
        let last = packed.pop().map_or(0, |block| usize::from(block.puts));
        let mut rest = DocumentBlock::default();
        for document in &documents[documents.len() - last..] {
            rest.push_copy(document);
        }
        bulk.add(packed, &mut self.directory)?;
        self.documents = rest;
        Ok(())
    }

    /// Writes the rest and the directory.
    pub(super) fn finish(mut self, bulk: &mut Bulk<'_>) -> Result<()> {
        let documents: Vec<DocumentRef<'_>> = self.documents.documents().collect();
        let packed = pack_documents(
            &documents,
            bulk.sizes.document_block_bytes,
            bulk.edit.file(),
        );
        bulk.add(packed, &mut self.directory)?;
        if let Some(level) = self.directory.finish(&mut bulk.edit, bulk.sizes) {
            bulk.edit.state.documents = level;
        }
        Ok(())
    }
}
