//! Parquet files: documents of a database and back, and pairs of near documents. Programs of others read and write
//! them, such as Spark and DuckDB.
//!
//! # Example
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use simdb::parquet::{Export, Import};
//! use simdb::{CreateOptions, Database, Document, Fingerprint, Scheme};
//! # let directory = tempfile::tempdir()?;
//! # let path = |name: &str| directory.path().join(name);
//!
//! let options = CreateOptions::new().scheme(Scheme::External);
//! let database = Database::create(path("pages.simdb"), &options)?;
//! let mut txn = database.begin_write()?;
//! txn.insert(&Document::new("a", Fingerprint::from_bits(7)))?;
//! txn.commit()?;
//! let go_on = |_, _| ControlFlow::Continue(());
//! Export::of(&database.snapshot()?).run(path("pages.parquet"), go_on)?;
//!
//! let import = Import::open([path("pages.parquet")])?;
//! let options = import.create_options()?;
//! let copy = Database::build(path("copy.simdb"), &options, import.documents(), 64 << 20)?;
//! assert_eq!(copy.snapshot()?.get("a")?, database.snapshot()?.get("a")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod export;
mod import;
mod inputs;
mod output;
mod pair_clusters;
mod pair_file;
#[cfg(feature = "ingest")]
mod row_copy;
#[cfg(feature = "ingest")]
mod row_lines;
mod schema;

pub use export::{Export, Exported};
pub use import::{Import, ImportedDocuments};
pub use pair_clusters::{FingerprintCluster, FoundClusters, PairClusters};
pub use pair_file::{KeyColumns, PairFile};
#[cfg(feature = "ingest")]
pub(crate) use {
    inputs::is_parquet,
    row_copy::{GroupRow, RowCopy, RowFate, ensure_copyable},
    row_lines::{IN_BASE64, RowLines, Use},
};
