//! Directories: chunks, summaries, and what the state record says of a level.

use super::{Chunk, Fence, Listed, MAX_FILTERED, Outline, Parts};
use crate::store::blocks::{
    Extent, Fields, FileSeed, Kind, Problem, Row, seal, sealed_checksum, share_of_sum,
};
use crate::store::engine::{BlockTable, LevelName};
use crate::store::sorted_set::summary::{StoredDirectory, key_bytes};

/// Rows of 64 bits, rows of 128 bits, and documents, which have extents.
static NARROW: BlockTable = BlockTable::new(0, "narrow", false);
static WIDE: BlockTable = BlockTable::new(1, "wide", true);
static OF_DOCUMENTS: BlockTable = BlockTable::new(2, "documents", false).with_extents();

/// The first byte chooses what the others are: a chunk, or what the state record has of a level and a summary of this.
pub(crate) fn directory(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    match choice % 6 {
        0 => chunk::<u64>(&NARROW, body),
        1 => chunk::<u128>(&WIDE, body),
        2 => chunk::<u64>(&OF_DOCUMENTS, body),
        3 => level::<u64>(&NARROW, body),
        4 => level::<u128>(&WIDE, body),
        _ => level::<u64>(&OF_DOCUMENTS, body),
    }
}

fn name_of(table: &'static BlockTable) -> LevelName {
    LevelName { table, number: 3 }
}

const FILE: FileSeed = FileSeed::NONE;

/// The outline that a summary would have of a chunk with these bytes.
fn outline_of<R: Row>(level: LevelName, body: &[u8]) -> Result<Outline<R>, Problem> {
    let parts = Parts::decode_all(level, body)?;
    if parts.entries.len() > MAX_FILTERED && !parts.lines.is_empty() {
        return Err("it has too many blocks with filters");
    }
    Ok(parts.into_chunk(0).outline())
}

fn chunk<R: Row>(table: &'static BlockTable, body: &[u8]) {
    let level = name_of(table);
    let Ok(outline) = outline_of::<R>(level, body) else {
        return;
    };
    let last = outline.high.number();
    let stored = seal(Kind::Chunk, FILE, &key_bytes((level.id(), last)), |bytes| {
        bytes.extend(body);
    });
    let outline = Outline {
        checksum: sealed_checksum(&stored),
        ..outline
    };
    let chunk = Chunk::decode(level, &outline, FILE, &stored).expect("it is as it is outlined");
    let listed: Vec<Listed<'_, R>> = chunk.listed().collect();
    if !listed.is_empty() {
        let (_, high, again) = Chunk::new(level, FILE, &listed);
        assert_eq!((high, again), (last, stored));
    }
    if listed.len() <= MAX_FILTERED {
        Fence::new(outline.high.prefix()).fill(&chunk);
    }
}

fn level<R: Row>(table: &'static BlockTable, body: &[u8]) {
    let level = name_of(table);
    let extent = if table.has_extents { Extent::BYTES } else { 0 };
    let outline_bytes = 8 + 2 + 2 + 4 + 4 + extent;
    let of_state = match body.first() {
        None | Some(0) => 1,
        Some(_) => 1 + 16 + outline_bytes,
    };
    let Some((of_state, summary)) = body.split_at_checked(of_state) else {
        return;
    };
    // A summary stands under the last row of its last chunk.
    let mut last = [0; 16];
    let Some(at) = summary.len().checked_sub(R::BYTES + outline_bytes) else {
        return;
    };
    last[..R::BYTES].copy_from_slice(&summary[at..at + R::BYTES]);
    let last = u128::from_le_bytes(last);
    let stored = seal(
        Kind::Summary,
        FILE,
        &key_bytes((level.id(), last)),
        |bytes| {
            bytes.extend(summary);
        },
    );
    let sum = share_of_sum([stored.as_slice()]);
    let of_state = [&sum.to_le_bytes(), of_state].concat();
    let mut fields = Fields(&of_state);
    let Ok(directory) = StoredDirectory::decode(table.has_extents, &mut fields) else {
        return;
    };
    let Ok(read) = directory.level::<R>(level, FILE, &[(last, stored)]) else {
        return;
    };
    // What the outlines claim is no more than chunks can have.
    assert!(read.memory_bytes() <= (body.len() / outline_bytes + 1) * (9 << 20));
    assert!(read.high().is_some_and(|high| high.number() >= last));
    if of_state[8] == 1 && R::BYTES == 16 {
        let mut again = Vec::new();
        read.encode(&mut again);
        assert_eq!(again, of_state);
    }
}

#[cfg(test)]
pub(crate) mod seeds {
    use super::*;
    use crate::store::blocks::{BlockId, Entry, Filter, HEADER_BYTES};
    use crate::store::sorted_set::chunk::NewBlock;
    use crate::store::sorted_set::summary::encode_summary;

    fn new_blocks<R: Row>(table: &'static BlockTable, lines: usize) -> Vec<NewBlock<R>> {
        let mut blocks = Vec::new();
        for i in 1..=5u64 {
            let extent = Extent {
                least_seen: 5,
                greatest_seen: 5 + i as i64,
                unposted: i,
            };
            blocks.push(NewBlock {
                entry: Entry {
                    high: R::from_number(u128::from(i) << 40 | u128::from(i)),
                    id: BlockId::new(3, i),
                    checksum: i << 50,
                    puts: 7 * i as u16,
                    marks: i as u16,
                },
                filter: Filter::new(
                    (0..lines as u64 * 40).map(|row| row << 33 | row),
                    lines * 40,
                    2,
                ),
                extent: table.has_extents.then_some(extent),
            });
        }
        blocks
    }

    /// A chunk behind the first byte, and a summary with what the state record says beside it.
    fn of<R: Row>(choice: u8, table: &'static BlockTable, lines: usize) -> [Vec<u8>; 2] {
        let level = name_of(table);
        let blocks = new_blocks::<R>(table, lines);
        let listed: Vec<Listed<'_, R>> = blocks.iter().map(Listed::from).collect();
        let mut outlines = Vec::new();
        for part in listed.chunks(2) {
            outlines.push(Chunk::new(level, FILE, part).0.outline());
        }
        let (_, _, chunk) = Chunk::new(level, FILE, &listed);
        let (_, summary) = encode_summary(level, FILE, &outlines[..2]);
        let mut of_state = vec![choice + 3, 1];
        outlines[2].encode(16, &mut of_state);
        let chunk = [&[choice], &chunk[HEADER_BYTES..]].concat();
        [chunk, [&of_state, &summary[HEADER_BYTES..]].concat()]
    }

    pub(crate) fn directory() -> Vec<Vec<u8>> {
        let narrow = of::<u64>(0, &NARROW, 0);
        let wide = of::<u128>(1, &WIDE, 1);
        [narrow, wide, of::<u64>(2, &OF_DOCUMENTS, 0)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(puts: u32, marks: u32, lines: u16) -> Result<Outline<u64>, Problem> {
        let mut bytes = Vec::new();
        bytes.extend(9u64.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(2u16.to_le_bytes());
        bytes.extend(lines.to_le_bytes());
        bytes.extend(puts.to_le_bytes());
        bytes.extend(marks.to_le_bytes());
        Outline::decode(8, false, &mut Fields(&bytes))
    }

    /// A summary whose checksum somebody had made anew asked for 34 GB: room was made for the rows that it claimed,
    /// before any of them was read. Two numbers of rows that are numbers each had a sum that was none.
    #[test]
    fn a_chunk_cannot_claim_more_than_its_blocks_have() {
        assert!(decoded(8192, 8192, 64).is_ok());
        assert!(decoded(8193, 0, 0).is_err());
        assert!(decoded(0, 8193, 0).is_err());
        assert!(decoded(u32::MAX, u32::MAX, 0).is_err());
        assert!(decoded(0, 0, 65).is_err());
    }

    /// So could a chunk: an entry of 29 bytes claimed 65,535 rows of each kind.
    #[test]
    fn a_block_cannot_claim_more_rows_than_a_block_has() {
        let claiming = |puts: u16| {
            let mut bytes = vec![1, 0];
            bytes.extend([0; 24]);
            bytes.extend(puts.to_le_bytes());
            bytes.extend([0; 3]);
            outline_of::<u64>(name_of(&NARROW), &bytes).is_ok()
        };
        assert!(claiming(4096));
        assert!(!claiming(4097));
    }
}
