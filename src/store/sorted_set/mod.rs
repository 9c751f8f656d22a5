//! A sorted set of fixed-width rows: runs in memory over levels of blocks. All sets are alike: nothing
//! here knows what the rows mean.

mod backward;
mod collected;
mod directory;
mod fence;
mod inspect;
mod level;
mod lists;
mod overlay;
mod ranges;
mod run;
mod set;
mod set_reader;
mod skew;
#[cfg(test)]
mod tests;

pub(crate) use collected::Collected;
pub(crate) use directory::{Chunk, cut};
pub(crate) use inspect::Fault;
pub(crate) use level::{Level, Position, Splice};
pub(crate) use lists::{Life, merge_onto, part};
pub(crate) use overlay::Overlay;
pub(crate) use ranges::{Wanted, read_ranges};
pub(crate) use run::{Rules, Run};
pub(crate) use set::{SetLevel, SortedSet};
pub(crate) use set_reader::SetReader;
pub(crate) use skew::shares;
#[cfg(test)]
pub(crate) use tests::{TABLE, stack};
