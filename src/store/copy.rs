//! A dense copy of what is committed: one level per set, full blocks, nothing deleted. Compaction puts it in the place of
//! the file, a backup beside it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tempfile::NamedTempFile;

use super::block::{Packed, pack_rows};
use super::blocks::Blocks;
use super::directory::{Entry, Level, cut_into_chunks};
use super::documents::{DocumentBlock, pack_documents};
use super::engine::{self, Engine, open_error};
use super::guard::guarded;
use super::read::View;
use super::sorted_set::{SetReader, Slot};
use super::state::{DOCUMENTS_PLACE, Edit, SetNumber, SetRow, State};
use super::{Sizes, directory_of, temporary_file};
use crate::error::{Error, Result};

/// So many bytes of blocks are written in one transaction of the engine.
const BYTES_PER_TRANSACTION: usize = 64 << 20;
/// So many rows or documents are packed at a time.
const ROWS_AT_A_TIME: usize = 1 << 16;

/// What is told of how far a copy has come: rows done, and rows in all.
pub(crate) type CopyProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// A dense copy under a temporary name, whole and synced.
pub(super) struct Copied {
    pub(super) temporary: NamedTempFile,
    pub(super) engine: Engine,
    pub(super) file: File,
}

/// Makes a dense copy in the directory of `target`, and reads it back.
pub(super) fn copy(view: &View, target: &Path, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<Copied> {
    let failed = |source: io::Error| Error::Io { path: target.to_owned(), source };
    let directory = directory_of(target)?;
    ensure_room(view, directory, sizes)?;
    let temporary = temporary_file(directory).map_err(failed)?;
    let file = temporary.as_file().try_clone().map_err(failed)?;
    let engine = temporary.as_file().try_clone().map_err(failed)?;
    guarded(|| {
        let mut builder = redb::Builder::new();
        let engine = builder.set_cache_size(BYTES_PER_TRANSACTION).create_file(engine);
        let engine = engine.map_err(|error| open_error(target, error))?;
        engine::write_first(&engine, view.settings())?;
        let engine = Engine::ReadWrite(engine);
        write_copy(view, &engine, sizes, progress)?;
        file.sync_all().map_err(failed)?;
        Ok(Copied { temporary, engine, file })
    })
}

/// Refuses to begin what the disk has no room for.
fn ensure_room(view: &View, directory: &Path, sizes: &Sizes) -> Result<()> {
    let failed = |source: io::Error| Error::Io { path: directory.to_owned(), source };
    let available = fs4::available_space(directory).map_err(failed)?;
    // A block is copied to no more than a page, and the engine's own pages come on top.
    let blocks = view.state().sets.blocks(sizes.block_bytes) + view.state().documents.blocks() as u64;
    let needed = blocks * 4096 / 16 * 17 + (4 << 20);
    if available < needed {
        return Err(Error::NoRoom { directory: directory.to_owned(), needed, available });
    }
    Ok(())
}

fn write_copy(view: &View, engine: &Engine, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<()> {
    let old = view.state();
    let mut state = State::new(&view.settings().plan);
    state.counters = old.counters;
    // Numbers of blocks are those of no block of the old file, which the cache may still hold.
    state.next_block = old.next_block;
    let all = old.sets.numbers().map(|number| old.sets.rows(number)).sum::<u64>() + old.documents.rows().0;
    let mut bulk = Bulk { engine, sizes, edit: Edit::new(state), waiting: 0, done: 0, all, progress };
    for number in old.sets.numbers() {
        match number {
            SetNumber::Wide(_) => bulk.copy_set::<u128>(view, number)?,
            // In the copy nothing is dead.
            SetNumber::Narrow(0) => {}
            SetNumber::Narrow(_) => bulk.copy_set::<u64>(view, number)?,
        }
    }
    bulk.copy_documents(view)?;
    bulk.edit.scopes = view.scope_rows()?;
    bulk.flush()
}

/// A new file that is filled from its beginning to its end.
struct Bulk<'a> {
    engine: &'a Engine,
    sizes: &'a Sizes,
    edit: Edit,
    /// How many bytes of blocks the edit has.
    waiting: usize,
    done: u64,
    all: u64,
    progress: CopyProgress<'a>,
}

impl Bulk<'_> {
    fn copy_set<R: SetRow>(&mut self, view: &View, number: SetNumber) -> Result<()> {
        let set = R::set(&view.state().sets, number);
        let reader = SetReader { set, overlay: None, blocks: view.blocks() };
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        for range in reader.parts() {
            let before = rows.len();
            rows.extend(reader.rows(&range)?);
            self.done += (rows.len() - before) as u64;
            if rows.len() < ROWS_AT_A_TIME {
                continue;
            }
            let mut packed = pack_rows(&rows, &[], self.sizes.block_bytes, set.rules.filtered);
            // The last block may not be full yet.
            let last = packed.pop().map_or(0, |block| usize::from(block.puts));
            rows.drain(..rows.len() - last);
            self.add(packed, &mut entries)?;
        }
        self.add(pack_rows(&rows, &[], self.sizes.block_bytes, set.rules.filtered), &mut entries)?;
        let level = self.level(number.place(0), entries);
        let levels = &mut R::set_mut(&mut self.edit.state.sets, number).levels;
        if level.blocks() > 0 {
            levels.push(Slot { number: 0, next: R::MIN, level });
        }
        Ok(())
    }

    fn copy_documents(&mut self, view: &View) -> Result<()> {
        let mut entries = Vec::new();
        let mut live = DocumentBlock::default();
        let mut next = 0;
        while let Some(stored) = view.stored_documents(next)? {
            next = stored.next;
            for record in stored.live() {
                live.push_record(&record);
                self.done += 1;
            }
            if live.memory_bytes() < BYTES_PER_TRANSACTION / 16 {
                continue;
            }
            let records: Vec<_> = live.records().collect();
            let mut packed = pack_documents(&records, self.sizes.block_bytes);
            let last = packed.pop().map_or(0, |block| usize::from(block.puts));
            let mut rest = DocumentBlock::default();
            records[records.len() - last..].iter().for_each(|record| rest.push_record(record));
            live = rest;
            self.add(packed, &mut entries)?;
        }
        let records: Vec<_> = live.records().collect();
        self.add(pack_documents(&records, self.sizes.block_bytes), &mut entries)?;
        self.edit.state.documents = self.level(DOCUMENTS_PLACE, entries);
        Ok(())
    }

    /// Writes blocks, and adds their entries to those of their level.
    fn add<R: SetRow>(&mut self, packed: Vec<Packed<R>>, entries: &mut Vec<Entry<R>>) -> Result<()> {
        for block in packed {
            self.waiting += block.bytes.len();
            entries.push(self.edit.add_block(block));
            if self.waiting >= BYTES_PER_TRANSACTION {
                self.flush()?;
            }
        }
        (self.progress)(self.done, self.all);
        Ok(())
    }

    /// The level of some entries, whose directory is written with the next flush.
    fn level<R: SetRow>(&mut self, place: u16, entries: Vec<Entry<R>>) -> Arc<Level<R>> {
        let (level, chunks) = cut_into_chunks(place, entries, self.sizes.chunk_entries);
        self.edit.chunks.extend(chunks);
        Arc::new(level)
    }

    /// Commits what was added since the last time. The state that goes with it is whole only at the end, when the file
    /// gets its name.
    fn flush(&mut self) -> Result<()> {
        self.engine.apply(&self.edit)?;
        self.edit.blocks.clear();
        self.edit.chunks.clear();
        self.waiting = 0;
        Ok(())
    }
}

/// Reads every block of a new copy, and compares how many rows there are with what they were copied from.
pub(super) fn verify(copied: &View, original: &View) -> Result<()> {
    let (new, old) = (copied.state(), original.state());
    for number in new.sets.numbers() {
        match number {
            SetNumber::Wide(_) => {
                read_all(u128::set(&new.sets, number).levels.first(), "keys", copied.blocks())?;
            }
            SetNumber::Narrow(_) => {
                read_all(u64::set(&new.sets, number).levels.first(), "permuted", copied.blocks())?;
            }
        }
    }
    let documents = &new.documents;
    for entry in documents.entries(documents.find(0)) {
        copied.blocks().documents_once(entry)?;
    }
    let counted = (new.documents.rows().0, new.sets.rows(SetNumber::Wide(0)));
    if new.counters == old.counters && counted == (old.counters.documents(), old.counters.documents()) {
        return Ok(());
    }
    let problem = "the copy does not have as many documents as the database counts; check the database";
    Err(Error::Damaged { table: "meta", key: "documents".to_owned(), problem })
}

fn read_all<R: SetRow>(slot: Option<&Slot<R>>, set: &'static str, blocks: &Blocks) -> Result<()> {
    let Some(slot) = slot else { return Ok(()) };
    for entry in slot.level.entries(slot.level.find(R::MIN)) {
        blocks.rows_once(set, entry)?;
    }
    Ok(())
}

/// Puts a finished copy under its name.
pub(super) fn persist(temporary: NamedTempFile, target: &Path, replace: bool) -> Result<()> {
    let named = if replace { temporary.persist(target) } else { temporary.persist_noclobber(target) };
    named.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: target.to_owned() },
        _ => Error::Io { path: target.to_owned(), source: error.error },
    })
}

/// What a copy holds, read from its file.
pub(super) fn copy_view(copied: &Arc<super::OpenFile>, original: &View) -> Result<View> {
    guarded(|| {
        let txn = copied.engine.begin_read()?;
        let state = super::load::state(&txn, &original.settings().plan)?;
        let cache = original.blocks().cache.clone();
        View::new(copied, &txn, state, original.settings().clone(), cache)
    })
}
