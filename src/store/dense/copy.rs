//! A dense copy of what is committed: one level per set, full blocks, nothing deleted; with the same permuted tables, or those of another
//! plan. Compaction puts it in the place of the file, a backup beside it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::plan::{Permuted, Plan, Table};
use crate::store::blocks::cache::BlockCache;
use crate::store::blocks::packed::Lists;
use crate::store::blocks::reader::Blocks;
use crate::store::dense::bulk::{Bulk, DocumentsWriter, NewFile, SetWriter};
use crate::store::dense::sort::Sorter;
use crate::store::engine::guard::{Guarded, guarded};
use crate::store::engine::tables::Engine;
use crate::store::file::meta::Settings;
use crate::store::file::opening;
use crate::store::file::shared::OpenFile;
use crate::store::file::state::{SetNumber, SetRow, State};
use crate::store::read::View;
use crate::store::sorted_set::reader::{SetReader, SortedSet};
use crate::store::store::Sizes;
use crate::store::store::directory_of;
use crate::store::store::sync_directory;

/// What is told of how far a copy has come: rows done, and rows in all.
pub(crate) type CopyProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// How many bytes a copy may take.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    /// What its engine may keep of its pages.
    pub(crate) engine: usize,
    /// For sorting the rows of tables that are new.
    pub(crate) sorting: usize,
}

/// Of a copy that nobody goes on to work with.
const MEMORY: Memory = Memory { engine: 16 << 20, sorting: 64 << 20 };

/// Makes a dense copy in the directory of `target`, whole and synced, under a temporary name, with these settings: those of the original,
/// up to the plan.
pub(crate) fn copy(
    view: &View,
    settings: &Settings,
    target: &Path,
    sizes: &Sizes,
    memory: Memory,
    progress: CopyProgress<'_>,
) -> Result<NewFile> {
    let directory = directory_of(target)?;
    ensure_room(view, &settings.plan, directory, sizes)?;
    guarded(|| {
        let new = NewFile::create(directory, settings, memory.engine)?;
        let copy = Copy { view, plan: &settings.plan, directory, sorting: memory.sorting };
        copy.write(&new.engine, sizes, progress)?;
        new.file.sync_all().map_err(|source| Error::Io { path: target.to_owned(), source })?;
        Ok(new)
    })
}

/// What a block of one document may take.
const MAX_ALONE_BYTES: u64 = 128 << 10;

/// Refuses to begin what the disk has no room for.
fn ensure_room(view: &View, plan: &Plan, directory: &Path, sizes: &Sizes) -> Result<()> {
    let failed = |source: io::Error| Error::Io { path: directory.to_owned(), source };
    let available = fs4::available_space(directory).map_err(failed)?;
    // A block is copied to no more than it takes when full; but one document alone may take more.
    let documents = &view.state().documents;
    let alone = documents.entries(documents.all()).filter(|entry| entry.puts == 1).count() as u64;
    let rows = view.state().sets.blocks(sizes.block_bytes) * (sizes.block_bytes as u64 + 16);
    let most = rows + documents.blocks() as u64 * 4096 + alone * MAX_ALONE_BYTES;
    // The engine's own pages come on top. What is copied takes no more than it does now.
    let copied = most.min(view.file_bytes().map_err(failed)?) / 16 * 17 + (4 << 20);
    // A new table takes up to 8 bytes a row, and once as much to be sorted.
    let old = &view.settings().plan;
    let new = plan.tables().iter().filter(|table| place_of(table, old).is_none()).count() as u64;
    let table = 8 * view.state().sets.rows(SetNumber::Narrow(1));
    let needed = copied + table * (new + u64::from(new > 0));
    if available < needed {
        return Err(Error::NoRoom { directory: directory.to_owned(), needed, available });
    }
    Ok(())
}

/// The place among the tables of a plan of one that has the same permutation.
fn place_of(table: &Table, plan: &Plan) -> Option<usize> {
    let positions = table.permutation.positions();
    plan.tables().iter().position(|it| it.permutation.positions() == positions)
}

/// A copy in the making.
struct Copy<'a> {
    view: &'a View,
    plan: &'a Plan,
    directory: &'a Path,
    sorting: usize,
}

impl Copy<'_> {
    fn write(&self, engine: &Engine, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<()> {
        let old = self.view.state();
        let mut state = State::new(self.plan);
        state.counters = old.counters;
        // Numbers of blocks are those of no block of the old file, which the cache may still hold.
        state.next_block = old.next_block;
        let mut bulk = Bulk::new(engine, sizes, state);
        let tables = self.plan.tables().len();
        let wide = [0, 1].map(SetNumber::Wide);
        let rows = wide.iter().map(|&number| old.sets.rows(number)).sum::<u64>()
            + old.sets.rows(SetNumber::Narrow(1)) * tables as u64
            + old.documents.rows().0;
        let mut told = Told { done: 0, all: rows, progress };
        for number in wide {
            copy_set::<u128>(self.view, number, number, &mut bulk, &mut told)?;
        }
        // In the copy nothing is dead.
        for (place, table) in self.plan.tables().iter().enumerate() {
            let number = SetNumber::Narrow(1 + place);
            match place_of(table, &self.view.settings().plan) {
                Some(old) => {
                    copy_set::<u64>(self.view, SetNumber::Narrow(1 + old), number, &mut bulk, &mut told)?;
                }
                None => self.sort_table(table, number, &mut bulk, &mut told)?,
            }
        }
        let mut writer = DocumentsWriter::new();
        let mut next = 0;
        while let Some(stored) = self.view.stored_documents(next)? {
            next = stored.next;
            stored.live().for_each(|record| writer.documents.push_record(&record));
            told.more(stored.live().count());
            writer.settle(&mut bulk)?;
        }
        writer.finish(&mut bulk)?;
        bulk.edit.scopes = self.view.scope_rows()?;
        bulk.flush()
    }

    /// Makes a table that the old file does not have from the first that it has.
    fn sort_table(
        &self,
        table: &Table,
        to: SetNumber,
        bulk: &mut Bulk<'_>,
        told: &mut Told<'_>,
    ) -> Result<()> {
        let known = &self.view.settings().plan.tables()[0].permutation;
        let mut sorter = Sorter::new(self.directory, self.sorting / size_of::<u64>());
        let reader = set_reader::<u64>(self.view, SetNumber::Narrow(1));
        for range in reader.parts() {
            for row in reader.rows(&range)? {
                let fingerprint = known.invert(Permuted::from_bits(row));
                sorter.push(table.permutation.apply(fingerprint).bits())?;
            }
        }
        let mut writer = SetWriter::new(to, bulk);
        sorter.finish(|rows| {
            told.more(rows.len());
            writer.push(bulk, rows)
        })?;
        writer.finish(bulk)
    }
}

/// What is told of how far a copy has come.
struct Told<'a> {
    done: u64,
    all: u64,
    progress: CopyProgress<'a>,
}

impl Told<'_> {
    fn more(&mut self, rows: usize) {
        self.done += rows as u64;
        (self.progress)(self.done, self.all);
    }
}

fn set_reader<R: SetRow>(view: &View, number: SetNumber) -> SetReader<'_, R> {
    SetReader { set: R::set(&view.state().sets, number), overlay: None, blocks: view.blocks() }
}

fn copy_set<R: SetRow>(
    view: &View,
    from: SetNumber,
    to: SetNumber,
    bulk: &mut Bulk<'_>,
    told: &mut Told<'_>,
) -> Result<()> {
    let reader = set_reader::<R>(view, from);
    let mut writer = SetWriter::new(to, bulk);
    for range in reader.parts() {
        let rows = reader.rows(&range)?;
        writer.push(bulk, &rows)?;
        told.more(rows.len());
    }
    writer.finish(bulk)
}

/// Reads every block of a new copy, and compares how many rows there are with what they were copied from.
pub(crate) fn verify(copied: &View, original: &View) -> Result<()> {
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
    let damaged = |table, key: &str, problem| Err(Error::Damaged { table, key: key.to_owned(), problem });
    let counted = (new.documents.rows().0, new.sets.rows(SetNumber::Wide(0)));
    if new.counters != old.counters || counted != (old.counters.documents(), old.counters.documents()) {
        let problem = "the copy does not have as many documents as the database counts; check the database";
        return damaged("meta", "documents", problem);
    }
    let tables = copied.settings().plan.tables().len();
    let fingerprints = new.sets.rows(SetNumber::Narrow(1));
    if (1..=tables).any(|table| new.sets.rows(SetNumber::Narrow(table)) != fingerprints) {
        let problem = "not all tables of the copy have as many fingerprints; check the database";
        return damaged("permuted", "fingerprints", problem);
    }
    Ok(())
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
pub(crate) fn backup(view: &View, path: &Path, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists { path: path.to_owned() });
    }
    let settings = view.settings();
    let NewFile { temporary, engine, file } = copy(view, settings, path, sizes, MEMORY, progress)?;
    let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
    // Numbers of its blocks may be those of other blocks in the file, so that it has a cache of its own.
    verify(&copy_view(&open, settings.clone(), Arc::new(BlockCache::new(0)))?, view)?;
    persist(temporary, path, false)?;
    sync_directory(directory_of(path)?).map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// Puts a finished copy under its name.
pub(crate) fn persist(temporary: NamedTempFile, target: &Path, replace: bool) -> Result<()> {
    let named = if replace { temporary.persist(target) } else { temporary.persist_noclobber(target) };
    named.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: target.to_owned() },
        _ => Error::Io { path: target.to_owned(), source: error.error },
    })
}

/// What a copy holds, read from its file.
pub(crate) fn copy_view(
    copied: &Arc<OpenFile>,
    settings: Arc<Settings>,
    cache: Arc<BlockCache>,
) -> Result<View> {
    guarded(|| {
        let txn = copied.engine.begin_read()?;
        let state = opening::state(&txn, &settings.plan)?;
        View::new(copied, &txn, state, settings, cache)
    })
}
