//! Reading many ranges of the permuted tables at once.
//!
//! What a probe costs is waiting for memory: for the directory, for the block, for the rows in it. So each of these steps is done for all
//! probes before the next is done for the first, and the processor waits for all of them together.

use std::sync::Arc;

use super::block::Lists;
use super::directory::Entry;
use super::run::up_to;
use super::search::{guess, partition_point_near};
use super::sorted_set::SetReader;
use crate::error::Result;
use crate::plan::Probe;

/// So many blocks are in hand at a time.
const TOGETHER: usize = 32;

/// The part of a block that lies in the range of a probe.
struct Part<'a> {
    probe: &'a Probe,
    /// The last row of the block before.
    low: u64,
    entry: &'a Entry<u64>,
}

/// Calls `each` with the rows in the range of each probe that some source puts: in no order, perhaps more than once, and also those that
/// a newer source marks. `reader` reads the table of a number. Returns how many blocks they were in.
pub(super) fn read_ranges<'a>(
    probes: &'a [Probe],
    reader: impl Fn(usize) -> SetReader<'a, u64>,
    mut each: impl FnMut(&Probe, &[u64]),
) -> Result<u64> {
    let Some(first) = probes.first() else { return Ok(0) };
    let mut blocks = 0;
    let mut parts = Vec::with_capacity(TOGETHER);
    for probe in probes {
        let reader = reader(probe.table);
        let range = probe.first..=probe.last;
        for row in reader.unsorted().0.iter().filter(|row| range.contains(row)) {
            each(probe, std::slice::from_ref(row));
        }
        for run in reader.runs() {
            each(probe, run.puts_within(&range));
        }
        for slot in &reader.set.levels {
            for (low, entry) in slot.level.with_lows(range.clone()) {
                blocks += 1;
                parts.push(Part { probe, low, entry });
                if parts.len() == TOGETHER {
                    read_parts(&reader, &parts, &mut each)?;
                    parts.clear();
                }
            }
        }
    }
    read_parts(&reader(first.table), &parts, &mut each)?;
    Ok(blocks)
}

/// `reader`: of any permuted table, since all are read in the same way.
fn read_parts(
    reader: &SetReader<'_, u64>,
    parts: &[Part<'_>],
    each: &mut impl FnMut(&Probe, &[u64]),
) -> Result<()> {
    let blocks =
        parts.iter().map(|part| reader.block(part.entry)).collect::<Result<Vec<Arc<Lists<u64>>>>>()?;
    let mut guesses = [(0, 0); TOGETHER];
    for ((part, block), place) in parts.iter().zip(&blocks).zip(&mut guesses) {
        let guess = guess(block.puts.len(), part.low, part.entry.high, part.probe.first);
        *place = (guess, block.puts.get(guess).copied().unwrap_or(0));
    }
    // The rows are there from here on.
    std::hint::black_box(&mut guesses);
    for ((part, block), (guess, _)) in parts.iter().zip(&blocks).zip(guesses) {
        let start = partition_point_near(&block.puts, guess, |&row| row < part.probe.first);
        each(part.probe, up_to(&block.puts[start..], part.probe.last));
    }
    Ok(())
}
