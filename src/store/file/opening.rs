//! Reading a file at its opening: what it says of itself, its directories, and the log that memory is rebuilt from.

use std::path::Path;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable};

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::store::blocks::packed::Row;
use crate::store::engine::tables::{BLOCKS, DIRECTORY, LOG, META, engine_error};
use crate::store::file::log;
use crate::store::file::meta::{self, Settings};
use crate::store::file::state::{
    DOCUMENTS_PLACE, SetNumber, SetRow, State, StoredLevel, StoredSet, StoredState,
};
use crate::store::sorted_set::chunk::{Chunk, ChunkKey};
use crate::store::sorted_set::level::Level;
use crate::store::sorted_set::overlay::Overlays;
use crate::store::sorted_set::reader::{Slot, SortedSet};

/// Checks the format of a file, then reads its settings.
pub(crate) fn settings(txn: &ReadTransaction, path: &Path) -> Result<Settings> {
    match meta_row(txn, meta::FORMAT) {
        // A file of the same engine that belongs to another program.
        Ok(None) => return Err(Error::NotSimdb { path: path.to_owned() }),
        Ok(Some(format)) => meta::check_format(&format)?,
        Err(error) => return Err(error),
    }
    let settings = meta_row(txn, meta::SETTINGS)?;
    meta::decode_settings(&settings.ok_or_else(|| meta::damaged(meta::SETTINGS, "it is missing"))?)
}

/// A row of the meta table, or `None` where there is none or no such table.
fn meta_row(txn: &ReadTransaction, name: &str) -> Result<Option<Vec<u8>>> {
    let table = match txn.open_table(META) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(engine_error(error)),
    };
    Ok(table.get(name).map_err(engine_error)?.map(|row| row.value().to_vec()))
}

/// Reads everything that is kept in memory.
pub(crate) fn state(txn: &ReadTransaction, plan: &Plan) -> Result<State> {
    let bytes = meta_row(txn, meta::STATE)?.ok_or_else(|| meta::damaged(meta::STATE, "it is missing"))?;
    let stored = State::decode(plan, meta::row(meta::STATE), &bytes)
        .map_err(|problem| meta::damaged(meta::STATE, problem))?;
    let StoredState { mut state, documents_sum, sets } = stored;
    state.documents = Arc::new(level(txn, DOCUMENTS_PLACE, documents_sum)?);
    let impossible = |problem| Err(meta::damaged(meta::STATE, problem));
    if state.documents.last().is_some_and(|last| last.high >= state.counters.next_document) {
        return impossible("its next document is there already");
    }
    let blocks = txn.open_table(BLOCKS).map_err(engine_error)?;
    if blocks.last().map_err(engine_error)?.is_some_and(|(last, _)| last.value() >= state.next_block) {
        return impossible("its next block is there already");
    }
    if state.next_block > u64::MAX / 2 {
        return impossible("its next block has an impossible number");
    }
    for (number, stored) in state.sets.numbers().zip(&sets) {
        match number {
            SetNumber::Wide(_) => load_levels::<u128>(txn, number, stored, &mut state)?,
            SetNumber::Narrow(_) => load_levels::<u64>(txn, number, stored, &mut state)?,
        }
    }
    let (frozen, _) = replay(txn, plan, state.first_page..state.frozen_pages)?;
    state.sets.push(frozen.into_runs());
    state.sets.freeze();
    for (number, stored) in state.sets.numbers().zip(&sets) {
        match number {
            SetNumber::Wide(_) => trim_frozen(u128::set_mut(&mut state.sets, number), stored),
            SetNumber::Narrow(_) => trim_frozen(u64::set_mut(&mut state.sets, number), stored),
        }
    }
    let (recent, operations) = replay(txn, plan, state.frozen_pages..state.next_page)?;
    state.sets.push(recent.into_runs());
    state.recent_operations = operations;
    Ok(state)
}

fn load_levels<R: SetRow>(
    txn: &ReadTransaction,
    number: SetNumber,
    stored: &StoredSet,
    state: &mut State,
) -> Result<()> {
    let read = |&StoredLevel { number: level_number, next, sum }: &StoredLevel| {
        let level = Arc::new(level(txn, number.place(level_number), sum)?);
        Ok(Slot { number: level_number, next: R::from_number(next), level })
    };
    R::set_mut(&mut state.sets, number).levels = stored.levels.iter().map(read).collect::<Result<_>>()?;
    Ok(())
}

/// Takes from the frozen run what its first level had already.
fn trim_frozen<R: Row>(set: &mut SortedSet<R>, stored: &StoredSet) {
    let rest = set.frozen.take().zip(stored.frozen_from).map(|(run, from)| run.from(R::from_number(from)));
    set.frozen = rest.filter(|run| run.len() > 0);
}

/// The directory of a level.
fn level<R: Row>(txn: &ReadTransaction, place: u16, sum: u64) -> Result<Level<R>> {
    let table = txn.open_table(DIRECTORY).map_err(engine_error)?;
    let mut chunks = Vec::new();
    let mut last = None;
    for row in table.range((place, 0)..=(place, u128::MAX)).map_err(engine_error)? {
        let (key, bytes) = row.map_err(engine_error)?;
        let key = key.value();
        let chunk = Chunk::<R>::decode(key, bytes.value()).map_err(|problem| damaged(key, problem))?;
        if last.is_some_and(|last| last >= chunk.first_high()) {
            return Err(damaged(key, "it overlaps the one before"));
        }
        last = Some(chunk.high());
        chunks.push(Arc::new(chunk));
    }
    let level = Level::new(chunks);
    if level.sum() == sum {
        Ok(level)
    } else {
        Err(damaged((place, 0), "the directory of this level is not the one of the last commit"))
    }
}

fn damaged((place, high): ChunkKey, problem: &'static str) -> Error {
    let key = format!("set {}, level {}, up to {high:x}", place >> 8, place & 0xff);
    Error::Damaged { table: "directory", key, problem }
}

/// What some pages of the log did, and how many operations they have.
fn replay(txn: &ReadTransaction, plan: &Plan, pages: std::ops::Range<u64>) -> Result<(Overlays, u64)> {
    let mut overlays = Overlays::new(plan);
    let mut operations = 0;
    let table = txn.open_table(LOG).map_err(engine_error)?;
    for page in pages {
        let damaged = |problem| Error::Damaged { table: "log", key: page.to_string(), problem };
        let bytes = table.get(page).map_err(engine_error)?.ok_or_else(|| damaged("it is missing"))?;
        for operation in log::decode(page, bytes.value()).map_err(damaged)? {
            overlays.apply(&operation, plan);
            operations += 1;
        }
    }
    Ok((overlays, operations))
}
