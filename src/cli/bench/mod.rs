//! `simdb bench`: inserts, queries and deletes generated documents, checks the answers, and prints the times.

mod arguments;
mod asking;
mod changing;
mod collection;
mod phases;
mod row;
mod sense;
mod state;
mod submitting;
mod window;

pub(super) use arguments::Arguments;
pub(super) use phases::run;
