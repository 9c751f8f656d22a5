//! Entry: what a directory says of one block.

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
