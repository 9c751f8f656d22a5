//! A dense copy of what is committed: one level per set, full blocks, nothing deleted. Compaction puts it in the place of
//! the file, a backup beside it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tempfile::NamedTempFile;

use super::block::Lists;
use super::blocks::Blocks;
use super::bulk::{Bulk, DocumentsWriter, NewFile, SetWriter};
use super::cache::BlockCache;
use super::engine::Engine;
use super::guard::{Guarded, guarded};
use super::read::View;
use super::shared::OpenFile;
use super::sorted_set::{SetReader, SortedSet};
use super::state::{SetNumber, SetRow, State};
use super::{Sizes, directory_of, opening, sync_directory};
use crate::error::{Error, Result};

/// What is told of how far a copy has come: rows done, and rows in all.
pub(crate) type CopyProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// What the engine may keep of the pages of a copy that nobody goes on to work with.
pub(super) const ENGINE_CACHE_BYTES: usize = 16 << 20;

/// Makes a dense copy in the directory of `target`, whole and synced, under a temporary name. Its engine keeps so many bytes
/// of pages in memory.
pub(super) fn copy(
    view: &View,
    target: &Path,
    sizes: &Sizes,
    engine_cache_bytes: usize,
    progress: CopyProgress<'_>,
) -> Result<NewFile> {
    let directory = directory_of(target)?;
    ensure_room(view, directory, sizes)?;
    guarded(|| {
        let new = NewFile::create(directory, view.settings(), engine_cache_bytes)?;
        write_copy(view, &new.engine, sizes, progress)?;
        new.file.sync_all().map_err(|source| Error::Io { path: target.to_owned(), source })?;
        Ok(new)
    })
}

/// What a block of one document may take.
const MAX_ALONE_BYTES: u64 = 128 << 10;

/// Refuses to begin what the disk has no room for.
fn ensure_room(view: &View, directory: &Path, sizes: &Sizes) -> Result<()> {
    let failed = |source: io::Error| Error::Io { path: directory.to_owned(), source };
    let available = fs4::available_space(directory).map_err(failed)?;
    // A block is copied to no more than it takes when full; but one document alone may take more.
    let documents = &view.state().documents;
    let alone = documents.entries(documents.all()).filter(|entry| entry.puts == 1).count() as u64;
    let rows = view.state().sets.blocks(sizes.block_bytes) * (sizes.block_bytes as u64 + 16);
    let most = rows + documents.blocks() as u64 * 4096 + alone * MAX_ALONE_BYTES;
    // The engine's own pages come on top. What is copied takes no more than it does now.
    let needed = most.min(view.file_bytes().map_err(failed)?) / 16 * 17 + (4 << 20);
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
    let mut done = 0;
    let mut told = |rows: usize| {
        done += rows as u64;
        progress(done, all);
    };
    let mut bulk = Bulk::new(engine, sizes, state);
    for number in old.sets.numbers() {
        match number {
            SetNumber::Wide(_) => copy_set::<u128>(view, number, &mut bulk, &mut told)?,
            // In the copy nothing is dead.
            SetNumber::Narrow(0) => {}
            SetNumber::Narrow(_) => copy_set::<u64>(view, number, &mut bulk, &mut told)?,
        }
    }
    let mut writer = DocumentsWriter::new();
    let mut next = 0;
    while let Some(stored) = view.stored_documents(next)? {
        next = stored.next;
        stored.live().for_each(|record| writer.documents.push_record(&record));
        told(stored.live().count());
        writer.settle(&mut bulk)?;
    }
    writer.finish(&mut bulk)?;
    bulk.edit.scopes = view.scope_rows()?;
    bulk.flush()
}

fn copy_set<R: SetRow>(
    view: &View,
    number: SetNumber,
    bulk: &mut Bulk<'_>,
    told: &mut impl FnMut(usize),
) -> Result<()> {
    let set = R::set(&view.state().sets, number);
    let reader = SetReader { set, overlay: None, blocks: view.blocks() };
    let mut writer = SetWriter::new(number, bulk);
    for range in reader.parts() {
        let rows = reader.rows(&range)?;
        writer.push(bulk, &rows)?;
        told(rows.len());
    }
    writer.finish(bulk)
}

/// Reads every block of a new copy, and compares how many rows there are with what they were copied from.
pub(super) fn verify(copied: &View, original: &View) -> Result<()> {
    let (new, old) = (copied.state(), original.state());
    for number in new.sets.numbers() {
        match number {
            SetNumber::Wide(_) => {
                read_all(u128::set(&new.sets, number), copied.blocks())?;
            }
            SetNumber::Narrow(_) => {
                read_all(u64::set(&new.sets, number), copied.blocks())?;
            }
        }
    }
    let documents = &new.documents;
    for entry in documents.entries(documents.all()) {
        copied.blocks().documents_once(entry)?;
    }
    let counted = (new.documents.rows().0, new.sets.rows(SetNumber::Wide(0)));
    if new.counters == old.counters && counted == (old.counters.documents(), old.counters.documents()) {
        return Ok(());
    }
    let problem = "the copy does not have as many documents as the database counts; check the database";
    Err(Error::Damaged { table: "meta", key: "documents".to_owned(), problem })
}

fn read_all<R: SetRow>(set: &SortedSet<R>, blocks: &Blocks) -> Result<()> {
    let mut rows = Lists::default();
    for entry in set.levels.iter().flat_map(|slot| slot.level.entries(slot.level.all())) {
        blocks.append_rows(set.name, entry, &mut rows)?;
        rows.puts.clear();
        rows.marks.clear();
    }
    Ok(())
}

/// Makes a dense copy at `path`, where nothing may stand yet.
pub(super) fn backup(view: &View, path: &Path, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists { path: path.to_owned() });
    }
    let NewFile { temporary, engine, file } = copy(view, path, sizes, ENGINE_CACHE_BYTES, progress)?;
    let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
    // Numbers of its blocks may be those of other blocks in the file, so that it has a cache of its own.
    verify(&copy_view(&open, view, Arc::new(BlockCache::new(0)))?, view)?;
    persist(temporary, path, false)?;
    sync_directory(directory_of(path)?).map_err(|source| Error::Io { path: path.to_owned(), source })
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
pub(super) fn copy_view(copied: &Arc<OpenFile>, original: &View, cache: Arc<BlockCache>) -> Result<View> {
    guarded(|| {
        let txn = copied.engine.begin_read()?;
        let state = opening::state(&txn, &original.settings().plan)?;
        View::new(copied, &txn, state, original.settings().clone(), cache)
    })
}
