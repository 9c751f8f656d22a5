//! How much of a text stood elsewhere, and in which documents.

#[expect(
    clippy::module_inception,
    reason = "the folder is named after what it shows first"
)]
mod overlap;
mod tally;
#[cfg(test)]
mod tests;

pub use overlap::{FirstMatch, Overlap, OverlapDocument, OverlapQuery, OverlapUnit};
