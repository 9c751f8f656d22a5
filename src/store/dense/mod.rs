//! Files written whole, from their beginning to their end: dense, with one level for each set.

mod backup;
mod build;
mod bulk;
mod compact;
mod copy;
mod sort;

pub(crate) use backup::backup;
pub(crate) use build::build;
pub(crate) use compact::compact;
pub(crate) use copy::CopyProgress;
