//! Opening a file: its settings, its directories, and the log, from which the rows in memory are made
//! again. Also the first rows of a new file.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::log;
use super::meta::{self, Settings};
use super::overlays::Overlays;
use super::schema::{DOCUMENTS_LEVEL_ID, Set, SetRow, by_row};
use super::state::{State, StoredLevel, StoredSet, StoredState};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::store::blocks::Row;
use crate::store::engine::{ChunkKey, Engine, MetaRow, NewFile, ReadTxn};
use crate::store::sorted_set::{Chunk, Level, SetLevel, SortedSet};

/// The rows of the table meta in the first commit of a file.
pub(crate) fn first_rows(settings: &Settings) -> [MetaRow; 3] {
    [
        (meta::FORMAT, meta::encode_format()),
        (meta::SETTINGS, meta::encode_settings(settings)),
        (meta::STATE, State::new(&settings.plan).encode()),
    ]
}

/// Makes an empty database of a new file in `directory`.
pub(crate) fn create(
    new: &NewFile,
    directory: &Path,
    settings: &Settings,
    page_cache_bytes: usize,
) -> Result<Engine> {
    Engine::create(new, directory, page_cache_bytes, &first_rows(settings))
}

/// Checks the format of a file, then reads its settings.
pub(crate) fn read_settings(txn: &ReadTxn, path: &Path) -> Result<Settings> {
    match txn.meta(meta::FORMAT)? {
        // The file has the same engine, but belongs to another program.
        None => return Err(Error::NotSimdb { path: path.to_owned() }),
        Some(format) => meta::check_format(&format)?,
    }
    let settings = txn.meta(meta::SETTINGS)?;
    meta::decode_settings(&settings.ok_or_else(|| meta::damaged(meta::SETTINGS, "it is missing"))?)
}

/// Reads the state: everything that is kept in memory.
pub(crate) fn read_state(txn: &ReadTxn, plan: &Plan) -> Result<State> {
    let damaged = |problem| meta::damaged(meta::STATE, problem);
    let bytes = txn.meta(meta::STATE)?.ok_or_else(|| damaged("it is missing"))?;
    let StoredState { mut state, documents_sum, sets } = State::decode(plan, &bytes).map_err(damaged)?;
    state.documents = Arc::new(read_level(txn, DOCUMENTS_LEVEL_ID, documents_sum)?);
    ensure_possible(txn, &state)?;
    for (set, stored) in state.sets.sets().zip(&sets) {
        by_row!(set, set => state.sets[set].levels = read_levels(txn, set, stored)?);
    }
    let (frozen, _) = replay(txn, plan, state.first_page..state.frozen_pages)?;
    state.sets.push(frozen.into_runs());
    state.sets.freeze();
    for (set, stored) in state.sets.iter_mut().zip(&sets) {
        by_row!(set, set => trim_frozen(set, stored));
    }
    let (recent, operations) = replay(txn, plan, state.frozen_pages..state.next_page)?;
    state.sets.push(recent.into_runs());
    state.recent_operations = operations;
    Ok(state)
}

/// Refuses a state that would give a number of a document or of a block twice.
fn ensure_possible(txn: &ReadTxn, state: &State) -> Result<()> {
    let impossible = |problem| Err(meta::damaged(meta::STATE, problem));
    if state.documents.last().is_some_and(|last| last.high >= state.counters.next_document) {
        return impossible("its next document is there already");
    }
    if txn.last_block()?.is_some_and(|last| last >= state.next_block) {
        return impossible("its next block is there already");
    }
    if state.next_block > u64::MAX / 2 {
        return impossible("its next block has an impossible number");
    }
    Ok(())
}

fn read_levels<R: SetRow>(txn: &ReadTxn, set: Set<R>, stored: &StoredSet) -> Result<Vec<SetLevel<R>>> {
    let read = |&StoredLevel { number, next, sum }: &StoredLevel| {
        let level = Arc::new(read_level(txn, set.level_id(number), sum)?);
        Ok(SetLevel { number, next: R::from_number(next), level })
    };
    stored.levels.iter().map(read).collect()
}

/// Takes the rows that the first level has already out of the frozen run.
fn trim_frozen<R: Row>(set: &mut SortedSet<R>, stored: &StoredSet) {
    let rest = set.frozen.take().zip(stored.frozen_from).map(|(run, from)| run.from(R::from_number(from)));
    set.frozen = rest.filter(|run| run.len() > 0);
}

/// Reads the directory of a level.
fn read_level<R: Row>(txn: &ReadTxn, level_id: u16, sum: u64) -> Result<Level<R>> {
    let mut chunks = Vec::new();
    let mut last = None;
    txn.chunks(level_id, |key, bytes| {
        let chunk = Chunk::<R>::decode(key, bytes).map_err(|problem| damaged(key, problem))?;
        if last.is_some_and(|last| last >= chunk.first_high()) {
            return Err(damaged(key, "it overlaps the one before"));
        }
        last = Some(chunk.high());
        chunks.push(Arc::new(chunk));
        Ok(())
    })?;
    let level = Level::new(chunks);
    if level.sum() == sum {
        Ok(level)
    } else {
        Err(damaged((level_id, 0), "the directory of this level is not the one of the last commit"))
    }
}

fn damaged((level_id, high): ChunkKey, problem: &'static str) -> Error {
    let key = format!("set {}, level {}, up to {high:x}", level_id >> 8, level_id & 0xff);
    Error::Damaged { table: "directory", key, problem }
}

/// The rows that some pages of the log put and mark, and the number of operations in the pages.
fn replay(txn: &ReadTxn, plan: &Plan, pages: Range<u64>) -> Result<(Overlays, u64)> {
    let mut overlays = Overlays::new(plan);
    let mut operations = 0;
    txn.log_pages(pages, |page, bytes| {
        let damaged = |problem| Error::Damaged { table: "log", key: page.to_string(), problem };
        let bytes = bytes.ok_or_else(|| damaged("it is missing"))?;
        for operation in log::decode_page(page, bytes).map_err(damaged)? {
            overlays.apply(&operation, plan);
            operations += 1;
        }
        Ok(())
    })?;
    Ok((overlays, operations))
}
