//! The storage engine. No other floor names redb. The floors above see only rows of bytes.

mod guard;
mod holder;
mod open_file;
mod raw;
#[cfg(test)]
#[path = "../../../tests/stand/recording.rs"]
mod recording;
#[cfg(test)]
mod reliance_tests;
mod spill;
mod tables;

#[cfg(feature = "parquet")]
pub(crate) use guard::caught;
pub(crate) use guard::guarded;
pub(crate) use open_file::{Access, Engine, OpenFile, page_cache_bytes};
pub(crate) use raw::{Place, RawCommit, RawFile, RawPage, Widths};
#[cfg(test)]
pub(crate) use recording::{Event, Image, Recording};
#[cfg(test)]
pub(crate) use redb::StorageBackend;
pub(crate) use spill::{BlockBytes, SpillFile};
#[cfg(test)]
pub(crate) use tables::Replaced;
pub(crate) use tables::{
    BlockSource, BlockTable, Changes, ChunkKey, LevelChange, LevelName, MetaRow, Tables,
};
