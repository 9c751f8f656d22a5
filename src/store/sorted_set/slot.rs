//! Slots: the chunks of a level, as they are kept in memory. A chunk that was not needed yet is not read.
//! Its fence finds the filter of a block.

use std::sync::{Arc, OnceLock};

use super::directory::{Chunk, Listed, MAX_FILTERED};
use super::summary::Outline;
use crate::store::blocks::{Entry, Extent, LINE_BYTES, Line, Row, lines_pass};
use crate::store::lookup::Samples;

/// The part of a chunk that finds a block in it. It fills a line of memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Top<R> {
    /// Nothing until the chunk is read.
    pub(super) found: OnceLock<Found<R>>,
}

/// What finds a block in a chunk.
#[derive(Clone, Debug)]
pub(super) struct Found<R> {
    pub(super) entries: Arc<[Entry<R>]>,
    pub(super) samples: Samples,
}

/// A chunk of a level.
#[derive(Clone, Debug)]
pub(super) struct Slot<R> {
    pub(super) outline: Outline<R>,
    /// Nothing until the chunk is read.
    pub(super) chunk: OnceLock<Arc<Chunk<R>>>,
}

impl<R: Row> Slot<R> {
    /// A chunk in memory.
    pub(super) fn new(chunk: Chunk<R>) -> Self {
        Self {
            outline: chunk.outline(),
            chunk: OnceLock::from(Arc::new(chunk)),
        }
    }

    /// A chunk that is not read yet.
    pub(super) fn unread(outline: Outline<R>) -> Self {
        Self {
            outline,
            chunk: OnceLock::new(),
        }
    }

    /// What finds a block in it.
    pub(super) fn top(&self) -> Top<R> {
        Top {
            found: match self.chunk.get() {
                Some(chunk) => OnceLock::from(Found::new(chunk)),
                None => OnceLock::new(),
            },
        }
    }

    /// What finds the filters of its blocks.
    pub(super) fn fence(&self) -> Fence {
        let fence = Fence::new(self.outline.high.prefix());
        if let Some(chunk) = self.chunk.get() {
            fence.fill(chunk);
        }
        fence
    }

    /// The memory that it takes once it is read, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let entry = size_of::<Entry<R>>() + size_of::<(u32, u32)>() + size_of::<u16>();
        let fence = if self.outline.lines > 0 {
            size_of::<Fence>()
        } else {
            0
        };
        let extent = if self.outline.extent.is_some() {
            Extent::BYTES
        } else {
            0
        };
        let chunk = usize::from(self.outline.blocks) * (entry + extent)
            + usize::from(self.outline.lines) * LINE_BYTES;
        chunk + 256 + size_of::<Top<R>>() + size_of::<Self>() + fence
    }
}

impl<R: Row> Found<R> {
    pub(super) fn new(chunk: &Chunk<R>) -> Self {
        Self {
            entries: chunk.shared_entries(),
            samples: chunk.samples(),
        }
    }
}

const _: () = assert!(size_of::<Top<u128>>() == 64);

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
        let mut highs = [self.last; MAX_FILTERED];
        let mut first_lines = [0; MAX_FILTERED + 1];
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
        let mut block = 0;
        for &high in &highs[..MAX_FILTERED - 1] {
            block += usize::from(high < prefix);
        }
        let of_block = first_lines[block].into()..first_lines[block + 1].into();
        Some(lines_pass(&lines[of_block], prefix))
    }
}
