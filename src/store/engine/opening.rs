//! The pages that the engine begins with, compared before it reads them. It does not compare them itself.
//!
//! The engine believes what a page says, also after a crash: the pages of a commit are on the disk before the header
//! names it. Without such a commit it compares all pages.

use std::cell::RefCell;
use std::io;

use foldhash::{HashMap, HashMapExt as _};

use super::raw::{
    BRANCH, RawCommit, RawFile, RawPage, Regions, Root, Slot, Source, Visited, Widths,
};
use crate::error::{Error, Result};
use crate::store::sizes::PAGE_BYTES;
use crate::sync::RwLock;

/// What was found on the pages that the engine begins with, and believes.
///
/// * **The table of tables and the table with the state:** older ones in their place, whole, would show an older
///   commit.
/// * **The lists of what is free**, which the engine reads when it opens a file: a damaged number of a page in them has
///   made it ask for 4 GiB of memory. In a commit on damaged ones it panics, and panics again while the first panic
///   unwinds, which ends the process. It commits also when it is closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPages {
    is_other_commit: bool,
    has_damaged_lists: bool,
}

impl FirstPages {
    /// Compares them with the checksums that lead to them from the header. Returns also the branches that are to be
    /// compared from then on. Costs a few pages, and the lists of what is free.
    ///
    /// `None` if the engine does not believe the commit that the header names. It then compares all pages itself, and
    /// commits: after that, there is a commit that it believes.
    pub(super) fn compared(source: &impl Source, length: u64) -> io::Result<Option<(Self, Known)>> {
        let pages = Pages {
            source,
            failed: RefCell::new(None),
        };
        let file = RawFile::new(pages, length);
        let mut comparison = Comparison {
            known: Known::new(file.regions),
            file: &file,
            found: Self {
                is_other_commit: false,
                has_damaged_lists: false,
            },
        };
        let slot = file.believed_slot();
        if let Some(slot) = slot {
            comparison.compare(slot)?;
        }
        let Comparison { known, found, .. } = comparison;
        // What cannot be read is not known to be damaged.
        match file.file.failed.take() {
            Some(failed) => Err(failed),
            None => Ok(slot.map(|_| (found, known))),
        }
    }

    /// An error if they are damaged. Damaged lists are no harm to a file that is only read.
    pub(super) fn ensure_sound(self, is_written: bool) -> Result<()> {
        if self.is_other_commit {
            return Err(Error::damaged("meta", "-", OTHER_COMMIT));
        }
        if self.has_damaged_lists && is_written {
            return Err(Error::damaged("free pages", "-", NO_LISTS));
        }
        Ok(())
    }
}

const OTHER_COMMIT: &str =
    "the pages that the last commit begins with are not those that it has written";
const NO_LISTS: &str = "the lists of free pages are damaged, so nothing can be written; if it can be opened to read \
                        only, `simdb backup` copies it";

/// The pages of a storage. The first error of the disk is kept.
struct Pages<'s, S> {
    source: &'s S,
    failed: RefCell<Option<io::Error>>,
}

impl<S: Source> Source for Pages<'_, S> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.source.read_at(offset, out).map_err(|error| {
            let told = io::Error::from(error.kind());
            self.failed.borrow_mut().get_or_insert(error);
            told
        })
    }
}

/// A comparison of the first pages that is under way.
struct Comparison<'f, S> {
    file: &'f RawFile<S>,
    /// The branches of what was read, the pages of it that are damaged, and the first branches of the other tables.
    known: Known,
    found: FirstPages,
}

impl<S: Source> Comparison<'_, S> {
    fn compare(&mut self, slot: Slot) -> io::Result<()> {
        let mut commit = RawCommit::new(true);
        if let Some(tables) = slot.tables {
            let roots = self.read_tables(tables, |page| {
                // The tables of another program may be of another kind.
                _ = commit.add(page);
            })?;
            self.found.is_other_commit = roots.is_none();
            // Without a table with the state, it is a file of another program, or a new one.
            if let Some(meta) = commit.root("meta") {
                self.found.is_other_commit |= !self.read_all(meta, Widths::ANY, |_| {})?;
                for (root, widths) in roots.unwrap_or_default() {
                    self.known.add_level(&[root], widths, &self.file.file);
                }
            }
        }
        if let Some(lists) = slot.lists {
            let roots = self.read_tables(lists, |_| {})?;
            self.found.has_damaged_lists = roots.is_none();
            for (root, widths) in roots.unwrap_or_default() {
                self.found.has_damaged_lists |= !self.read_all(root, widths, |_| {})?;
            }
        }
        Ok(())
    }

    /// Reads a table of tables. Returns where its tables begin. `None` if it is damaged.
    fn read_tables(
        &mut self,
        root: Root,
        mut each: impl FnMut(&RawPage<'_>),
    ) -> io::Result<Option<Vec<(Root, Widths)>>> {
        let mut roots = Vec::new();
        let is_whole = self.read_all(root, Widths::ANY, |page| {
            each(page);
            for (_, definition, _) in page.pairs(None).unwrap_or_default() {
                roots.extend(root_and_widths(definition));
            }
        })?;
        Ok(is_whole.then_some(roots))
    }

    /// Reads all of a tree. Whether it is whole.
    fn read_all(
        &mut self,
        root: Root,
        widths: Widths,
        mut each: impl FnMut(&RawPage<'_>),
    ) -> io::Result<bool> {
        let mut is_whole = true;
        self.file.visit::<io::Error>(root, widths, &mut |visited| {
            match visited {
                Visited::Leaf(page) => each(page),
                Visited::Branch(branch) => self.known.add(branch, widths),
                Visited::Damaged(page) => {
                    // It is compared again, and hidden, also if it was a leaf.
                    self.known.add(page, widths);
                    is_whole = false;
                }
            }
            Ok(())
        })?;
        Ok(is_whole)
    }
}

/// Where a table begins, and how wide it is, from its definition. `None` if it has no rows.
fn root_and_widths(definition: &[u8]) -> Option<(Root, Widths)> {
    const HAS_ROOT: usize = 9;
    const KEY: usize = 42;
    const VALUE: usize = 47;
    let widths = Widths {
        key: width(definition, KEY)?,
        value: width(definition, VALUE)?,
    };
    let root = Root::read(definition, HAS_ROOT + 1)?;
    (definition[HAS_ROOT] != 0).then_some((root, widths))
}

/// A number of bytes behind a byte that says whether there is one.
fn width(definition: &[u8], at: usize) -> Option<Option<usize>> {
    let bytes = definition.get(at + 1..at + 5)?.first_chunk()?;
    let width = u32::from_le_bytes(*bytes) as usize;
    Some((definition[at] != 0).then_some(width))
}

// The branches of the engine's trees, compared with their checksums before the engine sees them.
//
// The engine believes what a branch says of the pages below it. A damaged number of a page has made it ask for 4 GiB
// of memory, and write one page twice, which ended the process: it panicked in a destructor while a panic unwound. So
// it gets zeros in the place of a damaged branch. They are no page, and it gives up in order. A leaf leads nowhere,
// and what simdb stores in one has checksums of its own.

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
    fn new(regions: Regions) -> Self {
        Self {
            regions,
            branches: HashMap::new(),
            leaves: HashMap::new(),
        }
    }

    /// Adds a branch.
    fn add(&mut self, page: Root, widths: Widths) {
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
    fn add_level(&mut self, pages: &[Root], widths: Widths, source: &impl Source) {
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use std::path::Path;

    use redb::StorageBackend as _;

    use super::*;
    use crate::allocations::largest_of;
    use crate::store::engine::raw::BRANCH;
    use crate::store::engine::storage::Lent;
    use crate::store::engine::{
        BlockTable, Changes, Engine, Image, LevelChange, LevelName, Recording,
    };
    use crate::store::sizes::PAGE_BYTES;

    /// The pages of a file.
    fn raw(file: &[u8]) -> RawFile<Image> {
        RawFile::new(Image::new(file.to_vec()), file.len() as u64)
    }

    fn range_of(raw: &RawFile<Image>, root: Root) -> Range<usize> {
        let range = raw.regions.range_of(root.page);
        range.start as usize..range.end as usize
    }

    /// Where a table of the last commit begins.
    fn root_of(raw: &RawFile<Image>, table: &str) -> Root {
        let tables = raw.believed_slot().and_then(|slot| slot.tables);
        let mut commit = RawCommit::new(true);
        let walked = raw.walk(tables.expect("it has tables"), Widths::ANY, &mut |page| {
            commit.add(page).expect("it lists tables of simdb");
            Ok(())
        });
        assert!(walked.expect("it can be read").is_empty());
        commit.root(table).expect("it has rows")
    }

    /// The first pages of the commit that the header of a file names: of the table of tables, of `meta`, and of the
    /// tables that the engine has for itself.
    fn first_pages(file: &[u8]) -> [Range<usize>; 3] {
        let raw = raw(file);
        let slot = raw.believed_slot().expect("a header");
        let tables = slot.tables.expect("a table of tables");
        let meta = root_of(&raw, "meta");
        let lists = slot.lists.expect("it has lists");
        [tables, meta, lists].map(|root| range_of(&raw, root))
    }

    /// The used bytes of all pages of the tables that the engine has for itself.
    fn bytes_of_lists(file: &[u8]) -> Vec<usize> {
        let raw = raw(file);
        let lists = raw.believed_slot().and_then(|slot| slot.lists);
        let mut waiting = vec![(lists.expect("it has lists"), Widths::ANY)];
        let mut bytes = Vec::new();
        while let Some((root, widths)) = waiting.pop() {
            let is_table_of_tables = bytes.is_empty();
            let visited = raw.visit::<()>(root, widths, &mut |visited| {
                match visited {
                    Visited::Leaf(page) => {
                        let begin = page.offset as usize;
                        let used = page.leaf_bytes(widths).expect("it is a leaf");
                        bytes.extend(begin..begin + used);
                        let tables = page.pairs(None).filter(|_| is_table_of_tables);
                        let tables = tables.unwrap_or_default().into_iter();
                        waiting.extend(tables.filter_map(|(_, table, _)| root_and_widths(table)));
                    }
                    Visited::Branch(branch) => {
                        // What is used of a branch is before the zeros.
                        let page = range_of(&raw, branch);
                        let end = file[page.clone()].iter().rposition(|&byte| byte != 0);
                        bytes.extend(page.start..=page.start + end.expect("it is not empty"));
                    }
                    Visited::Damaged(page) => panic!("{page:?} is damaged"),
                }
                Ok(())
            });
            assert_eq!(visited, Ok(()));
        }
        bytes
    }

    /// The files that several commits leave.
    fn files_of_commits() -> Result<Vec<Vec<u8>>> {
        let storage = Recording::default();
        let first: &[_] = &[("state", vec![0; 100])];
        let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[], first)))?;
        let mut files = Vec::new();
        for commit in 1..6 {
            engine.apply(&Changes::default(), &[("state", vec![commit; 100])])?;
            files.push(storage.image().as_bytes().to_vec());
        }
        Ok(files)
    }

    fn open(storage: Recording) -> Result<()> {
        Engine::on_backend(storage, 1 << 20, None).map(drop)
    }

    /// The engine reads an older page in the place of a newer one as if it were that one. An older table of tables
    /// shows the whole older commit, in which nothing is wrong but that it is not the last.
    #[test]
    fn pages_of_an_older_commit_where_the_last_begins_are_told() -> Result<()> {
        let mut files = files_of_commits()?;
        let last = files.pop().expect("there are some");
        open(Recording::new(Image::new(last.clone())))?;
        for (which, place) in first_pages(&last).into_iter().enumerate() {
            for older in &files {
                let from = first_pages(older)[which].clone();
                let mut damaged = last.clone();
                damaged[place.clone()].copy_from_slice(&older[from]);
                let storage = Recording::new(Image::new(damaged));
                ensure_told(&open(storage), "an older page");
            }
        }
        Ok(())
    }

    /// A file whose lists of what is free have branches: each commit replaces pages, which a reader still needs.
    fn file_with_long_lists() -> Result<Vec<u8>> {
        let storage = Recording::default();
        let first: &[_] = &[("state", vec![0; 100])];
        let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[], first)))?;
        let reader = engine.begin_read(0)?;
        for commit in 0..80 {
            engine.apply(&Changes::default(), &[("state", vec![commit; 100])])?;
        }
        drop(reader);
        Ok(storage.image().as_bytes().to_vec())
    }

    /// A damaged number of a page has made the engine ask for gigabytes, while it opened a file. In a commit on such a
    /// file it has ended the process, in a destructor that panicked while a panic unwound. It commits also when it is
    /// closed, so after the refusal it is not.
    #[test]
    fn a_changed_byte_of_the_lists_of_free_pages_is_told_before_the_engine_believes_it()
    -> Result<()> {
        let file = file_with_long_lists()?;
        let places = bytes_of_lists(&file);
        assert!(places.len() > 2 * PAGE_BYTES, "several pages");
        let storage = Recording::new(Image::new(file.clone()));
        let (sound, opened) = largest_of(|| open(storage));
        opened?;
        // The heads of the pages, and a part of the rest: of all it takes minutes.
        let is_tried = |at: &usize| at % PAGE_BYTES < 40 || at.is_multiple_of(97);
        for at in places.into_iter().filter(is_tried) {
            let sound_byte = file[at];
            for byte in [sound_byte ^ 1 << (at % 8), 0] {
                if byte == sound_byte {
                    continue;
                }
                let mut damaged = file.clone();
                damaged[at] = byte;
                let storage = Recording::new(Image::new(damaged));
                let (written, opened) = largest_of(|| open(storage.clone()));
                ensure_told(&opened, &format!("byte {at} is {byte}"));
                let (read, _) = largest_of(|| {
                    let storage = Lent::of_test(storage);
                    Engine::read_only(storage, Path::new("file"), 1 << 20).map(drop)
                });
                let largest = written.max(read);
                assert!(
                    largest <= sound + PAGE_BYTES,
                    "byte {at}: {largest} bytes at once"
                );
            }
        }
        Ok(())
    }

    /// What the engine is shown of a page of a file that it has just opened, once it has seen these others.
    fn shown(file: &[u8], others: &[Range<u64>], place: &Range<u64>) -> Result<Vec<u8>> {
        let storage = Lent::of_test(Recording::new(Image::new(file.to_vec())));
        let mut page = Vec::new();
        for place in others.iter().chain([place]) {
            page.resize((place.end - place.start) as usize, 0);
            storage.read(place.start, &mut page).expect("it is there");
        }
        Ok(page)
    }

    /// A file, and where the pages of a table with one branch are.
    struct Tree {
        file: Vec<u8>,
        branch: Range<u64>,
        leaves: Vec<Range<u64>>,
    }

    fn tree() -> Result<Tree> {
        const BLOCKS: BlockTable = BlockTable::new(0, "documents", false);
        let storage = Recording::default();
        let first: &[_] = &[("state", vec![0; 100])];
        let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[BLOCKS], first)))?;
        let level = LevelName {
            table: &BLOCKS,
            number: 1,
        };
        let added = (0..100).map(|last| (last, vec![last as u8; 1_000].into()));
        let change = LevelChange {
            added: added.collect(),
            ..LevelChange::none(level)
        };
        let changes = Changes {
            levels: vec![change],
            ..Changes::default()
        };
        engine.apply(&changes, first)?;
        drop(engine);
        let file = storage.image().as_bytes().to_vec();
        let mut branches = Vec::new();
        let mut leaves = Vec::new();
        let raw = raw(&file);
        let root = root_of(&raw, "documents");
        raw.visit::<Error>(root, Widths::of_keys(Some(9)), &mut |visited| {
            match visited {
                Visited::Leaf(page) => leaves.push(page.offset..page.offset + PAGE_BYTES as u64),
                Visited::Branch(branch) => branches.push(raw.regions.range_of(branch.page)),
                Visited::Damaged(page) => panic!("{page:?} is damaged"),
            }
            Ok(())
        })?;
        assert_eq!(branches.len(), 1);
        Ok(Tree {
            file,
            branch: branches.remove(0),
            leaves,
        })
    }

    /// With the number of another page in a branch, the engine has asked for gigabytes, and has ended the process.
    #[test]
    fn a_damaged_branch_is_not_shown_and_a_leaf_is_as_it_is() -> Result<()> {
        let Tree {
            file,
            branch,
            leaves,
        } = tree()?;
        let bytes = |place: &Range<u64>| &file[place.start as usize..place.end as usize];
        assert_eq!(shown(&file, &[], &branch)?, bytes(&branch));
        // Up to there the checksums and the numbers of the pages below are. With another first byte, the first page of
        // a tree may be a leaf, which leads nowhere.
        let used = 8 + 24 * leaves.len();
        for at in 1..used {
            let mut damaged = file.clone();
            damaged[branch.start as usize + at] ^= 1 << (at % 8);
            let page = shown(&damaged, &[], &branch)?;
            assert!(page.iter().all(|&byte| byte == 0), "byte {at}");
        }
        for leaf in &leaves {
            let before = [branch.clone()];
            assert_eq!(shown(&file, &before, leaf)?, bytes(leaf));
            let mut damaged = file.clone();
            damaged[leaf.start as usize + 10] ^= 1;
            let page = shown(&damaged, &before, leaf)?;
            assert_ne!(
                page[10],
                bytes(leaf)[10],
                "what is in a leaf has its own checksum"
            );
            let branch = bytes(&branch);
            damaged[leaf.start as usize..leaf.end as usize].copy_from_slice(branch);
            let page = shown(&damaged, &before, leaf)?;
            assert!(page.iter().all(|&byte| byte == 0), "a branch for a leaf");
        }
        Ok(())
    }

    /// The engine writes other pages where old ones were.
    #[test]
    fn what_is_written_is_shown() -> Result<()> {
        let Tree {
            file,
            branch,
            leaves,
        } = tree()?;
        let storage = Lent::of_test(Recording::new(Image::new(file)));
        let mut page = vec![0; PAGE_BYTES];
        let new = vec![BRANCH; PAGE_BYTES];
        storage.read(branch.start, &mut page).expect("it is there");
        for place in leaves.iter().chain([&branch]) {
            storage.write(place.start, &new).expect("it can be written");
            storage.read(place.start, &mut page).expect("it is there");
            assert_eq!(page, new);
        }
        Ok(())
    }

    fn ensure_told(opened: &Result<()>, what: &str) {
        // The engine itself may find that a page is none.
        let is_told = matches!(opened, Err(Error::Damaged { .. } | Error::Corrupted(_)));
        assert!(is_told, "{what}: {opened:?}");
    }
}
