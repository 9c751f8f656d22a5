//! Files and directories: what stands at a path, and making a file whole and durable. Hides how systems do that.

mod new_file;
mod paths;

#[cfg(any(feature = "ingest", feature = "parquet"))]
pub(crate) use new_file::Existing;
#[cfg(feature = "ingest")]
pub(crate) use new_file::replace;
pub(crate) use new_file::{NewFile, Temporary};
#[cfg(feature = "parquet")]
pub(crate) use paths::are_same_file;
#[cfg(test)]
pub(crate) use paths::fail_directory_syncs;
pub(crate) use paths::{
    allocated_bytes, available_bytes, directory_of, ensure_nothing_at, is_same_file, names_of,
    sync_name,
};
#[cfg(feature = "ingest")]
pub(crate) use paths::{are_same_bytes, sync_directory};
