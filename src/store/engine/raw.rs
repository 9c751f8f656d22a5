//! The pages of the engine, read without the engine: for files on which it gives up, and for what it does not compare
//! itself. Nothing is written.
//!
//! The engine believes what a page says, also after a crash: the pages of a commit are on the disk before the header
//! names it. Without such a commit it compares all pages. So the pages that it begins with, and the branches that lead
//! to others, are compared here before it reads them.
//!
//! A leaf has keys and values. A branch has the numbers and the checksums of other pages. The header has those of the
//! first page of the table of tables, which has those of the first page of each table. So what is reached from the
//! header by right checksums belongs to the last commit. The layout is that of redb's file format 3.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use foldhash::{HashMap, HashMapExt as _};
use xxhash_rust::xxh3::xxh3_128;

use super::holder::holder_of;
use super::open_file::{REGION_PAGES, not_opened};
use crate::error::{Error, Result};
use crate::files::open_if_file;
use crate::store::sizes::PAGE_BYTES;
use crate::sync::RwLock;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;
const PAGE: u64 = PAGE_BYTES as u64;
/// The most bytes of a page that is looked for anywhere. No value of simdb comes near it.
const MOST_BYTES: usize = 1 << 20;
/// The most bytes of a page whose number is known. Nothing that the engine stores comes near it.
const MOST_PAGE_BYTES: u64 = 64 << 20;
/// The bytes that a scan reads at a time.
const SCANNED_BYTES: usize = 4 << 20;

const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Bits of the byte behind the magic number: which slot has the last commit; the file was not closed in order; the
/// pages of that commit were synced before the header named it, so the engine believes them.
const SECOND_SLOT: u8 = 1;
const NOT_CLOSED: u8 = 2;
const BELIEVED: u8 = 4;

/// Where a value is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// A key, its value, and where the value is.
type Pair<'a> = (&'a [u8], &'a [u8], Place);

/// The number and the checksum of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    page: u64,
    checksum: u128,
}

impl Root {
    /// The root that is written here.
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            page: number(bytes, at)?,
            checksum: checksum(bytes, at + 8)?,
        })
    }
}

/// The bytes of the keys and of the values of a table, if all have as many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

impl Widths {
    /// Of keys and values of any length.
    pub(crate) const ANY: Self = Self::of_keys(None);

    /// Of a table of simdb: values have any length.
    pub(crate) const fn of_keys(key: Option<usize>) -> Self {
        Self { key, value: None }
    }
}

/// The tables of a commit. A table without rows has no root.
pub(crate) struct RawCommit {
    tables: HashMap<Vec<u8>, Option<Root>>,
    /// Whether the header vouches that no later commit was made.
    pub(crate) is_last: bool,
}

impl RawCommit {
    /// A commit of which no table is known yet.
    fn new(is_last: bool) -> Self {
        Self {
            tables: HashMap::new(),
            is_last,
        }
    }

    /// Adds the tables that a page lists. `None` if it is no page of a table of tables.
    fn add(&mut self, page: &RawPage<'_>) -> Option<()> {
        for (name, definition, _) in page.pairs(None)? {
            self.tables.insert(name.to_vec(), root_of(definition)?);
        }
        Some(())
    }

    /// Itself, if it is one of simdb.
    fn checked(self) -> Option<Self> {
        let ours = ["meta", "documents", "directory"];
        let mut ours = ours.into_iter().map(str::as_bytes);
        ours.all(|name| self.tables.contains_key(name))
            .then_some(self)
    }

    /// The root of a table, if it has rows.
    pub(crate) fn root(&self, table: &str) -> Option<Root> {
        self.tables.get(table.as_bytes()).copied().flatten()
    }
}

/// The root in the definition of a table. `None` if these bytes are no definition, or that of a table whose values have
/// a fixed length. simdb has none.
fn root_of(definition: &[u8]) -> Option<Option<Root>> {
    /// A table whose keys have one value each.
    const NORMAL: u8 = 3;
    const HAS_FIXED_VALUES: usize = 47;
    if *definition.first()? != NORMAL || *definition.get(HAS_FIXED_VALUES)? != 0 {
        return None;
    }
    match definition.get(9)? {
        0 => Some(None),
        _ => Root::read(definition, 10).map(Some),
    }
}

/// A page that was read from the file, with what may follow it.
pub(crate) struct RawPage<'a> {
    pub(crate) offset: u64,
    bytes: &'a [u8],
}

impl<'a> RawPage<'a> {
    /// The bytes that were read at `offset`.
    fn new(offset: u64, bytes: &'a [u8]) -> Self {
        Self { offset, bytes }
    }

    /// The keys and the values of a leaf, if this is one whose keys have so many bytes each, or each its own number.
    pub(crate) fn pairs(&self, key_bytes: Option<usize>) -> Option<Vec<Pair<'a>>> {
        if *self.bytes.first()? != LEAF {
            return None;
        }
        let count = self.count()?;
        let ends = match key_bytes {
            Some(_) => 4 + 4 * count,
            None => 4 + 8 * count,
        };
        let mut keys = Vec::new();
        let mut from = ends;
        for index in 0..count {
            let to = match key_bytes {
                Some(bytes) => from + bytes,
                None => self.end(4 + 4 * index)?,
            };
            keys.push(self.bytes.get(from..to)?);
            from = to;
        }
        let mut pairs = Vec::with_capacity(keys.len());
        for (index, key) in keys.into_iter().enumerate() {
            let to = self.end(ends - 4 * count + 4 * index)?;
            let value = self.bytes.get(from..to)?;
            let place = Place {
                offset: self.offset + from as u64,
                bytes: value.len(),
            };
            pairs.push((key, value, place));
            from = to;
        }
        Some(pairs)
    }

    /// The number of keys.
    fn count(&self) -> Option<usize> {
        let count = self.bytes.get(2..4)?.first_chunk()?;
        Some(u16::from_le_bytes(*count).into()).filter(|&count| count > 0)
    }

    /// The end of a key or a value.
    fn end(&self, at: usize) -> Option<usize> {
        let end = self.bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*end) as usize)
    }

    /// Whether the part of the page that is used has this checksum.
    fn has(&self, checksum: u128, used: usize) -> bool {
        self.bytes
            .get(..used)
            .is_some_and(|used| xxh3_128(used) == checksum)
    }

    /// The bytes that are used, if this is a leaf.
    fn leaf_bytes(&self, widths: Widths) -> Option<usize> {
        if *self.bytes.first()? != LEAF {
            return None;
        }
        let count = self.count()?;
        // The ends of the keys come first, then those of the values.
        let value_ends = match widths.key {
            Some(_) => 4,
            None => 4 + 4 * count,
        };
        let keys = match widths.value {
            Some(_) => value_ends,
            None => value_ends + 4 * count,
        };
        let values = match widths.key {
            Some(bytes) => keys + bytes * count,
            None => self.end(value_ends - 4)?,
        };
        match widths.value {
            Some(bytes) => Some(values + bytes * count),
            None => self.end(keys - 4),
        }
    }

    /// The pages below a branch, if this is one and has this checksum.
    fn children(&self, key_bytes: Option<usize>, checksum_of_all: u128) -> Option<Vec<Root>> {
        if *self.bytes.first()? != BRANCH {
            return None;
        }
        let keys = self.count()?;
        let pages = 8 + 16 * (keys + 1);
        let ends = pages + 8 * (keys + 1);
        let used = match key_bytes {
            Some(bytes) => ends + bytes * keys,
            None => self.end(ends + 4 * (keys - 1))?,
        };
        if !self.has(checksum_of_all, used) {
            return None;
        }
        let mut children = Vec::new();
        for child in 0..=keys {
            children.push(Root {
                page: number(self.bytes, pages + 8 * child)?,
                checksum: checksum(self.bytes, 8 + 16 * child)?,
            });
        }
        Some(children)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn checksum(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A page of a tree.
enum Visited<'a> {
    Leaf(&'a RawPage<'a>),
    Branch(Root),
    /// It does not have the checksum that leads to it, or cannot be read.
    Damaged(Root),
}

/// What pages are read from.
pub(crate) trait Source {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }
}

/// A file of the engine that is only read, and that nobody else writes to meanwhile.
pub(crate) struct RawFile<S = File> {
    pub(crate) file: S,
    pub(crate) length: u64,
    regions: Regions,
}

/// Where pages are in the file. It is divided into regions of so many bytes.
#[derive(Clone, Copy, Debug)]
struct Regions {
    bytes: u64,
}

impl Regions {
    /// The bytes of the file that a page has.
    fn range_of(self, page: u64) -> Range<u64> {
        let order = page >> 59;
        let region = page >> 20 & 0xf_ffff;
        let index = page & (0xf_ffff >> order);
        let begin = PAGE + region * self.bytes + index * (PAGE << order);
        begin..begin + (PAGE << order)
    }
}

impl RawFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let opened = open_if_file(path).map_err(|source| not_opened(path, source))?;
        let file = opened.ok_or_else(|| Error::NotSalvaged {
            path: path.to_owned(),
            problem: "it is no file",
        })?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy {
                    holder: holder_of(path),
                    path: path.to_owned(),
                });
            }
            // A file system without locks has nobody who holds one.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let length = file.metadata().map_err(Error::io(path))?.len();
        Ok(Self::new(file, length))
    }
}

impl<S: Source> RawFile<S> {
    fn new(file: S, length: u64) -> Self {
        let mut file = Self {
            file,
            length,
            regions: Regions {
                bytes: u64::from(REGION_PAGES) * PAGE,
            },
        };
        // Other programs of the engine may have made other regions.
        let pages = file.read(0, PAGE_BYTES).and_then(|header| {
            let pages = header.get(20..24)?.first_chunk()?;
            Some(u32::from_le_bytes(*pages)).filter(|_| header.starts_with(MAGIC))
        });
        if let Some(pages) = pages.filter(|pages| (1..=1 << 20).contains(pages)) {
            file.regions.bytes = u64::from(pages) * PAGE;
        }
        file
    }

    /// Some bytes of the file. `None` if the file is too short or the disk cannot read them.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        if offset.checked_add(bytes as u64)? > self.length {
            return None;
        }
        let mut read = vec![0; bytes];
        self.file.read_at(offset, &mut read).ok()?;
        Some(read)
    }

    /// The last commit, if the header and the table of tables are sound.
    pub(crate) fn last_commit(&self) -> Option<RawCommit> {
        let header = self.read(0, PAGE_BYTES)?;
        let flags = *header.strip_prefix(MAGIC)?.first()?;
        let named = usize::from(flags & SECOND_SLOT);
        let mut chosen = Slot::read(&header, named)?;
        // In a file that was closed in order, the last commit has the greater number. In another one, a greater
        // number is that of a commit that was under way, or the flag is damaged.
        let later = Slot::read(&header, 1 - named).filter(|other| other.number > chosen.number);
        if let Some(later) = later
            && flags & NOT_CLOSED == 0
        {
            chosen = later;
        }
        let mut commit = RawCommit::new(later.is_none());
        let mut is_whole = true;
        let damaged = self.walk(chosen.tables?, Widths::ANY, &mut |page| {
            is_whole &= commit.add(page).is_some();
            Ok(())
        });
        is_whole &= damaged.is_ok_and(|damaged| damaged.is_empty());
        commit.checked().filter(|_| is_whole)
    }

    /// What the header says of the last commit, if the engine believes it and compares no page.
    fn believed_slot(&self) -> Option<Slot> {
        let header = self.read(0, PAGE_BYTES)?;
        let flags = *header.strip_prefix(MAGIC)?.first()?;
        if flags & BELIEVED == 0 {
            return None;
        }
        Slot::read(&header, usize::from(flags & SECOND_SLOT))
    }

    /// Calls `each` with the leaves of a table that have the checksums that lead to them. Returns the bytes of the
    /// file that do not have theirs, or cannot be read.
    pub(crate) fn walk(
        &self,
        root: Root,
        widths: Widths,
        each: &mut dyn FnMut(&RawPage<'_>) -> Result<()>,
    ) -> Result<Vec<Range<u64>>> {
        let mut damaged = Vec::new();
        self.visit::<Error>(root, widths, &mut |visited| {
            match visited {
                Visited::Leaf(page) => each(page)?,
                Visited::Branch(_) => {}
                Visited::Damaged(root) => damaged.push(self.regions.range_of(root.page)),
            }
            Ok(())
        })?;
        Ok(damaged)
    }

    /// Calls `each` with the pages of a tree.
    fn visit<E>(
        &self,
        root: Root,
        widths: Widths,
        each: &mut dyn FnMut(Visited<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut waiting = vec![root];
        // No page of a sound tree is reached twice.
        let mut left = self.length / PAGE;
        while let Some(root) = waiting.pop() {
            let range = self.regions.range_of(root.page);
            let bytes = (range.end - range.start).min(MOST_PAGE_BYTES) as usize;
            let read = self.read(range.start, bytes).filter(|_| left > 0);
            left = left.saturating_sub(1);
            let page = RawPage::new(range.start, read.as_deref().unwrap_or(&[]));
            let used = page.leaf_bytes(widths);
            if used.is_some_and(|used| page.has(root.checksum, used)) {
                each(Visited::Leaf(&page))?;
            } else if let Some(children) = page.children(widths.key, root.checksum) {
                each(Visited::Branch(root))?;
                waiting.extend(children.into_iter().rev());
            } else {
                each(Visited::Damaged(root))?;
            }
        }
        Ok(())
    }

    /// Calls `each` with every page of the file, whatever it is.
    pub(crate) fn scan(&self, mut each: impl FnMut(&RawPage<'_>) -> Result<()>) -> Result<()> {
        let mut from = PAGE;
        while from < self.length {
            let wanted = (SCANNED_BYTES + MOST_BYTES) as u64;
            let wanted = wanted.min(self.length - from) as usize;
            let read = self.read(from, wanted);
            let bytes = read.unwrap_or_else(|| self.read_by_pages(from, wanted));
            for at in (0..bytes.len().min(SCANNED_BYTES)).step_by(PAGE_BYTES) {
                let to = bytes.len().min(at + MOST_BYTES);
                each(&RawPage::new(from + at as u64, &bytes[at..to]))?;
            }
            from += SCANNED_BYTES as u64;
        }
        Ok(())
    }

    /// What the disk can read of some pages, with zeros in the place of the others.
    fn read_by_pages(&self, from: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        for (at, page) in (from..)
            .step_by(PAGE_BYTES)
            .zip(read.chunks_mut(PAGE_BYTES))
        {
            if let Some(bytes) = self.read(at, page.len()) {
                page.copy_from_slice(&bytes);
            }
        }
        read
    }

    /// Calls `each` with every commit whose table of tables is somewhere in the file. Nothing vouches for these. If the
    /// table has several pages, only the tables in the first page are known.
    pub(crate) fn each_commit(&self, mut each: impl FnMut(RawCommit) -> Result<()>) -> Result<()> {
        self.scan(|page| {
            let mut commit = RawCommit::new(false);
            let is_one = commit.add(page).is_some();
            let commit = commit.checked().filter(|_| is_one);
            commit.map_or(Ok(()), &mut each)
        })
    }
}

/// What one of two places in the header says of a commit.
#[derive(Clone, Copy)]
struct Slot {
    /// The number of the commit.
    number: u64,
    /// Where its table of tables begins.
    tables: Option<Root>,
    /// Where the table begins of the tables that the engine has for itself, in which it lists what is free.
    lists: Option<Root>,
}

impl Slot {
    /// `None` if it does not have its checksum.
    fn read(header: &[u8], index: usize) -> Option<Self> {
        const BYTES: usize = 128;
        const SUMMED: usize = BYTES - 16;
        let slot = header.get(64 + BYTES * index..)?.get(..BYTES)?;
        if checksum(slot, SUMMED)? != xxh3_128(&slot[..SUMMED]) {
            return None;
        }
        Some(Self {
            number: number(slot, 104)?,
            tables: Root::read(slot, 8).filter(|_| slot[1] != 0),
            lists: Root::read(slot, 40).filter(|_| slot[2] != 0),
        })
    }
}

// The pages that the engine begins with, compared before it reads them.

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
    fn compare(&mut self, slot: Slot) {
        let mut commit = RawCommit::new(true);
        if let Some(tables) = slot.tables {
            let roots = self.read_tables(tables, |page| {
                // The tables of another program may be of another kind.
                _ = commit.add(page);
            });
            self.found.is_other_commit = roots.is_none();
            // Without a table with the state, it is a file of another program, or a new one.
            if let Some(meta) = commit.root("meta") {
                self.found.is_other_commit |= !self.read_all(meta, Widths::ANY, |_| {});
                for (root, widths) in roots.unwrap_or_default() {
                    self.known.add_level(&[root], widths, &self.file.file);
                }
            }
        }
        if let Some(lists) = slot.lists {
            let roots = self.read_tables(lists, |_| {});
            self.found.has_damaged_lists = roots.is_none();
            for (root, widths) in roots.unwrap_or_default() {
                self.found.has_damaged_lists |= !self.read_all(root, widths, |_| {});
            }
        }
    }

    /// Reads a table of tables. Returns where its tables begin. `None` if it is damaged.
    fn read_tables(
        &mut self,
        root: Root,
        mut each: impl FnMut(&RawPage<'_>),
    ) -> Option<Vec<(Root, Widths)>> {
        let mut roots = Vec::new();
        let is_whole = self.read_all(root, Widths::ANY, |page| {
            each(page);
            for (_, definition, _) in page.pairs(None).unwrap_or_default() {
                roots.extend(root_and_widths(definition));
            }
        });
        is_whole.then_some(roots)
    }

    /// Reads all of a tree. Whether it is whole.
    fn read_all(&mut self, root: Root, widths: Widths, mut each: impl FnMut(&RawPage<'_>)) -> bool {
        let mut is_whole = true;
        let Ok(()) = self.file.visit::<Infallible>(root, widths, &mut |visited| {
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
        });
        is_whole
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
struct Known {
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
    /// Compares the pages that the engine begins with with the checksums that lead to them from the header, and from
    /// then on the branches below them. Costs a few pages, and the lists of what is free.
    ///
    /// `None` if the engine does not believe the commit that the header names. It then compares all pages itself, and
    /// commits: after that, there is a commit that it believes.
    pub(super) fn compare_first(
        &self,
        source: &impl Source,
        length: u64,
    ) -> io::Result<Option<FirstPages>> {
        let pages = Pages {
            source,
            failed: RefCell::new(None),
        };
        let file = RawFile::new(pages, length);
        let mut comparison = Comparison {
            known: Known::new(file.regions),
            file: &file,
            found: FirstPages {
                is_other_commit: false,
                has_damaged_lists: false,
            },
        };
        let slot = file.believed_slot();
        if let Some(slot) = slot {
            comparison.compare(slot);
        }
        let Comparison { known, found, .. } = comparison;
        // What cannot be read is not known to be damaged.
        match file.file.failed.take() {
            Some(failed) => Err(failed),
            None => Ok(slot.map(|_| {
                *self.known.write() = Some(known);
                found
            })),
        }
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
mod tests;
