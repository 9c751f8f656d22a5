//! Merging runs into levels and levels into larger ones, in steps, in a thread of its own.

mod pace;
mod policy;
mod reclaim;
mod step;
mod stream;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use pace::{keep_pace, settle, wait_for_empty_log, wait_for_merges};
pub(crate) use worker::Worker;
