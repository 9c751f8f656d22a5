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
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::report::{MissingDocuments, SalvageReport, add_range, is_among, joined};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::ensure_nothing_at;
use crate::source::Source;
use crate::store::blocks::{DocumentBlock, Entry, FileSeed, Lists, decode_rows};
use crate::store::dense::{CopyProgress, TakenOver, rebuild};
use crate::store::engine::{LevelName, Place, RawCommit, RawFile, RawPage, Widths};
use crate::store::file::{
    DEAD, DOCUMENTS, FORMAT, RowSink, SETTINGS, STATE, Set, SetRow, Settings, StateHead,
    check_format, decode_page, decode_settings, decode_source, state_head,
};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::lone_entries;

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
    let settings_found = basis.meta.settings.is_some();
    let settings = basis.meta.settings.clone().or_else(|| how.settings.clone());
    let settings = settings.ok_or_else(|| refused(NO_SETTINGS))?;
    if basis.commit.is_none() && !how.old {
        return Err(refused(NO_COMMIT));
    }
    let mut salvage = Salvage::new(&file, basis, &pace);
    salvage.walk()?;
    salvage.find_listed()?;
    let mut report = salvage.report();
    report.settings_found = settings_found;
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
struct Pace<'a> {
    progress: RefCell<CopyProgress<'a>>,
    all: u64,
}

impl Pace<'_> {
    /// Something at this place of the file was read.
    fn read(&self, offset: u64) -> Result<()> {
        Error::if_broken((self.progress.borrow_mut())(offset, self.all))
    }
}

// What everything else is read by: a commit, and what the table meta says.

/// What the rows of the table meta say, as far as they can be read.
#[derive(Default)]
struct Meta {
    seed: Option<FileSeed>,
    settings: Option<Settings>,
    /// Of the newest state record.
    head: Option<StateHead>,
}

impl Meta {
    /// Nothing but the seed yet.
    fn with(seed: Option<FileSeed>) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// What a commit says. Adds the bytes that are damaged. If the commit has lost the seed of its file, it is one of
    /// these.
    fn of(
        file: &RawFile,
        commit: &RawCommit,
        seeds: &mut Seeds<'_, '_>,
        damaged: &mut Vec<Range<u64>>,
    ) -> Result<Self> {
        let Some(root) = commit.root("meta") else {
            return Ok(Self::with(seeds.of(commit)?));
        };
        let mut meta = Self::default();
        damaged.extend(file.walk(root, Widths::ANY, &mut |page| meta.take(page))?);
        if meta.seed.is_none() {
            meta.seed = seeds.of(commit)?;
            file.walk(root, Widths::ANY, &mut |page| meta.take(page))?;
        }
        Ok(meta)
    }

    /// Takes the rows of a page that is one of the table, or may be.
    fn take(&mut self, page: &RawPage<'_>) -> Result<()> {
        for (name, row, _) in page.pairs(None).unwrap_or_default() {
            if name == FORMAT.as_bytes() && self.seed.is_none() {
                self.seed = match check_format(row) {
                    Err(error @ (Error::FormatVersion { .. } | Error::UnknownFeatures { .. })) => {
                        return Err(error);
                    }
                    seed => seed.ok(),
                };
            }
            let Some(seed) = self.seed else { continue };
            if name == SETTINGS.as_bytes() && self.settings.is_none() {
                self.settings = decode_settings(seed, row).ok();
            }
            if name == STATE.as_bytes()
                && let Ok(head) = state_head(seed, row)
                && age(Some(&head)) >= age(self.head.as_ref())
            {
                self.head = Some(head);
            }
        }
        Ok(())
    }
}

/// The greater, the newer.
fn age(head: Option<&StateHead>) -> (u64, u64) {
    head.map_or((0, 0), |head| head.age)
}

/// What everything else is read by: a commit, and what the file says of itself.
struct Basis {
    /// The last commit or the newest that is found.
    commit: Option<RawCommit>,
    /// What this commit says. What does not change from commit to commit may be of others.
    meta: Meta,
    /// Whether something in the file is of a later commit.
    is_behind: bool,
    /// The greatest that any commit tells.
    next_document: u64,
    damaged: Vec<Range<u64>>,
}

impl Basis {
    fn find(file: &RawFile, pace: &Pace<'_>) -> Result<Self> {
        let mut damaged = Vec::new();
        let mut seeds = Seeds {
            file,
            pace,
            told: None,
        };
        let mut commit = file.last_commit();
        let mut meta = match &commit {
            Some(commit) => Meta::of(file, commit, &mut seeds, &mut damaged)?,
            None => Meta::default(),
        };
        if commit.is_none() {
            file.each_commit(|other| {
                let mut lost = Vec::new();
                let said = Meta::of(file, &other, &mut seeds, &mut lost)?;
                if commit.is_none() || age(said.head.as_ref()) > age(meta.head.as_ref()) {
                    (commit, meta, damaged) = (Some(other), said, lost);
                }
                Ok(())
            })?;
        }
        if commit.is_none() {
            meta.seed = seeds.all()?.first().copied();
        }
        // All rows of this kind in the file.
        let mut all = Meta::with(meta.seed);
        if meta.seed.is_some() {
            file.scan(|page| {
                all.take(page)?;
                pace.read(page.offset)
            })?;
        }
        let newest = all.head.as_ref();
        let is_vouched = commit.as_ref().is_some_and(|commit| commit.is_last);
        let is_behind = match &meta.head {
            Some(head) => age(newest).0 > head.age.0,
            None => !is_vouched,
        };
        let next_document = newest.map_or(0, |head| head.counters.next_document);
        meta.settings = meta.settings.or(all.settings);
        Ok(Self {
            commit,
            meta,
            is_behind,
            next_document,
            damaged,
        })
    }

    /// Whether the header vouches for the commit, and nothing is of a later one. The header may be an older one, so
    /// without the state record of the commit that cannot be told.
    fn is_last(&self) -> bool {
        let is_vouched = self.commit.as_ref().is_some_and(|commit| commit.is_last);
        is_vouched && !self.is_behind && self.meta.head.is_some()
    }
}

/// The seeds that are told anywhere in a file. Where two files were joined, they have one each.
struct Seeds<'f, 'p> {
    file: &'f RawFile,
    pace: &'f Pace<'p>,
    /// Those that are told, once they were looked for.
    told: Option<Vec<FileSeed>>,
}

impl Seeds<'_, '_> {
    fn all(&mut self) -> Result<&[FileSeed]> {
        if self.told.is_none() {
            let mut told = Vec::new();
            self.file.scan(|page| {
                let mut meta = Meta::default();
                meta.take(page)?;
                if let Some(seed) = meta.seed.filter(|seed| !told.contains(seed)) {
                    told.push(seed);
                }
                self.pace.read(page.offset)
            })?;
            self.told = Some(told);
        }
        Ok(self.told.as_deref().unwrap_or_default())
    }

    /// The one that some chunk of the directory of a commit, or some page of its log, was written with.
    fn of(&mut self, commit: &RawCommit) -> Result<Option<FileSeed>> {
        let file = self.file;
        let told = self.all()?;
        let mut found = None;
        let chunks = commit.root("directory");
        let pages = commit.root("log");
        for (root, key_bytes) in [(chunks, CHUNK_KEY), (pages, LOG_KEY)] {
            let Some(root) = root.filter(|_| found.is_none()) else {
                continue;
            };
            file.walk(root, Widths::of_keys(Some(key_bytes)), &mut |page| {
                for (key, value, _) in page.pairs(Some(key_bytes)).unwrap_or_default() {
                    let is_one = |seed: &&FileSeed| is_written_with(**seed, key, value);
                    found = found.or_else(|| told.iter().find(is_one).copied());
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Whether a row of the directory or of the log was written in the file that has this seed.
fn is_written_with(seed: FileSeed, key: &[u8], value: &[u8]) -> bool {
    if let Some((level, last)) = chunk_key(key) {
        return lone_entries::<u64>(level, last, Some(seed), value).is_ok();
    }
    let number = key.try_into().map(u64::from_le_bytes);
    number.is_ok_and(|number| decode_page(seed, number, value, &mut Vec::new()).is_ok())
}

/// The bytes of the key of a chunk of the directory, and of that of a page of the log.
const CHUNK_KEY: usize = 18;
const LOG_KEY: usize = 8;

/// The level and the last row of a chunk, if it is one of the documents or of the dead numbers.
fn chunk_key(key: &[u8]) -> Option<(LevelName, u128)> {
    let (id, last) = key.split_first_chunk()?;
    let id = u16::from_le_bytes(*id);
    let dead = DEAD.level(id as u8);
    let level = [DOCUMENTS, dead]
        .into_iter()
        .find(|level| level.id() == id)?;
    Some((level, u128::from_le_bytes(last.try_into().ok()?)))
}

// The documents of the new file.

/// A block whose documents are kept. Of a block of an earlier commit only some are.
#[derive(Clone, Copy)]
struct Part {
    found: Found,
    /// The number of the first document that may be kept.
    first: u64,
    is_old: bool,
}

impl Part {
    /// Whether this part goes on with the documents of the one before, of the same block of an earlier commit.
    fn continues(&self, before: &Self) -> bool {
        self.is_old && before.is_old && self.found.place == before.found.place
    }
}

/// The documents that the new file gets: those of some blocks, in the order of their numbers, but for some.
#[derive(Default)]
struct Chosen {
    parts: Vec<Part>,
    replaced: HashSet<u64>,
    /// The number of the last.
    last: u64,
}

/// The documents that were chosen, with their numbers, in order.
struct Documents<'a, 'p> {
    salvage: &'a Salvage<'a, 'p>,
    chosen: &'a Chosen,
    next_part: usize,
    /// Those of the part before that are left.
    waiting: std::vec::IntoIter<(u64, Document)>,
    last: u64,
    /// The numbers of those that are stored but are no documents.
    unreadable: Vec<u64>,
}

impl<'a, 'p> Documents<'a, 'p> {
    fn new(salvage: &'a Salvage<'a, 'p>, chosen: &'a Chosen) -> Self {
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
struct DeadNumbers {
    put: HashSet<u64>,
    marked: HashSet<u64>,
}

impl DeadNumbers {
    fn has(&self, number: u64) -> bool {
        self.put.contains(&number) && !self.marked.contains(&number)
    }

    fn sorted(&self) -> Vec<u64> {
        let numbers = self.put.iter().copied();
        let mut numbers: Vec<u64> = numbers.filter(|&number| self.has(number)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Takes the rows of a block. False if it is none.
    fn take(&mut self, bytes: &[u8]) -> bool {
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
    type Error = Infallible;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Infallible> {
        if set.is(DEAD) {
            self.put.insert(row.number() as u64);
        }
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Infallible> {
        if set.is(DEAD) {
            self.marked.insert(row.number() as u64);
        }
        Ok(())
    }
}

// What is found of a damaged file: blocks of documents, the directory that lists them, and what was removed.

/// Where a block of documents is, and the checksum of its bytes when it was found.
#[derive(Clone, Copy)]
struct Found {
    first: u64,
    high: u64,
    place: Place,
    sum: u64,
}

impl Found {
    fn new(block: &DocumentBlock, place: Place, bytes: &[u8]) -> Self {
        Self {
            first: block.documents().next().map_or(0, |first| first.number),
            high: block.last().unwrap_or(0),
            place,
            sum: xxh3_64(bytes),
        }
    }
}

/// A block of documents, if these bytes are one that ends with this number.
fn block_of(high: u64, bytes: &[u8]) -> Option<DocumentBlock> {
    let block = DocumentBlock::decode(bytes).ok()?;
    (block.last() == Some(high)).then_some(block)
}

/// The level and the last row in the key of a block of narrow rows.
fn block_key(key: &[u8]) -> Option<(u8, u64)> {
    let (level, last) = key.split_first()?;
    Some((*level, u64::from_le_bytes(last.try_into().ok()?)))
}

/// The bytes of such a key.
const BLOCK_KEY: usize = 9;

/// What is found of a damaged file.
struct Salvage<'f, 'p> {
    file: &'f RawFile,
    pace: &'f Pace<'p>,
    basis: Basis,
    /// The blocks of documents that the directory lists, by their last rows, and those that are found.
    listed: BTreeMap<u64, Entry<u64>>,
    found: BTreeMap<u64, Found>,
    /// The blocks of dead numbers that the directory lists and that are not found.
    dead_listed: HashMap<(u8, u64), Entry<u64>>,
    dead: DeadNumbers,
    /// Documents in blocks of earlier commits, by their numbers.
    old: BTreeMap<u64, Found>,
    /// The pages of the log that are read.
    log: BTreeSet<u64>,
    is_directory_whole: bool,
    are_documents_whole: bool,
    are_deletions_whole: bool,
    damaged: Vec<Range<u64>>,
}

impl<'f, 'p> Salvage<'f, 'p> {
    fn new(file: &'f RawFile, mut basis: Basis, pace: &'f Pace<'p>) -> Self {
        let damaged = std::mem::take(&mut basis.damaged);
        Self {
            file,
            pace,
            basis,
            listed: BTreeMap::new(),
            found: BTreeMap::new(),
            dead_listed: HashMap::new(),
            dead: DeadNumbers::default(),
            old: BTreeMap::new(),
            log: BTreeSet::new(),
            is_directory_whole: false,
            are_documents_whole: false,
            are_deletions_whole: false,
            damaged,
        }
    }

    /// Calls `each` with the rows of a table of the commit. False if not all of them can be read.
    fn rows(
        &mut self,
        table: &str,
        key_bytes: Option<usize>,
        mut each: impl FnMut(&mut Self, &[u8], &[u8], Place) -> bool,
    ) -> Result<bool> {
        let Some(commit) = &self.basis.commit else {
            return Ok(false);
        };
        // A table may seem to be absent or empty, where nothing vouches for the table of tables.
        let Some(root) = commit.root(table) else {
            return Ok(commit.is_last);
        };
        let file = self.file;
        let pace = self.pace;
        let mut is_whole = true;
        let damaged = file.walk(root, Widths::of_keys(key_bytes), &mut |page| {
            for (key, value, place) in page.pairs(key_bytes).unwrap_or_default() {
                is_whole &= each(self, key, value, place);
            }
            pace.read(page.offset)
        })?;
        is_whole &= damaged.is_empty();
        self.damaged.extend(damaged);
        Ok(is_whole)
    }

    /// Takes what the trees of the commit lead to.
    fn walk(&mut self) -> Result<()> {
        self.is_directory_whole =
            self.rows("directory", Some(CHUNK_KEY), |salvage, key, chunk, _| {
                salvage.take_chunk(key, chunk)
            })?;
        let is_dead_whole = self.rows("dead", Some(BLOCK_KEY), |salvage, key, bytes, _| {
            let is_taken = salvage.dead.take(bytes);
            if let Some(key) = block_key(key).filter(|_| is_taken) {
                salvage.dead_listed.remove(&key);
            }
            is_taken
        })?;
        let is_log_whole = self.rows("log", Some(LOG_KEY), |salvage, key, page, _| {
            salvage.take_log(key, page)
        })?;
        self.are_documents_whole = self.rows(
            "documents",
            Some(BLOCK_KEY),
            |salvage, key, bytes, place| {
                let high = block_key(key).map_or(0, |key| key.1);
                let Some(block) = block_of(high, bytes) else {
                    return false;
                };
                let found = Found::new(&block, place, bytes);
                salvage.found.insert(high, found);
                true
            },
        )?;
        if is_dead_whole {
            self.dead_listed.clear();
        }
        let is_dead_listed = is_dead_whole || self.is_directory_whole;
        let is_log_whole = is_log_whole || self.has_all_of_log();
        self.are_deletions_whole = is_log_whole && is_dead_listed && !self.basis.is_behind;
        Ok(())
    }

    /// Whether the pages of the log are read that the state record tells.
    fn has_all_of_log(&self) -> bool {
        let head = self.basis.meta.head.as_ref();
        head.is_some_and(|head| head.log.clone().all(|page| self.log.contains(&page)))
    }

    /// Takes the entries of a chunk, if it is one of the documents or of the dead numbers.
    fn take_chunk(&mut self, key: &[u8], chunk: &[u8]) -> bool {
        let Some((level, last)) = chunk_key(key) else {
            return true;
        };
        let Ok(entries) = lone_entries(level, last, self.basis.meta.seed, chunk) else {
            return false;
        };
        for entry in entries {
            if level == DOCUMENTS {
                self.listed.insert(entry.high, entry);
            } else {
                self.dead_listed.insert((level.number, entry.high), entry);
            }
        }
        true
    }

    fn take_log(&mut self, key: &[u8], page: &[u8]) -> bool {
        let number = key.first_chunk().map(|number| u64::from_le_bytes(*number));
        let mut operations = Vec::new();
        if let (Some(seed), Some(number)) = (self.basis.meta.seed, number)
            && decode_page(seed, number, page, &mut operations).is_ok()
        {
            self.log.insert(number);
            for operation in operations {
                let Ok(()) = operation.give_own_rows(&mut self.dead);
            }
            return true;
        }
        false
    }

    /// Looks everywhere for the blocks that the directory lists and that were not reached.
    fn find_listed(&mut self) -> Result<()> {
        let lost = self
            .listed
            .keys()
            .any(|high| !self.found.contains_key(high));
        let seed = self.basis.meta.seed;
        let Some(seed) = seed.filter(|_| lost || !self.dead_listed.is_empty()) else {
            return Ok(());
        };
        let file = self.file;
        let pace = self.pace;
        file.scan(|page| {
            for (key, bytes, place) in page.pairs(Some(BLOCK_KEY)).unwrap_or_default() {
                let Some(key) = block_key(key) else { continue };
                let is_as_listed = |entry: &Entry<u64>| entry.checksum == seed.checksum(bytes);
                if self.dead_listed.get(&key).is_some_and(is_as_listed) && self.dead.take(bytes) {
                    self.dead_listed.remove(&key);
                }
                let high = key.1;
                if !self.found.contains_key(&high)
                    && self.listed.get(&high).is_some_and(is_as_listed)
                    && let Some(block) = block_of(high, bytes)
                {
                    self.found.insert(high, Found::new(&block, place, bytes));
                }
            }
            pace.read(page.offset)
        })
    }

    /// What is known before the documents are read.
    fn report(&self) -> SalvageReport {
        let counters = self.basis.meta.head.as_ref().map(|head| head.counters);
        let is_last = self.basis.is_last();
        let mut report = SalvageReport {
            expected: counters
                .filter(|_| is_last)
                .map(|counters| counters.documents),
            deletions_read: self.are_deletions_whole && self.dead_listed.is_empty(),
            last_commit_found: is_last,
            ..SalvageReport::default()
        };
        if !self.are_documents_whole {
            report.missing = self.missing(report.deletions_read);
        }
        let end = report.missing.last().and_then(|range| range.last);
        let ends = [end, self.last_number()];
        let end = ends.into_iter().flatten().max().map_or(1, |last| last + 1);
        // All blocks of the commit are known if one of the two tables is whole.
        let all_known = self.are_documents_whole || self.is_directory_whole;
        let next = counters.map(|counters| counters.next_document.max(end));
        match next {
            _ if is_last && all_known => {}
            Some(next) if is_last => add_range(&mut report.missing, end..next, None),
            // What came after cannot be told.
            _ => report.missing.push(MissingDocuments {
                first: next.filter(|_| all_known).unwrap_or(end),
                last: None,
                documents: None,
            }),
        }
        report
    }

    /// The last number of all blocks that are known.
    fn last_number(&self) -> Option<u64> {
        let lasts = [
            self.listed.keys().next_back(),
            self.found.keys().next_back(),
        ];
        lasts.into_iter().flatten().copied().max()
    }

    /// The numbers of the documents that may be missing in and before the blocks that are known.
    fn missing(&self, deletions_read: bool) -> Vec<MissingDocuments> {
        let mut missing: Vec<MissingDocuments> = Vec::new();
        let dead = self.dead.sorted();
        // The last number of the blocks so far.
        let mut end = 0;
        let highs = self.listed.keys().chain(self.found.keys());
        let mut highs: Vec<u64> = highs.copied().collect();
        highs.sort_unstable();
        highs.dedup();
        for high in highs {
            match self.found.get(&high) {
                Some(found) if !self.is_directory_whole => {
                    add_range(&mut missing, end + 1..found.first, None);
                }
                Some(_) => {}
                None => {
                    let range = end + 1..high + 1;
                    let listed = self.listed.get(&high).filter(|_| deletions_read);
                    let documents = listed.filter(|_| self.is_directory_whole).map(|entry| {
                        let dead_before = |number| dead.partition_point(|&dead| dead < number);
                        let dead = dead_before(range.end) - dead_before(range.start);
                        u64::from(entry.puts).saturating_sub(dead as u64)
                    });
                    add_range(&mut missing, range, documents);
                }
            }
            end = high;
        }
        // A block that had only dead documents takes nothing with it.
        missing.retain(|range| range.documents != Some(0));
        missing
    }

    /// Looks everywhere for documents of these numbers in blocks of earlier commits.
    fn find_old(&mut self, missing: &[MissingDocuments]) -> Result<()> {
        let Some(seed) = self.basis.meta.seed else {
            return Ok(());
        };
        let file = self.file;
        let pace = self.pace;
        let mut sums: HashMap<u64, HashSet<u64>> = HashMap::new();
        file.scan(|page| {
            for (key, chunk, _) in page.pairs(Some(CHUNK_KEY)).unwrap_or_default() {
                let Some((level, last)) = chunk_key(key).filter(|key| key.0 == DOCUMENTS) else {
                    continue;
                };
                for entry in lone_entries::<u64>(level, last, Some(seed), chunk).unwrap_or_default()
                {
                    sums.entry(entry.high).or_default().insert(entry.checksum);
                }
            }
            pace.read(page.offset)
        })?;
        file.scan(|page| {
            for (key, bytes, place) in page.pairs(Some(BLOCK_KEY)).unwrap_or_default() {
                if let Some((_, high)) = block_key(key)
                    && sums
                        .get(&high)
                        .is_some_and(|sums| sums.contains(&seed.checksum(bytes)))
                    && let Some(block) = block_of(high, bytes)
                {
                    let found = Found::new(&block, place, bytes);
                    for document in block.documents() {
                        if is_among(missing, document.number) {
                            self.old.entry(document.number).or_insert(found);
                        }
                    }
                }
            }
            pace.read(page.offset)
        })
    }

    /// Chooses the documents that the new file gets, and completes the report.
    fn choose(&self, report: &mut SalvageReport) -> Result<Chosen> {
        let current = self.found.values().map(|&found| Part {
            found,
            first: found.first,
            is_old: false,
        });
        let old = self.old.iter().map(|(&first, &found)| Part {
            found,
            first,
            is_old: true,
        });
        let mut chosen = Chosen::default();
        chosen.parts.extend(current.chain(old));
        chosen.parts.sort_by_key(|part| part.first);
        // Each block is decoded once for all documents that follow each other in it.
        chosen.parts.dedup_by(|part, before| part.continues(before));
        // Where a deletion is not known, a document may be there that was replaced by another one of its key.
        let is_exact = report.deletions_read && report.last_commit_found && self.old.is_empty();
        let mut newest: HashMap<u128, u64> = HashMap::new();
        let mut replaced = HashSet::new();
        let mut last = 0;
        let mut documents = Documents::new(self, &chosen);
        for document in documents.by_ref() {
            let (number, document) = document?;
            report.documents += 1;
            report.old_documents += u64::from(self.old.contains_key(&number));
            if !is_exact && let Some(before) = newest.insert(xxh3_128(document.key()), number) {
                report.documents -= 1;
                report.old_documents -= u64::from(self.old.contains_key(&before));
                replaced.insert(before);
            }
            last = number;
        }
        let mut unreadable = Vec::new();
        for number in documents.unreadable {
            if !is_among(&report.missing, number) {
                let documents = Some(1).filter(|_| is_exact);
                add_range(&mut unreadable, number..number + 1, documents);
            }
        }
        report.missing.extend(unreadable);
        report.missing.sort_by_key(|range| range.first);
        // Two documents of one key are the proof that a deletion is not known.
        report.deletions_read &= replaced.is_empty() || !self.old.is_empty();
        chosen.last = last;
        chosen.replaced = replaced;
        // As many as there should be, and each of them stored: these are all.
        if is_exact && report.expected == Some(report.documents) {
            report.missing.clear();
        }
        Ok(chosen)
    }

    /// Whether the document of this number is taken from the block of an earlier commit at this place.
    fn takes_old(&self, number: u64, place: Place) -> bool {
        self.old
            .get(&number)
            .is_some_and(|found| found.place == place)
    }

    /// Reads a block once more. It is an error if it is not as it was.
    fn read(&self, found: &Found) -> Result<DocumentBlock> {
        let bytes = self.file.read(found.place.offset, found.place.bytes);
        let bytes = bytes.filter(|bytes| xxh3_64(bytes) == found.sum);
        let block = bytes.and_then(|bytes| block_of(found.high, &bytes));
        let problem = "it changes from reading to reading";
        block.ok_or_else(|| Error::damaged("documents", &found.high, problem))
    }

    /// Reads the sources. False if not all can be read.
    fn read_sources(&mut self, sources: &mut Vec<Source>) -> Result<bool> {
        self.rows("sources", None, |salvage, name, bytes, _| {
            let meta = &salvage.basis.meta;
            let (Some(seed), Some(head)) = (meta.seed, &meta.head) else {
                return false;
            };
            let record = decode_source(seed, head.counters, name, bytes);
            sources.extend(record.iter().map(|record| Source {
                name: name.to_vec(),
                record: record.clone(),
            }));
            record.is_ok()
        })
    }
}
