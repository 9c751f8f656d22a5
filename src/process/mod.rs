//! Which process this is, and what another process may not touch that was forked from it.

mod descriptors;
mod process;

pub(crate) use {
    descriptors::{Kept, give_up_inherited},
    process::{OfProcess, PerProcess, Process},
};
