//! Numbers packed at a fixed number of bits each, least significant bit first.

/// The number of bits of `largest`. For several numbers, give the largest of them, or all of them or-ed
/// together.
pub(crate) fn width_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// The number of bytes that `count` numbers of `width` bits take.
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends the numbers. Each must be below 2^width.
pub(crate) fn pack(numbers: impl Iterator<Item = u64>, width: u32, bytes: &mut Vec<u8>) {
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
pub(crate) fn unpack(bytes: &[u8], count: usize, width: u32, mut each: impl FnMut(u64)) {
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
pub(crate) fn unpack_one(bytes: &[u8], index: usize, width: u32) -> u64 {
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
