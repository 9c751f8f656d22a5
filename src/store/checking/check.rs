//! The check of a file that is open: everything but the checksums of the engine's pages.
//!
//! The plain algorithm: for every set, collect the rows that it should have and those that it has, and
//! compare them. Where the code departs from it: a first pass collects products of rows instead of rows
//! (`tally.rs`). Only if products differ does another pass collect rows, of the buckets that differ.
//!
//! Every block that a directory has is read on the way. What the tables of the engine have besides is found
//! by `find_strays`: blocks that no directory has, chunks that no level has, pages beside the log. They change
//! no answer now, but a chunk would if the number of its level came back. A compaction leaves them behind.

use std::collections::BTreeSet;

use super::report::{CheckReport, Findings};
use super::tally::{self, Products};
use super::walk::{CheckProgress, Walk};
use crate::error::Result;
use crate::plural::counted;
use crate::store::blocks::{Row, SetBlocks};
use crate::store::engine::{BlockTable, ChunkKey, LevelName};
use crate::store::file::{DOCUMENTS, Set, SetRow, View, all_sets, by_row};
use crate::store::sorted_set::{Level, Life, SetLevel};

/// The most rows that are collected to find those that differ.
const MOST_COLLECTED: u64 = 2 << 20;

/// Checks that documents and the rows of all sets name each other and nothing else. Damage is a finding,
/// any other error is returned. What is found is added to what was found before.
pub(crate) fn check_rows(
    view: &View,
    mut findings: Findings,
    progress: CheckProgress<'_>,
) -> Result<CheckReport> {
    let tables = view.state().sets.tables();
    let before = findings.total();
    read_directories(view, &mut findings)?;
    if findings.total() > before {
        findings.add(
            "directory",
            "-",
            "without it, the rows and the documents cannot be checked",
        );
        let documents = view.state().counters.documents;
        return Ok(findings.report(documents, 0));
    }
    let mut walk = Walk::new(view, progress)?;
    let (mut products, mut found) = walk.run(&Products::new(tables))?;
    std::mem::swap(&mut walk.hidden, &mut found.hidden);
    if !walk.hidden.is_empty() {
        // Both sides of the comparison leave out what damaged blocks hide.
        products = walk.run(&products)?.0;
    }
    find_strays(view, &mut findings)?;
    check_scopes(view, &mut findings)?;
    findings.add_failure("sources", view.sources().map(drop))?;
    found.check_keys(view, &mut findings)?;
    if let Some(empty) = products.differing(MOST_COLLECTED) {
        let (collected, _) = walk.run(&empty)?;
        tally::add_differences(view, collected, &mut findings);
    }
    if walk.hidden.is_empty() {
        for set in all_sets(tables) {
            by_row!(set, set => check_directory(view, set, &products, &mut findings));
        }
    }
    if walk.hidden.knows_documents() {
        found.check_counters(view, &mut findings);
    }
    Ok(found.report(findings))
}

/// Reads all directories.
fn read_directories(view: &View, findings: &mut Findings) -> Result<()> {
    let state = view.state();
    read_directory(&state.documents, view.document_blocks(), findings)?;
    for set in state.sets.sets() {
        by_row!(set, set => {
            for SetLevel { level, .. } in &state.sets[set].levels {
                let blocks = view.blocks().of_table(set.table());
                read_directory(level, blocks, findings)?;
            }
        });
    }
    Ok(())
}

fn read_directory<R: Row>(
    level: &Level<R>,
    blocks: SetBlocks<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let entries = level.entries(level.all(), blocks);
    findings.add_failure("directory", entries.map(drop))
}

/// Checks that every scope has a number of its own that was given.
fn check_scopes(view: &View, findings: &mut Findings) -> Result<()> {
    let counters = view.state().counters;
    let mut seen = vec![false; counters.next_scope as usize];
    // Number 0 is that of documents without a scope.
    seen[0] = true;
    let mut damaged = Vec::new();
    let read = view.each_scope(|name, number| {
        match number {
            Ok(number) if !counters.has_given(number) => {
                findings.add("scopes", name, "its number was never given");
            }
            Ok(number) if std::mem::replace(&mut seen[number.0 as usize], true) => {
                findings.add("scopes", name, "another scope has its number");
            }
            Ok(_) => {}
            Err(error) if damaged.len() < CheckReport::MAX_PROBLEMS => damaged.push(error),
            Err(_) => findings.count(1),
        }
        Ok(())
    });
    findings.add_failure("scopes", read)?;
    let lost = seen.iter().filter(|seen| !**seen).count();
    if damaged.is_empty() && lost > 0 {
        findings.add(
            "scopes",
            "-",
            format!(
                "{} had a number given and cannot be found",
                counted(lost, "scope")
            ),
        );
    }
    for error in damaged {
        findings.add_failure("scopes", Err(error))?;
    }
    Ok(())
}

/// Compares the rows of a set with the puts and marks that its directories count. Each mark takes away one
/// put, if rows live once.
fn check_directory<R: SetRow>(
    view: &View,
    set: Set<R>,
    products: &Products,
    findings: &mut Findings,
) {
    if set.rules.life == Life::Once {
        let (puts, marks) = view.state().sets[set].rows();
        let counted = puts.saturating_sub(marks);
        findings.add_difference(
            set.table().name,
            "rows as counted by its directories",
            counted,
            products.stored_rows(set),
        );
    }
}

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
fn find_strays(view: &View, findings: &mut Findings) -> Result<()> {
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

/// Finds the blocks of a table that none of its levels has.
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

/// Whether a level has a block that ends with a row.
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
