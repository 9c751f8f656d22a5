//! All pairs of near documents of a snapshot, and those of two.

mod fingerprint_pairs;
mod near_counts;
mod pairs;
mod search;
mod units;

pub use near_counts::NearCount;
pub use pairs::{Pair, PairEvent, Pairs};
#[cfg(feature = "ingest")]
pub(super) use search::content_bytes;
pub use units::PairPosition;
pub(super) use {
    fingerprint_pairs::{FingerprintPairs, PairsOfUnit},
    search::{Keys, MemberEvent, PairQuery},
};
