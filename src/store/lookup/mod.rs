//! Finding something in memory with few waits for memory. Knows nothing of rows: it works on 64-bit prefixes.

mod large_list;
mod prefixes;

pub(crate) use large_list::LargeList;
pub(crate) use prefixes::{Occupied, Prefixes, guess, partition_point_from};
pub(crate) use prefixes::{prefetch, prefetch_at};
