//! The methods, one file each.

mod bottom_k;
mod exact;
mod fingerprints;
mod hash_lists;
mod henzinger;
mod i_match;
mod minwise_hash;
mod random_projection;
mod spotsigs;
mod supershingles;
mod texts;

pub(super) use bottom_k::BottomK;
pub(super) use exact::Exact;
pub(super) use fingerprints::Fingerprints;
pub(super) use henzinger::Henzinger;
pub(super) use i_match::IMatch;
pub(super) use minwise_hash::MinwiseHash;
pub(super) use random_projection::RandomProjection;
pub(super) use spotsigs::SpotSigs;
pub(super) use supershingles::Supershingles;
pub(super) use texts::Texts;
