mod blocks;
mod dense;
mod engine;
mod file;
mod lookup;
mod merging;
mod postings;
mod read;
mod sorted_set;
mod store;
mod write;

#[cfg(test)]
pub(crate) use engine::recording::{Event, Image, Recording};
pub(crate) use file::meta::{FORMAT_VERSION, Settings};
pub(crate) use postings::Posted;
pub(crate) use read::{Read, Reader};
pub(crate) use store::{Access, DocumentNumber, ScopeNumber, Sizes, Store};
pub(crate) use write::Writer;
