//! The ways to pack: the bytes that each writes into a block, and how it reads them back.

use super::page::{
    BLOCK_BYTES, BODY_BITS, BODY_BYTES, Bits, HEADER_BYTES, Header, Page, WORD_BITS, low_bits,
    width_of,
};

/// A way to pack rows.
pub(crate) struct Packing<Row> {
    pub(crate) name: &'static str,
    /// Appends to a block the leading rows that fit into it, and returns their number.
    pub(crate) pack: fn(&[Row], &mut Vec<u8>) -> usize,
    /// Appends the rows of the block in the page to the list.
    pub(crate) unpack: fn(&Page, &mut Vec<Row>),
}

pub(crate) const PACKINGS: [Packing<u64>; 7] = [
    Packing {
        name: "8-byte rows",
        pack: pack_whole,
        unpack: unpack_whole,
    },
    Packing {
        name: "common leading bytes removed",
        pack: pack_suffixes,
        unpack: unpack_suffixes,
    },
    Packing {
        name: "offsets from the first row, fixed bits",
        pack: pack_offsets,
        unpack: unpack_offsets,
    },
    Packing {
        name: "gaps, fixed bits",
        pack: pack_gaps,
        unpack: unpack_gaps,
    },
    Packing {
        name: "gaps, Rice",
        pack: pack_rice,
        unpack: unpack_rice,
    },
    Packing {
        name: "gaps, 7 bits a byte",
        pack: pack_varints,
        unpack: unpack_varints,
    },
    Packing {
        name: "Elias-Fano",
        pack: pack_split,
        unpack: unpack_split,
    },
];

pub(crate) const KEYED_PACKINGS: [Packing<Keyed>; 2] = [
    Packing {
        name: "13-byte rows",
        pack: pack_keyed_whole,
        unpack: unpack_keyed_whole,
    },
    Packing {
        name: "hash gaps and number offsets, fixed bits",
        pack: pack_keyed,
        unpack: unpack_keyed,
    },
];

/// The largest number of rows that fits. `fits` holds for one row. If it holds for a number, it holds for
/// all smaller numbers.
fn most_rows<Row>(rows: &[Row], fits: impl Fn(usize) -> bool) -> usize {
    let (mut fit, mut too_many) = (1, rows.len().min(BODY_BITS) + 1);
    while too_many - fit > 1 {
        let middle = fit.midpoint(too_many);
        if fits(middle) {
            fit = middle;
        } else {
            too_many = middle;
        }
    }
    fit
}

// Whole rows, and rows without the leading bytes that all rows of a block share. `width` counts bytes.

fn pack_whole(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let count = rows.len().min(BODY_BYTES / 8 + 1);
    pack_bytes(&rows[..count], 8, block)
}

fn unpack_whole(page: &Page, rows: &mut Vec<u64>) {
    let header = Header::read(page);
    rows.push(header.first);
    rows.extend((0..header.rows - 1).map(|row| page.word(HEADER_BYTES + row * 8)));
}

fn pack_suffixes(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let share = |width: usize| {
        let count = rows.len().min(BODY_BYTES / width + 1);
        rows[..count].partition_point(|row| row ^ rows[0] <= low_bits(width * 8))
    };
    let width = (1..=8).rev().max_by_key(|&width| share(width)).unwrap_or(8);
    pack_bytes(&rows[..share(width)], width, block)
}

fn pack_bytes(rows: &[u64], width: usize, block: &mut Vec<u8>) -> usize {
    Header {
        first: rows[0],
        rows: rows.len(),
        width,
        ..Header::default()
    }
    .write(block);
    for row in &rows[1..] {
        block.extend(&row.to_le_bytes()[..width]);
    }
    rows.len()
}

fn unpack_suffixes(page: &Page, rows: &mut Vec<u64>) {
    let Header {
        first,
        rows: count,
        width,
        ..
    } = Header::read(page);
    let mask = low_bits(width * 8);
    rows.push(first);
    rows.extend(
        (0..count - 1).map(|row| (first & !mask) | (page.word(HEADER_BYTES + row * width) & mask)),
    );
}

// Offsets and gaps, in the number of bits that the largest of the block needs.

fn pack_offsets(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let width = |count: usize| width_of(rows[count - 1] - rows[0]);
    let count = most_rows(rows, |count| (count - 1) * width(count) <= BODY_BITS);
    Header {
        first: rows[0],
        rows: count,
        width: width(count),
        ..Header::default()
    }
    .write(block);
    let mut bits = Bits::new(block);
    for row in &rows[1..count] {
        bits.put(row - rows[0], width(count));
    }
    bits.finish();
    count
}

fn unpack_offsets(page: &Page, rows: &mut Vec<u64>) {
    let header = Header::read(page);
    unpack_fixed(page, header, rows, |offset| {
        header.first.wrapping_add(offset)
    });
}

fn pack_gaps(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let (mut count, mut width) = (1, 0);
    for pair in rows.windows(2) {
        let wider = width.max(width_of(pair[1] - pair[0]));
        if count * wider > BODY_BITS || count > BODY_BITS {
            break;
        }
        width = wider;
        count += 1;
    }
    Header {
        first: rows[0],
        rows: count,
        width,
        ..Header::default()
    }
    .write(block);
    let mut bits = Bits::new(block);
    for pair in rows[..count].windows(2) {
        bits.put(pair[1] - pair[0], width);
    }
    bits.finish();
    count
}

fn unpack_gaps(page: &Page, rows: &mut Vec<u64>) {
    let header = Header::read(page);
    let mut row = header.first;
    unpack_fixed(page, header, rows, |gap| {
        row = row.wrapping_add(gap);
        row
    });
}

/// Appends the first row, and then `row` of each number of the block.
#[inline(always)]
fn unpack_fixed(page: &Page, header: Header, rows: &mut Vec<u64>, mut row: impl FnMut(u64) -> u64) {
    let Header {
        first,
        rows: count,
        width,
        ..
    } = header;
    let (start, mask) = (HEADER_BYTES * 8, low_bits(width));
    rows.push(first);
    // Two loops, so the one that nearly every block takes does not carry the other.
    if width <= WORD_BITS {
        rows.extend((0..count - 1).map(|n| row(page.bits(start + n * width) & mask)));
    } else {
        rows.extend((0..count - 1).map(|n| row(page.wide_bits(start + n * width) & mask)));
    }
}

// Gaps: the upper bits in unary, then the `width` lowest bits unchanged.

fn pack_rice(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let ahead = rows.len().min(513);
    let mean = (rows[ahead - 1] - rows[0]) / (ahead as u64 - 1).max(1);
    let most = width_of(mean).saturating_sub(1);
    let share = |width: usize| {
        let mut room = BODY_BITS as u64;
        let fits = |pair: &[u64]| {
            let bits = ((pair[1] - pair[0]) >> width).saturating_add(1 + width as u64);
            let fits = bits <= room;
            room = room.saturating_sub(bits);
            fits
        };
        1 + rows.windows(2).map(fits).take_while(|fits| *fits).count()
    };
    // Evenly spread rows need one of the two largest widths, crowded rows a smaller one.
    let tried = (most.saturating_sub(3)..=most).map(|width| (share(width), width));
    let (count, width) = tried.max().unwrap_or((1, most));
    Header {
        first: rows[0],
        rows: count,
        width,
        ..Header::default()
    }
    .write(block);
    let mut bits = Bits::new(block);
    for pair in rows[..count].windows(2) {
        let gap = pair[1] - pair[0];
        bits.put_unary(gap >> width);
        bits.put(gap & low_bits(width), width);
    }
    bits.finish();
    count
}

fn unpack_rice(page: &Page, rows: &mut Vec<u64>) {
    let Header {
        first,
        rows: count,
        width,
        ..
    } = Header::read(page);
    let (mut row, mut bit, mask) = (first, HEADER_BYTES * 8, low_bits(width));
    rows.push(first);
    rows.extend((1..count).map(|_| {
        let word = page.bits(bit);
        let zeros = word.trailing_zeros() as usize;
        let gap = if zeros + 1 + width <= WORD_BITS {
            bit += zeros + 1 + width;
            (zeros as u64) << width | (word >> zeros >> 1) & mask
        } else {
            // The gap is longer than a word.
            let begin = bit;
            while page.word(bit >> 3) >> (bit & 7) & 1 == 0 {
                bit += 1;
            }
            let high = (bit - begin) as u64;
            bit += 1 + width;
            high << width | page.wide_bits(bit - width) & mask
        };
        row = row.wrapping_add(gap);
        row
    }));
}

// Gaps in bytes of seven bits. The highest bit is set in all bytes but the last.

fn pack_varints(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let mut count = 1;
    for pair in rows.windows(2) {
        let mut gap = pair[1] - pair[0];
        if block.len() + width_of(gap).div_ceil(7).max(1) > BLOCK_BYTES {
            break;
        }
        while gap >= 0x80 {
            block.push(gap as u8 | 0x80);
            gap >>= 7;
        }
        block.push(gap as u8);
        count += 1;
    }
    Header {
        first: rows[0],
        rows: count,
        ..Header::default()
    }
    .write(block);
    count
}

fn unpack_varints(page: &Page, rows: &mut Vec<u64>) {
    let Header {
        first, rows: count, ..
    } = Header::read(page);
    let (mut row, mut byte) = (first, HEADER_BYTES);
    rows.push(first);
    rows.extend((1..count).map(|_| {
        let (mut gap, mut shift) = (0, 0);
        loop {
            let next = page.word(byte) & 0xff;
            byte += 1;
            gap |= (next & 0x7f) << shift;
            shift += 7;
            if next < 0x80 {
                break;
            }
        }
        row = row.wrapping_add(gap);
        row
    }));
}

// Offsets: the `width` lowest bits in one column. The upper bits only grow, and another column has their
// growth in unary.

fn pack_split(rows: &[u64], block: &mut Vec<u8>) -> usize {
    let share = |width: usize| {
        most_rows(rows, |count| {
            let steps = ((rows[count - 1] - rows[0]) >> width).saturating_add(count as u64 - 1);
            let lower = ((count - 1) * width).div_ceil(8) * 8;
            steps.saturating_add(lower as u64) <= BODY_BITS as u64
        })
    };
    let width = (0..64).max_by_key(|&width| share(width)).unwrap_or(63);
    let count = share(width);
    Header {
        first: rows[0],
        rows: count,
        width,
        ..Header::default()
    }
    .write(block);
    let mut lower = Bits::new(block);
    for row in &rows[1..count] {
        lower.put((row - rows[0]) & low_bits(width), width);
    }
    lower.finish();
    let mut upper = Bits::new(block);
    for pair in rows[..count].windows(2) {
        upper.put_unary(((pair[1] - rows[0]) >> width) - ((pair[0] - rows[0]) >> width));
    }
    upper.finish();
    count
}

fn unpack_split(page: &Page, rows: &mut Vec<u64>) {
    let Header {
        first,
        rows: count,
        width,
        ..
    } = Header::read(page);
    let (start, mask) = (HEADER_BYTES * 8, low_bits(width));
    let mut byte = HEADER_BYTES + ((count - 1) * width).div_ceil(8);
    let (mut steps, mut passed) = (page.word(byte), 0);
    rows.push(first);
    rows.extend((0..count - 1).map(|n| {
        while steps == 0 {
            byte += 8;
            passed += 64;
            steps = page.word(byte);
        }
        let upper = passed + u64::from(steps.trailing_zeros()) - n as u64;
        steps &= steps - 1;
        let bit = start + n * width;
        let lower = if width <= WORD_BITS {
            page.bits(bit)
        } else {
            page.wide_bits(bit)
        };
        first.wrapping_add(upper << width | lower & mask)
    }));
}

/// A hash and a number of at most 40 bits.
pub(crate) type Keyed = (u64, u64);

const NUMBER_BYTES: usize = 5;
const NUMBER_BITS: usize = NUMBER_BYTES * 8;

fn pack_keyed_whole(rows: &[Keyed], block: &mut Vec<u8>) -> usize {
    let count = rows.len().min(BODY_BYTES / (8 + NUMBER_BYTES));
    Header {
        rows: count,
        ..Header::default()
    }
    .write(block);
    for (hash, number) in &rows[..count] {
        block.extend(hash.to_le_bytes());
        block.extend(&number.to_le_bytes()[..NUMBER_BYTES]);
    }
    count
}

fn unpack_keyed_whole(page: &Page, rows: &mut Vec<Keyed>) {
    rows.extend((0..Header::read(page).rows).map(|row| {
        let byte = HEADER_BYTES + row * (8 + NUMBER_BYTES);
        (page.word(byte), page.word(byte + 8) & low_bits(NUMBER_BITS))
    }));
}

// The least number of the block, then a column of gaps between hashes, then a column of offsets from that
// number.

fn pack_keyed(rows: &[Keyed], block: &mut Vec<u8>) -> usize {
    let (mut count, mut width, mut least, mut greatest) = (1, 0, rows[0].1, rows[0].1);
    for pair in rows.windows(2) {
        let wider = width.max(width_of(pair[1].0 - pair[0].0));
        let (lesser, greater) = (least.min(pair[1].1), greatest.max(pair[1].1));
        let numbers = (count + 1) * width_of(greater - lesser);
        if NUMBER_BYTES + (count * wider).div_ceil(8) + numbers.div_ceil(8) > BODY_BYTES
            || count > BODY_BITS
        {
            break;
        }
        (width, least, greatest) = (wider, lesser, greater);
        count += 1;
    }
    let number_width = width_of(greatest - least);
    Header {
        first: rows[0].0,
        rows: count,
        width,
        number_width,
    }
    .write(block);
    block.extend(&least.to_le_bytes()[..NUMBER_BYTES]);
    let mut hashes = Bits::new(block);
    for pair in rows[..count].windows(2) {
        hashes.put(pair[1].0 - pair[0].0, width);
    }
    hashes.finish();
    let mut numbers = Bits::new(block);
    for (_, number) in &rows[..count] {
        numbers.put(number - least, number_width);
    }
    numbers.finish();
    count
}

fn unpack_keyed(page: &Page, rows: &mut Vec<Keyed>) {
    let Header {
        first,
        rows: count,
        width,
        number_width,
    } = Header::read(page);
    let least = page.word(HEADER_BYTES) & low_bits(NUMBER_BITS);
    let gaps = (HEADER_BYTES + NUMBER_BYTES) * 8;
    let numbers = gaps + ((count - 1) * width).next_multiple_of(8);
    let number =
        |row: usize| least + (page.bits(numbers + row * number_width) & low_bits(number_width));
    let mut hash = first;
    let mut keyed = |row: usize, gap: u64| {
        hash = hash.wrapping_add(gap & low_bits(width));
        (hash, number(row))
    };
    rows.push((first, number(0)));
    if width <= WORD_BITS {
        rows.extend((1..count).map(|row| keyed(row, page.bits(gaps + (row - 1) * width))));
    } else {
        rows.extend((1..count).map(|row| keyed(row, page.wide_bits(gaps + (row - 1) * width))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked<Row: Copy>(packing: &Packing<Row>, mut rows: &[Row]) -> Vec<Row> {
        let (mut page, mut all) = (Page::EMPTY, Vec::new());
        while !rows.is_empty() {
            let mut block = vec![0; HEADER_BYTES];
            let count = (packing.pack)(rows, &mut block);
            page.fill(&block);
            (packing.unpack)(&page, &mut all);
            rows = &rows[count..];
        }
        all
    }

    #[test]
    fn every_packing_gives_back_the_extremes() {
        let dense: Vec<u64> = (0..100_000).collect();
        let cluster_and_outlier: Vec<u64> = (0..700)
            .map(|n| n * n)
            .chain([u64::MAX - 1, u64::MAX])
            .collect();
        let runs = [
            &[0][..],
            &[u64::MAX],
            &[0, u64::MAX],
            &[0, 1, 1 << 63],
            &[7; 100_000],
            &dense,
            &cluster_and_outlier,
        ];
        for packing in &PACKINGS {
            for run in runs {
                assert!(
                    unpacked(packing, run) == run,
                    "{}, {} rows from {}",
                    packing.name,
                    run.len(),
                    run[0]
                );
            }
        }
        for packing in &KEYED_PACKINGS {
            for run in runs {
                let keyed: Vec<Keyed> = run
                    .iter()
                    .map(|&hash| (hash, hash.reverse_bits() >> 24))
                    .collect();
                assert!(
                    unpacked(packing, &keyed) == keyed,
                    "{}, {} rows from {}",
                    packing.name,
                    run.len(),
                    run[0]
                );
            }
        }
    }
}
