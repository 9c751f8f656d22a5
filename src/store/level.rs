//! Levels: one sorted run of blocks each, with its directory in memory and an index that finds a block by a row.

use std::ops::Range;
use std::sync::Arc;

use super::block::Row;
use super::directory::{Chunk, ChunkKey, Entry, Filtered, cut};
use super::filter::{self, Filter, Line};

/// The place of a block in its level: how many blocks come before it.
pub(super) type Place = usize;

/// One sorted run of blocks.
#[derive(Debug)]
pub(super) struct Level<R> {
    chunks: Vec<Arc<Chunk<R>>>,
    /// Rows put and marked in the chunks before each, and in all.
    before: Vec<(u64, u64)>,
    /// The filters of each chunk.
    lines: Vec<Arc<[Line]>>,
    /// The last row of each block.
    highs: Vec<R>,
    /// Where the entry of each block is.
    spots: Vec<Spot>,
    prefixes: Prefixes,
    /// How much memory the chunks take.
    chunk_bytes: usize,
}

/// Where the entry of a block is, and its filter among those of the chunk.
#[derive(Clone, Copy, Debug)]
struct Spot {
    chunk: u32,
    entry: u16,
    first_line: u16,
    end_line: u16,
}

/// For each value of a few leading bits, how many blocks end before the rows that begin with them.
#[derive(Debug)]
struct Prefixes {
    starts: Vec<u32>,
    shift: u32,
}

impl Prefixes {
    /// About one block for each value, if rows are evenly spread.
    fn new<R: Row>(highs: &[R]) -> Self {
        let bits = highs.len().max(2).ilog2();
        let shift = u64::BITS - bits;
        let mut starts = Vec::with_capacity((1 << bits) + 1);
        for (place, high) in highs.iter().enumerate() {
            let prefix = (high.lead() >> shift) as usize;
            if prefix >= starts.len() {
                starts.resize(prefix + 1, place as u32);
            }
        }
        starts.resize((1 << bits) + 1, highs.len() as u32);
        Self { starts, shift }
    }

    /// The places among which the first block is that ends at a row or after it, if it is not the one behind them.
    fn around(&self, lead: u64) -> Range<Place> {
        let prefix = (lead >> self.shift) as usize;
        self.starts[prefix] as usize..self.starts[prefix + 1] as usize
    }
}

impl<R: Row> Level<R> {
    pub(super) fn new(chunks: Vec<Arc<Chunk<R>>>) -> Self {
        let highs = chunks.iter().flat_map(|chunk| chunk.entries().iter().map(|entry| entry.high)).collect();
        let spots = chunks.iter().enumerate().flat_map(|(i, chunk)| spots(i, chunk)).collect();
        Self::with_index(chunks, highs, spots)
    }

    pub(super) fn empty() -> Self {
        Self::new(Vec::new())
    }

    /// A level of new blocks, and the chunks of its directory as they are stored.
    pub(super) fn of_blocks(place: u16, blocks: &[(Entry<R>, Filter)], most: usize) -> Splice<R> {
        Self::empty().splice(place, 0..0, blocks, most)
    }

    fn with_index(chunks: Vec<Arc<Chunk<R>>>, highs: Vec<R>, spots: Vec<Spot>) -> Self {
        let mut before = Vec::with_capacity(chunks.len() + 1);
        let mut sum = (0, 0);
        before.push(sum);
        for chunk in &chunks {
            let rows = chunk.rows();
            sum = (sum.0 + u64::from(rows.0), sum.1 + u64::from(rows.1));
            before.push(sum);
        }
        let lines = chunks.iter().map(|chunk| chunk.lines().clone()).collect();
        let chunk_bytes = chunks.iter().map(|chunk| chunk.memory_bytes()).sum();
        Self { chunks, before, lines, prefixes: Prefixes::new(&highs), highs, spots, chunk_bytes }
    }

    /// The checksums of all chunks, added up.
    pub(super) fn sum(&self) -> u64 {
        self.chunks.iter().fold(self.chunks.len() as u64, |sum, chunk| sum.wrapping_add(chunk.checksum()))
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.spots.len()
    }

    /// How much memory the directory takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let block = size_of::<R>() + size_of::<Spot>() + 2 * size_of::<u32>();
        self.chunk_bytes + self.chunks.len() * 40 + self.blocks() * block
    }

    /// How many rows it puts and how many it marks.
    pub(super) fn rows(&self) -> (u64, u64) {
        self.before.last().copied().unwrap_or_default()
    }

    /// The first block that ends at `row` or after it; past the last block where there is none.
    pub(super) fn find(&self, row: R) -> Place {
        let around = self.prefixes.around(row.lead());
        around.start + self.highs[around].partition_point(|&high| high < row)
    }

    /// The entry of a block, or `None` past the last.
    pub(super) fn entry(&self, place: Place) -> Option<&Entry<R>> {
        let spot = self.spots.get(place)?;
        self.chunks[spot.chunk as usize].entries().get(usize::from(spot.entry))
    }

    /// The entries of some blocks, as far as they are there.
    pub(super) fn entries(&self, places: Range<Place>) -> impl Iterator<Item = &Entry<R>> {
        places.map_while(|place| self.entry(place))
    }

    /// Whether the first block that ends at `row` or after it may have rows of the same leading bits.
    pub(super) fn passes(&self, row: R) -> bool {
        self.spots.get(self.find(row)).is_some_and(|spot| {
            let lines = usize::from(spot.first_line)..usize::from(spot.end_line);
            filter::passes(&self.lines[spot.chunk as usize][lines], row.lead())
        })
    }

    /// How many rows are put and marked before a block.
    pub(super) fn rows_before(&self, place: Place) -> (u64, u64) {
        let Some(spot) = self.spots.get(place) else { return self.rows() };
        let (puts, marks) = self.before[spot.chunk as usize];
        let within = self.chunks[spot.chunk as usize].rows_before(spot.entry.into());
        (puts + u64::from(within.0), marks + u64::from(within.1))
    }

    /// Puts new blocks in the place of some. Only chunks that change are made anew.
    pub(super) fn splice(
        &self,
        place: u16,
        places: Range<Place>,
        blocks: &[(Entry<R>, Filter)],
        most: usize,
    ) -> Splice<R> {
        let old = self.chunks_around(&places);
        let first_place = self.first_place(old.start);
        let kept: Vec<Filtered<'_, R>> =
            self.chunks[old.clone()].iter().flat_map(|chunk| chunk.filtered()).collect();
        let (kept_before, kept_after) =
            (&kept[..places.start - first_place], &kept[places.end - first_place..]);
        let blocks = blocks.iter().map(|(entry, filter)| (*entry, filter.lines()));
        let all: Vec<Filtered<'_, R>> =
            kept_before.iter().copied().chain(blocks).chain(kept_after.iter().copied()).collect();

        let removed = self.chunks[old.clone()].iter().map(|chunk| (place, chunk.high().number())).collect();
        let mut written = Vec::new();
        let chunks = self.chunks[..old.start].iter().cloned();
        let mut chunks: Vec<_> = chunks
            .chain(cut(&all, most).into_iter().map(|part| {
                let (chunk, key, bytes) = Chunk::new(place, part);
                written.push((key, bytes));
                Arc::new(chunk)
            }))
            .collect();
        let new_end = chunks.len();
        chunks.extend_from_slice(&self.chunks[old.end..]);

        // The index of what stays is copied, which at tens of millions of rows is much less work than to make it.
        let end_place = self.first_place(old.end);
        let mut highs = Vec::with_capacity(self.highs.len() + all.len());
        highs.extend_from_slice(&self.highs[..first_place]);
        highs.extend(all.iter().map(|(entry, _)| entry.high));
        highs.extend_from_slice(&self.highs[end_place..]);
        let mut new_spots = Vec::with_capacity(highs.len());
        new_spots.extend_from_slice(&self.spots[..first_place]);
        new_spots
            .extend(chunks[..new_end].iter().enumerate().skip(old.start).flat_map(|(i, it)| spots(i, it)));
        let moved = |spot: &Spot| Spot { chunk: spot.chunk - old.end as u32 + new_end as u32, ..*spot };
        new_spots.extend(self.spots[end_place..].iter().map(moved));
        Splice { level: Self::with_index(chunks, highs, new_spots), removed, written }
    }

    /// All chunks that lose a block; and where blocks are added between two chunks, the one before, or they would make a
    /// small chunk of their own each time.
    fn chunks_around(&self, places: &Range<Place>) -> Range<usize> {
        let chunk = |place: Place| match self.spots.get(place) {
            Some(spot) => (spot.chunk as usize, spot.entry > 0),
            None => (self.chunks.len(), false),
        };
        let (first, within) = chunk(places.start);
        let first = if within { first } else { first.saturating_sub(1) };
        let (end, within) = chunk(places.end);
        first..(end + usize::from(within)).max(first)
    }

    /// The first block of a chunk.
    fn first_place(&self, chunk: usize) -> Place {
        self.spots.partition_point(|spot| (spot.chunk as usize) < chunk)
    }
}

/// Where the entries of a chunk are.
fn spots<R: Row>(number: usize, chunk: &Chunk<R>) -> impl Iterator<Item = Spot> {
    (0..chunk.entries().len()).map(move |entry| {
        let (first_line, end_line) = chunk.lines_of(entry);
        Spot { chunk: number as u32, entry: entry as u16, first_line, end_line }
    })
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

    fn block(high: u64, spread: u32) -> (Entry<u64>, Filter) {
        let filter = Filter::new(0..high % 300, high as usize % 300, 9);
        let (puts, marks) = ((high % 7) as u16, (high % 3) as u16);
        (Entry { high: high << spread, id: high + 1000, digest: !high, puts, marks }, filter)
    }

    proptest! {
        /// Any sequence of replacements leaves what it would leave of a list, in memory and stored.
        #[test]
        fn a_level_is_the_list_that_its_replacements_leave(
            replacements in prop::collection::vec((0..300u64, 0..100u64, 0..40usize), 0..40),
            most in 2..9usize, spread in 0..55u32,
        ) {
            let mut level = Level::<u64>::empty();
            let mut list: Vec<u64> = Vec::new();
            let mut stored = BTreeMap::new();
            for (low, length, count) in replacements {
                let high = low + length;
                let places = level.find(low << spread)..level.find(high << spread);
                let new: Vec<u64> = (low..high).take(count).collect();
                let blocks: Vec<_> = new.iter().map(|&it| block(it, spread)).collect();
                let splice = level.splice(3, places, &blocks, most);
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
            let chunks = stored.iter().map(|(&key, bytes)| Chunk::decode(key, bytes).map(Arc::new));
            let read = Level::new(chunks.collect::<Result<_, _>>().map_err(TestCaseError::fail)?);
            prop_assert_eq!(read.sum(), level.sum());
            let right: Vec<_> = list.iter().map(|&it| block(it, spread)).collect();
            for level in [&level, &read] {
                let found: Vec<_> = level.entries(0..usize::MAX).copied().collect();
                prop_assert_eq!(found, right.iter().map(|it| it.0).collect::<Vec<_>>());
                prop_assert_eq!(level.blocks(), right.len());
                for row in (0..420).map(|row| row << spread) {
                    let place = level.find(row);
                    let before = right.iter().filter(|it| it.0.high < row);
                    prop_assert_eq!(before.clone().count(), place);
                    let sums = before.fold((0, 0), |sum, it| (sum.0 + u64::from(it.0.puts), sum.1 + u64::from(it.0.marks)));
                    prop_assert_eq!(level.rows_before(place), sums);
                    prop_assert_eq!(level.entry(place), right.get(place).map(|it| &it.0));
                    let passes = right.get(place).is_some_and(|it| filter::passes(it.1.lines(), row));
                    prop_assert_eq!(level.passes(row), passes);
                }
            }
        }
    }
}
