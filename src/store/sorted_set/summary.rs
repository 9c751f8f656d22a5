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

use super::level::Level;
use super::splice::Summaries;
use crate::store::blocks::{Extent, Fields, FileSeed, Kind, Problem, Row, seal, unseal};
use crate::store::engine::{ChunkKey, LevelName};

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
    pub(super) rows: (u32, u32),
    /// The extent of its blocks, in sets that have them.
    pub(super) extent: Option<Extent>,
}

/// The most outlines of a summary of this level. A full summary takes less than a page.
pub(super) fn most_outlines(level: LevelName) -> usize {
    if level.table.has_extents { 78 } else { 100 }
}

impl<R: Row> Outline<R> {
    /// Adds the outline to a stored value. The last row takes `row_bytes` bytes.
    fn encode(&self, row_bytes: usize, bytes: &mut Vec<u8>) {
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
    fn decode(
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
    fn with_rows<S: Row>(self) -> Outline<S> {
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
pub(super) fn encode<R: Row>(
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
fn decode<R: Row>(
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
            match decode(name, *last, file, bytes) {
                Ok(more) => outlines.extend(more),
                Err(problem) => return Err((*last, problem)),
            }
            summaries.push(outlines.len() - before, bytes);
        }
        outlines.extend(self.last.map(Outline::with_rows));
        let sum = summaries.sum();
        let level = Level::unread(name.number, outlines, summaries);
        if sum != self.sum {
            let problem = "the summaries of this level are not those of the last commit";
            return Err((0, problem));
        }
        if !level.is_in_order() {
            return Err((0, "the chunks of this level are out of order"));
        }
        Ok(level)
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
}
