//! `simdb report`: shows what a database looks like, as text, as JSON or as a page.

mod choices;
mod command;
mod differences;
mod findings;
mod parts;
mod removals;
mod survey;

pub(super) use command::Arguments;
pub(super) use {command::SAMPLES, findings::Findings};
