//! Decoding the part of a packed block that a range needs.
//!
//! The gaps before the range are added up, many at a time. Only in the range they become rows. What is behind
//! the range is not looked at.

use std::ops::RangeInclusive;

use super::bits::{unpack, unpack_one};
use super::columns::packed_fields;
use super::envelope::{Fields, Problem};
use super::packed::{fields_of, rows_of_list};
use super::row::{Lists, Row};

/// Adds the rows of a block whose prefixes are in a range to lists whose rows come before them. Returns the
/// numbers of rows that the block puts and marks.
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
