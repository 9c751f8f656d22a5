//! What is compared when a file is opened, and what the engine does not compare: the pages that it begins with.
//!
//! Of a page the engine believes what it says. It compares checksums only after a crash.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use redb::StorageBackend as _;

use super::branches::Known;
use super::raw::{
    MAGIC, RawCommit, RawFile, RawPage, Root, SECOND_SLOT, Slot, Source, Visited, Widths,
};
use super::storage::Lent;
use crate::error::{Error, Result};
use crate::store::sizes::PAGE_BYTES;

/// Refuses a file that an engine has just opened, if the pages that the engine begins with do not have the checksums
/// that lead to them from the header. From then on, branches are compared before the engine sees them. `path` is for
/// error messages. Costs a few pages, and the lists of what is free.
///
/// * **The table of tables and the table with the state:** older ones in their place, whole, would show an older
///   commit.
/// * **The lists of what is free**, if the file is open to write: in a commit on damaged ones the engine panics, and
///   panics again while the first panic unwinds, which ends the process. It commits also when it is closed.
pub(super) fn ensure_first_pages(storage: &Lent, is_written: bool, path: &Path) -> Result<()> {
    let pages = Pages {
        storage,
        failed: RefCell::new(None),
    };
    let length = storage.len().map_err(Error::io(path))?;
    let file = RawFile::new(pages, length);
    let mut first = FirstPages::new(&file);
    if let Some(slot) = file.named_slot() {
        first.read(slot)?;
    }
    // What cannot be read is not known to be damaged.
    if let Some(failed) = file.file.failed.take() {
        return Err(Error::io(path)(failed));
    }
    if first.is_other_commit {
        return Err(Error::damaged("meta", "-", OTHER_COMMIT));
    }
    if first.has_damaged_lists && is_written {
        return Err(Error::damaged("free pages", "-", NO_LISTS));
    }
    if first.is_ours {
        storage.compare(first.branches);
    }
    Ok(())
}

const OTHER_COMMIT: &str =
    "the pages that the last commit begins with are not those that it has written";
const NO_LISTS: &str =
    "the lists of free pages are damaged, so nothing can be written; it can be opened to read only";

/// The pages of a storage. The first error of the disk is kept.
struct Pages<'s> {
    storage: &'s Lent,
    failed: RefCell<Option<io::Error>>,
}

impl Source for Pages<'_> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out).map_err(|error| {
            let told = io::Error::from(error.kind());
            self.failed.borrow_mut().get_or_insert(error);
            told
        })
    }
}

impl RawFile<Pages<'_>> {
    /// The place in the header that the header names. An engine that has opened a file has seen to it that it is sound.
    fn named_slot(&self) -> Option<Slot> {
        let header = self.read(0, PAGE_BYTES)?;
        Slot::read(&header, usize::from(header[MAGIC.len()] & SECOND_SLOT))
    }
}

/// What is found on the pages that the engine begins with.
struct FirstPages<'f, 's> {
    file: &'f RawFile<Pages<'s>>,
    /// The branches of what was read whole, and the first branches of the other tables.
    branches: Known,
    /// Without a table with the state, it is a file of another program, or a new one.
    is_ours: bool,
    is_other_commit: bool,
    has_damaged_lists: bool,
}

impl<'f, 's> FirstPages<'f, 's> {
    fn new(file: &'f RawFile<Pages<'s>>) -> Self {
        Self {
            file,
            branches: Known::new(file.regions),
            is_ours: false,
            is_other_commit: false,
            has_damaged_lists: false,
        }
    }

    fn read(&mut self, slot: Slot) -> Result<()> {
        let mut commit = RawCommit::new(true);
        if let Some(tables) = slot.tables {
            let roots = self.read_tables(tables, |page| {
                // The tables of another program may be of another kind.
                _ = commit.add(page);
            })?;
            self.is_other_commit = roots.is_none();
            for (root, widths) in roots.unwrap_or_default() {
                self.branches.add_level(&[root], widths, &self.file.file);
            }
        }
        if let Some(meta) = commit.root("meta") {
            self.is_ours = true;
            self.is_other_commit |= !self.read_all(meta, Widths::ANY, |_| {})?;
        }
        if let Some(lists) = slot.lists {
            let roots = self.read_tables(lists, |_| {})?;
            self.has_damaged_lists = roots.is_none();
            for (root, widths) in roots.unwrap_or_default() {
                self.has_damaged_lists |= !self.read_all(root, widths, |_| {})?;
            }
        }
        Ok(())
    }

    /// Reads a table of tables. Returns where its tables begin. `None` if it is damaged.
    fn read_tables(
        &mut self,
        root: Root,
        mut each: impl FnMut(&RawPage<'_>),
    ) -> Result<Option<Vec<(Root, Widths)>>> {
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
    ) -> Result<bool> {
        let mut is_whole = true;
        self.file.visit(root, widths, &mut |visited| {
            match visited {
                Visited::Leaf(page) => each(page),
                Visited::Branch(branch) => self.branches.add(branch, widths),
                Visited::Damaged(_) => is_whole = false,
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::store::engine::raw::BRANCH;
    use crate::store::engine::{
        BlockTable, Changes, Engine, Image, LevelChange, LevelName, Recording,
    };

    /// The first pages of the commit that the header of a file names: of the table of tables, of `meta`, and of the
    /// tables that the engine has for itself.
    fn first_pages(file: &[u8]) -> [Range<usize>; 3] {
        let storage = Lent::of_test(Recording::new(Image::new(file.to_vec())));
        let pages = Pages {
            storage: &storage,
            failed: RefCell::new(None),
        };
        let raw = RawFile::new(pages, file.len() as u64);
        let slot = raw.named_slot().expect("a header");
        let tables = slot.tables.expect("a table of tables");
        let mut commit = RawCommit::new(true);
        let walked = raw.walk(tables, Widths::ANY, &mut |page| {
            commit.add(page).expect("it lists tables of simdb");
            Ok(())
        });
        assert!(walked.expect("it can be read").is_empty());
        let meta = commit.root("meta").expect("it has rows");
        let lists = slot.lists.expect("it has lists");
        [tables, meta, lists].map(|root| {
            let range = raw.regions.range_of(root.page);
            range.start as usize..range.end as usize
        })
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

    fn open(file: Vec<u8>) -> Result<()> {
        let storage = Recording::new(Image::new(file));
        Engine::on_backend(storage, 1 << 20, None).map(drop)
    }

    /// The engine reads an older page in the place of a newer one as if it were that one. An older table of tables
    /// shows the whole older commit, in which nothing is wrong but that it is not the last.
    #[test]
    fn pages_of_an_older_commit_where_the_last_begins_are_told() -> Result<()> {
        let mut files = files_of_commits()?;
        let last = files.pop().expect("there are some");
        open(last.clone())?;
        for (which, place) in first_pages(&last).into_iter().enumerate() {
            for older in &files {
                let from = first_pages(older)[which].clone();
                let mut damaged = last.clone();
                damaged[place.clone()].copy_from_slice(&older[from]);
                ensure_told(&open(damaged), "an older page");
            }
        }
        Ok(())
    }

    /// In a commit on such a file the engine has ended the process, in a destructor that panicked while a panic
    /// unwound. It commits also when it is closed, so after the refusal it is not.
    #[test]
    fn a_changed_byte_of_the_lists_of_free_pages_is_told_before_anything_is_written() -> Result<()>
    {
        let last = files_of_commits()?.pop().expect("there are some");
        /// So many are used of the page in any case.
        const USED: usize = 100;
        let lists = first_pages(&last)[2].start;
        for at in lists..lists + USED {
            let mut damaged = last.clone();
            damaged[at] ^= 1 << (at % 8);
            ensure_told(&open(damaged), &format!("byte {at}"));
        }
        Ok(())
    }

    /// What the engine is shown of a page of a file that it has just opened, once it has seen these others.
    fn shown(file: &[u8], others: &[Range<u64>], place: &Range<u64>) -> Result<Vec<u8>> {
        let storage = Lent::of_test(Recording::new(Image::new(file.to_vec())));
        ensure_first_pages(&storage, true, Path::new("file"))?;
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
        {
            let storage = Lent::of_test(storage);
            let pages = Pages {
                storage: &storage,
                failed: RefCell::new(None),
            };
            let raw = RawFile::new(pages, file.len() as u64);
            let tables = raw.named_slot().and_then(|slot| slot.tables);
            let mut commit = RawCommit::new(true);
            raw.walk(tables.expect("it has tables"), Widths::ANY, &mut |page| {
                commit.add(page).expect("it lists tables of simdb");
                Ok(())
            })?;
            let root = commit.root("documents").expect("it has rows");
            raw.visit(root, Widths::of_keys(Some(9)), &mut |visited| {
                match visited {
                    Visited::Leaf(page) => {
                        leaves.push(page.offset..page.offset + PAGE_BYTES as u64);
                    }
                    Visited::Branch(branch) => branches.push(raw.regions.range_of(branch.page)),
                    Visited::Damaged(range) => panic!("{range:?} is damaged"),
                }
                Ok(())
            })?;
        }
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
        ensure_first_pages(&storage, true, Path::new("file"))?;
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
