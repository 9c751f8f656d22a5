//! `simdb report`: shows what a database looks like, as text, as JSON or as a page.

mod command;
mod differences;
mod findings;
mod parts;
mod removals;
mod spread;
mod survey;

pub(super) use command::Arguments;
pub(super) use {command::SAMPLES, findings::Findings};
