//! The storage engine and the file system. No other floor names redb. The floors above see only rows of
//! bytes.

mod errors;
mod files;
mod guard;
mod open;
mod read_txn;
#[cfg(test)]
mod recording;
mod spill;
mod tables;

pub(crate) use files::{
    NewFile, available_bytes, create_temporary, directory_of, ensure_nothing_at, is_same_file, persist,
    sync_directory,
};
pub(crate) use guard::guarded;
pub(crate) use open::{Access, Engine, OpenFile, page_cache_bytes};
pub(crate) use read_txn::{BlockSource, ReadTxn, Tables};
#[cfg(test)]
pub(crate) use recording::{Event, Image, Recording};
pub(crate) use spill::{BlockBytes, SpillFile, SpilledBytes};
pub(crate) use tables::{Changes, ChunkKey, MetaRow};
