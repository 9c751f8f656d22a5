//! Slots: the chunks of a level, as they are kept in memory. A chunk that was not needed yet is not read.

use std::sync::{Arc, OnceLock};

use super::directory::Chunk;
use super::fence::Fence;
use super::summary::Outline;
use crate::store::blocks::{Entry, Extent, LINE_BYTES, Row};
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
    pub(super) fn of(chunk: Chunk<R>) -> Self {
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
        let found = self
            .chunk
            .get()
            .map(|chunk| OnceLock::from(Found::of(chunk)));
        Top {
            found: found.unwrap_or_default(),
        }
    }

    /// What finds the filters of its blocks.
    pub(super) fn fence(&self) -> Fence {
        let fence = Fence::new(self.outline.high.prefix());
        self.chunk.get().inspect(|chunk| fence.fill(chunk));
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
    pub(super) fn of(chunk: &Chunk<R>) -> Self {
        Self {
            entries: chunk.shared_entries(),
            samples: chunk.samples(),
        }
    }
}

const _: () = assert!(size_of::<Top<u128>>() == 64);
