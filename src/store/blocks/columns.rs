//! Columns: the numbers of one field of all rows of a block, each at the same number of bits.

use super::bits::{pack, packed_bytes, unpack, width_of};
use super::envelope::{Fields, Problem};

/// Appends a column as offsets from its least value.
pub(super) fn encode_column<I: Iterator<Item = u64>>(column: impl Fn() -> I, bytes: &mut Vec<u8>) {
    let (low, high) = column().fold((u64::MAX, 0), |(low, high), it| (low.min(it), high.max(it)));
    let low = low.min(high);
    let width = width_of(high - low);
    bytes.extend(low.to_le_bytes());
    bytes.push(width as u8);
    pack(column().map(|value| value - low), width, bytes);
}

/// The bytes of a column of `count` values between `low` and `high`.
#[inline]
pub(super) fn column_bytes(count: usize, low: u64, high: u64) -> usize {
    9 + packed_bytes(count, width_of(high - low))
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
pub(super) fn decode_packed(
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
pub(super) fn packed_fields<'a>(
    fields: &mut Fields<'a>,
    count: usize,
) -> Result<(&'a [u8], u32), Problem> {
    let [width] = fields.take()?;
    if u32::from(width) > u64::BITS {
        return Err("a column is wider than 64 bits");
    }
    let bytes = fields.0;
    fields.take_slice(packed_bytes(count, width.into()))?;
    Ok((bytes, width.into()))
}
