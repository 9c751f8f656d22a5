//! `simdb bench`: inserts, queries, deletes and reopens generated documents, asserts the answers, and tells the times.

mod arguments;
mod asking;
mod changing;
mod collection;
mod phases;
mod row;
mod state;

pub(super) use arguments::Arguments;
pub(super) use phases::run;
