//! Levels: where the blocks of a sorted run are. A level is a list of chunks, a chunk a list of block entries.
//!
//! An entry has the last row of its block, the number under which the block is stored, its checksum and how many rows
//! it puts and marks; so a block is found without a descent through the engine's tree, counted without being read, and
//! a stale or foreign one is found out. A chunk is stored in one row of the table `directory`; the checksums of the
//! chunks of a level add up to its *sum*, which the meta table keeps, so a missing or stale chunk is found at opening.

use std::ops::Range;
use std::sync::Arc;

use super::block::Row;
use super::codec::{self, Fields, Kind, Problem};
use super::filter::{Filter, LINE_BYTES};

/// What a directory says of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<R> {
    /// The last row of the block.
    pub(super) high: R,
    /// The number under which the block is stored.
    pub(super) id: u64,
    /// The checksum of its bytes.
    pub(super) digest: u64,
    pub(super) puts: u16,
    pub(super) marks: u16,
    /// Over the leading bits of its rows; empty in sets without filters.
    pub(super) filter: Filter,
}

impl<R: Row> Entry<R> {
    /// How many bytes it takes in a chunk.
    fn bytes(&self) -> usize {
        R::BYTES + 21 + self.filter.bytes()
    }
}

/// Some neighbouring entries.
#[derive(Debug)]
pub(super) struct Chunk<R> {
    entries: Vec<Entry<R>>,
    /// Rows put and marked by the entries before each, and by all.
    before: Vec<(u32, u32)>,
    /// The checksum of the chunk as stored.
    checksum: u64,
    memory_bytes: usize,
}

/// Where a chunk is stored: set and level in one number, then its last row.
pub(super) type ChunkKey = (u16, u128);

impl<R: Row> Chunk<R> {
    /// A chunk of entries, and its stored form.
    pub(super) fn new(place: u16, entries: Vec<Entry<R>>) -> (Self, ChunkKey, Vec<u8>) {
        let key = (place, entries.last().map_or(0, |last| last.high.number()));
        let bytes = codec::seal(Kind::Chunk, seed(key), |bytes| {
            bytes.extend((entries.len() as u16).to_le_bytes());
            for entry in &entries {
                bytes.extend(&entry.high.number().to_le_bytes()[..R::BYTES]);
                bytes.extend(entry.id.to_le_bytes());
                bytes.extend(entry.digest.to_le_bytes());
                bytes.extend(entry.puts.to_le_bytes());
                bytes.extend(entry.marks.to_le_bytes());
                entry.filter.encode(bytes);
            }
        });
        (Self::with_sums(entries, codec::checksum(&bytes)), key, bytes)
    }

    /// Reads a chunk back.
    pub(super) fn decode(key: ChunkKey, bytes: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields(codec::unseal(Kind::Chunk, seed(key), bytes)?);
        let count = u16::from_le_bytes(fields.take()?);
        let mut entries: Vec<Entry<R>> = Vec::with_capacity(count.into());
        for _ in 0..count {
            let mut high = [0; 16];
            high[..R::BYTES].copy_from_slice(fields.take_slice(R::BYTES)?);
            let mut entry = Entry {
                high: R::from_number(u128::from_le_bytes(high)),
                id: u64::from_le_bytes(fields.take()?),
                digest: u64::from_le_bytes(fields.take()?),
                puts: u16::from_le_bytes(fields.take()?),
                marks: u16::from_le_bytes(fields.take()?),
                filter: Filter::default(),
            };
            let [lines] = fields.take()?;
            entry.filter = Filter::decode(fields.take_slice(usize::from(lines) * LINE_BYTES)?);
            if entries.last().is_some_and(|last| last.high >= entry.high) {
                return Err("its blocks are out of order");
            }
            entries.push(entry);
        }
        fields.finish()?;
        match entries.last() {
            Some(last) if last.high.number() == key.1 => Ok(Self::with_sums(entries, codec::checksum(bytes))),
            _ => Err("it does not end where its key says"),
        }
    }

    fn with_sums(entries: Vec<Entry<R>>, checksum: u64) -> Self {
        let mut before = Vec::with_capacity(entries.len() + 1);
        let mut sum = (0, 0);
        before.push(sum);
        for entry in &entries {
            sum = (sum.0 + u32::from(entry.puts), sum.1 + u32::from(entry.marks));
            before.push(sum);
        }
        let filters: usize = entries.iter().map(|entry| entry.filter.bytes()).sum();
        let memory_bytes =
            entries.capacity() * (size_of::<Entry<R>>() + size_of::<(u32, u32)>()) + filters + 128;
        Self { entries, before, checksum, memory_bytes }
    }

    /// The last row of its last block.
    pub(super) fn high(&self) -> R {
        self.entries.last().map_or(R::MIN, |last| last.high)
    }

    /// The last row of its first block.
    pub(super) fn low(&self) -> R {
        self.entries.first().map_or(R::MIN, |first| first.high)
    }

    fn rows(&self) -> (u32, u32) {
        self.before.last().copied().unwrap_or_default()
    }
}

fn seed(key: ChunkKey) -> u64 {
    let mut bytes = [0; 18];
    bytes[..2].copy_from_slice(&key.0.to_le_bytes());
    bytes[2..].copy_from_slice(&key.1.to_le_bytes());
    codec::named_row(&bytes)
}

/// How many bytes the entries of a chunk may take, so that it fills a page.
const CHUNK_BYTES: usize = 4080 - codec::HEADER_BYTES - 2;

/// Cuts entries into chunks of about equal length, as few as hold them.
fn cut<R: Row>(entries: Vec<Entry<R>>, most: usize) -> Vec<Vec<Entry<R>>> {
    let bytes: usize = entries.iter().map(Entry::bytes).sum();
    // A sixteenth is left over, since entries are not cut.
    let parts = bytes.div_ceil(CHUNK_BYTES - CHUNK_BYTES / 16).max(entries.len().div_ceil(most));
    let (share, count) = (bytes.div_ceil(parts.max(1)), entries.len().div_ceil(parts.max(1)));
    let mut chunks: Vec<Vec<Entry<R>>> = Vec::with_capacity(parts);
    let mut taken = 0;
    for entry in entries {
        let room = CHUNK_BYTES - taken;
        match chunks.last_mut() {
            Some(chunk) if taken < share && chunk.len() < count.max(1) && entry.bytes() <= room => {
                taken += entry.bytes();
                chunk.push(entry);
            }
            _ => {
                taken = entry.bytes();
                chunks.push(vec![entry]);
            }
        }
    }
    chunks
}

/// A level of these entries, and its chunks as they are stored.
pub(super) fn cut_into_chunks<R: Row>(
    place: u16,
    entries: Vec<Entry<R>>,
    most: usize,
) -> (Level<R>, Vec<(ChunkKey, Vec<u8>)>) {
    let mut written = Vec::new();
    let chunk = |part| {
        let (chunk, key, bytes) = Chunk::new(place, part);
        written.push((key, bytes));
        Arc::new(chunk)
    };
    let chunks = cut(entries, most).into_iter().map(chunk).collect();
    (Level::new(chunks), written)
}

/// The place of a block in its level; ordered as the blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    chunk: usize,
    entry: usize,
}

/// One sorted run of blocks.
#[derive(Clone, Debug)]
pub(super) struct Level<R> {
    chunks: Vec<Arc<Chunk<R>>>,
    /// The last row of each chunk.
    highs: Vec<R>,
    /// Rows put and marked in the chunks before each, and in all.
    before: Vec<(u64, u64)>,
    /// How many blocks there are.
    blocks: usize,
    /// How much memory the chunks take.
    memory_bytes: usize,
}

impl<R: Row> Level<R> {
    pub(super) fn new(chunks: Vec<Arc<Chunk<R>>>) -> Self {
        let mut before = Vec::with_capacity(chunks.len() + 1);
        let mut sum = (0, 0);
        before.push(sum);
        for chunk in &chunks {
            let rows = chunk.rows();
            sum = (sum.0 + u64::from(rows.0), sum.1 + u64::from(rows.1));
            before.push(sum);
        }
        let highs = chunks.iter().map(|chunk| chunk.high()).collect();
        let blocks = chunks.iter().map(|chunk| chunk.entries.len()).sum();
        let memory_bytes = chunks.iter().map(|chunk| chunk.memory_bytes).sum();
        Self { chunks, highs, before, blocks, memory_bytes }
    }

    /// The checksums of all chunks, added up.
    pub(super) fn sum(&self) -> u64 {
        self.chunks.iter().fold(self.chunks.len() as u64, |sum, chunk| sum.wrapping_add(chunk.checksum))
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// How much memory the directory takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// How many rows it puts and how many it marks.
    pub(super) fn rows(&self) -> (u64, u64) {
        self.before.last().copied().unwrap_or_default()
    }

    /// The first block that ends at `row` or after it; past the last block where there is none.
    pub(super) fn find(&self, row: R) -> Place {
        let chunk = self.highs.partition_point(|&high| high < row);
        let entry =
            self.chunks.get(chunk).map_or(0, |chunk| chunk.entries.partition_point(|it| it.high < row));
        Place { chunk, entry }
    }

    /// The entry of a place, or `None` past the last block.
    pub(super) fn entry(&self, place: Place) -> Option<&Entry<R>> {
        self.chunks.get(place.chunk)?.entries.get(place.entry)
    }

    pub(super) fn after(&self, place: Place) -> Place {
        match self.chunks.get(place.chunk) {
            Some(chunk) if place.entry + 1 < chunk.entries.len() => Place { entry: place.entry + 1, ..place },
            _ => Place { chunk: place.chunk + 1, entry: 0 },
        }
    }

    /// The place before, or `None` before the first block.
    pub(super) fn previous(&self, place: Place) -> Option<Place> {
        if place.entry > 0 {
            return Some(Place { entry: place.entry - 1, ..place });
        }
        let chunk = place.chunk.min(self.chunks.len()).checked_sub(1)?;
        Some(Place { chunk, entry: self.chunks[chunk].entries.len().checked_sub(1)? })
    }

    /// How many rows are put and marked before the block of a place.
    pub(super) fn rows_before(&self, place: Place) -> (u64, u64) {
        let Some(chunk) = self.chunks.get(place.chunk) else { return self.rows() };
        let (puts, marks) = self.before[place.chunk];
        let (chunk_puts, chunk_marks) = chunk.before[place.entry];
        (puts + u64::from(chunk_puts), marks + u64::from(chunk_marks))
    }

    /// The entries from `from` on.
    pub(super) fn entries(&self, from: Place) -> impl Iterator<Item = &Entry<R>> {
        let chunks = self.chunks.get(from.chunk..).unwrap_or_default();
        chunks.iter().enumerate().flat_map(move |(i, chunk)| {
            chunk.entries.get(if i == 0 { from.entry } else { 0 }..).unwrap_or_default()
        })
    }

    /// Puts `entries` in the place of those in `places`.
    pub(super) fn splice(
        &self,
        place: u16,
        places: Range<Place>,
        entries: Vec<Entry<R>>,
        most: usize,
    ) -> Splice<R> {
        // All chunks that lose an entry; and where entries are added between two chunks, the one before, or they
        // would make a small chunk of their own each time.
        let first =
            if places.start.entry == 0 { places.start.chunk.saturating_sub(1) } else { places.start.chunk };
        let end = (places.end.chunk + usize::from(places.end.entry > 0)).max(first).min(self.chunks.len());
        let mut all: Vec<Entry<R>> = Vec::with_capacity(entries.len() + 2 * most);
        let (mut entries, mut added) = (entries, false);
        for (i, chunk) in self.chunks.iter().enumerate().take(end).skip(first) {
            for (j, entry) in chunk.entries.iter().enumerate() {
                let here = Place { chunk: i, entry: j };
                if here >= places.start && !added {
                    all.append(&mut entries);
                    added = true;
                }
                if here < places.start || here >= places.end {
                    all.push(entry.clone());
                }
            }
        }
        all.append(&mut entries);
        let (new, written) = cut_into_chunks(place, all, most);
        let mut chunks = self.chunks[..first.min(self.chunks.len())].to_vec();
        chunks.extend(new.chunks);
        let old = first.min(self.chunks.len())..end;
        let removed = self.chunks[old].iter().map(|chunk| (place, chunk.high().number())).collect();
        chunks.extend_from_slice(&self.chunks[end..]);
        Splice { level: Self::new(chunks), removed, written }
    }
}

/// A level after a change, and the change of the stored chunks.
#[derive(Debug)]
pub(super) struct Splice<R> {
    pub(super) level: Level<R>,
    pub(super) removed: Vec<ChunkKey>,
    pub(super) written: Vec<(ChunkKey, Vec<u8>)>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(high: u64) -> Entry<u64> {
        let filter = Filter::new(0..high % 300, high as usize % 300, 9);
        Entry {
            high,
            id: high + 1000,
            digest: !high,
            puts: (high % 7) as u16,
            marks: (high % 3) as u16,
            filter,
        }
    }

    proptest! {
        /// Any sequence of replacements leaves what it would leave of a list, in memory and stored.
        #[test]
        fn a_level_is_the_list_that_its_replacements_leave(
            replacements in prop::collection::vec((0..300u64, 0..100u64, 0..40usize), 0..40), most in 2..9usize,
        ) {
            let mut level = Level::<u64>::new(Vec::new());
            let mut list: Vec<u64> = Vec::new();
            let mut stored = BTreeMap::new();
            for (low, length, count) in replacements {
                let high = low + length;
                let places = level.find(low)..level.find(high);
                let new: Vec<u64> = (low..high).take(count).collect();
                let splice = level.splice(3, places, new.iter().map(|&it| entry(it)).collect(), most);
                list.retain(|it| !(low..high).contains(it));
                list.extend(new);
                list.sort_unstable();
                for key in &splice.removed {
                    prop_assert!(stored.remove(key).is_some());
                }
                for (key, bytes) in splice.written {
                    prop_assert!(stored.insert(key, bytes).is_none());
                }
                level = splice.level;
            }
            let entries = |level: &Level<u64>| level.entries(level.find(0)).cloned().collect::<Vec<_>>();
            let right: Vec<_> = list.iter().map(|&it| entry(it)).collect();
            prop_assert_eq!(entries(&level), right.clone());
            let chunks = stored.iter().map(|(&key, bytes)| Chunk::decode(key, bytes).map(Arc::new));
            let read = Level::new(chunks.collect::<Result<_, _>>().map_err(TestCaseError::fail)?);
            prop_assert_eq!(entries(&read), right.clone());
            prop_assert_eq!(read.sum(), level.sum());
            prop_assert_eq!(level.blocks(), right.len());
            for row in 0..420 {
                let place = level.find(row);
                let mut before = right.iter().filter(|it| it.high < row);
                let sums = before.clone().fold((0, 0), |sum, it| (sum.0 + u64::from(it.puts), sum.1 + u64::from(it.marks)));
                prop_assert_eq!(level.rows_before(place), sums);
                prop_assert_eq!(level.entry(place), right.iter().find(|it| it.high >= row));
                prop_assert_eq!(level.previous(place).and_then(|it| level.entry(it)), before.next_back());
                prop_assert_eq!(level.entry(level.after(place)), right.iter().filter(|it| it.high >= row).nth(1));
            }
        }
    }

    #[test]
    fn chunks_fill_a_page_and_a_damaged_one_is_refused() -> Result<(), Problem> {
        let chunks =
            cut((0..10_000).map(|high| Entry { filter: Filter::default(), ..entry(high) }).collect(), 256);
        let lengths: Vec<_> = chunks.iter().map(|chunk| Chunk::new(1, chunk.clone()).2.len()).collect();
        assert!(lengths.iter().all(|length| (3400..=4080).contains(length)), "{lengths:?}");
        let (_, key, bytes) = Chunk::new(1, (0..8).map(entry).collect());
        Chunk::<u64>::decode(key, &bytes)?;
        assert!(Chunk::<u64>::decode((2, key.1), &bytes).is_err());
        assert!(Chunk::<u64>::decode((1, key.1 + 1), &bytes).is_err());
        assert!(Chunk::<u64>::decode(key, &bytes[..100]).is_err());
        assert!(Chunk::<u128>::decode(key, &bytes).is_err());
        Ok(())
    }
}
