//! Entry: what a directory says of one block. Extent: what it says of the documents of a block, or of many. By an
//! extent, blocks are left out that have nothing of a time or of a scope, without being read.

use xxhash_rust::xxh3::xxh3_64;

use super::envelope::{Fields, Problem};

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

/// What a directory says of the documents of a block, or of the blocks of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The least and the greatest time seen.
    pub(crate) least_seen: i64,
    pub(crate) greatest_seen: i64,
    /// The scopes of its documents without a fingerprint, as [`scope_bit`]s. No posting lists these documents.
    pub(crate) unposted: u64,
}

impl Extent {
    /// The bytes that it takes in a stored value.
    pub(crate) const BYTES: usize = 24;

    /// The extent of nothing.
    pub(crate) const EMPTY: Self = Self {
        least_seen: i64::MAX,
        greatest_seen: i64::MIN,
        unposted: 0,
    };

    /// The extent of what both are the extents of.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            least_seen: self.least_seen.min(other.least_seen),
            greatest_seen: self.greatest_seen.max(other.greatest_seen),
            unposted: self.unposted | other.unposted,
        }
    }

    /// Adds it to a stored value.
    pub(crate) fn encode(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.least_seen.to_le_bytes());
        bytes.extend(self.greatest_seen.to_le_bytes());
        bytes.extend(self.unposted.to_le_bytes());
    }

    /// Reads it back.
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let extent = Self {
            least_seen: i64::from_le_bytes(fields.take()?),
            greatest_seen: i64::from_le_bytes(fields.take()?),
            unposted: u64::from_le_bytes(fields.take()?),
        };
        if extent.least_seen > extent.greatest_seen {
            Err("its times are out of order")
        } else {
            Ok(extent)
        }
    }
}

/// The bit of a scope in [`Extent::unposted`]. Scopes share bits. It is part of the format.
pub(crate) fn scope_bit(scope: &str) -> u64 {
    1 << (xxh3_64(scope.as_bytes()) >> 58)
}
