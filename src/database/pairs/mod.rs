//! All pairs of near documents of a snapshot, and those of two.

mod bare;
mod members;
mod other;
#[expect(
    clippy::module_inception,
    reason = "the folder is named after what it shows first"
)]
mod pairs;
mod position;
mod search;
mod units;

pub use pairs::{Pair, PairEvent, Pairs};
pub use position::PairPosition;
pub(super) use {
    bare::{FoundBare, PairsOfUnit},
    members::Keys,
    search::{Found, Question},
};
