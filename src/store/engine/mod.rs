//! The storage engine. No other floor names redb. The floors above see only rows of bytes.

mod guard;
mod holders;
mod open_file;
mod read_txn;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod reliance_tests;
mod spill;
mod storage;
mod tables;

#[cfg(feature = "parquet")]
pub(crate) use guard::caught;
pub(crate) use guard::guarded;
pub(crate) use open_file::{Access, Engine, FirstRows, OpenFile, page_cache_bytes};
pub(crate) use read_txn::{BlockSource, ReadTxn, Tables};
#[cfg(test)]
pub(crate) use recording::{Event, Image, Recording};
pub(crate) use spill::{BlockBytes, SpillFile, SpilledBytes};
#[cfg(test)]
pub(crate) use tables::Replaced;
pub(crate) use tables::{
    BlockTable, Changes, ChunkKey, LevelChange, LevelName, MetaRow, RemovedBlocks,
};
