//! Decoded blocks: as the cache holds them, and as readers get them.

use std::sync::Arc;

use super::documents::DocumentBlock;
use super::entry::Entry;
use super::row::{Lists, Row};
use super::shared_rows::SharedRows;
use crate::store::lookup::Samples;

/// A verified and decoded block.
#[derive(Clone, Debug)]
pub(crate) enum Decoded {
    Narrow(Sampled<u64>),
    Wide(Sampled<u128>),
    Documents(Arc<DocumentBlock>),
}

/// The rows of a block, and samples of the rows that are put. The samples are read first, to guess the
/// index of a row.
#[derive(Clone, Debug)]
pub(crate) struct Sampled<R> {
    /// The rows that are put, then the rows that are marked.
    pub(crate) rows: SharedRows<R>,
    pub(crate) samples: Samples,
}

/// A type of rows whose blocks are cached.
pub(crate) trait CachedRow: Row {
    fn wrap(block: Sampled<Self>) -> Decoded;
    fn unwrap(decoded: Decoded) -> Option<Sampled<Self>>;
    fn sampled(decoded: &Decoded) -> Option<&Sampled<Self>>;
}

macro_rules! cached_row {
    ($row:ty, $variant:ident) => {
        impl CachedRow for $row {
            fn wrap(block: Sampled<Self>) -> Decoded {
                Decoded::$variant(block)
            }

            fn unwrap(decoded: Decoded) -> Option<Sampled<Self>> {
                match decoded {
                    Decoded::$variant(block) => Some(block),
                    _ => None,
                }
            }

            #[inline]
            fn sampled(decoded: &Decoded) -> Option<&Sampled<Self>> {
                match decoded {
                    Decoded::$variant(block) => Some(block),
                    _ => None,
                }
            }
        }
    };
}

cached_row!(u64, Narrow);
cached_row!(u128, Wide);

impl Decoded {
    /// The bytes for the reference counts, the vectors and the allocator.
    pub(super) const OVERHEAD: u64 = 96;

    /// The memory that the block takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Decoded::Narrow(block) => block.rows.memory_bytes(),
            Decoded::Wide(block) => block.rows.memory_bytes(),
            Decoded::Documents(block) => block.memory_bytes(),
        };
        bytes as u64 + Self::OVERHEAD
    }
}

/// The rows of a block.
#[derive(Clone, Debug)]
pub(crate) struct Block<R> {
    pub(super) rows: SharedRows<R>,
    pub(super) puts: usize,
}

impl<R: Row> Block<R> {
    /// A block of these rows. `entry` has the number of rows that it puts.
    pub(super) fn new(rows: SharedRows<R>, entry: &Entry<R>) -> Self {
        Self {
            rows,
            puts: entry.puts.into(),
        }
    }

    /// A copy of lists. With `large`, it is in large pages.
    pub(super) fn of(Lists { puts, marks }: &Lists<R>, large: bool) -> Self {
        Self {
            rows: SharedRows::new(puts, marks, large),
            puts: puts.len(),
        }
    }
}

impl<R> Block<R> {
    pub(crate) fn puts(&self) -> &[R] {
        &self.rows[..self.puts]
    }

    pub(crate) fn marks(&self) -> &[R] {
        &self.rows[self.puts..]
    }
}
