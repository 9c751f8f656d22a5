//! Strays: what the tables of the engine have besides what the directories have: blocks that no directory has, chunks
//! that no level has, pages beside the log. They change no answer now, but a chunk would if the number of its level
//! came back. A compaction leaves them behind.

use std::collections::BTreeSet;

use super::report::Findings;
use crate::error::Result;
use crate::store::blocks::{Row, SetBlocks};
use crate::store::engine::{BlockTable, ChunkKey, LevelName};
use crate::store::file::{DOCUMENTS, View, by_row};
use crate::store::sorted_set::{Level, SetLevel};

const STRAY: &str = "nothing refers to it; a compaction removes it";

/// The keys of the chunks and of the summaries that levels have.
#[derive(Default)]
struct DirectoryKeys {
    chunks: BTreeSet<ChunkKey>,
    summaries: BTreeSet<ChunkKey>,
}

impl DirectoryKeys {
    fn add<R: Row>(&mut self, table: &'static BlockTable, level: &Level<R>) {
        let number = level.number;
        let id = LevelName { table, number }.id();
        let (chunks, summaries) = level.ends();
        for last in chunks {
            self.chunks.insert((id, last));
        }
        for last in summaries {
            self.summaries.insert((id, last));
        }
    }
}

/// Finds all rows that nothing refers to.
pub(super) fn find_strays(view: &View, findings: &mut Findings) -> Result<()> {
    let state = view.state();
    let mut keys = DirectoryKeys::default();
    keys.add(DOCUMENTS.table, &state.documents);
    find_stray_blocks(view, DOCUMENTS.table, &[&*state.documents], findings)?;
    for set in state.sets.sets() {
        by_row!(set, set => {
            let mut levels = Vec::new();
            for SetLevel { level, .. } in &state.sets[set].levels {
                keys.add(set.table(), level);
                levels.push(&**level);
            }
            find_stray_blocks(view, set.table(), &levels, findings)?;
        });
    }
    let read = view.tables().chunk_keys(|key| {
        if !keys.chunks.contains(&key) {
            findings.add("directory", name_of(key), STRAY);
        }
    });
    findings.add_failure("directory", read)?;
    let read = view.tables().summary_keys(|key| {
        if !keys.summaries.contains(&key) {
            findings.add("summaries", name_of(key), STRAY);
        }
    });
    findings.add_failure("summaries", read)?;
    let read = view.tables().log_page_numbers(|page| {
        // Pages before the first one may wait to be removed.
        if !state.log_pages().contains(&page) {
            findings.add("log", page.to_string(), STRAY);
        }
    });
    findings.add_failure("log", read)
}

fn name_of((id, last): ChunkKey) -> String {
    format!("set {}, level {}, up to {last:x}", id >> 8, id & 0xff)
}

fn find_stray_blocks<R: Row>(
    view: &View,
    table: &'static BlockTable,
    levels: &[&Level<R>],
    findings: &mut Findings,
) -> Result<()> {
    let blocks = view.blocks().of_table(table);
    let mut wanted = 0;
    for level in levels {
        wanted += level.blocks();
    }
    // Blocks that are missing were found when they were read.
    let read = view.tables().block_keys(table, wanted, |number, last| {
        let level = levels.iter().find(|level| level.number == number);
        if !level.is_some_and(|level| has_block(level, R::from_number(last), blocks)) {
            let key = format!("{table}, level {number}, block up to {last:x}");
            findings.add(table.name, key, STRAY);
        }
    });
    findings.add_failure(table.name, read)
}

fn has_block<R: Row>(level: &Level<R>, last: R, blocks: SetBlocks<'_>) -> bool {
    // All chunks were read before. So this does not fail.
    let Ok(position) = level.find(last, blocks) else {
        return true;
    };
    match level.entry(position, blocks) {
        Ok(Some(entry)) => entry.high == last,
        Ok(None) => false,
        Err(_) => true,
    }
}
