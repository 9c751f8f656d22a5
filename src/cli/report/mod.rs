//! `simdb report`: tells what a database looks like, as text, as JSON or as a page.

mod command;
mod differences;
mod findings;
mod gathering;
mod html;
mod page;
mod parts;
mod removals;
mod terminal;

pub(super) use command::{Arguments, run};
pub(super) use {command::SAMPLES, findings::Findings};
