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

use std::ops::Range;

use crate::store::blocks::{Extent, Fields, FileSeed, Kind, Problem, Row, seal, unseal};
use crate::store::engine::{ChunkKey, LevelName};

/// What a summary says of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline<R> {
    /// The last row of its last block.
    pub(super) high: R,
    /// The checksum of the chunk as stored.
    pub(super) checksum: u64,
    /// The number of its blocks.
    pub(super) blocks: u16,
    /// The number of lines of all its filters.
    pub(super) lines: u16,
    /// The numbers of rows that its blocks put and mark.
    pub(super) rows: (u32, u32),
    /// The extent of its blocks, in sets that have them.
    pub(super) extent: Option<Extent>,
}

/// The most outlines of a summary of this level. A full summary takes less than a page.
pub(crate) fn most_outlines(level: LevelName) -> usize {
    if level.table.has_extents { 78 } else { 100 }
}

impl<R: Row> Outline<R> {
    /// Adds the outline to a stored value. The last row takes `row_bytes` bytes.
    pub(crate) fn encode(&self, row_bytes: usize, bytes: &mut Vec<u8>) {
        bytes.extend(&self.high.number().to_le_bytes()[..row_bytes]);
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(self.blocks.to_le_bytes());
        bytes.extend(self.lines.to_le_bytes());
        bytes.extend(self.rows.0.to_le_bytes());
        bytes.extend(self.rows.1.to_le_bytes());
        if let Some(extent) = &self.extent {
            extent.encode(bytes);
        }
    }

    /// Reads an outline back. `has_extent` tells whether it has an extent.
    pub(crate) fn decode(
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
            rows: (
                u32::from_le_bytes(fields.take()?),
                u32::from_le_bytes(fields.take()?),
            ),
            extent: has_extent.then(|| Extent::decode(fields)).transpose()?,
        };
        if outline.blocks == 0 {
            Err("a chunk has no blocks")
        } else {
            Ok(outline)
        }
    }

    /// The same outline of a chunk whose rows are of another width.
    pub(crate) fn with_rows<S: Row>(self) -> Outline<S> {
        let Self {
            high,
            checksum,
            blocks,
            lines,
            rows,
            extent,
        } = self;
        Outline {
            high: S::from_number(high.number()),
            checksum,
            blocks,
            lines,
            rows,
            extent,
        }
    }
}

/// A summary of these outlines: its last row and its stored bytes.
pub(crate) fn encode<R: Row>(
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
pub(crate) fn decode<R: Row>(
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

/// Cuts the outlines of some summaries of a level anew. At the end of a level, where most are added, each
/// summary but the last is full. Elsewhere all are of about equal length. None has more than `most` outlines.
pub(super) fn cut<R>(
    outlines: &[Outline<R>],
    at_end: bool,
    most: usize,
) -> impl Iterator<Item = &[Outline<R>]> {
    let parts = outlines.len().div_ceil(most).max(1);
    let share = if at_end {
        most
    } else {
        outlines.len().div_ceil(parts).max(1)
    };
    outlines.chunks(share)
}

/// A stored summary of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The number of chunks up to its last one, those of the summaries before it too.
    pub(super) end: usize,
    /// Its part in the sum of its level: its checksum and one.
    pub(super) share: u64,
}

/// The indexes of the stored summaries that have one of these chunks. If there is no chunk in the range, that
/// of the chunk before.
pub(super) fn touched(stored: &[Stored], chunks: &Range<usize>) -> Range<usize> {
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
            blocks: i + 1,
            lines: 3 * i,
            rows: (70_000 * u32::from(i), u32::from(i)),
            extent: None,
        };
        let outlines: Vec<Outline<u128>> =
            (0..most_outlines(level(2)) as u16).map(outline).collect();
        let (last, bytes) = encode(level(2), file, &outlines);
        assert_eq!(last, 99 << 90);
        assert!(bytes.len() < 4_000);
        assert_eq!(decode(level(2), last, file, &bytes)?, outlines);
        assert!(decode::<u128>(level(3), last, file, &bytes).is_err());
        assert!(decode::<u128>(level(2), last + 1, file, &bytes).is_err());
        assert!(decode::<u128>(level(2), last, FileSeed(8), &bytes).is_err());
        assert!(decode::<u64>(level(2), last, file, &bytes).is_err());
        assert!(decode::<u128>(level(2), last, file, &bytes[..bytes.len() - 1]).is_err());
        let wrong = |change: &dyn Fn(&mut Vec<Outline<u128>>)| {
            let mut outlines = outlines.clone();
            change(&mut outlines);
            let (last, bytes) = encode(level(2), file, &outlines);
            decode::<u128>(level(2), last, file, &bytes).is_err()
        };
        assert!(wrong(&|outlines| outlines[5].blocks = 0));
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
            rows: (1, 0),
            extent: Some(extent(i)),
        };
        let outlines: Vec<_> = (0..most_outlines(level) as u16).map(outline).collect();
        let (last, bytes) = encode(level, FileSeed(7), &outlines);
        assert!((4_000..=4_080).contains(&bytes.len()), "{}", bytes.len());
        assert_eq!(decode(level, last, FileSeed(7), &bytes)?, outlines);
        Ok(())
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
}
