//! Rows of the engine that nothing refers to: blocks that no directory has, chunks that no level has, pages
//! beside the log. They change no answer now, but a chunk would if the number of its level came back. A
//! compaction leaves them behind.

use std::collections::BTreeMap;

use super::findings::Findings;
use crate::error::{Error, Result};
use crate::store::blocks::Row;
use crate::store::engine::{ChunkKey, LevelName};
use crate::store::file::{DOCUMENTS, View, by_row};
use crate::store::sorted_set::Level;

const STRAY: &str = "nothing refers to it; a compaction removes it";

/// For the id of each level, whether it has a chunk and a summary that end with a row.
type Directories<'a> = BTreeMap<u16, Box<dyn Fn(u128) -> (bool, bool) + 'a>>;

/// Finds all rows that nothing refers to.
pub(super) fn find(view: &View, findings: &mut Findings) -> Result<()> {
    let state = view.state();
    let mut directories = Directories::new();
    blocks(
        view,
        DOCUMENTS,
        &[(0, &*state.documents)],
        &mut directories,
        findings,
    )?;
    for set in state.sets.sets() {
        by_row!(set, set => {
            let levels: Vec<_> = state.sets[set].levels.iter().map(|it| (it.number, &*it.level)).collect();
            blocks(view, set.level(0), &levels, &mut directories, findings)?;
        });
    }
    let ends = |(id, last): ChunkKey| {
        directories
            .get(&id)
            .map_or((false, false), |ends| ends(last))
    };
    let name =
        |(id, last): ChunkKey| format!("set {}, level {}, up to {last:x}", id >> 8, id & 0xff);
    let mut stray = Vec::new();
    let read = view
        .tables()
        .chunk_keys(|key| stray.extend((!ends(key).0).then(|| name(key))));
    add("directory", read, stray, findings)?;
    let mut stray = Vec::new();
    let read = view
        .tables()
        .summary_keys(|key| stray.extend((!ends(key).1).then(|| name(key))));
    add("summaries", read, stray, findings)?;
    let mut stray = Vec::new();
    let read = view.tables().log_page_numbers(|page| {
        // Pages before the first one may wait to be removed.
        if !(state.oldest_page..state.next_page).contains(&page) {
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
    directories: &mut Directories<'a>,
    findings: &mut Findings,
) -> Result<()> {
    let table = name.table;
    for &(number, level) in levels {
        let ends = move |last| {
            let last = R::from_number(last);
            (level.has_chunk(last), level.has_summary(last))
        };
        directories.insert(LevelName { table, number }.id(), Box::new(ends));
    }
    let of = view.blocks().of_table(table);
    let wanted: usize = levels.iter().map(|it| it.1.blocks()).sum();
    let mut stray = Vec::new();
    let read = view.tables().block_count(table).and_then(|count| {
        // Blocks that are missing were found when they were read.
        if count <= wanted as u64 {
            return Ok(());
        }
        view.tables().block_keys(table, |number, last| {
            let row = R::from_number(last);
            // All chunks were read before. So this does not fail.
            let has = |level: &Level<R>| {
                let position = level.find(row, of)?;
                Ok::<_, Error>(
                    level
                        .entry(position, of)?
                        .is_some_and(|entry| entry.high == row),
                )
            };
            if !levels
                .iter()
                .any(|it| it.0 == number && has(it.1).unwrap_or(true))
            {
                stray.push(format!("{table}, level {number}, block up to {last:x}"));
            }
        })
    });
    add(table.name, read, stray, findings)
}

/// Adds strays of a table, and the damage that ended the search for them.
fn add(
    table: &'static str,
    read: Result<()>,
    stray: Vec<String>,
    findings: &mut Findings,
) -> Result<()> {
    stray
        .into_iter()
        .for_each(|key| findings.add(table, key, STRAY));
    read.or_else(|error| findings.add_error(usize::MAX, table, error))
}
