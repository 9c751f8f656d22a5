//! What the schemes know of Unicode: case folding and words, by tables of one version, which never change.

mod ascii;
mod folding;
mod properties;
mod ranges;
mod words;

pub(super) use folding::fold;
pub(super) use properties::Properties;
pub(super) use words::Words;
