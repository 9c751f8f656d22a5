//! Salvage: what damage of any kind leaves of a file is in the new one, no more than that, and the report says so.
//!
//! The oracle knows which bytes each document needs: those of its block, and those at the beginning of its page that
//! say where the block is. It compares them before and after the damage. `SIMDB_SALVAGE=N` makes N times as many
//! images, `SIMDB_STAND=long` twenty times as many.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::random::{Random, amount};
use crate::database::{CreateOptions, Database, SalvageOptions};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::source::{Source, SourceRecord};
use crate::store::{DocumentBlock, RawFile, SalvageReport, Widths};
use crate::text::Scheme;

const PAGE: usize = 4096;

/// How many images of a kind are made, for the number of an ordinary run.
fn images(ordinary: usize) -> usize {
    amount("SIMDB_SALVAGE", 1, 20) * ordinary
}

/// Bytes of a file that something needs.
type Needed = Vec<Range<usize>>;

/// A file without damage, and everything that is known of it.
struct Sound {
    bytes: Vec<u8>,
    /// The file as it was some commits before.
    earlier: Vec<u8>,
    /// The header before each of the last commits.
    headers: Vec<Vec<u8>>,
    live: BTreeMap<Vec<u8>, Document>,
    /// The documents after each commit.
    states: Vec<BTreeMap<Vec<u8>, Document>>,
    /// The numbers of those that are live.
    numbers: BTreeMap<Vec<u8>, u64>,
    ever: HashMap<Vec<u8>, Vec<Document>>,
    sources: usize,
    /// What each block of documents needs, and the keys of those that are live.
    blocks: Vec<(Needed, Vec<Vec<u8>>)>,
    /// The pages of each tree, without those that lead to them.
    leaves: BTreeMap<&'static str, Vec<usize>>,
    /// For each page that is a table of tables of some commit: where names and definitions of tables that salvage reads
    /// begin.
    tables: Vec<Vec<(usize, usize)>>,
}

/// What is made of a database.
#[derive(Clone, Copy)]
struct History {
    seed: u64,
    /// With tiny blocks some documents fill a block, with usual ones some dozens.
    tiny: bool,
    closed: bool,
}

impl Sound {
    fn new(folder: &Path, history: History) -> Result<Self> {
        let path = folder.join(format!("sound-{}", history.seed));
        let mut options = settings().recent_documents(8);
        if history.tiny {
            options = options.tiny_blocks();
        }
        let database = Database::create(&path, &options)?;
        let mut sound = Self {
            bytes: Vec::new(),
            earlier: Vec::new(),
            headers: Vec::new(),
            live: BTreeMap::new(),
            states: Vec::new(),
            numbers: BTreeMap::new(),
            ever: HashMap::new(),
            sources: 0,
            blocks: Vec::new(),
            leaves: BTreeMap::new(),
            tables: Vec::new(),
        };
        let mut random = Random::new(history.seed);
        for round in 0..24 {
            if round == 18 {
                sound.earlier = read(&path);
            }
            if round >= 18 {
                sound.headers.push(read(&path)[..PAGE].to_vec());
            }
            sound.transact(&database, round, &mut random)?;
            sound.states.push(sound.live.clone());
        }
        sound.headers.push(read(&path)[..PAGE].to_vec());
        database.settle()?;
        sound.headers.push(read(&path)[..PAGE].to_vec());
        if history.closed {
            drop(database);
        } else {
            let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _database = database;
                std::panic::resume_unwind(Box::new("no message is printed"));
            }));
            assert!(dropped.is_err());
        }
        sound.bytes = read(&path);
        sound.look(&path)?;
        Ok(sound)
    }

    /// Stores, replaces and deletes some documents, and notes the position of a source.
    fn transact(&mut self, database: &Database, round: u64, random: &mut Random) -> Result<()> {
        let mut txn = database.begin_write()?;
        for i in 0..12 {
            let key = format!("key {}", random.index(300)).into_bytes();
            let bits = (random.index(90) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let has_fingerprint = i != 7;
            let sketch = Sketch::new(&[round as u8; 16], 1 + i as u32)?;
            let document =
                Document::new(&*key, has_fingerprint.then(|| Fingerprint::from_bits(bits)))
                    .with_sketch(Some(sketch).filter(|_| has_fingerprint))
                    .with_seen(round as i64 * 100 + i)
                    .with_rank([i; 2])
                    .with_scope(["", "en", "de"][random.index(3)])
                    .with_payload(vec![round as u8; 20 + random.index(60)]);
            txn.insert(&document)?;
            self.ever
                .entry(key.clone())
                .or_default()
                .push(document.clone());
            self.live.insert(key, document);
        }
        for _ in 0..3 {
            let key = format!("key {}", random.index(300)).into_bytes();
            txn.delete(&key)?;
            self.live.remove(&key);
        }
        if round.is_multiple_of(8) {
            self.sources += 1;
            txn.set_source(&Source {
                name: format!("input {round}").into_bytes(),
                record: SourceRecord {
                    run: round,
                    ended: true,
                    ..SourceRecord::default()
                },
            })?;
        }
        txn.commit()
    }

    /// Finds out what each document needs.
    fn look(&mut self, path: &Path) -> Result<()> {
        let file = RawFile::open(path)?;
        let commit = file.last_commit().expect("the file is sound");
        assert!(commit.is_last);
        let widths = [
            ("meta", None),
            ("directory", Some(18)),
            ("documents", Some(9)),
            ("dead", Some(9)),
            ("log", Some(8)),
            ("sources", None),
        ];
        file.scan(|page| {
            let mut tables = Vec::new();
            for (name, _, place) in page.pairs(None).unwrap_or_default() {
                if widths.iter().any(|(table, _)| table.as_bytes() == name) {
                    let from = page.offset as usize;
                    let bytes = &self.bytes[from..from + PAGE];
                    let at = bytes.windows(name.len()).position(|window| window == name);
                    let at = at.expect("the name is in the page");
                    tables.push((from + at, place.offset as usize));
                }
            }
            if tables.len() == widths.len() && self.is_named_by_header(page.offset) {
                self.tables.push(tables);
            }
            Ok(())
        })?;
        assert!(!self.tables.is_empty());
        for (table, key_bytes) in widths {
            let mut leaves = Vec::new();
            let mut blocks = Vec::new();
            let Some(root) = commit.root(table) else {
                continue;
            };
            let damaged = file.walk(root, Widths::of_keys(key_bytes), &mut |page| {
                leaves.push(page.offset as usize);
                if table == "documents" {
                    let pairs = page.pairs(key_bytes).unwrap_or_default();
                    let begin = page.offset as usize;
                    let head = begin..begin + 4 + pairs.len() * 13;
                    for (_, bytes, place) in pairs {
                        let from = place.offset as usize;
                        let needed = vec![head.clone(), from..from + place.bytes];
                        blocks.push((needed, bytes.to_vec()));
                    }
                }
                Ok(())
            })?;
            assert!(damaged.is_empty(), "{table}: {damaged:?}");
            self.leaves.insert(table, leaves);
            for (needed, bytes) in blocks {
                let block = DocumentBlock::decode(&bytes).expect("a block");
                let mut keys = Vec::new();
                for stored in block.documents() {
                    let number = stored.number;
                    let document = stored.to_document().expect("a document");
                    if self.live.get(document.key()) == Some(&document) {
                        keys.push(document.key().to_vec());
                        self.numbers.insert(document.key().to_vec(), number);
                    }
                }
                self.blocks.push((needed, keys));
            }
        }
        let keys: usize = self.blocks.iter().map(|(_, keys)| keys.len()).sum();
        assert_eq!(keys, self.live.len(), "each live document is in one block");
        Ok(())
    }

    /// Whether one of the two places for a commit in the header leads to the page that begins here. All pages that it
    /// leads to are in the first region.
    fn is_named_by_header(&self, offset: u64) -> bool {
        [72, 200].into_iter().any(|at| {
            let page = self.bytes[at..at + 8].first_chunk().expect("8 bytes");
            PAGE as u64 * (1 + u64::from_le_bytes(*page)) == offset
        })
    }

    /// Whether all of these documents were stored at some time.
    fn has_stored(&self, found: &BTreeMap<Vec<u8>, Document>) -> bool {
        found.iter().all(|(key, document)| {
            let versions = self.ever.get(key);
            versions.is_some_and(|versions| versions.contains(document))
        })
    }

    /// The keys of the documents whose bytes are as they were.
    fn intact(&self, damaged: &[u8]) -> BTreeSet<&[u8]> {
        let is_as_it_was =
            |range: &Range<usize>| damaged.get(range.clone()) == self.bytes.get(range.clone());
        let blocks = self.blocks.iter();
        let blocks = blocks.filter(|(needed, _)| needed.iter().all(is_as_it_was));
        blocks
            .flat_map(|(_, keys)| keys.iter().map(Vec::as_slice))
            .collect()
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("it can be read")
}

/// Whether everything that was not damaged must be found. Where much is damaged at once, a block may be whole but both
/// its directory and the pages that lead to it are gone. Nothing vouches for it any more.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    OnePlace,
    Much,
}

/// The image of a damaged file.
#[derive(Clone, Copy)]
struct Damage<'d> {
    image: &'d [u8],
    extent: Extent,
    what: &'d str,
}

/// A bench on which files are damaged and salvaged.
struct Bench<'a> {
    sound: &'a Sound,
    /// Another file, parts of which may be in an image.
    other: Option<&'a Sound>,
    folder: PathBuf,
    images: Cell<usize>,
    whole: Cell<usize>,
}

impl<'a> Bench<'a> {
    fn new(sound: &'a Sound, other: Option<&'a Sound>, folder: &TempDir) -> Self {
        Self {
            sound,
            other,
            folder: folder.path().to_owned(),
            images: Cell::new(0),
            whole: Cell::new(0),
        }
    }

    /// Salvages an image and looks at what came out. `what` tells what was done to it.
    fn examine(&self, image: &[u8], extent: Extent, what: &str) {
        let damage = Damage {
            image,
            extent,
            what,
        };
        let damaged = self.folder.join("damaged");
        write_over(&damaged, image);
        self.images.set(self.images.get() + 1);
        let report = self.salvage(&damaged, SalvageOptions::new(), &damage);
        // What is damaged in one place has no need of old blocks, unless the page is hit that leads to everything else.
        let finds_last = report.is_some_and(|report| report.last_commit_found);
        if !finds_last || extent == Extent::Much || self.images.get().is_multiple_of(4) {
            self.salvage(&damaged, SalvageOptions::new().old(true), &damage);
        }
        if self.images.get().is_multiple_of(8) {
            assert_eq!(
                read(&damaged),
                image,
                "{what}: the damaged file was changed"
            );
        }
    }

    fn salvage(
        &self,
        damaged: &Path,
        options: SalvageOptions,
        damage: &Damage<'_>,
    ) -> Option<SalvageReport> {
        let Damage { extent, what, .. } = *damage;
        let new = self.folder.join("new");
        let options = options.memory_bytes(0);
        let go_on = |_, _| ControlFlow::Continue(());
        let mut salvaged = Database::salvage(damaged, &new, &options, go_on);
        if let Err(Error::NotSalvaged { problem, .. }) = &salvaged
            && problem.contains("its settings")
        {
            assert!(!new.exists(), "{what}");
            salvaged = Database::salvage(damaged, &new, &options.settings(settings()), go_on);
        }
        match salvaged {
            Ok(report) => {
                self.compare(&new, damage, &report);
                fs::remove_file(&new).expect("it is there");
                Some(report)
            }
            Err(Error::NotSalvaged { .. } | Error::NotSimdb { .. }) if extent == Extent::Much => {
                assert!(!new.exists(), "{what}");
                None
            }
            Err(error) => panic!("{what}: {error}, {:?}", std::error::Error::source(&error)),
        }
    }

    /// The documents that neither file has had, and one that only this one has had, and one that only the other.
    fn strangers<'d>(
        &self,
        found: &'d BTreeMap<Vec<u8>, Document>,
    ) -> Vec<(bool, bool, &'d Document)> {
        let mut all = Vec::new();
        for (key, document) in found {
            let has = |sound: &Sound| {
                sound
                    .ever
                    .get(key)
                    .is_some_and(|versions| versions.contains(document))
            };
            let of = (has(self.sound), self.other.is_some_and(has));
            if !all.iter().any(|&(here, there, _)| (here, there) == of) {
                all.push((of.0, of.1, document));
            }
        }
        all
    }

    fn compare(&self, new: &Path, damage: &Damage<'_>, report: &SalvageReport) {
        let Damage {
            image,
            extent,
            what,
        } = *damage;
        let what = format!("{what}: {report:?}");
        let database = Database::open(new, &crate::database::OpenOptions::new());
        let database = database.unwrap_or_else(|error| panic!("{what}: {error}"));
        let check = database.check().expect("it can be checked");
        assert!(check.is_sound(), "{what}: {:?}", check.problems);
        let snapshot = database.snapshot().expect("a snapshot");
        let documents = snapshot
            .documents()
            .map(|document| document.map(|document| (document.key().to_vec(), document)));
        let found: BTreeMap<Vec<u8>, Document> =
            documents.collect::<Result<_>>().expect("they can be read");
        assert_eq!(report.documents, found.len() as u64, "{what}");
        if !self.sound.has_stored(&found) {
            // Of two files in one, either is an answer, but no mixture of them.
            let other = self.other.filter(|other| other.has_stored(&found));
            assert!(
                other.is_some() && extent == Extent::Much,
                "{what}: what was never stored: {:?}",
                self.strangers(&found)
            );
            assert!(!report.is_whole(), "{what}");
            return;
        }
        let live = &self.sound.live;

        let is_exact =
            report.deletions_read && report.last_commit_found && report.old_documents == 0;
        let mut extra = 0;
        for (key, document) in &found {
            if live.get(key) != Some(document) {
                assert!(!is_exact, "{what}: {document:?} was deleted or replaced");
                extra += 1;
            }
        }
        // Only old blocks have what came after the commit that is found.
        let has_header = image.get(..PAGE) == self.sound.bytes.get(..PAGE);
        let may_lack = has_header && !report.last_commit_found && report.old_documents == 0;
        if extent == Extent::OnePlace && !may_lack {
            for key in self.sound.intact(image) {
                assert_eq!(found.get(key), live.get(key), "{what}: it was intact");
            }
        }
        // What was deleted up to some commit is not there.
        if report.deletions_read && report.old_documents == 0 {
            let is_of = |state: &BTreeMap<Vec<u8>, Document>| {
                let mut found = found.iter();
                found.all(|(key, document)| state.get(key) == Some(document))
            };
            assert!(
                self.sound.states.iter().any(is_of),
                "{what}: these documents were never there together"
            );
        }
        if !report.last_commit_found {
            let last = report.missing.last();
            assert!(
                report.expected.is_none() && last.is_some_and(|range| range.last.is_none()),
                "{what}: what came after the commit is not known"
            );
        }
        let mut lost = 0;
        for (key, document) in live {
            if found.get(key) != Some(document) {
                lost += 1;
                let number = self.sound.numbers[key];
                let mut missing = report.missing.iter();
                assert!(
                    missing.any(|range| range.first <= number
                        && range.last.is_none_or(|last| number <= last)),
                    "{what}: number {number} is missing and not told"
                );
            }
        }
        if is_exact {
            let expected = report.expected.map(|expected| expected - report.documents);
            assert!(
                expected.is_none_or(|expected| expected == lost),
                "{what}: {lost} are lost"
            );
            let told: Option<u64> = report.missing.iter().map(|range| range.documents).sum();
            assert!(
                told.is_none_or(|told| told == lost),
                "{what}: {lost} are lost"
            );
        }
        if lost > 0 || extra > 0 {
            assert!(
                !report.is_whole(),
                "{what}: {lost} are lost, {extra} are too many"
            );
        }
        let sources = snapshot.sources().expect("they can be read").len();
        let expected = if report.is_whole() {
            self.sound.sources
        } else {
            0
        };
        assert!(
            sources == expected || report.positions_kept,
            "{what}: {sources} sources"
        );
        if report.is_whole() {
            assert_eq!(sources, self.sound.sources, "{what}");
            self.whole.set(self.whole.get() + 1);
        } else if report.documents != live.len() as u64 {
            assert_eq!(
                sources, 0,
                "{what}: a position claims documents that are lost"
            );
        }
    }
}

/// Makes a file the image, by writing what differs.
fn write_over(path: &Path, image: &[u8]) {
    let before = fs::read(path).unwrap_or_default();
    if before.len() != image.len() {
        return fs::write(path, image).expect("it can be written");
    }
    let mut file = File::options().write(true).open(path).expect("it is there");
    let pages = before.chunks(PAGE).zip(image.chunks(PAGE));
    for (index, (before, page)) in pages.enumerate() {
        if before != page {
            file.seek(SeekFrom::Start((index * PAGE) as u64))
                .expect("a place");
            file.write_all(page).expect("it can be written");
        }
    }
}

fn settings() -> CreateOptions {
    CreateOptions::new()
        .scheme(Scheme::External)
        .plan("4x16")
        .max_distance(4)
        .sketch_size(SketchSize::Bytes16)
}

/// A folder in memory where the system has one, since each new file is synced.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary folder can be made")
}

/// Calls `each` with a bench for each kind of file.
/// A file with other documents, parts of which come into others.
fn another_file(closed: bool) -> Result<Sound> {
    let history = History {
        seed: 9,
        tiny: true,
        closed,
    };
    Sound::new(folder().path(), history)
}

fn for_each_file(
    other: Option<&Sound>,
    mut each: impl FnMut(&Bench<'_>, &mut Random),
) -> Result<()> {
    let kinds = [
        (1, true, false),
        (2, true, true),
        (3, false, false),
        (4, false, true),
    ];
    for (seed, tiny, closed) in kinds {
        let folder = folder();
        let sound = Sound::new(folder.path(), History { seed, tiny, closed })?;
        let bench = Bench::new(&sound, other, &folder);
        each(&bench, &mut Random::new(seed));
        println!(
            "seed {seed}: {} images of {} bytes, {} documents, {} salvaged whole",
            bench.images.get(),
            sound.bytes.len(),
            sound.live.len(),
            bench.whole.get()
        );
    }
    Ok(())
}

#[test]
fn a_sound_file_is_salvaged_whole() -> Result<()> {
    for_each_file(None, |bench, _| {
        bench.examine(&bench.sound.bytes, Extent::OnePlace, "sound");
        assert!(bench.whole.get() > 0, "it is whole");
    })
}

#[test]
fn what_was_not_flipped_or_zeroed_is_there() -> Result<()> {
    for_each_file(None, |bench, random| {
        let sound = &bench.sound.bytes;
        for _ in 0..images(25) {
            let mut image = sound.clone();
            let at = random.index(image.len());
            image[at] ^= 1 << random.index(8);
            bench.examine(&image, Extent::OnePlace, &format!("a bit of byte {at}"));
            let mut image = sound.clone();
            let at = random.index(image.len());
            let end = image.len().min(at + 1 + random.index(600));
            // One page only: two may be a block and its directory.
            let end = end.min(at.next_multiple_of(PAGE).max(at + 1));
            image[at..end].fill(0);
            bench.examine(&image, Extent::OnePlace, &format!("zeros at {at}..{end}"));
        }
    })
}

/// The first bytes are those that a partition tool or a wrong `dd` destroys.
#[test]
fn a_file_whose_header_is_gone_has_all_its_documents() -> Result<()> {
    for_each_file(None, |bench, random| {
        let sound = &bench.sound.bytes;
        let mut image = sound.clone();
        image[..PAGE].fill(0);
        bench.examine(&image, Extent::OnePlace, "no header");
        image[..PAGE].copy_from_slice(&sound[PAGE..2 * PAGE]);
        bench.examine(
            &image,
            Extent::OnePlace,
            "another page in place of the header",
        );
        for _ in 0..images(12) {
            let mut image = sound.clone();
            let at = random.index(320);
            image[at] ^= 1 << random.index(8);
            bench.examine(
                &image,
                Extent::OnePlace,
                &format!("bit of the header, byte {at}"),
            );
        }
    })
}

/// Each page with rows that salvage needs, one after the other, and then all of a table.
#[test]
fn a_table_that_is_destroyed_takes_nothing_else_with_it() -> Result<()> {
    for_each_file(None, |bench, random| {
        for (table, leaves) in &bench.sound.leaves {
            let step = (leaves.len() / images(8)).max(1);
            for &leaf in leaves.iter().skip(random.index(step)).step_by(step) {
                let mut image = bench.sound.bytes.clone();
                image[leaf..leaf + PAGE].fill(0xff);
                bench.examine(
                    &image,
                    Extent::OnePlace,
                    &format!("{table}, page at {leaf}"),
                );
            }
            let mut image = bench.sound.bytes.clone();
            for &leaf in leaves {
                image[leaf..leaf + PAGE].fill(0);
            }
            // A page of another table is damaged by none of this.
            bench.examine(&image, Extent::OnePlace, &format!("all of {table}"));
        }
    })
}

/// The page that lists the tables was damaged, and no checksum vouched for it any more. A table that seemed to be
/// absent or empty was taken as read: salvage said that it had read all deletions, and that no document was missing.
#[test]
fn a_table_that_a_damaged_list_of_tables_lacks_was_not_read() -> Result<()> {
    for_each_file(None, |bench, random| {
        let mut headless = bench.sound.bytes.clone();
        headless[..PAGE].fill(0);
        for (&(name, definition), page) in bench.sound.tables.iter().flatten().zip(0..) {
            for (sound, header) in [(&bench.sound.bytes, ""), (&headless, ", no header")] {
                // The first letter of the name, and whether the table has a root.
                let places = [(name, b'x'), (definition + 9, 0)];
                for (at, byte) in places {
                    let mut image = sound.clone();
                    image[at] = byte;
                    let what = format!("table {page}: byte {at} is {byte}{header}");
                    bench.examine(&image, Extent::Much, &what);
                }
            }
        }
        for tables in &bench.sound.tables {
            let begin = tables[0].0 / PAGE * PAGE;
            for _ in 0..images(4) {
                let mut image = headless.clone();
                let at = begin + random.index(1_500);
                image[at] ^= 1 << random.index(8);
                bench.examine(&image, Extent::Much, &format!("byte {at}, no header"));
            }
        }
    })
}

/// A header of an earlier commit vouches for that commit, all of which may still be there. It was presented as all.
#[test]
fn a_commit_that_an_older_header_vouches_for_is_not_presented_as_all() -> Result<()> {
    for_each_file(None, |bench, _| {
        for (index, header) in bench.sound.headers.iter().enumerate() {
            let mut image = bench.sound.bytes.clone();
            image[..PAGE].copy_from_slice(header);
            bench.examine(
                &image,
                Extent::Much,
                &format!("the header of commit {index}"),
            );
        }
    })
}

/// A record that has all its checksums but is no document was left out without a word.
#[test]
fn a_stored_record_that_is_no_document_is_named_among_the_missing() -> Result<()> {
    use redb::ReadableTable as _;
    const DOCUMENTS: redb::TableDefinition<'_, (u8, u64), &[u8]> =
        redb::TableDefinition::new("documents");
    let folder = folder();
    let path = folder.path().join("database");
    let database = Database::create(&path, &settings())?;
    let mut random = Random::new(7);
    let mut txn = database.begin_write()?;
    for i in 0..5_u64 {
        let document = Document::new(format!("key {i}"), Fingerprint::from_bits(i << 40));
        let document = document.with_scope(format!("scope of {i}"));
        // So much of it looks random that the block is not compressed.
        let payload: Vec<u8> = (0..600).map(|_| random.below(256) as u8).collect();
        txn.insert(&document.with_payload(payload))?;
    }
    txn.commit()?;
    drop(database);
    let engine = redb::Database::open(&path).expect("it is a file of the engine");
    let txn = engine.begin_write().expect("a transaction");
    {
        let mut table = txn.open_table(DOCUMENTS).expect("the table");
        let (key, mut block) = {
            let (key, block) = table.first().expect("it can be read").expect("a block");
            (key.value(), block.value().to_vec())
        };
        // A scope that is no text.
        let name = b"scope of 2";
        let at = block.windows(name.len()).position(|window| window == name);
        block[at.expect("the block is not compressed")] = 0xff;
        table.insert(key, &*block).expect("it can be written");
    }
    txn.commit().expect("it can be committed");
    drop(engine);
    let new = folder.path().join("new");
    let go_on = |_, _| ControlFlow::Continue(());
    let report = Database::salvage(&path, &new, &SalvageOptions::new(), go_on)?;
    assert!(!report.is_whole());
    assert_eq!((report.documents, report.expected), (4, Some(5)));
    let [missing] = &report.missing[..] else {
        panic!("{report:?}");
    };
    let told = (missing.first, missing.last, missing.documents);
    assert_eq!(told, (3, Some(3), Some(1)), "{report:?}");
    Ok(())
}

#[test]
fn pages_in_the_place_of_others_are_not_believed() -> Result<()> {
    let other = another_file(false)?;
    for_each_file(Some(&other), |bench, random| {
        let sound = &bench.sound.bytes;
        let pages = sound.len() / PAGE;
        for _ in 0..images(12) {
            let mut image = sound.clone();
            let a = random.index(pages) * PAGE;
            let b = random.index(pages) * PAGE;
            image.copy_within(a..a + PAGE, b);
            image[a..a + PAGE].copy_from_slice(&sound[b..b + PAGE]);
            bench.examine(
                &image,
                Extent::Much,
                &format!("pages at {a} and {b} swapped"),
            );

            let mut image = sound.clone();
            let a = random.index(pages.min(bench.sound.earlier.len() / PAGE)) * PAGE;
            image[a..a + PAGE].copy_from_slice(&bench.sound.earlier[a..a + PAGE]);
            bench.examine(&image, Extent::OnePlace, &format!("an older page at {a}"));

            let mut image = sound.clone();
            let a = random.index(pages) * PAGE;
            let b = random.index(other.bytes.len() / PAGE) * PAGE;
            image[a..a + PAGE].copy_from_slice(&other.bytes[b..b + PAGE]);
            bench.examine(
                &image,
                Extent::OnePlace,
                &format!("page {b} of another file at {a}"),
            );
        }
    })
}

#[test]
fn files_that_are_cut_extended_or_joined_are_salvaged_as_far_as_they_go() -> Result<()> {
    let other = another_file(true)?;
    for_each_file(Some(&other), |bench, random| {
        let sound = &bench.sound.bytes;
        for _ in 0..images(8) {
            let end = random.index(sound.len());
            bench.examine(&sound[..end], Extent::Much, &format!("cut at {end}"));
            let end = random.index(sound.len() / PAGE) * PAGE;
            let mut image = sound[..end].to_vec();
            image.resize(sound.len(), 0);
            bench.examine(&image, Extent::Much, &format!("zeros from {end} on"));
            let mut image = sound.clone();
            image.resize(sound.len() + random.index(5 * PAGE), 7);
            bench.examine(
                &image,
                Extent::OnePlace,
                &format!("extended to {}", image.len()),
            );
            let at = random.index(sound.len().min(other.bytes.len()) / PAGE) * PAGE;
            let joined = [&sound[..at], &other.bytes[at..]].concat();
            if at > 0 {
                bench.examine(
                    &joined,
                    Extent::Much,
                    &format!("joined with another at {at}"),
                );
            }
        }
    })
}

/// A file that has lost what tells its seed, with that of another file behind it.
#[test]
fn a_file_is_not_read_by_the_seed_of_another() -> Result<()> {
    let other = another_file(true)?;
    for_each_file(Some(&other), |bench, random| {
        let mut sound = bench.sound.bytes.clone();
        for page in sound[PAGE..].chunks_mut(PAGE) {
            let name = b"format";
            if page.windows(name.len()).any(|bytes| bytes == name) {
                page.fill(0);
            }
        }
        for _ in 0..images(8) {
            let mut image = sound.clone();
            // The other file has documents with the numbers of those that are gone.
            for _ in 0..8 {
                let from = random.index(sound.len() / PAGE - 1) * PAGE + PAGE;
                image[from..from + PAGE].fill(0);
            }
            image.extend(&other.bytes[PAGE..]);
            bench.examine(
                &image,
                Extent::Much,
                "its seed is gone, that of another is there",
            );
        }
    })
}

/// Everything that salvage tells is told before the name is given.
#[test]
fn what_is_interrupted_leaves_nothing() -> Result<()> {
    let folder = folder();
    let history = History {
        seed: 5,
        tiny: true,
        closed: false,
    };
    let sound = Sound::new(folder.path(), history)?;
    let damaged = folder.path().join("damaged");
    let mut image = sound.bytes.clone();
    image[..PAGE].fill(0);
    fs::write(&damaged, &image).expect("it can be written");
    let new = folder.path().join("new");
    let salvage = |last: usize| {
        let mut calls = 0;
        let done = Database::salvage(&damaged, &new, &SalvageOptions::new(), |_, _| {
            calls += 1;
            match calls > last {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        (done, calls)
    };
    let (whole, calls) = salvage(usize::MAX);
    assert_eq!(whole?.documents, sound.live.len() as u64);
    fs::remove_file(&new).expect("it is there");
    let names = || fs::read_dir(folder.path()).expect("a folder").count();
    let before = names();
    let step = (calls / images(30)).max(1);
    for last in (0..calls).step_by(step) {
        let (interrupted, _) = salvage(last);
        assert!(
            matches!(interrupted, Err(Error::Interrupted)),
            "{interrupted:?}"
        );
        assert_eq!(
            names(),
            before,
            "something is left after {last} of {calls} calls"
        );
    }
    Ok(())
}
