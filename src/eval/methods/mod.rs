//! The methods, one file each.

mod exact;
mod fingerprints;

pub(super) use exact::Exact;
pub(super) use fingerprints::Fingerprints;
