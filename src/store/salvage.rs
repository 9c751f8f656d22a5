//! Salvage: the documents that a damaged file still has, in a new file.
//!
//! The plain algorithm: walk the trees of the last commit without the engine (`engine/raw.rs`) and take every block of
//! documents that has its checksums. Take out the documents that are dead by the blocks and the pages of the log that
//! can be read. Build a new file of the rest: every set follows from the documents.
//!
//! A block that the walk does not reach may still be somewhere. If the directory has its checksum, every page of the
//! file is looked at for a block that has this checksum, so no other one is taken for it. If the header does not lead to
//! a commit, the newest table of tables that stands in the file does. Older blocks are taken only if that is asked for:
//! a number is never used twice, so a document of theirs is what it was, but it may have been deleted since.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::ensure_nothing_at;
use crate::source::Source;
use crate::store::blocks::{DocumentBlock, Entry, FileSeed, Lists, decode_rows};
use crate::store::dense::{CopyProgress, TakenOver, rebuild};
use crate::store::engine::{LevelName, Place, RawCommit, RawFile, RawPage};
use crate::store::file::{
    Counters, DEAD, DOCUMENTS, FORMAT, RowSink, SETTINGS, STATE, Set, SetRow, Settings,
    check_format, counters_of, decode_page, decode_source,
};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::lone_entries;

/// The report of [`Database::salvage`](crate::Database::salvage): what was found in a damaged file, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The number of documents that the new database has.
    pub documents: u64,
    /// The number of documents that the damaged file should have. `None` if its count cannot be read.
    pub expected: Option<u64>,
    /// The documents that may be missing, by their numbers. Documents are numbered in the order in which they were
    /// stored.
    pub missing: Vec<MissingDocuments>,
    /// The documents that were found only in blocks of earlier commits. Each may have been deleted or replaced since.
    pub old_documents: u64,
    /// Whether everything could be read that tells which documents were deleted. If not, some that were deleted may be
    /// among the documents.
    pub deletions_read: bool,
    /// Whether the header vouches that the documents are those of the last commit. If not, they are those of the newest
    /// commit that was found, or of any.
    pub last_commit_found: bool,
    /// Whether the positions of all sources were kept. If not, all are forgotten, so that an ingestion reads its inputs
    /// anew.
    pub positions_kept: bool,
    /// The bytes of the file that were needed and are not what they were, or cannot be read. The engine cannot tell a
    /// damaged byte from its page.
    pub damaged_bytes: Vec<Range<u64>>,
}

impl SalvageReport {
    /// Whether the new database has everything: all documents of the last commit, no others, and all positions.
    pub fn is_whole(&self) -> bool {
        self.has_all_documents() && self.positions_kept
    }

    fn has_all_documents(&self) -> bool {
        let is_exact = self.deletions_read && self.last_commit_found && self.old_documents == 0;
        is_exact && self.expected == Some(self.documents) && self.missing.is_empty()
    }
}

/// Documents that may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingDocuments {
    /// The least number that they may have.
    pub first: u64,
    /// The greatest number that they may have. `None` if there may be later ones.
    pub last: Option<u64>,
    /// How many they are. `None` if that is not known; it may be none.
    pub documents: Option<u64>,
}

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
    let (commit, meta) = find_commit(&file)?;
    if meta.seed.is_none() && commit.is_none() {
        return Err(refused(NOTHING));
    }
    let settings = meta.settings.as_ref().or(how.settings.as_ref());
    let settings = settings.ok_or_else(|| refused(NO_SETTINGS))?;
    if commit.is_none() && !how.old {
        return Err(refused(NO_COMMIT));
    }
    let mut salvage = Salvage::new(&file, commit, meta.seed, meta.counters, &pace);
    salvage.damaged = meta.damaged;
    salvage.is_behind = meta.is_behind;
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
    let next_document = meta.counters.map_or(0, |counters| counters.next_document);
    let taken = TakenOver {
        original: &file.file,
        next_document: next_document.max(chosen.last + 1),
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

/// What the rows of the table meta say, as far as they can be read.
#[derive(Default)]
struct Meta {
    seed: Option<FileSeed>,
    settings: Option<Settings>,
    counters: Option<Counters>,
    age: (u64, u64),
    /// Whether there was a commit after the one that is found. The counters are then those of the last.
    is_behind: bool,
    damaged: Vec<Range<u64>>,
}

impl Meta {
    fn of(file: &RawFile, commit: &RawCommit) -> Result<Self> {
        let mut meta = Self::default();
        if let Some(root) = commit.root("meta") {
            meta.damaged = file.walk(root, None, &mut |page| meta.take(page))?;
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
                self.settings = Settings::of_row(seed, row).ok();
            }
            if name == STATE.as_bytes()
                && let Ok((counters, age)) = counters_of(seed, row)
                && age >= self.age
            {
                self.counters = Some(counters);
                self.age = age;
            }
        }
        Ok(())
    }
}

/// The last commit or the newest that is found, and what its table meta says. What does not change from commit to commit
/// is taken from others if need be.
fn find_commit(file: &RawFile) -> Result<(Option<RawCommit>, Meta)> {
    let mut found = None;
    if let Some(commit) = file.last_commit() {
        let meta = Meta::of(file, &commit)?;
        found = Some((commit, meta));
    } else {
        file.each_commit(|commit| {
            let meta = Meta::of(file, &commit)?;
            let newest = found.as_ref().map(|(_, newest): &(_, Meta)| newest.age);
            if meta.counters.is_some() && newest.is_none_or(|newest| meta.age > newest) {
                found = Some((commit, meta));
            }
            Ok(())
        })?;
    }
    let (commit, mut meta) = match found {
        Some((commit, meta)) => (Some(commit), meta),
        None => (None, Meta::default()),
    };
    // The seed may come behind what it is needed for.
    for _ in 0..2 {
        if meta.seed.is_none() || meta.settings.is_none() {
            let mut lone = Meta {
                seed: meta.seed,
                ..Meta::default()
            };
            file.scan(|page| lone.take(page))?;
            meta.seed = lone.seed;
            meta.settings = meta.settings.or(lone.settings);
        }
    }
    if commit.as_ref().is_none_or(|commit| !commit.is_last) {
        let mut lone = Meta {
            seed: meta.seed,
            age: meta.age,
            ..Meta::default()
        };
        file.scan(|page| lone.take(page))?;
        meta.is_behind = lone.age > meta.age;
        meta.counters = lone.counters.or(meta.counters);
    }
    Ok((commit, meta))
}

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

/// A block whose documents are kept, or only the one of a number.
#[derive(Clone, Copy)]
struct Part {
    found: Found,
    only: Option<u64>,
}

/// The documents that the new file gets: those of some blocks, in the order of their numbers, but for some.
#[derive(Default)]
struct Chosen {
    parts: Vec<Part>,
    replaced: HashSet<u64>,
    /// The number of the last.
    last: u64,
}

/// The level and the last row in the key of a block of narrow rows.
fn block_key(key: &[u8]) -> Option<(u8, u64)> {
    let (level, last) = key.split_first()?;
    Some((*level, u64::from_le_bytes(last.try_into().ok()?)))
}

/// The bytes of such a key, of the key of a chunk, and of that of a page of the log.
const BLOCK_KEY: usize = 9;
const CHUNK_KEY: usize = 18;
const LOG_KEY: usize = 8;

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

/// What is found of a damaged file.
struct Salvage<'f, 'p> {
    file: &'f RawFile,
    pace: &'f Pace<'p>,
    commit: Option<RawCommit>,
    seed: Option<FileSeed>,
    counters: Option<Counters>,
    /// The blocks of documents that the directory lists, by their last rows, and those that are found.
    listed: BTreeMap<u64, Entry<u64>>,
    found: BTreeMap<u64, Found>,
    /// The blocks of dead numbers that the directory lists and that are not found.
    dead_listed: HashMap<(u8, u64), Entry<u64>>,
    dead: DeadNumbers,
    /// Documents in blocks of earlier commits, by their numbers.
    old: BTreeMap<u64, Found>,
    is_behind: bool,
    is_directory_whole: bool,
    are_documents_whole: bool,
    are_deletions_whole: bool,
    damaged: Vec<Range<u64>>,
}

impl<'f, 'p> Salvage<'f, 'p> {
    fn new(
        file: &'f RawFile,
        commit: Option<RawCommit>,
        seed: Option<FileSeed>,
        counters: Option<Counters>,
        pace: &'f Pace<'p>,
    ) -> Self {
        Self {
            file,
            pace,
            commit,
            seed,
            counters,
            listed: BTreeMap::new(),
            found: BTreeMap::new(),
            dead_listed: HashMap::new(),
            dead: DeadNumbers::default(),
            old: BTreeMap::new(),
            is_behind: false,
            is_directory_whole: false,
            are_documents_whole: false,
            are_deletions_whole: false,
            damaged: Vec::new(),
        }
    }

    /// Calls `each` with the rows of a table of the commit. False if not all of them can be read.
    fn rows(
        &mut self,
        table: &str,
        key_bytes: Option<usize>,
        mut each: impl FnMut(&mut Self, &[u8], &[u8], Place) -> bool,
    ) -> Result<bool> {
        let Some(commit) = &self.commit else {
            return Ok(false);
        };
        let Some(root) = commit.root(table) else {
            return Ok(true);
        };
        let (file, pace) = (self.file, self.pace);
        let mut is_whole = true;
        let damaged = file.walk(root, key_bytes, &mut |page| {
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
        self.are_deletions_whole = is_log_whole && is_dead_listed && !self.is_behind;
        Ok(())
    }

    /// Takes the entries of a chunk, if it is one of the documents or of the dead numbers.
    fn take_chunk(&mut self, key: &[u8], chunk: &[u8]) -> bool {
        let Some((level, last)) = chunk_key(key) else {
            return true;
        };
        let Ok(entries) = lone_entries(level, last, self.seed, chunk) else {
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
        if let (Some(seed), Some(number)) = (self.seed, number)
            && decode_page(seed, number, page, &mut operations).is_ok()
        {
            let given = operations
                .iter()
                .try_for_each(|operation| operation.give_own_rows(&mut self.dead));
            return given.is_ok();
        }
        false
    }

    /// Looks everywhere for the blocks that the directory lists and that were not reached.
    fn find_listed(&mut self) -> Result<()> {
        let lost = self
            .listed
            .keys()
            .any(|high| !self.found.contains_key(high));
        let Some(seed) = self.seed.filter(|_| lost || !self.dead_listed.is_empty()) else {
            return Ok(());
        };
        let (file, pace) = (self.file, self.pace);
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
        let mut report = SalvageReport {
            expected: self.counters.map(|counters| counters.documents),
            deletions_read: self.are_deletions_whole && self.dead_listed.is_empty(),
            last_commit_found: self.commit.as_ref().is_some_and(|commit| commit.is_last),
            ..SalvageReport::default()
        };
        if !self.are_documents_whole || self.is_behind {
            report.missing = self.missing(report.deletions_read);
        }
        report
    }

    /// The numbers of the documents that may be missing.
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
        if !self.is_directory_whole || self.is_behind {
            match self.counters {
                Some(counters) => add_range(&mut missing, end + 1..counters.next_document, None),
                None => missing.push(MissingDocuments {
                    first: end + 1,
                    last: None,
                    documents: None,
                }),
            }
        }
        // A block that had only dead documents takes nothing with it.
        missing.retain(|range| range.documents != Some(0));
        missing
    }

    /// Looks everywhere for documents of these numbers in blocks of earlier commits.
    fn find_old(&mut self, missing: &[MissingDocuments]) -> Result<()> {
        let Some(seed) = self.seed else {
            return Ok(());
        };
        let (file, pace) = (self.file, self.pace);
        let mut sums: HashMap<u64, HashSet<u64>> = HashMap::new();
        file.scan(|page| {
            for (key, chunk, _) in page.pairs(Some(CHUNK_KEY)).unwrap_or_default() {
                let Some((level, last)) = chunk_key(key).filter(|key| key.0 == DOCUMENTS) else {
                    continue;
                };
                for entry in lone_entries::<u64>(level, last, self.seed, chunk).unwrap_or_default()
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
        let current = self.found.values().map(|&found| Part { found, only: None });
        let old = self.old.iter().map(|(&number, &found)| Part {
            found,
            only: Some(number),
        });
        let mut chosen = Chosen::default();
        chosen.parts.extend(current.chain(old));
        chosen
            .parts
            .sort_by_key(|part| part.only.unwrap_or(part.found.first));
        // Where a deletion is not known, a document may be there that was replaced by another one of its key.
        let may_repeat = !report.deletions_read || !self.old.is_empty();
        let mut newest: HashMap<u128, u64> = HashMap::new();
        let mut replaced = HashSet::new();
        let mut last = 0;
        for document in Documents::new(self, &chosen) {
            let (number, document) = document?;
            report.documents += 1;
            report.old_documents += u64::from(self.old.contains_key(&number));
            if may_repeat && let Some(before) = newest.insert(xxh3_128(document.key()), number) {
                report.documents -= 1;
                report.old_documents -= u64::from(self.old.contains_key(&before));
                replaced.insert(before);
            }
            last = number;
        }
        chosen.last = last;
        chosen.replaced = replaced;
        // As many as there should be, and each of them stored: these are all.
        if report.old_documents == 0
            && report.deletions_read
            && report.expected == Some(report.documents)
        {
            report.missing.clear();
        }
        Ok(chosen)
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
            let (Some(seed), Some(counters)) = (salvage.seed, salvage.counters) else {
                return false;
            };
            let record = decode_source(seed, counters, name, bytes);
            sources.extend(record.iter().map(|record| Source {
                name: name.to_vec(),
                record: record.clone(),
            }));
            record.is_ok()
        })
    }
}

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

/// Whether some ranges, which are in order, have a number.
fn is_among(missing: &[MissingDocuments], number: u64) -> bool {
    let begun = missing.partition_point(|range| range.first <= number);
    let last = begun.checked_sub(1).and_then(|index| missing.get(index));
    last.is_some_and(|range| range.last.is_none_or(|last| number <= last))
}

/// Adds a range to others that come before it.
fn add_range(missing: &mut Vec<MissingDocuments>, range: Range<u64>, documents: Option<u64>) {
    if range.is_empty() {
        return;
    }
    let last = Some(range.end - 1);
    match missing.last_mut() {
        Some(before) if before.last.map(|last| last + 1) == Some(range.start) => {
            before.last = last;
            before.documents = before.documents.zip(documents).map(|(a, b)| a + b);
        }
        _ => missing.push(MissingDocuments {
            first: range.start,
            last,
            documents,
        }),
    }
}

/// The same ranges, those that overlap or adjoin in one.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// The documents that were chosen, with their numbers, in order.
struct Documents<'a, 'p> {
    salvage: &'a Salvage<'a, 'p>,
    chosen: &'a Chosen,
    next_part: usize,
    /// Those of the part before that are left.
    waiting: std::vec::IntoIter<(u64, Document)>,
    last: u64,
}

impl<'a, 'p> Documents<'a, 'p> {
    fn new(salvage: &'a Salvage<'a, 'p>, chosen: &'a Chosen) -> Self {
        Self {
            salvage,
            chosen,
            next_part: 0,
            waiting: Vec::new().into_iter(),
            last: 0,
        }
    }

    fn read(&mut self, part: Part) -> Result<()> {
        self.salvage.pace.read(part.found.place.offset)?;
        let mut waiting = Vec::new();
        for document in self.salvage.read(&part.found)?.documents() {
            let number = document.number;
            let is_wanted = number > self.last
                && part.only.is_none_or(|only| only == number)
                && !self.salvage.dead.has(number)
                && !self.chosen.replaced.contains(&number);
            if is_wanted && let Ok(document) = document.to_document() {
                waiting.push((number, document));
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
