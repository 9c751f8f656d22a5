//! Chunks: the stored parts of a directory. A chunk has an entry for each of some neighbouring blocks of a
//! level. An entry has the last row of its block, the number and the checksum of the block, and the
//! numbers of rows that it puts and marks. To put a row is to add it. To mark a row is to say that it is gone
//! from the levels below, which put it earlier. So a block is found without a descent through the engine's
//! tree, and counted without being read. An old or foreign block is recognized by its checksum.
//!
//! A chunk is stored in one row of the table `directory`. Its outline, in a [summary](super::summary), has its
//! checksum. So an old chunk is recognized when it is read.
//!
//! What finds a filter stands together, in the fence of a chunk.

use std::sync::{Arc, OnceLock};

use super::summary::{Outline, key_bytes};
use crate::planted::planted;
use crate::store::blocks::{
    BlockId, Entry, Extent, Fields, FileSeed, Filter, HEADER_BYTES, Kind, LINE_BYTES, Line,
    MAX_BLOCK_LINES, MAX_ROWS, Packed, Problem, Row, Segment, decode_lines, encode_lines,
    lines_pass, seal, sealed_checksum, unseal,
};
use crate::store::engine::LevelName;
use crate::store::sizes::PAGE_BYTES;

#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../../tests/hostile/directory.rs"]
pub(crate) mod hostile;

/// A new block of a level: its entry, and what else the directory says of it.
#[derive(Clone, Debug)]
pub(crate) struct NewBlock<R> {
    pub(crate) entry: Entry<R>,
    /// Empty in sets without filters.
    pub(crate) filter: Filter,
    /// Only blocks of documents have one.
    pub(crate) extent: Option<Extent>,
}

impl<R> NewBlock<R> {
    /// A packed block, which gets a number, and its bytes.
    pub(crate) fn numbered<B>(packed: Packed<R, B>, id: BlockId) -> (Self, B) {
        let entry = Entry {
            high: packed.high,
            id,
            checksum: packed.checksum,
            puts: packed.puts,
            marks: packed.marks,
        };
        let block = Self {
            entry,
            filter: packed.filter,
            extent: packed.extent,
        };
        (block, packed.bytes)
    }
}

/// Everything that a directory says of a block. The lines are those of its filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed<'a, R> {
    entry: Entry<R>,
    lines: &'a [Line],
    extent: Option<Extent>,
}

/// The bytes that each entry takes beside its last row: the number and the checksum of the block, the puts, the marks,
/// and the number of lines of the filter.
const FIXED_BYTES: usize = 8 + 8 + 2 + 2 + 1;

impl<R: Row> Listed<'_, R> {
    /// The bytes that it takes in a chunk.
    fn encoded_bytes(&self) -> usize {
        let extent = self.extent.map_or(0, |_| Extent::BYTES);
        R::BYTES + FIXED_BYTES + self.lines.len() * LINE_BYTES + extent
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let entry = &self.entry;
        bytes.extend(&entry.high.number().to_le_bytes()[..R::BYTES]);
        bytes.extend(entry.id.number().to_le_bytes());
        bytes.extend(entry.checksum.to_le_bytes());
        bytes.extend(entry.puts.to_le_bytes());
        bytes.extend(entry.marks.to_le_bytes());
        encode_lines(self.lines, bytes);
        if let Some(extent) = &self.extent {
            extent.encode(bytes);
        }
    }
}

/// What a chunk says of its blocks, in lists. They are as in a [`Chunk`].
struct Parts<R> {
    entries: Vec<Entry<R>>,
    first_lines: Vec<u16>,
    lines: Vec<Line>,
    before: Vec<RowCounts>,
    extents: Vec<Extent>,
}

impl<R: Row> Parts<R> {
    fn with_capacity(entries: usize) -> Self {
        let mut parts = Self {
            entries: Vec::with_capacity(entries),
            first_lines: Vec::with_capacity(entries + 1),
            lines: Vec::new(),
            before: Vec::with_capacity(entries + 1),
            extents: Vec::new(),
        };
        parts.first_lines.push(0);
        parts.before.push(RowCounts::default());
        parts
    }

    /// What the body of a chunk says.
    fn decode_all(level: LevelName, body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields(body);
        let count = u16::from_le_bytes(fields.take()?);
        let mut parts = Self::with_capacity(count.into());
        for _ in 0..count {
            parts.decode(level, &mut fields)?;
        }
        fields.finish()?;
        Ok(parts)
    }

    fn add(&mut self, listed: &Listed<'_, R>) {
        self.lines.extend_from_slice(listed.lines);
        self.extents.extend(listed.extent);
        self.push(listed.entry.clone());
    }

    /// Adds an entry, whose lines are the last ones.
    fn push(&mut self, entry: Entry<R>) {
        let mut rows = self.before[self.entries.len()];
        rows.puts += u32::from(entry.puts);
        rows.marks += u32::from(entry.marks);
        self.before.push(rows);
        self.first_lines.push(self.lines.len() as u16);
        self.entries.push(entry);
    }

    /// Adds what [`Listed::encode`] wrote.
    fn decode(&mut self, level: LevelName, fields: &mut Fields<'_>) -> Result<(), Problem> {
        let mut high = [0; 16];
        high[..R::BYTES].copy_from_slice(fields.take_slice(R::BYTES)?);
        let number = u64::from_le_bytes(fields.take()?);
        if number > BlockId::MAX_NUMBER {
            return Err("a block has an impossible number");
        }
        let entry = Entry {
            high: R::from_number(u128::from_le_bytes(high)),
            id: BlockId::new(level.number, number),
            checksum: u64::from_le_bytes(fields.take()?),
            puts: u16::from_le_bytes(fields.take()?),
            marks: u16::from_le_bytes(fields.take()?),
        };
        // So many rows are made room for before the block is read.
        if usize::from(entry.puts.max(entry.marks)) > MAX_ROWS {
            return Err("a block claims more rows than a block has");
        }
        let [filter_lines] = fields.take()?;
        if usize::from(filter_lines) > MAX_BLOCK_LINES {
            return Err("a filter is longer than filters are");
        }
        let lines = fields.take_slice(usize::from(filter_lines) * LINE_BYTES)?;
        self.lines.extend(decode_lines(lines));
        if level.table.has_extents {
            self.extents.push(Extent::decode(fields)?);
        }
        let last = self.entries.last();
        if last.is_some_and(|last| last.high >= entry.high) {
            return Err("its blocks are out of order");
        }
        self.push(entry);
        Ok(())
    }

    fn into_chunk(self, checksum: u64) -> Chunk<R> {
        Chunk {
            entries: self.entries,
            first_lines: self.first_lines,
            lines: self.lines.into(),
            before: self.before,
            extents: self.extents,
            checksum,
        }
    }
}

impl<'a, R: Row> From<&'a NewBlock<R>> for Listed<'a, R> {
    fn from(block: &'a NewBlock<R>) -> Self {
        Self {
            entry: block.entry.clone(),
            lines: block.filter.lines(),
            extent: block.extent,
        }
    }
}

/// The numbers of rows that some blocks put and mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCounts {
    pub(super) puts: u32,
    pub(super) marks: u32,
}

/// Some neighbouring entries.
#[derive(Debug)]
pub(super) struct Chunk<R> {
    pub(super) entries: Vec<Entry<R>>,
    /// The index of the first line of each filter, then the number of all lines.
    first_lines: Vec<u16>,
    /// The filters of all blocks, one after the other.
    lines: Arc<[Line]>,
    /// The numbers of rows that are put and marked by the entries before each entry, then by all entries.
    before: Vec<RowCounts>,
    /// The extents of the blocks. Empty in sets that have none.
    extents: Vec<Extent>,
    /// The checksum of the chunk as stored.
    checksum: u64,
}

impl<R: Row> Chunk<R> {
    /// A chunk of entries, its last row and its stored bytes.
    pub(super) fn new(
        level: LevelName,
        file: FileSeed,
        listed: &[Listed<'_, R>],
    ) -> (Self, u128, Vec<u8>) {
        let last = listed.last().map_or(0, |last| last.entry.high.number());
        let bytes = seal(Kind::Chunk, file, &key_bytes((level.id(), last)), |bytes| {
            bytes.extend((listed.len() as u16).to_le_bytes());
            for block in listed {
                block.encode(bytes);
            }
        });
        let mut parts = Parts::with_capacity(listed.len());
        for block in listed {
            parts.add(block);
        }
        (parts.into_chunk(sealed_checksum(&bytes)), last, bytes)
    }

    /// Reads a chunk of a level back. It must be the one that was outlined.
    pub(super) fn decode(
        level: LevelName,
        outline: &Outline<R>,
        file: FileSeed,
        bytes: &[u8],
    ) -> Result<Self, Problem> {
        let last = outline.high.number();
        let body = unseal(Kind::Chunk, file, &key_bytes((level.id(), last)), bytes)?;
        let parts = Parts::decode_all(level, body)?;
        if parts.entries.len() > MAX_FILTERED && !parts.lines.is_empty() {
            return Err("it has too many blocks with filters");
        }
        let chunk = parts.into_chunk(sealed_checksum(bytes));
        if chunk.outline() == *outline || planted("an old directory is taken") {
            Ok(chunk)
        } else {
            Err("it is not the chunk its summary speaks of")
        }
    }

    /// Everything that it says of its blocks.
    pub(super) fn listed(&self) -> impl Iterator<Item = Listed<'_, R>> {
        self.entries.iter().enumerate().map(|(i, entry)| Listed {
            entry: entry.clone(),
            lines: self.filter_of(i),
            extent: self.extents.get(i).copied(),
        })
    }

    /// The extents of its blocks. Empty in sets that have none.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The filter of a block.
    fn filter_of(&self, entry: usize) -> &[Line] {
        &self.lines[self.first_lines[entry].into()..self.first_lines[entry + 1].into()]
    }

    /// The numbers of rows that are put and marked by the entries before `entry`.
    pub(super) fn rows_before(&self, entry: usize) -> RowCounts {
        self.before[entry]
    }

    /// The rows of a block in the segment of the chunk.
    pub(super) fn rows_in<'s>(&self, segment: &'s Segment<R>, entry: usize) -> (&'s [R], &'s [R]) {
        let from = self.before[entry];
        let to = self.before[entry + 1];
        let puts = &segment.puts()[from.puts as usize..to.puts as usize];
        let marks = &segment.marks()[from.marks as usize..to.marks as usize];
        (puts, marks)
    }

    /// What a summary says of the chunk.
    pub(super) fn outline(&self) -> Outline<R> {
        Outline {
            high: self.entries.last().map_or(R::MIN, |last| last.high),
            checksum: self.checksum,
            blocks: self.entries.len() as u16,
            lines: self.lines.len() as u16,
            rows: self.before.last().copied().unwrap_or_default(),
            extent: self.extents.iter().copied().reduce(Extent::with),
        }
    }
}

/// The entries of a chunk of a level without filters, for whoever has no summary that outlines it: the last row of its
/// last block is the one of its key. If the seed of the file is not known, the checksum is not compared.
pub(crate) fn lone_entries<R: Row>(
    level: LevelName,
    last: u128,
    file: Option<FileSeed>,
    bytes: &[u8],
) -> Result<Vec<Entry<R>>, Problem> {
    let body = match file {
        Some(file) => unseal(Kind::Chunk, file, &key_bytes((level.id(), last)), bytes)?,
        None => bytes.get(HEADER_BYTES..).ok_or("shorter than its header")?,
    };
    Ok(Parts::decode_all(level, body)?.entries)
}

/// Finds the filters of the blocks of a chunk. Every insertion tests a filter of every level, and waits
/// for memory meanwhile. So everything that is read to find a line of a filter is together here.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(super) struct Fence {
    /// The prefix of the last row of the chunk.
    pub(super) last: u64,
    filters: OnceLock<Filters>,
}

#[derive(Clone, Debug)]
struct Filters {
    /// The prefix of the last row of each block. Behind the last block, its prefix is repeated.
    highs: [u64; MAX_FILTERED],
    /// The index of the first line of each block, then the number of all lines.
    first_lines: [u8; MAX_FILTERED + 1],
    lines: Arc<[Line]>,
}

impl Fence {
    /// The fence of a chunk that is not read yet. `last` is the prefix of its last row.
    pub(super) fn new(last: u64) -> Self {
        Self {
            last,
            filters: OnceLock::new(),
        }
    }

    /// Takes the filters of the chunk.
    pub(super) fn fill<R: Row>(&self, chunk: &Chunk<R>) {
        let mut highs = [self.last; MAX_FILTERED];
        let mut first_lines = [0; MAX_FILTERED + 1];
        for (i, entry) in chunk.entries.iter().enumerate().take(MAX_FILTERED) {
            highs[i] = entry.high.prefix();
            let end = chunk.first_lines[i + 1] as u8;
            first_lines[i + 1..].fill(end);
        }
        // Another thread may have done the same.
        _ = self.filters.set(Filters {
            highs,
            first_lines,
            lines: chunk.lines.clone(),
        });
    }

    /// Whether rows with this prefix may begin in the first block that ends at the prefix or after it. `None`
    /// if the chunk is not read yet.
    #[inline]
    pub(super) fn passes(&self, prefix: u64) -> Option<bool> {
        let Filters {
            highs,
            first_lines,
            lines,
        } = self.filters.get()?;
        // All prefixes are compared, since the processor could not predict the branches of a search.
        let mut block = 0;
        for &high in &highs[..MAX_FILTERED - 1] {
            block += usize::from(high < prefix);
        }
        let of_block = first_lines[block].into()..first_lines[block + 1].into();
        Some(lines_pass(&lines[of_block], prefix))
    }
}

/// The most entries of a chunk that has filters. A page has room for about this number anyway.
const MAX_FILTERED: usize = 7;

/// The most bytes that the entries of a chunk may take. A full chunk fills a page.
const CHUNK_BYTES: usize = PAGE_BYTES - 16 - HEADER_BYTES - 2;

/// Cuts entries into few chunks of about equal length. A chunk has at most `most` entries.
pub(super) fn cut<'a, 'b, R: Row>(
    listed: &'b [Listed<'a, R>],
    most: usize,
) -> Vec<&'b [Listed<'a, R>]> {
    let bytes: usize = listed.iter().map(Listed::encoded_bytes).sum();
    // A sixteenth of the bytes of a chunk stays free, since entries are not cut.
    let parts = bytes
        .div_ceil(CHUNK_BYTES - CHUNK_BYTES / 16)
        .max(listed.len().div_ceil(most))
        .max(1);
    let share = bytes.div_ceil(parts);
    let mut count = listed.len().div_ceil(parts).max(1);
    if listed.iter().any(|block| !block.lines.is_empty()) {
        count = count.min(MAX_FILTERED);
    }
    let mut chunks = Vec::with_capacity(parts);
    let mut first = 0;
    let mut taken = 0;
    for (i, entry) in listed.iter().enumerate() {
        let bytes = entry.encoded_bytes();
        if i > first && (taken >= share || i - first >= count || taken + bytes > CHUNK_BYTES) {
            chunks.push(&listed[first..i]);
            first = i;
            taken = 0;
        }
        taken += bytes;
    }
    chunks.push(&listed[first..]);
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::blocks::Filter;
    use crate::store::engine::BlockTable;

    const FILE: FileSeed = FileSeed::NONE;

    fn level(number: u8) -> LevelName {
        static TABLE: BlockTable = BlockTable::new(1, "test", false);
        LevelName {
            table: &TABLE,
            number,
        }
    }

    fn listed(high: u64, lines: &[Line]) -> Listed<'_, u64> {
        Listed {
            entry: entry(high),
            lines,
            extent: None,
        }
    }

    fn entry(high: u64) -> Entry<u64> {
        Entry {
            high,
            id: BlockId::new(1, high + 1000),
            checksum: !high,
            puts: (high % 7) as u16,
            marks: (high % 3) as u16,
        }
    }

    #[test]
    fn chunks_fill_a_page_and_a_damaged_one_is_refused() -> Result<(), Problem> {
        let entries: Vec<_> = (0..10_000).map(|high| listed(high, &[])).collect();
        let chunks = cut(&entries, 256);
        let lengths: Vec<_> = chunks
            .iter()
            .map(|chunk| Chunk::new(level(1), FILE, chunk).2.len())
            .collect();
        assert!(
            lengths.iter().all(|length| (3400..=4080).contains(length)),
            "{lengths:?}"
        );
        let filters: Vec<Filter> = (0..MAX_FILTERED as u64)
            .map(|i| Filter::new(0..37 * i, 37 * i as usize, 9))
            .collect();
        let entries: Vec<_> = filters
            .iter()
            .enumerate()
            .map(|(i, it)| listed(i as u64, it.lines()))
            .collect();
        let (chunk, last, bytes) = Chunk::new(level(1), FILE, &entries);
        let outline = chunk.outline();
        let read = Chunk::<u64>::decode(level(1), &outline, FILE, &bytes)?;
        assert_eq!(read.listed().collect::<Vec<_>>(), entries);
        assert_eq!(read.outline(), outline);
        assert_eq!(outline.high, last as u64);
        let is_refused = |number, outline: &Outline<u64>, file, bytes: &[u8]| {
            Chunk::decode(level(number), outline, file, bytes).is_err()
        };
        assert!(is_refused(2, &outline, FILE, &bytes));
        assert!(is_refused(1, &outline, FileSeed(1), &bytes));
        assert!(is_refused(1, &outline, FILE, &bytes[..100]));
        for wrong in [
            Outline {
                high: outline.high + 1,
                ..outline
            },
            Outline {
                checksum: outline.checksum + 1,
                ..outline
            },
            Outline {
                blocks: outline.blocks + 1,
                ..outline
            },
            Outline {
                lines: outline.lines + 1,
                ..outline
            },
            Outline {
                rows: RowCounts {
                    puts: outline.rows.puts + 1,
                    ..outline.rows
                },
                ..outline
            },
        ] {
            assert!(is_refused(1, &wrong, FILE, &bytes), "{wrong:?}");
        }
        // More lines than a level can tell blocks by, in a chunk whose checksum is right.
        for (lines, is_right) in [(MAX_BLOCK_LINES, true), (MAX_BLOCK_LINES + 1, false)] {
            let filter = Filter::new(0..9_000, 9_000, lines);
            let (chunk, _, bytes) = Chunk::new(level(1), FILE, &[listed(1, filter.lines())]);
            assert_ne!(
                is_refused(1, &chunk.outline(), FILE, &bytes),
                is_right,
                "{lines} lines"
            );
        }
        Ok(())
    }

    /// Documents have extents. A chunk without them, or with times out of order, is not one of theirs.
    #[test]
    fn a_chunk_of_documents_has_the_extents_of_its_blocks() -> Result<(), Problem> {
        static TABLE: BlockTable = BlockTable::new(0, "test", false).with_extents();
        let level = LevelName {
            table: &TABLE,
            number: 0,
        };
        let extent = |i: u64| Extent {
            least_seen: -(i as i64),
            greatest_seen: i as i64 % 7,
            unposted: 1 << (i % 5),
        };
        let of = |i: u64| Listed {
            extent: Some(extent(i)),
            ..listed(i, &[])
        };
        let entries: Vec<_> = (0..1_000).map(of).collect();
        let chunks = cut(&entries, 256);
        let lengths: Vec<_> = chunks
            .iter()
            .map(|chunk| Chunk::new(level, FILE, chunk).2.len())
            .collect();
        assert!(
            lengths.iter().all(|length| (3400..=4080).contains(length)),
            "{lengths:?}"
        );
        let (chunk, _, bytes) = Chunk::new(level, FILE, &entries[..9]);
        let outline = chunk.outline();
        assert_eq!(
            outline.extent,
            Some(Extent {
                least_seen: -8,
                greatest_seen: 6,
                unposted: 31
            })
        );
        let read = Chunk::<u64>::decode(level, &outline, FILE, &bytes)?;
        assert_eq!(read.extents(), (0..9).map(extent).collect::<Vec<_>>());
        let backwards = Extent {
            least_seen: 9,
            greatest_seen: 8,
            unposted: 0,
        };
        let (chunk, _, bytes) = Chunk::new(
            level,
            FILE,
            &[Listed {
                extent: Some(backwards),
                ..of(1)
            }],
        );
        assert!(Chunk::<u64>::decode(level, &chunk.outline(), FILE, &bytes).is_err());
        let (chunk, _, bytes) = Chunk::new(level, FILE, &[listed(1, &[])]);
        assert!(Chunk::<u64>::decode(level, &chunk.outline(), FILE, &bytes).is_err());
        Ok(())
    }

    /// A level finds the filters of a chunk in a list with room for a fixed number of blocks. If some
    /// blocks had no filter, a chunk could once have more blocks than that.
    #[test]
    fn chunks_with_filters_are_short_even_where_some_blocks_have_none() {
        let filter = Filter::new(0..37, 37, 9);
        for without in 0..20 {
            let lines = |high: u64| {
                if high == without {
                    &[][..]
                } else {
                    filter.lines()
                }
            };
            let entries: Vec<_> = (0..20).map(|high| listed(high, lines(high))).collect();
            assert!(
                cut(&entries, 256)
                    .iter()
                    .all(|chunk| chunk.len() <= MAX_FILTERED)
            );
        }
    }
}
