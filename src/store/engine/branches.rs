//! The branches of the engine's trees, compared with their checksums before the engine sees them.
//!
//! The engine believes what a branch says of the pages below it. A damaged number of a page has made it ask for 4 GiB
//! of memory, and write one page twice, which ended the process: it panicked in a destructor while a panic unwound. So
//! it gets zeros in the place of a damaged branch. They are no page, and it gives up in order. A leaf leads nowhere,
//! and what simdb stores in one has checksums of its own.

use foldhash::{HashMap, HashMapExt as _};
use parking_lot::RwLock;

use super::raw::{BRANCH, RawPage, Regions, Root, Source, Widths};
use crate::store::sizes::PAGE_BYTES;

/// What is known of the pages of one loan of a storage. Nothing is until the engine has opened the file.
#[derive(Debug, Default)]
pub(super) struct Branches {
    known: RwLock<Option<Known>>,
}

/// Pages to which sound pages lead, and that were not written since: branches until they are read, and leaves. What is
/// not known is shown to the engine as it is.
///
/// Memory: some 50 bytes for each branch, of which there is one for about a hundred leaves, and a bit or two for a
/// leaf.
#[derive(Debug)]
pub(super) struct Known {
    regions: Regions,
    /// By their place in the file.
    branches: HashMap<u64, Branch>,
    /// A bit for each page: by the number of a page, divided by 64.
    leaves: HashMap<u64, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    checksum: u128,
    widths: Widths,
}

impl Branches {
    /// Compares these from now on, and those that are below them.
    pub(super) fn compare(&self, known: Known) {
        *self.known.write() = Some(known);
    }

    /// Makes zeros of a page that was read at `offset`, if it is a damaged branch.
    pub(super) fn hide_damaged(&self, offset: u64, page: &mut [u8], source: &impl Source) {
        let found = match &*self.known.read() {
            None => return,
            Some(known) if known.is_leaf(offset) => None,
            Some(known) => match known.branches.get(&offset) {
                None => return,
                branch => branch.copied(),
            },
        };
        let Some(branch) = found else {
            if page.first() == Some(&BRANCH) {
                page.fill(0);
            }
            return;
        };
        let Branch { checksum, widths } = branch;
        match RawPage::new(offset, page).children(widths.key, checksum) {
            Some(children) => self.lead_on(offset, &children, widths, source),
            None => page.fill(0),
        }
    }

    /// Goes on from the sound branch at `offset` to what is below. With a small cache the engine reads a branch again
    /// and again, and queries took a tenth longer when it was compared each time.
    fn lead_on(&self, offset: u64, children: &[Root], widths: Widths, source: &impl Source) {
        if let Some(known) = &mut *self.known.write()
            && known.branches.remove(&offset).is_some()
        {
            known.add_level(children, widths, source);
        }
    }

    /// Notes that a page is written at `offset`.
    pub(super) fn note_written(&self, offset: u64, page: &[u8]) {
        if let Some(known) = &mut *self.known.write() {
            for at in (offset..offset + page.len() as u64).step_by(PAGE_BYTES) {
                known.forget(at);
            }
        }
    }
}

impl Known {
    pub(super) fn new(regions: Regions) -> Self {
        Self {
            regions,
            branches: HashMap::new(),
            leaves: HashMap::new(),
        }
    }

    /// Adds a branch.
    pub(super) fn add(&mut self, page: Root, widths: Widths) {
        let branch = Branch {
            checksum: page.checksum,
            widths,
        };
        let offset = self.offset_of(page);
        self.branches.insert(offset, branch);
    }

    /// Adds pages that are beside each other in a tree, or its first page.
    ///
    /// They are all branches, or all leaves: leaves are equally far from the first page. Of three, one may be damaged.
    pub(super) fn add_level(&mut self, pages: &[Root], widths: Widths, source: &impl Source) {
        let Some(last) = pages.len().checked_sub(1) else {
            return;
        };
        let is_branch = |index: &&usize| {
            let mut kind = [0];
            let read = source.read_at(self.offset_of(pages[**index]), &mut kind);
            read.is_ok() && kind == [BRANCH]
        };
        let branches = [0, last / 2, last].iter().filter(is_branch).count();
        for &page in pages {
            if branches > 1 {
                self.add(page, widths);
            } else {
                let (group, bit) = place_of(self.offset_of(page));
                *self.leaves.entry(group).or_default() |= bit;
            }
        }
    }

    fn is_leaf(&self, offset: u64) -> bool {
        let (group, bit) = place_of(offset);
        let bits = self.leaves.get(&group);
        bits.is_some_and(|bits| bits & bit != 0)
    }

    fn forget(&mut self, offset: u64) {
        self.branches.remove(&offset);
        let (group, bit) = place_of(offset);
        if let Some(bits) = self.leaves.get_mut(&group) {
            *bits &= !bit;
        }
    }

    fn offset_of(&self, page: Root) -> u64 {
        self.regions.range_of(page.page).start
    }
}

/// The bit of a page.
fn place_of(offset: u64) -> (u64, u64) {
    let number = offset / PAGE_BYTES as u64;
    (number / 64, 1 << (number % 64))
}
