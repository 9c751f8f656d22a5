//! Rows of the engine that nothing refers to: blocks that no directory has, chunks that no level has, pages
//! beside the log. They change no answer now, but a chunk would if the number of its level came back. A
//! compaction leaves them behind.

use std::collections::BTreeMap;

use super::findings::Findings;
use crate::error::Result;
use crate::store::blocks::Row;
use crate::store::engine::LevelName;
use crate::store::file::{DOCUMENTS, View, by_row};
use crate::store::sorted_set::Level;

const STRAY: &str = "nothing refers to it; a compaction removes it";

/// For the id of each level, whether it has a chunk that ends with a row.
type Chunks<'a> = BTreeMap<u16, Box<dyn Fn(u128) -> bool + 'a>>;

/// Finds all rows that nothing refers to.
pub(super) fn find(view: &View, findings: &mut Findings) -> Result<()> {
    let state = view.state();
    let mut chunks = Chunks::new();
    blocks(view, DOCUMENTS, &[(0, &*state.documents)], &mut chunks, findings)?;
    for set in state.sets.sets() {
        by_row!(set, set => {
            let levels: Vec<_> = state.sets[set].levels.iter().map(|it| (it.number, &*it.level)).collect();
            blocks(view, set.level(0), &levels, &mut chunks, findings)?;
        });
    }
    let mut stray = Vec::new();
    let read = view.tables().chunk_keys(|(id, last)| {
        if !chunks.get(&id).is_some_and(|has_chunk| has_chunk(last)) {
            stray.push(format!("set {}, level {}, up to {last:x}", id >> 8, id & 0xff));
        }
    });
    add("directory", read, stray, findings)?;
    let mut stray = Vec::new();
    let read = view.tables().log_page_numbers(|page| {
        if !(state.first_page..state.next_page).contains(&page) {
            stray.push(page.to_string());
        }
    });
    add("log", read, stray, findings)
}

/// Finds the blocks of a table that none of its levels has. `name` is any level of the table.
fn blocks<'a, R: Row>(
    view: &View,
    name: LevelName,
    levels: &[(u8, &'a Level<R>)],
    chunks: &mut Chunks<'a>,
    findings: &mut Findings,
) -> Result<()> {
    let table = name.table;
    for &(number, level) in levels {
        let has_chunk = move |last| level.has_chunk(R::from_number(last));
        chunks.insert(LevelName { table, number }.id(), Box::new(has_chunk));
    }
    let wanted: usize = levels.iter().map(|it| it.1.blocks()).sum();
    let mut stray = Vec::new();
    let read = view.tables().block_count(table).and_then(|count| {
        // Blocks that are missing were found when they were read.
        if count <= wanted as u64 {
            return Ok(());
        }
        view.tables().block_keys(table, |number, last| {
            let row = R::from_number(last);
            let has = |level: &Level<R>| level.entry(level.find(row)).is_some_and(|entry| entry.high == row);
            if !levels.iter().any(|it| it.0 == number && has(it.1)) {
                stray.push(format!("{table}, level {number}, block up to {last:x}"));
            }
        })
    });
    add(table.name, read, stray, findings)
}

/// Adds strays of a table, and the damage that ended the search for them.
fn add(table: &'static str, read: Result<()>, stray: Vec<String>, findings: &mut Findings) -> Result<()> {
    stray.into_iter().for_each(|key| findings.add(table, key, STRAY));
    read.or_else(|error| findings.add_error(usize::MAX, table, error))
}
