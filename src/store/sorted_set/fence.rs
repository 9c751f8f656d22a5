//! Fences: they find the filter of a block within a chunk.

use std::sync::Arc;

use super::directory::{Chunk, MAX_FILTERED};
use crate::store::blocks::{Line, Row, lines_pass};

/// Finds the filters of the blocks of a chunk. Every insertion tests a filter of every level, and waits
/// for memory meanwhile. So everything that is read to find a line of a filter is together here.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Fence {
    /// The prefix of the last row of each block. Behind the last block, its prefix is repeated.
    highs: [u64; MAX_FILTERED],
    /// The index of the first line of each block, then the number of all lines.
    first_lines: [u8; MAX_FILTERED + 1],
    lines: Arc<[Line]>,
}

impl Fence {
    pub(super) fn new<R: Row>(chunk: &Chunk<R>) -> Self {
        let last = chunk.high().prefix();
        let (mut highs, mut first_lines) = ([last; MAX_FILTERED], [0; MAX_FILTERED + 1]);
        if chunk.has_filters() {
            for (i, (entry, lines)) in chunk.filtered().enumerate() {
                highs[i] = entry.high.prefix();
                let end = first_lines[i] + lines.len() as u8;
                first_lines[i + 1..].fill(end);
            }
        }
        Self { highs, first_lines, lines: chunk.lines() }
    }

    /// The prefix of the last row of the chunk.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.highs[MAX_FILTERED - 1]
    }

    /// Whether rows with this prefix may begin in the first block that ends at the prefix or after it.
    #[inline]
    pub(super) fn passes(&self, prefix: u64) -> bool {
        // All prefixes are compared, since the processor could not predict the branches of a search.
        let block =
            self.highs[..MAX_FILTERED - 1].iter().map(|&high| usize::from(high < prefix)).sum::<usize>();
        let lines = self.first_lines[block].into()..self.first_lines[block + 1].into();
        lines_pass(&self.lines[lines], prefix)
    }
}
