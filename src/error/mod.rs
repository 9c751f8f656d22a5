//! What can go wrong, and how it is said.

#[expect(
    clippy::module_inception,
    reason = "the folder is named after what it shows first"
)]
mod error;
#[cfg(feature = "ingest")]
mod path_name;
mod wording;

pub use error::{Error, Result};
#[cfg(feature = "ingest")]
pub(crate) use path_name::path_name;
