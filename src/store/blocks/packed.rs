//! Packed blocks: sorted rows to bytes and back.
//!
//! A block holds two sorted lists: the rows that are put, and the rows that are marked as deleted. The
//! prefixes of a list are stored as gaps between neighbours. Further columns are stored as offsets from
//! their least value. Within a block, each column takes a fixed number of bits per row. Sorted
//! fingerprints are spread almost evenly. So the largest gap of a block is only a few bits longer than the
//! mean gap. docs/benchmarks.md compares other encodings. The checksum of a block is in the directory.

use std::ops::RangeInclusive;

use super::entry::{Extent, Filter, MAX_BLOCK_LINES};
use super::envelope::{Fields, FileSeed, Problem};
use super::row::{Lists, Row};

/// A block as it is stored, and what its directory says of it.
#[derive(Debug)]
pub(crate) struct Packed<R, B = Vec<u8>> {
    pub(crate) bytes: B,
    /// The checksum of the bytes.
    pub(crate) checksum: u64,
    /// Its last row.
    pub(crate) high: R,
    pub(crate) puts: u16,
    pub(crate) marks: u16,
    pub(crate) filter: Filter,
    /// What the directory says of its documents. `None` for a block of rows.
    pub(crate) extent: Option<Extent>,
}

impl<R, B> Packed<R, B> {
    /// The same block with its bytes elsewhere.
    pub(crate) fn with_bytes<C>(self, moved: impl FnOnce(B) -> C) -> Packed<R, C> {
        Packed {
            bytes: moved(self.bytes),
            checksum: self.checksum,
            high: self.high,
            puts: self.puts,
            marks: self.marks,
            filter: self.filter,
            extent: self.extent,
        }
    }
}

/// Kind and version of a block of rows.
const KIND: u8 = 16;
const VERSION: u8 = 1;

/// The most rows of a list. Without it, lists of equal prefixes and dense columns would have no bound.
pub(crate) const MAX_ROWS: usize = 4096;

/// The least and the greatest value of a column that grows value by value.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    low: u64,
    high: u64,
}

impl Bounds {
    pub(super) const EMPTY: Self = Self {
        low: u64::MAX,
        high: 0,
    };

    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    /// The bytes of the column, which has `count` values, at least one.
    #[inline]
    pub(super) fn bytes(&self, count: usize) -> usize {
        9 + packed_bytes(count, width_of(self.high - self.low))
    }
}

/// The size of a list that grows row by row.
#[derive(Clone, Copy)]
struct Measure {
    rows: usize,
    prefix: u64,
    /// All gaps, or-ed together.
    gaps: u64,
    columns: [Bounds; 2],
}

impl Measure {
    const EMPTY: Self = Self {
        rows: 0,
        prefix: 0,
        gaps: 0,
        columns: [Bounds::EMPTY; 2],
    };

    #[inline]
    fn add<R: Row>(&mut self, row: R) {
        let prefix = row.prefix();
        if self.rows > 0 {
            self.gaps |= prefix - self.prefix;
        }
        self.prefix = prefix;
        self.rows += 1;
        if R::COLUMNS > 0 {
            for (column, value) in self.columns.iter_mut().zip(row.columns()) {
                column.add(value);
            }
        }
    }

    #[inline]
    fn bytes<R: Row>(&self) -> usize {
        if self.rows == 0 {
            return 2;
        }
        let gaps = packed_bytes(self.rows - 1, width_of(self.gaps));
        let columns = self.columns[..R::COLUMNS].iter();
        2 + 9 + gaps + columns.map(|column| column.bytes(self.rows)).sum::<usize>()
    }
}

/// Packs sorted rows into blocks of at most `limit` bytes. The rows may come little by little.
pub(crate) struct Packer<R> {
    /// Rows that are not packed yet. New rows are added here.
    pub(crate) waiting: Lists<R>,
    limit: usize,
    /// Whether blocks have filters over the prefixes of their rows.
    filtered: bool,
    /// The seed of the file for which the blocks are made.
    file: FileSeed,
    blocks: Vec<Packed<R>>,
}

impl<R: Row> Packer<R> {
    pub(crate) fn new(limit: usize, filtered: bool, file: FileSeed) -> Self {
        Self {
            waiting: Lists::default(),
            limit,
            filtered,
            file,
            blocks: Vec::new(),
        }
    }

    /// Makes blocks of the waiting rows, if there are enough for many blocks. The rows of the last block
    /// go on waiting.
    pub(crate) fn settle(&mut self) {
        // The last block is not full, so the work on it is done again later. Many blocks make up for that.
        const BLOCKS: usize = 32;
        if self.waiting.len() * R::BYTES >= BLOCKS * self.limit {
            self.pack(false);
        }
    }

    /// Takes the blocks made so far.
    pub(crate) fn take_blocks(&mut self) -> Vec<Packed<R>> {
        std::mem::take(&mut self.blocks)
    }

    /// Makes blocks of all waiting rows, and ends.
    pub(crate) fn finish(mut self) -> Vec<Packed<R>> {
        self.pack(true);
        self.blocks
    }

    fn pack(&mut self, to_the_end: bool) {
        let mut puts = self.waiting.puts.as_slice();
        let mut marks = self.waiting.marks.as_slice();
        while !puts.is_empty() || !marks.is_empty() {
            let (put_rows, mark_rows) = fit(puts, marks, self.limit);
            if !to_the_end && (put_rows, mark_rows) == (puts.len(), marks.len()) {
                break;
            }
            let (block_puts, rest) = puts.split_at(put_rows);
            puts = rest;
            let (block_marks, rest) = marks.split_at(mark_rows);
            marks = rest;
            let mut block = encode(block_puts, block_marks, self.limit, self.file);
            if self.filtered {
                let prefixes = block_puts.iter().chain(block_marks).map(|row| row.prefix());
                block.filter = Filter::new(
                    prefixes,
                    block_puts.len() + block_marks.len(),
                    MAX_BLOCK_LINES,
                );
            }
            self.blocks.push(block);
        }
        let puts_left = puts.len();
        let marks_left = marks.len();
        self.waiting
            .puts
            .drain(..self.waiting.puts.len() - puts_left);
        self.waiting
            .marks
            .drain(..self.waiting.marks.len() - marks_left);
    }
}

/// The number of rows of each list that the next block holds.
fn fit<R: Row>(puts: &[R], marks: &[R], limit: usize) -> (usize, usize) {
    let mut put = Measure::EMPTY;
    let mut mark = Measure::EMPTY;
    let empty = 2 + Measure::EMPTY.bytes::<R>();
    loop {
        let before = (put, mark);
        match (puts.get(put.rows), marks.get(mark.rows)) {
            (Some(&row), other) if other.is_none_or(|&other| row < other) => put.add(row),
            (_, Some(&row)) => mark.add(row),
            (Some(&row), None) => put.add(row),
            (None, None) => return (put.rows, mark.rows),
        }
        let bytes = if mark.rows == 0 {
            empty + put.bytes::<R>()
        } else {
            2 + put.bytes::<R>() + mark.bytes::<R>()
        };
        // The first row always fits, since every limit is larger than one row.
        let full = bytes > limit || put.rows > MAX_ROWS || mark.rows > MAX_ROWS;
        if full && before.0.rows + before.1.rows > 0 {
            return (before.0.rows, before.1.rows);
        }
    }
}

fn encode<R: Row>(puts: &[R], marks: &[R], limit: usize, file: FileSeed) -> Packed<R> {
    let mut bytes = Vec::with_capacity(limit);
    bytes.extend([KIND, VERSION]);
    encode_list(puts, &mut bytes);
    encode_list(marks, &mut bytes);
    Packed {
        checksum: file.checksum(&bytes),
        bytes,
        high: puts.last().max(marks.last()).copied().unwrap_or(R::MIN),
        puts: puts.len() as u16,
        marks: marks.len() as u16,
        filter: Filter::default(),
        extent: None,
    }
}

fn encode_list<R: Row>(rows: &[R], bytes: &mut Vec<u8>) {
    bytes.extend((rows.len() as u16).to_le_bytes());
    let Some(first) = rows.first() else { return };
    let gaps = rows
        .windows(2)
        .map(|pair| pair[1].prefix() - pair[0].prefix());
    let width = width_of(gaps.clone().fold(0, |all, gap| all | gap));
    bytes.extend(first.prefix().to_le_bytes());
    bytes.push(width as u8);
    pack(gaps, width, bytes);
    for column in 0..R::COLUMNS {
        encode_column(|| rows.iter().map(move |row| row.columns()[column]), bytes);
    }
}

/// Adds the rows of a block to lists whose rows come before them. If the block is refused, the rows that
/// were added mean nothing.
pub(crate) fn decode<R: Row>(bytes: &[u8], rows: &mut Lists<R>) -> Result<(), Problem> {
    let mut fields = fields_of(bytes)?;
    decode_list(&mut fields, &mut rows.puts)?;
    decode_list(&mut fields, &mut rows.marks)?;
    fields.finish()
}

/// The fields of a block behind its kind and version.
fn fields_of(bytes: &[u8]) -> Result<Fields<'_>, Problem> {
    let mut fields = Fields(bytes);
    match fields.take()? {
        [KIND, VERSION] => Ok(fields),
        [KIND, _] => Err("it has a version this release does not know"),
        _ => Err("another kind of value was expected"),
    }
}

/// The number of rows of a list.
fn rows_of_list(fields: &mut Fields<'_>) -> Result<usize, Problem> {
    let count = usize::from(u16::from_le_bytes(fields.take()?));
    if count > MAX_ROWS {
        Err("it claims more rows than a block has")
    } else {
        Ok(count)
    }
}

fn decode_list<R: Row>(fields: &mut Fields<'_>, rows: &mut Vec<R>) -> Result<(), Problem> {
    let count = rows_of_list(fields)?;
    if count == 0 {
        return Ok(());
    }
    let first = rows.len();
    rows.reserve(count);
    let mut prefix = u64::from_le_bytes(fields.take()?);
    rows.push(R::join(prefix, [0; 2]));
    // A block with the right checksum does not wrap. A block with a wrong checksum is never decoded.
    decode_packed(fields, count - 1, |gap| {
        prefix = prefix.wrapping_add(gap);
        rows.push(R::join(prefix, [0; 2]));
    })?;
    for column in 0..R::COLUMNS {
        let mut list = rows[first..].iter_mut();
        let low = u64::from_le_bytes(fields.take()?);
        decode_packed(fields, count, |offset| {
            if let Some(row) = list.next() {
                *row = row.with_column(column, low.wrapping_add(offset));
            }
        })?;
    }
    Ok(())
}

/// Appends a column as offsets from its least value.
pub(super) fn encode_column<I: Iterator<Item = u64>>(column: impl Fn() -> I, bytes: &mut Vec<u8>) {
    let mut bounds = Bounds::EMPTY;
    column().for_each(|value| bounds.add(value));
    let low = bounds.low.min(bounds.high);
    let width = width_of(bounds.high - low);
    bytes.extend(low.to_le_bytes());
    bytes.push(width as u8);
    pack(column().map(|value| value - low), width, bytes);
}

/// Reads back what [`encode_column`] appended.
pub(super) fn decode_column(fields: &mut Fields<'_>, count: usize) -> Result<Vec<u64>, Problem> {
    let low = u64::from_le_bytes(fields.take()?);
    let mut values = Vec::with_capacity(count);
    decode_packed(fields, count, |offset| {
        values.push(low.wrapping_add(offset));
    })?;
    Ok(values)
}

/// Reads a width, and `count` numbers of that width.
fn decode_packed(
    fields: &mut Fields<'_>,
    count: usize,
    each: impl FnMut(u64),
) -> Result<(), Problem> {
    let (bytes, width) = packed_fields(fields, count)?;
    unpack(bytes, count, width, each);
    Ok(())
}

/// Reads a width, and goes past `count` numbers of that width. The bytes that are returned begin with these
/// numbers. What follows them is there too, so that the last numbers are read faster.
fn packed_fields<'a>(fields: &mut Fields<'a>, count: usize) -> Result<(&'a [u8], u32), Problem> {
    let [width] = fields.take()?;
    if u32::from(width) > u64::BITS {
        return Err("a column is wider than 64 bits");
    }
    let bytes = fields.0;
    fields.take_slice(packed_bytes(count, width.into()))?;
    Ok((bytes, width.into()))
}

/// Adds the rows of a block whose prefixes are in a range to lists whose rows come before them. Returns the
/// numbers of rows that the block puts and marks.
///
/// The gaps before the range are added up, many at a time. Only in the range they become rows. What is behind the range
/// is not looked at.
pub(super) fn decode_part<R: Row>(
    bytes: &[u8],
    prefixes: &RangeInclusive<u64>,
    rows: &mut Lists<R>,
) -> Result<(usize, usize), Problem> {
    let mut fields = fields_of(bytes)?;
    let puts = decode_part_of_list(&mut fields, prefixes, &mut rows.puts)?;
    let marks = decode_part_of_list(&mut fields, prefixes, &mut rows.marks)?;
    fields.finish()?;
    Ok((puts, marks))
}

fn decode_part_of_list<R: Row>(
    fields: &mut Fields<'_>,
    prefixes: &RangeInclusive<u64>,
    rows: &mut Vec<R>,
) -> Result<usize, Problem> {
    /// Gaps that are added up together. They begin at a whole byte.
    const TOGETHER: usize = 64;
    let count = rows_of_list(fields)?;
    if count == 0 {
        return Ok(0);
    }
    let added = rows.len();
    let mut prefix = u64::from_le_bytes(fields.take()?);
    let mut before = usize::from(prefix < *prefixes.start());
    if prefixes.contains(&prefix) {
        rows.push(R::join(prefix, [0; 2]));
    }
    let (gaps, width) = packed_fields(fields, count - 1)?;
    for start in (0..count - 1).step_by(TOGETHER) {
        if prefix > *prefixes.end() {
            break;
        }
        let gaps = gaps.get(start * width as usize / 8..).unwrap_or_default();
        let gaps_here = TOGETHER.min(count - 1 - start);
        let mut end = prefix;
        unpack(gaps, gaps_here, width, |gap| end = end.wrapping_add(gap));
        if end < *prefixes.start() {
            (prefix, before) = (end, before + gaps_here);
            continue;
        }
        unpack(gaps, gaps_here, width, |gap| {
            prefix = prefix.wrapping_add(gap);
            before += usize::from(prefix < *prefixes.start());
            if prefixes.contains(&prefix) {
                rows.push(R::join(prefix, [0; 2]));
            }
        });
    }
    for column in 0..R::COLUMNS {
        let low = u64::from_le_bytes(fields.take()?);
        let (offsets, width) = packed_fields(fields, count)?;
        for (index, row) in rows[added..].iter_mut().enumerate() {
            let offset = unpack_one(offsets, before + index, width);
            *row = row.with_column(column, low.wrapping_add(offset));
        }
    }
    Ok(count)
}

// Numbers packed at a fixed number of bits each, least significant bit first.

/// The number of bits of `largest`. For several numbers, give the largest of them, or all of them or-ed
/// together.
fn width_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// The number of bytes that `count` numbers of `width` bits take.
fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends the numbers. Each must be below 2^width.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, bytes: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut pending = 0u128;
    let mut filled = 0;
    for number in numbers {
        pending |= u128::from(number) << filled;
        filled += width;
        if filled >= 64 {
            bytes.extend((pending as u64).to_le_bytes());
            pending >>= 64;
            filled -= 64;
        }
    }
    let rest = (filled as usize).div_ceil(8);
    bytes.extend(&(pending as u64).to_le_bytes()[..rest]);
}

/// Calls `each` with the `count` numbers that [`pack`] put at the beginning of `bytes`.
///
/// `bytes` must have at least [`packed_bytes`]. If it has more, the last numbers are read faster.
#[inline]
fn unpack(bytes: &[u8], count: usize, width: u32, mut each: impl FnMut(u64)) {
    if width == 0 {
        (0..count).for_each(|_| each(0));
        return;
    }
    // A number of up to 56 bits, shifted by up to 7, fits into a word. It is read as a word if eight bytes
    // are left.
    let whole = if width <= 56 {
        bytes.len().saturating_sub(7) * 8
    } else {
        0
    };
    let fast = whole.div_ceil(width as usize).min(count);
    let mask = u64::MAX >> (u64::BITS - width);
    let mut bit = 0;
    for _ in 0..fast {
        let word = bytes
            .get(bit / 8..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |it| u64::from_le_bytes(*it));
        each((word >> (bit % 8)) & mask);
        bit += width as usize;
    }
    for _ in fast..count {
        each(read(bytes, bit, width));
        bit += width as usize;
    }
}

/// The number at `index` of those that [`pack`] put at the beginning of `bytes`.
fn unpack_one(bytes: &[u8], index: usize, width: u32) -> u64 {
    if width == 0 {
        0
    } else {
        read(bytes, index * width as usize, width)
    }
}

/// The number of `width` bits that begins at `bit`.
fn read(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let mut word = [0; 16];
    let rest = bytes.get(bit / 8..).unwrap_or_default();
    let length = rest.len().min(9);
    word[..length].copy_from_slice(&rest[..length]);
    let mask = u64::MAX >> (u64::BITS - width);
    (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack_rows<R: Row>(puts: &[R], marks: &[R], limit: usize, filtered: bool) -> Vec<Packed<R>> {
        let mut packer = Packer::new(limit, filtered, FileSeed(7));
        packer.waiting.extend((puts, marks));
        packer.finish()
    }

    fn decoded<R: Row>(bytes: &[u8]) -> Result<Lists<R>, Problem> {
        let mut rows = Lists::default();
        decode(bytes, &mut rows).map(|()| rows)
    }

    fn read_back<R: Row>(puts: &[R], marks: &[R], limit: usize) -> Vec<Lists<R>> {
        let blocks = pack_rows(puts, marks, limit, true);
        let mut all = Vec::new();
        let mut low = None;
        for block in &blocks {
            assert!(block.bytes.len() <= limit, "{} bytes", block.bytes.len());
            let rows: Lists<R> = decoded(&block.bytes).expect("a block of ours");
            assert_eq!(
                (rows.puts.len(), rows.marks.len()),
                (block.puts.into(), block.marks.into())
            );
            assert!(
                rows.puts
                    .iter()
                    .chain(&rows.marks)
                    .all(|&row| low.is_none_or(|low| row > low))
            );
            assert_eq!(rows.puts.last().max(rows.marks.last()), Some(&block.high));
            assert_parts(block, &rows);
            assert!(
                rows.puts
                    .iter()
                    .chain(&rows.marks)
                    .all(|row| block.filter.passes(row.prefix()))
            );
            low = Some(block.high);
            all.push(rows);
        }
        all
    }

    /// Any part of a block that is decoded alone has the rows that the whole block has there.
    fn assert_parts<R: Row>(block: &Packed<R>, whole: &Lists<R>) {
        let mut prefixes: Vec<u64> = whole
            .puts
            .iter()
            .chain(&whole.marks)
            .map(|row| row.prefix())
            .collect();
        prefixes.extend([0, u64::MAX]);
        prefixes.sort_unstable();
        let beside = |prefix: u64, step: usize| [prefix.saturating_sub(step as u64 % 2), prefix];
        for (step, pair) in prefixes
            .iter()
            .zip(prefixes.iter().skip(3))
            .enumerate()
            .step_by(7)
        {
            for first in beside(*pair.0, step) {
                let range = first..=*pair.1;
                let mut part = Lists::default();
                let counts = decode_part(&block.bytes, &range, &mut part);
                assert_eq!(counts, Ok((whole.puts.len(), whole.marks.len())));
                let within = |rows: &[R]| {
                    rows.iter()
                        .copied()
                        .filter(|it| range.contains(&it.prefix()))
                        .collect()
                };
                assert_eq!(
                    part,
                    Lists {
                        puts: within(&whole.puts),
                        marks: within(&whole.marks)
                    }
                );
            }
        }
    }

    fn agree<R: Row>(rows: &std::collections::BTreeMap<R, bool>, limit: usize) {
        let part = |put: bool| {
            rows.iter()
                .filter(|it| *it.1 == put)
                .map(|it| *it.0)
                .collect::<Vec<_>>()
        };
        let puts = part(true);
        let marks = part(false);
        let blocks = read_back(&puts, &marks, limit);
        assert_eq!(
            blocks
                .iter()
                .flat_map(|it| it.puts.clone())
                .collect::<Vec<_>>(),
            puts
        );
        assert_eq!(
            blocks
                .iter()
                .flat_map(|it| it.marks.clone())
                .collect::<Vec<_>>(),
            marks
        );
    }

    proptest! {
        #[test]
        fn rows_read_back_in_blocks_that_adjoin(
            narrow in prop::collection::btree_map(any::<u64>(), any::<bool>(), 0..400),
            wide in prop::collection::btree_map((0..9u64, 0..3u64, 0..1u64 << 40), any::<bool>(), 0..400),
            limit in 128..1000usize,
        ) {
            agree(&narrow, limit);
            agree(&wide.into_iter().map(|((a, b, c), put)| (u128::join(a, [b, c]), put)).collect(), limit);
        }
    }

    #[test]
    fn rows_that_come_little_by_little_fill_their_blocks() {
        let rows: Vec<u64> = (0..100_000).map(|i| i * 0x0123_4567_89ab).collect();
        let mut packer = Packer::new(4080, false, FileSeed(7));
        for part in rows.chunks(777) {
            packer.waiting.extend((part, &[]));
            packer.settle();
        }
        let count = packer.finish().len();
        assert_eq!(count, pack_rows(&rows, &[], 4080, false).len());
    }

    #[test]
    fn extreme_rows_read_back() {
        let rows = [0, 1, u64::MAX - 1, u64::MAX];
        assert_eq!(read_back(&rows, &[], 4080)[0].puts, rows);
        let rows = [0, u128::MAX];
        assert_eq!(read_back(&[], &rows, 4080)[0].marks, rows);
        assert!(pack_rows::<u64>(&[], &[], 4080, false).is_empty());
    }

    #[test]
    fn a_block_of_one_fingerprint_takes_the_bits_of_its_documents_only() {
        let rows: Vec<u128> = (0..100_000)
            .map(|number| u128::join(7, [0, number]))
            .collect();
        let bytes: usize = pack_rows(&rows, &[], 4080, false)
            .iter()
            .map(|block| block.bytes.len())
            .sum();
        assert!(bytes < 100_000 * 2, "{bytes}");
    }

    #[test]
    fn the_worked_example_of_the_format_description_is_what_is_written() {
        let blocks = pack_rows(&[0x10u64, 0x13, 0xff], &[0x11], 4080, false);
        assert_eq!(
            blocks[0].bytes,
            super::super::envelope::worked_example("block of rows")
        );
    }

    #[test]
    fn what_is_cut_short_or_of_another_kind_is_refused() {
        let bytes = &pack_rows(&[1u64, 2, 900], &[3], 4080, false)[0].bytes;
        for length in 0..bytes.len() {
            assert!(decoded::<u64>(&bytes[..length]).is_err(), "{length} bytes");
            let part = decode_part::<u64>(&bytes[..length], &(0..=u64::MAX), &mut Lists::default());
            assert!(part.is_err(), "{length} bytes");
        }
        assert!(decoded::<u64>(&[bytes.as_slice(), &[0]].concat()).is_err());
        assert!(decoded::<u64>(&[&[9], &bytes[1..]].concat()).is_err());
    }
}

#[cfg(test)]
mod bits_tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_read_back_with_and_without_room_behind_them() {
        for width in 0..=64u32 {
            let mask = if width == 0 {
                0
            } else {
                u64::MAX >> (64 - width)
            };
            for count in [0, 1, 2, 7, 64, 65, 500] {
                let numbers: Vec<u64> = (1..=count as u64)
                    .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                    .collect();
                let mut bytes = Vec::new();
                pack(numbers.iter().copied(), width, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(count, width), "width {width}");
                for room in [0, 3, 9] {
                    let mut found = Vec::new();
                    let padded = [bytes.clone(), vec![0xff; room]].concat();
                    unpack(&padded, count, width, |number| found.push(number));
                    assert_eq!(found, numbers, "width {width}, room {room}");
                    let one_by_one = (0..count).map(|index| unpack_one(&padded, index, width));
                    assert!(
                        one_by_one.eq(numbers.iter().copied()),
                        "width {width}, room {room}"
                    );
                }
            }
        }
    }

    #[test]
    fn widths_are_those_of_the_largest() {
        assert_eq!(
            [0, 1, 2, 3, 255, 256, u64::MAX].map(width_of),
            [0, 1, 2, 2, 8, 9, 64]
        );
    }
}
