//! What can go wrong, and how it is said.

mod error;
mod wording;

pub use error::{Error, ErrorKind, Holder, Result};
#[cfg(any(feature = "ingest", feature = "parquet"))]
pub(crate) use wording::path_name;
