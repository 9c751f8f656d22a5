//! Entry: what a directory says of one block, and a hint at the slot of the cache in which the block was.

use std::sync::atomic::{AtomicU32, Ordering};

/// What a directory says of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<R> {
    /// The last row of the block.
    pub(crate) high: R,
    pub(crate) id: BlockId,
    /// The checksum of its bytes.
    pub(crate) checksum: u64,
    /// The number of rows it puts.
    pub(crate) puts: u16,
    /// The number of rows it marks.
    pub(crate) marks: u16,
    /// The slot in which the block may be cached.
    pub(crate) hint: Hint,
}

const _: () = assert!(size_of::<Entry<u64>>() == 32);

/// The level and the number of a block. No other block of the file has this number, and it is never used
/// again. So the cache knows blocks by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(u64);

impl BlockId {
    const NUMBER_BITS: u32 = 56;
    /// The greatest number that a block may have. Numbers begin at 1, and no file reaches this one.
    pub(crate) const MAX_NUMBER: u64 = (1 << Self::NUMBER_BITS) - 1;
    /// The greatest number of a level. The cache needs the two bits above.
    pub(crate) const MAX_LEVEL: u8 = (1 << (62 - Self::NUMBER_BITS)) - 1;

    /// The block of a level with this number.
    pub(crate) fn new(level: u8, number: u64) -> Self {
        debug_assert!(level <= Self::MAX_LEVEL && number <= Self::MAX_NUMBER);
        Self(u64::from(level) << Self::NUMBER_BITS | number)
    }

    pub(crate) fn level(self) -> u8 {
        (self.0 >> Self::NUMBER_BITS) as u8
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & Self::MAX_NUMBER
    }

    /// Both in one number, below 2^62.
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// The slot of the cache in which a block was seen last. The block may be gone from there.
///
/// All hints are equal, since a hint says nothing of the block itself.
#[derive(Debug, Default)]
pub(crate) struct Hint(AtomicU32);

impl Hint {
    #[inline]
    pub(super) fn slot(&self) -> Option<usize> {
        self.0
            .load(Ordering::Relaxed)
            .checked_sub(1)
            .map(|slot| slot as usize)
    }

    pub(super) fn set(&self, slot: usize) {
        self.0
            .store(u32::try_from(slot + 1).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Clone for Hint {
    fn clone(&self) -> Self {
        Self(self.0.load(Ordering::Relaxed).into())
    }
}

impl PartialEq for Hint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Hint {}
