//! Blocks of rows and of documents. A file whose checksums somebody has made anew may have any bytes in them.

use super::documents::{DocumentBlock, extent_of, pack_documents};
use super::envelope::FileSeed;
use super::packed::{self, Packer};
use super::row::{Lists, Row};
use super::segment::Segment;
use crate::store::lookup::LargeList;

const FILE: FileSeed = FileSeed(7);

/// The most rows of a list, and the most bytes of a block of documents that is unpacked: docs/format.md.
const MOST_ROWS: usize = 4096;
const MOST_PLAIN_BYTES: usize = 1 << 20;

/// Any bytes as a block of each kind.
pub(crate) fn block(bytes: &[u8]) {
    rows::<u64>(bytes);
    rows::<u128>(bytes);
    documents(bytes);
}

fn rows<R: Row>(bytes: &[u8]) {
    let mut whole = Lists::<R>::default();
    let decoded = packed::decode(bytes, &mut whole);
    assert!(whole.puts.len() <= MOST_ROWS && whole.marks.len() <= MOST_ROWS);
    let none = u64::MAX;
    for prefixes in [0..=u64::MAX, 1..=u64::MAX / 2, none..=0] {
        let mut part = Lists::<R>::default();
        let counts = packed::decode_part(bytes, &prefixes, &mut part);
        assert!(part.puts.len() <= MOST_ROWS && part.marks.len() <= MOST_ROWS);
        if decoded.is_err() {
            continue;
        }
        assert_eq!(counts, Ok((whole.puts.len(), whole.marks.len())));
        if is_sorted(&whole) {
            let mut within = whole.clone();
            within.puts.retain(|row| prefixes.contains(&row.prefix()));
            within.marks.retain(|row| prefixes.contains(&row.prefix()));
            assert_eq!(part, within, "the rows of {prefixes:?}");
        }
    }
    if decoded.is_err() {
        return;
    }
    in_segment(&whole);
    if is_sorted(&whole) && is_disjoint(&whole) {
        packed_again(&whole);
    }
}

fn is_sorted<R: Row>(lists: &Lists<R>) -> bool {
    lists.puts.is_sorted_by(|a, b| a < b) && lists.marks.is_sorted_by(|a, b| a < b)
}

fn is_disjoint<R: Row>(lists: &Lists<R>) -> bool {
    lists
        .puts
        .iter()
        .all(|row| lists.marks.binary_search(row).is_err())
}

/// A segment gives for a range the indexes of rows that are there, and of all rows of the range if they are in order.
fn in_segment<R: Row>(lists: &Lists<R>) {
    let mut puts = LargeList::with_capacity(lists.puts.len());
    puts.extend_from_slice(&lists.puts);
    let segment = Segment::new(puts, lists.marks.clone());
    assert_eq!(
        (segment.puts(), segment.marks()),
        (&lists.puts[..], &lists.marks[..])
    );
    assert!(
        segment.memory_bytes() <= Segment::<R>::most_bytes(lists.puts.len(), lists.marks.len())
    );
    let middle = lists
        .puts
        .get(lists.puts.len() / 2)
        .copied()
        .unwrap_or(R::MIN);
    for range in [
        R::MIN..=R::MAX,
        R::MIN..=middle,
        middle..=R::MAX,
        middle..=middle,
    ] {
        segment.prefetch_index(*range.start(), *range.end());
        let around = segment.around(&range);
        segment.prefetch_rows(&around);
        let rows = &segment.puts()[around];
        if is_sorted(lists) {
            let wanted = lists.puts.iter().filter(|row| range.contains(row)).count();
            assert_eq!(
                rows.iter().filter(|row| range.contains(row)).count(),
                wanted
            );
        }
    }
}

fn packed_again<R: Row>(lists: &Lists<R>) {
    let mut packer = Packer::new(4080, true, FILE);
    packer.waiting = lists.clone();
    let mut again = Lists::default();
    for block in packer.finish() {
        assert!(block.bytes.len() <= 4080);
        packed::decode(&block.bytes, &mut again).expect("a block that was just packed");
    }
    assert_eq!(&again, lists);
}

fn documents(bytes: &[u8]) {
    let Ok(block) = DocumentBlock::decode(bytes) else {
        return;
    };
    assert!(block.len() <= MOST_ROWS);
    assert!(block.memory_bytes() <= 2 * MOST_PLAIN_BYTES + bytes.len() + block.len() * 128);
    let refs: Vec<_> = block.documents().collect();
    _ = extent_of(&refs);
    let mut read = Vec::new();
    for (index, document) in refs.iter().enumerate() {
        assert_eq!(block.find(document.number), Some(index));
        assert_eq!(block.before(document.number), index);
        _ = document.scope();
        _ = document.sketch();
        read.extend(document.to_document().map(|whole| (document.number, whole)));
    }
    if read.len() < refs.len() {
        return;
    }
    let mut again = Vec::new();
    for packed in pack_documents(&refs, 4080, FILE) {
        // A document whose key and payload together take more than a block may is in no file of ours.
        let Ok(block) = DocumentBlock::decode(&packed.bytes) else {
            assert!(
                bytes.len() > 4080,
                "a block that was just packed is refused"
            );
            return;
        };
        assert_eq!(block.last(), Some(packed.high));
        for document in block.documents() {
            again.extend(document.to_document().map(|whole| (document.number, whole)));
        }
    }
    assert_eq!(again, read);
}

#[cfg(test)]
pub(crate) mod seeds {
    use super::*;
    use crate::{Document, Fingerprint, Sketch};

    fn spread(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn rows<R: Row>(count: u64, row: impl Fn(u64) -> R) -> Vec<Vec<u8>> {
        let mut rows: Vec<R> = (0..count).map(row).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut packer = Packer::new(600, true, FILE);
        for (index, &row) in rows.iter().enumerate() {
            let list = if index % 5 == 4 {
                &mut packer.waiting.marks
            } else {
                &mut packer.waiting.puts
            };
            list.push(row);
        }
        packer
            .finish()
            .into_iter()
            .map(|block| block.bytes)
            .take(2)
            .collect()
    }

    fn documents(count: u64, sketch_bytes: usize, key: &str) -> Vec<Vec<u8>> {
        let mut block = DocumentBlock::default();
        for i in 0..count {
            let sketch = Sketch::new(&[i as u8; 32][..sketch_bytes], 7 + i as u32).ok();
            let document = Document::new(
                format!("{key}{i}"),
                (i % 3 != 0).then(|| Fingerprint::from_bits(spread(i))),
            )
            .with_seen(1_700_000_000 + i as i64)
            .with_repeats(if i % 7 == 2 { i << 27 } else { 0 })
            .with_sketch(sketch.filter(|_| i % 3 == 1))
            .with_scope(if i % 4 == 0 { "en" } else { "" })
            .with_rank([i as i64])
            .with_payload(vec![i as u8; i as usize % 5]);
            block.push(1 + i * 2, &document);
        }
        let refs: Vec<_> = block.documents().collect();
        let packed = pack_documents(&refs, 900, FILE);
        packed
            .into_iter()
            .map(|block| block.bytes)
            .take(2)
            .collect()
    }

    /// Blocks of both widths, and of documents plain, packed and with sketches.
    pub(crate) fn block() -> Vec<Vec<u8>> {
        [
            rows(40, spread),
            rows(300, |i| i * i),
            rows(40, |i| {
                u128::from(spread(i)) << 64 | u128::from(i % 3) << 40 | u128::from(i)
            }),
            rows(40, |i| {
                u128::from(i / 8) << 64 | 0xff_ffff << 40 | u128::from(i)
            }),
            rows(1, |i| i),
            documents(1, 0, "a"),
            documents(40, 16, "https://example.org/pages/of/an/archive/"),
            documents(9, 32, "k"),
        ]
        .concat()
    }
}
