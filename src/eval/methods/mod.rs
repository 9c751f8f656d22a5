//! The methods. Those that have most in common share a file.

mod fingerprints;
mod i_match;
mod random_projection;
mod shingles;
mod spotsigs;
mod texts;

pub(super) use {
    fingerprints::fingerprints,
    i_match::i_match,
    random_projection::{henzinger, random_projection},
    shingles::{bottom_k, exact, minwise_hash, supershingles},
    spotsigs::spotsigs,
    texts::texts,
};
