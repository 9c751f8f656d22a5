//! The sketch of a text, from its shingles.

use std::num::NonZeroU32;

use super::{features, minwise};
use crate::sketch::{Sketch, SketchSize};

/// The seed of the hash of shingles: "simdb", 0, "s" and 1, read as a big-endian number. It is the same beside
/// every scheme, so sketches do not depend on the scheme.
pub(super) const SHINGLE_SEED: u64 = 0x7369_6d64_6200_7301;

/// The sketch of this size of a text with these shingles, hashed with [`SHINGLE_SEED`]. `None` for no size, and
/// for a text without tokens.
pub(super) fn sketch(mut shingles: Vec<u64>, size: SketchSize) -> Option<Sketch> {
    features::keep_distinct(&mut shingles);
    let count = NonZeroU32::new(u32::try_from(shingles.len()).unwrap_or(u32::MAX))?;
    match size {
        SketchSize::None => None,
        SketchSize::Bytes16 => Some(Sketch::of_samples(
            &minwise::one_bits::<128>(&shingles, SHINGLE_SEED),
            count,
        )),
        SketchSize::Bytes32 => Some(Sketch::of_samples(
            &minwise::one_bits::<256>(&shingles, SHINGLE_SEED),
            count,
        )),
    }
}
