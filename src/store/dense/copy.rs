//! A dense copy of what is committed: one level for each set, full blocks, nothing deleted, an empty log. It has
//! the same permuted tables, or those of another plan. Compaction replaces the file by it. A backup puts it beside
//! the file.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::bulk::{Bulk, DocumentsWriter};
use super::sort::Sorter;
use crate::error::{Error, Result};
use crate::files::{
    NewFile, Temporary, absolute_file, available_bytes, directory_of, ensure_nothing_at,
    is_same_file, names_of, sync_file, sync_name,
};
use crate::plan::{Permuted, Plan, Table};
use crate::planted::planted;
use crate::store::blocks::{BlockCache, Lists};
use crate::store::engine::OpenFile;
use crate::store::file::{
    COPIED, KEYS, Set, SetRow, Settings, Shared, SourceRows, View, by_row, permuted,
};
use crate::store::sizes::{PAGE_BYTES, Sizes};
use crate::store::sorted_set::SetLevel;

/// Called with the number of rows copied so far, and the number of all rows. When it breaks, nothing is copied.
pub(crate) type CopyProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// The memory that a copy may take, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    /// For the pages of its engine.
    engine: usize,
    /// For sorting the rows of tables that are new.
    sorting: usize,
}

/// Makes a dense copy in the new file, which is in the directory of `target`, whole and synced. `settings` are
/// those of the copy. Returns its temporary name, the copy, and what has counted its rows.
fn copy<'a>(
    view: &View,
    settings: &Settings,
    new: NewFile,
    target: &Path,
    sizes: &Sizes,
    memory: Memory,
    progress: CopyProgress<'a>,
) -> Result<(Temporary, Arc<OpenFile>, Counter<'a>)> {
    let directory = directory_of(target)?;
    ensure_room(view, &settings.plan, directory, sizes)?;
    let mut counter = Counter::new(progress);
    let bulk = Bulk::new(new, target, settings, memory.engine, sizes)?;
    let copy = Copy {
        view,
        settings,
        directory,
        sorting: memory.sorting,
    };
    let (temporary, open) = copy.write(bulk, &mut counter)?;
    Ok((temporary, open, counter))
}

/// The most bytes that a block of one document takes.
const MAX_ALONE_BYTES: u64 = 128 << 10;

/// Refuses a copy for which the disk has no room.
fn ensure_room(view: &View, plan: &Plan, directory: &Path, sizes: &Sizes) -> Result<()> {
    let failed = Error::io(directory);
    let available = available_bytes(directory).map_err(&failed)?;
    // A copied block takes no more than a full block. But a block of one document may take more.
    let documents = &view.state().documents;
    let entries = documents.entries(documents.all(), view.document_blocks())?;
    let alone = entries.filter(|entry| entry.puts == 1).count() as u64;
    let rows = view.state().sets.blocks(sizes.block_bytes) * (sizes.block_bytes as u64 + 16);
    let most = rows + documents.blocks() as u64 * PAGE_BYTES as u64 + alone * MAX_ALONE_BYTES;
    // The engine's own pages are added. What is copied takes no more than it does now.
    let copied = most.min(view.file().metadata().map_err(&failed)?.len()) / 16 * 17 + (4 << 20);
    // A new table takes up to 8 bytes a row. Sorting takes the same once more.
    let old = &view.settings().plan;
    let new = plan
        .tables()
        .iter()
        .filter(|table| table_of(table, old).is_none())
        .count() as u64;
    let table = 8 * view.state().sets.rows(permuted(0));
    let needed = copied + table * (new + u64::from(new > 0));
    if available < needed {
        return Err(Error::NoRoom {
            directory: directory.to_owned(),
            needed,
            available,
        });
    }
    Ok(())
}

/// The number of the table with the same order of bits in a plan, if there is one.
fn table_of(table: &Table, plan: &Plan) -> Option<usize> {
    let positions = table.positions();
    plan.tables()
        .iter()
        .position(|other| other.positions() == positions)
}

/// A copy that is being made.
struct Copy<'a> {
    view: &'a View,
    settings: &'a Settings,
    directory: &'a Path,
    sorting: usize,
}

impl Copy<'_> {
    fn write(
        &self,
        mut bulk: Bulk<'_>,
        counter: &mut Counter<'_>,
    ) -> Result<(Temporary, Arc<OpenFile>)> {
        let old = self.view.state();
        bulk.edit.state.counters = old.counters;
        // The cache may still hold blocks of the old file. So the copy has other numbers for its blocks.
        bulk.edit.state.next_block = old.next_block;
        counter.expect(old.documents.rows().0);
        self.write_sets(&mut bulk, counter)?;
        self.write_documents(&mut bulk, counter)?;
        bulk.edit.add_scopes(self.view.all_scopes()?);
        bulk.edit.put_sources(SourceRows::copied(
            &self.view.sources()?,
            self.settings.file,
        ));
        bulk.finish()
    }

    /// Writes one level for each set.
    fn write_sets(&self, bulk: &mut Bulk<'_>, counter: &mut Counter<'_>) -> Result<()> {
        let old = self.view.state();
        let plan = &self.settings.plan;
        let mut rows = old.sets.rows(permuted(0)) * plan.tables().len() as u64;
        for set in COPIED {
            rows += by_row!(set, set => old.sets.rows(set));
        }
        counter.expect(rows);
        for set in COPIED {
            by_row!(set, set => copy_set(self.view, set, set, bulk, counter)?);
        }
        for (number, table) in plan.tables().iter().enumerate() {
            match table_of(table, &self.view.settings().plan) {
                Some(old) => {
                    copy_set(self.view, permuted(old), permuted(number), bulk, counter)?;
                }
                None => self.sort_table(table, permuted(number), bulk, counter)?,
            }
        }
        Ok(())
    }

    /// Writes the documents that are not dead.
    fn write_documents(&self, bulk: &mut Bulk<'_>, counter: &mut Counter<'_>) -> Result<()> {
        let mut writer = DocumentsWriter::new(bulk);
        let mut next = 0;
        while let Some((last, live)) = self.view.stored_documents(next)? {
            next = last + 1;
            let live = live?;
            for document in live.iter() {
                writer.documents.push_copy(&document);
            }
            counter.add(live.iter().count())?;
            writer.write_full(bulk)?;
        }
        writer.finish(bulk)
    }

    /// Makes a table that the old file does not have, from the fingerprints of the first table that it has.
    fn sort_table(
        &self,
        table: &Table,
        to: Set<u64>,
        bulk: &mut Bulk<'_>,
        counter: &mut Counter<'_>,
    ) -> Result<()> {
        let known = self.view.settings().plan.scan_table();
        let mut sorter = Sorter::new(self.directory, self.sorting / size_of::<u64>());
        let reader = self.view.set(permuted(0));
        for range in reader.parts()? {
            counter.go_on()?;
            for row in reader.rows(&range)? {
                let fingerprint = known.invert(Permuted::from_bits(row));
                sorter.push(table.apply(fingerprint).bits())?;
            }
        }
        bulk.write_set(to, |write| {
            sorter.finish(|rows| {
                counter.add(rows.len())?;
                write(rows)
            })
        })
    }
}

/// Counts the rows that were copied, for the caller's progress, and hears when the caller wants no more.
pub(super) struct Counter<'a> {
    done: u64,
    all: u64,
    progress: CopyProgress<'a>,
}

impl<'a> Counter<'a> {
    pub(super) fn new(progress: CopyProgress<'a>) -> Self {
        Self {
            done: 0,
            all: 0,
            progress,
        }
    }

    /// So many rows more are to be copied.
    pub(super) fn expect(&mut self, rows: u64) {
        self.all += rows;
    }

    pub(super) fn add(&mut self, rows: usize) -> Result<()> {
        self.done += rows as u64;
        self.go_on()
    }

    /// Tells the caller the same again. It is an error if the caller wants no more.
    pub(super) fn go_on(&mut self) -> Result<()> {
        Error::if_broken((self.progress)(self.done, self.all))
    }
}

fn copy_set<R: SetRow>(
    view: &View,
    from: Set<R>,
    to: Set<R>,
    bulk: &mut Bulk<'_>,
    counter: &mut Counter<'_>,
) -> Result<()> {
    let reader = view.set(from);
    bulk.write_set(to, |write| {
        for range in reader.parts()? {
            let rows = reader.rows(&range)?;
            write(&rows)?;
            counter.add(rows.len())?;
        }
        Ok(())
    })
}

/// A view of a new copy, read from its file. Every block is read, and the numbers of rows are compared with those of
/// the original, if there is one. Asks `counter` now and then whether to go on.
pub(super) fn verified(
    copy: &Arc<OpenFile>,
    settings: Settings,
    cache: Arc<BlockCache>,
    original: Option<&View>,
    counter: &mut Counter<'_>,
) -> Result<View> {
    let view = View::new(copy, None, Arc::new(settings), cache)?;
    if planted("a copy is not read back") {
        return Ok(view);
    }
    let new = view.state();
    for set in new.sets.sets() {
        by_row!(set, set => read_all(&view, set, counter)?);
    }
    let documents = &new.documents;
    let blocks = view.document_blocks();
    for entry in documents.entries(documents.all(), blocks)? {
        blocks.documents_once(entry)?;
        counter.go_on()?;
    }
    let counters = original.unwrap_or(&view).state().counters;
    let documents = counters.documents;
    if new.counters != counters
        || new.documents.rows().0 != documents
        || new.sets.rows(KEYS) != documents
    {
        let problem =
            "the copy does not have as many documents as the database counts; check the database";
        return Err(Error::damaged("meta", "documents", problem));
    }
    let fingerprints = new.sets.rows(permuted(0));
    for table in 0..view.settings().plan.tables().len() {
        if new.sets.rows(permuted(table)) != fingerprints {
            let problem =
                "not all tables of the copy have as many fingerprints; check the database";
            return Err(Error::damaged("permuted", "fingerprints", problem));
        }
    }
    Ok(view)
}

fn read_all<R: SetRow>(view: &View, set: Set<R>, counter: &mut Counter<'_>) -> Result<()> {
    let blocks = view.blocks().of_table(set.table());
    let mut rows = Lists::default();
    for SetLevel { level, .. } in &view.state().sets[set].levels {
        for entry in level.entries(level.all(), blocks)? {
            blocks.read_rows(entry, &mut rows)?;
            rows.clear();
            counter.go_on()?;
        }
    }
    Ok(())
}

/// The most memory for sorting. With more, little is gained.
const MOST_SORTING_BYTES: usize = 1 << 30;

/// Makes the copy, with the tables of `plan` if there is one, and replaces the file by it. The caller
/// makes sure that nobody commits. Snapshots go on with the old file. Its space is free when the last of
/// them is gone.
pub(crate) fn compact(
    shared: &Shared,
    plan: Option<Plan>,
    progress: CopyProgress<'_>,
) -> Result<()> {
    let failed = Error::io(&shared.path);
    let target = &shared.target;
    ensure_in_place(shared)?;
    let view = shared.view()?;
    let mut settings = view.settings().for_another_file();
    if let Some(plan) = plan {
        settings.plan = plan;
    }
    // Only readers need the rest of the memory meanwhile.
    let sorting = (shared.limit.own_bytes() / 2).min(MOST_SORTING_BYTES);
    let memory = Memory {
        engine: shared.limit.page_cache_bytes(),
        sorting,
    };
    let new = NewFile::replacing(target, view.file())?;
    let (temporary, open, mut counter) = copy(
        &view,
        &settings,
        new,
        target,
        &shared.sizes,
        memory,
        progress,
    )?;
    let cache = view.blocks().cache.clone();
    let copied = verified(&open, settings, cache, Some(&view), &mut counter)?;
    // Somebody may have changed the mode meanwhile.
    open.file
        .set_permissions(view.file().metadata().map_err(&failed)?.permissions())
        .map_err(&failed)?;
    put_in_place(shared, temporary, &open, copied)
}

/// Puts the copy in the place of the file. `copied` is what it holds.
fn put_in_place(shared: &Shared, new: Temporary, open: &Arc<OpenFile>, copied: View) -> Result<()> {
    let failed = Error::io(&shared.path);
    ensure_in_place(shared)?;
    new.replace(&shared.target)?;
    // From here on the path names the copy, so every handle must use it.
    shared.swap(open.clone(), copied);
    if planted("a compaction syncs nothing after its rename") {
        return Ok(());
    }
    // Some file systems ask for the first sync too, since the file had no name when it was synced.
    sync_file(&open.file).map_err(&failed)?;
    sync_name(&shared.target).map_err(|error| match error {
        Error::Io { source, .. } => Error::Io {
            path: shared.path.clone(),
            source,
        },
        error => error,
    })
}

/// Refuses to replace a file that is not the open one, or has another name, which would go on to be the old
/// file.
fn ensure_in_place(shared: &Shared) -> Result<()> {
    let failed = Error::io(&shared.target);
    let view = shared.view()?;
    let metadata = view.file().metadata().map_err(&failed)?;
    if !is_same_file(&metadata, &fs::metadata(&shared.target).map_err(&failed)?) {
        let reason =
            "another file stands there since this one was opened; open that one, or move it away";
        return Err(failed(io::Error::other(reason)));
    }
    match names_of(view.file()).map_err(&failed)? {
        0 | 1 => Ok(()),
        names => Err(Error::SeveralNames {
            path: shared.path.clone(),
            names,
        }),
    }
}

/// The copy is not used after it is made, so a small cache is enough.
const MEMORY: Memory = Memory {
    engine: 16 << 20,
    sorting: 64 << 20,
};

/// Makes a dense copy at `path`, where nothing may be yet.
pub(crate) fn backup(
    view: &View,
    path: &Path,
    sizes: &Sizes,
    progress: CopyProgress<'_>,
) -> Result<()> {
    ensure_nothing_at(path)?;
    let path = &absolute_file(path).map_err(Error::io(path))?;
    let settings = view.settings().for_another_file();
    let new = NewFile::copy_of(directory_of(path)?, view.file())?;
    let (temporary, open, mut counter) = copy(view, &settings, new, path, sizes, MEMORY, progress)?;
    // The file may have given the same numbers to other blocks. So the copy has a cache of its own.
    let cache = Arc::new(BlockCache::new(0));
    verified(&open, settings, cache, Some(view), &mut counter).map_err(Error::of_file(path))?;
    temporary.keep_as(path)
}
