//! Which process this is, and what another process may not touch that was forked from it.

mod descriptors;
#[expect(
    clippy::module_inception,
    reason = "the folder is named after what it shows first"
)]
mod process;

pub(crate) use {
    descriptors::{Kept, give_up_inherited},
    process::{OfProcess, PerProcess, Process},
};
