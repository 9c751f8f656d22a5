//! Files written whole, from their beginning to their end: dense, with one level for each set.

mod build;
mod bulk;
mod copy;
mod sort;
mod warming;

pub(crate) use build::{TakenOver, build, rebuild};
pub(crate) use copy::{CopyProgress, backup, compact};
pub(crate) use warming::{WarmingProgress, resident_rows, warm, warm_as_before};
