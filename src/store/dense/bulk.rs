//! Filling a new file from its beginning to its end: sorted rows and documents into one level each.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::{NewFile, Temporary, sync_file};
use crate::store::blocks::{DocumentBlock, DocumentRef, Packed, Packer, Row, pack_documents};
use crate::store::engine::{Changes, Engine, LevelChange, LevelName, OpenFile};
use crate::store::file::{self, DOCUMENTS, Edit, Set, SetRow, Settings, State};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::{DirectoryWriter, Level, SetLevel};

/// The bytes of blocks that are written in one transaction of the engine.
const BYTES_PER_TRANSACTION: usize = 16 << 20;
/// The bytes of documents that are packed at a time.
const DOCUMENT_BYTES_AT_A_TIME: usize = 4 << 20;

/// Writes blocks to a new file, many in one transaction.
pub(super) struct Bulk<'a> {
    engine: Engine,
    new: NewFile,
    /// The name that the file gets. What is read meanwhile is in other files, so errors name this one.
    path: &'a Path,
    sizes: &'a Sizes,
    /// The changes that the next transaction writes. The state is whole only at the end, when the file
    /// gets its name. It does not keep the directories.
    pub(super) edit: Edit,
    /// The bytes of blocks that wait in the edit.
    waiting: usize,
}

impl<'a> Bulk<'a> {
    /// An empty database in a new file that gets the name `path`.
    pub(super) fn new(
        new: NewFile,
        path: &'a Path,
        settings: &Settings,
        page_cache_bytes: usize,
        sizes: &'a Sizes,
    ) -> Result<Self> {
        let state = State::new(&settings.plan);
        Ok(Self {
            engine: file::create(&new, path, settings, page_cache_bytes)?,
            new,
            path,
            sizes,
            edit: Edit::new(state, settings.file, sizes),
            waiting: 0,
        })
    }

    /// Writes what waits. It need not be durable yet, since the file has no name.
    fn flush(&mut self) -> Result<()> {
        self.edit
            .stage(&self.engine)
            .map_err(Error::of_file(self.path))?;
        self.edit.changes = Changes::default();
        self.waiting = 0;
        Ok(())
    }

    /// Writes what waits and the state, and makes all of it durable. Opens the whole file, which has its temporary name
    /// still.
    pub(super) fn finish(self) -> Result<(Temporary, Arc<OpenFile>)> {
        let Self {
            engine, new, path, ..
        } = self;
        self.edit.write(&engine).map_err(Error::of_file(path))?;
        let engine = engine.trimmed(&new, path)?;
        sync_file(&new.file).map_err(Error::io(path))?;
        Ok((new.temporary, Arc::new(OpenFile::new(engine, new.file))))
    }

    /// Writes the one level of a set. `fill` is given what takes its rows, some at a time and all in order.
    pub(super) fn write_set<R: SetRow>(
        &mut self,
        set: Set<R>,
        fill: impl FnOnce(&mut dyn FnMut(&[R]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut packer = Packer::new(self.sizes.block_bytes, set.rules.filtered, self.edit.file());
        let mut directory = self.directory(set.level(0));
        fill(&mut |rows| {
            packer.waiting.extend((rows, &[]));
            packer.settle();
            self.add(packer.take_blocks(), &mut directory)
        })?;
        if let Some(level) = self.add_last(packer.finish(), directory)? {
            let next = R::MIN;
            let level = SetLevel { next, level };
            self.edit.state.sets[set].levels.push(level);
        }
        Ok(())
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
            let block = self.edit.number_block(block, &mut change);
            directory.push(block, &mut change);
        }
        for (_, chunk) in &change.chunks.written {
            self.waiting += chunk.len();
        }
        self.edit.changes.levels.push(change);
        if self.waiting >= BYTES_PER_TRANSACTION {
            self.flush()?;
        }
        Ok(())
    }

    fn directory<R: Row>(&self, level: LevelName) -> DirectoryWriter<R> {
        DirectoryWriter::new(level, self.edit.file(), self.sizes.chunk_entries)
    }

    /// Writes the last blocks of a level and the rest of its directory. Returns the level, or `None` if it has no
    /// blocks.
    fn add_last<R: Row>(
        &mut self,
        packed: Vec<Packed<R>>,
        mut directory: DirectoryWriter<R>,
    ) -> Result<Option<Arc<Level<R>>>> {
        self.add(packed, &mut directory)?;
        let mut change = LevelChange::none(directory.level);
        let level = directory.finish(&mut change);
        self.edit.changes.levels.push(change);
        Ok(level.map(Arc::new))
    }
}

/// The documents of a new file.
pub(super) struct DocumentsWriter {
    pub(super) documents: DocumentBlock,
    directory: DirectoryWriter<u64>,
}

impl DocumentsWriter {
    pub(super) fn new(bulk: &Bulk<'_>) -> Self {
        Self {
            documents: DocumentBlock::default(),
            directory: bulk.directory(DOCUMENTS),
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
    pub(super) fn finish(self, bulk: &mut Bulk<'_>) -> Result<()> {
        let documents: Vec<DocumentRef<'_>> = self.documents.documents().collect();
        let packed = pack_documents(
            &documents,
            bulk.sizes.document_block_bytes,
            bulk.edit.file(),
        );
        if let Some(level) = bulk.add_last(packed, self.directory)? {
            bulk.edit.state.documents = level;
        }
        Ok(())
    }
}
