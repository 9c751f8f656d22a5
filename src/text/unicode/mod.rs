//! What the schemes know of Unicode: folding and words, by tables of one version, which never change.

mod normalize;
mod properties;
mod ranges;
mod words;

pub(super) use normalize::HYPHENS;
#[cfg(feature = "ingest")]
pub(crate) use normalize::normalize_owned;
pub(super) use words::is_unspaced;
pub(crate) use {normalize::normalize, words::tokens};
