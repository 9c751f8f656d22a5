//! Extents: what a directory says of the documents of a block. By it, blocks are left out that have nothing
//! of a time or of a scope, without being read.

use xxhash_rust::xxh3::xxh3_64;

use super::envelope::{Fields, Problem};

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
