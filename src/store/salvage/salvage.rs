//! Salvage: the documents that a damaged file still has, in a new file.
//!
//! The plain algorithm: walk the trees of the last commit without the engine (`engine/raw.rs`) and take every block of
//! documents that has its checksums. Take out the documents that are dead by the blocks and the pages of the log that
//! can be read. Build a new file of the rest: every set follows from the documents.
//!
//! A block that the walk does not reach may still be somewhere. If the directory has its checksum, every page of the
//! file is looked at for a block that has this checksum, so no other one is taken for it. If the header does not lead
//! to a commit, the newest table of tables that stands in the file does. Older blocks are taken only if that is asked
//! for: a number is never used twice, so a document of theirs is what it was, but it may have been deleted since.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;

use super::basis::Basis;
use super::found::{Found, Salvage};
use super::report::{SalvageReport, joined};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::ensure_nothing_at;
use crate::store::blocks::{Lists, decode_rows};
use crate::store::dense::{CopyProgress, TakenOver, rebuild};
use crate::store::engine::RawFile;
use crate::store::file::{DEAD, RowSink, Set, SetRow, Settings};
use crate::store::sizes::Sizes;

/// How a file is to be salvaged.
pub(crate) struct Salvaging {
    /// Those of the file, if it does not tell them.
    pub(crate) settings: Option<Settings>,
    /// Whether documents are taken from blocks of earlier commits too.
    pub(crate) old: bool,
    pub(crate) memory_bytes: usize,
    pub(crate) sizes: Sizes,
}

/// Salvages the file at `path` into one at `new`, where nothing may be yet.
pub(crate) fn salvage(
    path: &Path,
    new: &Path,
    how: &Salvaging,
    progress: CopyProgress<'_>,
) -> Result<SalvageReport> {
    ensure_nothing_at(new)?;
    let file = RawFile::open(path)?;
    let pace = Pace {
        progress: RefCell::new(progress),
        all: file.length,
    };
    let refused = |problem| Error::NotSalvaged {
        path: path.to_owned(),
        problem,
    };
    let basis = Basis::find(&file, &pace)?;
    if basis.meta.seed.is_none() && basis.commit.is_none() {
        return Err(refused(NOTHING));
    }
    let settings = basis.meta.settings.clone().or_else(|| how.settings.clone());
    let settings = settings.ok_or_else(|| refused(NO_SETTINGS))?;
    if basis.commit.is_none() && !how.old {
        return Err(refused(NO_COMMIT));
    }
    let mut salvage = Salvage::new(&file, basis, &pace);
    salvage.walk()?;
    salvage.find_listed()?;
    let mut report = salvage.report();
    if how.old && !report.missing.is_empty() {
        salvage.find_old(&report.missing)?;
    }
    let chosen = salvage.choose(&mut report)?;
    let mut sources = Vec::new();
    if report.has_all_documents() {
        report.positions_kept = salvage.read_sources(&mut sources)?;
    }
    if !report.positions_kept {
        sources.clear();
    }
    report.damaged_bytes = joined(salvage.damaged.clone());
    let taken = TakenOver {
        original: &file.file,
        next_document: salvage.basis.next_document.max(chosen.last + 1),
        sources: &sources,
    };
    rebuild(
        new,
        &settings.for_another_file(),
        Documents::new(&salvage, &chosen),
        &taken,
        how.memory_bytes,
        &how.sizes,
        &mut |done, all| (pace.progress.borrow_mut())(done, all),
    )?;
    Ok(report)
}

const NOTHING: &str = "nothing in it is recognised as part of a simdb database";
const NO_SETTINGS: &str = "its settings cannot be read, so they have to be given: scheme, plan, max distance, \
                           size of sketches, least similarity (`simdb salvage --scheme ...`, \
                           `SalvageOptions::settings`)";
const NO_COMMIT: &str = "no commit of it can be found, and so it cannot be told which of its documents were deleted \
                         or replaced; to take all of them, ask for old ones (`simdb salvage --old`, \
                         `SalvageOptions::old`)";

/// Tells a caller how far a part of the work is, and hears when the caller wants no more.
pub(super) struct Pace<'a> {
    progress: RefCell<CopyProgress<'a>>,
    all: u64,
}

impl Pace<'_> {
    /// Something at this place of the file was read.
    pub(super) fn read(&self, offset: u64) -> Result<()> {
        Error::if_broken((self.progress.borrow_mut())(offset, self.all))
    }
}

/// A block whose documents are kept. Of a block of an earlier commit only some are.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) found: Found,
    /// The number of the first document that may be kept.
    pub(super) first: u64,
    pub(super) is_old: bool,
}

impl Part {
    /// Whether this part goes on with the documents of the one before, of the same block of an earlier commit.
    pub(super) fn continues(&self, before: &Self) -> bool {
        self.is_old && before.is_old && self.found.place == before.found.place
    }
}

/// The documents that the new file gets: those of some blocks, in the order of their numbers, but for some.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) parts: Vec<Part>,
    pub(super) replaced: HashSet<u64>,
    /// The number of the last.
    pub(super) last: u64,
}

/// The documents that were chosen, with their numbers, in order.
pub(super) struct Documents<'a, 'p> {
    salvage: &'a Salvage<'a, 'p>,
    chosen: &'a Chosen,
    next_part: usize,
    /// Those of the part before that are left.
    waiting: std::vec::IntoIter<(u64, Document)>,
    last: u64,
    /// The numbers of those that are stored but are no documents.
    pub(super) unreadable: Vec<u64>,
}

impl<'a, 'p> Documents<'a, 'p> {
    pub(super) fn new(salvage: &'a Salvage<'a, 'p>, chosen: &'a Chosen) -> Self {
        Self {
            salvage,
            chosen,
            next_part: 0,
            waiting: Vec::new().into_iter(),
            last: 0,
            unreadable: Vec::new(),
        }
    }

    fn read(&mut self, part: Part) -> Result<()> {
        self.salvage.pace.read(part.found.place.offset)?;
        let next = self.chosen.parts.get(self.next_part);
        let next = next.map_or(u64::MAX, |next| next.first);
        let mut waiting = Vec::new();
        for document in self.salvage.read(&part.found)?.documents() {
            let number = document.number;
            let is_of_part =
                !part.is_old || number < next && self.salvage.takes_old(number, part.found.place);
            let is_wanted = number > self.last
                && is_of_part
                && !self.salvage.dead.has(number)
                && !self.chosen.replaced.contains(&number);
            if is_wanted {
                match document.to_document() {
                    Ok(document) => waiting.push((number, document)),
                    Err(_) => self.unreadable.push(number),
                }
                self.last = number;
            }
        }
        self.waiting = waiting.into_iter();
        Ok(())
    }
}

impl Iterator for Documents<'_, '_> {
    type Item = Result<(u64, Document)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.waiting.next() {
                return Some(Ok(document));
            }
            let part = *self.chosen.parts.get(self.next_part)?;
            self.next_part += 1;
            if let Err(error) = self.read(part) {
                return Some(Err(error));
            }
        }
    }
}

/// The numbers of dead documents that levels and log put and mark. A number is put once and marked once, so it is dead
/// if it is only put, in whatever order they are read.
#[derive(Default)]
pub(super) struct DeadNumbers {
    put: HashSet<u64>,
    marked: HashSet<u64>,
}

impl DeadNumbers {
    fn has(&self, number: u64) -> bool {
        self.put.contains(&number) && !self.marked.contains(&number)
    }

    pub(super) fn sorted(&self) -> Vec<u64> {
        let numbers = self.put.iter().copied();
        let mut numbers: Vec<u64> = numbers.filter(|&number| self.has(number)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Takes the rows of a block. False if it is none.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let mut rows = Lists::<u64>::default();
        if decode_rows(bytes, &mut rows).is_err() {
            return false;
        }
        self.put.extend(rows.puts);
        self.marked.extend(rows.marks);
        true
    }
}

impl RowSink for DeadNumbers {
    type Error = Error;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<()> {
        if set.is(DEAD) {
            self.put.insert(row.number() as u64);
        }
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<()> {
        if set.is(DEAD) {
            self.marked.insert(row.number() as u64);
        }
        Ok(())
    }
}
