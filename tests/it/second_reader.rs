//! A second reader of the file. It knows docs/format.md and redb, and shares no code with simdb. It answers
//! queries by range scans over the leading bits of the permuted tables, as the paper has it, and must find
//! what simdb finds.
//!
//! It reads plainly and slowly: nothing is cached, and the log is gone through for each question. A file that was
//! closed in order has no log, so there the tables of the engine alone answer.

use std::collections::BTreeSet;
use std::path::Path;

use redb::{
    ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
};
use simdb::{Database, Document, Expiry, Fingerprint, Near, OpenOptions, Sketch, SketchSize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::support::{
    Folder, TestResult, bundled, done, every, external, fingerprints, go_on, insert_all, leave_log,
    listed, query_of, spread, tiny,
};

/// What the state record says of a set.
#[derive(Debug)]
struct Set {
    /// The first row of the frozen run that is not in the first level yet, if there is a frozen run.
    frozen_from: Option<u128>,
    /// The numbers of the levels, the newest first.
    levels: Vec<u8>,
}

/// A permuted table, as the settings describe it.
struct Table {
    positions: Vec<u8>,
    prefix_bits: u32,
}

struct Reader {
    txn: ReadTransaction,
    _engine: redb::Database,
    seed: u64,
    tables: Vec<Table>,
    /// The numbers of the first page of the log, of the first page that is not frozen, and of the next.
    pages: [u64; 3],
    /// keys, postings, dead, then the permuted tables.
    sets: Vec<Set>,
    /// The last row and the extent of the last chunk of the documents.
    last_documents: Option<(u128, Option<Extent>)>,
    log: Vec<Operation>,
}

/// An operation of the log.
struct Operation {
    is_frozen: bool,
    flags: u8,
    number: u64,
    fingerprint: u64,
    scope: u32,
}

const HAS_FINGERPRINT: u8 = 1;
const REMOVED: u8 = 2;
const FINGERPRINT_GONE: u8 = 4;

/// The scope number that lists the documents of all scopes with a name.
const ANY: u32 = (1 << 24) - 1;

const DEAD: usize = 2;

/// Takes numbers from the front of some bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// A number of up to 16 bytes.
    fn number(&mut self, bytes: usize) -> u128 {
        let mut number = [0; 16];
        number[..bytes].copy_from_slice(self.take(bytes));
        u128::from_le_bytes(number)
    }

    fn u64(&mut self) -> u64 {
        self.number(8) as u64
    }

    /// A number of bincode's encoding of any width.
    fn any_width(&mut self) -> u64 {
        match self.number(1) as u64 {
            251 => self.number(2) as u64,
            252 => self.number(4) as u64,
            253 => self.number(8) as u64,
            small => small,
        }
    }

    /// Numbers of `width` bits, packed from the least significant bit of the first byte on.
    fn packed(&mut self, count: usize, width: usize) -> Vec<u64> {
        let bytes = self.take((count * width).div_ceil(8));
        let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
        (0..count)
            .map(|i| (0..width).map(|b| bit(i * width + b) << b).sum())
            .collect()
    }

    /// A column: the least value, a width, and the offsets from the least value.
    fn column(&mut self, count: usize) -> Vec<u64> {
        let (least, width) = (self.u64(), self.number(1) as usize);
        self.packed(count, width)
            .into_iter()
            .map(|offset| least.wrapping_add(offset))
            .collect()
    }
}

/// A source: its name, the place of its next record (offset, skip, lines, records), whether it has ended, and the
/// ranges of the numbers of its documents.
type SourceRead = (String, [u64; 4], bool, Vec<(u64, u64)>);

/// The body of an envelope, after a check of its checksum and kind.
fn open_envelope<'a>(bytes: &'a [u8], kind: u8, seed: u64, key: &[u8]) -> &'a [u8] {
    let checksum = xxh3_64_with_seed(&bytes[8..], xxh3_64_with_seed(key, seed));
    assert_eq!(
        bytes[..8],
        checksum.to_le_bytes(),
        "a value of kind {kind} does not have its checksum"
    );
    assert_eq!(bytes[8..10], [kind, 1]);
    &bytes[10..]
}

impl Reader {
    fn open(path: &Path) -> TestResult<Self> {
        // The file may be a copy of one that is open. Then the engine has to write to it first.
        let engine = redb::Database::open(path)?;
        let txn = engine.begin_read()?;
        let meta = txn.open_table(TableDefinition::<&str, &[u8]>::new("meta"))?;
        let row = |name: &str| {
            Ok::<_, redb::Error>(meta.get(name)?.expect("the row is there").value().to_vec())
        };
        let format = row("format")?;
        let mut format = Bytes(open_envelope(&format, 2, 0, b"format"));
        assert_eq!(
            (format.number(4), format.u64()),
            (8, 0),
            "version and features"
        );
        let seed = format.u64();
        let settings = row("settings")?;
        let tables = read_tables(open_envelope(&settings, 3, seed, b"settings"));
        let state = row("state")?;
        let mut state = Bytes(open_envelope(&state, 4, seed, b"state"));
        state.take(8 + 4 + 8 + 8 + 8);
        let pages = [state.u64(), state.u64(), state.u64()];
        state.take(5 * 8);
        let documents = read_directory(&mut state, true);
        let sets = (0..3 + tables.len())
            .map(|_| read_set(&mut state))
            .collect();
        assert!(state.0.is_empty());
        drop(meta);
        let mut reader = Self {
            txn,
            _engine: engine,
            seed,
            tables,
            pages,
            sets,
            last_documents: documents,
            log: Vec::new(),
        };
        reader.log = reader.read_log()?;
        Ok(reader)
    }

    fn read_log(&self) -> Result<Vec<Operation>, redb::Error> {
        let table = self
            .txn
            .open_table(TableDefinition::<u64, &[u8]>::new("log"))?;
        let [first, frozen_end, next] = self.pages;
        let mut operations = Vec::new();
        for page in first..next {
            let bytes = table.get(page)?.expect("the page is there");
            let mut body = Bytes(open_envelope(
                bytes.value(),
                7,
                self.seed,
                &page.to_le_bytes(),
            ));
            for _ in 0..body.number(2) {
                let (flags, number) = (body.number(1) as u8, body.number(5) as u64);
                let (_key_hash, fingerprint) = (body.u64(), body.u64());
                let (scope, is_frozen) = (body.number(3) as u32, page < frozen_end);
                operations.push(Operation {
                    is_frozen,
                    flags,
                    number,
                    fingerprint,
                    scope,
                });
            }
        }
        Ok(operations)
    }

    /// What the sources of a set say of the rows in a range: for each source, from the newest to the
    /// oldest, the rows that it puts (true) and marks. `of` tells which rows an operation of the log puts
    /// or marks.
    fn sources(
        &self,
        set: usize,
        range: (u128, u128),
        of: impl Fn(&Operation) -> Vec<(u128, bool)>,
    ) -> Result<Vec<Vec<(u128, bool)>>, redb::Error> {
        let is_in = |row: u128| range.0 <= row && row <= range.1;
        let mut sources = Vec::new();
        for operation in self.log.iter().rev() {
            let from = if operation.is_frozen {
                self.sets[set].frozen_from
            } else {
                Some(0)
            };
            let counts = |row: u128| is_in(row) && from.is_some_and(|from| row >= from);
            sources.push(
                of(operation)
                    .into_iter()
                    .filter(|it| counts(it.0))
                    .collect(),
            );
        }
        for &level in &self.sets[set].levels {
            let mut rows = self.level_rows(set, level, range)?;
            rows.retain(|it| is_in(it.0));
            sources.push(rows);
        }
        Ok(sources)
    }

    /// The rows that a set has in a range: those that the newest source with the row puts.
    fn rows(
        &self,
        set: usize,
        range: (u128, u128),
        of: impl Fn(&Operation) -> Vec<(u128, bool)>,
    ) -> Result<Vec<u128>, redb::Error> {
        let (mut known, mut there) = (BTreeSet::new(), BTreeSet::new());
        for (row, is_put) in self.sources(set, range, of)?.into_iter().flatten() {
            if known.insert(row) && is_put {
                there.insert(row);
            }
        }
        Ok(there.into_iter().collect())
    }

    /// The rows of the blocks of a level that may have rows in a range. This is the range scan.
    fn level_rows(
        &self,
        set: usize,
        level: u8,
        (low, high): (u128, u128),
    ) -> Result<Vec<(u128, bool)>, redb::Error> {
        let mut rows = Vec::new();
        if set < DEAD {
            let name = ["keys", "postings"][set];
            let table = self
                .txn
                .open_table(TableDefinition::<(u8, u128), &[u8]>::new(name))?;
            for block in table.range((level, low)..=(level, u128::MAX))? {
                let (last, bytes) = block?;
                rows.extend(read_block(bytes.value(), true, last.value().1));
                if last.value().1 >= high {
                    break;
                }
            }
            return Ok(rows);
        }
        let name = if set == DEAD {
            "dead".to_owned()
        } else {
            format!("permuted-{}", set - DEAD - 1)
        };
        let table = self
            .txn
            .open_table(TableDefinition::<(u8, u64), &[u8]>::new(&name))?;
        for block in table.range((level, low as u64)..=(level, u64::MAX))? {
            let (last, bytes) = block?;
            rows.extend(read_block(bytes.value(), false, last.value().1.into()));
            if u128::from(last.value().1) >= high {
                break;
            }
        }
        Ok(rows)
    }

    /// The fingerprints within a distance of 3, and perhaps some that have no documents any more.
    fn near(&self, query: u64) -> Result<BTreeSet<u64>, redb::Error> {
        let mut near = BTreeSet::new();
        for (number, table) in self.tables.iter().enumerate() {
            // All rows that begin with the same bits as the query.
            let rest = u64::MAX.checked_shr(table.prefix_bits).unwrap_or(0);
            let permuted = table.apply(query);
            let range = (u128::from(permuted & !rest), u128::from(permuted | rest));
            let of = |it: &Operation| {
                let put = it.flags & REMOVED == 0;
                let changes =
                    it.flags & HAS_FINGERPRINT != 0 && (put || it.flags & FINGERPRINT_GONE != 0);
                changes
                    .then(|| (u128::from(table.apply(it.fingerprint)), put))
                    .into_iter()
                    .collect()
            };
            let candidates = self.rows(DEAD + 1 + number, range, of)?;
            let candidates = candidates.into_iter().map(|row| table.invert(row as u64));
            near.extend(candidates.filter(|fingerprint| (fingerprint ^ query).count_ones() <= 3));
        }
        Ok(near)
    }

    /// The numbers of the documents of a fingerprint in a scope.
    fn postings(&self, fingerprint: u64, scope: u32) -> Result<Vec<u64>, redb::Error> {
        let row = |scope: u32, number: u64| {
            u128::from(fingerprint) << 64 | u128::from(scope) << 40 | u128::from(number)
        };
        let of = |it: &Operation| {
            let is_of = it.flags & HAS_FINGERPRINT != 0 && it.fingerprint == fingerprint;
            let scopes: &[u32] = match it.scope {
                _ if !is_of => &[],
                0 => &[0],
                scope => &[scope, ANY],
            };
            scopes
                .iter()
                .map(|&scope| (row(scope, it.number), it.flags & REMOVED == 0))
                .collect()
        };
        let rows = self.rows(1, (row(scope, 0), row(scope, (1 << 40) - 1)), of)?;
        Ok(rows
            .into_iter()
            .map(|row| row as u64 & ((1 << 40) - 1))
            .collect())
    }

    /// How far each source was read.
    fn sources_read(&self) -> Result<Vec<SourceRead>, redb::Error> {
        let mut sources = Vec::new();
        for row in self
            .txn
            .open_table(TableDefinition::<&[u8], &[u8]>::new("sources"))?
            .iter()?
        {
            let (name, record) = row?;
            let mut record = Bytes(open_envelope(record.value(), 9, self.seed, name.value()));
            let _run_and_command = [record.any_width(), record.any_width()];
            let place = [(); 4].map(|()| record.any_width());
            if record.number(1) == 1 {
                record.any_width();
            }
            let _samples = [(); 4].map(|()| record.any_width());
            if record.number(1) == 1 {
                let _samples = record.any_width();
                if record.number(1) == 1 {
                    let _whole = record.any_width();
                }
                if record.number(1) == 1 {
                    let _times = [record.any_width(), record.any_width()];
                }
            }
            let ended = record.number(1) == 1;
            if record.number(1) == 1 {
                let length = record.any_width();
                let _reason = record.take(length as usize);
            }
            // Those of all records, those of the last line, and the time.
            let _totals_and_time = [(); 2 * 13 + 1].map(|()| record.any_width());
            let mut ranges = || {
                (0..record.any_width())
                    .map(|_| (record.any_width(), record.any_width()))
                    .collect::<Vec<_>>()
            };
            let (numbers, earlier) = (ranges(), ranges());
            let counted = record.any_width();
            assert!(record.0.is_empty() && earlier.is_empty() && counted == 0);
            sources.push((
                String::from_utf8_lossy(name.value()).into_owned(),
                place,
                ended,
                numbers,
            ));
        }
        Ok(sources)
    }

    /// The number of a scope.
    fn scope(&self, name: &str) -> Result<Option<u32>, redb::Error> {
        let table = self
            .txn
            .open_table(TableDefinition::<&str, &[u8]>::new("scopes"))?;
        let record = table.get(name)?;
        let number = |bytes: &[u8]| {
            Bytes(open_envelope(bytes, 5, self.seed, name.as_bytes())).number(4) as u32
        };
        Ok(record.map(|record| number(record.value())))
    }

    /// The key, the fingerprint, the sketch and the repeats of a document.
    fn document(&self, number: u64) -> Result<ReadDocument, redb::Error> {
        let table = self
            .txn
            .open_table(TableDefinition::<(u8, u64), &[u8]>::new("documents"))?;
        let block = table
            .range((0, number)..)?
            .next()
            .expect("the document is in a block")?;
        Ok(read_document(block.1.value(), number))
    }

    /// Compares what the directory says of the times and the scopes of all documents with the documents, and
    /// returns the number of their blocks.
    fn check_extents(&self) -> Result<usize, redb::Error> {
        let documents = self
            .txn
            .open_table(TableDefinition::<(u8, u64), &[u8]>::new("documents"))?;
        let directory = self
            .txn
            .open_table(TableDefinition::<(u16, u128), &[u8]>::new("directory"))?;
        let summaries = self
            .txn
            .open_table(TableDefinition::<(u16, u128), &[u8]>::new("summaries"))?;
        let key = |last: u128| [&0u16.to_le_bytes()[..], &last.to_le_bytes()].concat();
        let (mut blocks, mut chunks) = (Vec::new(), Vec::new());
        for chunk in directory.range((0, 0)..=(0, u128::MAX))? {
            let (last, bytes) = chunk?;
            let last = last.value().1;
            let mut body = Bytes(open_envelope(bytes.value(), 6, self.seed, &key(last)));
            let mut extents = Vec::new();
            for _ in 0..body.number(2) {
                let last_document = body.u64();
                body.take(8 + 8 + 2 + 2);
                assert_eq!(body.number(1), 0, "documents have no filters");
                let extent = read_extent(&mut body);
                let block = documents
                    .get((0, last_document))?
                    .expect("the block is there");
                assert_eq!(
                    extent,
                    extent_of(block.value()),
                    "block up to {last_document}"
                );
                extents.push(extent);
            }
            assert!(body.0.is_empty());
            chunks.push((last, together(extents.iter().copied())));
            blocks.append(&mut extents);
        }
        let mut outlined = Vec::new();
        for summary in summaries.range((0, 0)..=(0, u128::MAX))? {
            let (last, bytes) = summary?;
            let mut body = Bytes(open_envelope(
                bytes.value(),
                8,
                self.seed,
                &key(last.value().1),
            ));
            let count = body.number(2);
            assert!(count <= 78);
            for _ in 0..count {
                let last = body.u64();
                body.take(8 + 2 + 2 + 4 + 4);
                outlined.push((last.into(), read_extent(&mut body)));
            }
            assert!(body.0.is_empty());
        }
        let last = self
            .last_documents
            .and_then(|(last, extent)| Some((last, extent?)));
        outlined.extend(last);
        assert_eq!(outlined, chunks);
        Ok(blocks.len())
    }

    /// The documents within a distance of 3: of all documents, or of those
    /// in a scope.
    fn query(&self, query: u64, scope: Option<&str>) -> Result<BTreeSet<Found>, redb::Error> {
        let scopes = match scope {
            None => vec![0, ANY],
            Some(name) => self.scope(name)?.into_iter().collect(),
        };
        let mut found = BTreeSet::new();
        for fingerprint in self.near(query)? {
            for &scope in &scopes {
                for number in self.postings(fingerprint, scope)? {
                    let (key, stored, sketch, repeats) = self.document(number)?;
                    assert_eq!(stored, fingerprint);
                    found.insert((
                        key,
                        (fingerprint ^ query).count_ones(),
                        format!("{sketch:?}, {repeats} repeats"),
                    ));
                }
            }
        }
        Ok(found)
    }
}

/// The key, the distance, and the sketch and the repeats of a document that is found.
type Found = (String, u32, String);

/// The tables in the settings: bincode with numbers of fixed width, lists with their length in 8 bytes.
fn read_tables(settings: &[u8]) -> Vec<Table> {
    let mut settings = Bytes(settings);
    settings.take(4 + 8 + 8 + 4 + 4);
    let has_similarity = settings.number(1) == 1;
    settings.take(8 * usize::from(has_similarity) + 8);
    let count = settings.u64();
    let table = |_| {
        let length = settings.u64() as usize;
        let positions = settings.take(length).to_vec();
        Table {
            positions,
            prefix_bits: settings.number(4) as u32,
        }
    };
    (0..count).map(table).collect()
}

/// What a directory says of the documents of a block, or of the blocks of a chunk: the least and the greatest
/// time seen, and the bits of the scopes of documents without a fingerprint.
type Extent = (i64, i64, u64);

fn read_extent(bytes: &mut Bytes<'_>) -> Extent {
    (bytes.u64() as i64, bytes.u64() as i64, bytes.u64())
}

/// The extent of all that these are the extents of.
fn together(extents: impl IntoIterator<Item = Extent>) -> Extent {
    let both = |a: Extent, b: Extent| (a.0.min(b.0), a.1.max(b.1), a.2 | b.2);
    extents.into_iter().reduce(both).expect("there are some")
}

/// What the state has of a directory: the last row and the extent of its last chunk, if it has a chunk. The
/// rest is not needed here: the keys of the blocks tell where they are.
fn read_directory(state: &mut Bytes<'_>, has_extents: bool) -> Option<(u128, Option<Extent>)> {
    state.take(8);
    if state.number(1) == 0 {
        return None;
    }
    let last = state.number(16);
    state.take(8 + 2 + 2 + 4 + 4);
    Some((last, has_extents.then(|| read_extent(state))))
}

fn read_set(state: &mut Bytes<'_>) -> Set {
    let (has_frozen, from) = (state.number(1) == 1, state.number(16));
    let levels = state.number(1);
    let level = |_| {
        let number = state.number(1) as u8;
        state.take(16);
        read_directory(state, false);
        number
    };
    Set {
        frozen_from: has_frozen.then_some(from),
        levels: (0..levels).map(level).collect(),
    }
}

impl Table {
    /// Bit i of the permuted fingerprint is the bit of the fingerprint that stands at place i of the list.
    /// Bits are counted from the most significant.
    fn apply(&self, fingerprint: u64) -> u64 {
        let bit = |(to, from): (usize, &u8)| (fingerprint >> (63 - from) & 1) << (63 - to);
        self.positions.iter().enumerate().map(bit).sum()
    }

    fn invert(&self, permuted: u64) -> u64 {
        let bit = |(to, from): (usize, &u8)| (permuted >> (63 - to) & 1) << (63 - from);
        self.positions.iter().enumerate().map(bit).sum()
    }
}

/// The rows that a block puts (true) and marks. The greatest of them must be `last`.
fn read_block(bytes: &[u8], wide: bool, last: u128) -> Vec<(u128, bool)> {
    let mut bytes = Bytes(bytes);
    assert_eq!(bytes.take(2), [16, 1]);
    let mut rows = Vec::new();
    for is_put in [true, false] {
        let count = bytes.number(2) as usize;
        if count == 0 {
            continue;
        }
        let mut leading = vec![bytes.u64()];
        let width = bytes.number(1) as usize;
        for gap in bytes.packed(count - 1, width) {
            leading.push(leading[leading.len() - 1] + gap);
        }
        if wide {
            let (middle, end) = (bytes.column(count), bytes.column(count));
            let row = |i: usize| {
                u128::from(leading[i]) << 64 | u128::from(middle[i]) << 40 | u128::from(end[i])
            };
            rows.extend((0..count).map(|i| (row(i), is_put)));
        } else {
            rows.extend(leading.into_iter().map(|row| (row.into(), is_put)));
        }
    }
    assert!(bytes.0.is_empty());
    assert_eq!(rows.iter().map(|it| it.0).max(), Some(last));
    rows
}

/// A block of documents, decompressed.
struct Documents<'a> {
    count: usize,
    plain: Vec<u8>,
    sketch_bytes: usize,
    sketches: &'a [u8],
}

fn open_documents(bytes: &[u8]) -> Documents<'_> {
    let mut block = Bytes(bytes);
    assert_eq!(block.take(2), [17, 3]);
    let encoding = block.number(1);
    let sketch_bytes = block.number(1) as usize;
    let count = block.number(2) as usize;
    let (rest, sketches) = block.0.split_at(block.0.len() - count * sketch_bytes);
    block = Bytes(rest);
    let plain = match encoding {
        0 => block.0.to_vec(),
        _ => {
            let length = block.number(4) as usize;
            lz4_flex::block::decompress(block.0, length).expect("the block can be decompressed")
        }
    };
    Documents {
        count,
        plain,
        sketch_bytes,
        sketches,
    }
}

/// The least and the greatest time seen of a block, and the scopes of its documents without a fingerprint.
fn extent_of(bytes: &[u8]) -> Extent {
    let Documents {
        count,
        plain,
        sketch_bytes,
        ..
    } = open_documents(bytes);
    let mut block = Bytes(&plain);
    let (least, greatest) = (block.u64() as i64, block.u64() as i64);
    let (_numbers, flags, seen) = (
        block.column(count),
        block.column(count),
        block.column(count),
    );
    assert_eq!(
        seen.iter().max(),
        Some(&(greatest.wrapping_sub(least) as u64)),
        "the greatest time"
    );
    assert!(seen.contains(&0), "the least time");
    let _repeats = block.column(count);
    let (keys, extras) = (block.column(count), block.column(count));
    if sketch_bytes > 0 {
        block.column(count);
    }
    block.take(8 * count + keys.iter().sum::<u64>() as usize);
    let mut unposted = 0;
    for (flags, length) in flags.iter().zip(extras) {
        let mut extras = Bytes(block.take(length as usize));
        let mut scope: &[u8] = &[];
        if length > 0 {
            let rank = extras.u64() as usize;
            extras.take(8 * rank);
            let scope_length = extras.u64() as usize;
            scope = extras.take(scope_length);
        }
        if flags & 1 == 0 {
            unposted |= 1 << (xxh3_64_with_seed(scope, 0) >> 58);
        }
    }
    (least, greatest, unposted)
}

/// The key, the fingerprint, the sketch and the repeats of a document in a block.
type ReadDocument = (String, u64, Option<Sketch>, u64);

fn read_document(bytes: &[u8], number: u64) -> ReadDocument {
    let Documents {
        count,
        plain,
        sketch_bytes,
        sketches,
    } = open_documents(bytes);
    let mut block = Bytes(&plain);
    block.take(8 + 8);
    let numbers = block.column(count);
    let (_flags, _seen) = (block.column(count), block.column(count));
    let repeats = block.column(count);
    let (keys, _extras) = (block.column(count), block.column(count));
    let index = (0..count)
        .find(|&i| numbers[i] + i as u64 == number)
        .expect("the document is in its block");
    let shingles = if sketch_bytes > 0 {
        block.column(count)[index]
    } else {
        0
    };
    let sketch = &sketches[sketch_bytes * index..sketch_bytes * (index + 1)];
    let sketch =
        (shingles > 0).then(|| Sketch::new(sketch, shingles as u32).expect("it is possible"));
    assert!(
        shingles > 0
            || sketches[sketch_bytes * index..][..sketch_bytes]
                .iter()
                .all(|&it| it == 0)
    );
    let fingerprint = Bytes(&block.take(8 * count)[8 * index..]).u64();
    block.take(keys[..index].iter().sum::<u64>() as usize);
    let key = block.take(keys[index] as usize).to_vec();
    (
        String::from_utf8(key).expect("the key is text"),
        fingerprint,
        sketch,
        repeats[index],
    )
}

/// Fingerprints at several distances of some others.
fn queries(fingerprints: &[u64]) -> Vec<u64> {
    let flip = |bits: u64, count: u64| {
        (0..count).fold(bits, |bits, i| bits ^ 1 << (((bits >> 7) + 19 * i) % 64))
    };
    fingerprints
        .iter()
        .enumerate()
        .map(|(i, &bits)| flip(bits, i as u64 % 6))
        .collect()
}

/// Asks both readers the same, and returns how many matches they found. The database must be closed.
fn agree(path: &Path, queries: &[u64], scopes: &[Option<&str>]) -> TestResult<usize> {
    let reader = Reader::open(path)?;
    assert!(reader.check_extents()? > 1);
    let mut answers = Vec::new();
    for &query in queries {
        for &scope in scopes {
            answers.push(reader.query(query, scope)?);
        }
    }
    drop(reader);
    let snapshot = Database::open(path, &OpenOptions::new())?.snapshot()?;
    let mut answers = answers.into_iter();
    let mut found = 0;
    for &query in queries {
        for scope in scopes {
            let near = scope
                .iter()
                .fold(Near::within(3), |near, scope| near.scopes([*scope]));
            let asked = query_of(query).near(near).limit(usize::MAX);
            let sketch = |document: &Document| {
                format!("{:?}, {} repeats", document.sketch(), document.repeats())
            };
            let matches = snapshot.query(&asked)?;
            let listed = listed(&matches).into_iter().zip(&matches);
            let right: BTreeSet<Found> = listed
                .map(|((key, distance), it)| (key, distance, sketch(&it.document)))
                .collect();
            found += right.len();
            assert_eq!(answers.next(), Some(right), "{query:016x} in {scope:?}");
        }
    }
    Ok(found)
}

/// A document. Some share fingerprints, and a third of them has a scope.
fn document(i: u64, fingerprints: &[u64]) -> Document {
    let bits = fingerprints[i as usize * 7 % fingerprints.len()];
    let scope = ["", "", "en", "", "de", ""][i as usize % 6];
    let sketch = Sketch::new(&[i as u8; 32], 1 + (i as u32) * 70_000)
        .ok()
        .filter(|_| !i.is_multiple_of(5));
    let document =
        Document::new(format!("key {i}"), Fingerprint::from_bits(bits)).with_sketch(sketch);
    let repeats = [0, 0, 3, u64::from(u32::MAX)][i as usize / 40 % 4];
    document
        .with_seen(i as i64)
        .with_repeats(repeats)
        .with_scope(scope)
}

/// A document without a fingerprint.
fn too_short(i: u64) -> Document {
    let scope = ["", "en", "de", "fr", "es"][i as usize % 5];
    Document::new(format!("short {i}"), None)
        .with_seen(1_000 - i as i64 % 7)
        .with_scope(scope)
}

const PLANS: [&str; 4] = ["4x16", "6x21", "10x25", "14x32"];

/// Seven hundred real fingerprints.
fn some_fingerprints() -> std::io::Result<Vec<u64>> {
    let mut stored = fingerprints(&bundled("fp-real/fp.u64le"))?;
    stored.truncate(700);
    Ok(stored)
}

/// Inserts, replaces, deletes and expires documents, so that there are levels, a log and marks.
fn fill(path: &Path, plan: &str, stored: &[u64]) -> TestResult<Database> {
    let options = external().plan(plan).recent_documents(40).tiny_blocks();
    let database = Database::create(path, &options.sketch_size(SketchSize::Bytes32))?;
    for part in 0..20 {
        insert_all(
            &database,
            (part * 50..part * 50 + 50).map(|i| document(i, stored)),
        )?;
        insert_all(&database, (0..part % 4).map(|i| too_short(4 * part + i)))?;
        let mut txn = database.begin_write()?;
        for i in (0..part * 50).step_by(17).map(|i| i + part % 17) {
            txn.delete(format!("key {i}"))?;
        }
        txn.commit()?;
        let expiry = Expiry::new().before(part as i64 * 15);
        database.expire(&expiry, every)?;
    }
    let statistics = database.snapshot()?.stats()?;
    // How many levels there are depends on how far the merges are.
    assert!(
        statistics.levels > 0 && statistics.marks > 0,
        "{statistics:?}"
    );
    Ok(database)
}

#[test]
fn a_reader_that_knows_only_the_format_finds_the_same_in_levels_log_and_marks() -> TestResult {
    let stored = some_fingerprints()?;
    let queries = queries(&stored[..250]);
    let scopes = [None, Some("en"), Some("none such")];
    for plan in PLANS {
        let folder = Folder::in_memory()?;
        let path = folder.path("d.simdb");
        leave_log(fill(&path, plan, &stored)?);
        assert!(
            !Reader::open(&path)?.log.is_empty(),
            "{plan}: everything is in levels"
        );
        let found = agree(&path, &queries, &scopes)?;
        assert!(found > 100, "{plan}: {found}");
        // That has closed the file in order.
        assert_eq!(agree(&path, &queries, &scopes)?, found);
        assert_no_log(&path)?;
        // After compaction, the set has one level, and the answers are the same.
        Database::open(&path, &tiny())?.compact(go_on)?;
        assert_eq!(agree(&path, &queries, &scopes)?, found);
    }
    Ok(())
}

/// Asserts that the log has no page, neither by the state nor in the table of the engine.
fn assert_no_log(path: &Path) -> TestResult {
    let reader = Reader::open(path)?;
    let [first, _, next] = reader.pages;
    assert_eq!((first, reader.log.len()), (next, 0));
    assert_eq!(
        reader
            .txn
            .open_table(TableDefinition::<u64, &[u8]>::new("log"))?
            .len()?,
        0
    );
    Ok(())
}

/// Asserts that each permuted table has exactly these fingerprints, by redb and the layout of a block alone.
fn assert_tables_hold(path: &Path, fingerprints: &BTreeSet<u64>) -> TestResult {
    assert_no_log(path)?;
    let reader = Reader::open(path)?;
    for (number, table) in reader.tables.iter().enumerate() {
        let name = format!("permuted-{number}");
        let rows = reader
            .txn
            .open_table(TableDefinition::<(u8, u64), &[u8]>::new(&name))?;
        let mut found = BTreeSet::new();
        for block in rows.iter()? {
            let (last, bytes) = block?;
            for (row, is_put) in read_block(bytes.value(), false, last.value().1.into()) {
                assert!(is_put, "{name} has a mark, but nothing was deleted");
                assert!(
                    found.insert(table.invert(row as u64)),
                    "{name} has a row twice"
                );
            }
        }
        assert!(
            found == *fingerprints,
            "{name}: {} rows, not {}",
            found.len(),
            fingerprints.len()
        );
    }
    Ok(())
}

/// Rows of up to a million documents were in the log and in memory only, even after compaction. Whoever opened the
/// file with redb found tables without entries.
fn tables_hold_all_rows_of(documents: u64) -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let document = |i: u64| Document::new(i.to_le_bytes(), Fingerprint::from_bits(spread(i)));
    let all: BTreeSet<u64> = (0..documents).map(spread).collect();
    let options = external();
    // What a machine with little memory takes by default. A larger one would keep more out of the levels.
    let created = options.clone().recent_documents(250_000);
    let database = Database::create(&path, &created)?;
    for first in (0..documents).step_by(20_000) {
        insert_all(
            &database,
            (first..documents.min(first + 20_000)).map(document),
        )?;
    }
    let backup = folder.path("backup.simdb");
    database.snapshot()?.backup_with(&backup, go_on)?;
    drop(database);
    assert_tables_hold(&path, &all)?;
    assert_tables_hold(&backup, &all)?;
    let database = Database::open(&path, &OpenOptions::new())?;
    database.compact(go_on)?;
    // As it is while it is open: the copy has no log.
    let compacted = folder.path("compacted.simdb");
    std::fs::copy(&path, &compacted)?;
    assert_tables_hold(&compacted, &all)?;
    drop(database);
    assert_tables_hold(&path, &all)?;
    let built = folder.path("built.simdb");
    drop(Database::build(
        &built,
        &options,
        (0..documents).map(|i| Ok(document(i))),
        64 << 20,
    )?);
    assert_tables_hold(&built, &all)
}

#[test]
fn the_tables_in_the_file_hold_the_rows_of_ten_documents() -> TestResult {
    tables_hold_all_rows_of(10)
}

#[test]
fn the_tables_in_the_file_hold_the_rows_of_a_thousand_documents() -> TestResult {
    tables_hold_all_rows_of(1_000)
}

#[test]
fn the_tables_in_the_file_hold_the_rows_of_200_000_documents() -> TestResult {
    tables_hold_all_rows_of(200_000)
}

#[test]
fn the_tables_in_the_file_hold_the_rows_of_700_000_documents() -> TestResult {
    tables_hold_all_rows_of(700_000)
}

#[test]
fn it_finds_the_same_in_blocks_of_full_size() -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let options = external().recent_documents(3_000);
    let database = Database::create(&path, &options)?;
    for first in (0..40_000).step_by(2_000) {
        let documents = first..first + 2_000;
        insert_all(
            &database,
            documents.map(|i| Document::new(format!("key {i}"), Fingerprint::from_bits(spread(i)))),
        )?;
    }
    drop(database);
    let stored: Vec<u64> = (0..40_000).step_by(800).map(spread).collect();
    let found = agree(&path, &queries(&stored), &[None])?;
    assert!(found >= 33, "{found}");
    let database = Database::open(&path, &OpenOptions::new().recent_documents(3_000))?;
    database.settle()?;
    database.compact(go_on)?;
    drop(database);
    assert_eq!(agree(&path, &queries(&stored), &[None])?, found);
    Ok(())
}

#[test]
fn it_reads_how_far_each_source_was_read() -> TestResult {
    let folder = Folder::in_memory()?;
    let lines: String = (0..300u64)
        .map(|i| format!("{i}\t{:016x}\n", i << 40))
        .collect();
    let (first, second) = (
        folder.file("1.tsv", &lines)?,
        folder.file("2.tsv", "x\t00000000000000ff\nbad\n")?,
    );
    let path = folder.path("d.simdb");
    done!(
        "ingest",
        &path,
        &first,
        &second,
        "--input-format fingerprints --batch 70"
    );
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let expected = [
        (
            name(&first),
            [lines.len() as u64, 0, 300, 300],
            true,
            vec![(1, 301)],
        ),
        (name(&second), [23, 0, 2, 2], true, vec![(301, 302)]),
    ];
    assert_eq!(Reader::open(&path)?.sources_read()?, expected);
    Ok(())
}
