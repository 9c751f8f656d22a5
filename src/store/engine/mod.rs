//! The storage engine. No other floor names redb. The floors above see only rows of
//! bytes.

mod block_tables;
mod errors;
mod guard;
mod holders;
mod lent;
mod open_file;
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
pub(crate) use guard::caught;
pub(crate) use guard::guarded;
pub(crate) use open_file::{Access, Engine, FirstRows, OpenFile, page_cache_bytes};
pub(crate) use read_txn::{BlockSource, ReadTxn, Tables};
#[cfg(test)]
pub(crate) use recording::{Event, Image, Recording};
pub(crate) use redb_tables::{Changes, ChunkKey, MetaRow};
pub(crate) use spill::{BlockBytes, SpillFile, SpilledBytes};
