//! Opening a file: its settings, its directories, and the log, from which the rows in memory are made
//! again. Also the first rows of a new file.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::log;
use super::meta::{self, Settings};
use super::operation::Operation;
use super::overlays::runs_of;
use super::schema::{DOCUMENTS, Set, SetRow, block_tables, by_row};
use super::state::{State, StoredDirectory, StoredLevel, StoredSet, StoredState};
use crate::error::{Error, Result};
use crate::files::NewFile;
use crate::store::blocks::{Row, share_of_sum};
use crate::store::engine::{BlockTable, Engine, FirstRows, LevelName, MetaRow, ReadTxn};
use crate::store::sorted_set::{Level, Outline, SetLevel, SortedSet, decode_summary};

/// The tables of blocks of a file, and the rows of the table meta in its first commit.
pub(crate) fn first_rows(settings: &Settings) -> (&'static [BlockTable], [MetaRow; 3]) {
    let meta = [
        (meta::FORMAT, meta::encode_format(settings.file)),
        (meta::SETTINGS, meta::encode_settings(settings)),
        (
            meta::STATE,
            State::new(&settings.plan).encode(settings.file),
        ),
    ];
    (block_tables(settings.plan.tables().len()), meta)
}

/// Makes an empty database of a new file in `directory`.
pub(crate) fn create(
    new: &NewFile,
    directory: &Path,
    settings: &Settings,
    page_cache_bytes: usize,
) -> Result<Engine> {
    let (block_tables, meta) = first_rows(settings);
    let first = FirstRows {
        block_tables,
        meta: &meta,
    };
    Engine::create(new, directory, page_cache_bytes, &first)
}

/// The most pages that are removed some at a time after opening. A damaged number of a page could otherwise
/// cause many commits that remove nothing.
const MOST_OLD_PAGES: u64 = 1 << 14;

/// Checks the format of a file, then reads its settings.
pub(crate) fn read_settings(txn: &ReadTxn, path: &Path) -> Result<Settings> {
    // Without this row, the file has the same engine, but belongs to another program.
    let format = txn.meta(meta::FORMAT)?.ok_or_else(|| Error::NotSimdb {
        path: path.to_owned(),
    })?;
    let file = meta::check_format(&format)?;
    let settings = txn.meta(meta::SETTINGS)?;
    meta::decode_settings(
        file,
        &settings.ok_or_else(|| meta::damaged(meta::SETTINGS, "it is missing"))?,
    )
}

/// Reads the state: everything that is kept in memory.
pub(crate) fn read_state(txn: &ReadTxn, settings: &Settings) -> Result<State> {
    let damaged = |problem| meta::damaged(meta::STATE, problem);
    let bytes = txn
        .meta(meta::STATE)?
        .ok_or_else(|| damaged("it is missing"))?;
    let stored = State::decode(settings.file, &settings.plan, &bytes).map_err(damaged)?;
    let StoredState {
        mut state,
        documents,
        sets,
    } = stored;
    let opening = Opening { txn, settings };
    state.documents = Arc::new(opening.read_level(DOCUMENTS, &documents)?);
    if state
        .documents
        .high()
        .is_some_and(|last| last >= state.counters.next_document)
    {
        return Err(damaged("its next document is there already"));
    }
    for (set, stored) in state.sets.sets().zip(&sets) {
        by_row!(set, set => state.sets[set].levels = opening.read_levels(set, stored)?);
    }
    let frozen = opening.read_log(state.first_page..state.frozen_pages, state.log_sums.frozen)?;
    state.sets.push(runs_of(&frozen, &settings.plan), 0);
    drop(frozen);
    state.sets.freeze();
    for (set, stored) in state.sets.iter_mut().zip(&sets) {
        by_row!(set, set => trim_frozen(set, stored));
    }
    let recent = opening.read_log(state.frozen_pages..state.next_page, state.log_sums.recent)?;
    state.sets.push(runs_of(&recent, &settings.plan), 0);
    state.recent_operations = recent.len() as u64;
    let (oldest, last) = txn.ends_of_log()?.unwrap_or((state.first_page, 0));
    // A state record of an older commit would leave out the newest pages.
    if last >= state.next_page {
        return Err(damaged("the log has pages that it does not know"));
    }
    // Whatever is older goes with the first pages that are removed.
    let least = state.first_page.saturating_sub(MOST_OLD_PAGES).max(1);
    state.oldest_page = oldest.max(least).min(state.first_page);
    Ok(state)
}

/// What is read when a file is opened.
struct Opening<'a> {
    txn: &'a ReadTxn,
    settings: &'a Settings,
}

impl Opening<'_> {
    fn read_levels<R: SetRow>(&self, set: Set<R>, stored: &StoredSet) -> Result<Vec<SetLevel<R>>> {
        let read = |StoredLevel {
                        number,
                        next,
                        directory,
                    }: &StoredLevel| {
            let level = Arc::new(self.read_level(set.level(*number), directory)?);
            Ok(SetLevel {
                number: *number,
                next: R::from_number(*next),
                level,
            })
        };
        stored.levels.iter().map(read).collect()
    }

    /// Reads the summaries of a level.
    fn read_level<R: Row>(&self, name: LevelName, stored: &StoredDirectory) -> Result<Level<R>> {
        let damaged = |last: u128, problem| {
            let key = format!("{}, level {}, up to {last:x}", name.table, name.number);
            Error::Damaged {
                table: "summaries",
                key,
                problem,
            }
        };
        let mut summaries = Vec::new();
        self.txn.summaries(name, |last, bytes| {
            let outlines = decode_summary::<R>(name, last, self.settings.file, bytes);
            summaries.push((
                outlines.map_err(|problem| damaged(last, problem))?,
                share_of_sum([bytes]),
            ));
            Ok(())
        })?;
        let level = Level::stored(name.number, summaries, stored.last.map(Outline::with_rows));
        if level.sum() != stored.sum {
            return Err(damaged(
                0,
                "the summaries of this level are not those of the last commit",
            ));
        }
        if !level.is_in_order() {
            return Err(damaged(0, "the chunks of this level are out of order"));
        }
        Ok(level)
    }

    /// Reads the operations of some pages of the log. The sum of the pages must be the one that the state
    /// record has.
    fn read_log(&self, pages: Range<u64>, wanted: u64) -> Result<Vec<Operation>> {
        let mut operations = Vec::new();
        let mut sum = 0u64;
        let damaged = |page: u64, problem| Error::Damaged {
            table: "log",
            key: page.to_string(),
            problem,
        };
        self.txn.log_pages(pages.clone(), |page, bytes| {
            let bytes = bytes.ok_or_else(|| damaged(page, "it is missing"))?;
            sum = sum.wrapping_add(share_of_sum([bytes]));
            log::decode_page(self.settings.file, page, bytes, &mut operations)
                .map_err(|problem| damaged(page, problem))
        })?;
        if sum != wanted {
            return Err(damaged(
                pages.start,
                "the pages from here on are not those of the last commit",
            ));
        }
        Ok(operations)
    }
}

/// Takes the rows that the first level has already out of the frozen run.
fn trim_frozen<R: Row>(set: &mut SortedSet<R>, stored: &StoredSet) {
    let Some(from) = stored.frozen_from else {
        return set.frozen.clear();
    };
    set.frozen
        .iter_mut()
        .for_each(|run| *run = run.from(R::from_number(from)));
    set.frozen.retain(|run| run.len() > 0);
}
