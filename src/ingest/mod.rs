//! From inputs to documents. Reads JSON Lines, tab-separated, plain text and fingerprint files and web archives, also
//! compressed with gzip or zstd. Makes fingerprints on all cores and commits documents in batches, together with the
//! places up to which the inputs were read.
//!
//! # Example
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use simdb::ingest::{Event, Ingest, ReadOptions, Records};
//! use simdb::{CreateOptions, Database};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("pages.simdb");
//! # let input = directory.path().join("pages.tsv");
//! # std::fs::write(&input, "a\tone two three four five six seven eight nine ten eleven twelve thirteen\n")?;
//!
//! let database = Database::create(&path, &CreateOptions::new())?;
//! let records = Records::open([&input], ReadOptions::new())?;
//! let ingested = Ingest::new(&database).run(records, |event| {
//!     if let Event::Duplicate { document, verdict } = event {
//!         println!("{:?} has {} near-duplicates", document.key(), verdict.matches().total());
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(ingested.now.inserted, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batches;
mod body;
mod directories;
mod encoding;
#[cfg(test)]
mod encoding_tests;
mod format;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../tests/hostile/ingest.rs"]
pub(crate) mod hostile;
mod ingestion;
mod input;
mod json;
mod numbered_key;
mod opening;
mod options;
mod page;
mod parsed;
mod record;
mod records;
mod rejected;
mod resuming;
mod stored_bytes;
mod text_lines;
mod unpacked;
#[cfg(test)]
mod unpacked_tests;
mod unreadable;
mod warc;
mod warc_page;

pub use format::InputFormat;
pub use ingestion::{Event, Ingest, Ingested, Resumed};
pub use options::ReadOptions;
pub use page::decode_page;
pub use record::{Fingerprinting, Record, Units};
pub use records::{ReadRecord, Records};
pub use rejected::{Offset, Reason, Rejected};
pub use resuming::Reread;
pub use stored_bytes::Progress;

pub use crate::source::Totals;

pub(crate) use {
    format::Cut,
    input::Input,
    numbered_key::{NumberedKey, RecordId},
    parsed::without_marks,
    records::StoredRecords,
    stored_bytes::Stop,
    text_lines::TextLines,
    unpacked::Packing,
};

#[cfg(feature = "eval")]
pub(crate) use parsed::Content;
#[cfg(feature = "cli")]
pub(crate) use parsed::other_meaning;
