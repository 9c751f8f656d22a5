//! The methods. Those that have most in common share a file.

mod fingerprints;
mod i_match;
mod random_projection;
mod shingles;
mod spotsigs;
mod texts;

pub(super) use fingerprints::Fingerprints;
pub(super) use i_match::IMatch;
pub(super) use random_projection::{Henzinger, RandomProjection};
pub(super) use shingles::{BottomK, Exact, MinwiseHash, Supershingles};
pub(super) use spotsigs::SpotSigs;
pub(super) use texts::Texts;
