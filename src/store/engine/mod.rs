//! The storage engine and the file system. No other floor names redb. The floors above see only rows of
//! bytes.

mod block_tables;
mod errors;
mod files;
mod guard;
mod holders;
mod lent;
mod new_file;
mod open_file;
mod privacy;
mod read_txn;
#[cfg(test)]
mod recording;
mod redb_tables;
mod regions;
#[cfg(test)]
mod reliance_tests;
mod spill;

pub(crate) use block_tables::{BlockTable, LevelChange, LevelName, RemovedBlocks, Replaced};
#[cfg(feature = "parquet")]
pub(crate) use files::are_same_file;
#[cfg(test)]
pub(crate) use files::fail_directory_syncs;
pub(crate) use files::{
    allocated_bytes, available_bytes, directory_of, ensure_nothing_at, is_same_file, names_of,
    sync_directory,
};
#[cfg(feature = "parquet")]
pub(crate) use guard::caught;
pub(crate) use guard::guarded;
pub(crate) use new_file::{NewFile, Temporary};
pub(crate) use open_file::{Access, Engine, FirstRows, OpenFile, page_cache_bytes};
pub(crate) use read_txn::{BlockSource, ReadTxn, Tables};
#[cfg(test)]
pub(crate) use recording::{Event, Image, Recording};
pub(crate) use redb_tables::{Changes, ChunkKey, MetaRow};
pub(crate) use spill::{BlockBytes, SpillFile, SpilledBytes};
