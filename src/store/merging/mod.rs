//! Merging runs into levels and levels into larger ones, in steps, in a thread of its own.

mod due;
mod fold;
mod reclaim;
mod step;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use due::{throttle, wait_for_merges, wait_for_room_for_a_level, wait_until_idle};
pub(crate) use fold::{fold, fold_log};
pub(crate) use step::Apply;
pub(crate) use worker::Worker;
