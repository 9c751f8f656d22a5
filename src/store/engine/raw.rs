//! The pages of the engine, read without the engine: for files on which it gives up, and to see at opening that the
//! first pages are those of the last commit, which the engine does not compare. Nothing is written.
//!
//! A leaf has keys and values. A branch has the numbers and the checksums of other pages. The header has those of the
//! first page of the table of tables, which has those of the first page of each table. So what is reached from the
//! header by right checksums belongs to the last commit. The layout is that of redb's file format 3.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use redb::StorageBackend;

use super::open_file::{holder_of, not_opened};
use super::storage::{Lent, REGION_PAGES};
use crate::error::{Error, Result};
use crate::store::sizes::PAGE_BYTES;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;
const PAGE: u64 = PAGE_BYTES as u64;
/// The most bytes of a page with one large value. No value of simdb comes near it.
const MOST_BYTES: usize = 1 << 20;
/// The bytes that a scan reads at a time.
const SCANNED_BYTES: usize = 4 << 20;

const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Bits of the byte behind the magic number: which slot has the last commit; the file was not closed in order.
const SECOND_SLOT: u8 = 1;
const NOT_CLOSED: u8 = 2;

/// Where a value is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// A key, its value, and where the value is.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8], Place);

/// The number and the checksum of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    page: u64,
    checksum: u128,
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
        _ => Some(Some(Root {
            page: number(definition, 10)?,
            checksum: checksum(definition, 18)?,
        })),
    }
}

/// A page that was read from the file, with what may follow it.
pub(crate) struct RawPage<'a> {
    pub(crate) offset: u64,
    bytes: &'a [u8],
}

impl<'a> RawPage<'a> {
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

    fn is_leaf_with(&self, checksum: u128, pairs: &[Pair<'_>]) -> bool {
        let last = pairs.last().map(|(_, _, place)| place);
        last.is_some_and(|last| {
            let end = last.offset - self.offset + last.bytes as u64;
            self.has(checksum, end as usize)
        })
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

impl Source for &Lent {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        StorageBackend::read(*self, offset, out)
    }
}

/// A file of the engine that is only read, and that nobody else writes to meanwhile.
pub(crate) struct RawFile<S = File> {
    pub(crate) file: S,
    pub(crate) length: u64,
    region_bytes: u64,
}

/// Whether the pages that the engine begins with are those of the commit that the header names: the table of tables, and
/// the table with the state. The engine does not compare them with their checksums. Old ones in their place, whole and
/// each at its place, would show an older commit. Without the pages, the engine has nothing to show.
pub(super) fn shows_last_commit(storage: &Lent) -> io::Result<bool> {
    let file = RawFile::new(storage, storage.len()?);
    let Some(header) = file.read(0, PAGE_BYTES) else {
        return Ok(true);
    };
    let named = usize::from(header[MAGIC.len()] & SECOND_SLOT);
    let Some((_, root)) = slot(&header, named) else {
        return Ok(true);
    };
    let mut commit = RawCommit::new(true);
    let damaged = file.walk(root, None, &mut |page| {
        // The tables of another program may be of another kind.
        _ = commit.add(page);
        Ok(())
    });
    if damaged.is_ok_and(|damaged| !damaged.is_empty()) {
        return Ok(false);
    }
    // Without this table, it is a file of another program.
    let Some(meta) = commit.root("meta") else {
        return Ok(true);
    };
    let damaged = file.walk(meta, None, &mut |_| Ok(()));
    Ok(damaged.is_ok_and(|damaged| damaged.is_empty()))
}

impl RawFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| not_opened(path, source))?;
        let metadata = file.metadata().map_err(Error::io(path))?;
        if !metadata.is_file() {
            return Err(Error::NotSimdb {
                path: path.to_owned(),
            });
        }
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
        Ok(Self::new(file, metadata.len()))
    }
}

impl<S: Source> RawFile<S> {
    fn new(file: S, length: u64) -> Self {
        let mut file = Self {
            file,
            length,
            region_bytes: u64::from(REGION_PAGES) * PAGE,
        };
        // Other programs of the engine may have made other regions.
        let pages = file.read(0, PAGE_BYTES).and_then(|header| {
            let pages = header.get(20..24)?.first_chunk()?;
            Some(u32::from_le_bytes(*pages)).filter(|_| header.starts_with(MAGIC))
        });
        if let Some(pages) = pages.filter(|pages| (1..=1 << 20).contains(pages)) {
            file.region_bytes = u64::from(pages) * PAGE;
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

    /// The bytes of the file that a page has.
    fn range_of(&self, page: u64) -> Range<u64> {
        let order = page >> 59;
        let region = page >> 20 & 0xf_ffff;
        let index = page & (0xf_ffff >> order);
        let begin = PAGE + region * self.region_bytes + index * (PAGE << order);
        begin..begin + (PAGE << order)
    }

    /// The last commit, if the header and the table of tables are sound.
    pub(crate) fn last_commit(&self) -> Option<RawCommit> {
        let header = self.read(0, PAGE_BYTES)?;
        let flags = *header.strip_prefix(MAGIC)?.first()?;
        let named = usize::from(flags & SECOND_SLOT);
        let mut chosen = slot(&header, named)?;
        // In a file that was closed in order, the last commit has the greater number. In another one, a greater
        // number is that of a commit that was under way, or the flag is damaged.
        let later = slot(&header, 1 - named).filter(|other| other.0 > chosen.0);
        if let Some(later) = later
            && flags & NOT_CLOSED == 0
        {
            chosen = later;
        }
        let commit = self.commit_of(chosen.1, later.is_none())?;
        commit.checked()
    }

    /// The commit whose table of tables begins here, if that is sound.
    fn commit_of(&self, root: Root, is_last: bool) -> Option<RawCommit> {
        let mut commit = RawCommit::new(is_last);
        let mut is_whole = true;
        let damaged = self.walk(root, None, &mut |page| {
            is_whole &= commit.add(page).is_some();
            Ok(())
        });
        is_whole &= damaged.is_ok_and(|damaged| damaged.is_empty());
        is_whole.then_some(commit)
    }

    /// Calls `each` with the leaves of a table that have the checksums that lead to them. Returns the bytes of the
    /// file that do not have theirs, or cannot be read.
    pub(crate) fn walk(
        &self,
        root: Root,
        key_bytes: Option<usize>,
        each: &mut dyn FnMut(&RawPage<'_>) -> Result<()>,
    ) -> Result<Vec<Range<u64>>> {
        let mut damaged = Vec::new();
        let mut waiting = vec![root];
        // No page of a sound table is reached twice.
        let mut left = self.length / PAGE;
        while let Some(Root { page, checksum }) = waiting.pop() {
            let range = self.range_of(page);
            let bytes = (range.end - range.start).min(MOST_BYTES as u64) as usize;
            let read = self.read(range.start, bytes).filter(|_| left > 0);
            left = left.saturating_sub(1);
            let page = RawPage {
                offset: range.start,
                bytes: read.as_deref().unwrap_or(&[]),
            };
            let pairs = page.pairs(key_bytes);
            if pairs.is_some_and(|pairs| page.is_leaf_with(checksum, &pairs)) {
                each(&page)?;
            } else if let Some(children) = page.children(key_bytes, checksum) {
                waiting.extend(children.into_iter().rev());
            } else {
                damaged.push(range);
            }
        }
        Ok(damaged)
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
                each(&RawPage {
                    offset: from + at as u64,
                    bytes: &bytes[at..to],
                })?;
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

/// The number of a commit and the first page of its table of tables, from one of two places in the header.
fn slot(header: &[u8], index: usize) -> Option<(u64, Root)> {
    const BYTES: usize = 128;
    const SUMMED: usize = BYTES - 16;
    let slot = header.get(64 + BYTES * index..)?.get(..BYTES)?;
    let is_sound = checksum(slot, SUMMED)? == xxh3_128(&slot[..SUMMED]) && slot[1] != 0;
    let root = Root {
        page: number(slot, 8)?,
        checksum: checksum(slot, 16)?,
    };
    is_sound.then_some((number(slot, 104)?, root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::{Changes, Engine, Image, Recording};

    /// The first pages of the commit that the header of a file names: of the table of tables, and of `meta`.
    fn first_pages(file: &[u8]) -> [Range<usize>; 2] {
        let storage = Lent::of_test(Recording::new(Image::new(file.to_vec())));
        let raw = RawFile::new(&storage, file.len() as u64);
        let named = usize::from(file[MAGIC.len()] & SECOND_SLOT);
        let (_, root) = slot(file, named).expect("a header");
        let commit = raw.commit_of(root, true).expect("a table of tables");
        let meta = commit.root("meta").expect("it has rows");
        [root, meta].map(|root| {
            let range = raw.range_of(root.page);
            range.start as usize..range.end as usize
        })
    }

    /// The engine reads an older page in the place of a newer one as if it were that one. An older table of tables shows
    /// the whole older commit, in which nothing is wrong but that it is not the last.
    #[test]
    fn pages_of_an_older_commit_where_the_last_begins_are_told() -> Result<()> {
        let storage = Recording::default();
        let first: &[_] = &[("state", vec![0; 100])];
        let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[], first)))?;
        let mut files = Vec::new();
        for commit in 1..6 {
            engine.apply(&Changes::default(), &[("state", vec![commit; 100])])?;
            files.push(storage.image().as_bytes().to_vec());
        }
        let open = |file: Vec<u8>| {
            let storage = Recording::new(Image::new(file));
            Engine::on_backend(storage, 1 << 20, None).map(drop)
        };
        let last = files.pop().expect("there are some");
        open(last.clone())?;
        for (which, place) in first_pages(&last).into_iter().enumerate() {
            for older in &files {
                let from = first_pages(older)[which].clone();
                let mut damaged = last.clone();
                damaged[place.clone()].copy_from_slice(&older[from]);
                let opened = open(damaged);
                // With debug assertions, the engine itself may find that pages are used twice.
                let is_told = matches!(opened, Err(Error::Damaged { .. } | Error::Corrupted(_)));
                assert!(is_told, "{opened:?}");
            }
        }
        Ok(())
    }
}
