//! What the schemes know of Unicode: folding and words, by tables of one version, which never change.

mod ascii;
mod folding;
mod properties;
mod ranges;
mod words;

pub(super) use folding::{Folding, fold};
pub(super) use properties::{Class, Properties};
pub(super) use words::Words;
