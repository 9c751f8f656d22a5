//! How unevenly the rows of a permuted table are spread: what share of them a probe meets.

use super::block::Lists;
use super::sorted_set::SetReader;
use crate::error::Result;

/// From so many blocks for each value of a prefix on, the directory tells how frequent the values are.
const BLOCKS_PER_PREFIX: f64 = 4.0;

/// Beyond that, runs of neighbouring blocks are read, so many of so many blocks.
const RUNS: usize = 8;
const RUN_BLOCKS: usize = 16;

/// For each number of leading bits from 0 to 64, the share of the rows that begin as a stored row does, on average over the rows: the sum of the
/// squares of the frequencies. From the largest level, which stands for all.
///
/// Without reading, short prefixes are measured and longer ones taken to be spread evenly within those. With `read`, all are measured,
/// the longer ones in a sample of 128 blocks.
pub(super) fn shares(reader: &SetReader<'_, u64>, read: bool) -> Result<Vec<f64>> {
    let Some(slot) = reader.set.levels.iter().max_by_key(|slot| slot.level.rows().0) else {
        return Ok(Vec::new());
    };
    let level = &slot.level;
    let rows = level.rows().0 as f64;
    let measured = (level.blocks() as f64 / BLOCKS_PER_PREFIX).max(1.0).log2() as usize;
    let mut shares: Vec<f64> = (0..=measured)
        .map(|bits| {
            let blocks = level.entries(level.all()).map(|entry| (entry.high, f64::from(entry.puts)));
            sum_of_squares(blocks, bits as u32) / (rows * rows)
        })
        .collect();
    let last = shares[measured];
    shares.extend((measured + 1..=64).map(|bits| last * 0.5f64.powi((bits - measured) as i32)));
    if !read {
        return Ok(shares);
    }
    let step = (level.blocks() / RUNS).max(RUN_BLOCKS);
    let (mut squares, mut sampled) = (vec![0.0; 65], 0.0);
    for first in (0..level.blocks()).step_by(step) {
        let mut rows = Lists::default();
        let from = level.after(level.all().start, first);
        for entry in level.entries(from..level.after(from, RUN_BLOCKS)) {
            reader.blocks.append_rows(reader.set.name, entry, &mut rows)?;
        }
        sampled += rows.puts.len() as f64;
        for (bits, squares) in squares.iter_mut().enumerate().skip(measured + 1) {
            *squares += sum_of_squares(rows.puts.iter().map(|&row| (row, 1.0)), bits as u32);
        }
    }
    for bits in measured + 1..=64 {
        shares[bits] = squares[bits] / (sampled.max(1.0) * rows);
    }
    Ok(shares)
}

/// The squares of the weights of all prefixes, added up. The items are in order.
fn sum_of_squares(items: impl Iterator<Item = (u64, f64)>, bits: u32) -> f64 {
    let (mut sum, mut weight, mut current) = (0.0, 0.0, None);
    for (row, of_row) in items {
        let prefix = row.checked_shr(64 - bits).unwrap_or(0);
        if current != Some(prefix) {
            sum += weight * weight;
            (weight, current) = (0.0, Some(prefix));
        }
        weight += of_row;
    }
    sum + weight * weight
}
