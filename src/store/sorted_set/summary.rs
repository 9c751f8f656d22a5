//! Outlines of chunks, and summaries. The outline of a chunk has its last row, its checksum, and what its
//! blocks hold together. A summary has the outlines of some neighbouring chunks of a level. Opening a file
//! reads the summaries alone. A chunk is read when a row is first looked for in it, and must be as its outline
//! says.
//!
//! A summary is stored in one row of the table `summaries`. It adds its checksum and one to the *sum* of its
//! level. The state record has the sum. So a missing or old summary is found when the file is opened, and a
//! missing or old chunk when it is read. The state record also has the outline of the last chunk of a level,
//! which is in no summary. For a commit of a few documents changes the last chunk of the documents, and the
//! state record is written anyway.

use std::cmp::Ordering;
use std::ops::Range;

use super::chunk::{Chunk, Listed, NewBlock, RowCounts, cut};
use super::level::{Level, Position};
use crate::error::Result;
use crate::store::blocks::{
    Extent, Fields, FileSeed, Kind, MAX_BLOCK_LINES, MAX_ROWS, Problem, Row, SetBlocks, seal,
    share_of_sum, unseal,
};
use crate::store::engine::{ChunkKey, LevelChange, LevelName};

/// What a summary says of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline<R> {
    /// The last row of its last block.
    pub(super) high: R,
    /// The checksum of the chunk as stored.
    pub(super) checksum: u64,
    /// The number of its blocks.
    pub(super) blocks: u16,
    /// The number of lines of all its filters.
    pub(super) lines: u16,
    /// The numbers of rows that its blocks put and mark.
    pub(super) rows: RowCounts,
    /// The extent of its blocks, in sets that have them.
    pub(super) extent: Option<Extent>,
}

/// The most outlines of a summary of this level. A full summary takes less than a page.
fn most_outlines(level: LevelName) -> usize {
    if level.table.has_extents { 78 } else { 100 }
}

impl<R: Row> Outline<R> {
    /// Adds the outline to a stored value. The last row takes `row_bytes` bytes.
    pub(super) fn encode(&self, row_bytes: usize, bytes: &mut Vec<u8>) {
        bytes.extend(&self.high.number().to_le_bytes()[..row_bytes]);
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(self.blocks.to_le_bytes());
        bytes.extend(self.lines.to_le_bytes());
        bytes.extend(self.rows.puts.to_le_bytes());
        bytes.extend(self.rows.marks.to_le_bytes());
        if let Some(extent) = &self.extent {
            extent.encode(bytes);
        }
    }

    /// Reads an outline back. `has_extent` tells whether it has an extent.
    pub(super) fn decode(
        row_bytes: usize,
        has_extent: bool,
        fields: &mut Fields<'_>,
    ) -> Result<Self, Problem> {
        let mut high = [0; 16];
        high[..row_bytes].copy_from_slice(fields.take_slice(row_bytes)?);
        let outline = Self {
            high: R::from_number(u128::from_le_bytes(high)),
            checksum: u64::from_le_bytes(fields.take()?),
            blocks: u16::from_le_bytes(fields.take()?),
            lines: u16::from_le_bytes(fields.take()?),
            rows: RowCounts {
                puts: u32::from_le_bytes(fields.take()?),
                marks: u32::from_le_bytes(fields.take()?),
            },
            extent: has_extent.then(|| Extent::decode(fields)).transpose()?,
        };
        let blocks = usize::from(outline.blocks);
        let most_rows = outline.rows.puts.max(outline.rows.marks) as usize;
        if blocks == 0 {
            Err("a chunk has no blocks")
        } else if most_rows > blocks * MAX_ROWS
            || usize::from(outline.lines) > blocks * MAX_BLOCK_LINES
        {
            Err("a chunk claims more than its blocks have")
        } else {
            Ok(outline)
        }
    }

    /// The same outline of a chunk whose rows are of another width.
    fn with_rows<S: Row>(self) -> Outline<S> {
        Outline {
            high: S::from_number(self.high.number()),
            checksum: self.checksum,
            blocks: self.blocks,
            lines: self.lines,
            rows: self.rows,
            extent: self.extent,
        }
    }
}

/// A summary of these outlines: its last row and its stored bytes.
pub(super) fn encode_summary<R: Row>(
    level: LevelName,
    file: FileSeed,
    outlines: &[Outline<R>],
) -> (u128, Vec<u8>) {
    let last = outlines.last().map_or(0, |outline| outline.high.number());
    let bytes = seal(
        Kind::Summary,
        file,
        &key_bytes((level.id(), last)),
        |bytes| {
            bytes.extend((outlines.len() as u16).to_le_bytes());
            for outline in outlines {
                outline.encode(R::BYTES, bytes);
            }
        },
    );
    (last, bytes)
}

/// Reads a summary of a level back.
fn decode_summary<R: Row>(
    level: LevelName,
    last: u128,
    file: FileSeed,
    bytes: &[u8],
) -> Result<Vec<Outline<R>>, Problem> {
    let mut fields = Fields(unseal(
        Kind::Summary,
        file,
        &key_bytes((level.id(), last)),
        bytes,
    )?);
    let count = u16::from_le_bytes(fields.take()?);
    let mut outlines: Vec<Outline<R>> = Vec::with_capacity(count.into());
    for _ in 0..count {
        let outline = Outline::decode(R::BYTES, level.table.has_extents, &mut fields)?;
        if outlines
            .last()
            .is_some_and(|before| before.high >= outline.high)
        {
            return Err("its chunks are out of order");
        }
        outlines.push(outline);
    }
    fields.finish()?;
    match outlines.last() {
        Some(end) if end.high.number() == last => Ok(outlines),
        _ => Err("it does not end where its key says"),
    }
}

/// The key of a chunk or a summary as bytes, for its envelope.
pub(super) fn key_bytes((level_id, last): ChunkKey) -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..2].copy_from_slice(&level_id.to_le_bytes());
    bytes[2..].copy_from_slice(&last.to_le_bytes());
    bytes
}

/// What the state record says of the directory of a level.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredDirectory {
    /// The sum of its summaries.
    sum: u64,
    /// The last chunk. Rows are given as numbers.
    last: Option<Outline<u128>>,
}

impl<R: Row> Level<R> {
    /// Adds to the state record what it has of this level.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.summaries.sum().to_le_bytes());
        let last = self.end().chunk.checked_sub(1);
        let last = last.and_then(|last| self.outline(last));
        bytes.push(u8::from(last.is_some()));
        if let Some(last) = last {
            last.encode(size_of::<u128>(), bytes);
        }
    }
}

impl StoredDirectory {
    /// Reads back what the state record has of a level.
    pub(crate) fn decode(has_extents: bool, fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let sum = u64::from_le_bytes(fields.take()?);
        let [has_chunks] = fields.take()?;
        let last = match has_chunks {
            0 => None,
            _ => Some(Outline::decode(size_of::<u128>(), has_extents, fields)?),
        };
        Ok(Self { sum, last })
    }

    /// The level of these summaries, each with its last row, in order. No chunk is read yet. On refusal, the last row
    /// of the summary that is wrong, or 0, and the problem.
    pub(crate) fn level<R: Row>(
        &self,
        name: LevelName,
        file: FileSeed,
        stored: &[(u128, Vec<u8>)],
    ) -> Result<Level<R>, (u128, Problem)> {
        let mut outlines = Vec::new();
        let mut summaries = Summaries::default();
        for (last, bytes) in stored {
            let before = outlines.len();
            match decode_summary(name, *last, file, bytes) {
                Ok(more) => outlines.extend(more),
                Err(problem) => return Err((*last, problem)),
            }
            summaries.push(outlines.len() - before, bytes);
        }
        outlines.extend(self.last.map(Outline::with_rows));
        if summaries.sum() != self.sum {
            let problem = "the summaries of this level are not those of the last commit";
            return Err((0, problem));
        }
        if !outlines.is_sorted_by(|a, b| a.high < b.high) {
            return Err((0, "the chunks of this level are out of order"));
        }
        Ok(Level::unread(name.number, outlines, summaries))
    }
}

impl<R: Row> Level<R> {
    /// Replaces the blocks at `positions` by new blocks, and adds to `change` what changes of the stored directory.
    /// Only chunks and summaries that change are made anew. A new chunk has at most `most` entries, and a new
    /// summary at most `most` outlines.
    pub(crate) fn splice(
        &self,
        positions: Range<Position>,
        new: &[NewBlock<R>],
        most: usize,
        blocks: SetBlocks<'_>,
        change: &mut LevelChange,
    ) -> Result<Self> {
        // All chunks that lose a block are made anew. If blocks are added between two chunks, the chunk
        // before is made anew too. Otherwise each addition would make a small chunk of its own.
        let Range { start, end } = positions;
        let mut first = start.chunk;
        if start.entry == 0 {
            first = first.saturating_sub(1);
        }
        let last = (end.chunk + usize::from(end.entry > 0)).max(first);
        let changed_end = last.max(start.chunk + 1).min(self.end().chunk);
        let mut changed = Vec::new();
        for chunk in first..changed_end {
            changed.push(self.chunk(chunk, blocks)?);
        }
        let mut all: Vec<Listed<'_, R>> = Vec::new();
        for (chunk, old) in (first..).zip(&changed) {
            match chunk.cmp(&start.chunk) {
                Ordering::Less => all.extend(old.listed()),
                Ordering::Equal => all.extend(old.listed().take(start.entry)),
                Ordering::Greater => break,
            }
        }
        all.extend(new.iter().map(Listed::from));
        // Of the chunk in which the replaced blocks end, the others stay.
        if end.chunk < last
            && let Some(old) = changed.get(end.chunk - first)
        {
            all.extend(old.listed().skip(end.entry));
        }
        let mut chunks = Vec::new();
        for part in cut(&all, most) {
            let (chunk, last, bytes) = Chunk::new(change.level, blocks.file(), part);
            change.chunks.written.push((last, bytes));
            chunks.push(chunk);
        }
        for old in (first..last).map_while(|chunk| self.outline(chunk)) {
            change.chunks.removed.push(old.high.number());
        }
        let mut level = self.with_chunks(first..last, chunks);
        let most = most.min(most_outlines(change.level));
        level.summaries = self.summarized(first..last, &level, most, blocks.file(), change);
        Ok(level)
    }

    /// The summaries of `now`, which has other chunks in the place of `old`. Those that change are made anew. A new
    /// one has at most `most` outlines.
    fn summarized(
        &self,
        old: Range<usize>,
        now: &Self,
        most: usize,
        file: FileSeed,
        change: &mut LevelChange,
    ) -> Summaries {
        // The last chunk is in no summary, neither before nor now.
        let listed_before = self.end().chunk.saturating_sub(1);
        let listed = now.end().chunk.saturating_sub(1);
        let first = old.start.min(listed_before).min(listed);
        let end_before = old.end.min(listed_before).max(first);
        let end = listed - (listed_before - end_before);
        let before = &self.summaries.0;
        if first == end_before && first == end {
            return self.summaries.clone();
        }
        let touched = touched(before, &(first..end_before));
        let mut summaries = Summaries(before[..touched.start].to_vec());
        let first = summaries.chunks();
        let touched_end = before[touched.clone()]
            .last()
            .map_or(first, |last| last.end);
        let end = touched_end - end_before + end;
        let outlines = (first..end).map_while(|chunk| now.outline(chunk));
        let outlines: Vec<Outline<R>> = outlines.copied().collect();
        for part in cut_outlines(&outlines, end == listed, most) {
            summaries.write(part, file, change);
        }
        for summary in &before[touched.clone()] {
            let last = self.outline(summary.end - 1);
            change
                .summaries
                .removed
                .extend(last.map(|last| last.high.number()));
        }
        for summary in &before[touched.end..] {
            summaries.0.push(Stored {
                end: summary.end + listed - listed_before,
                share: summary.share,
            });
        }
        summaries
    }
}

/// The stored summaries of a level, in order. The last chunk of a level is in none.
#[derive(Clone, Debug, Default)]
pub(super) struct Summaries(Vec<Stored>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    /// The number of chunks up to its last one, those of the summaries before it too.
    end: usize,
    /// Its part in the sum of its level: its checksum and one.
    share: u64,
}

impl Summaries {
    /// Adds a stored summary of so many chunks.
    fn push(&mut self, chunks: usize, bytes: &[u8]) {
        self.0.push(Stored {
            end: self.chunks() + chunks,
            share: share_of_sum([bytes]),
        });
    }

    /// Adds a new summary of these outlines, also to the change of the level.
    fn write<R: Row>(&mut self, outlines: &[Outline<R>], file: FileSeed, change: &mut LevelChange) {
        let (last, bytes) = encode_summary(change.level, file, outlines);
        self.push(outlines.len(), &bytes);
        change.summaries.written.push((last, bytes));
    }

    /// The number of chunks that are in a summary.
    fn chunks(&self) -> usize {
        self.0.last().map_or(0, |last| last.end)
    }

    /// The checksums of all summaries and the number of summaries, added up.
    fn sum(&self) -> u64 {
        let mut sum = 0u64;
        for summary in &self.0 {
            sum = sum.wrapping_add(summary.share);
        }
        sum
    }

    /// For each summary the number of chunks up to its last one.
    pub(super) fn ends(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|summary| summary.end)
    }
}

/// Cuts the outlines of some summaries of a level anew. At the end of a level, where most are added, each
/// summary but the last is full. Elsewhere all are of about equal length. None has more than `most` outlines.
fn cut_outlines<R>(
    outlines: &[Outline<R>],
    at_end: bool,
    most: usize,
) -> std::slice::Chunks<'_, Outline<R>> {
    let parts = outlines.len().div_ceil(most).max(1);
    let even = outlines.len().div_ceil(parts).max(1);
    outlines.chunks(if at_end { most } else { even })
}

/// The indexes of the stored summaries that have one of these chunks. If there is no chunk in the range, that
/// of the chunk before.
fn touched(stored: &[Stored], chunks: &Range<usize>) -> Range<usize> {
    let mut first = chunks.start;
    if chunks.is_empty() {
        first = first.saturating_sub(1).max(chunks.end.saturating_sub(1));
    }
    let last = chunks.end.saturating_sub(1).max(first);
    let end = (summary_of(stored, last) + 1).min(stored.len());
    summary_of(stored, first).min(end)..end
}

/// The index of the summary that has a chunk.
fn summary_of(stored: &[Stored], chunk: usize) -> usize {
    stored.partition_point(|summary| summary.end <= chunk)
}

/// The entries that are cut into chunks at a time.
const ENTRIES_AT_A_TIME: usize = 1 << 12;

/// The directory of a level that is written with its blocks, and not kept in memory.
pub(crate) struct DirectoryWriter<R> {
    pub(crate) level: LevelName,
    file: FileSeed,
    /// The most entries of a chunk.
    most: usize,
    /// Entries that are in no chunk yet.
    waiting: Vec<NewBlock<R>>,
    /// The outlines of chunks that are in no summary yet.
    outlines: Vec<Outline<R>>,
    summaries: Summaries,
}

impl<R: Row> DirectoryWriter<R> {
    /// The directory of a level in the file of a seed. A chunk has at most `most` entries.
    pub(crate) fn new(level: LevelName, file: FileSeed, most: usize) -> Self {
        Self {
            level,
            file,
            most,
            waiting: Vec::new(),
            outlines: Vec::new(),
            summaries: Summaries::default(),
        }
    }

    /// Adds a block behind those before. When many wait, adds their chunks to `change`.
    pub(crate) fn push(&mut self, block: NewBlock<R>, change: &mut LevelChange) {
        self.waiting.push(block);
        if self.waiting.len() >= ENTRIES_AT_A_TIME {
            self.write_waiting(change);
        }
    }

    fn write_waiting(&mut self, change: &mut LevelChange) {
        let listed: Vec<_> = self.waiting.iter().map(Listed::from).collect();
        for part in cut(&listed, self.most) {
            let (chunk, last, bytes) = Chunk::new(self.level, self.file, part);
            self.outlines.push(chunk.outline());
            change.chunks.written.push((last, bytes));
        }
        self.waiting.clear();
        // The last chunk of the level is in no summary.
        let most = most_outlines(self.level);
        let full = self.outlines.len().saturating_sub(1) / most * most;
        self.summarize(full, change);
    }

    /// Makes the first outlines into summaries.
    fn summarize(&mut self, outlines: usize, change: &mut LevelChange) {
        let summarized: Vec<_> = self.outlines.drain(..outlines).collect();
        for part in summarized.chunks(most_outlines(self.level)) {
            self.summaries.write(part, self.file, change);
        }
    }

    /// Adds the rest to `change`. Returns the level, of which only what the state record has is known, or `None` if it
    /// has no blocks.
    pub(crate) fn finish(mut self, change: &mut LevelChange) -> Option<Level<R>> {
        self.write_waiting(change);
        let last = self.outlines.pop()?;
        self.summarize(self.outlines.len(), change);
        Some(Level::unread(self.level.number, vec![last], self.summaries))
    }
}

// Extents: which blocks of documents may have some of a time or of a scope, without reading them. Documents are stored
// in the order in which they come. So later blocks mostly have later times. Where they do not, whole chunks are passed
// over by their outlines.

impl Level<u64> {
    /// The first row that may be of a document seen at `since` or later. `None` if there is no such row.
    pub(crate) fn first_since(&self, since: i64, blocks: SetBlocks<'_>) -> Result<Option<u64>> {
        let chunk = self.latest.partition_point(|&latest| latest < since);
        if chunk == self.latest.len() {
            return Ok(None);
        }
        let extents = self.chunk(chunk, blocks)?.extents();
        let entry = extents
            .iter()
            .position(|extent| extent.greatest_seen >= since)
            .unwrap_or(0);
        let before = self.entry_before(Position { chunk, entry }, blocks)?;
        Ok(Some(before.map_or(0, |before| before.high + 1)))
    }

    /// The last row up to `row` that may be of a document seen at `since` or later. `None` if there is no such
    /// row. Rows behind the last block may not.
    pub(crate) fn last_since(
        &self,
        row: u64,
        since: i64,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<u64>> {
        let mut end = self.after(self.find(row, blocks)?, 1);
        loop {
            // The chunk of the last block before `end`.
            let Some(Position { chunk, entry }) = self.before(end) else {
                return Ok(None);
            };
            if self.latest[chunk] < since {
                return Ok(None);
            }
            let all = self.outline(chunk).and_then(|outline| outline.extent);
            if all.is_some_and(|extent| extent.greatest_seen >= since) {
                let extents = &self.chunk(chunk, blocks)?.extents()[..=entry];
                let entry = extents
                    .iter()
                    .rposition(|extent| extent.greatest_seen >= since);
                if let Some(entry) = entry {
                    let last = self.entry(Position { chunk, entry }, blocks)?;
                    return Ok(last.map(|last| last.high.min(row)));
                }
            }
            end = Position { chunk, entry: 0 };
        }
    }

    /// The position of the first block from `from` on whose extent `wanted` takes. `wanted` must take the
    /// extent of two blocks together if it takes that of one of them.
    pub(crate) fn next_wanted(
        &self,
        from: Position,
        wanted: impl Fn(&Extent) -> bool,
        blocks: SetBlocks<'_>,
    ) -> Result<Position> {
        let mut position = from;
        while let Some(outline) = self.outline(position.chunk) {
            if outline.extent.is_some_and(|extent| wanted(&extent)) {
                let rest = &self.chunk(position.chunk, blocks)?.extents()[position.entry..];
                if let Some(found) = rest.iter().position(&wanted) {
                    return Ok(Position {
                        entry: position.entry + found,
                        ..position
                    });
                }
            }
            position = Position {
                chunk: position.chunk + 1,
                entry: 0,
            };
        }
        Ok(self.end())
    }

    /// The most blocks that `wanted` may take, as far as the outlines of the chunks tell. `wanted` is as in
    /// [`next_wanted`](Self::next_wanted).
    pub(crate) fn most_wanted(&self, wanted: impl Fn(&Extent) -> bool) -> usize {
        let mut most = 0;
        for outline in (0..).map_while(|chunk| self.outline(chunk)) {
            if outline.extent.is_some_and(|extent| wanted(&extent)) {
                most += usize::from(outline.blocks);
            }
        }
        most
    }

    /// The extent of a block.
    pub(crate) fn extent(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<Extent>> {
        if position >= self.end() {
            return Ok(None);
        }
        let chunk = self.chunk(position.chunk, blocks)?;
        Ok(chunk.extents().get(position.entry).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::BlockTable;

    #[test]
    fn a_summary_reads_back_and_a_damaged_one_is_refused() -> Result<(), Problem> {
        static TABLE: BlockTable = BlockTable::new(1, "test", true);
        let level = |number| LevelName {
            table: &TABLE,
            number,
        };
        let file = FileSeed(7);
        let outline = |i: u16| Outline {
            high: u128::from(i) << 90,
            checksum: !u64::from(i),
            blocks: 20 * (i + 1),
            lines: 3 * i,
            rows: RowCounts {
                puts: 70_000 * u32::from(i),
                marks: u32::from(i),
            },
            extent: None,
        };
        let outlines: Vec<Outline<u128>> =
            (0..most_outlines(level(2)) as u16).map(outline).collect();
        let (last, bytes) = encode_summary(level(2), file, &outlines);
        assert_eq!(last, 99 << 90);
        assert!(bytes.len() < 4_000);
        assert_eq!(decode_summary(level(2), last, file, &bytes)?, outlines);
        assert!(decode_summary::<u128>(level(3), last, file, &bytes).is_err());
        assert!(decode_summary::<u128>(level(2), last + 1, file, &bytes).is_err());
        assert!(decode_summary::<u128>(level(2), last, FileSeed(8), &bytes).is_err());
        assert!(decode_summary::<u64>(level(2), last, file, &bytes).is_err());
        assert!(decode_summary::<u128>(level(2), last, file, &bytes[..bytes.len() - 1]).is_err());
        let wrong = |change: &dyn Fn(&mut Vec<Outline<u128>>)| {
            let mut outlines = outlines.clone();
            change(&mut outlines);
            let (last, bytes) = encode_summary(level(2), file, &outlines);
            decode_summary::<u128>(level(2), last, file, &bytes).is_err()
        };
        assert!(wrong(&|outlines| outlines[5].blocks = 0));
        assert!(wrong(&|outlines| outlines[5].blocks = 85));
        assert!(wrong(&|outlines| outlines[5].rows.marks = u32::MAX));
        assert!(wrong(&|outlines| outlines.swap(5, 6)));
        assert!(wrong(&Vec::clear));
        Ok(())
    }

    #[test]
    fn a_full_summary_of_documents_takes_less_than_a_page() -> Result<(), Problem> {
        static TABLE: BlockTable = BlockTable::new(0, "test", false).with_extents();
        let level = LevelName {
            table: &TABLE,
            number: 0,
        };
        let extent = |i: u16| Extent {
            least_seen: i64::MIN,
            greatest_seen: i.into(),
            unposted: i.into(),
        };
        let outline = |i: u16| Outline {
            high: u64::from(i),
            checksum: 1,
            blocks: 1,
            lines: 0,
            rows: RowCounts { puts: 1, marks: 0 },
            extent: Some(extent(i)),
        };
        let outlines: Vec<_> = (0..most_outlines(level) as u16).map(outline).collect();
        let (last, bytes) = encode_summary(level, FileSeed(7), &outlines);
        assert!((4_000..=4_080).contains(&bytes.len()), "{}", bytes.len());
        assert_eq!(decode_summary(level, last, FileSeed(7), &bytes)?, outlines);
        Ok(())
    }
}

#[cfg(test)]
mod splice_tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;
    use crate::store::blocks::{BlockId, Entry, Extent, Filter, MemoryBlocks, lines_pass};
    use crate::store::engine::{BlockTable, Replaced};

    static TABLE: BlockTable = BlockTable::new(0, "test", false).with_extents();
    const NAME: LevelName = LevelName {
        table: &TABLE,
        number: 3,
    };

    /// Times that grow, but for every tenth block.
    fn extent(high: u64) -> Extent {
        let least_seen = if high % 10 == 3 {
            -(high as i64)
        } else {
            high as i64
        };
        Extent {
            least_seen,
            greatest_seen: least_seen + 20,
            unposted: 1 << (high % 64),
        }
    }

    fn block(high: u64, spread: u32) -> NewBlock<u64> {
        let filter = Filter::new(0..high % 300, high as usize % 300, 9);
        let puts = (high % 7) as u16;
        let marks = (high % 3) as u16;
        let entry = Entry {
            high: high << spread,
            id: BlockId::new(3, high + 1000),
            checksum: !high,
            puts,
            marks,
        };
        NewBlock {
            entry,
            filter,
            extent: Some(extent(high)),
        }
    }

    #[test]
    fn changed_chunks_are_in_the_summaries_that_are_told() {
        let stored: Vec<Stored> = [3, 5, 9].map(|end| Stored { end, share: 0 }).into();
        for (chunks, right) in [
            (0..1, 0..1),
            (2..3, 0..1),
            (2..4, 0..2),
            (3..9, 1..3),
            (3..3, 0..1),
            (0..0, 0..1),
            (9..9, 2..3),
        ] {
            assert_eq!(touched(&stored, &chunks), right, "{chunks:?}");
        }
        assert_eq!(touched(&[], &(0..0)), 0..0);
    }

    /// A level as it is after opening a file: no chunk is read yet.
    fn reopened(summaries: &BTreeMap<u128, Vec<u8>>, level: &Level<u64>) -> Level<u64> {
        let summaries: Vec<_> = summaries.clone().into_iter().collect();
        super::super::tests::reopened(NAME, FileSeed(7), &summaries, level)
    }

    proptest! {
        /// A level after any sequence of replacements has the same blocks as a list after them, in memory
        /// and stored. Some replacements find the level as it is after opening a file.
        #[test]
        fn a_level_is_the_list_that_its_replacements_leave(
            replacements in prop::collection::vec((0..300u64, 0..100u64, 0..40usize, any::<bool>()), 0..40),
            most in 2..9usize, spread in 0..55u32,
        ) {
            let memory = MemoryBlocks::default();
            let blocks = memory.blocks();
            let of = blocks.of_table(&TABLE);
            let mut level = Level::<u64>::empty(NAME.number);
            let mut list: Vec<u64> = Vec::new();
            let mut summaries = BTreeMap::new();
            for (low, length, count, reopens) in replacements {
                let high = low + length;
                let positions = level.find(low << spread, of)?..level.find(high << spread, of)?;
                let new: Vec<u64> = (low..high).take(count).collect();
                let added: Vec<_> = new.iter().map(|&it| block(it, spread)).collect();
                let mut change = LevelChange::none(NAME);
                level = level.splice(positions, &added, most, of, &mut change)?;
                list.retain(|it| !(low..high).contains(it));
                list.extend(new);
                list.sort_unstable();
                memory.replace_chunks(NAME, change.chunks);
                for key in &change.summaries.removed {
                    prop_assert!(summaries.remove(key).is_some());
                }
                for (key, bytes) in change.summaries.written {
                    prop_assert!(summaries.insert(key, bytes).is_none());
                }
                prop_assert!(summaries.keys().copied().eq(level.ends().1));
                if reopens {
                    level = reopened(&summaries, &level);
                }
            }
            let read = reopened(&summaries, &level);
            prop_assert_eq!(read.summaries.sum(), level.summaries.sum());
            let right: Vec<_> = list.iter().map(|&it| block(it, spread)).collect();
            for row in (0..420).map(|row| row << spread) {
                let level = reopened(&summaries, &level);
                let passes = right.iter().find(|it| it.entry.high >= row);
                let passes = passes.is_some_and(|it| lines_pass(it.filter.lines(), row));
                prop_assert_eq!(level.passes(row, of)?, passes);
            }
            for level in [&level, &read] {
                prop_assert_eq!(level.blocks(), right.len());
                prop_assert_eq!(level.high(), right.last().map(|it| it.entry.high));
                for row in (0..420).map(|row| row << spread) {
                    let position = level.find(row, of)?;
                    let before = right.iter().filter(|it| it.entry.high < row);
                    let last_before = level.entry_before(position, of)?;
                    prop_assert_eq!(last_before, before.clone().next_back().map(|it| &it.entry));
                    let entries = level.entries(level.all().start..position, of)?;
                    prop_assert_eq!(entries.count(), before.clone().count());
                    let rank = before.clone().count();
                    prop_assert_eq!(level.after(level.all().start, rank), position);
                    let third = level.entry(level.after(position, 3), of)?;
                    prop_assert_eq!(third, right.get(rank + 3).map(|it| &it.entry));
                    let add = |sum: (u64, u64), it: &Entry<u64>| {
                        (sum.0 + u64::from(it.puts), sum.1 + u64::from(it.marks))
                    };
                    let sums = before.fold((0, 0), |sum, it| add(sum, &it.entry));
                    prop_assert_eq!(level.rows_before(position, of)?, sums);
                    prop_assert_eq!(level.entry(position, of)?, right.get(rank).map(|it| &it.entry));
                }
                prop_assert_eq!(level.entry_before(level.end(), of)?, right.last().map(|it| &it.entry));
                for since in (-310..330).step_by(13) {
                    let may = |it: &&NewBlock<u64>| it.extent.is_some_and(|it| it.greatest_seen >= since);
                    let first = right.iter().position(|it| may(&it));
                    let from = |index: usize| index.checked_sub(1).map_or(0, |it| right[it].entry.high + 1);
                    prop_assert_eq!(level.first_since(since, of)?, first.map(from));
                    for row in (0..420).step_by(11).map(|row| row << spread) {
                        let reaching = right.iter().position(|it| it.entry.high >= row);
                        let reaching = reaching.map_or(right.len(), |it| it + 1);
                        let last = right[..reaching].iter().rfind(may);
                        let last = last.map(|it| it.entry.high.min(row));
                        prop_assert_eq!(level.last_since(row, since, of)?, last);
                        let position = level.find(row, of)?;
                        let next = level.next_wanted(position, |it| it.least_seen < since, of)?;
                        let wanted = |it: &&NewBlock<u64>| it.extent.is_some_and(|it| it.least_seen < since);
                        let next_right = right.iter().filter(|it| it.entry.high >= row).find(wanted);
                        prop_assert_eq!(level.entry(next, of)?, next_right.map(|it| &it.entry));
                        prop_assert_eq!(level.extent(next, of)?, next_right.and_then(|it| it.extent));
                    }
                }
                let found: Vec<_> = level.entries(level.all(), of)?.cloned().collect();
                prop_assert_eq!(found, right.iter().map(|it| it.entry.clone()).collect::<Vec<_>>());
            }
        }
    }

    /// A chunk that was lost, or that is older than its summary, was found only when the whole directory was
    /// read. Now it is found where a row is looked for in it, and nowhere else.
    #[test]
    fn a_lost_or_old_chunk_is_an_error_where_it_is_needed() -> Result<()> {
        for lose in [true, false] {
            let memory = MemoryBlocks::default();
            let blocks = memory.blocks();
            let of = blocks.of_table(&TABLE);
            let added: Vec<_> = (0..40).map(|it| block(it, 4)).collect();
            let empty = Level::<u64>::empty(NAME.number);
            let mut change = LevelChange::none(NAME);
            let level = empty.splice(empty.all(), &added, 8, of, &mut change)?;
            let old = change.chunks.written[1].clone();
            memory.replace_chunks(NAME, change.chunks);
            // The blocks of the second chunk get other checksums.
            let first = level.find(8 << 4, of)?;
            let last = level.find(16 << 4, of)?;
            let mut other: Vec<_> = (8..16).map(|it| block(it, 4)).collect();
            other.iter_mut().for_each(|it| it.entry.checksum ^= 1);
            let mut change = LevelChange::none(NAME);
            let level = level.splice(first..last, &other, 8, of, &mut change)?;
            memory.replace_chunks(NAME, change.chunks);
            let summaries = change.summaries.written.into_iter().collect();
            let level = reopened(&summaries, &level);
            memory.replace_chunks(
                NAME,
                Replaced {
                    removed: vec![old.0],
                    written: Vec::new(),
                },
            );
            if !lose {
                memory.replace_chunks(
                    NAME,
                    Replaced {
                        removed: Vec::new(),
                        written: vec![old],
                    },
                );
            }
            assert!(level.find(3 << 4, of).is_ok() && level.find(30 << 4, of).is_ok());
            for _ in 0..2 {
                let found = level.find(9 << 4, of);
                assert!(
                    matches!(
                        found,
                        Err(Error::Damaged {
                            table: "directory",
                            ..
                        })
                    ),
                    "{found:?}"
                );
                assert!(level.entries(level.all(), of).is_err());
            }
        }
        Ok(())
    }
}
