//! How unevenly the rows of a set are spread: the share of them that has the same prefix as a stored row.

use super::level::Level;
use super::run::Run;
use super::set_reader::SetReader;
use crate::error::Result;
use crate::store::blocks::{Entry, Lists, SetBlocks};

/// The directory tells the frequencies of prefixes if it has at least this number of blocks for each prefix.
const BLOCKS_PER_PREFIX: f64 = 4.0;

/// If a level has more chunks than this, not all are read.
const MOST_CHUNKS: usize = 64;

/// The most rows of a run that are looked at.
const MOST_SAMPLED: usize = 4096;

/// Longer prefixes are measured in samples: the number of samples, and of neighbouring blocks in each.
const SAMPLES: usize = 8;
const SAMPLE_BLOCKS: usize = 16;

impl SetReader<'_, u64> {
    /// For each length of a prefix from 0 to 64 bits, the share of the rows that have the same prefix as a
    /// stored row, on average over the rows. That is the sum of the squares of the frequencies. The largest
    /// level or run in memory stands for all. Without rows there are no shares.
    ///
    /// Without `read`, only short prefixes are measured. Rows that have the same short prefix are taken to be
    /// evenly spread. With `read`, longer prefixes are measured too, in about 128 blocks that are read, once for each
    /// level.
    pub(crate) fn shares(&self, read: bool) -> Result<Vec<f64>> {
        let levels = self.set.levels.iter().map(|set| &set.level);
        let level = levels.max_by_key(|level| level.rows().0);
        let run = self.sorted_runs().max_by_key(|run| run.puts().len());
        let level = match (level, run) {
            (None, None) => return Ok(Vec::new()),
            (None, Some(run)) => return Ok(run.shares()),
            (Some(level), Some(run)) if level.rows().0 < run.puts().len() as u64 => {
                return Ok(run.shares());
            }
            (Some(level), _) => level,
        };
        if let Some(shares) = level.measured_shares.get().filter(|_| read) {
            return Ok(shares.clone());
        }
        let rows = level.rows().0 as f64;
        let mut shares = shares_of_directory(level, self.blocks)?;
        let measured = shares.len() - 1;
        extend_evenly(&mut shares);
        if !read {
            return Ok(shares);
        }
        let step = (level.blocks() / SAMPLES).max(SAMPLE_BLOCKS);
        let mut squares = [0.0; 65];
        let mut sampled = 0.0;
        for first in (0..level.blocks()).step_by(step) {
            let mut rows = Lists::default();
            let from = level.after(level.all().start, first);
            level.append_blocks(
                from..level.after(from, SAMPLE_BLOCKS),
                self.blocks,
                &mut rows,
            )?;
            sampled += rows.puts.len() as f64;
            let sums = sums_of_squares(rows.puts.iter().map(|&row| (row, 1.0)));
            for (all, sum) in squares.iter_mut().zip(sums) {
                *all += sum;
            }
        }
        for bits in measured + 1..=64 {
            shares[bits] = squares[bits] / (sampled.max(1.0) * rows);
        }
        Ok(level.measured_shares.get_or_init(|| shares).clone())
    }
}

impl Run<u64> {
    /// The shares of the rows of this run, as [`SetReader::shares`] has them. A sample of the rows stands for all, as
    /// the last row of a block does in a level.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let rows = self.puts();
        if rows.is_empty() {
            return Vec::new();
        }
        let step = rows.len().div_ceil(MOST_SAMPLED);
        let sampled = rows.len().div_ceil(step);
        let sums = sums_of_squares(rows.iter().step_by(step).map(|&row| (row, 1.0)));
        let mut shares = shares_of(&sums[..=measured_length(sampled)], sampled as f64);
        extend_evenly(&mut shares);
        shares
    }
}

/// Adds the shares of longer prefixes, as if rows that have the same short prefix were evenly spread.
fn extend_evenly(shares: &mut Vec<f64>) {
    while shares.len() <= 64
        && let Some(last) = shares.last()
    {
        shares.push(last / 2.0);
    }
}

/// The shares that the directory of a level tells: those of short prefixes.
///
/// The list of chunks tells the shares of the shortest ones. If there are many chunks, only some of them are
/// read, or the first query would take the longer the larger the file is. These chunks tell by how much the
/// shares fall from there on.
fn shares_of_directory(level: &Level<u64>, blocks: SetBlocks<'_>) -> Result<Vec<f64>> {
    let rows = level.rows().0 as f64;
    let measured = measured_length(level.blocks());
    let chunks = chunks_of(level);
    if chunks.len() <= MOST_CHUNKS {
        let entries = level.entries(level.all(), blocks)?;
        let sums = sums_of_squares(entries.map(weight));
        return Ok(shares_of(&sums[..=measured], rows));
    }
    let known = measured_length(chunks.len());
    let step = chunks.len() / SAMPLES;
    let sums = sums_of_squares(chunks.iter().copied());
    let mut shares = shares_of(&sums[..=known], rows);
    // Prefixes of that length, each the likelier the more rows have it.
    let mut falls = [0.0; 65];
    let mut all = 0.0;
    for &(high, _) in chunks.iter().skip(step / 2).step_by(step) {
        let others = u64::MAX.unbounded_shr(known as u32);
        let range = high & !others..=high | others;
        let entries = level.entries(level.overlapping(&range, blocks)?, blocks)?;
        let entries = entries.filter(|entry| range.contains(&entry.high));
        let sums = sums_of_squares(entries.map(weight));
        let rows = sums[known].sqrt().max(1.0);
        all += rows;
        for (fall, sum) in falls.iter_mut().zip(sums) {
            *fall += sum / rows;
        }
    }
    let last = shares[known];
    for fall in &falls[known + 1..=measured] {
        shares.push(last * fall / all);
    }
    Ok(shares)
}

/// The length of the prefixes that so many parts of a directory tell of.
fn measured_length(parts: usize) -> usize {
    (parts as f64 / BLOCKS_PER_PREFIX).max(1.0).log2() as usize
}

/// The last row of each chunk, and the number of rows that its blocks put.
fn chunks_of(level: &Level<u64>) -> Vec<(u64, f64)> {
    let mut chunks = Vec::with_capacity(level.end().chunk);
    while let Some(outline) = level.outline(chunks.len()) {
        chunks.push((outline.high, f64::from(outline.rows.puts)));
    }
    chunks
}

/// The last row of a block, and the number of rows that it puts.
fn weight(entry: &Entry<u64>) -> (u64, f64) {
    (entry.high, f64::from(entry.puts))
}

/// Sums of squares as shares of all rows.
fn shares_of(sums: &[f64], rows: f64) -> Vec<f64> {
    sums.iter().map(|sum| sum / (rows * rows)).collect()
}

/// For each length of a prefix, the sum of the squares of the weights of all prefixes. The weight of a
/// prefix is that of all its items. The items are in order.
fn sums_of_squares(items: impl Iterator<Item = (u64, f64)>) -> [f64; 65] {
    let mut sums = [0.0; 65];
    // For each length, the weight of all items before the current prefix.
    let mut before = [0.0; 65];
    let mut all = 0.0;
    let mut last = None;
    for (row, weight) in items {
        // Prefixes that are longer than the bits that the row shares with the row before it have come to
        // their end.
        let common = last.map_or(64, |last: u64| (last ^ row).leading_zeros() as usize);
        for bits in common + 1..=64 {
            sums[bits] += (all - before[bits]) * (all - before[bits]);
            before[bits] = all;
        }
        all += weight;
        last = Some(row);
    }
    for (sum, before) in sums.iter_mut().zip(before) {
        *sum += (all - before) * (all - before);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_added_up_for_every_length_of_prefix() {
        let rows: Vec<u64> = (0..1000u64)
            .map(|i| i * i * i % 977)
            .map(|it| (it << 54) | (it % 5))
            .collect();
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        let sums = sums_of_squares(sorted.iter().map(|&row| (row, 0.5)));
        for (bits, sum) in sums.into_iter().enumerate() {
            let prefix = |row: u64| row.unbounded_shr(64 - bits as u32);
            let pairs = rows.iter().flat_map(|&a| rows.iter().map(move |&b| (a, b)));
            let expected = pairs.filter(|&(a, b)| prefix(a) == prefix(b)).count() as f64 / 4.0;
            assert!(
                (sum - expected).abs() < 1e-6,
                "{bits} bits: {sum}, {expected}"
            );
        }
    }
}
