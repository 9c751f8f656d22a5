//! The tables of a file, their storage and their transactions. Shows documents, postings and ranges of
//! fingerprints. Hides redb, the layout and the byte formats. docs/format.md describes every byte.
//!
//! The floors, each of which imports only from those before it:
//!
//! | floor | hides |
//! |---|---|
//! | `lookup` | finding something in memory with few waits for memory |
//! | `engine` | redb |
//! | `blocks` | one stored block: packing, checksums, filters, the cache |
//! | `sorted_set` | a sorted set of rows: runs in memory over levels of blocks |
//! | `file` | all sets at one commit: names, records, log, state, edit, view |
//! | `merging` | which merge is due, and doing one step of it |
//! | `dense` | files written whole: build, copy, compaction, backup |
//! | `checking` | whether all sets and the documents agree |
//!
//! Above them are `write`, `read`, `postings`, `crowds`, `scope_names`, `expiry` and `store`, for the
//! rest of the crate. `names_in_use` has the sources that somebody reads now, `salvage` reads damaged files without the
//! engine, and `planting` (in `tests/stand`) makes wrong rows for tests of the check. `numbers`, `sizes` and
//! `known_sketches` are small parts that the upper floors use.

mod blocks;
mod checking;
mod crowds;
mod dense;
mod engine;
mod expiry;
mod file;
mod known_sketches;
mod lookup;
mod merging;
#[cfg(feature = "ingest")]
mod names_in_use;
mod numbers;
#[cfg(test)]
#[path = "../../tests/stand/planting.rs"]
mod planting;
mod postings;
mod read;
mod salvage;
mod scope_names;
mod sizes;
mod sorted_set;
mod store;
mod write;

pub(crate) use blocks::{CutRows, FileSeed};
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
pub(crate) mod hostile {
    pub(crate) use super::blocks::hostile::block;
    pub(crate) use super::file::hostile::{log, record, state};
    pub(crate) use super::sorted_set::hostile::directory;
    #[cfg(test)]
    pub(crate) mod seeds {
        pub(crate) use crate::store::blocks::hostile::seeds::*;
        pub(crate) use crate::store::file::hostile::seeds::*;
        pub(crate) use crate::store::sorted_set::hostile::seeds::*;
    }
}
#[cfg(test)]
pub(crate) use blocks::{DocumentBlock, Extent, Lists};
pub use checking::{CheckReport, Problem};
pub(crate) use checking::{Findings, check_rows};
pub(crate) use crowds::Crowds;
pub(crate) use dense::{backup, build};
pub(crate) use engine::Access;
#[cfg(feature = "parquet")]
pub(crate) use engine::caught;
#[cfg(test)]
pub(crate) use engine::{Event, Image, RawFile, Recording, Widths};
pub(crate) use expiry::{Conditions, list_expired};
pub(crate) use file::{CacheLimit, Patience, Settings, StoredSnapshot};
#[cfg(test)]
pub(crate) use file::{DEAD, KEYS, POSTINGS, Set, SetRow, number_of, permuted};
pub use file::{FORMAT_VERSION, LevelStatistics, SetStatistics, Statistics};
pub(crate) use known_sketches::KnownSketches;
#[cfg(feature = "ingest")]
pub(crate) use names_in_use::NamesTaken;
pub(crate) use numbers::{DocumentNumber, ReadScopes, ScopeNumber};
pub(crate) use postings::{Posted, PostedNumbers};
pub(crate) use read::{AddRanges, Reader, Scan};
pub use salvage::{MissingDocuments, SalvageReport};
pub(crate) use salvage::{Salvaging, salvage};
pub(crate) use scope_names::ScopeNames;
pub(crate) use sizes::Sizes;
pub(crate) use sorted_set::{Receiver, Searched};
pub(crate) use store::{Store, User};
pub(crate) use write::{Numbered, Transaction};
