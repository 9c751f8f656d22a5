//! Fences: they find the filter of a block within a chunk.

use std::sync::{Arc, OnceLock};

use super::directory::{Chunk, Listed, MAX_FILTERED};
use crate::store::blocks::{Line, Row, lines_pass};

/// Finds the filters of the blocks of a chunk. Every insertion tests a filter of every level, and waits
/// for memory meanwhile. So everything that is read to find a line of a filter is together here.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(super) struct Fence {
    /// The prefix of the last row of the chunk.
    pub(super) last: u64,
    filters: OnceLock<Filters>,
}

#[derive(Clone, Debug)]
struct Filters {
    /// The prefix of the last row of each block. Behind the last block, its prefix is repeated.
    highs: [u64; MAX_FILTERED],
    /// The index of the first line of each block, then the number of all lines.
    first_lines: [u8; MAX_FILTERED + 1],
    lines: Arc<[Line]>,
}

impl Fence {
    /// The fence of a chunk that is not read yet. `last` is the prefix of its last row.
    pub(super) fn new(last: u64) -> Self {
        Self {
            last,
            filters: OnceLock::new(),
        }
    }

    /// Takes the filters of the chunk.
    pub(super) fn fill<R: Row>(&self, chunk: &Chunk<R>) {
        let (mut highs, mut first_lines) = ([self.last; MAX_FILTERED], [0; MAX_FILTERED + 1]);
        for (i, Listed { entry, lines, .. }) in chunk.listed().enumerate().take(MAX_FILTERED) {
            highs[i] = entry.high.prefix();
            let end = first_lines[i] + lines.len() as u8;
            first_lines[i + 1..].fill(end);
        }
        // Another thread may have done the same.
        _ = self.filters.set(Filters {
            highs,
            first_lines,
            lines: chunk.lines(),
        });
    }

    /// Whether rows with this prefix may begin in the first block that ends at the prefix or after it. `None`
    /// if the chunk is not read yet.
    #[inline]
    pub(super) fn passes(&self, prefix: u64) -> Option<bool> {
        let Filters {
            highs,
            first_lines,
            lines,
        } = self.filters.get()?;
        // All prefixes are compared, since the processor could not predict the branches of a search.
        let block = highs[..MAX_FILTERED - 1]
            .iter()
            .map(|&high| usize::from(high < prefix))
            .sum::<usize>();
        let of_block = first_lines[block].into()..first_lines[block + 1].into();
        Some(lines_pass(&lines[of_block], prefix))
    }
}
