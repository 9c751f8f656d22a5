//! A sorted set of fixed-width rows: runs in memory over levels of blocks. All sets are alike: nothing
//! here knows what the rows mean.

mod chunk;
mod level;
mod ranges;
mod run;
#[cfg(test)]
mod segment_tests;
mod set;
mod set_reader;
mod shared_list;
mod skew;
mod summary;
#[cfg(test)]
mod tests;

#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
pub(crate) use chunk::hostile;
pub(crate) use chunk::{NewBlock, lone_entries};
pub(crate) use level::{Level, Position};
pub(crate) use ranges::{Marks, Receiver, Searched, read_ranges};
pub(crate) use run::{Life, Rules, Run, merge_onto, part};
pub(crate) use set::{Overlay, SetLevel, SortedSet};
pub(crate) use set_reader::SetReader;
pub(crate) use summary::{DirectoryWriter, StoredDirectory};
#[cfg(test)]
pub(crate) use tests::{TABLE, stack};
