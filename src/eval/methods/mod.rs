//! The methods. Those that have most in common share a file.

mod fingerprints;
mod i_match;
mod random_projection;
mod shingles;
mod spotsigs;
mod texts;

pub(super) use {
    fingerprints::Fingerprints,
    i_match::IMatch,
    random_projection::{Henzinger, RandomProjection},
    shingles::{Exact, HashLists},
    spotsigs::SpotSigs,
    texts::Texts,
};
