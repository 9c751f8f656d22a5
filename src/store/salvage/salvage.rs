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
use std::path::Path;

use super::basis::Basis;
use super::chosen::Documents;
use super::found::Salvage;
use super::report::{SalvageReport, joined};
use crate::error::{Error, Result};
use crate::files::ensure_nothing_at;
use crate::store::dense::{CopyProgress, TakenOver, rebuild};
use crate::store::engine::RawFile;
use crate::store::file::Settings;
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
